"""R4: two states of one service become one, per instance, so that nothing acknowledged on either side is lost."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.naming.model.model import StoredInstance, Tombstone
from distro.types import NO_VERSION, Version

AGE_MARGIN_MS = 3_000
"""How far the age of a received beat may be off by the time it was under way. Source: the time-out of a query."""

VersionSummary = tuple[Mapping[str, Version], Mapping[str, Version]]
"""The versions of a list's instances, and of its tombstones, by instance key."""


@dataclass(frozen=True, slots=True)
class InstanceList:
    """The value of an instance-list datum: instances and tombstones by instance key."""

    stored: dict[str, StoredInstance]
    tombstones: dict[str, Tombstone]

    @property
    def version_summary(self) -> VersionSummary:
        """The versions of all instances and tombstones: two lists of equal summaries are the same state."""
        stored = {key: one.version for key, one in self.stored.items()}
        return stored, {key: tombstone.version for key, tombstone in self.tombstones.items()}


NO_INSTANCES = InstanceList({}, {})


def covers(newer: InstanceList, older: InstanceList) -> bool:
    """Whether ``newer`` has a change of the same or a later version for each instance and tombstone of ``older`` (R3).

    Changes of health do not count: the owner's next health check finds them again. A tombstone counts for an instance
    only if it removes it: an expiry, of any version, does not where a beat was heard since (R15).
    """
    for key, stored in older.stored.items():
        one, tombstone = newer.stored.get(key), newer.tombstones.get(key)
        if one is not None and one.client_version >= stored.client_version:
            continue
        if tombstone is None or not is_removed_by(stored, tombstone):
            return False
    return all(tombstone.version <= _last_change(newer, key) for key, tombstone in older.tombstones.items())


def _last_change(state: InstanceList, key: str) -> Version:
    stored, tombstone = state.stored.get(key), state.tombstones.get(key)
    return max(stored.client_version if stored else NO_VERSION, tombstone.version if tombstone else NO_VERSION)


def is_removed_by(stored: StoredInstance, tombstone: Tombstone) -> bool:
    """Whether one side's tombstone removes the instance that the other side stores (R4).

    The higher version wins, unless times contradict it, since two sides of a partition count versions apart: an
    instance with a confirmed beat after the removal stays, and one without a beat since before the removal goes.
    """
    if tombstone.version > stored.client_version:
        return stored.last_confirmed_ms <= tombstone.at_ms + AGE_MARGIN_MS
    return stored.beat_ms < tombstone.at_ms - AGE_MARGIN_MS


def merge(ours: InstanceList, theirs: InstanceList, version: Version) -> InstanceList:
    """The union of two lists. Changes that the merge itself makes get ``version``, which is higher than all in both.

    The result ``covers`` both lists.
    """
    stored: dict[str, StoredInstance] = {}
    tombstones = dict(ours.tombstones)
    for key, tombstone in theirs.tombstones.items():
        known = tombstones.get(key)
        if known is None or known.version < tombstone.version:
            tombstones[key] = tombstone
    for key in (*ours.stored, *[key for key in theirs.stored if key not in ours.stored]):
        one = _newer(ours.stored.get(key), theirs.stored.get(key), version)
        found = tombstones.get(key)
        if found is None:
            stored[key] = one
        elif not is_removed_by(one, found):
            del tombstones[key]
            stored[key] = one if one.client_version > found.version else _as_of(one, version)
        elif one.client_version > found.version:
            tombstones[key] = Tombstone(version, found.at_ms, found.keep_ms)
    return InstanceList(stored, tombstones)


def _newer(mine: StoredInstance | None, other: StoredInstance | None, version: Version) -> StoredInstance:
    """The attributes of the client's later change, with the health found by the side of the later beat."""
    if mine is None or other is None:
        one = mine or other
        assert one is not None, "a key of the union is on one side at least"
        return _as_of(one, version) if one.version == NO_VERSION else one  # from a member without versions
    mine_is_best = (mine.client_version, mine.beat_ms, mine.version) >= (
        other.client_version,
        other.beat_ms,
        other.version,
    )
    best, rest = (mine, other) if mine_is_best else (other, mine)
    beat_ms, last_confirmed_ms = max(mine.beat_ms, other.beat_ms), max(mine.last_confirmed_ms, other.last_confirmed_ms)
    if best is mine and mine.version >= other.version:
        mine.beat_ms, mine.last_confirmed_ms = beat_ms, last_confirmed_ms
        return mine
    changed = best.version if best.version >= rest.version else version
    return StoredInstance(best.instance, changed, beat_ms, best.client_version, last_confirmed_ms)


def _as_of(stored: StoredInstance, version: Version) -> StoredInstance:
    return StoredInstance(stored.instance, version, stored.beat_ms, version, stored.last_confirmed_ms)
