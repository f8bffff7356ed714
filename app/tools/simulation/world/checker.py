"""The invariants of replication, watched while a world runs and checked when it is quiet.

1. Agreement: at quiet all members hold the same keys, versions, instances and removals, list the same services, empty
   ones too, and see the same members.
2. A client that beats is not missing: after the heal its instance is absent from its owner's list for at most its next
   two beats and one call that is not answered; at quiet it is everywhere, healthy, as the client described it last.
   ``strict`` worlds, in which nothing is lost or parted, allow no absence at all, of no serving member. From
   ``RECOVERY_MS`` after the heal on no member has one unhealthy that beat without a pause.
3. What is gone stays gone, see ``_follow_instances``; at quiet nothing is left of clients that left or died. Nothing
   is lost: a serving member drops an instance only with the removal that was the reason.
4. Versions identify content: all that have, or ever had, a version of a key have the same instances.
5. One writer: at quiet the writer of each key is its responsible member, and its version is above all under which any
   run that still lives acknowledged a write. While members are apart both sides may count the same epoch; such versions
   are ordered by their writers' names, and this shows that one side's writes were merged into the other's.
6. Versions never fall: what one run of one member holds of a key only rises, until all agreed to forget the key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.naming.model.keys import AGE_MARGIN_MS
from app.naming.model.model import BEAT_INTERVAL_MS, DELETE_TIMEOUT_MS, Service, Tombstone
from app.naming.records.record import Record
from app.tools.simulation.member.client_writes import Write, WriteKind
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.member.sim_ports import ClusterWorld
from app.tools.simulation.transcript.entry import What
from app.tools.simulation.world.digest_check import digest_from_scratch, told_by
from app.tools.simulation.world.invariants import Broken, Invariant
from app.tools.simulation.world.sim_clients import CALL_MS_MAX, SimClient, Wish
from app.tools.simulation.world.sim_nacos import SimNacos
from distro.model.config import DistroConfig
from distro.model.types import NO_VERSION, Version

SAMPLE_MS = 250
RECOVERY_MS = 8_000
ENDING_MS = 5_000
"""The time before its end in which something may already have ended elsewhere."""
BATCH_MS = 200
MISSING_MS_MAX = 2 * BEAT_INTERVAL_MS + BATCH_MS + CALL_MS_MAX
"""The longest absence of an instance. A copy may answer the first beat: the owner, which lacks the instance, says so
only in its answer to the batch."""


class CheckedWorld(ClusterWorld, Protocol):
    """A world as its checker sees it."""

    @property
    def seed(self) -> int: ...

    @property
    def config(self) -> DistroConfig: ...

    @property
    def members(self) -> Mapping[str, SimMember]: ...

    @property
    def nacos(self) -> Mapping[str, SimNacos]: ...

    @property
    def clients(self) -> Sequence[SimClient]: ...

    def running(self) -> list[SimMember]: ...

    def run(self, span_ms: int) -> None: ...


@dataclass(slots=True)
class _Seen:
    """The state of a key in one run of one member when it was last checked."""

    version: Version = NO_VERSION
    instances: frozenset[str] = frozenset()
    gone: dict[str, int] = field(default_factory=dict)
    """The dropped instances, each with the latest sign of life that the removal behind the drop knew of."""


class InvariantChecker:
    """Checks every member after each of its events. The first breach raises ``Broken`` out of the world."""

    def __init__(self, world: CheckedWorld) -> None:
        self._world = world
        self.strict = False
        """True if no instance whose client beats may be dropped, or be missing from a serving member."""
        self.looking = True
        """False in a test that checks only the outcome."""
        self.removals_are_marked = True
        """False in a test that takes the removals away: then a drop without one counts as one of this time."""
        self.tick_ms_max: int | None = None
        """The longest allowed tick; None if ticks may take long."""
        self.longest_missing_ms = 0
        self._clients: dict[tuple[str, str], SimClient] = {}
        self._seen: dict[tuple[str, int, str], _Seen] = {}
        self._contents: dict[tuple[str, Version], tuple[str, Any]] = {}
        self._removals_ms: dict[tuple[str, str, Version], int] = {}
        self._last_removal_ms: dict[tuple[str, str], int] = {}
        self._life_ms: dict[tuple[str, str], int] = {}
        self._missing_since_ms: dict[tuple[str, str], int] = {}
        self._acknowledged: dict[str, dict[str, Version]] = {}
        self._revisions: dict[str, Counter[int]] = {}
        self._uncertain: set[str] = set()
        self.in_order = False
        """True if no call of a client may be executed, for any reason, once a later one was acknowledged."""
        self._last_acknowledged: dict[tuple[str, str], int] = {}
        self._refused_ms: dict[int, int] = {}
        self._words: dict[str, list[tuple[int, Record]]] = {}
        self.checked: Counter[Invariant] = Counter()
        """The number of checks of each invariant."""

    def broken(
        self,
        text: str,
        invariant: Invariant = Invariant.COURSE,
        key: str = "",
        states: Mapping[str, str] | None = None,
    ) -> Broken:
        """An error that names the broken invariant, the key, and the data of the members that differ."""
        return Broken(f"seed {self._world.seed}, at {self._world.now_ms} ms: {text}", invariant, key, states)

    # --- while the world runs --------------------------------------------------------------------

    def add(self, client: SimClient) -> None:
        self._clients[client.datum_key, client.instance_key] = client

    def executed(self, member: SimMember, write: Write, before: int | None) -> None:
        """Note that a member executed a client's call and says so; it had the revision ``before``, if any.

        A beat counts also if it was answered from a copy.
        """
        if not write.ephemeral:
            return  # its turn at the disk may be longer than its caller waits
        self.begins(member, write)
        key, name = write.datum_key, write.instance_key
        if write.kind is not WriteKind.DEREGISTER:
            self._life_ms[key, name] = self._world.now_ms
        if write.kind is WriteKind.BEAT:
            return
        self._follow_revisions(self._clients[key, name].address, write, before)
        version = member.registry.lists.version(key)
        if version is not None and version.writer == member.writer:
            self._acknowledged.setdefault(key, {})[member.writer] = version
        if self._world.tracing:
            text = version.to_text() if version else "nothing"
            done = f"executes {write.kind.name.lower()} {name} of {key}: now {text}"
            self._world.trace(member.address, done, What.WRITE, keys=(key,))

    def begins(self, member: SimMember, write: Write) -> None:
        """Note that a member begins to execute a call, which can no longer be delayed."""
        self.checked[Invariant.CALLS] += 1
        if (told_ms := self._refused_ms.get(write.sequence)) is not None:
            raise self.broken(
                f"{member.address} executes {write}, although its client got an error at {told_ms} ms",
                Invariant.CALLS,
                write.key,
            )
        if self.in_order and write.sequence < self._last_acknowledged.get((write.datum_key, write.instance_key), 0):
            text = f"{member.address} executes {write} after a later call of the same client was acknowledged"
            raise self.broken(text, Invariant.CALLS, write.key)

    def answered(self, write: Write) -> None:
        """Note that a client got the answer that its call is executed."""
        if write.kind is not WriteKind.BEAT:
            self._last_acknowledged[write.datum_key, write.instance_key] = write.sequence

    def refused(self, write: Write) -> None:
        """Note that a member tells a client that its call is not executed, or given up (R13)."""
        self._refused_ms.setdefault(write.sequence, self._world.now_ms)

    def word(self, record: Record) -> None:
        """Note that a member wrote a client's change of a durable record to its disk."""
        self._words.setdefault(record.key, []).append((self._world.now_ms, record))

    def acknowledged(self, write: Write, key: str) -> None:
        """Note that a client got the answer that its change of a durable record is kept."""
        if write.kind is WriteKind.REGISTER and all(
            revision_of(one) != str(write.revision) for _, one in self._words.get(key, ())
        ):
            raise self.broken(f"{write} is acknowledged, but no member has written it", Invariant.WORDS, key)

    def ticked(self, member: SimMember, taken_ms: float) -> None:
        """Note that the engine's thread of a member did one tick; without ``costs`` it took no time."""
        if member.meter is None:
            return
        self.checked[Invariant.TICKS] += 1
        if self.tick_ms_max is not None and taken_ms > self.tick_ms_max:
            text = (
                f"a tick of {member.address} took {taken_ms:.0f} ms, with {len(member.registry.lists.versions())} lists"
            )
            raise self.broken(text, Invariant.TICKS)

    def _follow_revisions(self, client: str, write: Write, before: int | None) -> None:
        """Keep the attributes that may hold in the end: each replaces what its member knew, and nothing else.

        Of two that were acknowledged on two sides of a partition either may win.
        """
        if write.kind is WriteKind.REGISTER and write.revision != before:
            revisions = self._revisions.setdefault(client, Counter())
            revisions[write.revision] += 1
            if before is not None:
                revisions[before] -= 1

    def losing(self, member: SimMember) -> None:
        """A member is about to lose its memory: what no other one holds of a key may be forgotten.

        One that loads does not count: of two states it keeps the higher, and the other's sender keeps the other.
        """
        others = [one for one in self._world.running() if one is not member and not one.protocol.loading]
        for key, version in member.registry.lists.versions().items():
            if not any(one.registry.lists.version(key) == version for one in others):
                self._uncertain.add(key)

    def forgive(self, member: SimMember, key: str) -> None:
        """Drop all expectations about a member's data of a key, because a test is about to damage it."""
        self._seen.pop((member.address, member.run, key), None)

    def look(self, member: SimMember) -> None:
        """Compare the state after an event with that before."""
        touched = list(member.keys.touched)
        member.keys.touched.clear()
        for key in touched if self.looking else ():
            service = member.registry.table.find(key)
            seen = self._seen.setdefault((member.address, member.run, key), _Seen())
            version = service.version if service else NO_VERSION
            self.checked[Invariant.ORDER] += 1
            if version != NO_VERSION and version < seen.version:
                text = f"{member.address} fell from {seen.version.to_text()} to {version.to_text()} for {key}"
                raise self.broken(text, Invariant.ORDER, key)
            seen.version = version  # none once the key is forgotten: then all agreed that nothing of it matters
            if service is not None and version != NO_VERSION:
                self._compare_content(member, key, service)
                self._date_removals(member, key, service)
            self._follow_instances(member, key, service, seen)

    def _compare_content(self, member: SimMember, key: str, service: Service) -> None:
        """Versions identify content."""
        self.checked[Invariant.CONTENT] += 1
        content = {name: (stored.instance, stored.version) for name, stored in service.stored.items()}
        first, known = self._contents.setdefault((key, service.version), (member.address, content))
        if known != content:
            raise self.broken(
                f"{first} and {member.address} hold different contents of {key} as {service.version.to_text()}: "
                f"{_shown(known)} and {_shown(content)}",
                Invariant.CONTENT,
                key,
                {first: _shown(known), member.address: _shown(content)},
            )

    def _date_removals(self, member: SimMember, key: str, service: Service) -> None:
        """Remember of each removal made here until when it knows of the instance's life."""
        for name, tombstone in service.tombstones.items():
            if tombstone.version.writer == member.writer:
                known_ms = member.clock.world_ms(tombstone.at_ms)
                if known_ms == self._world.now_ms:  # a deregistration: sides that are apart compare it by ages
                    known_ms -= AGE_MARGIN_MS
                if (key, name, tombstone.version) not in self._removals_ms:
                    self._removals_ms[key, name, tombstone.version] = known_ms
                    self._last_removal_ms[key, name] = self._world.now_ms

    def _follow_instances(self, member: SimMember, key: str, service: Service | None, seen: _Seen) -> None:
        """Check that removed instances stay gone.

        Once a serving member dropped an instance because of a removal that was executed somewhere, it shows it again in
        the same run only if a registration or a beat of that client was executed anywhere that the removal could not
        know of: after a deregistration, or after the last sign of life that the expiring member had received. So a
        deregistration that was acknowledged in a minority holds against all earlier beats, wherever they went.
        Members that are apart compare such moments by ages, which may be off by the time on the way: a removal may
        lose against a beat of up to ``AGE_MARGIN_MS`` before it; the instance is then gone when its beats run out.
        """
        self.checked[Invariant.GONE] += 1
        instances = frozenset(service.stored) if service else frozenset()
        before, seen.instances = seen.instances, instances
        if instances == before:
            return
        if member.protocol.loading:  # nobody sees this state, and it may come from several others in turn
            seen.gone.clear()
            return
        version = service.version.to_text() if service else "none"
        for name in sorted(before - instances):
            self._world.trace(member.address, f"no longer lists {name} of {key}, at {version}", What.LIST, keys=(key,))
            client = self._clients[key, name]
            if self.strict and client.is_due:
                raise self.broken(
                    f"{member.address} drops {name} of {key}, although its client beats", Invariant.PRESENT, key
                )
            seen.gone[name] = self._known_ms(member, key, name, service.tombstones.get(name) if service else None)
        for name in sorted(instances - before):
            self._world.trace(member.address, f"lists {name} of {key}, at {version}", What.LIST, keys=(key,))
            known_ms = seen.gone.pop(name, -1)
            if self._life_ms.get((key, name), -1) <= known_ms:
                raise self.broken(
                    f"{name} of {key} is back at {member.address} with {version}: its removal covers beats until "
                    f"{known_ms} ms, and the last one was at {self._life_ms.get((key, name))} ms",
                    Invariant.GONE,
                    key,
                )

    def _known_ms(self, member: SimMember, key: str, name: str, tombstone: Tombstone | None) -> int:
        if tombstone is not None:
            return self._removals_ms[key, name, tombstone.version]
        removed_ms = self._last_removal_ms.get((key, name), self._world.now_ms)
        forgotten_ms = removed_ms + DELETE_TIMEOUT_MS + self._world.config.tombstone_slack_ms
        if self.removals_are_marked and self._world.now_ms < forgotten_ms:
            raise self.broken(f"{member.address} lost {name} of {key} without a removal", Invariant.GONE, key)
        return removed_ms

    def watch(self, span_ms: int) -> None:
        """Let the world run, and check repeatedly whether an instance that beats is missing."""
        recovered_ms, end_ms = self._world.now_ms + RECOVERY_MS, self._world.now_ms + span_ms
        while self._world.now_ms < end_ms:
            self._world.run(min(SAMPLE_MS, end_ms - self._world.now_ms))
            serving = [one for one in self._world.running() if one.serving]
            for client in self._world.clients:
                owners = [one for one in serving if one.owns(client.service)]
                self._sample(client, "its owner", owners, MISSING_MS_MAX)
                if self.strict:
                    for member in serving:
                        self._sample(client, member.address, [member], 0)
                if self._world.now_ms >= recovered_ms and self._has_beaten(client):
                    self._check_healthy(client, serving)

    def _has_beaten(self, client: SimClient) -> bool:
        since_ms = client.acknowledged_ms
        return client.is_due and since_ms is not None and self._world.now_ms - since_ms >= RECOVERY_MS

    def _check_healthy(self, client: SimClient, members: list[SimMember]) -> None:
        for member in members:
            self.checked[Invariant.HEALTHY] += 1
            stored = member.instances(client.datum_key).get(client.instance_key)
            if stored is not None and not stored.instance.healthy:
                text = f"{client.address} of {client.service} beats, but is unhealthy at {member.address}"
                raise self.broken(text, Invariant.HEALTHY, client.datum_key)

    def _sample(self, client: SimClient, where: str, members: list[SimMember], missing_ms_max: int) -> None:
        self.checked[Invariant.PRESENT] += 1
        if not client.is_due or (members and all(one.shows(client) for one in members)):
            self._missing_since_ms.pop((client.address, where), None)
            return
        missing_ms = self._world.now_ms - self._missing_since_ms.setdefault((client.address, where), self._world.now_ms)
        self.longest_missing_ms = max(self.longest_missing_ms, missing_ms)
        if missing_ms > missing_ms_max:
            text = f"{client.address} of {client.service} beats, but {where} has lacked it for {missing_ms} ms"
            raise self.broken(text, Invariant.PRESENT, client.datum_key)

    # --- at quiet ------------------------------------------------------------------------

    def check_quiet(self) -> None:
        """Check everything that must hold once the world is healed and has settled."""
        self.check_views()
        self.check_agreement()
        self._check_writers()
        self._check_instances()
        self.check_revisions()
        self.check_records()

    def check_views(self) -> None:
        for member in self._world.members.values():
            self.checked[Invariant.VIEWS] += 1
            servers = member.protocol.mapper.servers
            if member.protocol.loading or servers != tuple(sorted(self._world.addresses)):
                text = f"{member.address} sees only {servers}, loading {member.protocol.loading}"
                raise self.broken(text, Invariant.VIEWS)

    def check_digests(self) -> None:
        """Check that each member's digests equal those computed from all its keys."""
        for member in self._world.running():
            for name, component in member.components.items():
                component.digest.refresh()
                if told_by(component.digest) != told_by(
                    digest_from_scratch(component.store, component.store.versions())
                ):
                    raise self.broken(f"{member.address} has a digest of {name} that is not one of its keys")

    def check_agreement(self) -> None:
        first, *others = self._world.running()
        dump = first.dump()
        for other in others:
            self.checked[Invariant.AGREEMENT] += 1
            theirs = other.dump()
            if theirs != dump:
                keys = {key for key in dump.keys() | theirs.keys() if dump.get(key) != theirs.get(key)}
                raise self.broken(
                    f"{first.address} and {other.address} differ in {', '.join(sorted(keys))}",
                    Invariant.AGREEMENT,
                    min(keys),
                    {one.address: _held(one, min(keys)) for one in (first, other)},
                )
        for one in (first, *others):
            for other in (first, *others):
                self._check_removals(one, other)
                self._check_listed(one, other)

    def _check_removals(self, one: SimMember, other: SimMember) -> None:
        """Check that the removals that one member will remember for a while are known to the other, too."""
        for service in one.registry.table.services():
            there = other.registry.table.find(service.key)
            for name, tombstone in service.tombstones.items():
                if tombstone.at_ms + tombstone.keep_ms - one.clock.monotonic_ms() < ENDING_MS:
                    continue
                if there is None or name not in there.tombstones or there.version != service.version:
                    raise self.broken(
                        f"{one.address} has a removal of {name} of {service.key}, {other.address} has not",
                        Invariant.AGREEMENT,
                        service.key,
                        {side.address: _held(side, service.key) for side in (one, other)},
                    )
                self._world.marks["removals compared"] += 1

    def _check_listed(self, one: SimMember, other: SimMember) -> None:
        """Check that each service that one member lists, and is not about to forget, is listed by the other, too."""
        namespace = "public"
        for full_name in one.registry.table.names(namespace):
            service = one.registry.table.get(namespace, full_name)
            assert service is not None, "nothing else runs"
            if one.clock.monotonic_ms() < one.registry.upkeep.forgettable_at_ms(service) - ENDING_MS or service.stored:
                self._world.marks["empty services compared"] += not service.stored
                if full_name not in other.registry.table.names(namespace):
                    text = f"{one.address} lists {full_name}, {other.address} does not"
                    raise self.broken(text, Invariant.AGREEMENT, service.key)

    def _check_writers(self) -> None:
        for member in self._world.members.values():
            for key, service in member.stored():
                self.checked[Invariant.WRITER] += 1
                owner = member.protocol.mapper.map_srv(service.full_name)
                if service.version.writer.partition("~")[0] != owner:
                    text = f"{key} belongs to {owner}, but its version is {service.version.to_text()}"
                    raise self.broken(text, Invariant.WRITER, key)
                acknowledged = self._acknowledged.get(key, {})
                for other in self._world.members.values():
                    if acknowledged.get(other.writer, NO_VERSION) > service.version:
                        raise self.broken(
                            f"{other.address} acknowledged {acknowledged[other.writer].to_text()} of {key}, "
                            f"and {member.address} holds {service.version.to_text()}",
                            Invariant.WRITER,
                            key,
                        )

    def _check_instances(self) -> None:
        for client in self._world.clients:
            for member in self._world.members.values():
                stored = member.instances(client.datum_key).get(client.instance_key)
                if client.wish is not Wish.PRESENT:
                    if stored is not None:
                        text = f"{client.address} is gone, but {member.address} lists it"
                        raise self.broken(text, Invariant.GONE, client.datum_key)
                    continue
                if stored is None:
                    text = f"{client.address} beats, but {member.address} does not know it"
                    raise self.broken(text, Invariant.PRESENT, client.datum_key)
                if not stored.instance.healthy:
                    text = f"{client.address} beats, but is unhealthy at {member.address}"
                    raise self.broken(text, Invariant.HEALTHY, client.datum_key)

    def check_mixed(self) -> None:
        """Check in a cluster with real Nacos that all members list the instances that beat, and no others."""
        for client in self._world.clients:
            members: list[SimMember | SimNacos] = [*self._world.running(), *self._world.nacos.values()]
            for member in members:
                if member.shows(client) != (client.wish is Wish.PRESENT):
                    text = f"{client.address} is {client.wish.value}, but not at {member.address}"
                    raise self.broken(text, Invariant.AGREEMENT, client.datum_key)

    def check_revisions(self) -> None:
        """Check that each instance is shown as its client last described it with an acknowledgement."""
        for client in self._world.clients:
            allowed = self._revisions.get(client.address, Counter())
            for member in self._world.running():
                stored = member.instances(client.datum_key).get(client.instance_key)
                if stored is None or client.wish is not Wish.PRESENT or client.datum_key in self._uncertain:
                    continue
                revision = int((stored.instance.metadata or {})["revision"] or 0)
                self.checked[Invariant.ATTRIBUTES] += 1
                if allowed[revision] <= 0:
                    raise self.broken(
                        f"{member.address} has revision {revision} of {client.address}, not one of {dict(allowed)}",
                        Invariant.ATTRIBUTES,
                        client.datum_key,
                    )

    def check_records(self) -> None:
        """Check R14: all members have the last change of each durable record by a client, on their disks, too.

        The last one by time; of several so close that members cannot order them, the one with the highest version. A
        record that is read from a disk is dated by the wall clock, which may have jumped: then either may hold. A
        removal may be forgotten.
        """
        jumped = self._world.marks["wall clock set"] > 0
        members = self._world.running()
        for key in sorted({key for member in members for key in (*member.records.versions(), *self._words)}):
            words = self._words[key]
            latest_ms = max(at_ms for at_ms, _ in words)
            close = [one for at_ms, one in words if jumped or latest_ms - at_ms <= 2 * AGE_MARGIN_MS]
            allowed = {(revision_of(one), is_removed(one)) for one in close}
            first = members[0].record_disk.records.get(key)
            for member in members:
                self.checked[Invariant.WORDS] += 1
                record = next((datum.value for datum in member.records.datums([key])), None)
                if (revision_of(record), is_removed(record)) not in allowed:
                    text = f"{member.address} has {record}, but the last writes are {close}"
                    raise self.broken(text, Invariant.WORDS, key)
                stored = member.record_disk.records.get(key)
                if stored != record or (stored != first and not is_removed(stored)):
                    text = f"{member.address} has {record}, on disk {stored}; {members[0].address} has {first}"
                    raise self.broken(text, Invariant.WORDS, key)


def revision_of(record: Record | None) -> str | None:
    """Return the operator's revision that a record of an instance has."""
    return None if record is None or record.value is None else record.value.get("metadata", {}).get("revision")


def is_removed(record: Record | None) -> bool:
    return record is None or record.value is None


def _held(member: SimMember, key: str) -> str:
    """Return a member's state of a key as text: its version, its instances, and its known removals."""
    service = member.registry.table.find(key)
    if service is None:
        return "nothing"
    content = {name: (stored.instance, stored.version) for name, stored in service.stored.items()}
    removed = [f"{name} removed {one.version.to_text()}" for name, one in sorted(service.tombstones.items())]
    return f"{service.version.to_text()}: {', '.join([_shown(content) or 'no instance', *removed])}"


def _shown(content: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {instance.metadata} {'healthy' if instance.healthy else 'unhealthy'} {version.to_text()}"
        for name, (instance, version) in sorted(content.items())
    )
