"""The first page: the cluster in a minute."""

from typing import Any

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.chart_pages import HOUR_MS, drawn_charts
from app.http.console.cluster_facts import ClusterFacts, cluster_facts
from app.http.console.content_sampling import sample_contents
from app.http.console.curve import SMALL
from app.http.console.page import ConsolePage, page_route
from app.http.console.problems import problems_of
from app.http.console.service_pages import SEARCH

OWNED_MAX = 1_000
"""The most services whose owners are counted for each page."""


@page_route("/")
def overview(page: ConsolePage) -> Reply:
    """Show the current problems, the members and their agreement, and the numbers of the last hour."""
    counts, status = _counts(page)
    members = page.api.get("/v1/ns/operator/servers")["servers"]
    day = page.services.instruments.day.samples()
    absences = {one["address"]: absence for one in members if (absence := one["extendInfo"].get("plannedAbsence"))}
    facts = cluster_facts(page)
    if facts is not None:
        sample_contents(page, facts)
    return page.show(
        "overview.html",
        page.gettext("Overview"),
        nav="overview",
        live=page.url("/console/events"),
        counts=counts,
        unhealthy=(unhealthy := _unhealthy(page)),
        node_status=absences.get(page.services.cluster.self_address, status),
        members=[_member(one, facts) for one in members],
        up=sum(one["state"] == "UP" and one["address"] not in absences for one in members),
        planned=len(absences),
        facts=facts,
        agreement=facts.agreement(page.texts) if facts else None,
        problems=problems_of(page, members, facts, unhealthy),
        charts=drawn_charts(page, day, HOUR_MS, SMALL),
        sampled_ms=day[-1].wall_ms if day else None,
        standalone=page.services.cluster.standalone,
    )


def _unhealthy(page: ConsolePage) -> dict[str, Any] | None:
    """Return the number of unhealthy instances that the user may see; None while this member does not answer reads."""
    try:
        found: dict[str, Any] = page.api.get(SEARCH, state="unhealthy", pageSize=1)
    except ApiRefusal:
        return None
    return found


def _counts(page: ConsolePage) -> tuple[dict[str, int | None], str]:
    """Return the numbers of services and instances, those that this member owns, and its status.

    Of many services the owners are left out: to find them takes five times as long as to count.
    """
    services = page.services
    if services.naming.service_count() > OWNED_MAX:
        status: str = page.api.get("/v2/ns/operator/metrics", onlyStatus=True)["status"]
        counts = services.naming.counts(lambda _: False)
        found = {"services": counts.services, "empty": counts.empty_services, "instances": counts.instances}
        return {**found, "owned": None}, status
    told = page.api.get("/v1/ns/operator/metrics")
    return {
        "services": told["serviceCount"],
        "empty": told["emptyServiceCount"],
        "instances": told["instanceCount"],
        "owned": told["responsibleServiceCount"],
        "owned_instances": told["responsibleInstanceCount"],
    }, told["status"]


def _member(one: dict[str, Any], facts: ClusterFacts | None) -> dict[str, Any]:
    """Return a row of the table of members. Its values about the others are its own report, if it answered."""
    address = one["address"]
    pairs = facts.pairs_of(address) if facts else []
    return {
        "address": address,
        "state": one["state"],
        "absence": one["extendInfo"].get("plannedAbsence", ""),
        "release": one["extendInfo"].get("version", ""),
        "answered": facts is not None and address in facts.engines,
        "unapplied": sum(pair.unapplied for pair in pairs),
        "differing": sum(pair.differing for pair in pairs),
        "verified_ms": max((pair.verified_ms or 0 for pair in pairs), default=None),
        "p99_ms": max((pair.p99_ms or 0 for pair in pairs), default=None),
    }


@page_route("/index.html")
def index(page: ConsolePage) -> Reply:
    """Redirect from the address of Nacos's console to this one."""
    return page.go("/")
