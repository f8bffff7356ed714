"""What the turns of the engine's thread take, and when one that was late counts as a pause (R9)."""

import logging
from collections.abc import Iterator

import pytest

from distro.engine.turns import LOG_INTERVAL_S, SLOW_S, TurnWatch, name_of
from distro.members.members import MemberList
from distro.model.monitor import EngineTimes
from tests.support.engine import B, Engine


class Bed:
    """A watch over turns whose parts take as long as a test says."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.times = EngineTimes()
        self.ran_s = 7.0
        self.watch = TurnWatch(self.times, lambda: self.now_s, lambda: self.ran_s)

    def turn(self, waited_s: float = 0.0, **parts_s: float) -> None:
        self.watch.begin()
        self.now_s += waited_s
        for part, taken_s in parts_s.items():
            self.now_s += taken_s
            self.ran_s += taken_s
            self.watch.did(part)
        self.watch.end()


@pytest.fixture
def bed(caplog: pytest.LogCaptureFixture) -> Iterator[Bed]:
    with caplog.at_level(logging.WARNING):
        yield Bed()


def test_a_turn_counts_with_all_of_its_parts_and_the_longest_stays(bed: Bed) -> None:
    for parts in ({"events": 0.002, "tick": 0.001}, {"tick": 0.2}, {"tick": 0.000_01}):
        bed.turn(**parts)
    bounds = (*bed.times.turns.bounds_s, None)
    counts = {bound: count for bound, count in zip(bounds, bed.times.turns.counts, strict=True) if count}
    assert counts == {0.000_1: 1, 0.01: 1, 0.25: 1}
    assert bed.times.turn_max_s == pytest.approx(0.2)
    assert bed.times.turns.sum_s == pytest.approx(0.203_01)
    assert SLOW_S in bounds, "an alert asks for it"


def test_a_slow_turn_is_named_by_what_took_longest(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    bed.turn(a=0.001, b=0.03, tick=0.4, c=0.002)
    [line] = caplog.messages
    assert line == "a turn of the engine took 433 ms, 433 ms of it at work: tick 400 ms, b 30 ms, c 2 ms"


def test_a_turn_that_waited_for_a_processor_is_not_told_unless_it_was_long(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    bed.turn(0.2, tick=0.01)
    assert caplog.messages == []
    assert bed.times.turn_max_s == pytest.approx(0.21), "but it counts"
    bed.turn(1.2, tick=0.01)
    assert caplog.messages == ["a turn of the engine took 1210 ms, 10 ms of it at work: tick 1210 ms"]


def test_a_turn_that_is_just_fast_enough_is_not_told(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    bed.now_s = 0.0
    bed.turn(tick=SLOW_S)
    assert caplog.messages == []


def test_many_slow_turns_make_few_lines(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    turns = 100
    for _ in range(turns):
        bed.turn(tick=1.0)
    lines = caplog.messages
    assert len(lines) == turns / LOG_INTERVAL_S
    assert lines[0].endswith("tick 1000 ms")
    assert lines[1].endswith("; 9 more since the last such line")


def test_an_event_is_named_by_its_calls() -> None:
    assert name_of(lambda protocol, now_ms: protocol.on_verify_done(now_ms)) == "on_verify_done"
    assert name_of(lambda _protocol, _now_ms: None) == "<lambda>"
    assert name_of(print) == "print"
    assert name_of("the tick") == "the tick"


# --- a pause, or the process's own work -------------------------------------------------------------


@pytest.mark.parametrize(("ran_share", "is_own"), [(0.0, False), (0.49, False), (0.51, True), (1.9, True)])
def test_who_was_late_by_its_own_work_does_not_take_it_for_a_pause(
    ran_share: float, is_own: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(B)
    engine.load()
    _, next_ms = engine.protocol.tick(engine.now_ms)
    moved: list[int] = []
    monkeypatch.setattr(MemberList, "on_pause", lambda _self, late_ms, _now_ms: moved.append(late_ms))
    late_ms = 4 * engine.config.pause_ms
    engine.protocol.tick(next_ms + late_ms, int(ran_share * late_ms))
    assert (engine.stats.pauses, engine.stats.overruns) == ((0, 1) if is_own else (1, 0))
    assert moved == [late_ms], "nothing was heard meanwhile, whoever is to blame"
    assert ("by this process's own work" in caplog.text) is is_own
    assert ("did not run" in caplog.text) is not is_own


def test_a_busy_process_whose_ticks_come_in_time_is_not_late() -> None:
    engine = Engine(B)
    engine.load()
    _, next_ms = engine.protocol.tick(engine.now_ms)
    engine.protocol.tick(next_ms + engine.config.pause_ms, 1_000_000)
    assert (engine.stats.pauses, engine.stats.overruns) == (0, 0)


def test_each_kind_of_action_is_counted_apart() -> None:
    times = EngineTimes()
    for name, taken_s in (("Claim", 0.02), ("Forget", 0.3), ("Claim", 0.04)):
        times.note_action(name, taken_s)
    assert {name: sum(one.counts) for name, one in times.actions.items()} == {"Claim": 2, "Forget": 1}
