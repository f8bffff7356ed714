"""Findings are grouped for the report by Spark: a lost service is one row, and of any number few come to the driver."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from app.rows.summary import (
    EXAMPLES_MAX,
    GROUPS_LATE_MAX,
    GROUPS_MAX,
    NAME_CHARS_MAX,
    SAMPLES_MAX,
    SERVICES_MAX,
    VALUE_CHARS_MAX,
    Summary,
    decode_summary,
)
from app.tools.audit.format.file_systems import place
from app.tools.audit.report.report import PAGE_BYTES_MAX
from tests.spark.conftest import NIGHT, Checking
from tests.support.dumps import ADDRESSES, SERVICE, instance, service, write_dump, write_round

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
STOCK = "DEFAULT_GROUP@@stock"


def summary_of(folder: Path) -> Summary:
    return decode_summary((folder / "out" / "reports" / f"night={NIGHT}" / "summary.json").read_bytes())


def page_of(folder: Path) -> str:
    return (folder / "out" / "reports" / f"night={NIGHT}" / "report.html").read_text()


def brief(groups: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("finding_class", "lasting", "service", "member", "findings", "instances")
    return [tuple(one[name] for name in names) for one in groups]


def write_sick_member(folder: Path) -> None:
    """The third member lost a whole service of 40, lacks 3 of another one's 10, and has 2 that it should not have."""
    lost = [service(STOCK, instances=40), *[instance(number, service=STOCK) for number in range(100, 140)]]
    kept = [instance(number) for number in range(10)]
    whole = [*lost, service(instances=10), *kept]
    extra = [instance(number) for number in (50, 51)]
    sick = [service(instances=9), *kept[:7], *extra]
    write_dump(folder / "dumps", {ONE: whole, TWO: whole, THREE: sick})


def test_a_lost_service_is_one_group_that_comes_first_in_summary_and_page(tmp_path: Path, check: Checking) -> None:
    write_sick_member(tmp_path)
    code, _ = check()
    summary = summary_of(tmp_path)
    assert code == 1
    assert brief(summary.groups) == [
        ("MISSING", True, STOCK, THREE, 40, 40),
        ("MISSING", True, SERVICE, THREE, 3, 10),
        ("EXTRA", True, SERVICE, THREE, 2, 10),
    ]
    lost, lacks, _ = summary.groups
    assert len(lost["samples"]) == SAMPLES_MAX
    assert [one["ip"] for one in lacks["samples"]] == ["10.1.0.7", "10.1.0.8", "10.1.0.9"]
    assert lacks["samples"][0].keys() >= {"port", "reference", "found", "expected", "detail"}
    assert (lost["first_seen"], lost["nights_open"], lost["new"]) == (NIGHT, 1, 40)
    counted = [(one["finding_class"], one["findings"], one["groups"], one["members"]) for one in summary.by_class]
    assert counted == [("MISSING", 43, 2, 1), ("EXTRA", 2, 1, 1)]
    members = [(one["member"], one["finding_class"], one["findings"], one["services"]) for one in summary.by_member]
    assert members == [(THREE, "MISSING", 43, 2), (THREE, "EXTRA", 2, 1)]
    assert (summary.dumps, summary.results) == (str(tmp_path / "dumps"), str(tmp_path / "out"))
    # The page tells the same of the sick member, and has its commands.
    page = page_of(tmp_path)
    assert "lacks 43 instances, has 2 that it should not have" in page
    assert "lost all 40 instances" in page
    assert "lacks 3 of 10 instances" in page
    assert page.index("lost all 40") < page.index("lacks 3 of 10")
    assert f'heal <span class="word">--service</span> {STOCK}' in page


def test_many_findings_stay_bounded(tmp_path: Path, check: Checking) -> None:
    whole, sick, services = [], [], 500
    for number in range(services):
        name = f"DEFAULT_GROUP@@service-{number}"
        has = [instance(one, service=name) for one in range(5)]
        whole += [service(name, instances=5), *has]
        wrong = instance(0, service=name, weight=9.0)
        sick += [service(name, instances=3), wrong, has[1], instance(9, service=name)]
    write_dump(tmp_path / "dumps", {ONE: whole, TWO: whole, THREE: sick})
    assert check()[0] == 1
    summary = summary_of(tmp_path)
    assert summary.findings == {"MISSING": 3 * services, "WEIGHT": services, "EXTRA": services}
    groups = {name: [one for one in summary.groups if one["finding_class"] == name] for name in summary.findings}
    assert [len(of_class) for of_class in groups.values()] == [GROUPS_MAX] * 3
    assert {(one["findings"], one["instances"], len(one["samples"])) for one in groups["MISSING"]} == {(3, 5, 3)}
    counted = {one["finding_class"]: (one["findings"], one["groups"]) for one in summary.by_class}
    assert counted == {name: (findings, services) for name, findings in summary.findings.items()}
    assert {one["finding_class"]: one["findings"] for one in summary.by_member} == summary.findings
    assert (len(summary.examples), len(summary.by_service)) == (EXAMPLES_MAX, SERVICES_MAX)
    page = page_of(tmp_path)
    assert len(page.encode()) <= PAGE_BYTES_MAX
    assert page.count(f"{services - GROUPS_MAX} further groups are not shown") == 3


def test_late_findings_are_grouped_apart_and_fewer_are_kept(tmp_path: Path, check: Checking) -> None:
    names = [f"DEFAULT_GROUP@@service-{number}" for number in range(GROUPS_LATE_MAX + 5)]
    before = [row for name in names for row in (service(name), instance(1, service=name))]
    after = [row for name in names for row in (service(name), instance(1, service=name, weight=2.0, version="1.999.a"))]
    write_dump(tmp_path / "dumps", {ONE: before, TWO: before}, {ONE: after, TWO: before})
    assert check()[0] == 0
    summary = summary_of(tmp_path)
    assert summary.late == {"WEIGHT": len(names)}
    assert [one["lasting"] for one in summary.groups] == [False] * GROUPS_LATE_MAX
    assert "5 further groups are not shown" in page_of(tmp_path)


def test_values_of_a_megabyte_come_cut_to_where_they_differ(tmp_path: Path, check: Checking) -> None:
    """In a second service one value is the start of the other."""
    same = "x" * 1_000_000
    rows = [
        [
            service(),
            instance(1, metadata={"a": f"{same}{end}"}),
            service(STOCK),
            instance(2, service=STOCK, metadata={"a": "y" * count}),
        ]
        for end, count in (("green", 1), ("blue", 5_000))
    ]
    write_dump(tmp_path / "dumps", {ONE: rows[0], TWO: rows[1]})
    check()
    summary = summary_of(tmp_path)
    samples = {group["service"]: group["samples"] for group in summary.groups}
    examples = {one["service"]: one for one in summary.examples}
    (large,), (other,) = samples[SERVICE], samples[STOCK]
    for one in (large, examples[SERVICE]):
        assert (one["found"], one["expected"]) == (f'…{"x" * 20}blue"}}', f'…{"x" * 20}green"}}')
    assert other["expected"] == '…1.0 metadata={"a":"y"}'
    assert (len(other["found"]), other["found"][-1]) == (VALUE_CHARS_MAX, "…")
    (path,) = (tmp_path / "out" / "findings_json" / f"night={NIGHT}").glob("*.json")
    whole = [json.loads(line) for line in path.read_text().splitlines()]
    assert max(len(one["found"]) for one in whole) > len(same), "the findings have them whole"
    assert len(page_of(tmp_path)) < 100_000


def test_texts_of_a_liar_are_escaped_cut_and_in_no_command(tmp_path: Path, check: Checking) -> None:
    name = "DEFAULT_GROUP@@</pre><script>alert(1)</script>\x1b[201~\n'; reboot; '"
    long = "DEFAULT_GROUP@@" + "z" * 3_000
    whole = [row for one in (name, long) for row in (service(one), instance(1, service=one))]
    write_dump(tmp_path / "dumps", {ONE: whole, TWO: whole, THREE: []})
    check()
    summary, page = summary_of(tmp_path), page_of(tmp_path)
    assert [len(one["service"]) for one in summary.groups] == [len(name), NAME_CHARS_MAX]
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "rollcall heal" not in page
    assert "rollcall compare" not in page


def test_a_dispute_of_member_lists_counts_at_both_members(tmp_path: Path, check: Checking) -> None:
    rows = [service(), instance(1)]
    for number in (1, 2):
        write_round(tmp_path / "dumps", number, dict.fromkeys(ADDRESSES, rows), NIGHT)
    manifests = sorted((tmp_path / "dumps").rglob("_manifest.json"))
    for path in manifests:
        manifest = json.loads(path.read_text())
        manifest["members"][2]["members"][0]["state"] = "DOWN"
        path.write_text(json.dumps(manifest))
    assert check()[0] == 1
    members = {one["member"]: one["findings"] for one in summary_of(tmp_path).by_member}
    assert members == {ONE: 1, TWO: 1, THREE: 2}
    assert "1 of 3 members differs" in page_of(tmp_path)


def test_a_folder_is_named_whole_and_without_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place("out") == place(f"file://{tmp_path}/out")
    assert place("out") == str(tmp_path / "out")
    assert place("s3://key:secret@bucket/out") == "s3://bucket/out"
