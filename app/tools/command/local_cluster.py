"""Several nodes on this machine as child processes: started, watched and stopped together."""

import http.client
import logging
import os
import select
import signal
import ssl
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from app.languages.phrases import phrase, shown

READY_POLL_S = 0.1
READY_ANSWER_S = 1.0
KILLED_END_S = 5.0
"""The time for a killed process to end. Only a stuck disk or a debugger delays it longer."""

_STOPPING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One member to start: its URL, and the command of its process."""

    url: str
    ready_url: str
    """The URL that answers 200 while the member serves."""
    command: list[str]
    environ: Mapping[str, str]
    folder: str
    ready: str = ""
    """The line that says that it serves."""
    restart: str = ""
    """The command that starts this member alone, after it ended."""


class LocalCluster:
    """Runs members as child processes. Only for the main thread, because it takes over the process's signals."""

    def __init__(
        self,
        nodes: Sequence[LocalNode],
        stop_timeout_s: float,
        to_try: Callable[[], str] = str,
        json_port: int | None = None,
    ) -> None:
        """``to_try`` returns the commands to try once all members serve.

        ``json_port``: the port in lines of JSON, for nodes that log JSON; each of them logs itself that it serves.
        """
        self._nodes = nodes
        self._stop_timeout_s = stop_timeout_s
        self._to_try = to_try
        self._json_port = json_port
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._ready: set[int] = set()

    def run(self) -> int:
        """Start all members, and stop them at SIGTERM, SIGINT or SIGHUP. Return the exit code.

        A member that ends by itself is named and not started again. The call returns when the last member has ended.
        """
        with _signals() as signals:
            begun_s = time.monotonic()
            try:
                for index, node in enumerate(self._nodes):
                    # A process group of its own, so that a Ctrl-C reaches only this process, which forwards it.
                    self._running[index] = subprocess.Popen(
                        node.command, env=node.environ, cwd=node.folder, process_group=0
                    )
                announced = False
                while self._running:
                    if not announced and self._all_ready():
                        announced = True
                        self._announce(time.monotonic() - begun_s)
                    if _STOPPING & signals.wait(None if announced else READY_POLL_S):
                        break
                    self._name_ended()
            finally:
                stopped_by_us = bool(self._running)
                clean = self._stop(signals)
        return 0 if stopped_by_us and clean else 1

    def _all_ready(self) -> bool:
        for index in self._running.keys() - self._ready:
            if answers_ready(self._nodes[index].ready_url):
                self._ready.add(index)
                if self._json_port is None:
                    print(self._nodes[index].ready or f"ready: {self._nodes[index].url}", flush=True)
        return len(self._running) == len(self._nodes) and self._running.keys() <= self._ready

    def _announce(self, took_s: float) -> None:
        self.tell(
            phrase("all %(count)s members serve, after %(seconds)s s", count=len(self._nodes), seconds=f"{took_s:.1f}"),
            is_error=False,
        )
        if self._json_port is None:
            print(self._to_try(), flush=True)

    def tell(self, text: str, *, is_error: bool = True) -> None:
        """Print a line: in the form of the members' logs, if these are JSON."""
        if self._json_port is None:
            line = f"rollcall: {shown(text)}" if is_error else shown(text)
            print(line, file=sys.stderr if is_error else sys.stdout, flush=True)
            return
        from app.machine.process.log_lines import JsonFormatter

        level = logging.WARNING if is_error else logging.INFO
        record = logging.LogRecord(__name__, level, __file__, 0, text, None, None)
        print(JsonFormatter(self._json_port).format(record), file=sys.stderr, flush=True)

    def _name_ended(self) -> None:
        for index, process in list(self._running.items()):
            if process.poll() is not None:
                del self._running[index]
                left = len(self._running)
                rest = (
                    phrase("%(left)s of %(total)s members continue", left=left, total=len(self._nodes))
                    if left
                    else phrase("it was the last")
                )
                code = process.returncode
                how = (
                    phrase("killed by %(signal)s", signal=signal.Signals(-code).name)
                    if code < 0
                    else phrase("exit code %(code)s", code=code)
                )
                again = (
                    phrase("; start it again with: %(command)s", command=self._nodes[index].restart)
                    if self._nodes[index].restart
                    else ""
                )
                self.tell(
                    phrase(
                        "member %(url)s ended, %(how)s; %(rest)s%(again)s",
                        url=self._nodes[index].url,
                        how=how,
                        rest=rest,
                        again=again if left else "",
                    )
                )

    def _stop(self, signals: "_Signals") -> bool:
        """End every member, by SIGKILL after the time-out. Return whether none was killed."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + self._stop_timeout_s
        while True:
            self._running = {index: process for index, process in self._running.items() if process.poll() is None}
            left_s = deadline_s - time.monotonic()
            if not self._running or left_s <= 0:
                break
            signals.wait(left_s)
        for index, process in self._running.items():
            self.tell(phrase("member %(url)s did not stop and is killed", url=self._nodes[index].url))
            # The whole group, as a worker that is stopped (SIGSTOP) would not notice that its master is gone.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(KILLED_END_S)
        return not self._running


class _Signals:
    """Signals that can be waited for with a time-out. Their handlers do nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def wait(self, timeout_s: float | None) -> set[int]:
        """Return the signals that came, SIGCHLD included; empty if none came in time."""
        if not select.select([self._descriptor], [], [], timeout_s)[0]:
            return set()
        return set(os.read(self._descriptor, 1024))


@contextmanager
def _signals() -> Iterator[_Signals]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Without a handler in Python, a signal would end this process before the pipe is read. Signals that were ignored
    # before stay so, as nohup asks for.
    taken = (number for number in (*_STOPPING, signal.SIGCHLD) if signal.getsignal(number) != signal.SIG_IGN)
    before = {number: signal.signal(number, lambda *_: None) for number in taken}
    try:
        yield _Signals(reader)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_fd)
        os.close(reader)
        os.close(writer)


def answers_ready(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        # Only its status matters, and this process started it. Its certificate names other hosts.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=READY_ANSWER_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=READY_ANSWER_S)
    with closing(connection):
        try:
            connection.request("GET", parts.path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
