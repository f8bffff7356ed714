"""What a member does with datums and versions that others send. Called on the threads of doors and lanes.

The rules are pure (``resolve``); ``DistroReceiver`` applies them key by key and tells the protocol what to do next.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from distro.config import DistroConfig
from distro.errors import CodecError, NotInitialized
from distro.mapper import DistroMapper
from distro.monitor import DistroStats
from distro.ports import Component, Components
from distro.types import NO_VERSION, Datum, DistroKey, Merged, Received, Resolution, Version

LOG = logging.getLogger(__name__)
TRIES_MAX = 20
"""Concurrent local writes may beat a received datum to the key so often before it is left to the next verify round."""


@dataclass(frozen=True, slots=True)
class KeyVersions:
    """All that the rules look at."""

    held: Version | None
    incoming: Version
    is_owner: bool
    """This node is responsible for the key by its own view."""
    sender_owns: bool
    fetched: bool
    """This node asked for it just now, so it is no late copy, and its ages are right."""


def resolve(versions: KeyVersions) -> Resolution:
    """R3, R4 and R8 for one key.

    Beyond them, so that nothing acknowledged is lost or undone when a key changes hands: the owner merges what another
    member wrote even when that is lower; and every other member takes a new writer's state only if it knows of all
    changes held here. What is refused so is merged by its sender, which thus makes a state that all take.
    """
    held, incoming = versions.held, versions.incoming
    if incoming == NO_VERSION:
        if versions.is_owner:
            return Resolution.MERGE
        return Resolution.APPLY if held is None or versions.sender_owns else Resolution.REFUSE
    if held is None:
        return Resolution.APPLY
    if incoming == held:
        return Resolution.EQUAL
    if incoming.writer == held.writer:
        return Resolution.APPLY if incoming > held else Resolution.REFUSE
    if versions.is_owner:
        return Resolution.MERGE if versions.fetched else Resolution.FETCH
    return Resolution.TAKE_OVER if incoming > held else Resolution.REFUSE


class Notices:
    """What the receiver tells the protocol; each call only puts an event into its inbox."""

    def sync(self, key: DistroKey) -> None:
        """The key changed here and is to be sent."""

    def claim(self, key: DistroKey) -> None:
        """The key is ours by the view, but was written by another."""

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        """The peer holds newer data of these keys."""


class DistroReceiver:
    """Takes datums and verify rounds of peers. Thread-safe: each key's change is atomic in its store."""

    def __init__(
        self,
        own_writer: str,
        config: DistroConfig,
        components: Components,
        mapper_of: Callable[[str], DistroMapper],
        is_loading: Callable[[], bool],
        notices: Notices,
        stats: DistroStats,
    ) -> None:
        self._own_writer = own_writer
        self._config = config
        self._components = components
        self._mapper_of = mapper_of
        self.is_loading = is_loading
        self._notices = notices
        self._stats = stats
        self._absent: dict[str, frozenset[str]] = {}

    def receive(
        self, resource_type: str, sender: str, datums: Iterable[Datum], now_ms: int, *, fetched: bool = False
    ) -> Received:
        """Take datums one by one; a bad one fails alone. ``fetched``: they are the answer to a query of ours.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        refused: dict[str, Version] = {}
        failed: dict[str, str] = {}
        for datum in datums:
            self._stats.received_keys += 1
            try:
                own = self._receive_one(DistroKey(resource_type, datum.key), sender, datum, now_ms, fetched)
            except CodecError as error:
                self._stats.received_failed += 1
                failed[datum.key] = str(error)
                continue
            if own is not None:
                self._stats.received_refused += 1
                refused[datum.key] = own
        return Received(refused, failed)

    def _receive_one(self, key: DistroKey, sender: str, datum: Datum, now_ms: int, fetched: bool) -> Version | None:
        """Take one datum; return the own version when it was refused."""
        component = self._components[key.resource_type]
        mapper = self._mapper_of(key.resource_type)
        tag = component.store.tag(datum.key)
        owner = mapper.map_srv(tag)
        # Alone there is nobody to merge with: who PUTs a datum then means it, as with real Nacos.
        is_owner = owner == mapper.self_address and not mapper.standalone
        if mapper.standalone:
            owner = sender = self._own_writer
        for _ in range(TRIES_MAX):
            held = component.store.version(datum.key)
            match resolve(KeyVersions(held, datum.version, is_owner, sender == owner, fetched)):
                case Resolution.EQUAL:
                    return None
                case Resolution.REFUSE:
                    # One that sends no versions gets no refusal either: it would repeat the send for ever.
                    return None if datum.version == NO_VERSION else held
                case Resolution.TAKE_OVER if not component.store.is_covered(datum):
                    return held
                case Resolution.APPLY | Resolution.TAKE_OVER:
                    if component.store.apply(self._dated(datum, held, sender), held, now_ms):
                        if is_owner:
                            self._notices.claim(key)
                        return None
                case Resolution.FETCH:
                    self._notices.fetch(sender, [key])
                    return None
                case Resolution.MERGE:
                    self._merge(component, key, datum, now_ms)
                    return None
        raise CodecError("the key changes too fast here; the next verify round repairs it")

    def _merge(self, component: Component, key: DistroKey, datum: Datum, now_ms: int) -> None:
        self._stats.received_merged += 1
        match component.store.merge(datum, now_ms):
            case Merged.MADE:
                self._notices.sync(key)
            case Merged.TAKEN:
                self._notices.claim(key)
            case Merged.NOTHING:
                pass

    @staticmethod
    def _dated(datum: Datum, held: Version | None, sender: str) -> Datum:
        """An unversioned datum gets the next count of its sender's, so that a later claim is above it."""
        if datum.version != NO_VERSION:
            return datum
        base = held or NO_VERSION
        return replace(datum, version=Version(base.epoch, base.counter + 1, sender))

    def load(self, resource_type: str, datums: Iterable[Datum], now_ms: int) -> int:
        """Take a peer's snapshot while loading: the highest version of each key stays. Returns the keys taken.

        One that comes when the load is over is old, and of no use: verify rounds bring what is missing.
        """
        component = self._components[resource_type]
        taken = 0
        if not self.is_loading():
            return taken
        for datum in datums:
            held = component.store.version(datum.key)
            if held is not None and (datum.version == NO_VERSION or datum.version <= held):
                continue
            try:
                taken += component.store.apply(self._dated(datum, held, ""), held, now_ms)
            except CodecError as error:
                self._stats.received_failed += 1
                LOG.warning("%s of a snapshot cannot be taken: %s", datum.key, error)
        return taken

    def serve(self, resource_type: str, keys: Iterable[str] | None) -> list[Datum]:
        """The datums of the keys, all for None."""
        store = self._components[resource_type].store
        return list(store.datums(store.versions() if keys is None else keys))

    # --- verify ----------------------------------------------------------------------------------

    def verify(self, resource_type: str, source: str, versions: Mapping[str, Version], now_ms: int) -> Received:
        """Compare the versions of the source's keys with ours: fetch what is newer there, answer what is newer here.

        Of a type that is owned by its writers the former is answered too: the source sends it.

        What another writer made counts as newer in either case: versions of two writers do not tell whether the higher
        one knows of the lower one's changes, and the source is the one to merge. A key that the source owns in our eyes
        and does not list is answered too; absence deletes nothing, but spent keys are forgotten (R6).

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        component = self._components[resource_type]
        mapper = self._mapper_of(resource_type)
        newer: dict[str, Version] = {}
        wanted: list[DistroKey] = []
        equal: list[str] = []
        for name, version in versions.items():
            held = component.store.version(name)
            if held == version:
                equal.append(name)
                continue
            if held is not None and (version < held or version.writer != held.writer):
                newer[name] = held
            else:
                wanted.append(DistroKey(resource_type, name))
        if component.on_verified is not None:
            component.on_verified(equal, now_ms)
        for name, held in component.store.versions().items():
            if name not in versions and mapper.map_srv(component.store.tag(name)) == source:
                if component.store.is_forgettable(name, now_ms):
                    component.store.forget(name, now_ms)
                    self._stats.forgotten += 1
                else:
                    newer[name] = held
        if component.owned_by_writer:
            return Received(refused=newer, wanted=tuple(key.key for key in wanted))
        if wanted:
            self._notices.fetch(source, wanted)
        return Received(refused=newer)

    def verify_checksums(self, resource_type: str, source: str, checksums: Mapping[str, str], now_ms: int) -> None:
        """Compare real Nacos's checksums of its own keys; fetch what differs, drop what it no longer lists.

        A key must be missing in two rounds in a row before it is dropped, and keys that are ours are left out, where
        real Nacos would give up the whole round. Source: Nacos 1.4.1 DistroConsistencyServiceImpl.onReceiveChecksums.

        Raises:
            NotInitialized: this node has not loaded yet (R7).
        """
        if self.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
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
        for name in absent & self._absent.get(source, frozenset()):
            component.store.forget(name, now_ms, absent=True)
            self._stats.forgotten += 1
        self._absent[source] = absent
        if wanted:
            self._notices.fetch(source, wanted)

    @staticmethod
    def _checksum_of(component: Component, key: str) -> str | None:
        return next((component.codec.checksum(datum) for datum in component.store.datums([key])), None)
