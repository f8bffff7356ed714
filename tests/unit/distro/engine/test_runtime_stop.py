"""How the engine's threads end: what is sent before, who is told, and that no wait outlives the time for it."""

import threading
from collections.abc import Callable, Iterator

import pytest

from distro.engine import runtime as runtime_module
from distro.engine.mailbox import PeerWorker
from distro.model.types import CAPABILITY_CLIENTS_ONLY, CAPABILITY_VERSIONS, Member, MemberState
from tests.support.planned_protocol import PlannedRuntime
from tests.support.processes import eventually

B, C, D, E = (f"10.0.0.{number}:8848" for number in (2, 3, 4, 5))
OWN = frozenset({CAPABILITY_VERSIONS})
NOW_MS = 5_000
LONG_S = 60.0
REPORT_TIMEOUT_MS = 1_234


class Steps:
    """In place of all that a stop waits for: it notes what is done, and each wait takes ``step_s``."""

    def __init__(self, bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
        self.made: list[tuple[str, float]] = []
        """Shape: ``(what, timeout_s)``; 0 for what is no wait."""
        self.run_on: set[str] = set()
        """Those that do not end."""
        self._step_s = step_s
        self._now_s = 70.0
        monkeypatch.setattr(runtime_module, "monotonic_s", lambda: self._now_s)
        runtime = bed.runtime
        bed.agent.close = lambda: self.note("close")  # type: ignore[method-assign]
        bed.mailbox.close = lambda: self.note("mailbox")  # type: ignore[method-assign]
        runtime._leave = lambda timeout_s: self.wait("leave", timeout_s)  # type: ignore[method-assign]
        runtime._idle = Step(self, "idle")  # type: ignore[assignment]
        runtime._thread = Step(self, "timer")  # type: ignore[assignment]
        runtime._workers = {B: Step(self, "data")}  # type: ignore[dict-item]
        runtime._report_workers = {B: Step(self, "report")}  # type: ignore[dict-item]
        runtime._finished = [Step(self, "left")]  # type: ignore[list-item]
        runtime._local = Step(self, "local")  # type: ignore[assignment]

    def note(self, what: str) -> None:
        self.made.append((what, 0))

    def wait(self, what: str, timeout_s: float) -> None:
        self.made.append((what, round(timeout_s, 6)))
        self._now_s += self._step_s


class Step:
    """One thing that a stop waits for: a thread, a worker, or the mark that all was sent."""

    ident = 1

    def __init__(self, steps: Steps, name: str) -> None:
        self._steps = steps
        self._name = name
        self._is_over = False

    def wait(self, timeout_s: float) -> None:
        self._steps.wait(self._name, timeout_s)

    def join(self, timeout_s: float) -> bool:
        self._steps.wait(self._name, timeout_s)
        self._is_over = self._name not in self._steps.run_on
        return self._is_over

    def finish(self) -> None:
        self._steps.note(f"finish {self._name}")

    def is_alive(self) -> bool:
        return not self._is_over


class Drain:
    """In place of the mark that all was sent: who waits for it runs a turn of the engine."""

    def __init__(self, bed: PlannedRuntime) -> None:
        self._bed = bed
        self.set_by: list[int] = []
        """The number of events of each turn that set the mark."""
        self._events = 0

    def wait(self, _timeout_s: float) -> None:
        events, keys, _ = self._bed.mailbox.take(0)
        self._events = len(events)
        self._bed.runtime._turn(events, keys)

    def set(self) -> None:
        self.set_by.append(self._events)


@pytest.fixture
def bed() -> PlannedRuntime:
    return PlannedRuntime(now_ms=NOW_MS, drain_ms_max=2_500, report_timeout_ms=REPORT_TIMEOUT_MS)


# --- the order, and the time for it -----------------------------------------------------------------


def test_changes_are_sent_then_peers_told_then_calls_cut_and_threads_joined(
    bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(bed, monkeypatch, 1.5)
    assert bed.runtime.stop(10.0)
    assert steps.made == [
        ("idle", 2.5),
        ("leave", 8.5),
        ("close", 0),
        ("mailbox", 0),
        ("timer", 7.0),
        ("finish data", 0),
        ("finish report", 0),
        ("finish left", 0),
        ("finish local", 0),
        ("data", 5.5),
        ("report", 4.0),
        ("left", 2.5),
        ("local", 1.0),
    ]


def test_when_the_time_is_over_each_thread_has_a_moment_still(
    bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(bed, monkeypatch, 3.0)
    assert bed.runtime.stop(2.0)
    waits = [(what, timeout_s) for what, timeout_s in steps.made if timeout_s]
    assert waits == [("idle", 2.0), *((what, 0.1) for what in ("leave", "timer", "data", "report", "left", "local"))]


@pytest.mark.parametrize("name", ["timer", "data", "report", "left", "local"])
def test_a_thread_that_does_not_end_is_told(bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    steps = Steps(bed, monkeypatch, 0.0)
    steps.run_on = {name}
    assert not bed.runtime.stop(10.0)
    assert [what for what, _ in steps.made][-4:] == ["data", "report", "left", "local"], "all others are joined"


def test_without_a_start_a_stop_closes_the_agents_and_waits_for_nothing(
    bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(bed.runtime._idle, "wait", waited.append)
    for count in (1, 2):
        assert bed.runtime.stop(LONG_S)
        assert bed.agent.closed == count
    assert waited == []


# --- what is sent before ------------------------------------------------------------------------------


def test_the_engine_says_when_nothing_is_left_to_send(bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    Steps(bed, monkeypatch, 0.0)
    bed.runtime._idle = drain = Drain(bed)  # type: ignore[assignment]
    bed.runtime._turn([], {})
    assert drain.set_by == [], "no stop is under way"
    bed.protocol.waiting = 1
    bed.runtime.stop(10.0)
    assert drain.set_by == [], "a send is under way"


def test_a_full_mailbox_takes_the_event_that_wakes_the_engine(
    bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    Steps(bed, monkeypatch, 0.0)
    bed.runtime._idle = drain = Drain(bed)  # type: ignore[assignment]
    for _ in range(20):
        bed.mailbox.put(lambda _protocol, _now_ms: None)
    bed.runtime.stop(10.0)
    assert drain.set_by == [11]


# --- who is told that this member goes --------------------------------------------------------------


@pytest.fixture
def told(bed: PlannedRuntime) -> Iterator[Callable[..., list[str]]]:
    """Let the runtime report its end to these members; return whom it told."""
    workers: list[PeerWorker] = []

    def leave(members: list[Member], *, without_thread: frozenset[str] = frozenset(), timeout_s: float) -> list[str]:
        bed.protocol.members.listed = members
        bed.protocol.members.reachable |= {one.address for one in members if one.state is MemberState.UP}
        addresses = [one.address for one in members if one.address not in without_thread]
        bed.runtime._report_workers = {one: PeerWorker(f"report-{one}") for one in addresses}
        workers.extend(bed.runtime._report_workers.values())
        bed.runtime._leave(timeout_s)
        assert {call[0] for call in bed.agent.called} <= {"report"}
        assert {call[2] for call in bed.agent.called} <= {REPORT_TIMEOUT_MS}
        return [call[1] for call in list(bed.agent.called)]

    yield leave
    for worker in workers:
        worker.finish()
    assert all(worker.join(LONG_S) for worker in workers)


def member(address: str, state: MemberState = MemberState.UP, capabilities: frozenset[str] = OWN) -> Member:
    return Member(address, state, capabilities)


def test_all_reachable_members_of_our_own_kind_are_told(told: Callable[..., list[str]]) -> None:
    others = [
        member("10.0.0.6:8848"),
        member("10.0.0.7:8848", MemberState.DOWN),
        member("10.0.0.8:8848", capabilities=frozenset()),
        member("10.0.0.9:8848", capabilities=frozenset({CAPABILITY_CLIENTS_ONLY})),
    ]
    members = [*others, member(B), member(C)]
    assert sorted(told(members, without_thread=frozenset({others[0].address}), timeout_s=LONG_S)) == [B, C]


def test_a_stop_waits_until_every_peer_has_answered(bed: PlannedRuntime, told: Callable[..., list[str]]) -> None:
    slowly = threading.Event()
    bed.agent.before = lambda: slowly.wait(0.1)
    bed.agent.silent = {C}
    assert sorted(told([member(B), member(C), member(D), member(E)], timeout_s=LONG_S)) == [B, C, D, E]


def test_a_peer_that_hangs_does_not_keep_a_stop(bed: PlannedRuntime, told: Callable[..., list[str]]) -> None:
    go = threading.Event()
    bed.agent.before = lambda: go.wait(LONG_S)
    assert told([member(B)], timeout_s=0.01) == []
    go.set()
    eventually(lambda: bed.agent.called)


def test_the_wait_for_reports_is_what_is_left_of_its_time(bed: PlannedRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, waits = 70.0, list[float]()

    class Ended:
        """A semaphore for which each wait takes two seconds."""

        def __init__(self, count: int) -> None:
            assert count == 0

        def acquire(self, *, timeout: float) -> None:
            nonlocal now_s
            waits.append(timeout)
            now_s += 2.0

    class Busy:
        """A thread that comes to nothing."""

        def put(self, _work: Callable[[], None], _what: str) -> None:
            """Never make the call."""

    monkeypatch.setattr(runtime_module, "monotonic_s", lambda: now_s)
    monkeypatch.setattr(threading, "Semaphore", Ended)
    bed.protocol.members.listed = [member(B), member(C), member(D)]
    bed.protocol.members.reachable = {B, C, D}
    bed.runtime._report_workers = dict.fromkeys((B, C, D), Busy())  # type: ignore[arg-type]
    bed.runtime._leave(3.0)
    assert waits == [3.0, 1.0, 0.0]


# --- what is said of it ---------------------------------------------------------------------------


def peers_of(bed: PlannedRuntime, *reachable: str) -> None:
    members = bed.protocol.members
    members.listed = [Member(B, MemberState.UP), Member(C, MemberState.UP)]
    members.is_reachable = lambda address: address in reachable  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("reachable", "unsent", "says"),
    [
        ((), {B: 3}, "no other member can be reached: the last changes of this member stay on this member"),
        ((B,), {B: 3, C: 9}, f"ends before it has handed everything over: 3 changes for {B}"),
        ((B, C), {B: 0}, f"handed over to {B}, {C}"),
    ],
)
def test_one_line_says_whether_all_was_handed_over(
    bed: PlannedRuntime,
    reachable: tuple[str, ...],
    unsent: dict[str, int],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    peers_of(bed, *reachable)
    bed.protocol.unsent = unsent
    bed.runtime._tell_hand_over(is_over=True)
    [record] = caplog.records
    assert record.getMessage().endswith(says)


def test_a_member_without_others_has_nobody_to_hand_over_to(
    bed: PlannedRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    bed.protocol.members.peers = list  # type: ignore[method-assign]
    bed.runtime._tell_hand_over(is_over=True)
    assert not caplog.records
