"""Answers that continue: events and lines, sent as they are made, on a connection that no thread waits for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

LINES_TYPE = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events on the connection, which no thread waits for. Only for hot calls.

    A call that came to Flask gets the present lines, and the stream's end: browsers ask again.
    """

    topic: tuple[str, ...]
    """Streams of one topic tell the same: it is read once for all of them."""
    read: Callable[[], bytes]
    """The data of an event, one line, as things are now. Called on a thread of a pool; may be called at any time."""


class LineSource(Protocol):
    """The source of the lines of one answer."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Begin: ``wake`` may be called from any thread, when there is something to read."""
        ...

    def detach(self) -> None:
        """End. May be called twice, from any thread."""
        ...

    def read(self, *, is_idle: bool) -> bytes | None:
        """Return the next lines, possibly empty; None at the end of the answer. Called on a thread of a pool.

        ``is_idle``: nothing was sent for a while, so that a line must say that the node still answers.
        """
        ...


@dataclass(frozen=True, slots=True)
class Lines:
    """A stream of lines. Only for hot calls; one that came to Flask gets the first lines, and the end."""

    source: LineSource
