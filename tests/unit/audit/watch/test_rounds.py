"""Rounds over members that a test writes: what differs for good, what is in motion, who is absent, and bad answers."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from threading import Event
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.rows.rows import BUCKETS, bucket_of, digest_text, encode_row, instance_digest, instance_row, service_row
from app.rows.summary import Verdict
from app.tools.audit.client.access import Access
from app.tools.audit.watch import looks, readers
from app.tools.audit.watch.rounds import NAMED_MAX, RoundOutcome, RoundPlan, Stopped, run_round
from tests.support.fake_nacos import FakeNacos, instance
from tests.support.tiny_server import Given, Received, tiny_server

PLAN = RoundPlan(Access(timeout_s=5.0, retries=0), 0.0)
JSON = {"Content-Type": "application/json"}
Services = dict[str, dict[str, dict[str, Any]]]
"""By name and ip the values of instances."""


def services(count: int = 3, **values: Any) -> Services:
    return {f"G@@s{number}": {"10.0.0.1": dict(values)} for number in range(count)}


class Told:
    """A member that answers what the test says. ``at_look``: what happens to it before each of its looks."""

    def __init__(self, held: Services, address: str = "") -> None:
        self.held, self.address = held, address
        self.looks = 0
        self.at_look: Mapping[int, Any] = {}
        self.given: Given | None = None
        self.knows_digests = True
        self.reported: list[dict[str, list[str]]] = []

    def rows(self, name: str) -> list[dict[str, Any]]:
        base: dict[str, Any] = {"namespace": "public", "service": name, "cluster": "DEFAULT", "port": 80}
        base |= {"ephemeral": True, "healthy": True, "enabled": True, "weight": 1.0, "metadata": {}}
        return [instance_row(**base | {"ip": ip} | values) for ip, values in self.held.get(name, {}).items()]

    def answer(self, received: Received) -> Given:
        url = urlsplit(received.target)
        query = parse_qs(url.query)
        is_digest = url.path == "/nacos/v1/ns/operator/digest"
        if url.path == "/nacos/v1/ns/operator/differences":
            self.reported.append(json.loads(query["services"][0]))
        if (is_digest and not query) or (not self.knows_digests and url.path.endswith("/dump")):
            self.looks += 1
            if self.looks in self.at_look:
                self.at_look[self.looks]()
        if self.given is not None:
            return self.given
        if url.path.endswith("/dump"):
            return Given(200, self._dump(query.get("serviceName")), {"Content-Type": "application/x-ndjson"})
        if not is_digest or not self.knows_digests:
            return Given(404, b"no such call")
        return Given(200, json.dumps({"format": 1, "address": self.address} | self._found(query)).encode(), JSON)

    def _found(self, query: dict[str, list[str]]) -> dict[str, Any]:
        totals = {name: sum(map(instance_digest, self.rows(name))) for name in self.held if self.held[name]}
        if "buckets" in query:
            wanted = set(map(int, query["buckets"][0].split(",")))
            listed = [(name, total) for name, total in totals.items() if bucket_of("public", name) in wanted]
            return {"services": [["public", name, 1, digest_text(total)] for name, total in listed]}
        buckets = [0] * BUCKETS
        for name, total in totals.items():
            buckets[bucket_of("public", name)] += total
        counts = {"services": len(totals), "instances": sum(map(len, self.held.values()))}
        return {**counts, "buckets": list(map(digest_text, buckets))}

    def _dump(self, names: list[str] | None) -> bytes:
        lines = [{"kind": "member", "format": 1, "address": self.address}]
        told = [name for name in self.held if names is None or name in names]
        for name in told:
            lines += [service_row("public", name), *self.rows(name)]
        count = sum(len(self.held[name]) for name in told)
        return b"".join(map(encode_row, [*lines, {"kind": "end", "services": len(told), "instances": count}]))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def served(stack: ExitStack, *members: Told) -> list[str]:
    return [stack.enter_context(tiny_server(member.answer)).address for member in members]


def held(stack: ExitStack, *members: Told) -> RoundOutcome:
    return run_round(PLAN, served(stack, *members), Event())


def test_members_that_agree_are_looked_at_once(stack: ExitStack) -> None:
    members = [Told(services()) for _ in range(3)]
    outcome = held(stack, *members)
    assert (outcome.summary.verdict, outcome.lasting, outcome.in_motion) == (Verdict.AGREED, 0, 0)
    assert outcome.summary.line.startswith("agreed: 3 members, 3 instances of 3 services; looked at ")
    assert [(member.looks, member.reported) for member in members] == [(1, [])] * 3


def test_what_differs_at_both_looks_alike_is_named(stack: ExitStack) -> None:
    odd = services()
    odd["G@@s1"]["10.0.0.1"] = {"weight": 2.0}
    odd["G@@s2"] = {}
    members = [Told(services()), Told(odd), Told(services())]
    outcome = held(stack, *members)
    assert outcome.summary.findings == {"MISSING": 1, "WEIGHT": 1}
    assert [one.reported for one in members] == [[{"public": ["G@@s1", "G@@s2"]}]] * 3, "for their consoles"
    found = [(one["finding_class"], one["service"], one["found"], one["expected"]) for one in outcome.summary.examples]
    assert found == [("WEIGHT", "G@@s1", "2.0", "1.0"), ("MISSING", "G@@s2", "absent", "healthy weight 1.0")]
    assert outcome.summary.line.startswith("divergent: 1 MISSING, 1 WEIGHT in 2 services; 3 members, ")


def test_what_arrives_between_the_looks_is_agreement(stack: ExitStack) -> None:
    behind = Told(services(2))
    behind.at_look = {2: lambda: behind.held.update(services(3))}
    outcome = held(stack, Told(services()), behind)
    assert (outcome.summary.verdict, outcome.in_motion) == (Verdict.AGREED, 0)


def test_what_changes_between_the_looks_is_in_motion(stack: ExitStack) -> None:
    """In the service that changes nobody can tell; another one of the same round differs for good."""
    moving = Told(services(2, weight=2.0))
    moving.held["G@@s0"] = {}
    moving.at_look = {2: lambda: moving.held["G@@s1"].update({"10.0.0.1": {"weight": 3.0}})}
    outcome = held(stack, Told(services(2)), moving)
    assert (outcome.lasting, outcome.in_motion) == (1, 1)
    assert outcome.summary.findings == {"MISSING": 1}
    assert "; 1 services in motion; " in outcome.summary.line
    only = Told(services(1, weight=2.0))
    only.at_look = {2: lambda: only.held.update(services(1, weight=3.0))}
    outcome = held(stack, Told(services(1)), only)
    assert (outcome.summary.verdict, outcome.in_motion) == (Verdict.AGREED, 1)


def test_a_member_that_lost_all(stack: ExitStack) -> None:
    many = NAMED_MAX + 10
    outcome = held(stack, Told(services(many)), Told(services(many)), Told({}))
    assert outcome.lasting == many
    assert outcome.summary.findings == {"DIFFERENT": 10, "MISSING": NAMED_MAX}
    assert len(outcome.summary.examples) <= 20
    assert [note for note in outcome.summary.notes if "answered, but has no data" in note]


def test_so_many_services_differ_that_not_all_are_remembered(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "DIFFERING_MAX", 5)
    outcome = held(stack, Told(services(30)), Told({}))
    assert outcome.lasting == 5
    assert [note for note in outcome.summary.notes if "only that many were checked twice" in note]


def test_who_does_not_answer_at_one_look_is_absent_and_others_are_compared(stack: ExitStack) -> None:
    gone = Told(services())
    gone.at_look = {2: lambda: setattr(gone, "given", Given(hang_up=True))}
    outcome = held(stack, Told(services()), Told(services(2)), gone)
    assert outcome.summary.findings == {"ABSENT_MEMBER": 1, "MISSING": 1}
    assert outcome.summary.line.startswith("divergent: 1 ABSENT_MEMBER, 1 MISSING in 1 services; 2 of 3 members, ")


def test_less_than_two_members_prove_nothing(stack: ExitStack) -> None:
    gone = Told({})
    gone.given = Given(503)
    outcome = held(stack, Told(services()), gone)
    assert outcome.summary.verdict is Verdict.UNJUDGED
    assert outcome.summary.line.startswith("could not judge: 1 of 2 members answered, and two are needed: ")
    assert held(stack, gone, gone).summary.verdict is Verdict.UNJUDGED
    assert held(stack, Told(services())).summary.line == "could not judge: 1 of 1 members answered, and two are needed"


def test_one_member_under_two_addresses_is_no_proof(stack: ExitStack) -> None:
    outcome = held(stack, Told(services(), "10.0.0.1:8848"), Told(services(), "10.0.0.1:8848"))
    assert outcome.summary.verdict is Verdict.UNJUDGED
    assert outcome.summary.line.endswith(" are one member, 10.0.0.1:8848")


def test_of_a_member_that_tells_no_digests_they_are_made_here(stack: ExitStack) -> None:
    other = Told(services())
    other.knows_digests = False
    assert held(stack, Told(services()), other).summary.verdict is Verdict.AGREED
    other.held["G@@s1"]["10.0.0.1"] = {"weight": 2.0}
    outcome = held(stack, Told(services()), other)
    assert (outcome.summary.verdict, outcome.lasting) == (Verdict.DIVERGENT, 1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"format": 2}', "its format is 2; this version reads 1"),
        (b'{"format": 1}', "the answer has no 256 buckets"),
        (b'{"format": 1, "buckets": [1]}', "the answer has no 256 buckets"),
        (json.dumps({"format": 1, "buckets": [None] * 256}).encode(), "the answer has no 256 buckets"),
        (b"<html>\x1b[31m" + b"x" * 100_000, "status 404"),
    ],
    ids=["a later format", "no buckets", "a short list", "no texts", "a page"],
)
def test_a_wrong_answer_is_that_of_an_absent_member(body: bytes, said: str, stack: ExitStack) -> None:
    liar = Told({})

    def answer(received: Received) -> Given:
        return Given(200, body) if "/digest" in received.target else Given(404, b"none")

    liar.answer = answer  # type: ignore[method-assign]
    addresses = [*served(stack, Told(services()), Told(services())), *served(stack, liar)]
    outcome = run_round(PLAN, addresses, Event())
    assert outcome.summary.findings == {"ABSENT_MEMBER": 1}
    [example] = outcome.summary.examples
    assert said in example["detail"]
    assert example["detail"].isprintable()
    assert len(example["detail"]) <= 300


def test_a_round_that_is_ended_has_no_outcome(stack: ExitStack) -> None:
    stop = Event()
    odd = Told(services(2))
    odd.at_look = {1: stop.set}
    with pytest.raises(Stopped):
        run_round(PLAN, served(stack, Told(services()), odd), stop)


@pytest.mark.parametrize(("version", "has_datums"), [("1.4.1", True), ("2.3.1", False)], ids=["Nacos 1.4", "Nacos 2.x"])
def test_members_of_other_kinds_are_read_and_named(version: str, has_datums: bool, stack: ExitStack) -> None:
    key = "public", "DEFAULT_GROUP@@orders"

    def nacos(address: str, *found: dict[str, Any]) -> str:
        held = {key: list(found)}
        fake = FakeNacos(version, address, datums=held, shown=held, has_datums=has_datums)
        return stack.enter_context(tiny_server(fake)).address

    same = [nacos(f"10.0.0.{number}:8848", instance("10.1.0.1"), instance("10.1.0.2")) for number in (1, 2)]
    assert run_round(PLAN, same, Event()).summary.line.startswith("agreed: 2 members, 2 instances of 1 services; ")
    odd = nacos("10.0.0.3:8848", instance("10.1.0.1", healthy=False))
    outcome = run_round(PLAN, [*same, odd], Event())
    found = [(one["finding_class"], one["ip"], one["member"]) for one in outcome.summary.examples]
    assert sorted(found) == [("HEALTH", "10.1.0.1", odd), ("MISSING", "10.1.0.2", odd)]


def test_a_service_of_too_many_instances_is_not_read(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "ROWS_MAX", 2)
    many: Services = {"G@@s": {f"10.0.0.{number}": {} for number in range(3)}}
    outcome = held(stack, Told(many), Told(services(1)), Told(many))
    assert outcome.summary.findings == {"DIFFERENT": 1, "MISSING": 1}
    assert [one["service"] for one in outcome.summary.examples if one["finding_class"] == "DIFFERENT"] == ["G@@s"]
    assert not [one for one in outcome.summary.examples if one["finding_class"] == "ABSENT_MEMBER"]
