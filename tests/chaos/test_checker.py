"""The checker finds each kind of breach in a small history, and none in its innocent twin."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import pytest

from tests.chaos.checker import (
    CLOCKS_S,
    LATE_S,
    MERGE_S,
    ORDER_S,
    SETTLE_S,
    WARM_S,
    Disagreement,
    Kind,
    Times,
    agreed_after_s,
    check,
    last_disagreement,
)
from tests.chaos.history import Beat, History, Key, Outcome, Sample, Seen, Word

CUT_S, HEALED_S = 100.0, 125.0
SETTLED_S = HEALED_S + SETTLE_S + 1
"""When everything said before the heal is known to all."""
APART = Times(CUT_S, HEALED_S, (frozenset({0}), frozenset({1, 2})))
KEY = Key("orders", "10.0.0.1")
TAKES_S = 0.1
"""A call."""
DONE, REFUSED, UNKNOWN, LEFT = Outcome


@dataclass
class Story:
    """A history of one key, in the order of its telling, with members 0 | 1, 2 apart from 100 to 125 s."""

    key: Key = KEY
    times: Times = APART
    history: History = field(default_factory=History)

    def said(
        self, mark: str | None, member: int, at_s: float, outcome: Outcome = DONE, takes_s: float = TAKES_S
    ) -> Self:
        """Tell of a word, and of the beat that an acknowledged registration is."""
        word = Word(mark, member, at_s, at_s + takes_s, outcome)
        self.history.words[self.key].append(word)
        if outcome is DONE and mark is not None:
            self.history.beats[self.key].append(Beat(member, word.begun_s, word.ended_s))
        return self

    def beat(self, member: int, first_s: float, last_s: float) -> Self:
        """Tell of beats each 5 s that a member acknowledged."""
        count = int((last_s - first_s) / 5) + 1
        times_s = [first_s + 5 * number for number in range(count)]
        self.history.beats[self.key] += [Beat(member, at_s, at_s + TAKES_S) for at_s in times_s]
        return self

    def lasts(self) -> Self:
        """The key is one of those that beat all the time."""
        self.history.lasting.add(self.key)
        return self

    def saw(self, member: int, at_s: float, mark: str | None, healthy: bool = True, others: int = 1) -> Self:
        """Tell of a list, with so many other instances in it."""
        self.history.samples.append(self._sample(member, at_s, mark, healthy, others))
        return self

    def ended_with(self, *marks: str | None) -> Self:
        """Tell of the last lists, at 200 s, of members 0 and so on."""
        self.history.last += [self._sample(member, 200.0, mark, True, 1) for member, mark in enumerate(marks)]
        return self

    def _sample(self, member: int, at_s: float, mark: str | None, healthy: bool, others: int) -> Sample:
        hosts = {f"10.0.9.{number}": Seen("m0", True) for number in range(others)}
        if mark is not None:
            hosts[self.key.ip] = Seen(mark, healthy)
        return Sample(member, self.key.service, at_s, at_s + TAKES_S, hosts)

    def kinds(self) -> set[Kind]:
        """The kinds of breaches that the checker finds; of agreement only where the last lists are told."""
        found = {kind for kind, breaches in check(self.history, self.times).breaches.items() if breaches}
        return found if self.history.last else found - {Kind.NEVER_AGREED}


def durable() -> Story:
    return Story(key=Key("orders", "10.0.0.1", durable=True))


def lasting(member: int = 1, until_s: float = 200.0) -> Story:
    """An instance that beats at one member from 80 s on."""
    return Story().said("m1", member, 80.0).beat(member, 85.0, until_s).lasts()


# --- instances that beat all the time -------------------------------------------------------------------


@pytest.mark.parametrize("member", [0, 1, 2])
def test_an_instance_that_beats_is_missing(member: int) -> None:
    assert lasting().saw(member, 95.0, None).kinds() == {Kind.MISSING}
    assert lasting().saw(member, 95.0, "m1").kinds() == set()


def test_an_instance_that_beats_is_unhealthy() -> None:
    assert lasting().saw(2, 95.0, "m1", healthy=False).kinds() == {Kind.UNHEALTHY}


def test_a_list_is_empty() -> None:
    assert lasting().saw(2, 95.0, None, others=0).kinds() == {Kind.MISSING, Kind.EMPTY}
    assert lasting(until_s=90.0).saw(2, 199.0, None, others=0).kinds() == set()


def test_an_instance_whose_last_beat_is_long_ago_may_go() -> None:
    assert lasting(until_s=150.0).saw(2, 161.0, None).kinds() == {Kind.MISSING}
    assert lasting(until_s=150.0).saw(2, 163.0, None).kinds() == set()


def test_a_beat_that_is_not_yet_answered_proves_nothing() -> None:
    story = lasting(until_s=150.0)
    story.history.beats[story.key].append(Beat(1, 160.0, 163.5))
    assert story.saw(2, 163.3, None).kinds() == set()


def test_a_beat_was_heard_as_early_as_its_call_began() -> None:
    """And a list may have been made as late as its call ended."""
    story = lasting(until_s=150.0)
    story.history.beats[story.key].append(Beat(1, 155.0, 158.0))
    assert story.saw(2, 166.8, None).kinds() == {Kind.MISSING}
    assert lasting(until_s=155.0).saw(2, 166.95, None).kinds() == set()


def test_an_instance_that_was_silent_has_its_time_to_come_back() -> None:
    def story() -> Story:
        return Story().said("m1", 1, 20.0).beat(1, 80.0, 200.0).lasts()

    assert story().saw(2, 87.0, None).kinds() == set()
    assert story().saw(2, 89.0, None).kinds() == {Kind.MISSING}


def test_beats_beyond_the_cut_are_not_known() -> None:
    assert lasting(member=1).saw(0, 115.0, "m1", healthy=False).kinds() == set()
    assert lasting(member=0).saw(0, 115.0, "m1", healthy=False).kinds() == {Kind.UNHEALTHY}
    assert lasting(member=1).saw(2, 115.0, "m1", healthy=False).kinds() == {Kind.UNHEALTHY}


def test_beats_of_before_the_cut_are_known_beyond_it() -> None:
    assert lasting(member=1).saw(0, 105.0, None).kinds() == {Kind.MISSING}


def test_beats_beyond_the_cut_are_known_soon_after_the_heal() -> None:
    assert lasting(member=1).saw(0, HEALED_S + MERGE_S - 0.5, None).kinds() == set()
    assert lasting(member=1).saw(0, HEALED_S + MERGE_S + 0.5, None).kinds() == {Kind.MISSING}


def test_a_member_between_two_sides_knows_of_both() -> None:
    story = lasting(member=1).saw(2, 115.0, None)
    story.times = Times(CUT_S, HEALED_S, (frozenset({0, 2}), frozenset({1, 2})))
    assert story.kinds() == {Kind.MISSING}
    story.history.samples.clear()
    assert story.saw(0, 115.0, None).kinds() == set()


def connected(member: int = 1, until_s: float = 200.0) -> Story:
    """An instance of a client that has a connection to one member from 80 s on."""
    story = lasting(member, until_s)
    story.history.connected.add(story.key)
    return story


def test_what_a_client_with_a_connection_publishes_stays_known_beyond_the_cut() -> None:
    assert connected(member=1).saw(0, 120.0, None).kinds() == {Kind.MISSING}
    assert lasting(member=1).saw(0, 120.0, None).kinds() == set(), "nobody beyond the cut hears its beats"


def test_a_client_that_connected_elsewhere_during_the_cut_is_not_known_beyond_it() -> None:
    moved = connected(member=1).said("m1", 2, 110.0)
    assert moved.saw(0, 120.0, None).kinds() == set()
    assert connected(member=1).said(None, 1, 112.0, LEFT).saw(0, 120.0, None).kinds() == set()
    assert connected(member=1).said("m1", 2, 98.0).saw(0, 120.0, None).kinds() == set(), "the cut began meanwhile"


def test_a_member_that_was_killed_knows_clients_beyond_the_cut_only_after_the_heal() -> None:
    def connected_to(member: int) -> Story:
        story = connected(member)
        story.times = Times(CUT_S, HEALED_S, APART.sides, killed_s=104.0, killed=frozenset({0}))
        return story

    story = connected_to(1)
    assert story.saw(0, 108.0, None).saw(0, HEALED_S + MERGE_S - 0.5, None).kinds() == set()
    assert connected_to(1).saw(2, 108.0, None).kinds() == {Kind.MISSING}
    assert connected_to(0).saw(0, 108.0, None).kinds() == set(), "it is to publish again"
    assert connected_to(0).saw(0, 120.0, None).kinds() == {Kind.MISSING}
    assert story.saw(0, HEALED_S + MERGE_S + 0.5, None).kinds() == {Kind.MISSING}


def test_what_a_client_left_at_a_member_that_was_killed_may_be_listed() -> None:
    def story(*, is_killed: bool) -> Story:
        told = Story().said("m1", 1, 80.0).said("m2", 2, 108.0).said(None, 2, 112.0)
        told.history.connected.add(told.key)
        told.times = Times(CUT_S, HEALED_S, APART.sides, killed_s=104.0, killed=frozenset({1, 2} if is_killed else {2}))
        return told

    assert story(is_killed=True).saw(0, SETTLED_S, "m1").kinds() == set()
    assert story(is_killed=True).saw(0, SETTLED_S, "m2").kinds() == {Kind.WRONG}
    assert story(is_killed=False).saw(0, SETTLED_S, "m1").kinds() == {Kind.RESURRECTED}


def test_a_client_that_hung_up_at_another_member_is_listed_for_a_while() -> None:
    """Its connection and the next one are two clients, until the end of the first is known."""

    def story(member: int, at_s: float) -> Story:
        told = Story().said("m1", member, 104.0).said(None, member, 108.0, LEFT)
        return told.said("m2", 1, 109.5).said(None, 1, 112.0).saw(1, at_s, "m1")

    assert story(2, 112.5).kinds() == set()
    assert story(2, 112.2 + SETTLE_S).kinds() == {Kind.RESURRECTED}
    assert story(1, 112.5).kinds() == {Kind.UNSEEN}
    assert Story().said("m1", 2, 104.0).said(None, 1, 112.0).saw(1, 112.5, "m1").kinds() == {Kind.UNSEEN}


@pytest.mark.parametrize(("is_connected", "kinds"), [(True, set()), (False, {Kind.UNSEEN})])
def test_what_a_client_withdrew_elsewhere_is_no_word_of_the_next_client(is_connected: bool, kinds: set[Kind]) -> None:
    """Two connections, one after the other: the second withdraws its own, and the copy of the first takes its time."""
    slow = Times(100.0, 125.0)

    def story(reader: int, at_s: float) -> Story:
        told = Story(times=slow).said("m1", 2, 104.0).said(None, 2, 106.0).said("m2", 0, 107.0).said(None, 0, 109.0)
        if is_connected:
            told.history.connected.add(told.key)
        return told.saw(reader, at_s, "m1")

    assert story(0, 110.0).kinds() == kinds
    assert story(1, 110.0).kinds() == set()
    assert story(0, SETTLED_S).kinds() == kinds | {Kind.RESURRECTED}
    here = Story(times=slow).said("m1", 0, 104.0).said(None, 0, 106.0)
    here.history.connected.add(here.key)
    assert here.saw(0, 110.0, "m1").kinds() == {Kind.UNSEEN}


def test_a_client_that_hung_up_beyond_the_cut_is_listed_until_the_heal() -> None:
    """Another one of its process came to this side and went; the copy of the first is what is known here."""

    def story(at_s: float, shown: str) -> Story:
        told = Story().said("m1", 1, 80.0).said(None, 1, 102.0, LEFT).said("m2", 0, 104.0).said(None, 0, 106.0, LEFT)
        told.history.connected.add(told.key)
        return told.said("m3", 2, 108.0).beat(2, 110.0, 200.0).saw(0, at_s, shown)

    assert story(118.0, "m1").kinds() == set()
    assert story(SETTLED_S, "m1").kinds() == {Kind.WRONG}
    assert story(SETTLED_S, "m3").kinds() == set()


@pytest.mark.parametrize("shown", ["m1", None])
def test_a_client_that_went_without_a_word_may_be_listed_or_not(shown: str | None) -> None:
    assert Story().said("m1", 0, 80.0).said(None, 0, 110.0, LEFT).saw(1, SETTLED_S, shown).kinds() == set()
    came_back = Story().said("m1", 0, 80.0).said(None, 0, 110.0, LEFT).said("m2", 1, 111.5).beat(1, 115.0, 200.0)
    assert came_back.saw(2, SETTLED_S, shown).kinds() == {Kind.WRONG if shown else Kind.FORGOTTEN}


# --- words of ephemeral instances -----------------------------------------------------------------------


def test_the_member_that_took_a_word_does_not_list_it() -> None:
    assert Story().said("m1", 0, 110.0).saw(0, 110.2, None).kinds() == {Kind.UNSEEN}
    assert Story().said("m1", 0, 110.0).saw(0, 110.2, "m1").kinds() == set()


def test_a_list_that_was_asked_for_before_the_answer() -> None:
    assert Story().said("m1", 0, 110.0).saw(0, 110.05, None).kinds() == set()


def test_another_member_than_took_the_word_has_its_time() -> None:
    assert Story().said("m1", 1, 110.0).saw(2, 110.2, None).kinds() == set()


@pytest.mark.parametrize("outcome", [REFUSED, UNKNOWN])
def test_a_word_that_was_not_acknowledged_need_not_be_seen(outcome: Outcome) -> None:
    assert Story().said("m1", 0, 110.0, outcome).saw(0, 112.0, None).kinds() == set()
    assert Story().said("m1", 0, 110.0, outcome).saw(0, SETTLED_S, "m1").kinds() == set()


def test_a_later_word_is_under_way() -> None:
    assert Story().said("m1", 0, 110.0).said(None, 1, 114.0, takes_s=2.0).saw(0, 115.0, None).kinds() == set()


def test_a_removed_instance_is_back() -> None:
    story = Story().said("m1", 1, 80.0).said(None, 0, 110.0)
    assert story.saw(1, SETTLED_S, "m1").kinds() == {Kind.RESURRECTED}
    story.history.samples.clear()
    assert story.saw(1, SETTLED_S - 2, "m1").kinds() == set()


@pytest.mark.parametrize("outcome", [REFUSED, UNKNOWN])
def test_a_removal_that_was_not_acknowledged_undoes_nothing(outcome: Outcome) -> None:
    story = Story().said("m1", 1, 80.0).beat(1, 85.0, 200.0).said(None, 0, 110.0, outcome)
    assert story.saw(1, SETTLED_S, "m1").saw(1, SETTLED_S, None).kinds() == set()


@pytest.mark.parametrize("outcome", [REFUSED, UNKNOWN])
def test_a_registration_without_acknowledgement_after_a_removal(outcome: Outcome) -> None:
    story = Story().said("m1", 1, 80.0).said(None, 0, 110.0).said("m2", 1, 115.0, outcome)
    assert story.saw(1, SETTLED_S, "m2").saw(1, SETTLED_S, None).kinds() == set()
    assert story.saw(1, SETTLED_S, "m1").kinds() == {Kind.WRONG}


@pytest.mark.parametrize("outcome", [REFUSED, UNKNOWN])
def test_a_word_without_acknowledgement_is_not_executed_after_a_later_one(outcome: Outcome) -> None:
    story = Story().said("m1", 1, 80.0).said("m2", 0, 110.0, outcome, takes_s=3.0).said(None, 1, 115.0)
    assert story.saw(2, SETTLED_S, "m2").kinds() == {Kind.RESURRECTED}


def test_an_instance_that_beats_is_forgotten() -> None:
    assert Story().said("m1", 0, 110.0).beat(0, 115.0, 200.0).saw(1, SETTLED_S, None).kinds() == {Kind.FORGOTTEN}
    assert Story().said("m1", 0, 110.0).beat(0, 115.0, 120.0).saw(1, SETTLED_S, None).kinds() == set(), "it expired"


def test_another_instance_than_the_last_is_listed() -> None:
    story = Story().said("m1", 0, 80.0).said("m2", 0, 85.0)
    assert story.saw(1, 95.0, "m1").kinds() == {Kind.WRONG}
    story.history.samples.clear()
    assert story.saw(1, 95.0, "m2").kinds() == set()


def test_the_later_word_wins_whatever_the_side() -> None:
    story = Story().said("m1", 0, 110.0).said("m2", 1, 116.0)
    assert story.saw(0, SETTLED_S, "m1").kinds() == {Kind.WRONG}
    story.history.samples.clear()
    assert story.saw(0, SETTLED_S, "m2").kinds() == set()


@pytest.mark.parametrize("kept", ["m1", "m2"])
def test_two_words_of_one_moment_and_two_sides_have_no_order(kept: str) -> None:
    assert Story().said("m1", 0, 110.0).said("m2", 1, 110.0 + ORDER_S).saw(2, SETTLED_S, kept).kinds() == set()
    assert durable().said("m1", 0, 110.0).said("m2", 1, 110.0 + ORDER_S).saw(2, SETTLED_S, kept).kinds() == set()


def test_on_one_side_they_have() -> None:
    assert Story().said("m1", 1, 110.0).said("m2", 2, 110.2).saw(2, SETTLED_S, "m1").kinds() == {
        Kind.UNSEEN,
        Kind.WRONG,
    }


def test_a_removal_right_after_a_beat_beyond_the_cut() -> None:
    def kinds(beat_s: float, member: int) -> set[Kind]:
        story = Story().said("m1", member, 80.0).beat(member, beat_s, beat_s).said(None, 2, 115.0)
        return story.saw(1, SETTLED_S, "m1").kinds()

    assert kinds(115.0 - ORDER_S, 0) == set()
    assert kinds(114.5 - ORDER_S, 0) == {Kind.RESURRECTED}
    assert kinds(115.0 - ORDER_S, 1) == {Kind.RESURRECTED}, "on one side that is no excuse"


def test_a_word_is_undone_in_the_moments_after_the_heal() -> None:
    story = Story().said("m1", 0, 110.0).said("m2", 1, 116.0)
    assert story.saw(1, HEALED_S + 1, "m1").kinds() == {Kind.UNSEEN}


def test_words_travel_within_a_side_during_the_cut() -> None:
    def story(reader: int) -> Story:
        return Story().said("m1", 1, 80.0).said(None, 1, 105.0).saw(reader, 105.2 + SETTLE_S, "m1")

    assert story(2).kinds() == {Kind.RESURRECTED}
    assert story(0).kinds() == set()


def test_words_need_not_travel_while_all_links_are_bad() -> None:
    story = Story(times=Times(CUT_S, HEALED_S)).said("m1", 1, 80.0).said(None, 1, 105.0).saw(2, 115.0, "m1")
    assert story.kinds() == set()


def test_a_word_beyond_the_cut_may_be_known_or_not() -> None:
    """As of links that come and go."""
    story = Story().said("m1", 0, 80.0).said("m2", 0, 104.0).said("m3", 1, 108.0)
    assert story.saw(0, 118.0, "m2").saw(0, 118.0, "m3").kinds() == set()
    assert story.saw(0, 118.0, "m1").kinds() == {Kind.UNSEEN, Kind.WRONG}


def test_a_word_of_the_moment_before_all_that_knew_of_it_were_killed() -> None:
    def story(removed_s: float, killed: set[int]) -> Story:
        told = Story(times=Times(CUT_S, HEALED_S, APART.sides, killed_s=110.0, killed=frozenset(killed)))
        return told.said("m1", 1, 80.0).said(None, 1, removed_s).saw(1, 120.0, "m1")

    assert story(109.5, {1, 2}).kinds() == set()
    assert story(109.5, {1}).kinds() == {Kind.UNSEEN, Kind.RESURRECTED}, "the third member knew of it"
    assert story(109.5 - WARM_S, {1, 2}).kinds() == {Kind.UNSEEN, Kind.RESURRECTED}, "it was on the disk"
    told = story(109.5, {1, 2})
    lost = Story(durable().key, told.times).said("m1", 1, 80.0).said("m2", 1, 109.5)
    assert lost.saw(1, 120.0, "m1").kinds() == {Kind.UNSEEN, Kind.DURABLE}, "records are written before the answer"


# --- words of persistent instances ----------------------------------------------------------------------


def test_a_member_that_goes_on_lists_what_it_knew_before() -> None:
    def story(shown: str | None, at_s: float = HEALED_S + 0.1, paused: int = 0) -> Story:
        times = Times(CUT_S, HEALED_S, APART.sides, paused=frozenset({paused}))
        removed = Story(times=times).said("m0", 1, 50.0).beat(1, 55.0, 115.0).said(None, 1, 120.0)
        return removed.saw(0, at_s, shown)

    assert story("m0").kinds() == {Kind.STALE}
    assert story(None).kinds() == set()
    assert story("m0", paused=1).kinds() == set()
    assert story("m0", HEALED_S - 10.0).kinds() == set()
    late = Story(times=Times(CUT_S, HEALED_S, APART.sides, paused=frozenset({0})))
    late.said("m0", 1, 50.0).beat(1, 55.0, 120.0).said(None, 1, HEALED_S - ORDER_S + 0.1)
    assert late.saw(0, HEALED_S + 0.1, "m0").kinds() == set(), "it was removed just before"
    new = Story(times=Times(CUT_S, HEALED_S, APART.sides, paused=frozenset({0}))).said("m1", 2, 115.0)
    assert new.beat(2, 120.0, 130.0).saw(0, HEALED_S + 0.1, None).kinds() == {Kind.STALE}


def test_a_persistent_instance_is_lost() -> None:
    assert durable().said("m1", 1, 110.0).saw(2, SETTLED_S, None).kinds() == {Kind.DURABLE}
    assert durable().said("m1", 1, 110.0).saw(2, SETTLED_S, "m1").kinds() == set()


def test_a_removed_persistent_instance_is_back() -> None:
    assert durable().said("m1", 1, 80.0).said(None, 1, 90.0).saw(2, SETTLED_S, "m1").kinds() == {Kind.DURABLE}


@pytest.mark.parametrize("sides", [(0, 1), (1, 0), (2, 1), (1, 1)])
def test_of_a_persistent_instance_the_later_word_wins_whatever_the_side(sides: tuple[int, int]) -> None:
    one, other = sides
    story = durable().said("m1", one, 110.0).said("m2", other, 116.0)
    assert story.saw(2, SETTLED_S, "m2").kinds() == set()
    assert story.saw(2, SETTLED_S, "m1").kinds() == {Kind.DURABLE}


def test_of_a_persistent_instance_a_word_of_before_the_cut_is_undone() -> None:
    assert durable().said("m1", 0, 90.0).said("m2", 1, 116.0).saw(2, SETTLED_S, "m1").kinds() == {Kind.DURABLE}


def test_a_persistent_instance_of_which_no_word_was_acknowledged() -> None:
    story = durable().said("m1", 0, 110.0, UNKNOWN).said("m2", 1, 116.0, UNKNOWN)
    assert story.saw(0, SETTLED_S, None).saw(0, SETTLED_S, "m1").saw(0, SETTLED_S, "m2").kinds() == set()
    assert story.saw(0, SETTLED_S, "m3").kinds() == {Kind.DURABLE}


# --- the end --------------------------------------------------------------------------------------------


def test_members_differ_at_the_end() -> None:
    def story(*marks: str | None) -> Story:
        told = Story().said("m1", 0, 80.0).beat(0, 85.0, 200.0).ended_with(*marks)
        for member in range(len(marks)):
            told.saw(member, 130.0, "m1")
        return told

    assert story("m1", "m1", "m1").kinds() == set()
    assert story("m1", None, "m1").kinds() == {Kind.DIFFERING, Kind.NEVER_AGREED}


def test_a_member_gives_no_list_at_the_end() -> None:
    story = Story().said("m1", 0, 80.0).beat(0, 85.0, 200.0).saw(0, 130.0, "m1").saw(1, 130.0, "m1")
    assert story.ended_with("m1", "m1").kinds() == set()
    story.history.last.append(Sample(2, "orders", 200.0, 203.0, None))
    assert story.kinds() == {Kind.DIFFERING, Kind.NEVER_AGREED}


def test_members_agree_from_the_last_list_on_that_only_one_of_them_gave() -> None:
    story = Story().said("m1", 0, 80.0).ended_with("m1", "m1")
    for at_s, mine, theirs in ((126.0, "m1", "m1"), (127.0, "m1", None), (128.0, "m1", "m1"), (129.0, "m1", "m1")):
        story.saw(0, at_s, mine).saw(1, at_s, theirs)
    assert agreed_after_s(story.history, HEALED_S) == pytest.approx(127.0 + TAKES_S - HEALED_S)


@pytest.mark.parametrize(("stood_still", "agreed_s"), [((126.5, 127.2), 0.0), ((125.0, 126.8), 3.0)])
def test_a_list_that_is_missing_counts_unless_the_clients_stood_still_meanwhile(
    stood_still: tuple[float, float], agreed_s: float
) -> None:
    story = Story().said("m1", 0, 80.0).ended_with("m1", "m1")
    for at_s in (126.0, 129.0):
        story.saw(0, at_s, "m1").saw(1, at_s, "m1")
    story.history.samples.append(Sample(1, "orders", 127.0, HEALED_S + 3.0, None))
    story.history.stood_still.append(stood_still)
    assert agreed_after_s(story.history, HEALED_S) == agreed_s


def test_members_that_change_their_lists_together_agree_all_the_time() -> None:
    """One whose registration was refused, and yet made, expires everywhere long after the heal."""
    story = Story().said("m1", 0, 80.0).ended_with(None, None)
    for number in range(60):
        at_s = 126.0 + number / 2
        story.saw(0, at_s, "m1" if number < 50 else None).saw(1, at_s, "m1" if number < 51 else None)
    assert agreed_after_s(story.history, HEALED_S) == 0.0


@pytest.mark.parametrize(("second_from_s", "agreed_s"), [(127.0, 0.0), (132.0, 131.0 + TAKES_S - HEALED_S)])
def test_two_instances_that_change_together_may_do_so_in_another_order_elsewhere(
    second_from_s: float, agreed_s: float
) -> None:
    """One member tells one of them first, the other one both at once."""
    story = Story().said("m1", 0, 80.0).ended_with(None, None)
    unhealthy_from_s = {0: (127.0, 128.0), 1: (127.0, second_from_s)}
    for number in range(10):
        at_s = 126.0 + number
        for member, from_s in unhealthy_from_s.items():
            hosts = {f"10.0.0.{one}": Seen("m1", at_s < since_s, "1.0") for one, since_s in enumerate(from_s)}
            story.history.samples.append(Sample(member, "orders", at_s, at_s + TAKES_S, hosts))
    assert agreed_after_s(story.history, HEALED_S) == pytest.approx(agreed_s)


@pytest.mark.parametrize(("others_turn_s", "agreed_s"), [(128.0, 0.0), (132.0, 131.0 + TAKES_S - HEALED_S)])
def test_the_last_one_that_turns_unhealthy_turns_the_others_back(others_turn_s: float, agreed_s: float) -> None:
    """A list shows all as healthy when none is: only one member is asked between the turns of two instances."""
    story = Story().said("m1", 0, 80.0).ended_with(None, None)
    for number in range(10):
        at_s = 126.0 + number
        # Member 0 is asked when one is unhealthy: of two at 128.0, of all from then on.
        for member, unhealthy in ((0, at_s == 128.0), (1, 128.0 <= at_s < others_turn_s and others_turn_s > 128.0)):
            hosts = {ip: Seen("m1", not (unhealthy and ip == "10.0.0.1"), "1.0") for ip in ("10.0.0.1", "10.0.0.2")}
            story.history.samples.append(Sample(member, "orders", at_s, at_s + TAKES_S, hosts))
    assert agreed_after_s(story.history, HEALED_S) == pytest.approx(agreed_s)


def test_lists_after_the_last_ones_do_not_count() -> None:
    """The clients end then, one after the other, and what beats no more turns unhealthy here sooner than there."""
    story = Story().said("m1", 0, 80.0).ended_with("m1", "m1")
    for at_s, mine, theirs in ((126.0, "m1", "m1"), (210.0, "m1", None)):
        story.saw(0, at_s, mine).saw(1, at_s, theirs)
    assert agreed_after_s(story.history, HEALED_S) == 0.0


def test_a_list_at_a_time_when_the_other_member_is_not_asked_tells_nothing() -> None:
    story = Story().said("m1", 0, 80.0).ended_with("m2", "m2")
    story.saw(0, 126.0, "m1").saw(1, 126.0, "m1").saw(0, 150.0, "m2").saw(1, 152.0, "m2")
    assert agreed_after_s(story.history, HEALED_S) == 0.0


@pytest.mark.parametrize(("theirs", "agrees"), [(("m1", "m1", "m2"), True), (("m1", "m1", "m1"), False)])
def test_a_member_that_is_asked_less_often_may_have_changed_its_list_meanwhile(
    theirs: Sequence[str], agrees: bool
) -> None:
    story = Story().said("m1", 0, 80.0).ended_with("m1", "m1")
    for at_s, told in zip((126.0, 130.0, 134.0), theirs, strict=True):
        story.saw(1, at_s, told)
    story.saw(0, 126.5, "m1").saw(0, 132.0, "m2")
    assert (agreed_after_s(story.history, HEALED_S) == 0.0) is agrees


def test_the_last_disagreement_tells_who_listed_what() -> None:
    story = Story().said("m1", 0, 80.0).ended_with("m1", "m1")
    for at_s, theirs in ((126.0, "m1"), (128.0, None), (130.0, "m1")):
        story.saw(0, at_s, "m1").saw(1, at_s, theirs)
    last = last_disagreement(story.history, HEALED_S)
    assert isinstance(last, Disagreement)
    assert (last.sample.begun_s, {last.sample.member, last.other}) == (128.0, {0, 1})
    assert "10.0.0.1" in last.text
    assert "orders" in last.text


@pytest.mark.parametrize("unlike", [Seen("m1", False, "1.0"), Seen("m1", True, "2.0"), Seen("m2", True, "1.0")])
@pytest.mark.parametrize("key", [KEY, Key("orders", "10.0.0.1", durable=True)])
def test_lists_agree_when_health_weight_and_metadata_do(unlike: Seen, key: Key) -> None:
    story = Story(key=key).said("m1", 0, 80.0).ended_with("m1", "m1")
    for member, at_s, seen in ((0, 126.0, unlike), (1, 126.0, Seen("m1", True, "1.0"))):
        story.history.samples.append(Sample(member, "orders", at_s, at_s + TAKES_S, {key.ip: seen}))
    for member in (0, 1):
        story.history.samples.append(
            Sample(member, "orders", 129.0, 129.0 + TAKES_S, {key.ip: Seen("m1", True, "1.0")})
        )
    assert agreed_after_s(story.history, HEALED_S) == pytest.approx(126.0 + TAKES_S - HEALED_S)


# --- removed soon after the other side heard of it ------------------------------------------------------


def late(after_s: float, member: int = 1, outcome: Outcome = DONE) -> Story:
    """Registered at member 0 late in the cut, and removed so long after the answer."""
    story = Story().said("m1", 0, 120.0).said(None, member, 120.0 + TAKES_S + after_s, outcome)
    story.history.late.add(story.key)
    return story


def test_who_was_removed_late_is_listed_by_nobody_a_short_time_after_the_heal() -> None:
    listed_s = HEALED_S + LATE_S + 0.1
    assert late(0.4).saw(0, listed_s, None).saw(1, HEALED_S + 1, "m1").kinds() == set()
    assert Kind.LATE in late(0.4).saw(0, listed_s, "m1").kinds()
    assert Kind.LATE in late(CLOCKS_S + 0.01).saw(2, listed_s, "m1").kinds()


@pytest.mark.parametrize(
    "story", [late(CLOCKS_S - 0.01), late(0.4, member=0), late(0.4, outcome=UNKNOWN), late(0.4).said("m2", 0, 121.0)]
)
def test_a_late_removal_counts_where_it_is_known_to_be_the_last_word(story: Story) -> None:
    """Not in doubt, not on the same side, not without an answer, not before another word."""
    assert Kind.LATE not in story.saw(0, HEALED_S + LATE_S + 0.1, story.history.words[KEY][0].mark).kinds()


# --- at random ------------------------------------------------------------------------------------------


def play_at_random(seed: int, forgets: bool) -> Story:
    """Members that share one memory, and a client of it: each call takes effect at some time of it, or not at all.

    With ``forgets`` that memory loses the last acknowledged word after the heal.
    """
    rng = random.Random(seed)
    story = Story(key=Key("orders", "10.0.0.1", durable=rng.random() < 0.5))
    effects: list[tuple[float, str | None]] = [(0.0, None)]
    now_s, number = 60.0, 0
    while now_s < HEALED_S:
        number += 1
        takes_s = rng.uniform(0.01, 3.0)
        outcome = rng.choice([DONE, DONE, DONE, REFUSED, UNKNOWN])
        mark = rng.choice([None, f"m{number}"])
        if outcome is DONE or rng.random() < 0.5:
            effects.append((now_s + rng.uniform(0, takes_s), mark))
        story.said(mark, rng.randrange(3), now_s, outcome, takes_s)
        now_s += takes_s + rng.uniform(4, 6)
    story.said("last", 1, now_s)
    effects.append((now_s + TAKES_S / 2, "last"))
    if forgets:
        effects.append((now_s + TAKES_S, effects[0][1]))
    story.beat(1, now_s + TAKES_S + 0.1, 170.0)
    for _ in range(300):
        begun_s = rng.uniform(60, 165)
        made_s = begun_s + rng.uniform(0, TAKES_S)
        _, mark = max((effect for effect in effects if effect[0] <= made_s), key=lambda effect: effect[0])
        story.saw(rng.randrange(3), begun_s, mark)
    return story


@pytest.mark.parametrize("seed", range(40))
def test_members_that_forget_nothing_are_not_blamed(seed: int) -> None:
    assert play_at_random(seed, forgets=False).kinds() == set()


@pytest.mark.parametrize("seed", range(40))
def test_members_that_forget_a_word_are_blamed(seed: int) -> None:
    story = play_at_random(seed, forgets=True)
    assert story.kinds() == {Kind.UNSEEN, Kind.DURABLE if story.key.durable else Kind.FORGOTTEN}
