"""What members may ask through their port, and which kind of member is answered how."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auth.member_calls import Callers
from app.peers import payload as wire
from app.peers.grpc_link import OWN_KIND_ABILITY
from app.peers.grpc_links import MEMBER_LABEL
from app.replication.client_type import CLIENTS
from app.rpc.members.handlers import SMALL_BYTES, MemberHandlers
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.limits import LimitWatch
from distro.model.errors import CodecError, NotInitialized
from distro.model.types import CAPABILITY_VERSIONS, Member, MemberState
from tests.support.fake_node import StubCluster

OURS = "10.1.2.3:8848"
AT = "ipv4:10.1.2.3:5"
ID = "1_10.9.0.1_1"


@dataclass
class FakeReceiver:
    """Notes what reaches it."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    failure: Exception | None = None
    confirms: bool = True

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.failure:
            raise self.failure

    def take_frame(self, sender: str, content: bytes) -> bytes:
        self._note("frame", sender, content)
        return b'{"refused":{}}'

    def verify_frame(self, sender: str, content: bytes) -> bytes:
        self._note("verify", sender, content)
        return b'{"wanted":["k"]}'

    def query_frame(self, content: bytes) -> bytes:
        self._note("query", content)
        return b"{}"

    def take(self, sent_by: str, client_id: str, content: bytes) -> None:
        self._note("take", sent_by, client_id, content)

    def remove(self, sent_by: str, client_id: str) -> None:
        self._note("remove", sent_by, client_id)

    def confirm(self, sent_by: str, content: bytes) -> bool:
        self._note("confirm", sent_by, content)
        return self.confirms

    def client(self, client_id: str) -> bytes | None:
        return b'{"a":1}' if client_id == ID else None

    def snapshot(self) -> bytes:
        return b"[]"


class Host:
    """The dispatcher with these handlers, and nobody listed until the test says so."""

    def __init__(self) -> None:
        self.cluster = StubCluster(listed=set())
        self.receiver: Any = FakeReceiver()
        self.connections = Connections(lambda: 5_000, lambda: 1_000)
        nobody: Any = None
        callers = Callers(None, "", lambda: 1_000, self.cluster)
        self.dispatcher = Dispatcher(self.connections, self.cluster, callers, nobody, LimitWatch(Path()), lambda: 1_000)
        self.handlers = MemberHandlers(self.receiver, self.cluster, self.cluster, self.cluster)
        self.dispatcher.add(self.handlers.routes())

    def list_member(self, *, own_kind: bool) -> None:
        self.cluster.listed.add("10.1.2.3")
        capabilities = frozenset({CAPABILITY_VERSIONS} if own_kind else ())
        self.cluster.others = [Member(OURS, MemberState.UP, capabilities)]

    def connect(self, labels: Mapping[str, str] | None = None, *, on_cluster_port: bool = True) -> Connection:
        connection = self.connections.opened(AT, on_cluster_port)
        body = orjson.dumps({"labels": {"source": "cluster", **(labels or {})}, "abilityTable": {}})
        assert self.dispatcher.take(connection, wire.encode("ConnectionSetupRequest", body))
        return connection

    def ask(self, connection: Connection, kind: str, **fields: Any) -> dict[str, Any]:
        async def main() -> bytes:
            return await self.dispatcher.answer(connection, wire.encode_json(kind, fields))

        answer = wire.decode(asyncio.run(main()))
        return answer.json() | {"@type": answer.type}

    def distro(self, connection: Connection, operation: str, content: bytes = b"", key: str = ID) -> dict[str, Any]:
        data = {
            "distroKey": {"resourceKey": key, "resourceType": CLIENTS},
            "content": base64.b64encode(content).decode(),
        }
        return self.ask(connection, "DistroDataRequest", dataOperation=operation, distroData=data)


@pytest.fixture
def host() -> Any:
    host = Host()
    yield host
    host.handlers.stop()


def content_of(answer: dict[str, Any]) -> bytes:
    return base64.b64decode(answer["distroData"]["content"])


def abilities(connection: Connection) -> dict[str, bool]:
    [ack] = [wire.decode(one) for one in connection.controls]
    found: dict[str, bool] = ack.json()["abilityTable"]
    return found


def test_a_member_of_our_kind_sends_frames(host: Host) -> None:
    host.list_member(own_kind=True)
    connection = host.connect({MEMBER_LABEL: OURS})
    assert abilities(connection)[OWN_KIND_ABILITY] is True
    assert content_of(host.distro(connection, "CHANGE", b"f")) == b'{"refused":{}}'
    assert content_of(host.distro(connection, "VERIFY", b"v")) == b'{"wanted":["k"]}'
    assert content_of(host.distro(connection, "QUERY", b"[]")) == b"{}"
    assert host.receiver.calls == [("frame", OURS, b"f"), ("verify", OURS, b"v"), ("query", b"[]")]
    assert host.distro(connection, "SNAPSHOT")["resultCode"] == 500, "that goes over HTTP"


def test_who_is_listed_later_is_taken_then(host: Host) -> None:
    """Each member reads the new list at a moment of its own; connections are made before all have."""
    connection = host.connect({MEMBER_LABEL: OURS})
    assert abilities(connection)[OWN_KIND_ABILITY] is True, (
        "or it would take this one for real Nacos as long as it lasts"
    )
    refused = host.distro(connection, "CHANGE", b"f")
    assert (refused["@type"], refused["errorCode"], host.receiver.calls) == ("ErrorResponse", 403, [])
    host.list_member(own_kind=True)
    assert host.distro(connection, "CHANGE", b"f")["resultCode"] == 200
    host.cluster.listed.clear()
    assert host.distro(connection, "CHANGE", b"f")["errorCode"] == 403


def test_a_wrong_name_is_refused(host: Host) -> None:
    host.list_member(own_kind=True)
    connection = host.connect({MEMBER_LABEL: "10.7.7.7:8848"})
    assert (host.distro(connection, "CHANGE", b"f")["errorCode"], host.receiver.calls) == (403, [])


def test_real_nacos_tells_of_one_client_a_call(host: Host) -> None:
    host.list_member(own_kind=False)
    connection = host.connect()
    assert OWN_KIND_ABILITY not in abilities(connection)
    for operation in ("ADD", "CHANGE", "DELETE", "VERIFY"):
        assert host.distro(connection, operation, b"c")["resultCode"] == 200
    assert host.receiver.calls == [
        ("take", OURS, ID, b"c"),
        ("take", OURS, ID, b"c"),
        ("remove", OURS, ID),
        ("confirm", OURS, b"c"),
    ]
    host.receiver.confirms = False
    assert host.distro(connection, "VERIFY", b"c")["resultCode"] == 500
    assert content_of(host.distro(connection, "QUERY")) == b'{"a":1}'
    assert "distroData" not in host.distro(connection, "QUERY", key="other")
    assert content_of(host.ask(connection, "DistroDataRequest", dataOperation="SNAPSHOT")) == b"[]"


def test_a_report_says_which_member_a_connection_is_of(host: Host) -> None:
    host.list_member(own_kind=False)
    connection = host.connect()
    answer = host.ask(connection, "MemberReportRequest", node={"address": "10.1.2.3:9999"})
    assert (answer["resultCode"], answer["node"]["address"]) == (200, host.cluster.self_address)
    host.distro(connection, "DELETE")
    assert host.receiver.calls == [("remove", "10.1.2.3:9999", ID)]
    assert host.ask(connection, "MemberReportRequest", node={})["errorCode"] == 400


@pytest.mark.parametrize("failure", [CodecError("field 'x' is wrong"), NotInitialized("not yet")])
def test_what_cannot_be_taken_is_no_success(host: Host, failure: Exception) -> None:
    host.list_member(own_kind=False)
    host.receiver.failure = failure
    answer = host.distro(host.connect(), "CHANGE", b"c")
    assert (answer["@type"], answer["resultCode"], answer["message"]) == ("DistroDataResponse", 500, str(failure))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "field 'dataOperation' is required"),
        ({"dataOperation": "STEAL"}, "field 'dataOperation' is not an operation"),
        ({"dataOperation": "CHANGE", "distroData": []}, "field 'distroData' should be an object"),
        (
            {"dataOperation": "CHANGE", "distroData": {"distroKey": {"resourceType": CLIENTS}, "content": "§"}},
            "field 'content' should be base64",
        ),
        (
            {"dataOperation": "CHANGE", "distroData": {"distroKey": {"resourceType": CLIENTS}, "content": 5}},
            "field 'content' should be base64",
        ),
    ],
)
def test_a_wrong_field_is_named(host: Host, fields: dict[str, Any], text: str) -> None:
    host.list_member(own_kind=False)
    answer = host.ask(host.connect(), "DistroDataRequest", **fields)
    assert (answer["@type"], answer["errorCode"]) == ("ErrorResponse", 400)
    assert text in answer["message"]


def test_another_resource_type_and_another_port(host: Host) -> None:
    host.list_member(own_kind=False)
    data = {"distroKey": {"resourceKey": "k", "resourceType": "other"}}
    answer = host.ask(host.connect(), "DistroDataRequest", dataOperation="CHANGE", distroData=data)
    assert (answer["resultCode"], host.receiver.calls) == (500, [])
    sdk = host.connect(on_cluster_port=False)
    assert host.ask(sdk, "DistroDataRequest", dataOperation="SNAPSHOT")["errorCode"] == 502


def test_what_is_long_is_taken_elsewhere_than_on_the_loop(host: Host) -> None:
    host.list_member(own_kind=False)
    content = b"c" * SMALL_BYTES
    assert host.distro(host.connect(), "CHANGE", content)["resultCode"] == 200
    assert host.receiver.calls == [("take", OURS, ID, content)]
