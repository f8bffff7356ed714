"""Instances over HTTP v3, for clients and for operators, beside the answers of Nacos 3."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.http.api.call import ADDRESS, Reply
from app.http.factory import create_app
from app.machine.limits.client_addresses import Frontend
from app.naming.clients.client_model import ClientInfo
from app.naming.registry.operations import RegisterInstance
from app.testing import CallRefused, Cluster
from distro.model.types import CAPABILITY_HTTP_V3, Member, MemberState
from tests.support.fake_node import PEER, FakeNode, make_settings

CLIENT, ADMIN, CONSOLE = "/nacos/v3/client/ns/instance", "/nacos/v3/admin/ns/instance", "/nacos/v3/console/ns/instance"
V1 = "/nacos/v1/ns"
ONE = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}
SERVICE = {"serviceName": "orders"}
BEAT = ONE | {"heartBeat": "true"}
HOST = {
    "instanceId": "10.0.0.1#8080#DEFAULT#DEFAULT_GROUP@@orders",
    "ip": "10.0.0.1",
    "port": 8080,
    "weight": 1.0,
    "healthy": True,
    "enabled": True,
    "ephemeral": True,
    "clusterName": "DEFAULT",
    "serviceName": "DEFAULT_GROUP@@orders",
    "metadata": {},
    "instanceHeartBeatInterval": 5_000,
    "instanceHeartBeatTimeOut": 15_000,
    "ipDeleteTimeout": 30_000,
    "instanceIdGenerator": "simple",
}
"""A host as Nacos 3.0.3 shows it."""


def data(answer: TestResponse) -> Any:
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["message"], len(body)) == (200, 0, "success", 3), answer.data
    return body["data"]


def refused(answer: TestResponse) -> tuple[int, int]:
    body = answer.get_json()
    assert set(body) == {"code", "message", "data"}
    return answer.status_code, body["code"]


def listed(client: FlaskClient, **asked: str) -> list[str]:
    return sorted(one["ip"] for one in data(client.get(f"{CLIENT}/list", query_string=SERVICE | asked)))


@pytest.mark.parametrize("path", [CLIENT, ADMIN])
def test_what_is_registered_here_is_seen_everywhere(client: FlaskClient, path: str) -> None:
    assert data(client.post(path, data=ONE)) == "ok"
    assert data(client.get(f"{CLIENT}/list", query_string=SERVICE)) == [HOST]
    assert data(client.get(f"{ADMIN}/list", query_string=SERVICE)) == [HOST]
    assert data(client.get(ADMIN, query_string=ONE)) == HOST
    hosts = client.get(f"{V1}/instance/list", query_string=SERVICE).get_json()["hosts"]
    assert [one["ip"] for one in hosts] == ["10.0.0.1"]
    assert data(client.delete(path, query_string=ONE)) == "ok"
    assert data(client.delete(path, query_string=ONE)) == "ok", "an unknown one is no error"
    assert listed(client) == []


@pytest.mark.parametrize(("missing", "kind"), [("serviceName", "String"), ("ip", "String"), ("port", "Integer")])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("POST", path) for path in (CLIENT, ADMIN)),
        *(("DELETE", path) for path in (CLIENT, ADMIN)),
        *(("PUT", path) for path in (ADMIN, f"{ADMIN}/partial", CONSOLE)),
        ("GET", ADMIN),
    ],
)
def test_what_is_missing_is_named(client: FlaskClient, method: str, path: str, missing: str, kind: str) -> None:
    values = {name: value for name, value in ONE.items() if name != missing}
    answer = client.open(path, method=method, query_string=values)
    assert refused(answer) == (400, 10_000)
    assert answer.get_json()["data"] == f"Required parameter '{missing}' type {kind} is not present"


@pytest.mark.parametrize(
    ("wrong", "code"), [({"weight": "10001"}, 21_001), ({"port": "x"}, 20_002), ({"metadata": "{"}, 20_002)]
)
@pytest.mark.parametrize("path", [CLIENT, ADMIN])
def test_what_is_wrong_is_refused(client: FlaskClient, path: str, wrong: dict[str, str], code: int) -> None:
    assert refused(client.post(path, data=ONE | wrong)) == (400, code)
    assert listed(client) == []


class TestBeats:
    def test_a_beat_never_registers(self, client: FlaskClient) -> None:
        answer = client.post(CLIENT, data=BEAT)
        assert (answer.status_code, answer.get_json()) == (
            200,
            {"code": 21_003, "message": "instance not found", "data": None},
        )
        assert listed(client) == []

    def test_a_beat_keeps_an_instance(self, node: FakeNode, client: FlaskClient) -> None:
        client.post(CLIENT, data=ONE)
        node.now_ms += 14_000
        assert data(client.post(CLIENT, data=BEAT)) == "ok"
        assert list(node.naming.beat_ages("public", "DEFAULT_GROUP@@orders").values()) == [0]

    def test_a_registration_that_says_no_beat_is_one(self, client: FlaskClient) -> None:
        assert data(client.post(CLIENT, data=ONE | {"heartBeat": "false"})) == "ok"
        assert listed(client) == ["10.0.0.1"]

    def test_the_writes_of_an_address_are_bounded_and_its_beats_are_not(self) -> None:
        node = FakeNode(make_settings(**{"rollcall.limit.writesPerSecondPerAddress": "2"}))
        client = create_app(node).test_client()
        address = node.addresses.connect("10.9.9.9", Frontend.HTTP)

        def ask(values: dict[str, str]) -> int:
            return client.post(CLIENT, data=values, environ_overrides={ADDRESS: address}).status_code

        answers = [ask(ONE | {"port": str(port)}) for port in range(1, 30)]
        assert {answers[0], answers[-1]} == {200, 429}
        assert [ask(BEAT | {"port": "1"}) for _ in range(9)] == [200] * 9


class TestListsOfClients:
    def test_disabled_ones_are_hidden_and_unhealthy_ones_shown(self, client: FlaskClient) -> None:
        for number, more in ((1, {}), (2, {"enabled": "false"}), (3, {"healthy": "false"})):
            client.post(CLIENT, data=ONE | more | {"ip": f"10.0.0.{number}"})
        assert listed(client) == ["10.0.0.1", "10.0.0.3"]
        assert listed(client, healthyOnly="true") == ["10.0.0.1", "10.0.0.3"], "as Nacos 3, which does not look at it"

    def test_all_clusters_or_one(self, client: FlaskClient) -> None:
        for number, cluster in ((1, "a"), (2, "b")):
            client.post(CLIENT, data=ONE | {"ip": f"10.0.0.{number}", "clusterName": cluster})
        assert listed(client) == ["10.0.0.1", "10.0.0.2"]
        assert listed(client, clusterName="b") == ["10.0.0.2"]

    def test_an_unknown_service_has_none(self, client: FlaskClient) -> None:
        assert listed(client) == []
        assert refused(client.get(f"{CLIENT}/list")) == (400, 10_000)

    def test_the_threshold_shows_all_as_healthy(self, client: FlaskClient) -> None:
        client.post("/nacos/v3/admin/ns/service", data=SERVICE | {"protectThreshold": "1"})
        client.post(CLIENT, data=ONE | {"healthy": "false"})
        [host] = data(client.get(f"{CLIENT}/list", query_string=SERVICE))
        assert host["healthy"] is True
        [host] = data(client.get(f"{ADMIN}/list", query_string=SERVICE))
        assert host["healthy"] is False


class TestListsOfOperators:
    def test_all_instances_or_the_healthy_ones(self, client: FlaskClient) -> None:
        for number, more in ((1, {}), (2, {"enabled": "false"}), (3, {"healthy": "false", "clusterName": "b"})):
            client.post(ADMIN, data=ONE | more | {"ip": f"10.0.0.{number}"})

        def ips(**asked: str) -> list[str]:
            return sorted(one["ip"] for one in data(client.get(f"{ADMIN}/list", query_string=SERVICE | asked)))

        assert ips() == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        assert ips(clusterName="b") == ["10.0.0.3"]
        assert ips(healthyOnly="true") == ["10.0.0.1", "10.0.0.2"]

    @pytest.mark.parametrize("path", [ADMIN, CONSOLE])
    def test_unknown_names(self, client: FlaskClient, path: str) -> None:
        assert refused(client.get(f"{path}/list", query_string=SERVICE)) == (404, 30_000)
        client.post(ADMIN, data=ONE)
        assert refused(client.get(f"{path}/list", query_string=SERVICE | {"clusterName": "no"})) == (404, 30_000)

    def test_the_console_gets_pages(self, client: FlaskClient) -> None:
        for number in range(5):
            client.post(ADMIN, data=ONE | {"ip": f"10.0.0.{number}"})
        for base in (CONSOLE, CONSOLE.removeprefix("/nacos")):
            page = data(client.get(f"{base}/list", query_string=SERVICE | {"pageNo": "2", "pageSize": "3"}))
            assert (page["totalCount"], page["pageNumber"], page["pagesAvailable"]) == (5, 2, 2)
            assert len(page["pageItems"]) == 2
        assert refused(client.get(f"{CONSOLE}/list", query_string=SERVICE | {"pageNo": "0"})) == (400, 20_002)

    def test_an_unknown_instance(self, client: FlaskClient) -> None:
        assert refused(client.get(ADMIN, query_string=ONE)) == (404, 20_004)
        client.post(ADMIN, data=ONE)
        assert refused(client.get(ADMIN, query_string=ONE | {"port": "1"})) == (404, 20_004)


class TestChanges:
    @pytest.mark.parametrize("path", [ADMIN, CONSOLE])
    def test_an_update(self, client: FlaskClient, path: str) -> None:
        client.post(ADMIN, data=ONE)
        changed = ONE | {"weight": "5", "enabled": "false", "metadata": '{"a":"1"}'}
        assert data(client.put(path, data=changed)) == "ok"
        found = data(client.get(ADMIN, query_string=ONE))
        assert (found["weight"], found["enabled"], found["metadata"]) == (5.0, False, {"a": "1"})

    def test_an_update_of_the_unknown(self, client: FlaskClient) -> None:
        assert refused(client.put(ADMIN, data=ONE)) == (400, 21_004)
        client.post(ADMIN, data=ONE)
        assert data(client.put(ADMIN, data=ONE | {"port": "1"})) == "ok"
        assert listed(client) == ["10.0.0.1"], "no ghost of it"

    def test_a_partial_update(self, client: FlaskClient) -> None:
        client.post(ADMIN, data=ONE | {"weight": "5", "metadata": '{"a":"1"}'})
        assert data(client.put(f"{ADMIN}/partial", data=ONE | {"enabled": "false", "metadata": '{"b":"2"}'})) == "ok"
        found = data(client.get(ADMIN, query_string=ONE))
        assert (found["weight"], found["enabled"], found["metadata"]) == (5.0, False, {"a": "1", "b": "2"})
        assert refused(client.put(f"{ADMIN}/partial", data=ONE | {"port": "1"})) == (404, 20_004)

    @pytest.mark.parametrize("path", [ADMIN, f"{ADMIN}/partial", CONSOLE])
    def test_a_change_outlives_a_registration(self, client: FlaskClient, path: str) -> None:
        client.post(ADMIN, data=ONE | {"metadata": '{"a":"1"}'})
        assert data(client.put(path, data=ONE | {"weight": "3", "metadata": '{"b":"2"}'})) == "ok"
        client.post(CLIENT, data=ONE | {"weight": "7", "metadata": '{"a":"9"}'})
        found = data(client.get(ADMIN, query_string=ONE))
        assert (found["weight"], found["metadata"]) == (3.0, {"a": "9", "b": "2"})

    def test_metadata_of_many(self, client: FlaskClient) -> None:
        client.post(ADMIN, data=ONE | {"metadata": '{"a":"1"}'})
        asked = SERVICE | {"metadata": '{"b":"2"}', "consistencyType": "ephemeral"}
        updated = {"updated": ["10.0.0.1:8080:unknown:DEFAULT:ephemeral"]}
        assert data(client.put(f"{ADMIN}/metadata/batch", data=asked)) == updated
        for taken, left in (('{"a":""}', {"a": "1", "b": "2"}), ('{"b":""}', {"a": "1"})):
            answer = client.delete(f"{ADMIN}/metadata/batch", query_string=asked | {"metadata": taken})
            assert data(answer) == updated
            assert data(client.get(ADMIN, query_string=ONE))["metadata"] == left, "what is registered stays"
        assert refused(client.put(f"{ADMIN}/metadata/batch", data=SERVICE)) == (400, 10_000)

    @pytest.mark.parametrize("kind", ["ephemeral", ""])
    def test_metadata_of_named_instances_alone(self, client: FlaskClient, kind: str) -> None:
        for port in ("8080", "8081"):
            client.post(ADMIN, data=ONE | {"port": port})
        named = json.dumps([{"ip": "10.0.0.1", "port": 8080, "clusterName": "DEFAULT", "ephemeral": True}])
        asked = SERVICE | {"metadata": '{"b":"2"}', "consistencyType": kind, "instances": named}
        updated = {"updated": ["10.0.0.1:8080:unknown:DEFAULT:ephemeral"]}
        assert data(client.put(f"{ADMIN}/metadata/batch", data=asked)) == updated
        assert data(client.get(ADMIN, query_string=ONE | {"port": "8081"}))["metadata"] == {}
        assert data(client.delete(f"{ADMIN}/metadata/batch", query_string=asked)) == updated
        assert data(client.get(ADMIN, query_string=ONE))["metadata"] == {}

    def test_a_persistent_one(self, client: FlaskClient) -> None:
        persistent = ONE | {"ephemeral": "false"}
        assert data(client.post(CLIENT, data=persistent)) == "ok"
        assert data(client.get(ADMIN, query_string=ONE))["ephemeral"] is False
        assert data(client.put(f"{ADMIN}/partial", data=ONE | {"weight": "3"})) == "ok"
        assert data(client.get(ADMIN, query_string=ONE))["weight"] == 3.0
        assert data(client.post(CLIENT, data=BEAT)) == "ok", "it needs no beats, and is not to be registered again"
        assert data(client.delete(CLIENT, query_string=persistent)) == "ok"
        assert listed(client) == []


def test_an_instance_of_a_connection_is_listed(node: FakeNode, client: FlaskClient) -> None:
    node.clients.own.connect(ClientInfo("1_10.1.2.3_4", "10.1.2.3", 4, "shop", "Nacos-Java-Client:v3.0.3"))
    node.clients.own.register("1_10.1.2.3_4", RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 8080))
    assert data(client.get(f"{CLIENT}/list", query_string=SERVICE)) == [HOST]
    assert client.post(CLIENT, data=BEAT).get_json()["code"] == 21_003, "it lives by its connection"


def test_another_members_are_passed_on(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.owner = PEER
    node.cluster.others = [Member(PEER, MemberState.UP, capabilities=frozenset({CAPABILITY_HTTP_V3}))]
    node.forwarder.reply = Reply(200, b"from there")
    for path in (CLIENT, ADMIN):
        assert client.post(path, data=ONE).data == b"from there"
        assert client.delete(path, query_string=ONE).data == b"from there"
    assert client.post(CLIENT, data=BEAT).data == b"from there"
    assert client.put(f"{ADMIN}/partial", data=ONE).data == b"from there"


@pytest.mark.parametrize("path", [CLIENT, ADMIN])
def test_a_node_that_does_not_serve_refuses(node: FakeNode, client: FlaskClient, path: str) -> None:
    node.cluster.own_state = MemberState.STARTING
    assert client.post(path, data=ONE).status_code == 503
    assert client.get(f"{path}/list", query_string=SERVICE).status_code == 503


class TestManyInOneStep:
    BATCH = f"{ADMIN}/partial/batch"

    def change(self, client: FlaskClient, numbers: str, **values: str) -> TestResponse:
        named = json.dumps([{"ip": f"10.0.0.{one}", "port": 8080} for one in numbers])
        return client.put(self.BATCH, data=SERVICE | {"instances": named} | values)

    @pytest.fixture
    def four(self, client: FlaskClient) -> FlaskClient:
        for number in range(1, 5):
            client.post(ADMIN, data=ONE | {"ip": f"10.0.0.{number}", "metadata": "zone=a"})
        return client

    def test_attributes_of_several(self, four: FlaskClient) -> None:
        told = {"total": 4, "serving": 4, "remaining": 4, "threshold": 0.0}
        assert data(self.change(four, "12", weight="2", metadata="a=1")) == told
        assert data(self.change(four, "1", metadata='{"b": "2"}')) == told
        [first, second, *_] = data(four.get(f"{ADMIN}/list", query_string=SERVICE))
        assert (first["weight"], first["metadata"]) == (2, {"zone": "a", "a": "1", "b": "2"})
        assert (second["weight"], second["metadata"]) == (2, {"zone": "a", "a": "1"})

    def test_the_stop_is_asked_for_and_for_all_or_none(self, four: FlaskClient) -> None:
        four.put(f"{V1}/service", data=SERVICE | {"protectThreshold": "0.5"})
        answer = self.change(four, "12", enabled="false", ifEnoughRemain="true")
        assert refused(answer)[0] == 409
        assert "2 of 4 healthy instances in service would remain, protect threshold 0.5" in answer.text
        assert refused(self.change(four, "12", weight="0", ifEnoughRemain="true"))[0] == 409
        assert listed(four, healthyOnly="true") == [f"10.0.0.{number}" for number in range(1, 5)]
        one = data(self.change(four, "1", enabled="false", ifEnoughRemain="true"))
        assert one == {"total": 4, "serving": 4, "remaining": 3, "threshold": 0.5}
        again = data(self.change(four, "1", enabled="false", ifEnoughRemain="true"))
        assert again == {"total": 4, "serving": 3, "remaining": 3, "threshold": 0.5}, "it changes nothing for clients"
        assert refused(self.change(four, "2", enabled="false", ifEnoughRemain="true"))[0] == 409
        assert data(self.change(four, "2", enabled="false"))["remaining"] == 2

    def test_calls_at_once_do_not_pass_the_stop_together(self, node: FakeNode, four: FlaskClient) -> None:
        app = create_app(node)  # type: ignore[arg-type]
        ready = threading.Barrier(4)

        def call(number: int) -> int:
            with app.test_client() as client:
                ready.wait(10)
                return self.change(client, str(number), enabled="false", ifEnoughRemain="true").status_code

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(call, range(1, 5))) == [200, 200, 200, 409]

    def test_operators_at_two_members_do_not_pass_the_stop_together(self) -> None:
        with Cluster(2) as cluster:
            for number in (1, 2):
                cluster[0].register("orders", f"10.0.0.{number}", 8080)
            cluster.wait_for_instances("orders", 2)

            def call(number: int) -> str:
                named = json.dumps([{"ip": f"10.0.0.{number + 1}", "port": 8080}])
                change = {"instances": named, "enabled": "false", "ifEnoughRemain": "true"}
                try:
                    return cluster[number].call(
                        "PUT", "/v3/admin/ns/instance/partial/batch", serviceName="orders", **change
                    )
                except CallRefused as error:
                    return str(error)

            with ThreadPoolExecutor(2) as pool:
                done, stopped = sorted(pool.map(call, range(2)), key=lambda text: "nothing was changed" in text)
            assert json.loads(done)["data"] == {"total": 2, "serving": 2, "remaining": 1, "threshold": 0.0}
            assert "0 of 1 healthy instances in service would remain" in stopped

    @pytest.mark.parametrize(
        ("numbers", "values", "status", "text"),
        [
            ("19", {"enabled": "false"}, 404, "DEFAULT_GROUP@@orders has no instance 10.0.0.9:8080 in cluster DEFAULT"),
            ("", {"enabled": "false"}, 400, "Param 'instances' is illegal"),
            ("1", {}, 400, "there is nothing to change"),
            ("1", {"weight": "-1"}, 400, "weights range from"),
            ("1", {"metadata": "x" * 9}, 400, "metadata"),
        ],
    )
    def test_what_is_wrong_changes_nothing(
        self, four: FlaskClient, numbers: str, values: dict[str, str], status: int, text: str
    ) -> None:
        answer = self.change(four, numbers, **values)
        assert (answer.status_code, text in answer.text) == (status, True), answer.text
        assert all(one["enabled"] for one in data(four.get(f"{ADMIN}/list", query_string=SERVICE)))
