"""Linked clusters in one virtual time: each a separate world, and a network between them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from app.config.link_settings import LinkSource
from app.links.feed import Feed
from app.links.follower import LinkRules
from app.links.node_links import LinkKinds
from app.node.node_parts import NodeKinds
from app.replication.foreign_type import ForeignStore
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.member.sim_links import SimLink
from app.tools.simulation.member.sim_nacos_link import SimNacosLink, SimNacosSide
from app.tools.simulation.member.sim_ports import Process
from app.tools.simulation.transcript.entry import What
from app.tools.simulation.transcript.recorder import present_recorder
from app.tools.simulation.world.network import Network
from app.tools.simulation.world.world import World
from distro.model.config import DistroConfig

NAMES = ("dc-a", "dc-b", "dc-c", "dc-d")
DELAY_MS_MAX = 40
"""The longest way of a message from one cluster to another."""


class LinkedMember(SimMember):
    """A member with links. Subclasses lack a rule of links."""

    link_rules = LinkRules()
    feed_class: type[Feed] = Feed
    link_class = SimLink
    foreign_class = ForeignStore
    nacos_class = SimNacosLink

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.nacos_sides: list[SimNacosSide] = []
        """The connections to a Nacos of all runs of this member."""

    def start(self) -> None:
        super().start()
        self.in_run(1, partial(self._keep_up, self.node.services.links.tick))

    def _kinds(self) -> NodeKinds:
        links = LinkKinds(
            partial(self.link_class, self),
            self.feed_class,
            self.link_rules,
            self.foreign_class,
            partial(self.nacos_class, self, self.nacos_sides.append),
        )
        return replace(super()._kinds(), links=links)

    @property
    def up_ms(self) -> int:
        """How long this run lasts, as it tells those that follow it."""
        return self.node.services.links.greeting().up_ms


class LinkedWorld:
    """Clusters, and which of them follows which others."""

    def __init__(
        self,
        seed: int,
        follows: Mapping[int, Sequence[int]],
        *,
        members: Sequence[int] = (3, 3),
        config: DistroConfig | None = None,
        member_class: type[LinkedMember] = LinkedMember,
        more: Mapping[str, str] | None = None,
        room: int | None = None,
    ) -> None:
        """``follows``: the numbers of the clusters that each one follows. ``more``: fields of each link's settings.

        ``room``: the instances that all links of a cluster may bring; None for the default.
        """
        self.seed, self.follows = seed, follows
        self.clusters = [
            World(seed, count, config=config, member_class=member_class, number=number)
            for number, count in enumerate(members)
        ]
        processes: dict[str, Process] = {}
        for one in self.clusters:
            processes |= one.members
        first = self.clusters[0]
        self.outer = Network(first, processes)
        self.outer.calm(delay_ms_max=DELAY_MS_MAX)
        self.checked: Counter[str] = Counter()
        """The number of checks of each invariant so far, by its title."""
        for number, one in enumerate(self.clusters):
            one.outer = self.outer
            links = LinkSource(((self._settings(number, more or {}), "the world"),), cluster_id=NAMES[number])
            for member in one.members.values():
                limits = member.settings.limits
                limits = replace(limits, foreign_instances=room or limits.foreign_instances)
                member.settings = replace(member.settings, links=links, limits=limits)
        if (recorder := present_recorder()) is not None:
            recorder.world = self

    def _settings(self, number: int, more: Mapping[str, str]) -> dict[str, str]:
        texts = {}
        for other in self.follows.get(number, ()):
            begin = f"rollcall.link.{NAMES[other]}"
            texts[f"{begin}.servers"] = ",".join(self.clusters[other].addresses)
            texts |= {f"{begin}.{name}": text for name, text in more.items()}
        return texts

    @property
    def now_ms(self) -> int:
        return self.clusters[0].now_ms

    @property
    def events(self) -> int:
        return sum(one.events for one in self.clusters)

    @property
    def marks(self) -> Counter[str]:
        return sum((one.marks for one in self.clusters), Counter[str]())

    @property
    def longest_missing_ms(self) -> int:
        return max(one.longest_missing_ms for one in self.clusters)

    def trace(self, text: str) -> None:
        """Write down a fault between clusters."""
        self.clusters[0].trace("network", text, What.FAULT)

    def run(self, span_ms: int) -> None:
        """Advance the time of all clusters, event by event."""
        clusters, end_ms = self.clusters, self.now_ms + span_ms
        while (due := min(clusters, key=World.next_ms)).next_ms() <= end_ms:
            now_ms = int(due.next_ms())
            for one in clusters:
                one.now_ms = now_ms
            due.step()
        for one in clusters:
            one.now_ms = end_ms

    def start_all(self, *, settle_ms: int) -> None:
        """Start all members within a second of each other, and let them find each other."""
        for one in self.clusters:
            one.start_all(settle_ms=0)
        self.run(settle_ms)

    def cut(self, source: int, target: int) -> None:
        """Let no packet through from one cluster to another."""
        self._each(source, target, self.outer.cut)

    def mend(self, source: int, target: int) -> None:
        """End a cut of one direction."""
        self._each(source, target, self.outer.mend)

    def _each(self, source: int, target: int, do: object) -> None:
        assert callable(do)
        for one in self.clusters[source].addresses:
            for other in self.clusters[target].addresses:
                do(one, other)

    def heal(self) -> None:
        """End all faults, in the clusters and between them."""
        self.outer.heal()
        for one in self.clusters:
            one.heal()
