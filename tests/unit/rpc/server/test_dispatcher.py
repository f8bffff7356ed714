"""The order of checks before a handler, how refusals are answered, and how a client is set up."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auth.access_rules import MEMBERS, PUBLIC, READ, WRITE, naming
from app.auth.member_calls import Callers
from app.machine.limits.client_addresses import AddressTable
from app.naming.clients.client_model import ClientInfo
from app.naming.model.nacos_errors import ClientGone, InvalidParam, Unavailable
from app.peers import payload as wire
from app.rpc.server.connections import LABELS_CHARS_MAX, Connection, Connections
from app.rpc.server.dispatcher import HEALTHY, Dispatcher
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute
from app.rpc.server.limits import LimitRule, LimitWatch
from distro.model.types import MemberState
from tests.support.fake_node import StubCluster
from tests.support.identified import HEADER, OLD, IdentifiedMember

PEER = "ipv4:10.1.2.3:5"
NAMING = {"module": "naming", "AppName": "shop"}


@dataclass
class Known:
    """Keeps the clients that connected; handlers use the other operations."""

    infos: list[ClientInfo] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def connect(self, info: ClientInfo) -> None:
        if self.failure:
            raise self.failure
        self.infos.append(info)

    def disconnect(self, client_id: str) -> bool:
        self.gone.append(client_id)
        return True


class Host:
    """A dispatcher over connections, with a clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.cluster = StubCluster(listed={"10.1.2.3"})
        self.clients: Any = Known()
        self.limits = LimitWatch(Path())
        self.connections = Connections(lambda: 5_000, lambda: self.now_ms)
        self.answered: list[tuple[str, str, bool]] = []
        self.pauses: list[int] = []
        """One for each time that a pause of the process was asked for."""
        self.dispatcher = Dispatcher(
            self.connections,
            self.cluster,
            Callers(None, "", lambda: self.now_ms, self.cluster),
            self.clients,
            self.limits,
            lambda: self.now_ms,
            on_answer=lambda *answer: self.answered.append(answer),
            check_pause=lambda: self.pauses.append(1),
        )

    def connect(self, peer: str = PEER, *, on_cluster_port: bool = False) -> Connection:
        return self.connections.opened(peer, on_cluster_port)

    def ask(
        self, connection: Connection, kind: str, body: bytes = b"{}", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        message = wire.encode(kind, body, headers=headers)
        known = self.dispatcher.known.find(message)
        data = None if known is None else self.dispatcher.answer_hot(connection, known)
        answer = wire.decode(data or asyncio.run(self.dispatcher.answer(connection, message, known)))
        return answer.json() | {"@type": answer.type}

    def set_up(self, connection: Connection, client_ip: str = "", **fields: Any) -> bool:
        body = orjson.dumps({"labels": NAMING, "clientVersion": "v2", **fields})
        return self.dispatcher.take(connection, wire.encode("ConnectionSetupRequest", body, client_ip))


def waiting(connection: Connection) -> list[tuple[str, dict[str, Any]]]:
    """Take the messages that wait to be written to a client."""
    messages = [wire.decode(one) for one in connection.controls]
    connection.controls.clear()
    for one in messages:
        assert not one.type.endswith("Request") or one.json()["headers"] == {}, "the Rust SDK drops it"
    return [(one.type, one.json()) for one in messages]


def route(outcome: Mapping[str, Any] | Exception, *, members_only: bool = False) -> GrpcRoute:
    async def handler(_asked: GrpcRequest) -> Mapping[str, Any]:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return GrpcRoute(handler, "XResponse", MEMBERS if members_only else PUBLIC)


class TestCalls:
    def test_a_node_that_does_not_serve_says_so_before_all_else(self) -> None:
        host = Host()
        connection = host.connect()
        for state in (MemberState.STARTING, MemberState.DOWN):
            host.cluster.own_state = state
            for kind in ("ServerCheckRequest", "Nope", "HealthCheckRequest"):
                connection.active_ms = 0
                assert host.ask(connection, kind)["errorCode"] == 300
                assert connection.active_ms > 0, "this node refuses, and the client is no less alive"
        host.cluster.own_state = MemberState.UP
        assert host.ask(connection, "ServerCheckRequest")["connectionId"] == connection.id

    def test_the_order_of_refusals(self) -> None:
        host = Host()
        host.dispatcher.add({"XRequest": route({})})
        connection = host.connect()
        assert host.ask(connection, "Nope", b"{")["errorCode"] == 302
        assert host.ask(connection, "XRequest", b"{")["errorCode"] == 301
        host.set_up(connection)
        assert host.ask(connection, "XRequest", b"{")["errorCode"] == 502
        assert host.ask(connection, "XRequest")["@type"] == "XResponse"

    def test_no_read_is_answered_before_this_node_has_caught_up(self) -> None:
        host = Host()
        writes = GrpcRoute(route({}).handler, "XResponse", naming(WRITE))
        reads = replace(writes, access=naming(READ), hot=lambda *_: HEALTHY)
        host.dispatcher.add({"ReadRequest": reads, "WriteRequest": writes})
        connection = host.connect()
        host.set_up(connection)
        host.pauses.clear()
        by_handler = (False, "XResponse")
        for is_behind, expected in (by_handler, by_handler, (True, "ErrorResponse"), (False, "HealthCheckResponse")):
            host.cluster.is_behind = is_behind
            assert host.ask(connection, "ReadRequest")["@type"] == expected
            assert host.ask(connection, "WriteRequest")["@type"] == "XResponse"
            assert host.ask(connection, "HealthCheckRequest")["@type"] == "HealthCheckResponse"
        assert len(host.pauses) == 12, "each call may be the first one after a pause"

    def test_a_health_check_of_an_unknown_connection_fails_in_a_way_that_sdks_take_for_a_failure(self) -> None:
        host = Host()
        answer = host.ask(host.connect(), "HealthCheckRequest")
        assert (answer["@type"], answer["success"]) == ("ErrorResponse", False)
        assert not 300 <= answer["errorCode"] < 400

    def test_what_is_for_members_is_refused_on_the_port_of_sdks(self) -> None:
        host = Host()
        host.dispatcher.add({"XRequest": route({}, members_only=True)})
        for on_cluster_port, expected in ((False, "ErrorResponse"), (True, "XResponse")):
            connection = host.connect(on_cluster_port=on_cluster_port)
            host.set_up(connection)
            assert host.ask(connection, "XRequest")["@type"] == expected

    def test_real_nacos_is_a_member_from_its_first_call_with_the_secret(self) -> None:
        """Nacos 2.5 and 3 send it with the calls for members, and not with the setup of the connection."""
        host, here = Host(), IdentifiedMember("10.0.0.1", nacos="10.1.2.3:8848")
        here.listed = {"10.1.2.3:8848", "10.1.2.4:8848"}
        host.dispatcher = Dispatcher(
            host.connections, host.cluster, here.callers, host.clients, host.limits, lambda: host.now_ms
        )
        host.dispatcher.add({"XRequest": route({}, members_only=True)})
        labels = {"source": "cluster"}
        assert not host.set_up(host.connect("ipv4:10.1.2.4:5", on_cluster_port=True), labels=labels), "not named"
        connection = host.connect(on_cluster_port=True)
        assert host.set_up(connection, labels=labels)
        assert (host.ask(connection, "XRequest")["errorCode"], connection.is_member) == (403, False)
        assert host.connections.sdk_count == 1
        for _ in range(2):
            assert host.ask(connection, "XRequest", headers={HEADER: OLD})["@type"] == "XResponse"
            assert (connection.is_member, host.connections.sdk_count) == (True, 0)
        host.dispatcher.ended(connection)
        assert (host.connections.sdk_count, host.connections.count_of_ip("10.1.2.3")) == (0, 0)

    @pytest.mark.parametrize(
        ("error", "code"),
        [(InvalidParam("text"), 400), (Unavailable("text"), 503), (ClientGone("text"), -401)],
    )
    def test_a_refusal_has_its_code_and_its_text(self, error: Exception, code: int) -> None:
        host = Host()
        host.dispatcher.add({"XRequest": route(error)})
        connection = host.connect()
        host.set_up(connection)
        answer = host.ask(connection, "XRequest")
        assert (answer["@type"], answer["errorCode"], answer["message"]) == ("ErrorResponse", code, "text")

    def test_what_goes_wrong_inside_is_logged_and_not_shown(self, caplog: pytest.LogCaptureFixture) -> None:
        host = Host()
        host.dispatcher.add({"XRequest": route(RuntimeError("secret"))})
        connection = host.connect()
        host.set_up(connection)
        answer = host.ask(connection, "XRequest")
        assert (answer["errorCode"], "secret" in answer["message"]) == (500, False)
        assert "secret" in caplog.text

    def test_calls_and_answers_keep_a_connection_active(self) -> None:
        host = Host()
        connection = host.connect()
        host.set_up(connection)
        host.now_ms = 2_000
        host.ask(connection, "Nope")
        assert connection.active_ms == 1_000
        host.ask(connection, "HealthCheckRequest")
        assert connection.active_ms == 2_000
        host.now_ms = 3_000
        host.dispatcher.take(connection, wire.encode("ClientDetectionResponse", b'{"resultCode":200}'))
        assert connection.active_ms == 3_000

    def test_clients_that_the_rule_names_are_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "app.rpc.server.dispatcher")
        host = Host()
        connection = host.connect()
        host.set_up(connection, "10.9.9.9")
        host.ask(connection, "HealthCheckRequest", b'{"a":1}')
        assert "HealthCheckRequest" not in caplog.text
        host.limits.rule = LimitRule(traced_ips=frozenset({"10.9.9.9"}))
        host.ask(connection, "HealthCheckRequest", b'{"a":1}')
        assert "HealthCheckRequest" not in caplog.text, "the client only says that it is there"
        host.limits.rule = LimitRule(traced_ips=frozenset({connection.remote_ip}))
        host.ask(connection, "HealthCheckRequest", b'{"a":1}')
        assert '{"a":1}' in caplog.text


class TestSetup:
    def test_a_client_is_known_by_what_it_says(self) -> None:
        host = Host()
        connection = host.connect()
        assert host.set_up(connection, "10.9.9.9", tenant="t")
        assert host.clients.infos == [ClientInfo(connection.id, "10.9.9.9", 5, "shop", "v2")]
        assert (connection.registered, connection.is_member, waiting(connection)) == (True, False, [])
        assert host.set_up(connection)
        assert len(host.clients.infos) == 1
        host.dispatcher.ended(connection)
        host.dispatcher.ended(connection)
        assert host.clients.gone == [connection.id]

    def test_abilities_are_answered_with_ours(self) -> None:
        host = Host()
        connection = host.connect()
        host.set_up(connection, abilityTable={})
        [(kind, fields)] = waiting(connection)
        abilities = {"supportPersistentInstanceByGrpc": True, "fuzzyWatch": True}
        assert (kind, fields["abilityTable"]) == ("SetupAckRequest", abilities)

    def test_a_connection_for_something_else_publishes_nothing(self) -> None:
        host = Host()
        connection = host.connect()
        assert host.set_up(connection, labels={"module": "config"})
        assert (connection.registered, host.clients.infos) == (True, [])

    @pytest.mark.parametrize(
        "fields",
        [
            {"labels": []},
            {"labels": {"x": "y" * LABELS_CHARS_MAX}},
            {"clientVersion": 1},
            {"tenant": {}},
            {"abilityTable": []},
        ],
    )
    def test_a_wrong_field_is_answered_and_another_try_may_follow(self, fields: dict[str, Any]) -> None:
        host = Host()
        connection = host.connect()
        assert host.set_up(connection, **fields)
        assert not connection.registered
        [(kind, answer)] = waiting(connection)
        assert (kind, answer["errorCode"]) == ("ErrorResponse", 502)
        assert host.set_up(connection)
        assert connection.registered

    @pytest.mark.parametrize("why", ["starting", "limit", "full"])
    def test_who_cannot_be_taken_is_sent_elsewhere(self, why: str) -> None:
        host = Host()
        connection = host.connect()
        if why == "starting":
            host.cluster.own_state = MemberState.STARTING
        elif why == "limit":
            host.limits.rule = LimitRule(per_ip={"10.1.2.3": 0})
        else:
            host.clients.failure = Unavailable("full")
        assert not host.set_up(connection)
        assert [kind for kind, _ in waiting(connection)] == ["ConnectResetRequest"]
        assert (connection.registered, host.clients.infos) == (False, [])

    def test_only_who_comes_from_a_member_through_its_port_is_one(self) -> None:
        host = Host()
        host.limits.rule = LimitRule(per_ip={"10.1.2.3": 0, "10.4.4.4": 0})
        member = host.connect(on_cluster_port=True)
        assert host.set_up(member, labels={"source": "cluster"})
        assert member.is_member
        assert not host.set_up(host.connect(), labels={"source": "cluster"})
        assert not host.set_up(host.connect("ipv4:10.4.4.4:5", on_cluster_port=True), labels={"source": "cluster"})

    def test_a_reset_names_where_to_go(self) -> None:
        host = Host()
        connection = host.connect()
        host.dispatcher.reset(connection, ("10.5.5.5", 8848))
        host.dispatcher.reset(connection)
        (_, there), (_, anywhere) = waiting(connection)
        assert (there["serverIp"], there["serverPort"]) == ("10.5.5.5", "8848")
        assert "serverIp" not in anywhere
        assert there["requestId"] != anywhere["requestId"]

    def test_requests_have_the_fields_of_real_nacos(self) -> None:
        host = Host()
        connection = host.connect()
        host.set_up(connection, abilityTable={})
        host.dispatcher.detect(connection)
        host.dispatcher.reset(connection)
        assert {kind: (fields.keys(), fields["module"]) for kind, fields in waiting(connection)} == {
            "SetupAckRequest": ({"headers", "abilityTable", "module"}, "internal"),
            "ClientDetectionRequest": ({"headers", "requestId", "module"}, "internal"),
            "ConnectResetRequest": ({"headers", "requestId", "connectionId", "module"}, "internal"),
        }


class TestStreams:
    def test_answers_are_taken_by_their_result_code(self) -> None:
        host = Host()
        connection = host.connect()
        assert host.dispatcher.take(connection, wire.encode("NotifySubscriberResponse", b'{"resultCode":200}'))
        assert host.set_up(connection)
        for body in (b'{"requestId":"1","resultCode":200,"success":false}', b'{"requestId":"2","success":true}'):
            assert host.dispatcher.take(connection, wire.encode("NotifySubscriberResponse", body))
        assert host.answered == [(connection.id, "1", True), (connection.id, "2", False)]

    @pytest.mark.parametrize(
        "message",
        [
            b"\xff\xff",
            wire.encode("NopeRequest", b"{}"),
            wire.encode("", b""),
            wire.encode("XResponse", b"{"),
            wire.encode("XResponse", b'{"requestId":1}'),
            wire.encode("XResponse", b'{"resultCode":"x"}'),
        ],
    )
    def test_what_is_wrong_is_answered_and_ends_nothing(self, message: bytes) -> None:
        host = Host()
        connection = host.connect()
        assert host.set_up(connection)
        assert host.dispatcher.take(connection, message)
        [(kind, answer)] = waiting(connection)
        assert (kind, answer["success"]) == ("ErrorResponse", False)


class TestLimits:
    """Of one address: the transport's, whatever the client states in its setup."""

    def host(self, **limits: int) -> Host:
        host = Host()
        addresses = AddressTable(**limits, now_s=lambda: host.now_ms / 1_000)
        host.connections = Connections(lambda: 5_000, lambda: host.now_ms, addresses)
        callers = Callers(None, "", lambda: host.now_ms, host.cluster)
        host.dispatcher = Dispatcher(
            host.connections, host.cluster, callers, host.clients, host.limits, lambda: host.now_ms
        )
        return host

    def test_connections_of_one_address(self) -> None:
        host = self.host(connections_max=2)
        stated = iter(["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"])
        first, *_, third = [host.connect(f"ipv4:10.9.9.9:{port}") for port in (1, 2, 3)]
        assert host.set_up(first, next(stated))
        assert host.set_up(host.connect("ipv4:10.9.9.9:2"), next(stated))
        assert not host.set_up(third, next(stated))
        assert [kind for kind, _ in waiting(third)] == ["ConnectResetRequest"]
        assert host.set_up(host.connect("ipv4:10.9.9.8:1"), next(stated))
        host.dispatcher.ended(third)
        host.dispatcher.ended(first)
        assert host.set_up(host.connect("ipv4:10.9.9.9:4"))
        assert not host.set_up(host.connect("ipv4:10.9.9.9:5"))

    def test_members_have_any_number(self) -> None:
        host = self.host(connections_max=1)
        for port in range(3):
            assert host.set_up(host.connect(f"ipv4:10.1.2.3:{port}", on_cluster_port=True))

    @pytest.mark.parametrize("failure", [Unavailable("full"), InvalidParam("an id is used twice")])
    def test_a_setup_that_fails_counts_no_connection(self, failure: Exception) -> None:
        host = self.host(connections_max=1)
        host.clients.failure = failure
        for port in range(3):
            host.set_up(host.connect(f"ipv4:10.9.9.9:{port}"))
        host.clients.failure = None
        assert host.set_up(host.connect("ipv4:10.9.9.9:9"))

    def test_writes_are_refused_and_reads_are_not(self) -> None:
        host = self.host(writes_per_s=1)
        write, read = (GrpcRoute(route({}).handler, "XResponse", naming(action)) for action in (WRITE, READ))
        host.dispatcher.add({"Write": write, "Read": read})
        one, other = host.connect("ipv4:10.9.9.9:1"), host.connect("ipv4:10.9.9.8:1")
        member = host.connect(on_cluster_port=True)
        for connection in (one, other, member):
            assert host.set_up(connection)
        answers = [host.ask(one, "Write") for _ in range(7)]
        assert [answer.get("errorCode") for answer in answers] == [None] * 5 + [429] * 2
        assert answers[-1]["message"].startswith("refused by rollcall.limit.writesPerSecondPerAddress=1: ")
        assert "errorCode" not in host.ask(one, "Read")
        assert "errorCode" not in host.ask(other, "Write")
        assert all("errorCode" not in host.ask(member, "Write") for _ in range(20))
        host.now_ms += 1_000
        assert [host.ask(one, "Write").get("errorCode") for _ in range(2)] == [None, 429]
