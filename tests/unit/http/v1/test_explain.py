"""The calls about one instance name what of its address is wrong."""

import pytest
from flask.testing import FlaskClient

from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import FakeNode

CALLS = [("GET", "explain"), ("PUT", "instance/drain"), ("GET", "instance/drain")]


@pytest.mark.parametrize("registered", ["[fe80::1]", "fe80::1", "FE80:0::1"])
@pytest.mark.parametrize("asked", ["[fe80::1]", "fe80::1", "fe80:0:0::1"])
def test_an_instance_is_found_in_every_spelling_of_its_address(
    node: FakeNode, client: FlaskClient, registered: str, asked: str
) -> None:
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@orders", registered, 80))
    query = {"serviceName": "orders", "ip": asked, "port": "80"}
    answer = client.get("/nacos/v1/ns/explain", query_string=query).get_json()
    assert answer["instance"]["ip"] == registered
    assert answer["members"][answer["askedAt"]]["listed"]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize(
    ("ip", "port", "named"),
    [
        ("10.0.0.1", "-177", "port"),
        ("10.0.0.1", "65536", "port"),
        ("10.0.0.1", "x", "port"),
        ("%C2%9E", "1", "ip"),
        ("10.0.0.256", "1", "IPv4"),
    ],
)
def test_an_address_that_no_instance_can_have(
    client: FlaskClient, method: str, path: str, ip: str, port: str, named: str
) -> None:
    answer = client.open(f"/nacos/v1/ns/{path}?serviceName=orders&ip={ip}&port={port}", method=method)
    assert answer.status_code == 400
    assert named in answer.text
