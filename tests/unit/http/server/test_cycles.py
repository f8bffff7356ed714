"""A node's objects are freed with their last reference: the worker makes full collections of garbage very rare."""

import gc
from urllib.parse import urlencode

from app.http.server.worker import GC_THRESHOLDS
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from tests.support.circles import without_circles
from tests.support.fake_node import FakeNode
from tests.support.loops import SkippingLoop, run_loop
from tests.support.served import served
from tests.support.wire import request

INSTANCES = 300


def life_of(number: int) -> bytes:
    """All that a client does in its life."""
    named = f"?serviceName=s{number % 7}&ip=10.0.{number // 250}.{number % 250}&port=80"
    instance, listed = f"/nacos/v1/ns/instance{named}", f"/nacos/v1/ns/instance/list{named}"
    beat = f"/nacos/v1/ns/instance/beat{named}"
    full = urlencode({"beat": f'{{"ip":"10.1.0.{number % 250}","port":80,"metadata":{{"a":"b"}}}}'})
    calls = [("POST", instance), ("PUT", beat), ("POST", f"{instance}&weight=2"), ("GET", listed), ("DELETE", instance)]
    return b"".join(request(target, method) for method, target in [*calls, ("PUT", f"{beat}&{full}"), ("GET", listed)])


def test_instances_that_go() -> None:
    async def main(_: SkippingLoop) -> None:
        with served(FakeNode()) as one:
            wire = one.connect()
            wire.send(life_of(0))
            with without_circles():
                for number in range(INSTANCES):
                    wire.send(life_of(number))
                one.node.events.clear()
            assert wire.statuses() == [200] * 7 * (INSTANCES + 1)
            assert one.node.http.pooled == 0

    run_loop(main)


def test_connections_that_go() -> None:
    async def main(_: SkippingLoop) -> None:
        with served(FakeNode()) as one, without_circles():
            for _ in range(INSTANCES):
                wire = one.connect()
                wire.send(request("/nacos/v1/ns/instance/list?serviceName=a"), b"GET / HT")
                wire.transport.abort()
                wire.transport.turn()

    run_loop(main)


GROWTH = 8_000
VISITED_MAX = 15_000
"""By one collection: about a millisecond."""


def test_no_collection_visits_much_while_the_registry_grows() -> None:
    visited: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            visited.append(sum(len(gc.get_objects(young)) for young in range(info["generation"] + 1)))

    registry, before = Registry.of("127.0.0.1:8848~1"), gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.callbacks.append(note)
    try:
        for number in range(GROWTH):
            registry.writes.register(RegisterInstance("g@@s", f"10.0.{number // 250}.{number % 250}", 80), number)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
        gc.unfreeze()
    assert len(visited) > 10
    assert max(visited) < VISITED_MAX < 2 * GROWTH
