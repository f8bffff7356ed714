"""An event loop whose clock the test puts forward, and a member at the other end of its connections."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import httptools

from app.auth.signed import QUESTION_TARGET, SIGNATURE
from tests.support.identified import proof_headers

T = TypeVar("T")
HANG_S = 60.0
TURN_S = 0.0001


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its time goes on by ``skip``, and by ``TURN_S`` at each turn of ``until``: never by itself.

    So no time-out on the loop expires while this process waits for its processor.
    """

    now_s = 1_000.0

    def time(self) -> float:
        return self.now_s

    def skip(self, seconds: float) -> None:
        """Move the clock: timers that are due within ``seconds`` are called in the next turn."""
        self.now_s += seconds


def run_loop(main: Callable[[SkippingLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a test on a loop of its own, at whose end no task, no open transport and no unforeseen error may be left."""
    errors: list[dict[str, Any]] = []

    async def whole() -> T:
        loop = cast(SkippingLoop, asyncio.get_running_loop())
        loop.set_exception_handler(lambda _, context: errors.append(context))
        result = await main(loop)
        await turns(3)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"these tasks are left: {left}"
        return result

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        result = runner.run(whole())
    gc.collect()  # a transport that was not closed says so when it goes
    assert not errors, f"the loop met with {errors}"
    return result


@contextmanager
def loop_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in real time on a thread of its own, for tests that block; it ends with the block."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever, name="test-loop")
        thread.start()
        try:
            yield loop
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


def on_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> T:
    """Do the work on the loop's thread, and return what it returns."""

    async def do() -> T:
        return work()

    return asyncio.run_coroutine_threadsafe(do(), loop).result(HANG_S)


async def turns(count: int) -> None:
    """Let the loop run ``count`` turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(check: Callable[[], T]) -> T:
    """Return the first true result of ``check``, which is asked at every turn of the loop."""
    end_s = time.monotonic() + HANG_S
    loop = cast(SkippingLoop, asyncio.get_running_loop())
    while not (result := check()):
        assert time.monotonic() < end_s, f"it never came true; the last result was {result!r}"
        loop.skip(TURN_S)
        await asyncio.sleep(0)
    return result


@dataclass
class Asked:
    """A request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    link: "FarEnd"


def answer(
    body: bytes = b"ok", status: int = 200, headers: Iterable[tuple[str, str]] = (("content-type", "text/plain"),)
) -> bytes:
    """The bytes of an answer."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} X\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


class FarEnd(asyncio.Protocol):
    """One connection as the member sees it."""

    def __init__(self, server: "MemberServer") -> None:
        self._server = server
        self._parser: Any = httptools.HttpRequestParser(self)
        self._target, self._headers, self._body = b"", dict[str, str](), b""
        self.transport: asyncio.Transport
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.open = True
        self._server.links.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self._parser = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body = b"", {}, b""

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        if self._server.secret and self._target == QUESTION_TARGET.encode():
            told = proof_headers(self._server.secret, self._server.address, self._headers[SIGNATURE])
            self.transport.write(answer(b"", 401, told.items()))
            return
        asked = Asked(method, self._target.decode("latin-1"), self._headers, self._body, self)
        self._server.received.append(asked)
        given = self._server.answer(asked)
        if given is not None:
            assert isinstance(given, bytes)
            self.transport.write(given)


class MemberServer:
    """Answers each request with the bytes from ``answer``; for None the test answers, or nobody."""

    def __init__(self, answer: Callable[[Asked], bytes | None], secret: str = "") -> None:
        """``secret``: the members'; it proves that it knows it, without a word in ``received``."""
        self.answer = answer
        self.secret = secret
        self.received: list[Asked] = []
        self.links: list[FarEnd] = []
        self.address = ""

    @property
    def open_links(self) -> list[FarEnd]:
        return [link for link in self.links if link.open]

    @property
    def targets(self) -> list[str]:
        return [asked.target for asked in self.received]

    async def wait_for(self, count: int) -> None:
        """Return when ``count`` requests have arrived."""
        await until(lambda: len(self.received) >= count)


def silent(_: Asked) -> None:
    """The member does not answer."""


@asynccontextmanager
async def member_server(
    answering: Callable[[Asked], bytes | None] = lambda _: answer(), secret: str = ""
) -> AsyncIterator[MemberServer]:
    """Serve on a free loopback port until the block ends."""
    member = MemberServer(answering, secret)
    server = await asyncio.get_running_loop().create_server(lambda: FarEnd(member), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    member.address = f"{host}:{port}"
    try:
        yield member
    finally:
        server.close()
        for link in member.open_links:
            link.transport.abort()
        await until(lambda: not member.open_links)
        await server.wait_closed()
