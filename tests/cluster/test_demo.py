"""The demonstration as a newcomer runs it: what faults do is told, and nothing of it stays on the machine."""

import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.processes import COMMAND, HANG_S, clean_environ, eventually, is_gone, ports_apart

STEP = 10
"""The distance between the ports of the members."""


@pytest.fixture
def port() -> int:
    return ports_apart(3, STEP)[0]


@contextmanager
def demonstration(port: int, folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The command with a pipe for each stream; all of its processes are gone afterwards."""
    environ: Mapping[str, str] = {**clean_environ(), "TMPDIR": str(folder)}
    running = subprocess.Popen(
        [COMMAND, "demo", "--port", str(port), "--no-browser", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environ,
    )
    try:
        yield running
    finally:
        for one in [*psutil.Process(running.pid).children(recursive=True), running] if running.poll() is None else ():
            one.kill()
        running.communicate(timeout=HANG_S)


def children_of(running: "subprocess.Popen[str]") -> Sequence[psutil.Process]:
    return psutil.Process(running.pid).children(recursive=True)


def read_until(running: "subprocess.Popen[str]", text: str) -> str:
    """What is printed up to a line with this text."""
    assert running.stdout is not None
    lines = list[str]()
    for line in running.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"it ended before {text!r}: {''.join(lines)}")


def test_faults_in_turn_are_told_and_no_call_of_a_client_fails(port: int, tmp_path: Path) -> None:
    with demonstration(port, tmp_path, "--fault", "kill", "--fault", "start", "--fault", "crash") as running:
        told, _ = running.communicate(timeout=HANG_S)
    last = f"127.0.0.1:{port + 2 * STEP}"
    expected = (
        f"The console: http://127.0.0.1:{port}/nacos/",
        "21 instances over HTTP and 5 over gRPC, in 6 services",
        f"{last} was killed",
        f"127.0.0.1:{port} sees {last} DOWN",
        f"the others see {last} DOWN, and list the same",
        f"{last} starts",
        f"all see {last} UP, and list the same",
        "payments 192.0.2.22:8080 crashed",
        "no member lists payments 192.0.2.22:8080",
    )
    places = [told.find(text) for text in expected]
    assert -1 not in places, told
    assert places == sorted(places), told
    assert told.count("failed calls of the clients: 0") == 3, told
    assert " 0 failed, 0 empty" in told
    assert "is no longer listed" not in told[: told.index("payments 192.0.2.22:8080 crashed")], (
        "no instance was missing"
    )
    assert running.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_faults_are_typed_and_the_end_leaves_nothing(port: int, tmp_path: Path) -> None:
    with demonstration(port, tmp_path) as running:
        assert running.stdin is not None
        assert "silence" in read_until(running, "end the members and the clients")
        members = children_of(running)
        assert len(members) >= 3
        for typed, answer in (
            ("start\n", "Not now: all members run"),
            ("halt\n", "halt: name one of kill, start, pause, silence, crash, quit"),
            ("PAUSE\n", "continues"),
        ):
            running.stdin.write(typed)
            running.stdin.flush()
            read_until(running, answer)
        running.send_signal(signal.SIGTERM)
        assert running.wait(HANG_S) == 0
        assert eventually(lambda: all(map(is_gone, members)))
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_named(port: int, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with demonstration(port, tmp_path, "--fault", "crash") as running:
            told, _ = running.communicate(timeout=HANG_S)
    assert (running.returncode, told.count("\n")) == (2, 1), told
    assert str(port) in told
    assert list(tmp_path.iterdir()) == []
