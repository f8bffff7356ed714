"""ClientTable: all clients by id, with their versions, what they publish, and the removals of clients that are gone."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from app.naming.clients.client_model import (
    RECENT_MAX,
    REVISION_MAX,
    WITHDRAWALS_SENT_MS,
    Client,
    ClientBounds,
    ClientSnapshot,
    ClientState,
    ServiceKey,
)
from app.naming.clients.removals import Removal, Removals
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.model import Publication
from app.naming.model.nacos_errors import ClientGone, InvalidParam, Unavailable
from app.naming.registry.service_table import Known, ServiceTable
from distro.model.digest import ChangedKeys
from distro.model.types import Version

EPOCH = 1
"""The epoch of all versions of clients: no member ever takes a client over."""


@dataclass(frozen=True, slots=True)
class ClientCounts:
    native: int
    copies: int
    subscriptions: int


class ClientTable:
    """The clients connected here and the copies of other members' clients.

    Readers take no lock. ``lock`` orders every change of a client; its holder calls nothing that waits, and publishes
    no event. The lock of ``services`` is taken under it, for one service at a time. The steps of the last section are
    for the holder; all other methods are thread-safe.
    """

    def __init__(
        self,
        services: ServiceTable,
        writer: str,
        monotonic_ms: Callable[[], int],
        bounds: ClientBounds | None = None,
        *,
        keep_ms: int = 60_000,
        alone: bool = False,
    ) -> None:
        """``services``: has the publications by service. ``writer``: this run of this member, as versions name it.

        ``keep_ms``: how long a removal is remembered at least. ``alone``: there are no peers to compare with.
        """
        self.lock = Lock()
        self.services = services
        self.writer = writer
        self.bounds = bounds or ClientBounds()
        self.copy_writers: set[str] = set()
        """The writers of all copies, and of some that are gone."""
        self._now_ms = monotonic_ms
        self._clients: dict[str, Client] = {}
        self._changed = ChangedKeys(kept=not alone)
        self._removals = Removals(keep_ms, self._changed)
        self.client: Callable[[str], Client | None] = self._clients.get
        """Returns the client of an id, copies included. The mapping's own method, as each registration calls it."""

    # --- reading: no lock -------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """Return the ids of all clients, copies included."""
        return list(self._clients)

    def all(self) -> list[Client]:
        """Return all clients, copies included."""
        return list(self._clients.values())

    def publishes(self, client_id: str, key: ServiceKey, publication: Publication) -> bool:
        """Return whether a client connected here publishes exactly this of a service."""
        client = self._clients.get(client_id)
        return client is not None and client.native and not client.ended and client.published.get(key) is publication

    def publishers(self, namespace: str, service: str) -> list[str]:
        """Return the ids of the clients that publish a service, copies included."""
        found = self.services.get(namespace or DEFAULT_NAMESPACE, service)
        return list(found.published or ()) if found else []

    def counts(self) -> ClientCounts:
        """Return the number of clients connected here, of copies, and of subscriptions."""
        clients = self.all()
        native = [one for one in clients if one.native and not one.ended]
        copies = sum(not one.native for one in clients)
        return ClientCounts(len(native), copies, sum(len(one.subscribed) for one in native))

    def version(self, client_id: str) -> Version | None:
        """Return the version of a client, or of its removal."""
        client = self._clients.get(client_id)
        if client is not None:
            return client.version
        removal = self._removals.get(client_id)
        return removal.version if removal else None

    def versions(self) -> dict[str, Version]:
        """Return the versions of all clients and removals, by client id."""
        return self._removals.versions() | {client_id: one.version for client_id, one in self._clients.copy().items()}

    def removal(self, client_id: str) -> Removal | None:
        """Return the removal of a client; None if none is remembered."""
        return self._removals.get(client_id)

    def is_removed(self, client_id: str) -> bool:
        """Return whether a client's removal is remembered."""
        return client_id in self._removals

    def is_forgettable(self, client_id: str, now_ms: int) -> bool:
        """Return whether a client's removal was remembered for long enough."""
        return self._removals.is_forgettable(client_id, now_ms)

    def old_removals(self, expiry_ms: int, now_ms: int) -> list[tuple[str, Removal]]:
        """Return the removals by client id that are so old that no copy with this expiry can bring a client back."""
        return self._removals.older_than(expiry_ms, now_ms)

    # --- reading: with the lock -------------------------------------------------------------------

    def pop_changed(self) -> str | None:
        """Take the id of a client whose version changed since it was last taken; None without any."""
        client_id = self._changed.pop()
        if client_id is not None:
            with self.lock:  # its change was noted under the lock, and is whole when that is free
                pass
        return client_id

    def snapshot(self, client_id: str) -> ClientSnapshot | None:
        """Return a consistent copy of a client's state, or its removal; None for an unknown one."""
        with self.lock:
            client = self._clients.get(client_id)
            if client is not None:
                published = (client.left or client.published).copy()
                ended_from = client.came_from if client.ended else ""
                withdrawn = self._recently_withdrawn(client)
                state = ClientState(client_id, client.revision, published, ended_from=ended_from, withdrawn=withdrawn)
                return ClientSnapshot(client.version, client.info, state)
            removal = self._removals.get(client_id)
            return ClientSnapshot(removal.version, None, None) if removal else None

    def delta(self, client_id: str, base: Version) -> ClientSnapshot | None:
        """Return the changes of a client connected here since ``base``; None if they are unknown, or there are none.

        The rest of a client whose instances come back elsewhere (R17) is sent as a whole.
        """
        with self.lock:
            client = self._clients.get(client_id)
            if client is None or not client.native or client.ended or client.left or client.recent is None:
                return None
            count = client.revision - base.counter
            is_of_row = (base.epoch, base.writer) == (client.version.epoch, client.version.writer)
            if not is_of_row or not 0 < count <= len(client.recent):
                return None
            changed = frozenset(client.recent[-count:])
            published = {key: one for key in changed if (one := client.published.get(key)) is not None}
            state = ClientState(
                client_id,
                client.revision,
                published,
                withdrawn=self._recently_withdrawn(client),
                gone=changed - published.keys(),
            )
            return ClientSnapshot(client.version, client.info, state)

    # --- steps: the caller holds the lock ---------------------------------------------------------

    def native(self, client_id: str) -> Client:
        """Return a client that is connected here. Needs no lock, but then the client may be gone the next moment.

        Raises:
            ClientGone: the client is not connected here.
        """
        client = self._clients.get(client_id)
        if client is None or not client.native or client.ended:
            raise ClientGone(f"Client [{client_id}] connection already disconnect")
        return client

    def publishing(self, key: ServiceKey) -> list[Client]:
        """Return the clients that publish a service, copies included."""
        service = self.services.get(*key)
        found = [self._clients.get(one) for one in list(service.published or ())] if service is not None else []
        return [one for one in found if one is not None and key in one.published]

    def publications(self, key: ServiceKey) -> dict[str, Publication]:
        """Return the publications of a service by client id, those of ended clients and copies included."""
        service = self.services.get(*key)
        return (service.published or {}) if service is not None else {}

    def add(self, client: Client) -> None:
        """Add a client. Its removal, if there is one, stays.

        Raises:
            Unavailable: the number of clients has reached its bound.
        """
        if len(self._clients) >= self.bounds.clients_max:
            raise Unavailable(f"there are {self.bounds.clients_max} clients already")
        self._clients[client.client_id] = client

    def drop(self, client: Client) -> None:
        """Remove a client. Its published instances stay in ``services``."""
        del self._clients[client.client_id]
        self._changed.note(client.client_id)

    def remember(self, client_id: str, version: Version, now_ms: int) -> None:
        """Remember the removal of a client with this version."""
        self._removals.add(client_id, version, now_ms)

    def forget_removal(self, client_id: str) -> None:
        """Forget the removal of a client, if there is one."""
        self._removals.discard(client_id)

    def check_size(self, services: int, instances: int) -> None:
        """Refuse more services or instances than a client may publish.

        Raises:
            InvalidParam: there are more.
        """
        if services > self.bounds.services_per_client_max:
            raise InvalidParam(f"a client publishes at most {self.bounds.services_per_client_max} services")
        if instances > self.bounds.instances_per_client_max:
            raise InvalidParam(f"a client publishes at most {self.bounds.instances_per_client_max} instances")

    def publish_own(self, client: Client, key: ServiceKey, publication: Publication, now_ms: int, known: Known) -> None:
        """Set what a client connected here publishes of a service, and give the client its next version.

        ``known``: the parts of the publication that exist already.

        Raises:
            InvalidParam: the client would publish more than it may.
            LimitReached, TooManyRequests: all clients together would: as ``ServiceTable.admit``.
            Unavailable: the client has changed too often.
        """
        old = client.published.get(key)
        services = len(client.published) + (old is None)
        instances = client.instances + len(publication.instances) - (len(old.instances) if old else 0)
        self.check_size(services, instances)
        size = client.metadata_bytes + publication.metadata_bytes - (old.metadata_bytes if old else 0)
        client_id = client.info.client_id
        if instances > client.instances or size > client.metadata_bytes:
            self.services.admission.check_list(f"client {client_id}", len(key[1]), instances, size)
        if client.revision >= REVISION_MAX:
            raise _changed_too_often(client)
        # First, as it may be refused.
        self.services.publish(*key, client_id, publication, now_ms, known)
        self._raise_version(client, key)
        client.instances, client.metadata_bytes = instances, size
        client.published[key] = publication

    def publish(self, client: Client, key: ServiceKey, publication: Publication, now_ms: int) -> None:
        """Set what a client publishes of a service, without another version."""
        old = client.published.get(key)
        client.instances += len(publication.instances) - (len(old.instances) if old else 0)
        client.metadata_bytes += publication.metadata_bytes - (old.metadata_bytes if old else 0)
        client.published[key] = publication
        self.services.publish(*key, client.client_id, publication, now_ms)

    def withdraw(self, client: Client, key: ServiceKey, now_ms: int) -> None:
        """Remove a client's publication of a service, without another version."""
        publication = client.published.pop(key)
        client.instances -= len(publication.instances)
        client.metadata_bytes -= publication.metadata_bytes
        self.services.withdraw(*key, client.client_id, publication, now_ms)

    def next_version(self, client: Client, key: ServiceKey | None = None) -> None:
        """Give a client connected here its next version. ``key``: the only service whose publication changes.

        Raises:
            Unavailable: the client has changed too often.
        """
        if client.revision >= REVISION_MAX:
            raise _changed_too_often(client)
        self._raise_version(client, key)

    def set_version(self, client: Client, version: Version) -> None:
        """Give a copy a version."""
        client.version = version
        self._changed.note(client.client_id)

    def _raise_version(self, client: Client, key: ServiceKey | None) -> None:
        client.revision += 1
        client.version = Version(EPOCH, client.revision, client.version.writer)
        self._changed.note(client.info.client_id)
        # For a client with one service the whole state is no larger than its change.
        if key is None or len(client.published) <= 1:
            client.recent = None
        else:
            client.recent = [*(client.recent or ())[1 - 2 * RECENT_MAX :], key]

    def _recently_withdrawn(self, client: Client) -> dict[ServiceKey, tuple[frozenset[str], int]]:
        """Return a client's recent withdrawals, as they are sent to other members."""
        first_ms = self._now_ms() - WITHDRAWALS_SENT_MS
        return {
            key: (one.instance_keys, one.published_ms) for key, one in client.withdrawn.items() if one.at_ms >= first_ms
        }


def _changed_too_often(client: Client) -> Unavailable:
    return Unavailable(f"client {client.client_id} has changed too often: please connect again")
