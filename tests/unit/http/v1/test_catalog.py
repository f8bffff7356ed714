"""The pages of a console."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import FakeNode, make_settings

INSTANCE = "/nacos/v1/ns/instance"
CATALOG = "/nacos/v1/ns/catalog"


def register(client: FlaskClient, name: str = "a", **values: Any) -> None:
    query = {"serviceName": name, "ip": "10.0.0.1", "port": 80} | values
    assert client.post(INSTANCE, query_string=query).data == b"ok"


def get(client: FlaskClient, path: str, **values: Any) -> Any:
    answer = client.get(f"{CATALOG}/{path}", query_string=values)
    assert answer.status_code == 200, answer.data
    return answer.get_json()


def refusal(client: FlaskClient, path: str, **values: Any) -> tuple[int, str]:
    answer = client.get(f"{CATALOG}/{path}", query_string=values)
    return answer.status_code, answer.get_data(as_text=True)


# --- one service ----------------------------------------------------------------------------------


def test_a_service_with_its_clusters(client: FlaskClient) -> None:
    register(client, clusterName="c1")
    client.put(
        "/nacos/v1/ns/cluster",
        data={
            "serviceName": "a",
            "clusterName": "c2",
            "checkPort": 81,
            "useInstancePort4Check": "false",
            "healthChecker": '{"type":"HTTP","path":"/up","expectedResponseCode":"204"}',
            "metadata": "k=v",
        },
    )
    found = get(client, "service", serviceName="a")
    assert list(found["service"].items()) == [
        ("name", "a"), ("protectThreshold", 0.0), ("groupName", "DEFAULT_GROUP"), ("selector", {"type": "none"}),
        ("metadata", {}),
    ]  # fmt: skip
    first, second = found["clusters"]
    assert list(first.items()) == [
        ("serviceName", "DEFAULT_GROUP@@a"), ("name", "c1"), ("healthChecker", {"type": "TCP"}), ("defaultPort", 80),
        ("defaultCheckPort", 80), ("useIPPort4Check", True), ("metadata", {}), ("sitegroup", ""), ("defCkport", 80),
        ("empty", False), ("defIPPort", 80),
    ]  # fmt: skip
    assert second == first | {
        "name": "c2",
        "healthChecker": {"type": "HTTP", "path": "/up", "headers": "", "expectedResponseCode": 204},
        "useIPPort4Check": False,
        "metadata": {"k": "v"},
        "defCkport": 81,
        "defIPPort": 81,
        "empty": True,
    }


def test_a_service_that_is_not_there(client: FlaskClient) -> None:
    assert refusal(client, "service", serviceName="a") == (404, "service DEFAULT_GROUP@@a is not found!")
    assert refusal(client, "service") == (400, "Parameter 'serviceName' is missing")


# --- instances ------------------------------------------------------------------------------------


def instances(client: FlaskClient, **values: Any) -> Any:
    return get(
        client, "instances", **({"serviceName": "a", "clusterName": "DEFAULT", "pageNo": 1, "pageSize": 10} | values)
    )


def test_instances_with_all_their_fields(node: FakeNode, client: FlaskClient) -> None:
    register(client, weight=2, metadata="k=v", enabled="false", healthy="false", app="shop")
    node.now_ms += 1_500
    found = instances(client)
    assert found["count"] == 1
    assert list(found["list"][0].items()) == [
        ("instanceId", "10.0.0.1#80#DEFAULT#DEFAULT_GROUP@@a"), ("ip", "10.0.0.1"), ("port", 80), ("weight", 2.0),
        ("healthy", False), ("enabled", False), ("ephemeral", True), ("clusterName", "DEFAULT"),
        ("serviceName", "DEFAULT_GROUP@@a"), ("metadata", {"k": "v"}), ("lastBeat", node.wall_ms() - 1_500),
        ("marked", False), ("app", "shop"), ("instanceHeartBeatInterval", 5000), ("instanceHeartBeatTimeOut", 15000),
        ("ipDeleteTimeout", 30000),
    ]  # fmt: skip


def test_null_fields_are_left_out(client: FlaskClient) -> None:
    client.put(f"{INSTANCE}/beat", query_string={"serviceName": "a", "beat": '{"ip":"10.0.0.1","port":80}'})
    (one,) = instances(client)["list"]
    assert {"metadata", "app"}.isdisjoint(one)
    assert one["instanceIdGenerator"] == "simple"


def test_a_persistent_instance_shows_when_it_was_set(node: FakeNode, client: FlaskClient) -> None:
    register(client, ephemeral="false")
    node.now_ms += 99_000
    assert [one["lastBeat"] for one in instances(client)["list"]] == [node.wall_ms()]


def test_pages_of_instances(client: FlaskClient) -> None:
    for last in range(1, 6):
        register(client, ip=f"10.0.0.{last}")

    def ips(page: int, size: int) -> list[str]:
        found = instances(client, pageNo=page, pageSize=size)
        assert found["count"] == 5
        return [one["ip"][-1] for one in found["list"]]

    assert (ips(1, 2), ips(3, 2), ips(4, 2), ips(1, 0), ips(0, 2), ips(-1, 2)) == (["1", "2"], ["5"], [], [], [], [])


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"serviceName": "zz"}, (404, "serivce DEFAULT_GROUP@@zz is not found!")),
        ({"clusterName": "zz"}, (404, "cluster zz is not found!")),
        ({"serviceName": None}, (400, "Parameter 'serviceName' is missing")),
        ({"clusterName": None}, (400, "Parameter 'clusterName' is missing")),
        ({"pageNo": None}, (400, "Parameter 'pageNo' is missing")),
        ({"pageSize": None}, (400, "Parameter 'pageSize' is missing")),
        ({"pageNo": "x"}, (400, "Parameter 'pageNo' is illegal: it should be a whole number")),
        ({"pageSize": ""}, (400, "Parameter 'pageSize' is illegal: it should be a whole number")),
        ({"pageSize": "-5"}, (400, "Parameter 'pageSize' is illegal: it should not be negative")),
    ],
)
def test_refusals_of_instances(client: FlaskClient, values: dict[str, Any], answer: tuple[int, str]) -> None:
    register(client)
    query = {"serviceName": "a", "clusterName": "DEFAULT", "pageNo": 1, "pageSize": 10} | values
    assert refusal(client, "instances", **{name: value for name, value in query.items() if value is not None}) == answer


# --- services -------------------------------------------------------------------------------------


def services(client: FlaskClient, **values: Any) -> Any:
    return get(client, "services", **({"pageNo": 1, "pageSize": 10} | values))


def names(client: FlaskClient, **values: Any) -> list[str]:
    found = services(client, **values)
    return [f"{one['groupName']}@@{one['name']}" for one in found["serviceList"]]


def test_services_with_their_counts(client: FlaskClient) -> None:
    client.post("/nacos/v1/ns/service", data={"serviceName": "G1@@b", "protectThreshold": "0.5"})
    register(client)
    register(client, ip="10.0.0.2", clusterName="c2", healthy="false")
    found = services(client)
    assert found["count"] == 2
    assert list(found["serviceList"][0].items()) == [
        ("name", "a"), ("groupName", "DEFAULT_GROUP"), ("clusterCount", 2), ("ipCount", 2),
        ("healthyInstanceCount", 1), ("triggerFlag", "false"),
    ]  # fmt: skip
    assert found["serviceList"][1]["triggerFlag"] == "false", "without instances nothing is triggered"
    client.put("/nacos/v1/ns/service", data={"serviceName": "a", "protectThreshold": "0.5"})
    assert services(client)["serviceList"][0]["triggerFlag"] == "true"


def test_pages_of_services(client: FlaskClient) -> None:
    for name in ("s1", "s2", "s3"):
        register(client, name)
    assert names(client, pageNo=2, pageSize=2) == ["DEFAULT_GROUP@@s3"]
    assert services(client, pageNo=2, pageSize=2)["count"] == 3
    assert services(client, pageNo=9, pageSize=2) == {"serviceList": [], "count": 0}
    assert len(names(client, pageNo=9, pageSize=3)) == 3, "all, whatever the page, when they fit on one"
    assert len(names(client, pageNo=0, pageSize=2)) == 2
    assert len(names(client, pageSize=0)) == len(names(client, pageSize=-1)) == 1


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"serviceNameParam": "order"}, ["DEFAULT_GROUP@@my-order", "DEFAULT_GROUP@@orders", "shop@@orders"]),
        ({"serviceNameParam": "orders"}, ["DEFAULT_GROUP@@orders", "shop@@orders"]),
        ({"serviceNameParam": "o.d.*s"}, ["DEFAULT_GROUP@@orders", "shop@@orders"]),
        ({"groupNameParam": "sho"}, ["shop@@orders"]),
        ({"groupNameParam": "DEFAULT", "serviceNameParam": "my"}, ["DEFAULT_GROUP@@my-order"]),
        ({"groupNameParam": "order"}, []),
        ({"instance": "10.0.0.7"}, ["shop@@orders"]),
        ({"instance": "10.0.0.7:80"}, ["shop@@orders"]),
        ({"instance": "10.0.0.7:81"}, []),
        ({"instance": "10.0.0"}, []),
        ({"hasIpCount": "true"}, ["DEFAULT_GROUP@@my-order", "DEFAULT_GROUP@@orders", "shop@@orders"]),
        ({"hasIpCount": "true", "serviceNameParam": "empty"}, []),
        ({"namespaceId": "nowhere"}, []),
    ],
)
def test_filters(client: FlaskClient, values: dict[str, str], found: list[str]) -> None:
    client.post("/nacos/v1/ns/service", data={"serviceName": "empty"})
    register(client, "orders")
    register(client, "my-order")
    register(client, "shop@@orders", ip="10.0.0.7")
    assert names(client, **values) == found


def test_services_with_their_instances(client: FlaskClient) -> None:
    client.post("/nacos/v1/ns/service", data={"serviceName": "s", "metadata": "k=v"})
    register(client, "s", clusterName="c1", weight=2, healthy="false", metadata="a=1")
    register(client, "s2")
    (one,) = get(client, "services", pageNo=0, pageSize=1, withInstances="true")
    host = {"valid": False, "metadata": {"a": "1"}, "port": 80, "ip": "10.0.0.1", "weight": 2.0, "enabled": True}
    assert list(one.items()) == [
        ("serviceName", "s"), ("groupName", "DEFAULT_GROUP"), ("clusterMap", {"c1": {"hosts": [host]}}),
        ("metadata", {"k": "v"}),
    ]  # fmt: skip
    (other,) = get(client, "services", pageNo=1, pageSize=1, withInstances="true")
    assert other["serviceName"] == "s2"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"pageSize": 10}, "pageNo"),
        ({"pageNo": 1}, "pageSize"),
        ({"pageNo": "x", "pageSize": 10}, "pageNo"),
        ({"pageNo": 1, "pageSize": 10, "withInstances": "perhaps"}, "withInstances"),
        ({"pageNo": 1, "pageSize": 10, "hasIpCount": "2"}, "hasIpCount"),
        ({"pageNo": 1, "pageSize": 10, "serviceNameParam": "(a+)+"}, "serviceNameParam"),
        ({"pageNo": 1, "pageSize": 10, "groupNameParam": "x" * 300}, "groupNameParam"),
    ],
)
def test_refusals_of_services(client: FlaskClient, values: dict[str, Any], name: str) -> None:
    status, text = refusal(client, "services", **values)
    assert (status, f"'{name}'" in text) == (400, True)


def test_times_of_checks(client: FlaskClient) -> None:
    register(client, clusterName="c1")
    times = {"checkRTBest": 9223372036854775807, "checkRTWorst": 0, "checkRTNormalized": 2000}
    assert get(client, "rt/service", serviceName="a") == {"clusters": [{"name": "c1", **times}]}
    assert refusal(client, "rt/service", serviceName="b") == (400, "request service doesn't exist")
    assert refusal(client, "rt/service") == (400, "Parameter 'serviceName' is missing")


class TestLongPages:
    """A page that is too long is cut, not refused: clients ask for the largest number to get all in one."""

    EVERYTHING = 2_147_483_647

    @pytest.fixture
    def node(self) -> FakeNode:
        return FakeNode(settings=make_settings(rollcall_limit_pageSize="2"))

    @pytest.fixture
    def five(self, client: FlaskClient) -> FlaskClient:
        for name in "abcde":
            register(client, name)
        for port in range(81, 85):
            register(client, "a", port=port)
        return client

    @pytest.mark.parametrize(
        ("path", "listed", "asked"),
        [
            ("/v1/ns/service/list", "doms", {}),
            ("/v1/ns/catalog/services", "serviceList", {}),
            ("/v1/ns/catalog/instances", "list", {"serviceName": "a", "clusterName": "DEFAULT"}),
        ],
    )
    def test_pages_of_any_size_bring_all_and_the_true_count(
        self, node: FakeNode, five: FlaskClient, path: str, listed: str, asked: dict[str, str]
    ) -> None:
        found: list[Any] = []
        for page, count in ((1, 2), (2, 2), (3, 1)):
            answer = five.get(f"/nacos{path}", query_string={"pageNo": page, "pageSize": self.EVERYTHING, **asked})
            assert answer.json["count"] == 5
            assert len(answer.json[listed]) == count
            found += map(str, answer.json[listed])
        assert len(set(found)) == 5
        assert node.limits.stats.page_size == 3

    def test_a_page_of_services_with_their_instances_is_cut_too(self, five: FlaskClient) -> None:
        answer = five.get(
            "/nacos/v1/ns/catalog/services",
            query_string={"withInstances": "true", "pageNo": 0, "pageSize": self.EVERYTHING},
        )
        assert [one["serviceName"] for one in answer.json] == ["a", "b"]

    def test_a_page_within_the_bound_is_as_asked(self, node: FakeNode, five: FlaskClient) -> None:
        answer = five.get("/nacos/v1/ns/service/list", query_string={"pageNo": 2, "pageSize": 1})
        assert answer.json == {"doms": ["b"], "count": 5}
        assert node.limits.stats.page_size == 0


@pytest.mark.parametrize("asked", ["fe80::1", "[fe80::1]", "FE80::1", "[fe80::1]:80", "[FE80::1]:80"])
def test_a_service_is_found_by_an_ipv6_address_of_an_instance(node: FakeNode, client: FlaskClient, asked: str) -> None:
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@six", "[FE80::1]", 80))
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@four", "10.0.0.1", 80))
    found = services(client, instance=asked)["serviceList"]
    assert [one["name"] for one in found] == ["six"]
