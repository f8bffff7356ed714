"""The check on a cluster of several processes, started by the example in deploy/ as it stands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.session import _COMPILED
from scripts.synthetic.dump import SyntheticDump, all_faults, make_dump
from tests.spark.conftest import Checking
from tests.support.spark_cluster import QUICK_JAVA, spark_cluster

pytestmark = [pytest.mark.spark]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "deploy" / "spark-submit.example.sh"
NIGHT = "2026-11-20"


def test_the_example_finds_on_a_cluster_what_a_run_on_one_machine_finds(tmp_path: Path, check: Checking) -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java on PATH or in JAVA_HOME")
    make_dump(SyntheticDump(str(tmp_path / "dumps"), members=3, instances=300, faults=all_faults(1, 3), date=NIGHT))
    code, text = check()
    assert code == 1
    with spark_cluster(tmp_path, workers=2, memory="1g") as master:
        done = submitted(tmp_path, SPARK_MASTER=master, AUDIT_DRIVER_MEMORY="1g")
        assert done.returncode == 1, done
        used = [folder for number in range(2) for folder in (tmp_path / f"work-{number}").glob("app-*/*")]
    assert len(used) == 2, "each worker had an executor"
    lines, expected = (
        [line.partition("; took ")[0] for line in out.splitlines() if not line.startswith("report: ")]
        for out in (done.stdout, text)
    )
    assert lines == expected, "and nothing else is said"
    assert findings(tmp_path / "cluster") == findings(tmp_path / "out")
    for folder in used:
        assert not [name for name in ("stdout", "stderr") if " INFO " in (folder / name).read_text()]


def submitted(folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    places = ["--dumps", str(folder / "dumps"), "--out", str(folder / "cluster"), "--night", NIGHT]
    return subprocess.run(
        ["bash", str(EXAMPLE), *places],
        env=kept
        | {
            **QUICK_JAVA,
            "ROLLCALL_AUDIT_HOME": str(ROOT),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_SUBMIT": str(Path(sys.executable).with_name("spark-submit")),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **variables,
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def findings(out: Path) -> list[dict[str, Any]]:
    lines = (out / "findings_json" / f"night={NIGHT}").glob("*.json")
    found = [json.loads(line) for path in lines for line in path.read_text().splitlines()]
    assert found
    return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))


def test_the_example_has_each_option_of_java_that_a_run_on_one_machine_has() -> None:
    """But those with which a driver starts quickly for few rows: on a cluster there are many."""
    (line,) = [line for line in EXAMPLE.read_text().splitlines() if line.startswith("java_options=")]
    assert set(line.partition("=")[2].strip('"').split()) == set(_COMPILED.split())
