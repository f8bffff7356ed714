"""HTTP v2: the operations of v1, answered in the envelope of Nacos 2."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.http.api import called_names, checked_values
from app.http.api.call import Reply
from app.http.v2.envelope import FORM_TEXT, QUERY_TEXT
from app.naming.model.service_names import NameRule
from app.naming.wire.service_info import HOST_BYTES
from distro.model.types import MemberState
from tests.support.fake_node import PEER, FakeNode

V1, V2 = "/nacos/v1/ns", "/nacos/v2/ns"
ONE = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}
SERVICE = {"serviceName": "orders"}
PATCHED = ONE | {"serviceName": "DEFAULT_GROUP@@orders", "enabled": "false", "weight": "5", "metadata": ""}


def data(answer: TestResponse) -> Any:
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["message"], len(body)) == (200, 0, "success", 3), answer.data
    return body["data"]


def refused(answer: TestResponse) -> tuple[int, int, str, str]:
    body = answer.get_json()
    return answer.status_code, body["code"], body["message"], body["data"]


class TestInstance:
    def test_registered_here_it_is_seen_over_both(self, client: FlaskClient) -> None:
        values = ONE | {"metadata": '{"zone":"a"}', "weight": "2", "clusterName": "c1"}
        assert data(client.post(f"{V2}/instance", query_string=values)) == "ok"
        assert data(client.get(f"{V2}/instance", query_string=ONE | {"clusterName": "c1"})) == {
            "serviceName": "DEFAULT_GROUP@@orders",
            "ip": "10.0.0.1",
            "port": 8080,
            "clusterName": "c1",
            "weight": 2.0,
            "healthy": True,
            "instanceId": "10.0.0.1#8080#c1#DEFAULT_GROUP@@orders",
            "metadata": {"zone": "a"},
        }
        listed = client.get(f"{V1}/instance/list", query_string=SERVICE).get_json()["hosts"]
        assert [one["ip"] for one in listed] == ["10.0.0.1"]

    @pytest.mark.parametrize(
        ("name", "wanted"), [("port", "the value should be between 0 and 65535."), ("weight", "it should be a number.")]
    )
    def test_what_is_no_number_is_named(self, client: FlaskClient, name: str, wanted: str) -> None:
        answer = client.post(f"{V2}/instance", query_string=ONE | {name: "x"})
        words = f"Param '{name}' is illegal, {wanted}"
        assert refused(answer) == (400, 20002, "parameter validate error", words)

    @pytest.mark.parametrize("ending", [" ", "\t", "\x01"])
    def test_a_name_that_ends_in_a_blank_is_refused(self, client: FlaskClient, ending: str) -> None:
        for method, path in (("POST", ""), ("DELETE", ""), ("GET", ""), ("GET", "/list")):
            answer = client.open(
                f"{V2}/instance{path}", method=method, query_string=ONE | {"serviceName": f"a{ending}"}
            )
            assert refused(answer)[:2] == (400, 20002)
            assert "serviceName" in refused(answer)[3]
        assert data(client.post(f"{V2}/instance", query_string=ONE | {"serviceName": " orders"})) == "ok"

    def test_a_name_is_checked_once(self, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
        checked = []
        for module in (called_names, checked_values):
            monkeypatch.setattr(module, "check_service_name", lambda name, rule: checked.append((name, rule)))
        assert data(client.post(f"{V2}/instance", query_string=ONE | {"serviceName": "a$b"})) == "ok"
        assert checked == [("DEFAULT_GROUP@@a$b", NameRule.NACOS_2)]

    def test_a_blank_value_of_a_query(self, client: FlaskClient) -> None:
        blank = client.get(f"{V2}/instance", query_string=ONE | {"serviceName": " "})
        text = "Param 'serviceName' is illegal, serviceName is blank"
        assert refused(blank) == (400, 20002, "parameter validate error", text)
        wrong = client.patch(f"{V2}/instance", query_string=PATCHED | {"enabled": " "})
        text = "Required request parameter 'enabled' for method parameter type Boolean is present but converted to null"
        assert refused(wrong) == (400, 10000, "parameter missing", text)

    def test_a_beat_is_refused_in_the_envelope_and_answered_without(self, client: FlaskClient) -> None:
        answer = client.put(f"{V2}/instance/beat", query_string=ONE)
        assert answer.get_json() == {"clientBeatInterval": 5_000, "code": 20_404}
        text = "Required request parameter 'serviceName' for method parameter type String is not present"
        nameless = client.put(f"{V2}/instance/beat", query_string={"ip": "10.0.0.1", "port": "8080"})
        assert refused(nameless) == (400, 10000, "parameter missing", text)
        assert refused(client.put(f"{V2}/instance/beat", query_string=ONE | {"serviceName": "a b"}))[:2] == (400, 20002)

    def test_a_form_does_as_well(self, client: FlaskClient) -> None:
        assert data(client.post(f"{V2}/instance", data=ONE | {"groupName": "G1"})) == "ok"
        assert data(client.get(f"{V2}/instance", query_string=ONE | {"groupName": "G1"}))["serviceName"] == "G1@@orders"

    def test_a_large_list_has_room_for_its_texts_and_for_the_whole_or_is_refused(
        self, node: FakeNode, client: FlaskClient
    ) -> None:
        for number in range(100):
            assert client.post(f"{V2}/instance", data=ONE | {"ip": f"10.0.0.{number}"}).status_code == 200
        taken = node.answers.large_max - 100 * HOST_BYTES * 3 // 2
        node.answers.add_always(taken)
        assert client.get(f"{V2}/instance/list", query_string=SERVICE).status_code == 429
        node.answers.give_back(taken)
        assert len(data(client.get(f"{V2}/instance/list", query_string=SERVICE))["hosts"]) == 100
        assert node.answers.count == 0

    def test_the_list(self, node: FakeNode, client: FlaskClient) -> None:
        client.post(f"{V2}/instance", data=ONE)
        found = data(client.get(f"{V2}/instance/list", query_string=SERVICE))
        (host,) = found.pop("hosts")
        assert found == {
            "name": "DEFAULT_GROUP@@orders",
            "groupName": "DEFAULT_GROUP",
            "clusters": "",
            "cacheMillis": 10_000,
            "lastRefTime": node.wall_ms(),
            "checksum": "",
            "allIPs": False,
            "reachProtectionThreshold": False,
            "valid": True,
        }
        assert (host["ip"], host["port"], host["healthy"], host["ipDeleteTimeout"]) == ("10.0.0.1", 8080, True, 30_000)
        assert data(client.get(f"{V2}/instance/list", query_string={"serviceName": "nobody"}))["hosts"] == []

    @pytest.mark.parametrize(
        ("asked", "shown"),
        [
            ({}, ["a", "b", "c"]),
            ({"clusterName": "one"}, ["a", "b"]),
            ({"clusterName": "one,two"}, ["a", "b", "c"]),
            ({"healthyOnly": "true"}, ["a", "c"]),
            ({"clusterName": "three"}, []),
        ],
    )
    def test_the_list_of_some(self, client: FlaskClient, asked: dict[str, str], shown: list[str]) -> None:
        for name, cluster, more in (
            ("a", "one", {}),
            ("b", "one", {"healthy": "false"}),
            ("c", "two", {}),
            ("d", "two", {"enabled": "false"}),
        ):
            ip = f"10.0.0.{ord(name)}"
            client.post(f"{V2}/instance", data=ONE | more | {"ip": ip, "clusterName": cluster})
        hosts = data(client.get(f"{V2}/instance/list", query_string=SERVICE | asked))["hosts"]
        assert sorted(chr(int(one["ip"].rpartition(".")[2])) for one in hosts) == shown

    @pytest.mark.parametrize(
        ("healthy_only", "shown", "protects"), [("false", [True, True, True], True), ("true", [True], False)]
    )
    def test_the_threshold(self, client: FlaskClient, healthy_only: str, shown: list[bool], protects: bool) -> None:
        client.post(f"{V2}/service", data=SERVICE | {"protectThreshold": "0.5"})
        for host, healthy in (("1", "true"), ("2", "false"), ("3", "false")):
            client.post(f"{V2}/instance", data=ONE | {"ip": f"10.0.0.{host}", "healthy": healthy})
        found = data(client.get(f"{V2}/instance/list", query_string=SERVICE | {"healthyOnly": healthy_only}))
        assert [one["healthy"] for one in found["hosts"]] == shown
        assert found["reachProtectionThreshold"] is protects

    def test_updated_patched_and_removed(self, client: FlaskClient) -> None:
        client.post(f"{V2}/instance", data=ONE)
        assert data(client.put(f"{V2}/instance", data=ONE | {"weight": "5"})) == "ok"
        assert client.patch(f"{V2}/instance", data=PATCHED).data == b"ok"
        (found,) = client.get(
            f"{V1}/catalog/instances",
            query_string=SERVICE | {"clusterName": "DEFAULT", "pageNo": 1, "pageSize": 9},
        ).get_json()["list"]
        assert (found["weight"], found["enabled"]) == (5.0, False)
        assert data(client.delete(f"{V2}/instance", query_string=ONE)) == "ok"
        assert data(client.delete(f"{V2}/instance", query_string=ONE)) == "ok", "nobody is missed"
        assert data(client.get(f"{V2}/instance/list", query_string=SERVICE))["hosts"] == []

    def test_a_persistent_one(self, client: FlaskClient) -> None:
        persistent = ONE | {"ephemeral": "false"}
        assert data(client.post(f"{V2}/instance", data=persistent)) == "ok"
        assert data(client.put(f"{V2}/instance", data=persistent | {"weight": "3"})) == "ok"
        assert data(client.get(f"{V2}/instance", query_string=ONE))["weight"] == 3.0
        assert data(client.delete(f"{V2}/instance", query_string=persistent)) == "ok"

    def test_beats_are_answered_as_in_v1(self, client: FlaskClient) -> None:
        client.post(f"{V2}/instance", data=ONE)
        answer = client.put(f"{V2}/instance/beat", query_string=ONE).get_json()
        assert answer == {"clientBeatInterval": 5_000, "code": 10_200, "lightBeatEnabled": True}
        assert client.put(f"{V2}/instance/beat", query_string=ONE | {"port": "1"}).get_json()["code"] == 20_404

    def test_metadata_of_many(self, client: FlaskClient) -> None:
        client.post(f"{V2}/instance", data=ONE | {"metadata": '{"a":"1"}'})
        values = SERVICE | {"consistencyType": "ephemeral", "metadata": '{"b":"2"}'}
        changed = {"updated": ["10.0.0.1:8080:unknown:DEFAULT:ephemeral"]}
        assert data(client.put(f"{V2}/instance/metadata/batch", data=values)) == changed
        removed = values | {"metadata": '{"a":""}'}
        assert data(client.delete(f"{V2}/instance/metadata/batch", query_string=removed)) == changed
        assert data(client.get(f"{V2}/instance", query_string=ONE))["metadata"] == {"a": "1", "b": "2"}, "its own stay"

    @pytest.mark.parametrize("missing", list(ONE))
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "GET"])
    def test_what_is_missing_is_named(self, client: FlaskClient, method: str, missing: str) -> None:
        values = {name: value for name, value in ONE.items() if name != missing}
        answer = client.open(f"{V2}/instance", method=method, query_string=values)
        kind = "Integer" if missing == "port" else "String"
        text = QUERY_TEXT if method in ("PATCH", "GET") else FORM_TEXT
        assert refused(answer) == (400, 10_000, "parameter missing", text.format(missing, kind))

    @pytest.mark.parametrize(
        ("values", "code"),
        [
            ({"port": "x"}, 20_002),
            ({"ip": "a b"}, 20_002),
            ({"metadata": "zz"}, 20_002),
            ({"weight": "20000"}, 21_001),
            ({"serviceName": "a b"}, 20_002),
        ],
    )
    def test_what_is_wrong_is_refused(self, client: FlaskClient, values: dict[str, str], code: int) -> None:
        status, found, _, text = refused(client.post(f"{V2}/instance", data=ONE | values))
        assert (status, found) == (400, code)
        assert text
        assert data(client.get(f"{V2}/service/list"))["count"] == 0, "nothing is stored"

    @pytest.mark.parametrize("missing", ["weight", "enabled", "metadata"])
    def test_a_patch_names_all_values(self, client: FlaskClient, missing: str) -> None:
        data(client.post(f"{V2}/instance", data=ONE))
        values = {name: value for name, value in PATCHED.items() if name != missing}
        answer = client.patch(f"{V2}/instance", data=values)
        assert refused(answer)[:2] == (400, 10_000)
        assert missing in refused(answer)[3]

    def test_a_patch_names_the_group(self, client: FlaskClient) -> None:
        data(client.post(f"{V2}/instance", data=ONE))
        answer = client.patch(f"{V2}/instance", data=PATCHED | {"serviceName": "orders"})
        assert refused(answer)[:2] == (400, 20_002)
        assert "groupName@@serviceName" in refused(answer)[3]

    def test_how_long_a_list_may_be_kept(self, client: FlaskClient) -> None:
        assert data(client.get(f"{V2}/instance/list", query_string=SERVICE))["cacheMillis"] == 10_000

    def test_an_unknown_one(self, client: FlaskClient) -> None:
        assert refused(client.get(f"{V2}/instance", query_string=ONE))[:2] == (404, 20_004)
        assert refused(client.put(f"{V2}/instance", data=ONE))[:2] == (400, 21_004)
        client.post(f"{V2}/instance", data=ONE)
        assert data(client.put(f"{V2}/instance", data=ONE | {"port": "1"})) == "ok", "it may come later"
        assert len(data(client.get(f"{V2}/instance/list", query_string=SERVICE))["hosts"]) == 1

    def test_another_members_are_passed_on(self, node: FakeNode, client: FlaskClient) -> None:
        node.cluster.owner = PEER
        node.forwarder.reply = Reply(200, b"from there")
        assert client.post(f"{V2}/instance", data=ONE).data == b"from there"
        assert node.forwarder.tags == ["DEFAULT_GROUP@@orders"]
        assert data(client.get(f"{V2}/instance/list", query_string=SERVICE))["hosts"] == []


class TestService:
    def test_its_life(self, client: FlaskClient) -> None:
        values = SERVICE | {"protectThreshold": "0.4", "metadata": '{"a":"1"}', "groupName": "G1"}
        assert data(client.post(f"{V2}/service", data=values)) == "ok"
        assert refused(client.post(f"{V2}/service", data=values))[:2] == (400, 21_007)
        found = data(client.get(f"{V2}/service", query_string=values))
        assert (found["serviceName"], found["groupName"], found["namespace"]) == ("orders", "G1", "public")
        assert (found["protectThreshold"], found["metadata"], found["clusterMap"]) == (0.4, {"a": "1"}, {})
        assert data(client.put(f"{V2}/service", data=values | {"metadata": '{"b":"2"}'})) == "ok"
        assert data(client.get(f"{V2}/service", query_string=values))["metadata"] == {"b": "2"}
        assert data(client.delete(f"{V2}/service", query_string=values)) == "ok"
        assert refused(client.delete(f"{V2}/service", query_string=values))[:2] == (400, 21_008)

    def test_one_with_instances_stays(self, client: FlaskClient) -> None:
        client.post(f"{V2}/instance", data=ONE | {"clusterName": "c1"})
        assert refused(client.delete(f"{V2}/service", query_string=SERVICE))[:2] == (400, 21_009)
        found = data(client.get(f"{V2}/service", query_string=SERVICE))
        shown = {"clusterName": "c1", "healthChecker": {"type": "TCP"}, "metadata": {}, "hosts": None}
        assert found["clusterMap"] == {"c1": shown}
        assert found["ephemeral"] is True

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
    def test_an_unknown_one(self, client: FlaskClient, method: str) -> None:
        answer = client.open(f"{V2}/service", method=method, query_string=SERVICE)
        assert refused(answer)[:3] == (400, 21_008, "service not exist")
        assert refused(client.open(f"{V2}/service", method=method))[:2] == (400, 10_000)

    def test_pages_of_names(self, client: FlaskClient) -> None:
        for name in "cab":
            client.post(f"{V2}/service", data={"serviceName": name})
        assert data(client.get(f"{V2}/service/list")) == {"count": 3, "services": ["a", "b", "c"]}
        second = client.get(f"{V2}/service/list", query_string={"pageNo": 2, "pageSize": 2})
        assert data(second) == {"count": 3, "services": ["c"]}
        assert data(client.get(f"{V2}/service/list", query_string={"pageNo": 9}))["services"] == []
        assert data(client.get(f"{V2}/service/list", query_string={"groupName": "G9"}))["count"] == 0
        assert data(client.get(f"{V2}/service/list", query_string={"pageSize": 501}))["count"] == 3
        assert refused(client.get(f"{V2}/service/list", query_string={"pageSize": -1}))[:2] == (400, 20_002)

    @pytest.mark.parametrize(
        ("given", "shown"), [({}, False), ({"ephemeral": "true"}, True), ({"ephemeral": "1"}, True)]
    )
    def test_its_kind_is_that_of_its_creation_until_it_has_instances(
        self, client: FlaskClient, given: dict[str, str], shown: bool
    ) -> None:
        data(client.post(f"{V2}/service", data=SERVICE | given))
        assert data(client.get(f"{V2}/service", query_string=SERVICE))["ephemeral"] is shown
        data(client.put(f"{V2}/service", data=SERVICE | {"metadata": "a=1"}))
        assert data(client.get(f"{V2}/service", query_string=SERVICE))["ephemeral"] is shown
        data(client.post(f"{V2}/instance", data=ONE | {"ephemeral": "false"}))
        assert data(client.get(f"{V2}/service", query_string=SERVICE))["ephemeral"] is False

    def test_its_selector(self, client: FlaskClient) -> None:
        data(client.post(f"{V2}/service", data=SERVICE))
        assert data(client.get(f"{V2}/service", query_string=SERVICE))["selector"] == {
            "type": "none",
            "contextType": "NONE",
        }
        expression = "CONSUMER.label.zone = PROVIDER.label.zone"
        label = json.dumps({"type": "label", "expression": expression})
        data(client.put(f"{V2}/service", data=SERVICE | {"selector": label}))
        assert data(client.get(f"{V2}/service", query_string=SERVICE))["selector"] == {
            "type": "label",
            "contextType": "CMDB",
            "expression": expression,
            "labels": ["zone"],
        }
        for method in ("POST", "PUT"):
            answer = client.open(f"{V2}/service", method=method, data=SERVICE | {"selector": '{"type":"zzz"}'})
            assert refused(answer)[:3] == (400, 21_006, "selector error")

    def test_refusals_have_the_texts_of_nacos(self, client: FlaskClient) -> None:
        text = "service not found, namespace: public, serviceName: DEFAULT_GROUP@@orders"
        assert refused(client.get(f"{V2}/service", query_string=SERVICE))[3] == text
        data(client.post(f"{V2}/instance", data=ONE))
        text = "specified service DEFAULT_GROUP@@orders already exists!"
        assert refused(client.post(f"{V2}/service", data=SERVICE))[3] == text
        text = "Service DEFAULT_GROUP@@orders is not empty, can't be delete. Please unregister instance first"
        assert refused(client.delete(f"{V2}/service", query_string=SERVICE))[3] == text


class TestOperator:
    def test_counters(self, client: FlaskClient) -> None:
        client.post(f"{V2}/instance", data=ONE)
        assert data(client.get(f"{V2}/operator/metrics")) == {"status": "UP"}
        found = data(client.get(f"{V2}/ops/metrics", query_string={"onlyStatus": "false"}))
        assert (found["status"], found["serviceCount"], found["instanceCount"]) == ("UP", 1, 1)

    def test_switches(self, client: FlaskClient) -> None:
        entry = {"entry": "check", "value": "false"}
        assert data(client.put(f"{V2}/operator/switches", query_string=entry)) == "ok"
        assert data(client.get(f"{V2}/operator/switches"))["healthCheckEnabled"] is False
        assert refused(client.put(f"{V2}/operator/switches", query_string={"entry": "check"}))[1] == 10_000

    def test_health_by_hand(self, client: FlaskClient) -> None:
        client.post(f"{V2}/instance", data=ONE)
        answer = client.put(f"{V2}/health/instance", data=ONE | {"healthy": "false"})
        assert refused(answer) == (
            400, 30_000, "server error",
            "health check is still working, service: DEFAULT_GROUP@@orders, cluster: DEFAULT",
        )  # fmt: skip
        assert refused(client.put(f"{V2}/health", data=ONE))[1] == 10_000

    def test_a_page_of_instances(self, client: FlaskClient) -> None:
        for number, more in enumerate(({}, {"healthy": "false"}, {"enabled": "false"})):
            client.post(f"{V2}/instance", data=ONE | more | {"port": str(number + 1)})

        def ports(**values: object) -> list[int]:
            answer = client.get(f"{V2}/catalog/instances", query_string=SERVICE | values)
            return sorted(one["port"] for one in data(answer)["instances"])

        assert ports() == [1, 2, 3]
        assert ports(healthyOnly="true") == [1, 3]
        assert ports(enabledOnly="true") == [1, 2]
        assert len(ports(pageSize=2)) == 2
        assert refused(client.get(f"{V2}/catalog/instances", query_string={"serviceName": "x"}))[:2] == (404, 20_004)

    def test_members(self, node: FakeNode, client: FlaskClient) -> None:
        core = "/nacos/v2/core/cluster/node"
        assert data(client.get(f"{core}/self"))["address"] == node.cluster.self_address
        every = [one["address"] for one in data(client.get(f"{core}/list"))]
        assert node.cluster.self_address in every
        assert data(client.get(f"{core}/list", query_string={"address": "nobody"})) == []
        assert data(client.get(f"{core}/self/health")) == "UP"


def test_a_node_that_loads_refuses(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.own_state = MemberState.STARTING
    assert client.post(f"{V2}/instance", data=ONE).status_code == 503


def test_an_unknown_path(client: FlaskClient) -> None:
    answer = client.get(f"{V2}/nothing")
    assert answer.status_code == 501
    assert "no such api:GET:/nacos/v2/ns/nothing" in json.dumps(answer.get_json())
