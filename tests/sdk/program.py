"""A program with a client library as a child process: it takes commands and prints answers and events, all JSON lines.

Shape of a command: ``{"op", "client", ...}``; of its answer: ``{"result"}`` or ``{"error"}``; of an event, which may
come at any time: ``{"event": "added" | "changed" | "removed", "client", "service", "instance": "ip:port"}``; a
change is one of weight or metadata.
"""

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from tests.sdk.environments import Environment
from tests.support.processes import HANG_S

CALL_TIMEOUT_S = HANG_S
END_TIMEOUT_S = 5.0
READ_BYTES = 65_536
FOLLOW_POLL_S = 0.2

Event = tuple[str, str, str]
"""Kind, client and instance."""


class SdkError(AssertionError):
    """The library reported a failure to its caller."""


class Server(Protocol):
    """Anything with the address of a server, ``host:port``."""

    @property
    def address(self) -> str: ...


class Program:
    """One run of a program; ends with the ``with`` block. For one thread at a time."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.events: list[Event] = []
        self._log = folder / "log"
        self._buffer = b""
        self._command = list(environment.command)
        # The libraries keep logs and caches in the home folder.
        self._environ = {**environment.environ, "HOME": str(folder)}
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "Program":
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environ,
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def kill(self) -> None:
        """End the program as a machine does that fails: the kernel closes its connections."""
        self._running().kill()

    def pause(self) -> None:
        """Stop the program as it is, as a suspended machine does: its connections stay, and nobody answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End the program, which may have ended before."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(HANG_S)
        process.stdout.close()

    def open(self, client: str, *members: Server, **more: str) -> None:
        """Make a client that knows these members; ``namespace``, ``username`` and ``password`` may be named."""
        self.call("open", client, servers=[member.address for member in members], **more)

    def call(self, op: str, client: str, **fields: Any) -> Any:
        """Have the client do something, and return what it answers; events that come meanwhile are kept.

        Raises:
            SdkError: the library failed.
        """
        process = self._running()
        assert process.stdin is not None
        line = json.dumps({"op": op, "client": client, **fields}) + "\n"
        process.stdin.write(line.encode())
        process.stdin.flush()
        deadline_s = time.monotonic() + CALL_TIMEOUT_S
        while (answer := self._next_line(deadline_s)) is not None:
            if "error" in answer:
                raise SdkError(f"{op} at {client}: {answer['error']}")
            if "result" in answer:
                return answer["result"]
        raise AssertionError(f"{op} at {client}: no answer within {CALL_TIMEOUT_S} s; {self._log_text()}")

    def hosts(self, client: str, service: str) -> dict[str, dict[str, Any]]:
        """What the client lists of a service, by ``ip:port``."""
        return {f"{host['ip']}:{host['port']}": host for host in self.call("list", client, service=service)}

    def wait_event(self, kind: str, client: str, instance: str, timeout_s: float = HANG_S) -> None:
        """Return when the client has told its listener of that."""
        wanted, deadline_s = (kind, client, instance), time.monotonic() + timeout_s
        while wanted not in self.events:
            assert self._next_line(deadline_s) is not None, f"{wanted} not within {timeout_s} s, but {self.events}"

    def watch(self, check: Callable[[], None], span_s: float, pause_s: float) -> None:
        """Make a check again and again for so long."""
        end_s = time.monotonic() + span_s
        while (left_s := end_s - time.monotonic()) > 0:
            check()
            self._next_line(time.monotonic() + min(pause_s, left_s))

    def follow(self, told: Callable[[Event], None], over: threading.Event) -> None:
        """Give each event to ``told`` when it comes, until ``over``."""
        while not over.is_set():
            if self._next_line(time.monotonic() + FOLLOW_POLL_S) is not None:
                told(self.events[-1])

    def _next_line(self, deadline_s: float) -> dict[str, Any] | None:
        """Return the next answer or event, which is kept too; None when there is none in time."""
        process = self._running()
        assert process.stdout is not None
        while b"\n" not in self._buffer:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                return None
            read = os.read(process.stdout.fileno(), READ_BYTES)
            assert read, f"the program ended: {self._log_text()}"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        value: dict[str, Any] = json.loads(line)
        if "event" in value:
            self.events.append((value["event"], value["client"], value["instance"]))
        return value

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "use it in a with statement"
        return self._process

    def _log_text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
