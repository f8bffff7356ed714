"""Passwords are hashed, compared a few at a time, and remembered while they are right."""

import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest
from argon2.exceptions import VerificationError

from app.auth.passwords import AT_ONCE, PASSWORD_BYTES_MAX, WAITING_MAX, Passwords
from app.auth.refusals import TooManyLogins
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.user_records import User
from tests.support.processes import HANG_S

SECRET = "correct horse"


@pytest.fixture(scope="module")
def shared() -> tuple[Passwords, User]:
    passwords = Passwords()
    return passwords, User("bob", passwords.hash(SECRET), "g1", 0)


def test_a_hash_is_salted_argon2id_and_holds_no_password(shared: tuple[Passwords, User]) -> None:
    passwords, user = shared
    again = passwords.hash(SECRET)
    assert again.startswith("$argon2id$")
    assert again != user.password_hash
    assert SECRET not in again


def test_only_the_password_is_right(shared: tuple[Passwords, User]) -> None:
    passwords, user = shared
    assert passwords.is_right(user, SECRET)
    for wrong in ("", "correct hors", SECRET.upper(), SECRET + " ", "x" * 1_000_000):
        assert not passwords.is_right(user, wrong)
    assert not passwords.is_right(None, SECRET)


def test_a_right_password_is_computed_once_until_it_changes(shared: tuple[Passwords, User]) -> None:
    passwords, user = shared
    assert passwords.is_right(user, SECRET)
    computed = passwords.stats.hashes_computed
    assert passwords.is_right(user, SECRET)
    assert passwords.stats.hashes_computed == computed
    changed = replace(user, password_hash=passwords.hash("another one"), generation="g2")
    assert not passwords.is_right(changed, SECRET)


def test_a_wrong_password_and_an_unknown_user_are_computed_each_time(shared: tuple[Passwords, User]) -> None:
    passwords, user = shared
    before = passwords.stats.hashes_computed
    for _ in range(2):
        passwords.is_right(user, "wrong wrong")
        passwords.is_right(None, "wrong wrong")
    assert passwords.stats.hashes_computed == before + 4


@pytest.mark.parametrize("password", ["", "short", "x" * (PASSWORD_BYTES_MAX + 1), "\u00fc" * PASSWORD_BYTES_MAX])
def test_a_new_password_has_bounds_and_is_not_repeated_in_the_refusal(password: str) -> None:
    with pytest.raises(InvalidParam) as refused:
        Passwords().hash(password)
    assert not password or password not in refused.value.text


def test_too_many_at_once_are_refused(shared: tuple[Passwords, User], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.auth.passwords.WAIT_S", HANG_S)
    passwords, user = shared
    places = ExitStack()
    for _ in range(AT_ONCE):
        places.enter_context(passwords._place())
    waiting = [threading.Thread(target=passwords.is_right, args=(user, f"wrong {one}")) for one in range(WAITING_MAX)]
    for thread in waiting:
        thread.start()
    refused = passwords.stats.hashes_refused
    try:
        while passwords._waiting < AT_ONCE + WAITING_MAX:
            threading.Event().wait(0.001)
        with pytest.raises(TooManyLogins):
            passwords.is_right(user, "one more wrong")
    finally:
        places.close()
        for thread in waiting:
            thread.join()
    assert passwords.stats.hashes_refused == refused + 1
    assert passwords._waiting == 0


def test_hashes_are_computed_on_threads_of_their_own_that_end(
    shared: tuple[Passwords, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords, user = shared
    seen: list[str] = []

    class Noted:
        def hash(self, _password: str) -> str:
            seen.append(threading.current_thread().name)
            return "hash"

        def verify(self, _hash: str, _password: str) -> bool:
            seen.append(threading.current_thread().name)
            raise VerificationError

    monkeypatch.setattr(passwords, "_hasher", Noted())
    assert passwords.hash(SECRET) == "hash"
    assert not passwords.is_right(user, "wrong wrong")
    assert [name.partition("_")[0] for name in seen] == ["password"] * 2
    assert not [one for one in threading.enumerate() if one.name.startswith("password")]
    assert passwords._waiting == 0
