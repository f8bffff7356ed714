"""Requests that come again: answered from what is kept as long as that is true, and never else."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auth.member_calls import Callers
from app.metrics.instruments import RequestStats
from app.naming.clients.client_model import ClientInfo
from app.naming.model.json_fields import Fields
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import RegisterInstance
from app.peers import payload as wire
from app.rpc.sdk.naming import NamingHandlers, command_of
from app.rpc.sdk.service_messages import ServiceInfos
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.grpc_routes import GrpcRequest
from app.rpc.server.limits import LimitRule, LimitWatch
from distro.model.types import MemberState
from tests.support.fake_node import FakeNode, make_settings

SERVICE = "DEFAULT_GROUP@@orders"
KEY = ("public", SERVICE)


class Asked:
    """The handlers of a node, asked by its clients."""

    def __init__(self, node: FakeNode | None = None) -> None:
        self.node: Any = node or FakeNode()
        self.node.persistent_writes = None
        self.limits = LimitWatch(Path())
        self.connections = Connections(self.node.wall_ms, self.node.monotonic_ms, self.node.addresses)
        ids = itertools.count(1)
        self.infos = ServiceInfos(self.node.naming, lambda: 1, self.node.wall_ms, lambda: str(next(ids)), 1 << 20)
        self.requests = RequestStats()
        self.dispatcher = Dispatcher(
            self.connections,
            self.node.cluster,
            Callers(None, "", self.node.monotonic_ms, self.node.cluster),
            self.node.clients.own,
            self.limits,
            self.node.monotonic_ms,
            access=self.node.access,
            requests=self.requests,
        )
        self.handlers = NamingHandlers(self.node, GrpcSubscriptions(), self.infos)
        self.dispatcher.add(self.handlers.routes())
        self.at_once = 0
        """Answers that needed no handler."""

    def connect(self, port: int = 5) -> Connection:
        connection = self.connections.opened(f"ipv4:10.1.2.3:{port}", False)
        assert self.connections.take_address(connection)
        self.connections.register(connection)
        self.node.clients.own.connect(ClientInfo(connection.id, "10.1.2.3", port, "app", "v2"))
        return connection

    def ask(self, connection: Connection, message: bytes) -> dict[str, Any]:
        """The answer, as a transport asks for it."""
        known = self.dispatcher.known.find(message)
        answer = None if known is None else self.dispatcher.answer_hot(connection, known)
        self.at_once += answer is not None
        if answer is None:
            answer = asyncio.run(self.dispatcher.answer(connection, message, known))
        return wire.decode(answer).json()

    def texts(self) -> list[tuple[str, str]]:
        """The instances that are listed."""
        view = self.node.naming.service_view(*KEY)
        return [(one.ip, one.metadata.get("n", "")) for one in view.instances] if view else []

    @property
    def audited(self) -> int:
        return sum(what == "instance.register" for what, *_ in self.node.audited)


def message(kind: str, **fields: Any) -> bytes:
    named = {"namespace": "public", "serviceName": "orders", "groupName": "DEFAULT_GROUP"}
    return wire.encode(kind, orjson.dumps({**named, **fields}))


def register(n: int = 0, ip: str = "10.0.0.1", **more: Any) -> bytes:
    instance = {"ip": ip, "port": 80, "weight": 1, "metadata": {"n": str(n), **more}}
    return message("InstanceRequest", type="registerInstance", instance=instance)


DEREGISTER = message("InstanceRequest", type="deregisterInstance", instance={"ip": "10.0.0.1", "port": 80})
QUERY = message("ServiceQueryRequest", cluster="", healthyOnly=False)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_a_registration_that_changes_nothing_is_answered_as_the_first_and_written_once(asked: Asked) -> None:
    client = asked.connect()
    answers = [asked.ask(client, register()) for _ in range(5)]
    assert answers == [{"resultCode": 200, "errorCode": 0, "success": True, "type": "registerInstance"}] * 5
    assert (asked.at_once, asked.audited, asked.texts()) == (3, 1, [("10.0.0.1", "0")])
    assert asked.requests.of_loop("", "InstanceRequest").succeeded == 5


def test_a_registration_that_was_undone_registers_again(asked: Asked) -> None:
    client = asked.connect()
    for _ in range(3):
        asked.ask(client, register())
    asked.ask(client, DEREGISTER)
    assert asked.texts() == []
    asked.ask(client, register())
    assert (asked.texts(), asked.audited) == ([("10.0.0.1", "0")], 2)


def test_what_another_registration_changed_is_changed_back(asked: Asked) -> None:
    client = asked.connect()
    for _ in range(3):
        asked.ask(client, register(0))
    for n in (1, 0, 1, 0):
        asked.ask(client, register(n))
        assert asked.texts() == [("10.0.0.1", str(n))]
    batch = message("BatchInstanceRequest", type="batchRegisterInstance", instances=[{"ip": "10.0.0.9", "port": 80}])
    asked.ask(client, batch)
    assert asked.texts() == [("10.0.0.9", "")]
    asked.ask(client, register(0))
    assert asked.texts() == [("10.0.0.1", "0")]


def test_the_same_bytes_of_another_client_are_its_own(asked: Asked) -> None:
    one, two = asked.connect(5), asked.connect(6)
    for _ in range(3):
        asked.ask(one, register())
    asked.ask(two, register())
    assert len(asked.node.clients.table.publishers(*KEY)) == 2
    for client in (one, two, one, two):
        asked.ask(client, register())
    asked.node.clients.own.disconnect(one.id)
    assert asked.ask(one, register())["errorCode"] == wire.CLIENT_GONE
    assert asked.node.clients.table.publishers(*KEY) == [two.id]


def test_an_instance_with_a_generated_number_is_made_anew_each_time(asked: Asked) -> None:
    client = asked.connect()
    numbered = register(**{"preserved.instance.id.generator": "snowflake"})
    for _ in range(4):
        asked.ask(client, numbered)
    assert (asked.at_once, asked.audited) == (0, 4)


def test_a_query_sees_each_change_at_once(asked: Asked) -> None:
    client, others = asked.connect(5), asked.connect(6)

    def hosts() -> list[str]:
        return [one["ip"] for one in asked.ask(client, QUERY)["serviceInfo"]["hosts"]]

    assert hosts() == hosts() == []
    assert asked.at_once == 0  # an unknown service is not kept
    asked.ask(others, register())
    assert hosts() == hosts() == hosts() == ["10.0.0.1"]
    assert asked.at_once == 2
    asked.node.clients.own.register(others.id, RegisterInstance(SERVICE, "10.0.0.2", 80))
    assert hosts() == hosts() == ["10.0.0.2"]
    asked.ask(others, DEREGISTER)
    assert hosts() == []


def test_answers_at_once_are_those_of_the_handlers(asked: Asked) -> None:
    client = asked.connect()
    for one in (register(), register(), QUERY, message("HealthCheckRequest")):
        for _ in range(2):
            slow = asyncio.run(asked.dispatcher.answer(client, one, asked.dispatcher.known.find(one)))
        known = asked.dispatcher.known.find(one)
        assert known is not None
        assert asked.dispatcher.answer_hot(client, known) == slow


def test_a_registration_that_comes_again_counts_as_a_write() -> None:
    asked = Asked(FakeNode(settings=make_settings(**{"rollcall.limit.writesPerSecondPerAddress": "2"})))
    client = asked.connect()
    answers = [asked.ask(client, register()) for _ in range(12)]
    assert [one["success"] for one in answers] == [True] * 10 + [False] * 2
    assert answers[-1]["errorCode"] == 429
    assert asked.at_once == 10


def test_nothing_is_answered_at_once_while_it_is_to_be_traced_or_the_node_does_not_serve(asked: Asked) -> None:
    client, stranger = asked.connect(), asked.connections.opened("ipv4:10.1.2.3:7", False)
    for _ in range(3):
        asked.ask(client, register())
    known = asked.at_once
    asked.node.cluster.own_state = MemberState.STARTING
    assert asked.ask(client, register())["errorCode"] == wire.STARTING
    asked.node.cluster.own_state = MemberState.UP
    asked.limits.rule = LimitRule(traced_ips=frozenset({"10.1.2.3"}))
    asked.ask(client, register())
    assert asked.ask(stranger, register())["errorCode"] == wire.UNREGISTERED
    assert asked.at_once == known


PLAIN = {
    "ip": "10.0.0.1", "port": 80, "weight": 2, "healthy": True, "enabled": False, "clusterName": "A-1",
    "metadata": {"a": "b"},
}  # fmt: skip
READ = RegisterInstance(SERVICE, "10.0.0.1", 80, "public", "A-1", 2.0, True, False, True, {"a": "b"}, "")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, {}),
        ({"ip": "host.example"}, {"ip": "host.example"}),
        ({"port": "81"}, {"port": 81}),
        ({"port": None}, {"port": 0}),
        ({"weight": None}, {"weight": 1.0}),
        ({"weight": 1e9}, {"weight": 1e9}),
        ({"healthy": None, "enabled": None}, {"enabled": True}),
        ({"clusterName": ""}, {"cluster": "DEFAULT"}),
        ({"metadata": {"a": 1, "b": True, "c": None}}, {"metadata": {"a": "1", "b": "true"}}),
        ({"metadata": None}, {"metadata": {}}),
    ],
)
def test_an_instance_is_read_the_same_however_its_fields_are_written(
    asked: Asked, given: dict[str, Any], read: dict[str, Any]
) -> None:
    request = GrpcRequest(asked.connect(), Fields({}))
    found = command_of(request, *KEY, Fields(PLAIN | given))
    assert found == READ._replace(**read)
    assert type(found.weight) is float


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ip": ""}, "'ip' is required"),
        ({"port": 65_536}, "'port'"),
        ({"port": True}, "'port'"),
        ({"weight": True}, "'weight'"),
        ({"healthy": 1}, "'healthy'"),
        ({"enabled": "true"}, "'enabled'"),
        ({"clusterName": "a b"}, "cluster name"),
        ({"clusterName": "c" * 513}, "'clusterName'"),
        ({"metadata": {"a": ["b"]}}, "'metadata'"),
        ({"metadata": {"a": "b" * 65_536}}, "'metadata'"),
        ({"metadata": []}, "'metadata'"),
    ],
)
def test_a_field_of_an_instance_that_is_wrong_is_refused(asked: Asked, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParam, match=said):
        command_of(GrpcRequest(asked.connect(), Fields({})), *KEY, Fields(PLAIN | given))
