"""The first page: the cluster in a minute."""

from typing import Any

from app.http.api.call import Reply
from app.http.console.cluster_facts import ClusterFacts, cluster_facts
from app.http.console.curve import curve_of
from app.http.console.page import ConsolePage, page_route


@page_route("/")
def overview(page: ConsolePage) -> Reply:
    """Members, agreement, and how many services and instances there were in the last hour."""
    counts = page.api.get("/v1/ns/operator/metrics")
    members = page.api.get("/v1/ns/operator/servers")["servers"]
    facts = cluster_facts(page)
    samples = page.services.count_history.samples()
    return page.show(
        "overview.html",
        "Overview",
        nav="overview",
        live=page.url("/console/events"),
        counts=counts,
        members=[_member(one, facts) for one in members],
        up=sum(one["state"] == "UP" for one in members),
        facts=facts,
        agreement=facts.agreement() if facts else None,
        curve=curve_of(samples),
        samples=samples,
        standalone=page.services.cluster.standalone,
    )


def _member(one: dict[str, Any], facts: ClusterFacts | None) -> dict[str, Any]:
    """A row of the table of members. What it tells of the others comes from itself, if it answered."""
    address = one["address"]
    pairs = facts.pairs_of(address) if facts else []
    return {
        "address": address,
        "state": one["state"],
        "release": one["extendInfo"].get("version", ""),
        "answered": facts is not None and address in facts.engines,
        "unapplied": sum(pair.unapplied for pair in pairs),
        "differing": sum(pair.differing for pair in pairs),
        "verified_ms": max((pair.verified_ms or 0 for pair in pairs), default=None),
        "p99_ms": max((pair.p99_ms or 0 for pair in pairs), default=None),
    }


@page_route("/index.html")
def index(page: ConsolePage) -> Reply:
    """The way from the address of Nacos's console to this one."""
    return page.go("/")
