"""The samples of the last day: rates and percentiles of the minute, within the bound."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from app.metrics.day_history import SAMPLE_MS, SAMPLES_MAX, DayHistory, DaySources
from app.naming.registry.operations import RegisterInstance
from distro.model.monitor import Timings
from tests.support.fake_node import FakeNode

NAME = "DEFAULT_GROUP@@orders"


@dataclass
class Route:
    route: str
    statuses: dict[int, int]


@dataclass
class Peer:
    applied: Timings = field(default_factory=Timings)


@dataclass
class Node:
    """The sources of a node that the test writes."""

    requests: dict[str, int] = field(default_factory=dict)
    pushes: int = 0
    peers: dict[str, Peer] = field(default_factory=dict)
    lag: Timings = field(default_factory=Timings)

    def read(self) -> Iterator[Route]:
        return (Route(route, {200: count}) for route, count in self.requests.items())

    def sources(self, *, counted: bool = True) -> DaySources:
        return DaySources(
            list, lambda: 5, self.read if counted else None, lambda: self.pushes, lambda: self.peers, self.lag
        )


def test_a_sample_has_the_rates_of_its_minute() -> None:
    node, history = Node(), DayHistory(lambda: 77)
    node.requests, node.pushes = {"/a": 1_000}, 5
    assert history.tick(node.sources(), 0) == SAMPLE_MS
    assert history.samples() == []
    node.requests, node.pushes = {"/a": 1_060, "/v1/ns/instance/beat": 120}, 605
    node.peers["b"] = Peer()
    for _ in range(100):
        node.peers["b"].applied.add(0.2)
        node.lag.add(0.000_04)
    history.tick(node.sources(), SAMPLE_MS)
    (one,) = history.samples()
    assert (one.wall_ms, one.instances, one.unhealthy) == (77, 5, 0)
    assert (one.requests, one.beats, one.pushes) == (3.0, 2.0, 10.0)
    assert one.convergence_ms == pytest.approx(248.5)
    assert one.loop_lag_ms == pytest.approx(0.0495)


def test_what_was_not_measured_is_none_and_a_reset_is_no_negative_rate() -> None:
    node, history = Node(pushes=500), DayHistory(lambda: 1)
    history.tick(node.sources(counted=False), 0)
    node.pushes = 0
    history.tick(node.sources(counted=False), SAMPLE_MS)
    (one,) = history.samples()
    assert one[3:] == (None, None, 0.0, None, None)


def test_the_oldest_samples_go() -> None:
    times = iter(range(5_000))
    history = DayHistory(lambda: next(times))
    for minute in range(SAMPLES_MAX + 5):
        history.tick(Node().sources(), minute * SAMPLE_MS)
    assert (len(history.samples()), history.samples()[0].wall_ms) == (SAMPLES_MAX, 4)


def test_unhealthy_instances_are_counted() -> None:
    bed, node, history = FakeNode(), Node(), DayHistory(lambda: 1)
    for number, healthy in enumerate((True, False, False)):
        bed.naming.register(RegisterInstance(NAME, "10.0.0.1", number + 1, healthy=healthy))
    sources = replace(node.sources(), services=bed.registry.table.services)
    for now_ms in (0, SAMPLE_MS):
        history.tick(sources, now_ms)
    assert history.samples()[0].unhealthy == 2
