"""The troubles of the cluster as this member sees them, the worst first, for the top of the overview."""

from dataclasses import dataclass
from typing import Any

from app.http.console.cluster_facts import ClusterFacts
from app.http.console.page import ConsolePage
from distro.model.types import MemberState


@dataclass(frozen=True, slots=True)
class Problem:
    """One trouble: a sentence, the page that shows more, and its kind, ``bad`` or ``wait``."""

    kind: str
    says: str
    path: str


def problems_of(
    page: ConsolePage, members: list[dict[str, Any]], facts: ClusterFacts | None, unhealthy: dict[str, Any] | None
) -> list[Problem]:
    """Return all troubles; empty if this member knows of none. It does not know what a silent member sees.

    ``unhealthy``: the answer to a search for unhealthy instances; None without one.
    """
    found: list[Problem] = []
    services = page.services
    planned = {one["address"]: absence for one in members if (absence := one["extendInfo"].get("plannedAbsence"))}
    reason = services.cluster.unready_reason()
    if reason and services.cluster.self_address not in planned:
        found.append(Problem("bad", f"This member is not ready: {reason}.", "/console/members"))
    for one in members:
        if one["address"] in planned:
            found.append(
                Problem("wait", f"{one['address']} is out by plan: {planned[one['address']]}.", "/console/members")
            )
        elif one["state"] == MemberState.DOWN.value:
            found.append(Problem("bad", f"{one['address']} is DOWN.", "/console/members"))
        elif one["state"] != MemberState.UP.value:
            found.append(Problem("wait", f"{one['address']} is {one['state']}.", "/console/members"))
    if facts is not None:
        if facts.differing_services:
            found.append(Problem("bad", facts.agreement()[1], "/console/members?compare=1"))
        down = planned.keys() | {one["address"] for one in members if one["state"] == MemberState.DOWN.value}
        found += [
            Problem("bad", f"{address} does not answer.", "/console/members")
            for address in facts.silent
            if address not in down
        ]
        found += [
            Problem("bad", f"{pair.source} cannot reach {pair.target}.", "/console/members")
            for pair in facts.pairs
            if pair.failing and pair.target not in down
        ]
        if facts.differing:
            found.append(
                Problem("wait", f"{facts.differing} keys differed in the last verify rounds.", "/console/members")
            )
    if unhealthy and unhealthy["count"]:
        count = f"{unhealthy['count']}{'' if unhealthy['complete'] else ' or more'}"
        found.append(
            Problem(
                "wait",
                f"{count} unhealthy {'instance' if count == '1' else 'instances'}.",
                "/console/find?state=unhealthy",
            )
        )
    found += _of_machine(page) if page.is_admin else []
    return sorted(found, key=lambda one: one.kind != "bad")


def _of_machine(page: ConsolePage) -> list[Problem]:
    """Return the troubles with the disk and the memory of this member."""
    counters = page.services.counters()
    told = (
        ("diskReadonly", "bad", "The file system of the data folder is mounted read-only."),
        ("diskLow", "bad", "There is little room on the disk of the data folder."),
        ("limitMemoryLevel", "bad", "Memory is near its limit: new instances are refused."),
        ("stoodStill", "wait", "This process was paused: calls may have waited."),
        ("memberLookupFailing", "wait", "The source of the member list cannot be read."),
        ("namesUnresolved", "wait", "The host name of a member has no address."),
    )
    return [Problem(kind, says, "/console/charts") for name, kind, says in told if counters.get(name)]
