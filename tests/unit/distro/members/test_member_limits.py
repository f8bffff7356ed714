"""The bounds of what a member believes of others, each to the millisecond, and what it tells of them."""

from dataclasses import replace

import pytest

from distro.members.members import LOADING_REPORT_INTERVAL_MS, PULL_INTERVAL_MS, REPORT_LOST_MS, RETURNS_MS, MemberList
from distro.members.members_view import (
    CUT_OFF_MS_MAX,
    FORMER_MAX,
    HALF_MS_MAX,
    HANDOVER_MS,
    HANDOVER_MS_MAX,
    RETURNING_MS,
)
from distro.members.peer_state import NEVER_MS
from distro.model.config import DistroConfig
from distro.model.types import CAPABILITY_VERSIONS, HeardOf, Member, MemberState, Outcome, PeerReport, Report

SELF, B, C, D, E = "a:1", "b:1", "c:1", "d:1", "e:1"
CONFIG = DistroConfig()
OWN = frozenset({CAPABILITY_VERSIONS})


def report(address: str, *, own: bool = True, **more: object) -> PeerReport:
    fields = {"state": MemberState.UP, "view": (SELF, B, C)} | more
    return PeerReport(address, capabilities=OWN if own else frozenset(), **fields)  # type: ignore[arg-type]


def listed(*peers: str, now_ms: int = 0, up: bool = True) -> MemberList:
    """This node, serving, and peers that are UP since ``now_ms``."""
    made = MemberList(SELF, CONFIG, now_ms)
    made.replace([SELF, *peers], now_ms)
    made.serving = True
    for peer in peers if up else ():
        made.on_report(report(peer), now_ms)
    return made


def fail(members: MemberList, peer: str, now_ms: int, outcome: Outcome = Outcome.FAILED) -> None:
    members.on_report_done(peer, outcome, None, now_ms)


def answer(members: MemberList, peer: str, now_ms: int, **more: object) -> None:
    members.on_report_done(peer, Outcome.DELIVERED, report(peer, **more), now_ms)


def state(members: MemberList, peer: str) -> MemberState:
    found = members.get(peer)
    assert found is not None
    return found.state


# --- what reports tell ----------------------------------------------------------------------------


def test_for_how_long_each_peer_did_not_answer() -> None:
    members = listed(B, C, now_ms=100)
    answer(members, B, 100)
    fail(members, B, 100)
    assert members.frozen().calls(100) == {B: 1, C: 0}, "one that failed just now is not one that answers"
    assert members.frozen().calls(101) == {B: 1, C: 0}
    assert members.frozen().calls(350) == {B: 250, C: 0}
    answer(members, B, 400)
    assert members.frozen().calls(500) == {B: 0, C: 0}


def test_what_was_heard_is_told_with_its_age_until_it_is_too_old() -> None:
    members = listed(B, C)
    members.on_report(report(B, calls={C: 3}), 1_000)
    assert members.frozen().heard(1_000) == {B: HeardOf(0, {C: 3})}
    assert members.frozen().heard(1_000 + CONFIG.silent_down_ms - 1) == {B: HeardOf(CONFIG.silent_down_ms - 1, {C: 3})}
    assert members.frozen().heard(1_000 + CONFIG.silent_down_ms) == {}


def test_relayed_are_those_that_cannot_call_each_other() -> None:
    members = listed(B, C, D, E)
    members.on_report(report(B, calls={C: 1, D: 0}), 0)
    members.on_report(report(C, calls={B: 1, D: 1}), 0)
    members.on_report(report(D, calls={B: 1, C: 0}), 0)
    assert members.relayed() == {B: frozenset({C}), C: frozenset({B})}
    fail(members, B, 0)
    assert members.relayed() == {C: frozenset({B})}, "what cannot be called here is not relayed to"
    members.on_report_done(C, Outcome.DELIVERED, report(C, state=MemberState.DOWN), 0)
    assert members.relayed() == {}


def test_one_that_is_down_is_not_relayed_for() -> None:
    members = listed(B, C)
    members.on_report(report(B, calls={C: 1}), 0)
    members.on_report(report(C, calls={B: 1}), 0)
    answer(members, C, 0, state=MemberState.DOWN)
    assert members.relayed() == {}


# --- the way to a peer ----------------------------------------------------------------------------


def test_a_call_goes_through_the_first_member_that_can_make_it() -> None:
    members = listed(B, C, D, E)
    assert members.frozen().next_hop(B, 0) == B
    fail(members, B, 10)
    for peer, calls in ((C, {B: 5}), (D, {B: 0}), (E, {B: 0})):
        members.on_report(report(peer, calls=calls), 10)
    assert members.frozen().next_hop(B, 10) == D
    fail(members, D, 20)
    assert members.frozen().next_hop(B, 20) == E, "this node cannot call D itself"
    answer(members, E, 30, state=MemberState.DOWN)
    assert members.frozen().next_hop(B, 30) == B, "nobody else, and it answered lately"


@pytest.mark.parametrize(
    ("outcome", "limit_ms"), [(Outcome.REFUSED, CONFIG.refused_down_ms), (Outcome.FAILED, CONFIG.silent_down_ms)]
)
def test_a_call_that_nobody_can_make_is_tried_until_the_peer_counts_as_silent(outcome: Outcome, limit_ms: int) -> None:
    members = listed(B, C)
    answer(members, B, 100)
    fail(members, B, 200, outcome)
    assert members.frozen().next_hop(B, 100 + limit_ms - 1) == B
    assert members.frozen().next_hop(B, 100 + limit_ms) is None


def test_whoever_can_be_called_by_another_carries_keys_until_that_is_too_long_ago() -> None:
    for since_ms, carries in ((CONFIG.silent_down_ms - 1, True), (CONFIG.silent_down_ms, False)):
        members = listed(B, C)
        fail(members, B, 10)
        members.on_report(report(B), CONFIG.silent_down_ms)
        members.on_report(report(C, calls={B: since_ms, SELF: 0}), CONFIG.silent_down_ms)
        members.tick(CONFIG.silent_down_ms)
        assert (B in members.view) is carries


def test_a_tick_looks_at_the_members_when_one_moved_or_its_time_is_over() -> None:
    members = listed(B, C, now_ms=100)
    down_ms = 100 + CONFIG.silent_down_ms
    assert members.tick(100), "reports came"
    assert not members.tick(101)
    members.on_report(report(C), 102)
    assert members.tick(102)
    assert not members.tick(down_ms - 1)
    assert members.tick(down_ms)
    assert (state(members, B), state(members, C)) == (MemberState.DOWN, MemberState.UP)
    assert members.view == (SELF, C)
    fail(members, C, down_ms)
    assert members.tick(down_ms)
    assert members.tick(down_ms + 1), "while one fails, more depends on the time"


def test_a_tick_ends_a_rejoin_delay() -> None:
    members = listed(B, C)
    answer(members, B, 0, rejoin_delay_ms=50)
    answer(members, C, 0)
    for now_ms, carries in ((0, False), (49, False), (50, True)):
        assert members.tick(now_ms)
        assert (B in members.view) is carries


# --- cuts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peers", "lost", "limit_ms"),
    [((B,), (B,), HALF_MS_MAX), ((B, C), (B, C), CUT_OFF_MS_MAX), ((B, C, D), (C, D), HALF_MS_MAX)],
)
def test_a_cut_is_one_for_so_long(peers: tuple[str, ...], lost: tuple[str, ...], limit_ms: int) -> None:
    members = listed(*peers, now_ms=1_000)
    down_ms = 1_000 + CONFIG.silent_down_ms
    for peer in peers:
        if peer not in lost:
            members.on_report(report(peer), down_ms)
    members.tick(down_ms - 1)
    assert members.frozen().cut_off_since_ms(down_ms - 1) is None, "they are not lost yet"
    members.tick(down_ms)
    expected_ms = 1_000 + 2 * CONFIG.report_interval_ms
    assert members.frozen().cut_off_since_ms(down_ms) == expected_ms
    assert members.frozen().cut_off_since_ms(1_000 + limit_ms - 1) == expected_ms
    assert members.frozen().cut_off_since_ms(1_000 + limit_ms) is None


def test_a_cut_began_with_the_first_silence() -> None:
    members = listed(B, C)
    members.on_report(report(B), 700)
    members.on_report(report(C), 300)
    members.tick(700 + CONFIG.silent_down_ms)
    assert members.frozen().cut_off_since_ms(9_000) == 300 + 2 * CONFIG.report_interval_ms


# --- writers --------------------------------------------------------------------------------------


def test_writers_are_known_while_listed_and_for_a_while_after() -> None:
    members = listed(B, C)
    members.runs.set_own_writer(f"{SELF}~2")
    for writer in (f"{B}~1", f"{SELF}~2", f"{SELF}~1", B, f"{C}~x~y"):
        assert members.frozen().is_known_writer(writer)
    for writer in ("~", "", "z:1~1", f"~{B}"):
        assert not members.frozen().is_known_writer(writer)
    members.replace([SELF, C], 0)
    assert members.frozen().is_known_writer(f"{B}~1"), "it left lately"


def test_the_present_run_of_a_member_that_answers_speaks_for_itself() -> None:
    members = listed(B, C)
    assert not members.frozen().answers_itself(f"{B}~1"), "nothing was heard of it"
    members.on_report_done(B, Outcome.DELIVERED, replace(report(B), writer=f"{B}~1"), 100)
    assert members.frozen().answers_itself(f"{B}~1")
    for writer in (f"{B}~2", f"{B}~", B, "", f"{SELF}~1", f"{C}~1"):
        assert not members.frozen().answers_itself(writer)
    members.on_report_done(B, Outcome.FAILED, None, 200)
    assert not members.frozen().answers_itself(f"{B}~1"), "another may have to pass on what it writes"
    members.on_report_done(B, Outcome.DELIVERED, replace(report(B), writer=f"{B}~2"), 300)
    assert (members.frozen().answers_itself(f"{B}~1"), members.frozen().answers_itself(f"{B}~2")) == (False, True)


def test_a_standalone_node_knows_every_writer() -> None:
    assert MemberList(SELF, CONFIG, 0, standalone=True).frozen().is_known_writer("z:1~1")


def test_so_many_members_that_left_are_remembered_the_latest_last() -> None:
    members = listed()
    gone = [f"g{number}:1" for number in range(FORMER_MAX + 2)]
    for address in [*gone, gone[2]]:
        members.replace([SELF, address], 0)
        members.replace([SELF], 0)
    known = [address for address in gone if members.frozen().is_known_writer(f"{address}~1")]
    assert known == gone[2:]
    for address in ("h1:1", "h2:1"):
        members.replace([SELF, address], 0)
        members.replace([SELF], 0)
    known = [address for address in gone if members.frozen().is_known_writer(f"{address}~1")]
    assert known == [gone[2], *gone[5:]], "the one that left twice counts from its last leave"


def test_the_clients_of_a_former_run_of_this_member_are_handed_over_for_so_long() -> None:
    members = listed(now_ms=1)
    members.runs.set_own_writer(f"{SELF}~2")
    for now_ms, is_kept in ((1 + HANDOVER_MS - 1, True), (1 + HANDOVER_MS, False)):
        members.tick(now_ms)
        assert members.runs.view.is_handing_over(f"{SELF}~1") is is_kept
        assert members.runs.view.has_left(f"{SELF}~1") is not is_kept
    assert not members.runs.view.has_left(f"{SELF}~2")


def test_the_run_of_a_peer_that_another_replaced_is_handed_over_for_so_long() -> None:
    members = listed(B)
    answer(members, B, 10, writer=f"{B}~1")
    answer(members, B, 20, writer=f"{B}~1")
    answer(members, B, 30)
    assert not members.runs.view.has_left(f"{B}~1")
    answer(members, B, 100, writer=f"{B}~2")
    for now_ms, is_kept in ((100 + HANDOVER_MS - 1, True), (100 + HANDOVER_MS, False)):
        members.tick(now_ms)
        assert members.runs.view.is_handing_over(f"{B}~1") is is_kept
        assert members.runs.view.has_left(f"{B}~1") is not is_kept
    assert not members.runs.view.is_handing_over(f"{B}~2")
    assert not members.runs.view.has_left(f"{B}~2")


@pytest.mark.parametrize("writer", [f"{B}~1", f"{SELF}~1"])
def test_a_hand_over_goes_on_while_clients_come_back_but_not_for_ever(writer: str) -> None:
    members = listed(B)
    members.runs.set_own_writer(f"{SELF}~2")
    answer(members, B, 0, writer=f"{B}~1")
    answer(members, B, 0, writer=f"{B}~2")
    members.runs.came_back(writer, HANDOVER_MS - RETURNING_MS - 1)
    members.tick(HANDOVER_MS - 1)
    assert members.runs.view.is_handing_over(writer), "an early return shortens nothing"
    at_ms = HANDOVER_MS - 1
    while at_ms + RETURNING_MS < HANDOVER_MS_MAX:
        members.runs.came_back(writer, at_ms)
        members.tick(at_ms)
        at_ms += RETURNING_MS
        members.tick(at_ms - 1)
        assert members.runs.view.is_handing_over(writer)
    members.runs.came_back(writer, at_ms - 1)
    members.tick(HANDOVER_MS_MAX - 1)
    assert members.runs.view.is_handing_over(writer)
    members.tick(HANDOVER_MS_MAX)
    assert not members.runs.view.is_handing_over(writer)
    assert members.runs.view.has_left(writer)


def test_without_more_returns_a_hand_over_ends() -> None:
    members = listed(B)
    answer(members, B, 0, writer=f"{B}~1")
    answer(members, B, 0, writer=f"{B}~2")
    members.runs.came_back(f"{B}~1", HANDOVER_MS - 5_000)
    for now_ms, is_kept in (
        (HANDOVER_MS - 5_000 + RETURNING_MS - 1, True),
        (HANDOVER_MS - 5_000 + RETURNING_MS, False),
    ):
        members.tick(now_ms)
        assert members.runs.view.is_handing_over(f"{B}~1") is is_kept
    members.runs.came_back(f"{B}~1", HANDOVER_MS + RETURNING_MS)
    members.tick(HANDOVER_MS + RETURNING_MS)
    assert not members.runs.view.is_handing_over(f"{B}~1"), "what is over stays so"


def test_a_pause_moves_the_latest_end_of_a_hand_over_too() -> None:
    members = listed(B)
    answer(members, B, 0, writer=f"{B}~1")
    answer(members, B, 0, writer=f"{B}~2")
    members.on_pause(60_000, 60_000)
    for at_ms in range(60_000, 60_000 + HANDOVER_MS_MAX, RETURNING_MS // 2):
        members.runs.came_back(f"{B}~1", at_ms)
        members.tick(at_ms)
    members.runs.came_back(f"{B}~1", 60_000 + HANDOVER_MS_MAX - 1)
    for now_ms, is_kept in ((60_000 + HANDOVER_MS_MAX - 1, True), (60_000 + HANDOVER_MS_MAX, False)):
        members.tick(now_ms)
        assert members.runs.view.is_handing_over(f"{B}~1") is is_kept


def test_of_who_is_not_listed_every_run_is_over() -> None:
    members = listed(B)
    members.runs.set_own_writer(f"{SELF}~2")
    assert members.runs.view.has_left("z:1~1")
    assert not members.runs.view.has_left(f"{B}~1")


# --- rejoin delays --------------------------------------------------------------------------------


def test_there_is_no_rejoin_delay_for_who_was_never_away_nor_in_a_mixed_cluster() -> None:
    members = listed(B, C)
    assert members.frozen().rejoin_delay_for("z:1", 0) == 0
    assert members.frozen().rejoin_delay_for(B, 0) == 0
    members.on_report(report(B, imposed_rejoin_delay_ms=5_000, view=(B, C)), 100)
    assert members.frozen().own_rejoin_delay_ms(100) == 5_000
    assert members.frozen().own_rejoin_delay_ms(5_100) == 0
    assert members.frozen().own_rejoin_delay_ms(9_000) == 0
    answer(members, C, 200, own=False)
    assert members.mixed
    assert members.frozen().own_rejoin_delay_ms(200) == 0
    fail(members, B, 200, Outcome.REFUSED)
    assert members.frozen().rejoin_delay_for(B, 200) == 0


# --- reports --------------------------------------------------------------------------------------


def test_reports_to_all_are_due_together_and_then_after_an_interval() -> None:
    members = listed(B, C, up=False)
    deadline_ms = CONFIG.report_timeout_ms
    assert members.next_due_ms() == 0
    assert members.due_reports(0) == [Report(B, deadline_ms), Report(C, deadline_ms)]
    answer(members, B, 10)
    assert members.next_due_ms() == CONFIG.report_interval_ms
    answer(members, C, 10)
    assert members.due_reports(CONFIG.report_interval_ms - 1) == []
    members.report_all_now(500)
    assert [one.peer for one in members.due_reports(500)] == [B, C]


def test_one_report_to_a_peer_is_under_way_until_it_is_lost() -> None:
    members = listed(B, C)
    members.due_reports(0)
    answer(members, C, 10)
    lost_ms = CONFIG.report_timeout_ms + REPORT_LOST_MS
    assert [one.peer for one in members.due_reports(lost_ms - 1)] == [C]
    assert [one.peer for one in members.due_reports(lost_ms)] == [B]


def test_while_it_loads_a_node_reports_more_often() -> None:
    members = listed(B, up=False)
    members.serving = False
    members.due_reports(0)
    answer(members, B, 0)
    assert members.next_due_ms() == LOADING_REPORT_INTERVAL_MS < CONFIG.report_interval_ms


def test_a_peer_whose_reports_do_not_arrive_is_asked_more_often_than_twice_an_interval_later() -> None:
    for silent_ms, interval_ms in (
        (2 * CONFIG.report_interval_ms, CONFIG.report_interval_ms),
        (2 * CONFIG.report_interval_ms + 1, PULL_INTERVAL_MS),
    ):
        members = listed(B, now_ms=100)
        members.on_report(report(B, calls={}), 100)
        now_ms = 100 + silent_ms
        assert [one.peer for one in members.due_reports(now_ms)] == [B]
        answer(members, B, now_ms)
        assert members.next_due_ms() == now_ms + interval_ms


def test_a_peer_that_is_new_to_the_list_counts_as_heard_when_it_came() -> None:
    members = listed(now_ms=0)
    members.replace([SELF, B], 50_000)
    members.on_report_done(B, Outcome.DELIVERED, report(B, calls={}), 50_000)
    members.due_reports(50_000)
    answer(members, B, 50_000)
    assert members.next_due_ms() == 50_000 + CONFIG.report_interval_ms, "it had no time to report yet"
    fail(members, B, 50_100)
    assert members.frozen().calls(50_200) == {B: 200}


def test_a_round_of_reports_ends_without_those_that_left() -> None:
    members = listed(B, C, D)
    members.confirmed_ms = -1
    fail(members, B, 100)
    fail(members, C, 200)
    assert members.confirmed_ms == -1
    members.replace([SELF, C, D], 250)
    members.replace([SELF, B, C, D], 260)
    fail(members, D, 300)
    assert members.confirmed_ms == -1, "the report to the B that came back is still to come"
    fail(members, B, 400)
    assert members.confirmed_ms == 400


def test_a_report_that_got_through_confirms_the_view_alone() -> None:
    members = listed(B, C)
    members.confirmed_ms = -1
    answer(members, B, 77)
    assert members.confirmed_ms == 77


def test_members_are_told_in_the_order_of_their_addresses() -> None:
    members = listed(D, B, C)
    assert [one.address for one in members.peers()] == [B, C, D]
    assert members.get("z:1") is None
    assert members.kind("z:1") is None
    assert not members.is_reachable("z:1")
    assert not members.is_failing("z:1")
    assert not members.on_report(report("z:1"), 0)
    fail(members, "z:1", 0)
    assert [one.address for one in members.peers()] == [B, C, D]


def test_what_a_peer_said_of_itself_stays_while_it_is_silent() -> None:
    members = listed(B)
    answer(members, B, 0, extend_info={"version": "x"})
    fail(members, B, 10)
    assert members.get(B) == Member(B, MemberState.SUSPICIOUS, OWN, {"version": "x"}, 1)
    answer(members, B, 30)
    assert members.get(B) == Member(B, MemberState.UP, OWN, {}, 0)


def test_a_pause_moves_every_deadline_by_its_length() -> None:
    members = listed(B)
    answer(members, B, 0, writer=f"{B}~1")
    answer(members, B, 0, writer=f"{B}~2")
    members.runs.set_own_writer(f"{SELF}~2")
    members.due_reports(1_000)
    members.on_pause(60_000, 61_000)
    assert members.view_since_ms == 61_000
    assert members.confirmed_ms == -1
    assert [one.peer for one in members.due_reports(61_000 + CONFIG.report_timeout_ms + REPORT_LOST_MS - 1)] == []
    members.tick(60_000 + CONFIG.silent_down_ms - 1)
    assert state(members, B) is MemberState.UP
    members.tick(60_000 + CONFIG.silent_down_ms)
    assert state(members, B) is MemberState.DOWN
    for writer in (f"{B}~1", f"{SELF}~1"):
        members.tick(60_000 + HANDOVER_MS - 1)
        assert members.runs.view.is_handing_over(writer)
    members.tick(60_000 + HANDOVER_MS)
    assert not members.runs.view.is_handing_over(f"{B}~1")
    assert not members.runs.view.is_handing_over(f"{SELF}~1")


def test_a_report_that_is_under_way_holds_up_no_other() -> None:
    members = listed(B, C)
    members.due_reports(0)
    answer(members, C, 10)
    members.report_all_now(500)
    assert [(one.peer, one.deadline_ms) for one in members.due_reports(500)] == [(C, 500 + CONFIG.report_timeout_ms)]


def test_a_report_is_taken_from_listed_members_alone() -> None:
    members = listed(B)
    assert members.on_report(report(B), 10)
    assert members.on_report(report(B, state=MemberState.DOWN), 20), "it is asked itself"
    assert not members.on_report(report(C), 10)


def test_of_two_who_heard_of_a_member_the_later_one_counts() -> None:
    members = listed(B, C, D)
    nobody = {"z:1": HeardOf(0, {}), D: HeardOf(500, {C: 7})}
    members.on_report(report(B, calls={}, heard=nobody), 1_000)
    assert members.frozen().heard(1_000)[D] == HeardOf(500, {C: 7}), "whoever is unknown hides nobody"
    members.on_report(report(C, calls={}, heard={D: HeardOf(501, {C: 8})}), 1_000)
    members.on_report(report(C, calls={}, heard={D: HeardOf(500, {C: 9})}), 1_000)
    assert members.frozen().heard(1_100)[D] == HeardOf(600, {C: 7})
    members.on_report(report(C, calls={}, heard={D: HeardOf(499, {C: 8})}), 1_000)
    assert members.frozen().heard(1_000)[D] == HeardOf(499, {C: 8})


def test_who_is_up_is_not_made_suspicious_by_what_others_heard() -> None:
    members = listed(B, C)
    for now_ms in (1_000, 6_000):
        members.on_report(report(B, calls={}, heard={C: HeardOf(0, {})}), now_ms)
    assert state(members, C) is MemberState.UP


def test_what_comes_after_the_address_names_the_run_whatever_it_holds() -> None:
    members = listed(B)
    members.runs.set_own_writer(f"{SELF}~2")
    assert not members.runs.view.has_left(f"{B}~1~x")
    assert members.runs.view.is_handing_over(f"{SELF}~1~x")


def test_one_that_never_answered_is_silent_since_it_came() -> None:
    members = listed()
    members.replace([SELF, B], 50_000)
    fail(members, B, 50_100)
    assert members.frozen().calls(50_200) == {B: 200}


# --- what contacts change -------------------------------------------------------------------------


def test_who_tells_nothing_of_a_member_does_not_say_that_it_fails() -> None:
    members = listed(B, C)
    for peer in (B, C):
        members.on_report(report(peer, calls={}), 0)
    assert members.relayed() == {}


def test_a_member_that_only_others_hear_is_suspicious_after_two_intervals() -> None:
    since_ms, limit_ms = 10_000, 2 * CONFIG.report_interval_ms
    for view, is_alive in (((SELF, B, C), True), ((SELF, B), False)):
        members = listed(B, now_ms=since_ms)
        members.replace([SELF, B, C], since_ms)
        for after_ms in (0, limit_ms - 1):
            told = report(B, calls={C: 0}, heard={C: HeardOf(0, {})}, view=view)
            members.on_report(told, since_ms + after_ms)
            assert state(members, C) is MemberState.DOWN
        members.on_report(told, since_ms + limit_ms)
        assert state(members, C) is (MemberState.SUSPICIOUS if is_alive else MemberState.DOWN)
        assert (members.get(C).capabilities == OWN) is is_alive  # type: ignore[union-attr]
        assert (C in members.view) is is_alive


def test_a_pause_moves_the_rejoin_delay_of_a_peer() -> None:
    members = listed(B)
    fail(members, B, 1_000, Outcome.REFUSED)
    members.tick(CONFIG.refused_down_ms)
    assert state(members, B) is MemberState.DOWN
    members.on_report(report(B, view=()), 5_000)
    assert members.frozen().rejoin_delay_for(B, 5_000) == CONFIG.steady_ms
    members.on_pause(3_000, 8_000)
    assert members.frozen().rejoin_delay_for(B, 8_000) == CONFIG.steady_ms


@pytest.mark.parametrize(("after_ms", "begins_again"), [(CONFIG.steady_ms - 1, True), (CONFIG.steady_ms, False)])
def test_a_failure_within_a_rejoin_delay_begins_it_again(after_ms: int, begins_again: bool) -> None:
    members = listed(B)
    fail(members, B, 1_000, Outcome.REFUSED)
    members.tick(CONFIG.refused_down_ms)
    members.on_report(report(B, view=()), 5_000)
    members.on_report(report(B), 5_000 + CONFIG.steady_ms - 1_000)
    fail(members, B, 5_000 + after_ms)
    assert members.frozen().rejoin_delay_for(B, 5_000 + after_ms) == (CONFIG.steady_ms if begins_again else 0)


def test_a_farewell_counts_once() -> None:
    members = listed(B, C)
    members.on_report(report(C, state=MemberState.DOWN), 10)
    fail(members, C, 20)
    assert state(members, C) is MemberState.DOWN
    since_ms, until_ms = 1_000, 1_000 + 2 * CONFIG.report_interval_ms
    for now_ms in (since_ms, until_ms):
        members.on_report(report(B, calls={}, heard={C: HeardOf(0, {})}), now_ms)
    assert state(members, C) is MemberState.SUSPICIOUS, "another hears of it still"
    fail(members, C, until_ms)
    assert state(members, C) is MemberState.SUSPICIOUS


def test_a_farewell_that_comes_again_makes_no_hand_over_longer() -> None:
    members = listed(B)
    answer(members, B, 0, writer=f"{B}~1")
    for now_ms in (1_000, 9_000):
        answer(members, B, now_ms, writer=f"{B}~1", state=MemberState.DOWN)
    members.tick(1_000 + HANDOVER_MS)
    assert members.runs.view.has_left(f"{B}~1")


def test_a_farewell_is_of_the_run_that_it_names() -> None:
    members = listed(B, up=False)
    answer(members, B, 0, writer=f"{B}~1", state=MemberState.STARTING)
    members.on_report(report(B, writer=f"{B}~2", state=MemberState.DOWN), 1_000)
    assert members.runs.view.is_handing_over(f"{B}~2")
    assert not members.runs.view.is_handing_over(f"{B}~1")


@pytest.mark.parametrize(("after_ms", "counts"), [(RETURNS_MS - 1, False), (RETURNS_MS, True)])
def test_of_members_that_return_together_the_first_one_counts(after_ms: int, counts: bool) -> None:
    members = listed(B, C)
    assert members.returned_ms == NEVER_MS
    for peer in (B, C):
        answer(members, peer, 0, state=MemberState.DOWN)
    answer(members, B, 1_000)
    assert members.returned_ms == 1_000
    answer(members, C, 1_000 + after_ms)
    assert members.returned_ms == (1_000 + after_ms if counts else 1_000)


@pytest.mark.parametrize("own", [True, False])
def test_a_contact_with_a_member_that_says_what_is_not_for_it_to_say_makes_it_up(own: bool) -> None:
    members = listed(B, up=False)
    answer(members, B, 0, own=own, state=MemberState.SUSPICIOUS if own else MemberState.STARTING)
    assert state(members, B) is MemberState.UP


@pytest.mark.parametrize(
    ("up", "said", "becomes"),
    [
        (False, MemberState.STARTING, MemberState.STARTING),
        (True, MemberState.STARTING, MemberState.UP),
        (True, MemberState.DOWN, MemberState.DOWN),
    ],
)
def test_every_contact_brings_the_description_of_today(up: bool, said: MemberState, becomes: MemberState) -> None:
    members = listed(B, up=up)
    answer(members, B, 10, state=said, extend_info={"version": "new"})
    found = members.get(B)
    assert found is not None
    assert (found.state, found.extend_info, found.capabilities) == (becomes, {"version": "new"}, OWN)


def test_a_peer_carries_no_keys_while_it_says_so() -> None:
    members = listed(B)
    members.on_report(report(B, rejoin_delay_ms=500), 1_000)
    assert members.view == (SELF,)
    members.tick(1_499)
    assert members.view == (SELF,)
    members.tick(1_500)
    assert members.view == (SELF, B)
    members.on_report(report(B, rejoin_delay_ms=500), 2_000)
    members.on_report(report(B), 2_100)
    assert members.view == (SELF, B), "it says so no more"


def test_a_delay_is_taken_only_by_the_smaller_side() -> None:
    members = listed(B, C)
    members.on_report(report(B, imposed_rejoin_delay_ms=5_000), 0)
    assert members.frozen().own_rejoin_delay_ms(0) == 0, "both have the same view"
    members.on_report(report(B, view=(B, C)), 0)
    assert members.frozen().own_rejoin_delay_ms(0) == 0, "none was imposed"


def test_a_node_that_is_left_alone_carries_keys_whatever_was_imposed_on_it() -> None:
    members = listed(B)
    members.on_report(report(B, imposed_rejoin_delay_ms=5_000, view=(B, C)), 0)
    assert members.view == (B,)
    fail(members, B, 10, Outcome.REFUSED)
    members.tick(CONFIG.refused_down_ms)
    assert members.frozen().own_rejoin_delay_ms(CONFIG.refused_down_ms) > 0
    assert members.view == (SELF,)


def test_who_said_farewell_and_answers_no_more_has_left_and_is_not_cut_off() -> None:
    members = listed(B)
    answer(members, B, 0, writer=f"{B}~1")
    members.on_report(report(B, state=MemberState.DOWN), 10)
    assert state(members, B) is MemberState.UP, "it is asked first"
    assert members.next_due_ms() == 10
    fail(members, B, 20)
    assert state(members, B) is MemberState.DOWN
    assert members.frozen().cut_off_since_ms(20) is None
    assert members.runs.view.is_handing_over(f"{B}~1")
    answer(members, B, 30)
    fail(members, B, 40)
    assert state(members, B) is MemberState.SUSPICIOUS, "its farewell was for the time before"
