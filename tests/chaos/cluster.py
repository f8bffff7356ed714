"""Members as processes in the namespaces of a network: started, ended, killed and paused by pid."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.chaos.http import call_blocking
from tests.chaos.network import PORT, Network, Place, run
from tests.support.processes import clean_environ

READY_S = 60.0
STOP_S = 60.0
POLL_S = 0.05
DISK_BYTES = 24 * 1024 * 1024


class Member:
    """One member. ``start`` and ``kill`` may be called any number of times."""

    def __init__(self, number: int, place: Place, folder: Path, command: Path, environ: Mapping[str, str]) -> None:
        self.number = number
        self.address = f"{place.ip}:{PORT}"
        self.log = folder / f"member{number}.log"
        self.data = folder / f"member{number}.data"
        self.conf = folder / f"member{number}.conf"
        self._place = place
        self._command = command
        self._environ = {**clean_environ(), **environ}
        self._process: subprocess.Popen[bytes] | None = None
        self.data.mkdir()
        self.conf.mkdir()

    def start(self) -> None:
        """Start the processes; see ``wait_ready``."""
        serve = [str(self._command), "serve", "--port", str(PORT), "--host", "0.0.0.0"]
        command = self._place.enter(*serve, "--data", str(self.data), "--conf", str(self.conf))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self._environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    def is_ready(self) -> bool:
        """Whether the member says that it serves."""
        with contextlib.suppress(OSError):
            return call_blocking(self.address, "GET", "/nacos/v1/console/health/readiness")[0] == 200
        return False

    def wait_ready(self) -> None:
        """Return once the member serves.

        Raises:
            RuntimeError: it ended, or takes too long; names its log.
        """
        deadline_s = time.monotonic() + READY_S
        while not self.is_ready():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"member {self.number} is not ready, see {self.log}")
            time.sleep(POLL_S)

    def _processes(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            master = psutil.Process(self._process.pid)
            return [master, *master.children(recursive=True)]
        return []

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the member, the first one first."""
        for one in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    def kill(self) -> None:
        """End all processes by force, and wait until they are gone."""
        processes = self._processes()
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(STOP_S)
        psutil.wait_procs(processes, STOP_S)
        self._process = None

    def stop(self) -> int:
        """End in order; return the exit code."""
        assert self._process is not None
        psutil.Process(self._process.pid).terminate()
        code = self._process.wait(STOP_S)
        self._process = None
        return code

    def small_disk(self) -> None:
        """Give the member a disk of its own that can be filled. Before its start."""
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.data))

    def fill_disk(self) -> None:
        """Leave no byte on the member's small disk."""
        with (self.data / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4_096))

    def free_disk(self) -> None:
        """Give the bytes back that ``fill_disk`` took."""
        (self.data / "filler").unlink()

    def tracebacks(self) -> int:
        """How many unforeseen errors the log tells of."""
        return self.log.read_bytes().count(b"Traceback (most recent call last)")


class Cluster:
    """The members of a network, which list each other."""

    def __init__(
        self, network: Network, folder: Path, command: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        """``command``: the ``rollcall`` to run, this environment's own unless said."""
        own = Path(sys.executable).with_name("rollcall")
        addresses = ",".join(f"{place.ip}:{PORT}" for place in network.places)
        self.network = network
        self.members = [
            Member(
                number,
                place,
                folder,
                command or own,
                {
                    "nacos.member.list": addresses,
                    "nacos.server.ip": place.ip,
                    "rollcall.announce": "false",
                    **(environ or {}),
                },
            )
            for number, place in enumerate(network.places)
        ]

    def start(self) -> None:
        """Start all members, and return when they serve."""
        for member in self.members:
            member.start()
        for member in self.members:
            member.wait_ready()

    def end(self) -> None:
        """End all members by force."""
        for member in self.members:
            member.signal(signal.SIGCONT)
            member.kill()
            if os.path.ismount(member.data):
                run("umount", "--lazy", str(member.data))
