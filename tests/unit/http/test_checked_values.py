"""The check of values over HTTP v2 and v3: names, ports, metadata, and flags in Spring's words."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.fake_node import FakeNode, make_settings

V2, V3, ADMIN = "/nacos/v2/ns", "/nacos/v3/client/ns", "/nacos/v3/admin/ns"
ONE = {"serviceName": "orders", "ip": "10.0.0.1", "port": "8080"}
LONG, OTHER = "the param length should not exceed {}.", "illegal characters should not appear in the param."
PORT = "Param 'port' is illegal, the value should be between 0 and 65535."
BOTH = [
    ({"clusterName": "a.b"}, f"Param 'cluster' is illegal, {OTHER}"),
    ({"groupName": "a/b"}, f"Param 'group' is illegal, {OTHER}"),
    ({"ip": "地址"}, f"Param 'ip' is illegal, {OTHER}"),
    ({"ip": "1" * 129}, f"Param 'ip' is illegal, {LONG.format(128)}"),
    ({"port": "65536"}, PORT),
    ({"port": "-1"}, PORT),
    ({"port": "8" * 5_000}, PORT),
    ({"ephemeral": "perhaps"}, "Param 'ephemeral' is illegal, it should be true or false."),
    ({"healthy": "y"}, "Param 'healthy' is illegal, it should be true or false."),
]
"""Values that HTTP v2 and v3 refuse."""
V3_ALONE = [
    ({"namespaceId": "a b"}, f"Param 'namespaceId/tenant' is illegal, {OTHER}"),
    ({"namespaceId": "n" * 65}, f"Param 'namespaceId/tenant' is illegal, {LONG.format(64)}"),
    ({"clusterName": "c" * 65}, f"Param 'cluster' is illegal, {LONG.format(64)}"),
    ({"metadata": '{"a":"' + "b" * 1_024 + '"}'}, f"Param 'Metadata' is illegal, {LONG.format(1_024)}"),
]
"""Values of clients of Nacos 1.4 and 2, which HTTP v2 takes."""


def refusal(answer: Any) -> tuple[int, int, str]:
    body = answer.get_json()
    return answer.status_code, body["code"], body["data"]


def kinds(client: FlaskClient) -> list[bool]:
    answer = client.get(f"{V3}/instance/list", query_string={"serviceName": "orders"})
    return [one["ephemeral"] for one in answer.get_json()["data"]]


@pytest.mark.parametrize(("more", "text"), BOTH)
@pytest.mark.parametrize("base", [V2, V3, ADMIN])
def test_what_is_refused(client: FlaskClient, base: str, more: dict[str, str], text: str) -> None:
    assert refusal(client.post(f"{base}/instance", data=ONE | more)) == (400, 20_002, text)
    assert kinds(client) == []


@pytest.mark.parametrize(("more", "text"), V3_ALONE)
def test_what_v3_refuses(client: FlaskClient, more: dict[str, str], text: str) -> None:
    for base in (V3, ADMIN):
        assert refusal(client.post(f"{base}/instance", data=ONE | more)) == (400, 20_002, text)
    assert client.post(f"{V2}/instance", data=ONE | more).status_code == 200


def test_values_are_checked_before_what_is_missing_and_names_before_flags(client: FlaskClient) -> None:
    wrong = {"namespaceId": "a b", "port": "x", "ephemeral": "perhaps"}
    for name, text in (("namespaceId", f"Param 'namespaceId/tenant' is illegal, {OTHER}"), ("port", PORT)):
        assert refusal(client.post(f"{V3}/instance", data=wrong))[2] == text
        del wrong[name]
    assert "ephemeral" in refusal(client.post(f"{V3}/instance", data=wrong))[2]
    assert refusal(client.post(f"{V3}/instance"))[1] == 10_000


@pytest.mark.parametrize("word", ["1", "on", "YES", "true", "TRUE", ""])
@pytest.mark.parametrize("base", [V2, V3, ADMIN])
def test_words_for_true(client: FlaskClient, base: str, word: str) -> None:
    assert client.post(f"{base}/instance", data=ONE | {"ephemeral": word}).status_code == 200
    assert kinds(client) == [True]


@pytest.mark.parametrize("word", ["0", "off", "no", "False"])
def test_words_for_false(client: FlaskClient, word: str) -> None:
    assert client.post(f"{V3}/instance", query_string=ONE | {"ephemeral": word}).status_code == 200
    assert kinds(client) == [False]


def test_a_flag_of_a_query_counts_once(client: FlaskClient) -> None:
    """The word is put in front of the query: nothing that the call says twice may come out otherwise."""
    query = {**ONE, "ephemeral": "off", "healthy": "on"}
    assert client.post(f"{V3}/instance", query_string=query, data={"ephemeral": "true"}).status_code == 200
    assert kinds(client) == [False]
    listed = {"serviceName": "orders", "healthyOnly": "1"}
    assert len(client.get(f"{V2}/instance/list", query_string=listed).get_json()["data"]["hosts"]) == 1


def test_a_flag_that_changes_nothing_is_checked(client: FlaskClient) -> None:
    asked = {"serviceName": "orders", "healthyOnly": "perhaps"}
    for path in (f"{V2}/instance/list", f"{V3}/instance/list", f"{ADMIN}/instance/list"):
        assert refusal(client.get(path, query_string=asked))[:2] == (400, 20_002)


def test_a_cluster_with_an_underscore_is_no_name_of_a_new_instance(client: FlaskClient) -> None:
    text = "Instance 'clusterName' should be characters with only 0-9a-zA-Z-. (current: a_b)"
    for base in (V2, V3, ADMIN):
        assert refusal(client.post(f"{base}/instance", data=ONE | {"clusterName": "a_b"})) == (400, 21_004, text)


class TestWithoutChecks:
    @pytest.fixture
    def node(self) -> FakeNode:
        node = FakeNode()
        node.settings = make_settings(nacos_core_param_check_enabled="false")
        return node

    def test_flags_and_ports_are_still_read(self, client: FlaskClient) -> None:
        named = ONE | {"namespaceId": "a.b"}
        assert client.post(f"{V3}/instance", data=named).status_code == 200
        for wrong in ({"ephemeral": "perhaps"}, {"port": "x"}, {"port": "65536"}):
            assert refusal(client.post(f"{V3}/instance", data=named | wrong))[:2] == (400, 20_002)


def test_what_a_member_forwards_was_checked_there(client: FlaskClient) -> None:
    agent = {"User-Agent": "Nacos-Server:1.4.8"}
    for more, _ in V3_ALONE:
        assert client.post(f"{V3}/instance", data=ONE | more, headers=agent).status_code == 200
