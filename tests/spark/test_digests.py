"""Nights that are read by the digests of their dumps: they have the findings that a reading of all rows has."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from app.naming.model.keys import dump_bucket, dump_order
from app.tools.audit.check.agreement import UNPROVEN
from app.tools.audit.check.evidence import weigh
from app.tools.audit.check.evidence_rows import read_rows
from app.tools.audit.format.columns import PAGE_ROWS, SCHEMA
from app.tools.audit.format.layout import read_night
from app.tools.audit.format.manifest import MANIFEST_NAME, encode_manifest
from app.tools.audit.format.part_format import PartFormat
from scripts.synthetic.dump import SyntheticDump, all_faults, make_dump
from scripts.synthetic.faults import CORRUPT_FILE, LATE
from scripts.synthetic.planting import told
from tests.spark.conftest import findings, judged
from tests.support.dumps import ADDRESSES, instance, service, write_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
NIGHT = "2026-11-20"
OF_WHOLE_NIGHTS = ("CORRUPT", "ABSENT_MEMBER", CORRUPT_FILE)
"""Faults with which all rows are read, as a member has no digests or is not compared."""


def test_every_planted_fault_is_found_as_in_a_reading_of_all_rows(spark: "SparkSession", tmp_path: Path) -> None:
    faults = {name: 2 for name in (*all_faults(2, 4), LATE) if name not in OF_WHOLE_NIGHTS}
    plan = SyntheticDump(str(tmp_path / "dumps"), 6_000, 4, 9, faults=faults, date=NIGHT, rows_per_part=2_000)
    written = make_dump(replace(plan, part_format=PartFormat.PARQUET))
    seen = []
    for full in (False, True):
        summary = judged(spark, tmp_path, NIGHT, full=full)
        assert any("read by digests: " in note for note in summary.notes) is not full
        found = findings(tmp_path, NIGHT)
        assert {told(one) for one in found} == {one.told for one in written.planted}
        seen.append(
            (
                sorted(found, key=repr),
                replace(summary, notes=[], checked_at="", took_s=0.0),
            )
        )
    assert seen[0] == seen[1]


def test_damage_and_digests_that_are_not_those_of_the_rows_are_found(spark: "SparkSession", tmp_path: Path) -> None:
    """The third member's file is damaged; the second one departs in each service, and its digests do not say so."""
    names = [f"DEFAULT_GROUP@@s{number}" for number in range(3)]
    right = [row for name in names for row in (service(name, instances=1), instance(1, service=name))]
    wrong = [row | {"weight": 2.0} if "weight" in row else row for row in right]
    members = {ONE: right, TWO: wrong, THREE: right}
    folders = write_dump(tmp_path / "dumps", members, date=NIGHT, part_format=PartFormat.PARQUET, digests=True)
    night = read_night(str(tmp_path / "dumps"))
    for folder, one in zip(folders, night.rounds, strict=True):
        digests = one.manifest.members[0].digests
        dumps = [replace(dump, digests=digests) for dump in one.manifest.members]
        (folder / MANIFEST_NAME).write_bytes(encode_manifest(replace(one.manifest, members=dumps)))
    path = folders[0] / night.rounds[0].manifest.members[2].parts[0].path
    body = bytearray(path.read_bytes())
    body[len(body) // 3] ^= 1
    path.write_bytes(bytes(body))
    summary = judged(spark, tmp_path, NIGHT)
    assert summary.findings == {"CORRUPT": 1, "SILENT_CORRUPTION": 3}
    assert {(one["finding_class"], one["member"]) for one in findings(tmp_path, NIGHT)} == {
        ("CORRUPT", THREE),
        ("SILENT_CORRUPTION", TWO),
    }
    assert summary.notes == [UNPROVEN]


def test_a_page_without_a_row_of_the_buckets_is_not_read(spark: "SparkSession", tmp_path: Path) -> None:
    names = dump_order(("public", f"DEFAULT_GROUP@@s{number}") for number in range(3 * PAGE_ROWS))
    rows = [service(name, instances=0) for _, name in names]
    write_dump(tmp_path, {ONE: rows, TWO: rows}, date=NIGHT, part_format=PartFormat.PARQUET)
    evidence = weigh(read_night(str(tmp_path)), {})
    last = dump_bucket(*names[-1])
    expected = 4 * [dump_bucket(*one) for one in names].count(last)
    path = Path(evidence.files[0].path)
    place = SCHEMA.get_field_index("service")
    column = pq.ParquetFile(path).metadata.row_group(0).column(place)
    body = bytearray(path.read_bytes())
    body[column.data_page_offset + 500] ^= 1
    path.write_bytes(bytes(body))
    assert read_rows(spark, str(tmp_path), evidence, {last}).select("service").distinct().count() * 4 == expected
    with pytest.raises((PySparkException, Py4JJavaError), match=r"FAILED_READ_FILE"):
        read_rows(spark, str(tmp_path), evidence).select("service").distinct().count()
