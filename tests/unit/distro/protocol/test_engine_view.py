"""The engine's view: frozen values that other threads read while the engine goes on."""

import sys
import threading
from collections.abc import Callable

import pytest

from distro.model.types import DistroKey, MemberState, Outcome, PeerReport, Received, SyncData
from distro.protocol.convergence import OLDEST_AGE_MS, OLDEST_EXACT_MAX, PeerTrace
from tests.support.engine import INSTANCE_LIST, OWN_KIND, SELF, B, C, Engine

CHANGES = 1_000
KEY = DistroKey(INSTANCE_LIST, "a")


@pytest.mark.parametrize(
    "read",
    [
        lambda protocol: protocol.reader.view.pending(),
        lambda protocol: protocol.reader.view.pending_keys(),
        lambda protocol: protocol.reader.pending_of(KEY),
        lambda protocol: protocol.reader.view.steady(0),
        lambda protocol: [(one.oldest, dict(one.rounds), one.keys) for one in protocol.reader.view.peers.values()],
    ],
    ids=["pending", "pending_keys", "pending_of", "steady", "peers"],
)
def test_readers_beside_a_member_list_that_changes(read: Callable[[object], object]) -> None:
    engine, done, failed = Engine(B, C), threading.Event(), list[Exception]()
    engine.load()
    crowd = [f"d{number}:1" for number in range(50)]

    def reader() -> None:
        try:
            while not done.is_set():
                read(engine.protocol)
        except Exception as error:
            failed.append(error)

    readers = [threading.Thread(target=reader) for _ in range(2)]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for one in readers:
            one.start()
        for number in range(CHANGES):
            engine.protocol.replace_members([SELF, B, C, *crowd[number % 50 :]], engine.now_ms)
            engine.protocol.sync({DistroKey(INSTANCE_LIST, str(number)): 1.0}, engine.now_ms)
            engine.tick(1)
    finally:
        done.set()
        for one in readers:
            one.join(60)
        sys.setswitchinterval(interval_s)
    assert not failed


def test_a_view_stays_as_it_was_taken() -> None:
    engine = Engine(B)
    engine.load()
    engine.tick()
    before = engine.protocol.reader.view
    frozen = before._replace(), dict(before.peers), dict(before.peers[B].rounds)
    engine.protocol.sync({DistroKey(INSTANCE_LIST, engine.write(engine.service_of(SELF))): 1.0}, engine.now_ms)
    [send] = [action for action in engine.tick() if isinstance(action, SyncData)]
    assert (before, dict(before.peers), dict(before.peers[B].rounds)) == frozen
    after = engine.protocol.reader.view
    assert (before.pending(), after.pending(), after.pending_keys()) == (0, 1, {B: 1})
    assert after.peers[B].call is not None
    assert after.peers[B].call.what == "SyncData"
    engine.protocol.on_sync_done(send, Outcome.DELIVERED, Received(), engine.now_ms)
    engine.protocol.replace_members([SELF, C], engine.now_ms)
    assert after.peers.keys() == {B}
    assert engine.protocol.reader.view.peers.keys() == {C}
    assert [one.address for one in engine.protocol.reader.view.members.listed] == [C]


def test_a_view_tells_what_is_to_be_done_with_a_key() -> None:
    engine = Engine(B)
    engine.load()
    key = DistroKey(INSTANCE_LIST, engine.write(engine.service_of(SELF)))
    engine.protocol.sync({key: 1.0}, engine.now_ms)
    assert engine.protocol.reader.pending_of(key) == {B: "to be sent"}
    engine.tick()
    assert engine.protocol.reader.pending_of(key) == {B: "being sent"}
    engine.protocol.fetch(B, [key])
    assert engine.protocol.reader.pending_of(key) == {B: "being sent, to be fetched"}
    engine.leave(B)
    assert engine.protocol.reader.pending_of(key)[B].startswith("not reachable")


def test_events_that_move_members_are_seen_before_the_next_tick() -> None:
    engine = Engine(B)
    assert engine.protocol.reader.view.loading
    engine.load()
    engine.hear()
    now_ms = engine.now_ms
    assert engine.protocol.reader.view.steady(now_ms) is engine.protocol.steady(now_ms)
    engine.protocol.on_report(PeerReport(B, MemberState.UP, OWN_KIND, {"version": "9"}), now_ms)
    [member] = engine.protocol.reader.view.members.listed
    assert member.extend_info == {"version": "9"}
    engine.protocol.leave(now_ms)
    assert not engine.protocol.reader.view.steady(1 << 60)


def test_the_oldest_of_many_changes_is_looked_for_now_and_then() -> None:
    trace = PeerTrace("me")
    for number in range(OLDEST_EXACT_MAX + 1):
        trace.changed(DistroKey(INSTANCE_LIST, str(number)), float(number))
    assert (found := trace.oldest_lately(5_000)) is not None
    assert found[1] == 0.0
    trace.changed(KEY, -1.0)
    assert trace.oldest_lately(5_000 + OLDEST_AGE_MS - 1) == found
    assert trace.oldest_lately(5_000 + OLDEST_AGE_MS) == (KEY, -1.0, False)
    trace.drop()
    assert trace.oldest_lately(5_000 + OLDEST_AGE_MS) is None
    trace.changed(KEY, 7.0)
    assert trace.oldest_lately(5_000 + OLDEST_AGE_MS) == (KEY, 7.0, False), "few changes are looked at each time"
