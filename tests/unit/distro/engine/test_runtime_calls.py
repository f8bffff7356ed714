"""The calls to peers that the runtime makes for the protocol's actions, and what it tells of their ends."""

from typing import Any

import pytest

from distro.engine.mailbox import Mailbox
from distro.engine.peer_call_runner import EngineParts
from distro.engine.peer_sends import SMALL_CHANGES_MAX
from distro.engine.runtime import DistroRuntime
from distro.members.mapper import DistroMapper, Mappers, WriterMapper
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.digest import BUCKETS_BYTES
from distro.model.errors import CodecError, ForbiddenError, NotInitialized, RejectedError, TransportError
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import (
    CAPABILITY_DELTAS,
    CAPABILITY_VERSIONS,
    Compare,
    Datum,
    DigestFindings,
    DistroKey,
    Load,
    MemberState,
    Outcome,
    Page,
    PeerReport,
    Query,
    Received,
    Report,
    SyncData,
    Verify,
    Version,
)
from distro.protocol.protocol import DistroProtocol
from distro.timing.clock import boot_s
from distro.wire.digest_wire import DigestAnswer
from tests.support.named_store import NamedStore, ValueChecksum

SELF, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ME, OTHER = f"{SELF}~1", f"{B}~1"
NOW_MS, DEADLINE_MS = 1_000, 1_700
LEFT_MS = DEADLINE_MS - NOW_MS
DELTAS_TAKEN = frozenset({CAPABILITY_VERSIONS, CAPABILITY_DELTAS})
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

    def compare(self, *arguments: Any) -> Any:
        return self._call("compare", *arguments)

    def query(self, *arguments: Any) -> Any:
        return self._call("query", *arguments)

    def load(self, *arguments: Any) -> Any:
        return self._call("load", *arguments)

    page: Any = None

    def close(self) -> None:
        """Nothing is open."""

    def report(self, *arguments: Any) -> Any:
        return self._call("report", *arguments)


class Callbacks(Network):
    """An agent whose calls end later."""

    sends_small = True

    def takes(self, peer: str) -> bool:
        return peer == B

    def start_sync(self, *arguments: Any) -> None:
        self._call("start sync", *arguments)

    def start_small_sync(self, *arguments: Any) -> bool:
        return bool(self._call("start small sync", *arguments))

    def start_verify(self, *arguments: Any) -> None:
        self._call("start verify", *arguments)


class Receiver:
    """Takes datums and snapshots."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.known: set[str] = set()
        self.error: Exception | None = None

    def receive(self, *arguments: Any, fetched: bool) -> None:
        if self.error:
            raise self.error
        self.taken.append((*arguments, fetched))

    def load(self, *arguments: Any) -> int:
        self.taken.append(arguments)
        return len(arguments[1])

    def lacks(self, _type: str, key: str, _version: Version) -> bool:
        return key not in self.known


class Ends:
    """In place of a protocol: the ends that it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_sync_done(self, *arguments: Any, began_s: float = boot_s()) -> None:
        *known, ended_s = arguments
        assert began_s < ended_s <= boot_s(), "when the answer came, by the clock of the changes"
        self.told.append(("on_sync_done", *known))

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, *arguments))


class Bed:
    """A runtime whose thread does not run."""

    def __init__(self, *, callbacks: Callbacks | None = None, deltas: Any = None) -> None:
        self.now_ms = NOW_MS
        self.store, self.network, self.receiver = NamedStore(), Network(), Receiver()
        self.mailbox = Mailbox(10, DistroStats())
        config, clock = DistroConfig(), self
        component = Component(self.store, ValueChecksum(), self.network, callbacks, deltas=deltas)  # type: ignore[arg-type]
        self.protocol = DistroProtocol(MemberList(SELF, config, 0), ME, config, {"t": component}, DistroStats(), 0)
        self.protocol.replace_members([SELF, B, C], 0)
        self.protocol.on_report(PeerReport(B, MemberState.UP, DELTAS_TAKEN), 0)
        self.protocol.on_report(PeerReport(C, MemberState.UP), 0)
        self.runtime = DistroRuntime(
            self.protocol,
            EngineParts(
                self.protocol.reader,
                self.receiver,  # type: ignore[arg-type]
                self.mailbox,
                {"t": component},
                self.network,
                clock,
                config,
                self.protocol.stats,
            ),
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
        self.runtime._calls.execute(action)
        [end] = self.ends()
        return end


@pytest.fixture
def bed() -> Bed:
    return Bed()


ACTIONS: dict[str, Any] = {
    "sync": SyncData(B, "t", ("k",), DEADLINE_MS),
    "verify": Verify(B, "t", ("k",), DEADLINE_MS),
    "compare": Compare(B, ("t",), frozenset(), range(9), DEADLINE_MS),
    "query": Query(B, "t", ("k",), DEADLINE_MS),
    "load": Load(B, "t", DEADLINE_MS),
    "report": Report(B, DEADLINE_MS),
}
ERRORS = {
    Outcome.FAILED: TransportError("late"),
    Outcome.REFUSED: TransportError("nobody", refused=True),
    Outcome.REJECTED: RejectedError("wrong"),
    Outcome.FORBIDDEN: ForbiddenError("not listed"),
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
            "compare": ("on_compare_done", action, outcome, {}, 5),
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
    bed.protocol.reader.view = bed.protocol.reader.view._replace(
        mappers=Mappers(alone := DistroMapper.over(SELF, (SELF,)), alone, WriterMapper(SELF, ()))
    )
    bed.store.put("k", Version(1, 0, ME), "sum")
    bed.store.put("theirs", Version(1, 0, OTHER), "sum")
    bed.network.answers["verify"] = ANSWER
    for peer, keys, text in ((B, ("k", "unknown"), Version(1, 0, ME).to_text()), (C, (), "sum")):
        action = Verify(peer, "t", keys, DEADLINE_MS)
        assert bed.end_of(action) == ("on_verify_done", action, Outcome.DELIVERED, ANSWER, 5)
        assert bed.network.called[-1] == ("verify", peer, {"k": text}, LEFT_MS)


def test_digests_are_compared_message_by_message(bed: Bed) -> None:
    bed.store.put("k", Version(1, 0, ME))
    answers = [
        DigestAnswer(buckets={"t": bytes(BUCKETS_BYTES)}),
        DigestAnswer(received={"t": Received({"k": Version(9, 9, OTHER)})}),
    ]

    def answer(*_call: Any) -> bytes:
        return answers.pop(0).to_bytes()

    bed.network.compare = answer  # type: ignore[method-assign]
    assert bed.end_of(ACTIONS["compare"]) == (
        *("on_compare_done", ACTIONS["compare"], Outcome.DELIVERED, {"t": DigestFindings(ANSWER)}, 5),
    )
    assert not answers


def test_digests_that_cannot_be_read_fail_the_round(bed: Bed) -> None:
    bed.network.answers["compare"] = b"ok"
    assert bed.end_of(ACTIONS["compare"])[2:4] == (Outcome.FAILED, {})


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
    keys = None if datums is None else frozenset(one.key for one in datums)
    assert bed.end_of(ACTIONS["load"]) == ("on_load_done", ACTIONS["load"], Outcome.DELIVERED, keys, 5)
    assert bed.receiver.taken == ([] if datums is None else [("t", datums, NOW_MS, B)])


VERSIONS = {f"k{number}": Version(1, number, OTHER) for number in range(40)}


def paged(bed: Bed, *, page_keys: int, fail_after: int | None = None, ms_each: int = 0) -> list[list[str]]:
    """Have the peer give ``VERSIONS`` in pages of so many keys; return the keys of each page that was asked for."""
    bed.network.answers["load"] = VERSIONS
    pages: list[list[str]] = []

    def page(_peer: str, keys: list[str], _timeout_ms: int) -> Page:
        pages.append(keys)
        bed.now_ms += ms_each
        if fail_after is not None and len(pages) > fail_after:
            raise TransportError("cut")
        datums = [Datum(key, VERSIONS[key], None) for key in keys[:page_keys]]
        return Page(datums, tuple(one.key for one in datums))

    bed.network.page = page
    return pages


def taken_keys(bed: Bed) -> list[str]:
    return sorted(datum.key for _, datums, _, _ in bed.receiver.taken for datum in datums)


def test_a_snapshot_in_pages_is_fetched_to_its_end(bed: Bed) -> None:
    pages = paged(bed, page_keys=6)
    assert bed.end_of(ACTIONS["load"]) == ("on_load_done", ACTIONS["load"], Outcome.DELIVERED, frozenset(VERSIONS), 5)
    assert taken_keys(bed) == sorted(VERSIONS)
    assert len(pages) == 7


def test_what_another_peer_gave_meanwhile_is_not_fetched_again(bed: Bed) -> None:
    pages = paged(bed, page_keys=100)
    bed.receiver.known = set(list(VERSIONS)[:30])
    assert bed.end_of(ACTIONS["load"])[2:4] == (Outcome.DELIVERED, frozenset(VERSIONS))
    assert sorted(pages[0]) == taken_keys(bed) == sorted(list(VERSIONS)[30:])


def test_a_snapshot_of_which_all_is_known_needs_no_page(bed: Bed) -> None:
    pages = paged(bed, page_keys=100)
    bed.receiver.known = set(VERSIONS)
    assert bed.end_of(ACTIONS["load"])[2:4] == (Outcome.DELIVERED, frozenset(VERSIONS))
    assert pages == []


def test_a_snapshot_that_takes_longer_than_the_call_comes_in_parts(bed: Bed) -> None:
    paged(bed, page_keys=4, ms_each=(DEADLINE_MS - NOW_MS) // 2)
    assert bed.end_of(ACTIONS["load"]) == ("on_load_part", ACTIONS["load"], 5)
    assert len(taken_keys(bed)) == 8


@pytest.mark.parametrize(("fail_after", "end"), [(1, "on_load_part"), (0, "on_load_done")])
def test_a_snapshot_that_breaks_off_is_a_part_if_anything_came(bed: Bed, fail_after: int, end: str) -> None:
    paged(bed, page_keys=4, fail_after=fail_after)
    told = bed.end_of(ACTIONS["load"])
    assert told[0] == end
    assert end == "on_load_part" or told[2] is Outcome.FAILED


def test_a_call_whose_time_went_by_with_the_versions_failed(bed: Bed) -> None:
    pages = paged(bed, page_keys=4)
    bed.now_ms = DEADLINE_MS
    assert bed.end_of(ACTIONS["load"])[2] is Outcome.FAILED
    assert pages == []


def test_calls_that_end_later_are_told_then() -> None:
    callbacks = Callbacks()
    bed = Bed(callbacks=callbacks)
    bed.store.put("k", Version(1, 0, ME))
    for name, content in (
        ("sync", [Datum("k", Version(1, 0, ME), None)]),
        ("verify", {"k": Version(1, 0, ME).to_text()}),
    ):
        action = ACTIONS[name]
        bed.runtime._calls.execute(action)
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


class Deltas:
    """Of each key all changes since any version are known, in a word."""

    def delta(self, key: str, base: Version) -> Datum | None:
        return Datum(key, base.next(ME), "changed", base)

    def claim_delta(self, key: str) -> Datum | None:
        return None


def acknowledged(callbacks: Callbacks, *keys: str) -> Bed:
    """A member whose peer B has acknowledged these keys."""
    bed = Bed(callbacks=callbacks, deltas=Deltas())
    for key in keys:
        bed.store.put(key, Version(1, 0, ME))
    bed.runtime._calls.execute(SyncData(B, "t", keys, DEADLINE_MS))
    callbacks.called.pop()[-1](Received())
    bed.ends()
    return bed


def test_a_change_is_sent_by_the_engines_thread_itself() -> None:
    callbacks = Callbacks()
    bed = acknowledged(callbacks, "k")
    callbacks.answers["start small sync"] = True
    assert bed.runtime._calls.sync_at_once(ACTIONS["sync"])
    [(*call, done)] = callbacks.called
    assert call == ["start small sync", B, [Datum("k", Version(1, 1, ME), "changed", Version(1, 0, ME))], LEFT_MS]
    assert bed.ends() == []
    assert bed.protocol.stats.sync_deltas == 1
    done(ANSWER)
    assert bed.ends() == [("on_sync_done", ACTIONS["sync"], Outcome.DELIVERED, ANSWER, 5)]


def test_what_is_large_or_whole_or_goes_elsewhere_is_left_to_the_peers_thread() -> None:
    callbacks = Callbacks()
    many = tuple(f"k{number}" for number in range(20))
    bed = acknowledged(callbacks, *many)
    at_once = bed.runtime._calls.sync_at_once
    bed.store.put("k7", Version(1, SMALL_CHANGES_MAX - 20 + 2, ME))
    assert not at_once(SyncData(B, "t", many, DEADLINE_MS)), "together they have one change too many"
    assert not at_once(SyncData(B, "t", (*many[:2], "unknown"), DEADLINE_MS)), "one of them goes whole"
    assert not at_once(SyncData(C, "t", many[:2], DEADLINE_MS)), "it is called in another way"
    assert callbacks.called == []
    bed.store.put("k7", Version(1, SMALL_CHANGES_MAX - 20 + 1, ME))
    assert not at_once(SyncData(B, "t", many, DEADLINE_MS)), "its frame is too large"
    assert [call[0] for call in callbacks.called] == ["start small sync"]
    bed.store.put("k7", Version(1, 0, ME))
    callbacks.sends_small = False
    assert not at_once(SyncData(B, "t", many, DEADLINE_MS)), "it sends nothing at once, and is not asked"
    assert len(callbacks.called) == 1
    assert not Bed().runtime._calls.sync_at_once(ACTIONS["sync"]), "no loop is there"
    assert (bed.ends(), bed.protocol.stats.sync_deltas) == ([], 0), "nothing was done"


def test_however_a_send_at_once_fails_its_end_is_told() -> None:
    callbacks = Callbacks()
    bed = acknowledged(callbacks, "k")
    callbacks.answers["start small sync"] = KeyError("unforeseen")
    assert bed.runtime._calls.sync_at_once(ACTIONS["sync"])
    assert bed.ends() == [("on_sync_done", ACTIONS["sync"], Outcome.FAILED, Received(), 5)]


def test_a_turn_sends_small_changes_itself_and_wakes_no_thread_for_them() -> None:
    callbacks = Callbacks()
    bed = acknowledged(callbacks, "k", "large")
    bed.protocol.loads.load = None
    callbacks.answers["start small sync"] = True
    bed.protocol.on_report(PeerReport(B, MemberState.UP, DELTAS_TAKEN), bed.now_ms)
    for rounds in bed.protocol.rounds.of.values():
        rounds.due_ms = 1 << 40
    bed.runtime._turn([], {DistroKey("t", "k"): 0.0})
    try:
        assert [call[0] for call in callbacks.called] == ["start small sync"]
        assert B not in bed.runtime._workers
        callbacks.called.pop()[-1](Received())
        bed.now_ms += DistroConfig().sync_spacing_ms
        callbacks.answers["start small sync"] = False
        events, _, _ = bed.mailbox.take(0)
        bed.runtime._turn(list(events), {DistroKey("t", "large"): 0.0})
        assert B in bed.runtime._workers, "one that is too large has its peer's thread"
    finally:
        assert bed.runtime.stop(5.0)
    assert [call[0] for call in callbacks.called] == ["start small sync", "start sync"]


def test_reports_and_farewells_reach_the_protocol(bed: Bed) -> None:
    report = PeerReport(B, MemberState.UP)
    bed.mailbox.on_report(report)
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
    bed.runtime._calls.execute(ACTIONS[name])
    assert bed.ends()[-1][0] == f"on_{name}_done"
