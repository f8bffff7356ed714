"""Which runs of members are over, and for how long their clients are handed over (R17)."""

import pytest

from distro.members.members_view import FORMER_MAX, HANDOVER_MS, HANDOVER_MS_MAX, RETURNING_MS, MemberRuns

SELF, B = "10.0.0.1:8848", "10.0.0.2:8848"
FIRST, SECOND = f"{B}~1", f"{B}~2"
NOW_MS = 5_000


@pytest.fixture
def runs() -> MemberRuns:
    """The runs of a member and of one peer, whose first run answered."""
    made = MemberRuns(SELF, 0)
    made.replace([B], [], 0)
    made.follow(B, FIRST, 0)
    return made


def is_over(runs: MemberRuns, writer: str) -> bool:
    return runs.view.is_handing_over(writer) or runs.view.has_left(writer)


def test_the_run_before_is_over_and_handed_over(runs: MemberRuns) -> None:
    assert not is_over(runs, FIRST)
    runs.follow(B, SECOND, NOW_MS)
    assert not is_over(runs, SECOND)
    for now_ms, is_handed_over in ((NOW_MS + HANDOVER_MS - 1, True), (NOW_MS + HANDOVER_MS, False)):
        runs.tick(now_ms)
        assert runs.view.is_handing_over(FIRST) is is_handed_over
        assert runs.view.has_left(FIRST) is not is_handed_over


@pytest.mark.parametrize("now_ms", [NOW_MS + 1, NOW_MS + HANDOVER_MS], ids=["handed over", "over"])
def test_a_run_that_answers_again_was_not_over(runs: MemberRuns, now_ms: int) -> None:
    runs.end(B, NOW_MS)
    runs.tick(now_ms)
    assert is_over(runs, FIRST)
    runs.follow(B, FIRST, now_ms)
    assert not is_over(runs, FIRST)


def test_a_late_farewell_revives_no_run(runs: MemberRuns) -> None:
    runs.end(B, NOW_MS)
    runs.follow(B, FIRST, NOW_MS, goes_on=False)
    assert runs.view.is_handing_over(FIRST)


@pytest.mark.parametrize("earlier", ["~9", "~19"], ids=["shorter", "smaller"])
def test_a_run_that_ended_before_this_member_started_is_handed_over_as_its_own_former_ones(earlier: str) -> None:
    """Copies of its clients are read from a third member."""
    runs = MemberRuns(SELF, NOW_MS)
    runs.set_own_writer(f"{SELF}~5")
    runs.replace([B], [], NOW_MS)
    assert not is_over(runs, B + earlier), "nothing is known of that member's runs"
    runs.follow(B, f"{B}~20", NOW_MS)
    returned_ms = NOW_MS + HANDOVER_MS - 1
    runs.came_back(B + earlier, returned_ms)
    for now_ms, is_handed_over in ((returned_ms + RETURNING_MS - 1, True), (returned_ms + RETURNING_MS, False)):
        runs.tick(now_ms)
        assert runs.view.is_handing_over(B + earlier) is is_handed_over
        assert not runs.view.has_left(B + earlier)
    assert not is_over(runs, f"{B}~20")
    assert not is_over(runs, f"{B}~21"), "its answer is yet to come"
    assert not runs.view.is_handing_over("10.0.0.3:8848~1"), "of a member that is not listed"


def test_a_run_that_this_member_saw_end_is_over_with_its_own_time() -> None:
    runs = MemberRuns(SELF, NOW_MS)
    runs.set_own_writer(f"{SELF}~5")
    runs.replace([B], [], NOW_MS)
    runs.follow(B, FIRST, NOW_MS)
    runs.follow(B, SECOND, NOW_MS + 1)
    runs.came_back(FIRST, NOW_MS + HANDOVER_MS)
    runs.tick(NOW_MS + HANDOVER_MS + 1)
    assert runs.view.is_handing_over(FIRST)
    assert not runs.view.is_handing_over(f"{SELF}~4")


C = "10.0.0.3:8848"
OWN_FORMER = f"{SELF}~4"


@pytest.mark.parametrize("before", [FIRST, OWN_FORMER])
def test_a_hand_over_goes_on_when_another_member_ends_meanwhile(runs: MemberRuns, before: str) -> None:
    """SDKs for Python look each 30 s for what to publish anew, and may find the next member that restarts."""
    runs.set_own_writer(f"{SELF}~5")
    runs.replace([B, C], [], 0)
    runs.follow(C, f"{C}~1", 0)
    runs.end(B, 0)
    ended_ms = HANDOVER_MS - 1
    for number in range(1, 20):
        runs.tick(ended_ms)
        runs.follow(C, f"{C}~{number + 1}", ended_ms)
        end_ms = min(ended_ms + HANDOVER_MS, HANDOVER_MS_MAX)
        runs.tick(end_ms - 1)
        assert runs.view.is_handing_over(before)
        ended_ms = end_ms - 1
    runs.tick(HANDOVER_MS_MAX)
    assert runs.view.has_left(before), "not longer than the longest"


def test_the_hand_over_of_who_leaves_again_is_no_longer(runs: MemberRuns) -> None:
    runs.end(B, 0)
    runs.end(B, HANDOVER_MS - 1)
    runs.tick(HANDOVER_MS)
    assert runs.view.has_left(FIRST)


def test_a_run_ends_once(runs: MemberRuns) -> None:
    runs.end(B, NOW_MS)
    runs.end(B, NOW_MS + 1_000, FIRST)
    runs.tick(NOW_MS + HANDOVER_MS)
    assert runs.view.has_left(FIRST), "the second end makes its hand-over no longer"


def test_a_peer_that_never_answered_has_no_run_to_end() -> None:
    runs = MemberRuns(SELF, 0)
    runs.replace([B], [], 0)
    runs.end(B, NOW_MS)
    assert not runs.view.is_handing_over("")


def test_a_run_is_replaced_once_another_one_answered(runs: MemberRuns) -> None:
    assert not runs.view.is_replaced(FIRST)
    runs.end(B, NOW_MS)
    assert not runs.view.is_replaced(FIRST), "none has followed it"
    runs.follow(B, SECOND, NOW_MS)
    assert runs.view.is_replaced(FIRST)
    assert not runs.view.is_replaced(SECOND)
    assert not runs.view.is_replaced(f"{B}~3"), "its answer is yet to come"


def test_a_run_that_ended_without_an_answer_is_replaced_by_none() -> None:
    runs = MemberRuns(SELF, 0)
    runs.replace([B], [], 0)
    runs.end(B, NOW_MS, FIRST)
    assert not runs.view.is_replaced(FIRST)


def test_a_run_is_named_by_what_stands_before_the_first_tilde(runs: MemberRuns) -> None:
    runs.follow(B, f"{FIRST}~x", 0)
    runs.follow(B, SECOND, NOW_MS)
    assert runs.view.is_replaced(f"{FIRST}~x")


def test_who_wrote_what_is_on_the_disk_is_known(runs: MemberRuns) -> None:
    """After a restart of all members at other addresses no list names those who wrote the records."""
    former = "10.0.9.9:8848"
    assert not runs.view.is_known(f"{former}~1")
    runs.remember([f"{former}~1", f"{former}~2", f"{SELF}~0"])
    assert runs.view.is_known(f"{former}~3")
    assert runs.view.has_left(f"{former}~1")
    runs.remember(f"10.1.{number // 250}.{number % 250}:8848~1" for number in range(10_000))
    assert len(runs.view.former) == FORMER_MAX
    assert runs.view.is_known(f"{former}~3"), "what is known already goes last"
