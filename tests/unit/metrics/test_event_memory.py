"""The remembered events: their bound, their order, and those that earlier runs left in the logs."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.metrics import event_memory
from app.metrics.audit_lines import time_text
from app.metrics.audit_trail import NODE, Actor, AuditTrail
from app.metrics.event_memory import ACCESS, CLUSTER, INSTANCES, KINDS, OPERATORS, EventMemory, kind_of
from tests.support.fake_node import make_settings

SELF = "10.0.0.1:8848"
NOW_MS = 1_700_000_000_123


def line(what: str, at_ms: int, node: str = SELF) -> str:
    return json.dumps({"time": time_text(at_ms), "node": node, "what": what, "key": "k"})


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("instance.register", INSTANCES),
        ("client.disconnect", INSTANCES),
        ("override.update", OPERATORS),
        ("operation", OPERATORS),
        ("service.create", OPERATORS),
        ("member.state", CLUSTER),
        ("ownership.claim", CLUSTER),
        ("member.refused", ACCESS),
        ("login.refused", ACCESS),
        ("logout", ACCESS),
    ],
)
def test_each_event_is_of_one_kind(what: str, kind: str) -> None:
    assert kind_of(what) == kind


def test_registrations_push_out_no_other_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(event_memory.BYTES_MAX, INSTANCES, 10_000)
    memory = EventMemory(SELF, NOW_MS)
    memory.note("user.create", NOW_MS + 1, "u" * 100)
    for number in range(1_000):
        memory.note("instance.register", NOW_MS + 2 + number, "i" * 820)
    kept = memory.between((INSTANCES,), -1, NOW_MS * 2)
    assert [one.at_ms for one in kept] == [NOW_MS + 2 + number for number in range(990, 1_000)]
    assert memory.since_ms() == {**dict.fromkeys(KINDS, NOW_MS), INSTANCES: NOW_MS + 2 + 990}
    assert len(memory.between((OPERATORS,), -1, NOW_MS * 2)) == 1


def test_lines_are_in_order_and_between_two_times() -> None:
    memory = EventMemory(SELF, NOW_MS)
    for what, at_ms in (("member.add", 5), ("user.create", 3), ("member.add", 4), ("user.create", 6)):
        memory.note(what, at_ms, what)
    assert [one.at_ms for one in memory.between(KINDS, -1, 100)] == [3, 4, 5, 6]
    assert [one.at_ms for one in memory.between(KINDS, 3, 6)] == [4, 5]


def trail_at(folder: Path, now_ms: int, node: str = SELF) -> AuditTrail:
    told = replace(make_settings().told, audit_file=folder / "audit.log")
    return AuditTrail(told, node, lambda: now_ms)


def noted(trail: AuditTrail) -> list[tuple[str, str]]:
    found = [json.loads(one.line) for one in trail.memory.between(KINDS, -1, NOW_MS * 2)]
    return [(one["what"], one.get("key", "")) for one in found]


def write_some(trail: AuditTrail) -> None:
    trail.write_instance("register", ("public", "g@@s"), "1.2.3.4:80:unknown:C", None, None, Actor("10.0.0.9"))
    trail.write("namespace.create", "blue", actor=Actor("10.0.0.9", "alice"))
    trail.write("ownership.claim", "3 keys", actor=NODE)
    trail.on_access("login.done", "", Actor("10.0.0.9", "alice"))


def test_a_written_line_is_remembered_once(tmp_path: Path) -> None:
    trail = trail_at(tmp_path, NOW_MS)
    before = trail.memory.revision
    write_some(trail)
    assert trail.stop(10)
    assert trail.memory.revision != before
    assert sorted(noted(trail)) == [
        ("instance.register", "public/g@@s/1.2.3.4:80:unknown:C"),
        ("login.done", ""),
        ("namespace.create", "blue"),
        ("ownership.claim", "3 keys"),
    ]


def test_a_restarted_node_remembers_what_it_wrote(tmp_path: Path) -> None:
    first = trail_at(tmp_path, NOW_MS)
    write_some(first)
    assert first.stop(10)
    with (tmp_path / "audit.log").open("a") as file:
        file.write(line("instance.remove", NOW_MS, "10.0.0.2:8848") + "\n[]\nnot JSON\n" + '{"what":1}\n')
    again = trail_at(tmp_path, NOW_MS + 60_000)
    again.recall()
    assert sorted(noted(again)) == sorted(noted(first))
    assert again.memory.since_ms() == dict.fromkeys(KINDS, NOW_MS)
    assert again.stop(10)


def test_only_the_ends_of_the_logs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_memory, "TAIL_BYTES", 1_000)
    older, newer = tmp_path / "audit.log.1", tmp_path / "audit.log"
    older.write_text("".join(line("instance.register", number) + "\n" for number in range(100)))
    newer.write_text(line("instance.register", 100) + "\n")
    trail = trail_at(tmp_path, NOW_MS)
    trail.recall()
    times = [one.at_ms for one in trail.memory.between((INSTANCES,), -1, NOW_MS)]
    assert times == list(range(times[0], 101))
    assert 85 < times[0] < 100
    assert trail.memory.since_ms()[INSTANCES] == times[0]
    assert trail.memory.since_ms()[ACCESS] == NOW_MS


def test_a_pipe_in_place_of_a_log_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.log")
    trail = trail_at(tmp_path, NOW_MS)
    trail.recall()
    assert noted(trail) == []


def test_members_that_changed_their_state_are_told_once(tmp_path: Path) -> None:
    trail: Any = trail_at(tmp_path, NOW_MS)
    for states in ({"b": "UP"}, {"b": "UP"}, {"b": "DOWN", "c": "UP"}, {"c": "UP"}):
        trail.on_states(states)
    assert trail.stop(10)
    assert noted(trail) == [("member.state", "b")]
