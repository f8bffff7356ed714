"""Findings over the nights: since when they are open, and what is kept."""

import re
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


def test_a_finding_is_open_since_its_first_night_until_it_heals(spark: "SparkSession", tmp_path: Path) -> None:
    wrong = instance(1, weight=9.0)
    assert history(night(spark, tmp_path, "2026-11-01", wrong)) == {"WEIGHT": ("2026-11-01", "2026-11-01", 1)}
    second = night(spark, tmp_path, "2026-11-02", wrong, instance(2))
    assert history(second) == {
        "WEIGHT": ("2026-11-01", "2026-11-02", 2),
        "EXTRA": ("2026-11-02", "2026-11-02", 1),
    }
    # A night that could not be judged is no gap: the last one that was counts.
    third = night(spark, tmp_path, "2026-11-04", wrong)
    assert history(third) == {"WEIGHT": ("2026-11-01", "2026-11-04", 3)}
    assert "; open since 2026-11-01; " in third.line
    assert night(spark, tmp_path, "2026-11-05", instance(1)).line.startswith("agreed")
    assert history(night(spark, tmp_path, "2026-11-06", wrong)) == {"WEIGHT": ("2026-11-06", "2026-11-06", 1)}


def test_a_night_that_is_checked_again_replaces_its_own_results_only(spark: "SparkSession", tmp_path: Path) -> None:
    night(spark, tmp_path, "2026-11-01", instance(1, weight=9.0))
    before = shape(tmp_path / "out")
    for _ in range(2):
        assert history(judged(spark, tmp_path, "2026-11-01"))["WEIGHT"][2] == 1
    assert shape(tmp_path / "out") == before
    again = night(spark, tmp_path, "2026-11-02", instance(1, weight=9.0))
    assert history(again)["WEIGHT"][2] == 2
    assert [path for path in shape(tmp_path / "out") if "2026-11-02" not in path] == before
    table = read_table(spark, str(tmp_path / "out"), "findings")
    assert sorted((row["night"], row["finding_class"]) for row in table.collect()) == [
        ("2026-11-01", "WEIGHT"),
        ("2026-11-02", "WEIGHT"),
    ]


def test_old_nights_are_removed_and_others_kept(spark: "SparkSession", tmp_path: Path) -> None:
    for date in ("2026-11-01", "2026-11-02", "2026-11-03"):
        night(spark, tmp_path, date, instance(1, weight=9.0))
    results = Results(str(tmp_path / "out"))
    assert results.remove_before("2026-11-03", 2) == ["2026-11-01"]
    assert results.nights() == ["2026-11-02", "2026-11-03"]
    assert not [path for path in contents(tmp_path / "out") if "2026-11-01" in path]


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def shape(folder: Path) -> list[str]:
    """The files of an output folder without what is another name in each run."""
    files = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(re.sub(r"run=\w+-[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", path) for path in files)
