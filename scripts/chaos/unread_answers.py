"""Clients that request large lists and do not read them, over HTTP and gRPC; for ``answers_memory.py`` and a test.

Each attack returns its open sockets. As long as they are open, the answers of the node stay unread.
"""

import http.client
import itertools
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlencode

from hpack import Encoder

from app.naming.model.keys import short_name_of
from app.peers import payload as wire
from scripts.support.bulk_register import Fleet
from scripts.support.grpc_clients import NAMES, SDK_OFFSET
from scripts.support.member_processes import CONTEXT_PATH
from tests.support.http2_client import BIDI, END_HEADERS, END_STREAM, MAGIC, UNARY, frame, prefixed

CLUSTERS = 50
"""Clusters of the service: instance ``host`` is in cluster ``c<host modulo CLUSTERS>``."""
TIMEOUT_S = 60.0
READ_TIMEOUT_S = 30.0
SMALL_RECEIVE_BYTES = 4_096
NO_WINDOW = frame("SETTINGS", 0, 0, b"\0\4" + bytes(4))
Attack = Callable[[str, str, int], list[socket.socket]]
"""Attacks the member at an address with queries for a service, on this many connections."""


class ClusteredFleet(Fleet):
    """Services whose instances are in ``CLUSTERS`` clusters."""

    def requests(self, number: int) -> Iterator[bytes]:
        for host, request in enumerate(Fleet.requests(self, number)):
            yield request.replace(b"?ip=", b"?clusterName=c%d&ip=" % (host % CLUSTERS), 1)


def _open(address: str, offset: int = 0, receive_bytes: int | None = SMALL_RECEIVE_BYTES) -> socket.socket:
    host, _, port = address.rpartition(":")
    opened = socket.socket()
    if receive_bytes is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    opened.settimeout(TIMEOUT_S)
    opened.connect((host, int(port) + offset))
    return opened


def _query(service: str, clusters: str) -> bytes:
    fields = {**NAMES, "serviceName": short_name_of(service), "cluster": clusters, "healthyOnly": False}
    return wire.encode("ServiceQueryRequest", json.dumps(fields).encode())


def _calls(requests: Iterator[bytes], first: int = 3) -> Iterator[bytes]:
    """The frames of unary calls, on streams from ``first`` on, behind those of the setup."""
    encoder = Encoder()
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "a")]
    fields = [("te", "trailers"), ("content-type", "application/grpc")]

    def opening(stream: int, path: str) -> bytes:
        return frame("HEADERS", END_HEADERS, stream, bytes(encoder.encode([*head, (":path", path), *fields])))

    setup = wire.encode_json("ConnectionSetupRequest", {"clientVersion": "v2", "labels": {"module": "naming"}})
    yield opening(1, BIDI) + frame("DATA", 0, 1, prefixed(setup))
    for stream, request in zip(itertools.count(first, 2), requests, strict=False):
        yield opening(stream, UNARY) + frame("DATA", END_STREAM, stream, prefixed(request))


def _grpc(address: str, settings: bytes, requests: list[bytes]) -> socket.socket:
    opened = _open(address, SDK_OFFSET)
    opened.sendall(MAGIC + settings + frame("SETTINGS", 1) + b"".join(_calls(iter(requests))))
    return opened


def closed_windows(address: str, service: str, connections: int) -> list[socket.socket]:
    """Twenty queries on each connection, with closed flow-control windows."""
    return [_grpc(address, NO_WINDOW, [_query(service, "")] * 20) for _ in range(connections)]


def wide_windows(address: str, service: str, connections: int) -> list[socket.socket]:
    """Twenty queries on each connection, with flow-control windows of the maximum size; the socket is not read."""
    wide = ((1 << 31) - 1).to_bytes(4, "big")
    settings = frame("SETTINGS", 0, 0, b"\0\4" + wide) + frame(
        "WINDOW_UPDATE", 0, 0, ((1 << 31) - 1 - 65_535).to_bytes(4, "big")
    )
    return [_grpc(address, settings, [_query(service, "")] * 20) for _ in range(connections)]


def unknown_clusters(address: str, service: str, connections: int) -> list[socket.socket]:
    """A query on each connection for an unknown cluster followed by all existing ones, over gRPC and HTTP."""
    known = ",".join(f"c{number}" for number in range(CLUSTERS))
    texts = [f"unknown-{number},{known}" for number in range(connections)]
    return [
        *[_grpc(address, NO_WINDOW, [_query(service, text)]) for text in texts],
        *[_http(address, service, 1, clusters=text) for text in texts],
    ]


def some_clusters(address: str, service: str, connections: int) -> list[socket.socket]:
    """A query on each connection for all clusters but one, a different one each time."""
    texts = [",".join(f"c{n}" for n in range(CLUSTERS) if n != number % CLUSTERS) for number in range(connections)]
    return [_grpc(address, NO_WINDOW, [_query(service, text)]) for text in texts]


def _http(address: str, service: str, requests: int, **more: str) -> socket.socket:
    opened = _open(address)
    query = urlencode({"serviceName": service, **more})
    opened.sendall(f"GET {CONTEXT_PATH}/v1/ns/instance/list?{query} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * requests)
    return opened


def silent_readers(address: str, service: str, connections: int) -> list[socket.socket]:
    """Two pipelined HTTP queries on each connection."""
    return [_http(address, service, 2) for _ in range(connections)]


def silent_subscribers(address: str, service: str, connections: int) -> list[socket.socket]:
    """Subscriptions with closed flow-control windows; the answers and the first pushes wait."""
    fields = {**NAMES, "serviceName": short_name_of(service), "clusters": "", "subscribe": True}
    request = wire.encode("SubscribeServiceRequest", json.dumps(fields).encode())
    return [_grpc(address, NO_WINDOW, [request]) for _ in range(connections)]


ATTACKS: dict[str, tuple[Attack, int]] = {
    "closed windows": (closed_windows, 60),
    "wide windows": (wide_windows, 60),
    "unknown clusters": (unknown_clusters, 20),
    "some clusters": (some_clusters, 50),
    "silent readers": (silent_readers, 200),
    "silent subscribers": (silent_subscribers, 200),
}
"""Each attack with its number of connections."""


@contextmanager
def attacked(attack: Attack, address: str, service: str, connections: int) -> Iterator[None]:
    """Attack a member for the duration of the block."""
    opened = attack(address, service, connections)
    try:
        yield
    finally:
        for one in opened:
            one.close()


def status_of(address: str, service: str, token: str = "") -> int:
    """Return the status of a list query, reading the whole answer. ``token``: of a user, if a login is required."""
    query = urlencode({"serviceName": service} | ({"accessToken": token} if token else {}))
    with closing(http.client.HTTPConnection(address, timeout=READ_TIMEOUT_S)) as connection:
        connection.request("GET", f"{CONTEXT_PATH}/v1/ns/instance/list?{query}")
        answer = connection.getresponse()
        answer.read()
        return answer.status
