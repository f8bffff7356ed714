"""The security log: what is in it, and that no flood of anything rolls it out."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.metrics.audit_lines import plain_line
from app.metrics.audit_trail import KEY_CHARS_MAX, NODE, Actor, AuditTrail
from app.metrics.security_log import EACH_MAX, KIND_MAX, OTHERS, REFUSED_MAX, WINDOW_MS
from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import make_settings
from tests.support.processes import eventually

BOSS, EVE = Actor("10.0.0.9", "boss"), Actor("10.6.6.6", "eve")


class Logs:
    """An audit trail with small files, and its lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ms = 1_700_000_000_123
        told = make_settings().told
        small = {"log_file_bytes": 20_000, "log_files": 2, "security_file_bytes": 20_000, "security_files": 8}
        self.trail = AuditTrail(
            replace(told, audit_file=folder / "audit.log", **small), "10.0.0.1:8848", lambda: self.now_ms
        )

    def lines(self, name: str = "security") -> list[dict[str, Any]]:
        assert self.trail.stop(10)
        files = sorted(self.folder.glob(f"{name}.log*"), reverse=True)
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def whats(lines: list[dict[str, Any]]) -> list[str]:
    return [line["what"] for line in lines]


def test_changes_of_administrators_and_logins_are_in_it_and_what_clients_do_is_not(logs: Logs) -> None:
    evidence = ("user.create", "role.remove", "permission.create", "namespace.update", "switches.update", "operation")
    for what in evidence:
        logs.trail.write(what, "k", after={"a": 1}, actor=BOSS)
    for what in ("instance.register", "client.disconnect", "service.update", "ownership.claim"):
        logs.trail.write(what, "k", actor=NODE)
    logs.trail.write_instance("update", ("public", "g@@s"), "k", None, RegisterInstance("g@@s", "1.2.3.4", 80), BOSS)
    logs.trail.on_access("login.done", "", BOSS)
    assert whats(logs.lines()) == [*evidence, "login.done"]
    assert whats(logs.lines("audit"))[: len(evidence)] == list(evidence)
    assert "login.done" not in whats(logs.lines("audit"))


def test_both_logs_have_the_same_line_which_is_made_once(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()

    def make(fields: dict[str, Any]) -> str | None:
        made.append(fields["what"])
        return plain_line(fields)

    monkeypatch.setattr("app.metrics.audit_trail.plain_line", make)
    logs.trail.write("namespace.create", "blue", after={"name": "Blue"}, actor=BOSS)
    assert logs.lines() == logs.lines("audit") != []
    assert made == ["namespace.create"]
    assert len(logs.trail.memory.between(["operators"], 0, 1 << 60)) == 1


def test_members_that_come_and_go(logs: Logs) -> None:
    for members in (("a:1", "b:1"), ("a:1", "b:1", "c:1"), ("c:1",)):
        logs.trail.on_members(members)
    found = [(line["what"], line["key"]) for line in logs.lines()]
    assert found == [("member.add", "c:1"), ("member.remove", "a:1"), ("member.remove", "b:1")]


def test_registrations_roll_out_the_audit_log_alone(logs: Logs) -> None:
    logs.trail.write("user.create", "mallory", after={}, actor=BOSS)
    for number in range(2_000):
        logs.trail.write("instance.register", f"public/g@@s/{number}", after={"ip": "1.2.3.4"}, actor=EVE)
    assert "user.create" not in whats(logs.lines("audit"))
    assert whats(logs.lines()) == ["user.create"]


def test_refused_logins_of_one_caller_are_summarised(logs: Logs) -> None:
    for number in range(1_000):
        logs.now_ms += 10
        ip = "10.6.6.6" if number % 2 else "::ffff:10.6.6.6"
        logs.trail.on_access("login.refused", "", EVE._replace(address=ip), "unknown user!")
    *each, last = logs.lines()
    assert [line["after"] for line in each] == ["unknown user!"] * EACH_MAX
    assert (last["from"], last["user"], last["after"]["repeated"]) == ("10.6.6.6", "eve", 1_000 - EACH_MAX)
    assert last["after"]["forMs"] == 1_000 * 10 - 10


@pytest.mark.parametrize("what", ["login.refused", "access.refused", "member.refused"])
def test_refusals_of_many_callers_leave_the_rest(logs: Logs, what: str) -> None:
    logs.trail.write("user.create", "mallory", after={}, actor=BOSS)
    for number in range(20_000):
        logs.trail.on_access(what, "GET /x", Actor(f"10.6.{number >> 8}.{number & 255}", f"user{number}"), "why")
        if number == 10_000:
            logs.trail.on_access("login.done", "", BOSS)
    lines = logs.lines()
    assert whats(lines)[0] == "user.create"
    assert "login.done" in whats(lines)
    assert whats(lines).count(what) == REFUSED_MAX + 1
    assert (lines[-1]["from"], lines[-1]["after"]["repeated"]) == (OTHERS, 20_000 - REFUSED_MAX)


def test_changes_are_written_one_by_one_within_a_bound(logs: Logs) -> None:
    for number in range(KIND_MAX + 7):
        logs.trail.write("role.create", f"role{number}", actor=BOSS)
    lines = logs.lines()
    assert lines[-1]["after"]["repeated"] == 7
    assert len(lines) < KIND_MAX + 2


def test_the_next_minute_is_written_again_and_the_last_is_summed_up(logs: Logs) -> None:
    for _ in range(2):
        for _ in range(EACH_MAX + 3):
            logs.trail.on_access("login.refused", "", EVE)
        logs.now_ms += WINDOW_MS
        eventually(lambda: not logs.trail._security._equal, 10)
    counts = [line["after"]["repeated"] for line in logs.lines() if "after" in line]
    assert counts == [3, 3]
    assert len(logs.lines()) == 2 * EACH_MAX + 2


def test_what_a_stranger_chooses_is_cut(logs: Logs) -> None:
    logs.trail.on_access("access.refused", "GET /" + "x" * 99_999, EVE, "why")
    (line,) = logs.lines()
    assert len(line["key"]) == KEY_CHARS_MAX


def test_its_file_has_a_place_of_its_own(tmp_path: Path) -> None:
    told = replace(
        make_settings().told, audit_file=tmp_path / "a" / "audit.log", security_file=tmp_path / "b" / "s.log"
    )
    trail = AuditTrail(told, "n", lambda: 1)
    trail.write("user.create", "k", actor=BOSS)
    assert trail.stop(10)
    assert (tmp_path / "b" / "s.log").read_text().count("user.create") == 1
    assert trail.counters()["security_lines_written"] == 1


def test_off_is_off(tmp_path: Path) -> None:
    trail = AuditTrail(replace(make_settings().told, audit_file=tmp_path / "audit.log", audit=False), "n", lambda: 1)
    calls: list[Callable[[], None]] = [
        lambda: trail.write("user.create", "k", actor=BOSS),
        lambda: trail.on_access("login.done", "", BOSS),
    ]
    for call in calls:
        call()
    assert trail.stop(10)
    assert not list(tmp_path.iterdir())
