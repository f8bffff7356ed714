"""A check that a time-out ends, at any moment: it reports that there is no verdict, never that the members agree."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.conftest import NIGHT
from tests.support.dumps import ADDRESSES, instance, service, write_dump
from tests.support.processes import clean_environ
from tests.support.tiny_server import Given, tiny_server

# Twelve checks, each in a process with a Java of its own, which maps its classes from an archive.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]
END_S = 300.0
MOMENTS = {
    "before-java": "app.tools.audit.check.results:Results.open",
    "choosing-java": "app.tools.audit.check.java:java_version",
    "java-starts": "pyspark.java_gateway:Popen",
    "files": "app.tools.audit.check.check:damaged_files",
    "shuffle": "pyspark.sql.classic.dataframe:DataFrame.count",
    "tables": "app.tools.audit.check.table_files:Output.write",
    "page": "app.tools.audit.report.report:render",
    "commit": "app.tools.audit.check.results:Results.publish",
    "metrics": "app.tools.audit.report.textfile:write",
    "alert": "app.tools.audit.report.alert_state:Alerts.tell",
}
"""Where a signal comes, as the function that has just been called."""
PROGRAM = """
import importlib, os, signal, sys, threading

name, late = sys.argv[1], sys.argv[1].endswith(".count")
module, _, path = name.partition(":")
*owners, last = path.split(".")
owner = importlib.import_module(module)
for one in owners:
    owner = getattr(owner, one)
original = getattr(owner, last)
sent = []

def end():
    os.killpg(0, signal.SIGTERM)  # as `timeout` does: Java gets it, too

def ending(*arguments, **options):
    if sent:
        return original(*arguments, **options)
    sent.append(True)
    if late:
        threading.Timer(0.2, end).start()  # once the job is under way
    elif last == "Popen":
        process = original(*arguments, **options)
        end()
        return process
    else:
        end()
    return original(*arguments, **options)

setattr(owner, last, ending)
from app.tools.audit.check.command import main
sys.exit(main(sys.argv[2:]))
"""


def checked(
    folder: Path, environ: Mapping[str, str], moment: str | None, url: str
) -> "subprocess.CompletedProcess[str]":
    places = ["--dumps", str(folder / "dumps"), "--out", str(folder / "out"), "--night", NIGHT]
    told = ["--textfile", str(folder / "rollcall.prom"), "--alert-url", url, "--master", "local[2]"]
    program = [sys.executable, "-c", PROGRAM, moment] if moment else [sys.executable, "scripts/distro_check.py"]
    return subprocess.run(
        [*program, *places, *told],
        env={**clean_environ(), **environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
        start_new_session=True,
    )


def test_a_signal_at_any_moment_is_told_everywhere(tmp_path: Path, with_archive: Mapping[str, str]) -> None:
    rows = [service(), instance(1)]
    write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, rows))
    report = tmp_path / "out" / "reports" / f"night={NIGHT}"
    with tiny_server(lambda _: Given()) as alerts:
        url = f"http://{alerts.address}/"
        assert checked(tmp_path, with_archive, None, url).returncode == 0
        assert alerts.received == []
        for moment, name in MOMENTS.items():
            before = len(alerts.received)
            done = checked(tmp_path, with_archive, name, url)
            assert (done.returncode, done.stdout) == (2, "could not judge: ended by a signal\n"), (moment, done.stderr)
            assert "Traceback" not in done.stderr, moment
            assert 'verdict="unjudged"} 1.0' in (tmp_path / "rollcall.prom").read_text(), moment
            posted = [json.loads(one.body)["verdict"] for one in alerts.received[before:]]
            assert posted[-1:] == ["unjudged"], moment
            assert "Not judged</h1>" in (report / "report.html").read_text(), moment
            summary = json.loads((report / "summary.json").read_text())
            assert (summary["verdict"], summary["line"]) == ("unjudged", "could not judge: ended by a signal"), moment
            assert summary["earlier"]["verdict"] == "agreed", moment
            assert set(summary["tables"]) >= {"findings", "findings_json"}, "the tables of the earlier check stay"
        before = len(alerts.received)
        assert checked(tmp_path, with_archive, None, url).returncode == 0
        assert [json.loads(one.body)["verdict"] for one in alerts.received[before:]] == ["agreed"], "resolved, once"
        assert "Agreed</h1>" in (report / "report.html").read_text()
