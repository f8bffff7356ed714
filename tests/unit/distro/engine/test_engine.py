"""The parts of an engine work together: they have the same components, counts, clock and observer."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from distro.engine.engine import DistroEngine, EngineKinds
from distro.engine.runtime import DistroRuntime
from distro.model.config import DistroConfig
from distro.model.errors import TransportError
from distro.model.ports import Component, DistroObserver
from distro.model.types import Datum, DistroKey, PeerReport, Version
from distro.protocol.protocol_parts import ALL_RULES
from distro.timing.clock import SystemClock
from distro.wire.digest_wire import DigestRequest
from tests.support.named_store import NamedStore, ValueChecksum
from tests.support.processes import eventually

SELF, B = "127.0.0.1:1", "127.0.0.1:2"
ME, OTHER = f"{SELF}~1", f"{B}~1"
KEY = DistroKey("t", "k")
CONFIG = DistroConfig(report_interval_ms=10, claim_interval_ms=1)


class Silent:
    """A way to members of which none answers."""

    def report(self, peer: str, timeout_ms: int) -> PeerReport:
        raise TransportError(f"{peer} does not answer")


class Unused:
    """The agent of a type whose datums go nowhere."""

    def close(self) -> None:
        """Close nothing."""


class Hearing(DistroObserver):
    """Keeps the keys of the decisions that it hears."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def decided(self, key: DistroKey, *_rest: object) -> None:
        self.keys.append(key.key)


def engine_of(
    *, standalone: bool = False, config: DistroConfig = CONFIG, **kinds: Any
) -> tuple[DistroEngine, NamedStore]:
    """An engine of one member with the type ``t``, and the store of the type."""
    made = DistroEngine(SELF, ME, config, SystemClock(), **kinds)
    store = NamedStore()
    made.components["t"] = Component(store, ValueChecksum(), Unused())  # type: ignore[arg-type]
    return made, store


@contextmanager
def running(made: DistroEngine, *arguments: Any) -> Iterator[DistroRuntime]:
    runtime = made.runtime(Silent(), *arguments)
    runtime.start()
    try:
        yield runtime
    finally:
        assert runtime.stop(20)


def test_a_member_loads_then_takes_over_the_keys_of_a_run_that_is_gone() -> None:
    served, claimed = list[int](), list[DistroKey]()
    made, store = engine_of(before_serving=served.append, on_claimed=claimed.extend)
    store.put("k", Version(1, 1, OTHER))
    assert made.reader.view.loading
    with running(made):
        eventually(lambda: claimed)
        assert not made.reader.view.loading
    assert (claimed, made.stats.claims) == ([KEY], 1)
    assert len(served) == 1, "called once, when the load was over"


def test_a_datum_is_taken_counted_and_told() -> None:
    hearing, asked = Hearing(), list[DistroKey]()

    def is_pushed(key: DistroKey) -> bool:
        asked.append(key)
        return True

    made, store = engine_of(now_s=lambda: 77.0, is_pushed=is_pushed, kinds=EngineKinds(observer=hearing))
    with running(made):
        eventually(lambda: not made.reader.view.loading)
        made.receiver.receive("t", B, [Datum("k", Version(1, 1, OTHER), "x")], 10, fetched=True)
    assert store.version("k") == Version(1, 1, OTHER)
    assert (hearing.keys, asked, made.stats.received_keys) == (["k"], [KEY], 1)
    assert made.receiver.applied.time_s(10) == 77.0


def test_a_round_of_a_peer_is_answered_from_the_same_components() -> None:
    made, store = engine_of()
    store.put("k", Version(1, 1, OTHER))
    with running(made):
        eventually(lambda: not made.reader.view.loading)
        answer = made.digests.answer(B, DigestRequest("v", roots={"t": 0, "unknown": 0}), 10)
    assert answer.buckets.keys() == {"t"}


def test_the_mailbox_is_bounded_and_counts_with_the_others() -> None:
    made, _ = engine_of(config=DistroConfig(mailbox_events_max=1))
    made.mailbox.sync(KEY)
    made.mailbox.sync(DistroKey("t", "l"))
    assert made.stats.inbox_dropped == 1


@pytest.mark.parametrize("loads", [True, False])
def test_a_member_follows_the_rules_that_it_was_given(loads: bool) -> None:
    made, _ = engine_of(kinds=EngineKinds(rules=replace(ALL_RULES, loads=loads)))
    assert made.reader.view.loading is loads


def test_a_pause_is_told_to_the_node() -> None:
    changes: list[bool] = []
    made, _ = engine_of()
    with running(made, changes.append) as runtime:
        eventually(lambda: not made.reader.view.loading)
        runtime.after_pause.begin()
        eventually(lambda: changes == [True, False])
