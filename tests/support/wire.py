"""A client's connection without a network: the test sets the time, and says when the client reads."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httptools

from app.http.api.call import Reply
from app.http.api.loop_call import HeaderBlock
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import REPEATED_BYTES_MAX, Request, RequestKeeper
from app.machine.limits.answer_budget import AnswerBudget
from app.machine.process.loop_parts import RequestMemo, TurnSends

DATE = b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"


class FakeTransport(asyncio.Transport):
    """Behaves as uvloop's: calls of the protocol that uvloop makes in a later turn are made in ``turn``."""

    def __init__(self, protocol: HttpConnection, client_ip: str = "10.0.0.9") -> None:
        self.extra: dict[str, Any] = {"peername": (client_ip, 40_000)}
        super().__init__(self.extra)
        self._protocol = protocol
        self.taken = bytearray()
        """The bytes that the client has read."""
        self.unread = bytearray()
        self.client_reads = True
        self.reading, self.closing, self.aborted, self.eof_sent, self.lost = True, False, False, False, False
        self._high, self._paused = 1 << 16, False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.lost
        self.reading = not self.closing

    def write(self, data: Any) -> None:
        assert not self.eof_sent, "written behind the end"
        assert not self.lost
        if self.aborted or (self.closing and not self.unread):
            return
        self.unread += data
        if self.client_reads:
            self.read()
        if len(self.unread) > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.eof_sent = True

    def close(self) -> None:
        self.closing, self.reading = True, False

    def abort(self) -> None:
        self.closing, self.aborted, self.reading = True, True, False

    def read(self, count: int | None = None) -> None:
        """The client takes bytes, all for None."""
        count = len(self.unread) if count is None else count
        self.taken += self.unread[:count]
        del self.unread[:count]
        if self._paused and len(self.unread) <= self._high // 4:
            self._paused = False
            self._protocol.resume_writing()

    def turn(self) -> None:
        if self.closing and not self.lost and (self.aborted or not self.unread):
            self.lost = True
            protocol = self._protocol
            del self._protocol  # as uvloop does, so that neither keeps the other in memory
            protocol.connection_lost(None)


def keeps_nothing() -> RequestMemo[Request, Any]:
    """A memo of requests that parses each one: no route is hot."""
    return RequestMemo(RequestKeeper({}), 1, REPEATED_BYTES_MAX, 1_024)


@dataclass
class FakeServer:
    """Answers a target that begins with ``/pool`` when the test says so, all others at once."""

    now_s: float = 1_000.0
    date: bytes = DATE
    draining: bool = False
    answers: AnswerBudget = field(default_factory=AnswerBudget)
    check_pause: Callable[[], None] = lambda: None
    room_bytes: int = 1 << 20
    body_max: int = 100_000
    full: bool = False
    reserved: int = 0
    open: set[HttpConnection] = field(default_factory=set)
    asked: list[Request] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    last_words: bytes = b""
    """What a connection that is one too many is told."""
    failure: Exception | None = None
    page: str | None = None
    """Why calls with a header ``Origin`` are refused."""
    bodies: dict[bytes, bytes] = field(default_factory=dict)
    """The body of the reply to a target; else the target itself."""
    repeated: RequestMemo[Request, Any] = field(default_factory=keeps_nothing)
    turns: deque[Callable[[], None]] = field(default_factory=deque)
    """The functions to call in the loop's next turn."""
    resting: int = 0

    @property
    def bounds(self) -> Any:
        """Itself."""
        return self

    def opened(self, connection: HttpConnection) -> bytes | None:
        if self.full:
            return self.last_words
        self.open.add(connection)
        return None

    def closed(self, connection: HttpConnection) -> None:
        self.open.discard(connection)

    def body_bytes_max(self, method: bytes, target: bytes, block: HeaderBlock, remote_ip: str) -> int:
        return self.body_max

    def reserve(self, count: int, *, is_large: bool = False) -> bool:
        if count > 0 and self.reserved + count > self.room_bytes:
            return False
        self.reserved += count
        assert self.reserved >= 0, "more was given back than was taken"
        return True

    def refusal_of_page(self, block: HeaderBlock) -> str | None:
        return self.page if block.get("origin") else None

    def has_foreign_origin(self, block: HeaderBlock) -> bool:
        return block.get("origin") == "foreign"

    def answer(self, connection: HttpConnection, request: Request) -> Reply | None:
        self.asked.append(request)
        if self.failure is not None:
            raise self.failure
        return None if request.target.startswith(b"/pool") else self.reply_to(request)

    def reply_to(self, request: Request) -> Reply:
        return Reply(200, self.bodies.get(request.target, request.target))

    def log_refused(self, remote_ip: str, status: int, text: str) -> None:
        self.refused.append(status)

    def soon(self, function: Callable[[], None]) -> None:
        self.turns.append(function)

    def __post_init__(self) -> None:
        self.sends = TurnSends(self.soon)


@dataclass(frozen=True)
class Received:
    """One answer as a client reads it; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """One connection, seen from the client."""

    def __init__(
        self, server: Any = None, kind: type[HttpConnection] = HttpConnection, client_ip: str = "10.0.0.9"
    ) -> None:
        self.server = server or FakeServer()
        self.connection = kind(self.server)
        self.transport = FakeTransport(self.connection, client_ip)
        self._on_the_way: deque[bytes] = deque()
        self.connection.connection_made(self.transport)
        self.transport.turn()

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self.connection._queue.busy

    def send(self, *parts: bytes) -> None:
        """Have bytes arrive, each part by itself; parts that the node does not read now arrive when it reads again."""
        self._on_the_way.extend(parts)
        self._arrive()

    def _arrive(self) -> None:
        self._settle()
        while self._on_the_way and self.transport.reading:
            self.connection.data_received(self._on_the_way.popleft())
            self._settle()

    def _settle(self) -> None:
        """Let the loop turn until there is nothing to do; a real server has a real one, and ends its turn here."""
        if not isinstance(self.server, FakeServer):
            self.server.sends.send()
        self.transport.turn()
        while isinstance(self.server, FakeServer) and self.server.turns:
            self.server.turns.popleft()()
            self.transport.turn()

    @property
    def waiting_bytes(self) -> int:
        """The bytes that the client has sent and the node has not read."""
        return sum(map(len, self._on_the_way))

    def half_close(self) -> None:
        """The client sends no more."""
        if not self.connection.eof_received():
            self.transport.close()
        self.transport.pause_reading()
        self.transport.turn()

    def answer(self, reply: Reply | None = None) -> None:
        """Answer the request that is worked on elsewhere."""
        assert self.connection.current is not None
        self.connection.reply(reply or self.server.reply_to(self.connection.current))
        self._turn()

    def read(self, count: int | None = None) -> None:
        self.transport.read(count)
        self._turn()

    def drain(self) -> None:
        self.server.draining = True
        self.connection.drain()
        self._turn()

    def go(self, seconds: float) -> None:
        """Let time pass; each second the connection's time limits are checked."""
        for _ in range(int(seconds)):
            self.server.now_s += 1
            if not self.transport.lost:
                self.connection.check_time(self.server.now_s)
            self._turn()

    def _turn(self) -> None:
        self._arrive()

    @property
    def is_open(self) -> bool:
        return not self.transport.lost

    @property
    def received(self) -> bytes:
        return bytes(self.transport.taken)

    def replies(self) -> list[Received]:
        """The answers so far, none of which may be cut short."""
        return replies_of(self.received)

    def statuses(self) -> list[int]:
        return [one.status for one in self.replies()]

    def bodies(self) -> list[bytes]:
        return [one.body for one in self.replies()]


class ReplyReader:
    """Finds answers in bytes, however they come. Those to HEAD it cannot know."""

    def __init__(self) -> None:
        self.found: list[Received] = []
        self.parser = httptools.HttpResponseParser(self)
        # Bytes behind an answer that ends the connection are an error, which the test sees.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.inside = False

    def on_message_begin(self) -> None:
        self.inside, self.headers, self.body = True, dict[str, str](), bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        assert name.lower().decode() not in self.headers, f"{name!r} twice"
        self.headers[name.lower().decode()] = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.inside = False
        self.found.append(Received(self.parser.get_status_code(), self.headers, bytes(self.body)))


def replies_of(data: bytes) -> list[Received]:
    """Read whole answers, one behind the other; 100 is no answer of its own."""
    reader = ReplyReader()
    reader.parser.feed_data(data)
    assert not reader.inside, f"cut short: {data[-200:]!r}"
    return [one for one in reader.found if one.status != 100]


def request(target: str = "/hot", method: str = "GET", body: bytes = b"", *lines: str) -> bytes:
    """The bytes of a request of HTTP/1.1; with a body comes its length."""
    length = [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: x", *length, *lines, "", ""]).encode() + body


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
