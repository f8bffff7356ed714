"""Members, connections, namespaces, state and operations over HTTP v3, and the parts of Nacos 3 that are not here."""

from collections.abc import Set
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.http.factory import create_app
from app.members.member_sources import NoListError
from tests.support.auth import AUTH_ON
from tests.support.fake_node import PEER, FakeNode, make_settings

CORE, OPS, CONSOLE = "/nacos/v3/admin/core", "/nacos/v3/admin/ns/ops", "/nacos/v3/console"


def data(answer: TestResponse) -> Any:
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["message"], len(body)) == (200, 0, "success", 3), answer.data
    return body["data"]


def refused(answer: TestResponse) -> tuple[int, int]:
    return answer.status_code, answer.get_json()["code"]


class TestOperations:
    def test_switches(self, client: FlaskClient) -> None:
        assert data(client.put(f"{OPS}/switches", data={"entry": "check", "value": "false"})) == "ok"
        found = data(client.get(f"{OPS}/switches"))
        assert found["healthCheckEnabled"] is False
        assert found["pushVersionOfJava"] == found["pushVersionOfGo"] == "0.1.0"
        assert "pushJavaVersion" not in found
        for missing in ("entry", "value"):
            asked = {"entry": "check", "value": "true"}
            del asked[missing]
            assert refused(client.put(f"{OPS}/switches", data=asked)) == (400, 10_000)
        wrong = {"entry": "distroThreshold", "value": "x"}
        assert refused(client.put(f"{OPS}/switches", data=wrong)) == (400, 20_002)

    def test_counts(self, client: FlaskClient) -> None:
        for kind in ("true", "false"):
            asked = {"serviceName": "a", "ip": "10.0.0.1", "port": "80", "ephemeral": kind}
            client.post("/nacos/v3/admin/ns/instance", data=asked)
        assert data(client.get(f"{OPS}/metrics")) == {"status": "UP"}
        assert data(client.get(f"{OPS}/metrics?onlyStatus=false")) == {
            "status": "UP",
            "serviceCount": 1,
            "instanceCount": 2,
            "subscribeCount": 0,
            "clientCount": 2,
            "connectionBasedClientCount": 0,
            "ephemeralIpPortClientCount": 1,
            "persistentIpPortClientCount": 1,
            "responsibleClientCount": 2,
        }

    def test_logs(self, client: FlaskClient) -> None:
        asked = {"logName": "naming-main", "logLevel": "INFO"}
        assert data(client.put(f"{OPS}/log", query_string=asked)) == "ok"
        assert data(client.put(f"{CORE}/ops/log", json=asked)) is None
        assert data(client.put(f"{CORE}/ops/log", data=asked)) is None, "as the maintainer client sends it"
        for path, code in ((f"{OPS}/log", 10_000), (f"{CORE}/ops/log", 20_002)):
            assert refused(client.put(path, query_string={"logName": "naming-main"})) == (400, code)
            assert refused(client.put(path, query_string=asked | {"logLevel": "LOUD"})) == (400, 20_002)

    def test_what_raft_had(self, client: FlaskClient) -> None:
        assert data(client.get(f"{CORE}/ops/ids")) == []
        assert refused(client.post(f"{CORE}/ops/raft", json={"command": "x", "value": "y"})) == (501, 40_001)


class TestMembers:
    def test_this_one_and_all(self, node: FakeNode, client: FlaskClient) -> None:
        own = data(client.get(f"{CORE}/cluster/node/self"))
        assert own["address"] == node.cluster.self_address
        assert data(client.get(f"{CORE}/cluster/node/list")) == [own]
        for base in ("/nacos", ""):
            assert data(client.get(f"{base}/v3/console/core/cluster/nodes")) == [own]
        assert data(client.get(f"{CORE}/cluster/node/list?address=10.")) == []
        assert data(client.get(f"{CORE}/cluster/node/list?state=up")) == [own]
        assert data(client.get(f"{CORE}/cluster/node/list?state=DOWN")) == []
        assert refused(client.get(f"{CORE}/cluster/node/list?state=SLEEPY")) == (400, 23_000)

    def test_an_update_is_checked_and_changes_nothing(self, client: FlaskClient) -> None:
        path = f"{CORE}/cluster/node/list"
        assert data(client.put(path, json=[{"ip": "10.0.0.1", "port": 8848}])) is True
        assert refused(client.put(path, json=[])) == (400, 10_000)
        for wrong in ({"ip": "10.0.0.1"}, [1]):
            assert refused(client.put(path, json=wrong)) == (400, 20_002)
        assert len(data(client.get(path))) == 1

    def test_the_source_of_the_list(self, node: FakeNode, client: FlaskClient) -> None:
        path = f"{CORE}/cluster/lookup"
        assert data(client.put(path, data={"type": "file"})) is True
        assert refused(client.put(path)) == (400, 10_000)
        assert refused(client.put(path, data={"type": "no"})) == (400, 20_002)
        node.lookup = None
        assert refused(client.put(path, data={"type": "file"})) == (500, 30_000)


class StubLoader:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.evened = True

    def current(self, ids: Set[str] | None = None) -> dict[str, Any]:
        return {name: {} for name in ("a", "b") if ids is None or name in ids}

    def reload_client(self, connection_id: str, redirect: tuple[str, int] | None) -> None:
        self.asked.append((connection_id, redirect))

    def reload_to(self, count: int, redirect: tuple[str, int] | None) -> None:
        self.asked.append((count, redirect))

    def cluster(self) -> dict[str, Any]:
        metric = {"conCount": "3", "sdkConCount": "2", "load": "0.5", "cpu": "0.1"}
        return {"detail": [{"address": PEER, "metric": metric}], "memberCount": 1, "threshold": 2.2, "total": 2}

    def smart_reload(self, factor: float) -> bool:
        self.asked.append((factor,))
        return self.evened


class TestConnections:
    def test_without_grpc(self, client: FlaskClient) -> None:
        assert data(client.get(f"{CORE}/loader/current")) == {}
        assert refused(client.get(f"{CORE}/loader/cluster")) == (404, 20_004)
        assert refused(client.post(f"{CORE}/loader/smartReloadCluster")) == (404, 20_004)

    def test_they_are_listed_and_moved(self, node: FakeNode, client: FlaskClient) -> None:
        node.loader = loader = StubLoader()
        assert data(client.get(f"{CORE}/loader/current")) == {"a": {}, "b": {}}
        asked = {"connectionId": "a", "redirectAddress": "10.0.0.5:8848"}
        assert data(client.post(f"{CORE}/loader/reloadClient", data=asked)) is None
        assert data(client.post(f"{CORE}/loader/reloadCurrent", data={"count": "3"})) is None
        assert data(client.post(f"{CORE}/loader/smartReloadCluster", data={"loaderFactor": "0.2"})) is None
        assert loader.asked == [("a", ("10.0.0.5", 8848)), (3, None), (0.2,)]
        loader.evened = False
        assert refused(client.post(f"{CORE}/loader/smartReloadCluster")) == (200, 30_000)
        assert refused(client.post(f"{CORE}/loader/reloadClient", data={"connectionId": "x"})) == (404, 20_004)
        for path in ("reloadClient", "reloadCurrent"):
            assert refused(client.post(f"{CORE}/loader/{path}")) == (400, 10_000)
            assert client.get(f"{CORE}/loader/{path}").status_code == 405, "Nacos 3 changes nothing with GET"

    def test_the_load_of_all(self, node: FakeNode, client: FlaskClient) -> None:
        node.loader = StubLoader()
        assert data(client.get(f"{CORE}/loader/cluster")) == {
            "detail": [{"address": PEER, "conCount": 3, "sdkConCount": 2, "load": "0.5", "cpu": "0.1"}],
            "memberCount": 1,
            "threshold": "2.2",
            "total": 2,
        }


PUBLIC = {
    "namespace": "public",
    "namespaceShowName": "public",
    "namespaceDesc": "Default Namespace",
    "quota": 200,
    "configCount": 0,
    "type": 0,
}
DEV = {**PUBLIC, "namespace": "dev", "namespaceShowName": "Dev", "namespaceDesc": None, "type": 1}


class TestNamespaces:
    @pytest.mark.parametrize(
        ("path", "id_name"),
        [
            (f"{CORE}/namespace", "namespaceId"),
            (f"{CONSOLE}/core/namespace", "customNamespaceId"),
            ("/v3/console/core/namespace", "customNamespaceId"),
        ],
    )
    def test_the_life_of_one(self, client: FlaskClient, path: str, id_name: str) -> None:
        assert data(client.get(f"{path}/list")) == [PUBLIC]
        assert data(client.post(path, data={id_name: "dev", "namespaceName": "Dev"})) is True
        assert refused(client.post(path, data={id_name: "dev", "namespaceName": "Dev"})) == (400, 22_002)
        assert data(client.get(f"{path}/list")) == [PUBLIC, DEV]
        assert data(client.get(path, query_string={"namespaceId": "dev"})) == DEV
        assert data(client.get(path, query_string={"namespaceId": "public"})) == PUBLIC
        named = {"namespaceId": "dev", "namespaceName": "D", "namespaceDesc": "x"}
        assert data(client.put(path, data=named)) is True
        assert data(client.get(path, query_string={"namespaceId": "dev"}))["namespaceShowName"] == "D"
        assert data(client.delete(path, query_string={"namespaceId": "dev"})) is True
        assert data(client.delete(path, query_string={"namespaceId": "dev"})) is True
        assert refused(client.get(path, query_string={"namespaceId": "dev"})) == (404, 22_001)
        assert data(client.post(path, data={"namespaceName": "Dev"})) is True, "with a random id"
        assert len(data(client.get(f"{path}/list"))) == 2

    @pytest.mark.parametrize(
        ("wrong", "code"),
        [
            ({"namespaceName": "a@b"}, 22_000),
            ({"namespaceId": "a b", "namespaceName": "x"}, 22_000),
            ({"namespaceId": "x" * 129, "namespaceName": "x"}, 22_000),
            ({"namespaceId": "public", "namespaceName": "x"}, 22_002),
            ({"namespaceId": "x"}, 10_000),
            ({"namespaceId": "x", "namespaceName": " "}, 22_000),
        ],
    )
    def test_what_is_wrong_is_refused(self, client: FlaskClient, wrong: dict[str, str], code: int) -> None:
        assert refused(client.post(f"{CORE}/namespace", data=wrong)) == (400, code)
        assert data(client.get(f"{CORE}/namespace/list")) == [PUBLIC]

    @pytest.mark.parametrize("name", ["", "public"])
    def test_the_public_one_stays_as_it_is(self, client: FlaskClient, name: str) -> None:
        path, asked = f"{CORE}/namespace", {"namespaceId": name}
        assert refused(client.put(path, data=asked | {"namespaceName": "x"})) == (400, 22_000)
        assert data(client.delete(path, query_string=asked)) is True
        assert data(client.get(path, query_string=asked)) == PUBLIC | {"namespace": name}

    def test_whether_an_id_is_taken(self, client: FlaskClient) -> None:
        client.post(f"{CORE}/namespace", data={"namespaceId": "dev", "namespaceName": "Dev"})
        assert data(client.get(f"{CORE}/namespace/check?namespaceId=dev")) == 1
        assert data(client.get(f"{CORE}/namespace/check?namespaceId=x")) == 0
        for name, taken in (("dev", True), ("x", False), ("", False), ("public", True)):
            asked = {"customNamespaceId": name}
            assert data(client.get(f"{CONSOLE}/core/namespace/exist", query_string=asked)) is taken


class TestState:
    def test_it(self, client: FlaskClient) -> None:
        state = {
            "version": "3.0.3",
            "startup_mode": "standalone",
            "function_mode": "naming",
            "server_port": "8848",
            "auth_enabled": "false",
            "auth_system_type": "nacos",
            "auth_admin_request": "false",
        }
        assert data(client.get(f"{CORE}/state")) == state
        for base in ("/nacos", ""):
            answer = client.get(f"{base}/v3/console/server/state")
            assert answer.get_json() == {**state, "login_page_enabled": "false", "console_ui_enabled": "true"}

    def test_the_first_administrator_is_asked_for(self) -> None:
        found = data(create_app(FakeNode(make_settings(**AUTH_ON))).test_client().get(f"{CORE}/state"))
        assert (found["auth_enabled"], found["auth_admin_request"]) == ("true", "true")

    def test_probes(self, node: FakeNode, client: FlaskClient) -> None:
        ready = (f"{CORE}/state/readiness", f"{CORE}/ops/readiness", f"{CONSOLE}/health/readiness")
        alive = (f"{CORE}/state/liveness", f"{CONSOLE}/health/liveness", "/v3/console/health/liveness")
        assert {data(client.get(path)) for path in (*ready, *alive)} == {"ok"}
        node.cluster.draining = True
        for path in ready:
            answer = client.get(path)
            assert refused(answer) == (500, 30_000)
            assert "drains" in answer.get_json()["data"]
        assert {data(client.get(path)) for path in alive} == {"ok"}

    def test_texts_for_a_console(self, client: FlaskClient) -> None:
        assert data(client.get(f"{CONSOLE}/server/announcement")) == ""
        assert data(client.get(f"{CONSOLE}/server/guide")) == ""
        assert refused(client.get(f"{CONSOLE}/server/announcement?language=xx")) == (400, 20_002)


class TestAbsentParts:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/v3/admin/cs/config"),
            ("POST", "/v3/admin/cs/config"),
            ("GET", "/v3/client/cs/config"),
            ("GET", "/v3/console/cs/history/list"),
            ("GET", "/v3/admin/ai/mcp/list"),
            ("PUT", "/v3/admin/core/plugin/status"),
            ("GET", "/v3/client/ai/agent"),
            ("GET", "/v3/admin/plugin/list"),
            ("GET", "/v3/console/copilot"),
            ("GET", "/v3/anything"),
        ],
    )
    def test_one_clear_refusal(self, client: FlaskClient, method: str, path: str) -> None:
        answer = client.open(f"/nacos{path}", method=method)
        assert answer.status_code == 501
        assert answer.get_json() == {
            "code": 40_001,
            "message": "API function disabled.",
            "data": "this is a naming server without configurations, AI and plug-ins: "
            f"{method}:/nacos{path} is not served here",
        }

    @pytest.mark.parametrize("path", ["/v3/admin/ns/nothing", "/v3/admin/core/nothing", "/v3/auth/nothing"])
    def test_an_unknown_path(self, client: FlaskClient, path: str) -> None:
        assert client.get(f"/nacos{path}").status_code == 404
        assert client.get(path).status_code == 404

    def test_a_wrong_method(self, client: FlaskClient) -> None:
        assert client.patch("/nacos/v3/admin/ns/instance").status_code == 405


def test_a_list_that_gives_none_is_refused(node: FakeNode, client: FlaskClient) -> None:
    class Failing:
        def switch(self, kind: str) -> None:
            raise NoListError("the file is empty")

    node.lookup = Failing()  # type: ignore[assignment]
    answer = client.put(f"{CORE}/cluster/lookup", data={"type": "file"})
    assert (refused(answer), answer.get_json()["data"]) == ((500, 30_000), "the file is empty")
