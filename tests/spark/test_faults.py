"""Faults over the nights: when each opened and closed, and the time to heal as the documentation asks for it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.tables import read_table
from app.tools.audit.format.findings import FindingClass
from tests.spark.conftest import Checking, findings, judged
from tests.support.dumps import ADDRESSES, SERVICE, Rows, instance, service, write_dump
from tests.support.snippets import ROOT, snippets_of, statements_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [service(), instance(1)]
HEAVY = [service(), instance(1, weight=9.0)]
OTHER, LATE = "DEFAULT_GROUP@@payments", "DEFAULT_GROUP@@late"
Healed = dict[tuple[str, str], tuple[int, float, int]]
PAGE = ROOT / "docs" / "audit-results.md"
RESULTS_OF_PAGE = "/var/lib/rollcall-audit/results"


FOUR = "10.0.0.4:8848"
REFUSED = "connection refused"
NIGHTS = [f"2026-11-{day}" for day in (19, 20, 21, 22)]
COMES_BACK, OF_ABSENT, IGNORED, MOVED = (f"DEFAULT_GROUP@@{name}" for name in ("back", "absent", "ignored", "moved"))
SICK: list[dict[str, tuple[str, ...]]] = [
    {COMES_BACK: (TWO,), OF_ABSENT: (TWO, FOUR), IGNORED: (TWO,), MOVED: (THREE,)},
    {COMES_BACK: (), OF_ABSENT: (), IGNORED: (), MOVED: (THREE,)},
    {COMES_BACK: (), OF_ABSENT: (FOUR,), IGNORED: (TWO,), MOVED: ()},
    {COMES_BACK: (TWO,), OF_ABSENT: (), IGNORED: (TWO,), MOVED: ()},
]
"""The members at which each service departs, by night."""


def of(name: str, *, is_sick: bool, owner: str = ONE) -> list[dict[str, Any]]:
    """The rows of a service at a member, which departs by its weight, or as the service's name says."""
    whole = [service(name, owner), *(instance(one, service=name, owner=owner) for one in (1, 2))]
    values: dict[str, Any] = {"enabled": False} if name == IGNORED else {"weight": 9.0}
    sick = instance(1, service=name, owner=owner, **values)
    return [whole[0], sick, *(whole[2:] if name != MOVED else [])] if is_sick else whole


@pytest.fixture(scope="module")
def four_nights(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four nights with a service for each way in which a fault opens and closes.

    The fourth member is absent in the second night, and has left in the last. The second night does not look for
    ENABLED, and one service has another owner then.
    """
    folder = tmp_path_factory.mktemp("nights")
    for number, (date, departing) in enumerate(zip(NIGHTS, SICK, strict=True)):
        owners = {MOVED: TWO} if number == 1 else {}
        members: dict[str, Rows | str] = {
            member: [
                row
                for name, sick in departing.items()
                for row in of(name, is_sick=member in sick, owner=owners.get(name, ONE))
            ]
            for member in (*ADDRESSES, FOUR)
        }
        if number == 1:
            members[FOUR] = REFUSED
        if number == 3:
            del members[FOUR]
        write_dump(folder / "dumps", members, date=date)
        judged(spark, folder, date, ignored=[FindingClass.ENABLED] if number == 1 else [])
    return folder


def faults(spark: "SparkSession", folder: Path, number: int, name: str) -> list[tuple[Any, ...]]:
    """The faults of a service that a night left: class, member, when each opened, was last seen and closed, and how."""
    table = read_table(spark, str(folder / "out"), "faults", [NIGHTS[number - 1]])
    found = table.where(table["service"] == name).collect()
    dates = ("opened_night", "last_seen", "closed_night")
    return sorted(
        (
            row["finding_class"],
            row["member"],
            *[row[date] and NIGHTS.index(row[date]) + 1 for date in dates],
            row["ended"],
        )
        for row in found
    )


def test_a_fault_opens_closes_and_comes_back_as_another_one(spark: "SparkSession", four_nights: Path) -> None:
    assert [faults(spark, four_nights, number, COMES_BACK) for number in (1, 2, 3, 4)] == [
        [("WEIGHT", TWO, 1, 1, None, None)],
        [("WEIGHT", TWO, 1, 1, 2, "healed")],
        [],
        [("WEIGHT", TWO, 4, 4, None, None)],
    ]


def test_an_absent_member_closes_nothing_of_its_own(spark: "SparkSession", four_nights: Path) -> None:
    assert [faults(spark, four_nights, number, OF_ABSENT) for number in (2, 3, 4)] == [
        [("WEIGHT", TWO, 1, 1, 2, "healed"), ("WEIGHT", FOUR, 1, 1, None, None)],
        [("WEIGHT", FOUR, 1, 3, None, None)],
        [("WEIGHT", FOUR, 1, 3, 4, "left")],
    ]
    assert [faults(spark, four_nights, number, "") for number in (2, 3)] == [
        [("ABSENT_MEMBER", FOUR, 2, 2, None, None)],
        [("ABSENT_MEMBER", FOUR, 2, 2, 3, "healed")],
    ]


def test_a_class_that_is_not_looked_for_closes_nothing(spark: "SparkSession", four_nights: Path) -> None:
    assert [faults(spark, four_nights, number, IGNORED) for number in (2, 3)] == [
        [("ENABLED", TWO, 1, 1, None, None)],
        [("ENABLED", TWO, 1, 3, None, None)],
    ]


def test_a_fault_whose_owner_moved_is_the_same_fault(spark: "SparkSession", four_nights: Path) -> None:
    second = [one for one in findings(four_nights, NIGHTS[1]) if one["service"] == MOVED]
    assert sorted((one["finding_class"], one["first_seen"], one["nights_open"]) for one in second) == [
        ("MISSING", NIGHTS[0], 2),
        ("WEIGHT", NIGHTS[0], 2),
    ]
    assert {one["reference"] for one in second} == {TWO}
    assert [faults(spark, four_nights, number, MOVED) for number in (2, 3)] == [
        [(name, THREE, 1, 2, None, None) for name in ("MISSING", "WEIGHT")],
        [(name, THREE, 1, 2, 3, "healed") for name in ("MISSING", "WEIGHT")],
    ]


def test_the_tables_are_read_as_the_page_says(spark: "SparkSession", four_nights: Path) -> None:
    (program,) = [one.text for one in snippets_of(PAGE) if one.language == "python"]
    made: dict[str, Any] = {"spark": spark}
    exec(
        compile(
            program.replace("rollcall_registry.", "app.").replace("s3://bucket/results", str(four_nights / "out")),
            PAGE.name,
            "exec",
        ),
        made,
    )
    assert {row["night"] for row in made["faults"].collect()} == set(NIGHTS)
    assert {(row["night"], row["finding_class"]) for row in made["monday"].collect()} == {
        ("2026-11-21", "WEIGHT"),
        ("2026-11-21", "ENABLED"),
    }


def test_pandas_reads_the_tables_as_the_page_says(four_nights: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    assert 'For pandas: `duckdb.sql("FROM findings").df()`.' in PAGE.read_text()
    with duckdb.connect() as connection:
        for statement in statements_of(PAGE, "read_parquet"):
            connection.execute(statement.replace(RESULTS_OF_PAGE, str(four_nights / "out")))
        frame = connection.sql("FROM findings").df()
    assert set(frame["night"]) == set(NIGHTS)
    assert set(frame["finding_class"]) == {"WEIGHT", "ENABLED", "MISSING", "ABSENT_MEMBER"}


def test_the_time_to_heal_is_a_query(spark: "SparkSession", tmp_path: Path, check: Checking) -> None:
    """Nights 1 to 7: the third is not judged, the second at the end and twice, and one fault comes back.

    Judged late, the second night closes the fault of a service that a later night still has: it counts once.
    """

    def night(day: int, weight: bool, missing: bool, late: bool) -> list[str]:
        date = f"2026-11-{day:02}"
        payments = [service(OTHER), instance(2, service=OTHER)]
        healed = [*ROWS, *payments, *of(LATE, is_sick=False)]
        sick = [*(HEAVY if weight else ROWS), *(payments[:1] if missing else payments), *of(LATE, is_sick=late)]
        write_dump(tmp_path / "dumps", {ONE: healed, TWO: sick}, date=date)
        return judged(spark, tmp_path, date).notes

    night(1, weight=True, missing=True, late=True)
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: REFUSED}, date="2026-11-03")
    assert check(night="2026-11-03")[0] == 2
    night(4, weight=False, missing=True, late=True)
    night(5, weight=True, missing=True, late=False)
    night(6, weight=True, missing=False, late=False)
    night(7, weight=False, missing=False, late=False)
    expected = {("WEIGHT", SERVICE): (2, 2.5, 3), ("MISSING", OTHER): (1, 5.0, 5), ("WEIGHT", LATE): (1, 4.0, 4)}
    assert of_spark(spark, tmp_path) == expected
    assert of_duckdb(tmp_path) == expected
    notes = night(2, weight=True, missing=True, late=False)
    later = "2026-11-04, 2026-11-05, 2026-11-06, 2026-11-07"
    assert f"the history of later nights is older than this verdict; check again: {later}" in notes
    closed = read_table(spark, str(tmp_path / "out"), "faults", ["2026-11-02"]).where("ended = 'healed'").collect()
    assert [(row["service"], row["opened_night"], row["closed_night"]) for row in closed] == [
        (LATE, "2026-11-01", "2026-11-02")
    ]
    assert of_spark(spark, tmp_path) == expected
    judged(spark, tmp_path, "2026-11-02")
    assert of_spark(spark, tmp_path) == expected


def of_spark(spark: "SparkSession", folder: Path) -> Healed:
    read_table(spark, str(folder / "out"), "faults").createOrReplaceTempView("faults")
    (query,) = statements_of(PAGE, "-- Spark SQL")
    return healed(tuple(row) for row in spark.sql(query).collect())


def of_duckdb(folder: Path) -> Healed:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for statement in statements_of(PAGE, "read_parquet"):
            here = statement.replace(RESULTS_OF_PAGE, str(folder / "out"))
            connection.execute(here.replace("findings", "faults"))
        (query,) = statements_of(PAGE, "-- DuckDB")
        return healed(connection.execute(query).fetchall())


def healed(rows: Iterable[tuple[Any, ...]]) -> Healed:
    """Shape: class and service to the number of faults that healed, and the mean and the most days of it."""
    return {(row[0], row[2]): (row[3], float(row[4]), row[5]) for row in rows}
