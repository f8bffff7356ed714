"""DistroHttpAgent: datum traffic over HTTP/1.1, in Nacos's shapes, with whole-call deadlines.

A peer of our own kind gets versions, and gzip when it advertised that; real Nacos gets plain JSON without our fields.
"""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote
from weakref import WeakSet

import orjson
import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.poolmanager import PoolManager

from distro.clock import monotonic_s
from distro.codec import (
    decode_frame,
    decode_received,
    encode_frame,
    gunzip_if_gzip,
    gzip_body,
)
from distro.errors import CodecError, RejectedError, TransportError
from distro.ports import Clock, DatumCodec
from distro.sliced import dumps_sliced
from distro.types import CAPABILITY_GZIP, CAPABILITY_VERSIONS, Datum, Received

MEMBER_HEADER = "Rollcall-Member"
"""Names the sending member, and says that it is of our kind."""
GZIP_FROM_BYTES = 1_024
CHUNK_BYTES = 256 * 1024
CONNECT_TIMEOUT_S = 1.0
UNAVAILABLE = 503
NOT_IMPLEMENTED = 501
_deadline = threading.local()


class _DeadlineSocket(socket.socket):
    """A socket whose every read and write ends by the calling thread's deadline.

    A time-out per read would let a peer that drips a byte a second hold its lane for ever.
    """

    def _limit(self) -> None:
        end_s = getattr(_deadline, "end_s", None)
        if end_s is not None:
            left_s = end_s - monotonic_s()
            if left_s <= 0:
                raise TimeoutError("the call's deadline is over")
            self.settimeout(left_s)

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self._limit()
        return super().recv_into(*args, **kwargs)

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self._limit()
        return super().sendall(*args, **kwargs)


class _OpenSockets:
    """The sockets of one session: a pool knows only those that wait for their next call, not those in one."""

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
        """End every call under way, and let no other begin."""
        with self._lock:
            self._closed = True
            for one in self._sockets:
                with suppress(OSError):  # closed by its own thread meanwhile
                    one.shutdown(socket.SHUT_RDWR)


class _DeadlineConnection(HTTPConnection):
    sockets: _OpenSockets

    def _new_conn(self) -> socket.socket:
        plain = super()._new_conn()
        timeout_s = plain.gettimeout()
        limited = _DeadlineSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        limited.settimeout(timeout_s)
        self.sockets.add(limited)
        return limited


class _DeadlineAdapter(HTTPAdapter):
    def __init__(self, connections: int) -> None:
        self._sockets = _OpenSockets()
        super().__init__(pool_connections=connections, pool_maxsize=2)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        class Connection(_DeadlineConnection):
            sockets = self._sockets

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        self.poolmanager = PoolManager(num_pools=connections, maxsize=maxsize, block=block, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": Pool}

    def close(self) -> None:
        super().close()
        self._sockets.cut()


def peer_session(user_agent: str, headers: Mapping[str, str], connections: int = 32) -> requests.Session:
    """A session for calls among members: kept connections, deadlines, nothing from the environment.

    Its ``close`` cuts calls of other threads short.
    """
    session = requests.Session()
    session.trust_env = False
    session.headers.clear()
    session.headers.update({"User-Agent": user_agent, "Accept-Encoding": "gzip", **headers})
    session.mount("http://", _DeadlineAdapter(connections))
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
) -> tuple[int, bytes, Mapping[str, str]]:
    """One call that is over after ``timeout_ms``, however slowly the peer answers: status, body, headers.

    Raises:
        TransportError: refused, cut off, late, or an answer over ``body_bytes_max``.
    """
    timeout_s = max(timeout_ms, 1) / 1_000
    _deadline.end_s = monotonic_s() + timeout_s
    try:
        connect_s = min(timeout_s, CONNECT_TIMEOUT_S)
        answer = session.request(
            method,
            url,
            data=body,
            headers=dict(headers or {}),
            timeout=(connect_s, timeout_s),
            allow_redirects=False,
            stream=True,
        )
        with answer:
            chunks: list[bytes] = []
            size = 0
            for chunk in answer.raw.stream(CHUNK_BYTES, decode_content=False):
                chunks.append(chunk)
                size += len(chunk)
                if size > body_bytes_max:
                    raise TransportError(f"{method} {url}: the answer is over {body_bytes_max} bytes")
            return answer.status_code, b"".join(chunks), answer.headers
    except requests.ConnectionError as error:
        refused = "Connection refused" in str(error)
        raise TransportError(f"{method} {url}: {error}", refused=refused) from error
    except (requests.RequestException, OSError) as error:
        raise TransportError(f"{method} {url}: {error or type(error).__name__}") from error
    except Exception as error:  # urllib3's own errors while the body is read
        raise TransportError(f"{method} {url}: {type(error).__name__}: {error}") from error
    finally:
        _deadline.end_s = None


class DistroHttpAgent:
    """DistroTransportAgent of one resource type. Thread-safe; connections are kept per peer.

    ``capabilities`` tells what a peer advertised. Source of the wire: Nacos 1.4.1 NamingProxy; docs/wire.md.
    """

    def __init__(
        self,
        *,
        self_address: str,
        context_path: str,
        user_agent: str,
        headers: Mapping[str, str],
        codec: DatumCodec,
        clock: Clock,
        capabilities: Callable[[str], frozenset[str]],
        body_bytes_max: int,
        resource_type: str = "",
    ) -> None:
        """``resource_type`` is named to peers of our kind; empty is the one type that real Nacos knows."""
        self._base_path = f"{context_path}/v1/ns"
        self._type_query = f"type={quote(resource_type)}" if resource_type else ""
        self.self_address = self_address
        self._codec = codec
        self._clock = clock
        self.capabilities = capabilities
        self.body_bytes_max = body_bytes_max
        self._session = peer_session(
            user_agent,
            {"Content-Type": "application/json;charset=UTF-8", MEMBER_HEADER: self_address, **headers},
        )

    def close(self) -> None:
        self._session.close()

    def sync_data(self, peer: str, datums: list[Datum], timeout_ms: int) -> Received:
        """PUT the datums; a peer of our kind answers which it refused."""
        versioned = CAPABILITY_VERSIONS in self.capabilities(peer)
        body = encode_frame(datums, self._codec, self._clock.monotonic_ms(), versioned=versioned)
        return self._received(self.call("PUT", peer, "/distro/datum", timeout_ms, body), versioned)

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        """PUT the stand of each owned key; a peer of our kind answers what it has newer."""
        versioned = CAPABILITY_VERSIONS in self.capabilities(peer)
        path = f"/distro/checksum?source={self.self_address}&{self._type_query}".rstrip("&")
        return self._received(self.call("PUT", peer, path, timeout_ms, dumps_sliced(summary)), versioned)

    def query(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> list[Datum]:
        """GET, with a body, the datums of these keys."""
        body = orjson.dumps({"keys": ",".join(keys)})
        return self._datums(self.call("GET", peer, "/distro/datum", timeout_ms, body, plain=True))

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | None:
        """GET everything the peer holds; None when it says that it is itself loading with nothing."""
        try:
            return self._datums(
                self.call("GET", peer, f"/distro/datums?{self._type_query}".rstrip("?"), timeout_ms, None)
            )
        except _Unavailable:
            return None

    def call(
        self, method: str, peer: str, path: str, timeout_ms: int, body: bytes | None, *, plain: bool = False
    ) -> bytes:
        """One call below the naming path; ``plain`` sends the body as it is, whatever the peer advertised.

        Raises:
            TransportError: it failed, or was answered with another status than 200.
        """
        headers: dict[str, str] = {}
        gzip_worth = body is not None and len(body) >= GZIP_FROM_BYTES and not plain
        if body is not None and gzip_worth and CAPABILITY_GZIP in self.capabilities(peer):
            body = gzip_body(body)
            headers["Content-Encoding"] = "gzip"
        url = f"http://{peer}{self._base_path}{path}"
        status, answer, _ = call_peer(
            self._session, method, url, timeout_ms, body=body, headers=headers, body_bytes_max=self.body_bytes_max
        )
        if status == requests.codes.ok:
            return answer
        text = f"{method} {url}: status {status}: {answer[:200]!r}"
        if status == UNAVAILABLE:
            raise _Unavailable(text)
        # Nacos 2.x answers 501 to what it no longer has.
        if requests.codes.bad_request <= status < requests.codes.internal_server_error or status == NOT_IMPLEMENTED:
            raise RejectedError(text)
        raise TransportError(text)

    def _received(self, answer: bytes, versioned: bool) -> Received:
        if not versioned or answer == b"ok":
            return Received()
        try:
            return decode_received(answer)
        except CodecError as error:
            raise TransportError(f"the peer's answer cannot be read: {error}") from error

    def _datums(self, answer: bytes) -> list[Datum]:
        try:
            plain = gunzip_if_gzip(answer, self.body_bytes_max)
            datums, _ = decode_frame(plain or b"{}", self._codec, self._clock.monotonic_ms())
        except CodecError as error:
            raise TransportError(f"the peer's datums cannot be read: {error}") from error
        return datums


class _Unavailable(TransportError):
    """The peer answered 503: it is loading."""
