"""Engines that know a table by its folder read the commits by manifests, as the page says: Trino and Hive."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from app.tools.audit.check.compaction import compact
from app.tools.audit.check.results import Results
from app.tools.audit.check.tables import read_table
from app.tools.audit.format.columns import SCHEMA
from app.tools.audit.format.commits import TABLE_FIELDS
from app.tools.audit.format.part_format import PartFormat
from tests.peers.conftest import LONG
from tests.sdk.environments import PROGRAMS, Environment, NotInstallable, install_trino
from tests.sdk.program import Program
from tests.spark.conftest import NIGHT, judged
from tests.spark.test_tables import dump
from tests.support.dumps import ADDRESSES, instance, service, write_dump
from tests.support.processes import clean_environ, free_ports
from tests.support.snippets import ROOT, snippets_of, statements_of
from tests.support.spark_cluster import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
long = pytest.mark.skipif(not LONG, reason="Trino is a download of 300 MB, Hive's start takes long: set PEERS_LONG=1")
START_TIMEOUT_S = 240.0
PAGE, DUMPS_PAGE = ROOT / "docs" / "audit-results.md", ROOT / "docs" / "audit-dumps.md"
OLD, MERGED, TWICE, AGREED, LATER = "2026-10-05", "2026-10-06", "2026-11-01", "2026-11-02", "2026-11-03"
TRINO_TYPES = {"string": "varchar", "int32": "integer", "int64": "bigint", "double": "double", "bool": "boolean"}
Rows = list[list[Any]]


@pytest.fixture
def out(spark: "SparkSession", tmp_path: Path) -> Path:
    """Results with a night of each kind: removed, merged, checked twice, and without differences.

    The file of the removed night's month still has its rows, and a file of the first of two checks stayed.
    """
    results = tmp_path / "out"
    for night, weights in {OLD: (2.0,), MERGED: (2.0, 3.0), TWICE: (4.0,), AGREED: ()}.items():
        dump(tmp_path, night, *weights)
        judged(spark, tmp_path, night)
    shutil.copytree(results / "findings" / f"night={TWICE}", tmp_path / "earlier")
    dump(tmp_path, TWICE, 5.0, 6.0)
    judged(spark, tmp_path, TWICE)
    shutil.copytree(tmp_path / "earlier", results / "findings" / f"night={TWICE}", dirs_exist_ok=True)
    assert compact(spark, Results(str(results)), TWICE) == ["2026-10"]
    Results(str(results)).remove_before(MERGED, 1)
    return results


@pytest.fixture
def metastore() -> int:
    """The port of Hive's metastore."""
    return free_ports(1)[0]


@contextmanager
def started(environment: Environment, folder: Path) -> Iterator[Program]:
    with Program(environment, folder) as program:
        program.wait_event("ready", "", "", START_TIMEOUT_S)
        yield program


@pytest.fixture
def hive(metastore: int, tmp_path: Path) -> Iterator[Program]:
    folder = tmp_path / "hive"
    command = (sys.executable, str(PROGRAMS / "hive_sql.py"), str(folder), str(metastore))
    with started(Environment(command, clean_environ() | QUICK_JAVA), folder) as program:
        yield program


@pytest.fixture
def trino(metastore: int, tmp_path: Path) -> Iterator[Program]:
    try:
        environment = install_trino()
    except NotInstallable as error:
        pytest.skip(str(error))
    command = (*environment.command, f"thrift://127.0.0.1:{metastore}")
    with started(Environment(command, environment.environ), tmp_path / "trino") as program:
        yield program


def run(engine: Program, statement: str) -> Rows:
    found: Rows = engine.call("sql", "", statement=statement)
    return found


def created(out: Path) -> dict[str, str]:
    """The statements that create the tables, as the page has them but for the folder. Shape: by table."""
    statements = statements_of(PAGE, "CREATE EXTERNAL TABLE")
    return dict(
        zip(TABLE_FIELDS, [one.replace("s3://bucket/results", f"file://{out}") for one in statements], strict=True)
    )


def expected(spark: "SparkSession", out: Path, table: str) -> Rows:
    return sorted(([*row, row["night"]] for row in read_table(spark, str(out), table).collect()), key=repr)


def columns(statement: str) -> dict[str, str]:
    (listed,) = re.findall(r"\(\n(.*?)\n\)", statement, re.DOTALL)[:1]
    return dict(one.split(" ") for one in re.split(r",\s+", listed.strip()))


def test_the_page_has_the_columns(tmp_path: Path) -> None:
    assert {table: columns(statement) for table, statement in created(tmp_path).items()} == TABLE_FIELDS
    fields = {field.name: TRINO_TYPES[str(field.type)] for field in SCHEMA}
    folders = dict.fromkeys(["dump_date", "taken_at", "member"], "varchar")
    assert columns(statements_of(DUMPS_PAGE, "CREATE TABLE")[0]) == fields | folders


@long
def test_hive_reads_the_folders_of_the_manifests(spark: "SparkSession", out: Path, hive: Program) -> None:
    (loop,) = [one.text for one in snippets_of(PAGE) if "ADD PARTITION" in one.text]
    for table, statement in created(out).items():
        hive.call("parse", "", statement=statement)  # by Hive itself
        run(hive, re.sub(r"ROW FORMAT.*(?=LOCATION)", "STORED AS PARQUET\n", statement, flags=re.DOTALL))
        here = loop.replace("/var/lib/rollcall-audit/results", str(out)).replace("findings", table)
        printed = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=False)
        for line in printed.stdout.splitlines():
            run(hive, line.removesuffix(";"))
        found = run(hive, f"SELECT * FROM {table}_files WHERE night = commit_night")
        assert sorted(found, key=repr) == expected(spark, out, table)
    assert {row[0] for row in run(hive, "SELECT night FROM findings_files")} == {OLD, MERGED, TWICE}


@long
def test_trino_reads_the_manifests(
    spark: "SparkSession", out: Path, tmp_path: Path, hive: Program, trino: Program
) -> None:
    for statement in created(out).values():
        run(hive, statement)
    call, view = statements_of(PAGE, "-- Trino")
    call = call.replace("-- Trino\n", "")
    for table in TABLE_FIELDS:
        run(trino, call.replace("findings", table))
        run(trino, view.replace("findings", table))

    def found(table: str) -> Rows:
        return sorted(run(trino, f"SELECT * FROM {table}"), key=repr)

    for table in TABLE_FIELDS:
        assert found(table) == expected(spark, out, table)
    assert {row[0] for row in found("findings")} == {MERGED, TWICE}
    (plan,) = run(trino, f"EXPLAIN SELECT * FROM findings WHERE commit_night = '{TWICE}'")[0]
    assert re.search(rf"commit_night:string:PARTITION_KEY\s+:: \[\[{TWICE}\]\]\n", plan), plan

    dump(tmp_path, TWICE, 7.0)
    judged(spark, tmp_path, TWICE)
    assert found("findings") == expected(spark, out, "findings")
    dump(tmp_path, LATER, 8.0)
    judged(spark, tmp_path, LATER)
    Results(str(out)).remove_before(TWICE, 1)
    run(trino, call)
    assert found("findings") == expected(spark, out, "findings")
    assert {row[0] for row in found("findings")} == {TWICE, LATER}


@long
def test_trino_reads_a_dump(tmp_path: Path, hive: Program, trino: Program) -> None:
    rows = [service(instances=1), instance(1, metadata={"zone": "a"})]
    members = dict.fromkeys(ADDRESSES, rows)
    write_dump(tmp_path / "dumps", members, date=NIGHT, part_format=PartFormat.PARQUET)
    assert run(hive, "SHOW TABLES") == []
    for statement in statements_of(DUMPS_PAGE, "CREATE TABLE"):
        run(trino, statement.replace("s3://bucket/dumps", f"file://{tmp_path / 'dumps'}"))
    query = "SELECT dump_date, member, count(DISTINCT taken_at), min(metadata), min(weight) FROM dumps"
    found = run(trino, f"{query} WHERE kind = 'instance' GROUP BY 1, 2 ORDER BY 2")
    assert found == [[NIGHT, one.replace(":", "_"), 2, '{"zone":"a"}', 1.0] for one in ADDRESSES]
