"""The numbers of the last hour."""

from app.operator.instance_history import SAMPLE_MS, SAMPLES_MAX, CountHistory


def test_samples_come_at_their_time_and_the_oldest_go() -> None:
    taken = iter(range(1_000))
    wall = iter(range(1_000))
    history = CountHistory(lambda: (next(taken), 7), lambda: next(wall))
    assert history.latest() is None
    now_ms = 5
    for _ in range(SAMPLES_MAX + 3):
        now_ms = history.tick(now_ms)
    assert now_ms == 5 + (SAMPLES_MAX + 3) * SAMPLE_MS
    samples = history.samples()
    assert len(samples) == SAMPLES_MAX
    assert (samples[0].services, samples[0].instances, samples[0].wall_ms) == (3, 7, 3)
    assert history.latest() == samples[-1]
