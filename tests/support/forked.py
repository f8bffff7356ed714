"""Nodes that are forked from a process which has loaded all that a node loads; see ``fork_server``."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.tools.cli import MALLOC

SERVER = Path(__file__).with_name("fork_server.py")
MESSAGE_BYTES_MAX = 1 << 17
STOP_S = 30.0


class ForkedProcess:
    """A process that the server forked, with what is used of ``subprocess.Popen``."""

    def __init__(self, pid: int, server: "ForkServer") -> None:
        self.pid = pid
        self._server = server

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._server.code(self.pid, 0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after ``timeout`` seconds.
        """
        code = self._server.code(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


class ForkServer:
    """The process that forks, which ends with this one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        """The environment that its Python and C library began with."""
        self._codes: dict[int, int] = {}
        self._started: list[int] = []
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", str(SERVER), str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                env={**MALLOC, **environ},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        atexit.register(self._end)

    def fork(self, command: Sequence[str], environ: Mapping[str, str], folder: Path, log: Path) -> ForkedProcess:
        """Start a node as ``command`` would, in a folder, with its output behind the end of a log."""
        request = {
            "command": [*command],
            "environ": {**environ},
            "folder": str(folder),
            "log": str(log),
            "hangup_ignored": signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,
        }
        with self._lock:
            self._control.send(json.dumps(request).encode())
            while not self._started:
                self._take()
            return ForkedProcess(self._started.pop(), self)

    def code(self, pid: int, timeout_s: float | None) -> int | None:
        """Return the exit code of a process once it has ended; None if it has not within the time, if there is one."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            # In short waits, as another thread may take what this one waits for.
            select.select([self._control], [], [], 0.1 if left_s is None else min(left_s, 0.1))
            with self._lock:
                while select.select([self._control], [], [], 0)[0]:
                    self._take()
                if (code := self._codes.get(pid)) is not None or left_s == 0.0:
                    return code

    def _take(self) -> None:
        message = self._control.recv(MESSAGE_BYTES_MAX)
        if not message:
            raise RuntimeError(f"the process that forks nodes ended with exit code {self._process.wait()}")
        told = json.loads(message)
        if "started" in told:
            self._codes.pop(told["started"], None)
            self._started.append(told["started"])
        else:
            self._codes[told["ended"]] = told["code"]

    def _end(self) -> None:
        self._control.close()
        self._process.wait(STOP_S)
