"""Command lines of the report: a shell takes each name as one argument, whatever is in it."""

import json
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.rows.summary import NAME_CHARS_MAX, Summary, Verdict
from app.tools.audit.report import shell

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
def test_the_file_that_heals_every_service_heals_these_and_does_nothing_else(tmp_path: Path) -> None:
    results = tmp_path / "the results"
    folder = results / "findings_json" / f"night={NIGHT}"
    folder.mkdir(parents=True)
    names = [*NASTY, "DEFAULT_GROUP@@orders"]
    rows = [group(lasting=True, service=name) for name in [*names, *names]]
    rows += [group(lasting=False, service="late"), group(lasting=True, service="")]
    rows += [group(lasting=True, service=f"a\nrollcall heal --service=evil{end}") for end in ("\n", "\x1b[201~")]
    rows += [group(lasting=True, service="twice", finding_class="DUPLICATE")]
    (folder / "part-0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = shell.heal_all(replace(SUMMARY, results=str(results)))
    assert line is not None
    subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, check=True, timeout=20)
    lines = (tmp_path / "heal.sh").read_text().splitlines()
    asked = [options(one) for one in lines]
    assert sorted(one["--service"] for one in asked) == sorted(names)
    assert {(one["--namespace"], one["--members"]) for one in asked} == {("public", ",".join(MEMBERS))}


def test_findings_on_an_object_store_are_no_files() -> None:
    far = replace(SUMMARY, results="s3://bucket/results")
    assert shell.heal_all(far) is None
    assert [tool for tool, _ in shell.all_findings(far)] == ["DuckDB", "PySpark"]
    assert shell.all_findings(replace(SUMMARY, results="")) == []


def test_where_all_findings_are_is_quoted_too() -> None:
    ways = dict(shell.all_findings(replace(SUMMARY, results="/it's")))
    program, option, sql = shlex.split(ways["DuckDB"])
    assert (program, option) == ("duckdb", "-c")
    assert f"read_json('/it''s/findings_json/night={NIGHT}/*.json')" in sql
    assert shlex.split(ways["jq"])[-1] == f"/it's/findings_json/night={NIGHT}/*.json"
