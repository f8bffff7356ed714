"""Datums and versions that peers send: ``resolve`` decides by the rules, ``DistroReceiver`` carries it out key by key.

Called on the threads of the frontends and of the peers' workers. The rules are stated in docs/replication.md.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from distro.errors import CodecError, NotInitialized
from distro.mapper import DistroMapper
from distro.monitor import DistroStats
from distro.paced import paced
from distro.ports import Component, Components
from distro.types import NO_VERSION, Datum, DistroKey, Merged, Received, Resolution, Version
from distro.version_check import VersionCheck

LOG = logging.getLogger(__name__)
FETCHED_MAX = 50_000
"""Keys that are fetched after one verify round; what differs beyond that does so in the next round, too."""
RESTORES_MAX = 1_000
"""Peers' states, of one key each, that are to be fetched and restored from; beyond it the oldest is dropped."""
RESTORE_MS = 15_000
"""So long after it was asked for, a state that is fetched is restored from."""
TRIES_MAX = 20
"""So often a local change may come between the decision on a datum and its storing; then a verify round repairs it."""


@dataclass(frozen=True, slots=True)
class KeyVersions:
    """What ``resolve`` knows of a received datum and of this node's state of its key."""

    stored: Version | None
    """The version of this node's state; None for an unknown key."""
    received: Version
    """The version of the datum; ``NO_VERSION`` from real Nacos."""
    is_owner: bool
    """This node is responsible for the key by its own view."""
    sender_is_owner: bool
    """The sender is responsible for the key by this node's view."""
    fetched: bool
    """The datum answers a query that this node made just now, and is no late copy; or its sender can be asked none."""


def resolve(versions: KeyVersions) -> Resolution:
    """What becomes of a received datum: the rules R3, R4 and R8 for one key.

    Versions of two writers do not show whether the higher state contains the changes of the lower one. So that no
    acknowledged change is lost when a key gets another writer, the owner merges what another member wrote even if
    that is lower, and every other member takes a new writer's state only if it contains all changes of the stored
    one. The sender of a datum that is refused fetches and merges the state that it lacks: all take the outcome.
    """
    stored, received = versions.stored, versions.received
    if received == NO_VERSION:  # R8: from real Nacos
        if versions.is_owner:
            return Resolution.MERGE
        return Resolution.APPLY if stored is None or versions.sender_is_owner else Resolution.REFUSE
    if stored is None:
        return Resolution.APPLY
    if received == stored:
        return Resolution.EQUAL
    if received.writer == stored.writer:  # R3: one writer's versions have one order
        return Resolution.APPLY if received > stored else Resolution.REFUSE
    if versions.is_owner:  # R4
        return Resolution.MERGE if versions.fetched else Resolution.FETCH
    return Resolution.TAKE_OVER if received > stored else Resolution.REFUSE


class ReceiverEvents(Protocol):
    """The events that a receiver has for the protocol; each call only puts one into the mailbox."""

    def sync(self, key: DistroKey) -> None:
        """This node made a new state of the key, which is to be sent."""

    def claim(self, key: DistroKey) -> None:
        """This node is responsible for the key, whose state has another writer (R2)."""

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        """The peer has a state of these keys that this node lacks."""


class DistroReceiver:
    """Takes datums and verify rounds of peers. Thread-safe: each key's change is atomic in its store."""

    def __init__(
        self,
        own_writer: str,
        components: Components,
        mapper_of: Callable[[str], DistroMapper],
        is_loading: Callable[[], bool],
        events: ReceiverEvents,
        stats: DistroStats,
        is_known_writer: Callable[[str], bool],
    ) -> None:
        """``is_known_writer``: whether a version's writer is a member that is listed, or was until lately (R10)."""
        self._own_writer = own_writer
        self._check = VersionCheck(own_writer, components, is_known_writer)
        self._components = components
        self._mapper_of = mapper_of
        self.is_loading = is_loading
        self._events = events
        self._stats = stats
        self._restores: dict[DistroKey, tuple[str, int]] = {}
        """The peer whose next state of a key, that is fetched until then, is restored from."""
        self._absent: dict[str, frozenset[str]] = {}
        """The keys of each member of real Nacos that it did not name in its last round."""

    def receive(
        self, resource_type: str, sender: str, datums: Iterable[Datum], now_ms: int, *, fetched: bool = False
    ) -> Received:
        """Take datums one by one; return which keys were refused and which failed, each alone.

        ``fetched``: the datums answer a query of this node, made just now, or come from a member that left the list.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        refused: dict[str, Version] = {}
        failed: dict[str, str] = {}
        for datum in paced(datums):
            self._stats.received_keys += 1
            try:
                self._check.check(resource_type, datum)
                own = self._receive_one(DistroKey(resource_type, datum.key), sender, datum, now_ms, fetched)
            except CodecError as error:
                self._stats.received_failed += 1
                failed[datum.key] = str(error)
                continue
            if own is not None:
                self._stats.received_refused += 1
                refused[datum.key] = own
            else:
                self._check.accept(datum.version)
        return Received(refused, failed)

    def restore(self, peer: str, keys: Iterable[DistroKey], now_ms: int) -> None:
        """When the peer's states of these keys are fetched next, take from them what is unknown here."""
        for key in keys:
            self._restores.pop(key, None)  # the latest last
            self._restores[key] = peer, now_ms + RESTORE_MS
        for one in list(self._restores)[:-RESTORES_MAX]:
            self._restores.pop(one, None)

    def receive_known(self, resource_type: str, versions: Mapping[str, Version]) -> tuple[frozenset[str], Received]:
        """Answer for datums that say nothing new (R3), before anybody reads their values; return their keys and that.

        Nearly all datums of a member that passes writes on are such: it had each change from the owner's answer.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        store = self._components[resource_type].store
        known: dict[str, Version] = {}
        for name, version in paced(versions.items()):
            stored = store.version(name)
            if stored is not None and stored.has_had(version):
                known[name] = stored
        refused = {name: stored for name, stored in known.items() if stored != versions[name]}
        self._stats.received_keys += len(known)
        self._stats.received_refused += len(refused)
        return frozenset(known), Received(refused)

    def _receive_one(self, key: DistroKey, sender: str, datum: Datum, now_ms: int, fetched: bool) -> Version | None:
        """Take one datum; return the stored version if the datum was refused."""
        component = self._components[key.resource_type]
        mapper = self._mapper_of(key.resource_type)
        tag = component.store.tag(datum.key)
        owner = mapper.map_srv(tag)
        # A standalone node has nobody to merge with: it takes every datum that is put, as real Nacos does.
        is_owner = owner == mapper.self_address and not mapper.standalone
        if mapper.standalone:
            owner = sender = self._own_writer
        for _ in range(TRIES_MAX):
            stored = component.store.version(datum.key)
            match resolve(KeyVersions(stored, datum.version, is_owner, sender == owner, fetched)):
                case Resolution.EQUAL:
                    if fetched and is_owner:
                        self._reissue(component, key, sender, datum, now_ms)
                    return None
                case Resolution.REFUSE:
                    if fetched and is_owner:
                        self._reissue(component, key, sender, datum, now_ms)
                    # R8: real Nacos would repeat a send that is refused for ever.
                    return None if datum.version == NO_VERSION else stored
                case Resolution.TAKE_OVER if not component.store.is_covered(datum):
                    return stored
                case Resolution.APPLY | Resolution.TAKE_OVER:
                    if component.store.apply(self._dated(datum, stored, sender), stored, now_ms):
                        if is_owner:
                            self._events.claim(key)
                        return None
                case Resolution.FETCH:
                    self._events.fetch(sender, [key])
                    return None
                case Resolution.MERGE:
                    self._merge(component, key, datum, now_ms)
                    return None
        raise CodecError("the key changes too fast here; the next verify round repairs it")

    def _reissue(self, component: Component, key: DistroKey, sender: str, datum: Datum, now_ms: int) -> None:
        """R3: of what the owner fetched in the stored version the values count, too; all take the owner's anew."""
        source, until_ms = self._restores.get(key, ("", now_ms))
        restoring = source == sender and now_ms < until_ms
        if restoring:
            self._restores.pop(key, None)
        elif now_ms < until_ms:
            return  # a new version would have the source drop what is to come back from it
        if component.store.reissue(datum, now_ms, restoring=restoring):
            self._stats.reissued += 1
            self._events.sync(key)

    def _merge(self, component: Component, key: DistroKey, datum: Datum, now_ms: int) -> None:
        self._stats.received_merged += 1
        match component.store.merge(datum, now_ms):
            case Merged.MADE:
                self._events.sync(key)
            case Merged.TAKEN:
                self._events.claim(key)
            case Merged.NOTHING:
                pass

    @staticmethod
    def _dated(datum: Datum, stored: Version | None, sender: str) -> Datum:
        """The datum with a version: without its own (R8) it gets the next counter, so that a later claim is above."""
        if datum.version != NO_VERSION:
            return datum
        base = stored or NO_VERSION
        return replace(datum, version=Version(base.epoch, base.counter + 1, sender))

    def load(self, resource_type: str, datums: Iterable[Datum], now_ms: int, sender: str) -> int:
        """Take a peer's snapshot (R7): of each key the highest version stays. Return the number of keys taken.

        ``sender`` counts as the writer of datums without a version (R8): without one no member could read theirs.
        A snapshot that comes after the end of the load is dropped: verify rounds bring what is missing.
        """
        component = self._components[resource_type]
        taken = 0
        if not self.is_loading():
            return taken
        for datum in datums:
            stored = component.store.version(datum.key)
            if stored is not None and (datum.version == NO_VERSION or datum.version <= stored):
                continue
            try:
                self._check.check(resource_type, datum, loading=True)
                taken += component.store.apply(self._dated(datum, stored, sender), stored, now_ms)
                self._check.accept(datum.version)
            except CodecError as error:
                self._stats.received_failed += 1
                LOG.warning("%s of a snapshot cannot be taken: %s", datum.key, error)
        return taken

    def serve(self, resource_type: str, keys: Iterable[str] | None) -> list[Datum]:
        """The datums of the keys, all for None."""
        store = self._components[resource_type].store
        datums = list(store.datums(store.versions() if keys is None else keys))
        if keys is not None:
            self._stats.served_keys += len(datums)
        return datums

    # --- verify ----------------------------------------------------------------------------------

    def verify(self, resource_type: str, source: str, versions: Mapping[str, Version], now_ms: int) -> Received:
        """Compare the versions of the source's keys with ours: fetch what the source has newer, answer what it lacks.

        A state by another writer counts as one that the source lacks even if its version is lower (R4): the source
        owns the key and is the one to merge. So does a key that it owns by our view and does not name: absence
        deletes nothing, only forgettable keys are dropped (R6).

        Of a resource type that is owned by its writers nothing is fetched: the answer asks for it, and the source
        sends it.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        self._stats.verify_received += 1
        component = self._components[resource_type]
        mapper = self._mapper_of(resource_type)
        newer: dict[str, Version] = {}
        wanted: list[DistroKey] = []
        equal: list[str] = []
        for name, version in paced(versions.items()):
            stored = component.store.version(name)
            if stored == version:
                equal.append(name)
                continue
            if stored is not None and (version < stored or version.writer != stored.writer):
                newer[name] = stored
            else:
                wanted.append(DistroKey(resource_type, name))
        if component.on_verified is not None:
            component.on_verified(equal, now_ms)
        for name, stored in component.store.versions().items():
            if name not in versions and mapper.map_srv(component.store.tag(name)) == source:
                if component.store.is_forgettable(name, now_ms):
                    component.store.forget(name, now_ms)
                    self._stats.forgotten += 1
                else:
                    newer[name] = stored
        del wanted[FETCHED_MAX:]
        if component.owned_by_writer:
            return Received(refused=newer, wanted=tuple(key.key for key in wanted))
        if wanted:
            self._events.fetch(source, wanted)
        return Received(refused=newer)

    def verify_checksums(self, resource_type: str, source: str, checksums: Mapping[str, str], now_ms: int) -> None:
        """Compare the checksums that real Nacos sends of its keys (R8): fetch what differs, drop what it has no more.

        A key is dropped when its owner did not name it in two rounds in a row. Keys of this node are passed over, where
        real Nacos would give up the whole round. Source: Nacos 1.4.1 DistroConsistencyServiceImpl.onReceiveChecksums.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        self._stats.verify_received += 1
        component = self._components[resource_type]
        mapper = self._mapper_of(resource_type)
        wanted = [
            DistroKey(resource_type, name)
            for name, checksum in checksums.items()
            if not mapper.responsible(component.store.tag(name)) and self._checksum_of(component, name) != checksum
        ]
        absent = frozenset(
            name
            for name in component.store.versions()
            if name not in checksums and mapper.map_srv(component.store.tag(name)) == source
        )
        for name in sorted(absent & self._absent.get(source, frozenset())):
            component.store.forget(name, now_ms, absent=True)
            self._stats.forgotten += 1
        self._absent[source] = absent
        if wanted:
            self._events.fetch(source, wanted[:FETCHED_MAX])

    @staticmethod
    def _checksum_of(component: Component, key: str) -> str | None:
        return next((component.codec.checksum(datum) for datum in component.store.datums([key])), None)
