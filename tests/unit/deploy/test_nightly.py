"""The nightly script with stand-ins for dump and check: its exit codes, its lock, its time-outs and its log."""

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import clean_environ, eventually

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "nightly.sh"
END_S = 120.0
WAITS = 'echo $$ > "$PID_FILE"; exec sleep 60'


class Nightly:
    """Starts the script with commands that do what a test wants."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.pid_file = folder / "pid"
        self._folder = folder

    def environ(self, dump: str, check: str, **settings: str) -> dict[str, str]:
        for name, body in (("dump", dump), ("check", check)):
            script = self._folder / name
            script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {self._folder}/{name}.calls\n{body}\n')
            script.chmod(0o755)
        return {
            **clean_environ(),
            "ROLLCALL_AUDIT_DUMP": f"{self._folder}/dump",
            "ROLLCALL_AUDIT_CHECK": f"{self._folder}/check",
            "ROLLCALL_AUDIT_STATE": str(self.state),
            "ROLLCALL_AUDIT_MEMBERS": "a:8848,b:8848",
            "PID_FILE": str(self.pid_file),
            **settings,
        }

    def run(self, dump: str, check: str, **settings: str) -> subprocess.CompletedProcess[str]:
        environ = self.environ(dump, check, **settings)
        return subprocess.run([SCRIPT], env=environ, capture_output=True, text=True, timeout=END_S, check=False)

    def start(self, dump: str, check: str, **settings: str) -> "subprocess.Popen[str]":
        environ = self.environ(dump, check, **settings)
        return subprocess.Popen([SCRIPT], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def calls(self, name: str) -> list[str]:
        path = self._folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def is_running(self) -> bool:
        """Whether the command that waits has begun and not ended."""
        pid = int(self.pid_file.read_text() or "0") if self.pid_file.exists() else 0
        if not pid:
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    return Nightly(tmp_path)


@pytest.mark.parametrize(
    ("dump", "check", "code", "said"),
    [
        ("exit 0", "echo agreed: 3 members; exit 0", 0, "agreed: 3 members"),
        ("exit 0", "echo divergent: 2 findings; exit 1", 1, "divergent: 2 findings"),
        ("exit 0", "echo could not judge: no dump; exit 2", 2, "could not judge: no dump"),
        ("exit 1", "echo divergent: b is absent; exit 1", 1, "divergent: b is absent"),
        (
            "exit 1",
            "echo agreed: 3 members; exit 0",
            2,
            "absent from the dump, and the check did not find that: agreed",
        ),
        ("exit 2", "echo agreed; exit 0", 2, "the dump failed with exit code 2"),
        ("exit 0", "exit 1", 2, "exit code 1 and no verdict"),
        ("exit 0", "echo lost; exit 7", 2, "the check failed with exit code 7"),
        ("exit 127", "echo agreed; exit 0", 2, "the dump failed with exit code 127"),
    ],
    ids=[
        "agreed",
        "divergent",
        "unjudged",
        "absent",
        "absent-and-agreed",
        "no-dump",
        "crash",
        "other-code",
        "no-command",
    ],
)
def test_the_exit_code_is_that_of_the_verdict(nightly: Nightly, dump: str, check: str, code: int, said: str) -> None:
    done = nightly.run(dump, check)
    assert (done.returncode, said in done.stderr.splitlines()[-1]) == (code, True), done.stderr
    assert len(nightly.calls("check")) == 1, "without a dump, too, the check tells those who wait for a verdict"


def test_dump_and_check_are_of_one_night_and_get_what_was_set(nightly: Nightly) -> None:
    done = nightly.run(
        "exit 0",
        "echo agreed",
        ROLLCALL_AUDIT_USER="auditor",
        ROLLCALL_AUDIT_ALERT_URL="http://alerts/x",
        ROLLCALL_AUDIT_ALERT_FORMAT="slack",
        ROLLCALL_AUDIT_ALERT_CLUSTER="prod",
        ROLLCALL_AUDIT_SUPPRESSIONS="/etc/known.toml",
        ROLLCALL_AUDIT_TEXTFILE="/metrics/rollcall.prom",
        ROLLCALL_AUDIT_KEEP_DAYS="7",
        ROLLCALL_AUDIT_DUMP_OPTIONS="--gap 5s",
        ROLLCALL_AUDIT_CHECK_OPTIONS="--ignore OWNER,STALE",
    )
    assert done.returncode == 0, done.stderr
    [dump], [check] = nightly.calls("dump"), nightly.calls("check")
    night = dump.partition("--date ")[2].split()[0]
    run = dump.partition("--run ")[2].split()[0]
    assert dump == (
        f"--members a:8848,b:8848 --user auditor --out {nightly.state}/dumps --date {night} --run {run} --keep 7 "
        "--gap 5s"
    )
    assert check == (
        f"--dumps {nightly.state}/dumps --out {nightly.state}/results --night {night} --keep 7 "
        "--alert-url http://alerts/x --alert-format slack --alert-cluster prod --suppressions /etc/known.toml "
        f"--textfile /metrics/rollcall.prom --run {run} --ignore OWNER,STALE"
    )


def test_without_members_nothing_is_judged(nightly: Nightly) -> None:
    done = nightly.run("exit 0", "echo agreed", ROLLCALL_AUDIT_MEMBERS="")
    assert done.returncode == 2
    assert "neither ROLLCALL_AUDIT_MEMBERS nor ROLLCALL_AUDIT_FROM_CLUSTER is set" in done.stderr
    assert not nightly.calls("dump")


def test_the_members_may_come_from_one_of_them(nightly: Nightly) -> None:
    assert nightly.run("exit 0", "echo agreed", ROLLCALL_AUDIT_FROM_CLUSTER="http://a:8848").returncode == 0
    assert nightly.calls("dump")[0].startswith("--from-cluster http://a:8848 --out ")


def test_no_two_runs_at_once(nightly: Nightly) -> None:
    nightly.state.mkdir()
    with (nightly.state / "nightly.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = nightly.run("exit 0", "echo agreed")
    assert (done.returncode, "another run is under way" in done.stderr) == (3, True)
    assert not nightly.calls("dump")
    assert nightly.run("exit 0", "echo agreed").returncode == 0, "a lock that was let go stops nobody"


@pytest.mark.parametrize("slow", ["dump", "check"])
def test_a_time_out_is_no_verdict(nightly: Nightly, slow: str) -> None:
    commands = {"dump": "exit 0", "check": "echo agreed"} | {slow: WAITS}
    limit = {f"ROLLCALL_AUDIT_{slow.upper()}_TIMEOUT": "0.5s"}
    done = nightly.run(commands["dump"], commands["check"], **limit)
    assert done.returncode == 2, done.stderr
    assert f"the {slow} took over 0.5s" in done.stderr
    assert nightly.pid_file.exists(), "it ran"
    assert not nightly.is_running(), "and was ended"


def test_stopped_from_outside_it_ends_its_command(nightly: Nightly) -> None:
    process = nightly.start("exit 0", WAITS)
    try:
        eventually(nightly.is_running, END_S)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=END_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, "stopped from outside" in errors) == (2, True), errors
    eventually(lambda: not nightly.is_running(), END_S)


def test_with_a_log_only_what_is_not_agreed_is_printed(nightly: Nightly, tmp_path: Path) -> None:
    log = tmp_path / "nightly.log"
    agreed = nightly.run("echo dumped", "echo agreed", ROLLCALL_AUDIT_LOG=str(log))
    assert (agreed.returncode, agreed.stdout, agreed.stderr) == (0, "", "")
    divergent = nightly.run("exit 0", "echo divergent; exit 1", ROLLCALL_AUDIT_LOG=str(log))
    assert (divergent.returncode, divergent.stdout) == (1, "rollcall nightly check: divergent (exit code 1)\n")
    text = log.read_text()
    assert "dumped\n" in text
    assert text.count("(exit code 0)") == text.count("(exit code 1)") == 1, "the log is added to"


@pytest.mark.parametrize("setting", ["ROLLCALL_AUDIT_LOG", "ROLLCALL_AUDIT_STATE", "TMPDIR"])
def test_what_cannot_be_written_is_no_verdict(nightly: Nightly, tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").write_text("")
    done = nightly.run("exit 0", "echo divergent; exit 1", **{setting: str(tmp_path / "file" / "below")})
    assert done.returncode == 2, done.stderr
