"""ListState: the state of this member's instance lists under their versions, and each step that changes one of them.

A change costs the same in a list of ten and of ten thousand instances. A list that a peer sent is built outside the
lock and swapped in.
"""

from collections.abc import Iterable, Iterator, Mapping

from app.naming.model.keys import parse_datum_key
from app.naming.model.model import (
    DELETE_TIMEOUT_MS,
    NOT_DUE_MS,
    Instance,
    Service,
    StoredInstance,
    Tombstone,
)
from app.naming.registry.merge import InstanceList, shown, vanished
from app.naming.registry.recent_changes import RecentChanges
from app.naming.registry.service_table import ServiceTable
from distro.model.digest import ChangedKeys
from distro.model.types import NO_VERSION, Datum, Version

TOMBSTONE_SLACK_MS = 60_000
TOMBSTONE_KEEP_MS_MAX = 3_600_000
"""The longest time that a removal is remembered: a delete time-out may be of any length."""
TOMBSTONES_PER_SERVICE_MAX = 100_000
"""The most tombstones of a service; beyond it the oldest is dropped. Enough for the loss of a thousand addresses a
second for 90 s."""
TOMBSTONE_BYTES, TOMBSTONE_BYTES_MAX = 96, 1_400
"""The bytes of a tombstone on the wire: in addition to its key and its writer, and with the longest of both."""


class ListState:
    """The stored instances and tombstones of each service, under one version for replication.

    ``table`` has the services themselves, their other sources and the lock. The methods of the last section are steps
    for the holder of that lock; all others are thread-safe.
    """

    def __init__(
        self,
        writer: str,
        table: ServiceTable,
        changed: ChangedKeys,
        *,
        tombstone_slack_ms: int = TOMBSTONE_SLACK_MS,
        guard_ms: int = 0,
        alone: bool = False,
    ) -> None:
        """``writer`` names this run of this member in versions; ``changed`` collects the keys whose version changed.

        ``guard_ms``: how long instances that vanished without a tombstone are retained; 0 for a node without peers.
        ``alone``: no peer may have an instance that this member does not know.
        """
        self.writer = writer
        self.alone = alone
        self.tombstone_slack_ms = tombstone_slack_ms
        """How long a removal is remembered beyond its delete time-out, and an empty list beyond its last change."""
        self.floor = NO_VERSION
        """New lists begin above it: the highest epoch among the forgotten ones."""
        self.held_back = 0
        """How often the guard retained instances."""
        self._table = table
        self._changed = changed
        self._recent = RecentChanges(kept=not alone)
        self._guard_ms = guard_ms
        self._highest_own = NO_VERSION
        self._removals_bytes_max = table.admission.removals_bytes_max

    def version(self, key: str) -> Version | None:
        """Return the version of a list; None for an unknown or forgotten one."""
        service = self._table.find(key)
        return None if service is None or not service.version.writer else service.version

    def versions(self) -> dict[str, Version]:
        """Return the versions of all lists, by datum key."""
        return {one.key: one.version for one in self._table.services() if one.version != NO_VERSION}

    def highest_own(self) -> Version:
        """Return the highest version that this run gave to any list (R10)."""
        return self._highest_own

    def pop_changed(self) -> str | None:
        """Take one of the keys whose list got another version since it was last taken; None without any."""
        key = self._changed.pop()
        if key is not None:
            with self._table.lock:  # its change was noted under the lock, and is whole when that is free
                pass
        return key

    def datums(self, keys: Iterable[str]) -> Iterator[Datum]:
        """Return the datums of the known ones of these keys, each a consistent copy made when it is asked for."""
        for key in keys:
            service = self._table.find(key)
            if service is not None and (datum := self._datum(service)) is not None:
                yield datum

    def _datum(self, service: Service) -> Datum | None:
        def datum_of(parts: tuple[dict[str, StoredInstance], dict[str, Tombstone]]) -> Datum | None:
            if service.version == NO_VERSION:
                return None
            return Datum(service.key, service.version, InstanceList(*parts))

        return self._table.with_consistent_copy(
            service, lambda: (service.stored.copy(), service.tombstones.copy()), datum_of
        )

    def swap(self, key: str, expected: Version | None, version: Version, value: InstanceList, now_ms: int) -> bool:
        """Replace a list by another state, if its version is still ``expected``. Return whether it was replaced."""
        parsed = parse_datum_key(key)
        if parsed is None:
            return False
        clusters = {stored.instance.cluster_name for stored in value.stored.values()}
        shortest_timeout_ms = min([stored.shortest_timeout_ms for stored in value.stored.values()], default=NOT_DUE_MS)
        size = sum([stored.counted_bytes for stored in value.stored.values()])
        known = self._table.find(key)
        replaced: list[dict[str, StoredInstance]] = []

        def swap(lost: Mapping[str, Instance]) -> bool:
            found = self._table.find(key)
            if (found.version if found else NO_VERSION) != (expected or NO_VERSION):
                return False
            if found is None and not value.stored and all(one.unknown for one in value.tombstones.values()):
                service = self._table.open_hidden(*parsed, now_ms)
            else:
                service = self._table.open(*parsed, found, now_ms, key) if value.stored or found is None else found
            replaced.append(service.stored)
            if version.writer == self.writer:
                self._highest_own = max(self._highest_own, version)
                if service.version.writer != self.writer:
                    service.claimed_ms = now_ms
            self._table.count_stored(service, len(value.stored) - len(service.stored), size - service.stored_bytes)
            missing = lost if service is known else {}
            if missing or service.retained:
                self.retain(service, missing, now_ms)
            service.version, service.stored, service.tombstones = version, value.stored, value.tombstones
            service.tombstones_free = 0
            if service.recent is not None:
                self._recent.forget(service)
            self._changed.note(service.key)
            service.clusters = service.clusters | clusters
            service.shortest_timeout_ms, service.id_allocator = shortest_timeout_ms, None
            # If its writer has no removals left, their time is over, and does not begin again here.
            is_spent = not value.stored and not value.tombstones and version.writer != self.writer
            service.changed_ms = now_ms - self.tombstone_slack_ms - 1 if is_spent else now_ms
            service.revision += 1
            service.due_ms = 0
            self._table.hide_if_dropped(service)
            return True

        if known is None or not self._guard_ms:
            with self._table.lock:
                swapped = swap({})
        else:
            swapped = self._table.with_consistent_copy(known, lambda: vanished(shown(known), value), swap)
        if any(replaced):
            for name, old in replaced[0].items():
                new = value.stored.get(name)
                if new is not None and new is not old:
                    new.carry_beat(old)
            free_in_steps(replaced)
        return swapped

    # --- steps: the caller holds the lock ---------------------------------------------------------

    def put(
        self,
        service: Service,
        key: str,
        instance: Instance,
        now_ms: int,
        counted_bytes: int | None = None,
        *,
        differs: bool = False,
    ) -> str | None:
        """Store an instance in a list, unless the list already has it.

        ``counted_bytes``: as of ``StoredInstance``; ``differs``: the instance is known to differ from the stored one.
        """
        old = service.stored.get(key)
        if old is not None:
            old.beat_ms = old.last_confirmed_ms = old.changed_ms = now_ms  # it counts as a beat, changed or not
            if not differs and old.instance == instance:
                return None
        self.raise_version(service, now_ms, key)
        stored = StoredInstance(instance, service.version, now_ms, counted_bytes=counted_bytes)
        if not service.stored:
            service.shortest_timeout_ms = NOT_DUE_MS
        service.stored[key] = stored
        shortest_timeout_ms = stored.shortest_timeout_ms
        if shortest_timeout_ms < service.shortest_timeout_ms:
            service.shortest_timeout_ms = shortest_timeout_ms
        service.expect(now_ms + shortest_timeout_ms + 1)
        self._count(service, old, stored)
        service.tombstones.pop(key, None)
        service.retained.pop(key, None)
        service.clusters.add(instance.cluster_name)
        service.revision += 1
        if service.id_allocator is not None:
            service.id_allocator.give(old.instance.instance_id if old else None)
            service.id_allocator.take(instance.instance_id)
        return service.key

    def replace_by_tombstone(
        self, service: Service, key: str, stored: StoredInstance, now_ms: int, beat_ms: int | None = None
    ) -> None:
        """Remove an instance, stored or retained, from its list. ``beat_ms``: as in ``tombstone_of``."""
        self.raise_version(service, now_ms, key)
        self._count(service, service.stored.pop(key, None), None)
        service.retained.pop(key, None)
        service.revision += 1
        if service.id_allocator is not None:
            service.id_allocator.give(stored.instance.instance_id)
        tombstone = self.tombstone_of(stored, service.version, now_ms, beat_ms)
        service.tombstones[key] = tombstone
        self._bound_tombstones(service)
        service.expect(tombstone.at_ms + tombstone.keep_ms + 1)

    def remember_removal(self, service: Service, key: str, now_ms: int, *, unknown: bool) -> None:
        """Store a tombstone for an instance that is not in the list. ``unknown``: nor was it ever known here."""
        self.raise_version(service, now_ms, key)
        keep_ms = DELETE_TIMEOUT_MS + self.tombstone_slack_ms
        service.tombstones.pop(key, None)  # the latest goes to the end
        service.tombstones[key] = Tombstone(service.version, now_ms, keep_ms, unknown=unknown)
        service.revision += 1
        self._bound_tombstones(service)
        service.expect(now_ms + keep_ms + 1)

    def tombstone_of(
        self, stored: StoredInstance, version: Version, now_ms: int, beat_ms: int | None = None
    ) -> Tombstone:
        """Return the removal of an instance. ``beat_ms``: its last beat, if it is removed because no other came."""
        at_ms = now_ms if beat_ms is None else beat_ms
        keep_ms = min(stored.instance.delete_timeout_ms + self.tombstone_slack_ms, TOMBSTONE_KEEP_MS_MAX)
        return Tombstone(version, at_ms, keep_ms + now_ms - at_ms)

    def bound(self, tombstones: dict[str, Tombstone]) -> int:
        """Drop the oldest tombstones beyond the bounds. Return how many more fit, with any keys."""
        bound_tombstones(tombstones)
        return bound_tombstone_bytes(tombstones, self._removals_bytes_max)

    def _bound_tombstones(self, service: Service) -> None:
        """Drop the oldest tombstones beyond the bound, after one was added."""
        if len(service.tombstones) > TOMBSTONES_PER_SERVICE_MAX:
            bound_tombstones(service.tombstones)
        service.tombstones_free -= 1
        if service.tombstones_free < 0:
            service.tombstones_free = bound_tombstone_bytes(service.tombstones, self._removals_bytes_max)

    def take(self, service: Service, parts: InstanceList, version: Version, now_ms: int) -> None:
        """Store the instances and removals of a peer's change in the list, and give it the version of that."""
        held, tombstones, came, size = service.stored, service.tombstones, 0, 0
        for key, tombstone in parts.tombstones.items():
            if (old := held.pop(key, None)) is not None:
                came -= 1
                size -= old.counted_bytes
            tombstones.pop(key, None)  # the latest goes to the end
            tombstones[key] = tombstone
            self._bound_tombstones(service)
            service.expect(tombstone.at_ms + tombstone.keep_ms + 1)
        for key, stored in parts.stored.items():
            old = held.get(key)
            held[key] = stored
            if old is None:
                came += 1
            else:
                size -= old.counted_bytes
                stored.carry_beat(old)
            size += stored.counted_bytes
            tombstones.pop(key, None)
            service.clusters.add(stored.instance.cluster_name)
            shortest_timeout_ms = stored.shortest_timeout_ms
            if shortest_timeout_ms < service.shortest_timeout_ms:
                service.shortest_timeout_ms = shortest_timeout_ms
            service.expect(stored.beat_ms + shortest_timeout_ms + 1)
        if size or came:
            self._table.count_stored(service, came, size)
        self.took(service, version, now_ms)

    def took(self, service: Service, version: Version, now_ms: int) -> None:
        """Give the list the version of the peer's change that it now has."""
        service.id_allocator = None
        if service.recent is not None:
            self._recent.forget(service)
        service.version = version
        self._changed.note(service.key)
        service.revision += 1
        service.changed_ms = now_ms
        if service.dropped:
            self._table.hide_if_dropped(service)

    def forget(self, service: Service) -> None:
        """Drop a list and its version (R6). The service stays if it has other sources."""
        # A new list of this key must not repeat a version: other members may still remember it.
        self.floor = max(self.floor, Version(service.version.epoch, 0, ""))
        self._table.count_stored(service, -len(service.stored), -service.stored_bytes)
        service.version, service.stored, service.tombstones, service.id_allocator = NO_VERSION, {}, {}, None
        self._recent.forget(service)
        self._changed.note(service.key)
        service.revision += 1
        service.due_ms = 0
        self._table.drop_if_bare(service)

    def retain(self, service: Service, lost: Mapping[str, Instance], now_ms: int) -> None:
        """Keep showing ``lost`` instances for a while; see ``guard``."""
        if not self._guard_ms:
            return
        if lost and not service.retained:
            service.retained_until_ms = now_ms + self._guard_ms
            self.held_back += 1
        service.retained = dict(lost)

    def _count(self, service: Service, old: StoredInstance | None, new: StoredInstance | None) -> None:
        """Count an instance of the list that came, went or was replaced."""
        size = (new.counted_bytes if new is not None else 0) - (old.counted_bytes if old is not None else 0)
        came = (new is not None) - (old is not None)
        if size or came:
            self._table.count_stored(service, came, size)

    def raise_version(self, service: Service, now_ms: int, key: str = "") -> None:
        """Give a list the version of its next change. The first one after another writer restarts its time-outs (R2).

        ``key``: the instance that changes; empty if it is not a single one, and peers need the whole list. The caller
        raises ``revision`` after the change: readers would keep the former contents as those of the new revision.
        """
        known, writer = service.version, self.writer
        is_next = known.writer == writer
        version = Version(known.epoch, known.counter + 1, writer) if is_next else self.next_version(service)
        if version.epoch != service.version.epoch:
            service.claimed_ms = now_ms
            service.due_ms = 0
            if service.recent is not None:
                self._recent.forget(service)
        self.give_version(service, version, now_ms, key)

    def give_version(self, service: Service, version: Version, now_ms: int, key: str = "") -> None:
        """Give a list a version of this member. ``key``: as in ``raise_version``."""
        service.version = version
        if not self.alone:  # both are for peers
            self._changed.note(service.key)
            if key:
                self._recent.note(service, key)
            else:
                self._recent.forget(service)
        highest = self._highest_own  # compared by hand: each change comes here, and its writer is this member
        if version.epoch > highest.epoch or (version.epoch == highest.epoch and version.counter > highest.counter):
            self._highest_own = version
        service.changed_ms = now_ms

    def next_version(self, service: Service) -> Version:
        """Return the version of a list's next change by this member."""
        if service.version.writer == self.writer:
            return service.version.next(self.writer)
        return self.above_forgotten(service.version).next(self.writer)

    def above_forgotten(self, version: Version) -> Version:
        """Return the version; for no list, or one of real Nacos, no lower than that of any list forgotten here.

        Other members may still have such a key under a version of this run.
        """
        return max(version, self.floor) if version.epoch == NO_VERSION.epoch else version


def bound_tombstones(tombstones: dict[str, Tombstone]) -> None:
    """Drop the oldest tombstones beyond ``TOMBSTONES_PER_SERVICE_MAX``."""
    while len(tombstones) > TOMBSTONES_PER_SERVICE_MAX:
        del tombstones[next(iter(tombstones))]


def bound_tombstone_bytes(tombstones: dict[str, Tombstone], bytes_max: int) -> int:
    """Drop the oldest tombstones beyond ``bytes_max``, and a few more. Return how many more fit, with any keys.

    0 means no bound.
    """
    if bytes_max == 0:
        return TOMBSTONES_PER_SERVICE_MAX
    sizes = [
        (len(key) if key.isascii() else len(key.encode())) + len(one.version.writer) + TOMBSTONE_BYTES
        for key, one in tombstones.items()
    ]
    size = sum(sizes)
    if size > bytes_max:
        for key, one_size in zip(list(tombstones), sizes, strict=True):
            if size <= bytes_max * 7 // 8:
                break
            del tombstones[key]
            size -= one_size
    return (bytes_max - size) // TOMBSTONE_BYTES_MAX


def free_in_steps(replaced: list[dict[str, StoredInstance]]) -> None:
    """Free the instances of replaced lists one by one: freeing all at once stops every thread for many milliseconds.

    The caller keeps no other reference. The mappings stay as they are: readers without the lock may be on them.
    """
    while replaced:
        left = list(replaced.pop().values())
        while left:
            left.pop()
