"""The audit accuses no member of a cluster that is only busy: simulated nights, by the rules of the check."""

from collections import Counter
from pathlib import Path

import pytest

from app.tools.audit.format.layout import read_night
from tests.support.churning_nights import churning_night
from tests.support.dumps import write_dump
from tests.support.plain_check import Finding, check

pytestmark = pytest.mark.simulation
SEEDS = 8


def test_nothing_lasts_in_nights_in_which_members_restart(tmp_path: Path) -> None:
    found: Counter[tuple[int, Finding]] = Counter()
    old_beats = rows = 0
    for seed in range(SEEDS):
        first, second = churning_night(seed)
        write_dump(tmp_path / str(seed), first, second)
        found.update((seed, one) for one in check(read_night(str(tmp_path / str(seed)))) if one[1])
        told = [row for one in (first, second) for stored in one.values() for row in stored]
        rows += len(told)
        old_beats += sum("silent_ms" in row and row["beat_age_ms"] > row["delete_timeout_ms"] + 5_000 for row in told)
    assert not found
    assert (rows > 1_000, old_beats > 0) == (True, True), "some owners keep instances whose beats are old"
