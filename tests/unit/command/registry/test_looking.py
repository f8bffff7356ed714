"""Commands that look: services, instances, members, clients."""

import json

import pytest

from app.members.reports import OWN_FIELD
from distro.model.types import CAPABILITY_VERSIONS, Member, MemberState
from tests.support.command_node import Commands
from tests.support.fake_node import PEER, FakeNode
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
    assert "has no unhealthy services" in filled("services", "--unhealthy").err
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
        ["protected:", "clients", "see", "all", "as", "healthy"],
        ["empty"],
    ]
    assert [row[0] for row in ill] == ["some", "none", "kept"]


def test_an_empty_registry_and_a_name_that_nothing_has(command: Commands) -> None:
    ran = command("services")
    assert (ran.code, ran.out) == (0, "")
    assert "namespace public has no services" in ran.err
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
