"""Commands that look: services, instances, members, clients."""

import io
import json

import pytest

from app.members.reports import OWN_FIELD
from app.naming.clients.client_model import ClientInfo
from distro.model.types import CAPABILITY_VERSIONS, Member, MemberState
from tests.support.command_node import Commands
from tests.support.fake_node import PEER, SELF, FakeNode
from tests.support.tiny_server import Given, tiny_server


def register(command: Commands, service: str, address: str, *more: str) -> None:
    assert command("register", service, address, *more).code == 0


@pytest.fixture
def filled(command: Commands) -> Commands:
    """A node with two services."""
    register(command, "orders", "10.0.0.1:80", "--metadata", "version=1", "--metadata", "zone=a", "--weight", "2.5")
    register(command, "orders", "10.0.0.2:80", "--persistent", "--disabled")
    register(command, "shop@@cart", "[fe80::1]:8080", "--cluster", "east")
    return command


def test_services(filled: Commands) -> None:
    assert filled.rows("services") == [["orders", "1", "2", "2", "healthy"], ["shop@@cart", "1", "1", "1", "healthy"]]
    assert filled.rows("services", "ord") == [["orders", "1", "2", "2", "healthy"]]
    assert filled.rows("services", "--group", "shop") == [["shop@@cart", "1", "1", "1", "healthy"]]
    listed = json.loads(filled("services", "--json").out)
    assert [(one["groupName"], one["name"]) for one in listed] == [("DEFAULT_GROUP", "orders"), ("shop", "cart")]


def test_a_table_that_is_cut_says_so(filled: Commands) -> None:
    ran = filled("services", "--limit", "1")
    assert ran.out.count("\n") == 2
    assert "1 of 2 services; --limit 2 shows all" in ran.err
    assert "1 of 3 clients; --limit 3 shows all" in filled("clients", "--limit", "1").err
    assert [filled("services", "--limit", text).code for text in ("0", "-1", "x", "1e3")] == [2] * 4


def test_unhealthy_services(filled: Commands) -> None:
    assert "no unhealthy services in" in filled("services", "--unhealthy").err
    whole = {"groupName": "DEFAULT_GROUP", "clusterCount": 1, "ipCount": 4, "healthyInstanceCount": 4}
    rows = [
        {**whole, "name": "good"},
        {**whole, "name": "some", "healthyInstanceCount": 3},
        {**whole, "name": "none", "healthyInstanceCount": 0},
        {**whole, "name": "kept", "healthyInstanceCount": 1, "triggerFlag": "true"},
        {**whole, "name": "void", "ipCount": 0, "healthyInstanceCount": 0},
    ]
    body = json.dumps({"count": len(rows), "serviceList": rows}).encode()
    with tiny_server(lambda _: Given(200, body)) as server:
        all_rows = filled.rows("services", "--server", server.address)
        ill = filled.rows("services", "--unhealthy", "--server", server.address)
    assert [row[4:] for row in all_rows] == [
        ["healthy"],
        ["unhealthy", "instances"],
        ["DOWN"],
        ["protected"],
        ["empty"],
    ]
    assert [row[0] for row in ill] == ["some", "none", "kept"]


def test_an_empty_registry_and_a_name_that_nothing_has(command: Commands) -> None:
    ran = command("services")
    assert (ran.code, ran.out) == (0, "")
    assert "no services in namespace public" in ran.err
    ran = command("services", "nothing")
    assert (ran.code, ran.err.count("\n")) == (5, 1)
    assert "no service in namespace public matches nothing" in ran.err


def test_instances(filled: Commands) -> None:
    out = filled("instances", "orders").out.splitlines()
    assert out[0].split() == ["INSTANCE", "CLUSTER", "HEALTH", "ENABLED", "WEIGHT", "KIND", "LAST", "BEAT", "METADATA"]
    rows = {line.split()[0]: line for line in out[1:]}
    assert "healthy" in rows["10.0.0.1:80"]
    assert "version=1 zone=a" in rows["10.0.0.1:80"]
    assert " 2.5 " in rows["10.0.0.1:80"]
    assert rows["10.0.0.2:80"].split()[1:6] == ["DEFAULT", "healthy", "no", "1", "persistent"]
    assert [row[:2] for row in filled.rows("instances", "shop@@cart")] == [["[fe80::1]:8080", "east"]]
    listed = json.loads(filled("instances", "orders", "--json").out)
    assert {one["ip"] for one in listed} == {"10.0.0.1", "10.0.0.2"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("order",), "there is no service order in namespace public; did you mean orders?"),
        (("cart",), "there is no service cart in namespace public; did you mean shop@@cart?"),
        (("zzz",), "there is no service zzz in namespace public; `rollcall services` lists all"),
        (("orders", "--namespace", "nosuch"), "there is no namespace nosuch; there are: public"),
        (("orders", "--cluster", "west"), "has no instances in a cluster west; it has some in: DEFAULT"),
    ],
)
@pytest.mark.usefixtures("filled")
def test_a_wrong_name(command: Commands, arguments: tuple[str, ...], text: str) -> None:
    ran = command("instances", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (5, "", 1)
    assert text in ran.err


def test_the_namespace_may_be_configured(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    register(command, "orders", "10.0.0.1:80", "--namespace", "dev")
    assert command("instances", "orders").code == 5
    monkeypatch.setenv("ROLLCALL_NAMESPACE", "dev")
    assert command("instances", "orders").code == 0


def test_members(command: Commands) -> None:
    rows = command.rows("members")
    assert rows
    assert {row[1] for row in rows} <= {"UP", "DOWN", "SUSPICIOUS"}
    told = json.loads(command("members", "--json").out)
    assert [one["address"] for one in told] == [row[0] for row in rows]


def test_members_that_do_not_answer_are_named(command: Commands) -> None:
    ran = command("members", "--each", "--timeout", "1s")
    assert ran.code == 1
    assert "does not answer" in ran.err
    assert "Traceback" not in ran.err


def test_clients(filled: Commands) -> None:
    rows = filled.rows("clients")
    assert ["10.0.0.1:80#true", "HTTP", "10.0.0.1:80", "-", "-", "-"] in rows
    assert ["10.0.0.2:80#false", "HTTP,", "persistent", "10.0.0.2:80", "-", "-", "-"] in rows
    assert filled.rows("clients", "10.0.0.1:80#true") == [
        ["publishes", "public", "orders", "10.0.0.1:80", "(DEFAULT)"],
    ]  # fmt: skip
    assert {row[1] for row in filled.rows("clients", "--service", "orders")} == {
        "10.0.0.1:80#true", "10.0.0.2:80#false",
    }  # fmt: skip
    told = json.loads(filled("clients", "--service", "orders", "--json").out)
    assert {one["clientId"] for one in told["publishers"]} == {"10.0.0.1:80#true", "10.0.0.2:80#false"}
    assert (told["subscribers"], told["subscribersOverUdp"]) == ([], [])
    assert json.loads(filled("clients", "10.0.0.1:80#true", "--json").out)["subscribesTo"] == []


def test_clients_that_are_not_there(filled: Commands) -> None:
    ran = filled("clients", "nobody")
    assert (ran.code, ran.err.count("\n")) == (5, 1)
    assert "there is no client nobody; `rollcall clients` lists all" in ran.err
    assert filled("clients", "nobody", "--service", "orders").code == 2


def test_hostile_metadata_is_inert(command: Commands) -> None:
    register(command, "orders", "10.0.0.1:80", "--metadata", "a=[red]\u202e\x9b31m\x1b[2J:boom:")
    out = command("instances", "orders").out
    assert r"a=[red]\u202e\x9b31m\x1b[2J:boom:" in out
    assert out.isascii()
    assert command("instances", "orders", "--json").out.isascii()
    assert command("watch", "orders", "--for", "1ms").out.isascii()


def test_the_last_beat_is_shown_where_it_is_known(command: Commands, node: FakeNode) -> None:
    register(command, "orders", "10.0.0.1:80")
    node.now_ms += 4_000
    assert "4.0 s ago" in command("instances", "orders").out
    node.cluster.owner = PEER  # its copy's age says nothing, and the owner is in no list here
    ran = command("instances", "orders")
    assert " ago" not in ran.out
    assert f"last beats are not known: {PEER}, which counts them, did not answer" in ran.err


def test_members_that_are_out_by_plan_are_no_failures(command: Commands, node: FakeNode) -> None:
    node.cluster.standalone, node.cluster.draining, node.cluster.self_address = False, True, command.server
    info = {OWN_FIELD: {"leaving": True}}
    node.cluster.others = [Member(PEER, MemberState.DOWN, frozenset({CAPABILITY_VERSIONS}), info)]
    node.cluster.own_state = MemberState.DOWN
    states = {row[0]: row[1] for row in command.rows("members")}
    assert states == {command.server: "drained", PEER: "left"}
    ran = command("members", "--each", "--timeout", "1s")
    assert (ran.code, ran.err) == (0, "")


def test_a_connection_is_shown_with_its_member(command: Commands, node: FakeNode) -> None:
    node.clients.own.connect(ClientInfo("1_10.0.0.9_7", "10.0.0.9", 7, "shop", "v3"))
    node.clients.subscriptions.subscribe("1_10.0.0.9_7", "public", "DEFAULT_GROUP@@orders", "")
    register(command, "orders", "10.0.0.1:80")
    assert ["1_10.0.0.9_7", "gRPC", "10.0.0.9:7", "shop", "v3", SELF] in command.rows("clients")
    assert command.rows("clients", "1_10.0.0.9_7") == [["subscribes", "to", "public", "orders", "-"]]
    assert ["subscribes", "1_10.0.0.9_7", "10.0.0.9:7"] in command.rows("clients", "--service", "orders")


def test_all_namespaces(filled: Commands) -> None:
    register(filled, "orders", "10.0.1.1:80", "--namespace", "dev")
    assert [row[:2] for row in filled.rows("services", "-A")] == [
        ["public", "orders"], ["public", "shop@@cart"], ["dev", "orders"],
    ]  # fmt: skip
    assert filled("services", "-A", "-o", "name").out.splitlines()[-1] == "dev/orders"
    assert [row[:2] for row in filled.rows("instances", "orders", "-A")][-1] == ["dev", "10.0.1.1:80"]
    assert {one["namespaceId"] for one in json.loads(filled("instances", "orders", "-A", "--json").out)} == {
        "public", "dev",
    }  # fmt: skip
    assert filled("instances", "none", "-A").code == 5
    assert filled("services", "none", "-A").code == 5


def test_namespaces(filled: Commands) -> None:
    register(filled, "orders", "10.0.1.1:80", "--namespace", "dev")
    assert filled.rows("namespaces") == [["public", "public", "2", "yes"], ["dev", "-", "1", "no"]]
    assert filled("namespaces", "-o", "name").out == "public\ndev\n"
    assert json.loads(filled("namespaces", "--json").out)[1] == {
        "namespaceId": "dev", "name": "", "created": False, "services": 1,
    }  # fmt: skip


def test_a_switch_is_set(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("switches", "checkTimes", "5").out == "set checkTimes to 5 at all members\n"
    assert command("switches", "checkTimes", "4", "--json").out == '{\n  "checkTimes": 4\n}\n'
    assert command("switches", "limitedUrlMap", "nonsense").code == 6
    ran = command("switches", "name", "x")
    assert (ran.code, "did not take the value" in ran.err) == (6, True)
    # A harmful one asks, as the console does.
    ran = command("switches", "overriddenServerStatus", "DOWN")
    assert (ran.code, ran.out, "give --yes" in ran.err) == (2, "", True)
    assert "Members refuse all calls of clients. This applies to every member" in ran.err
    assert "0 over gRPC and 0 that registered over HTTP" in ran.err
    typed = io.StringIO("no\n")
    typed.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", typed)
    assert command("switches", "healthCheckEnabled", "false").err.endswith(
        "[y/N] rollcall switches: nothing was changed\n"
    )
    typed.seek(0)
    typed.write("yes\n")
    typed.seek(0)
    assert command("switches", "healthCheckEnabled", "false").out == "set healthCheckEnabled to false at all members\n"
    assert command("switches", "healthCheckEnabled", "-o", "yaml").out == "healthCheckEnabled: false\n"
    assert command("switches", "overriddenServerStatus", "UP", "--yes").code == 0


def test_switches(command: Commands) -> None:
    assert ["pushEnabled", "true"] in command.rows("switches")
    assert ["overriddenServerStatus", "-"] in command.rows("switches")
    assert command("switches", "checkTimes", "-o", "yaml").out == "checkTimes: 3\n"
    ran = command("switches", "checkTime")
    assert (ran.code, "there is no switch checkTime; did you mean checkTimes" in ran.err) == (5, True)


def test_each_format(filled: Commands) -> None:
    register(filled, "orders", "10.0.0.4:80", "--metadata", "\u57ce\u5e02=\u5317\u4eac")
    assert "\u57ce\u5e02" in filled("instances", "orders", "-o", "json").out
    assert "\u57ce\u5e02: \u5317\u4eac" in filled("instances", "orders", "-o", "yaml").out
    assert sorted(filled("instances", "orders", "-o", "name").out.split()) == [
        "10.0.0.1:80",
        "10.0.0.2:80",
        "10.0.0.4:80",
    ]
    assert filled("services", "-o", "wide").out == filled("services").out
    assert filled("services", "-o", "name").out == "orders\nshop@@cart\n"


def test_a_link_is_set_and_reset(command: Commands) -> None:
    said = "link dc-b at all members, set by calls: servers=127.0.0.1:9, services=a=b\n"
    assert command("links", "set", "dc-b", "servers=127.0.0.1:9", "services=a=b").out == said
    ran = command("links", "set", "dc-b", "enabled=false")
    assert (ran.code, ran.out, "clients lose its instances (0) after a minute" in ran.err) == (2, "", True)
    fields = {"servers": "127.0.0.1:9", "enabled": "false"}
    ran = command("links", "set", "dc-b", "services=", "enabled=false", "--yes", "--json")
    assert json.loads(ran.out) == {"link": "dc-b", "byCall": fields}
    ran = command("links")
    assert "link dc-b, set by calls: servers=127.0.0.1:9, enabled=false" in ran.err
    assert command("links", "reset", "dc-b").code == 2, "it asks"
    assert command("links", "reset", "dc-b", "--yes").out == "link dc-b is as in the file of each member\n"
    assert command("links", "reset", "dc-b", "--yes").code == 5


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("set",), "give the name of the link"),
        (("set", "dc-b"), "nothing to change: give FIELD=VALUE"),
        (("reset", "dc-b", "a=b"), "reset takes no fields"),
        (("set", "dc-b", "password=secret"), "set rollcall.link.dc-b.password in the file of each member"),
        (("remove", "dc-b"), "remove"),
    ],
)
def test_a_wrong_change_of_a_link_is_refused_before_a_call(
    command: Commands, arguments: tuple[str, ...], why: str
) -> None:
    ran = command("links", *arguments)
    assert (ran.code, why in ran.err, "secret" in ran.err) == (2, True, False)


def test_links_of_members_that_do_not_answer_are_named(command: Commands) -> None:
    link = {"name": "dc-b", "cluster": "dc-b", "silent": True, "error": "it does not answer"}
    told = {"members": [{"address": "a:1", "error": "", "links": [link]}], "notAnswered": ["b:1"]}
    with tiny_server(lambda _: Given(200, json.dumps(told).encode())) as server:
        ran = command("links", "--server", server.address)
    assert (ran.code, "dc-b" in ran.out) == (1, True)
    assert "links at b:1 are left out: no answer" in ran.err
    assert "a:1, link dc-b: it does not answer" in ran.err
