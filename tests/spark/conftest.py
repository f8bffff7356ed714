"""The command of the check, run over dumps that a test wrote."""

import io
import json
import subprocess
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.rows.summary import Summary
from tests.support.dumps import Rows, write_dump
from tests.support.processes import COMMAND, clean_environ
from tests.support.spark_cluster import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NIGHT = "2026-11-20"
PREPARE_S = 900
Told = tuple[int, str]
Checking = Callable[..., Told]


@pytest.fixture
def check(spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checking:
    """Run the command over ``tmp_path/dumps`` and return its exit code and all that it printed."""

    from app.tools.audit.check.command import main

    def run(*arguments: str, night: str = NIGHT, out: str = "out") -> Told:
        places = ["--dumps", str(tmp_path / "dumps"), "--out", str(tmp_path / out), "--night", night]
        code = main([*places, *arguments], spark)
        spark.catalog.clearCache()
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out + told.err

    return run


def checked(spark: "SparkSession", folder: Path, *arguments: str, night: str = NIGHT) -> Told:
    """Run the command as the fixture ``check`` does, for a fixture of a whole module."""
    from app.tools.audit.check.command import main

    places = ["--dumps", str(folder / "dumps"), "--out", str(folder / "out"), "--night", night]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        code = main([*places, *arguments], spark)
    spark.catalog.clearCache()
    assert "Traceback" not in out.getvalue()
    return code, out.getvalue()


def judged(spark: "SparkSession", folder: Path, night: str, **options: Any) -> Summary:
    """Check the night under ``folder/dumps``, commit it under ``folder/out`` and return its summary."""
    from app.tools.audit.check.check import NightCheck, judge
    from app.tools.audit.check.results import Results

    results = Results(str(folder / "out"))
    results.open()
    summary = judge(spark, NightCheck(str(folder / "dumps"), night, **options), results)
    results.publish(summary, "")
    results.close()
    spark.catalog.clearCache()
    return summary


@pytest.fixture(scope="session")
def with_archive(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Variables with which a check in a process of its own maps Spark's classes from an archive, made here once."""
    environ = {**QUICK_JAVA, "ROLLCALL_AUDIT_STATE": str(tmp_path_factory.mktemp("archive"))}
    done = subprocess.run(
        [COMMAND, "check", "--prepare"],
        env=clean_environ() | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=PREPARE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return environ


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few rows checked in the way of many: compiled, and read a second time for the closer look."""
    monkeypatch.setattr("app.tools.audit.check.check.FEW_ROWS", 0)


@dataclass(frozen=True, slots=True)
class Case:
    """Rows of one service at each member, in both rounds or in each, and the findings that a check makes of them.

    A night has many cases, as a check costs the same for one of them. ``detail``: the detail of each finding.
    """

    found: Collection[tuple[Any, ...]]
    first: Mapping[str, Rows]
    second: Mapping[str, Rows] | None = None
    detail: str | None = None


def write_cases(root: Path, cases: Mapping[str, Case], *beside: Mapping[str, Rows]) -> None:
    """Write one night of all cases; the services of each have its number at the end of their names.

    ``beside``: further rows of the members in the first round and in the second.
    """
    rounds: list[dict[str, list[Any]]] = [
        {one: list(rows) for one, rows in given.items()} for given in beside or ({}, {})
    ]
    for number, case in enumerate(cases.values()):
        for members, given in zip(rounds, (case.first, case.second or case.first), strict=True):
            for address, rows in given.items():
                members.setdefault(address, []).extend(_numbered(row, number) for row in rows)
    write_dump(root, *rounds)


def _numbered(row: Any, number: int) -> dict[str, Any]:
    return {**row, "service": f"{row['service']}-{number}"}


def by_case(cases: Mapping[str, Case], found: Collection[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the findings of each case, and under an empty name those that are of no service."""
    names = list(cases)
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in ["", *names]}
    for one in found:
        told[names[int(one["service"].rpartition("-")[2])] if one["service"] else ""].append(one)
    return told


def findings(tmp_path: Path, night: str = NIGHT, out: str = "out") -> list[dict[str, Any]]:
    """The findings that a check left of a night."""
    lines = (tmp_path / out / "findings_json" / f"night={night}").glob("*.json")
    return [json.loads(line) for path in lines for line in path.read_text().splitlines()]
