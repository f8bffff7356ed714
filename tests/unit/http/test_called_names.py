"""The names of services in calls over HTTP: each API follows its line of Nacos."""

import pytest
from flask.testing import FlaskClient

from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import FakeNode, make_settings

V1, V2 = "/nacos/v1/ns", "/nacos/v2/ns"
PROVIDER = "providers:com.foo.Outer$Inner:1.0.0:"
REFUSED_1 = f"dom name can only have these characters: 0-9a-zA-Z-._:, current: DEFAULT_GROUP@@{PROVIDER}"
ILLEGAL = "Param 'serviceName' is illegal, illegal characters should not appear in the param."


def one(name: str, **more: str) -> dict[str, str]:
    return {"serviceName": name, "ip": "10.0.0.1", "port": "80"} | more


def listed(client: FlaskClient, name: str) -> list[str]:
    answer = client.get(f"{V1}/instance/list", query_string={"serviceName": name}).get_json()
    return [found["ip"] for found in answer["hosts"]]


CREATING = [("POST", "/instance", {}), ("PUT", "/instance", {}), ("DELETE", "/instance", {}), ("POST", "/service", {})]


@pytest.mark.parametrize(("method", "path", "more"), CREATING)
def test_v1_refuses_names_of_nacos_2_for_a_new_service(
    client: FlaskClient, method: str, path: str, more: dict[str, str]
) -> None:
    answer = client.open(f"{V1}{path}", method=method, query_string=one(PROVIDER, **more))
    assert (answer.status_code, answer.text) == (400, REFUSED_1)
    beat = '{"ip":"10.0.0.1","port":80,"cluster":"DEFAULT","weight":1}'
    answer = client.put(f"{V1}/instance/beat", query_string={"serviceName": PROVIDER, "beat": beat})
    assert (answer.status_code, answer.text) == (400, REFUSED_1)
    assert client.get(f"{V1}/service/list?pageNo=1&pageSize=9").get_json()["count"] == 0


def test_v1_changes_and_removes_instances_of_a_service_that_came_over_another_api(
    node: FakeNode, client: FlaskClient
) -> None:
    node.naming.register(RegisterInstance(f"DEFAULT_GROUP@@{PROVIDER}", "10.0.0.1", 80))
    assert client.put(f"{V1}/instance", query_string=one(PROVIDER, weight="2")).data == b"ok"
    [found] = client.get(f"{V1}/instance/list", query_string={"serviceName": PROVIDER}).get_json()["hosts"]
    assert found["weight"] == 2
    assert client.delete(f"{V1}/instance", query_string=one(PROVIDER)).data == b"ok"
    assert listed(client, PROVIDER) == []


@pytest.mark.parametrize("name", [PROVIDER, "consumers:X:1.0:*", "a##b", "a/b?c=d&e", "é", "%23", "a,b"])
def test_v2_has_the_names_of_nacos_2(client: FlaskClient, name: str) -> None:
    patched = {"serviceName": f"DEFAULT_GROUP@@{name}", "weight": "1", "enabled": "true", "metadata": ""}
    assert client.post(f"{V2}/instance", query_string=one(name)).status_code == 200
    assert client.patch(f"{V2}/instance", query_string=one(name) | patched).status_code == 200
    for method in ("PUT", "GET"):
        answer = client.open(f"{V2}/instance", method=method, query_string=one(name))
        assert answer.status_code == 200, (method, answer.text)
    assert listed(client, name) == ["10.0.0.1"]
    assert client.post(f"{V2}/service", query_string={"serviceName": name, "groupName": "G"}).status_code == 200
    assert client.get(f"{V2}/service", query_string={"serviceName": name}).get_json()["data"]["serviceName"] == name
    assert client.delete(f"{V2}/instance", query_string=one(name)).status_code == 200
    assert listed(client, name) == []


@pytest.mark.parametrize("name", ["服务", "a b"])
def test_v2_refuses_what_nacos_refuses_since_2_3(client: FlaskClient, name: str) -> None:
    for method, path in (("POST", "instance"), ("DELETE", "instance"), ("GET", "instance/list"), ("POST", "service")):
        answer = client.open(f"{V2}/{path}", method=method, query_string=one(name))
        body = answer.get_json()
        assert (answer.status_code, body["code"], body["data"]) == (400, 20_002, ILLEGAL)


class TestWithSettings:
    @pytest.fixture
    def node(self) -> FakeNode:
        node = FakeNode()
        node.settings = make_settings(rollcall_names_v1="2.x")
        return node

    def test_v1_follows_the_other_line(self, client: FlaskClient) -> None:
        assert client.post(f"{V1}/instance", query_string=one(PROVIDER)).data == b"ok"
        for name in ("服务", "@a"):
            answer = client.post(f"{V1}/instance", query_string=one(name))
            assert (answer.status_code, answer.text) == (400, ILLEGAL)
        assert client.post(f"{V1}/instance", query_string=one("x" * 513)).status_code == 400


class TestWithoutChecks:
    @pytest.fixture
    def node(self) -> FakeNode:
        node = FakeNode()
        node.settings = make_settings(nacos_core_param_check_enabled="false")
        return node

    @pytest.mark.parametrize("name", ["服务", "a b"])
    def test_v2_allows_what_can_be_stored(self, client: FlaskClient, name: str) -> None:
        assert client.post(f"{V2}/instance", query_string=one(name)).status_code == 200
        assert listed(client, name) == ["10.0.0.1"]
        assert client.post(f"{V2}/instance", query_string=one("a\nb")).status_code == 400


def test_what_a_member_forwards_was_checked_there(client: FlaskClient) -> None:
    """A persistent instance over gRPC travels to its owner as a call of v1."""
    agent = {"User-Agent": "Nacos-Server:1.4.8"}
    for path, name in ((V1, PROVIDER), (V2, "服务")):
        assert (
            client.post(f"{path}/instance", query_string=one(name, ephemeral="false"), headers=agent).status_code == 200
        )
        assert listed(client, name) == ["10.0.0.1"]
    assert client.post(f"{V1}/instance", query_string=one("a\nb"), headers=agent).status_code == 400


V3 = "/nacos/v3"
OF_V3 = [
    ("POST", "/client/ns/instance"),
    ("DELETE", "/client/ns/instance"),
    ("GET", "/client/ns/instance/list"),
    ("POST", "/admin/ns/instance"),
    ("PUT", "/admin/ns/instance"),
    ("PUT", "/admin/ns/instance/partial"),
    ("PUT", "/admin/ns/instance/metadata/batch"),
    ("GET", "/admin/ns/instance"),
    ("GET", "/admin/ns/instance/list"),
    ("POST", "/admin/ns/service"),
    ("PUT", "/admin/ns/service"),
    ("GET", "/admin/ns/service"),
    ("DELETE", "/admin/ns/service"),
    ("PUT", "/admin/ns/cluster"),
    ("PUT", "/admin/ns/health/instance"),
    ("GET", "/admin/ns/service/subscribers"),
    ("GET", "/admin/ns/client/service/publisher/list"),
    ("GET", "/admin/ns/client/service/subscriber/list"),
]
MORE = {
    "metadata": '{"a":"1"}',
    "healthy": "true",
    "clusterName": "c1",
    "checkPort": "1",
    "useInstancePort4Check": "true",
    "healthChecker": '{"type":"NONE"}',
}


@pytest.mark.parametrize(("method", "path"), OF_V3)
def test_v3_has_the_names_of_nacos_2(client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(f"{V3}{path}", method=method, query_string=one("a b", **MORE))
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["data"]) == (400, 20_002, ILLEGAL)
    answer = client.open(f"{V3}{path}", method=method, query_string=one(PROVIDER, **MORE))
    assert answer.get_json()["data"] != ILLEGAL
