"""Made dumps: in the format of real ones, the same for one seed, with just the faults that were planted."""

import gzip
import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.rows.rows import FIELDS
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.layout import Round, read_night
from app.tools.audit.format.manifest import DumpState
from scripts.synthetic.dump import SyntheticDump, all_faults, make_dump
from scripts.synthetic.faults import CORRUPT_FILE, LATE
from scripts.synthetic.make_dumps import parse_faults
from scripts.synthetic.services import MemberKind
from tests.support.plain_check import check, planted

ROOT = Path(__file__).resolve().parents[4]
DATE = "2026-11-21"


def written(folder: Path, **options: Any) -> Counter[tuple[Any, ...]]:
    """Make a dump and return what was planted in it."""
    make_dump(SyntheticDump(out=str(folder), **{"instances": 2_000, **options}))
    return planted(folder / f"planted-{DATE}.jsonl")


def lines_of(one: Round, address: str) -> list[dict[str, Any]]:
    member = one.manifest.member(address)
    assert member is not None
    bodies = (gzip.decompress((Path(one.folder) / part.path).read_bytes()) for part in member.parts)
    return [json.loads(line) for body in bodies for line in body.splitlines()]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_night_without_faults_is_whole_and_agrees(tmp_path: Path) -> None:
    assert not written(tmp_path, rows_per_part=500)
    night = read_night(str(tmp_path))
    assert (night.date, len(night.rounds), night.notes) == (DATE, 2, [])
    for one in night.rounds:
        for member in one.manifest.members:
            assert (member.state, member.instances) == (DumpState.DUMPED, 2_000)
            assert len(member.parts) > 3, "parts are of bounded size"
            for part in member.parts:
                body = (Path(one.folder) / part.path).read_bytes()
                assert (part.bytes, part.sha256) == (len(body), hashlib.sha256(body).hexdigest())
                assert part.rows == len(gzip.decompress(body).splitlines()) <= 500 + 21
            rows = lines_of(one, member.address)
            assert Counter(row["kind"] for row in rows) == {"instance": 2_000, "service": member.services}
            assert all(row.keys() <= FIELDS.keys() for row in rows)
    assert not check(night)


def test_the_data_is_like_that_of_a_cluster(tmp_path: Path) -> None:
    written(tmp_path, instances=5_000)
    night = read_night(str(tmp_path))
    [one, *_] = night.rounds
    rows = {member.address: lines_of(one, member.address) for member in one.manifest.members}
    instances = [row for row in rows["10.0.0.1:8848"] if row["kind"] == "instance"]
    for field, least in (("namespace", 4), ("cluster", 3), ("weight", 3), ("client", 3), ("owner", 3), ("port", 3)):
        assert len({row[field] for row in instances}) >= least, field
    for field in ("healthy", "enabled", "ephemeral"):
        assert {row[field] for row in instances} == {True, False}, field
    assert {len(row["metadata"] or {}) for row in instances} >= set(range(7))
    with_instances = {(row["namespace"], row["service"]) for row in instances}
    services = {(row["namespace"], row["service"]) for row in rows["10.0.0.1:8848"] if row["kind"] == "service"}
    assert services > with_instances, "some are empty"
    names = Counter((namespace, service.partition("@@")[2]) for namespace, service in services)
    assert max(names.values()) == 2, "one name in two groups"
    for address, held in rows.items():
        told = [row for row in held if "beat_age_ms" in row]
        assert told
        assert all(row["owner"] == address and row["beat_age_ms"] < row["delete_timeout_ms"] for row in told)


def test_the_same_seed_makes_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    faults = all_faults(2, 3) | {LATE: 6}
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        written(tmp_path / name, seed=seed, faults=faults)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert files_of(tmp_path / "a") != files_of(tmp_path / "c")


@pytest.mark.parametrize("kind", list(MemberKind))
@pytest.mark.parametrize("members", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_planted_is_there_and_nothing_else(tmp_path: Path, kind: MemberKind, members: int, seed: int) -> None:
    faults = all_faults(6, members, kind)
    if members > 2:
        faults[LATE] = 12
    found = written(tmp_path, instances=600, members=members, seed=seed, kind=kind, faults=faults, rows_per_part=200)
    assert check(read_night(str(tmp_path))) == found
    lasting = Counter(one[0] for one in found.elements() if one[1])
    single = {
        name: count for name, count in faults.items() if name not in (LATE, CORRUPT_FILE, "MEMBERSHIP", "CORRUPT")
    }
    assert {name: lasting[name] for name in single} == single
    assert lasting["CORRUPT"] == faults.get("CORRUPT", 0) + faults.get(CORRUPT_FILE, 0)
    assert sum(not one[1] for one in found.elements()) == faults.get(LATE, 0)


def test_all_means_every_class_that_one_cluster_can_have(tmp_path: Path) -> None:
    of_one_cluster = set(FindingClass) - {FindingClass.LINK}
    assert {one[0] for one in written(tmp_path, faults=all_faults(1, 3))} == of_one_cluster


def test_one_odd_member_of_three_is_two_pairs(tmp_path: Path) -> None:
    found = written(tmp_path, faults={"MEMBERSHIP": 1})
    assert sorted(one[-1] for one in found) == [
        ("10.0.0.1:8848", "10.0.0.2:8848"),
        ("10.0.0.1:8848", "10.0.0.3:8848"),
    ]


def test_a_skewed_dump_has_one_big_service(tmp_path: Path) -> None:
    written(tmp_path, instances=3_000, shape="skewed", faults={"MISSING": 1})
    [one, *_] = read_night(str(tmp_path)).rounds
    sizes = Counter(row["service"] for row in lines_of(one, "10.0.0.1:8848"))
    assert sizes.most_common(1)[0][1] == 301


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"faults": {"GONE": 1}}, "no fault is named GONE"),
        ({"faults": {"MISSING": 1}, "members": 1}, "leave 1 members to compare"),
        ({"faults": {"MISSING": 1, "ABSENT_MEMBER": 2}}, "leave 1 members to compare"),
        ({"faults": {"MEMBERSHIP": 3}}, "at most 2 can list"),
        ({"faults": {"STALE": 1}, "kind": "catalog"}, "no OWNER, no STALE"),
        ({"faults": {"WEIGHT": 1, "ABSENT_MEMBER": 1}, "kind": "catalog"}, "need 3"),
        ({"faults": {"MISSING": 3}, "instances": 11}, "they need 12"),
        ({"shape": "round"}, "a shape is one of"),
        ({"kind": "other"}, "'other' is not a valid MemberKind"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        written(tmp_path, **options)
    assert not files_of(tmp_path)


def test_faults_are_named_with_their_counts() -> None:
    assert parse_faults("none", 3, MemberKind.ROLLCALL) == {}
    assert parse_faults("MISSING=3, EXTRA=2", 3, MemberKind.ROLLCALL) == {"MISSING": 3, "EXTRA": 2}
    assert parse_faults("all=2,ABSENT_MEMBER=0", 3, MemberKind.ROLLCALL) == all_faults(2, 3) | {"ABSENT_MEMBER": 0}
    for text in ("MISSING", "MISSING=", "MISSING=-1", ""):
        with pytest.raises(ValueError, match="is no NAME=COUNT"):
            parse_faults(text, 3, MemberKind.ROLLCALL)


def test_the_command_tells_what_it_made_and_leaves_alone_what_is_there(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    command = [
        sys.executable,
        "-m",
        "scripts.synthetic.make_dumps",
        "--out",
        tmp_path,
        "--instances",
        "500",
        "--date",
        DATE,
        "--faults",
        "WEIGHT=2",
    ]
    done = subprocess.run([*command, "--late", "1"], cwd=ROOT, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert (report["instances"], report["planted"]) == (500, {"LATE": 1, "WEIGHT": 2})
    before = files_of(tmp_path)
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
    assert files_of(tmp_path) == before
