"""Findings over the nights: since when they are open, and what is kept."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.rows.summary import Summary
from app.tools.audit.check.results import Results
from app.tools.audit.check.tables import read_table
from tests.spark.conftest import judged
from tests.support.dumps import ADDRESSES, instance, service, write_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, _ = ADDRESSES


def night(spark: "SparkSession", folder: Path, date: str, *rows: dict[str, Any]) -> Summary:
    """Dump and check a night in which the second member has these rows beside its service, the first one instance."""
    write_dump(folder / "dumps", {ONE: [service(), instance(1)], TWO: [service(), *rows]}, date=date)
    return judged(spark, folder, date)


def history(summary: Summary) -> dict[str, tuple[str, str, int]]:
    return {one["finding_class"]: (one["first_seen"], one["last_seen"], one["nights_open"]) for one in summary.examples}


WRONG = instance(1, weight=9.0)
NIGHTS = {
    "2026-11-01": [WRONG],
    "2026-11-02": [WRONG, instance(2)],
    # A night that could not be judged is no gap: the last one that was counts.
    "2026-11-04": [WRONG],
    "2026-11-05": [instance(1)],
    "2026-11-06": [WRONG],
}
FIRST, _, THIRD, FOURTH, LAST = NIGHTS


@pytest.fixture(scope="module")
def nights(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Summary]]:
    """A folder with these nights and their results, and the summary of each."""
    folder = tmp_path_factory.mktemp("nights")
    return folder, {date: night(spark, folder, date, *rows) for date, rows in NIGHTS.items()}


def test_a_finding_is_open_since_its_first_night_until_it_heals(nights: tuple[Path, dict[str, Summary]]) -> None:
    _, summaries = nights
    first, second, third, fourth, last = summaries.values()
    assert history(first) == {"WEIGHT": (FIRST, FIRST, 1)}
    assert history(second) == {
        "WEIGHT": (FIRST, "2026-11-02", 2),
        "EXTRA": ("2026-11-02", "2026-11-02", 1),
    }
    assert history(third) == {"WEIGHT": (FIRST, THIRD, 3)}
    assert f"; open since {FIRST}; " in third.line
    assert fourth.line.startswith("agreed")
    assert history(last) == {"WEIGHT": (LAST, LAST, 1)}


def test_a_night_that_is_checked_again_replaces_its_own_results_only(
    spark: "SparkSession", tmp_path: Path, nights: tuple[Path, dict[str, Summary]]
) -> None:
    shutil.copytree(nights[0], tmp_path, dirs_exist_ok=True)
    Results(str(tmp_path / "out")).write_manifests()  # the folder moved, and they name whole paths
    before, table = shape(tmp_path / "out"), rows_of(spark, tmp_path)
    others = {path: size for path, size in contents(tmp_path / "out").items() if LAST not in path}
    assert history(judged(spark, tmp_path, LAST)) == {"WEIGHT": (LAST, LAST, 1)}
    assert (shape(tmp_path / "out"), rows_of(spark, tmp_path)) == (before, table)
    assert {path: size for path, size in contents(tmp_path / "out").items() if LAST not in path} == others
    again = night(spark, tmp_path, "2026-11-07", WRONG)
    assert history(again) == {"WEIGHT": (LAST, "2026-11-07", 2)}
    assert [path for path in shape(tmp_path / "out") if "2026-11-07" not in path] == before
    assert rows_of(spark, tmp_path) == [*table, ("2026-11-07", "WEIGHT")]


def test_old_nights_are_removed_and_others_kept(tmp_path: Path, nights: tuple[Path, dict[str, Summary]]) -> None:
    shutil.copytree(nights[0] / "out", tmp_path / "out")
    results = Results(str(tmp_path / "out"))
    assert results.remove_before(LAST, 2) == [FIRST, "2026-11-02", THIRD]
    assert results.nights() == [FOURTH, LAST]
    left = [str(path.relative_to(tmp_path)) for path in (tmp_path / "out").rglob("*")]
    assert not [path for path in left if re.search(rf"{FIRST}|2026-11-02|{THIRD}", path)]


def rows_of(spark: "SparkSession", folder: Path) -> list[tuple[str, str]]:
    table = read_table(spark, str(folder / "out"), "findings")
    return sorted((row["night"], row["finding_class"]) for row in table.collect())


def contents(folder: Path) -> dict[str, int]:
    """The files below a folder, with the time of their last change in ns."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def shape(folder: Path) -> list[str]:
    """The files of an output folder without what is another name in each run."""
    files = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(re.sub(r"run=\w+-[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", path) for path in files)
