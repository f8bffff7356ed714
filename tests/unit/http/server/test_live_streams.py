"""Streams of server-sent events on the loop: what they send and when, and their end."""

import re

import pytest

from app.http.api.call import Events, Reply
from app.http.api.event_stream import RETRY_MS
from app.http.server.connection import HttpConnection
from app.http.server.late_replies import LASTS_S, PERIOD_S, STILL_S, STREAMS_MAX
from tests.support.loops import SkippingLoop, run_loop, turns, until
from tests.support.served import served
from tests.support.wire import request

EVENTS = "/nacos/console/events/service?serviceName=orders"
REGISTER = "/nacos/v1/ns/instance?serviceName=orders&ip=10.0.0.%d&port=80"
STEP_S = 0.5
EVENT = re.compile(rb'data: {"rev":(\d+)}')


async def pass_time(loop: SkippingLoop, seconds: float) -> None:
    """Let time go by in steps; in one, it would be a process that stood still."""
    for _ in range(round(seconds / STEP_S)):
        loop.skip(STEP_S)
        await turns(2)


def test_a_stream_tells_what_changed_and_nothing_twice() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(EVENTS))
            await until(lambda: EVENT.findall(wire.received))
            assert wire.received.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream")
            assert b"retry: %d\n\n" % RETRY_MS in wire.received
            writer = one.connect()
            for number in (1, 2):
                writer.send(request(REGISTER % number, "POST"))
                await pass_time(loop, PERIOD_S)
                await until(lambda number=number: len(EVENT.findall(wire.received)) == 1 + number)
            await pass_time(loop, STILL_S)
            await until(lambda: b": no change" in wire.received)
            assert len(EVENT.findall(wire.received)) == 3

    run_loop(main)


def test_a_stream_ends_after_its_time_and_the_connection_goes_on() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(EVENTS))
            await until(lambda: EVENT.findall(wire.received))
            await pass_time(loop, LASTS_S)
            await until(lambda: wire.received.endswith(b"0\r\n\r\n"))
            wire.send(request("/nacos/v1/ns/instance/list?serviceName=orders"))
            await until(lambda: wire.received.count(b"HTTP/1.1 200") == 2)

    run_loop(main)


def test_what_is_read_for_others_just_then_does_not_come_before_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_loop: SkippingLoop) -> None:
        with served() as one:
            live = one.requests._live
            begin = live.begin

            def begin_and_tell(connection: HttpConnection, answer: Events) -> Reply | None:
                refusal = begin(connection, answer)
                live._tell({answer.topic: b'{"rev":0}'})
                return refusal

            monkeypatch.setattr(live, "begin", begin_and_tell)
            wire = one.connect()
            wire.send(request(EVENTS))
            await until(lambda: EVENT.findall(wire.received))
            assert wire.received.startswith(b"HTTP/1.1 200 OK\r\n")

    run_loop(main)


def test_a_client_that_goes_leaves_nothing_behind() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(EVENTS))
            await until(lambda: EVENT.findall(wire.received))
            wire.transport.abort()
            wire.transport.turn()
            await pass_time(loop, PERIOD_S)
            await turns(5)
            assert one.requests._live._streams == {}
            assert one.requests._live._timer is None

    run_loop(main)


def test_there_is_a_bound_and_a_node_that_stops_ends_all() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served() as one:
            wires = [one.connect() for _ in range(STREAMS_MAX + 1)]
            for wire in wires:
                wire.send(request(EVENTS))
            await until(lambda: all(wire.received for wire in wires))
            assert wires[-1].received.startswith(b"HTTP/1.1 503 ")
            one.server.drain()
            assert all(wire.received.endswith(b"0\r\n\r\n") for wire in wires[:-1])

    run_loop(main)
