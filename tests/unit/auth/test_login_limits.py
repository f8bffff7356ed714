"""How long a try to log in waits, by the wrong passwords of its user and its address."""

import pytest

from app.auth.login_limits import (
    BUSY,
    BUSY_TIMES_MAX,
    CLEAN,
    CLEAN_MAX,
    CLEAN_WINDOW_MS,
    ENTRIES_MAX,
    OF_ADDRESS_MAX,
    OF_USER_MAX,
    WAITING_MAX,
    WINDOW_MS,
    Attempt,
    LoginLimits,
)
from app.auth.refusals import TooManyLogins

SOME_SECONDS_MS = 5_000


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> LoginLimits:
    return LoginLimits(clock)


def log_in(limits: LoginLimits, user: str, ip: str) -> None:
    """A login with the right password that need not wait."""
    attempt = limits.begin(user, ip)
    assert not attempt.wait_ms
    limits.right(attempt)


def guess(limits: LoginLimits, user: str, ip: str, count: int) -> list[Attempt]:
    """Tries with wrong passwords, those that find room to wait."""
    found = []
    for _ in range(count):
        try:
            found.append(limits.begin(user, ip))
        except TooManyLogins:
            break
    return found


def test_after_so_many_wrong_passwords_of_a_user_a_new_address_waits(limits: LoginLimits, clock: Clock) -> None:
    for number in range(OF_USER_MAX):
        assert not limits.begin("bob", f"10.0.0.{number}").wait_ms
    assert 0 < limits.begin("bob", "10.0.1.1").wait_ms <= SOME_SECONDS_MS
    assert not limits.begin("eve", "10.0.1.1").wait_ms
    clock.now_ms += WINDOW_MS
    assert not limits.begin("bob", "10.0.1.1").wait_ms


@pytest.mark.parametrize("addresses", [1, 3, 50, 200])
def test_nobody_locks_a_user_out_at_a_new_address(limits: LoginLimits, clock: Clock, addresses: int) -> None:
    """However many addresses guess for however long, once each of them has guessed a few times."""
    for second in range(60):
        for number in range(addresses):
            for attempt in guess(limits, "bob", f"10.6.{number // 250}.{number % 250}", 5):
                limits.leave(attempt)
        clock.now_ms += 1_000
        if second >= CLEAN_MAX:
            attempt = limits.begin("bob", f"10.0.0.{second}")
            assert attempt.wait_ms <= SOME_SECONDS_MS
            limits.leave(attempt)
            limits.right(attempt)


@pytest.mark.parametrize(("addresses", "guesses_max"), [(1, 50), (20, 200), (400, 750)])
def test_guesses_of_a_minute_are_bounded(limits: LoginLimits, clock: Clock, addresses: int, guesses_max: int) -> None:
    due: list[tuple[int, Attempt]] = []
    looked_at = 0
    for _ in range(600):
        for number in range(addresses):
            for attempt in guess(limits, "bob", f"10.6.{number // 250}.{number % 250}", 1):
                due.append((clock.now_ms + attempt.wait_ms, attempt))
        ready = [one for at_ms, one in due if at_ms <= clock.now_ms]
        due = [(at_ms, one) for at_ms, one in due if at_ms > clock.now_ms]
        for attempt in ready:
            limits.leave(attempt)
        looked_at += len(ready)
        clock.now_ms += 100
    assert looked_at <= guesses_max


def test_tries_that_wait_are_looked_at_one_after_the_other(limits: LoginLimits) -> None:
    for number in range(OF_USER_MAX):
        limits.begin("bob", f"10.0.0.{number}")
    waits = [limits.begin("bob", f"10.0.1.{number}").wait_ms for number in range(CLEAN.most)]
    assert waits == [CLEAN.wait_ms + number * CLEAN.apart_ms for number in range(CLEAN.most)]
    assert max(waits) <= SOME_SECONDS_MS
    with pytest.raises(TooManyLogins):
        limits.begin("bob", "10.0.2.1")


def test_an_address_that_guessed_waits_apart_from_those_that_did_not(limits: LoginLimits, clock: Clock) -> None:
    guess(limits, "bob", "10.0.0.1", OF_USER_MAX)
    assert len(guess(limits, "bob", "10.0.0.1", 99)) == 1
    assert limits.begin("bob", "10.0.0.2").wait_ms == CLEAN.wait_ms
    clock.now_ms += CLEAN_WINDOW_MS
    assert not limits.begin("bob", "10.0.0.1").wait_ms


def test_an_address_with_many_wrong_passwords_of_any_users_waits(limits: LoginLimits) -> None:
    for number in range(OF_ADDRESS_MAX):
        assert not limits.begin(f"user{number}", "10.0.0.1").wait_ms
    assert 0 < limits.begin("bob", "10.0.0.1").wait_ms <= SOME_SECONDS_MS
    assert not limits.begin("bob", "10.0.0.2").wait_ms


def test_right_passwords_are_free(limits: LoginLimits) -> None:
    for _ in range(3 * OF_ADDRESS_MAX):
        log_in(limits, "bob", "10.0.0.1")


def test_who_logged_in_from_an_address_does_not_wait_there(limits: LoginLimits) -> None:
    log_in(limits, "bob", "10.0.0.1")
    for number in range(OF_USER_MAX):
        limits.begin("bob", f"10.6.6.{number}")
    for number in range(OF_ADDRESS_MAX):
        limits.begin(f"user{number}", "10.0.0.1")
    assert limits.begin("bob", "10.6.6.66").wait_ms
    assert limits.begin("eve", "10.0.0.1").wait_ms
    assert not limits.begin("bob", "10.0.0.1").wait_ms


def test_who_guesses_at_an_address_of_the_user_waits_too(limits: LoginLimits) -> None:
    log_in(limits, "bob", "10.0.0.1")
    guess(limits, "bob", "10.0.0.1", OF_USER_MAX)
    assert limits.begin("bob", "10.0.0.1").wait_ms


def test_tries_under_way_count(limits: LoginLimits) -> None:
    """Otherwise a flood would have all its tries looked at before the first was known to be wrong."""
    waits = [limits.begin("bob", "10.0.0.1").wait_ms for _ in range(OF_USER_MAX + 1)]
    assert [wait > 0 for wait in waits] == [False] * OF_USER_MAX + [True]


@pytest.mark.parametrize(
    ("ip", "same", "other"),
    [
        ("2001:db8::1", "2001:DB8:0:0:ffff::2", "2001:db8:0:1::1"),
        ("::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2"),
        ("::ffff:a00:1", "10.0.0.1", "::ffff:10.0.0.2"),
        ("fe80::1%eth0", "fe80::1%2", "fe80:0:0:1::1"),
    ],
)
def test_what_is_one_caller(limits: LoginLimits, ip: str, same: str, other: str) -> None:
    for number in range(OF_ADDRESS_MAX):
        limits.begin(f"user{number}", ip)
    assert limits.begin("bob", same).wait_ms
    assert not limits.begin("bob", other).wait_ms


def test_a_try_that_finds_others_being_looked_at_waits_a_few_times(limits: LoginLimits) -> None:
    attempt = limits.begin("bob", "10.0.0.1")
    assert [limits.put_off(attempt) for _ in range(BUSY_TIMES_MAX + 1)] == [True] * BUSY_TIMES_MAX + [False]
    many = [limits.begin(f"user{number}", f"10.0.1.{number}") for number in range(BUSY.most + 1)]
    assert [limits.put_off(one) for one in many] == [True] * BUSY.most + [False]


def test_waiting_tries_are_bounded_and_give_their_place_back(limits: LoginLimits, clock: Clock) -> None:
    found: list[Attempt] = []
    for user in range(WAITING_MAX):
        for number in range(OF_USER_MAX + CLEAN.most):
            found += guess(limits, f"user{user}", f"10.{user}.0.{number}", 1)
        if limits._waiting == WAITING_MAX:
            break
    assert limits._waiting == WAITING_MAX
    for attempt in found:
        limits.withdraw(attempt)
    assert (limits._waiting, limits._lanes) == (0, {})
    assert not limits.begin("user1", "10.0.0.1").wait_ms


def test_the_tables_are_bounded(limits: LoginLimits) -> None:
    for number in range(ENTRIES_MAX + 100):
        limits.right(limits.begin(f"user{number}" * 99, f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}"))
    tables = (limits._of_user, limits._of_address, limits._of_pair, limits._trusted)
    assert [len(one) for one in tables] == [ENTRIES_MAX] * 4
    assert max(map(len, limits._of_user._counts)) < 200
