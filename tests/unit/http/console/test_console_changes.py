"""Instances of a service in the console: filters, order, and changes of one or many of them."""

import re
from typing import Any

import orjson

from tests.support.fake_node import FakeNode
from tests.unit.http.console.conftest import FORM, Browser
from tests.unit.http.console.test_console_pages import HOSTILE, register
from tests.unit.http.console.test_console_search import shown

SERVICE = "/console/service"
NAME = "DEFAULT_GROUP@@orders"


def pick(number: int, port: int = 8080, cluster: str = "DEFAULT") -> str:
    return orjson.dumps([f"10.0.0.{number}", port, cluster]).decode()


def fill(browser: Browser, count: int = 4) -> None:
    for number in range(1, count + 1):
        register(browser, ip=f"10.0.0.{number}")


def send(browser: Browser, path: str, do: str, *picks: str, **fields: str) -> Any:
    token = browser.token(f"{SERVICE}?serviceName=orders")
    data = {"form": token, "do": do, "serviceName": NAME, "pick": list(picks), **fields}
    return browser.client.post(f"/nacos{path}", data=data)


def states(browser: Browser) -> dict[str, tuple[bool, float, Any]]:
    """Enabled, weight and metadata by address."""
    answer = browser.client.get("/nacos/v3/admin/ns/instance/list", query_string={"serviceName": "orders"})
    return {one["ip"]: (one["enabled"], one["weight"], one["metadata"]) for one in answer.get_json()["data"]}


def test_all_clusters_are_shown_at_once_and_each_can_be_chosen(browser: Browser) -> None:
    register(browser, clusterName="east", ip="10.0.0.10")
    register(browser, clusterName="west", ip="10.0.0.9", ephemeral="false")
    register(browser, clusterName="west", ip="10.0.0.2", enabled="false", metadata="zone=a")
    page = {"serviceName": "orders"}
    assert shown(browser.get(SERVICE, **page).text) == ["10.0.0.2:8080", "10.0.0.9:8080", "10.0.0.10:8080"]
    assert shown(browser.get(SERVICE, **page, cluster="east").text) == ["10.0.0.10:8080"]
    assert shown(browser.get(SERVICE, **page, state="disabled").text) == ["10.0.0.2:8080"]
    assert shown(browser.get(SERVICE, **page, source="persistent").text) == ["10.0.0.9:8080"]
    assert shown(browser.get(SERVICE, **page, text="zone=a").text) == ["10.0.0.2:8080"]
    assert shown(browser.get(SERVICE, **page, sort="cluster", down="1").text)[-1] == "10.0.0.10:8080"
    assert "No instance passes these filters." in browser.get(SERVICE, **page, text="nowhere").text
    assert "should be one of" in browser.get(SERVICE, **page, sort="nope").text


def test_pages_keep_filters_and_order(browser: Browser) -> None:
    fill(browser, 45)
    text = browser.get(SERVICE, serviceName="orders", state="healthy", sort="weight", down="1").text
    assert "45 in all, page 1 of 3" in text
    assert "state=healthy" in text
    assert re.search(r"sort=weight&amp;down=1&amp;page=2", text)


def test_one_instance_goes_out_of_service_and_comes_back(browser: Browser) -> None:
    fill(browser)
    link = re.search(
        r'href="/nacos(/console/instances/change\?do=disable[^"]+)"', browser.get(SERVICE, serviceName="orders").text
    )
    assert link is not None
    question = browser.get(link[1].replace("&amp;", "&")).text
    assert "Take 10.0.0.1:8080 of orders out of service?" in question
    assert "3 of 4 healthy instances remain in service, of 4 instances in all" in question
    assert 'name="force"' not in question
    assert states(browser)["10.0.0.1"][0], "nothing changes before the answer"
    answer = send(browser, "/console/instances/apply", "disable", pick(1))
    assert answer.status_code == 303
    assert not states(browser)["10.0.0.1"][0]
    register(browser, ip="10.0.0.1")
    assert not states(browser)["10.0.0.1"][0], "its client does not undo it"
    assert "Put back 10.0.0.1:8080" in browser.get("/console/find", text="10.0.0.1").text
    assert send(browser, "/console/instances/apply", "enable", pick(1)).status_code == 303
    assert states(browser)["10.0.0.1"][0]


def test_many_are_changed_at_once(browser: Browser) -> None:
    fill(browser)
    question = send(browser, "/console/instances/change", "weight", pick(1), pick(2), pick(2))
    assert "Set the weight of 2 instances of orders" in question.text
    assert send(browser, "/console/instances/apply", "weight", pick(1), pick(2), weight="2.5").status_code == 303
    assert (
        send(browser, "/console/instances/apply", "metadata", pick(1), pick(3), metadata="a=1\nb=2").status_code == 303
    )
    found = states(browser)
    assert [found[f"10.0.0.{one}"][1] for one in (1, 2, 3)] == [2.5, 2.5, 1.0]
    assert [found[f"10.0.0.{one}"][2] for one in (1, 2, 3)] == [{"a": "1", "b": "2"}, {}, {"a": "1", "b": "2"}]


def test_too_few_do_not_remain_without_a_word(browser: Browser) -> None:
    fill(browser)
    browser.client.put("/nacos/v1/ns/service", data={"serviceName": "orders", "protectThreshold": "0.5"})
    picks = pick(1), pick(2)
    question = send(browser, "/console/instances/change", "disable", *picks)
    assert "2 of 4 healthy instances remain" in question.text
    assert "would not be above the protect threshold" in question.text
    refused = send(browser, "/console/instances/apply", "disable", *picks)
    assert refused.status_code == 409
    assert "nothing was changed: 2 of 4 healthy instances in service would remain" in refused.text
    assert send(browser, "/console/instances/apply", "weight", *picks, weight="0").status_code == 409
    assert all(enabled and weight for enabled, weight, _ in states(browser).values())
    assert send(browser, "/console/instances/apply", "disable", *picks, force="1").status_code == 303
    assert [states(browser)[f"10.0.0.{one}"][0] for one in (1, 2, 3)] == [False, False, True]


def test_metadata_that_was_set_before_stays(browser: Browser) -> None:
    fill(browser, 1)
    for text in ("a=1", "b=2"):
        assert send(browser, "/console/instances/apply", "metadata", pick(1), metadata=text).status_code == 303
    assert states(browser)["10.0.0.1"][2] == {"a": "1", "b": "2"}


def test_the_form_of_one_instance_does_not_pass_the_stop(browser: Browser) -> None:
    fill(browser, 2)
    form = {"form": browser.token(f"{SERVICE}?serviceName=orders"), "serviceName": NAME, "ip": "10.0.0.1", "port": 8080}
    url = "/nacos/console/instance/edit"
    assert browser.client.post(url, data=form | {"weight": "3"}).status_code == 303
    refused = browser.client.post(url, data=form | {"ip": "10.0.0.2", "weight": "3"})
    assert (refused.status_code, "0 of 1 healthy instances in service would remain" in refused.text) == (409, True)
    refused = browser.client.post(url, data=form | {"ip": "10.0.0.2", "weight": "0", "enabled": "true"})
    assert refused.status_code == 409
    assert {ip: one[:2] for ip, one in states(browser).items()} == {"10.0.0.1": (False, 3), "10.0.0.2": (True, 3)}


def test_what_cannot_be_done_says_which_and_why(browser: Browser, node: FakeNode) -> None:
    fill(browser, 2)
    for do, picks, fields, status, text in (
        ("nope", [pick(1)], {}, 400, "should be one of disable, enable, weight, metadata"),
        ("disable", [], {}, 400, "No instance is selected"),
        ("disable", ["x"], {}, 400, "names no instance"),
        ("disable", ["[1,2,3]"], {}, 400, "names no instance"),
        ("disable", [f'["10.0.0.1",{port},""]' for port in range(201)], {}, 400, "At most 200"),
        ("weight", [pick(1)], {}, 400, "The weight is missing"),
        ("weight", [pick(1)], {"weight": "much"}, 400, "weight"),
        ("metadata", [pick(1)], {"metadata": "novalue"}, 400, "Line 1 of the metadata is not key=value"),
        (
            "enable",
            [pick(1), pick(9)],
            {},
            404,
            "DEFAULT_GROUP@@orders has no instance 10.0.0.9:8080",
        ),
        ("enable", [orjson.dumps([HOSTILE, 1, "c"]).decode()], {}, 404, "nothing was changed"),
    ):
        answer = send(browser, "/console/instances/apply", do, *picks, **fields)
        assert (answer.status_code, text in answer.text) == (status, True), (do, text, answer.text[-1500:])
        assert "<script>alert" not in answer.text
    assert browser.client.post("/nacos/console/instances/apply", data={"do": "disable"}).status_code == 403
    assert FORM.search(browser.get(SERVICE, serviceName="orders").text)
