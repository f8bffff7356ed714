"""The machine's clocks."""

import time

import pytest

from distro.clock import SystemClock


def test_all_who_ask_in_one_millisecond_get_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, at_ns = SystemClock(), 5_000_000_999
    monkeypatch.setattr(time, "monotonic_ns", lambda: at_ns)
    first = clock.monotonic_ms()
    assert first == 5_000
    assert clock.monotonic_ms() is first, "one object, however many keep it"
    at_ns += 1_000_000
    assert clock.monotonic_ms() == 5_001
