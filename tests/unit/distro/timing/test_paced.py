"""Rests in long work: none in what is short, and nothing lost."""

import pytest

from distro.timing import sliced as module
from distro.timing.sliced import REST_S, STEP_ENTRIES, paced


@pytest.mark.parametrize(
    ("entries", "rests"), [(0, 0), (STEP_ENTRIES - 1, 0), (STEP_ENTRIES, 1), (3 * STEP_ENTRIES + 1, 3)]
)
def test_after_each_step_there_is_a_rest(entries: int, rests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    assert list(paced(range(entries))) == list(range(entries))
    assert slept == [REST_S] * rests
