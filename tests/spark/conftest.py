"""The command of the check, run over dumps that a test wrote."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.rows.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NIGHT = "2026-11-20"
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


def judged(spark: "SparkSession", folder: Path, night: str, **options: Any) -> Summary:
    """Check the night under ``folder/dumps``, commit it under ``folder/out`` and return its summary."""
    from app.tools.audit.check.check import judge
    from app.tools.audit.check.night_check import NightCheck
    from app.tools.audit.check.results import Results

    results = Results(str(folder / "out"))
    results.open()
    summary = judge(spark, NightCheck(str(folder / "dumps"), night, **options), results)
    results.publish(summary, "")
    results.close()
    spark.catalog.clearCache()
    return summary


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few rows checked in the way of many: compiled, and read a second time for the closer look."""
    monkeypatch.setattr("app.tools.audit.check.check.FEW_ROWS", 0)


def findings(tmp_path: Path, night: str = NIGHT, out: str = "out") -> list[dict[str, Any]]:
    """The findings that a check left of a night."""
    lines = (tmp_path / out / "findings_json" / f"night={night}").glob("*.json")
    return [json.loads(line) for path in lines for line in path.read_text().splitlines()]
