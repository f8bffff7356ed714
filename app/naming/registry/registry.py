"""Registry: what is done to the services of this member, in place and under their lock.

A change costs the same in a service of ten and of ten thousand instances. Readers get an immutable view, made when
asked for and kept until the next change. What peers send is built outside the lock and swapped in.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from app.naming.model.id_allocator import IdAllocator
from app.naming.model.keys import parse_datum_key
from app.naming.model.meta import ServiceMeta
from app.naming.model.model import NEVER_MS, Instance, Service, StoredInstance, Tombstone
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry import operations
from app.naming.registry.guard import vanished
from app.naming.registry.merge import NO_INSTANCES, InstanceList, covers, merge
from app.naming.registry.published import PublishedTable
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, bound_tombstones, free_in_steps, shown
from app.naming.registry.service_table import Counts as Counts
from app.naming.registry.union import published_clusters
from distro.types import NO_VERSION, Datum, Merged, Version

SWAP_TRIES_MAX = 20


class Registry(PublishedTable):
    """What local operations, durable records and replication do to the services."""

    # --- local changes ----------------------------------------------------------------------------

    def register(self, command: operations.RegisterInstance, now_ms: int) -> str | None:
        """Put an instance in, or replace it; return the datum key when that changed something."""
        if operations.is_numbered(command.metadata):
            self._make_id_allocator(command.namespace, command.service)
        with self._lock:
            service = self._open(command.namespace, command.service, now_ms)
            key = operations.key_of(command)
            old = service.stored.get(key)
            if old is not None and operations.is_registered(old.instance, command):
                old.beat_ms = old.last_confirmed_ms = now_ms
                return None
            known = old.instance if old else None
            instance = operations.register(known, command, service.id_allocator or service.ids(), self._shared)
            return self._put(service, key, instance, now_ms)

    def _make_id_allocator(self, namespace: str, full_name: str) -> None:
        """Find out, without the lock, which numbers are ids already; a small service is looked through when needed."""
        service = self.get(namespace, full_name)
        if service is None or service.id_allocator is not None or len(service.stored) <= COPIED_UNDER_LOCK_MAX:
            return
        found = service

        def know(id_allocator: IdAllocator) -> None:
            found.id_allocator = id_allocator

        self._with_consistent_copy(service, lambda: IdAllocator(found.ids()), know)

    def put_from_beat(self, command: operations.Beat, now_ms: int) -> str | None:
        """Bring back the instance of a full beat, unless it is there by now."""
        if operations.is_numbered(command.metadata):
            self._make_id_allocator(command.namespace, command.service)
        with self._lock:
            service = self._open(command.namespace, command.service, now_ms)
            key = operations.key_of(command)
            if key in service.stored:
                return None
            instance = operations.instance_from_beat(command, service.id_allocator or service.ids(), self._shared)
            return self._put(service, key, instance, now_ms)

    def patch(self, command: operations.PatchInstance, now_ms: int) -> str | None:
        """Change attributes of an instance.

        Raises:
            InvalidParam: there is no such instance.
        """
        with self._lock:
            service = self.get(command.namespace, command.service)
            key = operations.key_of(command)
            old = service.stored.get(key) if service else None
            if service is None or old is None:
                raise InvalidParam("instance not found")
            return self._put(service, key, operations.patch(old.instance, command), now_ms)

    def set_health(self, service: Service, key: str, healthy: bool, now_ms: int, beat_ms: int | None = None) -> bool:
        """Flip an instance's health; not if it is gone, marked, so already, or was heard of since ``beat_ms``."""
        with self._lock:
            stored = service.stored.get(key)
            if stored is None or stored.instance.marked or stored.instance.healthy == healthy:
                return False
            if beat_ms is not None and stored.beat_ms != beat_ms:
                return False
            self._raise_version(service, now_ms)
            instance = replace(stored.instance, healthy=healthy)
            service.stored[key] = StoredInstance(
                instance, service.version, stored.beat_ms, stored.client_version, stored.last_confirmed_ms
            )
            wait_ms = stored.shortest_timeout_ms if healthy else stored.delete_timeout_ms
            self._expect(service, max(stored.beat_ms, service.claimed_ms) + wait_ms + 1)
            return True

    def set_metadata(
        self, namespace: str, full_name: str, key: str, change: operations.ChangeMetadata, now_ms: int
    ) -> str | None:
        """Change single keys of an instance's metadata; return the datum key when that changed something."""
        with self._lock:
            service = self.get(namespace, full_name)
            stored = service.stored.get(key) if service else None
            if service is None or stored is None:
                return None
            return self._put(service, key, operations.change_metadata(stored.instance, change), now_ms)

    def take_health(self, service: Service, healthy: Mapping[str, bool]) -> bool:
        """Take over what the owner says of its instances' health, by address; return whether that changed any.

        No version rises: the list is the owner's. Only copies of what real Nacos owns are told so.
        """
        flipped = [
            key
            for key, stored in service.stored.copy().items()
            if healthy.get(f"{stored.instance.ip}:{stored.instance.port}", stored.instance.healthy)
            is not stored.instance.healthy
        ]
        changed = False
        for start in range(0, len(flipped), COPIED_UNDER_LOCK_MAX):
            with self._lock:
                for key in flipped[start : start + COPIED_UNDER_LOCK_MAX]:
                    stored = service.stored.get(key)
                    if stored is None or stored.instance.marked:
                        continue
                    wanted = healthy[f"{stored.instance.ip}:{stored.instance.port}"]
                    if stored.instance.healthy is wanted:
                        continue
                    instance = replace(stored.instance, healthy=wanted)
                    service.stored[key] = StoredInstance(
                        instance, stored.version, stored.beat_ms, stored.client_version, stored.last_confirmed_ms
                    )
                    changed = True
                    service.revision += 1
                    service.due_ms = 0
        return changed

    def remove(self, namespace: str, full_name: str, key: str, now_ms: int, beat_ms: int | None = None) -> str | None:
        """Take an instance out and remember it as removed; return the datum key when it was there.

        With ``beat_ms`` it expires: only if it was not heard of since.
        """
        with self._lock:
            service = self.get(namespace, full_name)
            stored = service.stored.get(key) if service else None
            if service is not None and stored is None and beat_ms is None and key in service.retained:
                stored = StoredInstance(
                    service.retained[key], NO_VERSION, now_ms
                )  # it had vanished without a cause: this is one
            if service is None or stored is None or (beat_ms is not None and stored.beat_ms != beat_ms):
                return None
            self._replace_by_tombstone(service, key, stored, now_ms, beat_ms)
            return service.key

    def empty(self, namespace: str, full_name: str, now_ms: int) -> str | None:
        """Take all ephemeral instances out, in one change; return the datum key when there were any."""
        found = self.get(namespace, full_name)
        if found is None:
            return None
        service = found
        replaced: list[dict[str, StoredInstance]] = []

        def tombstones() -> dict[str, Tombstone] | None:
            version = self._next_version(service)
            retained = {
                key: StoredInstance(retained_instance, NO_VERSION, now_ms)
                for key, retained_instance in service.retained.copy().items()
            }
            gone = retained | service.stored.copy()
            if not gone:
                return None
            known = service.tombstones.copy()
            known.update({key: self._tombstone_of(stored, version, now_ms) for key, stored in gone.items()})
            bound_tombstones(known)
            return known

        def empty(tombstones: dict[str, Tombstone] | None) -> bool:
            if tombstones is None:
                return False
            self._raise_version(service, now_ms)
            replaced.append(service.stored)
            service.stored, service.retained, service.tombstones, service.id_allocator = {}, {}, tombstones, None
            service.due_ms = 0
            self._hide_if_dropped(service)
            return True

        emptied = self._with_consistent_copy(service, tombstones, empty)
        free_in_steps(replaced)
        return service.key if emptied else None

    # --- durable parts, projected from records ----------------------------------------------------

    def set_meta(self, namespace: str, full_name: str, meta: ServiceMeta | None, now_ms: int) -> None:
        """Take a service's description over; None: the service was removed by its own call."""
        with self._lock:
            if meta is not None:
                service = self._open(namespace, full_name, now_ms)
                service.clusters = service.clusters | meta.clusters.keys()
            else:
                found = self.get(namespace, full_name)
                if found is None:
                    return
                service = found
                service.dropped = True
                service.clusters = {one.instance.cluster_name for one in service.stored.values()}
                service.clusters |= published_clusters(service)
            service.meta = meta
            service.revision += 1
            self._hide_if_dropped(service)

    def set_persistent(self, namespace: str, full_name: str, key: str, instance: Instance | None, now_ms: int) -> None:
        """Take a persistent instance over; None: it was removed."""
        with self._lock:
            if instance is not None:
                service = self._open(namespace, full_name, now_ms)
                service.persistent[key] = instance
                service.clusters = service.clusters | {instance.cluster_name}
            else:
                found = self.get(namespace, full_name)
                if found is None or key not in found.persistent:
                    return
                service = found
                del service.persistent[key]
            service.revision += 1
            self._hide_if_dropped(service)

    # --- what replication does --------------------------------------------------------------------

    def version(self, key: str) -> Version | None:
        service = self._services.get(key)
        return None if service is None or service.version == NO_VERSION else service.version

    def versions(self) -> dict[str, Version]:
        return {one.key: one.version for one in self.services() if one.version != NO_VERSION}

    def datums(self, keys: Iterable[str]) -> Iterator[Datum]:
        """Today's datums of those keys that are known; each is one moment of its service."""
        for key in keys:
            service = self._services.get(key)
            if service is not None and (datum := self._datum(service)) is not None:
                yield datum

    def _datum(self, service: Service) -> Datum | None:
        def datum_of(parts: tuple[dict[str, StoredInstance], dict[str, Tombstone]]) -> Datum | None:
            if service.version == NO_VERSION:
                return None
            return Datum(service.key, service.version, InstanceList(*parts))

        return self._with_consistent_copy(service, lambda: (service.stored.copy(), service.tombstones.copy()), datum_of)

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        """Put a received datum in the place of the held one, if that is still ``expected``."""
        value: InstanceList = datum.value
        self._take_over(datum, value.stored)
        return self._swap(datum.key, expected, datum.version, value, now_ms)

    def _take_over(self, datum: Datum, received: dict[str, StoredInstance]) -> None:
        """Give received instances what is known of them here: their last beats, and the equal parts in memory."""
        service = self._services.get(datum.key)
        known = service.stored if service is not None else {}
        for key, stored in received.items():
            old = known.get(key)
            if stored.version == NO_VERSION:  # from a member that keeps none
                stored.version = stored.client_version = datum.version
            if old is None:
                stored.last_confirmed_ms = NEVER_MS
                self._shared.settle(stored)
                continue
            stored.last_confirmed_ms = old.last_confirmed_ms
            stored.beat_ms = max(stored.beat_ms, old.beat_ms)
            if stored.version == old.version and stored.client_version == old.client_version:
                stored.version, stored.client_version = old.version, old.client_version
            if stored.instance == old.instance:
                stored.instance = old.instance  # with what readers made of it
            else:
                self._shared.settle(stored)

    def take_change(
        self,
        key: str,
        instance_key: str,
        version: Version,
        stored: StoredInstance | None,
        tombstone: Tombstone | None,
        now_ms: int,
    ) -> bool:
        """Take over one change that its owner made, if it is the next one of what is held here; never out of order.

        ``stored`` is the instance after it, ``tombstone`` its removal.
        """
        parsed = parse_datum_key(key)
        if parsed is None:
            return False
        if stored is not None:
            self._shared.settle(stored)
        with self._lock:
            service = self._services.get(key)
            known = service.version if service else NO_VERSION
            if known == NO_VERSION:
                if version.counter or version.epoch != 1:
                    return False  # not the first change of the key: there is more than we hold
                service = self._open(*parsed, now_ms)
            elif (known.epoch, known.writer, known.counter + 1) != (version.epoch, version.writer, version.counter):
                return False
            assert service is not None
            service.retained.pop(instance_key, None)
            service.id_allocator = None
            if stored is not None:
                self._open(*parsed, now_ms)  # one that was removed by its own call is seen again
                old = service.stored.get(instance_key)
                stored.last_confirmed_ms = old.last_confirmed_ms if old else NEVER_MS
                stored.beat_ms = max(stored.beat_ms, old.beat_ms) if old else stored.beat_ms
                service.stored[instance_key] = stored
                service.tombstones.pop(instance_key, None)
                service.clusters.add(stored.instance.cluster_name)
                service.shortest_timeout_ms = min(service.shortest_timeout_ms, stored.shortest_timeout_ms)
                self._expect(service, stored.beat_ms + stored.shortest_timeout_ms + 1)
            elif tombstone is not None:
                service.stored.pop(instance_key, None)
                service.tombstones[instance_key] = tombstone
                bound_tombstones(service.tombstones)
                self._expect(service, tombstone.at_ms + tombstone.keep_ms + 1)
            service.version = version
            service.revision += 1
            service.changed_ms = now_ms
            self._hide_if_dropped(service)
            return True

    def is_covered(self, datum: Datum) -> bool:
        """Whether the datum knows of every change that is held here."""
        stored = next(self.datums([datum.key]), None)
        return stored is None or covers(datum.value, stored.value)

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        """Bring a received datum and the held one together; see ``app.naming.registry.merge``."""
        for one in datum.value.stored.values():
            self._shared.settle(one)
        for _ in range(SWAP_TRIES_MAX):
            stored = next(self.datums([datum.key]), None)
            ours = stored or Datum(datum.key, self._floor, NO_INSTANCES)
            version = max(ours.version, datum.version).next(self.writer)
            merged = merge(ours.value, datum.value, version)
            if datum.version <= ours.version and merged.version_summary == ours.value.version_summary:
                return Merged.NOTHING
            ended = Merged.MADE
            if datum.version > ours.version and merged.version_summary == datum.value.version_summary:
                version, ended = datum.version, Merged.TAKEN
            if self._swap(datum.key, stored.version if stored else None, version, merged, now_ms):
                replaced = [ours.value.stored]
                del stored, ours
                free_in_steps(replaced)
                return ended
        return Merged.NOTHING  # local changes go on all the time; the next verify round tries again

    def claim(self, key: str, now_ms: int) -> bool:
        """Become the writer of a key that another wrote."""
        with self._lock:
            service = self._services.get(key)
            if service is None or service.version == NO_VERSION or service.version.writer == self.writer:
                return False
            self._raise_version(service, now_ms)
            return True

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        """Whether a key holds nothing, no removal either, and has not changed for the time that removals are kept."""
        service = self._services.get(key)
        return (
            service is not None
            and service.version != NO_VERSION
            and not service.stored
            and not service.tombstones
            and now_ms - service.changed_ms > self._slack_ms
        )

    def forgettable_at_ms(self, service: Service) -> int:
        """From when on ``is_forgettable`` holds, if nothing changes."""
        return service.changed_ms + self._slack_ms + 1

    def forget(self, key: str, now_ms: int | None = None) -> None:
        """Drop what is held of a key; a service with a description of its own stays, without instances.

        With ``now_ms`` the instances go because a peer no longer lists the key: that loss is not shown at once.
        """
        found = self._services.get(key)
        if found is None:
            return
        service = found
        replaced: list[dict[str, StoredInstance]] = []

        def forget(lost: Mapping[str, Instance]) -> None:
            if self._services.get(key) is not service:
                return
            if now_ms is not None:
                self._retain(service, lost, now_ms)
            # What comes back under this key must not repeat a version: other members may still remember it.
            self._floor = max(self._floor, Version(service.version.epoch, 0, ""))
            replaced.append(service.stored)
            service.version, service.stored, service.tombstones, service.id_allocator = NO_VERSION, {}, {}, None
            service.revision += 1
            service.due_ms = 0
            self._drop_if_bare(service)

        if now_ms is None:
            with self._lock:
                forget({})
        else:
            self._with_consistent_copy(service, lambda: vanished(shown(service), NO_INSTANCES), forget)
        free_in_steps(replaced)
