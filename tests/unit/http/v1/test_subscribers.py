"""Who asked to be told of changes."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient

from app.config.addresses import first_address
from app.http.factory import create_app
from app.http.v1 import subscribers
from app.naming.push.udp_subscribers import Subscriber, UdpPushStats
from distro.model.types import Member, MemberState
from tests.support.fake_node import SECRET, FakeNode, make_settings
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

LIST = "/nacos/v1/ns/instance/list"
SUBSCRIBERS = "/nacos/v1/ns/service/subscribers"
PUSH_STATE = "/nacos/v1/ns/operator/push/state"
JAVA = "Nacos-Java-Client:v1.4.1"


def ask(client: FlaskClient, agent: str = JAVA, remote: str = "10.0.0.9", **values: Any) -> Any:
    values = {"serviceName": "a", "clientIP": "10.0.0.9", "udpPort": 54001} | values
    origin = {"REMOTE_ADDR": remote}
    answer = client.get(LIST, query_string=values, headers={"User-Agent": agent}, environ_overrides=origin)
    return answer.get_json()["cacheMillis"]


def listed(client: FlaskClient, **values: Any) -> Any:
    return client.get(SUBSCRIBERS, query_string={"serviceName": "a"} | values).get_json()


# --- subscribing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "bytes_max", "java"),
    [
        ("Nacos-Java-Client:v1.4.1", 65_507, True),
        ("Nacos-Java-Client:v0.8.0", 65_507, False),
        ("Nacos-Java-Client:v1", 65_507, True),
        ("Nacos-Go-Client:v1.0.1", 4_024, False),
        ("Nacos-DNS:v1.0.0", 65_507, False),
        ("Nacos-C-Client:v1.1.0", 65_507, False),
        ("vip-client4cpp:v1.0.12", 65_507, False),
        ("Nacos-CSharp-Client:v0.9.0", 65_507, False),
    ],
)
def test_clients_that_understand_pushes(
    node: FakeNode, client: FlaskClient, agent: str, bytes_max: int, java: bool
) -> None:
    assert ask(client, agent, clusters="c1", app="shop", namespaceId="ns") == 10_000
    expected = Subscriber("ns", "DEFAULT_GROUP@@a", "c1", "10.0.0.9", 54001, agent, "shop", bytes_max, java)
    (found,) = node.push.known
    assert found == expected
    assert (found.app, found.bytes_max, found.java) == ("shop", bytes_max, java)


@pytest.mark.parametrize(
    "agent",
    [
        "", "curl/8", "Nacos-Python-Client:v0.1.17", "Nacos-SDK-Java:v1.0.0", "unit-nginx",
        "Nacos-Java-Client", "Nacos-Java-Client:v0.0.9", "Nacos-C-Client:v1.0.11", "Nacos-DNS:v0.4.2",
    ],
)  # fmt: skip
def test_clients_that_do_not(node: FakeNode, client: FlaskClient, agent: str) -> None:
    # From a member's address, or a member's agent would be refused.
    assert ask(client, agent, remote="127.0.0.1", clientIP="127.0.0.1") == 3_000
    assert not node.push.known


@pytest.mark.parametrize("port", [0, -1, 65_536, "", 53, 1_023])
def test_ports_to_which_nothing_goes(node: FakeNode, client: FlaskClient, port: object) -> None:
    assert ask(client, udpPort=port) == 3_000
    assert not node.push.known


@pytest.mark.parametrize(
    ("remote", "client_ip", "ip"),
    [
        ("10.0.0.9", "", "10.0.0.9"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("::ffff:10.0.0.9", "", "10.0.0.9"),
        ("10.0.0.9", "::ffff:10.0.0.9", "10.0.0.9"),
        ("::1", "[::1]", "::1"),
        ("2001:db8::1", "2001:DB8:0::1", "2001:db8::1"),
        ("127.0.0.1", "127.0.0.2", "127.0.0.2"),
        ("127.0.0.1", first_address(), first_address()),
        (first_address(), "127.0.0.1", "127.0.0.1"),
    ],
)
def test_where_pushes_go(node: FakeNode, client: FlaskClient, remote: str, client_ip: str, ip: str) -> None:
    assert ask(client, remote=remote, clientIP=client_ip) == 10_000
    assert [one.ip for one in node.push.known] == [ip]


@pytest.mark.parametrize(
    ("remote", "client_ip"),
    [
        ("10.0.0.9", "10.0.0.10"),
        ("10.0.0.9", "127.0.0.1"),
        ("127.0.0.1", "10.0.0.9"),
        ("127.0.0.1", "224.0.0.1"),
        ("127.0.0.1", "255.255.255.255"),
        ("127.0.0.1", "0.0.0.0"),
    ],
)
def test_nobody_subscribes_another_address(node: FakeNode, client: FlaskClient, remote: str, client_ip: str) -> None:
    """Nothing would stop a stranger from having a node send its pushes to a victim."""
    assert ask(client, remote=remote, clientIP=client_ip) == 3_000
    assert node.push.known == []


@pytest.mark.parametrize("client_ip", ["no ip", "10.0.0", "localhost", "10.0.0.9:80"])
def test_what_is_no_address_is_answered_as_by_nacos(node: FakeNode, client: FlaskClient, client_ip: str) -> None:
    assert ask(client, clientIP=client_ip) == 10_000
    assert (node.push.known, node.push.stats.refused) == ([], 1)


def test_a_stated_address_may_be_trusted() -> None:
    node = FakeNode(settings=make_settings(rollcall_push_udp_trustNat="true"))
    client = create_app(node).test_client()
    assert ask(client, clientIP="10.0.0.10") == 10_000
    assert ask(client, clientIP="no ip") == 10_000
    assert [one.ip for one in node.push.known] == ["10.0.0.10"]


def test_an_unknown_service_can_be_waited_for(node: FakeNode, client: FlaskClient) -> None:
    assert ask(client) == 10_000
    assert listed(client)["count"] == 1


def test_the_old_path_subscribes_too(node: FakeNode, client: FlaskClient) -> None:
    values = {"dom": "a", "clientIP": "10.0.0.9", "udpPort": 1_024}
    origin = {"REMOTE_ADDR": "10.0.0.9"}
    client.get("/nacos/v1/ns/api/srvIPXT", query_string=values, headers={"User-Agent": JAVA}, environ_overrides=origin)
    assert [one.service for one in node.push.known] == ["DEFAULT_GROUP@@a"]


def set_switch(client: FlaskClient, entry: str, value: str) -> None:
    assert client.put("/nacos/v1/ns/operator/switches", data={"entry": entry, "value": value}).data == b"ok"


def test_switches_decide(node: FakeNode, client: FlaskClient) -> None:
    set_switch(client, "pushCacheMillis", "12000")
    set_switch(client, "defaultCacheMillis", "4000")
    assert (ask(client), ask(client, "curl/8")) == (12_000, 4_000)
    set_switch(client, "pushVersion", "java:9.0.0")
    assert (ask(client), ask(client, "Nacos-Go-Client:v1.0.1")) == (4_000, 12_000)
    set_switch(client, "pushVersion", "java:0.1.0")
    set_switch(client, "pushEnabled", "false")
    assert ask(client) == 4_000


# --- listing --------------------------------------------------------------------------------------


def test_a_subscriber_as_it_is_shown(client: FlaskClient) -> None:
    ask(client, app="shop", namespaceId="ns")
    shown = {
        "addrStr": "10.0.0.9:54001",
        "agent": JAVA,
        "app": "shop",
        "ip": "10.0.0.9",
        "namespaceId": "ns",
        "serviceName": "DEFAULT_GROUP@@a",
    }
    assert listed(client, namespaceId="ns") == {"subscribers": [shown], "count": 1}
    assert listed(client) == {"subscribers": [], "count": 0}


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"serviceName": "order"}, 2),
        ({"serviceName": "orders"}, 1),
        ({"serviceName": "order", "groupName": "DEFAULT"}, 2),
        ({"serviceName": "order", "groupName": "G"}, 3),
        ({"serviceName": "G2@@order"}, 1),
        ({"serviceName": "zzz"}, 0),
    ],
)
def test_names_are_searched_in(client: FlaskClient, values: dict[str, str], count: int) -> None:
    for number, name in enumerate(("orders", "my-order", "G2@@order")):
        ask(client, serviceName=name, udpPort=50_001 + number)
    assert listed(client, **values)["count"] == count


def test_pages(client: FlaskClient) -> None:
    for port in range(50_001, 50_006):
        ask(client, udpPort=port)
    assert [one["addrStr"] for one in listed(client, pageNo=2, pageSize=2)["subscribers"]] == [
        "10.0.0.9:50003",
        "10.0.0.9:50004",
    ]
    assert listed(client, pageNo=1, pageSize=5)["count"] == 5
    assert listed(client, pageNo=2, pageSize=5) == {"subscribers": [], "count": 5}, "the first place behind the end"
    for values in ({"pageNo": 9, "pageSize": 5}, {"pageNo": 0, "pageSize": 5}, {"pageNo": 1, "pageSize": -5}):
        assert listed(client, **values) == {"subscribers": [], "count": 0}
    assert listed(client, pageNo="x", pageSize="y") == {"subscribers": [], "count": 5}
    assert listed(client)["count"] == 5, "without a page all are shown, up to a thousand"


def test_a_name_is_needed(client: FlaskClient) -> None:
    answer = client.get(SUBSCRIBERS, query_string={"pageNo": 1, "pageSize": 10})
    assert (answer.status_code, answer.data) == (400, b"Param 'serviceName' is required.")


# --- over all members -----------------------------------------------------------------------------


def one(port: int) -> dict[str, object]:
    return {
        "addrStr": f"10.0.0.8:{port}",
        "agent": JAVA,
        "app": "",
        "ip": "10.0.0.8",
        "namespaceId": "public",
        "serviceName": "DEFAULT_GROUP@@a",
    }


@pytest.fixture
def clustered() -> tuple[FakeNode, FlaskClient]:
    settings = make_settings(
        nacos_core_auth_server_identity_key="Cluster-Key",
        nacos_core_auth_server_identity_value=SECRET,
        rollcall_identity_nacosMembers="127.0.0.1",
    )
    node = FakeNode(settings=settings)
    node.cluster.standalone = False
    return node, create_app(node).test_client()


def serve(*answers: object) -> Any:
    return tiny_server(lambda _: Given(200, json.dumps(answers[0]).encode()))


def join(node: FakeNode, *servers: TinyServer | str, state: MemberState = MemberState.UP) -> None:
    node.cluster.others = [Member(server if isinstance(server, str) else server.address, state) for server in servers]


def test_the_others_are_asked(clustered: tuple[FakeNode, FlaskClient]) -> None:
    node, client = clustered
    ask(client)
    twice = {"subscribers": [one(1), one(1)], "count": 2}
    with serve(twice) as first, serve({"subscribers": [one(2), {"addrStr": 1}, None], "count": 1}) as second:
        join(node, first, second)
        found = listed(client)
        (asked,) = first.received
    assert [entry["addrStr"] for entry in found["subscribers"]] == ["10.0.0.8:1", "10.0.0.8:2", "10.0.0.9:54001"]
    assert urlsplit(asked.target).path == "/nacos/v1/ns/service/subscribers"
    query = {name: values[0] for name, values in parse_qs(urlsplit(asked.target).query).items()}
    assert query == {
        "namespaceId": "public",
        "serviceName": "DEFAULT_GROUP@@a",
        "aggregation": "false",
        "pageNo": "1",
        "pageSize": "2000",
    }
    assert asked.headers["user-agent"].startswith("Nacos-Server:")
    assert asked.headers["cluster-key"] == SECRET


def test_the_others_are_asked_page_by_page(
    clustered: tuple[FakeNode, FlaskClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribers, "PAGE_SIZE", 2)
    node, client = clustered

    def answer(received: Received) -> Given:
        page = int(parse_qs(urlsplit(received.target).query)["pageNo"][0])
        part = [one(port) for port in range(1, 6)][2 * page - 2 : 2 * page]
        return Given(200, json.dumps({"subscribers": part, "count": 5}).encode())

    with tiny_server(answer) as server:
        join(node, server)
        assert listed(client)["count"] == 5
        assert len(server.received) == 3


@pytest.mark.parametrize(
    "given",
    [Given(500, b"{}"), Given(200, b"zzz"), Given(200, b"[]"), Given(200, b'{"subscribers":1}'), Given(hang_up=True)],
)
def test_a_member_without_a_useful_answer_is_left_out(clustered: tuple[FakeNode, FlaskClient], given: Given) -> None:
    node, client = clustered
    ask(client)
    with tiny_server(lambda _: given) as server:
        join(node, server, refusing_address())
        assert listed(client)["count"] == 1


def test_a_silent_member_costs_a_bounded_time(
    clustered: tuple[FakeNode, FlaskClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribers, "ASK_ONE_MS_MAX", 50)
    monkeypatch.setattr(subscribers, "ASK_MS_MAX", 80)
    node, client = clustered
    ask(client)
    with tiny_server(lambda _: Given(200, b"x" * 500, drip_s=0.02)) as server:
        join(node, server, server, server)
        assert listed(client)["count"] == 1
        assert 1 <= len(server.received) <= 2


def test_only_one_hop_and_nobody_that_is_down(clustered: tuple[FakeNode, FlaskClient]) -> None:
    node, client = clustered
    with serve({"subscribers": [one(1)]}) as server:
        join(node, server)
        assert listed(client, aggregation="false") == {"subscribers": [], "count": 0}
        join(node, server, state=MemberState.DOWN)
        assert listed(client)["count"] == 0
        assert not server.received


# --- how pushes went ------------------------------------------------------------------------------


def test_push_state(node: FakeNode, client: FlaskClient) -> None:
    assert client.get(PUSH_STATE).get_json() == {"succeed": 0, "total": 0, "ratio": 0, "reset": False}
    node.push.stats = UdpPushStats(total=10, failed=2, too_large=1)
    page = {"Accept-Language": "en"}
    assert client.get("/nacos/v1/ns/ops/push/state?reset=true", headers=page).status_code == 403
    assert client.get("/nacos/v1/ns/ops/push/state", headers=page).get_json()["reset"] is False
    assert client.post("/nacos/v1/ns/ops/push/state?reset=true", headers=page).get_json()["reset"] is True
    found = client.get("/nacos/v1/ns/ops/push/state?detail=true&reset=true").get_json()
    assert list(found.items()) == [("succeed", 7), ("total", 10), ("ratio", 0.7), ("data", []), ("reset", True)]


def test_push_state_of_pending_pushes(node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(client)
    monkeypatch.setattr(node.push, "state", lambda *, reset: (UdpPushStats(total=1), [(node.push.known[0], 77, 2)]))
    (text,) = client.get(f"{PUSH_STATE}?detail=1").get_json()["data"]
    assert text == f"public##DEFAULT_GROUP@@a to 10.0.0.9:54001 ({JAVA}): push 77, sent 2 times"


def test_push_state_refuses_what_is_no_boolean(client: FlaskClient) -> None:
    answer = client.get(f"{PUSH_STATE}?detail=maybe")
    assert (answer.status_code, answer.data) == (400, b"Parameter 'detail' is illegal: it should be true or false")
