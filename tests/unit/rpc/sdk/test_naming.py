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
from app.naming.model.service_names import NameRule
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

    def __init__(self, node: FakeNode | None = None, name_rule: NameRule = NameRule.NACOS_2) -> None:
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
        self.handlers = NamingHandlers(self.node, GrpcSubscriptions(), self.infos, name_rule)
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


DUBBO = ("providers:com.foo.Outer$Inner:1.0.0:", "consumers:X:1.0:*")


def named(request: str, name: str, **fields: Any) -> bytes:
    """A request about a service of the default group."""
    body = {"namespace": "public", "groupName": "DEFAULT_GROUP", "serviceName": name, **fields}
    return wire.encode_json(request, body)


@pytest.mark.parametrize("name", [*DUBBO, "a##b", "a/b?c=d&e", "*", "é"])
def test_names_of_nacos_2_register_list_and_subscribe(asked: Asked, name: str) -> None:
    connection, instance = asked.connect(), {"ip": "10.0.0.1", "port": 20880, "clusterName": "DEFAULT"}
    answer = asked.ask(connection, named("InstanceRequest", name, type="registerInstance", instance=instance))
    assert answer["resultCode"] == 200, answer
    for request in ("ServiceQueryRequest", "SubscribeServiceRequest"):
        found = asked.ask(connection, named(request, name))["serviceInfo"]
        assert (found["name"], found["groupName"]) == (name, "DEFAULT_GROUP")
        assert [one["ip"] for one in found["hosts"]] == ["10.0.0.1"]
    assert asked.node.naming.list_services("public", "DEFAULT_GROUP") == [f"DEFAULT_GROUP@@{name}"]
    assert asked.ask(connection, named("InstanceRequest", name, type="deregisterInstance"))["resultCode"] == 200
    assert asked.ask(connection, named("ServiceQueryRequest", name))["serviceInfo"]["hosts"] == []


@pytest.mark.parametrize("name", ["服务", "a b", "a@@b", "a\u2028b", "x" * 513])
@pytest.mark.parametrize("request_type", ["InstanceRequest", "ServiceQueryRequest", "SubscribeServiceRequest"])
def test_names_that_nacos_refuses_are_refused(asked: Asked, request_type: str, name: str) -> None:
    instance = {"ip": "10.0.0.1", "port": 80, "clusterName": "DEFAULT"}
    answer = asked.ask(asked.connect(), named(request_type, name, type="registerInstance", instance=instance))
    assert answer["errorCode"] == 400
    assert "serviceName" in answer["message"]


def test_without_the_check_every_name_that_can_be_stored_is_allowed() -> None:
    asked = Asked(name_rule=NameRule.STORED)
    instance = {"ip": "10.0.0.1", "port": 80, "clusterName": "DEFAULT"}
    connection = asked.connect()
    for name, code in (("服务", 200), ("a b", 200), ("a\u2028b", 500)):
        answer = asked.ask(connection, named("InstanceRequest", name, type="registerInstance", instance=instance))
        assert answer["resultCode"] == code
