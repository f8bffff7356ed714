"""One round of the watch: two looks at all members, and its outcome as a summary like that of a night."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import Event
from typing import Any

from app.rows.summary import Summary, Verdict, now_text
from app.tools.audit.client.access import Access
from app.tools.audit.client.http_client import MemberClient, Patience
from app.tools.audit.compare.compare import Row, Side, compare
from app.tools.audit.compare.link_look import LinkEnd
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.manifest import DumpState
from app.tools.audit.report.alert_bodies import EXAMPLES_MAX, one_line
from app.tools.audit.report.wording import links_in_words
from app.tools.audit.watch.link_rounds import with_links
from app.tools.audit.watch.looks import DIFFERING_MAX, Group, Told, TwoLooks, look_twice
from app.tools.audit.watch.readers import REPORTED_MAX, DigestReader, ServiceKey

NAMED_MAX = 20
"""The most differing services that are read to name their differences; further ones are counted."""
DIFFERENT = "DIFFERENT"
"""The class of a service whose digests differ and whose instances were not read, or agree by now."""
VALUE_CHARS_MAX = 300
MEMBERS_MIN = 2


class Stopped(Exception):
    """The watch is to end, and the round is not finished."""


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The options of a round. ``gap_s``: from the end of the first look to the second."""

    access: Access
    gap_s: float
    namespaces: tuple[str, ...] = ()
    links: tuple[LinkEnd, ...] = ()
    """The links to compare with the clusters at their other ends."""


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """A round. The summary's ``night`` is the moment at which it began; ``late`` is not used."""

    summary: Summary
    lasting: int = 0
    """The number of services that differ for good."""
    in_motion: int = 0
    """The number of services that differed at both looks and changed between them: nothing is known of them."""

    @property
    def told(self) -> str:
        """The identity of the outcome, which is that of an equal outcome in a later round."""
        keys = [f"{one.get('finding_class')} {one.get('service')} {one.get('member')}" for one in self.summary.examples]
        return f"{self.summary.verdict.value} {self.lasting} {_hash_of(sorted(keys))}"


def _hash_of(texts: Sequence[str]) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


def run_round(plan: RoundPlan, addresses: Sequence[str], stop: Event) -> RoundOutcome:
    """Look at all members, and say whether they agree.

    Raises:
        Stopped: ``stop`` was set in the meantime.
    """
    began, began_s = now_text(), time.monotonic()

    def pause() -> None:
        if stop.wait(plan.gap_s):
            raise Stopped

    with ExitStack() as stack:
        readers = {}
        for address in addresses:
            patience = Patience(plan.access.retries, stop)
            reader = DigestReader(MemberClient(address, plan.access, patience), patience, plan.namespaces)
            readers[address] = stack.enter_context(closing(reader))
        group = Group(readers)
        looked = look_twice(group, pause)
        outcome = _outcome(group, looked, began)
        if plan.links and outcome.summary.verdict is not Verdict.UNJUDGED:
            summary = with_links(outcome.summary, plan.links, group.here(), plan.access, pause, stop)
            outcome = replace(outcome, summary=summary)
            if summary.verdict is not Verdict.UNJUDGED:
                outcome = replace(outcome, summary=replace(summary, line=_line(outcome)))
        if stop.is_set():
            raise Stopped
        if reported := list(looked.lasting)[:REPORTED_MAX]:
            group.each(lambda _, reader: reader.report(reported))
    return replace(outcome, summary=replace(outcome.summary, took_s=round(time.monotonic() - began_s, 1)))


def no_verdict(reason: str) -> RoundOutcome:
    """Return the outcome of a round that could not be run."""
    now = now_text()
    return RoundOutcome(Summary(now, Verdict.UNJUDGED, f"could not judge: {one_line(reason)}", checked_at=now))


def _outcome(group: Group, looked: TwoLooks, began: str) -> RoundOutcome:
    here = group.here()
    members = [_member(group, looked, address) for address in group.readers]
    summary = Summary(began, Verdict.UNJUDGED, "", checked_at=now_text(), members=members, compared=len(here))
    if reason := _why_not(group, looked):
        return RoundOutcome(replace(summary, line=f"could not judge: {one_line(reason)}"))
    findings: Counter[str] = Counter()
    examples: list[dict[str, Any]] = [_absent(address, group.absent[address]) for address in sorted(group.absent)]
    findings[FindingClass.ABSENT_MEMBER.value] = len(examples)
    for number, (key, told) in enumerate(looked.lasting.items()):
        named = list(_named(group, looked, key, told)) if number < NAMED_MAX else []
        for example in named or [_unnamed(key, told)]:
            findings[example["finding_class"]] += 1
            if len(examples) < EXAMPLES_MAX:
                examples.append(example)
    counts = {name: count for name, count in sorted(findings.items()) if count}
    looks = [looked.looks[address] for address in here]
    services, instances = max(look.services for look in looks), max(look.instances for look in looks)
    notes = [f"{address} answered, but has no data" for address in here if not looked.looks[address].instances]
    if looked.is_cut:
        notes.append(f"more than {DIFFERING_MAX:,} services differ; only that many were checked twice")
    verdict = Verdict.DIVERGENT if counts else Verdict.AGREED
    summary = replace(
        summary,
        verdict=verdict,
        services=services,
        instances=instances,
        findings=counts,
        examples=examples,
        notes=notes,
    )
    outcome = RoundOutcome(summary, len(looked.lasting), len(looked.in_motion))
    return replace(outcome, summary=replace(summary, line=_line(outcome)))


def _why_not(group: Group, looked: TwoLooks) -> str | None:
    """Return why no caller can say whether the members agree; None if that can be said."""
    here = group.here()
    if len(here) < MEMBERS_MIN:
        reasons = "; ".join(f"{address}: {text}" for address, text in sorted(group.absent.items()))
        few = f"{len(here)} of {len(group.readers)} members answered, and two are needed"
        return f"{few}: {reasons}" if reasons else few
    own = [(looked.looks[address].address, address) for address in here]
    for name, address in own:
        if name and (same := [other for called, other in own if called == name and other != address]):
            return f"{address} and {same[0]} are one member, {name}"
    return None


def _member(group: Group, looked: TwoLooks, address: str) -> dict[str, Any]:
    """Return a member's row. Shape: as in the summary of a night."""
    look = looked.looks.get(address)
    is_absent = address in group.absent
    return {
        "address": address,
        "state": (DumpState.ABSENT if is_absent else DumpState.DUMPED).value,
        "kind": look.kind if look and not is_absent else "",
        "version": "",
        "services": look.services if look and not is_absent else 0,
        "instances": look.instances if look and not is_absent else 0,
        "error": one_line(group.absent.get(address, "")),
    }


def _named(group: Group, looked: TwoLooks, key: ServiceKey, told: Told) -> Iterator[dict[str, Any]]:
    """Yield the differences in a service, of each member from the first member of the largest group that agrees."""
    rows = _rows_of(group, key)
    most = Counter(told[address] for address in rows).most_common(1)
    if not most:
        return
    reference = next(address for address in rows if told[address] == most[0][0])
    # By the names that members give themselves: owners in rows are named so.
    sides = {address: _side(looked.looks[address].address or address, held) for address, held in rows.items()}
    for address in rows:
        if told[address] == told[reference]:
            continue
        for one in compare(sides[address], sides[reference]):
            yield {
                "finding_class": one.finding_class.value,
                "lasting": True,
                "namespace": one.namespace,
                "service": one.service,
                "cluster": one.cluster,
                "ip": one.ip,
                "port": one.port,
                "ephemeral": one.ephemeral,
                "member": address,
                "reference": reference,
                "found": one_line(one.a, VALUE_CHARS_MAX),
                "expected": one_line(one.b, VALUE_CHARS_MAX),
                "detail": None,
            }


def _rows_of(group: Group, key: ServiceKey) -> Mapping[str, list[Row]]:
    """Return the rows of one service at each member that gives them; a member that does not is still not absent."""
    absent = dict(group.absent)
    rows = group.each(lambda address, reader: reader.rows(key))
    group.absent.clear()
    group.absent.update(absent)
    return rows


def _side(address: str, rows: Sequence[Row]) -> Side:
    return Side(address, lambda: rows)


def _absent(address: str, reason: str) -> dict[str, Any]:
    return {
        "finding_class": FindingClass.ABSENT_MEMBER.value,
        "lasting": True,
        "member": address,
        "detail": one_line(reason),
    }


def _unnamed(key: ServiceKey, told: Told) -> dict[str, Any]:
    digests = ", ".join(f"{address} {digest or 'lacks it'}" for address, digest in told.items())
    return {
        "finding_class": DIFFERENT,
        "lasting": True,
        "namespace": key[0],
        "service": key[1],
        "detail": one_line(f"digests: {digests}"),
    }


def _line(outcome: RoundOutcome) -> str:
    """Return the verdict in one line, like that of a night."""
    summary = outcome.summary
    of_all = f" of {len(summary.members)}" if summary.compared < len(summary.members) else ""
    size = f"{summary.compared}{of_all} members, {summary.instances:,} instances of {summary.services:,} services"
    motion = f"; {outcome.in_motion:,} services in motion" if outcome.in_motion else ""
    if summary.verdict is Verdict.AGREED:
        of_links = f"; links: {', '.join(one['link'] for one in summary.links)}" if summary.links else ""
        return f"agreed: {size}{of_links}{motion}; looked at {summary.night}"
    counts = ", ".join(f"{count:,} {name}" for name, count in summary.findings.items())
    linked = "".join(f"; {text}" for text in links_in_words(summary))
    services = f" in {outcome.lasting:,} services" if outcome.lasting else ""
    return f"divergent: {counts}{services}{linked}; {size}{motion}; looked at {summary.night}"
