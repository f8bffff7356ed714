"""Writes of persistent instances by command: as HTTP's endpoint does them, here or at their owner."""

from collections.abc import Callable
from urllib.parse import urlencode

import orjson
import pytest

from app.commands.member_writes import MemberWrites, NacosCall, NotWritten
from app.http.api.answers import text_reply
from app.http.api.call import OK, Answer, Call, Forward, Reply
from app.http.v1 import instance
from app.naming.model.nacos_errors import InvalidParam, NacosError, Unavailable
from app.naming.records.record_keys import persistent_key, service_meta_key
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.peers.owner_forwarder import OwnerForwarder
from app.peers.peer_parts import MemberRequest
from distro.model.types import MemberState
from tests.support.fake_node import PEER, SELF, FakeNode, StubCluster, make_settings

NAME = "DEFAULT_GROUP@@a"
COMMAND = RegisterInstance(NAME, "10.0.0.1", 80, ephemeral=False)
KEY = persistent_key("public", NAME, "10.0.0.1:80:unknown:DEFAULT")
META = service_meta_key("public", NAME)


class Asked:
    """In place of the forwarder: keeps what it is asked, and gives the answer that the test put in."""

    def __init__(self) -> None:
        self.calls: list[tuple[MemberRequest, Forward]] = []
        self.answer: Reply | None = OK
        """None: this node owns the call by now."""
        self.before_run: Callable[[], None] = lambda: None

    def forward(self, request: MemberRequest, to: Forward, run: Callable[[], Forward | None]) -> Reply | None:
        self.calls.append((request, to))
        if self.answer is None:
            self.before_run()
            assert run() is None
        return self.answer


class Member:
    def __init__(self, **more: str | bool) -> None:
        names = {"rollcall.names.v1": "2.x", "nacos.core.param.check.enabled": "false"}  # each frontend checks them
        self.node = FakeNode(make_settings(**names), cluster=StubCluster(**more))  # type: ignore[arg-type]
        self.asked = Asked()
        self.writes = MemberWrites(self.node.writes, self.asked, "/nacos")  # type: ignore[arg-type]


def over_http(node: FakeNode, command: RegisterInstance) -> Answer:
    """The same registration as HTTP's endpoint executes it."""
    query = {
        "serviceName": command.service,
        "namespaceId": command.namespace,
        "ip": command.ip,
        "port": command.port,
        "clusterName": command.cluster,
        "ephemeral": "false",
        "weight": repr(command.weight),
        "healthy": str(command.healthy).lower(),
        "enabled": str(command.enabled).lower(),
        "metadata": orjson.dumps(command.metadata or {}).decode(),
        "app": command.app,
    }
    call = Call("POST", "/v1/ns/instance", urlencode(query).encode(), {}, b"", "127.0.0.1")
    return instance.register(call, node)


def outcome(node: FakeNode, write: Callable[[], object]) -> tuple[object, object]:
    """What is stored afterwards, and the refusal if there was one."""
    try:
        write()
    except NacosError as error:
        return dict(node.disk.records), (error.status, error.text)
    return dict(node.disk.records), None


COMMANDS = {
    "usual": COMMAND,
    "all": RegisterInstance(
        "G@@a", "::1", 0, "dev", "c1", 2.5, False, False, False, {"k": "é=&", "x": "\n"}, "app", ""
    ),
    "a tiny weight": COMMAND._replace(weight=1e-9),
    "a large weight": COMMAND._replace(weight=1e16),
    "a negative weight": COMMAND._replace(weight=-1.0),
    "blanks around": COMMAND._replace(service=f"{NAME} ", ip=" 10.0.0.1 ", namespace=" dev ", app=" shop "),
    "only blanks": COMMAND._replace(namespace=" ", app=" "),
    "a blank address": COMMAND._replace(ip=" "),
    "no IPv4 address": COMMAND._replace(ip="300.1.1.1"),
    "few numbers": COMMAND._replace(ip="1.1"),
    "a blank in the address": COMMAND._replace(ip="10.0.0.1 x"),
    "a long address": COMMAND._replace(ip="x" * 129),
    "a host": COMMAND._replace(ip="host.example"),
    "no name": COMMAND._replace(service="G@@ "),
    "a blank in the name": COMMAND._replace(service="G@@a b"),
    "a wrong name": COMMAND._replace(service="G@@a\x01b"),
    "a long name": COMMAND._replace(service="G@@" + "a" * 600),
    "a wrong namespace": COMMAND._replace(namespace="a##b"),
    "a long application": COMMAND._replace(app="x" * 513),
    "a broken application": COMMAND._replace(app="a\x85b"),
    "much metadata": COMMAND._replace(metadata={"k": "v" * 65_535}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_executed_or_refused_as_over_http(name: str) -> None:
    by_command, by_call = Member(), Member()
    found = outcome(by_command.node, lambda: by_command.writes.execute(COMMANDS[name]))
    assert found == outcome(by_call.node, lambda: over_http(by_call.node, COMMANDS[name]))
    assert not by_command.asked.calls


def test_a_deregistration_removes_and_an_unknown_instance_is_no_error() -> None:
    member = Member()
    member.writes.execute(COMMAND)
    assert KEY in member.node.disk.records
    for _ in range(2):
        member.writes.execute(DeregisterInstance(f"{NAME} ", " 10.0.0.1", 80, ephemeral=False))
        view = member.node.naming.service_view("public", NAME)
        assert view is not None
        assert not view.instances


# --- another owner ------------------------------------------------------------------------------------


def test_another_owner_is_asked_in_the_words_of_http() -> None:
    member = Member(owner=PEER, standalone=False)
    member.writes.execute(COMMAND._replace(weight=2.0, healthy=False, metadata={"k": "é"}, app="shop"))
    member.writes.execute(DeregisterInstance(NAME, "10.0.0.1", 80, "dev", ephemeral=False))
    (first, first_to), (second, second_to) = member.asked.calls
    named = {"serviceName": NAME, "ip": "10.0.0.1", "port": "80", "clusterName": "DEFAULT", "ephemeral": "false"}
    more = {"weight": "2.0", "healthy": "false", "enabled": "true", "metadata": '{"k":"é"}', "app": "shop"}
    assert first == NacosCall("POST", {**named, **more, "namespaceId": "public"}, "/nacos")
    assert second == NacosCall("DELETE", {**named, "namespaceId": "dev"}, "/nacos")
    assert (first.path, first.agent, dict(first.headers)) == ("/v1/ns/instance", "Rollcall-gRPC", {})
    assert first_to == Forward(NAME, (META, KEY))
    assert second_to == Forward(NAME, (persistent_key("dev", NAME, "10.0.0.1:80:unknown:DEFAULT"),))
    assert not member.node.disk.records, "nothing is written here"


def test_what_the_owner_refuses_is_refused_here_in_its_words() -> None:
    member = Member(owner=PEER, standalone=False)
    member.asked.answer = text_reply(400, "nicht so: ü")
    with pytest.raises(NotWritten) as caught:
        member.writes.execute(COMMAND)
    assert (caught.value.status, caught.value.text) == (400, "nicht so: ü")


def test_when_this_node_becomes_the_owner_it_writes() -> None:
    member = Member(owner=PEER, standalone=False)
    member.asked.answer, member.asked.before_run = None, lambda: member.node.cluster.give_to(SELF)
    member.writes.execute(COMMAND)
    assert KEY in member.node.disk.records


@pytest.mark.parametrize("owner", [SELF, PEER])
def test_a_member_that_is_not_up_writes_nothing_and_asks_nobody(owner: str) -> None:
    member = Member(owner=owner, standalone=False)
    member.node.cluster.own_state = MemberState.STARTING
    with pytest.raises(Unavailable) as caught:
        member.writes.execute(COMMAND)
    assert (caught.value.status, caught.value.text) == (503, "server is STARTING now, please try again later!")
    assert (member.asked.calls, member.node.disk.records) == ([], {})


def test_a_refused_command_is_sent_to_nobody() -> None:
    member = Member(owner=PEER, standalone=False)
    with pytest.raises(InvalidParam):
        member.writes.execute(COMMAND._replace(ip="300.1.1.1"))
    assert not member.asked.calls


def test_without_a_loop_a_write_for_another_owner_is_refused() -> None:
    node = FakeNode(cluster=StubCluster(owner=PEER, standalone=False))
    forwarder = OwnerForwarder(node.cluster, 1, node.replication.refresh, text_reply)
    with pytest.raises(NotWritten) as caught:
        MemberWrites(node.writes, forwarder, "/nacos").execute(COMMAND)
    assert (caught.value.status, caught.value.text) == (503, "server is DOWN now, please try again later!")
