"""``rollcall events`` at a server that answers as a member does."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.tools.command.registry import events_command
from tests.support.command_node import Commands
from tests.support.tiny_server import Given, tiny_server

NODE = "10.0.0.5:8848"


def event(number: int, at_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{NODE}~19c3f~{number}", "atMs": at_ms, "time": "2026-11-28T10:12:13.120Z", "node": NODE,
        "kind": "instances", "what": "instance.register", "says": f"10.0.0.{number}:80 registered",
        "namespaceId": "public", "serviceName": "DEFAULT_GROUP@@orders", "ip": f"10.0.0.{number}", "port": 80,
        "clusterName": "DEFAULT", "key": "", "user": "", "from": "10.0.0.9", "via": "", "agent": "", "before": None,
        "after": {"weight": 1.0}, **more,
    }  # fmt: skip


class Remembering:
    """A member that remembers events, the latest first, and gives two in one answer at most."""

    def __init__(self) -> None:
        now = time.time_ns() // 1_000_000
        self.now_ms = now
        self.events = [
            event(5, now - 1_000, user="ann", says="10.0.0.5:80 disabled", kind="operators"),
            event(4, now - 2_000, says="a\x1b[2J\u202e"),
            event(3, now - 3_000),
            event(2, now - 3_000),
            event(1, now - 86_400_000, serviceName="", says="member 10.0.0.6:8848 is DOWN", kind="cluster"),
        ]
        self.asked: list[dict[str, str]] = []
        self.not_answered: list[str] = []

    def answer(self, received: Any) -> Given:
        parts = urlsplit(received.target)
        if parts.path == "/nacos/v1/ns/operator/events/changes":
            return Given(501, b"")
        assert parts.path == "/nacos/v1/ns/operator/events"
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append(asked)
        found = [one for one in self.events if one["atMs"] > int(asked.get("afterMs", 0))]
        begin, size = int(asked.get("before", "0")), min(int(asked["limit"]), 2)
        more = len(found) > begin + size
        body = {
            "askedAt": NODE, "takenMs": self.now_ms, "more": more, "next": str(begin + size) if more else "",
            "events": found[begin : begin + size],
            "members": {NODE: {"audit": True, "lost": 0, "sinceMs": {"instances": self.now_ms - 60_000}}},
            "notAnswered": self.not_answered, "otherKinds": [],
        }  # fmt: skip
        return Given(200, json.dumps(body).encode())


@pytest.fixture
def member() -> Remembering:
    return Remembering()


@pytest.fixture
def run(home: object, capsys: pytest.CaptureFixture[str], member: Remembering) -> Iterator[Commands]:
    commands = Commands(capsys)
    with tiny_server(member.answer) as server:
        commands.server = server.address
        yield commands


def test_the_latest_is_last_and_all_pages_are_read(run: Commands, member: Remembering) -> None:
    ran = run("events")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["TIME", "NAMESPACE", "SERVICE", "WHAT", "USER", "FROM", "MEMBER"]
    says = ["member 10.0.0.6:8848 is DOWN", "10.0.0.2:80", "10.0.0.3:80", r"a\x1b[2J\u202e", "10.0.0.5:80 disabled"]
    assert [text in line for text, line in zip(says, lines[1:], strict=True)] == [True] * 5
    assert " orders " in lines[2]
    assert " ann " in lines[5]
    assert "lastMs" not in member.asked[0]


def test_each_option_reaches_the_member(run: Commands, member: Remembering) -> None:
    run(
        "events",
        "--service",
        "orders",
        "--since",
        "1h",
        "--instance",
        "10.0.0.1:80",
        "--kind",
        "cluster",
        "--text",
        "a",
    )
    run("events", "--instance", "10.0.0.1", "--namespace", "dev", "--kind", "access", "--kind", "operators")
    first, last = member.asked[0], member.asked[-1]
    assert {**first, "limit": ""} == {
        "serviceName": "orders", "lastMs": "3600000", "ip": "10.0.0.1", "port": "80", "kinds": "cluster", "text": "a",
        "limit": "",
    }  # fmt: skip
    assert (last["ip"], last.get("port"), last["namespaceId"]) == ("10.0.0.1", None, "dev")
    assert last["kinds"] == "access,operators"


def test_what_may_be_missing_is_said(run: Commands, member: Remembering) -> None:
    ran = run("events", "--limit", "1")
    assert (ran.code, ran.out.count("\n")) == (0, 2)
    assert "older events were left out" in ran.err
    assert f"{NODE} remembers all only since" in run("events", "--since", "1h").err
    assert "remembers" not in run("events", "--since", "30s").err
    member.not_answered = ["10.0.0.6:8848"]
    ran = run("events")
    assert (ran.code, "10.0.0.6:8848 did not answer: its events are missing" in ran.err) == (1, True)
    assert len(json.loads(run("events", "--json").out)["events"]) == 5
    member.events = []
    assert "no such events" in run("events").err


def test_following_prints_each_event_once(
    run: Commands, member: Remembering, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses = 0

    def pause(_self: threading.Event, _timeout: float | None = None) -> bool:
        nonlocal pauses
        pauses += 1
        if pauses == 2:
            member.events.insert(0, event(6, member.now_ms))
        if pauses == 4:
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(events_command.threading, "Event", type("Pause", (threading.Event,), {"wait": pause}))
    ran = run("events", "--follow", "--since", "1h", "-o", "json")
    assert ran.code == 0
    assert [json.loads(line)["ip"][-1] for line in ran.out.splitlines()] == ["1", "2", "3", "4", "5", "6"]
    assert "lastMs" not in member.asked[-1]


def test_what_is_wrong(run: Commands) -> None:
    assert run("events", "--since", "yesterday").code == 2
    assert run("events", "-A", "--namespace", "dev").code == 2
    assert run("events", "--follow", "-o", "yaml").code == 2
