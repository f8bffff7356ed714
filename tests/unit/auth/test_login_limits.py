"""How many wrong passwords a user and an address have."""

import pytest

from app.auth.login_limits import ENTRIES_MAX, OF_ADDRESS_MAX, OF_USER_MAX, WINDOW_MS, LoginLimits


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


def test_a_user_has_so_many_wrong_passwords_in_a_window_from_anywhere(limits: LoginLimits, clock: Clock) -> None:
    for number in range(OF_USER_MAX):
        assert limits.begin("bob", f"10.0.0.{number}") == 0
    assert limits.begin("bob", "10.0.1.1") == WINDOW_MS // 1_000 + 1
    assert limits.begin("eve", "10.0.1.1") == 0
    clock.now_ms += WINDOW_MS
    assert limits.begin("bob", "10.0.1.1") == 0


def test_an_address_has_so_many_of_any_user(limits: LoginLimits) -> None:
    for number in range(OF_ADDRESS_MAX):
        assert limits.begin(f"user{number}", "10.0.0.1") == 0
    assert limits.begin("bob", "10.0.0.1") > 0
    assert limits.begin("bob", "10.0.0.2") == 0


def test_right_passwords_are_free(limits: LoginLimits) -> None:
    for _ in range(3 * OF_ADDRESS_MAX):
        assert limits.begin("bob", "10.0.0.1") == 0
        limits.withdraw("bob", "10.0.0.1", right=True)


def test_nobody_can_lock_a_user_out_who_logged_in_from_the_address(limits: LoginLimits) -> None:
    limits.begin("bob", "10.0.0.1")
    limits.withdraw("bob", "10.0.0.1", right=True)
    for number in range(OF_USER_MAX):
        limits.begin("bob", f"10.6.6.{number}")
    assert limits.begin("bob", "10.6.6.6") > 0
    assert limits.begin("bob", "10.0.0.1") == 0


def test_a_trusted_address_has_its_own_limit(limits: LoginLimits) -> None:
    limits.begin("bob", "10.0.0.1")
    limits.withdraw("bob", "10.0.0.1", right=True)
    for _ in range(OF_ADDRESS_MAX):
        limits.begin("bob", "10.0.0.1")
    assert limits.begin("bob", "10.0.0.1") > 0


def test_tries_under_way_count(limits: LoginLimits) -> None:
    """Otherwise a flood would have all its tries looked at before the first was known to be wrong."""
    assert [limits.begin("bob", "10.0.0.1") == 0 for _ in range(OF_USER_MAX + 1)] == [True] * OF_USER_MAX + [False]


def test_the_addresses_of_one_ipv6_network_are_one_caller(limits: LoginLimits) -> None:
    for number in range(OF_ADDRESS_MAX):
        limits.begin(f"user{number}", f"2001:db8::{number:x}")
    assert limits.begin("bob", "2001:db8::ffff") > 0
    assert limits.begin("bob", "2001:db8:0:1::1") == 0
    assert limits.begin("bob", "::ffff:10.0.0.1") == 0


def test_the_tables_are_bounded(limits: LoginLimits) -> None:
    for number in range(ENTRIES_MAX + 100):
        ip = f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}"
        limits.begin(f"user{number}", ip)
        limits.withdraw(f"user{number}", ip, right=True)
    tables = (limits._of_user._counts, limits._of_address._counts, limits._trusted)
    assert [len(one) for one in tables] == [ENTRIES_MAX] * 3
