"""Recorder: collects the events of a world. A world that is made while a recorder is set writes to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from app.tools.simulation.transcript.entry import Entry

LAST_MAX = 12
"""The number of last events that are kept for each key."""
KEYS_KEPT_MAX = 20_000
"""The number of keys with kept events; beyond it the key whose first event is oldest is dropped."""
Sink = Callable[[Entry], None]


class RecordedWorld(Protocol):
    """The progress of a world that writes to a recorder."""

    @property
    def now_ms(self) -> int: ...

    @property
    def events(self) -> int: ...

    @property
    def checked(self) -> Mapping[str, int]:
        """The number of checks of each invariant, by its title."""
        ...


class Recorder:
    """Hands each event on, and keeps the last events of each key, without minor ones."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._last: dict[str, deque[Entry]] = {}
        self.world: RecordedWorld | None = None
        """The world that writes here, once it is made."""

    def add(self, entry: Entry) -> None:
        for key in entry.keys if not entry.minor else ():
            if key not in self._last:
                self._last[key] = deque(maxlen=LAST_MAX)
                if len(self._last) > KEYS_KEPT_MAX:
                    del self._last[next(iter(self._last))]
            self._last[key].append(entry)
        self._sink(entry)

    def last_of(self, key: str) -> list[Entry]:
        """Return the last events that touched a key, the latest last."""
        return list(self._last.get(key, ()))


_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Let the worlds that are made inside write to the recorder."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def present_recorder() -> Recorder | None:
    """Return the recorder to which a world that is made now writes."""
    return _RECORDER.get()
