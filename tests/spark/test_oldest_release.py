"""The check with the oldest Spark that it supports, as a process, beside the newest one of this environment."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.session import RELEASE_MIN
from scripts.synthetic.dump import SyntheticDump, all_faults, make_dump
from tests.sdk.environments import PYSPARK_MIN, NotInstallable, install_oldest_pyspark
from tests.spark.conftest import NIGHT, Checking
from tests.spark.test_cluster import findings
from tests.support.spark_cluster import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
END_S = 400


@pytest.mark.timeout(1_200)  # with the download, on a slow network
def test_the_oldest_release_finds_what_the_newest_finds(tmp_path: Path, check: Checking, spark: "SparkSession") -> None:
    try:
        oldest = install_oldest_pyspark()
    except NotInstallable as error:
        pytest.skip(str(error))
    assert PYSPARK_MIN.startswith(".".join(map(str, RELEASE_MIN)))
    assert spark.version != PYSPARK_MIN
    asked = [oldest.command[0], "-c", "from app.tools.audit.check.session import pyspark_version as v; print(v())"]
    said = subprocess.run(asked, env=oldest.environ, capture_output=True, text=True, check=True, timeout=END_S)
    assert said.stdout.strip() == PYSPARK_MIN
    make_dump(SyntheticDump(str(tmp_path / "dumps"), members=3, instances=300, faults=all_faults(1, 3), date=NIGHT))
    code, text = check()
    places = ["--dumps", str(tmp_path / "dumps"), "--out", str(tmp_path / "oldest"), "--night", NIGHT]
    done = subprocess.run(
        [*oldest.command, *places],
        env={**oldest.environ, **QUICK_JAVA},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=END_S,
    )
    assert (done.returncode, code) == (1, 1), done
    lines, expected = (
        [line.partition("; took ")[0] for line in out.splitlines() if not line.startswith(("report: ", "Picked up "))]
        for out in (done.stdout + done.stderr, text)
    )
    assert lines == expected, "and nothing else is said"
    assert findings(tmp_path / "oldest") == findings(tmp_path / "out")
