"""The gRPC connections by transport: each client's data, and the messages that wait to be written to it."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from app.auth.access_control import Session
from app.machine.limits.client_addresses import AddressTable, ClientAddress, Frontend
from app.naming.clients.client_model import ServiceKey

CONTROLS_MAX = 64
"""The most messages that wait for one client, next to its pending services."""
LABELS_CHARS_MAX = 4_096
"""The most characters of all labels of a client, which are kept as long as its connection."""


class Stream(Protocol):
    """The stream that carries messages to a client."""

    def wake(self) -> None:
        """Write the messages that wait in the connection."""
        ...

    def end(self) -> None:
        """Write the messages that wait, and close the stream."""
        ...


@dataclass(slots=True, eq=False)
class Connection:
    """One transport of a client, and the client's data from its setup. Used on the loop's thread only."""

    id: str
    peer: str
    """The client's end of the transport, ``ipv4:1.2.3.4:5`` for example."""
    on_cluster_port: bool
    opened_ms: int
    active_ms: int = field(init=False)
    remote_ip: str = field(init=False)
    remote_port: int = field(init=False)
    client_ip: str = field(init=False)
    """The address that the client states in its setup, for views alone: limits and traces go by ``remote_ip``."""
    registered: bool = False
    is_member: bool = False
    """The client is another member; limits do not count it."""
    named: str = ""
    """The member address that a client of our kind claims; each call checks whether it may."""
    reporter: str = ""
    """The address of the listed member that sent its report over this connection."""
    closing: bool = False
    is_gone: bool = False
    """Its stream has ended; a later call of its transport makes a new connection."""
    app: str = ""
    agent: str = ""
    tenant: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    controls: deque[bytes] = field(default_factory=deque)
    pending: dict[ServiceKey, None] = field(default_factory=dict)
    """Services to push, in order; the state that is written is the one at that time."""
    must_go: bool = False
    """An operator wants the client to connect elsewhere: to the HTTP address ``redirect``, if that is set."""
    redirect: tuple[str, int] | None = None
    reset_rounds: int = 0
    """Rounds of the check since the client was first asked to connect elsewhere."""
    stream: Stream | None = None
    session: Session | None = None
    """The session of the user of the latest call; None before the first call, and while authentication is off."""
    rights_version: int = -1
    """The version of the users for which the rights to all that the client holds were checked last."""
    renewal_asked_ms: int = 0
    """The end of the session for which the client was asked to connect again, with a new token."""
    address: ClientAddress | None = None
    """The transport's address with its counts, from the setup on."""

    def __post_init__(self) -> None:
        self.active_ms = self.opened_ms
        self.remote_ip, self.remote_port = parse_peer(self.peer)
        self.client_ip = self.remote_ip

    @property
    def is_sdk(self) -> bool:
        return not self.is_member

    def take_session(self, session: Session) -> None:
        """Note the session of a call; after a change of user the rights to all subscriptions are checked again."""
        if self.session is not None and self.session.user != session.user:
            self.rights_version = -1
        self.session = session

    @property
    def has_room(self) -> bool:
        """Return whether ``offer`` would queue a message."""
        return len(self.controls) < CONTROLS_MAX

    def offer(self, message: bytes) -> bool:
        """Queue a message; return False when ``CONTROLS_MAX`` wait already, as the client does not read."""
        if len(self.controls) >= CONTROLS_MAX:
            return False
        self.controls.append(message)
        self._wake()
        return True

    def add_pending(self, key: ServiceKey) -> None:
        """Queue a push of a service; the state that is written is the one at that time."""
        self.pending[key] = None
        self._wake()

    def close(self) -> None:
        """End the client's stream; the end of the stream removes the connection and the client's data."""
        self.closing = True
        if self.stream is not None:
            self.stream.end()

    def _wake(self) -> None:
        if self.stream is not None:
            self.stream.wake()


class Connections:
    """All connections of this node. Used on the loop's thread only."""

    def __init__(
        self, wall_ms: Callable[[], int], monotonic_ms: Callable[[], int], addresses: AddressTable | None = None
    ) -> None:
        """``addresses``: counts the connections of each address, with those of HTTP."""
        self._addresses = AddressTable() if addresses is None else addresses
        self._wall_ms = wall_ms
        self._now_ms = monotonic_ms
        self._registered: dict[str, Connection] = {}
        self._per_ip: dict[str, int] = {}
        self.sdk_count = 0
        """The number of registered connections of SDKs. Read from any thread."""
        self._id_ms = 0
        self._request_ids = count(1)

    def __len__(self) -> int:
        return len(self._registered)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._registered.values()))

    def count_of_ip(self, remote_ip: str) -> int:
        """Return the number of registered SDK connections that come from ``remote_ip``."""
        return self._per_ip.get(remote_ip, 0)

    def get(self, connection_id: str) -> Connection | None:
        """Return the registered connection with an id, or None."""
        return self._registered.get(connection_id)

    def next_request_id(self) -> str:
        return str(next(self._request_ids))

    def opened(self, peer: str, on_cluster_port: bool) -> Connection:
        """Make the connection of a transport, at its first call. ``peer``: its far end, as ``ipv4:1.2.3.4:5``."""
        host, port = parse_peer(peer)
        # No id is used twice, even when the clock is set back.
        self._id_ms = max(self._wall_ms(), self._id_ms + 1)
        return Connection(f"{self._id_ms}_{host}_{port}", peer, on_cluster_port, self._now_ms())

    def take_address(self, connection: Connection) -> bool:
        """Count a new connection against its transport's address; return False if that address is at its limit.

        Members' connections are not limited.
        """
        if connection.address is None:
            is_exempt = connection.is_member
            connection.address = self._addresses.connect(connection.remote_ip, Frontend.GRPC, is_exempt=is_exempt)
        return connection.address is not None

    def give_address_back(self, connection: Connection) -> None:
        """Stop counting a connection that was refused at its setup."""
        if connection.address is not None:
            self._addresses.disconnect(connection.address, Frontend.GRPC)
            connection.address = None

    def register(self, connection: Connection) -> None:
        """Count a connection that is set up; from now on its calls are answered."""
        connection.registered = True
        self._registered[connection.id] = connection
        if connection.is_sdk:
            self.sdk_count += 1
            self._per_ip[connection.remote_ip] = self.count_of_ip(connection.remote_ip) + 1

    def forget(self, connection: Connection) -> bool:
        """Remove a connection whose stream ended; return whether it was registered.

        A later call of the transport makes a new connection.
        """
        connection.is_gone = True
        if self._registered.pop(connection.id, None) is None:
            return False
        self.give_address_back(connection)
        connection.registered = False
        self._stop_counting(connection)
        return True

    def note_member(self, connection: Connection) -> None:
        """Count a connection no longer as an SDK's, as a member's identity came over it. May be called again."""
        if connection.registered and connection.is_sdk:
            self._stop_counting(connection)
            connection.is_member = True

    def _stop_counting(self, connection: Connection) -> None:
        if connection.is_sdk:
            self.sdk_count -= 1
            left = self._per_ip.pop(connection.remote_ip) - 1
            if left:
                self._per_ip[connection.remote_ip] = left


def parse_peer(peer: str) -> tuple[str, int]:
    """Return address and port of ``ipv4:1.2.3.4:5`` or ``ipv6:[::1]:5``."""
    _, _, address = peer.partition(":")
    host, _, port = address.rpartition(":")
    host = host.strip("[]").removeprefix("::ffff:")
    return host, int(port) if port.isdecimal() else 0
