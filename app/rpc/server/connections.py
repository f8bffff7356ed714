"""Connections by the transport that carries them: who is there, since when, and what waits to be written to each."""

import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Protocol

from app.rpc.server.ports import ServiceKey

UNREGISTERED_MAX = 4_096
"""Transports that made calls and are not set up, or not yet; the oldest is forgotten for a new one."""
UNREGISTERED_MS = 60_000
CONTROLS_MAX = 64
"""Messages that wait for one client, beside the services that it is owed."""
LABELS_CHARS_MAX = 4_096
"""Of all that a client says of itself: it is kept as long as the connection."""


class Stream(Protocol):
    """What carries messages to a client."""

    def wake(self) -> None:
        """Something waits to be written."""
        ...

    def end(self) -> None:
        """Write what waits, and close it."""
        ...


class Connection:
    """One transport of a client. Used on the loop's thread only."""

    __slots__ = (
        "abilities",
        "active_ms",
        "agent",
        "app",
        "client_ip",
        "closing",
        "controls",
        "id",
        "is_member",
        "labels",
        "must_go",
        "named",
        "on_cluster_port",
        "opened_ms",
        "peer",
        "pending",
        "redirect",
        "registered",
        "remote_ip",
        "remote_port",
        "reporter",
        "reset_rounds",
        "stream",
        "tenant",
    )

    def __init__(self, connection_id: str, peer: str, on_cluster_port: bool, now_ms: int) -> None:
        self.id = connection_id
        self.peer = peer
        """Its far end, as grpc names it."""
        self.remote_ip, self.remote_port = parse_peer(peer)
        self.on_cluster_port = on_cluster_port
        self.opened_ms = self.active_ms = now_ms
        self.registered = False
        self.is_member = False
        """Another member's: no limit holds for it."""
        self.named = ""
        """The address of the member of our kind that it says it is; whether that is so is asked with each call."""
        self.reporter = ""
        """The address of the listed member that reported itself over it."""
        self.closing = False
        self.client_ip = self.remote_ip
        """As the client says it; limits go by this."""
        self.app = self.agent = self.tenant = ""
        self.labels: Mapping[str, str] = {}
        self.abilities: Mapping[str, bool] = {}
        self.controls: deque[bytes] = deque()
        self.pending: dict[ServiceKey, None] = {}
        """Services whose state of then is to be written, in order."""
        self.must_go = False
        """An operator sends it elsewhere, to the HTTP address in ``redirect`` if there is one."""
        self.redirect: tuple[str, int] | None = None
        self.reset_rounds = 0
        """For so many rounds it has stayed though it was asked to go."""
        self.stream: Stream | None = None

    @property
    def is_sdk(self) -> bool:
        return not self.is_member

    def offer(self, message: bytes) -> bool:
        """Have a message written; False when too much waits already, as the client does not read."""
        if len(self.controls) >= CONTROLS_MAX:
            return False
        self.controls.append(message)
        self._wake()
        return True

    def add_pending(self, key: ServiceKey) -> None:
        """Have the state of a service written, as it is when its turn comes."""
        self.pending[key] = None
        self._wake()

    def close(self) -> None:
        """End its stream; all else follows from that."""
        self.closing = True
        if self.stream is not None:
            self.stream.end()

    def _wake(self) -> None:
        if self.stream is not None:
            self.stream.wake()


class Connections:
    """All connections of this node. Used on the loop's thread only."""

    def __init__(self, wall_ms: Callable[[], int], monotonic_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._now_ms = monotonic_ms
        self._by_peer: dict[tuple[str, bool], Connection] = {}
        """Registered ones by transport."""
        self._pending: dict[tuple[str, bool], Connection] = {}
        """The others, oldest first."""
        self._registered: dict[str, Connection] = {}
        self._per_ip: dict[str, int] = {}
        self._sdk_count = 0
        self._id_ms = 0
        self._request_ids = count(1)

    def __len__(self) -> int:
        return len(self._registered)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._registered.values()))

    @property
    def sdk_count(self) -> int:
        return self._sdk_count

    def count_of_ip(self, client_ip: str) -> int:
        """Registered SDK connections that say they come from there."""
        return self._per_ip.get(client_ip, 0)

    def get(self, connection_id: str) -> Connection | None:
        """A registered one."""
        return self._registered.get(connection_id)

    def next_request_id(self) -> str:
        return str(next(self._request_ids))

    def of_peer(self, peer: str, on_cluster_port: bool) -> Connection:
        """The connection of a transport, as grpc names its far end; a new one at its first call."""
        key = (peer, on_cluster_port)
        found = self._by_peer.get(key) or self._pending.get(key)
        if found is None:
            if len(self._pending) >= UNREGISTERED_MAX:
                del self._pending[next(iter(self._pending))]
            host, port = parse_peer(peer)
            # An id is never given twice, whatever the clock does.
            self._id_ms = max(self._wall_ms(), self._id_ms + 1)
            found = Connection(f"{self._id_ms}_{host}_{port}", peer, on_cluster_port, self._now_ms())
            self._pending[key] = found
        return found

    def register(self, connection: Connection) -> None:
        """The connection is set up: calls that need one may come."""
        key = (connection.peer, connection.on_cluster_port)
        self._pending.pop(key, None)
        self._by_peer[key] = connection
        connection.registered = True
        self._registered[connection.id] = connection
        if connection.is_sdk:
            self._sdk_count += 1
            self._per_ip[connection.client_ip] = self.count_of_ip(connection.client_ip) + 1

    def forget(self, connection: Connection) -> bool:
        """The transport's stream ended; return whether it was registered. A later call gets a new id."""
        key = (connection.peer, connection.on_cluster_port)
        for known in (self._by_peer, self._pending):
            if known.get(key) is connection:
                del known[key]
        if self._registered.pop(connection.id, None) is None:
            return False
        connection.registered = False
        if connection.is_sdk:
            self._sdk_count -= 1
            left = self._per_ip.pop(connection.client_ip) - 1
            if left:
                self._per_ip[connection.client_ip] = left
        return True

    def sweep(self, now_ms: int) -> None:
        """Forget who made a call and was never set up."""
        for key, one in list(self._pending.items()):
            if now_ms - one.active_ms > UNREGISTERED_MS:
                del self._pending[key]


def parse_peer(peer: str) -> tuple[str, int]:
    """Address and port of ``ipv4:1.2.3.4:5`` or ``ipv6:[::1]:5``, which grpc escapes as in URLs."""
    _, _, address = urllib.parse.unquote(peer).partition(":")
    host, _, port = address.rpartition(":")
    host = host.strip("[]").removeprefix("::ffff:")
    return host, int(port) if port.isdecimal() else 0
