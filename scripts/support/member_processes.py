"""Members as processes of this machine, for the drills. Linux only: pids come from /proc."""

import contextlib
import http.client
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

CONTEXT_PATH = "/nacos"
PORT_STEP = 10
READY_POLL_S = 0.005
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
LOG_SHOWN = 500
COMMAND = Path(sys.executable).with_name("rollcall")


class MembersAt(NamedTuple):
    """Where members run. ``enter``: words before their command, which run it in a network where they have ``ip``."""

    ip: str = "127.0.0.1"
    enter: Sequence[str] = ()

    def address(self, port: int) -> str:
        return f"{self.ip}:{port}"


LOOPBACK = MembersAt()


def clean_environ() -> dict[str, str]:
    """This process's environment without proxies and without settings of nodes."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("NACOS", "ROLLCALL", "SERVER")) and "PROXY" not in name.upper()
    }


def tls_of(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS context of a client of members with these settings; None for plain HTTP."""
    if settings.get("rollcall.http.tls.enabled") != "true":
        return None
    trusted = settings.get("rollcall.http.tls.trustCollectionChainPath") or settings["rollcall.http.tls.certChainFile"]
    return ssl.create_default_context(cafile=trusted)


def is_gone(pid: int) -> bool:
    """Return whether a process has exited; true also for a zombie."""
    try:
        # After the name, which is in brackets and may contain anything.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class MemberProcess:
    """One ``rollcall serve``, with its log and data in ``folder``; without ``members`` a standalone node."""

    def __init__(
        self,
        port: int,
        folder: Path,
        members: str = "",
        settings: Mapping[str, str] | None = None,
        command: Path = COMMAND,
        at: MembersAt = LOOPBACK,
    ) -> None:
        """``command``: the ``rollcall`` to run, by default that of this environment."""
        self.address = at.address(port)
        self.log = folder / f"{port}.log"
        self.tls = tls_of(settings or {})
        self._environ = {**clean_environ(), "rollcall.announce": "false", **(settings or {})}
        if members:
            self._environ["nacos.member.list"] = members
        if command != COMMAND:
            self._environ.pop("PYTHONPATH", None)  # otherwise another release would run our modules
        self.data = folder / f"{port}.data"
        self._command = [*at.enter, str(command), "serve", "--port", str(port), "--data", str(self.data)]
        if at != LOOPBACK:
            self._command += ["--host", "0.0.0.0"]
            self._environ["nacos.server.ip"] = at.ip
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environ, cwd=self._folder, stdout=log, stderr=log, process_group=0
            )

    def pids(self) -> list[int]:
        """The processes of the member, gunicorn's master first."""
        assert self._process is not None, f"{self.address} does not run"
        master = self._process.pid
        workers = Path(f"/proc/{master}/task/{master}/children").read_text(encoding="ascii").split()
        return [master, *map(int, workers)]

    def signal(self, number: signal.Signals, pids: list[int]) -> None:
        for pid in pids:
            os.kill(pid, number)

    def kill_all(self) -> None:
        """Kill all processes; the member may be started again."""
        if self._process is None:
            return
        pids = self.pids() if self._process.poll() is None else []
        # The master first: otherwise it would start another worker.
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(STOP_TIMEOUT_S)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while not all(map(is_gone, pids)) and time.monotonic() < deadline_s:
            time.sleep(READY_POLL_S)  # the worker is not our child; while it lives, the port stays in use
        self._process = None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Stop in order; return the exit code."""
        assert self._process is not None, f"{self.address} does not run"
        self._process.terminate()
        code = self._process.wait(timeout_s)
        self._process = None
        return code

    def is_ready(self) -> bool:
        host, _, port = self.address.rpartition(":")
        connection = (
            http.client.HTTPSConnection(host, int(port), timeout=1, context=self.tls)
            if self.tls
            else http.client.HTTPConnection(host, int(port), timeout=1)
        )
        with contextlib.closing(connection):
            try:
                connection.request("GET", f"{CONTEXT_PATH}/v1/console/health/readiness")
                return connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                return False

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return when the member serves.

        Raises:
            RuntimeError: it exited, or takes too long; the text names its log, and shows its last lines.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            ready = self.is_ready()
            # Also after an answer: another node may use the port, so that this one could not start.
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline_s:
                # The log may be removed with its folder.
                said = self.log.read_text(encoding="utf-8", errors="replace")[-LOG_SHOWN:]
                raise RuntimeError(f"{self.address} is not ready, see {self.log}: {said}")
            if ready:
                return
            time.sleep(READY_POLL_S)


@contextlib.contextmanager
def local_members(
    count: int,
    port: int,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    command: Path = COMMAND,
    at: MembersAt = LOOPBACK,
) -> Iterator[list[MemberProcess]]:
    """Members that know each other, on ``port``, ``port`` + 10 and so on; not started yet, and killed at the end.

    One alone is a standalone node.
    """
    ports = [port + PORT_STEP * index for index in range(count)]
    listed = ",".join(map(at.address, ports)) if count > 1 else ""
    settings = (settings or {}) if listed else {"nacos.standalone": "true", **(settings or {})}
    members = [MemberProcess(each, folder, listed, settings, command, at) for each in ports]
    try:
        yield members
    finally:
        for member in members:
            member.kill_all()


def start_all(members: Sequence[MemberProcess], timeout_s: float = READY_TIMEOUT_S) -> None:
    """Start members side by side; return when each of them serves.

    Raises:
        RuntimeError: as for ``MemberProcess.wait_ready``.
    """
    for member in members:
        member.start()
    for member in members:
        member.wait_ready(timeout_s)


@contextlib.contextmanager
def running_members(
    count: int,
    port: int,
    settings: Mapping[str, str] | None = None,
    command: Path = COMMAND,
    at: MembersAt = LOOPBACK,
) -> Iterator[list[MemberProcess]]:
    """Serving ``local_members``, with their logs and data in a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix="rollcall-") as folder,
        local_members(count, port, Path(folder), settings, command, at) as members,
    ):
        start_all(members)
        yield members


@contextlib.contextmanager
def drill_members(count: int, port: int, logs: Path | None, command: Path) -> Iterator[list[MemberProcess]]:
    """``local_members`` of a drill, with logs and data in the folder ``logs``, or a new one, whose path is printed."""
    with local_members(count, port, drill_folder(logs), command=command) as members:
        yield members


def drill_folder(logs: Path | None) -> Path:
    """Create the folder for the members of a drill, ``logs`` or a new one, and print its path."""
    folder = logs or Path(tempfile.mkdtemp(prefix="rollcall-drill-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"logs of the members: {folder.absolute()}", flush=True)
    return folder
