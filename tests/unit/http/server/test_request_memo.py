"""Requests that come again to the byte: what is kept of them, what never is, and that no answer depends on it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.http.api.loop_call import HeaderBlock
from app.http.api.parse_memo import QUERIES_BYTES_MAX, as_kept
from app.http.input.forms import Parameters
from app.http.input.params import parse_beat, parse_list
from app.http.server.http_messages import REPEATED_BYTES_MAX, RepeatedRequest, Request, RequestKeeper
from app.http.server.request_answers import MEMO_BYTES_MAX, count_routes, hot_routes
from app.machine.process.loop_parts import RequestMemo
from app.metrics.instruments import RequestStats
from tests.support.auth import add_user, node_with_users
from tests.support.fake_node import FakeNode
from tests.support.loops import SkippingLoop, run_loop
from tests.support.served import Served, served
from tests.support.traced_memory import traced_rest
from tests.support.wire import request

INSTANCE = "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80"
LIST = "/nacos/v1/ns/instance/list?serviceName=a"
BEAT = "/nacos/v1/ns/instance/beat?serviceName=a&ip=10.0.0.1&port=80"
FORM_TYPE = "application/x-www-form-urlencoded"
FORM = f"Content-Type: {FORM_TYPE}"
FULL_BEAT = request(
    "/nacos/v1/ns/instance/beat",
    "PUT",
    b'serviceName=a&beat={"ip":"10.0.0.1","port":80,"weight":2.0,"cluster":"DEFAULT","metadata":{"a":"b"}}',
    FORM,
)
REGISTER = request(INSTANCE, "POST")


def is_kept(one: Served, data: bytes) -> bool:
    return one.server.repeated.find(data) is not None


def answers(sent: bytes, times: int, node: FakeNode | None = None) -> tuple[list[tuple[int, bytes]], bool]:
    """What a request is answered when it comes several times, and whether it was kept."""
    found: list[tuple[int, bytes]] = []
    kept = False

    async def main(_: SkippingLoop) -> None:
        nonlocal kept
        with served(node) as one:
            wire = one.connect()
            for _ in range(times):
                wire.send(sent)
            found.extend((reply.status, reply.body) for reply in wire.replies())
            kept = is_kept(one, sent)

    run_loop(main)
    return found, kept


@pytest.mark.parametrize("sent", [REGISTER, FULL_BEAT, request(BEAT, "PUT"), request(LIST), request(INSTANCE, "PATCH")])
def test_a_request_is_answered_each_time_as_when_it_was_parsed(sent: bytes) -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            wire.send(request(INSTANCE + "&weight=2", "POST"))
            for _ in range(5):
                wire.send(sent)
            assert is_kept(one, sent)
            of_parsed, *others = wire.replies()[2:]
            assert [(other.status, other.headers, other.body) for other in others] == [
                (of_parsed.status, of_parsed.headers, of_parsed.body)
            ] * 3
            assert one.server.bounds._bodies_bytes == 0
            stats = one.requests._hot[sent.split(b" ")[0], sent.split(b" ")[1].partition(b"?")[0]][1]
            assert sum(stats.counts) == 5 + (sent is REGISTER)

    run_loop(main)


@pytest.mark.parametrize(
    "line",
    [
        "Connection: keep-alive",
        "Origin: http://x",
        "Accept-Language: de",
        "User-Agent: Mozilla/5.0",
        "User-Agent: Nacos-Server",
        "Rollcall-Deadline: 1",
        "Expect: 100-continue",
    ],
)
def test_what_more_than_the_bytes_decides_is_not_kept(line: str) -> None:
    assert not answers(request(LIST, "GET", b"", line), 3)[1]


@pytest.mark.parametrize(
    "sent",
    [
        request("/nacos/v1/ns/operator/metrics"),
        request(f"{LIST}&username=a&password=b"),
        request(f"{INSTANCE}&a={'x' * REPEATED_BYTES_MAX}", "POST"),
        request(LIST) * 2,
        request(LIST) + b"GET",
    ],
    ids=["not hot", "with a password", "long", "two in a piece", "with a part of the next"],
)
def test_what_is_no_single_request_of_a_hot_route_is_not_kept(sent: bytes) -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            for _ in range(3):
                one.connect().send(sent)
            assert not is_kept(one, sent)

    run_loop(main)


def test_refusals_are_decided_each_time() -> None:
    wrong = request(INSTANCE + "&weight=-1", "POST")
    found, kept = answers(wrong, 4)
    assert kept
    assert found == [found[0]] * 4
    assert found[0][0] == 400


def test_an_instance_that_was_removed_is_registered_again() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            for _ in range(3):
                wire.send(REGISTER)
                wire.send(request(LIST))
                wire.send(request(INSTANCE, "DELETE"))
            assert [body.count(b'"instanceId"') for body in wire.bodies()[1::3]] == [1, 1, 1]
            assert is_kept(one, REGISTER)

    run_loop(main)


def test_the_kind_of_an_instance_follows_the_switch() -> None:
    """A call that names no kind is another one under another default."""
    node = FakeNode()

    async def main(_: SkippingLoop) -> None:
        with served(node) as one:
            wire = one.connect()
            for _ in range(3):
                wire.send(REGISTER)
            node.durable.update_switch("defaultInstanceEphemeral", "false", here_only=True)
            before = one.node.http.pooled
            wire.send(REGISTER)
            assert one.node.http.pooled == before + 1, "a durable record is written by a thread"

    run_loop(main)


def test_blank_lines_between_repeated_requests_are_no_flood() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            for _ in range(40):
                wire.send(request(LIST), b"\r\n" * 1_000)
            assert wire.statuses() == [200] * 40
            assert wire.is_open

    run_loop(main)


def test_a_body_without_room_is_refused_as_ever() -> None:
    async def main(_: SkippingLoop) -> None:
        with served() as one:
            wire = one.connect()
            for _ in range(3):
                wire.send(FULL_BEAT)
            one.server.bounds._bodies_bytes = 512 * 1024 * 1024
            wire.send(FULL_BEAT)
            assert wire.statuses() == [200, 200, 200, 503]

    run_loop(main)


# --- memory -------------------------------------------------------------------------------------------


def parameters_of(query: bytes, body: bytes, method: str) -> Parameters:
    return Parameters.of(query, FORM_TYPE if body else "", body, method)


def http_memo() -> RequestMemo[Request, RepeatedRequest]:
    return RequestMemo(RequestKeeper(count_routes(hot_routes("/nacos"), RequestStats())), 1 << 40, REPEATED_BYTES_MAX)


def light(number: int) -> tuple[str, bytes, bytes]:
    query = f"serviceName=DEFAULT_GROUP%40%40service-{number // 100}&ip=10.0.{number >> 8}.{number & 255}&port=8080"
    return "PUT /nacos/v1/ns/instance/beat", query.encode() + b"&namespaceId=public", b""


def full(number: int) -> tuple[str, bytes, bytes]:
    beat = {"ip": "10.0.0.1", "port": 80, "weight": 2.0, "cluster": "DEFAULT", "metadata": {"n": str(number), "a": "b"}}
    return "PUT /nacos/v1/ns/instance/beat", b"serviceName=a", b"beat=" + json.dumps(beat).encode()


def valued(number: int) -> tuple[str, bytes, bytes]:
    metadata = {f"{key}x{number}": f"y{key}" for key in range(40)}
    return (
        "PUT /nacos/v1/ns/instance/beat",
        b"serviceName=a",
        b"beat=" + json.dumps({"ip": "10.0.0.1", "metadata": metadata}).encode(),
    )


def polled(number: int) -> tuple[str, bytes, bytes]:
    query = (
        f"serviceName=service-{number}&clusters=&namespaceId=public&healthyOnly=false&clientIP=10.0.0.1&udpPort=5000"
    )
    return "GET /nacos/v1/ns/instance/list", query.encode(), b""


@pytest.mark.parametrize(
    ("parser", "made", "headers"),
    [
        (parse_beat, light, []),
        (parse_beat, full, []),
        (parse_beat, valued, []),
        (parse_list, polled, []),
        (parse_beat, light, [(b"X-Id", b"%d")]),
        (parse_beat, light, [(b"h%d" % number, b"%d") for number in range(40)]),
    ],
    ids=["light beat", "full beat", "many values", "list", "headers of its own", "many headers"],
)
def test_the_reckoned_memory_is_about_that_which_requests_take(
    parser: Callable[[Parameters], Any],
    made: Callable[[int], tuple[str, bytes, bytes]],
    headers: list[tuple[bytes, bytes]],
) -> None:
    memo, count = http_memo(), 500
    for number in range(count):  # what parsers keep themselves, and the texts that commands share
        line, query, body = made(number)
        as_kept(parser(parameters_of(query, body, line.split()[0])))
    with traced_rest() as rest:
        for number in range(count):
            line, query, body = made(number)
            method, path = line.encode().split()
            raw = [(b"Host", b"127.0.0.1:8848"), (b"User-Agent", b"Nacos-Go-Client:v1.0.9")]
            raw += [(bytes(bytearray(name)), value % number) for name, value in headers]
            head = b"".join(b"%b: %b\r\n" % one for one in raw)
            data = b"%b %b?%b HTTP/1.1\r\n%b\r\n%b" % (method, path, query, head, body)
            for _ in range(2):
                memo.note(data, Request(method, path + b"?" + query, HeaderBlock(raw), body, True))
            kept = memo.find(data)
            assert kept is not None
            assert (kept.target, kept.method, kept.block.raw) == (path + b"?" + query, method, raw)
            kept.parser, kept.command = parser, as_kept(parser(parameters_of(query, body, method.decode())))
        del data, raw, kept
    assert 0.9 < memo.bytes_held / rest() < 1.8


@pytest.mark.parametrize(
    ("memory_bytes", "expected"), [(0, MEMO_BYTES_MAX), (1 << 30, 1 << 27), (1 << 34, MEMO_BYTES_MAX)]
)
def test_the_memo_takes_an_eighth_of_the_memory_limit_at_most(memory_bytes: int, expected: int) -> None:
    node = FakeNode(memory_bytes=memory_bytes)

    async def main(_: SkippingLoop) -> None:
        with served(node) as one:
            assert one.server.repeated.bytes_max == expected
            assert one.requests._parsed.bytes_max == min(QUERIES_BYTES_MAX, expected)

    run_loop(main)


def test_requests_with_the_same_headers_share_them_and_free_them_at_last() -> None:
    keeper = RequestKeeper(count_routes(hot_routes("/nacos"), RequestStats()))
    target = b"/nacos/v1/ns/instance/list?serviceName="
    kept = []
    for number in range(3):
        raw = [(b"Host", b"127.0.0.1:8848")]
        asked = Request(b"GET", target + b"%d" % number, HeaderBlock(raw), b"", True)
        kept.append(keeper.keep(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1:8848\r\n\r\n" % asked.target, asked))
    (first, size), (second, other_size), (third, _) = [one for one in kept if one is not None]
    assert first.block is second.block is third.block
    assert size > other_size
    assert [keeper.drop(one.data, one) for one in (first, second, third)] == [other_size, other_size, size]
    assert not keeper._blocks


# --- users --------------------------------------------------------------------------------------------


def test_a_right_that_is_gone_is_gone_for_repeated_requests() -> None:
    node = node_with_users()
    token = add_user(node, "alice", ("public:*:*", "rw"))
    calls = [
        request(f"{INSTANCE}&accessToken={token}", "POST"),
        request(INSTANCE, "POST", b"", f"Authorization: Bearer {token}"),
        request(f"{LIST}&accessToken={token}"),
    ]

    async def main(_: SkippingLoop) -> None:
        with served(node) as one:

            def statuses() -> list[int]:
                wire = one.connect()
                wire.send(*calls)
                return wire.statuses()

            for _ in range(4):
                assert statuses() == [200, 200, 200]
            assert all(is_kept(one, call) for call in calls)
            node.users.remove_permission("role of alice", "public:*:*", "rw")
            assert statuses() == [403, 403, 403]

    run_loop(main)
