"""How far refusals of beats count, and what other members are told of them."""

import pytest

from app.naming.health.beat_refusals import GAP_MS, SPAN_MS_MAX, BeatRefusals, RefusalSpan
from app.naming.model.model import NEVER_MS

PEER = "10.0.0.2:8848"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def refusals(clock: Clock) -> BeatRefusals:
    return BeatRefusals(clock)


def test_without_a_refusal_nothing_counts(refusals: BeatRefusals) -> None:
    assert (refusals.last_ms(), refusals.age_ms()) == (NEVER_MS, None)


def test_a_refusal_counts_and_is_told_until_it_is_long_ago(clock: Clock, refusals: BeatRefusals) -> None:
    refusals.note()
    clock.now_ms += GAP_MS
    assert (refusals.last_ms(), refusals.age_ms()) == (1_000_000, GAP_MS)
    clock.now_ms += 1
    assert (refusals.last_ms(), refusals.age_ms()) == (1_000_000, None)


def test_the_latest_of_all_members_counts(clock: Clock, refusals: BeatRefusals) -> None:
    refusals.note()
    clock.now_ms += 10_000
    refusals.note_peer(PEER, 3_000)
    assert refusals.last_ms() == clock.now_ms - 3_000
    refusals.note_peer(PEER, 9_000)
    assert refusals.last_ms() == clock.now_ms - 3_000, "what comes late changes nothing"
    refusals.keep(())
    assert refusals.last_ms() == 1_000_000


@pytest.mark.parametrize("step_ms", [100, GAP_MS])
def test_refusals_without_an_end_count_for_a_while_alone(step_ms: int) -> None:
    span = RefusalSpan()
    for at_ms in range(0, 10 * SPAN_MS_MAX, step_ms):
        span.note(at_ms)
    assert span.counted_ms == SPAN_MS_MAX
    again_ms = span.last_ms + GAP_MS + 1
    span.note(again_ms)
    assert span.counted_ms == again_ms


def test_while_this_node_refuses_all_beats_its_own_judgement_waits_for_ever(
    clock: Clock, refusals: BeatRefusals
) -> None:
    for _ in range(10):
        clock.now_ms += SPAN_MS_MAX
        refusals.note()
        assert refusals.last_ms(refuses_all=True) == clock.now_ms
    lifted_ms = clock.now_ms
    clock.now_ms += 10_000
    assert refusals.last_ms() == lifted_ms
