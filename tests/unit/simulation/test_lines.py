"""How an event is written, and which events are."""

from dataclasses import replace

import orjson
import pytest

from app.naming.model.keys import datum_key
from app.tools.simulation.transcript.entry import Entry, What
from app.tools.simulation.transcript.lines import Printer, Selection, clock_of, json_of, line_of
from app.tools.simulation.transcript.recorder import LAST_MAX, Recorder

A, B = "10.0.0.1:8848", "10.0.0.2:8848"
KEY = datum_key("public", "DEFAULT_GROUP@@web")
DECISION = Entry(
    12_340,
    What.DECIDE,
    B,
    f"{KEY} 3.7.{A}~1 over 3.6.{A}~1: applied",
    A,
    incoming=True,
    keys=(KEY,),
    rule="R3: it is later, by the same writer",
)


def test_a_decision_is_one_line() -> None:
    assert line_of(DECISION) == (
        "00:12.340 decide B<-A           iplist web 3.7.A over 3.6.A: applied (R3: it is later, by the same writer)"
    )


def test_a_line_without_another_end() -> None:
    assert line_of(Entry(3_600_000, What.STATE, A, "is UP")) == "60:00.000 state  A              is UP"


def test_minutes_are_not_bounded() -> None:
    assert clock_of(100 * 60_000 + 1) == "100:00.001"


def test_json_has_whole_names() -> None:
    assert orjson.loads(json_of(DECISION)) == {
        "at_ms": 12_340,
        "what": "decide",
        "who": B,
        "peer": A,
        "incoming": True,
        "keys": [KEY],
        "text": DECISION.text,
        "rule": DECISION.rule,
    }


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), True),
        (Selection(from_ms=12_340, to_ms=12_340), True),
        (Selection(from_ms=12_341), False),
        (Selection(to_ms=12_339), False),
        (Selection(key="web"), True),
        (Selection(key="iplist web"), True),
        (Selection(key=KEY), True),
        (Selection(key="other"), False),
        (Selection(member=A), True),
        (Selection(member=B), True),
        (Selection(member="10.0.0.3:8848"), False),
    ],
)
def test_selection(selection: Selection, taken: bool) -> None:
    assert selection.takes(DECISION) is taken


def test_what_is_minor_is_written_when_asked_for() -> None:
    beat = replace(DECISION, minor=True)
    assert not Selection().takes(beat)
    assert Selection(minor=True).takes(beat)


def test_what_happens_to_the_world_happens_to_each_member() -> None:
    assert Selection(member=A).takes(Entry(0, What.FAULT, "network", "loses a tenth"))


def test_a_printer_writes_what_is_selected() -> None:
    written: list[str] = []
    printer = Printer(written.append, Selection(to_ms=20_000))
    printer(DECISION)
    printer(replace(DECISION, at_ms=20_001))
    assert written == [line_of(DECISION) + "\n"]


def test_the_last_events_of_a_key_are_kept() -> None:
    recorder = Recorder(lambda _entry: None)
    for at_ms in range(LAST_MAX + 3):
        recorder.add(replace(DECISION, at_ms=at_ms))
        recorder.add(replace(DECISION, at_ms=at_ms, minor=True))
    assert [one.at_ms for one in recorder.last_of(KEY)] == list(range(3, LAST_MAX + 3))
    assert recorder.last_of("another") == []
