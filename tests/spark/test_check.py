"""The check finds what is wrong in a dump, in its class, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.rows.summary import Summary, Verdict
from app.tools.audit.check.check import judge
from app.tools.audit.check.night_check import NightCheck
from app.tools.audit.check.results import Results
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.part_format import PartFormat
from scripts.synthetic.dump import SyntheticDump, all_faults, make_dump
from scripts.synthetic.faults import LATE
from scripts.synthetic.planting import told
from tests.spark.conftest import findings as findings_of
from tests.support.dumps import ADDRESSES, SERVICE, Rows, instance, service, write_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
Judged = tuple[Summary, list[dict[str, Any]]]
Judging = Callable[..., Judged]


@pytest.fixture
def checked(spark: "SparkSession", tmp_path: Path) -> Judging:
    """Judge the night under ``tmp_path/dumps`` and return its summary and its findings."""

    def run(**options: Any) -> Judged:
        results = Results(str(tmp_path / "out"))
        results.open()
        summary = judge(spark, NightCheck(str(tmp_path / "dumps"), **options), results)
        results.publish(summary, "")
        results.close()
        spark.catalog.clearCache()
        return summary, findings_of(tmp_path, summary.night)

    return run


@pytest.mark.parametrize(
    ("members", "kind", "seed", "few", "part_format"),
    [
        (3, "rollcall", 1, True, "parquet"),
        (5, "rollcall", 2, False, "parquet"),
        (3, "rollcall", 5, False, "json"),
        (4, "nacos-1", 3, True, "json"),
        (33, "rollcall", 6, True, "parquet"),
        (100, "rollcall", 7, True, "json"),
    ],
)
def test_every_planted_fault_is_found_in_its_class_and_nothing_else(
    members: int,
    kind: str,
    seed: int,
    few: bool,
    part_format: str,
    tmp_path: Path,
    checked: Judging,
    request: pytest.FixtureRequest,
) -> None:
    if not few:
        request.getfixturevalue("many")
    faults = {**all_faults(4 if members < 33 else 3, members, kind), LATE: 5}
    size = 3_000 if members < 33 else 250
    plan = SyntheticDump(str(tmp_path / "dumps"), size, members, seed, faults=faults, kind=kind, rows_per_part=1_000)
    written = make_dump(replace(plan, part_format=PartFormat(part_format)))
    summary, findings = checked()
    found, wanted = {told(one) for one in findings}, {one.told for one in written.planted}
    assert (found - wanted, wanted - found) == (set(), set())
    assert summary.verdict is Verdict.DIVERGENT
    assert summary.findings.keys() == {one.finding_class for one in written.planted if one.lasting}


@pytest.mark.parametrize("kind", ["rollcall", "nacos-1"])
def test_members_agree_when_nothing_lasts(kind: str, tmp_path: Path, checked: Judging) -> None:
    written = make_dump(SyntheticDump(str(tmp_path / "dumps"), 2_000, 3, 4, faults={LATE: 6}, kind=kind))
    summary, findings = checked()
    assert (summary.verdict, summary.findings, summary.verdict.exit_code) == (Verdict.AGREED, {}, 0)
    assert sum(summary.late.values()) == 6
    assert all(not one["lasting"] for one in findings)
    assert (summary.rows, summary.services, summary.instances) == (written.rows, written.services, written.instances)
    assert summary.line.startswith("agreed: 3 members, ")


def executions(spark: "SparkSession") -> int:
    """The number of SQL executions so far."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(spark._jsparkSession.sharedState().statusStore().executionsCount())


def test_a_night_costs_no_more_executions_than_it_has_findings_for(
    spark: "SparkSession", tmp_path: Path, checked: Judging
) -> None:
    for night, values, part_format in (
        ("2026-11-18", {}, PartFormat.PARQUET),
        ("2026-11-19", {}, PartFormat.JSON),
        ("2026-11-20", {"weight": 2.0}, PartFormat.PARQUET),
    ):
        own = service(instances=1)
        rows = {ONE: [own, instance(1)], TWO: [own, instance(1, **values)]}
        write_dump(tmp_path / "dumps", rows, date=night, part_format=part_format)
        before = executions(spark)
        summary, found = checked(night=night)
        cost = executions(spark) - before
        if not values:
            assert (summary.verdict, found, cost) == (Verdict.AGREED, [], 1), "the comparison alone"
            written = json.loads((tmp_path / "out" / "reports" / f"night={night}" / "summary.json").read_text())
            counts = {name: one["rows"] for name, one in written["tables"].items()}
            assert counts == dict.fromkeys(("findings", "services", "findings_json"), 0)
            for name in ("findings", "services"):
                assert spark.read.parquet(str(tmp_path / "out" / name)).count() == 0
        else:
            assert [one["finding_class"] for one in found] == ["WEIGHT"]
            assert cost <= 16


# --- single cases, by hand -----------------------------------------------------------------------


def brief(findings: list[dict[str, Any]]) -> set[tuple[str, bool, str]]:
    return {(one["finding_class"], one["lasting"], one["member"]) for one in findings}


def test_without_an_owner_the_majority_is_right(tmp_path: Path, checked: Judging) -> None:
    has = [service(owner=None), instance(1, owner=None), instance(2, owner=None, weight=2.0)]
    lacks = [service(owner=None), instance(2, owner=None), instance(3, owner=None)]
    write_dump(tmp_path / "dumps", {ONE: lacks, TWO: has, THREE: has})
    _, findings = checked()
    assert brief(findings) == {("MISSING", True, ONE), ("EXTRA", True, ONE), ("WEIGHT", True, ONE)}
    weight = next(one for one in findings if one["finding_class"] == "WEIGHT")
    assert (weight["found"], weight["expected"], weight["reference"]) == ("1.0", "2.0", TWO)


def test_the_owner_is_right_against_all_others(tmp_path: Path, checked: Judging) -> None:
    others = [service(), instance(1, healthy=False)]
    more = [*others, instance(2)]
    write_dump(tmp_path / "dumps", {ONE: [service(), instance(1), instance(3)], TWO: others, THREE: more})
    _, findings = checked()
    assert brief(findings) == {
        ("EXTRA", True, THREE),
        *((name, True, member) for name in ("HEALTH", "MISSING") for member in (TWO, THREE)),
    }


def test_a_difference_with_new_versions_in_the_second_round_is_late(tmp_path: Path, checked: Judging) -> None:
    before = [service(), instance(1, version="1.5.a", weight=2.0)]
    after = [service(), instance(1, version="1.6.a", weight=2.0)]
    behind = [service(), instance(1, version="1.4.a")]
    write_dump(tmp_path / "dumps", {ONE: before, TWO: behind}, {ONE: after, TWO: behind})
    summary, findings = checked()
    assert brief(findings) == {("WEIGHT", False, TWO)}
    assert summary.verdict is Verdict.AGREED


def test_members_that_tell_no_versions_are_judged_by_values(tmp_path: Path, checked: Judging) -> None:
    def rows(weight: float, healthy: bool) -> Rows:
        return [service(owner=None), instance(1, owner=None, version=None, weight=weight, healthy=healthy)]

    write_dump(
        tmp_path / "dumps",
        {ONE: rows(1.0, True), TWO: rows(1.0, True), THREE: rows(3.0, False)},
        {ONE: rows(1.0, True), TWO: rows(1.0, True), THREE: rows(4.0, False)},
    )
    _, findings = checked()
    assert brief(findings) == {("WEIGHT", False, THREE), ("HEALTH", True, THREE)}


def test_the_order_of_metadata_does_not_matter_and_its_values_do(tmp_path: Path, checked: Judging) -> None:
    write_dump(
        tmp_path / "dumps",
        {
            ONE: [
                service(),
                instance(1, metadata={"a": "1", "b": "2"}),
                instance(2, version="1.2.a", metadata={"a": None}),
            ],
            TWO: [service(), instance(1, metadata={"b": "2", "a": "1"}), instance(2, metadata={})],
        },
    )
    _, findings = checked()
    assert {(one["finding_class"], one["ip"]) for one in findings} == {("METADATA", "10.1.0.2")}
    assert (findings[0]["expected"], findings[0]["found"]) == ('{"a":null}', "{}")


def test_durable_and_ephemeral_are_two_instances(tmp_path: Path, checked: Judging) -> None:
    write_dump(
        tmp_path / "dumps",
        {ONE: [service(), instance(1)], TWO: [service(), instance(1, ephemeral=False, owner=None)]},
    )
    _, findings = checked()
    assert {(one["finding_class"], one["ephemeral"], one["member"]) for one in findings} == {
        ("MISSING", True, TWO),
        ("MISSING", False, ONE),
    }


def test_a_removal_between_the_rounds_is_nothing(tmp_path: Path, checked: Judging) -> None:
    write_dump(
        tmp_path / "dumps",
        {ONE: [service(), instance(1)], TWO: [service(), instance(1)]},
        {ONE: [service()], TWO: [service()]},
    )
    assert checked()[1] == []


@pytest.mark.usefixtures("many")
def test_rows_of_another_writer_are_found_too(tmp_path: Path, checked: Judging) -> None:
    """Metadata before the service's name, with a key of that name, misleads a plain search for it."""

    def line(weight: float) -> bytes:
        row = instance(1, weight=weight, version=f"1.{weight}.a")
        first = {"metadata": {"namespace": "x", "service": "other"}}
        return json.dumps(first | {name: row[name] for name in row if name != "metadata"}).encode() + b"\n"

    write_dump(tmp_path / "dumps", {ONE: [service(), line(1.0)], TWO: [service(), line(2.0)]})
    assert brief(checked()[1]) == {("WEIGHT", True, TWO)}


@pytest.mark.usefixtures("many")
def test_names_with_quotes_and_other_letters_are_found_and_told(tmp_path: Path, checked: Judging) -> None:
    name = 'DEFAULT_GROUP@@"käse"\\n'
    write_dump(
        tmp_path / "dumps",
        {ONE: [service(name), instance(1, service=name)], TWO: [service(name), instance(1, service=name, weight=5.0)]},
    )
    _, findings = checked()
    assert [(one["finding_class"], one["service"]) for one in findings] == [("WEIGHT", name)]


def test_a_class_can_be_left_out(tmp_path: Path, checked: Judging) -> None:
    write_dump(
        tmp_path / "dumps", {ONE: [service(), instance(1)], TWO: [service(), instance(1, weight=5.0), instance(2)]}
    )
    summary, findings = checked(ignored=[FindingClass.WEIGHT])
    assert brief(findings) == {("EXTRA", True, TWO)}
    assert summary.notes == ["classes not checked: WEIGHT"]


def test_the_summary_tells_services_and_pairs(tmp_path: Path, checked: Judging) -> None:
    write_dump(
        tmp_path / "dumps",
        {
            ONE: [service(instances=2), instance(1), instance(2)],
            TWO: [service(instances=1), instance(1, weight=5.0)],
        },
    )
    summary, _ = checked()
    assert summary.by_service == [{"namespace": "public", "service": SERVICE, "instances": 2, "findings": 2, "late": 0}]
    assert summary.by_pair == [{"member": TWO, "reference": ONE, "findings": 2}]
    assert summary.line == ("divergent: 1 MISSING, 1 WEIGHT; 2 members, 2 instances of 1 services; night 2026-11-20")
    assert [(one["address"], one["state"]) for one in summary.members] == [(ONE, "dumped"), (TWO, "dumped")]
