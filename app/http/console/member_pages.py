"""Members: their reports, queues and verify rounds, and their present differences."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.http.api.call import Reply
from app.http.console.cluster_facts import ClusterFacts, cluster_facts
from app.http.console.content_sampling import sample_contents
from app.http.console.page import ConsolePage, page_route
from app.http.console.service_pages import sort_of
from app.peers.asked import ask_members
from app.rows.rows import BUCKETS, DIGEST_FORMAT

DIGEST = "/v1/ns/operator/digest"
ASK_S = 10.0
"""The time for digests of all services, which take a second for 100,000 instances."""
SERVICES_SHOWN = 100
BUCKETS_MAX = 16
"""The most differing buckets that are compared in detail; the page says so if there are more."""


@dataclass(frozen=True, slots=True)
class ContentComparison:
    """The result of a comparison of all members."""

    members: dict[str, tuple[int, int]]
    """The numbers of services and instances of each member that answered."""
    silent: list[str]
    buckets: int
    """The number of differing buckets, of 256 in all."""
    differing: list[dict[str, Any]]
    """Shape: namespace, service, held: by member the number of instances and the digest, None where it lacks them."""


@page_route("/console/members")
def members(page: ConsolePage) -> Reply:
    """Show all members with their reports; for administrators also their queues, and with ``compare`` a comparison."""
    listed = page.api.get("/v1/ns/operator/servers")["servers"]
    facts = cluster_facts(page)
    # A comparison first: what it finds, the summary above it must say, too.
    standalone = page.services.cluster.standalone
    comparison = compare(page) if page.text("compare") and facts and not standalone else None
    if facts is not None:
        sample_contents(page, facts)
    sort = sort_of(page, "address")
    keys = _keys(facts)
    listed.sort(key=keys["address"])
    listed.sort(key=keys.get(sort["orderBy"], keys["address"]), reverse=sort["descending"])
    return page.show(
        "members.html",
        page.gettext("Members"),
        nav="members",
        live="" if page.text("compare") else page.url("/console/events"),  # each look would compare again
        members=listed,
        sort=sort,
        facts=facts,
        agreement=facts.agreement(page.texts) if facts else None,
        comparison=comparison,
        standalone=standalone,
        shown_max=SERVICES_SHOWN,
    )


def _keys(facts: ClusterFacts | None) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Return the keys that sort the reports, by the names of the columns."""
    engines: Mapping[str, Any] = facts.engines if facts else {}

    def engine(one: dict[str, Any]) -> Mapping[str, Any]:
        return engines.get(one["address"]) or {}

    return {
        "address": lambda one: str(one["address"]),
        "state": lambda one: (str(one["extendInfo"].get("plannedAbsence", "")), str(one["state"])),
        "version": lambda one: str(one["extendInfo"].get("version", "")),
        "report": lambda one: one["extendInfo"].get("lastRefreshTime") or 0,
        "failed": lambda one: one["failAccessCnt"],
        "run": lambda one: str(engine(one).get("writer", "")).partition("~")[2],
        "steady": lambda one: bool(engine(one).get("steady")),
    }


def compare(page: ConsolePage) -> ContentComparison:
    """Compare the digests of all members: first of buckets, then of the services in differing buckets."""
    whole = _digests(page, "")
    told = {address: one for address, one in whole.items() if one is not None}
    rows = list(zip(*(one["buckets"] for one in told.values()), strict=True))
    differing = [number for number, row in enumerate(rows) if len(set(row)) > 1]
    found: dict[tuple[str, str], dict[str, tuple[int, str]]] = {}
    if differing:
        asked = ",".join(map(str, differing[:BUCKETS_MAX]))
        for address, one in _digests(page, asked).items():
            for namespace, service, count, digest in one["services"] if one is not None else ():
                found.setdefault((namespace, service), {})[address] = (count, digest)
    services = [
        {"namespace": namespace, "service": service, "held": {address: held.get(address) for address in told}}
        for (namespace, service), held in sorted(found.items())
        if len(held) < len(told) or len(set(held.values())) > 1
    ]
    if len(told) > 1:
        # Parts beyond the first that differ were not compared in detail: what differs in them is not known.
        parts = set(range(BUCKETS)) - set(differing[BUCKETS_MAX:])
        is_whole = told.keys() == whole.keys()
        keys = [(str(one["namespace"]), str(one["service"])) for one in services]
        page.services.content_checks.note(parts if is_whole else (), told.keys(), keys)
    return ContentComparison(
        {address: (one["services"], one["instances"]) for address, one in sorted(told.items())},
        sorted(whole.keys() - told.keys()),
        len(differing),
        services,
    )


def _digests(page: ConsolePage, buckets: str) -> dict[str, dict[str, Any] | None]:
    """Return the digests of all members by address; None for a member without an answer, or with another format."""
    services = page.services
    parameters = {"buckets": buckets} if buckets else {}
    own = page.api.get(DIGEST, **parameters)
    found, _ = ask_members(services, "GET", DIGEST, parameters, ASK_S, down_too=False)
    known = {address: one if one and one.get("format") == DIGEST_FORMAT else None for address, one in found.items()}
    return {services.cluster.self_address: own, **known}
