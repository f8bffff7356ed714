"""Who may send which request over gRPC while users are asked for: the whole table."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auth.access_rules import Action, Scope, Target
from app.auth.member_calls import Callers
from app.auth.refusals import NOT_PERMITTED, TOKEN_INVALID, UNKNOWN_USER
from app.peers import payload as wire
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute
from app.rpc.server.limits import LimitWatch
from scripts.docs.access import rpc_routes
from tests.support.auth import ADMIN, add_user, node_with_users, token_of
from tests.support.fake_node import FakeNode, StubCluster

ORDERS = {
    "namespace": "dev",
    "groupName": "shop",
    "serviceName": "orders",
    "groupKeyPattern": "dev>>shop>>order*",
}
RULE = {
    Target.SERVICE: "dev:shop:naming/orders",
    Target.GROUP: "dev:shop:*",
    Target.PATTERN: "dev:shop:naming/order*",
}


class Host:
    """A dispatcher with the rows of the table, whose handlers answer at once, and a client that is set up."""

    def __init__(self, node: FakeNode, *, on_cluster_port: bool = False) -> None:
        self.node = node
        self.asked: list[GrpcRequest] = []
        self.cluster = StubCluster()
        connections = Connections(node.wall_ms, node.monotonic_ms)
        self.refused: list[tuple[str, str, str, str]] = []
        self.dispatcher = Dispatcher(
            connections,
            self.cluster,
            Callers(None, "", node.monotonic_ms, self.cluster),
            node.clients.own,
            LimitWatch(Path()),
            node.monotonic_ms,
            access=node.access,
            on_refused=lambda *told: self.refused.append(told),
        )

        async def handler(asked: GrpcRequest) -> Mapping[str, Any]:
            self.asked.append(asked)
            return wire.success()

        rows = rpc_routes()
        self.dispatcher.add({kind: GrpcRoute(handler, row.answer_type, row.access) for kind, row in rows.items()})
        self.connection: Connection = connections.opened("ipv4:10.9.9.9:5", on_cluster_port)
        connections.register(self.connection)

    def ask(self, kind: str, headers: Mapping[str, str], fields: Mapping[str, Any] = ORDERS) -> tuple[str, int, str]:
        """The type of an answer, its error code, and its text."""
        data = wire.encode(kind, orjson.dumps(fields), headers=headers)
        answer = wire.decode(asyncio.run(self.dispatcher.answer(self.connection, data)))
        body = answer.json()
        return answer.type, body["errorCode"], body.get("message", "")


@pytest.fixture(scope="module")
def node() -> FakeNode:
    return node_with_users()


@pytest.fixture(scope="module")
def tokens(node: FakeNode) -> dict[object, str]:
    made: dict[object, str] = {
        (target, action): add_user(node, f"{target.value} {action.value}", (rule, action.value))
        for target, rule in RULE.items()
        for action in Action
    }
    made["nothing"] = add_user(node, "nothing")
    made["other"] = add_user(node, "other", ("prod:*:*", "rw"), ("dev:other:*", "rw"))
    made["admin"] = token_of(node, ADMIN)
    return made


@pytest.mark.parametrize("kind", sorted(rpc_routes()))
def test_each_row_of_the_table_is_kept(kind: str, node: FakeNode, tokens: dict[object, str]) -> None:
    """Without a token, with one without rights, with the rights of others, with the right, as an administrator."""
    host, row = Host(node), rpc_routes()[kind]

    def refusal(token: str) -> str:
        answer_type, code, text = host.ask(kind, {"accessToken": token} if token else {})
        if code == 0:
            return ""
        if row.access.scope is Scope.NAMING:
            assert (answer_type, code) == (row.answer_type, 403), "a library reads the answer of its own type alone"
        return text

    if row.access.scope is Scope.MEMBERS:
        for token in ("", tokens["nothing"], tokens["admin"]):
            assert "from sdk is forbidden" in refusal(token)
        on_cluster_port = Host(node, on_cluster_port=True)
        assert on_cluster_port.ask(kind, {"accessToken": tokens["admin"]})[1] == 403
        return
    assert refusal("") == UNKNOWN_USER
    assert refusal("x.y.z") == TOKEN_INVALID
    assert refusal(tokens["admin"]) == ""
    assert refusal(tokens["nothing"]) == NOT_PERMITTED
    assert refusal(tokens["other"]) == NOT_PERMITTED
    for action in Action:
        allowed = row.access.scope is Scope.NAMING and action is row.access.action
        assert refusal(tokens[row.access.target, action]) == ("" if allowed else NOT_PERMITTED)


def test_health_checks_and_greetings_need_no_user(node: FakeNode) -> None:
    host = Host(node)
    assert host.ask("HealthCheckRequest", {})[1] == 0
    assert host.ask("ServerCheckRequest", {})[1] == 0


def test_a_token_may_come_as_authorization(node: FakeNode, tokens: dict[object, str]) -> None:
    host = Host(node)
    assert host.ask("ServiceQueryRequest", {"Authorization": f"Bearer {tokens['admin']}"})[1] == 0
    assert host.asked[0].token == tokens["admin"]


def test_a_service_name_with_its_group_is_not_hidden_by_a_group(node: FakeNode, tokens: dict[object, str]) -> None:
    fields = {"namespace": "dev", "groupName": "other", "serviceName": "shop@@orders"}
    answer = Host(node).ask("SubscribeServiceRequest", {"accessToken": tokens["other"]}, fields)
    assert answer == ("SubscribeServiceResponse", 403, NOT_PERMITTED)


def test_blanks_around_the_names_of_a_persistent_instance_hide_nothing(node: FakeNode) -> None:
    token = add_user(node, "blanks", (" dev:*:*", "w"), ("*:shop:naming/ orders", "w"))
    fields = {"namespace": " dev", "groupName": "shop", "serviceName": "orders"}
    assert Host(node).ask("PersistentInstanceRequest", {"accessToken": token}, fields)[2] == NOT_PERMITTED


def test_the_latest_token_is_the_connections(node: FakeNode, tokens: dict[object, str]) -> None:
    host = Host(node)
    host.ask("ServiceQueryRequest", {"accessToken": tokens["admin"]})
    assert host.connection.session is not None
    assert host.connection.session.user == ADMIN
    host.connection.rights_version = 7
    host.ask("ServiceQueryRequest", {"accessToken": tokens["admin"]})
    assert host.connection.rights_version == 7
    host.ask("ServiceQueryRequest", {"accessToken": tokens[Target.SERVICE, Action.READ]})
    assert host.connection.session.user != ADMIN
    assert host.connection.rights_version == -1


def test_what_is_refused_is_told(node: FakeNode) -> None:
    host = Host(node)
    host.ask("ServiceQueryRequest", {})
    host.ask("DistroDataRequest", {})
    assert [told[:3] for told in host.refused] == [
        ("access.refused", "ServiceQueryRequest", "10.9.9.9"),
        ("access.refused", "DistroDataRequest", "10.9.9.9"),
    ]
    assert host.refused[0][3] == UNKNOWN_USER
