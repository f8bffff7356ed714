"""What calls leave in the audit trail, and under whose name."""

from collections.abc import Mapping

from flask.testing import FlaskClient

from app.metrics.audit_trail import AuditTrail
from tests.support.fake_node import FakeNode

INSTANCE = "/nacos/v1/ns/instance?serviceName=a&ip=1.2.3.4&port=80"
KEY = "public/DEFAULT_GROUP@@a/1.2.3.4:80:unknown:DEFAULT"
NAMESPACES = "/nacos/v1/console/namespaces"


def kinds(node: FakeNode) -> list[tuple[str, str]]:
    return [(what, key) for what, key, _, _ in node.audited]


def test_an_instance_from_its_registration_to_its_end(node: FakeNode, client: FlaskClient) -> None:
    client.post(INSTANCE)
    client.post(INSTANCE)  # changes nothing
    client.put(f"{INSTANCE}&weight=3")
    client.patch(f"{INSTANCE}&weight=4")
    client.delete(INSTANCE)
    client.put("/nacos/v1/ns/instance/beat?serviceName=a&ip=1.2.3.4&port=80")
    assert kinds(node) == [(f"instance.{verb}", KEY) for verb in ("register", "update", "update", "remove")]
    assert [before and getattr(before, "weight", None) for _, _, before, _ in node.audited] == [None, 1.0, 3.0, 4.0]


def test_a_durable_record_has_a_line_with_its_values_beside_that_of_the_call(
    node: FakeNode, client: FlaskClient
) -> None:
    client.post(NAMESPACES, data={"customNamespaceId": "blue", "namespaceName": "Blue", "accessToken": "t"})
    client.put(NAMESPACES, data={"namespace": "blue", "namespaceShowName": "Green"})
    assert [one for one in kinds(node) if one[0] != "operation"] == [
        ("namespace.create", "blue"),
        ("namespace.update", "blue"),
    ]
    assert ("operation", "POST /v1/console/namespaces") in kinds(node)
    assert node.audited[0][2:] == (None, {"name": "Blue", "description": ""})


def test_what_is_refused_or_read_leaves_nothing(node: FakeNode, client: FlaskClient) -> None:
    assert client.put("/nacos/v1/ns/operator/log?logName=naming-main&logLevel=LOUD").status_code == 400
    assert client.get("/nacos/v1/ns/operator/switches").status_code == 200
    assert client.post(f"{INSTANCE}&weight=-1").status_code == 400
    assert not node.audited


def test_an_operation_without_a_record_is_written_too(node: FakeNode, client: FlaskClient) -> None:
    assert client.put("/nacos/v1/ns/operator/switches?entry=pushEnabled&value=false&debug=true").status_code == 200
    assert kinds(node) == [("operation", "PUT /v1/ns/operator/switches")]


def addresses(node: FakeNode, client: FlaskClient, address: str, headers: Mapping[str, str]) -> tuple[str, str]:
    client.post(INSTANCE, headers=headers, environ_overrides={"REMOTE_ADDR": address})
    trail: AuditTrail = node.instruments.audit
    (actor,) = trail.actors  # type: ignore[attr-defined]
    return actor.address, actor.via


def test_a_member_tells_whose_call_it_passes_on(node: FakeNode, client: FlaskClient) -> None:
    assert addresses(node, client, "127.0.0.1", {"Rollcall-Client-Address": "10.1.1.1"}) == ("10.1.1.1", "127.0.0.1")


def test_nobody_else_may_say_so(node: FakeNode, client: FlaskClient) -> None:
    headers = {"Rollcall-Client-Address": "10.1.1.1"}
    assert client.post(INSTANCE, headers=headers, environ_overrides={"REMOTE_ADDR": "10.9.9.9"}).status_code == 403
    assert not node.audited
