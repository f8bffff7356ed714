"""Nights that are read by the digests of their dumps: they have the findings that a reading of all rows has."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from app.tools.audit.check.agreement import UNPROVEN
from app.tools.audit.check.evidence_rows import bucket
from app.tools.audit.format.digests import bucket_number
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


def test_spark_computes_the_bucket_of_a_service_as_the_dump_does(spark: "SparkSession") -> None:
    names = [
        ("public", "DEFAULT_GROUP@@orders"),
        ("dev", "A@@B@@käse \U0001f600"),
        ("", ""),
        ("a", "@@@b"),
        ("a", "b@@"),
    ]
    texts = F.array(*[F.struct(F.lit(one).alias("namespace"), F.lit(name).alias("service")) for one, name in names])
    found = spark.range(1).select(F.inline(texts)).select(bucket().alias("bucket")).collect()
    assert [row["bucket"] for row in found] == [bucket_number(*one) for one in names]
