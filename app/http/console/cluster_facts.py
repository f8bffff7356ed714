"""The relations between members, as each of them reports them, for the overview and the page of members."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.http.console.page import ConsolePage
from app.http.console.shown_texts import age_text
from app.peers.asked import ask_members

ENGINE = "/v1/ns/operator/distro"
ASK_S = 0.8
"""The time that members have to answer; all that are not DOWN are asked at once, as a user waits for the page."""
DELIVERED = "delivered"
NAMED_MAX = 3
"""The most services that a sentence names."""
TYPE_NAMES = {
    "com.alibaba.nacos.naming.iplist.": "instance lists",
    "rollcall.records": "durable records",
    "rollcall.foreign": "instances of links",
    "Nacos:Naming:v2:ClientData": "gRPC clients",
    "rollcall.http-clients": "clients by address",
}
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """One member's report about another."""

    source: str
    target: str
    state: str
    unapplied: int
    to_send: int
    to_fetch: int
    failing: bool
    oldest_ms: int | None
    cause: str
    p50_ms: float | None
    p99_ms: float | None
    rounds: list[dict[str, Any]]
    """The last verify round of each resource type: name, ageMs, outcome, compared, keys, differ."""

    @classmethod
    def of(cls, source: str, target: str, facts: Facts) -> "Pair":
        """Return the pair for a peer's entry on a member's page about replication."""
        queue, oldest = facts["queue"], facts.get("oldestUnapplied")
        applied = facts.get("convergence", {}).get("applied", {})
        rounds = [
            {"name": TYPE_NAMES.get(name, name), **one, "differ": one["newerThere"] + (one["lackingThere"] or 0)}
            for name, one in facts.get("verify", {}).items()
        ]
        return cls(
            source,
            target,
            facts.get("state", ""),
            facts.get("unapplied", 0),
            queue["toSend"] + queue["inFlight"],
            queue["toFetch"],
            queue["failing"],
            oldest["ageMs"] if oldest else None,
            oldest["cause"] if oldest else "",
            applied.get("p50Ms"),
            applied.get("p99Ms"),
            rounds,
        )

    @property
    def differing(self) -> int:
        """The number of keys that differed in the last rounds."""
        return sum(one["differ"] for one in self.rounds)

    @property
    def verified_ms(self) -> int | None:
        """The age of the oldest of the last rounds, in ms; None before the first."""
        return max((one["ageMs"] for one in self.rounds), default=None)

    @property
    def is_well(self) -> bool:
        """True if the target has all data of the source, as far as the source knows."""
        return not self.unapplied and not self.failing and (self.rounds_equal or not self.rounds)

    @property
    def rounds_equal(self) -> bool:
        """True if the last round of each type was completed and found no difference."""
        return bool(self.rounds) and all(one["outcome"] == DELIVERED and not one["differ"] for one in self.rounds)


@dataclass(slots=True)
class ClusterFacts:
    """The reports of the members that answered. ``silent``: members of our kind that did not."""

    engines: dict[str, Facts]
    pairs: list[Pair]
    silent: list[str]
    other_kinds: list[str] = field(default_factory=list)
    planned: dict[str, str] = field(default_factory=dict)
    """The members that are out by plan, with ``drained`` or ``left``. They are not silent."""
    contents: Facts | None = None
    """This member's last comparisons of contents: ``ContentChecks.facts``."""
    is_empty: bool = False
    """True if this member has no services."""
    differing_services: list[tuple[str, str]] = field(default_factory=list)
    """The services whose contents differ, as the last comparison of any member found: namespace and full name."""

    def pairs_of(self, member: str) -> list[Pair]:
        """Return a member's reports about the others."""
        return [pair for pair in self.pairs if pair.source == member]

    @property
    def unapplied(self) -> int:
        """The number of changes that have not reached a member, counted for each member that lacks one."""
        return sum(pair.unapplied for pair in self.pairs)

    @property
    def differing(self) -> int:
        """The number of keys that differed in the last verify rounds, counted for each pair."""
        return sum(pair.differing for pair in self.pairs)

    def agreement(self) -> tuple[str, str]:
        """Return the state of agreement, ``good``, ``wait``, ``differ``, ``bad`` or ``alone``, and a sentence."""
        if not self.pairs and not self.silent:
            return "alone", self._out_words() or "This node is the only member."
        if self.differing_services:
            return "differ", self._difference_words()
        if self.silent:
            return "bad", f"No answer from {', '.join(self.silent)}. The members that answered are below."
        if sick := [pair for pair in self.pairs if pair.failing]:
            return "bad", f"{sick[0].source} cannot reach {sick[0].target}."
        if self.unapplied or self.differing:
            return "wait", f"{self.unapplied} changes under way, {self.differing} keys differed in the last rounds."
        ages = [age for pair in self.pairs if (age := pair.verified_ms) is not None]
        if len(ages) < len(self.pairs):
            return "wait", "Some pairs of members have not compared their data yet."
        if not all(pair.is_well for pair in self.pairs):
            return "wait", "The last comparison of a pair of members was not completed."
        span_s = -(-max(ages) // 1_000)
        said = [f"Each pair compared the versions of all its data in the last {span_s} s: none differ."]
        return "good", " ".join([*said, self._contents_words(), *([out] if (out := self._out_words()) else [])])

    def _difference_words(self) -> str:
        """Return the services that differ, in a sentence."""
        named = ", ".join(f"{service} ({namespace})" for namespace, service in self.differing_services[:NAMED_MAX])
        more = len(self.differing_services) - NAMED_MAX
        return f"The contents of {named}{f' and {more} more' if more > 0 else ''} differ between members."

    def _contents_words(self) -> str:
        """Return how much of the contents was compared, and when, in a sentence."""
        contents = self.contents
        if self.is_empty:
            return "There are no services whose contents could be compared."
        if not contents or not contents["parts"]:
            return "No contents were compared by this member yet."
        share = contents["parts"] * 100 // contents["of"]
        age = age_text(max(contents["oldestAgeMs"], 1_000))
        return f"The contents of {share or 1} % of the services were compared in the last {age}: they are equal."

    def _out_words(self) -> str:
        """Return who is out by plan, in a sentence."""
        words = {"drained": "is drained", "left": "left in order"}
        return " ".join(f"{address} {words[absence]}." for address, absence in sorted(self.planned.items()))


def cluster_facts(page: ConsolePage) -> ClusterFacts | None:
    """Ask all members at once; return None for a user without the right to know."""
    own = page.api.find(ENGINE)
    if own is None:
        return None
    services, self_address = page.services, page.services.cluster.self_address
    found, other_kinds = ask_members(services, "GET", ENGINE, {}, ASK_S, down_too=False)
    engines: dict[str, Facts] = {self_address: own}
    engines |= {address: one for address, one in found.items() if one is not None and "peers" in one}
    pairs = [
        Pair.of(source, target, facts)
        for source, engine in sorted(engines.items())
        for target, facts in engine["peers"].items()
        if "queue" in facts
    ]
    planned = {one.address: absence for one in services.cluster.members() if (absence := services.cluster.planned(one))}
    left = {address for address, absence in planned.items() if absence == "left"}
    pairs = [pair for pair in pairs if not left & {pair.source, pair.target}]
    silent = sorted(found.keys() - engines.keys() - planned.keys())
    is_empty = not services.naming.service_count()
    return ClusterFacts(engines, pairs, silent, other_kinds, planned, is_empty=is_empty)
