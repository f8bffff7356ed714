"""The audit accuses no member of a cluster that is only busy: simulated nights, by the rules of the check."""

from collections import Counter
from pathlib import Path

import pytest

from app.tools.audit.format.layout import read_night
from tests.support.churning_links import LINKED_SEEDS, churning_links, write_linked_night
from tests.support.churning_nights import churning_night
from tests.support.dumps import write_dump
from tests.support.plain_check import Finding, check
from tests.support.plain_links import check_links
from tests.support.thorough import usually

pytestmark = pytest.mark.simulation
SEEDS = usually(8, thorough=20)


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


def test_nothing_is_told_of_linked_clusters_in_nights_in_which_the_link_is_cut(tmp_path: Path) -> None:
    found: Counter[tuple[int, object]] = Counter()
    brought = stale = 0
    for seed in LINKED_SEEDS:
        night = churning_links(seed)
        folders = list(write_linked_night(tmp_path / str(seed), night))
        nights = [read_night(folder) for folder in folders]
        found.update((seed, one) for one in check_links(nights))
        found.update((seed, one) for each in nights for one in check(each) if one[1])
        rows = [row for both in night for one in both for linked in one.brought.values() for row in linked.rows]
        brought += len(rows)
        stale += sum("silent_ms" in row for row in rows)
    assert not found
    assert (brought > 1_000, stale > 100) == (True, True), "some rounds are within a cut"
