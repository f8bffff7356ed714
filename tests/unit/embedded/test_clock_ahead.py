"""The clock of embedded nodes: what passes in a step, who follows it, and what beats do against it."""

import pytest

from app.testing import Registry, UseError
from app.tools.embedded.clock_ahead import STEP_MS_MAX, ClockAhead
from distro.timing.clock import SystemClock


def test_it_goes_on_by_itself_and_is_ahead_by_what_was_let_pass() -> None:
    clock, machine = ClockAhead(), SystemClock()
    before_ms = machine.wall_ms()
    clock.advance(0.5)
    clock.advance(31)
    assert clock.ahead_s == 31.5
    for one, other in ((clock.wall_ms, machine.wall_ms), (clock.boot_ms, machine.boot_ms)):
        assert one() - other() + (machine.wall_ms() - before_ms) >= 31_500
    assert clock.monotonic_ms() >= machine.monotonic_ms() + 31_500 - (machine.wall_ms() - before_ms)


def test_each_step_is_followed_before_the_next() -> None:
    clock, seen = ClockAhead(), list[float]()

    def follow(_timeout_s: float) -> bool:
        seen.append(clock.ahead_s)
        return True

    clock.follow(follow, 2 * STEP_MS_MAX)
    clock.advance(2.5)
    assert seen == [1.0, 2.0, 2.5]
    clock.unfollow(follow)
    clock.unfollow(follow)
    clock.advance(1)
    assert len(seen) == 3


def test_no_step_looks_like_a_pause_of_the_process() -> None:
    clock, seen = ClockAhead(), list[float]()
    clock.follow(lambda _timeout_s: not seen.append(clock.ahead_s), 400)  # type: ignore[func-returns-value]
    clock.advance(1)
    assert seen == [0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_it_does_not_go_back(seconds: float) -> None:
    with pytest.raises(UseError, match="only moves forward"):
        ClockAhead().advance(seconds)


def test_a_node_that_does_not_follow_is_told() -> None:
    clock = ClockAhead()
    clock.follow(lambda _timeout_s: False, 2_000)
    with pytest.raises(UseError, match="did not catch up within"):
        clock.advance(1)


def test_without_beats_an_instance_is_unhealthy_then_gone() -> None:
    with Registry() as registry:
        registry.register("orders", "10.0.0.1", 80)
        registry.register("orders", "10.0.0.2", 80)
        registry.clock.advance(10)
        registry.beat("orders", "10.0.0.2", 80)
        registry.clock.advance(6)
        assert [one.healthy for one in registry.instances("orders")] == [False, True]
        assert [one.ip for one in registry.instances("orders", healthy_only=True)] == ["10.0.0.2"]
        registry.clock.advance(15)
        assert [one.ip for one in registry.instances("orders")] == ["10.0.0.2"]
        registry.clock.advance(10)
        assert registry.instances("orders") == []


def test_beats_keep_an_instance_for_as_long_as_they_come() -> None:
    with Registry() as registry:
        registry.register("orders")
        for _ in range(20):
            registry.clock.advance(5)
            registry.beat("orders")
        assert registry.clock.ahead_s == 100
        assert [one.healthy for one in registry.instances("orders")] == [True]
