"""Configurations, which are not kept here: calls for them with ``rollcall.config.absent``, and without it."""

import logging

import pytest

from app.machine.process.config_call_log import CLIENTS_REMEMBERED, ConfigCallLog
from tests.support.fake_node import FakeNode, make_settings
from tests.support.loops import SkippingLoop, run_loop, turns
from tests.support.served import Served, served
from tests.support.wire import request

GET = "/nacos/v1/cs/configs?dataId=a&group=b"
LISTENER = "/nacos/v1/cs/configs/listener"
LONG_POLL = "Long-Pulling-Timeout: 30000"


def absent() -> FakeNode:
    return FakeNode(settings=make_settings(rollcall_config_absent="true"))


async def answered(one: Served, data: bytes) -> tuple[list[int], list[bytes]]:
    wire = one.connect()
    wire.send(data)
    await turns(3)
    return wire.statuses(), wire.bodies()


def test_no_configuration_exists() -> None:
    async def main(_: SkippingLoop) -> None:
        with served(absent()) as one:
            assert await answered(one, request(GET)) == ([404], [b"config data not exist"])
            assert one.node.config_calls.stats.config_absent == 1
            assert one.node.http.pooled == 0

    run_loop(main)


def test_a_listen_is_held_by_no_thread_and_answered_when_its_time_is_nearly_over() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served(absent()) as one:
            wire = one.connect()
            wire.send(request(LISTENER, "POST", b"", LONG_POLL))
            loop.skip(29.4)
            await turns(3)
            assert wire.statuses() == []
            loop.skip(0.2)
            await turns(3)
            assert (wire.statuses(), wire.bodies()) == ([200], [b""])
            assert one.node.http.pooled == 0

    run_loop(main)


@pytest.mark.parametrize(
    "headers", [(), (LONG_POLL, "Long-Pulling-Timeout-No-Hangup: true"), ("Long-Pulling-Timeout: x",)]
)
def test_a_listen_that_does_not_wait(headers: tuple[str, ...]) -> None:
    async def main(_: SkippingLoop) -> None:
        with served(absent()) as one:
            assert await answered(one, request(LISTENER, "POST", b"", *headers)) == ([200], [b""])

    run_loop(main)


def test_listens_that_are_held_are_answered_when_the_node_stops() -> None:
    async def main(_: SkippingLoop) -> None:
        with served(absent()) as one:
            wire = one.connect()
            wire.send(request(LISTENER, "POST", b"", LONG_POLL))
            await turns(3)
            one.server.drain()
            await turns(3)
            assert wire.statuses() == [200]

    run_loop(main)


def test_a_client_that_hangs_up_leaves_nothing_behind() -> None:
    async def main(loop: SkippingLoop) -> None:
        with served(absent()) as one:
            wire = one.connect()
            wire.send(request(LISTENER, "POST", b"Listening-Configs=abc", LONG_POLL))
            await turns(3)
            assert one.server.bounds._bodies_bytes > 0
            wire.transport.abort()
            wire.transport.turn()
            await turns(3)
            assert one.server.bounds._bodies_bytes == 0
            loop.skip(60)
            await turns(3)
            assert wire.statuses() == []

    run_loop(main)


@pytest.mark.parametrize(
    ("method", "target"), [("GET", GET + "&search=blur"), ("POST", GET + "&content=c"), ("DELETE", GET)]
)
def test_what_is_refused_all_the_same(method: str, target: str) -> None:
    node = absent()

    async def main(_: SkippingLoop) -> None:
        with served(node) as one:
            reply = await one.reply(request(target, method, b"", "Connection: close"))
            assert reply.status == 501
            assert b"naming server without configurations" in reply.body

    run_loop(main)
    assert node.config_calls.stats.config_refused == 1


def test_refusals_are_logged_once_for_each_client(caplog: pytest.LogCaptureFixture) -> None:
    calls = ConfigCallLog()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            calls.refused("10.0.0.1", "GET /v1/cs/configs")
        calls.refused("10.0.0.2", "ConfigQueryRequest")
    assert [one.getMessage().split()[0] for one in caplog.records] == ["10.0.0.1", "10.0.0.2"]
    assert calls.stats.config_refused == 4
    for number in range(CLIENTS_REMEMBERED):
        calls.refused(f"client-{number}", "x")
    caplog.clear()
    calls.refused("10.0.0.1", "x")
    assert len(caplog.records) == 1, "the oldest was forgotten"
