"""Which pool a call goes to, and how pools leave the loop its turns."""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from app.http.server.call_pool import BUSY_INTERVAL_S, CallPool
from app.http.server.server import READ_THREADS
from tests.support.fake_node import FakeNode, make_settings
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.served import served
from tests.support.wire import request

THREADS = 3 * READ_THREADS


class Gate:
    """An application that notes the threads of its calls, which wait until the test opens it."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.opened = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.threads.append(threading.current_thread().name.rpartition("_")[0])
        assert self.opened.wait(60)
        start_response("200 OK", [("Content-Length", "4")])
        return [b"open"]


def node() -> FakeNode:
    return FakeNode(settings=make_settings(rollcall_http_threads=str(THREADS)))


def test_reads_have_few_threads_and_writes_do_not_wait_for_them() -> None:
    async def main(_: SkippingLoop) -> None:
        gate = Gate()
        with served(node(), gate) as one:
            try:
                reads = [one.connect() for _ in range(THREADS)]
                for number, wire in enumerate(reads):
                    wire.send(request("/page", "HEAD" if number % 2 else "GET"))
                writes = [one.connect() for _ in range(THREADS)]
                for wire in writes:
                    wire.send(request("/write", "POST"))
                await until(lambda: len(gate.threads) == READ_THREADS + THREADS)
                assert sorted(gate.threads) == ["http-people"] * THREADS + ["http-read"] * READ_THREADS
            finally:
                gate.opened.set()
            for wire in (*reads, *writes):
                await until(lambda wire=wire: wire.received)  # type: ignore[misc]
            assert gate.threads.count("http-read") == THREADS

    run_loop(main)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/ns/service/subscribers?serviceName=a",
        "/v1/ns/api/clientBeat",
        "/v2/core/loader/cluster",
        "/v2/core/loader/smartReloadCluster?loaderFactor=0.1",
    ],
)
def test_reads_that_ask_other_members_keep_no_page_waiting(path: str) -> None:
    async def main(_: SkippingLoop) -> None:
        gate = Gate()
        with served(node(), gate) as one:
            try:
                one.connect().send(request(f"/nacos{path}"))
                await until(lambda: gate.threads == ["http-people"])
            finally:
                gate.opened.set()

    run_loop(main)


def test_threads_change_sooner_while_a_pool_works() -> None:
    async def main(_: SkippingLoop) -> None:
        gate, usual_s = Gate(), sys.getswitchinterval()
        with served(node(), gate) as one:
            try:
                wires = [one.connect() for _ in range(2)]
                for wire, method in zip(wires, ("GET", "POST"), strict=True):
                    wire.send(request("/any", method))
                    assert sys.getswitchinterval() == pytest.approx(BUSY_INTERVAL_S, abs=2e-6)
            finally:
                gate.opened.set()
            await until(lambda: sys.getswitchinterval() == usual_s)
            await until(lambda: all(wire.received for wire in wires))

    run_loop(main)


def test_a_call_is_counted_before_its_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the metrics leave out the very call that asks for them, when its thread is the quicker one."""
    one_node, counted, answered = FakeNode(), list[int](), threading.Event()
    put = CallPool.put

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        counted.append(one_node.http.pooled)
        answered.set()
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def put_and_await(pool: CallPool, job: Callable[[], None]) -> bool:
        taken = put(pool, job)
        assert answered.wait(60)
        return taken

    async def main(_: SkippingLoop) -> None:
        monkeypatch.setattr(CallPool, "put", put_and_await)
        with served(one_node, app) as one:
            wire = one.connect()
            wire.send(request("/metrics"))
            await until(lambda: wire.received)
            assert counted == [1]

    run_loop(main)
