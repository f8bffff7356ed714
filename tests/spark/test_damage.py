"""Damaged dumps and folders: each has a verdict with a name, and no earlier night is touched."""

import gzip
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

pytest.importorskip("pyspark")

from app.tools.audit.format.manifest import MANIFEST_NAME
from tests.spark.conftest import NIGHT, Checking, checked, findings
from tests.support.dumps import ADDRESSES, instance, service, write_dump, write_round
from tests.support.followed_page import steps_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [service(), *[instance(number) for number in range(1, 30)]]
EVERYONE = dict.fromkeys(ADDRESSES, ROWS)


def part(folder: Path, address: str = THREE) -> Path:
    return next(folder.glob(f"member={address.replace(':', '_')}/part-*"))


def rewrite(folder: Path, body: bytes, address: str = THREE) -> None:
    """Replace a member's file, and have the manifest say that this is right."""
    path = part(folder, address)
    path.write_bytes(body)
    sha256 = hashlib.sha256(body).hexdigest()
    change(folder, lambda member: member["parts"][0].update(bytes=len(body), sha256=sha256), address)


def change(folder: Path, edit: Callable[[dict], None], address: str = THREE) -> None:  # type: ignore[type-arg]
    manifest = orjson.loads((folder / MANIFEST_NAME).read_bytes())
    edit(next(member for member in manifest["members"] if member["address"] == address))
    (folder / MANIFEST_NAME).write_bytes(orjson.dumps(manifest))


CUT, BROKEN, HTML, ROWS_LIE, HASH_LIE, SILENT = (f"10.0.0.{number}:8848" for number in range(11, 17))
EARLIER = "2026-11-19"


@dataclass(frozen=True)
class DamagedNight:
    """The check of a night with a member for each kind of damage, and of one before it."""

    folder: Path
    code: int
    text: str
    before: dict[str, tuple[int, str]]
    after: dict[str, tuple[int, str]]

    @property
    def found(self) -> dict[str, tuple[str, str]]:
        """The class and the detail of each member's lasting finding."""
        lasting = [one for one in findings(self.folder) if one["lasting"]]
        told = {one["member"]: (one["finding_class"], one["detail"]) for one in lasting}
        assert len(told) == len(lasting)
        return told


@pytest.fixture(scope="module")
def damaged(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> DamagedNight:
    folder = tmp_path_factory.mktemp("damaged")
    write_dump(folder / "dumps", EVERYONE | {THREE: [*ROWS, instance(40)]}, date=EARLIER)
    assert checked(spark, folder, night=EARLIER)[0] == 1
    before = state(folder / "out")
    members = dict.fromkeys([ONE, TWO, CUT, BROKEN, HTML, ROWS_LIE, HASH_LIE], ROWS)
    first, second = write_dump(folder / "dumps", members | {SILENT: "no answer within 10 s"})
    part(second, CUT).write_bytes(part(second, CUT).read_bytes()[:-20])
    rewrite(first, part(first, BROKEN).read_bytes()[:-20], BROKEN)
    rewrite(first, gzip.compress(b"<html>\n" * 30, mtime=0), HTML)
    change(second, lambda member: member["parts"][0].update(rows=31), ROWS_LIE)
    change(second, lambda member: member["parts"][0].update(sha256="0" * 64), HASH_LIE)
    code, text = checked(spark, folder, "--textfile", str(folder / "rollcall.prom"), "--keep", "3")
    return DamagedNight(folder, code, text, before, state(folder / "out"))


@pytest.mark.parametrize(
    ("member", "detail"),
    [
        pytest.param(CUT, "manifest says", id="a file that is cut off"),
        pytest.param(BROKEN, "cannot be read to its end", id="a file that breaks off although its hash is right"),
        pytest.param(HTML, "30 lines are not rows, such as one: <html>", id="a file that is not JSON"),
        pytest.param(ROWS_LIE, "the file has 30 rows, but its manifest says 31", id="a manifest that lies about rows"),
        pytest.param(HASH_LIE, "its sha256 is not the one in the manifest", id="a manifest that lies about a hash"),
    ],
)
def test_a_damaged_file_is_named(member: str, detail: str, damaged: DamagedNight) -> None:
    finding_class, told = damaged.found[member]
    assert finding_class == "CORRUPT"
    assert detail in told


def test_a_member_that_did_not_answer_is_absent(damaged: DamagedNight) -> None:
    assert damaged.found[SILENT] == ("ABSENT_MEMBER", "no answer within 10 s")


def test_the_others_are_compared_and_nothing_else_is_found(damaged: DamagedNight) -> None:
    assert damaged.found.keys() == {CUT, BROKEN, HTML, ROWS_LIE, HASH_LIE, SILENT}
    assert (damaged.code, "divergent: 1 ABSENT_MEMBER, 5 CORRUPT; 3 of 8 members, " in damaged.text) == (1, True)


def test_earlier_nights_are_not_touched_by_a_damaged_one(damaged: DamagedNight) -> None:
    assert {path: damaged.after.get(path) for path in damaged.before} == damaged.before


def test_textfile_and_report_are_written(damaged: DamagedNight) -> None:
    assert 'rollcall_check_verdict{verdict="divergent"} 1' in (damaged.folder / "rollcall.prom").read_text()
    report = re.search(r"report: (\S+)", damaged.text)
    assert report
    assert "CORRUPT" in Path(report[1]).read_text()


def test_with_two_members_and_one_damaged_there_is_no_verdict(tmp_path: Path, check: Checking) -> None:
    folder = write_dump(tmp_path / "dumps", {ONE: ROWS, THREE: ROWS})[0]
    part(folder).write_bytes(b"")
    code, text = check()
    assert code == 2
    assert re.search(rf"could not judge: only 1 of 2 members can be compared; {THREE}: round 1, .* has 0 bytes", text)
    page = (tmp_path / "out" / "reports" / f"night={NIGHT}" / "report.html").read_text()
    dumped, checked = (" ".join(step.command) for step in steps_of(page)[1:])
    assert dumped == f"dump --members {ONE},{THREE} --out {tmp_path / 'dumps'} --date {NIGHT}"
    assert checked.startswith("check ")


def test_a_field_that_is_unknown_is_told_and_not_compared(tmp_path: Path, check: Checking) -> None:
    newer = [row | {"zone": "a"} for row in ROWS]
    write_dump(tmp_path / "dumps", {ONE: newer, TWO: ROWS})
    code, text = check()
    assert code == 0
    assert f"note: the dump of {ONE} has unknown fields, which are not compared: zone" in text


def test_a_manifest_that_is_damaged(tmp_path: Path, check: Checking) -> None:
    folder = write_dump(tmp_path / "dumps", EVERYONE)[1]
    (folder / MANIFEST_NAME).write_bytes(b'{"format": 1, "run": 7')
    code, text = check()
    assert code == 2
    assert re.search(r"the manifest of taken_at=\S+ cannot be read: it is not JSON", text)
    change_me = write_round(tmp_path / "dumps2", 1, EVERYONE, NIGHT)
    manifest = orjson.loads((change_me / MANIFEST_NAME).read_bytes())
    manifest["members"][0]["parts"][0]["path"] = "../../secret.jsonl.gz"
    (folder / MANIFEST_NAME).write_bytes(orjson.dumps(manifest))
    code, text = check()
    assert code == 2
    assert "field 'members.0.parts.0.path'" in text


def test_a_dump_that_is_half_written(tmp_path: Path, check: Checking) -> None:
    folder = write_dump(tmp_path / "dumps", EVERYONE)[1]
    (folder / MANIFEST_NAME).unlink()
    code, text = check()
    assert code == 2
    assert "has no manifest: its dump is still running or was interrupted" in text
    assert "only round 1 of 2" in text


def test_a_night_without_a_dump(tmp_path: Path, check: Checking) -> None:
    write_dump(tmp_path / "dumps", EVERYONE)
    code, text = check(night="2026-11-21")
    assert code == 2
    assert "could not judge: no dump of the night 2026-11-21" in text
    assert '"unjudged"' in (tmp_path / "out" / "reports" / "night=2026-11-21" / "summary.json").read_text()


def test_no_night_without_a_verdict_replaces_one_with_it(tmp_path: Path, check: Checking) -> None:
    folders = write_dump(tmp_path / "dumps", EVERYONE)
    assert check()[0] == 0
    before = state(tmp_path / "out")
    (folders[1] / MANIFEST_NAME).unlink()
    assert check()[0] == 2
    assert state(tmp_path / "out") == before


def state(folder: Path) -> dict[str, tuple[int, str]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_output_folder_that_takes_no_files(tmp_path: Path, check: Checking) -> None:
    write_dump(tmp_path / "dumps", EVERYONE)
    (tmp_path / "file").write_text("")
    code, text = check(out="file")
    assert code == 2
    assert f"could not judge: cannot write to {tmp_path / 'file'}: " in text
    if os.getuid() == 0:
        return  # root writes everywhere
    (tmp_path / "closed").mkdir(mode=0o500)
    code, text = check(out="closed")
    assert (code, "Permission denied" in text) == (2, True)
