"""Measurements: quantiles of durations, and the sends to a peer."""

import pytest

from distro.model.monitor import EngineTimes, PeerStats, Timings


@pytest.mark.parametrize(
    ("part", "duration_s"), [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.625, 1.5), (0.75, 2.0), (0.76, 4.0), (1.0, 4.0)]
)
def test_a_quantile_lies_on_a_line_within_its_bounds(part: float, duration_s: float) -> None:
    timings = Timings((1.0, 2.0, 4.0))
    for taken_s in (0.1, 1.0, 0.2, 0.3, 1.5, 2.0, 9.0, 99.0):
        timings.add(taken_s)
    assert timings.frozen().counts == (4, 2, 0, 2)
    assert timings.frozen().sum_s == pytest.approx(113.1)
    assert timings.frozen().quantile_s(part) == pytest.approx(duration_s)


def test_without_durations_there_is_no_quantile() -> None:
    assert Timings((1.0, 2.0)).frozen().quantile_s(0.5) is None


def test_counts_that_were_frozen_stay() -> None:
    timings = Timings((1.0,))
    before = timings.frozen()
    timings.add(0.5)
    assert (before.counts, timings.frozen().counts) == ((0, 0), (1, 0))


def test_sends_to_a_peer_add_up() -> None:
    times, stats = EngineTimes(), PeerStats()
    times.peers["b"] = stats
    stats.note(3, 100)
    stats.note(4, 200)
    times.sent("b", 10)
    times.sent("b", 5)
    times.sent("a member that left", 7)
    assert stats == PeerStats(delivered=2, failed=0, keys=7, bytes=15, delivered_ms=200)


def test_the_longest_turn_and_each_kind_of_action_are_kept() -> None:
    times = EngineTimes()
    for taken_s in (0.2, 0.5, 0.1):
        times.note_turn(taken_s)
        times.note_action("Claim", taken_s)
    times.note_action("Forget", 0.1)
    assert (times.turn_max_s, sum(times.turns.counts)) == (0.5, 3)
    assert {name: sum(one.counts) for name, one in times.actions.items()} == {"Claim": 3, "Forget": 1}
