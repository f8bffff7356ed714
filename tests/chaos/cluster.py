"""Members as processes in the namespaces of a network: started, ended, killed and paused by pid."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from tests.chaos.http import call_blocking
from tests.chaos.network import PORT, Network, Place, run
from tests.chaos.wall_clock import WallClock
from tests.support.processes import clean_environ

IDENTITY = {
    "nacos.core.auth.server.identity.key": "Cluster-Identity",
    "nacos.core.auth.server.identity.value": "secret-of-the-members-in-chaos",
}
"""Members whose addresses are not of loopback need one."""
READY_S = 240.0
"""A start takes some seconds of CPU time, and the machine may have little of it."""
STOP_S = 60.0
POLL_S = 0.05
DISK_BYTES = 24 * 1024 * 1024


class Member:
    """One member. ``start`` and ``kill`` may be called any number of times."""

    def __init__(self, number: int, place: Place, folder: Path, command: Path) -> None:
        self.number = number
        self.address = f"{place.ip}:{PORT}"
        self.log = folder / f"member{number}.log"
        self.data = folder / f"member{number}.data"
        self.conf = folder / f"member{number}.conf"
        self.wall_clock: WallClock | None = None
        """The member's own, see ``own_wall_clock``."""
        self._folder = folder
        self._place = place
        self._command = command
        self.environ = {**clean_environ(), **IDENTITY, "nacos.server.ip": place.ip, "rollcall.announce": "false"}
        """Of its processes, from the next start on."""
        self._process: subprocess.Popen[bytes] | None = None
        self.data.mkdir()
        self.conf.mkdir()

    def list_members(self, addresses: Iterable[str]) -> None:
        """Write the member list, which a running member reads in its time."""
        written = self.conf / "cluster.conf.new"
        written.write_text("".join(f"{address}\n" for address in addresses))
        written.replace(self.conf / "cluster.conf")

    def start(self) -> None:
        """Start the processes; see ``wait_ready``."""
        serve = [str(self._command), "serve", "--port", str(PORT), "--host", "0.0.0.0"]
        command = self._place.enter(*serve, "--data", str(self.data), "--conf", str(self.conf))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
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

    def own_wall_clock(self) -> None:
        """Give the member a wall clock of its own that can jump. Before its start."""
        own = self._folder / f"member{self.number}.clock"
        own.mkdir()
        self.wall_clock = WallClock(own)
        self.environ |= self.wall_clock.environ

    def forget_all(self) -> None:
        """Empty the data folder of a member that does not run."""
        shutil.rmtree(self.data)
        self.data.mkdir()

    def tracebacks(self) -> int:
        """How many unforeseen errors the log tells of."""
        return self.log.read_bytes().count(b"Traceback (most recent call last)") if self.log.exists() else 0


class Cluster:
    """The members of a network. The first ``listed`` of them list each other and are started by ``start``."""

    def __init__(
        self,
        network: Network,
        folder: Path,
        listed: int,
        command: Path | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """``command``: the ``rollcall`` to run, this environment's own unless said.

        ``numbers``: those of its places in the network, where not all are its own.
        """
        own = Path(sys.executable).with_name("rollcall")
        self.members = [
            Member(number, network.places[number], folder, command or own)
            for number in (range(len(network.places)) if numbers is None else numbers)
        ]
        self.listed = self.members[:listed]
        """The members that are in the lists of the others."""

    def start(self) -> None:
        """Start the listed members, and return when they serve."""
        addresses = [member.address for member in self.listed]
        for member in self.listed:
            member.list_members(addresses)
            member.start()
        for member in self.listed:
            member.wait_ready()

    def end(self) -> None:
        """End all members by force."""
        for member in self.members:
            member.kill()
            if os.path.ismount(member.data):
                run("umount", "--lazy", str(member.data))
