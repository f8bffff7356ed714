"""The digests of a node: the same whatever the order, of the values of a dump alone, and few at a time."""

from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from app.config.version import __version__
from app.http.api.dump_lines import dump_lines
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.rows.rows import BUCKETS, bucket_of, digest_text, instance_digest
from distro.model.types import MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

PATH = "/nacos/v1/ns/operator/digest"
SERVICE = "DEFAULT_GROUP@@orders"
OTHER = "DEFAULT_GROUP@@bills"


def asked(client: FlaskClient, query: str = "") -> dict[str, Any]:
    answer = client.get(PATH + query)
    assert answer.status_code == 200, answer.data
    return orjson.loads(answer.data)


def fill(node: FakeNode, *numbers: int, service: str = SERVICE) -> None:
    for number in numbers:
        node.naming.register(RegisterInstance(service, f"10.0.0.{number}", 80, metadata={"b": "1", "a": None}))


def test_an_empty_node(client: FlaskClient) -> None:
    assert asked(client) == {
        "format": 1,
        "address": SELF,
        "version": __version__,
        "services": 0,
        "instances": 0,
        "buckets": ["0" * 16] * BUCKETS,
    }


def test_they_are_those_that_a_reader_makes_of_the_dump(node: FakeNode, client: FlaskClient) -> None:
    fill(node, 1, 2, 3)
    fill(node, 4, service=OTHER)
    node.durable.register(RegisterInstance(SERVICE, "10.0.0.9", 80, ephemeral=False, healthy=False, weight=2))
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@empty", "10.0.0.9", 80))
    totals: dict[str, int] = {}
    for row in map(orjson.loads, dump_lines({}, node.naming, node.durable, node.clients.table, node.cluster)):
        if row["kind"] == "instance":
            totals[row["service"]] = totals.get(row["service"], 0) + instance_digest(row)
    expected = ["0" * 16] * BUCKETS
    for name, total in totals.items():
        expected[bucket_of("public", name)] = digest_text(total)
    assert len({bucket_of("public", name) for name in totals}) == len(totals), "names of buckets of their own"
    answer = asked(client)
    assert (answer["services"], answer["instances"]) == (3, 6)
    assert answer["buckets"] == expected
    bucket = bucket_of("public", SERVICE)
    listed = asked(client, f"?buckets={bucket},{bucket}")["services"]
    assert listed == [["public", SERVICE, 4, digest_text(totals[SERVICE])]]
    assert asked(client, f"?buckets={(bucket_of('public', OTHER) + 1) % BUCKETS}")["services"] == []


def test_neither_order_nor_beats_nor_owners_matter_and_values_do(node: FakeNode, client: FlaskClient) -> None:
    fill(node, 1, 2)
    first = asked(client)["buckets"]
    node.cluster.owner = PEER
    node.now_ms += 5_000
    assert asked(client)["buckets"] == first
    node.cluster.owner = SELF
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80, metadata={"b": "2", "a": None}))
    assert asked(client)["buckets"] != first
    fill(node, 1)
    assert asked(client)["buckets"] == first
    node.naming.deregister(DeregisterInstance(SERVICE, "10.0.0.1", 80))
    fill(node, 1)
    assert asked(client)["buckets"] == first, "registered in another order"


@pytest.mark.parametrize("text", ["256", "-1", "a", "1,,2", "1;2", "0001", "\u0661", ",".join(["1"] * 257) + "x"])
def test_what_is_no_list_of_buckets_is_refused(text: str, client: FlaskClient) -> None:
    answer = client.get(PATH, query_string={"buckets": text})
    assert answer.status_code == 400
    assert b"buckets" in answer.data
    assert b"it should be numbers from 0 to 255" in answer.data


def test_it_takes_a_place_of_the_dumps_and_frees_it(client: FlaskClient) -> None:
    for _ in range(5):
        assert client.get(PATH).status_code == 200
        assert client.get(PATH, query_string={"buckets": "x"}).status_code == 400
    read = [client.get("/nacos/v1/ns/operator/dump") for _ in range(2)]
    refused = client.get(PATH)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
    read[0].close()
    assert client.get(PATH).status_code == 200


def test_it_answers_only_while_the_node_is_up(node: FakeNode, client: FlaskClient) -> None:
    node.cluster.own_state = MemberState.STARTING
    assert client.get(PATH).status_code == 503
