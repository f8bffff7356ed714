"""The nights for which the check is there: members that lost all, that answer in one round, that disagree for good."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.rows.rows import ServiceSettings, client_row, record_row
from tests.spark.conftest import NIGHT, Case, Checking, by_case, findings, judged, write_cases
from tests.support.dumps import ADDRESSES, Rows, instance, service, write_dump
from tests.support.tiny_server import Given, tiny_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [service(instances=2), instance(1), instance(2)]


Found = list[dict[str, Any]]


def brief(found: Found) -> list[tuple[Any, ...]]:
    names = ("finding_class", "lasting", "member", "ip", "found", "expected")
    return sorted(tuple(one[name] for name in names) for one in found)


def told(tmp_path: Path) -> list[tuple[Any, ...]]:
    return brief(findings(tmp_path))


VALUES = "healthy=true enabled=true weight=1.0 metadata={}"


class TestEmptyMembers:
    @pytest.mark.parametrize(("empty", "is_large"), [(ONE, False), (THREE, True)], ids=["the owner", "another of many"])
    def test_a_member_that_lost_all_lacks_each_instance(
        self, empty: str, is_large: bool, tmp_path: Path, check: Checking, request: pytest.FixtureRequest
    ) -> None:
        if is_large:
            request.getfixturevalue("many")
        write_dump(tmp_path / "dumps", {one: [] if one == empty else ROWS for one in ADDRESSES})
        code, text = check()
        assert code == 1
        assert f"note: {empty} answered, but has no data" in text
        assert "divergent: 2 MISSING; 3 members, 2 instances of 1 services" in text
        assert told(tmp_path) == [("MISSING", True, empty, f"10.1.0.{number}", "absent", VALUES) for number in (1, 2)]
        owner_lacks = {one["detail"] for one in findings(tmp_path)} == {"the owner lacks it"}
        assert owner_lacks is (empty == ONE)

    def test_two_members_that_lost_all_do_not_outvote_the_owner(self, tmp_path: Path, check: Checking) -> None:
        write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: [], THREE: []})
        code, _ = check()
        assert code == 1
        assert {(one[0], one[2]) for one in told(tmp_path)} == {("MISSING", TWO), ("MISSING", THREE)}

    def test_the_last_member_that_holds_anything_is_right_although_the_owner_lost_it(
        self, tmp_path: Path, check: Checking
    ) -> None:
        """What is left must never be called too much: whoever then removes it removes the last copy."""
        rows = [record_row("namespace dev", {"name": "Dev"}), client_row("1_10.0.0.9_1", 5, ONE, 1), service("g@@none")]
        write_dump(tmp_path / "dumps", {ONE: [], TWO: [*ROWS, *rows], THREE: []})
        code, _ = check()
        assert code == 1
        assert {(one[0], one[2]) for one in told(tmp_path)} == {
            (finding_class, member)
            for finding_class in ("MISSING", "SERVICE", "RECORD", "CLIENT")
            for member in (ONE, THREE)
        }
        assert all(one["reference"] == TWO for one in findings(tmp_path))

    def test_members_that_all_hold_nothing_agree_and_it_is_said(self, tmp_path: Path, check: Checking) -> None:
        write_dump(tmp_path / "dumps", {one: [] for one in ADDRESSES})
        code, text = check()
        assert (code, text.count("answered, but has no data")) == (0, 3)
        assert "agreed: 3 members, 0 instances of 0 services" in text


class TestNoVerdictWithoutProof:
    def test_a_member_that_was_absent_in_one_round_or_both_is_a_finding_and_as_owner_no_dispute(
        self, tmp_path: Path, check: Checking
    ) -> None:
        """The third member is absent in both rounds, and all others name it as the owner of a service."""
        of_absent = [
            service("DEFAULT_GROUP@@of-absent", THREE),
            instance(3, service="DEFAULT_GROUP@@of-absent", owner=THREE),
        ]
        rows, refused = [*ROWS, *of_absent], "connection refused"
        first, second = "10.0.0.4:8848", "10.0.0.5:8848"
        members: dict[str, Rows | str] = {ONE: rows, TWO: rows, THREE: refused}
        write_dump(
            tmp_path / "dumps", members | {first: refused, second: rows}, members | {first: rows, second: refused}
        )
        code, text = check()
        assert code == 1
        assert "divergent: 3 ABSENT_MEMBER; 2 of 5 members, 3 instances" in text
        assert {(one["finding_class"], one["member"], one["detail"]) for one in findings(tmp_path)} == {
            ("ABSENT_MEMBER", THREE, refused),
            ("ABSENT_MEMBER", first, f"in one round only: {refused}"),
            ("ABSENT_MEMBER", second, f"in one round only: {refused}"),
        }

    def test_whatever_fails_ends_as_unjudged(
        self, tmp_path: Path, check: Checking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Metrics and alert of a night must not go on saying what an earlier one was."""
        write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, ROWS))
        metrics = tmp_path / "rollcall.prom"
        assert check("--textfile", str(metrics))[0] == 0
        assert 'rollcall_check_verdict{verdict="agreed"} 1.0' in metrics.read_text()

        def fail(*_: object) -> None:
            raise KeyError("member=10.0.0.3_8848")

        monkeypatch.setattr("app.tools.audit.check.check.flag", fail)
        with tiny_server(lambda _: Given()) as tiny:
            code, text = check("--textfile", str(metrics), "--alert-url", f"http://{tiny.address}/")
        assert code == 2
        assert "could not judge: the check failed with KeyError: 'member=10.0.0.3_8848' (test_worst_nights.py:" in text
        assert 'rollcall_check_verdict{verdict="unjudged"} 1.0' in metrics.read_text()
        assert 'rollcall_check_verdict{verdict="agreed"} 0.0' in metrics.read_text()
        (alert,) = [json.loads(received.body) for received in tiny.received]
        assert (alert["night"], alert["verdict"]) == (NIGHT, "unjudged")


SETTINGS = ServiceSettings.of({"team": "a"}, 0.5, {"type": "none"}, {}, "4.2.a").fields()
EMPTY = service("DEFAULT_GROUP@@empty", instances=0)
ODD = {"version": "1.101.a", "weight": 2.0, "enabled": False, "metadata": {"a": "b"}}
ODD_VALUES = 'healthy=true enabled=false weight=2.0 metadata={"a":"b"}'
STRANGER = "10.9.9.9:8848"
ALL = [service(), instance(1)]


def alike(*departing: tuple[str, Rows], rows: Rows = ALL) -> dict[str, Rows]:
    """The rows of the three members: the same but for those that depart."""
    return {**dict.fromkeys(ADDRESSES, rows), **dict(departing)}


def at_versions(*versions: str) -> dict[str, Rows]:
    return {one: [service(), instance(1, version=version)] for one, version in zip(ADDRESSES, versions, strict=True)}


def wrong_owner(named: str) -> Case:
    departing = THREE, [service(owner=named), instance(1)]
    detail = f"{THREE} names {named}, and {ONE} claims to be responsible"
    return Case([("OWNER", True, THREE, "", THREE, ONE)], alike(departing), detail=detail)


CASES = {
    "values that differ under one version are silent corruption": Case(
        [("SILENT_CORRUPTION", True, TWO, "10.1.0.1", ODD_VALUES, VALUES)],
        alike((TWO, [service(), instance(1, **ODD)]), rows=[service(), instance(1, version="1.101.a")]),
    ),
    "a lower version with the same values in both rounds is behind, by numbers and not texts": Case(
        [("BEHIND", True, ONE, "10.1.0.1", "1.9.a", "1.10.a")], at_versions("1.9.a", "1.10.a", "1.10.a")
    ),
    "a version that catches up is nothing, and not late": Case(
        [], at_versions("1.4.a", "1.3.a", "1.4.a"), at_versions("1.5.a", "1.4.a", "1.5.a")
    ),
    "a list of a lower version is behind": Case(
        [("BEHIND", True, TWO, "", "1.0.a", "1.1.a")],
        alike((TWO, [service() | {"version": "1.0.a"}, instance(1)])),
    ),
    "a service without instances at one member only": Case(
        [("SERVICE", True, TWO, "", "there, without instances", "absent")], alike((TWO, [*ALL, EMPTY]))
    ),
    "a service without instances that one member lacks in one round is late": Case(
        [("SERVICE", False, TWO, "", "absent", "there, without instances")],
        alike((TWO, ALL), rows=[*ALL, EMPTY]),
        alike(rows=[*ALL, EMPTY]),
    ),
    "an instance that the owner alone lacks is not too many elsewhere": Case(
        [("MISSING", True, ONE, "10.1.0.1", "absent", VALUES)],
        alike((ONE, [service()])),
        detail="the owner lacks it",
    ),
    "a member that names another member as the owner": wrong_owner(TWO),
    "a member that names a stranger as the owner": wrong_owner(STRANGER),
    "settings of a service that one member has otherwise": Case(
        [("SETTINGS", True, TWO, "")],
        alike(
            (TWO, [service(instances=1) | SETTINGS | {"protect_threshold": 0.0, "settings_version": "4.1.a"}, ALL[1]]),
            rows=[service(instances=1) | SETTINGS, ALL[1]],
        ),
    ),
}


def at(revision: int) -> list[dict[str, Any]]:
    """A client that goes on changing."""
    return [client_row("3_10.0.0.9_3", revision, ONE, 1)]


@pytest.fixture(scope="module")
def wrong(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Found]:
    """The findings of a night with all cases, and with records and clients that depart, by case."""
    folder = tmp_path_factory.mktemp("wrong")
    dev, qa = record_row("namespace dev", {"name": "Dev"}, "1.1.a"), record_row("namespace qa", {}, "1.1.a")
    there, old = client_row("1_10.0.0.9_1", 5, ONE, 1), client_row("1_10.0.0.9_1", 4, ONE, 1)
    gone = client_row("2_10.0.0.9_2", 1, TWO, 1)
    beside = {ONE: [qa, there], TWO: [dev, old], THREE: [dev, qa, there, gone]}
    changing = [dict(zip(ADDRESSES, (at(one), at(one - 1), at(one)), strict=True)) for one in (5, 7)]
    write_cases(folder / "dumps", CASES, *[{one: beside[one] + rows[one] for one in ADDRESSES} for rows in changing])
    judged(spark, folder, NIGHT)
    return by_case(CASES, findings(folder))


class TestWhatStaysWrong:
    @pytest.mark.parametrize("name", CASES)
    def test_it_is_found_and_nothing_else(self, name: str, wrong: Mapping[str, Found]) -> None:
        case = CASES[name]
        found = brief(wrong[name])
        assert [one[: len(wanted)] for one, wanted in zip(found, case.found, strict=True)] == list(case.found)
        assert case.detail is None or {one["detail"] for one in wrong[name]} == {case.detail}

    def test_settings_are_told_with_their_versions(self, wrong: Mapping[str, Found]) -> None:
        [one] = wrong["settings of a service that one member has otherwise"]
        assert (one["found_version"], one["expected_version"]) == ("4.1.a", "4.2.a")
        assert "protectThreshold=0.0" in one["found"]
        assert "protectThreshold=0.5" in one["expected"]

    def test_a_record_that_one_member_lost(self, wrong: Mapping[str, Found]) -> None:
        records = [one for one in wrong[""] if one["finding_class"] == "RECORD"]
        assert sorted((one["name"], one["lasting"], one["member"], one["found"]) for one in records) == [
            ("namespace dev", True, ONE, "absent"),
            ("namespace qa", True, TWO, "absent"),
        ]

    def test_a_client_at_another_revision_and_one_that_its_member_does_not_have(
        self, wrong: Mapping[str, Found]
    ) -> None:
        clients = [one for one in wrong[""] if one["finding_class"] == "CLIENT" and one["lasting"]]
        assert sorted((one["name"], one["member"], one["reference"], one["found"]) for one in clients) == [
            ("1_10.0.0.9_1", TWO, ONE, f"revision 4 of {ONE}"),
            ("2_10.0.0.9_2", THREE, TWO, f"revision 1 of {TWO}"),
        ]

    def test_a_client_that_goes_on_changing_is_late(self, wrong: Mapping[str, Found]) -> None:
        late = [one for one in wrong[""] if not one["lasting"]]
        assert [(one["finding_class"], one["name"], one["member"]) for one in late] == [("CLIENT", "3_10.0.0.9_3", TWO)]


class TestManyMembers:
    """More members than one 64-bit number holds: those of the second number are told apart, and counted, too."""

    FORTY = tuple(f"10.0.0.{number}:8848" for number in range(10, 50))

    def test_forty_members_have_bits_of_their_own_and_an_owner_beyond_the_first_number_is_known(
        self, spark: "SparkSession", tmp_path: Path
    ) -> None:
        owner, odd, lacking, claiming, extra = (self.FORTY[place] for place in (0, 30, 31, 35, 39))

        def of(owned_by: str, count: int = 1) -> list[dict[str, Any]]:
            instances = [instance(number, owner=owned_by) for number in range(1, count + 1)]
            return [service(owner=owned_by, instances=count), *instances]

        rows = of(owner, 2)
        departing = {
            odd: [*rows[:2], instance(2, owner=owner, weight=5.0)],
            lacking: rows[:2],
            extra: [*rows, instance(3, owner=owner)],
        }
        everyone = {name: dict.fromkeys(self.FORTY, of(name)) for name in (owner, lacking)}
        claims = {claiming: [service(owner=claiming, instances=1), of(owner)[1]]}
        cases = {
            "bits": Case([], dict.fromkeys(self.FORTY, rows) | departing),
            "far": Case([], everyone[lacking]),
            "disputed": Case([], everyone[owner] | claims),
            "far and disputed": Case([], everyone[lacking] | claims),
        }
        write_cases(tmp_path / "dumps", cases)
        summary = judged(spark, tmp_path, NIGHT)
        assert "40 members, 6 instances of 4 services" in summary.line
        found = by_case(cases, findings(tmp_path))
        assert {one[:4] for one in brief(found["bits"])} == {
            ("WEIGHT", True, odd, "10.1.0.2"),
            ("MISSING", True, lacking, "10.1.0.2"),
            ("EXTRA", True, extra, "10.1.0.3"),
        }
        assert found["far"] == []
        for name, one in (("disputed", owner), ("far and disputed", lacking)):
            [dispute] = found[name]
            assert dispute["finding_class"] == "OWNER"
            assert dispute["detail"].startswith(f"{one}, {claiming} each claim")


class TestBesideInstances:
    def test_a_member_that_does_not_tell_them_departs_in_nothing(self, tmp_path: Path, check: Checking) -> None:
        rows = [record_row("switches", {"a": 1}), service(instances=1) | SETTINGS, instance(1)]
        write_dump(tmp_path / "dumps", {ONE: rows, TWO: [service(instances=1), instance(1)], THREE: rows})
        for path in (tmp_path / "dumps").rglob("_manifest.json"):
            manifest = json.loads(path.read_text())
            manifest["members"][1] |= {"tells": []}
            path.write_text(json.dumps(manifest))
        assert check()[0] == 0

    def test_members_of_another_kind_are_compared_among_themselves(self, tmp_path: Path, check: Checking) -> None:
        ours, theirs = record_row("switches", {"a": 1}), record_row("switches", {"a": 2})
        plain = [service(instances=1), instance(1)]
        write_dump(tmp_path / "dumps", {ONE: [ours, *plain], TWO: [theirs, *plain], THREE: [theirs, *plain]})
        for path in (tmp_path / "dumps").rglob("_manifest.json"):
            manifest = json.loads(path.read_text())
            for member in manifest["members"][1:]:
                member["kind"] = "nacos-1"
            path.write_text(json.dumps(manifest))
        assert check()[0] == 0


class TestEverythingSuspect:
    """A member is behind by all: some are explained, and none of the verdict is lost."""

    @pytest.fixture(autouse=True)
    def _few_are_explained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("app.tools.audit.check.check.EXPLAINED_MAX", 20)

    def test_some_tell_of_all_and_it_is_said(self, tmp_path: Path, check: Checking) -> None:
        rows = [service(instances=200), *(instance(number) for number in range(200))]
        behind = [service(instances=200), *(instance(number, version="0.5.a") for number in range(200))]
        write_dump(tmp_path / "dumps", {ONE: rows, TWO: behind, THREE: rows})
        code, text = check()
        assert code == 1
        assert "note: 200 keys differ, 200 in both rounds; explained and counted: one of 10" in text
        [count] = re.findall(r"divergent: at least (\d+) BEHIND; 3 members", text)
        assert 5 <= int(count) <= 60
        assert {(one["finding_class"], one["member"]) for one in findings(tmp_path)} == {("BEHIND", TWO)}

    def test_one_that_lasts_is_found_among_many_that_do_not(self, tmp_path: Path, check: Checking) -> None:
        rows = [service(instances=200), *(instance(number) for number in range(200))]
        other = [rows[0], *(instance(number, weight=7.0) for number in range(200))]
        lasting = [*rows[:-1], instance(199, enabled=False)]
        write_dump(tmp_path / "dumps", {ONE: rows, TWO: other, THREE: lasting}, {ONE: rows, TWO: rows, THREE: lasting})
        code, text = check()
        assert (code, "divergent: at least 1 ENABLED; " in text) == (1, True)
        assert "one of 10 of those that differ in only one round" in text

    def test_when_nothing_in_a_sample_lasts_all_are_explained(self, tmp_path: Path, check: Checking) -> None:
        """Each differs in both rounds, by other values; but for one."""

        def at(weight: float) -> Rows:
            changing = [instance(number, weight=weight + number, version=f"1.{weight:.0f}.a") for number in range(200)]
            return [service(instances=201), *changing, instance(250, enabled=False)]

        rows = [service(instances=201), *(instance(number) for number in range(200)), instance(250)]
        write_dump(tmp_path / "dumps", {ONE: rows, TWO: at(2), THREE: rows}, {ONE: rows, TWO: at(3), THREE: rows})
        code, text = check()
        assert (code, "divergent: 1 ENABLED; 3 members, 201 instances" in text) == (1, True)
        assert "200 late" in text
