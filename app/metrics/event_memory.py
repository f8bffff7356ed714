"""The lines of the audit trail that a node remembers, for questions about the last hours.

The thread that writes a line to its file notes it here: a change that no operator asks about costs its caller
nothing. Every kind of event has a separate bound, in bytes, so that registrations push out no other event.
"""

import logging
import os
import stat
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import orjson

from app.metrics.event_watch import EventWatch

LOG = logging.getLogger(__name__)
INSTANCES, OPERATORS, CLUSTER, ACCESS = "instances", "operators", "cluster", "access"
KINDS = (INSTANCES, OPERATORS, CLUSTER, ACCESS)
BYTES_MAX = {INSTANCES: 8 << 20, OPERATORS: 4 << 20, CLUSTER: 1 << 20, ACCESS: 1 << 20}
"""The most bytes of each kind: some 15,000 registrations, or 7,000 operators' changes. The oldest are forgotten."""
COST_BYTES = 180
"""The memory for a remembered line next to its characters."""
TAIL_BYTES = 2 << 20
"""How much of a log is read at the start: some 5,000 lines, in about 40 ms."""
_KINDS_OF = {
    "instance": INSTANCES,
    "client": INSTANCES,
    "member": CLUSTER,
    "node": CLUSTER,
    "ownership": CLUSTER,
    "lost": CLUSTER,
    "login": ACCESS,
    "logout": ACCESS,
    "access": ACCESS,
    "repeated": ACCESS,
}
_ACCESS = frozenset({"member.refused"})
_AT = attrgetter("at_ms")


def kind_of(what: str) -> str:
    """Return the kind of an event, by the ``what`` of its line."""
    return ACCESS if what in _ACCESS else _KINDS_OF.get(what.partition(".")[0], OPERATORS)


class NotedLine(NamedTuple):
    """One line, with its number among all that this run noted, and its time of the wall clock."""

    at_ms: int
    number: int
    line: str


class _Ring:
    """The latest lines of a single kind."""

    def __init__(self, since_ms: int, bytes_max: int) -> None:
        self.lines: deque[NotedLine] = deque()
        self.since_ms = since_ms
        """The time from which all are remembered."""
        self._bytes_max = bytes_max
        self._bytes = 0

    def add(self, one: NotedLine) -> None:
        self.lines.append(one)
        self._bytes += len(one.line) + COST_BYTES
        while self._bytes > self._bytes_max:
            gone = self.lines.popleft()
            self._bytes -= len(gone.line) + COST_BYTES
            self.since_ms = max(self.since_ms, gone.at_ms + 1)


class EventMemory:
    """The latest lines of every kind. Thread-safe."""

    def __init__(self, node: str, began_ms: int) -> None:
        """``node``: the address in its lines. ``began_ms``: the time of the wall clock."""
        self.node = node
        self.run = f"{began_ms:x}"
        """The name of this run in the ids of events."""
        self.others = EventWatch()
        """The revisions of the other members' memories."""
        self._began_ms = began_ms
        self._lock = threading.Lock()
        self._rings = {kind: _Ring(began_ms, most) for kind, most in BYTES_MAX.items()}
        self._noted = 0

    @property
    def revision(self) -> str:
        """A text that changes with each noted line, and with each run of the node."""
        return f"{self.run}.{self._noted}"

    def note(self, what: str, at_ms: int, line: str) -> None:
        """Remember a line. Beyond the bound, the oldest lines like it are forgotten."""
        ring = self._rings[kind_of(what)]
        with self._lock:
            self._noted += 1
            ring.add(NotedLine(at_ms, self._noted, line))

    def since_ms(self) -> dict[str, int]:
        """Return the time from which all events are remembered, by kind."""
        return {kind: ring.since_ms for kind, ring in self._rings.items()}

    def between(self, kinds: Iterable[str], after_ms: int, before_ms: int) -> list[NotedLine]:
        """Return the lines of these kinds that are later than ``after_ms`` and earlier than ``before_ms``.

        The latest is the last.
        """
        found: list[NotedLine] = []
        for kind in kinds:
            with self._lock:
                lines = list(self._rings[kind].lines)
            lines.sort(key=_AT)  # nearly sorted already: threads note in turns, and the wall clock may be set back
            found += lines[bisect_right(lines, after_ms, key=_AT) : bisect_left(lines, before_ms, key=_AT)]
        found.sort()
        return found

    # --- what earlier runs wrote --------------------------------------------------------------------

    def recall(self, audit: Path, security: Path, of_clients: Sequence[str]) -> None:
        """Remember the last lines of both logs, which earlier runs of this node wrote. A log may be missing.

        ``of_clients``: how events begin that only the audit log has; the others are in both, and are taken from the
        security log, where registrations cannot push them out.
        """
        begins = tuple(of_clients)
        from_audit, audit_ms = self._written(audit, lambda what: what.startswith(begins))
        from_security, security_ms = self._written(security, lambda what: not what.startswith(begins))
        with self._lock:
            for ring in self._rings.values():
                ring.since_ms = max(audit_ms, security_ms)
            self._rings[INSTANCES].since_ms, self._rings[ACCESS].since_ms = audit_ms, security_ms
        for what, at_ms, line in sorted(from_audit + from_security, key=lambda one: one[1]):
            self.note(what, at_ms, line)

    def _written(self, path: Path, is_wanted: Callable[[str], bool]) -> tuple[list[tuple[str, int, str]], int]:
        """Return the wanted lines at the end of a log, and the time from which they are all that this node wrote."""
        found, since_ms = list[tuple[str, int, str]](), self._began_ms
        for text in tail_lines(path):
            try:
                fields = orjson.loads(text)
                what, at_ms = fields["what"], int(datetime.fromisoformat(fields["time"]).timestamp() * 1_000)
                if fields["node"] != self.node or not isinstance(what, str) or at_ms >= self._began_ms:
                    continue
            except (ValueError, TypeError, KeyError, OverflowError):
                continue  # the first line is cut off, and somebody else may have written to the file
            since_ms = min(since_ms, at_ms)
            if is_wanted(what):
                found.append((what, at_ms, text))
        return found, since_ms


def tail_lines(path: Path) -> list[str]:
    """Return the lines in the last ``TAIL_BYTES`` of a log, and of the file that it was before it was rotated."""
    parts: list[bytes] = []
    left = TAIL_BYTES
    for file in (path, path.with_name(path.name + ".1")):
        try:
            if not stat.S_ISREG(file.stat().st_mode):
                break  # a pipe or a terminal, whose reading would wait
            with file.open("rb") as opened:
                size = opened.seek(0, os.SEEK_END)
                opened.seek(max(size - left, 0))
                parts.append(opened.read(left))
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                LOG.warning("the events in %s are not shown, because it cannot be read: %s", file, error)
            break
        left -= len(parts[-1])
        if left <= 0:
            break
    return b"\n".join(reversed(parts)).decode("utf-8", "replace").split("\n")
