"""R4: two states of one service become one, per instance, so that nothing acknowledged on either side is lost."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.naming.model.model import Held, Tombstone
from distro.types import NO_VERSION, Version

AGE_MARGIN_MS = 3_000
"""Ages travel; this much they may be off by the time on the way. Source: the time-out of a query."""

Stand = tuple[Mapping[str, Version], Mapping[str, Version]]
"""The versions of a state's instances and of its removals, by instance key: what it knows."""


@dataclass(frozen=True, slots=True)
class InstanceList:
    """The value of an instance-list datum: instances and removals by instance key."""

    held: dict[str, Held]
    tombstones: dict[str, Tombstone]

    @property
    def stand(self) -> Stand:
        held = {key: one.version for key, one in self.held.items()}
        return held, {key: stone.version for key, stone in self.tombstones.items()}


NO_INSTANCES = InstanceList({}, {})


def covers(newer: InstanceList, older: InstanceList) -> bool:
    """Whether ``newer`` knows of every change in ``older``: of each instance and removal it has as late a word.

    A change of health is no word: who judges next finds it again.
    """
    for key, held in older.held.items():
        if held.said > _last_word(newer, key):
            return False
    return all(stone.version <= _last_word(newer, key) for key, stone in older.tombstones.items())


def _last_word(state: InstanceList, key: str) -> Version:
    held, stone = state.held.get(key), state.tombstones.get(key)
    return max(held.said if held else NO_VERSION, stone.version if stone else NO_VERSION)


def is_buried(held: Held, stone: Tombstone) -> bool:
    """Whether a removal known to one side ends the instance that the other side holds.

    The later word of the client or the judge holds, by version. But two sides that were apart count for themselves, so
    time may speak against the versions: an instance that was certainly heard of after the removal lives, and one that
    was silent since before it is gone.
    """
    if stone.version > held.said:
        return held.heard_ms <= stone.at_ms + AGE_MARGIN_MS
    return held.beat_ms < stone.at_ms - AGE_MARGIN_MS


def merge(ours: InstanceList, theirs: InstanceList, version: Version) -> InstanceList:
    """The union of both. What the merge itself decides gets ``version``, which is above all in both.

    So the last word on each instance is at least as late as on either side: the outcome ``covers`` both.
    """
    held: dict[str, Held] = {}
    stones = dict(ours.tombstones)
    for key, stone in theirs.tombstones.items():
        known = stones.get(key)
        if known is None or known.version < stone.version:
            stones[key] = stone
    for key in (*ours.held, *[key for key in theirs.held if key not in ours.held]):
        one = _newer(ours.held.get(key), theirs.held.get(key), version)
        found = stones.get(key)
        if found is None:
            held[key] = one
        elif not is_buried(one, found):
            del stones[key]
            held[key] = one if one.said > found.version else _as_of(one, version)
        elif one.said > found.version:
            stones[key] = Tombstone(version, found.at_ms, found.keep_ms)
    return InstanceList(held, stones)


def _newer(mine: Held | None, other: Held | None, version: Version) -> Held:
    """The instance as its client described it last, with the health that was found by who heard of it last."""
    if mine is None or other is None:
        one = mine or other
        assert one is not None, "a key of the union is on one side at least"
        return _as_of(one, version) if one.version == NO_VERSION else one  # that is from a member that keeps none
    mine_is_best = (mine.said, mine.beat_ms, mine.version) >= (other.said, other.beat_ms, other.version)
    best, rest = (mine, other) if mine_is_best else (other, mine)
    beat_ms, heard_ms = max(mine.beat_ms, other.beat_ms), max(mine.heard_ms, other.heard_ms)
    if best is mine and mine.version >= other.version:
        mine.beat_ms, mine.heard_ms = beat_ms, heard_ms
        return mine
    changed = best.version if best.version >= rest.version else version
    return Held(best.instance, changed, beat_ms, best.said, heard_ms)


def _as_of(held: Held, version: Version) -> Held:
    return Held(held.instance, version, held.beat_ms, version, held.heard_ms)
