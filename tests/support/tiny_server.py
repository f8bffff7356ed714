"""An HTTP server of a few lines, whose answers the test writes and whose requests it reads."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Received:
    """A request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Given:
    """An answer. ``hang_up`` closes the connection instead; ``drip_s`` is the pause after each byte."""

    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/plain;charset=UTF-8"})
    hang_up: bool = False
    drip_s: float = 0.0
    cut_at: int | None = None
    """The connection ends after so many bytes of the body, whose whole length was told."""


class TinyServer:
    """Answers each request with what ``answer`` gives for it. ``stopped`` is set when the test is over."""

    def __init__(self, answer: Callable[[Received], Given]) -> None:
        self.answer = answer
        self.received: list[Received] = []
        self.connections = 0
        """How many were opened."""
        self.arrived = threading.Condition()
        self.stopped = threading.Event()
        self.address = ""

    def wait_for(self, count: int, timeout_s: float = 60.0) -> None:
        """Return when so many requests have arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.received) >= count, timeout_s), self.received


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: TinyServer
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        with self.owner.arrived:
            self.owner.connections += 1

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(length)
        received = Received(self.command, self.path, headers, body, self.client_address[1])
        with self.owner.arrived:
            self.owner.received.append(received)
            self.owner.arrived.notify_all()
        given = self.owner.answer(received)
        if given.hang_up:
            self.close_connection = True
            return
        lines = [f"HTTP/1.1 {given.status} X", f"Content-Length: {len(given.body)}"]
        lines += [f"{name}: {value}" for name, value in given.headers.items()]
        answer = "\r\n".join([*lines, "", ""]).encode() + given.body
        if given.cut_at is not None:
            self.wfile.write(answer[: len(answer) - len(given.body) + given.cut_at])
            self.close_connection = True
            return
        if not given.drip_s:
            self.wfile.write(answer)
            return
        for number in range(len(answer)):
            if self.owner.stopped.wait(given.drip_s):
                return
            self.wfile.write(answer[number : number + 1])

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


@contextmanager
def tiny_server(answer: Callable[[Received], Given] = lambda _: Given(), port: int = 0) -> Iterator[TinyServer]:
    """Serve on this loopback port, or on a free one, until the block ends."""
    tiny = TinyServer(answer)
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"owner": tiny}))
    tiny.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield tiny
    finally:
        tiny.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()


def refusing_address() -> str:
    """An address where nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"
