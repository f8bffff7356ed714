"""What real Nacos keeps beside instances, against a server that answers as it does."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from app.rows.rows import ServiceSettings, secret_hash
from app.tools.audit.client.access import Access
from app.tools.audit.client.http_client import MemberClient, Patience
from app.tools.audit.dump.nacos import listed_namespaces
from app.tools.audit.dump.nacos_settings import SettingsReader, read_clients, read_records
from app.tools.audit.dump.sources import take
from tests.support.fake_nacos import FakeNacos, instance
from tests.support.tiny_server import Given, tiny_server

KEY = ("public", "DEFAULT_GROUP@@orders")
DEFAULT_CLUSTER = {
    "name": "DEFAULT",
    "healthChecker": {"type": "TCP"},
    "defaultCheckPort": 80,
    "useIPPort4Check": True,
    "metadata": {},
}


@contextmanager
def client_of(fake: FakeNacos) -> Iterator[MemberClient]:
    with tiny_server(fake) as server:
        client = MemberClient(server.address, Access(timeout_s=60.0), Patience(0, Event()))
        try:
            yield client
        finally:
            client.close()


def settings(fake: FakeNacos) -> ServiceSettings | None:
    fake.shown.setdefault(KEY, [])
    with client_of(fake) as client:
        return SettingsReader(client).read(*KEY)


class TestSettings:
    def test_those_of_a_service_that_nobody_configured_are_those_of_ours(self) -> None:
        fake = FakeNacos(
            described={KEY: {"name": "orders", "protectThreshold": 0.0, "selector": {"type": "none"}, "metadata": {}}},
            clusters={KEY: [DEFAULT_CLUSTER]},
        )
        assert settings(fake) == ServiceSettings.of({}, 0.0, {"type": "none"}, {})

    def test_all_of_them(self) -> None:
        label = {"type": "label", "expression": "CONSUMER.label.a = PROVIDER.label.a", "labels": ["a"]}
        checked = {
            **DEFAULT_CLUSTER,
            "name": "c2",
            "healthChecker": {"type": "HTTP", "path": "/up"},
            "metadata": {"x": "1"},
        }
        fake = FakeNacos(
            described={KEY: {"protectThreshold": 0.7, "selector": label, "metadata": {"k": "v", "n": 5}}},
            clusters={KEY: [DEFAULT_CLUSTER, checked]},
        )
        found = settings(fake)
        assert found is not None
        assert found.metadata == {"k": "v", "n": "5"}
        assert found.protect_threshold == 0.7
        assert json.loads(found.selector) == {"type": "label", "expression": label["expression"]}
        assert json.loads(found.clusters) == {
            "c2": {
                "healthChecker": {"type": "HTTP", "path": "/up"},
                "checkPort": 80,
                "useInstancePort": True,
                "metadata": {"x": "1"},
            }
        }

    def test_a_password_is_a_hash(self) -> None:
        checker = {"type": "MYSQL", "user": "u", "pwd": "geheim", "cmd": "select 1"}
        found = settings(FakeNacos(clusters={KEY: [{**DEFAULT_CLUSTER, "healthChecker": checker}]}))
        assert found is not None
        assert "geheim" not in found.clusters
        assert json.loads(found.clusters)["DEFAULT"]["healthChecker"] == {**checker, "pwd": secret_hash("geheim")}

    def test_a_member_without_the_call_is_asked_once(self) -> None:
        fake = FakeNacos(on_call=lambda path, _: Given(501, b"no") if path == "/v1/ns/catalog/service" else None)
        with client_of(fake) as client:
            reader = SettingsReader(client)
            assert [reader.read("public", f"g@@{number}") for number in range(5)] == [None] * 5
        assert len(fake.calls) == 1

    def test_a_service_that_is_gone_tells_nothing_of_the_others(self) -> None:
        fake = FakeNacos(shown={KEY: []}, described={KEY: {"protectThreshold": 0.5}})
        with client_of(fake) as client:
            reader = SettingsReader(client)
            assert reader.read("public", "g@@gone") is None
            found = reader.read(*KEY)
        assert found is not None
        assert found.protect_threshold == 0.5

    @pytest.mark.parametrize(
        "described",
        [{"protectThreshold": "x", "metadata": [], "selector": 5}, {"selector": {"type": ["a"]}}, {"metadata": None}],
    )
    def test_values_of_other_types_are_no_crash(self, described: dict[str, Any]) -> None:
        assert (
            settings(FakeNacos(described={KEY: described}, clusters={KEY: [{"name": "c", "metadata": 7}]})) is not None
        )


class TestRecords:
    def test_switches_and_namespaces(self) -> None:
        fake = FakeNacos(switches={"pushEnabled": True, "checksum": "abc", "masters": ["x"]}, namespaces=("", "dev"))
        with client_of(fake) as client:
            rows = list(read_records(client, listed_namespaces(client)))
        assert [(row["name"], json.loads(row["value"])) for row in rows] == [
            ("switches", {"pushEnabled": True}),
            ("namespace dev", {"name": None, "description": ""}),
        ]

    def test_a_member_that_tells_none(self) -> None:
        with client_of(FakeNacos()) as client:
            assert list(read_records(client, listed_namespaces(client))) == []


class TestClients:
    def test_those_with_connections_that_publish(self) -> None:
        published = [{"serviceName": "orders"}]
        fake = FakeNacos(clients={"1_10.0.0.9_1": published, "10.0.0.9:80#true": published, "2_10.0.0.9_2": []})
        with client_of(fake) as client:
            rows = read_clients(client)
        assert rows == [
            {"kind": "client", "namespace": "", "service": "", "name": "1_10.0.0.9_1", "instances": 1},
        ]

    @pytest.mark.parametrize("is_later", [True, False])
    def test_the_manifest_says_whether_a_member_tells_them(self, is_later: bool) -> None:
        fake = FakeNacos(version="2.3.1" if is_later else "1.4.1", clients={} if is_later else None)
        fake.shown = {KEY: [instance("10.0.0.1")]}
        with client_of(fake) as client:
            taken = take(client, (), lambda _line, _row: None)
        assert taken.tells == (["record", "client"] if is_later else ["record"])
