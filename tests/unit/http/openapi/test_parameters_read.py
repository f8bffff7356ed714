"""The description names the parameters that the code reads: all of them, and no other."""

import pytest

from app.http.api.call import ROUTES, Endpoint
from app.http.blueprints import MODULES
from app.http.openapi.parameters import parameters_of
from tests.support.hot_schemas import BeatSchema, DeregisterSchema, ListSchema, RegisterSchema
from tests.support.read_names import names_read

assert MODULES, "their import fills the table of routes"
BY_ENDPOINT = {row.endpoint: row.described for row in ROUTES if row.described is not None}
NAMED_BY_DOM = {"srv_ipxt": {"serviceName", "groupName"}, "client_beat": {"serviceName", "groupName"}}
"""Endpoints that hand the service's name to a parser, which then reads none."""


@pytest.mark.parametrize("endpoint", BY_ENDPOINT, ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_the_described_parameters_are_those_that_the_code_reads(endpoint: Endpoint) -> None:
    described = BY_ENDPOINT[endpoint]
    read = names_read(endpoint) - NAMED_BY_DOM.get(endpoint.__name__, set()) - {""}
    assert {one["name"] for one in parameters_of(described.takes)} == read


@pytest.mark.parametrize(
    ("path", "method", "oracle"),
    [
        ("/v1/ns/instance", "POST", RegisterSchema),
        ("/v1/ns/instance", "DELETE", DeregisterSchema),
        ("/v1/ns/instance/beat", "PUT", BeatSchema),
        ("/v1/ns/instance/list", "GET", ListSchema),
    ],
)
def test_the_hot_calls_take_what_their_slow_parsers_take(path: str, method: str, oracle: type) -> None:
    [described] = [row.described for row in ROUTES if (row.path, row.method) == (path, method)]
    assert described is not None
    names = {one["name"] for one in parameters_of(described.takes)} - {"groupName", "dom"}
    assert names == {one.data_key or name for name, one in oracle().fields.items()}
