"""The turns of the engine's thread: what it tells the protocol, whom it lets act, and how long it then waits."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from distro.engine.runtime import BUSY_S, EVENTS_S_MAX
from distro.engine.turns import TurnWatch
from distro.model.types import NO_VERSION, Claim, DistroKey, FinishLoad, Forget, Load, LocalAction, Report
from distro.protocol.claims import Claimer
from distro.protocol.protocol import Event
from tests.support.planned_protocol import PlannedRuntime
from tests.support.processes import eventually

B, C = "10.0.0.2:8848", "10.0.0.3:8848"
NOW_MS = 5_000
KEYS = [DistroKey("t", "k"), DistroKey("t", "l")]


class PlannedMailbox:
    """Hands out what a test plans, and then says that it is closed."""

    def __init__(self) -> None:
        self.plans: list[tuple[list[Event], list[DistroKey]]] = []
        self.waits: list[tuple[float, float, float]] = []
        """Of each ``take``: the longest wait in s, and for how long keys and ends were left."""

    def take(
        self, timeout_s: float, *, leave_keys_s: float, leave_ends_s: float
    ) -> tuple[list[Event], dict[DistroKey, float], bool]:
        self.waits.append((timeout_s, leave_keys_s, leave_ends_s))
        if self.plans:
            events, keys = self.plans.pop(0)
            return events, dict.fromkeys(keys, 4.9), False
        return [lambda protocol, now_ms: protocol.leave(now_ms)], dict.fromkeys(KEYS, 4.9), True

    def put(self, event: Event, *, urgent: bool = False) -> None:
        """Nobody asks for it."""

    def close(self) -> None:
        """It closes by itself."""


@pytest.fixture
def bed() -> Iterator[PlannedRuntime]:
    made = PlannedRuntime(now_ms=NOW_MS)
    yield made
    assert made.runtime.stop(60)


def threads(start: str) -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith(start)}


def looped(
    *plans: tuple[list[Event], list[DistroKey]],
    ticks: list[Any],
    spacing_ms: int,
    gathering_ms: int = 0,
    busy: bool = False,
) -> PlannedMailbox:
    """Run the loop until the mailbox closes; return the mailbox."""
    mailbox = PlannedMailbox()
    mailbox.plans += plans
    bed = PlannedRuntime(now_ms=NOW_MS, mailbox=mailbox, sync_spacing_ms=spacing_ms)  # type: ignore[arg-type]
    bed.protocol.plans += ticks
    bed.protocol.gathering_ms, bed.protocol.busy = gathering_ms, busy
    bed.runtime._run()
    assert [told[0] for told in bed.protocol.told].count("tick") == len(plans), "none when it is closed"
    return mailbox


# --- one turn ---------------------------------------------------------------------------------------


def test_a_turn_tells_events_then_keys_then_the_time(bed: PlannedRuntime) -> None:
    events: list[Event] = [
        lambda protocol, now_ms: protocol.leave(now_ms),
        lambda protocol, _now_ms: protocol.claim_later(KEYS[0]),
    ]
    bed.runtime._turn(events, {KEYS[0]: 4.9, KEYS[1]: 4.95})
    assert bed.protocol.told == [
        ("leave", NOW_MS),
        ("claim_later", KEYS[0]),
        ("sync", {KEYS[0]: 4.9, KEYS[1]: 4.95}, NOW_MS),
        ("tick", NOW_MS),
    ]


@pytest.mark.parametrize(("next_ms", "wait_s"), [(5_250, 0.22), (5_030, 0.0), (5_029, 0.0), (4_000, 0.0)])
def test_the_wait_begins_when_the_turn_ends(bed: PlannedRuntime, next_ms: int, wait_s: float) -> None:
    def tick() -> tuple[list[Any], int]:
        bed.now_ms += 30  # it took so long
        return [], next_ms

    bed.protocol.plans.append(tick)
    assert bed.runtime._turn([], {}) == pytest.approx(wait_s)


def test_events_beyond_the_time_of_a_turn_wait_for_the_next_one_in_their_order(bed: PlannedRuntime) -> None:
    """Else reports, which are due meanwhile, would wait for all of them."""
    clock, done = [0.0], list[int]()
    bed.runtime._watch = TurnWatch(bed.protocol.times, lambda: clock[0], lambda: clock[0])

    def event(number: int, taken_s: float) -> Event:
        def run(_protocol: object, _now_ms: int) -> None:
            done.append(number)
            clock[0] += taken_s

        return run

    for number, taken_s in enumerate((0.004, 0.004, EVENTS_S_MAX, 0.001, 0.001)):
        bed.mailbox.put(event(number, taken_s))
    bed.runtime._turn(bed.mailbox.take(0)[0], {})
    assert done == [0, 1, 2]
    assert [told[0] for told in bed.protocol.told] == ["tick"], "the turn goes on"
    bed.runtime._turn(bed.mailbox.take(0)[0], {})
    assert done == [0, 1, 2, 3, 4]


def test_a_stopping_node_is_idle_only_once_its_mailbox_is_empty(bed: PlannedRuntime) -> None:
    bed.runtime._draining = True
    bed.mailbox.sync(DistroKey("t", "k"))
    bed.runtime._turn([], {})
    assert not bed.runtime._idle.is_set()
    bed.runtime._turn([], bed.mailbox.take(0)[1])
    assert bed.runtime._idle.is_set()


def test_reports_and_data_of_each_peer_have_a_thread_each(bed: PlannedRuntime) -> None:
    seen: dict[tuple[str, int], str] = {}

    def note() -> None:
        seen[threading.current_thread().name, threading.get_ident()] = ""

    bed.agent.before = note
    actions = [Report(B, 6_000), Load(B, "t", 7_000), Report(C, 8_000), Report(B, 9_000), Load(B, "t", 9_500)]
    bed.protocol.plans.append((actions, NOW_MS))  # type: ignore[arg-type]
    bed.runtime._turn([], {})
    eventually(lambda: len(bed.agent.called) == len(actions))
    assert sorted(name for name, _ in seen) == [f"distro-peer-{B}", f"distro-report-{B}", f"distro-report-{C}"]
    assert [call for call in bed.agent.called if call[:2] == ("report", B)] == [
        ("report", B, 1_000),
        ("report", B, 4_000),
    ]
    assert [call for call in bed.agent.called if call[0] == "load"] == [("load", B, 2_000), ("load", B, 4_500)]


def test_a_long_send_delays_no_report(bed: PlannedRuntime) -> None:
    go, begun = threading.Event(), threading.Event()

    def hold() -> None:
        if threading.current_thread().name.startswith("distro-peer"):
            begun.set()
            assert go.wait(60)

    bed.agent.before = hold
    bed.protocol.plans.append(([Load(B, "t", 9_000), Report(B, 9_000)], NOW_MS))
    bed.runtime._turn([], {})
    assert begun.wait(60)
    eventually(lambda: [call[0] for call in bed.agent.called] == ["report"])
    go.set()


# --- what calls no peer -----------------------------------------------------------------------------


def test_local_actions_have_one_thread_of_their_own(bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[tuple[str, int]] = []

    def forget_all(keys: list[str], now_ms: int) -> int:
        names.append((threading.current_thread().name, threading.get_ident()))
        return int((keys, now_ms) == (["k"], NOW_MS))

    monkeypatch.setattr(bed.store, "forget_all", forget_all)
    bed.store.put("k", NO_VERSION)
    for _ in range(2):
        bed.protocol.plans.append(([Forget((DistroKey("t", "k"),))], NOW_MS))
        bed.runtime._turn([], {})
        taken = eventually(lambda: bed.mailbox.take(0)[0])
        bed.store.put("k", NO_VERSION)
        bed.run_events(taken, NOW_MS)
    assert {name for name, _ in names} == {"distro-local"}
    assert len({ident for _, ident in names}) == 1
    assert [told for told in bed.protocol.told if told[0] != "tick"] == [("on_forget_done", 1)] * 2


@pytest.mark.parametrize(
    ("action", "end"),
    [
        (Claim(0, (), all_keys=True), ("on_claim_failed", 7)),
        (Forget((DistroKey("unknown", "k"),)), ("on_forget_done", 0)),
        (FinishLoad({"unknown": [frozenset()]}), None),
    ],
    ids=["claim", "forget", "load"],
)
def test_a_local_action_that_fails_has_an_end_too(
    bed: PlannedRuntime,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    action: LocalAction,
    end: tuple[Any, ...] | None,
) -> None:
    monkeypatch.setattr(Claimer, "run", None)
    for _ in range(10):
        bed.mailbox.put(lambda _protocol, _now_ms: None)
    bed.runtime._execute_here(action)
    bed.run_events(bed.mailbox.take(0)[0], 7)
    assert bed.protocol.told == [end or ("on_finish_failed", action, 7)], "though the mailbox was full"
    assert type(action).__name__ in caplog.text


# --- the loop -----------------------------------------------------------------------------------------


def test_the_loop_begins_at_once_and_waits_as_each_turn_says() -> None:
    mailbox = looped(([], []), ([], []), ticks=[([], NOW_MS + 4_000), ([], NOW_MS + 500)], spacing_ms=100)
    assert mailbox.waits == [(0.0, 0.0, 0.0), (4.0, 0.0, 0.0), (0.5, 0.0, 0.0)]


def test_keys_that_come_within_the_spacing_wake_nobody() -> None:
    mailbox = looped(([], KEYS), ([], []), ([], []), ticks=[([], NOW_MS + 4_000)] * 3, spacing_ms=100)
    assert mailbox.waits == [(0.0, 0.0, 0.0), (4.0, 0.0, 0.1), (4.0, 0.0, 0.0), (4.0, 0.0, 0.0)]


def test_keys_wake_nobody_until_a_peer_may_be_sent_something_again() -> None:
    ticks = [([], NOW_MS + 4_000), ([], NOW_MS + 150)]
    mailbox = looped(([], KEYS), ([], []), ticks=ticks, spacing_ms=100, gathering_ms=300)
    assert mailbox.waits == [(0.0, 0.0, 0.0), (4.0, 0.0, 0.3), (0.15, 0.0, 0.3)]


def test_keys_wake_nobody_while_each_peer_has_a_call_under_way() -> None:
    mailbox = looped(([], KEYS), ([], []), ticks=[([], NOW_MS + 4_000)] * 2, spacing_ms=10, busy=True)
    assert mailbox.waits == [(0.0, 0.0, 0.0), (4.0, BUSY_S, 0.01), (4.0, BUSY_S, 0.0)]


def test_a_turn_that_fails_is_followed_by_another_after_a_second(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> tuple[list[Any], int]:
        raise KeyError("nobody foresaw this")

    mailbox = looped(([], []), ([], []), ticks=[fail, ([], NOW_MS + 50)], spacing_ms=100)
    assert mailbox.waits == [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.05, 0.0, 0.0)]
    assert "nobody foresaw this" in caplog.text


# --- members that leave -------------------------------------------------------------------------------


def test_a_new_list_is_never_dropped_and_ends_the_threads_of_those_who_left(bed: PlannedRuntime) -> None:
    bed.protocol.plans.append(([Report(B, 9_000), Load(B, "t", 9_000), Report(C, 9_000)], NOW_MS))
    bed.runtime._turn([], {})
    for _ in range(20):
        bed.mailbox.put(lambda _protocol, _now_ms: None)
    bed.runtime.replace_members((C, "10.0.0.1:8848"))
    bed.protocol.told.clear()
    eventually(lambda: len(bed.agent.called) == 3)
    bed.run_events(bed.mailbox.take(0)[0], 7)
    told = [one for one in bed.protocol.told if one[0] == "replace_members"]
    assert told == [("replace_members", (C, "10.0.0.1:8848"), 7)]
    eventually(lambda: not threads(f"distro-peer-{B}") and not threads(f"distro-report-{B}"))
    assert threads(f"distro-report-{C}")


def test_a_thread_that_ended_is_kept_no_longer_than_to_the_next_list(bed: PlannedRuntime) -> None:
    go, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go.wait(60)

    bed.agent.before = hold
    bed.protocol.plans.append(([Load(B, "t", 9_000)], NOW_MS))
    bed.runtime._turn([], {})
    assert begun.wait(60)
    bed.runtime._finish_workers(frozenset())
    bed.runtime._finish_workers(frozenset())
    assert len(bed.runtime._finished) == 1, "it makes its call"
    go.set()
    eventually(lambda: not threads(f"distro-peer-{B}"))
    bed.runtime._finish_workers(frozenset())
    assert bed.runtime._finished == []


def test_a_new_list_waits_for_no_thread(bed: PlannedRuntime) -> None:
    waits: list[float] = []

    class Busy:
        """A thread that makes a call still."""

        def join(self, timeout_s: float) -> bool:
            waits.append(timeout_s)
            return False

        def finish(self) -> None:
            """It was told already."""

    bed.runtime._finished = [Busy(), Busy()]  # type: ignore[list-item]
    bed.runtime._finish_workers(frozenset())
    assert waits == [0, 0]
    bed.runtime._finished = []
