"""The relations between members, as each of them reports them, for the overview and the page of members."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.http.console.page import ConsolePage
from app.http.console.shown_texts import age_text, units_of
from app.languages.catalogues import N_, Texts
from app.peers.asked import ask_members

ENGINE = "/v1/ns/operator/distro"
ASK_S = 0.8
"""The time that members have to answer; all that are not DOWN are asked at once, as a user waits for the page."""
DELIVERED = "delivered"
NAMED_MAX = 3
"""The most services that a sentence names."""
TYPE_NAMES = {
    "com.alibaba.nacos.naming.iplist.": N_("instance lists"),
    "rollcall.records": N_("durable records"),
    "Nacos:Naming:v2:ClientData": N_("gRPC clients"),
    "rollcall.http-clients": N_("clients by address"),
    "rollcall.foreign": N_("linked instances"),
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

    def agreement(self, texts: Texts) -> tuple[str, str]:
        """Return the state of agreement, ``good``, ``wait``, ``differ``, ``bad`` or ``alone``, and a sentence."""
        gettext = texts.gettext
        if not self.pairs and not self.silent:
            return "alone", self._out_words(texts) or gettext("This node is the only member.")
        if self.differing_services:
            return "differ", self._difference_words(texts)
        if self.silent:
            return "bad", gettext(
                "No answer from %(members)s. The members that answered are below.", members=", ".join(self.silent)
            )
        if sick := [pair for pair in self.pairs if pair.failing]:
            return "bad", cannot_reach(texts, sick[0])
        if self.unapplied or self.differing:
            return "wait", self._under_way_words(texts)
        ages = [age for pair in self.pairs if (age := pair.verified_ms) is not None]
        if len(ages) < len(self.pairs):
            return "wait", gettext("Some pairs of members have not compared their data yet.")
        if not all(pair.is_well for pair in self.pairs):
            return "wait", gettext("The last comparison of a pair of members was not completed.")
        text = N_("Each pair compared the versions of all its data in the last %(seconds)s s: none differ.")
        said = gettext(text, seconds=-(-max(ages) // 1_000))
        return "good", " ".join(one for one in (said, self._contents_words(texts), self._out_words(texts)) if one)

    def _under_way_words(self, texts: Texts) -> str:
        """Return how many changes a member lacks, and how many keys differed, in sentences."""
        said = []
        if count := self.unapplied:
            said.append(
                texts.ngettext("%(count)s change is under way.", "%(count)s changes are under way.", count, count=count)
            )
        if self.differing:
            said.append(differing_keys(texts, self.differing))
        return " ".join(said)

    def _difference_words(self, texts: Texts) -> str:
        """Return the services that differ, in a sentence."""
        named = ", ".join(f"{service} ({namespace})" for namespace, service in self.differing_services[:NAMED_MAX])
        more = len(self.differing_services) - NAMED_MAX
        if more <= 0:
            return texts.gettext("The contents of %(services)s differ between members.", services=named)
        text = N_("The contents of %(services)s and %(count)s more differ between members.")
        return texts.gettext(text, services=named, count=more)

    def _contents_words(self, texts: Texts) -> str:
        """Return how much of the contents was compared, and when, in a sentence."""
        contents = self.contents
        if self.is_empty:
            return texts.gettext("There are no services whose contents could be compared.")
        if not contents or not contents["parts"]:
            return texts.gettext("This member has not compared any contents yet.")
        share = contents["parts"] * 100 // contents["of"]
        age = age_text(max(contents["oldestAgeMs"], 1_000), units_of(texts))
        text = N_("The contents of %(share)s %% of the services were compared in the last %(age)s: they are equal.")
        return texts.gettext(text, share=share or 1, age=age)

    def _out_words(self, texts: Texts) -> str:
        """Return the members that are out of service as planned, in a sentence."""
        return " ".join(
            texts.gettext(_ABSENCES[absence], address=address) for address, absence in sorted(self.planned.items())
        )


_ABSENCES = {"drained": N_("%(address)s is drained."), "left": N_("%(address)s left in order.")}


def differing_keys(texts: Texts, count: int) -> str:
    """Return the sentence about keys that differed in the last verify rounds."""
    return texts.ngettext(
        "%(count)s key differed in the last verify rounds.",
        "%(count)s keys differed in the last verify rounds.",
        count,
        count=count,
    )


def cannot_reach(texts: Texts, pair: Pair) -> str:
    """Return the sentence about a pair whose calls fail."""
    return texts.gettext("%(source)s cannot reach %(target)s.", source=pair.source, target=pair.target)


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
