"""The command against stand-ins whose answers the test writes: what it asks for, what it tells, how it ends."""

import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest

from app.rows.rows import FORMAT, encode_row, instance_row, service_row
from tests.support.night_findings import commit_findings, finding
from tests.support.processes import COMMAND, clean_environ
from tests.support.ran_here import run_here
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

NDJSON = {"Content-Type": "application/x-ndjson"}
SERVICE = "DEFAULT_GROUP@@orders"
A, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
END_S = 120.0
Rows = list[dict[str, Any]]


def row(ip: str, **changes: Any) -> dict[str, Any]:
    usual = instance_row(
        namespace="public",
        service=SERVICE,
        cluster="DEFAULT",
        ip=ip,
        port=8080,
        ephemeral=True,
        healthy=True,
        enabled=True,
        weight=1.0,
        metadata={},
        version=f"1.7.{A}~1",
        owner=A,
    )
    return usual | changes


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the command look again after hundredths of a second."""
    for module in ("healing", "link_heal", "many"):
        monkeypatch.setattr(f"app.tools.audit.heal.{module}.LOOK_AGAIN_S", 0.02)


class Fake:
    """A member that holds ``rows``, and ``after`` once the owner was asked to heal ``asks`` times."""

    def __init__(self, address: str, rows: Rows, after: Rows | None = None, owner: str = A) -> None:
        self.address = address
        self.rows = rows
        self.after = after
        self.owner = owner
        self.healed: list[dict[str, str]] = []
        self.refusals = 0
        self.looked = 0

    def __call__(self, received: Received) -> Given:
        split = urlsplit(received.target)
        query = dict(parse_qsl(split.query))
        if split.path == "/nacos/v1/ns/operator/heal":
            assert received.method == "POST"
            if self.refusals:
                self.refusals -= 1
                return Given(503, b"please try again later", {"Retry-After": "1"})
            self.healed.append(query)
            if self.after is not None:
                self.rows = self.after
            return Given(200, b"{}", {"Content-Type": "application/json"})
        assert (query["serviceName"], query["namespaceId"]) == (SERVICE, "public")
        assert split.path == "/nacos/v1/ns/operator/dump"
        self.looked += 1
        head = {"kind": "member", "format": FORMAT, "address": self.address, "version": "0.1.0", "members": []}
        services = [service_row("public", SERVICE, f"1.8.{A}~1", self.owner)] if self.rows else []
        end = {"kind": "end", "services": len(services), "instances": len(self.rows)}
        return Given(body=b"".join(map(encode_row, [head, *services, *self.rows, end])), headers=NDJSON)


def healed(*members: Any, more: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]], str]:
    """Run the command against these; its exit code, lines, and what it says besides."""
    with ExitStack() as stack:
        servers: list[TinyServer] = [stack.enter_context(tiny_server(one)) for one in members if callable(one)]
        addresses = [one.address for one in servers] + [one for one in members if isinstance(one, str)]
        command = ["heal", "--service", "orders", "--members", ",".join(addresses), "--retries", "2"]
        done = run_here(*command, "--gap", "10ms", "--json", *more, environ=clean_environ())
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


ONE, TWO = row("10.1.0.1"), row("10.1.0.2")


def test_members_that_agree_are_asked_once_and_for_nothing() -> None:
    a, b = Fake(A, [ONE]), Fake(B, [ONE])
    code, lines, said = healed(a, b)
    assert (code, said, lines[-1]["text"]) == (0, "", "the members agree")
    assert (a.looked, b.looked, a.healed, b.healed) == (1, 1, [], [])


def test_a_dry_run_shows_what_is_right_and_asks_for_nothing() -> None:
    a, b = Fake(A, [ONE, TWO]), Fake(B, [ONE])
    code, lines, _ = healed(a, b, more=("--dry-run",))
    assert (code, lines[-1]["text"]) == (1, "nothing was done (--dry-run)")
    assert [(one["finding_class"], one["member"]) for one in lines if "rule" in one] == [("MISSING", B)]
    assert (a.healed, b.healed, a.looked) == ([], [], 2)


def test_all_members_are_asked_and_seen_to_agree() -> None:
    a, b = Fake(A, [ONE, TWO]), Fake(B, [ONE], after=[ONE, TWO])
    code, lines, said = healed(a, b)
    assert (code, said, lines[-1]["text"]) == (0, "", "healed, differences: 1")
    assert lines[-1]["took_s"] >= 0
    wanted = {"namespaceId": "public", "serviceName": SERVICE}
    assert (a.healed, b.healed) == ([wanted], [wanted])


def test_the_owner_alone_is_told_from_whom_to_take_what_it_lost() -> None:
    a, b, c = Fake(A, [ONE], after=[ONE, TWO]), Fake(B, [ONE, TWO]), Fake(C, [ONE, TWO])
    code, _, _ = healed(a, b, c)
    assert code == 0
    assert [one["source"] for one in a.healed] == [B]
    assert all("source" not in one for fake in (b, c) for one in fake.healed)


def test_a_member_that_is_busy_is_asked_again() -> None:
    a, b = Fake(A, [ONE, TWO]), Fake(B, [ONE], after=[ONE, TWO])
    a.refusals = 1
    assert healed(a, b)[0] == 0
    assert len(a.healed) == 1


def test_what_is_under_way_is_not_healed() -> None:
    a = Fake(A, [ONE, TWO])

    class Late(Fake):
        def __call__(self, received: Received) -> Given:
            given = super().__call__(received)
            self.rows = [ONE, TWO]
            return given

    code, lines, said = healed(a, Late(B, [ONE]))
    assert (code, lines[-1]["text"], a.healed) == (0, "the members agree", [])
    assert said == ""


def test_members_that_name_different_owners_are_told_what_to_do_instead() -> None:
    a, b = Fake(A, [ONE]), Fake(B, [ONE], owner=B)
    code, lines, _ = healed(a, b)
    assert (code, a.healed) == (1, [])
    assert "the members name different owners" in lines[-1]["text"]


def test_an_owner_that_does_not_answer_is_named() -> None:
    code, lines, said = healed(Fake(B, [ONE]), Fake(C, [ONE, TWO]), refusing_address())
    assert code == 1
    assert f"the owner, {A}, is not among the members that answered" in lines[-1]["text"]
    assert "did not answer, so it is unknown whether it agrees" in said


def test_a_member_that_is_named_twice() -> None:
    code, _, said = healed(Fake(A, [ONE]), Fake(A, [ONE]))
    assert code == 2
    assert f"are one member, {A}" in said


def nacos(version: str) -> Callable[[Received], Given]:
    def answer(received: Received) -> Given:
        if received.target.startswith("/nacos/v1/core/cluster/nodes"):
            node = {"address": "10.0.0.9:8848", "state": "UP", "extendInfo": {"version": version}}
            return Given(200, orjson.dumps({"code": 200, "data": [node]}))
        if received.target.startswith("/nacos/v1/core/cluster/self"):
            node = {"address": "10.0.0.9:8848", "extendInfo": {"version": version}}
            return Given(200, orjson.dumps({"code": 200, "data": node}))
        return Given(404, b"<html>no such page</html>")

    return answer


@pytest.mark.parametrize(
    ("version", "name"), [("1.4.1", "Nacos 1.4.1"), ("2.2.3", "Nacos 2.2.3"), ("", "another server")]
)
def test_a_member_of_another_kind_is_named_and_nobody_is_asked(version: str, name: str) -> None:
    a = Fake(A, [ONE, TWO])
    code, lines, said = healed(a, Fake(B, [ONE]), nacos(version))
    assert (code, lines, a.healed) == (2, [], [])
    assert "heal is for Rollcall members; 127.0.0.1:" in said
    assert f"is {name}: examine it with `rollcall compare`" in said


@pytest.mark.parametrize(
    "lie",
    [
        {"weight": "heavy"},
        {"metadata": []},
        {"healthy": 1},
    ],
)
def test_a_member_whose_rows_are_none_has_not_answered(lie: dict[str, Any]) -> None:
    code, _, said = healed(Fake(A, [ONE]), Fake(B, [ONE | lie]))
    assert code == 2
    assert "fewer than two members answered" in said
    assert "a line of its dump is not a row" in said
    assert "Traceback" not in said


def test_texts_of_members_reach_no_terminal_as_they_are() -> None:
    bad = row("10.1.0.1", metadata={"x": "\x1b[2J" + "y" * 100_000})
    with tiny_server(Fake(A, [ONE])) as a, tiny_server(Fake(B, [bad])) as b:
        done = subprocess.run(
            [
                COMMAND,
                "heal",
                "--service",
                "orders",
                "--members",
                f"{a.address},{b.address}",
                "--dry-run",
                "--gap",
                "0",
            ],
            env=clean_environ(),
            capture_output=True,
            text=True,
            timeout=END_S,
            check=False,
        )
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 500


def test_what_the_rules_refuse_is_told_at_the_end() -> None:
    a, b = Fake(A, [ONE, TWO]), Fake(B, [ONE])
    code, lines, _ = healed(a, b, more=("--within", "1s"))
    assert code == 1
    assert [(one["finding_class"], one["stage"]) for one in lines if "rule" in one] == [
        ("MISSING", "before"),
        ("MISSING", "after"),
    ]
    assert lines[-1]["text"].startswith("differences that remain: 1 (before: 1). The rules do not exchange them.")
    assert (len(a.healed), len(b.healed)) == (1, 1), "asked again after 6 s only"
    assert a.looked >= 4


def test_a_member_that_knows_no_such_call_is_named() -> None:
    class Old(Fake):
        def __call__(self, received: Received) -> Given:
            return Given(501, b"unknown") if received.method == "POST" else super().__call__(received)

    a, b = Old(A, [ONE, TWO]), Fake(B, [ONE], after=[ONE, TWO])
    code, _, said = healed(a, b)
    assert code == 0
    assert "does not exchange it: /v1/ns/operator/heal: status 501" in said


def test_one_member_is_not_enough() -> None:
    code, _, said = healed(Fake(A, [ONE]))
    assert code == 2
    assert "a heal needs 2 to 64 members; 1 given" in said


class Shelf:
    """A member with many services of one instance each; ``lacks``: those that it has only after a heal of them."""

    def __init__(self, address: str, names: list[str], lacks: set[str] | None = None, owner: str = A) -> None:
        self.address, self.owner = address, owner
        self.names = names
        self.lacks = set(lacks or ())
        self.healed: list[str] = []
        self.dumps = 0

    def __call__(self, received: Received) -> Given:
        split = urlsplit(received.target)
        query = dict(parse_qsl(split.query))
        if split.path == "/nacos/v1/ns/operator/heal":
            self.healed.append(query["serviceName"])
            self.lacks.discard(query["serviceName"])
            return Given(200, b"{}", {"Content-Type": "application/json"})
        self.dumps += 1
        only = query.get("serviceName")
        head = {"kind": "member", "format": FORMAT, "address": self.address, "version": "0.1.0", "members": []}
        lines: list[dict[str, Any]] = [head]
        services = instances = 0
        for name in self.names:
            if only in (None, name):
                lines.append(service_row("public", name, f"1.8.{A}~1", self.owner))
                services += 1
                if name not in self.lacks:
                    lines.append(row("10.1.0.1") | {"service": name})
                    instances += 1
        lines.append({"kind": "end", "services": services, "instances": instances})
        return Given(body=b"".join(map(encode_row, lines)), headers=NDJSON)


def healed_of_night(folder: Path, *members: Shelf, more: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]], str]:
    with ExitStack() as stack:
        addresses = [stack.enter_context(tiny_server(one)).address for one in members]
        command = ["heal", "--results", folder, "--members", ",".join(addresses), "--gap", "10ms", "--json"]
        done = run_here(*command, *more, environ=clean_environ())
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


NAMES = [f"DEFAULT_GROUP@@s-{number}" for number in range(60)]


def test_all_services_of_a_night_are_healed_in_one_gap(tmp_path: Path) -> None:
    found = [finding(service=name, lasting=True) for name in NAMES]
    found += [
        finding(service="DEFAULT_GROUP@@late", lasting=False),
        finding(service="DEFAULT_GROUP@@s-1", lasting=True),
    ]
    found += [finding("DUPLICATE", service="DEFAULT_GROUP@@twice", lasting=True), finding("RECORD", lasting=True)]
    commit_findings(tmp_path, found, cut_off=[finding(service="DEFAULT_GROUP@@cut-off", lasting=True)])
    a, b = Shelf(A, NAMES), Shelf(B, NAMES, lacks=set(NAMES[:50]))
    code, lines, _ = healed_of_night(tmp_path, a, b, more=("--dry-run",))
    assert (code, a.healed, b.healed) == (1, [], [])
    assert lines[-1]["text"] == "services: 60, agreed before: 10, healed: 0, differ: 50"
    code, lines, said = healed_of_night(tmp_path, a, b)
    assert (code, said) == (0, ""), lines
    assert sorted(b.healed) == sorted(NAMES[:50]), "each once, and no other"
    assert sorted(a.healed) == sorted(NAMES[:50])
    assert a.dumps + b.dumps < 20, "many services are read in one dump"
    assert [one["service"] for one in lines if one["stage"] == "service"] == NAMES
    assert lines[-1]["text"] == "services: 60, agreed before: 10, healed: 50, still differ: 0"


def test_a_heal_of_many_names_what_it_cannot_do(tmp_path: Path) -> None:
    commit_findings(tmp_path, [finding(service=name, lasting=True) for name in NAMES[:3]])
    a, b = Shelf(A, NAMES), Shelf(B, NAMES, lacks=set(NAMES[:2]), owner=B)
    code, lines, _ = healed_of_night(tmp_path, a, b)
    assert (code, a.healed) == (1, [])
    assert all("the members name different owners" in one["text"] for one in lines[:3])
    for more, said in (
        (("--class", "STALE"), "does not mend findings of STALE"),
        (("--night", "2026-01-01"), "no results of the night 2026-01-01"),
        (("--service", "orders"), "name services with --service, or the findings"),
    ):
        code, lines, text = healed_of_night(tmp_path, a, b, more=more)
        assert (code, lines, said in text) == (2, [], True), text
