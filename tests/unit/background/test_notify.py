"""Events reach all subscribers to their type, also when another subscriber fails."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from app.background.notify import LOG_INTERVAL_NS, SLOW_NS, NotifyCenter, NotifyStats


@dataclass(frozen=True)
class Changed:
    name: str


@dataclass(frozen=True)
class Gone:
    name: str


@dataclass
class Time:
    now_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class Bus:
    clock: Time = field(default_factory=Time)
    heard: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.center = NotifyCenter(self.clock)

    def taking(self, span_ns: int) -> Callable[[object], None]:
        def slow(_event: object) -> None:
            self.clock.now_ns += span_ns

        return slow


def broken(_event: object) -> None:
    raise ValueError("a subscriber's own fault")


@pytest.fixture
def bus() -> Bus:
    return Bus()


def test_an_event_reaches_who_wants_its_type_in_order(bus: Bus) -> None:
    bus.center.subscribe(Changed, lambda event: bus.heard.append(("first", event)))
    bus.center.subscribe(Gone, bus.heard.append)
    bus.center.subscribe(Changed, lambda event: bus.heard.append(("second", event)))
    bus.center.publish(Changed("a"))
    bus.center.publish("nobody's")
    assert bus.heard == [("first", Changed("a")), ("second", Changed("a"))]


def test_one_that_fails_keeps_the_event_from_nobody(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    bus.center.subscribe(Changed, broken)
    bus.center.subscribe(Changed, bus.heard.append)
    for name in "abc":
        bus.center.publish(Changed(name))
    assert bus.heard == [Changed("a"), Changed("b"), Changed("c")]
    assert bus.center.stats == NotifyStats(events_slow=0, events_failed=3)
    assert caplog.text.count("broken failed at Changed") == 1, "once in a while, not for each"
    bus.clock.now_ns += LOG_INTERVAL_NS
    bus.center.publish(Changed("d"))
    assert caplog.text.count("broken failed at Changed") == 2


def test_a_slow_one_is_named_and_counted(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    bus.center.subscribe(Changed, bus.taking(SLOW_NS))
    bus.center.publish(Changed("a"))
    assert (bus.center.stats.events_slow, caplog.text) == (0, "")
    bus.center.subscribe(Gone, bus.taking(SLOW_NS + 1))
    for _ in range(3):
        bus.center.publish(Gone("a"))
    assert bus.center.stats.events_slow == 3
    assert caplog.text.count("slow took 50 ms for Gone") == 1
