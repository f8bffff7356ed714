"""Instances of linked clusters: what a link brought of one service, and how readers see it with the local instances.

Nothing here is judged by beats: the health of a foreign instance comes from its own cluster.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from app.naming.model.keys import SIMPLE_ID
from app.naming.model.model import Instance, kept_id

ORIGIN, LINK, STALE = "rollcall.origin", "rollcall.link", "rollcall.stale"
"""Metadata of a foreign instance: its cluster, the link that brought it, and ``true`` while that link is silent."""


class Arrival(enum.Enum):
    """The place of the instances that a link brings."""

    MERGE = "merge"
    """They share one list with the local ones, which come first."""
    FAILOVER = "failover"
    """They are shown only while too few local instances are healthy."""
    APART = "apart"
    """They are in a separate cluster, which has the name of the link."""


@dataclass(frozen=True, slots=True)
class ArrivalRule:
    """How the instances of a link arrive."""

    arrival: Arrival = Arrival.MERGE
    healthy_min: int = 1
    """For FAILOVER: with fewer healthy local instances than this, foreign ones are shown."""
    weight: float = 1.0
    """The factor for the weight of a foreign instance."""


MERGED = ArrivalRule()


@dataclass(frozen=True, slots=True)
class ForeignPart:
    """The instances of one service that one link brought. A part is replaced as a whole.

    ``instances`` have the instance keys and the values of their origin.
    """

    link: str
    origin: str
    """The id of the cluster in which the instances are registered."""
    run: str
    """The run of the member of that cluster that stated them."""
    digest: int
    """The digest of ``instances``, as the origin computed it."""
    instances: Mapping[str, Instance]
    kept: Mapping[str, Instance] = field(default_factory=dict)
    """Instances that the origin no longer has, and for which it sent no valid removal. Shown as stale."""
    rule: ArrivalRule = MERGED
    stale_ms: int | None = field(default=None, compare=False)
    """Since when the link is silent (monotonic); None while it is heard."""
    stated_ms: int = field(default=0, compare=False)
    """When the other cluster stated this (monotonic). If two members have different states, the later statement counts
    (L8).
    """
    shown: Mapping[str, Instance] = field(init=False, repr=False, compare=False)
    """The instances as readers see them, by the key at their origin."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shown", dict(self._shown()))

    def _shown(self) -> Iterator[tuple[str, Instance]]:
        is_stale, rule = self.stale_ms is not None, self.rule
        cluster = self.link if rule.arrival is Arrival.APART else None
        labels = {ORIGIN: self.origin, LINK: self.link}
        stale = labels | {STALE: "true"}
        for key, one in self.instances.items():
            yield key, _arrived(one, stale if is_stale else labels, rule.weight, cluster)
        for key, one in self.kept.items():
            if key not in self.instances:
                yield key, _arrived(one, stale, rule.weight, cluster)

    @property
    def is_empty(self) -> bool:
        """Return whether it holds no instance."""
        return not self.instances and not self.kept


def _arrived(one: Instance, labels: Mapping[str, str], weight: float, cluster: str | None) -> Instance:
    """Return a foreign instance as readers see it. Its metadata cannot pretend to be these labels."""
    return replace(
        one,
        weight=one.weight * weight,
        metadata={**(one.metadata or {}), **labels},
        cluster_name=cluster or one.cluster_name,
        instance_id=SIMPLE_ID if cluster else kept_id(one),
    )


def with_foreign(
    local: tuple[Instance, ...], foreign: Mapping[str, ForeignPart], protect_threshold: float
) -> tuple[Instance, ...]:
    """Return the list of a service with foreign instances: local ones first, and each address once.

    An address that is registered here, too, is the local one. If two links bring the same address, a link that is heard
    counts before a silent one, then the order of their names.
    """
    seen = {one.key for one in local}
    healthy = sum([one.healthy and one.enabled for one in local])
    added: list[Instance] = []
    for _, part in sorted(foreign.items(), key=lambda one: (one[1].stale_ms is not None, one[0])):
        if part.rule.arrival is Arrival.FAILOVER and not _fails_over(healthy, len(local), part.rule, protect_threshold):
            continue
        for key, one in part.shown.items():
            if key not in seen:
                seen.add(key)
                added.append(one)
    return (*local, *added)


def _fails_over(healthy: int, count: int, rule: ArrivalRule, protect_threshold: float) -> bool:
    """Return whether so few of ``count`` local instances are healthy that foreign ones are shown."""
    return healthy < rule.healthy_min or (healthy < count and healthy <= count * protect_threshold)


def foreign_clusters(foreign: Mapping[str, ForeignPart] | None) -> Iterable[str]:
    """Return the cluster names of foreign instances, as readers see them."""
    return {one.cluster_name for part in (foreign or {}).values() for one in part.shown.values()}
