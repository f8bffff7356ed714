"""The troubles of the cluster as this member sees them, the worst first, for the top of the overview."""

from dataclasses import dataclass
from typing import Any

from app.http.console.api_caller import ApiRefusal
from app.http.console.cluster_facts import ClusterFacts, cannot_reach, differing_keys
from app.http.console.link_pages import link_facts
from app.http.console.page import ConsolePage
from app.languages.catalogues import N_
from distro.model.types import MemberState

_REASONS = (
    N_("this node leaves the cluster"),
    N_("an operator drains this node"),
    N_("this node leaves the cluster soon"),
    N_("the other members do not list this node"),
    N_("no list of members was found yet"),
    N_("the data of the other members is being loaded"),
)
"""The reasons of ``Membership.unready_reason`` that have no values."""
_ABSENCES = {
    "drained": N_("%(address)s is drained, as planned."),
    "left": N_("%(address)s has left the cluster, as planned."),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One trouble: a sentence, the page that shows more, and the ``kind``, ``bad`` or ``wait``."""

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
    gettext = page.gettext
    reason = services.cluster.unready_reason()
    if reason and services.cluster.self_address not in planned:
        found.append(
            Problem("bad", gettext("This member is not ready: %(reason)s.", reason=gettext(reason)), "/console/members")
        )
    for one in members:
        if one["address"] in planned:
            found.append(
                Problem(
                    "wait",
                    gettext(_ABSENCES.get(planned[one["address"]], _ABSENCES["left"]), address=one["address"]),
                    "/console/members",
                )
            )
        elif one["state"] == MemberState.DOWN.value:
            found.append(Problem("bad", gettext("%(address)s is DOWN.", address=one["address"]), "/console/members"))
        elif one["state"] != MemberState.UP.value:
            text = gettext("%(address)s is %(state)s.", address=one["address"], state=one["state"])
            found.append(Problem("wait", text, "/console/members"))
    if facts is not None:
        if facts.differing_services:
            found.append(Problem("bad", facts.agreement(page.texts)[1], "/console/members?compare=1"))
        down = planned.keys() | {one["address"] for one in members if one["state"] == MemberState.DOWN.value}
        found += [
            Problem("bad", gettext("%(address)s does not answer.", address=address), "/console/members")
            for address in facts.silent
            if address not in down
        ]
        found += [
            Problem("bad", cannot_reach(page.texts, pair), "/console/members")
            for pair in facts.pairs
            if pair.failing and pair.target not in down
        ]
        if facts.differing:
            found.append(Problem("wait", differing_keys(page.texts, facts.differing), "/console/members"))
    found += _of_links(page)
    found += _of_instances(page, unhealthy)
    found += _of_machine(page) if page.is_admin else []
    return sorted(found, key=lambda one: one.kind != "bad")


def _of_instances(page: ConsolePage, unhealthy: dict[str, Any] | None) -> list[Problem]:
    """Return the trouble with unhealthy instances."""
    if not unhealthy or not unhealthy["count"]:
        return []
    number = unhealthy["count"]
    if unhealthy["complete"]:
        text = page.ngettext("%(count)s unhealthy instance.", "%(count)s unhealthy instances.", number, count=number)
    else:
        text = page.gettext("%(count)s or more unhealthy instances.", count=number)
    return [Problem("wait", text, "/console/find?state=unhealthy")]


def _of_links(page: ConsolePage) -> list[Problem]:
    """Return the troubles with links; without links here, no member is asked."""
    links = page.services.links
    if not (links.counters()["links"] or links.error):
        return []
    try:
        facts = link_facts(page)
    except ApiRefusal:  # the user may not know, or this member loads
        return []
    silent: dict[str, list[str]] = {}
    for one in facts.rows:
        if one["silent"]:
            silent.setdefault(one["name"], []).append(one["member"])
    gettext = page.gettext
    texts = [
        gettext("The link %(link)s is silent at %(members)s.", link=link, members=", ".join(sorted(members)))
        for link, members in sorted(silent.items())
    ]
    texts += [
        gettext("%(address)s does not follow its settings of links: %(error)s", address=address, error=error)
        for address, error in sorted(facts.errors.items())
    ]
    return [Problem("bad", text, "/console/links") for text in texts]


def _of_machine(page: ConsolePage) -> list[Problem]:
    """Return the troubles with the disk and the memory of this member."""
    counters = page.services.counters()
    signs = (
        ("diskReadonly", "bad", N_("The file system of the data folder is mounted read-only.")),
        ("diskLow", "bad", N_("There is little room on the disk of the data folder.")),
        ("limitMemoryLevel", "bad", N_("Memory is near its limit: new instances are refused.")),
        ("stoodStill", "wait", N_("This process was paused: calls may have waited.")),
        ("memberLookupFailing", "wait", N_("The source of the member list cannot be read.")),
        ("namesUnresolved", "wait", N_("The host name of a member has no address.")),
    )
    return [Problem(kind, page.gettext(says), "/console/charts") for name, kind, says in signs if counters.get(name)]
