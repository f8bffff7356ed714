"""Command lines of the report: a shell takes each name as one argument, whatever is in it."""

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.rows.summary import NAME_CHARS_MAX, Summary, Verdict
from app.tools.audit.report import shell
from tests.support.night_findings import commit_findings, finding
from tests.support.processes import COMMAND, clean_environ

NIGHT = "2026-11-21"
MEMBERS = ["10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"]
SUMMARY = Summary(
    NIGHT,
    Verdict.DIVERGENT,
    "",
    members=[{"address": one, "state": "dumped", "kind": "rollcall"} for one in MEMBERS],
    dumps="/var/lib/the dumps",
    results="/var/lib/results",
)
NASTY = [
    "DEFAULT_GROUP@@a'; touch /tmp/x; '",
    'g@@$(reboot) `reboot` "x" \\ !! * ~ # & | > <',
    "--members",
    "-x@@y",
    "名前@@{a,b}",
]


def group(**changed: Any) -> dict[str, Any]:
    one = {"finding_class": "MISSING", "namespace": "public", "service": "DEFAULT_GROUP@@orders", "member": MEMBERS[2]}
    return one | {"samples": [{"reference": MEMBERS[0]}]} | changed


def arguments(line: str) -> list[str]:
    """What a program gets from a shell that runs the line."""
    script = f"rollcall() {{ printf '%s\\0' rollcall \"$@\"; }}; {line}"
    ran = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True, timeout=20)
    return ran.stdout.decode().split("\0")[:-1]


def options(line: str) -> dict[str, str]:
    """The options of a command line by name; an option without a value is empty."""
    words, found = arguments(line)[2:], {}
    while words:
        name, equals, value = words.pop(0).partition("=")
        found[name] = value if equals or not words or words[0].startswith("--") else words.pop(0)
    return found


def test_a_finding_of_a_link_is_compared_with_no_second_member() -> None:
    assert shell.compare(SUMMARY, group()) is not None
    assert shell.compare(SUMMARY, group(finding_class="LINK", samples=[{"reference": "dc-b"}])) is None


def test_a_night_is_checked_again_with_the_options_of_its_check() -> None:
    given = {"linked": ["/dc-b", "s3://dc-c/dumps"], "suppressions": ["/known ones.toml"], "ignore": ["BEHIND,CLIENT"]}
    line = shell.check(replace(SUMMARY, judged_with=given | {"of a later release": ["x"]}), NIGHT)
    assert line is not None
    places = ["--dumps", "/var/lib/the dumps", "--out", "/var/lib/results", "--night", NIGHT]
    linked = ["--linked", "/dc-b", "--linked", "s3://dc-c/dumps"]
    known = ["--suppressions", "/known ones.toml", "--ignore", "BEHIND,CLIENT"]
    assert arguments(line) == ["rollcall", "check", *places, *linked, *known]


@pytest.mark.parametrize("name", NASTY)
def test_each_name_is_one_argument(name: str) -> None:
    line = shell.heal(SUMMARY, group(service=name, namespace=name))
    assert line is not None
    assert options(line) == {"--service": name, "--namespace": name, "--members": ",".join(MEMBERS), "--dry-run": ""}


def test_a_finding_is_compared_as_the_dump_has_it() -> None:
    line = shell.compare(SUMMARY, group())
    assert line is not None
    assert arguments(line)[:4] == ["rollcall", "compare", MEMBERS[0], MEMBERS[2]]
    assert arguments(line)[4:] == [
        *("--dumps", "/var/lib/the dumps"),
        *("--date", NIGHT),
        *("--service", "DEFAULT_GROUP@@orders"),
    ]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[201~reboot", "a\u202eb", "a\x7f", "x" * NAME_CHARS_MAX])
def test_what_is_not_printable_or_was_cut_goes_into_no_command(name: str) -> None:
    assert shell.heal(SUMMARY, group(service=name)) is None
    assert shell.compare(SUMMARY, group(namespace=name)) is None
    assert shell.compare(SUMMARY, group(samples=[{"reference": name}])) is None


def test_an_address_that_looks_like_an_option_is_none() -> None:
    assert shell.compare(SUMMARY, group(member="--dumps=/")) is None


def test_only_members_of_rollcall_are_healed_and_those_that_answered() -> None:
    absent = {"address": MEMBERS[2], "state": "absent", "kind": ""}
    line = shell.heal(replace(SUMMARY, members=[*SUMMARY.members[:2], absent]), group())
    assert line is not None
    assert options(line)["--members"] == ",".join(MEMBERS[:2])
    nacos = SUMMARY.members[2] | {"kind": "nacos-1"}
    assert shell.heal(replace(SUMMARY, members=[*SUMMARY.members[:2], nacos]), group()) is None
    assert shell.heal(SUMMARY, group(service="")) is None


def test_a_night_is_dumped_and_checked_again() -> None:
    dumped, checked = shell.dump(SUMMARY, NIGHT), shell.check(SUMMARY, NIGHT)
    assert dumped is not None
    assert checked is not None
    assert options(dumped) == {"--members": ",".join(MEMBERS), "--out": "/var/lib/the dumps", "--date": NIGHT}
    assert options(checked) == {"--dumps": "/var/lib/the dumps", "--out": "/var/lib/results", "--night": NIGHT}
    assert shell.check(replace(SUMMARY, results=""), NIGHT) is None
    many = [{"address": f"10.0.1.{number}:8848"} for number in range(101)]
    assert shell.dump(replace(SUMMARY, members=many), NIGHT) is None


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq")
def test_every_service_is_healed_by_one_command() -> None:
    line = shell.heal_all(SUMMARY)
    assert line is not None
    assert options(line) == {"--results": SUMMARY.results, "--night": NIGHT, "--members": ",".join(MEMBERS)}
    assert shell.heal_all(replace(SUMMARY, results="")) is None


def test_all_findings_are_those_that_the_night_committed() -> None:
    ways = dict(shell.all_findings(replace(SUMMARY, results="/it's")))
    assert list(ways) == ["A table", "jq", "DuckDB", "PySpark"]
    reading = ["rollcall", "findings", "--results", "/it's", "--night", NIGHT]
    assert shlex.split(ways["A table"]) == reading
    for tool in ("jq", "DuckDB"):
        words = shlex.split(ways[tool])
        assert words[: words.index("|")] == [*reading, "--json"]
        assert words[words.index("|") + 1] == tool.lower()
    assert "findings_json" not in "".join(ways.values()), "that folder also has files of checks that were cut off"
    assert [tool for tool, _ in shell.all_findings(replace(SUMMARY, results="s3://b/r"))] == list(ways)
    assert shell.all_findings(replace(SUMMARY, results="")) == []


def test_jq_and_duckdb_read_what_is_piped(tmp_path: Path) -> None:
    commit_findings(tmp_path, [finding(service=NASTY[0]), finding("LATE", lasting=False)], [finding("CUT_OFF")])
    ways = dict(shell.all_findings(replace(SUMMARY, night="2026-11-20", results=str(tmp_path))))
    environ = {**clean_environ(), "PATH": f"{Path(COMMAND).parent}:{clean_environ()['PATH']}"}
    for tool in ("jq", "DuckDB"):
        if shutil.which(tool.lower()) is None:
            continue
        done = subprocess.run(
            ["/bin/sh", "-c", ways[tool]], env=environ, capture_output=True, text=True, timeout=60, check=True
        )
        assert "MISSING" in done.stdout
        assert "CUT_OFF" not in done.stdout
        assert "LATE" not in done.stdout
