"""The calls of links: a comparison, the stream of changes as a thread answers it, and the links themselves."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from app.naming.records.record_keys import link_key
from distro.model.types import CAPABILITY_LINKS, CAPABILITY_OVERRIDES, CAPABILITY_VERSIONS, Member, MemberState
from tests.support.auth import ADMIN, add_user, node_with_users, token_of
from tests.support.fake_node import PEER, FakeNode
from tests.support.linked_node import linked_node

LINK = "/nacos/v1/ns/link"
COMPARE, CHANGES, LINKS, FETCH = (f"{LINK}/{name}" for name in ("compare", "changes", "list", "fetch"))


def register(client: FlaskClient, **values: str) -> None:
    query = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"} | values
    assert client.post("/nacos/v1/ns/instance", query_string=query).data == b"ok"


def compare(client: FlaskClient, held: object = (), **query: str | int) -> Any:
    answer = client.post(
        COMPARE, query_string=query, data=orjson.dumps({"held": held}), content_type="application/json"
    )
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def test_a_comparison_has_what_differs_and_what_is_gone(client: FlaskClient) -> None:
    register(client, metadata='{"zone":"a"}')
    first = compare(client, [["public", "DEFAULT_GROUP@@left", "0" * 16]])
    [one] = first["set"]
    assert (one["ns"], one["service"]) == ("public", "DEFAULT_GROUP@@orders")
    assert one["instances"] == [{"ip": "10.0.0.1", "port": 8080, "metadata": {"zone": "a"}, "app": "DEFAULT"}]
    assert (first["cluster"], first["gone"], first["count"]) == ("here", [["public", "DEFAULT_GROUP@@left"]], 1)
    again = compare(client, [["public", "DEFAULT_GROUP@@orders", one["digest"]]])
    assert (again["set"], again["gone"], again["count"], again["more"]) == ([], [], 1, False)


def test_a_part_has_the_chosen_services_that_hash_to_it(client: FlaskClient) -> None:
    for number in range(8):
        register(client, serviceName=f"s{number}")
    parts = [{one["service"] for one in compare(client, part=part, of=2)["set"]} for part in (0, 1)]
    assert all(parts)
    assert len(parts[0] | parts[1]) == 8
    slices = [compare(client, slice=number, slices=3)["count"] for number in range(3)]
    assert sum(slices) == 8
    chosen = compare(client, services="s1,s2,!s2", namespaces="pub*")["set"]
    assert [one["service"] for one in chosen] == ["DEFAULT_GROUP@@s1"]


@pytest.mark.parametrize(
    ("query", "held", "why"),
    [
        ({"part": "2", "of": "2"}, [], "part"),
        ({"of": "0"}, [], "of"),
        ({"slices": "5000"}, [], "slices"),
        ({"services": "!"}, [], "services"),
        ({}, {}, "held"),
        ({}, [["public", "G@@a"]], "held"),
        ({}, [["public", "G@@a", "x"]], "held"),
        ({}, [["public", "G@@a", "0" * 16]] * 20_001, "held"),
    ],
)
def test_a_wrong_comparison_names_the_field(client: FlaskClient, query: dict[str, str], held: object, why: str) -> None:
    body = orjson.dumps({"held": held})
    answer = client.post(COMPARE, query_string=query, data=body, content_type="application/json")
    assert (answer.status_code, why in answer.text) == (400, True)
    assert client.post(COMPARE, data=b"{", content_type="application/json").status_code == 400


def test_a_link_sees_what_its_user_may_read() -> None:
    node = node_with_users()
    reader = add_user(node, "reader", (":*:naming/or*", "r"))
    client = create_app(node).test_client()
    for name in ("orders", "billing"):
        register(client, serviceName=name, accessToken=token_of(node, ADMIN))
    assert client.post(COMPARE).status_code == 403
    assert [one["service"] for one in compare(client, accessToken=reader)["set"]] == ["DEFAULT_GROUP@@orders"]
    assert compare(client, accessToken=token_of(node, ADMIN))["count"] == 2


def test_the_stream_begins_with_a_greeting(client: FlaskClient) -> None:
    placed = compare(client)
    answer = client.get(CHANGES, query_string={"run": placed["run"], "since": placed["place"]})
    [line] = [orjson.loads(one) for one in answer.data.splitlines()]
    assert (line["cluster"], line["run"], line["place"]) == ("here", placed["run"], placed["place"])
    answer = client.get(CHANGES, query_string={"run": "another", "since": 1})
    assert orjson.loads(answer.data)["behind"] is True
    assert client.get(CHANGES).status_code == 400
    assert client.get(CHANGES, query_string={"run": "another", "since": "-1"}).status_code == 400
    assert client.get(CHANGES, query_string={"run": "another", "since": 1 << 40}).status_code == 200


def test_the_links_of_a_node(node: FakeNode, client: FlaskClient) -> None:
    node.links.error = "rollcall.link.b.servers= is not allowed"
    told = client.get(LINKS).get_json()
    assert told["cluster"] == "here"
    assert told["members"] == [{"address": "127.0.0.1:8848", "error": node.links.error, "links": [], "byCall": {}}]
    assert (told["notAnswered"], told["otherKinds"]) == ([], [])


@pytest.fixture
def linked() -> Iterator[FakeNode]:
    with linked_node() as node:
        yield node


def test_a_link_is_asked_to_fetch_again(linked: FakeNode) -> None:
    client = create_app(linked).test_client()
    query = {"name": "dc-b", "services": '{"public":["G@@orders"]}'}
    told = client.post(FETCH, query_string=query)
    assert told.get_json() == {"address": "127.0.0.1:8848", "link": "dc-b", "services": 1}
    again = client.post(FETCH, query_string={"name": "dc-b"})
    assert (again.status_code, again.headers["Retry-After"]) == (503, "2")


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ({}, 400, "'name' is required"),
        ({"name": "dc-c"}, 404, "there is no link 'dc-c'; the links: dc-b, old"),
        ({"name": "old"}, 400, "its direction is out"),
        ({"name": "dc-b", "services": "[]"}, 400, "should be a JSON object"),
        ({"name": "dc-b", "services": '{"public":"orders"}'}, 400, "list of full names"),
        ({"name": "dc-b", "services": '{"public":[1]}'}, 400, "should be a text"),
        ({"name": "dc-b", "services": '{"public":["a##b"]}'}, 400, "serviceName"),
        ({"name": "dc-b", "services": orjson.dumps({"public": ["G@@a"] * 1_001}).decode()}, 400, "at most 1000"),
    ],
)
def test_a_wrong_request_to_fetch_again_names_the_field(
    linked: FakeNode, query: dict[str, str], status: int, why: str
) -> None:
    answer = create_app(linked).test_client().post(FETCH, data=query)
    assert (answer.status_code, why in answer.text) == (status, True), answer.text


def test_only_an_administrator_has_a_link_fetch_again() -> None:
    node = node_with_users()
    writer = add_user(node, "writer", (":*:naming/*", "rw"))
    client = create_app(node).test_client()
    assert client.post(FETCH, query_string={"name": "dc-b", "accessToken": writer}).status_code == 403
    answer = client.post(FETCH, query_string={"name": "dc-b", "accessToken": token_of(node, ADMIN)})
    assert answer.status_code == 404


# --- changes by a call --------------------------------------------------------------------------------


def change(client: FlaskClient, name: str, **fields: object) -> Any:
    return client.put(LINK, query_string={"name": name, "settings": orjson.dumps(fields).decode()})


def test_a_call_sets_fields_of_a_link_and_takes_them_back(node: FakeNode, client: FlaskClient) -> None:
    first = change(client, "dc-b", servers="10.0.0.1", enabled=False, weight=2)
    fields = {"servers": "10.0.0.1", "enabled": "false", "weight": "2"}
    assert first.get_json() == {"link": "dc-b", "byCall": fields}
    told = change(client, "dc-b", weight="", services="a").get_json()["byCall"]
    assert told == {"servers": "10.0.0.1", "enabled": "false", "services": "a"}
    [member] = client.get(LINKS).get_json()["members"]
    assert member["byCall"] == {"dc-b": told}
    again = FakeNode(disk=node.disk)
    again.durable._records.read_disk()
    assert again.links.called() == {"dc-b": told}, "it is kept"
    assert client.delete(LINK, query_string={"name": "dc-b"}).get_json() == {"link": "dc-b", "byCall": {}}
    assert [(what, key) for what, key, _, _ in node.audited if what != "operation"] == [
        ("link.create", "dc-b"),
        ("link.update", "dc-b"),
        ("link.remove", "dc-b"),
    ]
    answer = client.delete(LINK, query_string={"name": "dc-b"})
    assert (answer.status_code, answer.text) == (404, "no call has set fields of link 'dc-b'")
    change(client, "dc-b", servers="10.0.0.1")
    assert change(client, "dc-b", servers=" ").get_json()["byCall"] == {}


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("dc-b", {"weight": "2"}, "rollcall.link.dc-b.servers= (default) is not allowed"),
        ("dc-b", {"servers": "h", "weight": "-1"}, "rollcall.link.dc-b.weight=-1 (a call) is not allowed"),
        ("dc-b", {"servers": "h", "sevrices": "x"}, "rollcall.link.dc-b.sevrices (a call) is not a setting of a link"),
        ("dc-b", {"servers": "h", "user": "u"}, "rollcall.link.dc-b.user and rollcall.link.dc-b.password need each"),
        ("dc-b", {"servers": "h", "password": "secret"}, "set rollcall.link.dc-b.password in the file of each member"),
        ("dc-b", {"servers": "h", "trusted": "/ca"}, "set rollcall.link.dc-b.trusted in the file of each member"),
        ("dc-b", {"servers": ["h"]}, "field 'servers' should be a text, a number, true or false"),
        ("dc-b", {"servers": "h\n"}, "field 'servers' of a link should be a printable text of at most 8192"),
        ("dc-b", {"servers": "h" * 8_193}, "field 'servers' of a link should be a printable text of at most 8192"),
        ("dc-b", {f"f{number}": "x" for number in range(33)}, "at most 32 fields"),
        ("dc-b", {"servers": "h", "x" * 65: "x"}, "the name of a field of a link should be printable"),
        ("dc_b", {"servers": "h"}, "the name of a link has up to 32 letters, digits and -"),
    ],
)
def test_a_wrong_change_of_a_link_names_the_field_and_changes_nothing(
    node: FakeNode, client: FlaskClient, name: str, fields: dict[str, Any], why: str
) -> None:
    answer = change(client, name, **fields)
    assert (answer.status_code, why in answer.text) == (400, True), answer.text
    assert (node.links.called(), node.audited, "secret" in answer.text) == ({}, [], False)


def test_there_are_as_many_links_by_calls_as_by_files(client: FlaskClient) -> None:
    for number in range(32):
        assert change(client, f"l{number}", servers="h").status_code == 200
    answer = change(client, "more", servers="h")
    assert (answer.status_code, "33 links are over the limit of 32" in answer.text) == (400, True)
    assert change(client, "l0", servers="i").status_code == 200


def test_a_link_is_changed_by_administrators_at_its_owner_once_all_members_keep_it(
    node: FakeNode, client: FlaskClient
) -> None:
    old = Member(PEER, MemberState.UP, frozenset({CAPABILITY_VERSIONS, CAPABILITY_OVERRIDES}))
    node.cluster.others[:] = [old]
    answer = change(client, "dc-b", servers="h")
    assert (answer.status_code, "does not keep operators' changes of links" in answer.text) == (503, True)
    node.cluster.others[:] = [replace(old, capabilities=old.capabilities | {CAPABILITY_LINKS})]
    node.cluster.owner = PEER
    assert change(client, "dc-b", servers="h").text == "from the owner"
    assert node.forwarder.durable == [(link_key("dc-b"),)]
    secured = node_with_users()
    writer = add_user(secured, "writer", (":*:naming/*", "rw"))
    with_users = create_app(secured).test_client()
    query = {"name": "dc-b", "settings": '{"servers":"h"}'}
    assert with_users.put(LINK, query_string=query | {"accessToken": writer}).status_code == 403
    assert with_users.put(LINK, query_string=query | {"accessToken": token_of(secured, ADMIN)}).status_code == 200
