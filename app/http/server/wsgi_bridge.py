"""From the event loop to Flask and back: a request as a WSGI call on a pool's thread, its response as a reply."""

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from app.auth.login_limits import LoginWait
from app.auth.member_calls import CLIENT, Caller
from app.http.api.answers import INTERNAL_ERROR, error_reply
from app.http.api.call import AGAIN_MS, CALLER, LOGIN_WAIT, MEMBER_CERTIFICATE, Reply
from app.http.input.forms import unescape
from app.http.server.connection import UNREAD_S, HttpConnection
from app.http.server.http_messages import AnyRequest, status_line
from app.http.server.request_reader import path_of
from app.machine.limits.answer_budget import LARGE_ANSWER_BYTES, AnswerBudget
from app.naming.model.nacos_errors import TooManyRequests

CHUNK_SENT_S = 4 * UNREAD_S
"""A thread waits no longer for the loop, which cuts off a client that reads nothing after ``UNREAD_S``."""

log = logging.getLogger(__name__)

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
CallSoon = Callable[..., object]
"""Has a function called on the loop's thread with the arguments behind it; RuntimeError when the loop has ended."""


def make_environ(
    connection: HttpConnection, request: AnyRequest, server_address: tuple[str, int], caller: Caller = CLIENT
) -> dict[str, Any]:
    """Return the WSGI environ of a request: PEP 3333, ``RAW_URI`` as werkzeug's has it, and the caller."""
    target = request.target.decode("latin-1")
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        # Absolute form, as proxies send it: scheme and host are dropped. ``*`` stays as it is.
        path = "/" + path.partition("://")[2].partition("/")[2] if "://" in path else path
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method.decode("latin-1"),
        "SCRIPT_NAME": "",
        "PATH_INFO": unescape(path.encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": target,
        "REMOTE_ADDR": connection.remote_ip,
        "REMOTE_PORT": str(connection.remote_port),
        "SERVER_NAME": server_address[0],
        "SERVER_PORT": str(server_address[1]),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_SOFTWARE": "rollcall",
        CALLER: caller,
        LOGIN_WAIT: LoginWait(),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if connection.is_tls else "http",
        MEMBER_CERTIFICATE: connection.has_member_certificate,
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.block.named.items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    if request.block.chunked:
        # The reader joined the chunks.
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ["CONTENT_LENGTH"] = str(len(request.body))
    return environ


class WsgiRun:
    """One request that the application answers. ``run`` is called on a thread of a pool."""

    def __init__(
        self, app: WsgiApp, connection: HttpConnection, request: AnyRequest, call_soon: CallSoon, answers: AnswerBudget
    ) -> None:  # fmt: skip
        """``answers``: counts a large answer until the connection has it."""
        self._app = app
        self._answers = answers
        self._connection = connection
        self._request = request
        self._call_soon = call_soon
        self._status = ""
        self._headers: list[tuple[str, str]] = []

    def run(self, environ: dict[str, Any]) -> None:
        """Call the application, and have the connection send the reply; none where the call is to be made again."""
        result: Iterable[bytes] = ()
        try:
            result = self._app(environ, self._start_response)
            if AGAIN_MS in environ:
                return
            reply = Reply(self._code, b"" if self._is_stream() else self._whole(result), None, head=self._head())
        except Exception:
            # The application answers its own failures; this one is of the code around it, or of a head it cannot have.
            log.exception("%s %s failed", environ["REQUEST_METHOD"], ascii(path_of(self._request.target)))
            self._on_loop(self._connection.reply, INTERNAL_ERROR)
        else:
            if self._is_stream():
                self._stream(reply, result)
            elif len(reply.body) > LARGE_ANSWER_BYTES:
                self._reply_large(reply, environ[CALLER])
            else:
                self._on_loop(self._connection.reply, reply)
        finally:
            if (close := getattr(result, "close", None)) is not None:
                close()

    def _reply_large(self, reply: Reply, caller: Caller) -> None:
        """Have a large reply sent, or a refusal where there is no room for it; members are never refused."""
        count, answers = len(reply.body), self._answers
        try:
            answers.claim(count, is_for_member=caller.is_member)
        except TooManyRequests as error:
            refusal = error_reply(error)
            self._status = str(refusal.status)
            self._on_loop(self._connection.reply, refusal)
            return

        def send() -> None:
            # The connection counts what its client does not take at once.
            answers.give_back(count)
            self._connection.reply(reply)

        if not self._on_loop(send):
            answers.give_back(count)

    def _start_response(self, status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
        self._status, self._headers = status, headers

    @property
    def _code(self) -> int:
        return int(self._status[:3])

    @property
    def status(self) -> int:
        """The status of the answer, once ``run`` has ended."""
        return self._code if self._status else INTERNAL_ERROR.status

    def _is_stream(self) -> bool:
        """Return whether the length of the answer is not known yet."""
        if self._code < 200 or self._code in (204, 304) or self._request.method == b"HEAD":
            return False
        return all(name.lower() != "content-length" for name, _ in self._headers)

    def _whole(self, result: Iterable[bytes]) -> bytes:
        # The parts of an answer to HEAD, of which there may be many, are not made.
        return b"" if self._request.method == b"HEAD" else b"".join(result)

    def _head(self) -> bytes:
        """The head in the order of the loop's own replies: type first, length last."""
        order = {"content-type": 0, "content-length": 2}
        headers = sorted(self._headers, key=lambda pair: order.get(pair[0].lower(), 1))
        # Not werkzeug's own status line: it shouts the phrase.
        lines = [status_line(self._code), *(f"{name}: {value}\r\n" for name, value in headers)]
        return "".join(lines).encode("latin-1")

    def _stream(self, head: Reply, parts: Iterable[bytes]) -> None:
        """Send the head and part after part, each when the client has taken those before it."""
        connection = self._connection
        self._on_loop(connection.stream_head, head)
        whole = False
        try:
            for part in parts:
                if part and not self._send(part):
                    return
            whole = True
        except Exception:
            log.exception("the answer to %s ended early", ascii(path_of(self._request.target)))
        finally:
            self._on_loop(connection.stream_end, whole)

    def _send(self, part: bytes) -> bool:
        taken = threading.Event()
        queued = self._on_loop(self._connection.stream_part, part, taken.set)
        return queued and taken.wait(CHUNK_SENT_S) and not self._connection.is_gone

    def _on_loop(self, function: Callable[..., object], *args: object) -> bool:
        """Have a function called on the loop; False when the loop has ended, and the connection with it."""
        try:
            self._call_soon(function, *args)
        except RuntimeError:
            return False
        return True
