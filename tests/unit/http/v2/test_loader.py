"""How clients are spread over the members, and evening that out, over HTTP."""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.fake_node import FakeNode

PATH = "/nacos/v2/core/loader"


@dataclass
class StubLoader:
    """Notes the factors that it is asked with."""

    evened: bool = True
    factors: list[float] = field(default_factory=list)

    connections: dict[str, Any] = field(default_factory=dict)

    def current(self, ids: Set[str] | None = None) -> dict[str, Any]:
        return {name: one for name, one in self.connections.items() if ids is None or name in ids}

    def reload_client(self, connection_id: str, redirect: tuple[str, int] | None) -> None:
        raise AssertionError(connection_id)

    def reload_to(self, count: int, redirect: tuple[str, int] | None) -> None:
        raise AssertionError(count)

    def cluster(self) -> dict[str, Any]:
        return {"memberCount": 3, "completed": False}

    def smart_reload(self, factor: float) -> bool:
        self.factors.append(factor)
        return self.evened


def test_what_members_carry_is_told_plainly(node: FakeNode, client: FlaskClient) -> None:
    node.loader = StubLoader()
    answer = client.get(f"{PATH}/cluster")
    assert (answer.status_code, answer.get_json()) == (200, {"memberCount": 3, "completed": False})


def test_connections_are_told_by_id(node: FakeNode, client: FlaskClient) -> None:
    node.loader = StubLoader(connections={"a": {"connected": True}, "b": {}, "c": {}})
    assert client.get(f"{PATH}/current").get_json().keys() == {"a", "b", "c"}
    assert client.get(f"{PATH}/current?connectionId=a,c,d").get_json() == {"a": {"connected": True}, "c": {}}


def test_evening_out_says_whether_all_took_it(node: FakeNode, client: FlaskClient) -> None:
    node.loader = loader = StubLoader()
    assert client.get(f"{PATH}/smartReloadCluster").data == b"Ok"
    loader.evened = False
    assert client.get(f"{PATH}/smartReloadCluster?loaderFactor=0.25&force=true").data == b"Fail"
    assert loader.factors == [0.1, 0.25]


@pytest.mark.parametrize("factor", ["x", "-0.1", "NaN", "Infinity", "10.5"])
def test_a_factor_that_is_none_is_refused(node: FakeNode, client: FlaskClient, factor: str) -> None:
    node.loader = loader = StubLoader()
    assert client.get(f"{PATH}/smartReloadCluster?loaderFactor={factor}").status_code == 400
    assert loader.factors == []


@pytest.mark.parametrize("path", ["cluster", "smartReloadCluster"])
def test_a_node_without_grpc_has_nothing_to_say(client: FlaskClient, path: str) -> None:
    assert client.get(f"{PATH}/{path}").status_code == 404


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("reloadClient", "Param 'connectionId' is required."),
        ("reloadClient?redirectAddress=::1", "Param 'connectionId' is required."),
        (
            "reloadClient?connectionId=1&redirectAddress=::1",
            "Param 'redirectAddress' is illegal: an IPv6 address needs brackets",
        ),
        ("reloadCurrent", "Param 'count' is required."),
        ("reloadCurrent?count=x", 'For input string: "x"'),
        (
            "reloadCurrent?count=1&redirectAddress=a%20b",
            "Param 'redirectAddress' is illegal: not an IP address or host name",
        ),
        ("smartReloadCluster?loaderFactor=x", 'For input string: "x"'),
        ("smartReloadCluster?loaderFactor=11", "Param 'loaderFactor' is illegal, it should be a number from 0 to 10."),
    ],
)
def test_refusals(node: FakeNode, client: FlaskClient, path: str, text: str) -> None:
    node.loader = StubLoader()
    answer = client.get(f"{PATH}/{path}")
    assert (answer.status_code, answer.text) == (400, text)


def test_evening_out_by_post(node: FakeNode, client: FlaskClient) -> None:
    node.loader = loader = StubLoader()
    assert client.post(f"{PATH}/smartReloadCluster?loaderFactor=0.5").data == b"Ok"
    page = {"Accept-Language": "en", "Host": "localhost"}
    assert client.get(f"{PATH}/smartReloadCluster?loaderFactor=0.5", headers=page).status_code == 403
    assert loader.factors == [0.5]
