"""Blocking HTTP calls between members: kept connections, and a deadline for the whole call."""

import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NameResolutionError

from distro.model.errors import TransportError, UnfitError
from distro.timing.clock import boot_s, monotonic_s
from distro.wire.call_trust import CallSigner, PeerTls

CHUNK_BYTES = 256 * 1024
CONNECT_TIMEOUT_S = 1.0
ANSWER_BYTES_MAX = 64 * 1024
"""The longest answer to a ``Question``, in bytes."""
CONNECTIONS = 32
"""The most peers to which a session keeps connections."""
CONNECTIONS_OF_PEER = 2
"""The most idle connections that are kept to one peer."""
_QUERY = re.compile(r"\?[^\s'\")]*")
_deadline = threading.local()
"""``end_s``: when the calling thread's call ends, by the monotonic clock, None between calls; ``peer``: its callee."""


class PeerAnswer(NamedTuple):
    """A peer's whole answer; the names of ``headers`` are compared without regard to case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def _limit(opened: socket.socket) -> None:
    """Make a socket's next read or write end by the calling thread's deadline.

    A time-out per read would let a peer that sends a byte a second occupy its worker thread for ever.
    """
    end_s = getattr(_deadline, "end_s", None)
    if end_s is not None:
        left_s = end_s - monotonic_s()
        if left_s <= 0:
            raise TimeoutError("the call's deadline is over")
        opened.settimeout(left_s)


class _DeadlineSocket(socket.socket):
    """A socket whose every read and write ends by the calling thread's deadline."""

    def recv_into(self, *args: Any) -> int:
        _limit(self)
        return super().recv_into(*args)

    def sendall(self, *args: Any) -> None:
        _limit(self)
        return super().sendall(*args)


class _DeadlineTlsSocket(ssl.SSLSocket):
    """The same over TLS, its handshake included."""

    def do_handshake(self, block: bool = False) -> None:
        _limit(self)
        super().do_handshake(block)

    def recv_into(self, *args: Any) -> int:
        _limit(self)
        return super().recv_into(*args)

    def send(self, *args: Any) -> int:  # sendall calls it for each part
        _limit(self)
        return super().send(*args)


class _OpenSockets:
    """The sockets of one session, including those in a call: urllib3's pool knows only the idle ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._closed = False

    def add(self, opened: socket.socket) -> None:
        with self._lock:
            if self._closed:
                opened.close()
                raise ConnectionAbortedError("no more calls are made")
            self._sockets.add(opened)

    def cut(self) -> None:
        """Shut all sockets, which ends the calls on them. Later calls fail."""
        with self._lock:
            self._closed = True
            for one in self._sockets:
                with suppress(OSError):  # closed by its own thread in the meantime
                    socket.socket.shutdown(one, socket.SHUT_RDWR)  # that of TLS would continue in plain text


class _DeadlineConnection(HTTPConnection):
    sockets: _OpenSockets
    signer: CallSigner | None
    addresses: ClassVar[dict[str, str]]
    """Where each host was last reached, for when its name cannot be resolved."""

    def _opened(self) -> socket.socket:
        host = self.host
        try:
            opened = super()._new_conn()
        except NameResolutionError:
            if (known := self.addresses.get(host)) is None:
                raise
            self.host = known
            try:
                return super()._new_conn()
            finally:
                self.host = host
        self.addresses[host] = opened.getpeername()[0]
        return opened

    def _new_conn(self) -> socket.socket:
        limited = _DeadlineSocket(fileno=self._opened().detach())
        # R13: after a call is given up, the kernel must not deliver its unsent bytes a minute later.
        limited.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sockets.add(limited)
        return limited

    def connect(self) -> None:
        super().connect()
        self._ask()

    def _ask(self) -> None:
        """Have the peer prove its identity, before the request is sent for which the connection is made.

        Raises:
            ConnectionAbortedError: it does not prove it.
        """
        peer: str = _deadline.peer
        question = self.signer.question(peer) if self.signer is not None else None
        if question is None:
            return
        assert self.sock is not None
        self.sock.sendall(question.request(peer))
        answer = HTTPResponse(self.sock, method="GET")
        with closing(answer), suppress(HTTPException):
            answer.begin()
            answer.read(ANSWER_BYTES_MAX)
            headers = {name.lower(): value for name, value in answer.headers.items()}
            if answer.isclosed() and not answer.will_close and question.is_answered(headers):
                return
        self.close()
        raise ConnectionAbortedError(f"{peer} does not prove that it is a member")


class _DeadlineTlsConnection(_DeadlineConnection, HTTPSConnection):
    tls: PeerTls

    def connect(self) -> None:
        self.is_verified = True  # by the context, or plain with leave
        self.sock = self._opened_by_tls()
        self._ask()

    def _opened_by_tls(self) -> socket.socket:
        host, port = self.host.strip("[]"), self.port or 443
        if not self.tls.is_plain(host, port):
            try:
                return self._handshake(self._new_conn(), host)
            except (ssl.SSLError, ConnectionError) as error:
                if not self.tls.on_failure(host, port, error):
                    raise
        return self._new_conn()

    def _handshake(self, plain: socket.socket, host: str) -> ssl.SSLSocket:
        context = self.tls.context()
        context.sslsocket_class = _DeadlineTlsSocket
        wrapped = context.wrap_socket(plain, server_hostname=host)
        self.sockets.add(wrapped)
        return wrapped


class _DeadlineAdapter(HTTPAdapter):
    def __init__(self, peer_tls: PeerTls | None, call_signer: CallSigner | None) -> None:
        super().__init__(pool_connections=CONNECTIONS, pool_maxsize=CONNECTIONS_OF_PEER)
        self._sockets = opened = _OpenSockets()

        class Connection(_DeadlineConnection):
            sockets = opened
            addresses: ClassVar[dict[str, str]] = {}
            signer = call_signer

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        self.poolmanager.pool_classes_by_scheme = {"http": Pool}
        if peer_tls is not None:
            self.poolmanager.pool_classes_by_scheme = {"https": _tls_pool(opened, peer_tls, call_signer)}

    def cert_verify(self, *_args: object) -> None:
        """Do nothing: the context alone decides whom to trust.

        Requests would trust public certificate authorities, too.
        """

    def close(self) -> None:
        super().close()
        self._sockets.cut()


def _tls_pool(opened: _OpenSockets, peer_tls: PeerTls, call_signer: CallSigner | None) -> type[HTTPSConnectionPool]:
    class Connection(_DeadlineTlsConnection):
        sockets = opened
        addresses: ClassVar[dict[str, str]] = {}
        tls = peer_tls
        signer = call_signer

    class Pool(HTTPSConnectionPool):
        ConnectionCls = Connection

    return Pool


class _PeerSession(requests.Session):
    signer: CallSigner | None = None

    def get_redirect_target(self, _answer: requests.Response) -> None:
        """Follow no redirection. (With ``allow_redirects=False`` requests still reads and unpacks such a body.)"""


def peer_session(
    user_agent: str, headers: Mapping[str, str], tls: PeerTls | None = None, signer: CallSigner | None = None
) -> requests.Session:
    """Return a session for calls between members, with kept connections. No answer redirects a call.

    With ``tls`` it calls only ``https`` URLs, else only ``http`` ones.

    It takes no proxy or password from the environment. ``headers`` go with every call. ``close`` ends the calls of
    other threads too. ``signer`` signs each call for the member in its URL, which first proves on each connection that
    it is that member.
    """
    session = _PeerSession()
    session.signer = signer
    session.trust_env = False
    session.headers.clear()
    session.headers.update({"User-Agent": user_agent, "Accept-Encoding": "gzip", **headers})
    session.adapters.clear()
    session.mount("http://" if tls is None else "https://", _DeadlineAdapter(tls, signer))
    return session


def call_peer(
    session: requests.Session,
    method: str,
    url: str,
    timeout_ms: int,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    body_bytes_max: int,
) -> PeerAnswer:
    """Call a peer. Return its answer, which is complete within ``timeout_ms``.

    ``session``: from ``peer_session``. With another one only the connect and each single read have a time-out, and
    redirections are followed.

    Raises:
        UnfitError: the answer has more than ``body_bytes_max`` bytes.
        TransportError: the connection was refused or broke, or the time is over. The time is also over if the answer
            arrived while this process stood still: its content is as old (R9).
    """
    end_s = boot_s() + max(timeout_ms, 1) / 1_000
    ask = partial(_ask, session, method, url, body=body, headers=headers or {}, body_bytes_max=body_bytes_max)
    answer = ask(max(timeout_ms, 1) / 1_000)
    signer = getattr(session, "signer", None)
    if signer is not None and answer.status == HTTPStatus.UNAUTHORIZED:
        left_s = end_s - boot_s()
        if left_s > 0 and signer.learn(urlsplit(url).netloc, answer.headers):
            answer = ask(left_s)
    if boot_s() > end_s:
        raise TransportError(f"{method} {_without_queries(url)}: the answer was read after its deadline")
    return answer


def _ask(
    session: requests.Session,
    method: str,
    url: str,
    timeout_s: float,
    *,
    body: bytes | None,
    headers: Mapping[str, str],
    body_bytes_max: int,
) -> PeerAnswer:
    shown = _without_queries(url)
    _deadline.end_s, _deadline.peer = monotonic_s() + timeout_s, urlsplit(url).netloc
    try:
        connect_s = min(timeout_s, CONNECT_TIMEOUT_S)
        answer = session.request(
            method,
            url,
            data=body,
            headers=dict(headers),
            timeout=(connect_s, timeout_s),
            stream=True,
            auth=_signed_by(getattr(session, "signer", None)),
        )
        with answer:
            chunks: list[bytes] = []
            size = 0
            for chunk in answer.raw.stream(CHUNK_BYTES, decode_content=False):
                chunks.append(chunk)
                size += len(chunk)
                if size > body_bytes_max:
                    raise UnfitError(f"{method} {shown}: the answer is over {body_bytes_max} bytes")
    except requests.ConnectionError as error:
        refused = "Connection refused" in str(error)
        raise TransportError(f"{method} {shown}: {_without_queries(error)}", refused=refused) from error
    except UnfitError:
        raise
    except (requests.RequestException, OSError) as error:
        raise TransportError(f"{method} {shown}: {_without_queries(error) or type(error).__name__}") from error
    except Exception as error:  # urllib3's own errors while the body is read
        raise TransportError(f"{method} {shown}: {type(error).__name__}: {_without_queries(error)}") from error
    finally:
        _deadline.end_s = None
    return PeerAnswer(answer.status_code, b"".join(chunks), answer.headers)


def _signed_by(signer: CallSigner | None) -> Callable[[requests.PreparedRequest], requests.PreparedRequest] | None:
    """Return the function that requests calls to sign a request before it is sent; None without a signer."""
    if signer is None:
        return None

    def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
        assert request.url is not None
        assert request.method is not None
        body = request.body if isinstance(request.body, bytes) else b""
        peer = urlsplit(request.url).netloc
        more = signer.headers(peer, request.method, request.path_url, body, dict(request.headers))
        request.headers.update(more)
        return request

    return sign


def _without_queries(text: object) -> str:
    """Return a failure's text as logs may have it: without queries, which may hold a client's token."""
    return _QUERY.sub("?...", str(text))
