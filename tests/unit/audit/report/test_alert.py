"""The alert, posted to real servers that behave badly."""

import base64
import json
import os
import threading
from dataclasses import asdict

import pytest

from app.rows.summary import Summary, Verdict
from app.tools.audit.report.alert import Delivery, post
from app.tools.audit.report.alert_bodies import EXAMPLES_MAX, Alert, AlertFormat
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

SUMMARY = Summary("2026-11-21", Verdict.DIVERGENT, "3 findings", examples=[{"port": port} for port in range(200)])
AT_ONCE = (0.0, 0.0)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().endswith("_PROXY")]:
        monkeypatch.delenv(name)


def answering(*statuses: int) -> "list[Given]":
    return [Given(status) for status in statuses]


def sent_to(*given: Given, path: str = "/hook") -> tuple[Delivery, TinyServer]:
    """Post to a server that answers so, in this order; return what became of it and what the server got."""
    left = list(given)
    with tiny_server(lambda _: left.pop(0)) as tiny:
        return post(f"http://{tiny.address}{path}", Alert(SUMMARY), back_off_s=AT_ONCE), tiny


def test_the_summary_arrives_with_some_examples() -> None:
    delivery, tiny = sent_to(Given())
    assert delivery == Delivery(True)
    (received,) = tiny.received
    assert (received.method, received.target) == ("POST", "/hook")
    assert received.headers["content-type"] == "application/json"
    assert json.loads(received.body) == asdict(SUMMARY) | {"examples": SUMMARY.examples[:EXAMPLES_MAX]}


def test_a_server_that_recovers_gets_it_at_the_third_try() -> None:
    delivery, tiny = sent_to(*answering(500, 503, 204))
    assert delivery == Delivery(True)
    assert len({received.body for received in tiny.received}) == 1
    assert len(tiny.received) == 3


def test_a_third_failure_is_the_last() -> None:
    delivery, tiny = sent_to(*answering(500, 500, 502, 200))
    assert not delivery.delivered
    assert delivery.reason == f"http://{tiny.address} answered with status 502, also in the last of 3 tries"
    assert len(tiny.received) == 3


@pytest.mark.parametrize("status", [302, 400, 401, 404])
def test_what_will_not_pass_is_not_tried_again(status: int) -> None:
    delivery, tiny = sent_to(Given(status, headers={"Location": "/elsewhere"}), Given(), Given())
    assert delivery == Delivery(False, f"http://{tiny.address} answered with status {status}")
    assert len(tiny.received) == 1


def test_a_server_may_ask_for_patience() -> None:
    delivery, tiny = sent_to(
        Given(429, headers={"Retry-After": "0"}), Given(503, headers={"Retry-After": "soon"}), Given()
    )
    assert delivery.delivered
    assert len(tiny.received) == 3


def test_a_server_that_hangs_up_is_tried_again() -> None:
    delivery, tiny = sent_to(Given(hang_up=True), Given(hang_up=True), Given())
    assert delivery.delivered
    assert len(tiny.received) == 3


def test_a_server_that_never_answers_is_given_up() -> None:
    with tiny_server() as tiny:

        def wait(_: Received) -> Given:
            tiny.stopped.wait(30)
            return Given()

        tiny.answer = wait
        delivery = post(f"http://{tiny.address}/", Alert(SUMMARY), back_off_s=AT_ONCE, timeout_s=0.1)
        assert not delivery.delivered
        assert delivery.reason == f"http://{tiny.address} did not answer within 0.1 s, also in the last of 3 tries"
        tiny.wait_for(3)


def test_nobody_there() -> None:
    address = refusing_address()
    delivery = post(f"http://{address}/", Alert(SUMMARY), back_off_s=AT_ONCE)
    assert delivery == Delivery(
        False, f"http://{address} could not be reached, or closed the connection, also in the last of 3 tries"
    )


def test_credentials_are_sent_and_never_told() -> None:
    with tiny_server(lambda _: Given(403)) as tiny:
        secrets = f"http://robot:s3cret@{tiny.address}/services/T0KEN?key=H1DDEN"
        refused = post(secrets, Alert(SUMMARY), back_off_s=AT_ONCE)
    expected = "Basic " + base64.b64encode(b"robot:s3cret").decode()
    assert tiny.received[0].headers["authorization"] == expected
    gone = post(secrets, Alert(SUMMARY), back_off_s=AT_ONCE)
    for delivery in (refused, gone):
        assert not delivery.delivered
        assert not [one for one in ("robot", "s3cret", "T0KEN", "H1DDEN") if one in delivery.reason]


@pytest.mark.parametrize(
    "url", ["", "hook", "ftp://host/x", "http://", "http:///path", "http://host:port/", "http://[::1/"]
)
def test_what_is_no_url_is_not_delivered(url: str) -> None:
    assert post(url, Alert(SUMMARY)) == Delivery(False, "the URL needs http or https, and a host")


def test_a_name_that_cannot_be_one_is_not_delivered() -> None:
    delivery = post("http://a..b/", Alert(SUMMARY), back_off_s=AT_ONCE)
    assert not delivery.delivered
    assert delivery.reason.startswith("http://a..b ")


@pytest.mark.parametrize(
    ("path", "asked"),
    [("", "/api/v2/alerts"), ("/am/", "/am/api/v2/alerts"), ("/am/api/v2/alerts", "/am/api/v2/alerts")],
)
def test_of_alertmanager_its_own_address_is_enough(path: str, asked: str) -> None:
    with tiny_server(lambda _: Given()) as tiny:
        assert post(f"http://{tiny.address}{path}", Alert(SUMMARY), AlertFormat.ALERTMANAGER).delivered
    assert [received.target for received in tiny.received] == [asked]


def test_what_is_stopped_tries_no_more() -> None:
    stop = threading.Event()
    stop.set()
    with tiny_server(lambda _: Given(503)) as tiny:
        assert not post(f"http://{tiny.address}/", Alert(SUMMARY), back_off_s=(60.0, 60.0), stop=stop).delivered
    assert len(tiny.received) == 1
