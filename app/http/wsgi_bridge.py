"""A request of the event loop as a WSGI call, made on a thread of a pool, and its result on the way back."""

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from app.http.call import TEXT, Reply
from app.http.connection import HttpConnection, Request

CHUNK_SENT_S = 30.0
"""What reads a streamed answer slower than a chunk in this time is cut off: it would hold a thread for ever."""
FAILED = "caused: internal error, see the server's log"

log = logging.getLogger(__name__)

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


OnLoop = Callable[..., object]
"""Has a function called on the loop's thread, with arguments."""


def make_environ(connection: HttpConnection, request: Request, server_address: tuple[str, int]) -> dict[str, Any]:
    """Return the environ of a request, as PEP 3333 and werkzeug want it."""
    target = request.target.decode("latin-1")
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        # A proxy's form with scheme and host; ``*`` stays as it is.
        path = "/" + path.partition("://")[2].partition("/")[2] if "://" in path else path
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method.decode("latin-1"),
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path.partition("#")[0].encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": query.partition("#")[0],
        "RAW_URI": target,
        "REMOTE_ADDR": connection.remote_ip,
        "REMOTE_PORT": str(connection.remote_port),
        "SERVER_NAME": server_address[0],
        "SERVER_PORT": str(server_address[1]),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_SOFTWARE": "rollcall",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.block.named.items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    if request.block.chunked:
        # The body is whole, whatever way it came in.
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ["CONTENT_LENGTH"] = str(len(request.body))
    return environ


class WsgiRun:
    """One request on its way through the application. ``run`` is for a thread of a pool."""

    def __init__(self, app: WsgiApp, connection: HttpConnection, request: Request, on_loop: OnLoop) -> None:
        self._app = app
        self._connection = connection
        self._request = request
        self._on_loop = on_loop
        self._status = ""
        self._headers: list[tuple[str, str]] = []

    def run(self, environ: dict[str, Any], date: bytes) -> None:
        """Call the application, and have the connection send what it answers."""
        try:
            result = self._app(environ, self._start_response)
        except Exception:
            # The application answers its own failures; this is one of what stands around it.
            log.exception("%s %s failed", environ["REQUEST_METHOD"], ascii(environ["RAW_URI"]))
            self._on_loop(self._connection.reply, Reply(500, FAILED.encode(), TEXT))
            return
        try:
            if self._is_stream():
                self._stream(result, date)
            else:
                body = b"".join(result)
                self._on_loop(self._connection.reply, Reply(int(self._status[:3]), body, None, head=self._head()))
        finally:
            if (close := getattr(result, "close", None)) is not None:
                close()

    def _start_response(self, status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
        self._status, self._headers = status, headers

    def _is_stream(self) -> bool:
        """Whether nobody knows yet how long the answer is."""
        has_body = self._status[:1] != "1" and self._status[:3] not in ("204", "304")
        return has_body and all(name.lower() != "content-length" for name, _ in self._headers)

    def _head(self) -> bytes:
        """The head as the loop's own answers have it: type first, length last."""
        order = {"content-type": 0, "content-length": 2}
        headers = sorted(self._headers, key=lambda pair: order.get(pair[0].lower(), 1))
        lines = [f"HTTP/1.1 {self._status}\r\n", *(f"{name}: {value}\r\n" for name, value in headers)]
        return "".join(lines).encode("latin-1")

    def _stream(self, parts: Iterable[bytes], date: bytes) -> None:
        """Send part after part, each when the client has taken those before it."""
        connection = self._connection
        self._on_loop(connection.stream_head, self._head() + b"Transfer-Encoding: chunked\r\n" + date)
        whole = False
        try:
            for part in parts:
                if part and not self._send(b"%x\r\n%b\r\n" % (len(part), part)):
                    return
            whole = self._send(b"0\r\n\r\n")
        except Exception:
            log.exception("the answer to %s ended early", ascii(self._request.target.decode("latin-1")))
        finally:
            self._on_loop(lambda: connection.stream_end(whole=whole))

    def _send(self, framed: bytes) -> bool:
        taken = threading.Event()
        self._on_loop(self._connection.stream_part, framed, taken.set)
        return taken.wait(CHUNK_SENT_S) and not self._connection.is_gone
