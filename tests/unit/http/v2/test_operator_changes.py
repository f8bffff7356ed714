"""Operators' changes over v1 and v2, of instances that came over HTTP, over gRPC, or that are persistent."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.naming.clients.client_model import ClientInfo
from app.naming.registry.operations import RegisterInstance
from distro.model.types import CAPABILITY_OVERRIDES, CAPABILITY_VERSIONS, Member, MemberState
from tests.support.fake_node import PEER, FakeNode

V1, V2 = "/nacos/v1/ns", "/nacos/v2/ns"
NAME = "DEFAULT_GROUP@@orders"
CONNECTION = "1790000000000_10.1.2.3_51234"
ONE = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}
JAVA = {"User-Agent": "Nacos-Java-Client:v1.4.1"}
REGISTERED = {"weight": 3.0, "enabled": True, "metadata": {"zone": "a"}}
PARTIAL = "/nacos/v3/admin/ns/instance/partial"
CHANGE = {"weight": "5", "enabled": "false", "metadata": '{"by":"ops"}'}
CHANGED = {"weight": 5.0, "enabled": False, "metadata": {"zone": "a", "by": "ops"}}


def register(node: FakeNode, client: FlaskClient, source: str) -> None:
    """Register the instance as its client or deployment does."""
    if source == "grpc":
        if node.clients.table.client(CONNECTION) is None:
            node.clients.own.connect(ClientInfo(CONNECTION, "10.1.2.3", 51_234, "shop", "Nacos-Java-Client:v2.5.1"))
        node.clients.own.register(
            CONNECTION, RegisterInstance(NAME, "10.0.0.1", 8_080, weight=3.0, metadata={"zone": "a"})
        )
        return
    kind = "false" if source == "persistent" else "true"
    values = ONE | {"weight": "3", "metadata": '{"zone":"a"}', "ephemeral": kind}
    assert client.post(f"{V1}/instance", data=values).data == b"ok"


def listed(node: FakeNode) -> list[dict[str, Any]]:
    """Return the attributes of all instances as readers see them."""
    view = node.naming.service_view("public", NAME)
    found = view.instances if view is not None else ()
    return [{"weight": one.weight, "enabled": one.enabled, "metadata": one.metadata} for one in found]


def sources(node: FakeNode) -> list[str]:
    """Return the sources that have an instance of the service."""
    service = node.naming.service_of("public", NAME)
    assert service is not None
    found = {"http": service.stored, "persistent": service.persistent, "grpc": service.published_count}
    return [name for name, held in found.items() if held]


@pytest.mark.parametrize("source", ["http", "grpc", "persistent"])
class TestOverV2:
    def test_a_put_is_kept_beside_it_and_outlives_a_registration_anew(
        self, node: FakeNode, client: FlaskClient, source: str
    ) -> None:
        register(node, client, source)
        answer = client.put(f"{V2}/instance", data=ONE | CHANGE)
        assert (answer.status_code, answer.get_json()["data"]) == (200, "ok")
        assert (listed(node), sources(node)) == ([CHANGED], [source])
        register(node, client, source)
        assert (listed(node), sources(node)) == ([CHANGED], [source])

    def test_a_put_sets_what_it_leaves_out_to_its_default(
        self, node: FakeNode, client: FlaskClient, source: str
    ) -> None:
        register(node, client, source)
        client.put(f"{V2}/instance", data=ONE | CHANGE)
        assert client.put(f"{V2}/instance", data=ONE).status_code == 200
        assert listed(node) == [REGISTERED | {"weight": 1.0}]

    @pytest.mark.parametrize("name", CHANGE)
    def test_a_partial_update_over_v3_sets_one_attribute(
        self, node: FakeNode, client: FlaskClient, source: str, name: str
    ) -> None:
        register(node, client, source)
        answer = client.put(PARTIAL, data=ONE | {name: CHANGE[name]})
        assert (answer.status_code, answer.get_json()["data"]) == (200, "ok")
        assert (listed(node), sources(node)) == ([REGISTERED | {name: CHANGED[name]}], [source])

    @pytest.mark.parametrize("named", [True, False])
    def test_a_batch_sets_metadata_and_takes_it_out(
        self, node: FakeNode, client: FlaskClient, source: str, named: bool
    ) -> None:
        register(node, client, source)
        instances = json.dumps([{"ip": "10.0.0.1", "port": 8_080}]) if named else ""
        batch = {"serviceName": "orders", "instances": instances}
        kind = "persist" if source == "persistent" else "ephemeral"
        updated = {"updated": [f"10.0.0.1:8080:unknown:DEFAULT:{kind}"]}
        put = client.put(f"{V2}/instance/metadata/batch", data=batch | {"metadata": '{"by":"ops","zone":"b"}'})
        assert put.get_json()["data"] == updated
        assert listed(node) == [REGISTERED | {"metadata": {"zone": "b", "by": "ops"}}]
        values = batch | {"metadata": '{"by":"","zone":"","nothing":""}'}
        assert client.delete(f"{V2}/instance/metadata/batch", query_string=values).get_json()["data"] == updated
        assert listed(node) == [REGISTERED]

    def test_lists_and_details_of_all_apis_show_the_change(
        self, node: FakeNode, client: FlaskClient, source: str
    ) -> None:
        register(node, client, source)
        client.put(PARTIAL, data=ONE | {"weight": "5"})
        hosts = client.get(f"{V1}/instance/list", query_string={"serviceName": "orders"}).get_json()["hosts"]
        detail = client.get(f"{V1}/instance", query_string=ONE).get_json()
        catalog = client.get(f"{V2}/catalog/instances", query_string={"serviceName": "orders"}).get_json()["data"]
        assert [hosts[0]["weight"], detail["weight"], catalog["instances"][0]["weight"]] == [5.0] * 3
        client.put(PARTIAL, data=ONE | {"enabled": "false"})
        hosts = client.get(f"{V1}/instance/list", query_string={"serviceName": "orders"}).get_json()["hosts"]
        assert hosts == []

    def test_another_member_that_owns_the_service_is_asked(
        self, node: FakeNode, client: FlaskClient, source: str
    ) -> None:
        register(node, client, source)
        node.cluster.give_to(PEER)
        client.put(f"{V2}/instance", data=ONE | CHANGE)
        client.put(PARTIAL, data=ONE | {"weight": "5"})
        assert node.forwarder.tags == [NAME, NAME]
        assert listed(node) == [REGISTERED], "the owner's answer brings the record"


class TestRefusalsOverV2:
    def test_a_put_for_an_unknown_service(self, client: FlaskClient) -> None:
        answer = client.put(f"{V2}/instance", data=ONE)
        body = answer.get_json()
        assert (answer.status_code, body["code"], body["message"]) == (400, 21_004, "instance error")
        shown = "Service{namespace='public', group='DEFAULT_GROUP', name='orders', ephemeral=true, revision=0}"
        assert body["data"] == f"service not found, namespace: public, service: {shown}"

    def test_a_put_for_an_instance_that_is_yet_to_come(self, node: FakeNode, client: FlaskClient) -> None:
        register(node, client, "http")
        assert client.put(f"{V2}/instance", data=ONE | CHANGE | {"port": "1"}).status_code == 200
        assert listed(node) == [REGISTERED]
        client.post(f"{V1}/instance", data=ONE | {"port": "1"})
        assert listed(node)[1] == CHANGED | {"metadata": {"by": "ops"}}

    @pytest.mark.parametrize("service", ["orders", "unknown"])
    def test_a_patch_of_what_does_not_exist(self, node: FakeNode, client: FlaskClient, service: str) -> None:
        register(node, client, "http")
        answer = client.put(PARTIAL, data=ONE | {"serviceName": service, "port": "1", "weight": "2"})
        assert (answer.status_code, answer.get_json()["code"]) == (404, 20_004)

    def test_a_weight_out_of_range(self, node: FakeNode, client: FlaskClient) -> None:
        register(node, client, "grpc")
        for path in (f"{V2}/instance", PARTIAL):
            answer = client.put(path, data=ONE | {"weight": "10001"})
            assert (answer.status_code, answer.get_json()["code"]) == (400, 21_001)
        assert listed(node) == [REGISTERED]

    def test_an_array_of_instances_that_cannot_be_read_does_not_mean_all(
        self, node: FakeNode, client: FlaskClient
    ) -> None:
        register(node, client, "grpc")
        values = {"serviceName": "orders", "instances": "[{", "metadata": '{"a":"1"}'}
        answer = client.put(f"{V2}/instance/metadata/batch", data=values)
        assert (answer.status_code, answer.get_json()["code"]) == (400, 20_002)
        assert "Param 'instances' is illegal" in answer.get_json()["data"]
        assert listed(node) == [REGISTERED]

    def test_more_changes_than_the_limit_allows(self, node: FakeNode, client: FlaskClient) -> None:
        register(node, client, "http")
        admission = node.registry.table.admission
        admission.limits = type(admission.limits)(overrides=1)
        assert client.put(f"{V2}/instance", data=ONE | CHANGE).status_code == 200
        answer = client.put(f"{V2}/instance", data=ONE | {"port": "1"})
        assert (answer.status_code, "rollcall.limit.overrides=1" in answer.get_json()["data"]) == (413, True)


class TestOverV1:
    @pytest.mark.parametrize("agent", [{}, JAVA])
    @pytest.mark.parametrize("kind", [{}, {"ephemeral": "true"}, {"ephemeral": "false"}])
    def test_a_put_of_what_a_connection_publishes_makes_no_second_instance(
        self, node: FakeNode, client: FlaskClient, agent: dict[str, str], kind: dict[str, str]
    ) -> None:
        register(node, client, "grpc")
        assert client.put(f"{V1}/instance", data=ONE | CHANGE | kind, headers=agent).data == b"ok"
        assert (listed(node), sources(node)) == ([CHANGED], ["grpc"])
        register(node, client, "grpc")
        assert listed(node) == [CHANGED]

    @pytest.mark.parametrize("name", CHANGE)
    def test_a_patch_of_what_a_connection_publishes(self, node: FakeNode, client: FlaskClient, name: str) -> None:
        register(node, client, "grpc")
        assert client.patch(f"{V1}/instance", data=ONE | {name: CHANGE[name]}).data == b"ok"
        assert (listed(node), sources(node)) == ([REGISTERED | {name: CHANGED[name]}], ["grpc"])

    def test_a_batch_with_what_a_connection_publishes_and_what_is_listed(
        self, node: FakeNode, client: FlaskClient
    ) -> None:
        register(node, client, "grpc")
        client.post(f"{V1}/instance", data=ONE | {"ip": "10.0.0.2"})
        batch = {"serviceName": "orders", "consistencyType": "ephemeral", "metadata": '{"by":"ops"}'}
        updated = client.put(f"{V1}/instance/metadata/batch", data=batch).get_json()["updated"]
        assert sorted(updated) == [f"10.0.0.{last}:8080:unknown:DEFAULT:ephemeral" for last in (1, 2)]
        service = node.naming.service_of("public", NAME)
        assert service is not None
        assert list(service.overrides) == ["10.0.0.1:8080:unknown:DEFAULT"]
        assert [one.instance.metadata for one in service.stored.values()] == [{"by": "ops"}]
        assert {"zone": "a", "by": "ops"} in [one["metadata"] for one in listed(node)]

    @pytest.mark.parametrize("source", ["http", "persistent"])
    def test_a_put_of_another_instance_changes_the_instance_itself(
        self, node: FakeNode, client: FlaskClient, source: str
    ) -> None:
        register(node, client, source)
        kind = "true" if source == "http" else "false"
        assert client.put(f"{V1}/instance", data=ONE | CHANGE | {"ephemeral": kind}, headers=JAVA).data == b"ok"
        assert listed(node) == [CHANGED | {"metadata": {"by": "ops"}}]
        assert node.durable.overrides.records() == []
        register(node, client, source)
        assert listed(node) == [REGISTERED]

    def test_a_put_without_a_kind_changes_the_persistent_instance(self, node: FakeNode, client: FlaskClient) -> None:
        register(node, client, "persistent")
        assert client.put(f"{V1}/instance", data=ONE | CHANGE).data == b"ok"
        assert (listed(node), sources(node)) == ([CHANGED | {"metadata": {"by": "ops"}}], ["persistent"])

    def test_a_put_of_another_kind_by_a_java_client_is_refused(self, node: FakeNode, client: FlaskClient) -> None:
        register(node, client, "persistent")
        answer = client.put(f"{V1}/instance", data=ONE | CHANGE, headers=JAVA)
        assert (answer.status_code, "instance not exist" in answer.text) == (400, True)
        assert (listed(node), sources(node)) == ([REGISTERED], ["persistent"])

    @pytest.mark.parametrize("source", ["http", "grpc", "persistent"])
    def test_a_change_over_v2_does_not_hide_one_over_v1(self, node: FakeNode, client: FlaskClient, source: str) -> None:
        register(node, client, source)
        client.put(f"{V2}/instance", data=ONE | CHANGE)
        kind = "false" if source == "persistent" else "true"
        client.put(f"{V1}/instance", data=ONE | {"weight": "9", "ephemeral": kind}, headers=JAVA)
        assert listed(node) == [REGISTERED | {"weight": 9.0}]
        client.patch(f"{V1}/instance", data=ONE | {"enabled": "false"})
        assert listed(node) == [REGISTERED | {"weight": 9.0, "enabled": False}]

    def test_a_change_of_an_instance_that_is_gone_does_not_keep_a_put_from_registering(
        self, node: FakeNode, client: FlaskClient
    ) -> None:
        register(node, client, "http")
        client.put(PARTIAL, data=ONE | {"enabled": "false"})
        client.delete(f"{V1}/instance", query_string=ONE)
        assert client.put(f"{V1}/instance", data=ONE | {"weight": "9"}).data == b"ok"
        assert (listed(node), sources(node)) == ([{"weight": 9.0, "enabled": False, "metadata": {}}], ["http"])


def test_explain_and_the_dump_show_the_change(node: FakeNode, client: FlaskClient) -> None:
    register(node, client, "grpc")
    client.put(f"{V2}/instance", data=ONE | CHANGE)
    told = client.get(f"{V1}/explain", query_string=ONE).get_json()
    [facts] = told["members"].values()
    override = {name: facts["override"][name] for name in ("weight", "enabled", "metadata")}
    assert override == {"weight": 5.0, "enabled": False, "metadata": {"by": "ops"}}
    assert (facts["published"][0]["weight"], facts["shown"]["weight"], facts["shown"]["inLists"]) == (3.0, 5.0, False)
    assert any("An operator changed it (weight 5, disabled, metadata by)" in text for text in told["verdict"])
    rows = [json.loads(line) for line in client.get(f"{V1}/operator/dump").data.splitlines()]
    [record] = [one for one in rows if one["kind"] == "record" and one["name"].startswith("override ")]
    assert record["name"] == f"override public {NAME} 10.0.0.1:8080:unknown:DEFAULT"
    assert json.loads(record["value"]) == {"weight": 5.0, "enabled": False, "metadata": {"by": "ops"}}
    [instance] = [one for one in rows if one["kind"] == "instance"]
    assert {name: instance[name] for name in CHANGED} == CHANGED


def test_a_change_is_in_the_audit_trail(node: FakeNode, client: FlaskClient) -> None:
    register(node, client, "grpc")
    node.audited.clear()
    client.put(PARTIAL, data=ONE | {"enabled": "false"})
    key = f"public/{NAME}/10.0.0.1:8080:unknown:DEFAULT"
    assert node.audited == [("override.create", key, None, {"enabled": False})]


@pytest.mark.parametrize(("state", "status"), [(MemberState.UP, 503), (MemberState.DOWN, 200)])
def test_a_change_waits_until_all_members_keep_it(
    node: FakeNode, client: FlaskClient, state: MemberState, status: int
) -> None:
    register(node, client, "grpc")
    register(node, client, "http")
    node.cluster.others.append(Member(PEER, state, frozenset({CAPABILITY_VERSIONS})))
    batch = {"serviceName": "orders", "metadata": '{"a":"1"}'}
    for method, path, values in (
        ("PUT", f"{V2}/instance", ONE),
        ("PUT", PARTIAL, ONE | {"weight": "2"}),
        ("PUT", f"{V2}/instance/metadata/batch", batch),
        ("PUT", f"{V1}/instance", ONE),
    ):
        answer = client.open(path, method=method, data=values)
        assert answer.status_code == status, path
        assert status == 200 or f"member {PEER} runs a release that does not keep" in answer.text
    node.cluster.others[:] = [Member(PEER, state, frozenset({CAPABILITY_VERSIONS, CAPABILITY_OVERRIDES}))]
    assert client.put(f"{V2}/instance", data=ONE).status_code == 200
