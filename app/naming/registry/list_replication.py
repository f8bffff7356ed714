"""ListReplication: the exchange of instance lists with peers: whole lists, deltas, and claims of lists of others."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from app.naming.model.contents import list_content
from app.naming.model.keys import WORD_MARGIN_MS, parse_datum_key
from app.naming.model.model import NEVER_MS, Change, Service, StoredInstance
from app.naming.registry.list_state import ListState, bound_tombstones, free_in_steps
from app.naming.registry.merge import NO_INSTANCES, InstanceList, covers, is_alike, merge, unknown_to
from app.naming.registry.operations import Shared
from app.naming.registry.recent_changes import RecentChanges
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, ServiceTable
from distro.model.types import NO_VERSION, Datum, Merged, Version

SWAP_TRIES_MAX = 20


class ListReplication:
    """Reads of instance lists for peers, and the lists and changes that peers send. Thread-safe."""

    def __init__(self, table: ServiceTable, lists: ListState, shared: Shared) -> None:
        self._table = table
        self._lists = lists
        self._shared = shared

    def all_keys(self) -> list[str]:
        """Return the datum keys of all services, including those without a list."""
        return self._table.keys()

    def is_empty(self, key: str) -> bool:
        """Return whether a list is known and has no instance."""
        service = self._table.find(key)
        return service is not None and service.version != NO_VERSION and not service.stored

    def content(self, key: str) -> tuple[Version, int] | None:
        """Return the version of a list, and 64 bits for its instances; None for an unknown list."""
        service = self._table.find(key)
        if service is None:
            return None
        known = service
        if len(known.stored) <= COPIED_UNDER_LOCK_MAX:  # nearly all, and each verify round takes some hundred
            with self._table.lock:
                version, stored = known.version, known.stored.copy()
        else:
            version, stored = self._table.with_consistent_copy(
                known, known.stored.copy, lambda one: (known.version, one)
            )
        return None if version == NO_VERSION else (version, list_content(key, stored))

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        """Replace a list by a received datum, if its version is still ``expected``. Return whether it was replaced."""
        value: InstanceList = datum.value
        service = self._table.find(datum.key)
        self._take_over(value.stored, datum.version, service.stored if service is not None else {})
        return self._lists.swap(datum.key, expected, datum.version, value, now_ms)

    def _take_over(
        self, received: dict[str, StoredInstance], version: Version, known: Mapping[str, StoredInstance]
    ) -> None:
        """Give received instances the beats of the known ones here, and share their equal parts in memory."""
        for key, stored in received.items():
            old = known.get(key)
            if not stored.version.writer:  # from a member without versions
                stored.version = stored.client_version = version
                stored.changed_ms = stored.beat_ms
            if old is None:
                stored.last_confirmed_ms = NEVER_MS
                self._shared.settle(stored)
                continue
            stored.last_confirmed_ms = old.last_confirmed_ms
            stored.beat_ms = max(stored.beat_ms, old.beat_ms)
            if stored.client_version == old.client_version:
                if stored.changed_ms <= old.changed_ms + WORD_MARGIN_MS:  # else the client repeated itself (R14)
                    stored.changed_ms = old.changed_ms  # not later by the time that the copy was under way
                if stored.version == old.version:
                    stored.version, stored.client_version = old.version, old.client_version
            # The field of most changes is compared first: comparing all fields takes as long as the rest of this.
            if stored.instance.metadata == old.instance.metadata and stored.instance == old.instance:
                stored.instance = old.instance  # with its JSON, once rendered for readers
            else:
                self._shared.settle(stored, old.instance)

    def is_covered(self, datum: Datum) -> bool:
        """Return whether a datum has every change of the list stored here (R3)."""
        stored = next(self._lists.datums([datum.key]), None)
        return stored is None or covers(datum.value, stored.value)

    def lacks(self, datum: Datum) -> bool:
        """Return whether a datum has a change that the list stored here lacks."""
        if not datum.value.stored and not datum.value.tombstones:
            return False  # without a copy of the list: at a start nearly all datums are like that
        stored = next(self._lists.datums([datum.key]), None)
        return not covers(NO_INSTANCES if stored is None else stored.value, datum.value)

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        """Merge a received datum into the list (R4); see ``app.naming.registry.merge``."""
        for one in datum.value.stored.values():
            self._shared.settle(one)
        for _ in range(SWAP_TRIES_MAX):
            stored = next(self._lists.datums([datum.key]), None)
            ours = stored or Datum(datum.key, self._lists.floor, NO_INSTANCES)
            version = self._lists.above_forgotten(max(ours.version, datum.version)).next(self._lists.writer)
            merged = merge(ours.value, datum.value, version)
            if datum.version <= ours.version and merged.version_summary == ours.value.version_summary:
                return Merged.NOTHING
            ended = Merged.MADE
            if datum.version > ours.version and merged.version_summary == datum.value.version_summary:
                version, ended = datum.version, Merged.TAKEN
            if self._lists.swap(datum.key, stored.version if stored else None, version, merged, now_ms):
                replaced = [ours.value.stored]
                del stored, ours
                free_in_steps(replaced)
                return ended
        return Merged.NOTHING  # a local change came before each swap; the next verify round tries again

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        """Give a list the next version if a peer has other instances under the stored one (R3). Return whether it did.

        ``restoring``: take the datum's instances that are unknown here, even as a removal, at any version. Each gets
        one fresh time-out, as it is unknown yet which member gets its beats.

        If the datum's version is of this run, which did not give it, and so above the stored one, any list gets a new
        epoch (R10).
        """
        if datum.version.writer == self._lists.writer and datum.version > (
            self._lists.version(datum.key) or NO_VERSION
        ):
            return self._give_above(datum, now_ms)
        stored = next(self._lists.datums([datum.key]), None)
        if stored is None:
            return False
        if restoring and (unknown := unknown_to(stored.value, datum.value)):
            for one in unknown.values():
                one.beat_ms = now_ms
            return self.merge(replace(datum, value=InstanceList(unknown, {})), now_ms) is not Merged.NOTHING
        if stored.version != datum.version or is_alike(stored.value, datum.value):
            return False
        with self._table.lock:
            service = self._table.find(datum.key)
            if service is None or service.version != stored.version:
                return False  # a change that came in the meantime has a new version already
            self._lists.raise_version(service, now_ms)
            service.revision += 1
            return True

    def _give_above(self, datum: Datum, now_ms: int) -> bool:
        """Give a list, an empty one if it is unknown, a version of an epoch above a datum's. Return whether it did."""
        version = datum.version.next_epoch(self._lists.writer)
        with self._table.lock:
            service = self._table.find(datum.key)
            if service is not None and service.version != NO_VERSION:
                if service.version >= version:
                    return False
                self._lists.give_version(service, version, now_ms)
                service.revision += 1
                return True
        return self._lists.swap(datum.key, None, version, InstanceList({}, {}), now_ms)

    def claim(self, key: str, now_ms: int) -> bool:
        """Become the writer of a list that another member wrote (R2). Return whether that changed its version."""
        with self._table.lock:
            service = self._table.find(key)
            if service is None or service.version == NO_VERSION or service.version.writer == self._lists.writer:
                return False
            # Peers know the data of real Nacos under their own versions.
            claimed = service.version if "~" in service.version.writer else None
            self._lists.raise_version(service, now_ms)
            service.revision += 1
            service.claimed = claimed
            return True

    def take_change(self, change: Change, now_ms: int) -> bool:
        """Apply a change that is more than a version, if it follows the one stored here (R5). Return whether it did."""
        version, stored, tombstone = change.version, change.stored, change.tombstone
        parsed = parse_datum_key(change.key)
        if parsed is None:
            return False
        service, parts = self._table.find(change.key), InstanceList({}, {})
        if tombstone is not None:
            parts.tombstones[change.instance_key] = tombstone
        if stored is not None:
            parts.stored[change.instance_key] = stored
            old = service.stored.get(change.instance_key) if service is not None else None
            self._shared.settle(stored, old.instance if old is not None else None)
        with self._table.lock:
            service = self._table.find(change.key)
            known = service.version if service else NO_VERSION
            is_first = not known.writer
            if is_first:
                if version.counter or version.epoch != 1 or not change.alone:
                    # Not the first change of the list: others are missing here. If real Nacos gave the list before, its
                    # first version has more in it than this change.
                    return False
                service = self._table.open(*parsed, service, now_ms)
            elif known.counter + 1 != version.counter or known.writer != version.writer or known.epoch != version.epoch:
                return False
            assert service is not None
            if is_first and tombstone is not None and tombstone.unknown:
                service.dropped = True
            service.retained.pop(change.instance_key, None)
            if stored is not None:
                self._table.open(*parsed, service, now_ms)  # lists the service again after its removal
                old = service.stored.get(change.instance_key)
                stored.last_confirmed_ms = old.last_confirmed_ms if old else NEVER_MS
            self._lists.take(service, parts, version, now_ms)
            return True

    def delta(self, key: str, base: Version) -> Datum | None:
        """Return the changes in a list of this member since ``base`` (R5); None if they are unknown, or there are none.

        The cost depends on the changes, not on the size of the list.
        """
        service, read, parts = self._table.find(key), base, InstanceList({}, {})
        left: frozenset[str] = frozenset()
        for _ in range(SWAP_TRIES_MAX if service is not None else 0):
            assert service is not None
            with self._table.lock:
                version = service.version
                changed = RecentChanges.since(service, read) if version != read else frozenset()
                if changed is None or version == base:
                    return None
                changed |= left
                if len(changed) <= COPIED_UNDER_LOCK_MAX:
                    # A key without a trace was removed so long ago that its tombstone is gone.
                    return None if _copy_parts(service, changed, parts) else Datum(key, version, parts, base)
            # Parts that change while these are read, without the lock, are read again.
            left = _copy_parts(service, changed, parts)
            read = version
        return None

    def claim_delta(self, key: str) -> Datum | None:
        """Return the claim of a list by this member, as a delta of the claimed state (R5); None after a change."""
        service = self._table.find(key)
        if service is None or service.claimed is None or service.version.writer != self._lists.writer:
            return None
        claimer = service

        def claim(digest: int) -> Datum | None:
            claimed, version = claimer.claimed, claimer.version
            is_unchanged = claimed is not None and claimed.next(self._lists.writer) == version
            return Datum(key, version, digest, claimed) if is_unchanged else None

        return self._table.with_consistent_copy(service, lambda: _version_digest(claimer), claim)

    def _apply_claim(self, datum: Datum, now_ms: int) -> bool:
        """Apply a peer's claim of the very state that is stored here: its instances and removals stay."""
        found = self._table.find(datum.key)
        if found is None or found.version != datum.base:
            return False
        service = found

        def take(digest: int) -> bool:
            if digest != datum.value or service.version != datum.base or self._table.find(datum.key) is not service:
                return False
            is_spent = not service.stored and not service.tombstones
            self._lists.took(
                service, datum.version, now_ms - self._lists.tombstone_slack_ms - 1 if is_spent else now_ms
            )
            return True

        return self._table.with_consistent_copy(service, lambda: _version_digest(service), take)

    def apply_delta(self, datum: Datum, now_ms: int) -> bool:
        """Apply a delta to a list in its base state, or a later one (R5). Return whether it was applied.

        It is applied as a whole or not at all. It holds each instance that changed after its base, in its last state,
        so it brings any state since then to its version.
        """
        if datum.is_claim:
            return self._apply_claim(datum, now_ms)
        value: InstanceList = datum.value
        service, base = self._table.find(datum.key), datum.base
        if service is None or base is None:
            return False
        self._take_over(value.stored, datum.version, service.stored)
        if len(value.stored) + len(value.tombstones) > COPIED_UNDER_LOCK_MAX or service.retained:
            stored = next(self._lists.datums([datum.key]), None)
            if stored is None or not _is_between(base, stored.version, datum.version):
                return False
            whole = _with_parts(stored.value, value)
            return self._lists.swap(datum.key, stored.version, datum.version, whole, now_ms)
        with self._table.lock:
            if service.retained or self._table.find(datum.key) is not service:
                return False
            if not _is_between(base, service.version, datum.version):
                return False
            if value.stored:
                self._table.open(service.namespace, service.full_name, service, now_ms)
            self._lists.take(service, value, datum.version, now_ms)
            return True


def _copy_parts(service: Service, keys: Iterable[str], into: InstanceList) -> frozenset[str]:
    """Copy the current state of these instances. Return those that are neither stored nor removed."""
    without_trace = []
    for key in keys:
        stored, tombstone = service.stored.get(key), service.tombstones.get(key)
        into.stored.pop(key, None)
        into.tombstones.pop(key, None)
        if stored is not None:
            into.stored[key] = stored
        elif tombstone is not None:
            into.tombstones[key] = tombstone
        else:
            without_trace.append(key)
    return frozenset(without_trace)


def _version_digest(service: Service) -> int:
    return InstanceList(service.stored.copy(), service.tombstones.copy()).version_digest


def _is_between(base: Version, stored: Version, version: Version) -> bool:
    """Return whether a stored state is the base of a delta, or a later one before its version."""
    return (
        base.counter <= stored.counter < version.counter
        and base.writer == stored.writer == version.writer
        and base.epoch == stored.epoch == version.epoch
    )


def _with_parts(whole: InstanceList, parts: InstanceList) -> InstanceList:
    """Return a copy of a list with these instances and tombstones in place of the original ones."""
    stored, tombstones = dict(whole.stored), dict(whole.tombstones)
    for key, tombstone in parts.tombstones.items():
        stored.pop(key, None)
        tombstones.pop(key, None)
        tombstones[key] = tombstone
    for key, one in parts.stored.items():
        tombstones.pop(key, None)
        stored[key] = one
    bound_tombstones(tombstones)
    return InstanceList(stored, tombstones)
