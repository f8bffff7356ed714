"""The manifests of a night against each other: lists, names, and moments of the members' parts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.tools.audit.check.member_lists import NotDumped, known_owners, membership, not_dumped, why_not_comparable
from app.tools.audit.format.layout import Night, Round, taken_at_text
from app.tools.audit.format.manifest import DumpState, Manifest, MemberDump, Seen

ONE, TWO, THREE, FOUR = (f"10.0.0.{number}:8848" for number in (1, 2, 3, 4))
THREE_MEMBERS = (ONE, TWO, THREE)
FIRST_MS, GAP_MS = 1_795_230_900_000, 15_000
UP = dict.fromkeys(THREE_MEMBERS, "UP")


def member(address: str, listed: Mapping[str, str] = UP, **values: Any) -> MemberDump:
    members = [Seen(one, state) for one, state in listed.items()]
    return MemberDump(address, DumpState.DUMPED, "rollcall", members=members, own_address=address, **values)


def night(*members: MemberDump, gap_s: float = 15.0, second: list[MemberDump] | None = None) -> Night:
    """A night of these members in both rounds, each dumped a second after the start of the round unless it says so."""
    rounds = []
    for number, found in ((1, members), (2, second or members)):
        at_ms = FIRST_MS + (number - 1) * GAP_MS
        timed = [one if one.taken_ms else replace(one, taken_ms=at_ms + 1_000) for one in found]
        manifest = Manifest("run", "2026-11-20", taken_at_text(at_ms), number, 2, gap_s, timed)
        rounds.append(Round("", manifest))
    return Night("2026-11-20", rounds)


class TestNotDumped:
    def test_all_that_are_listed_are_dumped(self) -> None:
        assert not_dumped(night(*map(member, THREE_MEMBERS))) == NotDumped()

    def test_one_that_all_list_as_up_is_absent(self) -> None:
        members = [member(one, UP | {FOUR: "UP"}) for one in THREE_MEMBERS]
        assert not_dumped(night(*members)) == NotDumped((FOUR,))

    @pytest.mark.parametrize("in_first", [True, False])
    def test_one_that_came_between_the_rounds_is_in_the_line_alone(self, in_first: bool) -> None:
        first = [member(one, UP | ({FOUR: "UP"} if in_first else {})) for one in THREE_MEMBERS]
        second = [member(one, UP | ({} if in_first else {FOUR: "UP"})) for one in THREE_MEMBERS]
        found = not_dumped(night(*first, second=second))
        assert (found.absent, found.others, FOUR in found.note) == ((), 1, True)

    @pytest.mark.parametrize("state", ["DOWN", "SUSPICIOUS"])
    def test_one_that_is_not_up_is_in_the_line(self, state: str) -> None:
        found = not_dumped(night(*[member(one, UP | {FOUR: state}) for one in THREE_MEMBERS]))
        assert (found.absent, found.others, FOUR in found.note) == ((), 1, True)

    def test_one_that_a_single_member_lists_is_in_the_line(self) -> None:
        members = [member(ONE), member(TWO), member(THREE, UP | {FOUR: "UP"})]
        found = not_dumped(night(*members))
        assert (found.absent, found.others) == ((), 1)

    def test_a_member_that_gives_no_list_says_nothing(self) -> None:
        assert not_dumped(night(member(ONE, {}), member(TWO, {}))) == NotDumped()
        assert not_dumped(night(member(ONE, {}), member(TWO, UP), member(THREE, UP))) == NotDumped()

    def test_a_member_dumped_under_another_name_is_not_taken_for_absent(self) -> None:
        listed = dict.fromkeys([ONE, TWO, "three.example:8848"], "UP")
        assert not_dumped(night(*[member(one, listed) for one in THREE_MEMBERS])) == NotDumped()

    def test_beside_another_name_only_those_beyond_count(self) -> None:
        listed = dict.fromkeys([ONE, TWO, "three.example:8848", FOUR], "UP")
        found = not_dumped(night(*[member(one, listed) for one in THREE_MEMBERS]))
        assert (found.absent, found.others) == ((), 1)
        assert found.note.endswith(f"dumped, but in no list: {THREE}")

    def test_an_absent_member_of_the_dump_is_asked_and_no_second_one(self) -> None:
        listed = UP | {FOUR: "UP"}
        members = [*(member(one, listed) for one in THREE_MEMBERS), MemberDump(FOUR, DumpState.ABSENT, error="refused")]
        assert not_dumped(night(*members)) == NotDumped()

    def test_a_hundred_names_make_a_short_note(self) -> None:
        listed = UP | {f"10.0.1.{number}:8848": "DOWN" for number in range(100)}
        found = not_dumped(night(*[member(one, listed) for one in THREE_MEMBERS]))
        assert (found.others, len(found.note) < 250, found.note.endswith(" and 95 more")) == (100, True, True)


def test_owners_are_known_from_the_dump_and_from_lists() -> None:
    members = [member(ONE, UP | {FOUR: "DOWN"}), MemberDump("10.0.0.5:8848", DumpState.ABSENT, error="refused")]
    assert known_owners(night(*members)) == {*THREE_MEMBERS, FOUR, "10.0.0.5:8848"}


class TestComparable:
    def test_an_honest_night_is(self) -> None:
        assert why_not_comparable(night(*map(member, THREE_MEMBERS))) == ""

    def test_one_member_under_two_names_is_not(self) -> None:
        twins = [replace(member(name), own_address=ONE) for name in ("localhost:8848", "127.0.0.1:8848")]
        assert why_not_comparable(night(*twins)) == f"localhost:8848 and 127.0.0.1:8848 are one member, {ONE}"

    def test_members_of_an_earlier_dump_have_no_own_address(self) -> None:
        assert why_not_comparable(night(*[replace(member(one), own_address="") for one in THREE_MEMBERS])) == ""

    def test_a_manifest_that_has_a_member_twice_is_not(self) -> None:
        text = why_not_comparable(night(member(ONE), member(TWO), member(ONE)))
        assert text == f"the manifest of round 1 has {ONE} twice; the manifest of round 2 has {ONE} twice"

    @pytest.mark.parametrize(
        ("before_ms", "gap_s", "is_old"),
        [(15_000, 15.0, True), (14_999, 15.0, False), (86_400_000, 15.0, True), (999, 0.0, False), (1_000, 0.0, True)],
    )
    def test_a_part_that_is_older_than_its_round_by_the_gap_is_not(
        self, before_ms: int, gap_s: float, is_old: bool
    ) -> None:
        old = member(THREE, taken_ms=FIRST_MS + GAP_MS - before_ms)
        text = why_not_comparable(night(member(ONE), member(TWO), old, gap_s=gap_s))
        assert (f"the part of {THREE} in round 2 was taken " in text) is is_old

    def test_a_late_member_is(self) -> None:
        """Its tries took a minute; the second round waits for it."""
        late = member(THREE, taken_ms=FIRST_MS + 60_000)
        assert why_not_comparable(night(member(ONE), member(TWO), late)) == ""

    def test_a_part_without_a_time_is(self) -> None:
        found = night(*map(member, THREE_MEMBERS))
        untimed = [replace(one, taken_ms=0) for one in found.rounds[0].manifest.members]
        rounds = [Round("", replace(found.rounds[0].manifest, members=untimed)), found.rounds[1]]
        assert why_not_comparable(replace(found, rounds=rounds)) == ""


def test_lists_that_differ_are_told_for_each_pair() -> None:
    members = [member(ONE), member(TWO), member(THREE, UP | {FOUR: "UP"})]
    found = membership(night(*members, second=[member(ONE), member(TWO), member(THREE)]))
    pairs = [(one["reference"], one["member"], one["lasting"]) for one in found]
    assert pairs == [(ONE, THREE, False), (TWO, THREE, False)]
