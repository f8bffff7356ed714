"""The reception of datums and versions from peers: ``resolve`` decides, and ``DistroReceiver`` carries it out.

Called on the threads of the frontends and of the peers' workers. The rules are stated in docs/replication.md.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from distro.model.errors import CodecError, NotInitialized
from distro.model.monitor import DistroStats
from distro.model.ports import NO_OBSERVER, Component, Components, DistroObserver
from distro.model.stores import DistroStore
from distro.model.types import NO_VERSION, Datum, DistroKey, Merged, Received, Resolution, Version
from distro.receive.call_times import AppliedTimes
from distro.receive.resolve import (
    DELTA,
    DELTA_KNOWN,
    DELTA_OF_ANOTHER,
    MERGED,
    KeyVersions,
    NotGivenError,
    OthersWordError,
    Resolved,
    VersionCheck,
    ViewReader,
    resolve,
)
from distro.timing.sliced import STEP_STORED, paced, rest

LOG = logging.getLogger(__name__)
FETCHED_MAX = 50_000
"""The most keys that are fetched after one verify round. Further differences wait for the next round."""
RESTORES_MAX = 1_000
"""The most keys for which a peer's state is to be fetched and restored. Beyond it the oldest is dropped."""
RESTORE_MS = 15_000
"""A state is restored only if it arrives within this time after it was requested."""
TRIES_MAX = 20
"""The most tries to store a datum while local changes come in between. Verify rounds repair the rest."""
OnceStored = list[Callable[[], None]]
"""Functions to call once a group is stored: they read the store, and would find the former state before that."""


@dataclass(frozen=True, slots=True)
class VerifyScope:
    """The scope of a verify round after a comparison of digests: only the keys whose digests differ."""

    held: Collection[str]
    """The keys that are known here."""
    pending: Set[str]
    """Keys that the source is about to send: they are not compared."""
    relayed: Collection[str]
    """The members whose writes the source relays (R12)."""
    is_whole: bool
    """True if these keys include all differences."""
    same_view: bool
    """True if both sides name the same owner for each key: the source then lacks own keys that it does not name."""


class ReceiverEvents(Protocol):
    """Events that a receiver reports to the protocol. Each call only puts one into the mailbox."""

    def sync(self, key: DistroKey) -> None:
        """Report that this node made a new state of the key, which is to be sent."""

    def claim(self, key: DistroKey, source: str | None = None) -> None:
        """Report that this node is responsible for the key, whose state has another writer (R2).

        ``source``: the peer that the state was fetched from; the other members are to get it, too (R16).
        """

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        """Report that the peer has a state of these keys that this node lacks."""

    def served(self, peer: str, resource_type: str, keys: list[str]) -> None:
        """Report that the peer was sent this node's states of these keys."""


class DistroReceiver:
    """Takes datums and verify rounds of peers. Thread-safe: each key's change is atomic in its store."""

    def __init__(
        self,
        own_writer: str,
        components: Components,
        reader: ViewReader,
        events: ReceiverEvents,
        stats: DistroStats,
        applied: AppliedTimes | None = None,
        observer: DistroObserver = NO_OBSERVER,
        version_check: Callable[..., VersionCheck] = VersionCheck,
    ) -> None:
        """``applied``: keeps the times of data that peers sent."""
        self._own_writer = own_writer
        self._check = version_check(own_writer, components, reader)
        self._components = components
        self._reader = reader
        self._events = events
        self._stats = stats
        self.applied = applied or AppliedTimes()
        self.observer = observer
        self._restores: dict[DistroKey, tuple[str, int]] = {}
        """By key, the peer whose state is to be restored from when it is fetched next, and until when."""
        self._absent: dict[str, frozenset[str]] = {}
        """The keys that each member of real Nacos left out of its last round. Each set is replaced, never changed."""

    def is_loading(self) -> bool:
        """Return whether this node still loads the data of its peers (R7)."""
        return self._reader.view.loading

    def receive(
        self,
        resource_type: str,
        sender: str,
        datums: Iterable[Datum],
        now_ms: int,
        *,
        fetched: bool = False,
        catching_up: bool = False,
    ) -> Received:
        """Take datums one by one; return which keys were refused and which failed, each alone.

        ``fetched``: the datums answer a query of this node, made just now, or come from a member that left the list.
        ``catching_up``: they are all that one peer has, asked for after a pause. As in a load, the peer speaks for the
        runs of other members (R10).

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self._reader.view.loading:
            raise NotInitialized("Distro protocol is not initialized")
        component, wanted = self._components[resource_type], list[str]()
        refused: dict[str, Version] = {}
        failed: dict[str, str] = {}
        taken, had = dict[str, Version](), dict[str, Version]()

        def take(datum: Datum, once_stored: OnceStored) -> None:
            self._stats.received_keys += 1
            key = DistroKey(resource_type, datum.key)
            try:
                owned = fetched and self._owns(key)
                self._check.check(resource_type, datum, sender, loading=catching_up, fetched=fetched, is_claimed=owned)
                if datum.base is None:
                    own = self.receive_one(key, sender, datum, now_ms, once_stored, fetched=fetched)
                elif self._receive_delta(component, key, sender, datum, now_ms, once_stored):
                    own = None
                else:
                    self._stats.deltas_wanted_whole += 1
                    wanted.append(datum.key)
                    return
            except CodecError as error:
                failed[datum.key] = str(error)
                self._follow_refusal(key, sender, datum, error, now_ms, once_stored, fetched=fetched)
                return
            if own is not None and own != NO_VERSION:
                self._stats.received_refused += 1
                refused[datum.key] = own
                return
            self._check.accept(datum.version)
            (taken if own is None else had)[datum.key] = datum.version

        for keys, why in _take_in_groups(component.store, datums, take):
            lost = [key for key in keys if key not in refused and key not in failed and key not in wanted]
            self._stats.received_failed += len(lost)
            failed.update(dict.fromkeys(lost, why))
            for key in lost:
                taken.pop(key, None)
                had.pop(key, None)
        ages_ms = dict.fromkeys(had) | self.applied.ages_ms(resource_type, taken, now_ms)
        return Received(refused, failed, tuple(wanted), ages_ms)

    def _owns(self, key: DistroKey) -> bool:
        component = self._components[key.resource_type]
        mapper = self._reader.view.mappers.of(component)
        return (
            not mapper.standalone and not component.owned_by_writer and mapper.responsible(component.store.tag(key.key))
        )

    def _follow_refusal(
        self,
        key: DistroKey,
        sender: str,
        datum: Datum,
        error: CodecError,
        now_ms: int,
        once_stored: OnceStored,
        *,
        fetched: bool,
    ) -> None:
        """Count the failure. By R10, claim a state of this run above all others; ask a run that another tells of."""
        self._stats.received_failed += 1
        self.observer.decided(key, sender, datum.version, None, "R10", str(error), "not taken")
        component = self._components[key.resource_type]
        match error:
            case NotGivenError() if self._check.is_within(datum.version):
                stored = component.store.version(datum.key)
                is_own = stored is not None and stored.writer == self._own_writer
                # A state that is not of this run is held by the member that was asked for it, or else perhaps by none.
                is_claimed = is_own or (fetched and self._owns(key))
                with suppress(CodecError):  # when the disk is full: the next verify round brings the state again
                    if is_claimed and component.store.reissue(datum, now_ms, restoring=False):
                        self._stats.reissued += 1
                        once_stored.append(partial(self._events.sync, key))
            case OthersWordError() if not component.owned_by_writer:
                self._events.fetch(datum.version.writer.partition("~")[0], [key])

    def restore(self, peer: str, keys: Iterable[DistroKey], now_ms: int) -> None:
        """Take from the peer's states of these keys, when they are fetched next, the parts that are unknown here."""
        for key in keys:
            self._restores.pop(key, None)  # the latest goes to the end
            self._restores[key] = peer, now_ms + RESTORE_MS
        for one in list(self._restores)[:-RESTORES_MAX]:
            self._restores.pop(one, None)

    def receive_known(
        self, resource_type: str, versions: Mapping[str, Version], now_ms: int
    ) -> tuple[frozenset[str], Received]:
        """Answer datums that bring nothing new (R3) before their values are parsed. Return their keys, and the answer.

        Nearly all datums from a member that forwards writes are of this kind: it had each change from the owner's
        answer.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self._reader.view.loading:
            raise NotInitialized("Distro protocol is not initialized")
        store = self._components[resource_type].store
        known: dict[str, Version] = {}
        for name, version in paced(versions.items()):
            stored = store.version(name)
            if stored is not None and stored.has_had(version):
                known[name] = stored
        if not known:
            return frozenset(), Received()
        refused = {name: stored for name, stored in known.items() if not versions[name].has_had(stored)}
        self._stats.received_keys += len(known)
        self._stats.received_refused += len(refused)
        self.observer.had(resource_type, versions, known)
        ages_ms = self.applied.ages_ms(resource_type, {name: versions[name] for name in known}, now_ms)
        return frozenset(known), Received(refused, ages_ms=ages_ms)

    def receive_one(
        self, key: DistroKey, sender: str, datum: Datum, now_ms: int, once_stored: OnceStored, *, fetched: bool
    ) -> Version | None:
        """Take one datum. Return the stored version if it was refused, ``NO_VERSION`` if it is to be fetched."""
        component = self._components[key.resource_type]
        tag = component.store.tag(datum.key)
        mapper = self._reader.view.mappers.of(component)
        owner = mapper.map_srv(tag)
        # A standalone node has nobody to merge with: it takes every datum that is put, as real Nacos does.
        is_owner = owner == mapper.self_address and not mapper.standalone
        if mapper.standalone:
            owner = sender = self._own_writer
        begun_s = self.applied.time_s(now_ms)
        for _ in range(TRIES_MAX):
            stored = component.store.version(datum.key)
            decision = resolve(KeyVersions(stored, datum.version, is_owner, sender == owner, fetched))
            match decision.resolution:
                case Resolution.EQUAL:
                    if fetched and is_owner:
                        self._reissue(component, key, sender, datum, now_ms, once_stored)
                    self._tell(key, sender, datum, stored, decision, "kept")
                    return None
                case Resolution.REFUSE:
                    if fetched and is_owner:
                        self._reissue(component, key, sender, datum, now_ms, once_stored)
                    self._tell(key, sender, datum, stored, decision, "refused")
                    # R8: real Nacos would repeat a refused send for ever.
                    return None if datum.version == NO_VERSION else stored
                case Resolution.TAKE_OVER if not component.store.is_covered(datum):
                    self._tell(key, sender, datum, stored, decision, "refused, as it lacks changes that are stored")
                    return stored
                case Resolution.APPLY | Resolution.TAKE_OVER:
                    if component.store.apply(self._dated(datum, stored, sender), stored, now_ms):
                        self._tell(key, sender, datum, stored, decision, "applied")
                        self.applied.note(key, datum.version, sender, begun_s, now_ms)
                        if is_owner:
                            once_stored.append(partial(self._events.claim, key, sender if fetched else None))
                        return None
                case Resolution.FETCH:
                    self._tell(key, sender, datum, stored, decision, "to be fetched")
                    self._events.fetch(sender, [key])
                    return NO_VERSION
                case Resolution.MERGE:
                    merged = self._merge(component, key, sender, datum, now_ms, once_stored)
                    self._tell(key, sender, datum, stored, decision, MERGED[merged])
                    self.applied.note(key, datum.version, sender, begun_s, now_ms)
                    return None
        raise CodecError("the key changes too fast here; the next verify round repairs it")

    def _tell(
        self, key: DistroKey, sender: str, datum: Datum, stored: Version | None, decision: Resolved, done: str
    ) -> None:
        if self.observer is not NO_OBSERVER:
            self.observer.decided(key, sender, datum.version, stored, decision.rule, decision.reason, done)

    def _receive_delta(
        self,
        component: Component,
        key: DistroKey,
        sender: str,
        delta: Datum,
        now_ms: int,
        once_stored: OnceStored,
    ) -> bool:
        """Apply a delta (R5). Return False if the whole datum is needed, because the state here does not fit the delta.

        A delta of a state that is known here, or of an earlier one, changes nothing.
        """
        mapper = self._reader.view.mappers.of(component)
        if component.deltas is None:
            raise CodecError("a datum of this type is never sent in part")
        is_owner = mapper.responsible(component.store.tag(delta.key)) and not mapper.standalone
        for _ in range(TRIES_MAX):
            stored, begun_s = component.store.version(delta.key), self.applied.time_s(now_ms)
            if stored is not None and stored.has_had(delta.version):
                self._tell(key, sender, delta, stored, DELTA_KNOWN, "kept")
                return True
            if delta.is_claim and is_owner:
                break  # both own it by their views: decided as for any state by another writer (R3)
            if component.deltas.apply_delta(delta, now_ms):
                self._tell(key, sender, delta, stored, DELTA, "delta applied")
                self._stats.received_deltas += 1
                self.applied.note(key, delta.version, sender, begun_s, now_ms)
                if is_owner:
                    once_stored.append(partial(self._events.claim, key))
                return True
            if component.store.version(delta.key) == stored:
                break
        self._tell(key, sender, delta, stored, DELTA_OF_ANOTHER, "asked for whole")
        return False

    def _reissue(
        self,
        component: Component,
        key: DistroKey,
        sender: str,
        datum: Datum,
        now_ms: int,
        once_stored: OnceStored,
    ) -> None:
        """Follow R3 for a datum of the owner's stored version with other values: all take the owner's state again."""
        source, until_ms = self._restores.get(key, ("", now_ms))
        restoring = source == sender and now_ms < until_ms
        if restoring:
            self._restores.pop(key, None)
        elif now_ms < until_ms:
            return  # under a new version the source would drop the state that is to be restored
        if component.store.reissue(datum, now_ms, restoring=restoring):
            self._stats.reissued += 1
            once_stored.append(partial(self._events.sync, key))

    def _merge(
        self, component: Component, key: DistroKey, sender: str, datum: Datum, now_ms: int, once_stored: OnceStored
    ) -> Merged:
        self._stats.received_merged += 1
        merged = component.store.merge(datum, now_ms)
        match merged:
            case Merged.MADE:
                once_stored.append(partial(self._events.sync, key))
            case Merged.TAKEN:
                once_stored.append(partial(self._events.claim, key, sender))
            case Merged.NOTHING:
                pass
        return merged

    @staticmethod
    def _dated(datum: Datum, stored: Version | None, sender: str) -> Datum:
        """Return the datum with a version. One without (R8) gets the next counter, below any later claim."""
        if datum.version != NO_VERSION:
            return datum
        base = stored or NO_VERSION
        return replace(datum, version=Version(base.epoch, base.counter + 1, sender))

    def load(self, resource_type: str, datums: Iterable[Datum], now_ms: int, sender: str) -> int:
        """Load a peer's snapshot (R7): the highest version of each key stays. Return the number of keys taken.

        ``sender`` counts as the writer of datums without a version (R8); otherwise no member could read their versions.
        A snapshot that arrives after the end of the load is dropped: verify rounds bring its changes.
        """
        component = self._components[resource_type]
        taken = 0
        if not self._reader.view.loading:
            return taken

        def take(datum: Datum, _once_stored: OnceStored) -> None:
            nonlocal taken
            stored = component.store.version(datum.key)
            if stored is not None and (datum.version == NO_VERSION or datum.version <= stored):
                return
            try:
                if datum.base is not None:
                    raise CodecError("a snapshot has whole datums")
                self._check.check(resource_type, datum, sender, loading=True)
                taken += component.store.apply(self._dated(datum, stored, sender), stored, now_ms)
                key = DistroKey(resource_type, datum.key)
                self.observer.decided(
                    key, sender, datum.version, stored, "R7", "the highest one loaded stays", "loaded"
                )
                self._check.accept(datum.version)
            except CodecError as error:
                self._stats.received_failed += 1
                LOG.warning("%s of a snapshot cannot be taken: %s", datum.key, error)

        for keys, why in _take_in_groups(component.store, datums, take):
            self._stats.received_failed += len(keys)
            LOG.warning("%s and %d more keys of a snapshot are not stored: %s", keys[0], len(keys) - 1, why)
            taken = max(taken - len(keys), 0)
        return taken

    def lacks(self, resource_type: str, key: str, version: Version) -> bool:
        """Return whether a snapshot's datum of this version is newer than the stored state of its key."""
        stored = self._components[resource_type].store.version(key)
        return stored is None or version > stored

    def serve_each(self, resource_type: str, keys: Iterable[str]) -> Iterator[Datum]:
        """Return the datums of the keys, each read when it is asked for."""
        for datum in self._components[resource_type].store.datums(keys):
            self._stats.served_keys += 1
            yield datum

    def serve(self, resource_type: str, keys: Iterable[str] | None, peer: str | None = None) -> list[Datum]:
        """Return the datums of the keys, or all for None. ``peer``: the Rollcall member that gets them."""
        store = self._components[resource_type].store
        datums = list(store.datums(store.versions() if keys is None else keys))
        if keys is not None:
            self._stats.served_keys += len(datums)
            if peer is not None:
                self._events.served(peer, resource_type, [one.key for one in datums])
        return datums

    # --- verify ----------------------------------------------------------------------------------

    def verify(
        self,
        resource_type: str,
        source: str,
        versions: Mapping[str, Version],
        now_ms: int,
        scope: VerifyScope | None = None,
    ) -> Received:
        """Compare the versions of the source's keys with ours: fetch its newer states, and answer with those it lacks.

        A state by another writer counts as one that the source lacks even if its version is lower (R4): the source
        owns the key and is the one to merge. So does a key that the source owns by our view and does not name: absence
        deletes nothing, only forgettable keys are dropped (R6).

        ``scope``: the part of all keys that the round is about; None for all.

        Nothing is fetched for a resource type that is owned by its writers: the answer requests the keys, and the
        source sends them.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self._reader.view.loading:
            raise NotInitialized("Distro protocol is not initialized")
        self._stats.verify_received += 1
        component = self._components[resource_type]
        mapper = self._reader.view.mappers.of(component)
        newer, wanted, equal = self._compared(component, resource_type, versions)
        if component.on_verified is not None:
            component.on_verified(equal, now_ms)
        for name, stored in paced(self._held(component, scope)):
            if name in versions:
                continue
            is_source_owner = mapper.map_srv(component.store.tag(name)) == source
            if not component.store.is_forgettable(name, now_ms):
                # R16: when views differ, perhaps no member would name a key that the source does not know.
                if is_source_owner or (scope is not None and not scope.same_view):
                    newer[name] = stored
            elif is_source_owner and (scope is None or scope.same_view):
                component.store.forget(name, now_ms)
                self._stats.forgotten += 1
                self.observer.forgot(DistroKey(resource_type, name), "its owner names it no more")
        if component.on_compared is not None and scope is not None and scope.is_whole:
            component.on_compared([source, *scope.relayed], [*newer, *(key.key for key in wanted)], now_ms)
        del wanted[FETCHED_MAX:]
        names = tuple(key.key for key in wanted)
        is_answered = component.owned_by_writer  # its owner sends the keys that the answer requests
        fetching = 0 if is_answered else len(wanted)
        answer = Received(refused=newer, wanted=names if is_answered else (), fetching=fetching)
        self.observer.compared(resource_type, source, len(equal), names, answer)
        if fetching:
            self._events.fetch(source, wanted)
        return answer

    @staticmethod
    def _compared(
        component: Component, resource_type: str, versions: Mapping[str, Version]
    ) -> tuple[dict[str, Version], list[DistroKey], list[str]]:
        """Return which of the source's keys are newer here, which are wanted from it, and which are equal."""
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
        return newer, wanted, equal

    @staticmethod
    def _held(component: Component, scope: VerifyScope | None) -> Iterable[tuple[str, Version]]:
        """Return the keys that are known here and belong to the round, with their versions."""
        if scope is None:
            yield from component.store.versions().items()
            return
        for name in scope.held:
            stored = component.store.version(name)
            if stored is not None and name not in scope.pending:
                yield name, stored

    def verify_checksums(self, resource_type: str, source: str, checksums: Mapping[str, str], now_ms: int) -> None:
        """Compare the checksums that real Nacos sends of its keys (R8): fetch differing keys, drop absent ones.

        A key is dropped when its owner did not name it in two rounds in a row. Keys of this node are skipped, where
        real Nacos would give up the whole round. Source: Nacos 1.4.1 DistroConsistencyServiceImpl.onReceiveChecksums.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self._reader.view.loading:
            raise NotInitialized("Distro protocol is not initialized")
        self._stats.verify_received += 1
        component = self._components[resource_type]
        mapper = self._reader.view.mappers.of(component)
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
        others = {one: names for one, names in self._absent.items() if one in mapper.servers and one != source}
        self._absent = {**others, source: absent}
        if wanted:
            self._events.fetch(source, wanted[:FETCHED_MAX])

    @staticmethod
    def _checksum_of(component: Component, key: str) -> str | None:
        return next((component.codec.checksum(datum) for datum in component.store.datums([key])), None)


def _take_in_groups(
    store: DistroStore, datums: Iterable[Datum], take: Callable[[Datum, OnceStored], None]
) -> list[tuple[list[str], str]]:
    """Let ``take`` store each datum, in groups that become durable together: one wait for the disk for each group.

    There is a pause after each full group. The functions that ``take`` adds are called after its group.

    Returns:
        The keys of each group that the disk did not take, and the reason: none of the group is stored.
    """
    lost = []
    left = iter(datums)
    while group := list(islice(left, STEP_STORED)):
        once_stored: OnceStored = []
        try:
            with store.grouped([datum.key for datum in group]):
                for datum in group:
                    take(datum, once_stored)
        except CodecError as error:
            lost.append(([one.key for one in group], str(error)))
        else:
            for tell in once_stored:
                tell()
        if len(group) == STEP_STORED:
            rest()
    return lost
