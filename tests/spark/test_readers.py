"""Dumps and tables are read by other programs as the pages say: by Spark, pandas and DuckDB."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from app.rows.rows import record_row
from app.tools.audit.check import evidence_rows
from app.tools.audit.check.dumps import DUMP_FIELDS, read_dump
from app.tools.audit.format.manifest import MANIFEST_NAME
from app.tools.audit.format.part_format import PartFormat
from tests.spark.conftest import NIGHT
from tests.support.dumps import ADDRESSES, instance, service, write_dump
from tests.support.snippets import ROOT, snippets_of, statements_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
PAGE = ROOT / "docs" / "audit-dumps.md"
DUMPS_OF_PAGE = "/var/lib/rollcall-audit/dumps"
BEFORE = "2026-11-19"
ROWS = [
    record_row("switches", {"a": 1}),
    service(instances=2),
    *[instance(one, metadata={"b": "1", "a": "2"}) for one in (1, 2)],
]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A night of Parquet files; the last member holds less in the second round."""
    folder = tmp_path_factory.mktemp("dumps")
    members = dict.fromkeys(ADDRESSES, ROWS)
    write_dump(folder, members, members | {THREE: ROWS[:3]}, date=NIGHT, part_format=PartFormat.PARQUET)
    return folder


def ran(block: str, dumps: Path, **names: Any) -> dict[str, Any]:
    """Run the one block of Python on the page with this text; return the variables that it has made."""
    (program,) = [one.text for one in snippets_of(PAGE) if one.language == "python" and block in one.text]
    program = program.replace("rollcall_registry.", "app.").replace(DUMPS_OF_PAGE, str(dumps))
    exec(compile(program, PAGE.name, "exec"), names)
    return names


def test_spark_reads_each_night_with_its_members_and_rounds_in_both_formats(
    spark: "SparkSession", tmp_path: Path
) -> None:
    members = dict.fromkeys(ADDRESSES, ROWS)
    for date, part_format in ((BEFORE, PartFormat.JSON), (NIGHT, PartFormat.PARQUET)):
        write_dump(tmp_path, members, members | {THREE: "refused"}, date=date, part_format=part_format)
    made = ran("read_dump", tmp_path, spark=spark)
    rows = made["rows"]
    assert dict(rows.dtypes) == DUMP_FIELDS
    assert list(rows.columns) == list(DUMP_FIELDS)
    found = [row.asDict() for row in rows.collect()]
    told = [
        sorted(
            (
                tuple(one[name] for name in DUMP_FIELDS if name != "dump_date")
                for one in found
                if one["dump_date"] == date
            ),
            key=repr,
        )
        for date in (BEFORE, NIGHT)
    ]
    assert told[0] == told[1]
    assert len(told[0]) == 5 * len(ROWS)
    assert {(one["round"], one["member"]) for one in found} == {(1, ONE), (1, TWO), (1, THREE), (2, ONE), (2, TWO)}
    assert {one["metadata"] for one in found if one["kind"] == "instance"} == {'{"a":"2","b":"1"}'}
    assert {row["dump_date"] for row in made["friday"].select("dump_date").distinct().collect()} == {NIGHT}


def test_a_night_without_a_complete_dump_is_left_out_or_named(spark: "SparkSession", tmp_path: Path) -> None:
    members = dict.fromkeys(ADDRESSES, ROWS)
    with pytest.raises(ValueError, match="no dump under"):
        read_dump(spark, str(tmp_path))
    write_dump(tmp_path, members, date=BEFORE)
    (write_dump(tmp_path, members, date=NIGHT)[1] / MANIFEST_NAME).unlink()
    assert {row["dump_date"] for row in read_dump(spark, str(tmp_path)).select("dump_date").distinct().collect()} == {
        BEFORE
    }
    with pytest.raises(ValueError, match=f"no complete dump of the night {NIGHT}"):
        read_dump(spark, str(tmp_path), [NIGHT])


def test_the_page_has_the_columns() -> None:
    (schema,) = [one.text for one in snippets_of(PAGE) if one.text.startswith("dump_date string")]
    assert dict(one.split(" ") for one in re.split(r",\s+", schema.strip())) == DUMP_FIELDS


def test_spark_reads_the_folder_as_it_is(spark: "SparkSession", dumps: Path) -> None:
    table = ran("spark.read.parquet", dumps, spark=spark)["table"]
    assert table.count() == 2 * 3 * 2 - 1
    assert {row["member"] for row in table.select("member").distinct().collect()} == {
        one.replace(":", "_") for one in ADDRESSES
    }


def test_pandas_reads_it(dumps: Path) -> None:
    pytest.importorskip("pandas")
    frame = ran("pandas", dumps)["frame"]
    assert len(frame) == 2 * 3 * 2 - 1
    assert set(frame["kind"]) == {"instance"}
    assert set(frame["member"]) == {one.replace(":", "_") for one in ADDRESSES}


def test_duckdb_reads_it(dumps: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    (query,) = statements_of(PAGE, "read_parquet")
    with duckdb.connect() as connection:
        counted = connection.execute(query.replace(DUMPS_OF_PAGE, str(dumps))).fetchall()
    assert [row[0] for row in counted] == sorted([one.replace(":", "_") for one in ADDRESSES] * 2)
    assert sorted(row[2] for row in counted) == [1, 2, 2, 2, 2, 2]


class Buckets:
    """What the path of an object store needs of its file system."""

    protocol = ("s3", "s3a")

    def unstrip_protocol(self, path: str) -> str:
        return f"s3://{path}"


def test_s3_stays_where_the_platform_serves_it(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_rows, "open_root", lambda uri: (Buckets(), uri))
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    assert evidence_rows.spark_path("bucket/dumps", "s3://bucket") == "s3a://bucket/dumps"
    hadoop.set("fs.s3.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        assert evidence_rows.spark_path("bucket/dumps", "s3://bucket") == "s3://bucket/dumps"
    finally:
        hadoop.unset("fs.s3.impl")
