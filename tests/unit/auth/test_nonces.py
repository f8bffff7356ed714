"""The bounds of the numbers that were taken."""

from app.auth.signed import KEEP_MS, SESSIONS_MAX, WINDOW, Nonces


def test_sessions_are_apart() -> None:
    nonces = Nonces()
    assert nonces.take("a", 1, 0)
    assert nonces.take("b", 1, 0)
    assert not nonces.take("a", 1, 0)


def test_numbers_come_in_any_order_within_the_window() -> None:
    nonces = Nonces()
    for number in (WINDOW + 5, 6, WINDOW, 7):
        assert nonces.take("a", number, 0)
    assert not nonces.take("a", 5, 0), "it may have been seen: the window has moved on"


def test_a_session_too_many_is_refused_until_another_was_silent_for_long() -> None:
    nonces = Nonces()
    for number in range(SESSIONS_MAX):
        assert nonces.take(f"s{number}", 1, number)
    assert not nonces.take("more", 1, KEEP_MS)
    assert nonces.take("s0", 2, KEEP_MS)
    assert nonces.take("more", 1, KEEP_MS + 2)
    assert not nonces.take("s0", 1, KEEP_MS + 2), "that one was heard meanwhile, and is remembered"
    assert not nonces.take("s5", 1, KEEP_MS + 2)
