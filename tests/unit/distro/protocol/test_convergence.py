"""How long changes take to a peer: in virtual time, by what its answers say."""

import logging
import re

import pytest

from distro.model.monitor import Timings
from distro.model.types import DistroKey, Outcome, Query, Received, SyncData, Verify, Version
from distro.protocol.convergence import PUSHES_AWAITED_MAX, STUCK_S, Cause, PeerTrace
from distro.protocol.engine_view import cause_of
from distro.receive.call_times import APPLIED_MAX, PUSHES_MAX, AppliedTimes
from tests.support.engine import INSTANCE_LIST, ME, OTHER, SELF, B, C, Engine

A, Z = DistroKey("t", "a"), DistroKey("t", "z")


def ours(_key: DistroKey) -> bool:
    return True


def count(timings: Timings) -> int:
    return sum(timings.counts)


@pytest.fixture
def trace() -> PeerTrace:
    return PeerTrace(ME)


# --- the stamps of one peer ---------------------------------------------------------------------------


def test_a_later_change_of_a_key_keeps_the_older_stamp(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.changed(A, 2.0)
    assert (trace.unapplied(), trace.oldest()) == (1, (A, 1.0, False))
    trace.begun([A])
    trace.changed(A, 3.0)
    trace.answered(Received(), 4.0, ours)
    assert trace.applied.sum_s == 3.0, "from the first change on"
    assert trace.oldest() == (A, 3.0, False), "what came after the send began is not acknowledged by it"


def test_a_failed_send_is_counted_from_its_change(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.begun([A])
    trace.changed(A, 5.0)
    trace.failed()
    assert trace.oldest() == (A, 1.0, False)
    trace.begun([A, Z])
    trace.answered(Received(), 11.0, ours)
    assert (trace.applied.sum_s, count(trace.applied), trace.unapplied()) == (10.0, 1, 0)


def test_a_peer_tells_how_long_ago_it_applied_and_never_before_the_change(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.changed(Z, 1.0)
    trace.begun([A, Z])
    trace.answered(Received(ages_ms={"a": 250.0, "z": 60_000.0}), 2.0, ours)
    assert trace.applied.sum_s == 0.75, "a peer that claims to have it from before the change is not believed"


@pytest.mark.parametrize(
    "received",
    [
        Received(refused={"a": Version(1, 0, OTHER)}),
        Received(failed={"a": "not a list"}),
        Received(ages_ms={"a": None}),
    ],
)
def test_what_the_peer_does_not_take_stays_until_it_has_it(trace: PeerTrace, received: Received) -> None:
    trace.changed(A, 1.0)
    trace.begun([A])
    trace.answered(received, 2.0, ours)
    assert (trace.oldest(), count(trace.applied)) == ((A, 1.0, True), 0)
    trace.changed(A, 3.0)
    trace.begun([A])
    trace.answered(Received(), 5.0, ours)
    assert (trace.applied.sum_s, trace.unapplied()) == (4.0, 0)


def test_a_later_state_of_ours_at_the_peer_has_the_change(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.begun([A])
    trace.answered(Received(refused={"a": Version(1, 9, ME)}, ages_ms={"a": 500.0}), 2.0, ours)
    assert (trace.applied.sum_s, trace.unapplied()) == (0.5, 0)


def test_a_change_whose_key_another_took_over_is_not_ours_to_trace(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.changed(Z, 1.0)
    trace.begun([A, Z])
    trace.answered(Received(refused={"z": Version(1, 0, OTHER)}), 2.0, lambda key: key == Z)
    assert trace.oldest() == (Z, 1.0, True)
    trace.take_over(ours)
    assert trace.unapplied() == 1
    trace.take_over(lambda _key: False)
    assert (trace.unapplied(), count(trace.applied)) == (0, 0)


def test_what_the_peer_fetched_it_has(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.changed(Z, 3.0)
    trace.served([A, Z, DistroKey("t", "unknown")], 2.0)
    assert (trace.applied.sum_s, trace.oldest()) == (1.0, (Z, 3.0, False)), "Z changed after it was given"


def test_an_agreeing_round_acknowledges_what_changed_before_it(trace: PeerTrace) -> None:
    other_type = DistroKey("u", "a")
    trace.changed(A, 1.0)
    trace.changed(other_type, 1.0)
    trace.changed(Z, 2.5)
    trace.agreed("t", 2.0, 3.0, lambda name: name in {"a", "z"})
    assert (trace.applied.sum_s, trace.unapplied()) == (2.0, 2)
    trace.agreed("t", 3.0, 3.5, lambda name: name == "a")
    assert trace.unapplied() == 2, "Z is not among those that are equal"


def test_a_rejected_send_waits_for_the_next_change_of_its_key(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.begun([A])
    trace.rejected()
    assert trace.oldest() == (A, 1.0, True)


def test_pushes_are_counted_from_the_change_once(trace: PeerTrace) -> None:
    trace.changed(A, 1.0)
    trace.begun([A])
    trace.answered(Received(), 3.0, ours)
    for _ in range(2):
        trace.told_pushes({"a": 50.0, "never sent": 1.0}, "t")
    assert (count(trace.pushed), trace.pushed.sum_s) == (1, 2.05)


def test_what_is_remembered_for_pushes_is_bounded(trace: PeerTrace) -> None:
    keys = [DistroKey("t", str(number)) for number in range(PUSHES_AWAITED_MAX + 1)]
    for key in keys:
        trace.changed(key, 1.0)
    trace.begun(keys)
    trace.answered(Received(), 3.0, ours)
    trace.told_pushes({key.key: 0.0 for key in keys}, "t")
    assert count(trace.pushed) == PUSHES_AWAITED_MAX


def test_the_log_tells_once_of_each_cause_and_of_the_end(trace: PeerTrace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "distro.protocol.convergence")
    trace.changed(A, 1.0)
    trace.log_stuck(B, Cause.QUEUE, STUCK_S + 0.9)
    assert not caplog.messages
    for cause in (Cause.FAILING, Cause.FAILING, Cause.REFUSED, Cause.FAILING):
        trace.log_stuck(B, cause, 5.0)
    assert caplog.messages == [
        f"{B} has lacked a change of a for 4.0 s: failing; it lacks 1 changes",
        f"{B} has lacked a change of a for 4.0 s: refused; it lacks 1 changes",
    ]
    trace.begun([A])
    trace.answered(Received(), 6.0, ours)
    for _ in range(2):
        trace.log_stuck(B, Cause.QUEUE, 6.0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_an_unreachable_peer_is_told_of_once_and_not_counted(
    trace: PeerTrace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "distro.protocol.convergence")
    trace.log_unreachable(B)
    assert not caplog.messages, "it lacks nothing"
    trace.changed(A, 1.0)
    for _ in range(2):
        trace.log_unreachable(B)
        trace.log_stuck(B, Cause.UNREACHABLE, 2.0)
    trace.drop()
    trace.log_stuck(B, Cause.UNREACHABLE, 9.0)
    assert (trace.oldest(), trace.not_counted) == (None, 1)
    trace.log_stuck(B, Cause.QUEUE, 9.0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert re.search("lacks 1 changes, the oldest of a, and is unreachable", caplog.messages[0])


# --- in the protocol ------------------------------------------------------------------------------------


def written(engine: Engine, service: str) -> DistroKey:
    key = DistroKey(INSTANCE_LIST, engine.write(service))
    engine.protocol.sync({key: engine.now_ms / 1_000}, engine.now_ms)
    return key


def sends(engine: Engine, wait_ms: int = 0) -> list[SyncData]:
    return [action for action in engine.tick(wait_ms) if isinstance(action, SyncData)]


def cause_now(engine: Engine) -> Cause | None:
    """Return why B lacks its oldest change."""
    engine.protocol.publish(engine.now_ms)
    oldest = engine.protocol.reader.view.peers[B].oldest
    return None if oldest is None else oldest.cause


def test_each_peer_is_traced_by_its_own_answers() -> None:
    engine = Engine(B, C)
    engine.load()
    written(engine, engine.service_of(SELF))
    to_b, to_c = sorted(sends(engine), key=lambda action: action.peer)
    engine.now_ms += 40
    engine.protocol.on_sync_done(to_b, Outcome.DELIVERED, Received(), engine.now_ms)
    engine.protocol.on_sync_done(to_c, Outcome.FAILED, Received(), engine.now_ms)
    b, c = engine.protocol.peers.traces[B], engine.protocol.peers.traces[C]
    assert (b.applied.sum_s, b.unapplied()) == (pytest.approx(0.04), 0)
    assert (count(c.applied), c.unapplied()) == (0, 1)
    engine.hear()
    [again] = sends(engine, 1_000)
    engine.protocol.on_sync_done(again, Outcome.DELIVERED, Received(), 0, engine.now_ms / 1_000 + 0.5)
    assert c.applied.sum_s == pytest.approx((engine.now_ms - 1_000_000) / 1_000 + 0.5), "the answer's own time counts"


def test_a_claim_is_no_change_that_a_reader_sees() -> None:
    engine = Engine(B)
    engine.load()
    key = DistroKey(INSTANCE_LIST, engine.write(engine.service_of(SELF)))
    engine.protocol.on_claim_done([key], [], engine.now_ms, unfinished=False)
    assert engine.protocol.peers.traces[B].unapplied() == 0


def test_a_verify_round_without_differences_acknowledges() -> None:
    engine = Engine(B)
    engine.load()
    key = written(engine, engine.service_of(SELF))
    [send] = sends(engine)
    engine.protocol.on_sync_done(send, Outcome.DELIVERED, Received(failed={key.key: "full"}), engine.now_ms)
    trace = engine.protocol.peers.traces[B]
    for told in (None, 1, 0):
        assert trace.unapplied() == 1
        engine.hear()
        [verify] = [action for action in engine.tick(6_000) if isinstance(action, Verify)]
        engine.protocol.on_verify_done(verify, Outcome.DELIVERED, Received(fetching=told), engine.now_ms)
    assert (trace.unapplied(), count(trace.applied)) == (0, 1)


def test_what_a_peer_fetches_is_applied_there() -> None:
    engine = Engine(B)
    engine.load()
    key = written(engine, engine.service_of(SELF))
    engine.protocol.on_served(B, INSTANCE_LIST, [key.key], engine.now_ms / 1_000 + 0.2)
    engine.protocol.on_served("10.9.9.9:1", INSTANCE_LIST, [key.key], 0.0)
    assert engine.protocol.peers.traces[B].applied.sum_s == pytest.approx(0.2)


def test_a_peer_that_leaves_takes_its_stamps_along() -> None:
    engine = Engine(B, C)
    engine.load()
    written(engine, engine.service_of(SELF))
    engine.protocol.replace_members([SELF, C], engine.now_ms)
    assert engine.protocol.peers.traces.keys() == {C}
    assert engine.protocol.peers.traces[C].unapplied() == 1


def test_changes_for_a_peer_that_is_down_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(B)
    engine.load()
    written(engine, engine.service_of(SELF))
    engine.leave(B)
    trace = engine.protocol.peers.traces[B]
    assert (trace.oldest(), trace.not_counted) == (None, 1)
    assert "is unreachable" in caplog.text
    written(engine, engine.service_of(SELF))
    assert (trace.oldest(), trace.not_counted) == (None, 3), "each try to send it"
    assert cause_of(engine.protocol.peers.queues[B], engine.now_ms, refused=False) is Cause.UNREACHABLE


def test_the_cause_of_a_change_that_is_stuck(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(B)
    engine.load()
    key = written(engine, engine.service_of(SELF))
    assert cause_now(engine) is Cause.QUEUE
    [send] = sends(engine)
    engine.now_ms += 3_500
    engine.tick()
    assert cause_now(engine) is Cause.FAILING
    assert f"{B} has lacked a change of {key.key} for 3.5 s: failing" in caplog.text
    refused = Received(refused={key.key: Version(5, 0, OTHER)})
    engine.protocol.on_sync_done(send, Outcome.DELIVERED, refused, engine.now_ms)
    assert cause_now(engine) is Cause.REFUSED
    assert any(isinstance(action, Query) for action in engine.tick())


# --- at the receiver ------------------------------------------------------------------------------------


def test_the_age_of_what_contains_a_version() -> None:
    times = AppliedTimes()

    def ages_ms(now_ms: int, **versions: Version) -> dict[str, float]:
        return times.ages_ms(A.resource_type, versions, now_ms)

    times.note(A, Version(1, 5, OTHER), B, 9.0, 10_000)
    assert ages_ms(10_250, **{A.key: Version(1, 4, OTHER), Z.key: Version(1, 1, OTHER)}) == {A.key: 250}
    assert ages_ms(10_250, **{A.key: Version(1, 6, OTHER)}) == ages_ms(10_000, **{A.key: Version(1, 5, OTHER)}) == {}
    for number in range(APPLIED_MAX):
        times.note(DistroKey("t", str(number)), Version(1, 0, OTHER), B, 11.0, 11_000)
    assert ages_ms(12_000, **{A.key: Version(1, 5, OTHER)}) == {}, "the oldest are forgotten"


def test_a_member_is_told_once_how_long_a_push_took() -> None:
    times = AppliedTimes(is_pushed=lambda key: key != Z)
    for at_s in (1.0, 1.5):
        times.note(A, Version(1, 0, OTHER), B, at_s, int(at_s * 1_000))
    times.note(Z, Version(1, 0, OTHER), B, 1.0, 1_000)
    for key in (A, Z):
        times.pushed(key, 3.0)
        times.pushed(key, 4.0)
    assert times.with_pushes(Received(), C, "t") == times.with_pushes(Received(), B, "u") == Received()
    assert times.with_pushes(Received(fetching=0), B, "t") == Received(fetching=0, pushed_ms={"a": 2_000.0})
    assert times.with_pushes(Received(), B, "t") == Received()


def test_a_push_may_come_before_its_change_is_noted() -> None:
    times = AppliedTimes(is_pushed=lambda _key: True)
    times.pushed(A, 1.5)
    times.note(A, Version(1, 0, OTHER), B, 1.0, 1_250)
    assert times.with_pushes(Received(), B, "t").pushed_ms == {"a": 250.0}
    times.note(A, Version(1, 1, OTHER), B, 2.0, 2_000)
    assert times.with_pushes(Received(), B, "t").pushed_ms == {}, "that push was before this change"


def test_what_is_not_pushed_soon_is_not_waited_for() -> None:
    times = AppliedTimes(is_pushed=lambda _key: True)
    times.note(A, Version(1, 0, OTHER), B, 1.0, 1_000)
    times.note(A, Version(1, 1, OTHER), B, 60.0, 60_000)
    times.pushed(A, 60.5)
    assert times.with_pushes(Received(), B, "t").pushed_ms == {"a": 500.0}


def test_pushes_that_nobody_asks_for_are_bounded() -> None:
    times = AppliedTimes(is_pushed=lambda _key: True)
    keys = [DistroKey("t", str(number)) for number in range(PUSHES_MAX + 1)]
    for key in keys:
        times.note(key, Version(1, 0, OTHER), B, 1.0, 1_000)
    times.pushed(keys[0], 2.0)
    assert times.with_pushes(Received(), B, "t") == Received(), "the oldest was dropped"
    for key in keys[1:]:
        times.note(key, Version(1, 0, OTHER), B, 1.0, 1_000)
        times.pushed(key, 2.0)
    times.note(keys[0], Version(1, 0, OTHER), B, 1.0, 1_000)
    times.pushed(keys[0], 2.0)
    assert len(times.with_pushes(Received(), B, "t").pushed_ms) == PUSHES_MAX


@pytest.mark.parametrize(
    ("taken_s", "part", "expected_s"),
    [([], 0.5, None), ([0.5], 0.5, 0.625), ([0.1] * 4, 0.5, 0.125), ([0.1, 5.0], 0.99, 1.0), ([0.1, 0.1], 1, 0.25)],
)
def test_quantiles_lie_within_the_bounds(taken_s: list[float], part: float, expected_s: float | None) -> None:
    timings = Timings((0.25, 1.0))
    for one in taken_s:
        timings.add(one)
    assert timings.frozen().quantile_s(part) == expected_s
