"""Prometheus's HTTP service discovery: which targets, with which labels, and none of a client's choosing."""

from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from app.http.v1 import targets
from app.naming.model.model import Instance
from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import FakeNode, make_settings

PATH = "/nacos/prometheus"


@pytest.fixture
def node() -> FakeNode:
    return FakeNode(make_settings(nacos_prometheus_metrics_enabled="true"))


def put(node: FakeNode, service: str, ip: str = "10.0.0.1", namespace: str = "public", **metadata: str) -> None:
    node.naming.register(RegisterInstance(service, ip, 80, namespace, "blue", metadata=metadata))


def test_a_target_has_its_cluster_its_place_and_its_metadata(node: FakeNode, client: FlaskClient) -> None:
    put(node, "g@@a", **{"team": "x", "app.name": "y", "env-level": "z"})
    answer = client.get(PATH)
    assert answer.content_type == "application/json; charset=UTF-8"
    assert answer.get_json() == [
        {
            "targets": ["10.0.0.1:80"],
            "labels": {
                "team": "x",
                "app_name": "y",
                "env_level": "z",
                "__meta_clusterName": "blue",
                "__meta_rollcall_namespace": "public",
                "__meta_rollcall_group": "g",
                "__meta_rollcall_service": "a",
                "__meta_rollcall_healthy": "true",
            },
        }
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("x y", "9a", "é", "__address__", "__scheme__", "--metrics-path--", "a{", "__meta_clusterName"),
        *("job", "instance", "le", "quantile", "__param_module", "..param.module", "__name__", "__scrape_interval__"),
    ],
)
def test_a_client_chooses_no_label_that_prometheus_goes_by_or_refuses(
    node: FakeNode, client: FlaskClient, name: str
) -> None:
    put(node, "g@@a", **{name: "evil", "team": "x"})
    (one,) = client.get(PATH).get_json()
    assert "evil" not in one["labels"].values()
    assert one["labels"]["team"] == "x"


def test_of_names_that_make_one_label_the_label_itself_counts_or_the_first(node: FakeNode) -> None:
    for names, value in ((["a-b", "a.b", "a_b"], "a_b"), (["a_b", "a.b"], "a_b"), (["a.b", "a-b"], "a-b")):
        one = Instance("10.0.0.1", 80, metadata={name: name for name in names})
        assert targets.labels_of("public", "g@@a", one)["a_b"] == value


@pytest.mark.parametrize(
    ("ip", "target"),
    [
        ("[fe80::1]", "[fe80::1]:80"),
        ("[FE80:0::1]", "[fe80::1]:80"),
        ("2001:DB8::1", "[2001:db8::1]:80"),
        ("::ffff:10.0.0.1", "10.0.0.1:80"),
        ("010.0.00.1", "10.0.0.1:80"),
        ("10.1", "10.0.0.1:80"),
        ("fe80::1%eth0", "[fe80::1%eth0]:80"),
        ("host.example", "host.example:80"),
    ],
)
def test_a_target_is_an_address_that_can_be_scraped(node: FakeNode, client: FlaskClient, ip: str, target: str) -> None:
    put(node, "g@@a", ip)
    assert client.get(PATH).get_json()[0]["targets"] == [target]
    assert node.naming.service_view("public", "g@@a").instances[0].ip == ip  # type: ignore[union-attr]


def test_narrower_calls(node: FakeNode, client: FlaskClient) -> None:
    put(node, "g@@a")
    put(node, "h@@a", "10.0.0.2")
    put(node, "g@@b", "10.0.0.3")
    put(node, "g@@a", "fe80::1", "blue")

    def found(path: str) -> list[str]:
        return [one["targets"][0] for one in client.get(PATH + path).get_json()]

    assert sorted(found("")) == ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "[fe80::1]:80"]
    assert found("/namespaceId/blue") == ["[fe80::1]:80"]
    assert found("/namespaceId/public/service/a") == ["10.0.0.1:80", "10.0.0.2:80"]
    assert found("/namespaceId/unknown") == found("/namespaceId/public/service/unknown") == []


def test_too_many_targets_are_refused(node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "TARGETS_MAX", 1)
    put(node, "g@@a")
    assert client.get(PATH).status_code == 200
    put(node, "g@@b", namespace="blue")
    answer = client.get(PATH)
    assert (answer.status_code, answer.text.partition(":")[0]) == (413, "2 targets are more than 1")
    assert client.get(f"{PATH}/namespaceId/blue").status_code == 200


@pytest.mark.parametrize("path", ["", "/namespaceId/public", "/namespaceId/public/service/a"])
def test_it_is_off_unless_it_is_set(path: str) -> None:
    from app.http.factory import create_app

    answer = create_app(FakeNode()).test_client().get(PATH + path)  # type: ignore[arg-type]
    assert (answer.status_code, answer.get_json()["status"]) == (404, 404)


def test_no_target_of_before_a_pause_is_told(node: FakeNode, client: FlaskClient) -> None:
    for node.cluster.is_behind, status in ((True, 503), (False, 200)):
        assert client.get(PATH).status_code == status


@pytest.mark.parametrize("name", ["a/b", "providers:com.foo.Outer$Inner:1.0.0:", "a?b", "a#b", "%23", "é"])
def test_the_path_names_a_service_of_any_characters(node: FakeNode, client: FlaskClient, name: str) -> None:
    put(node, f"g@@{name}")
    put(node, "g@@a")
    (one,) = client.get(f"{PATH}/namespaceId/public/service/{quote(name, safe='/')}").get_json()
    assert one["labels"]["__meta_rollcall_service"] == name
