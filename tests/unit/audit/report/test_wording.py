"""Findings in words, and what is to be done about them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.rows.summary import Summary, Verdict, decode_summary, encode_summary, unjudged
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.report.advice import steps_for
from app.tools.audit.report.report import render
from app.tools.audit.report.shell import HEALABLE
from app.tools.audit.report.wording import MEANINGS, done_by, sick_members

NIGHT = "2026-11-21"
ONE, TWO, THREE = (f"10.0.0.{number}:8848" for number in (1, 2, 3))


def row(finding_class: str, findings: int, member: str = THREE, **changed: Any) -> dict[str, Any]:
    one = {"member": member, "finding_class": finding_class, "findings": findings, "services": 1, "new": 0}
    return one | {"first_seen": "2026-11-19", "nights_open": 3} | changed


def divergent(*rows: dict[str, Any], **changed: Any) -> Summary:
    counts: dict[str, int] = {}
    for one in rows:
        counts[one["finding_class"]] = counts.get(one["finding_class"], 0) + one["findings"]
    members = [{"address": one, "state": "dumped", "kind": "rollcall"} for one in (ONE, TWO, THREE)]
    made = Summary(NIGHT, Verdict.DIVERGENT, "", members=members, findings=counts, by_member=list(rows), compared=3)
    return replace(made, dumps="/dumps", results="/results", **changed)


def group(finding_class: str = "MISSING", service: str = "g@@orders", **changed: Any) -> dict[str, Any]:
    one = {"finding_class": finding_class, "lasting": True, "namespace": "public", "service": service, "member": THREE}
    return one | {"samples": [{"reference": ONE}]} | changed


def commands(summary: Summary, earlier: Sequence[Summary] = ()) -> list[str]:
    return [" ".join((step.command or "").split()[:2]) for step in steps_for(summary, earlier)]


@pytest.mark.parametrize(
    ("finding_class", "count", "of", "said"),
    [
        ("MISSING", 13, 40, "lacks at least 13 of 40 instances"),
        ("MISSING", 40, 40, "lost all 40 instances"),
        ("MISSING", 1, None, "lacks at least 1 instances"),
        ("WEIGHT", 5, 200, "differs on the weight of at least 5 of 200"),
        ("EXTRA", 2, 40, "has at least 2 that it should not have"),
        ("ABSENT_MEMBER", 1, None, "did not answer"),
    ],
)
def test_a_share_of_a_sample_is_at_least_that(finding_class: str, count: int, of: int | None, said: str) -> None:
    assert done_by(finding_class, count, of, at_least=True) == said


def test_the_members_of_a_sampled_night_have_at_least_so_many() -> None:
    night = divergent(row("CORRUPT", 1), row("MISSING", 30_009), sampled=True)
    assert [one.words for one in sick_members(night)] == ["gave a damaged dump, lacks at least 30,009 instances"]


def test_every_class_has_a_meaning_and_words() -> None:
    assert set(MEANINGS) == set(FindingClass)
    for one in FindingClass:
        assert "finding" not in done_by(one, 2), f"{one} has no words of its own"


@pytest.mark.parametrize(
    ("finding_class", "count", "of", "said"),
    [
        ("MISSING", 40, 40, "lost all 40 instances"),
        ("MISSING", 1, 1, "lost its only instance"),
        ("MISSING", 13, 40, "lacks 13 of 40 instances"),
        ("MISSING", 1, None, "lacks 1 instance"),
        ("EXTRA", 2, 40, "has 2 that it should not have"),
        ("WEIGHT", 1_200, 4_000, "differs on the weight of 1,200 of 4,000"),
        ("OWNER", 1, 40, "disputes the owner of 1 service"),
        ("ABSENT_MEMBER", 1, None, "did not answer"),
        ("of a later release", 2, None, "has 2 findings"),
    ],
)
def test_what_a_member_does(finding_class: str, count: int, of: int | None, said: str) -> None:
    assert done_by(finding_class, count, of) == said


def test_the_sick_member_is_told_with_counts_and_since_when() -> None:
    (one,) = sick_members(divergent(row("MISSING", 13), row("EXTRA", 2, new=2, first_seen=NIGHT, nights_open=1)))
    assert (one.address, one.words) == (THREE, "lacks 13 instances, has 2 that it should not have")
    assert (one.findings, one.new, one.first_seen, one.nights_open) == (15, 2, "2026-11-19", 3)


def test_an_absent_member_comes_before_one_with_many_findings() -> None:
    found = sick_members(divergent(row("MISSING", 900, TWO), row("ABSENT_MEMBER", 1)))
    assert [one.address for one in found] == [THREE, TWO]


def test_of_three_member_lists_the_odd_one_is_named() -> None:
    lists = [row("MEMBERSHIP", 1, ONE), row("MEMBERSHIP", 1, TWO), row("MEMBERSHIP", 2, THREE)]
    assert [one.address for one in sick_members(divergent(*lists))] == [THREE]
    both = [row("MEMBERSHIP", 1, ONE), row("MEMBERSHIP", 1, TWO)]
    assert [one.address for one in sick_members(divergent(*both))] == [ONE, TWO], "of two nobody knows"


def test_many_classes_of_one_member_are_summed_up() -> None:
    rows = [row(name, 2) for name in ("MISSING", "EXTRA", "HEALTH", "ENABLED", "WEIGHT", "METADATA")]
    assert sick_members(divergent(*rows))[0].words.endswith(", and has 6 further findings")


def test_a_lost_service_is_looked_at_and_healed() -> None:
    assert commands(divergent(row("MISSING", 13), groups=[group()])) == ["rollcall compare", "rollcall heal"]
    several = divergent(row("MISSING", 13), groups=[group(), group(service="g@@stock")])
    *_, last = steps_for(several, [])
    assert (last.command or "").startswith("rollcall heal --results /results --night 2026-11-21 --members ")
    assert last.is_folded


def test_members_of_another_kind_are_not_healed() -> None:
    nacos = [{"address": one, "state": "dumped", "kind": "nacos-1"} for one in (ONE, TWO)]
    steps = steps_for(divergent(row("MISSING", 13), groups=[group()], members=nacos), [])
    assert not [step for step in steps if "rollcall heal" in (step.command or "")]
    assert "restart the member" in steps[-1].text


@pytest.mark.parametrize(
    ("finding_class", "said"), [("ABSENT_MEMBER", f"Check that {THREE} runs"), ("CORRUPT", f"The dump of {THREE} is")]
)
def test_a_member_of_which_nothing_is_known_is_dumped_again(finding_class: str, said: str) -> None:
    summary = divergent(row(finding_class, 1))
    assert steps_for(summary, [])[0].text.startswith(said)
    assert commands(summary) == ["", "rollcall dump", "rollcall check"]


def test_the_dump_is_taken_again_after_all_else_was_mended() -> None:
    rows = [row(name, 1) for name in ("ABSENT_MEMBER", "CORRUPT", "MEMBERSHIP", "OWNER")]
    first, second, lists, owners, *again = steps_for(divergent(*rows), [])
    assert [one.command for one in (first, second, lists)] == [None] * 3
    assert (owners.command or "").endswith("--class OWNER")
    assert [(one.command or "").split()[1] for one in again] == ["dump", "check"]
    unknown = steps_for(replace(divergent(*rows), dumps=""), [])
    assert [(one.text, one.command) for one in unknown[-1:]] == [("Then take the dump again, and check it.", None)]


def test_the_link_of_these_members_is_healed_and_not_one_of_the_other_cluster() -> None:
    here = {"link": "to-b", "cluster": "dc-a", "origin": "dc-b", "findings": 2, "member": THREE}
    there = {**here, "link": "to-a", "findings": 9, "member": "10.9.0.1:8848"}
    (step,) = steps_for(divergent(row("LINK", 2), links=[there, here]), [])
    assert step.command == f"rollcall heal --link to-b --members {ONE},{TWO},{THREE}"
    (step,) = steps_for(divergent(row("LINK", 9), links=[there]), [])
    assert (step.command or "").endswith("--class LINK")


def test_lists_of_members_are_made_alike() -> None:
    (step,) = steps_for(divergent(row("MEMBERSHIP", 1)), [])
    assert "the same member list" in step.text


def test_names_that_no_shell_may_see_are_said_to_be_so() -> None:
    (step,) = steps_for(divergent(row("MISSING", 1), groups=[group(service="g@@\x1b")]), [])
    assert "unprintable" in step.text
    assert step.command is None


@pytest.mark.parametrize(
    ("reason", "said", "wanted"),
    [
        ("no complete dump of the night x under y", "no complete dump", ["", "rollcall dump", "rollcall check"]),
        ("only 1 of 3 members can be compared; a: b", "Too few", ["", "rollcall dump", "rollcall check"]),
        (
            f"only 1 of 3 members can be compared; {ONE}: round 1, member=a/part-00000.parquet: the file is missing",
            "are damaged",
            ["", "rollcall dump", "rollcall check"],
        ),
        (
            "the dump failed with exit code 2: rollcall: no space",
            "no dump of this run",
            ["", "rollcall dump", "rollcall check"],
        ),
        ("Spark needs Java 17 or newer (none was found)", "with its Java", ["", "rollcall check"]),
        ("no temporary file can be made in /x", "in TMPDIR", ["", "rollcall check"]),
        ("ended by a signal: stopped from outside", "time-out", ["", "rollcall check"]),
        ("Spark failed: OutOfMemoryError", "may be sound", ["", "rollcall check"]),
        ("this Python has no package pyspark: pip", "extra audit", ["", "rollcall check"]),
        ("ended by a signal", "time-out", ["", "rollcall check"]),
        ("anything else", "See the log", ["", "rollcall dump", "rollcall check"]),
    ],
)
def test_a_night_without_a_verdict_is_made_good(reason: str, said: str, wanted: list[str]) -> None:
    night = unjudged(NIGHT, reason)
    last = replace(divergent(), night="2026-11-20", verdict=Verdict.AGREED)
    assert said in steps_for(night, [last])[0].text
    assert commands(night, [last]) == wanted
    assert commands(night) == ["", ""], "no folder is known without an earlier night"
    first = replace(night, dumps="/dumps", results="/results")
    assert commands(first)[-1] == "rollcall check", "the first night knows the folders of its check"
    assert all(step.command or not step.text.endswith(":") for step in steps_for(first, []))


@pytest.mark.parametrize("finding_class", list(FindingClass))
def test_each_class_has_a_step(finding_class: FindingClass) -> None:
    is_of_service = finding_class not in ("ABSENT_MEMBER", "CORRUPT", "MEMBERSHIP", "RECORD", "CLIENT")
    groups = [group(finding_class, service="g@@orders" if is_of_service else "")]
    steps = steps_for(divergent(row(finding_class, 1), groups=groups), [])
    heals = [step for step in steps if "rollcall heal" in (step.command or "")]
    told = [step for step in steps if (step.command or "").endswith(f"--class {finding_class}")]
    own = [step for step in steps if finding_class in ("ABSENT_MEMBER", "CORRUPT", "MEMBERSHIP")]
    assert heals or told or own, f"{finding_class} has no advice"
    assert bool(heals) == (finding_class in (*HEALABLE, "CLIENT"))


def test_silent_corruption_is_named_before_the_counts() -> None:
    rows = [row(name, 90) for name in ("MISSING", "EXTRA", "HEALTH", "ENABLED")]
    summary = divergent(row("SILENT_CORRUPTION", 1, TWO), *rows)
    page = render(summary, [])
    assert 0 < page.index(f"<b>SILENT_CORRUPTION</b> at {TWO}") < page.index("361 findings")


def test_members_that_agree_ask_for_nothing() -> None:
    assert steps_for(replace(divergent(), verdict=Verdict.AGREED), []) == []


def test_a_summary_of_an_earlier_release_is_still_read() -> None:
    new = ("by_class", "by_member", "groups", "dumps", "results")
    written = encode_summary(divergent(row("MISSING", 1), groups=[group()]))
    assert decode_summary(written).groups == [group()]
    old = b'{"night": "2026-11-20", "verdict": "divergent", "line": "divergent: 1 MISSING", "findings": {"MISSING": 1}}'
    assert [getattr(decode_summary(old), name) for name in new] == [[], [], [], "", ""]
