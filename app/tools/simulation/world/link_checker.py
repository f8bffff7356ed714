"""The invariants of links, watched while clusters run and checked when they are quiet.

1. Agreement: at quiet each member shows of each cluster that it follows exactly what is registered there, and nothing
   of it as stale.
2. Nothing living is lost: an instance that a member showed by a link, and that lives, is shown on, unless a member of
   its own cluster that may say so lacked it: one that runs for 30 s, or had it before (L4).
3. Removed instances go: one that no member of its cluster has any more is shown for a bounded time, or as
   stale.
4. No echo: each instance is shown once; those of the own clients are local, all others come from their own cluster by a
   link to it (L1).
"""

from collections import Counter
from collections.abc import Iterator

from app.links.feed_lines import SETTLED_MS
from app.naming.model.foreign import LINK, ORIGIN, STALE
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.model import Instance
from app.naming.registry.union import local_view
from app.naming.wire.foreign_wire import digest_of, encode_foreign, encoded
from app.replication.foreign_type import ForeignKey
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.world.invariants import Broken, Invariant
from app.tools.simulation.world.linked_world import NAMES, LinkedMember, LinkedWorld
from app.tools.simulation.world.sim_clients import SimClient, Wish
from app.tools.simulation.world.world import World

SAMPLE_MS = 250
EXCUSED_MS = 12_000
"""How long a member may still act on what a member of the other cluster said of an instance: the time in which a
member here that saw it itself is replaced by the next owner, or sends it on."""
GONE_MS_MAX = 40_000
"""The longest time for which an instance that was removed is shown, and not as stale: until the member that follows its
service is replaced, and has noticed that it hears nothing."""
Name = tuple[str, str]
"""A service, and the key of an instance."""


class LinkChecker:
    """Checks all members of linked clusters each ``SAMPLE_MS``. The first breach raises ``Broken``."""

    def __init__(self, world: LinkedWorld) -> None:
        self._world = world
        self.gone_ms_max = GONE_MS_MAX
        self.longest_gone_ms = self.longest_missing_ms = 0
        """The longest time for which something removed was shown and not marked; for a report."""
        self._shown: set[tuple[str, int, Name]] = set()
        """Living instances that each run of each member showed by a link."""
        self._had: set[tuple[str, int, Name]] = set()
        """Instances of the local cluster that each run of each member had."""
        self._lacked_ms: dict[str, int] = {}
        self._gone_since_ms: dict[str, int] = {}
        self._marked_ms: dict[tuple[str, str], int] = {}
        self.checked: Counter[Invariant] = Counter()

    def broken(self, text: str, invariant: Invariant = Invariant.COURSE, key: str = "") -> Broken:
        """Return the error that names the broken invariant."""
        return Broken(f"seed {self._world.seed}, at {self._world.now_ms} ms: {text}", invariant, key)

    # --- while the world runs -----------------------------------------------------------------------

    def watch(self, span_ms: int) -> None:
        """Let the world run, and check each sample."""
        world, end_ms = self._world, self._world.now_ms + span_ms
        while world.now_ms < end_ms:
            world.run(min(SAMPLE_MS, end_ms - world.now_ms))
            for cluster in world.clusters:
                self._note(cluster)
            for number, cluster in enumerate(world.clusters):
                for member in serving(cluster):
                    self._check(number, member)

    def watch_nothing(self, span_ms: int) -> None:
        """Let the world run, in which a cluster may say that something living is gone."""
        self._world.run(span_ms)
        self._shown.clear()

    def _note(self, cluster: World) -> None:
        """Note the instances of local clients that the members of a cluster have."""
        now_ms = self._world.now_ms
        running = [one for one in cluster.running() if isinstance(one, LinkedMember)]
        for client in cluster.clients:
            name, is_had = name_of(client), False
            for member in running:
                seen = member.address, member.run, name
                if member.shows(client):
                    is_had = True
                    self._had.add(seen)
                elif not member.protocol.loading and (member.up_ms >= SETTLED_MS - SAMPLE_MS or seen in self._had):
                    self._lacked_ms[client.address] = now_ms
            if is_had or client.is_due or client.wish is Wish.PRESENT:
                self._gone_since_ms.pop(client.address, None)
            else:
                self._gone_since_ms.setdefault(client.address, now_ms)

    def _check(self, number: int, member: SimMember) -> None:
        shown = dict(views_of(member, self._services()))
        for other, cluster in enumerate(self._world.clusters):
            for client in cluster.clients:
                name = name_of(client)
                one = shown.get(name)
                if other == number:
                    self._check_own(member, client, one)
                elif other not in self._world.follows.get(number, ()):
                    self._check_apart(member, client, one, number)
                else:
                    self._check_living(member, client, one)
                    self._check_gone(member, client, one, NAMES[other])

    def _services(self) -> list[str]:
        return sorted({client.service for cluster in self._world.clusters for client in cluster.clients})

    def _check_own(self, member: SimMember, client: SimClient, one: Instance | None) -> None:
        """No echo: the own client's instance is shown as a local one, or not at all."""
        self.checked[Invariant.ECHO] += 1
        if one is not None and LINK in (one.metadata or {}) and not self._is_elsewhere(client, one):
            text = f"{member.address} shows {client.address} of this cluster as brought by {one.metadata}"
            raise self.broken(text, Invariant.ECHO, client.datum_key)

    def _check_apart(self, member: SimMember, client: SimClient, one: Instance | None, number: int) -> None:
        """No echo: what a cluster shows that this one does not follow comes here by no other."""
        self.checked[Invariant.ECHO] += 1
        if one is not None and not self._is_elsewhere(client, one):
            text = f"{member.address} shows {client.address}, but {NAMES[number]} does not follow its cluster"
            raise self.broken(text, Invariant.ECHO, client.datum_key)

    def _is_elsewhere(self, client: SimClient, one: Instance) -> bool:
        """Return whether a client of another cluster registers the same address, and the instance is that one."""
        origin = (one.metadata or {}).get(ORIGIN)
        clusters = [
            NAMES[number]
            for number, cluster in enumerate(self._world.clusters)
            for other in cluster.clients
            if other is not client and name_of(other) == name_of(client)
        ]
        return bool(clusters) and (origin is None or origin in clusters)

    def _check_living(self, member: SimMember, client: SimClient, one: Instance | None) -> None:
        self.checked[Invariant.LIVING] += 1
        name = name_of(client)
        seen = member.address, member.run, name
        if not client.is_due or (one is not None and LINK not in (one.metadata or {})):
            self._shown.discard(seen)  # it is no more, or a client here has the same address
        elif one is not None:
            self._shown.add(seen)
        elif seen in self._shown:
            lacked_ms = self._lacked_ms.get(client.address, -EXCUSED_MS)
            # It may have been removed and registered again between two samples.
            if self._world.now_ms - max(lacked_ms, client.acknowledged_ms or 0) < EXCUSED_MS:
                self._shown.discard(seen)
                return
            text = f"{member.address} no longer shows {client.address} of {client.service}, which beats at its cluster"
            raise self.broken(text, Invariant.LIVING, client.datum_key)

    def _check_gone(self, member: SimMember, client: SimClient, one: Instance | None, origin: str) -> None:
        self.checked[Invariant.FOREIGN_GONE] += 1
        now_ms, since_ms = self._world.now_ms, self._gone_since_ms.get(client.address)
        labels = (one.metadata or {}) if one is not None else {}
        if since_ms is None or labels.get(ORIGIN) != origin or STALE in labels:
            self._marked_ms[member.address, client.address] = now_ms
            return
        gone_ms = now_ms - max(since_ms, self._marked_ms.get((member.address, client.address), 0))
        self.longest_gone_ms = max(self.longest_gone_ms, gone_ms)
        if gone_ms > self.gone_ms_max:
            text = f"{member.address} shows {client.address} {gone_ms} ms after its removal, and not as stale"
            raise self.broken(text, Invariant.FOREIGN_GONE, client.datum_key)

    # --- at quiet -------------------------------------------------------------------------------------

    def check_quiet(self) -> None:
        """Check that each cluster agrees with itself, and shows what the clusters that it follows have registered."""
        for cluster in self._world.clusters:
            cluster.checker.check_quiet()
            cluster.checker.check_digests()
        for number, others in self._world.follows.items():
            for other in others:
                self.check_link(number, other)

    def check_link(self, number: int, other: int) -> None:
        """Check that all members of a cluster show what another one has registered: 0 differences."""
        there = next(iter(self._world.clusters[other].members.values()))
        wanted = registered_at(there)
        for member in self._world.clusters[number].members.values():
            self.checked[Invariant.LINKED] += 1
            parts = {
                key: part
                for key, part in member.node.domain.foreign.parts(NAMES[other])
                if part.stale_ms is None and not part.kept
            }
            stale = [key for key, part in member.node.domain.foreign.parts(NAMES[other]) if key not in parts]
            if stale:
                raise self.broken(f"{member.address} has stale {stale[0]} of {len(stale)}", Invariant.LINKED, stale[0])
            found = {
                key: (part.digest, sorted(encode_foreign(one) for one in part.instances.values()))
                for key, part in parts.items()
            }
            expected = {ForeignKey(NAMES[other], DEFAULT_NAMESPACE, name).text(): it for name, it in wanted.items()}
            if found != expected:
                wrong = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
                text = f"{member.address} lacks or has otherwise {', '.join(wrong[:3])} of {len(expected)} services"
                raise self.broken(f"{text}: {found.get(wrong[0])}, not {expected.get(wrong[0])}", Invariant.LINKED)

    def check_marked(self, number: int, other: int) -> None:
        """Check that all members of a cluster show what another one brought as stale, and show something of it."""
        for member in serving(self._world.clusters[number]):
            self.checked[Invariant.MARKED] += 1
            brought = [
                one for _, one in views_of(member, self._services()) if (one.metadata or {}).get(LINK) == NAMES[other]
            ]
            fresh = [one.key for one in brought if STALE not in (one.metadata or {})]
            if fresh or not brought:
                text = f"{member.address} shows {fresh or 'nothing'} of the silent {NAMES[other]} as if it were heard"
                raise self.broken(text, Invariant.MARKED)

    def check_nothing_foreign(self, number: int) -> None:
        """Check that no link brought anything to a cluster."""
        for member in serving(self._world.clusters[number]):
            self.checked[Invariant.ECHO] += 1
            for key, part in member.node.domain.foreign.parts():
                raise self.broken(f"{member.address} took {key} of {part.origin}", Invariant.ECHO)

    def check_none_empty(self, number: int, other: int) -> None:
        """Check that no service of another cluster, in which something lives, is empty here."""
        services = {client.service for client in self._world.clusters[other].clients if client.is_due}
        for member in serving(self._world.clusters[number]):
            shown = {service for (service, _), _ in views_of(member, sorted(services))}
            self.checked[Invariant.LIVING] += 1
            if shown != services:
                text = f"{member.address} shows nothing of {', '.join(sorted(services - shown))}"
                raise self.broken(text, Invariant.LIVING)


def serving(cluster: World) -> list[SimMember]:
    """Return the members of a cluster that answer clients."""
    return [one for one in cluster.running() if one.serving]


def name_of(client: SimClient) -> Name:
    return client.service, client.instance_key


def views_of(member: SimMember, services: list[str]) -> Iterator[tuple[Name, Instance]]:
    """Yield what readers of a member see of these services."""
    for service in services:
        view = member.naming.service_view(DEFAULT_NAMESPACE, service)
        for one in view.instances if view is not None else ():
            yield (service, one.key), one


def registered_at(member: SimMember) -> dict[str, tuple[int, list[bytes]]]:
    """Return the digest and the instances of each service that is registered in the cluster of a member."""
    found = {}
    for service in member.registry.table.services():
        instances = [] if service.hidden else [encoded(one) for one in local_view(service)]
        if instances:
            digest = digest_of([one.hash for one in instances])
            found[service.full_name] = digest, sorted(one.json for one in instances)
    return found
