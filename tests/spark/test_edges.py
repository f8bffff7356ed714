"""The check at its edges: no order of rows, no name of a member and no moment of a restart changes what it finds."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

pytest.importorskip("pyspark")

from app.rows.rows import ServiceSettings, client_row, record_row
from app.tools.audit.format.manifest import MANIFEST_NAME
from app.tools.audit.format.part_format import PartFormat
from tests.spark.conftest import NIGHT, Case, Checking, by_case, findings, judged, write_cases
from tests.support.dumps import ADDRESSES, Rows, instance, service, write_dump, write_round

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
FORMATS = [PartFormat.JSON, PartFormat.PARQUET]
Brief = set[tuple[Any, ...]]


def brief(folder: Path, *names: str, night: str = NIGHT) -> Brief:
    columns = ("finding_class", "lasting", "member", *names)
    return {tuple(one[name] for name in columns) for one in findings(folder, night)}


def of(name: str, *rows: Mapping[str, Any], **values: Any) -> list[dict[str, Any]]:
    """The rows of a service: its own and those of its instances."""
    own = service(f"DEFAULT_GROUP@@{name}", instances=len(rows), **values)
    return [own, *({**row, "service": own["service"]} for row in rows)]


def without(rows: Rows, *gone: Mapping[str, Any]) -> list[Any]:
    return [row for row in rows if row not in gone]


class TestOrder:
    """A list that Spark collects has an order of its own: by hashes, by partitions, by files."""

    def test_a_service_that_a_member_lacks_in_both_rounds_lasts_whatever_its_hash(
        self, tmp_path: Path, check: Checking
    ) -> None:
        rows = {
            f"empty-{number}": service(f"DEFAULT_GROUP@@empty-{number}", instances=0) | {"version": f"1.{number}.a"}
            for number in range(36)
        }
        everything = [service(instances=1), instance(1), *rows.values()]
        members: dict[str, Rows | str] = {}
        wanted = set()
        for place, address in enumerate(ADDRESSES):
            lacks = list(rows)[place::3]
            members[address] = without(everything, *[rows[name] for name in lacks])
            wanted |= {("SERVICE", True, address, f"DEFAULT_GROUP@@{name}") for name in lacks}
        write_dump(tmp_path / "dumps", members)
        assert check()[0] == 1
        assert brief(tmp_path, "service") == wanted

    def test_a_lack_lasts_although_another_member_is_the_first_to_hold_it(
        self, tmp_path: Path, check: Checking
    ) -> None:
        """Other members hold it in the two rounds: the reference is a choice, and no part of a finding."""
        record, client = record_row("namespace dev", {"name": "Dev"}, "1.1.a"), client_row("1_10.0.0.9_1", 5, ONE, 1)
        empty = service("DEFAULT_GROUP@@none", owner=None, instances=0)
        [of_none, lonely] = of("ownerless", instance(2, owner=None, version=None), owner=None)
        rows = [record, client, empty, of_none, lonely, service(instances=1), instance(1)]
        members = [*ADDRESSES, "10.0.0.4:8848", "10.0.0.5:8848"]
        changing = [record, empty, lonely]
        lacking = without(rows, *changing)
        first = dict.fromkeys(members, rows) | {ONE: lacking, members[4]: lacking}
        second = dict.fromkeys(members, rows) | {TWO: lacking, members[4]: lacking}
        write_dump(tmp_path / "dumps", first, second)
        assert check()[0] == 1
        lasting = {one for one in brief(tmp_path) if one[1]}
        assert lasting == {(name, True, members[4]) for name in ("RECORD", "SERVICE", "MISSING")}

    def test_shuffled_rows_files_and_partitions_give_the_same_findings(
        self, tmp_path: Path, check: Checking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last time in the way of many rows, in several partitions."""
        members = sickly()
        seen = []
        for number in range(2):
            chances = random.Random(number)
            shuffled = {one: chances.sample(list(rows), len(rows)) for one, rows in members.items()}
            if number == 1:
                monkeypatch.setattr("app.tools.audit.check.check.FEW_ROWS", 0)
                monkeypatch.setattr("app.tools.audit.check.check.ROWS_PER_PARTITION", 100)
            date = f"2026-11-1{number}"
            write_dump(tmp_path / "dumps", shuffled, date=date, rows_per_part=(3, 11)[number])
            assert check(night=date, out=f"out-{number}")[0] == 1
            told = findings(tmp_path, date, out=f"out-{number}")
            dated = {"since", "first_seen", "last_seen"}
            seen.append(sorted(json.dumps({k: v for k, v in one.items() if k not in dated}) for one in told))
            summary = json.loads((tmp_path / f"out-{number}/reports/night={date}/summary.json").read_text())
            samples = [[group["member"], group["findings"], group["samples"]] for group in summary["groups"]]
            examples = [{k: v for k, v in one.items() if k not in dated} for one in summary["examples"]]
            seen[-1] += [json.dumps([samples, examples, summary["by_member"]], default=str).replace(date, "")]
        assert seen[0] == seen[1]
        assert len(seen[0]) > 40


def sickly() -> dict[str, Rows]:
    """Three members, each of which departs in some of everything."""
    settings = ServiceSettings.of({"team": "a"}, 0.5, {"type": "none"}, {}, "4.2.a").fields()
    rows: list[dict[str, Any]] = []
    for number in range(12):
        rows += of(f"s{number}", *[instance(one, owner=ONE) for one in range(4)])
        rows += [service(f"DEFAULT_GROUP@@e{number}", instances=0), record_row(f"namespace {number}", {}, "1.1.a")]
        rows += [client_row(f"1_10.0.0.9_{number}", 5, ADDRESSES[number % 3], 1)]
        rows[-8] |= settings
    members: dict[str, Rows] = {}
    for place, address in enumerate(ADDRESSES):
        chances = random.Random(place)
        own = [dict(row) for row in rows if chances.random() > 0.05]
        for row in own:
            if chances.random() < 0.1:
                row["version"] = f"1.{chances.randrange(3)}.{chances.choice('abc')}"
            if row["kind"] == "instance" and chances.random() < 0.1:
                row |= {"weight": chances.choice([2.0, 3.0]), "layer": chances.choice(["both", "view"])}
            if row["kind"] == "service" and chances.random() < 0.1:
                row["owner"] = chances.choice([*ADDRESSES, "10.9.9.9:8848"])
            if row["kind"] == "record" and chances.random() < 0.2:
                row["value"] = chances.choice(["1", "2"])
        members[address] = own
    return members


def write_both_formats(folder: Path, members: Mapping[str, Rows | str]) -> list[Path]:
    """Write a night whose first round is JSON and whose second is Parquet; return the folders."""
    return [
        write_round(folder / "dumps", number, members, NIGHT, part_format=one) for number, one in enumerate(FORMATS, 1)
    ]


class TestMetadata:
    @pytest.mark.parametrize("is_large", [False, True])
    def test_no_metadata_null_and_empty_ones_are_the_same_in_both_formats(
        self, is_large: bool, tmp_path: Path, check: Checking, request: pytest.FixtureRequest
    ) -> None:
        if is_large:
            request.getfixturevalue("many")
        own = ServiceSettings.of({}, 0.5, {"type": "none"}, {}, "4.2.a").fields()
        empty = [service(instances=1) | own, instance(1, version="1.5.a")]
        null = [row | {"metadata": None} for row in empty]
        left_out = [{name: value for name, value in row.items() if name != "metadata"} for row in empty]
        write_both_formats(tmp_path, {ONE: empty, TWO: null, THREE: left_out})
        code, text = check()
        assert (code, brief(tmp_path)) == (0, set()), text


class TestFiles:
    @pytest.mark.parametrize("at", range(2))
    def test_a_file_of_either_format_that_lacks_rows_leaves_its_member_out(
        self, at: int, tmp_path: Path, check: Checking
    ) -> None:
        rows = of("orders", *[instance(number) for number in range(5)])
        folders = write_both_formats(tmp_path, {ONE: rows, TWO: rows, THREE: rows[:3]})
        change(folders[at], lambda member: member["parts"][0].update(rows=6))
        code, text = check()
        assert (code, "divergent: 1 CORRUPT; 2 of 3 members, 5 instances of 1 services" in text) == (1, True), text
        [found] = findings(tmp_path)
        assert str(found["detail"]).endswith("the file has 3 rows, but its manifest says 6")

    def test_with_two_members_it_leaves_no_verdict(self, tmp_path: Path, check: Checking) -> None:
        rows = of("orders", *[instance(number) for number in range(5)])
        folder = write_dump(tmp_path / "dumps", {ONE: rows, THREE: rows})[1]
        change(folder, lambda member: member["parts"][0].update(rows=9))
        code, text = check()
        assert code == 2
        assert "only 1 of 2 members can be compared; " in text
        assert "the file has 6 rows, but its manifest says 9" in text


def change(folder: Path, edit: Any, address: str = THREE) -> None:
    """Change what the manifest of a round says of a member."""
    manifest = orjson.loads((folder / MANIFEST_NAME).read_bytes())
    edit(next(member for member in manifest["members"] if member["address"] == address))
    (folder / MANIFEST_NAME).write_bytes(orjson.dumps(manifest))


def at_owner(number: int, **ages: int) -> dict[str, Any]:
    return instance(number) | {"delete_timeout_ms": 30_000, **ages}


def silent(more_ms: int) -> Rows:
    """An owner's instances: one after a claim, one without beats, and one of a release without ``silent_ms``."""
    claimed = at_owner(1, beat_age_ms=38_000 + more_ms, silent_ms=13_000 + more_ms)
    stuck = at_owner(2, beat_age_ms=90_000 + more_ms, silent_ms=60_000 + more_ms)
    return of("orders", claimed, stuck, at_owner(3, beat_age_ms=50_000 + more_ms))


BARE = "DEFAULT_GROUP@@without-instances"
OLDER, NEWER = (
    [service(instances=1), instance(1, version=f"1.5.{writer}:1~1"), service(BARE) | {"version": f"1.1.{writer}:1~1"}]
    for writer in "ab"
)
COPY = of("orders", *[instance(number) for number in (1, 2, 3)])
CASES = {
    "only the member with the lower writer is behind if versions differ by writer alone": Case(
        [("BEHIND", True, ONE, ""), ("BEHIND", True, ONE, "10.1.0.1")],
        {ONE: OLDER, TWO: NEWER, THREE: NEWER},
    ),
    # After a claim, as after the restart of a member, and after a pause, the age of the beat says nothing.
    "an owner is stale by the silence that its health check counts": Case(
        [("STALE", True, ONE, "10.1.0.2"), ("STALE", True, ONE, "10.1.0.3")],
        {ONE: silent(0), TWO: COPY, THREE: COPY},
        {ONE: silent(15_000), TWO: COPY, THREE: COPY},
    ),
}


@pytest.fixture(scope="module")
def cases(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("cases")
    write_cases(folder / "dumps", CASES)
    judged(spark, folder, NIGHT)
    return by_case(CASES, findings(folder))


@pytest.mark.parametrize("name", CASES)
def test_it_is_found_and_nothing_else(name: str, cases: dict[str, list[dict[str, Any]]]) -> None:
    names = ("finding_class", "lasting", "member", "ip")
    assert sorted(tuple(one[name] for name in names) for one in cases[name]) == CASES[name].found


def test_they_are_told_with_both_versions_or_the_silence(cases: dict[str, list[dict[str, Any]]]) -> None:
    behind, stale = (cases[name] for name in CASES)
    assert {(one["found"], one["expected"]) for one in behind} == {
        ("1.5.a:1~1", "1.5.b:1~1"),
        ("1.1.a:1~1", "1.1.b:1~1"),
    }
    assert {(one["ip"], one["detail"]) for one in stale} == {
        ("10.1.0.2", "not heard of for 75 s"),
        ("10.1.0.3", "not heard of for 65 s"),
    }


class TestLists:
    """The members' lists, names and moments, as the manifests have them."""

    FOUR = "10.0.0.4:8848"
    ROWS = of("orders", instance(1), instance(2))

    def test_a_member_that_all_list_and_nobody_dumped_is_absent(self, tmp_path: Path, check: Checking) -> None:
        seen = dict.fromkeys([*ADDRESSES, self.FOUR], "UP")
        write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, self.ROWS), seen=seen)
        code, text = check("--textfile", str(tmp_path / "metrics.prom"))
        assert (code, "divergent: 1 ABSENT_MEMBER; 3 of 4 members, 2 instances" in text) == (1, True), text
        assert brief(tmp_path, "detail") == {
            (
                "ABSENT_MEMBER",
                True,
                self.FOUR,
                "every dumped member lists it as UP, and it is not in the dump: name it in --members",
            )
        }
        assert "rollcall_check_members_absent 1.0" in (tmp_path / "metrics.prom").read_text()

    def test_one_that_is_down_or_that_some_list_is_in_the_first_line(self, tmp_path: Path, check: Checking) -> None:
        seen = dict.fromkeys(ADDRESSES, "UP") | {self.FOUR: "DOWN"}
        write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, self.ROWS), seen=seen)
        code, text = check()
        assert (code, "agreed: 3 of 4 listed members, 2 instances of 1 services" in text) == (0, True), text
        assert f"note: listed by some members or not as UP, and not in the dump: {self.FOUR}" in text

    def test_one_member_under_two_names_is_refused(self, tmp_path: Path, check: Checking) -> None:
        for folder in write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, self.ROWS)):
            for address in (ONE, THREE):
                change(folder, lambda member: member.update(own_address=ONE), address)
        code, text = check()
        assert (code, f"could not judge: {ONE} and {THREE} are one member, {ONE}\n" in text) == (2, True), text

    def test_an_owner_in_no_list_and_no_dump_is_told(self, tmp_path: Path, check: Checking) -> None:
        gone, absent, down = "10.9.9.9:8848", self.FOUR, "10.0.0.5:8848"
        rows = [
            row
            for name, owner in (("gone", gone), ("absent", absent), ("down", down))
            for row in of(name, instance(1, owner=owner), owner=owner)
        ]
        seen = dict.fromkeys([*ADDRESSES, absent], "UP") | {down: "DOWN"}
        members: dict[str, Rows | str] = {**dict.fromkeys(ADDRESSES, rows), absent: "connection refused"}
        write_dump(tmp_path / "dumps", members, seen=seen)
        assert check()[0] == 1
        told = {one for one in brief(tmp_path, "service", "detail") if one[0] != "ABSENT_MEMBER"}
        text = f"{', '.join(ADDRESSES)} name {gone}, which is in no list and not in the dump"
        assert told == {("OWNER", True, ONE, "DEFAULT_GROUP@@gone", text)}


class TestCounts:
    @pytest.mark.parametrize("is_large", [False, True])
    def test_rows_that_do_not_fit_each_other_are_told(
        self, is_large: bool, tmp_path: Path, check: Checking, request: pytest.FixtureRequest
    ) -> None:
        if is_large:
            request.getfixturevalue("many")
        whole = [*of("orders", instance(1), instance(2)), *of("users", instance(3)), *of("stock", instance(4))]
        without_row = [row for row in whole if row["kind"] != "service" or row["service"] != "DEFAULT_GROUP@@users"]
        counts = [
            row | {"instances": 9} if row["service"].endswith("stock") and row["kind"] == "service" else row
            for row in whole
        ]
        folders = write_dump(tmp_path / "dumps", {ONE: whole, TWO: counts, THREE: without_row, "10.0.0.4:8848": whole})
        for folder in folders:
            change(folder, lambda member: member.update(services=3, instances=5), "10.0.0.4:8848")
        code, text = check()
        assert (code, "divergent: 3 CORRUPT; 4 members, 4 instances of 3 services" in text) == (1, True), text
        details = {one["member"]: one["detail"] for one in findings(tmp_path)}
        assert details == {
            TWO: "the number of instances does not fit their rows in 1 service, such as public DEFAULT_GROUP@@stock "
            "in round 1: 9 instead of 1",
            THREE: "the rows of the service itself are missing in 1 service, such as public DEFAULT_GROUP@@users",
            "10.0.0.4:8848": "round 1 has 3 services and 4 instances, but its manifest says 3 and 5; "
            "round 2 has 3 services and 4 instances, but its manifest says 3 and 5",
        }

    def test_a_count_that_a_lost_instance_explains_is_a_note(self, tmp_path: Path, check: Checking) -> None:
        whole = [*of("orders", instance(1), instance(2)), *of("users", instance(3))]
        folders = write_dump(tmp_path / "dumps", {ONE: whole, TWO: whole, THREE: without(whole, whole[2])})
        for folder in folders:
            for address in ADDRESSES:
                change(folder, lambda member: member.update(services=2, instances=3), address)
        code, text = check()
        assert (code, "divergent: 1 MISSING; 3 members" in text) == (1, True), text
        assert f"note: {THREE}: the number of instances does not fit their rows in 1 service" in text
        assert f"note: {THREE}: round 1 has 2 services and 2 instances, but its manifest says 2 and 3" in text


class TestSamples:
    def test_a_share_is_one_of_all_or_says_at_least(
        self, tmp_path: Path, check: Checking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("app.tools.audit.check.check.EXPLAINED_MAX", 60)
        lost = of("lost", *[instance(number) for number in range(100)])
        wrong = of("wrong", *[instance(number) for number in range(100, 200)])
        light = of("wrong", *[instance(number, weight=2.0) for number in range(100, 200)])
        write_dump(tmp_path / "dumps", {ONE: [*lost, *wrong], TWO: [*lost, *wrong], THREE: light})
        _, text = check()
        page = (tmp_path / f"out/reports/night={NIGHT}/report.html").read_text()
        summary = json.loads((tmp_path / f"out/reports/night={NIGHT}/summary.json").read_text())
        assert summary["findings"]["MISSING"] == 100
        assert "divergent: at least 100 MISSING, " in text
        assert "lost all 100 instances" in page
        assert "differs on the weight of at least " in page
        groups = {one["finding_class"]: one for one in summary["groups"]}
        assert (groups["MISSING"]["at_least"], groups["WEIGHT"]["at_least"]) == (False, True)
        assert groups["WEIGHT"]["findings"] < 100
