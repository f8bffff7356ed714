"""Old paths, logging in where nobody has to, and what is asked of a configuration server."""

import json

import pytest
from flask.testing import FlaskClient

from app.auth.refusals import AUTH_IS_OFF
from tests.support.fake_node import PEER, FakeNode

API = "/nacos/v1/ns/api"
ONE = {"ip": "10.0.0.1", "port": 80}


# --- /api -----------------------------------------------------------------------------------------


def test_a_list_by_dom(client: FlaskClient) -> None:
    client.post(API, query_string=ONE | {"serviceName": "a", "namespaceId": "ns"})
    found = client.get(f"{API}/srvIPXT?dom=a&namespaceId=ns").get_json()
    assert (found["name"], len(found["hosts"])) == ("DEFAULT_GROUP@@a", 1)
    assert client.get(f"{API}/srvIPXT?dom=G@@a").get_json()["name"] == "DEFAULT_GROUP@@G@@a"
    assert client.get(f"{API}/srvIPXT?dom=a&namespaceId=ns&isCheck=true").get_json() == {}


def test_a_beat_by_dom(node: FakeNode, client: FlaskClient) -> None:
    query = ONE | {"dom": "a"}
    assert client.get(f"{API}/clientBeat", query_string=query).get_json()["code"] == 20404
    client.post(API, query_string=ONE | {"serviceName": "a"})
    assert client.get(f"{API}/clientBeat", query_string=query).get_json()["code"] == 10200
    node.cluster.owner = PEER
    assert client.get(f"{API}/clientBeat", query_string=query).data == b"from the owner"


@pytest.mark.parametrize("path", ["srvIPXT", "clientBeat"])
@pytest.mark.parametrize("query", ["", "dom=", "dom=%20", "serviceName=a"])
def test_dom_is_needed(client: FlaskClient, path: str, query: str) -> None:
    answer = client.get(f"{API}/{path}?{query}")
    assert (answer.status_code, answer.data) == (400, b"Param 'dom' is required.")


def test_the_instance_paths_are_inherited(client: FlaskClient) -> None:
    query = ONE | {"serviceName": "a"}
    assert client.post(API, data=query).data == b"ok"
    assert client.put(API, data=query | {"weight": 2}).data == b"ok"
    assert client.patch(API, data=query | {"metadata": "k=v"}).data == b"ok"
    assert client.get(API, query_string=query).get_json()["metadata"] == {"k": "v"}
    assert len(client.get(f"{API}/list?serviceName=a").get_json()["hosts"]) == 1
    assert client.put(f"{API}/beat", data=query).get_json()["code"] == 10200
    assert client.get(f"{API}/statuses?key=DEFAULT_GROUP@@a").get_json() == {"ips": ["10.0.0.1:80_true"]}
    batch = {"serviceName": "a", "metadata": "k=w", "consistencyType": "ephemeral"}
    assert len(client.put(f"{API}/metadata/batch", data=batch).get_json()["updated"]) == 1
    assert client.delete(API, query_string=query).data == b"ok"


def test_all_names(node: FakeNode, client: FlaskClient) -> None:
    for name, namespace in (("a", "ns"), ("G@@a", "ns"), ("b", "public")):
        client.post(API, query_string=ONE | {"serviceName": name, "namespaceId": namespace})
    assert client.get(f"{API}/allDomNames").get_json() == {"count": 2, "doms": {"ns": ["a"], "public": ["b"]}}
    node.cluster.owner = PEER
    assert client.get(f"{API}/allDomNames?responsibleOnly=true").get_json()["doms"] == {"ns": [], "public": []}
    assert client.get(f"{API}/allDomNames?responsibleOnly=1").get_json()["doms"]["ns"] == ["a"]


@pytest.mark.parametrize(("version", "doms"), [("1.0.1", ["b"]), ("1.0.2", {"public": ["b"]})])
def test_all_names_as_old_dns_wants_them(client: FlaskClient, version: str, doms: object) -> None:
    client.post(API, query_string=ONE | {"serviceName": "b"})
    found = client.get(f"{API}/allDomNames", headers={"User-Agent": f"Nacos-DNS:v{version}"}).get_json()
    assert found == {"count": 1, "doms": doms}


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "state"), ("GET", "leader"), ("POST", "beat"), ("DELETE", "datum")]
)
def test_the_old_consensus(client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(f"/nacos/v1/ns/raft/{path}", method=method)
    assert (answer.status_code, answer.data) == (501, b"caused: old raft protocol already stop;")


# --- /auth ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nacos/v1/auth/login", "/nacos/v1/auth/users/login"])
def test_a_login_while_users_are_not_asked_for_says_so_and_grants_nothing(client: FlaskClient, path: str) -> None:
    answer = client.post(f"{path}?username=nacos", data={"password": "x"})
    assert answer.get_json() == {
        "accessToken": "auth-is-off",
        "tokenTtl": 18000,
        "globalAdmin": False,
        "username": "nacos",
        "message": AUTH_IS_OFF,
    }
    assert answer.headers["Authorization"] == "Bearer auth-is-off"
    assert client.post(path, data={"username": "nacos"}).data == b"Parameter 'password' is missing"


# --- /cs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/cs/configs"), ("POST", "/v1/cs/configs/listener"), ("DELETE", "/v1/cs")]
)
def test_this_is_no_configuration_server(client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(f"/nacos{path}?dataId=a", method=method)
    expected = f"this is a naming server without configurations: {method}:/nacos{path} is not served here"
    assert (answer.status_code, answer.get_data(as_text=True)) == (501, expected)


def test_a_changed_configuration_is_noted(client: FlaskClient) -> None:
    answer = client.get("/nacos/v1/cs/communication/dataChange?dataId=a&group=b")
    assert (answer.status_code, json.loads(answer.data)) == (200, True)
    assert client.get("/nacos/v1/csx").status_code == 404
