"""What is open, from one night to the next: told each night, over once, and again where that did not arrive."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.rows.summary import Summary, Verdict, unjudged
from app.tools.audit.report import alert as delivery
from app.tools.audit.report.alert_bodies import AlertFormat
from app.tools.audit.report.alert_state import STATE_NAME, AlertFile, Alerts, Recipient
from tests.support.tiny_server import Given, TinyServer, tiny_server

DIVERGENT = Summary(
    "2026-11-21", Verdict.DIVERGENT, "divergent: 1 MISSING", checked_at="2026-11-21T03:20:00Z", findings={"MISSING": 1}
)
AGREED = Summary("2026-11-22", Verdict.AGREED, "agreed", checked_at="2026-11-22T03:20:00Z")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().endswith("_PROXY")]:
        monkeypatch.delenv(name)


@pytest.fixture
def tiny() -> Iterator[TinyServer]:
    with tiny_server(lambda _: Given()) as server:
        yield server


def tell(tiny: TinyServer, folder: Path, summary: Summary, before: Summary | None = None) -> delivery.Delivery | None:
    """One night's process: it knows what the file tells, and nothing else."""
    return Alerts(Recipient(f"http://{tiny.address}/"), AlertFile(str(folder))).tell(summary, before)


def told(tiny: TinyServer) -> list[str]:
    return [json.loads(one.body)["verdict"] for one in tiny.received]


def test_what_is_over_is_told_once(tiny: TinyServer, tmp_path: Path) -> None:
    for summary in (AGREED, DIVERGENT, DIVERGENT, AGREED, AGREED, unjudged("", "no dump"), AGREED, AGREED):
        tell(tiny, tmp_path, summary)
    assert told(tiny) == ["divergent", "divergent", "agreed", "unjudged", "agreed"]


def test_what_did_not_arrive_is_told_at_the_next_night(tiny: TinyServer, tmp_path: Path) -> None:
    tell(tiny, tmp_path, DIVERGENT)
    tiny.answer = lambda _: Given(404)
    failed = tell(tiny, tmp_path, AGREED)
    assert failed is not None
    assert not failed.delivered
    tiny.answer = lambda _: Given()
    tell(tiny, tmp_path, AGREED)
    tell(tiny, tmp_path, AGREED)
    assert told(tiny) == ["divergent", "agreed", "agreed"]


def test_of_the_first_time_the_last_night_tells(tiny: TinyServer, tmp_path: Path) -> None:
    assert tell(tiny, tmp_path, AGREED, before=AGREED) is None
    tell(tiny, tmp_path, AGREED, before=DIVERGENT)
    tell(tiny, tmp_path, AGREED, before=DIVERGENT)
    assert told(tiny) == ["agreed"]
    assert json.loads(tiny.received[0].body)["resolved"] == ["MISSING"]


@pytest.mark.parametrize("content", ["", "[]", '{"classes": 1}', '{"classes": [], "since": 1, "told": ""}', "\x00"])
def test_a_file_that_is_none_is_as_if_there_were_none(content: str, tiny: TinyServer, tmp_path: Path) -> None:
    (tmp_path / STATE_NAME).write_text(content)
    tell(tiny, tmp_path, AGREED, before=DIVERGENT)
    assert told(tiny) == ["agreed"]


def test_a_folder_that_takes_no_file_is_an_error_after_the_message(tiny: TinyServer, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the folder should be")
    with pytest.raises(OSError, match="out"):
        tell(tiny, tmp_path / "out", DIVERGENT)
    assert told(tiny) == ["divergent"]


def test_what_is_known_is_not_repeated_but_to_alertmanager(tiny: TinyServer) -> None:
    for form, count in ((AlertFormat.SLACK, 3), (AlertFormat.ALERTMANAGER, 4)):
        tiny.received.clear()
        alerts = Alerts(Recipient(f"http://{tiny.address}/", form), None)
        alerts.tell(DIVERGENT, told="orders")
        alerts.tell(DIVERGENT, told="orders")
        alerts.tell(replace(DIVERGENT, findings={"MISSING": 2}), told="orders and bills")
        alerts.tell(AGREED)
        alerts.tell(AGREED)
        assert len(tiny.received) == count


def test_to_alertmanager_what_is_over_ends_with_the_labels_that_it_began_with(tiny: TinyServer, tmp_path: Path) -> None:
    recipient = Recipient(f"http://{tiny.address}/", AlertFormat.ALERTMANAGER)
    for summary in (DIVERGENT, replace(DIVERGENT, findings={"HEALTH": 1}), AGREED):
        Alerts(recipient, AlertFile(str(tmp_path))).tell(summary)
    first, second, third = (json.loads(one.body) for one in tiny.received)
    by_class = {one["labels"]["class"]: one for one in second}
    assert by_class["MISSING"]["labels"] == first[0]["labels"]
    assert by_class["MISSING"]["endsAt"] == DIVERGENT.checked_at.replace("Z", ".000Z")
    assert [one["labels"] for one in third] == [by_class["HEALTH"]["labels"]]


def test_a_night_without_a_verdict_ends_nothing(tiny: TinyServer, tmp_path: Path) -> None:
    recipient = Recipient(f"http://{tiny.address}/", AlertFormat.ALERTMANAGER)
    without = replace(unjudged("2026-11-22", "no dump"), checked_at="2026-11-22T03:20:00Z")
    for summary in (DIVERGENT, without, replace(AGREED, checked_at="2026-11-23T03:20:00Z")):
        Alerts(recipient, AlertFile(str(tmp_path))).tell(summary)
    first, second, third = ({one["labels"]["class"]: one for one in json.loads(each.body)} for each in tiny.received)
    assert second.keys() == third.keys() == {"MISSING", "UNJUDGED"}
    assert second["MISSING"]["labels"] == first["MISSING"]["labels"]
    assert second["MISSING"]["endsAt"] == "2026-11-23T05:20:00.000Z", "open for longer"
    assert {one["endsAt"] for one in third.values()} == {"2026-11-23T03:20:00.000Z"}
