"""OwnClients: the clients that are connected here. A client's instances live as long as its connection.

The member that holds the connection is the only one that changes the client.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count

from app.naming.clients.client_model import (
    RESERVED_NAMES,
    REVISION_MAX,
    Client,
    ClientInfo,
    ClientSnapshot,
    ClientState,
    ServiceKey,
    check_service_key,
    is_client_id,
)
from app.naming.clients.client_subscriptions import ClientSubscriptions
from app.naming.clients.client_table import EPOCH, ClientTable
from app.naming.clients.hand_over import NO_SOURCES, HandOver, ReturnSources
from app.naming.clients.withdrawals import Withdrawals
from app.naming.model.events import ClientChanged, ClientDisconnect, ClientWithdrawn, Event, ServiceChanged
from app.naming.model.keys import (
    CLIENT_TEXTS_CHARS_MAX,
    CLUSTER_NAME,
    DEFAULT_NAMESPACE,
    INSTANCE_ID_CHARS_MAX,
    SIMPLE_ID,
    check_instance,
    check_service_format,
    instance_key,
)
from app.naming.model.model import (
    NO_METADATA,
    PRESERVED_BEAT_INTERVAL,
    PRESERVED_BEAT_TIMEOUT,
    PRESERVED_DELETE_TIMEOUT,
    Instance,
    Metadata,
    Publication,
    Service,
    instance_bytes,
)
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry import operations
from app.naming.registry.operations import RegisterInstance, Shared
from app.naming.registry.service_table import Known
from distro.model.types import NO_VERSION, Version

_SEQUENCE_BITS = 12
_MEMBER_BITS = 10
_TIME_OUTS = frozenset((PRESERVED_BEAT_INTERVAL, PRESERVED_BEAT_TIMEOUT, PRESERVED_DELETE_TIMEOUT))
_NOTHING_KNOWN = Known(0, 0)
DEFAULT_APP = RegisterInstance._field_defaults["app"]


class OwnClients:
    """Connects and disconnects clients, and changes what they publish. Thread-safe.

    Events are published when no lock is held: a handler reads the state of that time.
    """

    def __init__(
        self,
        table: ClientTable,
        subscriptions: ClientSubscriptions,
        hand_over: HandOver,
        withdrawals: Withdrawals,
        monotonic_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        publish: Callable[[Event], None],
    ) -> None:
        self._table = table
        self._subscriptions = subscriptions
        self._hand_over = hand_over
        self._withdrawals = withdrawals
        self._now_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._publish = publish
        self._shared = Shared()

    # --- connections ------------------------------------------------------------------------------

    def connect(self, info: ClientInfo) -> None:
        """Add a client that connected here. One that is already connected stays as it is.

        Raises:
            InvalidParam: the id is another member's client's or was used before, or a text is empty or too long.
            Unavailable: the number of clients has reached its bound.
        """
        if (
            not is_client_id(info.client_id)
            or sum(map(len, (info.client_id, info.ip, info.app, info.agent))) > CLIENT_TEXTS_CHARS_MAX
        ):
            raise InvalidParam("the client's id is illegal, or its description of itself is too long")
        table = self._table
        with table.lock:
            known = table.client(info.client_id)
            if known is not None and known.native:
                return
            if known is not None:
                raise InvalidParam(f"client {info.client_id} is connected to another member")
            if table.is_removed(info.client_id):
                raise InvalidParam(f"client {info.client_id} was connected before: an id is not used twice")
            table.add(Client(info, native=True, now_ms=self._now_ms(), version=Version(EPOCH, 0, table.writer)))

    def disconnect(self, client_id: str) -> bool:
        """Drop a client with all its publications and subscriptions. Return whether it existed.

        A client from a run that is over, and is still being handed over, is kept without subscriptions for at least
        ``MOVED_AGAIN_MS``: SDKs may connect once more, and publish again later (R17). The other members hear that it is
        expected elsewhere, and each leaves out the instances that it knows to be back.
        """
        events: list[Event] = []
        with self._table.lock:
            client = self._table.client(client_id)
            if client is not None and not client.ended and self._hand_over.may_be_back(client):
                self._subscriptions.drop_all(client)
                events = self._hand_over.end_own(client, self._now_ms())
        if not events:
            return self._remove(client_id)
        self._publish_all(events)
        return True

    def remove_finished(self, now_ms: int) -> None:
        """Remove the clients that were kept for a new connection, and are back or no longer expected (R17)."""
        with self._table.lock:
            done = self._hand_over.finished(now_ms)
        for client_id in done:
            self._remove(client_id)

    def _remove(self, client_id: str) -> bool:
        table, now_ms = self._table, self._now_ms()
        with table.lock:
            self._hand_over.ended.discard(client_id)
            client = table.client(client_id)
            if client is not None:
                if client.native:
                    version = client.version
                    table.remember(client_id, Version(version.epoch, version.counter + 1, version.writer), now_ms)
                table.drop(client)
                self._subscriptions.drop_all(client)
        if client is None:
            return False
        # No other operation finds the client now, so its publications are removed without the lock.
        published = client.published.items()
        gone = [key for key, one in published if table.services.withdraw(*key, client_id, one, now_ms)]
        self._publish(ClientDisconnect(client_id, client.native))
        with table.lock:
            former, client.published = client.published, {}
            events = self._withdrawals.withdraw(client, {key: former[key] for key in gone}, now_ms)
        changed = [ServiceChanged(*key) for key in gone]
        self._publish_all([ClientWithdrawn(client_id, former, gone=True), *events, *changed])
        return True

    # --- publications -----------------------------------------------------------------------------

    def register(self, client_id: str, command: RegisterInstance) -> Publication | None:
        """Publish one instance of a service, in place of the client's former publication of it.

        Returns the former publication if it says the same, and nothing changed.

        Raises:
            ClientGone: the client is not connected here.
            InvalidParam: a name, the address, the weight or a time-out is not allowed, the service is a persistent one,
                or the client publishes as much as it may.
            LimitReached, TooManyRequests: all clients together publish as much as they may (``ServiceTable.admit``).
            Unavailable: the client has changed too often.
        """
        if not command.namespace:
            command = command._replace(namespace=DEFAULT_NAMESPACE)
        check_service_format(command.service)
        check_legal(command)
        return self._put(client_id, (command.namespace, command.service), [command], batch=False)

    def batch_register(
        self, client_id: str, namespace: str, service: str, commands: Sequence[RegisterInstance]
    ) -> Publication | None:
        """Publish these instances of a service, or none, in place of the client's former publication of it.

        The call's namespace and service count, not those of its commands. Returns as ``register``.

        Raises:
            ClientGone, InvalidParam, LimitReached, TooManyRequests, Unavailable: as ``register``; none is published.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        check_service_key(key)
        instances_max = self._table.bounds.instances_per_batch_max
        if len(commands) > instances_max:
            raise InvalidParam(f"a batch has at most {instances_max} instances")
        own = [
            one if (one.namespace, one.service) == key else one._replace(namespace=key[0], service=service)
            for one in commands
        ]
        return self._put(client_id, key, own, batch=True)

    def _put(
        self, client_id: str, key: ServiceKey, commands: Sequence[RegisterInstance], *, batch: bool
    ) -> Publication | None:
        table, hand_over = self._table, self._hand_over
        wall_ms = max(self._wall_ms(), 0)
        numbers = instance_numbers(client_id, table.native(client_id).revision, wall_ms)
        instances = instances_of(commands, numbers, self._shared)
        with table.lock:
            client = table.native(client_id)  # it may have disconnected in the meantime
            service = table.services.get(*key)
            seen = NO_VERSION
            if service is not None:
                seen = service.version
                _check_kind(service)
            publication = Publication(instances, batch, wall_ms, seen)
            old = client.published.get(key)
            if old is not None and old.says_the_same(publication):
                return old
            # Without copies of other members' clients nobody comes from elsewhere.
            sources = hand_over.sources(key) if table.copy_writers or hand_over.ended else NO_SOURCES
            now_ms = self._now_ms()
            known = _NOTHING_KNOWN if service is None else _known_of(client, key, publication, service, sources)
            table.publish_own(client, key, publication, now_ms, known)
            events: list[Event] = []
            if sources.clients:
                events += hand_over.replace_sources(client, key, publication, sources, now_ms)
            events.append(ClientChanged(client_id))
            if old is not None:
                events += self._withdrawals.withdraw(client, {key: old}, now_ms)
        events.append(ServiceChanged(*key))
        for event in events:
            self._publish(event)
        return None

    def deregister(self, client_id: str, namespace: str, service: str) -> Publication | None:
        """Withdraw a client's publication of a service, and return it; None, without an effect, if there is none.

        Raises:
            ClientGone: the client is not connected here.
            InvalidParam: no service can have such a name (R18).
            Unavailable: the client has changed too often.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        check_service_key(key)
        table = self._table
        with table.lock:
            client = table.native(client_id)
            if key not in client.published:
                return None
            now_ms = self._now_ms()
            table.next_version(client, key)
            former = {key: client.published[key]}
            table.withdraw(client, key, now_ms)
            events = self._withdrawals.withdraw(client, former, now_ms)
        withdrawn = ClientWithdrawn(client_id, former, gone=False)
        self._publish_all([withdrawn, ClientChanged(client_id), *events, ServiceChanged(*key)])
        return former[key]

    # --- versions ---------------------------------------------------------------------------------

    def reissue(self, client_id: str, snapshot: ClientSnapshot) -> bool:
        """Give a client connected here a new version, if a peer has another state under its present one (R3).

        Another state has other publications, or another revision.

        Also if the peer has any under a higher version of this run, which this run did not give (R10): the new version
        is then above that. Return whether the version changed.
        """
        with self._table.lock:
            client = self._table.client(client_id)
            if client is None or not client.native or client.ended or snapshot.version < client.version:
                return False
            counted = max(client.revision, snapshot.version.counter)
            if counted >= REVISION_MAX or client.version.writer != snapshot.version.writer:
                return False
            if snapshot.version == client.version and (snapshot.state is None or _is_alike(client, snapshot.state)):
                return False
            client.revision = counted
            self._table.next_version(client)
        self._publish(ClientChanged(client_id))
        return True

    def _publish_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._publish(event)


def _is_alike(client: Client, state: ClientState) -> bool:
    published, others = client.published, state.publications
    if client.revision != state.revision or published.keys() != others.keys():
        return False
    return all(one.says_the_same(others[key]) for key, one in published.items())


def _known_of(
    client: Client, key: ServiceKey, publication: Publication, service: Service, sources: ReturnSources
) -> Known:
    """Return the existing parts of a publication: the client's own, listed ones, those of clients it came from."""
    instances, former = publication.instances, client.published.get(key)
    mine: Mapping[str, Instance] = former.instances if former is not None else {}
    found: dict[str, Instance] = {}
    for one in instances.keys() - mine.keys():
        stored = service.stored.get(one)
        listed = stored.instance if stored is not None else service.persistent.get(one)
        if listed is not None:
            found[one] = listed
    for other in sources.clients:
        theirs = other.published[key].instances
        found.update({one: theirs[one] for one in instances.keys() & theirs.keys()})
    twice = found.keys() & mine.keys()
    size = former.metadata_bytes if former is not None else 0
    size += sum(map(instance_bytes, found.values())) - sum(instance_bytes(mine[one]) for one in twice)
    return Known(len(mine) + len(found) - len(twice), size)


def _check_kind(service: Service) -> None:
    """Refuse a client's instance in a service with only persistent instances. Over HTTP a service may have both, as in
    Nacos 1.4.

    Raises:
        InvalidParam: with the text of Nacos 2.2.3 EphemeralClientOperationServiceImpl.
    """
    if service.persistent and not service.stored and not service.published:
        raise InvalidParam(
            f"Current service {service.full_name} is persistent service, can't register ephemeral instance."
        )


# --- the instances of a call -------------------------------------------------------------------------


def instance_numbers(client_id: str, revision: int, wall_ms: int) -> Iterator[int]:
    """Return numbers for instance ids: they rise with the wall clock, and differ by client and revision."""
    seed = wall_ms << _MEMBER_BITS + _SEQUENCE_BITS | (sum(client_id.encode()) % (1 << _MEMBER_BITS)) << _SEQUENCE_BITS
    return count(seed + revision % (1 << _SEQUENCE_BITS))


def instance_of(command: RegisterInstance, numbers: Iterator[int], shared: Shared) -> Instance:
    """Return the instance of a client's registration, with the id that the client requests, or a generated one.

    Source: Nacos 2.3 InstanceIdGeneratorManager: address, cluster and service, or a number in place of the address.

    Raises:
        InvalidParam: a name, the address or the weight is not allowed.
    """
    if len(command.instance_id) > INSTANCE_ID_CHARS_MAX:
        raise InvalidParam(
            f"Param 'instanceId' is illegal, the param length should not exceed {INSTANCE_ID_CHARS_MAX}."
        )
    metadata = shared.metadata(plain_metadata(command.metadata))
    # The application belongs to the client, and is not sent to peers with its instances.
    traits = (command.service, command.cluster, DEFAULT_APP, operations.check_weight(command.weight))
    service, cluster, app, weight = shared.traits(traits)
    instance_id = command.instance_id or SIMPLE_ID
    if not command.instance_id and operations.is_numbered(metadata):
        instance_id = f"{next(numbers)}#{command.cluster}#{command.service}"
    address = command.ip, shared.port(command.port), cluster, service
    made = Instance(
        *address, weight, command.healthy, command.enabled, metadata=metadata, app=app, instance_id=instance_id
    )
    check_instance(made, SIMPLE_ID, command.namespace, command.service)
    return made


def instances_of(commands: Iterable[RegisterInstance], numbers: Iterator[int], shared: Shared) -> dict[str, Instance]:
    """Return the instances of a batch by instance key. If several have one key, the last counts.

    Raises:
        InvalidParam: as ``instance_of``.
    """
    made = [instance_of(command, numbers, shared) for command in commands]
    return {instance_key(one.ip, one.port, one.cluster_name): one for one in made}


def check_legal(command: RegisterInstance) -> None:
    """Refuse a registration with a beat interval over its time-outs, or a wrong cluster name; batches are not checked.

    Raises:
        InvalidParam: Source: Nacos 2.2.3 NamingUtils.checkInstanceIsLegal.
    """
    metadata = command.metadata or {}
    if not _TIME_OUTS.isdisjoint(metadata):
        one = Instance(command.ip, command.port, metadata=metadata)
        if one.beat_interval_ms > min(one.beat_timeout_ms, one.delete_timeout_ms):
            raise InvalidParam(
                "Instance 'heart beat interval' must less than 'heart beat timeout' and 'ip delete timeout'."
            )
    if not CLUSTER_NAME.fullmatch(command.cluster):
        raise InvalidParam(
            f"Instance 'clusterName' should be characters with only 0-9a-zA-Z-. (current: {command.cluster[:512]})"
        )


def plain_metadata(metadata: Metadata | None) -> Metadata:
    """Return metadata without null values, which no SDK of 2.x sends on purpose, and without ``RESERVED_NAMES``."""
    metadata = metadata or NO_METADATA
    if None not in metadata.values() and RESERVED_NAMES.isdisjoint(metadata):
        return metadata
    return {key: text for key, text in metadata.items() if text is not None and key not in RESERVED_NAMES}
