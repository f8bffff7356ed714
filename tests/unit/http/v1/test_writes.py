"""Writes that a member passes on in one call: each is decided and executed as if it came alone."""

from urllib.parse import urlencode

import orjson
import pytest

from app.commands.write_caller import BATCH_CHANGE
from app.http.api.call import CHANGE, CLOCK, WANTS_CHANGE
from app.metrics.audit_trail import Actor, AuditTrail
from app.naming.registry.operations import RegisterInstance
from app.peers.write_batches import (
    CALLS_MAX,
    WRITES_PATH,
    BatchedAnswer,
    BatchedCall,
    DoneAnswer,
    decode_answers,
    encode_calls,
)
from distro.model.errors import CodecError
from tests.support.auth import ADMIN, node_with_users, token_of
from tests.support.fake_node import SELF, FakeNode
from tests.support.loops import SkippingLoop, run_loop
from tests.support.served import served
from tests.support.wire import Received, request

MEMBER_IP = "127.0.0.1"
INSTANCE = "/v1/ns/instance"
LATE = f"{SELF}~1 1"


def write(ip: str, method: str = "POST", path: str = INSTANCE, token: str | None = None, **more: str) -> BatchedCall:
    query = urlencode({"serviceName": "a", "ip": ip, "port": "80", **more}).encode()
    return BatchedCall(method, path, query, b"", None, "curl", "10.9.9.9", token and f"Bearer {token}", None)


def asked(node: FakeNode, body: bytes, *lines: str, client_ip: str = MEMBER_IP, hot: bool = True) -> Received:
    found: list[Received] = []

    async def main(_: SkippingLoop) -> None:
        with served(node, hot=hot) as one:
            sent = request(f"/nacos{WRITES_PATH}", "PUT", body, "User-Agent: Nacos-Server:1.4.8", *lines)
            found.append(await one.reply(sent.replace(b"\r\n", b"\r\nConnection: close\r\n", 1), client_ip))

    run_loop(main)
    return found[0]


def answers(node: FakeNode, calls: list[BatchedCall], *lines: str, hot: bool = True) -> list[BatchedAnswer | None]:
    """The answers as their clients would get them, with the change beside those that made one."""
    reply = asked(node, encode_calls(calls), *lines, hot=hot)
    assert reply.status == 200, reply.body
    return [
        BatchedAnswer(200, b"ok", {CHANGE.encode(): text_of(one)}) if isinstance(one, DoneAnswer) else one
        for one in decode_answers(reply.body, len(calls))
    ]


def text_of(one: DoneAnswer) -> bytes:
    """The text of a change for a member that did not ask for objects; empty for none."""
    assert not isinstance(one.change, dict)
    return one.change or b""


def hosts(node: FakeNode) -> set[str]:
    view = node.naming.service_view("public", "DEFAULT_GROUP@@a")
    return {one.ip for one in view.instances} if view else set()


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def test_each_write_is_executed_in_its_turn_with_its_own_outcome(node: FakeNode) -> None:
    one, wrong, two, gone, same = answers(
        node,
        [
            write("10.0.0.1", weight="3"),
            write("no address"),
            write("10.0.0.2"),
            write("10.0.0.2", "DELETE"),
            write("10.0.0.1", weight="3"),
        ],
    )
    assert hosts(node) == {"10.0.0.1"}
    assert wrong
    assert (wrong.status, CHANGE.encode() in wrong.headers) == (400, False)
    for done in (one, two, gone, same):
        assert done
        assert (done.status, done.body) == (200, b"ok")
        assert orjson.loads(done.headers[CHANGE.encode()])["key"].endswith("DEFAULT_GROUP@@a")
    assert one
    assert gone
    assert "short" in orjson.loads(one.headers[CHANGE.encode()])
    assert "age" in orjson.loads(gone.headers[CHANGE.encode()])


def test_beats_and_writes_of_other_forms_are_taken(node: FakeNode) -> None:
    body, kind = b"serviceName=a&ip=10.0.0.7&port=80", "application/x-www-form-urlencoded"
    form = BatchedCall("POST", INSTANCE, b"", body, kind, "", "", None, None)
    registered, beat = answers(node, [form, write("10.0.0.7", "PUT", f"{INSTANCE}/beat")])
    assert registered
    assert registered.status == 200
    assert beat
    assert orjson.loads(beat.body)["code"] == 10_200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{INSTANCE}/list"),
        ("PUT", WRITES_PATH),
        ("PUT", "/v1/ns/distro/beats"),
        ("POST", "/v1/ns/service"),
        ("PUT", "/v1/ns/operator/switches"),
        ("POST", "/v1/auth/users"),
        ("POST", "/nowhere"),
    ],
)
def test_only_writes_that_the_loop_answers_are_executed(node: FakeNode, method: str, path: str) -> None:
    records = dict(node.disk.records)
    before, other = answers(node, [write("10.0.0.1"), write("10.0.0.2", method, path)])
    assert before
    assert other is None
    assert hosts(node) == {"10.0.0.1"}
    assert dict(node.disk.records) == records


def test_a_write_that_would_wait_for_the_disk_is_not_executed(node: FakeNode) -> None:
    assert answers(node, [write("10.0.0.1", ephemeral="false")]) == [None]
    assert not node.disk.records


def test_beside_the_loop_nothing_is_executed(node: FakeNode) -> None:
    assert answers(node, [write("10.0.0.1"), write("10.0.0.2")], hot=False) == [None, None]
    assert hosts(node) == set()


def test_nothing_is_executed_for_who_is_no_member(node: FakeNode) -> None:
    assert asked(node, encode_calls([write("10.0.0.1")]), client_ip="10.9.9.9").status == 403
    assert hosts(node) == set()


@pytest.mark.parametrize("body", [b"{}", b'[["POST"]]', encode_calls([write("10.0.0.1")] * (CALLS_MAX + 1))])
def test_nothing_of_a_body_that_is_no_batch_is_executed(node: FakeNode, body: bytes) -> None:
    assert asked(node, body).status == 400
    assert hosts(node) == set()


def test_nothing_is_executed_too_late(node: FakeNode) -> None:
    node.cluster.over = {LATE}
    for one in answers(node, [write("10.0.0.1"), write("10.0.0.2")], f"Rollcall-Deadline: {LATE}"):
        assert one
        assert (one.status, one.body[:10]) == (503, b"server is ")
    assert hosts(node) == set()


def test_a_member_that_is_not_the_owner_executes_nothing(node: FakeNode) -> None:
    node.cluster.owner = "10.0.0.9:8848"
    (one,) = answers(node, [write("10.0.0.1")])
    assert one
    assert (one.status, one.headers[b"rollcall-not-responsible"]) == (400, b"1")
    assert hosts(node) == set()


def test_each_write_needs_the_right_of_its_own_user() -> None:
    node = node_with_users()
    token = token_of(node, ADMIN)
    allowed, nobody, forged = answers(
        node, [write("10.0.0.1", token=token), write("10.0.0.2"), write("10.0.0.3", token=f"{token}x")]
    )
    assert [one and one.status for one in (allowed, nobody, forged)] == [200, 403, 403]
    assert hosts(node) == {"10.0.0.1"}


def test_the_audit_names_the_client_and_the_member_that_passed_its_write_on(node: FakeNode) -> None:
    answers(node, [write("10.0.0.1"), write("10.0.0.2")._replace(agent="", address="")])
    trail: AuditTrail = node.instruments.audit
    assert trail.actors == [  # type: ignore[attr-defined]
        Actor("10.9.9.9", "", "curl", MEMBER_IP),
        Actor(MEMBER_IP, "", "Nacos-Server:1.4.8"),
    ]


def test_the_routes_of_the_writes_are_counted(node: FakeNode) -> None:
    answers(node, [write("10.0.0.1"), write("no address")])
    counted = {(one.method, one.route): dict(one.statuses) for one in node.instruments.http.read()}
    assert counted["POST", INSTANCE] == {200: 1, 400: 1}


def test_changes_are_objects_with_one_clock_for_a_member_that_reads_them(node: FakeNode) -> None:
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@a", "10.0.0.2", 80))
    calls = [write("10.0.0.1", metadata='{"\u00fc":"\\""}'), write("no address"), write("10.0.0.2", "DELETE")]
    reply = asked(node, encode_calls(calls), f"{WANTS_CHANGE}: {BATCH_CHANGE}")
    clock = reply.headers[CLOCK]
    assert clock.startswith(f"{SELF}~1 ")
    come, wrong, gone = decode_answers(reply.body, 3, clock)
    assert isinstance(come, DoneAnswer)
    assert isinstance(come.change, dict)
    assert come.change["short"]["metadata"] == {"\u00fc": '"'}
    assert isinstance(wrong, BatchedAnswer)
    assert wrong.status == 400
    assert isinstance(gone, DoneAnswer)
    assert isinstance(gone.change, dict)
    assert gone.change.keys() == {"key", "id", "version", "age", "keep"}
    assert {come.clock, gone.clock} == {clock}


def test_a_write_of_v3_has_its_change_with_the_clock_of_the_batch_beside_its_own_answer(node: FakeNode) -> None:
    path = "/v3/client/ns/instance"
    calls = [write("10.0.0.1", path=path), write("10.0.0.9", path=path, heartBeat="true")]
    reply = asked(node, encode_calls(calls), f"{WANTS_CHANGE}: {BATCH_CHANGE}")
    clock = reply.headers[CLOCK]
    registered, beaten = decode_answers(reply.body, 2, clock)
    assert isinstance(registered, BatchedAnswer)
    assert isinstance(beaten, BatchedAnswer)
    assert orjson.loads(registered.body) == {"code": 0, "message": "success", "data": "ok"}
    assert orjson.loads(registered.headers[CHANGE.encode()])["short"]["ip"] == "10.0.0.1"
    assert registered.headers[CLOCK.lower().encode()] == clock.encode()
    assert orjson.loads(beaten.body)["code"] == 21_003
    assert CLOCK.lower().encode() not in beaten.headers
    assert hosts(node) == {"10.0.0.1"}


def test_the_changes_of_both_forms_are_the_same(node: FakeNode) -> None:
    other = FakeNode()
    calls = [write("10.0.0.1"), write("10.0.0.1"), write("10.0.0.3", "DELETE"), write("10.0.0.1", "DELETE")]
    texts = decode_answers(asked(node, encode_calls(calls)).body, len(calls))
    reply = asked(other, encode_calls(calls), f"{WANTS_CHANGE}: {BATCH_CHANGE}")
    objects = decode_answers(reply.body, len(calls), "clock")
    for one, two in zip(texts, objects, strict=True):
        assert isinstance(one, DoneAnswer)
        assert isinstance(two, DoneAnswer)
        assert (orjson.loads(one.change) if isinstance(one.change, bytes) else one.change) == two.change


@pytest.mark.parametrize("entry", [[1], ["text"], [[]], []])
def test_a_change_that_is_no_object_is_refused(entry: list[object]) -> None:
    with pytest.raises(CodecError):
        decode_answers(orjson.dumps([entry]), 1)


def test_an_answer_of_another_length_is_refused(node: FakeNode) -> None:
    reply = asked(node, encode_calls([write("10.0.0.1")]))
    with pytest.raises(CodecError):
        decode_answers(reply.body, 2)
