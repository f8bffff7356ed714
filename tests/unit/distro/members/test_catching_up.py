"""Catching up with a clock that was put forward: when the engine says that nothing is due or under way any more."""

import threading
from typing import Any

import pytest

from distro.model.types import FinishLoad, Load, Outcome, RefreshDigests, Report
from tests.support.engine import SELF, B, C, Engine
from tests.support.planned_protocol import PlannedRuntime
from tests.support.processes import HANG_S

NOW_MS = 5_000


@pytest.fixture
def bed() -> PlannedRuntime:
    return PlannedRuntime(now_ms=NOW_MS)


class Asked:
    """A thread that has a runtime catch up; the test makes the turns of the engine."""

    def __init__(self, bed: PlannedRuntime) -> None:
        self._bed = bed
        self.answers: list[bool] = []
        self._thread = threading.Thread(target=lambda: self.answers.append(bed.runtime.catch_up(HANG_S)))
        self._thread.start()

    def turn(self) -> None:
        events, keys, _ = self._bed.mailbox.take(HANG_S)
        self._bed.runtime._turn(events, keys)

    def is_answered(self) -> bool:
        self._thread.join(HANG_S)
        return self.answers == [True]


def test_one_turn_without_anything_due_is_enough(bed: PlannedRuntime) -> None:
    asked = Asked(bed)
    asked.turn()
    assert asked.is_answered()
    assert [one for one in bed.protocol.told if one[0] == "tick"] == [("tick", NOW_MS)]


def test_what_is_due_at_once_is_done_before(bed: PlannedRuntime) -> None:
    bed.protocol.plans = [([], NOW_MS), ([], NOW_MS + 1)]
    asked = Asked(bed)
    asked.turn()
    assert not asked.answers
    bed.runtime._turn([], {})
    assert asked.is_answered()


def test_calls_and_events_that_wait_are_ended_before(bed: PlannedRuntime) -> None:
    calling = [True, False]
    bed.protocol.is_calling = lambda: calling.pop(0)  # type: ignore[method-assign]
    asked = Asked(bed)
    asked.turn()
    assert not asked.answers, "a call is under way"
    bed.mailbox.put(lambda _protocol, _now_ms: None)
    calling.insert(0, False)
    bed.runtime._turn([], {})
    assert not asked.answers, "an event waits"
    asked.turn()
    assert asked.is_answered()


def test_an_engine_that_does_not_come_to_it_is_not_waited_for(bed: PlannedRuntime) -> None:
    assert bed.runtime.catch_up(0.0) is False


def test_a_halted_engine_tells_nobody_and_ends(bed: PlannedRuntime) -> None:
    bed.runtime.start()
    bed.runtime.halt()
    assert bed.runtime.stop(HANG_S)
    assert bed.agent.called == []
    assert not [one for one in bed.protocol.told if one[0] == "leave"]


def test_one_that_never_began_can_be_halted(bed: PlannedRuntime) -> None:
    bed.runtime.halt()
    assert bed.runtime.stop(HANG_S)


def begun(engine: Engine) -> dict[type, Any]:
    """What a tick begins, by its kind; each kind once."""
    return {type(one): one for one in engine.protocol.tick(engine.now_ms)[0]}


def test_a_report_is_under_way_until_its_end_is_told_or_its_peer_leaves() -> None:
    engine = Engine(B, C)
    engine.load()
    engine.tick(engine.config.report_interval_ms)
    protocol = engine.protocol
    assert not protocol.is_calling()
    engine.now_ms += engine.config.report_interval_ms
    assert begun(engine).keys() == {Report}
    protocol.on_report_done(B, Outcome.REFUSED, None, engine.now_ms)
    assert protocol.is_calling(), "that to the other one"
    protocol.replace_members([SELF, B], engine.now_ms)
    assert not protocol.is_calling()


def test_a_load_is_under_way_and_then_what_ends_it() -> None:
    engine = Engine(B)
    protocol = engine.protocol
    load = begun(engine)[Load]
    engine.hear()
    assert protocol.is_calling()
    protocol.on_load_done(load, Outcome.DELIVERED, frozenset(), engine.now_ms)
    assert not protocol.is_calling()
    finish = begun(engine)[FinishLoad]
    assert protocol.is_calling()
    protocol.on_load_finished(finish, engine.now_ms)
    assert not protocol.is_calling()


def test_the_digests_are_under_way_while_they_are_brought_up_to_date() -> None:
    engine = Engine(B)
    engine.load()
    engine.now_ms += engine.config.verify_interval_ms
    engine.protocol.rounds.refresh_due_ms = engine.now_ms
    actions = engine.protocol.tick(engine.now_ms)[0]
    assert [one for one in actions if isinstance(one, RefreshDigests)]
    assert engine.protocol.is_calling()
