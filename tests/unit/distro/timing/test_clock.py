"""The machine's clocks."""

import time

import pytest

from distro.timing.clock import SystemClock


def test_all_who_ask_in_one_millisecond_get_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, at_ns = SystemClock(), 5_000_000_999
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _clock: at_ns)
    first = clock.monotonic_ms()
    assert first == 5_000
    assert clock.monotonic_ms() is first, "one object, however many keep it"
    at_ns += 1_000_000
    assert clock.monotonic_ms() == 5_001


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that counts sleep")
def test_the_time_that_a_machine_sleeps_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: without it a member that slept for an hour would bring back what was removed and forgotten meanwhile."""
    at_ns = {time.CLOCK_BOOTTIME: 5_000_000_000, time.CLOCK_MONOTONIC: 5_000_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", at_ns.__getitem__)
    monkeypatch.setattr(time, "monotonic_ns", lambda: at_ns[time.CLOCK_MONOTONIC])
    clock = SystemClock()
    before_ms = clock.monotonic_ms()
    at_ns[time.CLOCK_BOOTTIME] += 3_600_000_000_000
    assert clock.monotonic_ms() - before_ms == 3_600_000


def test_the_clocks_count_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _clock: 5_000_000_999_999)
    assert SystemClock().wall_ms() == 1_700_000_000_123
    assert SystemClock().boot_ms() == 5_000_000
