"""The security log: logins, refusals, and changes by administrators; in a separate file.

It is separate from the audit log, which registrations fill. No caller can rotate it away by repeating one action: of
equal events in a minute the first are written, and then the number of the others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from app.config.observability import Observability
from app.metrics.line_file import LineFile, LineStats
from app.naming.model.ip_addresses import caller_key

WINDOW_MS = 60_000
KIND_MAX, REFUSED_MAX = 600, 60
"""The most lines of one kind in a window; the second is for refusals, which cost their callers nothing."""
REFUSED_KINDS = frozenset(("login.refused", "access.refused", "member.refused"))
EACH_MAX = 5
"""The most equal events that are written in a window, where only their number tells them apart."""
OF_CALLERS = REFUSED_KINDS | {"login.done"}
REPEATED = "repeated"
OTHERS = "others"
SECURITY_NAME = "security.log"
"""The name of its file, next to the audit log, where the settings name no other."""


class Event(NamedTuple):
    """The kind of an event and its actor. Events with the same values are equal."""

    what: str
    address: str
    user: str


MakeLine = Callable[[int, Event, dict[str, Any]], str]
"""Makes the line for a number of further equal events, from its time, the event, and further fields."""


@dataclass(slots=True)
class _Window:
    begin_ms: int
    written: int = 0
    left_out: int = 0


class SecurityLog:
    """Records events from any thread, without waiting."""

    def __init__(
        self, settings: Observability, wall_ms: Callable[[], int], lost_line: Callable[[int], str], make: MakeLine
    ) -> None:
        self._wall_ms = wall_ms
        self._make = make
        self._lock = Lock()
        self._kinds: dict[str, _Window] = {}
        """A window for each kind of event. There are few kinds, as only this program names them."""
        self._equal: dict[Event, _Window] = {}
        """At most ``KIND_MAX`` for each kind: only a written event has a window."""
        self._begin_ms = wall_ms()
        """The begin of the current window."""
        path = settings.security_file or settings.audit_file.with_name(SECURITY_NAME)
        self._file = LineFile(
            "security", path, settings.security_file_bytes, settings.security_files, lost_line, self._end_windows
        )

    @property
    def stats(self) -> LineStats:
        """Lines since the start."""
        return self._file.stats

    def takes(self, event: Event) -> bool:
        """Return whether an event is to be written now. Otherwise count it."""
        now_ms = self._wall_ms()
        event = event._replace(address=caller_key(event.address))
        with self._lock:
            kind = self._kinds.get(event.what)
            if kind is None:
                kind = self._kinds[event.what] = _Window(now_ms)
            equal = self._equal.get(event)
            if equal is not None and equal.written >= EACH_MAX and event.what in OF_CALLERS:
                equal.left_out += 1
                return False
            if kind.written >= (REFUSED_MAX if event.what in REFUSED_KINDS else KIND_MAX):
                kind.left_out += 1
                return False
            kind.written += 1
            if equal is None:
                equal = self._equal[event] = _Window(now_ms)
            equal.written += 1
            return True

    def add(self, line: Callable[[], str]) -> None:
        """Write a line, which is made later."""
        self._file.add(line)

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting lines. Return whether that took under ``timeout_s``. May be called twice."""
        self._end_windows(at_end=True)
        return self._file.stop(timeout_s)

    def _end_windows(self, *, at_end: bool = False) -> None:
        """Write how many events were left out of windows that ended.

        The file's thread calls it several times a second.
        """
        now_ms = self._wall_ms()
        with self._lock:
            if not at_end and 0 <= now_ms - self._begin_ms < WINDOW_MS:
                return
            self._begin_ms = now_ms
            equal, self._equal = self._equal, {}
            kinds, self._kinds = self._kinds, {}
        for event, window in equal.items():
            self._tell(event, window, now_ms)
        for what, window in kinds.items():
            self._tell(Event(what, OTHERS, ""), window, now_ms)

    def _tell(self, event: Event, window: _Window, now_ms: int) -> None:
        if window.left_out:
            told = {REPEATED: window.left_out, "forMs": max(now_ms - window.begin_ms, 0)}
            self._file.add(self._make(now_ms, event, told))
