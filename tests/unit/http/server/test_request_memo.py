"""Requests that come again to the byte: what is kept of them, what never is, and that no answer depends on it."""

from collections.abc import Callable

import pytest

from app.http.server.request_queue import FULL_S, MARKS_MAX, REPEATED_BYTES_MAX, REPEATED_MAX, RequestMemo
from tests.support.auth import add_user, node_with_users
from tests.support.fake_node import FakeNode
from tests.support.loops import SkippingLoop, run_loop
from tests.support.served import Served, served
from tests.support.wire import request

INSTANCE = "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80"
LIST = "/nacos/v1/ns/instance/list?serviceName=a"
BEAT = "/nacos/v1/ns/instance/beat?serviceName=a&ip=10.0.0.1&port=80"
FORM = "Content-Type: application/x-www-form-urlencoded"
FULL_BEAT = request(
    "/nacos/v1/ns/instance/beat",
    "PUT",
    b'serviceName=a&beat={"ip":"10.0.0.1","port":80,"weight":2.0,"cluster":"DEFAULT","metadata":{"a":"b"}}',
    FORM,
)
REGISTER = request(INSTANCE, "POST")


class Noted:
    """A memo of texts, with a clock of its own."""

    def __init__(self, keep: Callable[[str], str | None] = lambda text: text.upper()) -> None:
        self.now_s = 0.0
        self.memo: RequestMemo[str] = RequestMemo(keep, lambda: self.now_s)

    def note(self, data: bytes, times: int = 2) -> str | None:
        for _ in range(times):
            self.memo.note(data, data.decode())
        return self.memo.find(data)


def test_what_came_twice_is_kept() -> None:
    noted = Noted()
    assert noted.note(b"one", 1) is None
    assert noted.note(b"one", 1) == "ONE"
    assert noted.memo.find(b"two") is None


def test_long_ones_and_those_that_may_not_be_are_not_kept() -> None:
    assert Noted().note(b"x" * REPEATED_BYTES_MAX) is not None
    assert Noted().note(b"x" * (REPEATED_BYTES_MAX + 1)) is None
    assert Noted(lambda _text: None).note(b"one", 5) is None


def test_what_comes_once_takes_no_room() -> None:
    noted = Noted()
    noted.note(b"first", 1)
    for number in range(MARKS_MAX):
        assert noted.note(b"%d" % number, 1) is None
    assert noted.note(b"first", 1) is None, "it was forgotten among so many"
    assert len(noted.memo._marks) <= MARKS_MAX


def test_a_full_memo_takes_no_more_for_a_while_and_then_begins_anew() -> None:
    noted = Noted()
    for number in range(REPEATED_MAX):
        noted.note(b"%d" % number)
    assert noted.note(b"more") is None
    noted.now_s = FULL_S - 0.1
    assert noted.note(b"more") is None
    assert noted.memo.find(b"0") == "0"
    noted.now_s = FULL_S
    assert noted.note(b"more") == "MORE"
    assert noted.memo.find(b"0") is None


# --- with a server ----------------------------------------------------------------------------------


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
            assert one.server._bodies_bytes == 0
            stats = one.server._hot[sent.split(b" ")[0], sent.split(b" ")[1].partition(b"?")[0]][1]
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
            one.server._bodies_bytes = 512 * 1024 * 1024
            wire.send(FULL_BEAT)
            assert wire.statuses() == [200, 200, 200, 503]

    run_loop(main)


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
