"""Clients: who is connected, what each publishes and what it wants to be told of.

A client's instances need no beats: they live as long as its connection. Those of clients that are connected to peers
are here too, as copies (``native`` False).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from app.naming.clients.client_model import (
    REVISION_MAX,
    Client,
    ClientBounds,
    check_legal,
    id_allocator,
    instance_of,
    instances_of,
    is_client_id,
)
from app.naming.clients.client_model import ClientInfo as ClientInfo
from app.naming.clients.client_model import ServiceKey as ServiceKey
from app.naming.model.events import (
    ClientChanged,
    ClientDeregisterService,
    ClientDisconnect,
    ClientRegisterService,
    ClientSubscribeService,
    Event,
    ServiceChanged,
    ServiceSubscribed,
)
from app.naming.model.keys import DEFAULT_NAMESPACE, check_namespace, check_service_chars, check_service_format
from app.naming.model.model import Instance, Publication, Service
from app.naming.model.nacos_errors import ClientGone as ClientGone
from app.naming.model.nacos_errors import InvalidParam, Unavailable
from app.naming.model.value_limits import CLIENT_TEXTS_CHARS_MAX
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.shared import Shared
from distro.types import NO_VERSION, Version

EPOCH = 1
"""Of the versions of clients: nobody ever takes one over."""

CLUSTERS_CHARS_MAX = 2_048


@dataclass(frozen=True, slots=True)
class ClientCounts:
    native: int
    copies: int
    subscriptions: int


class Clients:
    """The clients with connections, by id. Thread-safe.

    One lock orders the changes of clients; the registry's own is taken under it, for one service at a time. Events are
    told when both are free again: they carry names, and who is told reads what holds by then.
    """

    def __init__(
        self,
        registry: Registry,
        monotonic_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        publish: Callable[[Event], None],
        bounds: ClientBounds | None = None,
    ) -> None:
        self._registry = registry
        self._now_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._publish = publish
        self._bounds = bounds or ClientBounds()
        self._lock = Lock()
        self._shared = Shared()
        self._clients: dict[str, Client] = {}
        self._subscribers: dict[ServiceKey, dict[str, str]] = {}

    # --- reading: no lock -------------------------------------------------------------------------

    def client(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def ids(self) -> list[str]:
        """The ids of all clients, copies too."""
        return list(self._clients)

    def subscribers(self, namespace: str, service: str) -> list[tuple[str, str]]:
        """The clients connected here that are subscribed, each with the clusters it asked for."""
        return list(self._subscribers.get((namespace or DEFAULT_NAMESPACE, service), {}).items())

    def publishers(self, namespace: str, service: str) -> list[str]:
        """The ids of the clients that publish a service, copies too."""
        found = self._registry.get(namespace or DEFAULT_NAMESPACE, service)
        return list(found.published or ()) if found else []

    def counts(self) -> ClientCounts:
        clients = list(self._clients.values())
        native = [one for one in clients if one.native]
        return ClientCounts(len(native), len(clients) - len(native), sum(len(one.subscribed) for one in native))

    # --- connections ------------------------------------------------------------------------------

    def connect(self, info: ClientInfo) -> None:
        """Take a client that connected here; one that is known to be connected already stays as it is.

        Raises:
            InvalidParam: the id is that of another member's client, or a text is empty or too long.
            Unavailable: there are as many clients as there may be.
        """
        if (
            not is_client_id(info.client_id)
            or sum(map(len, (info.client_id, info.ip, info.app, info.agent))) > CLIENT_TEXTS_CHARS_MAX
        ):
            raise InvalidParam("the client's id is none, or what it says of itself is too long")
        with self._lock:
            known = self._clients.get(info.client_id)
            if known is not None and known.native:
                return
            if known is not None:
                raise InvalidParam(f"client {info.client_id} is connected to another member")
            self._check_new(info.client_id)
            self._check_room()
            version = Version(EPOCH, 0, self._registry.writer)
            self._clients[info.client_id] = Client(info, native=True, now_ms=self._now_ms(), version=version)

    def _check_new(self, client_id: str) -> None:
        """Called under the lock; refuses an id that was used before, where this is known."""

    def _check_room(self) -> None:
        if len(self._clients) >= self._bounds.clients_max:
            raise Unavailable(f"there are {self._bounds.clients_max} clients already")

    def disconnect(self, client_id: str) -> bool:
        """Let a client go with all that it published and subscribed; return whether it was there."""
        with self._lock:
            client = self._clients.get(client_id)
            if client is not None:
                self._on_leave(client)
                del self._clients[client_id]
                for key in client.subscribed:
                    self._drop_subscriber(key, client_id)
        if client is None:
            return False
        # No other operation finds the client now, so its publications are taken out without the lock.
        gone = [key for key, one in client.published.items() if self._withdraw(client, key, one)]
        self._publish(ClientDisconnect(client_id, client.native))
        for key in gone:
            self._publish(ClientDeregisterService(key, client_id))
            self._publish(ServiceChanged(*key))
        return True

    def _on_leave(self, client: Client) -> None:
        """Called under the lock, before the client is gone."""

    def _withdraw(self, client: Client, key: ServiceKey, publication: Publication) -> bool:
        return self._registry.withdraw(*key, client.client_id, publication, self._now_ms())

    def _drop_subscriber(self, key: ServiceKey, client_id: str) -> None:
        known = self._subscribers.get(key, {})
        known.pop(client_id, None)
        if not known:
            self._subscribers.pop(key, None)

    # --- what a client publishes ------------------------------------------------------------------

    def register(self, client_id: str, command: RegisterInstance) -> None:
        """Publish one instance of a service, in the place of whatever the client published of it.

        Raises:
            ClientGone: the client is not connected here.
            InvalidParam: a name, the address, the weight or a time-out is not allowed, the service is a persistent one,
                or the client publishes as much as it may.
            Unavailable: the client has changed too often.
        """
        command = command._replace(namespace=command.namespace or DEFAULT_NAMESPACE)
        check_service_format(command.service)
        check_legal(command)
        wall_ms = max(self._wall_ms(), 0)

        def make(client: Client) -> dict[str, Instance]:
            made = instance_of(command, id_allocator(client_id, client.revision, wall_ms), self._shared)
            return {made.key: made}

        self._put_native(client_id, (command.namespace, command.service), make, wall_ms, batch=False)

    def batch_register(
        self, client_id: str, namespace: str, service: str, commands: Sequence[RegisterInstance]
    ) -> None:
        """Publish these instances of a service, none too, in the place of whatever the client published of it.

        The namespace and service that count are those of the call.

        Raises:
            ClientGone, InvalidParam, Unavailable: as ``register``.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        _check_service(key)
        if len(commands) > self._bounds.instances_per_batch_max:
            raise InvalidParam(f"a batch has at most {self._bounds.instances_per_batch_max} instances")
        wall_ms = max(self._wall_ms(), 0)
        own = [one._replace(namespace=key[0], service=service) for one in commands]

        def make(client: Client) -> dict[str, Instance]:
            return instances_of(own, id_allocator(client_id, client.revision, wall_ms), self._shared)

        self._put_native(client_id, key, make, wall_ms, batch=True)

    def _put_native(
        self,
        client_id: str,
        key: ServiceKey,
        make: Callable[[Client], dict[str, Instance]],
        wall_ms: int,
        *,
        batch: bool,
    ) -> None:
        instances = make(self._native(client_id))
        with self._lock:
            client = self._native(client_id)  # it may have gone meanwhile
            service = self._registry.get(*key)
            _check_kind(key[1], service)
            seen = service.version if service is not None else NO_VERSION
            publication = Publication(instances, batch, wall_ms, seen)
            old = client.published.get(key)
            if old is not None and old.says_the_same(publication):
                return
            self._check_bounds(client, key, publication)
            self._count(client)
            self._put(client, key, publication)
        self._publish(ClientChanged(client_id))
        self._publish(ClientRegisterService(key, client_id))
        self._publish(ServiceChanged(*key))

    @staticmethod
    def _count(client: Client) -> None:
        """Count a change. Called under the lock."""
        if client.revision >= REVISION_MAX:
            raise Unavailable(f"client {client.client_id} has changed too often: it is to connect anew")
        client.revision += 1
        client.version = Version(EPOCH, client.revision, client.version.writer)

    def _check_bounds(self, client: Client, key: ServiceKey, publication: Publication) -> None:
        old = client.published.get(key)
        if old is None and len(client.published) >= self._bounds.services_per_client_max:
            raise InvalidParam(f"a client publishes at most {self._bounds.services_per_client_max} services")
        count = client.instances + len(publication.instances) - (len(old.instances) if old else 0)
        if count > self._bounds.instances_per_client_max:
            raise InvalidParam(f"a client publishes at most {self._bounds.instances_per_client_max} instances")

    def _put(self, client: Client, key: ServiceKey, publication: Publication) -> None:
        """Called under the lock."""
        now_ms = self._now_ms()
        old = client.published.get(key)
        client.instances += len(publication.instances) - (len(old.instances) if old else 0)
        client.published[key] = publication
        client.updated_ms = now_ms
        self._registry.publish(*key, client.client_id, publication, now_ms)

    def deregister(self, client_id: str, namespace: str, service: str) -> None:
        """Take back whatever the client publishes of a service; nothing is no error.

        Raises:
            ClientGone: the client is not connected here.
            Unavailable: the client has changed too often.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        with self._lock:
            client = self._native(client_id)
            if key not in client.published:
                return
            self._count(client)
            self._take(client, key)
        self._publish(ClientChanged(client_id))
        self._publish(ClientDeregisterService(key, client_id))
        self._publish(ServiceChanged(*key))

    def _take(self, client: Client, key: ServiceKey) -> None:
        """Called under the lock."""
        publication = client.published.pop(key)
        client.instances -= len(publication.instances)
        client.updated_ms = self._now_ms()
        self._withdraw(client, key, publication)

    def _native(self, client_id: str) -> Client:
        client = self._clients.get(client_id)
        if client is None or not client.native:
            raise ClientGone(f"Client [{client_id}] connection already disconnect")
        return client

    # --- what a client wants to be told -----------------------------------------------------------

    def subscribe(self, client_id: str, namespace: str, service: str, clusters: str) -> None:
        """Note that a client wants to be told of a service, which need not exist; the last clusters count.

        Raises:
            ClientGone: the client is not connected here.
            InvalidParam: a name is not allowed, or the client is subscribed to as much as it may be.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        _check_service(key)
        if len(clusters) > CLUSTERS_CHARS_MAX:
            raise InvalidParam(f"Param 'clusters' is illegal, the param length should not exceed {CLUSTERS_CHARS_MAX}.")
        with self._lock:
            client = self._native(client_id)
            is_new = key not in client.subscribed
            if is_new and len(client.subscribed) >= self._bounds.services_per_client_max:
                raise InvalidParam(f"a client subscribes to at most {self._bounds.services_per_client_max} services")
            client.subscribed[key] = clusters
            client.updated_ms = self._now_ms()
            self._subscribers.setdefault(key, {})[client_id] = clusters
        self._publish(ClientSubscribeService(key, client_id))
        if is_new:
            self._publish(ServiceSubscribed(key, client_id))

    def unsubscribe(self, client_id: str, namespace: str, service: str) -> None:
        """Forget that a client wants to be told of a service.

        Raises:
            ClientGone: the client is not connected here.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        with self._lock:
            client = self._native(client_id)
            if client.subscribed.pop(key, None) is not None:
                client.updated_ms = self._now_ms()
                self._drop_subscriber(key, client_id)


def _check_service(key: ServiceKey) -> None:
    check_service_format(key[1])
    check_service_chars(key[1])
    check_namespace(key[0])


def _check_kind(full_name: str, service: Service | None) -> None:
    """A service of persistent instances alone is a persistent one; over HTTP one may hold both kinds, as in Nacos 1.4.

    Raises:
        InvalidParam: with the words of Nacos 2.2.3 EphemeralClientOperationServiceImpl.
    """
    if service is not None and service.persistent and not service.stored and not service.published:
        raise InvalidParam(f"Current service {full_name} is persistent service, can't register ephemeral instance.")
