"""When a starting member has what the others hold."""

import pytest

from distro.model.config import DistroConfig
from distro.model.types import FinishLoad, Load, MemberKind, Outcome
from distro.protocol.load import SnapshotLoad

CONFIG = DistroConfig()
B, C = "b:1", "c:1"


class Anything:
    """Stands for a component: only its name counts here, and who takes it."""

    def __init__(self, *kinds: MemberKind) -> None:
        self.taken_by = frozenset(kinds or (MemberKind.OWN, MemberKind.NACOS_1))


@pytest.fixture
def load() -> SnapshotLoad:
    made = SnapshotLoad(CONFIG, {"t": Anything()}, 0)  # type: ignore[dict-item]
    for peer in (B, C):
        made.add(peer, 0)
    return made


def end(load: SnapshotLoad, peer: str, outcome: Outcome, keys: list[str] | None, now_ms: int) -> None:
    call = load.next_call(peer, now_ms, reachable=True)
    assert call == Load(peer, "t", call.deadline_ms if call else 0)
    load.on_done(call, outcome, keys, now_ms)


def is_over(load: SnapshotLoad, now_ms: int, *reachable: str) -> bool:
    return load.is_over(now_ms, lambda peer: peer in reachable)


def test_all_that_can_give_are_waited_for(load: SnapshotLoad) -> None:
    end(load, B, Outcome.DELIVERED, ["k"], 100)
    assert not is_over(load, 100)
    end(load, C, Outcome.DELIVERED, [], 200)
    assert is_over(load, 200)
    assert load.loaded_from() == [B, C]


def test_one_that_refuses_counts_as_absent_after_a_while(load: SnapshotLoad) -> None:
    end(load, B, Outcome.DELIVERED, ["k"], 100)
    end(load, C, Outcome.REFUSED, None, 100)
    assert not is_over(load, CONFIG.load_refused_ms - 1)
    assert is_over(load, CONFIG.load_refused_ms)


def test_nobody_with_data_keeps_a_member_from_serving_for_long(load: SnapshotLoad) -> None:
    for peer in (B, C):
        end(load, peer, Outcome.FAILED, None, 100)
    assert not is_over(load, CONFIG.load_wait_ms_max - 1)
    assert is_over(load, CONFIG.load_wait_ms_max)


def test_a_member_that_serves_is_waited_for_longer(load: SnapshotLoad) -> None:
    end(load, B, Outcome.DELIVERED, ["k"], 100)
    end(load, C, Outcome.FAILED, None, 100)
    assert not is_over(load, CONFIG.load_wait_ms_max, C)
    assert is_over(load, CONFIG.load_timeout_ms, C)


def test_one_that_does_not_know_the_call_is_waited_for_no_longer_than_one_that_is_gone(load: SnapshotLoad) -> None:
    """Real Nacos 2.x serves, and has no lists to give."""
    end(load, B, Outcome.REJECTED, None, 10)
    end(load, C, Outcome.FORBIDDEN, None, 10)
    assert not is_over(load, CONFIG.load_wait_ms_max - 1, B, C)
    assert is_over(load, CONFIG.load_wait_ms_max, B, C)


def test_a_failed_call_is_made_again_after_a_wait(load: SnapshotLoad) -> None:
    end(load, B, Outcome.FAILED, None, 100)
    assert load.next_call(B, 100 + CONFIG.load_retry_delay_ms - 1, reachable=True) is None
    assert load.next_call(B, 100 + CONFIG.load_retry_delay_ms, reachable=True) is not None
    assert load.next_call(B, 10_000, reachable=True) is None, "it is under way"


def test_a_peer_that_left_the_list_is_not_waited_for(load: SnapshotLoad) -> None:
    end(load, B, Outcome.DELIVERED, ["k"], 100)
    load.remove(C)
    assert is_over(load, 100)


def test_a_peer_that_is_being_asked_is_waited_for_without_looking() -> None:
    """Another type to ask it for is due, but a peer gets one call at a time."""
    load = SnapshotLoad(CONFIG, {"t": Anything(), "u": Anything()}, 0)  # type: ignore[dict-item]
    load.add(B, 0)
    assert load.next_due_ms(0) == 0
    first = load.next_call(B, 0, reachable=True)
    assert first is not None
    assert load.next_due_ms(0) == CONFIG.load_retry_delay_ms
    load.on_done(first, Outcome.DELIVERED, [], 10)
    assert load.next_due_ms(10) <= 10


def test_a_peer_is_asked_for_nothing_that_its_kind_does_not_have() -> None:
    parts = {"lists": Anything(), "clients": Anything(MemberKind.OWN, MemberKind.NACOS_2)}
    load = SnapshotLoad(CONFIG, parts, 0)  # type: ignore[arg-type]
    load.add(B, 0)
    first = load.next_call(B, 0, reachable=True)
    assert first is not None
    assert first.resource_type == "lists"
    load.leave_out(B, MemberKind.NACOS_2)
    load.on_done(first, Outcome.FAILED, None, 10)
    second = load.next_call(B, 1_000, reachable=True)
    assert second is not None
    assert second.resource_type == "clients"
    load.on_done(second, Outcome.DELIVERED, [], 1_100)
    assert is_over(load, 1_100, B)


def test_what_is_made_here_of_other_data_is_loaded_from_nobody() -> None:
    load = SnapshotLoad(CONFIG, {"made": Anything(MemberKind.NACOS_2)}, 0)  # type: ignore[dict-item]
    load.add(B, 0)
    assert load.next_call(B, 0, reachable=True) is None
    assert is_over(load, 0, B)


def test_after_a_load_made_again_what_no_peer_holds_goes_but_only_of_what_a_peer_gave() -> None:
    """A resource type that no peer gave is not in the action that ends the load, so nothing of it goes."""
    parts = {"lists": Anything(), "clients": Anything(MemberKind.OWN, MemberKind.NACOS_2)}
    load = SnapshotLoad(CONFIG, parts, 0, again=True)  # type: ignore[arg-type]
    load.add(B, 0)
    load.leave_out(B, MemberKind.NACOS_2)
    call = load.next_call(B, 0, reachable=True)
    assert call is not None
    load.on_done(call, Outcome.DELIVERED, frozenset("k"), 100)
    assert load.end() == FinishLoad({"clients": [{"k"}]})


def test_a_first_load_drops_nothing() -> None:
    load = SnapshotLoad(CONFIG, {"lists": Anything()}, 0)  # type: ignore[dict-item]
    load.add(B, 0)
    call = load.next_call(B, 0, reachable=True)
    assert call is not None
    load.on_done(call, Outcome.DELIVERED, ["k"], 100)
    assert load.end() == FinishLoad(None)


def test_a_peer_that_does_not_list_this_member_yet_is_waited_for(load: SnapshotLoad) -> None:
    """Operators change the lists of one member after the other; to serve nothing meanwhile would empty the SDKs."""
    end(load, B, Outcome.REJECTED, None, 100)
    end(load, C, Outcome.REFUSED, None, 100)
    late_ms = CONFIG.load_wait_ms_max
    assert load.is_over(late_ms, lambda _peer: False)
    assert not load.is_over(late_ms, lambda _peer: False, lambda peer: peer == B)
    assert load.is_over(CONFIG.load_timeout_ms, lambda _peer: False, lambda peer: peer == B)


def test_each_call_of_a_snapshot_is_given_twice_the_time_of_the_last(load: SnapshotLoad) -> None:
    now_ms, given = 0, []
    for _ in range(5):
        call = load.next_call(B, now_ms, reachable=True)
        assert call is not None
        given.append(call.deadline_ms - now_ms)
        load.on_done(call, Outcome.FAILED, None, now_ms)
        now_ms += CONFIG.load_retry_delay_ms
    first = CONFIG.load_wait_ms_max
    assert given == [min(first * 2**number, CONFIG.load_timeout_ms) for number in range(5)]
    assert first * 2 < CONFIG.load_timeout_ms


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.REJECTED, Outcome.FORBIDDEN])
def test_a_call_that_was_answered_at_once_needs_no_more_time_the_next_time(
    load: SnapshotLoad, outcome: Outcome
) -> None:
    end(load, B, outcome, None, 0)
    again = load.next_call(B, 1_000, reachable=True)
    assert again is not None
    assert again.deadline_ms == 1_000 + CONFIG.load_wait_ms_max


def test_a_call_to_a_peer_out_of_reach_ends_when_the_load_need_not_wait_for_it(load: SnapshotLoad) -> None:
    """Or the peer would get no data, long after this member serves, until a call ended that nobody waits for."""
    end(load, B, Outcome.FAILED, None, 0)
    late_ms = CONFIG.load_wait_ms_max - 1_000
    again = load.next_call(B, late_ms, reachable=False)
    assert again is not None
    assert again.deadline_ms == CONFIG.load_wait_ms_max
    load.on_done(again, Outcome.FAILED, None, CONFIG.load_wait_ms_max)
    later_ms = CONFIG.load_wait_ms_max + 5_000  # the load goes on for another peer
    short = load.next_call(B, later_ms, reachable=False)
    assert short is not None
    assert short.deadline_ms == later_ms + CONFIG.load_retry_delay_ms


def test_the_time_of_a_load_begins_with_the_first_peer(load: SnapshotLoad) -> None:
    """A member list that comes late finds no load that is over before it began."""
    late = SnapshotLoad(CONFIG, {"t": Anything()}, 0)  # type: ignore[dict-item]
    late.add(B, 60_000)
    late.add(C, 60_500)
    assert not is_over(late, 60_500, B, C)
    assert not is_over(late, 60_000 + CONFIG.load_timeout_ms - 1, B, C)
    assert is_over(late, 60_000 + CONFIG.load_timeout_ms, B, C)


def part(load: SnapshotLoad, peer: str, now_ms: int) -> int:
    """A call that brings a part of its snapshot; return how long it could have taken."""
    call = load.next_call(peer, now_ms, reachable=True)
    assert call is not None
    load.on_part(call, now_ms)
    return call.deadline_ms - now_ms


def test_a_load_that_makes_progress_goes_on(load: SnapshotLoad) -> None:
    end(load, C, Outcome.DELIVERED, [], 0)
    for now_ms in range(0, CONFIG.load_ms_max, CONFIG.load_timeout_ms - 1):
        assert not is_over(load, now_ms, B)
        part(load, B, now_ms)
    assert is_over(load, CONFIG.load_ms_max, B), "whatever comes"


def test_a_load_ends_when_nothing_more_has_come_for_long(load: SnapshotLoad) -> None:
    part(load, B, 40_000 - CONFIG.load_timeout_ms)
    assert not is_over(load, 39_999, B)
    assert is_over(load, 40_000, B)


def test_the_rest_is_asked_for_at_once_and_gets_more_time_but_so_that_progress_is_seen(load: SnapshotLoad) -> None:
    first = CONFIG.load_wait_ms_max
    assert [part(load, B, now_ms) for now_ms in range(4)] == [first, first * 2, first * 4, CONFIG.load_timeout_ms // 2]
    end(load, B, Outcome.DELIVERED, ["k"], 5)
    assert load.loaded_from() == [B]


def test_a_part_from_a_peer_that_left_the_list_is_progress_and_no_more(load: SnapshotLoad) -> None:
    call = load.next_call(B, 0, reachable=True)
    assert call is not None
    load.remove(B)
    load.on_part(call, 10)
    assert load.next_call(B, 10, reachable=True) is None
