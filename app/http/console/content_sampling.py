"""A look at the members' contents while a page is open: a few parts at a time, and parts that differed."""

import time
from collections.abc import Mapping
from typing import Any

from app.http.console.api_caller import ApiRefusal
from app.http.console.cluster_facts import ClusterFacts
from app.http.console.page import ConsolePage
from app.operator.content_checks import ServiceKey, differing_in
from app.peers.asked import ask_members
from app.rows.rows import DIGEST_FORMAT

DIGEST = "/v1/ns/operator/digest"
ASK_S = 0.8
AGAIN_S = 0.4
"""A change on its way differs for a moment: only a difference that stays the same for so long counts."""
Held = Mapping[ServiceKey, Mapping[str, tuple[int, str]]]
"""The number of instances and the digest, by service and member."""


def sample_contents(page: ConsolePage, facts: ClusterFacts) -> None:
    """Compare the contents of a few parts at all members, if it is time, and add the result to ``facts``."""
    checks = page.services.content_checks
    reports = [one["contents"] for one in facts.engines.values() if isinstance(one.get("contents"), dict)]
    if facts.pairs:
        if parts := checks.begin_sample(differing_in(reports, checks)):
            _compare(page, facts, parts)
        own = page.services.cluster.self_address
        others = [one["contents"] for address, one in facts.engines.items() if address != own and "contents" in one]
        facts.contents = checks.facts()
        facts.differing_services = sorted(differing_in([facts.contents, *filter(_is_report, others)], checks))


def _is_report(value: object) -> bool:
    return isinstance(value, dict)


def _compare(page: ConsolePage, facts: ClusterFacts, parts: list[int]) -> None:
    first = _held(page, parts)
    if first is None:
        return
    members, held = first
    differing = _unlike(held, members)
    if differing:
        time.sleep(AGAIN_S)
        if (second := _held(page, parts)) is None or second[0] != members:
            return
        differing = {key for key in _unlike(second[1], members) if held.get(key) == second[1].get(key)}
    # A member that could not be compared leaves it unknown whether the parts are equal.
    expected = facts.engines.keys()
    page.services.content_checks.note(parts if set(members) >= expected else (), members, differing)


def _held(page: ConsolePage, parts: list[int]) -> tuple[list[str], Held] | None:
    """Return the members that answered, with their contents in these parts; None if no other member answered."""
    parameters = {"buckets": ",".join(map(str, parts))}
    try:
        own = page.api.get(DIGEST, **parameters)
    except ApiRefusal:  # dumps take all places
        return None
    found, _ = ask_members(page.services, "GET", DIGEST, parameters, ASK_S, down_too=False)
    told: dict[str, Any] = {page.services.cluster.self_address: own}
    told |= {address: one for address, one in found.items() if one is not None and one.get("format") == DIGEST_FORMAT}
    if len(told) < 2:
        return None
    held: dict[ServiceKey, dict[str, tuple[int, str]]] = {}
    for address, one in told.items():
        for namespace, service, count, digest in one["services"]:
            held.setdefault((namespace, service), {})[address] = (count, digest)
    return sorted(told), held


def _unlike(held: Held, members: list[str]) -> set[ServiceKey]:
    return {key for key, each in held.items() if len(each) < len(members) or len(set(each.values())) > 1}
