"""The page of a night in Chinese: no English is left but names, classes and commands."""

import html
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from app.languages.catalogues import CHINESE, COMMANDS, texts_of
from app.rows.summary import Summary, unjudged
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.report.report import PAGE_BYTES_MAX, render
from app.tools.audit.report.wording import OF_INSTANCES
from tests.support.processes import COMMAND
from tests.unit.audit.report.test_report import AGREED, GROUP, LATE, NIGHT, RICH, class_of, finding, of_member, past

NAMES = {
    *(one.value for one in FindingClass),
    *("Rollcall", "rollcall", "UTC", "DEFAULT_GROUP", "orders", "stock", "prod", "run-7", "west", "dc-a", "dc-b"),
    *(
        "Java",
        "Spark",
        "Nacos",
        "Python",
        "TMPDIR",
        "audit",
        "DuckDB",
        "PySpark",
        "jq",
        "Parquet",
        "JSON",
        "gRPC",
        "ms",
    ),
    *("cluster.conf", "healthCheckEnabled", "--dumps", "--date", "--dry-run", "--suppressions", "var", "lib", "dumps"),
    *("links", "heal", "PATH", "JAVA_HOME", "PyPI", "--link", "NAME", "switches", "deregister", "UP", "LINK", "key"),
    *("nacos.naming.expireInstance", "false", "true", "VALUE", "SERVICE", "IP", "PORT"),
}
"""Words of the page that are the same in every language."""


def chinese(summary: Summary, earlier: Sequence[Summary] = ()) -> str:
    return render(summary, earlier, texts_of(COMMANDS, CHINESE))


def english_in(page: str) -> set[str]:
    """Return the words in Latin letters of a page, of its hints and labels, but those of NAMES and of commands."""
    said = re.sub(r"<(style|pre|code)\b.*?</\1>", " ", page, flags=re.DOTALL)
    attributes = re.findall(r'(?: title| data-label| data-unit)="([^"]*)"', said)
    text = html.unescape(" ".join([re.sub(r"<[^>]*>", " ", said), *attributes]))
    return {one for one in re.findall(r"(?<![\w~])-*[A-Za-z][\w.-]*[A-Za-z0-9]", text) if one not in NAMES}


ALL = [
    GROUP
    | {"finding_class": one.value, "findings": number, "new": number - 1, "at_least": number == 2}
    | {"samples": [finding(cluster="west", detail="the owner lacks it")]}
    for one in FindingClass
    for number in (1, 2, 9)
]
LINKED = {"cluster": "dc-a", "origin": "dc-b", "instances": 1_204, "findings": 6, "lacking": 3, "extra": 2}
EVERY = replace(
    RICH,
    line="divergent: 3 MISSING, 2 EXTRA; 2 of 3 members, 9 instances of 5 services; 2 late; open since 2026-11-20; "
    "night 2026-11-21",
    sampled=True,
    findings={one.value: 12 for one in FindingClass},
    links=[LINKED],
    members=[*RICH.members[:2], RICH.members[2] | {"error": "no answer within 5 s"}],
    by_class=[class_of(*(one for one in ALL if one["finding_class"] == each.value), groups=90) for each in FindingClass]
    + [class_of(LATE)],
    by_member=[
        of_member(one.value, number, f"10.0.0.{number}:8848") for one in FindingClass for number in (1, 2, 3, 4, 5)
    ],
    groups=[*ALL, LATE],
    notes=["900,000 keys differ, 90,000 in both rounds; explained and counted: one of 18"],
)
LINES = (
    "the dump failed with exit code 2: ended by a signal",
    "the dump took over 1h, and was ended by a signal",
    "no complete dump of the night 2026-11-21 under /var/lib",
    "only 1 of 3 members can be compared",
    "the dump has 200 members; one check compares at most 124",
    "Spark needs Java 17 or newer (ended by a signal). Install one and put it on PATH or in JAVA_HOME, or install one "
    "from PyPI: jq",
    "cannot write to /var/lib: ended by a signal",
    "ended by a signal",
    "the check failed with ended by a signal",
)


def test_the_words_of_the_check_find_english() -> None:
    assert english_in(render(RICH, [])) >= {"lacks", "instances", "Divergent", "Service", "found"}


@pytest.mark.parametrize("instances", [0, 40])
def test_a_divergent_night_with_every_class_is_chinese(instances: int) -> None:
    groups = [one | {"instances": instances} for one in ALL]
    page = chinese(
        replace(EVERY, groups=[*groups, LATE]), [unjudged("2026-11-10", "no dump"), *past(9, findings={"A": 1})]
    )
    assert '<html lang="zh-CN">' in page
    assert english_in(page) <= {"A"}
    for said in (
        "不一致",
        "处理方法",
        "dc-a 缺少来自 dc-b 的实例：1,204 个中的 3 个，另有多出 2 个。",
        "10.1.2.3:8080，集群 west",
        "负责节点缺少该实例",
        "5 秒内没有响应",
        "已转储",
    ):
        assert said in page, said
    assert OF_INSTANCES


def test_few_findings_are_said_in_chinese_with_their_share() -> None:
    page = chinese(RICH)
    assert "丢失全部 2 个实例" in page
    assert "有 10/40 个实例的权重不同" in page
    assert "缺少 2 个实例，有 10 个实例的权重不同" in page
    assert "3 个节点中有 1 个不一致：两轮中都存在 12 个问题。" in page
    assert "4,400 个实例（3 个节点中的 2 个）" in page


@pytest.mark.parametrize("compared", [2, 3])
@pytest.mark.parametrize("earlier", [[], past(9), [unjudged("2026-11-10", "no dump"), *past(9)]])
def test_an_agreed_night_is_chinese(compared: int, earlier: list[Summary]) -> None:
    for changed in ({"unasked": 1}, {"late": {"HEALTH": 2}}, {}):
        page = chinese(replace(AGREED, compared=compared, line="agreed: 2 members", **changed), earlier)
        assert english_in(page) <= {"agreed", "members"}, "the line of this test is no line of a check"
    after = [replace(EVERY, night="2026-11-20")]
    assert "上一次结论（" in chinese(AGREED, after)


@pytest.mark.parametrize("line", LINES)
def test_a_night_without_a_verdict_is_chinese(line: str) -> None:
    night = unjudged(str(NIGHT), line)
    last = replace(RICH, night="2026-11-20")
    again = replace(
        night, earlier={"verdict": "agreed", "checked_at": "2026-11-21"}, dumps="/dumps", results="/results"
    )
    for page in (chinese(night), chinese(night, [last]), chinese(again, [last])):
        assert english_in(page) == set()
        assert "没有结论" in page


def test_steps_about_whole_members_are_chinese() -> None:
    kinds = ("ABSENT_MEMBER", "CORRUPT", "MEMBERSHIP")
    rows = [of_member(kind, 2, f"10.0.0.{number}:8848") for kind in kinds for number in range(6)]
    page = chinese(replace(EVERY, by_member=rows, findings=dict.fromkeys(kinds, 12), groups=[]))
    assert "10.0.0.2:8848 等，另有 3 个 正在运行" in page
    assert english_in(page) == set()


def test_the_page_in_chinese_is_below_a_megabyte() -> None:
    one = finding(found="<名>" * 160, expected="<称>" * 160, detail="<因>" * 160)
    groups = [GROUP | {"samples": [one] * 3, "finding_class": each.value} for each in FindingClass for _ in range(30)]
    page = chinese(replace(EVERY, groups=groups))
    assert len(page.encode()) <= PAGE_BYTES_MAX


def test_the_command_writes_the_page_in_the_language_of_the_locale(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    for language, said in (("zh_CN.UTF-8", "没有结论</h1>"), ("en_US.UTF-8", "Not judged</h1>")):
        environ = {name: value for name, value in os.environ.items() if name not in ("LC_ALL", "ROLLCALL_LANGUAGE")}
        arguments = ["check", "--dumps", str(tmp_path / "dumps"), "--out", str(tmp_path), "--night", str(NIGHT)]
        done = subprocess.run(
            [COMMAND, *arguments, "--not-judged", "ended by a signal"],
            env=environ | {"LANG": language},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        page = (tmp_path / "reports" / f"night={NIGHT}" / "report.html").read_text()
        assert said in page
        said_in_english = {one for one in english_in(page) if one not in str(tmp_path)}
        assert (said_in_english == set()) == (language == "zh_CN.UTF-8")
        summary = (tmp_path / "reports" / f"night={NIGHT}" / "summary.json").read_text()
        assert "could not judge: ended by a signal" in summary
