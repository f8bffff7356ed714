"""Streams that tell when services changed: here of Flask, which tells how things are and ends."""

import json

import pytest
from flask.testing import FlaskClient

from app.http.api.call import Call, Events
from app.http.v1 import changes
from tests.support.fake_node import FakeNode

V1 = "/nacos/v1/ns"


def told(client: FlaskClient, path: str, **query: str) -> dict[str, int]:
    answer = client.get(f"{V1}/{path}", query_string=query)
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    [data] = [line[5:] for line in answer.get_data(as_text=True).splitlines() if line.startswith("data:")]
    found: dict[str, int] = json.loads(data)
    return found


def register(client: FlaskClient, service: str, ip: str = "10.0.0.1", **more: str) -> None:
    values = {"serviceName": service, "ip": ip, "port": "80", **more}
    assert client.post(f"{V1}/instance", data=values).data == b"ok"


def test_a_service_has_another_revision_after_each_change_and_no_beat(client: FlaskClient) -> None:
    def revision() -> int:
        return told(client, "service/changes", serviceName="orders")["rev"]

    assert revision() == 0
    register(client, "orders")
    first = revision()
    register(client, "orders", weight="3")
    second = revision()
    assert len({0, first, second}) == 3
    client.put(f"{V1}/instance/beat", query_string={"serviceName": "orders", "ip": "10.0.0.1", "port": "80"})
    register(client, "stock")
    assert revision() == second
    client.delete(f"{V1}/instance", query_string={"serviceName": "orders", "ip": "10.0.0.1", "port": "80"})
    assert revision() != second


def test_a_namespace_has_one_for_all_its_services(client: FlaskClient) -> None:
    seen = [told(client, "catalog/changes")]
    for change in (("orders",), ("stock",), ("stock", "10.0.0.2")):
        register(client, *change)
        seen.append(told(client, "catalog/changes"))
    assert [one["services"] for one in seen] == [0, 1, 2, 2]
    assert len({one["rev"] for one in seen}) == 4
    register(client, "elsewhere", namespaceId="dev")
    assert told(client, "catalog/changes") == seen[-1]
    assert told(client, "catalog/changes", namespaceId="dev")["services"] == 1


def test_a_stream_is_of_a_service_that_is_named(client: FlaskClient) -> None:
    assert client.get(f"{V1}/service/changes").status_code == 400


def test_a_namespace_of_very_many_services_is_looked_at_with_rests(
    node: FakeNode, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call("GET", "/v1/ns/catalog/changes", b"", {}, b"", "127.0.0.1")
    monkeypatch.setattr(changes, "REST", 1e12)
    events = changes.catalog_changes(call, node)  # type: ignore[arg-type]
    assert isinstance(events, Events)
    first = events.read()
    register(client, "orders")
    assert events.read() == first
    monkeypatch.setattr(changes, "REST", 0.0)
    again = changes.catalog_changes(call, node)  # type: ignore[arg-type]
    assert isinstance(again, Events)
    assert again.read() != first
    register(client, "stock")
    assert again.read().startswith(b'{"services":2')
