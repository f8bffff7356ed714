"""The engine's view: frozen values that other threads read while the engine goes on."""

import enum
import sys
import threading
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import MappingProxyType

import pytest

from distro.model.types import DistroKey, MemberState, Outcome, PeerReport, Received, SyncData, Version
from distro.protocol.convergence import OLDEST_AGE_MS, OLDEST_EXACT_MAX, PeerTrace
from distro.protocol.engine_reader import EngineReader
from distro.protocol.engine_view import KEYS_SHOWN
from tests.support.engine import INSTANCE_LIST, OTHER, OWN_KIND, SELF, B, C, Engine

CHANGES = 300
KEY = DistroKey(INSTANCE_LIST, "a")


def read_members(reader: EngineReader) -> None:
    members = reader.view.members
    assert members.calls(0).keys() == {one.address for one in members.listed}
    members.heard(0)
    members.next_hop(B, 0)
    members.cut_off_since_ms(0)
    reader.waiting_for(B)
    assert reader.view.members.is_known_writer(f"{B}~1")
    assert not reader.has_left(f"{B}~1")


@pytest.mark.parametrize(
    "read",
    [
        lambda protocol: protocol.reader.view.pending(),
        lambda protocol: protocol.reader.view.pending_keys(),
        lambda protocol: protocol.reader.pending_of(KEY),
        lambda protocol: protocol.reader.view.steady(0),
        lambda protocol: read_members(protocol.reader),
        lambda protocol: [(one.oldest, dict(one.rounds), one.keys) for one in protocol.reader.view.peers.values()],
    ],
    ids=["pending", "pending_keys", "pending_of", "steady", "members", "peers"],
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


def mutable_in(value: object) -> list[str]:
    """Return the types of all values within that anybody could change; counts of members' own fields included."""
    match value:
        case str() | bytes() | int() | float() | None | enum.Enum() | type():
            return []
        case tuple() | frozenset():
            return [name for one in value for name in mutable_in(one)]
        case MappingProxyType():
            return [name for pair in value.items() for name in mutable_in(pair)]
        case _ if is_dataclass(value) and value.__dataclass_params__.frozen:
            return [name for field in fields(value) for name in mutable_in(getattr(value, field.name))]
    return [type(value).__name__]


def test_a_view_has_no_value_that_can_change() -> None:
    engine = Engine(B, C)
    engine.load()
    told = PeerReport(B, MemberState.UP, OWN_KIND, {"version": "9"}, (SELF, B), writer=f"{B}~1", calls={C: 3})
    engine.protocol.on_report(told, engine.now_ms)
    engine.protocol.on_report_done(B, Outcome.DELIVERED, told, engine.now_ms)
    engine.protocol.sync({DistroKey(INSTANCE_LIST, engine.write(engine.service_of(SELF))): 1.0}, engine.now_ms)
    engine.tick()
    view = engine.protocol.reader.view
    assert view.peers[B].oldest is not None
    assert view.peers[B].rounds
    assert view.members.runs.writers == {B: f"{B}~1"}
    assert mutable_in(view) == []
    with pytest.raises(TypeError):
        view.peers[B] = view.peers[C]  # type: ignore[index]


def test_a_member_list_of_a_view_stays_while_its_members_move() -> None:
    engine = Engine(B, C)
    engine.load()
    before = engine.protocol.reader.view
    states = [(one.address, one.state) for one in before.members.listed]
    calls = before.members.calls(engine.now_ms)
    engine.protocol.on_report_done(B, Outcome.REFUSED, None, engine.now_ms)
    engine.leave(C)
    engine.protocol.remember(["10.0.0.9:8848~1"], engine.now_ms)
    after = engine.protocol.reader.view
    assert [(one.address, one.state) for one in before.members.listed] == states
    assert before.members.calls(engine.now_ms) == calls
    assert not before.members.is_known_writer("10.0.0.9:8848~2")
    assert after.members.calls(engine.now_ms)[B] > 0
    assert not after.members.is_reachable(C)
    assert after.members.is_known_writer("10.0.0.9:8848~2")
    assert engine.protocol.reader.view.members.is_known_writer("10.0.0.9:8848~2")


def test_entries_of_the_member_list_are_copied_when_one_changed() -> None:
    """A tick is many times as frequent as a report, and its view costs what changed."""
    engine = Engine(B)
    engine.load()
    before = engine.protocol.reader.view
    engine.protocol.tick(engine.now_ms)
    assert engine.protocol.reader.view is not before
    assert engine.protocol.reader.view.members.contacts is before.members.contacts
    engine.hear()
    assert engine.protocol.reader.view.members.contacts is not before.members.contacts


def test_the_protocol_has_no_more_attributes_than_python_makes_fast_calls_for() -> None:
    assert len(vars(Engine(B).protocol)) < 30


def test_a_send_names_the_states_of_others_that_go_with_it() -> None:
    """R16: another thread reads the send when the engine may have claimed the key."""
    engine = Engine(B, C)
    engine.load()
    engine.protocol.leave(engine.now_ms)  # so that nothing is claimed
    version = Version(4, 2, OTHER)
    key = engine.copy(engine.service_of(SELF), version)
    engine.protocol.claim_later(DistroKey(INSTANCE_LIST, key), engine.now_ms, B)
    [send] = [one for one in engine.tick() if isinstance(one, SyncData)]
    assert (send.peer, send.relayed, dict(send.passed_on)) == (C, frozenset(), {key: version})


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
    assert engine.protocol.reader.pending_of(key)[B].startswith("nothing is sent while the peer is not UP")


def test_a_view_names_the_first_keys_to_send_and_the_call_under_way() -> None:
    engine = Engine(B)
    engine.load()
    engine.tick()
    idle = engine.protocol.reader.view.peers[B]
    assert (idle.keys, idle.to_send, idle.in_flight, idle.next_send_ms) == ((), 0, 0, None)
    first = engine.write(engine.service_of(SELF))
    engine.protocol.sync({DistroKey(INSTANCE_LIST, first): 1.0}, engine.now_ms)
    [send] = [one for one in engine.tick() if isinstance(one, SyncData)]
    later = [str(number) for number in range(KEYS_SHOWN + 5)]
    engine.protocol.sync({DistroKey(INSTANCE_LIST, key): 1.0 for key in later}, engine.now_ms)
    engine.tick(0)
    view = engine.protocol.reader.view.peers[B]
    assert view.keys == (first, *later)[:KEYS_SHOWN]
    assert (view.to_send, view.in_flight) == (len(later), 1)
    assert view.next_send_ms is not None
    assert view.call is not None
    assert (view.call.what, view.call.resource_type) == ("SyncData", INSTANCE_LIST)
    engine.protocol.on_sync_done(send, Outcome.FAILED, Received(), engine.now_ms)
    engine.protocol.tick(engine.now_ms)
    assert engine.protocol.reader.view.peers[B].failing


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
