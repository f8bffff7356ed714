"""Spark Connect has no driver of the check's own: it is refused in one line, however it is asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.support.dumps import ADDRESSES, instance, service, write_dump

pytestmark = [pytest.mark.spark]
ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "scripts" / "distro_check.py"
REMOTE = "sc://127.0.0.1:9"
BIN = Path(sys.executable).parent
ASKED: dict[str, tuple[list[str], dict[str, str]]] = {
    "SPARK_REMOTE": ([sys.executable, str(CHECK)], {"SPARK_REMOTE": REMOTE}),
    "--remote": ([sys.executable, str(CHECK), "--remote", REMOTE], {}),
    "spark-submit --remote": ([str(BIN / "spark-submit"), "--remote", REMOTE, str(CHECK)], {}),
    "spark-submit, spark.remote": ([str(BIN / "spark-submit"), "--conf", f"spark.remote={REMOTE}", str(CHECK)], {}),
    "spark-submit, spark.api.mode": (
        [str(BIN / "spark-submit"), "--master", "local[1]", "--conf", "spark.api.mode=connect", str(CHECK)],
        {},
    ),
}


@pytest.mark.parametrize("asked", ASKED)
def test_it_is_refused_in_one_line(asked: str, tmp_path: Path) -> None:
    rows = [service(), instance(1)]
    write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, rows))
    command, environ = ASKED[asked]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [*command, "--dumps", str(tmp_path / "dumps"), "--out", str(tmp_path / "out")],
        env={**kept, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **environ},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if not line.startswith("report: ")]  # spark-submit joins both
    assert line.startswith("could not judge: the check needs a Spark session with its own driver"), done
    assert "Traceback" not in done.stderr
