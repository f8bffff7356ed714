"""What members know of each other's clients: copies of those that are connected elsewhere, and removals.

The member that holds a connection is the only one that changes its client; the others hold copies, which serve readers
and are never sent on. A copy lives as long as its member goes on to confirm it.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from app.naming.clients.client_codec import ClientState
from app.naming.clients.client_model import Client, ClientBounds, ClientInfo, ServiceKey
from app.naming.clients.clients import Clients
from app.naming.model.events import (
    ClientDeregisterService,
    ClientDisconnect,
    ClientRegisterService,
    Event,
    ServiceChanged,
)
from app.naming.model.model import Publication
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.registry import Registry
from distro.types import Version

EXPIRY_MS = 180_000
"""A copy that nobody confirmed for longer goes. Source: Nacos 2.2.3, nacos.naming.client.expired.time."""
UNCONFIRMED_MS = 15_000
"""Three rounds in which its member should have confirmed a client that another one told of."""
EXPIRY_INTERVAL_MS = 5_000
"""So often all copies are looked at; those of a run that is over go at once. Source: the same."""
REMOVALS_MAX = 200_000
"""Beyond it the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A client that is gone: its last version, and when this member learned of it (monotonic ms)."""

    version: Version
    at_ms: int


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """What is known of a client at one moment; ``state`` None: it is gone."""

    version: Version
    info: ClientInfo | None
    state: ClientState | None
    unconfirmed: bool = False
    """Told by another than the client's member: it goes soon, unless that one confirms it."""


class ReplicatedClients(Clients):
    """Clients with what replication reads and writes. Thread-safe.

    ``keep_ms``: a removal is remembered for so long, at least.
    """

    def __init__(
        self,
        registry: Registry,
        monotonic_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        publish: Callable[[Event], None],
        bounds: ClientBounds | None = None,
        *,
        expiry_ms: int = EXPIRY_MS,
        keep_ms: int = 60_000,
    ) -> None:
        super().__init__(registry, monotonic_ms, wall_ms, publish, bounds)
        self._expiry_ms = expiry_ms
        self._keep_ms = keep_ms
        self._removals: dict[str, Removal] = {}
        self._expiry_due_ms = 0
        self._writers: set[str] = set()
        """Of the copies that are held; of some that are no more, too."""

    # --- reading ----------------------------------------------------------------------------------

    def version(self, client_id: str) -> Version | None:
        """The version of a client, or of its removal."""
        client = self._clients.get(client_id)
        if client is not None:
            return client.version
        removal = self._removals.get(client_id)
        return removal.version if removal else None

    def versions(self) -> dict[str, Version]:
        """Of all clients and removals, by client id."""
        removed = {client_id: one.version for client_id, one in self._removals.copy().items()}
        return removed | {client_id: one.version for client_id, one in self._clients.copy().items()}

    def snapshot(self, client_id: str) -> ClientSnapshot | None:
        """All that is known of a client at one moment."""
        with self._lock:
            client = self._clients.get(client_id)
            if client is not None:
                state = ClientState(client_id, client.revision, client.published.copy())
                return ClientSnapshot(client.version, client.info, state)
            removal = self._removals.get(client_id)
            return ClientSnapshot(removal.version, None, None) if removal else None

    def is_removed(self, client_id: str) -> bool:
        return client_id in self._removals

    def is_forgettable(self, client_id: str, now_ms: int) -> bool:
        """Whether it is a removal that was remembered for long enough."""
        removal = self._removals.get(client_id)
        return removal is not None and now_ms - removal.at_ms > self._keep_ms

    # --- what peers say ---------------------------------------------------------------------------

    def take(self, snapshot: ClientSnapshot, client_id: str, expected: Version | None) -> bool:
        """Put what a peer says of a client in the place of what is held, if that is still ``expected``.

        Services that are new or others than before are published, those that it no longer names are taken back.

        Raises:
            InvalidParam: the client is connected here.
            Unavailable: there are as many clients as there may be.
        """
        events: list[Event] = []
        with self._lock:
            if self.version(client_id) != expected:
                return False
            client = self._clients.get(client_id)
            if client is not None and client.native:
                raise InvalidParam(f"client {client_id} is connected here")
            if snapshot.state is None:
                self._remember(client_id, snapshot.version)
                if client is not None:
                    events = self._drop(client)
            else:
                events = self._upgrade(client, snapshot, snapshot.state)
        self._tell(events)
        return True

    def _upgrade(self, client: Client | None, snapshot: ClientSnapshot, state: ClientState) -> list[Event]:
        """Called under the lock."""
        client_id, now_ms = state.client_id, self._now_ms()
        if client is None:
            self._check_room()
            client = Client(snapshot.info or info_of(client_id), native=False, now_ms=now_ms, version=snapshot.version)
            self._clients[client_id] = client
            self._removals.pop(client_id, None)
        client.revision, client.version = state.revision, snapshot.version
        client.renewed_ms = now_ms - max(self._expiry_ms - UNCONFIRMED_MS, 0) if snapshot.unconfirmed else now_ms
        self._writers.add(snapshot.version.writer)
        events: list[Event] = []
        for key in [key for key in client.published if key not in state.publications]:
            self._take(client, key)
            events += ClientDeregisterService(key, client_id), ServiceChanged(*key)
        for key, publication in state.publications.items():
            publication = publication if state.dated else self._dated(key, publication)
            old = client.published.get(key)
            if old is not None and (old == publication or (not state.dated and old.says_the_same(publication))):
                continue
            self._put(client, key, publication)
            events += ClientRegisterService(key, client_id), ServiceChanged(*key)
        return events

    def _dated(self, key: ServiceKey, publication: Publication) -> Publication:
        """A publication of a peer that does not say what it knew of the service's list then: it counts from now."""
        service = self._registry.get(*key)
        if service is None:
            return publication
        return Publication(publication.instances, publication.batch, publication.at_ms, service.version)

    def _drop(self, client: Client) -> list[Event]:
        """Called under the lock."""
        del self._clients[client.client_id]
        events: list[Event] = [ClientDisconnect(client.client_id, native=False)]
        for key in list(client.published):
            self._take(client, key)
            events += ClientDeregisterService(key, client.client_id), ServiceChanged(*key)
        return events

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            self._publish(event)

    def confirm(self, client_ids: Iterable[str], now_ms: int) -> None:
        """Their member says that these clients are as they are held here."""
        for client_id in client_ids:
            client = self._clients.get(client_id)
            if client is not None:
                client.renewed_ms = now_ms

    def confirm_revision(self, client_id: str, revision: int, now_ms: int) -> bool:
        """The same of one client by its revision, 0 for a member that tells none; False when it is not held so."""
        client = self._clients.get(client_id)
        if client is None or (revision != 0 and client.revision != revision):
            return False
        client.renewed_ms = now_ms
        return True

    # --- removals ---------------------------------------------------------------------------------

    def add_tombstone(self, client_id: str, seen: Version) -> bool:
        """Note that a client is gone of which this member is the one to know; False when it is not, or was noted.

        ``seen`` is what somebody still holds of it: the removal comes after that.
        """
        with self._lock:
            if client_id in self._clients:
                return False
            known = self._removals.get(client_id)
            if known is not None and known.version > seen:
                return False
            self._remember(client_id, Version(seen.epoch, seen.counter + 1, self._registry.writer))
        self._publish(ClientDisconnect(client_id, native=True))
        return True

    def _on_leave(self, client: Client) -> None:
        if client.native:
            version = client.version
            self._remember(client.client_id, Version(version.epoch, version.counter + 1, version.writer))

    def _remember(self, client_id: str, version: Version) -> None:
        """Called under the lock."""
        self._removals.pop(client_id, None)
        self._removals[client_id] = Removal(version, self._now_ms())
        while len(self._removals) > REMOVALS_MAX:
            del self._removals[next(iter(self._removals))]

    def _check_new(self, client_id: str) -> None:
        if client_id in self._removals:
            raise InvalidParam(f"client {client_id} was connected before: an id is not used twice")

    def forget(self, client_id: str, *, absent: bool = False) -> None:
        """Drop a removal; with ``absent`` also the copy of a client that no peer holds any more."""
        events: list[Event] = []
        with self._lock:
            self._removals.pop(client_id, None)
            client = self._clients.get(client_id)
            if absent and client is not None and not client.native:
                events = self._drop(client)
        self._tell(events)

    def expire(self, now_ms: int, has_left: Callable[[str], bool], late_ms: int = 0) -> Collection[str]:
        """Drop copies that were not confirmed in time, or whose ``writer`` has left; return the ids of their clients.

        ``late_ms``: this process did not run for so long, in which nobody could confirm anything. Removals are
        forgotten when all copies that could bring a client back have expired, if not agreed on before.
        """
        left = {writer for writer in self._writers.copy() if has_left(writer)}
        if not (late_ms or left) and now_ms < self._expiry_due_ms:
            return []
        self._expiry_due_ms = now_ms + EXPIRY_INTERVAL_MS
        dropped, writers = [], set[str]()
        for client_id, client in self._clients.copy().items():
            if client.native:
                continue
            client.renewed_ms += late_ms
            writer = client.version.writer
            if now_ms - client.renewed_ms <= self._expiry_ms and writer not in left:
                writers.add(writer)
                continue
            events: list[Event] = []
            with self._lock:
                if self._clients.get(client_id) is client:
                    events = self._drop(client)
            if events:
                dropped.append(client_id)
                self._tell(events)
        with self._lock:
            self._writers = writers  # of one that came meanwhile the next look at all learns
        self._forget_old(now_ms)
        return dropped

    def _forget_old(self, now_ms: int) -> None:
        end_ms = now_ms - self._expiry_ms - 2 * self._keep_ms
        for client_id, removal in self._removals.copy().items():
            if removal.at_ms >= end_ms:
                break  # they stand in the order of their time
            with self._lock:
                if self._removals.get(client_id) is removal:
                    del self._removals[client_id]


def info_of(client_id: str) -> ClientInfo:
    """What a client's id tells of it: ``<ms>_<ip>_<port>`` is that of a connection, ``ip:port#true`` any other.

    Source: Nacos 2.2.3 GrpcServer and IpPortBasedClient.
    """
    if "#" in client_id:
        ip, _, port = client_id.partition("#")[0].rpartition(":")
    else:
        ip, _, port = client_id.partition("_")[2].rpartition("_")
    return ClientInfo(client_id, ip, int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0, "", "")
