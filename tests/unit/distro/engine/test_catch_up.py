"""After a pause: what a node takes from a peer, and when it counts as caught up."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from distro.engine import catch_up
from distro.engine.catch_up import CatchUp
from distro.engine.mailbox import Mailbox
from distro.engine.peer_call_runner import EngineParts
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.errors import TransportError
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import CAPABILITY_VERSIONS, Datum, MemberState, Page, PeerReport, Version
from distro.protocol.protocol import DistroProtocol
from tests.support.named_store import NamedStore, ValueChecksum

SELF, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ME, OTHER = f"{SELF}~1", f"{B}~1"
TIMEOUT_S = 20.0
OLD, NEW = Version(1, 1, OTHER), Version(1, 2, OTHER)


class Peers:
    """What peers hold, in place of the agent of a resource type."""

    def __init__(self) -> None:
        self.held: dict[str, Version] = {"changed": NEW, "new": NEW, "same": OLD}
        self.answer: Callable[[str], Any] = lambda _peer: dict(self.held)
        self.loads: list[str] = []
        self.pages: list[list[str]] = []

    def load(self, peer: str, _timeout_ms: int) -> list[Datum] | Mapping[str, Version] | None:
        self.loads.append(peer)
        found = self.answer(peer)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    def page(self, _peer: str, keys: Sequence[str], _timeout_ms: int) -> Page:
        self.pages.append(sorted(keys))
        return Page([Datum(key, self.held[key], None) for key in keys], tuple(keys))


class Bed:
    """A node with peers B and C; ``caught_up`` is set when it has caught up."""

    def __init__(self, *, standalone: bool = False, state: MemberState = MemberState.UP) -> None:
        self.store, self.peers = NamedStore(), Peers()
        self.taken: list[tuple[str, Version]] = []
        self.caught_up = threading.Event()
        self.changes: list[bool] = []
        for key in ("changed", "same"):
            self.store.put(key, OLD)
        component = Component(self.store, ValueChecksum(), self.peers)  # type: ignore[arg-type]
        members = MemberList(SELF, config := DistroConfig(), 0, standalone=standalone)
        protocol = DistroProtocol(members, ME, config, {"t": component}, stats := DistroStats(), 0)
        if not standalone:
            protocol.replace_members([SELF, B, C], 0)
            for peer in (B, C):
                protocol.on_report(PeerReport(peer, state, frozenset({CAPABILITY_VERSIONS})), 0)
        nothing: Any = None
        parts = EngineParts(protocol.reader, self, Mailbox(10, stats), {"t": component}, nothing, self, config, stats)  # type: ignore[arg-type]
        self.catch_up = CatchUp(parts, self._on_behind)

    def _on_behind(self, is_behind: bool) -> None:
        self.changes.append(is_behind)
        if not is_behind:
            self.caught_up.set()

    def receive(
        self, _type: str, _peer: str, datums: list[Datum], _now_ms: int, *, fetched: bool, catching_up: bool
    ) -> None:
        assert (fetched, catching_up) == (True, True)
        self.taken += [(one.key, one.version) for one in datums]

    def monotonic_ms(self) -> int:
        return 5

    def end(self) -> bool:
        self.catch_up.stop()
        self.catch_up.stop()
        return self.catch_up.join(TIMEOUT_S)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "RETRY_S", 0.001)


@pytest.mark.parametrize("form", ["versions", "datums"])
def test_what_a_peer_has_newer_is_taken_from_it_and_nothing_else(form: str) -> None:
    bed = Bed()
    if form == "datums":
        bed.peers.answer = lambda _peer: [Datum(key, version, None) for key, version in bed.peers.held.items()]
    bed.catch_up.begin()
    assert bed.caught_up.wait(TIMEOUT_S)
    assert sorted(bed.taken) == [("changed", NEW), ("new", NEW)]
    assert bed.peers.pages == ([["changed", "new"]] if form == "versions" else [])
    assert (bed.changes, len(bed.peers.loads)) == ([True, False], 1)
    assert bed.end()


@pytest.mark.parametrize("failure", [TransportError("late"), None], ids=["fails", "loads"])
def test_a_peer_that_cannot_tell_is_passed_over_and_all_are_asked_again(failure: Exception | None) -> None:
    bed, asked = Bed(), list[str]()

    def answer(peer: str) -> Any:
        asked.append(peer)
        return failure if len(asked) < 6 else bed.peers.held

    bed.peers.answer = answer
    bed.catch_up.begin()
    assert bed.caught_up.wait(TIMEOUT_S)
    assert (set(asked), len(asked)) == ({B, C}, 6)
    assert bed.end()


def test_a_pause_during_the_comparison_begins_another_one() -> None:
    bed, asked = Bed(), list[str]()

    def answer(peer: str) -> Any:
        asked.append(peer)
        if len(asked) == 1:
            bed.catch_up.begin()
        return bed.peers.held

    bed.peers.answer = answer
    bed.catch_up.begin()
    assert bed.caught_up.wait(TIMEOUT_S)
    assert (len(asked), bed.changes) == (2, [True, True, True, False])
    assert bed.end()


def test_without_a_peer_there_is_nothing_to_compare() -> None:
    alone = Bed(standalone=True)
    alone.catch_up.begin()
    assert (alone.changes, alone.peers.loads) == ([], [])
    left = Bed(state=MemberState.DOWN)
    left.catch_up.begin()
    assert left.caught_up.wait(TIMEOUT_S)
    assert left.peers.loads == []
    assert alone.end()
    assert left.end()


def test_a_node_that_stops_ends_the_comparison() -> None:
    bed = Bed()
    bed.peers.answer = lambda _peer: TransportError("late")
    bed.catch_up.begin()
    assert bed.end()
    assert not bed.caught_up.is_set()
    bed.catch_up.begin()
    assert bed.changes == [True]
