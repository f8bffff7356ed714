"""``rollcall find`` at a server that answers as a member does."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.command_node import Commands
from tests.support.tiny_server import Given, tiny_server

SERVICE = "DEFAULT_GROUP@@orders"
HOSTILE = "a\x1b[2J\u202e"


def instance(number: int, **more: Any) -> dict[str, Any]:
    return {
        "namespaceId": "public", "serviceName": SERVICE, "clusterName": "DEFAULT", "ip": f"10.0.0.{number}",
        "port": 8080, "healthy": True, "enabled": True, "ephemeral": True, "weight": 1.0, "metadata": {"zone": "a"},
        **more,
    }  # fmt: skip


INSTANCES = [
    instance(1),
    instance(2, healthy=False, metadata=None, serviceName="shop@@cart", namespaceId="dev"),
    instance(3, enabled=False, metadata={"k": HOSTILE, "city": "\u5317\u4eac"}),
]


class Searched:
    """A member with three instances, which gives pages of two at most."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.services: list[dict[str, Any]] = []
        self.instances = INSTANCES

    def answer(self, received: Any) -> Given:
        parts = urlsplit(received.target)
        assert parts.path == "/nacos/v1/ns/instance/search"
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append(asked)
        size, page = min(int(asked["pageSize"]), 2), int(asked["pageNo"])
        body = {
            "count": len(self.instances),
            "complete": True,
            "instances": self.instances[(page - 1) * size : page * size],
            "serviceCount": len(self.services),
            "services": self.services,
        }
        return Given(200, json.dumps(body).encode())


@pytest.fixture
def searched() -> Searched:
    return Searched()


@pytest.fixture
def run(home: object, capsys: pytest.CaptureFixture[str], searched: Searched) -> Iterator[Commands]:
    commands = Commands(capsys)
    with tiny_server(searched.answer) as server:
        commands.server = server.address
        yield commands


def test_a_table_of_all_pages_in_all_namespaces(
    run: Commands, searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLCALL_NAMESPACE", "elsewhere")
    rows = run.rows("find", "10.0.0.")
    assert [row[:6] for row in rows] == [
        ["public", "orders", "10.0.0.1:8080", "DEFAULT", "healthy", "yes"],
        ["dev", "shop@@cart", "10.0.0.2:8080", "DEFAULT", "UNHEALTHY", "yes"],
        ["public", "orders", "10.0.0.3:8080", "DEFAULT", "healthy", "no"],
    ]
    assert "city=\u5317\u4eac k=a\\x1b[2J\\u202e" in run("find", "10.0.0.").out
    assert all("namespaceId" not in one for one in searched.asked)
    assert [one["pageNo"] for one in searched.asked[:2]] == ["1", "2"]
    run("find", "zone=a", "--namespace", "dev", "--state", "unhealthy")
    assert (searched.asked[-1]["text"], searched.asked[-1]["state"]) == ("zone=a", "unhealthy")
    assert searched.asked[-1]["namespaceId"] == "dev"


def test_limit_names_and_data(run: Commands, searched: Searched) -> None:
    ran = run("find", "10.0.0.", "--limit", "1")
    assert ran.out.count("\n") == 2
    assert "1 of 3 instances; --limit shows more" in ran.err
    assert run("find", "x", "-o", "name").out.split() == ["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"]
    assert len(json.loads(run("find", "x", "--json").out)["instances"]) == 3


def test_services_with_the_text_in_their_name(run: Commands, searched: Searched) -> None:
    searched.instances = []
    searched.services = [{"namespaceId": "public", "serviceName": SERVICE, "instanceCount": 0}]
    ran = run("find", "ord")
    assert (ran.code, ran.out) == (0, "")
    assert "services with this in their name: orders" in ran.err
    searched.services = []
    ran = run("find", "ord")
    assert (ran.code, ran.out, "nothing in any namespace fits ord" in ran.err) == (5, "", True)


def test_what_is_wrong(run: Commands) -> None:
    assert (run("find").code, run("find", "--state", "ill").code) == (2, 2)
    assert run("find", "a", "-A", "--namespace", "dev").code == 2


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"count":1,"instances":5}', b'{"count":1,"instances":[1]}'])
def test_a_server_of_another_kind(home: object, capsys: pytest.CaptureFixture[str], body: bytes) -> None:
    run = Commands(capsys)
    with tiny_server(lambda _: Given(200, body)) as server:
        ran = run("find", "a", "--server", server.address)
    assert (ran.code, ran.out, "an answer that no Rollcall member gives" in ran.err) == (6, "", True)
