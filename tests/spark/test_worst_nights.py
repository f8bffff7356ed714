"""The nights for which the check is there: members that lost all, that answer in one round, that disagree for good."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from app.rows.rows import ServiceSettings, client_row, record_row
from tests.spark.conftest import NIGHT, Checking, findings
from tests.support.dumps import ADDRESSES, SERVICE, Rows, instance, service, write_dump
from tests.support.tiny_server import Given, tiny_server

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [service(instances=2), instance(1), instance(2)]


def told(tmp_path: Path) -> list[tuple[Any, ...]]:
    names = ("finding_class", "lasting", "member", "ip", "found", "expected")
    return sorted(tuple(one[name] for name in names) for one in findings(tmp_path))


VALUES = "healthy=true enabled=true weight=1.0 metadata={}"


class TestEmptyMembers:
    @pytest.mark.parametrize("empty", [[ONE], [THREE]], ids=["the owner", "another"])
    @pytest.mark.parametrize("is_large", [False, True])
    def test_a_member_that_lost_all_lacks_each_instance(
        self, empty: list[str], is_large: bool, tmp_path: Path, check: Checking, request: pytest.FixtureRequest
    ) -> None:
        if is_large:
            request.getfixturevalue("many")
        write_dump(tmp_path / "dumps", {one: [] if one in empty else ROWS for one in ADDRESSES})
        code, text = check()
        assert code == 1
        assert f"note: {empty[0]} answered, but has no data" in text
        assert "divergent: 2 MISSING; 3 members, 2 instances of 1 services" in text
        assert told(tmp_path) == [
            ("MISSING", True, empty[0], f"10.1.0.{number}", "absent", VALUES) for number in (1, 2)
        ]
        owner_lacks = {one["detail"] for one in findings(tmp_path)} == {"the owner lacks it"}
        assert owner_lacks is (empty == [ONE])

    def test_two_members_that_lost_all_do_not_outvote_the_owner(self, tmp_path: Path, check: Checking) -> None:
        write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: [], THREE: []})
        code, _ = check()
        assert code == 1
        assert {(one[0], one[2]) for one in told(tmp_path)} == {("MISSING", TWO), ("MISSING", THREE)}

    @pytest.mark.parametrize("left", [TWO, THREE])
    def test_the_last_member_that_holds_anything_is_right_although_the_owner_lost_it(
        self, left: str, tmp_path: Path, check: Checking
    ) -> None:
        """What is left must never be called too much: whoever then removes it removes the last copy."""
        rows = [record_row("namespace dev", {"name": "Dev"}), client_row("1_10.0.0.9_1", 5, ONE, 1), service("g@@none")]
        write_dump(tmp_path / "dumps", {one: [*ROWS, *rows] if one == left else [] for one in ADDRESSES})
        code, _ = check()
        assert code == 1
        lost = [one for one in ADDRESSES if one != left]
        assert {(one[0], one[2]) for one in told(tmp_path)} == {
            (finding_class, member) for finding_class in ("MISSING", "SERVICE", "RECORD", "CLIENT") for member in lost
        }
        assert all(one["reference"] == left for one in findings(tmp_path))

    def test_members_that_all_hold_nothing_agree_and_it_is_said(self, tmp_path: Path, check: Checking) -> None:
        write_dump(tmp_path / "dumps", {one: [] for one in ADDRESSES})
        code, text = check()
        assert (code, text.count("answered, but has no data")) == (0, 3)
        assert "agreed: 3 members, 0 instances of 0 services" in text


class TestNoVerdictWithoutProof:
    @pytest.mark.parametrize("absent_in", [1, 2])
    def test_a_member_that_was_absent_in_one_round_is_a_finding(
        self, absent_in: int, tmp_path: Path, check: Checking
    ) -> None:
        whole, part = dict.fromkeys(ADDRESSES, ROWS), {ONE: ROWS, TWO: ROWS, THREE: "connection refused"}
        write_dump(tmp_path / "dumps", *((part, whole) if absent_in == 1 else (whole, part)))
        code, text = check()
        assert code == 1
        assert "divergent: 1 ABSENT_MEMBER; 2 of 3 members, 2 instances" in text
        assert findings(tmp_path)[0]["detail"] == "in one round only: connection refused"

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


class TestWhatStaysWrong:
    @pytest.mark.usefixtures("many")
    def test_values_that_differ_under_one_version_are_silent_corruption(self, tmp_path: Path, check: Checking) -> None:
        odd = [service(), instance(1, version="1.101.a", weight=2.0, enabled=False, metadata={"a": "b"})]
        even = [service(), instance(1, version="1.101.a")]
        write_dump(tmp_path / "dumps", {ONE: even, TWO: odd, THREE: even})
        assert check()[0] == 1
        values = 'healthy=true enabled=false weight=2.0 metadata={"a":"b"}'
        assert told(tmp_path) == [("SILENT_CORRUPTION", True, TWO, "10.1.0.1", values, VALUES)]

    def test_a_lower_version_with_the_same_values_in_both_rounds_is_behind(
        self, tmp_path: Path, check: Checking
    ) -> None:
        # Numbers, and not texts: 9 is lower than 10.
        old, new = instance(1, version="1.9.a"), instance(1, version="1.10.a")
        write_dump(tmp_path / "dumps", {ONE: [service(), old], TWO: [service(), new], THREE: [service(), new]})
        assert check()[0] == 1
        assert told(tmp_path) == [("BEHIND", True, ONE, "10.1.0.1", "1.9.a", "1.10.a")]

    def test_a_version_that_catches_up_is_nothing(self, tmp_path: Path, check: Checking) -> None:
        def round_of(*versions: str) -> dict[str, Rows | str]:
            rows = [[service(), instance(1, version=version)] for version in versions]
            return dict(zip(ADDRESSES, rows, strict=True))

        write_dump(tmp_path / "dumps", round_of("1.4.a", "1.3.a", "1.4.a"), round_of("1.5.a", "1.4.a", "1.5.a"))
        code, text = check()
        assert (code, told(tmp_path)) == (0, [])
        assert "late" not in text

    def test_a_list_of_a_lower_version_is_behind(self, tmp_path: Path, check: Checking) -> None:
        old = [service() | {"version": "1.0.a"}, instance(1)]
        write_dump(tmp_path / "dumps", {ONE: [service(), instance(1)], TWO: old})
        assert check()[0] == 1
        assert told(tmp_path) == [("BEHIND", True, TWO, "", "1.0.a", "1.1.a")]

    def test_a_service_without_instances_at_one_member_only(self, tmp_path: Path, check: Checking) -> None:
        empty = service("DEFAULT_GROUP@@empty", instances=0)
        write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: [*ROWS, empty], THREE: ROWS})
        assert check()[0] == 1
        assert told(tmp_path) == [("SERVICE", True, TWO, "", "there, without instances", "absent")]

    def test_a_service_without_instances_that_one_member_lacks(self, tmp_path: Path, check: Checking) -> None:
        empty = [*ROWS, service("DEFAULT_GROUP@@empty", instances=0)]
        write_dump(tmp_path / "dumps", {ONE: empty, TWO: ROWS, THREE: empty}, {ONE: empty, TWO: empty, THREE: empty})
        code, text = check()
        assert (code, "1 late" in text) == (0, True)
        assert told(tmp_path) == [("SERVICE", False, TWO, "", "absent", "there, without instances")]

    def test_what_the_owner_alone_lacks_is_not_too_many_elsewhere(self, tmp_path: Path, check: Checking) -> None:
        others = [service(), instance(1)]
        write_dump(tmp_path / "dumps", {ONE: [service()], TWO: others, THREE: others})
        assert check()[0] == 1
        assert told(tmp_path) == [("MISSING", True, ONE, "10.1.0.1", "absent", VALUES)]
        assert findings(tmp_path)[0]["detail"] == "the owner lacks it"

    @pytest.mark.parametrize("named", [TWO, "10.9.9.9:8848"], ids=["another member", "a stranger"])
    def test_a_member_that_names_a_wrong_owner(self, named: str, tmp_path: Path, check: Checking) -> None:
        rows = [service(), instance(1)]
        write_dump(tmp_path / "dumps", {ONE: rows, TWO: rows, THREE: [service(owner=named), instance(1)]})
        assert check()[0] == 1
        assert told(tmp_path) == [("OWNER", True, THREE, "", THREE, ONE)]
        detail = f"{THREE} names {named}, and {ONE} claims to be responsible"
        assert findings(tmp_path)[0]["detail"] == detail
        assert findings(tmp_path)[0]["service"] == SERVICE

    def test_an_absent_owner_that_all_others_name_is_no_dispute(self, tmp_path: Path, check: Checking) -> None:
        rows = [service(owner=THREE), instance(1, owner=THREE)]
        write_dump(tmp_path / "dumps", {ONE: rows, TWO: rows, THREE: "connection refused"})
        assert check()[0] == 1
        assert [one[0] for one in told(tmp_path)] == ["ABSENT_MEMBER"]


class TestManyMembers:
    def test_forty_members_have_bits_of_their_own(self, tmp_path: Path, check: Checking) -> None:
        """More than one 64-bit number holds: those of the second number are told apart, and counted, too."""
        addresses = [f"10.0.0.{number}:8848" for number in range(10, 50)]
        owner, odd, lacking, extra = (addresses[place] for place in (0, 30, 31, 39))
        rows = [service(owner=owner, instances=2), *(instance(number, owner=owner) for number in (1, 2))]
        members: dict[str, Rows | str] = dict.fromkeys(addresses, rows)
        members[odd] = [*rows[:2], instance(2, owner=owner, weight=5.0)]
        members[lacking] = rows[:2]
        members[extra] = [*rows, instance(3, owner=owner)]
        write_dump(tmp_path / "dumps", members)
        code, text = check()
        assert code == 1
        assert "40 members, 3 instances of 1 services" in text
        assert {one[:4] for one in told(tmp_path)} == {
            ("WEIGHT", True, odd, "10.1.0.2"),
            ("MISSING", True, lacking, "10.1.0.2"),
            ("EXTRA", True, extra, "10.1.0.3"),
        }

    @pytest.mark.parametrize("place", [0, 31])
    def test_an_owner_beyond_the_first_number_is_known(self, place: int, tmp_path: Path, check: Checking) -> None:
        addresses = [f"10.0.0.{number}:8848" for number in range(10, 50)]
        owner = addresses[place]
        rows = [service(owner=owner, instances=1), instance(1, owner=owner)]
        members: dict[str, Rows | str] = dict.fromkeys(addresses, rows)
        write_dump(tmp_path / "dumps", members)
        assert check()[0] == 0
        claims = {**members, addresses[35]: [service(owner=addresses[35], instances=1), rows[1]]}
        write_dump(tmp_path / "dumps", claims, date="2026-11-21")
        code, text = check(night="2026-11-21")
        assert (code, "divergent: 1 OWNER; " in text) == (1, True)
        assert findings(tmp_path, "2026-11-21")[0]["detail"].startswith(f"{owner}, {addresses[35]} each claim")


SETTINGS = ServiceSettings.of({"team": "a"}, 0.5, {"type": "none"}, {}, "4.2.a").fields()


class TestBesideInstances:
    def test_settings_of_a_service_that_one_member_has_otherwise(self, tmp_path: Path, check: Checking) -> None:
        rows = [service(instances=1) | SETTINGS, instance(1)]
        older = [rows[0] | {"protect_threshold": 0.0, "settings_version": "4.1.a"}, rows[1]]
        write_dump(tmp_path / "dumps", {ONE: rows, TWO: older, THREE: rows})
        assert check()[0] == 1
        [one] = findings(tmp_path)
        assert (one["finding_class"], one["member"], one["service"]) == ("SETTINGS", TWO, SERVICE)
        assert (one["found_version"], one["expected_version"]) == ("4.1.a", "4.2.a")
        assert "protectThreshold=0.0" in one["found"]
        assert "protectThreshold=0.5" in one["expected"]

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

    @pytest.mark.parametrize("lost", [ONE, TWO])
    def test_a_record_that_one_member_lost(self, lost: str, tmp_path: Path, check: Checking) -> None:
        rows = [record_row("namespace dev", {"name": "Dev"}, "1.1.a"), service(instances=1), instance(1)]
        write_dump(tmp_path / "dumps", {one: rows[1:] if one == lost else rows for one in ADDRESSES})
        assert check()[0] == 1
        [one] = findings(tmp_path)
        assert (one["finding_class"], one["name"], one["member"], one["found"]) == (
            "RECORD",
            "namespace dev",
            lost,
            "absent",
        )

    def test_a_client_at_another_revision_and_one_that_its_member_does_not_have(
        self, tmp_path: Path, check: Checking
    ) -> None:
        there, old = client_row("1_10.0.0.9_1", 5, ONE, 1), client_row("1_10.0.0.9_1", 4, ONE, 1)
        gone = client_row("2_10.0.0.9_2", 1, TWO, 1)
        plain = [service(instances=1), instance(1)]
        write_dump(tmp_path / "dumps", {ONE: [there, *plain], TWO: [old, *plain], THREE: [there, gone, *plain]})
        assert check()[0] == 1
        found = sorted((one["name"], one["member"], one["reference"], one["found"]) for one in findings(tmp_path))
        assert found == [
            ("1_10.0.0.9_1", TWO, ONE, f"revision 4 of {ONE}"),
            ("2_10.0.0.9_2", THREE, TWO, f"revision 1 of {TWO}"),
        ]

    def test_a_client_that_goes_on_changing_is_late(self, tmp_path: Path, check: Checking) -> None:
        plain = [service(instances=1), instance(1)]

        def at(revision: int) -> Rows:
            return [client_row("1_10.0.0.9_1", revision, ONE, 1), *plain]

        write_dump(tmp_path / "dumps", {ONE: at(5), TWO: at(4), THREE: at(5)}, {ONE: at(7), TWO: at(6), THREE: at(7)})
        code, text = check()
        assert (code, "; 1 late; " in text) == (0, True)


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
