"""A stream that is followed: what is told as new, when it counts as lost, and its end."""

import queue
import threading
from collections.abc import Iterator

import pytest

from app.tools.command.asking import server_events
from app.tools.command.asking.server_connection import EventStream, NoServerAnswer
from app.tools.command.asking.server_events import ServerEvents
from tests.support.processes import HANG_S, eventually


class StubStream:
    """Gives what a test puts into it; None ends it, an error is raised."""

    def __init__(self, *given: bytes | Exception | None) -> None:
        self.given: queue.Queue[bytes | Exception | None] = queue.Queue()
        for one in given:
            self.given.put(one)

    def __iter__(self) -> Iterator[bytes]:
        while (one := self.given.get(timeout=HANG_S)) is not None:
            if isinstance(one, Exception):
                raise one
            yield one

    def end(self) -> None:
        self.given.put(None)


class Server:
    """Opens the streams of a test, one after the other."""

    def __init__(self, *streams: StubStream | Exception | None) -> None:
        self.left = list(streams)
        self.opened = 0

    def open(self) -> EventStream | None:
        self.opened += 1
        one = self.left.pop(0) if self.left else NoServerAnswer("gone")
        if isinstance(one, Exception):
            raise one
        return one  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that ended is opened again without a rest, however short it was."""
    monkeypatch.setattr(server_events, "LASTS_MIN_S", -1.0)


def followed(*streams: StubStream | Exception | None) -> tuple[ServerEvents, Server]:
    server = Server(*streams)
    events = ServerEvents(server.open)
    events.start()
    return events, server


def is_new(events: ServerEvents) -> bool:
    return events._news.is_set()


def test_what_differs_from_the_last_event_is_new() -> None:
    stream = StubStream(b"1")
    events, _ = followed(stream)
    try:
        assert events.is_open
        eventually(lambda: is_new(events))
        events.wait(HANG_S)
        stream.given.put(b"1")
        stream.given.put(b"2")
        events.wait(HANG_S)
        assert events._told == b"2"
    finally:
        events.stop()


def test_a_stream_whose_time_is_over_is_opened_again_and_tells_what_was_missed() -> None:
    first, second, third = StubStream(b"1", None), StubStream(b"1", None), StubStream(b"2")
    events, server = followed(first, second, third)
    try:
        eventually(lambda: events._told == b"2")
        assert (server.opened, events.is_open) == (3, True)
    finally:
        events.stop()


def test_a_server_without_a_stream_is_not_followed() -> None:
    events, server = followed(None)
    assert (events.is_open, server.opened) == (False, 1)
    assert "server-events" not in [one.name for one in threading.enumerate()]
    events.stop()


def test_a_stream_that_breaks_off_is_lost_which_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_events, "LASTS_MIN_S", 3_600.0)
    stream = StubStream(b"1")
    events, server = followed(stream)
    try:
        eventually(lambda: is_new(events))
        events.wait(HANG_S)
        stream.given.put(NoServerAnswer("the connection was closed"))
        events.wait(HANG_S)
        assert not events.is_open
        assert server.opened == 1, "it is not asked again at once"
    finally:
        events.stop()


def test_a_server_that_answers_later_is_followed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_events, "RETRY_S", 0.0)
    monkeypatch.setattr(server_events, "LASTS_MIN_S", 0.0)
    events, _ = followed(NoServerAnswer("busy"), NoServerAnswer("busy"), StubStream(b"1"))
    try:
        eventually(lambda: events.is_open)
    finally:
        events.stop()


def test_a_stream_that_is_gone_with_an_older_release_is_given_up() -> None:
    events, server = followed(StubStream(b"1", None), None)
    eventually(lambda: not events.is_open)
    events.stop()
    assert server.opened == 2
