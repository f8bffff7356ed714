"""Servers of one test that speak TLS, or plain HTTP, and what a member needs to call them."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.config.tls_settings import HttpTls
from app.machine.tls.contexts import TlsContexts, make_contexts
from app.machine.tls.member_tls import MemberTls
from app.machine.tls.watched import TlsStats, WatchedFiles
from tests.support.certificates import Authority

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class CertifiedMember:
    """A certificate for 127.0.0.1, and the way to members that trusts its authority."""

    folder: Path
    compatible: bool = False
    stats: TlsStats = field(default_factory=TlsStats)

    def __post_init__(self) -> None:
        self.authority = Authority(self.folder)
        chain, private_key = self.folder / "chain.pem", self.folder / "key.pem"
        self.authority.issue(chain, private_key)
        self.settings = HttpTls(chain, private_key, self.authority.file, False, self.compatible)
        self.files: WatchedFiles[TlsContexts] = WatchedFiles(
            (chain, private_key), lambda: make_contexts(self.settings), self.stats
        )
        self.tls = MemberTls(self.files, self.stats, lambda: 0, compatible=self.compatible)


class BlockingServer:
    """Answers ``ok`` to each request, if it ``answers``; ``silent`` shakes no hands. ``context`` None is plain HTTP."""

    def __init__(self, context: ssl.SSLContext | None, *, silent: bool, answers: bool) -> None:
        self._context = context
        self._silent = silent
        self._answers = answers
        self.asked = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = 0
        self._opened: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                opened, _ = self._listening.accept()
                self.connections += 1
                self._opened.append(opened)
                if not self._silent:
                    with contextlib.suppress(OSError), self._spoken(opened) as spoken:
                        self._serve(spoken)

    def _spoken(self, opened: socket.socket) -> socket.socket:
        opened.settimeout(20)
        return self._context.wrap_socket(opened, server_side=True) if self._context else opened

    def _serve(self, spoken: socket.socket) -> None:
        left = b""
        while part := spoken.recv(65_536):
            if not (left or part).startswith((b"GET", b"PUT", b"POST")):
                spoken.sendall(BAD_REQUEST)
                return
            left += part
            while b"\r\n\r\n" in left:
                left = left.partition(b"\r\n\r\n")[2]
                self.asked.set()
                if self._answers:
                    spoken.sendall(ANSWER)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join()


@contextlib.contextmanager
def blocking_server(
    context: ssl.SSLContext | None, *, silent: bool = False, answers: bool = True
) -> Iterator[BlockingServer]:
    """Serve until the block ends."""
    server = BlockingServer(context, silent=silent, answers=answers)
    try:
        yield server
    finally:
        server.close()
