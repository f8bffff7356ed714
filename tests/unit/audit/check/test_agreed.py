"""Small nights that agree by their digests: their verdict needs no Spark, and nothing else gets one without it."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from app.rows.summary import Summary
from app.tools.audit.check import agreed, command, session
from app.tools.audit.check.agreed import judge_agreed
from app.tools.audit.check.agreement import UNPROVEN
from app.tools.audit.check.night_check import NightCheck
from app.tools.audit.check.results import Results
from app.tools.audit.format.commits import NightTable, TableFile
from app.tools.audit.format.layout import read_night
from app.tools.audit.format.manifest import MANIFEST_NAME, Manifest, MemberDump, decode_manifest, encode_manifest
from app.tools.audit.format.part_format import PartFormat
from tests.support.dumps import ADDRESSES, Rows, instance, service, write_dump

ONE, TWO, THREE = ADDRESSES
NIGHT, SUNDAY = "2026-11-20", "2026-11-22"
ROWS = [service(instances=2), instance(1), instance(2)]
Members = Mapping[str, Rows | str]


def judged(folder: Path, members: Members | None = None, date: str = NIGHT, **options: Any) -> Summary | None:
    """Return the summary without Spark of a night that is written for this; None if it needs Spark."""
    write_dump(
        folder / "dumps", members or {ONE: ROWS, TWO: ROWS}, date=date, part_format=PartFormat.PARQUET, digests=True
    )
    return again(folder, date, **options)[0]


def again(folder: Path, date: str = NIGHT, **options: Any) -> tuple[Summary | None, NightCheck]:
    results = Results(str(folder / "out"))
    results.open()
    return judge_agreed(NightCheck(str(folder / "dumps"), date, **options), results)


def rewritten(folder: Path, change: Callable[[MemberDump], MemberDump], number: int = 1) -> None:
    """Change the last member in the manifest of a round."""
    one = read_night(str(folder / "dumps")).rounds[number]
    path = Path(one.folder, MANIFEST_NAME)
    manifest: Manifest = decode_manifest(path.read_bytes())
    *others, last = manifest.members
    path.write_bytes(encode_manifest(replace(manifest, members=[*others, change(last)])))


def test_the_command_has_the_verdict_the_page_and_the_tables_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "open_session", lambda *_, **__: pytest.fail("Spark was asked for"))
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: ROWS}, date=NIGHT, part_format=PartFormat.PARQUET, digests=True)
    textfile = tmp_path / "rollcall.prom"
    arguments = ["--dumps", str(tmp_path / "dumps"), "--out", str(tmp_path / "out"), "--textfile", str(textfile)]
    assert command.main([*arguments, "--ignore", "WEIGHT"]) == 0
    told = capsys.readouterr()
    line = f"agreed: 2 members, 2 instances of 1 services; night {NIGHT}"
    assert re.fullmatch(rf"{line}(; took [0-9.]+ s)?\n", told.out)
    assert "note: read by digests: they are equal at all members in both rounds" in told.err
    assert "note: classes not checked: WEIGHT" in told.err
    folder = tmp_path / "out" / "reports" / f"night={NIGHT}"
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["verdict"], summary["rows"], summary["compared"]) == ("agreed", 12, 2)
    assert summary["line"] == line
    assert {name: table["rows"] for name, table in summary["tables"].items()} == {
        "findings": 0,
        "services": 0,
        "findings_json": 0,
    }
    assert "agreed" in (folder / "report.html").read_text()
    assert 'rollcall_check_verdict{verdict="agreed"} 1' in textfile.read_text()


@pytest.mark.parametrize(
    ("members", "options"),
    [
        ({ONE: ROWS, TWO: [*ROWS[:2], instance(2, weight=2.0)]}, {}),
        ({ONE: ROWS, TWO: ROWS[:1]}, {}),
        ({ONE: ROWS, TWO: ROWS, THREE: "connection refused"}, {}),
        ({ONE: ROWS, TWO: ROWS, THREE: []}, {}),
        ({ONE: ROWS}, {}),
        ({ONE: [*ROWS, instance(1)], TWO: [*ROWS, instance(1)]}, {}),
        ({ONE: ROWS, TWO: ROWS}, {"full": True}),
        ({ONE: ROWS, TWO: ROWS}, {"linked": ("elsewhere",)}),
        ({ONE: ROWS, TWO: ROWS}, {"run": "another"}),
        ({ONE: ROWS, TWO: ROWS}, {"suppressions": "missing.toml"}),
        ({ONE: ROWS, TWO: ROWS}, {"date": SUNDAY}),
    ],
)
def test_what_needs_spark(members: Members, options: dict[str, Any], tmp_path: Path) -> None:
    assert judged(tmp_path, members, **options) is None


def test_many_rows_need_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreed, "FEW_ROWS", 11)
    assert judged(tmp_path) is None
    monkeypatch.setattr(agreed, "FEW_ROWS", 12)
    assert again(tmp_path)[0] is not None


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_file_needs_spark(number: int, tmp_path: Path) -> None:
    assert judged(tmp_path) is not None
    one = read_night(str(tmp_path / "dumps")).rounds[number]
    path = Path(one.folder, one.manifest.members[1].parts[0].path)
    body = bytearray(path.read_bytes())
    body[len(body) // 3] ^= 1
    path.write_bytes(bytes(body))
    assert again(tmp_path)[0] is None
    path.unlink()
    assert again(tmp_path)[0] is None


def test_faults_of_the_night_before_need_spark(tmp_path: Path) -> None:
    first = judged(tmp_path)
    assert first is not None
    results = Results(str(tmp_path / "out"))
    results.begin(NIGHT)
    file = TableFile("faults/x.parquet", 1, 1, "0" * 64)
    results._tables = {"faults": NightTable(1, (file,))}
    results.publish(first, "")
    assert judged(tmp_path, date="2026-11-21") is None
    results.begin(NIGHT)
    results.publish(first, "")
    assert again(tmp_path, "2026-11-21")[0] is not None


def test_digests_that_are_not_those_of_the_rows_have_all_rows_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second member's rows differ, and its digests do not say so."""
    monkeypatch.setattr(agreed.secrets, "choice", lambda choices: choices[-1])
    right = {ONE: ROWS, TWO: ROWS}
    assert judged(tmp_path, right) is not None
    digests = read_night(str(tmp_path / "dumps")).rounds[1].manifest.members[1].digests
    other = [*ROWS[:2], instance(2, weight=2.0)]
    assert judged(tmp_path, {ONE: ROWS, TWO: other}) is None
    for number in (0, 1):
        rewritten(tmp_path, lambda dump: replace(dump, digests=digests), number)
    summary, check = again(tmp_path)
    assert (summary, check.full, check.notes) == (None, True, (UNPROVEN,))


def test_suppressions_have_their_notes(tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text('[[suppress]]\nclass = "WEIGHT"\nuntil = 2026-12-01\nreason = "known"\n')
    summary = judged(tmp_path, suppressions=str(known))
    assert summary is not None
    assert "suppressions, entry 1 matched no lasting WEIGHT; is it still needed? known" in summary.notes
