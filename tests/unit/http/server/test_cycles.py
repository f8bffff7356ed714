"""A node's objects are freed with their last reference: the worker makes full collections of garbage very rare."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from tests.support.fake_node import FakeNode
from tests.support.loops import SkippingLoop, run_loop
from tests.support.served import served
from tests.support.wire import request

INSTANCES = 300
LEFT_MAX = 20
"""Of all kinds; an object for each instance would be many more."""


@contextmanager
def without_circles() -> Iterator[None]:
    """Fail when more than a few objects were left to the collector."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        left = Counter(type(one).__name__ for one in gc.garbage)
        assert left.total() < LEFT_MAX, f"only the collector finds these: {left.most_common(8)}"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


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
