"""Faults over the nights: when each opened and closed, and the time to heal as the documentation asks for it."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.tables import read_table
from app.tools.audit.format.findings import FindingClass
from tests.spark.conftest import Checking, judged
from tests.support.dumps import ADDRESSES, SERVICE, Rows, instance, service, write_dump
from tests.support.snippets import ROOT, snippets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [service(), instance(1)]
HEAVY = [service(), instance(1, weight=9.0)]
OTHER = "DEFAULT_GROUP@@payments"
Healed = dict[tuple[str, str], tuple[int, float, int]]
PAGE = ROOT / "docs" / "audit-results.md"
RESULTS_OF_PAGE = "/var/lib/rollcall-audit/results"


@pytest.fixture
def night(spark: "SparkSession", tmp_path: Path) -> Any:
    """Dump and check the night of a day in November; members are those given, in order."""

    def run(day: int, *members: Rows | str, **options: Any) -> list[str]:
        date = f"2026-11-{day:02}"
        write_dump(tmp_path / "dumps", dict(zip(ADDRESSES, members, strict=False)), date=date)
        return judged(spark, tmp_path, date, **options).notes

    return run


def faults(spark: "SparkSession", folder: Path, day: int) -> list[tuple[Any, ...]]:
    """The faults that a night left: class, member, and the days on which each opened, was last seen, and closed."""
    rows = read_table(spark, str(folder / "out"), "faults", [f"2026-11-{day:02}"]).collect()
    days = ("opened_night", "last_seen", "closed_night")
    return sorted(
        (row["finding_class"], row["member"], *[row[name] and int(row[name][-2:]) for name in days], row["ended"])
        for row in rows
    )


def test_a_fault_opens_closes_and_comes_back_as_another_one(spark: "SparkSession", tmp_path: Path, night: Any) -> None:
    night(1, ROWS, HEAVY)
    assert faults(spark, tmp_path, 1) == [("WEIGHT", TWO, 1, 1, None, None)]
    night(2, ROWS, ROWS)
    assert faults(spark, tmp_path, 2) == [("WEIGHT", TWO, 1, 1, 2, "healed")]
    night(3, ROWS, ROWS)
    assert faults(spark, tmp_path, 3) == []
    night(4, ROWS, HEAVY)
    assert faults(spark, tmp_path, 4) == [("WEIGHT", TWO, 4, 4, None, None)]


def test_an_absent_member_closes_nothing_of_its_own(spark: "SparkSession", tmp_path: Path, night: Any) -> None:
    night(1, ROWS, HEAVY, HEAVY)
    night(2, ROWS, ROWS, "connection refused")
    assert faults(spark, tmp_path, 2) == [
        ("ABSENT_MEMBER", THREE, 2, 2, None, None),
        ("WEIGHT", TWO, 1, 1, 2, "healed"),
        ("WEIGHT", THREE, 1, 1, None, None),
    ]
    night(3, ROWS, ROWS, HEAVY)
    assert faults(spark, tmp_path, 3) == [
        ("ABSENT_MEMBER", THREE, 2, 2, 3, "healed"),
        ("WEIGHT", THREE, 1, 3, None, None),
    ]
    night(4, ROWS, ROWS)
    assert faults(spark, tmp_path, 4) == [("WEIGHT", THREE, 1, 3, 4, "left")]


def test_a_class_that_is_not_looked_for_closes_nothing(spark: "SparkSession", tmp_path: Path, night: Any) -> None:
    night(1, ROWS, HEAVY)
    night(2, ROWS, ROWS, ignored=[FindingClass.WEIGHT])
    assert faults(spark, tmp_path, 2) == [("WEIGHT", TWO, 1, 1, None, None)]
    night(3, ROWS, HEAVY)
    assert faults(spark, tmp_path, 3) == [("WEIGHT", TWO, 1, 3, None, None)]


def test_the_time_to_heal_is_a_query(spark: "SparkSession", tmp_path: Path, night: Any, check: Checking) -> None:
    """Nights 1 to 7: the third is not judged, the second is checked again at the end, and one fault comes back."""
    payments = [service(OTHER), instance(2, service=OTHER)]
    lacks = [service(OTHER)]
    night(1, [*ROWS, *payments], [*HEAVY, *lacks])
    night(2, [*ROWS, *payments], [*HEAVY, *lacks])
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: "connection refused"}, date="2026-11-03")
    assert check(night="2026-11-03")[0] == 2
    night(4, [*ROWS, *payments], [*ROWS, *lacks])
    night(5, [*ROWS, *payments], [*HEAVY, *lacks])
    night(6, [*ROWS, *payments], [*HEAVY, *payments])
    night(7, [*ROWS, *payments], [*ROWS, *payments])
    expected = {("WEIGHT", SERVICE): (2, 2.5, 3), ("MISSING", OTHER): (1, 5.0, 5)}
    assert of_spark(spark, tmp_path) == expected
    assert of_duckdb(tmp_path) == expected
    notes = judged(spark, tmp_path, "2026-11-02").notes
    later = "2026-11-04, 2026-11-05, 2026-11-06, 2026-11-07"
    assert f"the history of later nights is older than this verdict; check again: {later}" in notes
    assert of_spark(spark, tmp_path) == expected


def test_a_night_that_is_judged_late_closes_no_fault_twice(spark: "SparkSession", tmp_path: Path, night: Any) -> None:
    night(1, ROWS, HEAVY)
    night(3, ROWS, HEAVY)
    night(4, ROWS, ROWS)
    night(2, ROWS, ROWS)
    assert faults(spark, tmp_path, 2) == [("WEIGHT", TWO, 1, 1, 2, "healed")]
    assert of_spark(spark, tmp_path) == {("WEIGHT", SERVICE): (1, 3.0, 3)}


def test_the_tables_are_read_as_the_page_says(spark: "SparkSession", tmp_path: Path, night: Any) -> None:
    night(20, ROWS, HEAVY)
    night(21, ROWS, HEAVY)
    (program,) = [one.text for one in snippets_of(PAGE) if one.language == "python"]
    made: dict[str, Any] = {"spark": spark}
    exec(
        compile(
            program.replace("rollcall_registry.", "app.").replace("s3://bucket/results", str(tmp_path / "out")),
            PAGE.name,
            "exec",
        ),
        made,
    )
    assert {row["night"] for row in made["faults"].collect()} == {"2026-11-20", "2026-11-21"}
    assert [(row["night"], row["finding_class"]) for row in made["monday"].collect()] == [("2026-11-21", "WEIGHT")]


def documented(of: str) -> list[str]:
    """The statements of the one block of SQL in the documentation in which this text is."""
    (found,) = [one.text for one in snippets_of(PAGE) if one.language == "sql" and of in one.text]
    return [statement for statement in re.split(r";\n", found) if statement.strip()]


def of_spark(spark: "SparkSession", folder: Path) -> Healed:
    read_table(spark, str(folder / "out"), "faults").createOrReplaceTempView("faults")
    (query,) = documented("-- Spark SQL")
    return healed(tuple(row) for row in spark.sql(query).collect())


def of_duckdb(folder: Path) -> Healed:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for statement in documented("read_parquet"):
            here = statement.replace(RESULTS_OF_PAGE, str(folder / "out"))
            connection.execute(here.replace("findings", "faults"))
        (query,) = documented("-- DuckDB")
        return healed(connection.execute(query).fetchall())


def healed(rows: Iterable[tuple[Any, ...]]) -> Healed:
    """Shape: class and service to the number of faults that healed, and the mean and the most days of it."""
    return {(row[0], row[2]): (row[3], float(row[4]), row[5]) for row in rows}
