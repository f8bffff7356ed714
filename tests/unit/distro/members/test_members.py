"""Who is there: timings, holds, and which side of a separation returns to the other."""

import sys
import threading
from dataclasses import replace

import pytest

from distro.members.members import REPORT_LOST_MS, MemberList
from distro.members.members_view import CUT_OFF_MS_MAX, HALF_MS_MAX, HANDOVER_MS
from distro.members.peer_state import ALWAYS_MS
from distro.model.config import DistroConfig
from distro.model.types import CAPABILITY_VERSIONS, HeardOf, MemberState, Outcome, PeerReport

SELF, B, C, D = "a:1", "b:1", "c:1", "d:1"
CONFIG = DistroConfig()
OWN = frozenset({CAPABILITY_VERSIONS})


def report(address: str, *, state: MemberState = MemberState.UP, own: bool = True, **more: object) -> PeerReport:
    view = more.pop("view", (SELF, B, C))
    return PeerReport(address, state, OWN if own else frozenset(), {}, view, **more)  # type: ignore[arg-type]


@pytest.fixture
def members() -> MemberList:
    """This node and two peers that are UP since 0 ms."""
    made = MemberList(SELF, CONFIG, 0)
    made.replace([SELF, B, C], 0)
    made.serving = True
    for peer in (B, C):
        made.on_report(report(peer), 0)
    assert made.view == (SELF, B, C)
    return made


def fail(members: MemberList, peer: str, outcome: Outcome, now_ms: int) -> MemberState:
    members.on_report_done(peer, outcome, None, now_ms)
    found = members.get(peer)
    assert found is not None
    return found.state


@pytest.mark.parametrize(
    ("outcome", "limit_ms"), [(Outcome.REFUSED, CONFIG.refused_down_ms), (Outcome.FAILED, CONFIG.silent_down_ms)]
)
def test_a_member_is_down_when_it_was_away_for_long_enough(
    members: MemberList, outcome: Outcome, limit_ms: int
) -> None:
    assert fail(members, B, outcome, 10) is MemberState.SUSPICIOUS
    assert B in members.view, "a suspicious member keeps its keys"
    members.on_report(report(C), limit_ms - 1)
    members.tick(limit_ms - 1)
    assert B in members.view
    members.tick(limit_ms)
    assert members.get(B).state is MemberState.DOWN  # type: ignore[union-attr]
    assert members.view == (SELF, C)
    assert members.view_since_ms == limit_ms


def test_the_last_contact_with_a_member(members: MemberList) -> None:
    members.on_report(report(B, calls={}, heard={C: HeardOf(300, {})}), 1_000)
    assert members.frozen().contact_ms(f"{B}~1") == 1_000
    assert members.frozen().contact_ms(f"{C}~1") == 0, "what others heard is none"
    fail(members, B, Outcome.FAILED, 2_000)
    assert members.frozen().contact_ms(B) == 1_000
    members.on_report_done(B, Outcome.DELIVERED, report(B), 2_500)
    assert members.frozen().contact_ms(f"{B}~1~x") == 2_500
    members.on_pause(10_000, 13_000)
    assert members.frozen().contact_ms(B) == 12_500, "its silence in the pause proves nothing"
    for writer in (f"{SELF}~1", "d:1~1", ""):
        assert members.frozen().contact_ms(writer) == ALWAYS_MS


@pytest.mark.parametrize("reports_first", [True, False])
def test_the_last_contact_with_a_run_that_is_over_is_not_that_with_the_next_one(
    members: MemberList, reports_first: bool
) -> None:
    """R15, R17: what a client withdraws after it must not stay listed by a copy of the former run."""
    old, new = f"{B}~1", f"{B}~2"
    members.on_report_done(B, Outcome.DELIVERED, replace(report(B), writer=old), 1_000)
    members.on_report(replace(report(B), writer=old), 2_000)
    fail(members, B, Outcome.FAILED, 30_000)
    if reports_first:
        members.on_report(replace(report(B), writer=new), 39_000)
    members.on_report_done(B, Outcome.DELIVERED, replace(report(B), writer=new), 40_000)
    assert members.frozen().contact_ms(old) == 2_000
    assert members.frozen().contact_ms(new) == 40_000
    members.on_pause(10_000, 60_000)
    assert members.frozen().contact_ms(old) == 12_000
    members.on_report_done(B, Outcome.DELIVERED, replace(report(B), writer=old), 61_000)
    assert members.frozen().contact_ms(old) == 61_000, "it was only said to be over"


def test_beats_are_known_as_far_as_each_member_that_is_alive_told_them(members: MemberList) -> None:
    """R12: by its reports and answers, which tell for how long what the receiver lacks has waited."""
    assert members.frozen().beats_known_ms(9_000) == 9_000, "members of an earlier release do not tell"
    members.on_report(report(B, beats_wait_ms=700), 1_000)
    assert members.frozen().beats_known_ms(9_000) == 300
    members.on_report(report(C, beats_wait_ms=0), 1_500)
    members.on_report(report(B, beats_wait_ms=3_000), 2_000)
    assert members.frozen().beats_known_ms(9_000) == 300, "what was known once is known"
    members.on_report_done(B, Outcome.DELIVERED, report(B, beats_wait_ms=500), 2_500)
    assert members.frozen().beats_known_ms(9_000) == 1_500
    members.on_report(report(C, beats_wait_ms=0), 3_000)
    assert members.frozen().beats_known_ms(9_000) == 2_000
    members.tick(3_000 + CONFIG.silent_down_ms)
    assert members.view == (SELF,)
    assert members.frozen().beats_known_ms(9_000) == 9_000, "who is DOWN is not waited for"


def test_a_returned_member_waits_and_a_break_starts_its_wait_again(members: MemberList) -> None:
    members.on_report(report(C), 4_000)
    fail(members, B, Outcome.REFUSED, 4_000)
    members.on_report_done(B, Outcome.DELIVERED, report(B, view=()), 5_000)
    assert members.get(B).state is MemberState.UP  # type: ignore[union-attr]
    assert members.view == (SELF, C)
    assert members.frozen().rejoin_delay_for(B, 7_000) == 8_000
    fail(members, B, Outcome.FAILED, 8_000)
    members.on_report(report(B, view=()), 9_000)
    members.on_report_done(B, Outcome.DELIVERED, report(B, view=()), 9_500)
    for peer in (B, C):
        members.on_report(report(peer), 15_000)
    members.tick(9_000 + CONFIG.steady_ms - 1)
    assert members.view == (SELF, C)
    members.tick(9_000 + CONFIG.steady_ms)
    assert members.view == (SELF, B, C)


def test_a_short_restart_moves_no_keys(members: MemberList) -> None:
    members.on_report(report(B, state=MemberState.STARTING, view=()), 1_000)
    assert B in members.view
    members.on_report(report(B, view=()), 3_000)
    members.tick(3_000)
    assert members.view == (SELF, B, C)


def test_a_member_that_starts_for_too_long_is_out(members: MemberList) -> None:
    for now_ms in range(500, CONFIG.refused_down_ms + 500, 500):
        members.on_report(report(B, state=MemberState.STARTING, view=()), now_ms)
        members.tick(now_ms)
    assert B not in members.view


def test_one_that_says_that_it_leaves_is_out_at_once(members: MemberList) -> None:
    members.on_report(report(B, state=MemberState.DOWN), 100)
    assert B in [call.peer for call in members.due_reports(100)], "it is asked itself"
    members.on_report_done(B, Outcome.DELIVERED, report(B, state=MemberState.DOWN), 101)
    assert members.view == (SELF, C)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_one_that_said_so_and_does_not_answer_any_more_is_out_at_once(members: MemberList, outcome: Outcome) -> None:
    members.on_report(report(B, state=MemberState.DOWN), 100)
    fail(members, B, outcome, 101)
    assert members.view == (SELF, C)
    fail(members, C, outcome, 101)
    assert members.view == (SELF, C), "the other one said nothing"


def test_nobody_is_out_because_of_what_another_says_in_its_name(members: MemberList) -> None:
    members.on_report_done(B, Outcome.DELIVERED, report(B, writer="b:1~1"), 50)
    members.on_report(report(B, state=MemberState.DOWN, writer="b:1~1"), 100)
    assert members.view == (SELF, B, C)
    members.on_report_done(B, Outcome.DELIVERED, report(B, writer="b:1~1"), 101)
    assert members.view == (SELF, B, C)
    assert not members.runs.view.has_left("b:1~1")
    assert fail(members, B, Outcome.FAILED, 200) is MemberState.SUSPICIOUS, "that is forgotten"


def test_who_did_not_notice_was_away_itself(members: MemberList) -> None:
    # B and C lost this node, which slept: it still sees all three, and takes the wait that B tells it.
    members.on_report(report(B, view=(B, C), imposed_rejoin_delay_ms=10_000), 100)
    assert members.view == (B, C)
    for peer in (B, C):
        members.on_report(report(peer), 10_000)
    members.tick(10_100)
    assert members.view == (SELF, B, C)


def test_of_two_sides_the_smaller_one_returns() -> None:
    alone = MemberList(SELF, CONFIG, 0)
    alone.replace([SELF, B, C], 0)
    for peer in (B, C):
        alone.on_report(report(peer), 0)
        fail(alone, peer, Outcome.REFUSED, 5_000)
    assert alone.view == (SELF,)
    alone.on_report(report(B, view=(B, C), imposed_rejoin_delay_ms=10_000), 6_000)
    alone.on_report(report(C, view=(B, C), imposed_rejoin_delay_ms=10_000), 6_000)
    assert alone.view == (B, C), "the others are in the view at once, this node waits"
    assert alone.frozen().own_rejoin_delay_ms(6_000) == 10_000


def test_of_two_equal_sides_that_with_the_first_address_stays() -> None:
    pair = MemberList(B, CONFIG, 0)
    pair.replace([SELF, B], 0)
    pair.on_report(report(SELF, view=(SELF, B)), 0)
    fail(pair, SELF, Outcome.REFUSED, 5_000)
    pair.on_report(report(SELF, view=(SELF,), imposed_rejoin_delay_ms=10_000), 6_000)
    assert pair.view == (SELF,)


def test_a_pause_of_this_process_proves_nothing_about_the_others(members: MemberList) -> None:
    members.confirmed_ms = 5
    members.on_pause(60_000, 60_100)
    members.tick(60_100)
    assert members.view == (SELF, B, C)
    assert members.confirmed_ms == -1
    assert {one.peer for one in members.due_reports(60_100)} == {B, C}
    members.on_report_done(B, Outcome.DELIVERED, report(B), 60_200)
    assert members.confirmed_ms == 60_200


def test_a_whole_round_of_failures_confirms_too(members: MemberList) -> None:
    members.on_pause(60_000, 60_000)
    fail(members, B, Outcome.REFUSED, 60_100)
    assert members.confirmed_ms == -1
    fail(members, C, Outcome.REFUSED, 60_200)
    assert members.confirmed_ms == 60_200


def test_with_a_real_member_its_rule_holds(members: MemberList) -> None:
    members.on_report(report(C, own=False), 100)
    for failures in range(1, CONFIG.fail_access_max + 1):
        assert fail(members, B, Outcome.FAILED, 1_000 * failures) is MemberState.SUSPICIOUS
    assert fail(members, B, Outcome.FAILED, 9_000) is MemberState.DOWN, "the failure after the last that is allowed"
    members.on_report(report(B), 9_100)
    assert members.view == (SELF, B, C), "and it is back at once"
    assert fail(members, B, Outcome.REFUSED, 9_200) is MemberState.DOWN


def test_reports_go_to_all_in_turn_and_one_at_a_time(members: MemberList) -> None:
    assert [one.peer for one in members.due_reports(0)] == [B, C]
    assert members.due_reports(10_000) == [], "those under way are waited for"
    members.on_report_done(B, Outcome.DELIVERED, report(B), 100)
    assert [one.peer for one in members.due_reports(CONFIG.report_interval_ms)] == [B]


def test_a_report_that_never_ends_is_sent_again(members: MemberList) -> None:
    members.due_reports(0)
    end_ms = CONFIG.report_timeout_ms + REPORT_LOST_MS
    assert members.due_reports(end_ms - 1) == []
    assert members.next_due_ms() == end_ms
    assert [one.peer for one in members.due_reports(end_ms)] == [B, C]


def test_a_report_from_before_a_pause_is_waited_for_after_it(members: MemberList) -> None:
    members.due_reports(0)
    members.on_pause(60_000, 60_000)
    assert members.due_reports(60_000) == []
    members.on_report_done(B, Outcome.DELIVERED, report(B), 60_100)
    members.report_all_now(60_100)
    assert [one.peer for one in members.due_reports(60_100)] == [B]


def test_who_is_not_listed_changes_nothing(members: MemberList) -> None:
    assert not members.on_report(report("z:1"), 100)
    came, left = members.replace([SELF, C, "d:1"], 200)
    assert (came, left) == (["d:1"], [B])
    assert members.view == (SELF, C), "a new one is DOWN until it was seen"


def test_a_run_is_over_when_an_answer_names_another(members: MemberList) -> None:
    def answer(writer: str) -> None:
        members.on_report_done(B, Outcome.DELIVERED, report(B, writer=writer), 1_000)

    assert not members.runs.view.has_left("b:1~1"), "nobody knows"
    answer("b:1~1")
    members.on_report(report(B, writer="b:1~0"), 1_000)
    assert not members.runs.view.has_left("b:1~1"), "a report may be late"
    assert not members.runs.view.has_left("b:1~0")
    answer("")
    answer("b:1~2")
    assert not members.runs.view.has_left("b:1~1")
    assert members.runs.view.is_handing_over("b:1~1")
    assert not members.runs.view.is_handing_over("b:1~2")
    hand_over(members, 1_000)
    assert members.runs.view.has_left("b:1~1")
    assert not members.runs.view.is_handing_over("b:1~1")
    assert not members.runs.view.has_left("b:1~2")
    assert not members.runs.view.has_left("c:1~1")
    assert not members.runs.view.has_left("a:1~1"), "this member knows its own runs"


def test_a_run_that_answers_again_goes_on(members: MemberList) -> None:
    """It was out of the list for a while, or a late report said that it leaves."""
    members.on_report_done(B, Outcome.DELIVERED, report(B, writer="b:1~1"), 1_000)
    members.replace([SELF, C], 1_100)
    assert members.runs.view.is_handing_over("b:1~1")
    members.replace([SELF, B, C], 1_200)
    assert members.runs.view.is_handing_over("b:1~1"), "it has yet to answer"
    members.on_report_done(B, Outcome.DELIVERED, report(B, writer="b:1~1"), 1_300)
    assert not members.runs.view.is_handing_over("b:1~1")
    members.on_report(report(B, state=MemberState.DOWN, writer="b:1~0"), 1_400)
    members.on_report_done(B, Outcome.FAILED, None, 1_500)
    assert members.runs.view.is_handing_over("b:1~1"), "it seems to be gone"
    members.on_report_done(B, Outcome.DELIVERED, report(B, writer="b:1~1"), 1_600)
    members.tick(1_600 + HANDOVER_MS)
    assert not members.runs.view.has_left("b:1~1")


def test_a_run_is_over_with_its_farewell_and_all_are_when_a_member_is_not_listed(members: MemberList) -> None:
    members.on_report_done(B, Outcome.DELIVERED, report(B, state=MemberState.DOWN, writer="b:1~1"), 1_000)
    assert not members.runs.view.has_left("b:1~1")
    hand_over(members, 1_000)
    assert members.runs.view.has_left("b:1~1")
    assert not members.runs.view.has_left("b:1~2")
    members.on_report_done(C, Outcome.DELIVERED, report(C, writer="c:1~1"), 32_000)
    members.replace([SELF, B], 32_000)
    assert members.runs.view.has_left("c:1~0"), "nobody knew it"
    assert not members.runs.view.has_left("c:1~1")
    hand_over(members, 32_000)
    assert members.runs.view.has_left("c:1~1")
    for run in range(100):
        members.on_report_done(B, Outcome.DELIVERED, report(B, writer=f"b:1~{run}"), 70_000)
    hand_over(members, 70_000)
    assert members.runs.view.has_left("b:1~98")
    assert not members.runs.view.has_left("b:1~5"), "not all are remembered"


def hand_over(members: MemberList, since_ms: int) -> None:
    """Let the hand-over of clients that began then end; a pause within it does not count (R9, R17)."""
    members.tick(since_ms + HANDOVER_MS - 1)
    members.on_pause(10_000, since_ms + HANDOVER_MS + 9_999)
    members.tick(since_ms + HANDOVER_MS + 9_999)
    assert (
        members.runs.view.is_handing_over("b:1~1")
        or members.runs.view.is_handing_over("c:1~1")
        or members.runs.view.is_handing_over("b:1~98")
    )
    members.tick(since_ms + HANDOVER_MS + 10_000)


def test_former_runs_of_this_member_are_over_a_while_after_its_start(members: MemberList) -> None:
    assert not members.runs.view.has_left("a:1~1"), "without an own writer nobody knows"
    members.runs.set_own_writer("a:1~2")
    assert members.runs.view.is_handing_over("a:1~1")
    assert not members.runs.view.is_handing_over("a:1~2")
    members.tick(HANDOVER_MS - 1)
    assert not members.runs.view.has_left("a:1~1")
    members.tick(HANDOVER_MS)
    assert members.runs.view.has_left("a:1~1")
    assert not members.runs.view.is_handing_over("a:1~1")
    assert not members.runs.view.has_left("a:1~2")


# --- links of which one direction fails (R12) -----------------------------------------------------


class Cluster:
    """Members that report to each other each ``report_interval_ms``; ``cut`` has the calls (from, to) that fail."""

    def __init__(self, *addresses: str) -> None:
        self.now_ms = 0
        self.cut: set[tuple[str, str]] = set()
        self.members = {address: MemberList(address, CONFIG, 0) for address in addresses}
        for one in self.members.values():
            one.replace(addresses, 0)
            one.serving = True
        self.run(CONFIG.report_interval_ms)

    def report(self, address: str, receiver: str) -> PeerReport:
        one = self.members[address]
        return PeerReport(
            address,
            MemberState.UP,
            OWN,
            {},
            one.view,
            one.frozen().own_rejoin_delay_ms(self.now_ms),
            one.frozen().rejoin_delay_for(receiver, self.now_ms),
            f"{address}~1",
            None,
            one.frozen().calls(self.now_ms),
            {name: heard for name, heard in one.frozen().heard(self.now_ms).items() if name != receiver},
        )

    def run(self, time_ms: int) -> None:
        for _ in range(0, time_ms, CONFIG.report_interval_ms):
            self.now_ms += CONFIG.report_interval_ms
            for address, one in self.members.items():
                one.tick(self.now_ms)
                for call in one.due_reports(self.now_ms):
                    if (address, call.peer) in self.cut:
                        one.on_report_done(call.peer, Outcome.FAILED, None, self.now_ms)
                        continue
                    self.members[call.peer].on_report(self.report(address, call.peer), self.now_ms)
                    answer = self.report(call.peer, address)
                    one.on_report_done(call.peer, Outcome.DELIVERED, answer, self.now_ms)

    def views(self) -> dict[str, tuple[str, ...]]:
        return {address: one.view for address, one in self.members.items()}


LONG_MS = CONFIG.silent_down_ms + 3 * CONFIG.report_interval_ms


def test_a_member_that_nobody_can_call_loses_its_keys_in_all_views() -> None:
    cluster = Cluster(SELF, B, C)
    assert set(cluster.views().values()) == {(SELF, B, C)}
    cluster.cut = {(B, SELF), (C, SELF)}
    cluster.run(LONG_MS)
    assert set(cluster.views().values()) == {(B, C)}
    assert {cluster.members[one].get(SELF).state for one in (B, C)} <= {MemberState.UP, MemberState.SUSPICIOUS}  # type: ignore[union-attr]
    cluster.run(4 * LONG_MS)
    assert set(cluster.views().values()) == {(B, C)}, "as long as it lasts"
    cluster.cut.clear()
    cluster.run(CONFIG.report_interval_ms)
    assert set(cluster.views().values()) == {(B, C)}, "its keys move back when it was steady"
    cluster.run(CONFIG.steady_ms + 2 * CONFIG.report_interval_ms)
    assert set(cluster.views().values()) == {(SELF, B, C)}


def test_a_member_that_can_call_nobody_keeps_its_keys() -> None:
    cluster = Cluster(SELF, B, C)
    cluster.cut = {(SELF, B), (SELF, C)}
    cluster.run(4 * LONG_MS)
    assert set(cluster.views().values()) == {(SELF, B, C)}


@pytest.mark.parametrize("both_ways", [True, False])
def test_two_that_only_a_third_one_reaches_have_one_view_and_call_through_it(both_ways: bool) -> None:
    cluster = Cluster(SELF, B, C)
    cluster.cut = {(SELF, B), (B, SELF)} if both_ways else {(SELF, B)}
    cluster.run(4 * LONG_MS)
    assert set(cluster.views().values()) == {(SELF, B, C)}
    assert cluster.members[SELF].frozen().next_hop(B, cluster.now_ms) == C
    assert cluster.members[SELF].frozen().next_hop(C, cluster.now_ms) == C
    assert cluster.members[C].frozen().next_hop(B, cluster.now_ms) == B


def test_a_member_that_nobody_hears_of_is_down_for_both_sides() -> None:
    cluster = Cluster(SELF, B, C)
    cluster.cut = {(SELF, B), (B, SELF), (SELF, C), (C, SELF)}
    cluster.run(LONG_MS)
    assert cluster.views() == {SELF: (SELF,), B: (B, C), C: (B, C)}
    assert cluster.members[SELF].frozen().next_hop(B, cluster.now_ms) is None


def test_of_two_the_one_that_can_be_called_owns_all() -> None:
    cluster = Cluster(SELF, B)
    cluster.cut = {(B, SELF)}
    cluster.run(LONG_MS)
    assert set(cluster.views().values()) == {(B,)}


# --- who is cut off (R12), and who waits after a cut (R16) -----------------------------------------


def test_a_member_that_hears_nothing_of_most_others_knows_since_when() -> None:
    cluster = Cluster(SELF, B, C)
    cut_ms = cluster.now_ms
    cluster.cut = {(SELF, B), (B, SELF), (SELF, C), (C, SELF)}
    cluster.run(CONFIG.silent_down_ms - CONFIG.report_interval_ms)
    assert cluster.members[SELF].frozen().cut_off_since_ms(cluster.now_ms) is None, "they may only be slow"
    cluster.run(LONG_MS)
    since_ms = cluster.members[SELF].frozen().cut_off_since_ms(cluster.now_ms)
    assert since_ms is not None
    assert cut_ms < since_ms <= cut_ms + 3 * CONFIG.report_interval_ms
    for one in (B, C):
        assert cluster.members[one].frozen().cut_off_since_ms(cluster.now_ms) is None, "two of three"
    assert cluster.members[SELF].frozen().cut_off_since_ms(cut_ms + CUT_OFF_MS_MAX) is None, "they ended"


def test_half_of_the_members_counts_as_cut_off_for_a_while() -> None:
    cluster = Cluster(SELF, B)
    cut_ms = cluster.now_ms
    cluster.cut = {(SELF, B), (B, SELF)}
    cluster.run(LONG_MS)
    for one in cluster.members.values():
        assert one.frozen().cut_off_since_ms(cluster.now_ms) is not None
        assert one.frozen().cut_off_since_ms(cut_ms + HALF_MS_MAX) is None


def test_who_left_or_listens_no_more_is_not_cut_off(members: MemberList) -> None:
    members.on_report_done(B, Outcome.DELIVERED, report(B, state=MemberState.DOWN), 0)
    for now_ms in range(0, CONFIG.silent_down_ms + 1, CONFIG.report_interval_ms):
        members.on_report_done(C, Outcome.REFUSED, None, now_ms)
    assert members.view == (SELF,)
    assert members.frozen().cut_off_since_ms(CONFIG.silent_down_ms) is None


@pytest.mark.parametrize("half_cut_ms", [0, 2 * CONFIG.report_interval_ms])
def test_the_smaller_side_hands_its_keys_to_all_of_the_other_side_whoever_calls_first(half_cut_ms: int) -> None:
    """Members that are back, and that it has not called yet, are not such that nobody can call."""
    cluster = Cluster(SELF, B, C)
    cluster.cut = {(SELF, B), (SELF, C)}
    cluster.run(half_cut_ms)
    cluster.cut = {(SELF, B), (B, SELF), (SELF, C), (C, SELF)}
    cluster.run(LONG_MS)
    assert cluster.views() == {SELF: (SELF,), B: (B, C), C: (B, C)}
    cluster.cut = {(SELF, B), (SELF, C)}
    cluster.run(CONFIG.report_interval_ms)
    cluster.cut.clear()
    for _ in range(0, CONFIG.steady_ms - 2 * CONFIG.report_interval_ms, CONFIG.report_interval_ms):
        cluster.run(CONFIG.report_interval_ms)
        assert set(cluster.views().values()) == {(B, C)}
    cluster.run(4 * CONFIG.report_interval_ms)
    assert set(cluster.views().values()) == {(SELF, B, C)}


@pytest.mark.parametrize("served", [True, False])
def test_a_member_that_restarted_in_a_cut_lets_the_smaller_side_wait_too(served: bool) -> None:
    restarted = MemberList(B, CONFIG, 0)
    restarted.replace([SELF, B, C], 0)
    restarted.serving = restarted.served = True
    restarted.on_report(report(C, view=(B, C)), 0)
    assert restarted.view == (B, C)
    restarted.on_report(report(SELF, view=(SELF,), served=served), 1_000)
    assert restarted.view == ((B, C) if served else (SELF, B, C)), "who wrote nothing disagrees with nobody"
    assert restarted.frozen().rejoin_delay_for(SELF, 1_000) == (CONFIG.steady_ms if served else 0)


def restarted_alone(address: str, others: tuple[str, ...]) -> MemberList:
    """A member that restarted in a cut, and whose run wrote keys."""
    alone = MemberList(address, CONFIG, 0)
    alone.replace([address, *others], 0)
    alone.serving = alone.served = True
    return alone


def test_the_smaller_side_waits_before_anybody_tells_it_to() -> None:
    """Its second contact must not be compared with a view that has the first one already."""
    alone = restarted_alone(SELF, (B, C))
    alone.on_report(report(B, view=(B, C), served=True), 1_000)
    assert (alone.view, alone.frozen().own_rejoin_delay_ms(1_000)) == ((B,), CONFIG.steady_ms)
    alone.on_report(report(C, view=(B, C), served=True), 1_001)
    assert alone.view == (B, C), "it gives the second one no delay"
    assert alone.frozen().own_rejoin_delay_ms(1_001) == CONFIG.steady_ms - 1, "no contact begins the wait anew"
    for peer in (B, C):
        alone.on_report(report(peer, view=(B, C)), CONFIG.steady_ms)
    alone.tick(1_000 + CONFIG.steady_ms)
    assert alone.view == (SELF, B, C)


def test_who_waits_already_makes_nobody_of_the_larger_side_wait() -> None:
    """By then its view may be as large as theirs, and come before it."""
    larger = restarted_alone(C, (SELF, B, D))
    larger.on_report(report(D, view=(C, D)), 0)
    assert larger.view == (C, D)
    larger.on_report(report(SELF, view=(B, D), served=True, rejoin_delay_ms=9_000), 1_000)
    assert larger.view == (C, D)
    assert larger.frozen().own_rejoin_delay_ms(1_000) == 0
    assert larger.frozen().rejoin_delay_for(SELF, 1_000) == CONFIG.steady_ms


def test_other_threads_read_the_list_while_it_changes(members: MemberList) -> None:
    """A reader has a view from before a change or from after it, never from within one."""
    done, failed = threading.Event(), list[Exception]()
    crowd = [f"d{number}:1" for number in range(50)]
    published = [members.frozen()]

    def read() -> None:
        try:
            while not done.is_set():
                view = published[-1]
                assert {one.address for one in view.listed} == view.contacts.keys() == view.calls(0).keys() >= {B, C}
                view.heard(0)
                view.next_hop(B, 0)
                assert view.runs.is_known(f"{B}~1")
                assert view.mixed is False
        except Exception as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for one in readers:
            one.start()
        for number in range(1_000):
            members.replace([SELF, B, C, *crowd[number % 50 :]], number)
            members.tick(number)
            published[:] = [members.frozen()]
    finally:
        done.set()
        for one in readers:
            one.join(60)
        sys.setswitchinterval(interval_s)
    assert not failed


def test_who_is_in_nobodys_list_is_told_so_by_all_that_answer(members: MemberList) -> None:
    members.on_report_done(B, Outcome.DELIVERED, report(B), 1_000)
    members.on_report_done(C, Outcome.REJECTED, None, 1_000)
    assert (members.is_unlisting(B), members.is_unlisting(C)) == (False, True)
    assert not members.is_unlisted, "lists change at one member after the other"
    members.on_report_done(B, Outcome.FAILED, None, 3_000)
    assert members.is_unlisted, "nobody that answers lists it"
    members.on_report_done(C, Outcome.FAILED, None, 3_000)
    assert members.is_unlisted, "no answer tells nothing new"
    members.on_report_done(C, Outcome.DELIVERED, report(C), 5_000)
    assert not members.is_unlisted
    assert not members.is_unlisting("d:1")


def test_silence_alone_does_not_mean_that_nobody_lists_this_member(members: MemberList) -> None:
    for peer in (B, C):
        fail(members, peer, Outcome.FAILED, 1_000)
    assert not members.is_unlisted


# --- draining -------------------------------------------------------------------------------------


def answer(members: MemberList, peer: str, now_ms: int, **more: object) -> None:
    members.on_report_done(peer, Outcome.DELIVERED, report(peer, **more), now_ms)  # type: ignore[arg-type]


def test_the_keys_of_a_member_that_drains_move_with_its_answer(members: MemberList) -> None:
    """It is STARTING then: without its word it would keep them as long as one that refuses connections."""
    answer(members, B, 10, state=MemberState.STARTING, draining=True)
    assert members.view == (SELF, C)
    assert members.is_reachable(B), "it goes on replicating"
    answer(members, B, 500)
    assert members.view == (SELF, B, C)


def test_a_report_in_its_name_is_believed_when_it_says_so_itself(members: MemberList) -> None:
    members.due_reports(10)
    for peer in (B, C):
        answer(members, peer, 11)
    members.on_report(report(B, state=MemberState.STARTING, draining=True), 20)
    assert members.view == (SELF, B, C)
    assert [one.peer for one in members.due_reports(20)] == [B], "it is asked at once"
    answer(members, B, 25)
    assert members.view == (SELF, B, C)


def test_one_that_drains_for_long_goes_on_replicating_and_carries_keys_again_at_once(members: MemberList) -> None:
    for now_ms in range(0, CONFIG.silent_down_ms + 1_001, 1_000):
        for peer in (B, C):
            draining = peer == B
            state = MemberState.STARTING if draining else MemberState.UP
            answer(members, peer, now_ms, state=state, draining=draining)
        members.tick(now_ms)
        assert members.view == (SELF, C)
        assert members.is_reachable(B)
    answer(members, B, CONFIG.silent_down_ms + 1_500)
    assert members.view == (SELF, B, C)
    assert members.frozen().rejoin_delay_for(B, CONFIG.silent_down_ms + 1_500) == 0


def test_one_that_was_down_and_drains_gets_data_without_keys(members: MemberList) -> None:
    members.on_report_done(B, Outcome.REFUSED, None, 10)
    members.tick(10 + CONFIG.refused_down_ms)
    assert not members.is_reachable(B)
    answer(members, B, 20_000, state=MemberState.STARTING, draining=True)
    assert members.is_reachable(B)
    assert B not in members.view


def test_one_that_drains_and_falls_silent_is_down(members: MemberList) -> None:
    answer(members, B, 10, state=MemberState.STARTING, draining=True)
    members.tick(10 + CONFIG.silent_down_ms)
    assert not members.is_reachable(B)
