"""The members of the demonstration as processes: started, killed, paused and started again one by one."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from app.languages.command_texts import gettext
from app.tools.command.local_cluster import LocalNode, answers_ready

READY_S = 60.0
"""The time that a member has to start, on a busy machine too."""
POLL_S = 0.1
STOP_S = 15.0


class DemoError(Exception):
    """The demonstration cannot continue; the text says why."""


class DemoMember:
    """One member, and its process if it runs."""

    def __init__(self, address: str, node: LocalNode, log: Path) -> None:
        self.address, self.node, self._log = address, node, log
        self._process: subprocess.Popen[bytes] | None = None
        self.is_paused = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def serves(self) -> bool:
        """Return whether the member can answer: it runs, and is not paused."""
        return self.is_running and not self.is_paused

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.node.command,
                env=self.node.environ,
                cwd=self.node.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # a Ctrl-C is for the demonstration, which ends its members itself
            )
        self.is_paused = False

    def wait_ready(self) -> None:
        """Wait until the member serves.

        Raises:
            DemoError: it ended, or did not serve within ``READY_S``.
        """
        deadline_s = time.monotonic() + READY_S
        while not answers_ready(self.node.ready_url):
            if not self.is_running or time.monotonic() > deadline_s:
                raise DemoError(
                    gettext(
                        "member %(address)s does not serve; its log is %(log)s", address=self.address, log=self._log
                    )
                )
            time.sleep(POLL_S)

    def kill(self) -> None:
        """End all its processes at once, as a power failure does."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """Ask the member to end. ``wait_ended`` follows."""
        if self.is_paused:
            self.resume()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait_ended(self) -> None:
        """Wait for its end, and kill what has not ended in ``STOP_S``."""
        if self._process is None:
            return
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()


def start_all(members: Sequence[DemoMember]) -> None:
    """Start the members together, and wait until all serve.

    Raises:
        DemoError: one of them does not.
    """
    for member in members:
        member.start()
    for member in members:
        member.wait_ready()


def stop_all(members: Sequence[DemoMember]) -> None:
    """End all members together."""
    for member in members:
        member.stop()
    for member in members:
        member.wait_ended()
