"""Which pool a call goes to, and how pools leave the loop its turns."""

import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from app.auth.member_calls import ALL_MEMBERS, CLIENT
from app.http.api.loop_call import HeaderBlock
from app.http.factory import create_app
from app.http.server.call_pool import BUSY_INTERVAL_S, CallPool
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import Request
from app.http.server.pool_calls import LOOP_FORM_BYTES_MAX, READ_THREADS, PoolChoice, PoolKind
from app.http.server.server import CHECKED_PER_TURN
from distro.wire.codec import gzip_body
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


def test_two_nodes_of_a_process_leave_the_switch_interval_as_it_was() -> None:
    before_s, gates = sys.getswitchinterval(), [threading.Event(), threading.Event()]
    pools = [CallPool(f"pool-{number}", 1, 2) for number in range(2)]
    try:
        for pool, gate in zip(pools, gates, strict=True):
            assert pool.put(partial(gate.wait, 60))
        gates[0].set()
        pools[0].stop()
        pools[0].join()
        assert sys.getswitchinterval() == pytest.approx(BUSY_INTERVAL_S, abs=2e-6), "the other one still works"
    finally:
        for pool, gate in zip(pools, gates, strict=True):
            gate.set()
            pool.stop()
            pool.join()
    assert sys.getswitchinterval() == before_s


def test_a_pool_that_stops_drops_calls_and_their_count() -> None:
    before_s, gate, ran = sys.getswitchinterval(), threading.Event(), list[int]()
    pool = CallPool("pool", 1, 3)
    try:
        assert pool.put(partial(gate.wait, 60))
        assert pool.put(partial(ran.append, 1))
        pool.stop()
        assert not pool.put(partial(ran.append, 2)), "it has stopped"
    finally:
        gate.set()
        pool.join()
    assert ran == []
    assert sys.getswitchinterval() == before_s


def test_what_the_loop_read_of_a_durable_record_is_not_read_again() -> None:
    record, node_ = b'{"com.rollcall.record":{}}', FakeNode()

    async def main(_: SkippingLoop) -> None:
        with served(node_, create_app(node_)) as one:  # type: ignore[arg-type]
            for body in (record, gzip_body(record), b"{"):
                wire = one.connect()
                wire.send(request("/nacos/v1/ns/distro/datum", "PUT", body))
                await until(lambda wire=wire: wire.received)  # type: ignore[misc]

    run_loop(main)
    assert node_.replication.frames == [{"com.rollcall.record": {}}] * 2 + [None]


def test_the_times_of_many_connections_are_checked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[HttpConnection] = []
    monkeypatch.setattr(HttpConnection, "check_time", lambda connection, _now_s: checked.append(connection))

    async def main(loop: SkippingLoop) -> None:
        with served(node(), connections_max=10 * CHECKED_PER_TURN) as one:
            wires = [one.connect() for _ in range(2 * CHECKED_PER_TURN + 1)]
            one.server._sweep()
            assert len(checked) == CHECKED_PER_TURN, "the rest in later turns of the loop"
            await until(lambda: len(checked) == len(wires))
            assert set(checked) == {wire.connection for wire in wires}

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


@pytest.mark.parametrize("target", ["/nacos/v1/ns/instance", "/nacos/v1/ns/inst%61nce", "/nacos/v1/ns/service"])
def test_large_bodies_of_clients_are_read_by_threads_of_their_own(target: str) -> None:
    chosen, form = PoolChoice("/nacos"), b"a" * (LOOP_FORM_BYTES_MAX + 1)
    one = Request(b"POST", target.encode(), HeaderBlock([]), form, True)
    assert chosen.kind_of(one, CLIENT) is PoolKind.FORMS
    assert chosen.kind_of(one, ALL_MEMBERS) is not PoolKind.FORMS
    assert chosen.kind_of(one._replace(body=form[1:]), CLIENT) is PoolKind.PEOPLE
