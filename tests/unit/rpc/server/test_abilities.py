"""A node tells SDKs of the abilities that it has, and of no other: they take the calls of each that it names."""

import pytest

from app.rpc.server.dispatcher import SERVER_ABILITIES
from scripts.docs.access import rpc_routes

REQUESTS = {
    "supportPersistentInstanceByGrpc": "PersistentInstanceRequest",
    "fuzzyWatch": "NamingFuzzyWatchRequest",
    "lock": "LockOperationRequest",
    "mcp": "QueryMcpServerRequest",
}
"""A request of each ability of Nacos 3.0.3."""


@pytest.mark.parametrize(("ability", "request_type"), REQUESTS.items())
def test_it_is_named_if_its_requests_are_answered(ability: str, request_type: str) -> None:
    assert SERVER_ABILITIES.get(ability, False) is (request_type in rpc_routes())


def test_each_is_one_of_nacos() -> None:
    assert SERVER_ABILITIES.keys() <= REQUESTS.keys()
