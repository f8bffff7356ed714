"""The server behind the connections: answers on the loop or in a pool, and limits over all connections."""

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import pytest

from app.http.server import server as server_module
from app.http.server.connection import IDLE_S
from app.http.server.http_messages import CLIENT_BODY_BYTES_MAX, LOGIN_BODY_BYTES_MAX, MEMBER_BODY_BYTES_MAX
from app.http.server.pool_calls import LOOP_FORM_BYTES_MAX, PEER_THREADS, QUEUED_PER_THREAD
from app.http.server.request_reader import LARGE_BODY_BYTES
from app.machine.limits.connection_room import ConnectionRoom
from distro.model.types import MemberState
from tests.support.fake_node import PEER, SELF, FakeNode, make_settings
from tests.support.loops import SkippingLoop, run_loop, turns, until
from tests.support.served import served
from tests.support.wire import Wire, request

LIST = "/nacos/v1/ns/instance/list?serviceName=a"
REGISTER = "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80"
PEER_AGENT = "User-Agent: Nacos-Server:1.4.8"
THREADS = 4


class Gate:
    """An application whose calls wait until the test opens it."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self._open = threading.Event()
        self.calls = 0

    def open(self) -> None:
        self._open.set()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.calls += 1
        self.waiting.release()
        assert self._open.wait(60)
        start_response("200 OK", [("Content-Length", "4")])
        return [b"open"]


def few_threads() -> FakeNode:
    return FakeNode(settings=make_settings(rollcall_http_threads=str(THREADS)))


@contextmanager
def gated(node: FakeNode | None = None, **options: Any) -> Any:
    gate = Gate()
    try:
        with served(node or few_threads(), gate, **options) as one:
            yield one, gate
    finally:
        gate.open()


async def answered(wire: Wire, count: int = 1) -> list[int]:
    await until(lambda: wire.received.count(b"HTTP/1.1 ") >= count)
    return wire.statuses()


# --- where a call is answered -------------------------------------------------------------------------


def test_hot_calls_are_answered_at_once() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(REGISTER, "POST") + request(LIST))
            assert wire.statuses() == [200, 200]
            assert b'"ip":"10.0.0.1"' in wire.bodies()[1]
            assert one.node.http.pooled == 0

    run_loop(main)


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/nacos/v1/ns/operator/metrics", 200),
        ("HEAD", LIST, 200),
        ("GET", "/nacos/v1/ns/nope", 501),
        ("GET", "/elsewhere", 404),
        ("GET", "/nacos/v1/ns/instance/lis%74?serviceName=a", 200),
        ("POST", REGISTER + "&ephemeral=false", 200),
    ],
)
def test_all_else_is_answered_in_a_pool(method: str, target: str, status: int) -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(target, method))
            assert wire.received == b""
            await until(lambda: wire.received)
            assert wire.received.startswith(b"HTTP/1.1 %d " % status)
            assert one.node.http.pooled == 1

    run_loop(main)


def test_beats_go_on_beside_calls_that_wait() -> None:
    async def main(_: SkippingLoop) -> None:
        with gated() as (one, gate):
            waiting = [one.connect() for _ in range(THREADS * 2)]
            for wire in waiting:
                wire.send(request("/wait"))
            quick = one.connect()
            quick.send(request(LIST) * 10)
            assert quick.statuses() == [200] * 10
            gate.open()
            for wire in waiting:
                assert await answered(wire) == [200]

    run_loop(main)


def test_a_full_pool_refuses_and_members_have_their_own() -> None:
    room = THREADS * (1 + QUEUED_PER_THREAD)

    async def main(_: SkippingLoop) -> None:
        with gated() as (one, gate):
            waiting = [one.connect() for _ in range(room)]
            for wire in waiting:
                wire.send(request("/wait"))
            over = one.connect()
            over.send(request("/wait"))
            assert [(reply.status, reply.body) for reply in over.replies()] == [
                (503, b"too many requests are under way, please try another server")
            ]
            assert one.node.http.pool_full == 1
            assert over.is_open
            peer, stranger = one.connect(), one.connect("10.9.9.9")
            stranger.send(request("/wait", "GET", b"", PEER_AGENT))
            assert stranger.statuses() == [403], "the name alone makes nobody a member"
            peer.send(request("/wait", "GET", b"", PEER_AGENT))
            assert peer.received == b""
            gate.open()
            for wire in (*waiting, peer):
                assert await answered(wire) == [200]
            over.send(request("/wait"))
            assert await answered(over, 2) == [503, 200]

    run_loop(main)


@pytest.mark.parametrize(
    "sent",
    [
        request("/nacos/v1/ns/distro/datums"),
        request("/nacos/v1/core/cluster/report?x=y", "POST", b"{}"),
        request("/any", "GET", b"", PEER_AGENT),
        request("/any", "GET", b"", "Client-Version: Nacos-Server:1.4.8"),
    ],
)
def test_what_members_call_has_threads_of_its_own(sent: bytes) -> None:
    async def main(_: SkippingLoop) -> None:
        with gated() as (one, gate):
            wires = [one.connect() for _ in range(PEER_THREADS)]
            for wire in wires:
                wire.send(sent)
            for _ in range(PEER_THREADS):
                await until(lambda: gate.waiting.acquire(blocking=False))
            names = [thread.name for thread in threading.enumerate() if thread.name.startswith("http-")]
            assert all(name.startswith("http-peer") for name in names), names
            gate.open()
            for wire in wires:
                assert await answered(wire) == [200]

    run_loop(main)


def test_what_nobody_foresaw_shows_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret of the inside")

    async def main(_: SkippingLoop) -> None:
        with served() as one:
            one.node.naming.service_view = broken  # type: ignore[assignment, method-assign]
            wire = one.connect()
            wire.send(request(LIST), request("/nacos/v1/ns/nope"), request(LIST))
            assert await answered(wire, 3) == [500, 501, 500]
            assert {wire.bodies()[0], wire.bodies()[2]} == {b"caused: internal error, see the server's log"}

    with caplog.at_level(logging.ERROR):
        run_loop(main)
    assert caplog.text.count("RuntimeError: a secret of the inside") == 2


def test_a_node_that_starts_refuses_on_the_loop() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            one.node.cluster.own_state = MemberState.STARTING
            wire = one.connect()
            wire.send(request(LIST))
            assert wire.statuses() == [503]

    run_loop(main)


# --- what connections share ---------------------------------------------------------------------------


def test_connections_have_a_maximum() -> None:
    async def main(_: SkippingLoop) -> None:
        with served(connections_max=2) as one:
            first, second, third = one.connect(), one.connect(), one.connect()
            assert (first.is_open, second.is_open, third.is_open) == (True, True, False)
            stats = one.node.http
            assert (stats.connections, stats.connections_refused) == (2, 1)
            first.half_close()
            assert stats.connections == 1
            fourth = one.connect()
            fourth.send(request(LIST))
            assert fourth.statuses() == [200]
            assert (stats.connections, stats.connections_refused) == (2, 1)

    run_loop(main)


def test_it_has_what_grpc_leaves_and_never_less_than_it_keeps() -> None:
    async def main(_: SkippingLoop) -> None:
        room = ConnectionRoom(20, has_members=False)
        while room.grpc.take():
            pass
        with served(FakeNode(room=room)) as one:
            wires = [one.connect() for _ in range(room.http.kept + 1)]
            assert [wire.is_open for wire in wires] == [True] * room.http.kept + [False]
            assert one.node.http.connections_refused == 1
            room.grpc.give_back()
            wire = one.connect()
            wire.send(request(LIST))
            assert wire.statuses() == [200]
            for open_one in (*wires[:-1], wire):
                open_one.half_close()
            assert (room.http.count, room.free) == (0, 1)

    run_loop(main)


def test_members_have_room_when_clients_have_none() -> None:
    async def main(_: SkippingLoop) -> None:
        node = FakeNode(settings=make_settings(nacos_standalone="false", nacos_member_list=f"{SELF},{PEER}"))
        node.room = ConnectionRoom(20)
        client_ip, member_ip = "10.1.1.1", "127.0.0.1"
        with served(node) as one:
            while (last := one.connect(client_ip)).is_open:
                pass
            assert not last.received
            members = [one.connect(member_ip) for _ in range(node.room.members.kept)]
            assert all(wire.is_open for wire in members)
            assert not one.connect(member_ip).is_open
            for wire in members:
                wire.half_close()
            assert node.room.members.count == 0

    run_loop(main)


def test_a_connection_that_its_address_may_not_have_gives_its_place_back() -> None:
    async def main(_: SkippingLoop) -> None:
        node = FakeNode(settings=make_settings(rollcall_limit_connectionsPerAddress="1"))
        with served(node) as one:
            one.connect()
            refused = one.connect()
            refused.transport.turn()
            assert (node.http.connections, node.room.http.count) == (1, 1)

    run_loop(main)


@pytest.mark.parametrize(
    ("target", "client_ip", "limit"),
    [
        ("/nacos/v1/ns/instance", "127.0.0.1", CLIENT_BODY_BYTES_MAX),
        ("/nacos/v2/ns/instance?x=/auth/", "10.9.9.9", CLIENT_BODY_BYTES_MAX),
        ("/nacos/v1/ns/distro/datum", "10.9.9.9", CLIENT_BODY_BYTES_MAX),
        ("/nacos/v1/ns/distro/datum", "127.0.0.1", 65_536),
        ("/v1/ns/distro/datum", "127.0.0.1", CLIENT_BODY_BYTES_MAX),
        ("/nacos/v1/auth/users/login", "127.0.0.1", LOGIN_BODY_BYTES_MAX),
        ("/nacos/v1/%61uth/users/login", "10.9.9.9", LOGIN_BODY_BYTES_MAX),
        ("http://x/nacos/v3/auth/user/login", "10.9.9.9", LOGIN_BODY_BYTES_MAX),
        ("/nacos/v1/auth/users", "10.9.9.9", LOGIN_BODY_BYTES_MAX),
        ("/nacos/console/login", "10.9.9.9", LOGIN_BODY_BYTES_MAX),
    ],
)
def test_bodies_have_bounds_by_what_they_are_for(target: str, client_ip: str, limit: int) -> None:
    async def main(_: SkippingLoop) -> None:
        with served(FakeNode(settings=make_settings(rollcall_distro_bodyBytesMax="65536"))) as one:
            wire = one.connect(client_ip)
            wire.send(request(target, "PUT", b"", f"Content-Length: {limit + 1}"))
            [refusal] = wire.replies()
            assert refusal.status == 413
            assert refusal.body == b"the body is over %d bytes, the most that is taken here" % limit
            assert one.node.http.requests_refused == 1
            wire = one.connect(client_ip)
            wire.send(request(target, "PUT", b"", f"Content-Length: {limit}"))
            assert wire.received == b""

    run_loop(main)


@pytest.mark.parametrize(
    ("client_ip", "agent", "limit"),
    [
        ("127.0.0.1", "Nacos-Server:v1.4.1", MEMBER_BODY_BYTES_MAX),
        ("127.0.0.1", "Nacos-Java-Client:v1.4.1", CLIENT_BODY_BYTES_MAX),
        ("10.9.9.9", "Nacos-Server:v1.4.1", CLIENT_BODY_BYTES_MAX),
    ],
)
def test_other_calls_of_members_may_be_larger_than_those_of_clients(client_ip: str, agent: str, limit: int) -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            for length, statuses in ((limit + 1, [413]), (limit, [])):
                wire = one.connect(client_ip)
                head = f"User-Agent: {agent}\r\nContent-Length: {length}"
                wire.send(request("/nacos/v1/ns/service/status", "POST", b"", head))
                assert wire.statuses() == statuses

    run_loop(main)


def test_a_body_in_chunks_is_counted_as_it_comes() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect("10.9.9.9")
            wire.send(request(REGISTER, "POST", b"", "Transfer-Encoding: chunked"))
            part = b"1000\r\n" + b"x" * 4_096 + b"\r\n"
            for _ in range(CLIENT_BODY_BYTES_MAX // 4_096):
                wire.send(part)
            assert wire.statuses() == []
            wire.send(part)
            assert wire.statuses() == [413]

    run_loop(main)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-www-form-urlencoded", b"metadata=" + b"%41" * LOOP_FORM_BYTES_MAX),
        ("application/x-www-form-urlencoded", b"&".join(b"%%41%d=%%41" % number for number in range(998))),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="app"\r\n\r\na\r\n--x--\r\n'),
    ],
    ids=["escapes", "parameters", "multipart"],
)
def test_a_form_that_takes_long_to_read_is_read_in_a_pool(content_type: str, body: bytes) -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(REGISTER, "POST", body, f"Content-Type: {content_type}"))
            assert wire.received == b""
            assert (await answered(wire))[0] in (200, 400)
            assert one.node.http.pooled == 1
            wire.send(request(REGISTER, "POST", b"app=a", "Content-Type: application/x-www-form-urlencoded"))
            assert await answered(wire, 2) == [wire.statuses()[0], 200]
            assert one.node.http.pooled == 1

    run_loop(main)


def test_large_bodies_of_clients_leave_room_for_others() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            one.server.bounds._bodies_bytes_max = 200_000
            first, second, small = one.connect("10.9.9.9"), one.connect("10.9.9.9"), one.connect("10.9.9.9")
            for wire in (first, second, small):
                wire.send(request(REGISTER, "POST", b"", "Content-Length: 500000"))
            first.send(b"x" * 90_000)
            assert first.received == b""
            second.send(b"x" * (LARGE_BODY_BYTES + 1))
            assert second.statuses() == [503]
            small.send(b"x" * 8_000)
            assert small.received == b""

    run_loop(main)


def test_bodies_share_their_room() -> None:
    async def main(_: SkippingLoop) -> None:
        with gated() as (one, gate):
            one.server.bounds._bodies_bytes_max = 1_000
            first, second = one.connect(), one.connect()
            first.send(request("/wait", "PUT", b"x" * 600))
            second.send(request(LIST, "GET", b"x" * 600))
            assert second.statuses() == [503]
            gate.open()
            await answered(first)
            third = one.connect()
            third.send(request(LIST, "GET", b"x" * 1_000))
            assert third.statuses() == [200]

    run_loop(main)


# --- time, and the end --------------------------------------------------------------------------------


def test_the_server_looks_at_its_connections_as_time_passes() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            kept, idle = one.connect(), one.connect()
            for _ in range(int(IDLE_S) + 2):
                loop.skip(1.0)
                await turns(3)
                kept.send(request(LIST))
            assert kept.is_open
            assert idle.transport.closing

    run_loop(main)


def test_answers_are_dated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(LIST))
            monkeypatch.setattr(server_module.time, "time", lambda: 1_700_000_000.9)
            loop.skip(1.1)
            await turns(3)
            wire.send(request(LIST))
            first, second = (reply.headers["date"] for reply in wire.replies())
            assert first != second == "Tue, 14 Nov 2023 22:13:20 GMT"

    run_loop(main)


def test_the_record_tells_how_late_the_loop_is() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            await turns(3)
            loop.skip(3.0)
            await turns(3)
            assert one.node.http.loop_lag_max_ms > 2_000
            assert one.node.http.loop_late >= 1

    run_loop(main)


def test_a_farewell_answers_and_closes_nothing_by_itself() -> None:
    async def main(_: SkippingLoop) -> None:
        with gated() as (one, gate):
            gate.open()
            idle = one.connect()
            assert one.server.drain(idle=False) == 1
            idle.transport.turn()
            assert idle.is_open
            idle.send(request("/wait"))
            await until(lambda: idle.transport.closing)
            idle.transport.turn()
            assert idle.statuses() == [200]

    run_loop(main)


def test_drain_ends_the_idle_and_waits_for_the_others() -> None:
    async def main(_: SkippingLoop) -> None:
        with gated() as (one, gate):
            idle, busy = one.connect(), one.connect()
            busy.send(request("/wait"))
            assert one.server.drain() == 2
            idle.transport.turn()
            assert not idle.is_open
            late = one.connect()
            assert late.is_open, "who comes until the listener is closed hears that this node goes"
            assert one.server.drain() == 2
            late.transport.turn()
            assert not late.is_open
            assert one.server.drain() == 1
            gate.open()
            await until(lambda: busy.transport.closing)
            busy.transport.turn()
            assert busy.statuses() == [200]
            assert one.server.drain() == 0

    run_loop(main)


def test_stop_cuts_what_is_left() -> None:
    async def main(_: SkippingLoop) -> None:
        with gated() as (one, gate):
            running = [one.connect() for _ in range(THREADS)]
            queued = [one.connect() for _ in range(THREADS)]
            for wire in (*running, *queued):
                wire.send(request("/wait"))
            one.server.stop()
            for wire in (*running, *queued):
                wire.transport.turn()
                assert not wire.is_open
            gate.open()
            for _ in running:
                await until(lambda: gate.waiting.acquire(blocking=False))
            assert gate.calls == THREADS, "none is begun any more"

    run_loop(main)


# --- after this process stood still (R13) ---------------------------------------------------------------


@pytest.mark.parametrize("noticed_by", ["bytes", "timer"])
def test_what_waited_while_the_process_stood_still_is_not_executed(noticed_by: str) -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            loop.skip(1.9)
            wire.send(request(REGISTER, "POST"))
            assert wire.statuses() == [200], "a second or two is a busy machine"
            await turns(3)
            loop.skip(40.0)
            if noticed_by == "timer":
                await turns(3)
            late = one.connect()
            late.send(request(REGISTER.replace("10.0.0.1", "10.0.0.2"), "POST"))
            assert late.statuses() == [503]
            assert one.node.cluster.pauses == 1, "its data is compared with a peer's"
            late.send(request(LIST))
            assert b'"ip":"10.0.0.1"' in late.bodies()[1]
            for _ in range(30):
                loop.skip(0.05)
                await turns(3)
            late.send(request(REGISTER.replace("10.0.0.1", "10.0.0.3"), "POST"))
            assert late.statuses() == [503, 200, 200]

    run_loop(main)


def test_what_waits_to_be_accepted_is_not_executed_later_either() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one, socket.create_server(("127.0.0.1", 0)) as listening:
            one.server.listening = [listening]
            with socket.create_connection(listening.getsockname()):
                loop.skip(40.0)
                for _ in range(60):
                    loop.skip(0.05)
                    await turns(3)
                wire = one.connect()
                wire.send(request(REGISTER, "POST"))
                assert wire.statuses() == [503]
                listening.accept()[0].close()
                for _ in range(30):
                    loop.skip(0.05)
                    await turns(3)
                wire.send(request(REGISTER, "POST"))
                assert wire.statuses() == [503, 200]

    run_loop(main)


def test_the_sleep_of_the_machine_is_a_pause_too() -> None:
    """The loop's clock does not count it."""

    async def main(_loop: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            one.slept_s = 40.0
            wire.send(request(REGISTER, "POST"))
            assert wire.statuses() == [503]

    run_loop(main)
