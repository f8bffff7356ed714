"""Services in the console: created, described, checked, removed, compared between members and healed."""

from typing import Any

import pytest

from app.http.console import service_forms
from app.http.v1 import differences
from tests.support.fake_node import PEER, FakeNode
from tests.unit.http.console.conftest import Browser
from tests.unit.http.console.test_console_pages import HOSTILE, register

NAME = "DEFAULT_GROUP@@orders"
ASKED = {"namespaceId": "public", "serviceName": NAME}
CREATE = "/console/service/create"


def detail(browser: Browser, **names: str) -> Any:
    return browser.client.get("/nacos/v1/ns/catalog/service", query_string={**ASKED, **names}).get_json()


def test_a_service_is_created_described_and_removed(browser: Browser) -> None:
    assert 'href="/nacos/console/service/create?namespaceId=public"' in browser.get("/console/services").text
    answer = browser.send(CREATE, CREATE, name="bills", group="shop", protectThreshold="0.5", metadata="team=pay")
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/nacos/console/service?namespaceId=public&serviceName=shop%40%40bills&done=service-saved",
    )
    named = {**ASKED, "serviceName": "shop@@bills"}
    edit = f"/console/service/edit?serviceName={named['serviceName']}"
    assert 'value="0.5"' in browser.get(edit).text
    assert "team=pay" in browser.get(edit).text
    saved = browser.send("/console/service/edit", edit, **named, protectThreshold="0.25", metadata='{"a":"b"}')
    assert saved.status_code == 303
    found = detail(browser, **named)["service"]
    assert (found["protectThreshold"], found["metadata"], found["selector"]["type"]) == (0.25, {"a": "b"}, "none")
    question = browser.get("/console/service/remove", **named).text
    assert "It has no instances." in question
    assert browser.send("/console/service/remove", edit, **named).status_code == 303
    assert browser.client.get("/nacos/v1/ns/catalog/service", query_string=named).status_code == 404


def test_a_description_keeps_the_selector(browser: Browser) -> None:
    browser.send(CREATE, CREATE, name="orders")
    edit = f"/console/service/edit?serviceName={NAME}"
    label = "CONSUMER.label.A=PROVIDER.label.A"
    assert browser.send("/console/service/edit", edit, **ASKED, expression=label).status_code == 303
    assert label in browser.get(edit).text
    assert detail(browser)["service"]["selector"]["type"] == "label"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a@@b"}, "@@"),
        ({"name": "a", "protectThreshold": "2"}, "from 0 to 1"),
        ({"name": "a", "protectThreshold": "nan"}, "from 0 to 1"),
        ({"name": "a", "metadata": "x"}, "Line 1 of the metadata"),
        ({"name": "a b"}, "note bad"),
    ],
)
def test_a_wrong_description_is_shown_again(browser: Browser, fields: dict[str, str], complaint: str) -> None:
    answer = browser.send(CREATE, CREATE, **fields, group="kept")
    assert answer.status_code == 400
    assert complaint in answer.text
    assert 'value="kept"' in answer.text


def test_a_service_with_instances_says_how_many_go(browser: Browser) -> None:
    register(browser)
    assert "its instance is deregistered" in browser.get("/console/service/remove", **ASKED).text


def test_the_checks_of_a_cluster_are_set(browser: Browser) -> None:
    browser.send(CREATE, CREATE, name="orders")
    path = f"/console/service/cluster?serviceName={NAME}&clusterName=c1"
    fields = {**ASKED, "clusterName": "c1", "port": "80"}
    wrong = browser.send("/console/service/cluster", path, **fields, type="HTTP", checkPath="/health", code="many")
    assert wrong.status_code == 400
    assert "expectedResponseCode" in wrong.text
    done = browser.send("/console/service/cluster", path, **fields, type="HTTP", checkPath="/health", code="204")
    assert done.status_code == 303
    (cluster,) = detail(browser)["clusters"]
    assert cluster["healthChecker"] == {"type": "HTTP", "path": "/health", "headers": "", "expectedResponseCode": 204}
    assert cluster["useIPPort4Check"] is False
    assert 'value="/health"' in browser.get(path).text


def test_namespaces_have_counts(browser: Browser) -> None:
    register(browser)
    register(browser, namespaceId="blue", port="81")
    text = browser.get("/console/namespaces").text
    assert "in use, but never created" in text
    assert text.count('<td class="n">1</td>') == 4


# --- differences ----------------------------------------------------------------------------------------


def other_member(node: FakeNode, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[tuple[str, str]]:
    """Let another member answer with what this one holds, but for some fields; None is an instance that it lacks."""
    asked: list[tuple[str, str]] = []

    def ask(_services: Any, method: str, path: str, *_: Any, **__: Any) -> Any:
        asked.append((method, path))
        held = differences.held_here(node, "public", NAME)  # type: ignore[arg-type]
        for key, fields in changes.items():
            key = key.replace("_", "#").replace("x", ".")
            if fields is None:
                held["instances"].pop(key)
            else:
                held["instances"][key] = {**held["instances"][key], **fields}
        return {PEER: held, "127.0.0.3:8848": None}, []

    monkeypatch.setattr("app.peers.asked.ask_members", ask)
    monkeypatch.setattr(service_forms, "ask_members", ask)
    return asked


def test_the_page_lists_what_differs_and_heals(
    browser: Browser, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        register(browser, ip=f"10.0.0.{number}", metadata='{"zone":"a"}')
    asked = other_member(
        node, monkeypatch, **{"10x0x0x1_8080_DEFAULT": {"weight": 7.0, "metadata": {"zone": HOSTILE}}},
        **{"10x0x0x2_8080_DEFAULT": None},
    )  # fmt: skip
    told = browser.client.get("/nacos/v1/ns/service/differences", query_string=ASKED).get_json()
    assert [(one["ip"], one["fields"]) for one in told["differing"]] == [
        ("10.0.0.1", ["weight", "metadata"]),
        ("10.0.0.2", []),
    ]
    assert told["notAnswered"] == ["127.0.0.3:8848"]
    text = browser.get("/console/service/differences", **ASKED).text
    assert "2 instances differ" in text
    assert "weight 7" in text
    assert "missing" in text
    assert "<script>alert" not in text
    answer = browser.send("/console/service/heal", f"/console/service/differences?serviceName={NAME}", **ASKED)
    assert answer.status_code == 303
    assert "127.0.0.3" in answer.headers["Location"]
    assert node.healer.healed == [("public", NAME, "", ())]
    assert asked[-1] == ("POST", "/v1/ns/service/heal")


def test_equal_members_are_told_as_equal(browser: Browser, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    register(browser)
    other_member(node, monkeypatch)
    text = browser.get("/console/service/differences", **ASKED).text
    assert "2 members hold the same instances" in text
    monkeypatch.setattr(differences, "COMPARED_MAX", 0)
    assert "too many instances" in browser.get("/console/service/differences", **ASKED).text


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"known": True, "count": 1, "instances": []},
        {"known": True, "count": 1, "instances": {"a": {}}},
        {"known": True, "count": 1, "instances": {"a#x#b": dict.fromkeys(differences.FIELDS)}},
        {"known": True, "count": 1, "instances": {"a#1#b": {**dict.fromkeys(differences.FIELDS), "metadata": 7}}},
    ],
)
def test_a_member_with_another_answer_counts_as_silent(told: dict[str, Any]) -> None:
    assert not differences.is_held(told)
