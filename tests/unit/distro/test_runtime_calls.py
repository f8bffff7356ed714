"""The calls to peers that the runtime makes for the protocol's actions, and what it tells of their ends."""

from typing import Any

import pytest

from distro.config import DistroConfig
from distro.errors import CodecError, NotInitialized, RejectedError, TransportError
from distro.mailbox import Mailbox
from distro.members import MemberList
from distro.monitor import DistroStats
from distro.ports import Component
from distro.protocol import DistroProtocol
from distro.runtime import DistroRuntime
from distro.types import (
    CAPABILITY_VERSIONS,
    Datum,
    DistroKey,
    Load,
    MemberState,
    Outcome,
    PeerReport,
    Query,
    Received,
    Report,
    SyncData,
    Verify,
    Version,
)
from tests.support.named_store import NamedStore, ValueChecksum

SELF, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ME, OTHER = f"{SELF}~1", f"{B}~1"
NOW_MS, DEADLINE_MS = 1_000, 1_700
LEFT_MS = DEADLINE_MS - NOW_MS
ANSWER = Received({"k": Version(9, 9, OTHER)})


class Network:
    """The agent of a resource type and of reports: it notes what is called, and answers as the test says."""

    def __init__(self) -> None:
        self.called: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {}

    def _call(self, *call: Any) -> Any:
        self.called.append(call)
        answer = self.answers.get(call[0])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sync_data(self, *arguments: Any) -> Any:
        return self._call("sync", *arguments)

    def verify(self, *arguments: Any) -> Any:
        return self._call("verify", *arguments)

    def query(self, *arguments: Any) -> Any:
        return self._call("query", *arguments)

    def load(self, *arguments: Any) -> Any:
        return self._call("load", *arguments)

    def report(self, *arguments: Any) -> Any:
        return self._call("report", *arguments)


class Callbacks(Network):
    """An agent whose calls end later."""

    def takes(self, peer: str) -> bool:
        return peer == B

    def start_sync(self, *arguments: Any) -> None:
        self._call("start sync", *arguments)

    def start_verify(self, *arguments: Any) -> None:
        self._call("start verify", *arguments)


class Receiver:
    """Takes datums and snapshots."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.error: Exception | None = None

    def receive(self, *arguments: Any, fetched: bool) -> None:
        if self.error:
            raise self.error
        self.taken.append((*arguments, fetched))

    def load(self, *arguments: Any) -> None:
        self.taken.append(arguments)


class Ends:
    """In place of a protocol: the ends that it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, *arguments))


class Bed:
    """A runtime whose thread does not run."""

    def __init__(self, *, callbacks: Callbacks | None = None) -> None:
        self.now_ms = NOW_MS
        self.store, self.network, self.receiver = NamedStore(), Network(), Receiver()
        self.mailbox = Mailbox(10, DistroStats())
        config, clock = DistroConfig(), self
        component = Component(self.store, ValueChecksum(), self.network, callbacks)  # type: ignore[arg-type]
        self.protocol = DistroProtocol(MemberList(SELF, config, 0), ME, config, {"t": component}, DistroStats(), 0)
        self.protocol.replace_members([SELF, B, C], 0)
        self.protocol.on_report(PeerReport(B, MemberState.UP, frozenset({CAPABILITY_VERSIONS})), 0)
        self.protocol.on_report(PeerReport(C, MemberState.UP), 0)
        self.runtime = DistroRuntime(
            self.protocol,
            self.receiver,  # type: ignore[arg-type]
            self.mailbox,
            {"t": component},
            self.network,
            clock,
            config,
        )

    def monotonic_ms(self) -> int:
        return self.now_ms

    boot_ms = wall_ms = monotonic_ms

    def ends(self) -> list[tuple[Any, ...]]:
        events, _, _ = self.mailbox.take(0)
        told = Ends()
        for event in events:
            event(told, 5)  # type: ignore[arg-type]
        return told.told

    def end_of(self, action: Any) -> tuple[Any, ...]:
        self.runtime._execute(action)
        [end] = self.ends()
        return end


@pytest.fixture
def bed() -> Bed:
    return Bed()


ACTIONS: dict[str, Any] = {
    "sync": SyncData(B, "t", ("k",), DEADLINE_MS),
    "verify": Verify(B, "t", ("k",), DEADLINE_MS),
    "query": Query(B, "t", ("k",), DEADLINE_MS),
    "load": Load(B, "t", DEADLINE_MS),
    "report": Report(B, DEADLINE_MS),
}
ERRORS = {
    Outcome.FAILED: TransportError("late"),
    Outcome.REFUSED: TransportError("nobody", refused=True),
    Outcome.REJECTED: RejectedError("wrong"),
}


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("outcome", [*ERRORS, None], ids=str)
def test_however_a_call_fails_its_end_is_told(bed: Bed, name: str, outcome: Outcome | None) -> None:
    bed.store.put("k", Version(1, 0, ME))
    bed.network.answers[name] = ERRORS[outcome] if outcome else KeyError("unforeseen")
    action, outcome = ACTIONS[name], outcome or Outcome.FAILED
    assert (
        bed.end_of(action)
        == {
            "sync": ("on_sync_done", action, outcome, Received(), 5),
            "verify": ("on_verify_done", action, outcome, Received(), 5),
            "query": ("on_query_done", action, outcome, {}, 5),
            "load": ("on_load_done", action, outcome, None, 5),
            "report": ("on_report_done", B, outcome, None, 5),
        }[name]
    )
    assert [(call[0], call[1], call[-1]) for call in bed.network.called] == [(name, B, LEFT_MS)]


def test_a_call_after_its_deadline_is_given_a_millisecond(bed: Bed) -> None:
    bed.now_ms = DEADLINE_MS + 100
    bed.end_of(ACTIONS["report"])
    assert bed.network.called == [("report", B, 1)]


def test_a_report_is_answered_by_another(bed: Bed) -> None:
    bed.network.answers["report"] = answer = PeerReport(B, MemberState.UP)
    assert bed.end_of(ACTIONS["report"]) == ("on_report_done", B, Outcome.DELIVERED, answer, 5)


def test_of_the_keys_to_send_those_go_that_this_node_speaks_for_still(bed: Bed) -> None:
    bed.store.put("k", Version(1, 0, ME))
    bed.store.put("theirs", Version(1, 0, OTHER))
    bed.network.answers["sync"] = ANSWER
    action = SyncData(B, "t", ("k", "theirs", "unknown"), DEADLINE_MS)
    assert bed.end_of(action) == ("on_sync_done", action, Outcome.DELIVERED, ANSWER, 5)
    assert bed.network.called == [("sync", B, [Datum("k", Version(1, 0, ME), None)], LEFT_MS)]


def test_a_send_of_nothing_is_delivered_without_a_call(bed: Bed) -> None:
    bed.store.put("k", Version(1, 0, OTHER))
    assert bed.end_of(ACTIONS["sync"]) == ("on_sync_done", ACTIONS["sync"], Outcome.DELIVERED, Received(), 5)
    assert bed.network.called == []


def test_a_round_names_versions_to_our_own_kind_and_checksums_to_real_nacos(bed: Bed) -> None:
    bed.store.put("k", Version(1, 0, ME), "sum")
    bed.network.answers["verify"] = ANSWER
    for peer, text in ((B, Version(1, 0, ME).to_text()), (C, "sum")):
        action = Verify(peer, "t", ("k", "unknown"), DEADLINE_MS)
        assert bed.end_of(action) == ("on_verify_done", action, Outcome.DELIVERED, ANSWER, 5)
        assert bed.network.called[-1] == ("verify", peer, {"k": text}, LEFT_MS)


@pytest.mark.parametrize(("late_ms", "is_fetched"), [(-1, True), (0, True), (1, False)])
def test_what_a_query_brings_is_received_as_fetched_while_it_is_new(bed: Bed, late_ms: int, is_fetched: bool) -> None:
    datum = Datum("k", Version(1, 3, OTHER), None)

    def answer(*_arguments: object) -> list[Datum]:
        bed.now_ms = DEADLINE_MS + late_ms
        return [datum]

    bed.network.query = answer  # type: ignore[method-assign]
    action = ACTIONS["query"]
    assert bed.end_of(action) == ("on_query_done", action, Outcome.DELIVERED, {"k": datum.version}, 5)
    assert bed.receiver.taken == [("t", B, [datum], DEADLINE_MS + late_ms, is_fetched)]


@pytest.mark.parametrize("error", [CodecError("broken"), NotInitialized("loading")], ids=repr)
def test_what_a_query_brings_may_be_refused_here(bed: Bed, error: Exception) -> None:
    bed.network.answers["query"], bed.receiver.error = [Datum("k", Version(1, 3, OTHER), None)], error
    assert bed.end_of(ACTIONS["query"])[2:4] == (Outcome.FAILED, {})


@pytest.mark.parametrize("datums", [None, [], [Datum("k", Version(1, 3, OTHER), None)]], ids=["none", "empty", "one"])
def test_a_snapshot_is_taken_and_its_keys_told(bed: Bed, datums: list[Datum] | None) -> None:
    bed.network.answers["load"] = datums
    keys = None if datums is None else [one.key for one in datums]
    assert bed.end_of(ACTIONS["load"]) == ("on_load_done", ACTIONS["load"], Outcome.DELIVERED, keys, 5)
    assert bed.receiver.taken == ([] if datums is None else [("t", datums, NOW_MS, B)])


def test_calls_that_end_later_are_told_then() -> None:
    callbacks = Callbacks()
    bed = Bed(callbacks=callbacks)
    bed.store.put("k", Version(1, 0, ME))
    for name, content in (
        ("sync", [Datum("k", Version(1, 0, ME), None)]),
        ("verify", {"k": Version(1, 0, ME).to_text()}),
    ):
        action = ACTIONS[name]
        bed.runtime._execute(action)
        assert bed.ends() == []
        *call, done = callbacks.called[-1]
        assert call == [f"start {name}", B, content, LEFT_MS]
        done(ANSWER)
        assert bed.ends() == [(f"on_{name}_done", action, Outcome.DELIVERED, ANSWER, 5)]
        done(RejectedError("wrong"))
        assert bed.ends() == [(f"on_{name}_done", action, Outcome.REJECTED, Received(), 5)]
    assert bed.network.called == []
    bed.store.put("k", Version(1, 0, ME), "sum")
    bed.end_of(Verify(C, "t", ("k",), DEADLINE_MS))
    bed.end_of(SyncData(C, "t", ("k",), DEADLINE_MS))
    assert [call[:2] for call in bed.network.called] == [("verify", C), ("sync", C)], "these are not for callbacks"


def test_reports_and_farewells_reach_the_protocol(bed: Bed) -> None:
    report = PeerReport(B, MemberState.UP)
    bed.runtime.on_report(report)
    bed.runtime.leave()
    assert bed.ends() == [("on_report", report, 5), ("leave", 5)]


def test_a_farewell_is_never_dropped(bed: Bed) -> None:
    for _ in range(20):
        bed.mailbox.claim(DistroKey("t", "k"))
    bed.runtime.leave()
    assert bed.ends()[-1] == ("leave", 5)


@pytest.mark.parametrize("name", ACTIONS)
def test_the_end_of_a_call_is_never_dropped(bed: Bed, name: str) -> None:
    for _ in range(20):
        bed.mailbox.claim(DistroKey("t", "k"))
    bed.runtime._execute(ACTIONS[name])
    assert bed.ends()[-1][0] == f"on_{name}_done"
