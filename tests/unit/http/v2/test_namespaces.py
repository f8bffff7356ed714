"""Namespaces over HTTP v2, with the codes and texts of Nacos 2.3.1."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

PATH = "/nacos/v2/console/namespace"
DEV = {"namespaceId": "dev", "namespaceName": "Development", "namespaceDesc": "for tests"}
PUBLIC = {
    "namespace": "",
    "namespaceShowName": "public",
    "namespaceDesc": None,
    "quota": 200,
    "configCount": 0,
    "type": 0,
}


def data(answer: TestResponse) -> Any:
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["message"]) == (200, 0, "success"), answer.data
    return body["data"]


def refused(answer: TestResponse) -> tuple[int, int, str]:
    body = answer.get_json()
    return answer.status_code, body["code"], body["data"]


def test_a_namespace_is_created_renamed_and_removed(client: FlaskClient) -> None:
    assert data(client.get(f"{PATH}/list")) == [PUBLIC]
    assert data(client.post(PATH, data=DEV)) is True
    shown = {"namespace": "dev", "namespaceShowName": "Development", "namespaceDesc": "for tests"}
    shown |= {"quota": 200, "configCount": 0, "type": 2}
    assert data(client.get(f"{PATH}/list")) == [PUBLIC, shown]
    assert data(client.get(PATH, query_string={"namespaceId": "dev"})) == shown
    assert data(client.put(PATH, data=DEV | {"namespaceName": "Dev"})) is True
    assert data(client.get(PATH, query_string=DEV))["namespaceShowName"] == "Dev"
    assert data(client.delete(PATH, query_string={"namespaceId": "dev"})) is True
    assert data(client.get(f"{PATH}/list")) == [PUBLIC]


@pytest.mark.parametrize("name", ["", "public"])
def test_the_public_one(client: FlaskClient, name: str) -> None:
    found = data(client.get(PATH, query_string={"namespaceId": name}))
    assert (found["namespace"], found["namespaceDesc"], found["type"]) == (name, "Public Namespace", 0)


def test_an_empty_id_becomes_a_random_one(client: FlaskClient) -> None:
    assert data(client.post(PATH, data=DEV | {"namespaceId": ""})) is True
    assert len(data(client.get(f"{PATH}/list"))[1]["namespace"]) == 36


def test_an_unknown_one(client: FlaskClient) -> None:
    text = "namespaceId [ zz ] not exist"
    assert refused(client.get(PATH, query_string={"namespaceId": "zz"})) == (404, 22_001, text)
    assert data(client.put(PATH, data=DEV | {"namespaceId": "zz"})) is True
    assert data(client.delete(PATH, query_string={"namespaceId": "zz"})) is True


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"namespaceId": "a b"}, "namespaceId [a b] mismatch the pattern"),
        ({"namespaceId": "n" * 129}, "too long namespaceId, over 128"),
        ({"namespaceId": "public"}, "the namespaceId is existed, namespaceId: public"),
        ({"namespaceId": "taken"}, "the namespaceId is existed, namespaceId: taken"),
        ({"namespaceName": "a#b"}, "namespaceName [a#b] contains illegal char"),
        ({"namespaceName": ""}, "namespaceName [] contains illegal char"),
    ],
)
def test_what_is_wrong_is_refused(client: FlaskClient, changed: dict[str, str], text: str) -> None:
    data(client.post(PATH, data=DEV | {"namespaceId": "taken"}))
    assert refused(client.post(PATH, data=DEV | changed)) == (400, 22_000, text)
    assert len(data(client.get(f"{PATH}/list"))) == 2


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("missing", ["namespaceId", "namespaceName"])
def test_what_is_missing_is_named(client: FlaskClient, method: str, missing: str) -> None:
    values = {name: value for name, value in DEV.items() if name != missing}
    answer = client.open(PATH, method=method, data=values)
    assert refused(answer) == (400, 10_000, f"required parameter '{missing}' is missing")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_id_is_needed(client: FlaskClient, method: str) -> None:
    assert refused(client.open(PATH, method=method))[:2] == (400, 10_000)
