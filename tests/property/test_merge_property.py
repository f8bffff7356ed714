"""R4: merging two states of a service, whichever they are."""

from hypothesis import assume, given
from hypothesis import strategies as st

from app.naming.model.keys import AGE_MARGIN_MS, WORD_MARGIN_MS
from app.naming.model.model import NEVER_MS, Instance, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList, covers, merge
from distro.model.types import Version

KEYS = ("a", "b", "c")
ALL = sorted(Version(epoch, counter, writer) for epoch in (1, 2, 3) for counter in (0, 1, 2) for writer in "xyz")
SAID = {version: ALL[(7 * at + 3) % (at + 1)] for at, version in enumerate(ALL)}
"""A version says what it is of: here, which registration a change of health left as it was."""
SAID_AT_MS = {version: (5 * at % 7) * WORD_MARGIN_MS // 2 for at, version in enumerate(ALL)}
"""When the client's change of each version was made: two sides of a partition count apart from time."""
VERSIONS = st.sampled_from(ALL)
TIMES = st.integers(0, 6).map(lambda step: step * AGE_MARGIN_MS // 2)
"""So close that the margin decides as often as not, as with the times of words."""
ABOVE = Version(9, 0, "me")
HIGHER = Version(10, 0, "me")


@st.composite
def stored_instances(draw: st.DrawFn) -> StoredInstance:
    """An instance as some member holds it: two that hold the same version differ in ages only."""
    changed, beat_ms = draw(VERSIONS), draw(TIMES)
    client_version = SAID[changed]
    instance = Instance("10.0.0.1", 80, metadata={"said": client_version.to_text()}, healthy=changed.counter % 2 == 0)
    confirmed_ms = draw(st.sampled_from([beat_ms, NEVER_MS]))
    return StoredInstance(instance, changed, beat_ms, client_version, confirmed_ms, SAID_AT_MS[client_version])


@st.composite
def tombstones(draw: st.DrawFn) -> Tombstone:
    version = draw(VERSIONS)
    return Tombstone(version, (version.epoch * 3 + version.counter) * WORD_MARGIN_MS // 2, 90_000)


@st.composite
def states(draw: st.DrawFn) -> InstanceList:
    """Per key an instance, a removal, or nothing; never both, as no member holds both."""
    parts = {key: draw(st.one_of(st.none(), stored_instances(), tombstones())) for key in KEYS}
    stored = {key: part for key, part in parts.items() if isinstance(part, StoredInstance)}
    return InstanceList(stored, {key: part for key, part in parts.items() if isinstance(part, Tombstone)})


def shown(state: InstanceList) -> dict[str, Instance]:
    return {key: stored.instance for key, stored in state.stored.items()}


@given(states())
def test_a_state_merged_with_itself_is_itself(state: InstanceList) -> None:
    assert merge(state, state, ABOVE).version_summary == state.version_summary


@given(states(), states())
def test_both_sides_come_to_the_same_instances(ours: InstanceList, theirs: InstanceList) -> None:
    assert shown(merge(ours, theirs, ABOVE)) == shown(merge(theirs, ours, ABOVE))


@given(states(), states())
def test_the_outcome_knows_all_that_either_side_knew(ours: InstanceList, theirs: InstanceList) -> None:
    both = merge(ours, theirs, ABOVE)
    assert covers(both, ours)
    assert covers(both, theirs)


@given(states(), states())
def test_merging_again_changes_nothing(ours: InstanceList, theirs: InstanceList) -> None:
    both = merge(ours, theirs, ABOVE)
    for old in (ours, theirs, both):
        assert merge(both, old, HIGHER).version_summary == both.version_summary
        assert merge(old, both, HIGHER).version_summary == both.version_summary


@given(states(), states())
def test_what_one_side_covers_is_not_made_anew(ours: InstanceList, theirs: InstanceList) -> None:
    """A member that refuses a state always gets one that it takes: what it knows more is in the merge."""
    if not covers(ours, theirs):
        assert merge(ours, theirs, ABOVE).version_summary != ours.version_summary


def last(words: list[Version]) -> Version:
    """The latest one, the highest of those whose times have no order."""
    latest_ms = max(SAID_AT_MS[word] for word in words)
    return max(word for word in words if latest_ms - SAID_AT_MS[word] <= WORD_MARGIN_MS)


@given(states(), states())
def test_the_last_word_of_the_client_is_never_lost(ours: InstanceList, theirs: InstanceList) -> None:
    both = merge(ours, theirs, ABOVE)
    for key in KEYS:
        words = [stored.client_version for state in (ours, theirs) if (stored := state.stored.get(key))]
        gone = [tombstone.version for state in (ours, theirs) if (tombstone := state.tombstones.get(key))]
        if words and not gone:
            assert both.stored[key].instance.metadata == {"said": last(words).to_text()}
        if gone and not words:
            at_ms = max(one.at_ms for state in (ours, theirs) if (one := state.tombstones.get(key)))
            assert abs(both.tombstones[key].at_ms - at_ms) <= WORD_MARGIN_MS
            assert both.tombstones[key].version in (max(gone), ABOVE)
        assert (key in both.stored) + (key in both.tombstones) == bool(words or gone)


@given(stored_instances(), tombstones())
def test_versions_decide_only_where_the_times_have_no_order(stored: StoredInstance, tombstone: Tombstone) -> None:
    """The later word holds, whatever its version; a beat that was certainly heard after a removal undoes it.

    Of two members' words that are so close the removal holds.
    """
    assume(stored.client_version != tombstone.version)  # one version is of one change
    alive = "a" in merge(InstanceList({"a": stored}, {}), InstanceList({}, {"a": tombstone}), ABOVE).stored
    since_ms = stored.changed_ms - tombstone.at_ms
    if stored.last_confirmed_ms - tombstone.at_ms > AGE_MARGIN_MS or since_ms > WORD_MARGIN_MS:
        assert alive
    elif since_ms < -WORD_MARGIN_MS or stored.client_version.writer != tombstone.version.writer:
        assert not alive
    else:
        assert alive == (stored.client_version > tombstone.version)


@given(stored_instances(), stored_instances())
def test_the_side_of_the_later_beat_knows_the_health(mine: StoredInstance, other: StoredInstance) -> None:
    both = merge(InstanceList({"a": mine}, {}), InstanceList({"a": other}, {}), ABOVE).stored["a"]
    if mine.beat_ms != other.beat_ms:
        later = mine if mine.beat_ms > other.beat_ms else other
        assert both.instance.healthy == later.instance.healthy
    assert both.beat_ms == max(mine.beat_ms, other.beat_ms)
