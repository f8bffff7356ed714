"""Clients: the clients with connections, their publications and subscriptions, and copies of other members' clients.

A client's instances need no beats: they live as long as its connection. The member that holds the connection is the
only one that changes the client; every other member keeps a copy (``native`` False), which serves readers, is never
sent on, and lives as long as the client's member goes on to confirm it.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

from app.naming.clients.client_model import (
    ANY_REVISION,
    RECENT_MAX,
    REVISION_MAX,
    Client,
    ClientBounds,
    ClientInfo,
    ClientSnapshot,
    ClientState,
    ServiceKey,
    Withdrawal,
    check_legal,
    info_of,
    instance_numbers,
    instances_of,
    is_client_id,
)
from app.naming.clients.removals import Removals
from app.naming.clients.withdrawals import SILENT_MS, TOLD_MS, TOLD_SERVICES_MAX, Withdrawals
from app.naming.limits.admission import PREFIX
from app.naming.limits.subscriber_tally import SubscriberTally
from app.naming.model.events import ClientChanged, ClientDisconnect, Event, ServiceChanged, ServiceSubscribed
from app.naming.model.keys import DEFAULT_NAMESPACE, check_namespace, check_service_chars, check_service_format
from app.naming.model.model import Publication, Service, instance_bytes
from app.naming.model.nacos_errors import ClientGone, InvalidParam, LimitReached, Unavailable
from app.naming.model.value_limits import CLIENT_TEXTS_CHARS_MAX
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import Known
from app.naming.registry.shared import Shared
from distro.model.digest import ChangedKeys
from distro.model.types import NO_VERSION, Version

EPOCH = 1
"""The epoch of all versions of clients: no member ever takes a client over."""
CLUSTERS_CHARS_MAX = 2_048
EXPIRY_MS = 180_000
"""A copy goes when it was not confirmed for longer. Source: Nacos 2.2.3, nacos.naming.client.expired.time."""
UNCONFIRMED_MS = 15_000
"""Three rounds, in which a client's member should have confirmed a copy that came from another member."""
MOVED_AGAIN_MS = 6_000
"""How long an SDK takes to publish again after a second move: Java SDKs check every 3 s which calls to repeat.

It counts from the return of the last client of the same run: as long as others return, the machine is busy, and this
client may still be waiting.
"""
EXPIRY_INTERVAL_MS = 5_000
"""Time between two searches for expired copies. Copies of a run that is over are dropped at once. Source: the same."""


@dataclass(frozen=True, slots=True)
class ClientCounts:
    native: int
    copies: int
    subscriptions: int


class Clients:
    """All clients by id, and the removals of those that are gone. Thread-safe.

    One lock orders the changes of clients; the registry's own is taken under it, for one service at a time. Events are
    published when both are free again: a handler reads the state of that time. The private steps of the last section
    are for the holder of the lock.
    """

    def __init__(
        self,
        registry: Registry,
        monotonic_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        publish: Callable[[Event], None],
        bounds: ClientBounds | None = None,
        tally: SubscriberTally | None = None,
        *,
        expiry_ms: int = EXPIRY_MS,
        keep_ms: int = 60_000,
        alone: bool = False,
    ) -> None:
        """``tally``: counts the subscriptions, with those of other kinds.

        ``expiry_ms``: how long a copy lives unconfirmed. ``keep_ms``: how long a removal is remembered at least.
        ``alone``: there are no peers to compare with.
        """
        self.is_handing_over: Callable[[str], bool] = lambda _writer: False
        """Returns whether a ``writer``, one member's run, is over, and its clients come back elsewhere (R17)."""
        self.on_return: Callable[[str, int], None] = lambda _writer, _now_ms: None
        """Called without the lock for each client of such a run that is back elsewhere, with the time."""
        self.contact_ms: Callable[[str], int] = lambda _writer: self._now_ms()
        """Returns when the member of a ``writer`` last answered or called this one (monotonic)."""
        self.on_withdrawn: Callable[[str, Mapping[ServiceKey, Publication], bool], None] = lambda *_told: None
        """Called when a client withdrew publications: its id, the former ones, whether it is gone. On any thread."""
        self.writer = registry.lists.writer
        self._table = registry.table
        self._now_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._publish = publish
        self._bounds = bounds or ClientBounds()
        self._tally = tally or SubscriberTally()
        self._expiry_ms = expiry_ms
        self._lock = Lock()
        self._shared = Shared()
        self._clients: dict[str, Client] = {}
        self._subscribers: dict[ServiceKey, dict[str, str]] = {}
        self._changed = ChangedKeys(kept=not alone)
        self._removals = Removals(keep_ms, self._changed)
        self._confirmed_ms: dict[str, int] = {}
        """When the copies of all clients of a member were last confirmed together, by its address."""
        self._disputed: set[str] = set()
        """The ids of clients whose copies were excepted from that, because their member has them in another state."""
        self._withdrawals = Withdrawals()
        self._expiry_due_ms = 0
        self._copy_writers: set[str] = set()
        """The writers of all copies, and of some that are gone."""
        self._returned_ms: dict[str, int] = {}
        """When a client last came back, by the run that it came from, while that run is handed over."""
        self._returns: deque[tuple[str, int]] = deque()
        """The returns that ``on_return`` has yet to be called for."""
        self._ended: set[str] = set()
        """The ids of clients whose connections are gone, and that are expected elsewhere."""
        self._lessened: dict[ServiceKey, set[str]] = {}
        """The ids of clients that lost published instances to a return elsewhere, by service; some may be gone."""

    # --- reading: no lock -------------------------------------------------------------------------

    def client(self, client_id: str) -> Client | None:
        """Return the client of an id, copies included."""
        return self._clients.get(client_id)

    def ids(self) -> list[str]:
        """Return the ids of all clients, copies included."""
        return list(self._clients)

    def subscribers(self, namespace: str, service: str) -> list[tuple[str, str]]:
        """Return the clients connected here that subscribe to a service, each with the clusters it requested."""
        return list(self._subscribers.get((namespace or DEFAULT_NAMESPACE, service), {}).items())

    def publishers(self, namespace: str, service: str) -> list[str]:
        """Return the ids of the clients that publish a service, copies included."""
        found = self._table.get(namespace or DEFAULT_NAMESPACE, service)
        return list(found.published or ()) if found else []

    def counts(self) -> ClientCounts:
        """Return the number of clients connected here, of copies, and of subscriptions."""
        clients = list(self._clients.values())
        native = [one for one in clients if one.native and not one.ended]
        copies = sum(not one.native for one in clients)
        return ClientCounts(len(native), copies, sum(len(one.subscribed) for one in native))

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
        with self._lock:
            known = self._clients.get(info.client_id)
            if known is not None and known.native:
                return
            if known is not None:
                raise InvalidParam(f"client {info.client_id} is connected to another member")
            if info.client_id in self._removals:
                raise InvalidParam(f"client {info.client_id} was connected before: an id is not used twice")
            self._check_room()
            version = Version(EPOCH, 0, self.writer)
            self._clients[info.client_id] = Client(info, native=True, now_ms=self._now_ms(), version=version)

    def disconnect(self, client_id: str) -> bool:
        """Drop a client with all its publications and subscriptions. Return whether it was there.

        A client from a run that is over, and is still being handed over, is kept without subscriptions for at least
        ``MOVED_AGAIN_MS``: SDKs may connect once more, and publish again later (R17). The other members hear that it is
        expected elsewhere, and each leaves out the instances that it knows to be back.
        """
        with self._lock:
            client = self._clients.get(client_id)
            has_ended = client is not None and not client.ended and self._may_be_back(client)
            if client is not None and has_ended:
                client.ended, client.ended_ms = True, self._now_ms()
                self._ended.add(client_id)
                self._drop_subscriptions(client)
                client.revision += 1
                client.version = Version(EPOCH, client.revision, client.version.writer)
                self._changed.note(client_id)
                self._drop_what_is_there(client)
        if not has_ended:
            return self._remove(client_id)
        self._publish_all([ClientChanged(client_id)])
        return True

    def _remove(self, client_id: str) -> bool:
        with self._lock:
            self._ended.discard(client_id)
            client = self._clients.get(client_id)
            if client is not None:
                if client.native:
                    version = client.version
                    self._remember(client_id, Version(version.epoch, version.counter + 1, version.writer))
                del self._clients[client_id]
                self._changed.note(client_id)
                self._drop_subscriptions(client)
        if client is None:
            return False
        # No other operation finds the client now, so its publications are removed without the lock.
        now_ms = self._now_ms()
        gone = [key for key, one in client.published.items() if self._table.withdraw(*key, client_id, one, now_ms)]
        self._publish(ClientDisconnect(client_id, client.native))
        with self._lock:
            former, client.published = client.published, {}
            told_less = self._withdrawn(client, {key: former[key] for key in gone})
        self.on_withdrawn(client_id, former, True)
        self._publish_all([*told_less, *(ServiceChanged(*key) for key in gone)])
        return True

    # --- publications of clients that are connected here ------------------------------------------

    def publishes(self, client_id: str, key: ServiceKey, publication: Publication) -> bool:
        """Return whether this is what a client connected here publishes of a service. Takes no lock."""
        client = self._clients.get(client_id)
        return client is not None and client.native and not client.ended and client.published.get(key) is publication

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
        command = command._replace(namespace=command.namespace or DEFAULT_NAMESPACE)
        check_service_format(command.service)
        check_legal(command)
        return self._put_native(client_id, (command.namespace, command.service), [command], batch=False)

    def batch_register(
        self, client_id: str, namespace: str, service: str, commands: Sequence[RegisterInstance]
    ) -> Publication | None:
        """Publish these instances of a service, or none, in place of the client's former publication of it.

        The call's namespace and service count, not those of its commands. Returns as ``register``.

        Raises:
            ClientGone, InvalidParam, LimitReached, TooManyRequests, Unavailable: as ``register``; none is published.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        _check_service(key)
        if len(commands) > self._bounds.instances_per_batch_max:
            raise InvalidParam(f"a batch has at most {self._bounds.instances_per_batch_max} instances")
        own = [one._replace(namespace=key[0], service=service) for one in commands]
        return self._put_native(client_id, key, own, batch=True)

    def _put_native(
        self, client_id: str, key: ServiceKey, commands: Sequence[RegisterInstance], *, batch: bool
    ) -> Publication | None:
        wall_ms = max(self._wall_ms(), 0)
        numbers = instance_numbers(client_id, self._native(client_id).revision, wall_ms)
        instances = instances_of(commands, numbers, self._shared)
        with self._lock:
            client = self._native(client_id)  # it may have disconnected meanwhile
            service = self._table.get(*key)
            _check_kind(key[1], service)
            seen = service.version if service is not None else NO_VERSION
            publication = Publication(instances, batch, wall_ms, seen)
            old = client.published.get(key)
            if old is not None and old.says_the_same(publication):
                return old
            self._check_bounds(client, key, publication)
            self._check_revision(client)
            # First, as it may be refused.
            known = self._known_of(client, key, publication)
            self._table.publish(*key, client_id, publication, self._now_ms(), known)
            self._count(client, key)
            self._put(client, key, publication, in_table=True)
            told_less = self._withdrawn(client, {key: old}) if old is not None else []
        self._publish_all([ClientChanged(client_id), *told_less, ServiceChanged(*key)])
        return None

    def deregister(self, client_id: str, namespace: str, service: str) -> None:
        """Withdraw a client's publication of a service. Without one nothing happens.

        Raises:
            ClientGone: the client is not connected here.
            InvalidParam: no service can have such a name (R18).
            Unavailable: the client has changed too often.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        _check_service(key)
        with self._lock:
            client = self._native(client_id)
            if key not in client.published:
                return
            self._count(client, key)
            publication = client.published[key]
            self._take_back(client, key)
            told_less = self._withdrawn(client, {key: publication})
        self.on_withdrawn(client_id, {key: publication}, False)
        self._publish_all([ClientChanged(client_id), *told_less, ServiceChanged(*key)])

    def _native(self, client_id: str) -> Client:
        client = self._clients.get(client_id)
        if client is None or not client.native or client.ended:
            raise ClientGone(f"Client [{client_id}] connection already disconnect")
        return client

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, client_id: str, namespace: str, service: str, clusters: str) -> None:
        """Subscribe a client to a service, which need not exist. The last clusters count.

        Raises:
            ClientGone: the client is not connected here.
            InvalidParam: a name is not allowed.
            LimitReached: the client, or all clients together, have as many subscriptions as they may.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        _check_service(key)
        if len(clusters) > CLUSTERS_CHARS_MAX:
            raise InvalidParam(f"Param 'clusters' is illegal, the param length should not exceed {CLUSTERS_CHARS_MAX}.")
        with self._lock:
            client = self._native(client_id)
            is_new = key not in client.subscribed
            if is_new:
                self._check_subscriptions(client)
                self._tally.grpc += 1
            client.subscribed[key] = clusters
            self._subscribers.setdefault(key, {})[client_id] = clusters
        if is_new:
            self._publish(ServiceSubscribed(key, client_id))

    def unsubscribe(self, client_id: str, namespace: str, service: str) -> None:
        """End a client's subscription to a service, if there is one.

        Raises:
            ClientGone: the client is not connected here.
        """
        key = (namespace or DEFAULT_NAMESPACE, service)
        with self._lock:
            client = self._native(client_id)
            if client.subscribed.pop(key, None) is not None:
                self._tally.grpc -= 1
                self._drop_subscriber(key, client_id)

    # --- replication: reading ---------------------------------------------------------------------

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

    def pop_changed(self) -> str | None:
        """Take the id of a client whose version changed since it was last taken; None without any."""
        client_id = self._changed.pop()
        if client_id is not None:
            with self._lock:  # its change was noted under the lock, and is whole when that is free
                pass
        return client_id

    def snapshot(self, client_id: str) -> ClientSnapshot | None:
        """Return a consistent copy of a client's state, or its removal; None for an unknown one."""
        with self._lock:
            client = self._clients.get(client_id)
            if client is not None:
                published = (client.left or client.published).copy()
                ended_from = client.came_from if client.ended else ""
                withdrawn = self._withdrawn_lately(client)
                state = ClientState(client_id, client.revision, published, ended_from=ended_from, withdrawn=withdrawn)
                return ClientSnapshot(client.version, client.info, state)
            removal = self._removals.get(client_id)
            return ClientSnapshot(removal.version, None, None) if removal else None

    def delta(self, client_id: str, base: Version) -> ClientSnapshot | None:
        """Return the changes of a client connected here since ``base``; None if they are unknown, or there are none.

        The rest of a client whose instances come back elsewhere (R17) is sent as a whole.
        """
        with self._lock:
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
                withdrawn=self._withdrawn_lately(client),
                gone=changed - published.keys(),
            )
            return ClientSnapshot(client.version, client.info, state)

    def is_removed(self, client_id: str) -> bool:
        """Return whether a client's removal is remembered."""
        return client_id in self._removals

    def is_forgettable(self, client_id: str, now_ms: int) -> bool:
        """Return whether a client's removal was remembered for long enough."""
        return self._removals.is_forgettable(client_id, now_ms)

    # --- replication: copies ----------------------------------------------------------------------

    def take(self, snapshot: ClientSnapshot, client_id: str, expected: Version | None) -> bool:
        """Replace the copy of a client by a peer's snapshot, if its version is still ``expected``. Return whether.

        New and changed publications are stored; those missing in the snapshot are withdrawn.

        Raises:
            InvalidParam: the client is connected here.
            Unavailable: the number of clients has reached its bound.
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
                    former = client.published.copy()
                    events = self._drop_copy(client) + self._withdrawn(client, former)
            elif client is None or not self._is_lessened(client, snapshot.version):
                events = self._upgrade(client, snapshot, snapshot.state)
        self._publish_all(events)
        return True

    def take_delta(self, snapshot: ClientSnapshot, client_id: str, base: Version) -> bool:
        """Apply a delta (R5) to a copy that is its base, or between it and its version. Return whether it was applied.

        It is applied as a whole or not at all: it has the last state of each service that changed after its base.

        Raises:
            InvalidParam: the client would publish more than it may.
        """
        version, told = snapshot.version, snapshot.state
        with self._lock:
            client = self._clients.get(client_id)
            if client is None or told is None or client.native or client.ended or client.left:
                return False
            is_of_row = (client.version.epoch, client.version.writer) == (version.epoch, version.writer)
            if not is_of_row or not base.counter <= client.version.counter < version.counter:
                return False
            publications = {**client.published, **told.publications}
            for key in told.gone:
                publications.pop(key, None)
            self._check_size(len(publications), sum([len(one.instances) for one in publications.values()]))
            events = self._upgrade(client, snapshot, replace(told, publications=publications, gone=frozenset()))
        self._publish_all(events)
        return True

    def reissue(self, client_id: str, snapshot: ClientSnapshot) -> bool:
        """Give a client connected here a new version, if a peer has other publications under its present one (R3).

        Also if the peer has any under a higher version of this run, which this run did not give (R10): the new version
        is then above that. Return whether the version changed.
        """
        with self._lock:
            client = self._clients.get(client_id)
            if client is None or not client.native or client.ended or snapshot.version < client.version:
                return False
            counted = max(client.revision, snapshot.version.counter)
            if counted >= REVISION_MAX or client.version.writer != snapshot.version.writer:
                return False
            if snapshot.version == client.version and (
                snapshot.state is None or _says_the_same(client.published, snapshot.state.publications)
            ):
                return False
            client.revision = counted
            self._count(client)
        self._publish(ClientChanged(client_id))
        return True

    def confirm(self, client_ids: Iterable[str], now_ms: int) -> None:
        """Keep the copies of these clients: their member has the same versions."""
        for client_id in client_ids:
            self.confirm_revision(client_id, ANY_REVISION, now_ms)

    def confirm_revision(self, client_id: str, revision: int, now_ms: int) -> bool:
        """Keep a client's copy if it has this revision, or for ``ANY_REVISION``. Return whether it has."""
        client = self._clients.get(client_id)
        if client is None or (revision != ANY_REVISION and client.revision != revision):
            return False
        client.renewed_ms = now_ms
        return True

    def confirm_all(self, members: Collection[str], but: Collection[str], now_ms: int) -> None:
        """Keep all copies of these members' clients, ``but`` those of these clients, which are in another state.

        It costs the same for any number of copies.
        """
        with self._lock:
            for client_id in [one for one in self._disputed if one not in but]:
                client = self._clients.get(client_id)
                if client is None or _member_of(client.version.writer) in members:
                    self._disputed.discard(client_id)
            for client_id in but:
                client = self._clients.get(client_id)
                if client is not None and not client.native and client_id not in self._disputed:
                    client.renewed_ms = self._renewed_ms(client)
                    self._disputed.add(client_id)
            for member in members:
                self._confirmed_ms[member] = now_ms

    def _renewed_ms(self, client: Client) -> int:
        """Return when a copy was last confirmed, by itself or with all others of its member."""
        if client.client_id in self._disputed:
            return client.renewed_ms
        return max(client.renewed_ms, self._confirmed_ms.get(_member_of(client.version.writer), client.renewed_ms))

    def add_tombstone(self, client_id: str, seen: Version) -> bool:
        """Remember the removal of a client that an earlier run of this member had, and announce it to the peers.

        ``seen``: the version that a peer still holds; the removal gets a later one. Return False for a client that is
        here, or if a later removal is remembered already.
        """
        with self._lock:
            if client_id in self._clients:
                return False
            known = self._removals.get(client_id)
            if known is not None and known.version > seen:
                return False
            self._remember(client_id, Version(max(seen.epoch, EPOCH), seen.counter + 1, self.writer))
        self._publish(ClientDisconnect(client_id, native=True))
        return True

    def forget(self, client_id: str, *, absent: bool = False) -> None:
        """Drop a client's removal; with ``absent`` also its copy, because no peer holds it any more."""
        events: list[Event] = []
        with self._lock:
            self._removals.discard(client_id)
            client = self._clients.get(client_id)
            if absent and client is not None and not client.native:
                keys = list(client.published)
                events = self._drop_copy(client) + self._tell_less(keys)
        self._publish_all(events)

    def expire(self, now_ms: int, has_left: Callable[[str], bool], late_ms: int = 0) -> Collection[str]:
        """Drop the copies that were not confirmed in time, or whose ``writer`` has left. Return their clients' ids.

        ``late_ms``: how long this process did not run, so that no copy could be confirmed. Removals that the members
        have not agreed to forget are dropped when all copies that could bring their clients back have expired.
        """
        self._drop_what_is_back()
        self._drop_what_was_withdrawn()
        self._remove_ended()
        left = {writer for writer in self._copy_writers.copy() if has_left(writer)}
        if not (late_ms or left) and now_ms < self._expiry_due_ms:
            return []
        self._expiry_due_ms = now_ms + EXPIRY_INTERVAL_MS
        dropped, writers, withdrawn = [], set[str](), set[ServiceKey]()
        self._confirmed_ms = {member: at_ms + late_ms for member, at_ms in self._confirmed_ms.items()}
        for client_id, client in self._clients.copy().items():
            if client.native:
                continue
            client.renewed_ms += late_ms
            writer = client.version.writer
            if now_ms - self._renewed_ms(client) <= self._expiry_ms and writer not in left:
                writers.add(writer)
                continue
            events: list[Event] = []
            with self._lock:
                if self._clients.get(client_id) is client:
                    withdrawn.update(client.published)
                    events = self._drop_copy(client)
            if events:
                dropped.append(client_id)
                self._publish_all(events)
            if writer in left and self._is_of_this_member(writer):
                self.add_tombstone(client_id, client.version)
        with self._lock:
            events = self._tell_less(withdrawn)
            self._copy_writers = writers  # the next search for expired copies adds the writer of a copy made meanwhile
        self._publish_all(events)
        for client_id, removal in self._removals.older_than(self._expiry_ms, now_ms):
            with self._lock:
                if self._removals.get(client_id) is removal:
                    self._removals.discard(client_id)
        return dropped

    def _drop_what_is_back(self) -> None:
        """Remove from copies of runs that are over the instances that other clients publish now (R17)."""
        with self._lock:
            over = self._over_writers()
        if not over:
            return
        copies: dict[ServiceKey, list[Client]] = {}
        for client in list(self._clients.values()):
            if _is_copy_of(client, over):
                for key in list(client.published):
                    copies.setdefault(key, []).append(client)
        for key, clients in copies.items():
            with self._lock:
                present = self._present(key, over)
                back = [
                    one for one in clients if key in one.published and present & one.published[key].instances.keys()
                ]
                changed = [self._drop_present(one, key, present) for one in back]
            if any(changed):
                self._publish_all([ServiceChanged(*key)])

    def _drop_what_was_withdrawn(self) -> None:
        """Settle the withdrawals whose members were not silent for long enough before."""
        with self._lock:
            keys = [key for key, ones in self._withdrawals.take(self._now_ms()).items() if self._settle(key, ones)]
            events = self._tell_less(keys)
        self._publish_all([*events, *(ServiceChanged(*key) for key in keys)])

    def _remove_ended(self) -> None:
        """Remove the clients that were kept for a new connection, and are back or no longer expected (R17)."""
        with self._lock:
            known = [(one, self._clients.get(one)) for one in self._ended]
            self._ended = {one for one, client in known if client is not None and client.ended}
            done = [one for one, client in known if client is not None and client.native and self._is_done(client)]
            self._returned_ms = {run: at_ms for run, at_ms in self._returned_ms.items() if self.is_handing_over(run)}
            if not self._returned_ms:
                self._lessened.clear()
        for client_id in done:
            self._remove(client_id)

    def _is_of_this_member(self, writer: str) -> bool:
        return _member_of(writer) == _member_of(self.writer)

    def _publish_all(self, events: Iterable[Event]) -> None:
        """Publish events, and the noted returns, once the lock is free."""
        with suppress(IndexError):  # another thread may take the last one
            while self._returns:
                self.on_return(*self._returns.popleft())
        for event in events:
            self._publish(event)

    # --- steps: the caller holds the lock ---------------------------------------------------------

    def _check_room(self) -> None:
        if len(self._clients) >= self._bounds.clients_max:
            raise Unavailable(f"there are {self._bounds.clients_max} clients already")

    def _check_bounds(self, client: Client, key: ServiceKey, publication: Publication) -> None:
        old = client.published.get(key)
        services = len(client.published) + (old is None)
        instances = client.instances + len(publication.instances) - (len(old.instances) if old else 0)
        self._check_size(services, instances)
        size = client.metadata_bytes + publication.metadata_bytes - (old.metadata_bytes if old else 0)
        if instances > client.instances or size > client.metadata_bytes:
            what = f"client {client.info.client_id}"
            self._table.admission.check_list(what, len(key[1]), instances, size)

    def _check_size(self, services: int, instances: int) -> None:
        if services > self._bounds.services_per_client_max:
            raise InvalidParam(f"a client publishes at most {self._bounds.services_per_client_max} services")
        if instances > self._bounds.instances_per_client_max:
            raise InvalidParam(f"a client publishes at most {self._bounds.instances_per_client_max} instances")

    def _known_of(self, client: Client, key: ServiceKey, publication: Publication) -> Known:
        """Return the existing parts of a publication: the client's own, listed ones, those of ended runs (R17)."""
        instances, former = publication.instances, client.published.get(key)
        found = dict(former.instances) if former is not None else {}
        service = self._table.get(*key)
        if service is not None:
            for one in instances.keys() - found.keys():
                stored = service.stored.get(one)
                listed = stored.instance if stored is not None else service.persistent.get(one)
                if listed is not None:
                    found[one] = listed
        over = self._over_writers()
        for other in self._handed_over(key, over) if over or self._ended else ():
            theirs = other.published[key].instances
            found.update({one: theirs[one] for one in instances.keys() & theirs.keys()})
        return Known(len(found), sum(map(instance_bytes, found.values())))

    def _check_subscriptions(self, client: Client) -> None:
        allowed = self._bounds.subscriptions_per_client_max
        if len(client.subscribed) >= allowed:
            self._table.admission.stats.subscriptions_per_connection += 1
            raise LimitReached(f"refused by {PREFIX}subscriptionsPerConnection={allowed}: the client has as many")
        if not self._tally.has_room():
            raise LimitReached(self._tally.refusal())

    @staticmethod
    def _check_revision(client: Client) -> None:
        if client.revision >= REVISION_MAX:
            raise Unavailable(f"client {client.client_id} has changed too often: please connect again")

    def _count(self, client: Client, key: ServiceKey | None = None) -> None:
        """Give a client's state the next version. ``key``: the only service whose publication changed."""
        self._check_revision(client)
        client.revision += 1
        client.version = Version(EPOCH, client.revision, client.version.writer)
        self._changed.note(client.client_id)
        # For a client with one service the whole state is no larger than its change.
        if key is None or len(client.published) <= 1:
            client.recent = None
        else:
            client.recent = [*(client.recent or ())[1 - 2 * RECENT_MAX :], key]

    def _put(self, client: Client, key: ServiceKey, publication: Publication, *, in_table: bool = False) -> None:
        """Store a publication, in place of the same instances of clients that it came from (R17).

        ``in_table``: readers of the service already see it.
        """
        self._keep(client, key, publication)
        if not in_table:
            self._table.publish(*key, client.client_id, publication, self._now_ms())
        over = self._over_writers()
        if client.ended or client.version.writer in over or not (over or self._ended):
            return
        for other in self._handed_over(key, over):
            if other is not client and self._drop_instances(other, key, publication.instances.keys()):
                run = other.version.writer
                client.came_from = run if run in over or not other.came_from else other.came_from

    def _may_be_back(self, client: Client) -> bool:
        """Return whether a client has publications and came from a run that is over, whose clients still come back."""
        is_from_over = bool(client.came_from) and self.is_handing_over(client.came_from)
        return client.native and bool(client.published) and is_from_over and client.revision < REVISION_MAX

    def _is_done(self, client: Client) -> bool:
        """Return whether nobody waits for an ended client any more, because it is back or will not come back.

        A client that is back still stays for a while: other members may hear of its removal here before they hear of it
        from its new member.
        """
        soon_ms = self._now_ms() - MOVED_AGAIN_MS
        if not client.published:
            return client.back_ms <= soon_ms
        waited_ms = max(client.ended_ms, self._returned_ms.get(client.came_from, 0))
        return waited_ms <= soon_ms or not self._may_be_back(client)

    def _drop_what_is_there(self, client: Client) -> None:
        """Remove from an ended client the instances that others publish now (R17)."""
        over = self._over_writers()
        for key in list(client.published):
            self._drop_instances(client, key, self._present(key, over, client))

    def _drop_what_it_left(self, client: Client) -> None:
        """Remove an ended client's publications from the copies of the run that it came from (R17).

        If the end of that run becomes known after the client's own end, nothing else would remove them: these copies
        would stay listed to the end of the hand-over, though their client came back and left.
        """
        for key, publication in list(client.published.items()):
            for other in self._publishing(key):
                if _is_copy_of(other, {client.came_from}):
                    self._drop_instances(other, key, publication.instances.keys())

    def _withdrawn(self, client: Client, former: Mapping[ServiceKey, Publication]) -> list[Event]:
        """Settle the withdrawals by a client, or by its member, from its ``former`` publications. Return the events."""
        if any(self.contact_ms(writer) < client.since_ms for writer in self._copy_writers):
            for key, publication in former.items():
                present = client.published.get(key)
                gone = publication.instances.keys() - (present.instances.keys() if present is not None else ())
                if not gone:
                    continue
                self._note_withdrawal(client, key, frozenset(gone), publication.at_ms)
        return self._tell_less(former)

    def _note_withdrawal(self, client: Client, key: ServiceKey, instance_keys: frozenset[str], at_ms: int) -> bool:
        """Keep a client's withdrawal from a service, for other members too, and settle it as ``_settle`` does."""
        one = Withdrawal(instance_keys, at_ms, client.since_ms, self._now_ms())
        client.withdrawn.pop(key, None)
        client.withdrawn[key] = one
        if len(client.withdrawn) > TOLD_SERVICES_MAX:
            del client.withdrawn[next(iter(client.withdrawn))]
        return self._settle(key, [one])

    def _withdrawn_lately(self, client: Client) -> dict[ServiceKey, tuple[frozenset[str], int]]:
        """Return a client's recent withdrawals, as they are sent to other members."""
        first_ms = self._now_ms() - TOLD_MS
        return {
            key: (one.instance_keys, one.published_ms) for key, one in client.withdrawn.items() if one.at_ms >= first_ms
        }

    def _settle_told(self, client: Client, withdrawn: Mapping[ServiceKey, tuple[frozenset[str], int]]) -> list[Event]:
        """Settle the withdrawals that a client's member reports. Return the events.

        Two successive changes are sent as one, so the publication itself may never have been heard of here.
        """
        events: list[Event] = []
        for key, (instance_keys, at_ms) in withdrawn.items():
            known = client.withdrawn.get(key)
            is_known = known is not None and known.published_ms == at_ms and instance_keys <= known.instance_keys
            if not is_known and self._note_withdrawal(client, key, instance_keys, at_ms):
                events.append(ServiceChanged(*key))
        return events

    def _settle(self, key: ServiceKey, withdrawals: Iterable[Withdrawal]) -> bool:
        """Remove withdrawn instances of a service from older copies of silent members. Return whether any was there.

        Withdrawals stay open while their member is not silent for long enough.
        """
        now_ms, changed = self._now_ms(), False
        copies: dict[str, list[Client]] = {}
        for copy in self._publishing(key):
            for instance_key in () if copy.native else copy.published[key].instances:
                copies.setdefault(instance_key, []).append(copy)
        for one in withdrawals:
            is_open = False
            for copy in [copy for instance_key in one.instance_keys for copy in copies.get(instance_key, ())]:
                contact_ms, publication = self.contact_ms(copy.version.writer), copy.published.get(key)
                if publication is None or not one.is_later(publication.at_ms, contact_ms):
                    continue
                if now_ms - contact_ms <= SILENT_MS:
                    is_open = True
                else:
                    changed |= self._drop_instances(copy, key, one.instance_keys)
            if is_open:
                self._withdrawals.add(key, one)
        return changed

    def _publishing(self, key: ServiceKey) -> list[Client]:
        """Return the clients that publish a service, copies included."""
        service = self._table.get(*key)
        found = [self._clients.get(one) for one in list(service.published or ())] if service is not None else []
        return [one for one in found if one is not None and key in one.published]

    def _tell_less(self, keys: Iterable[ServiceKey]) -> list[Event]:
        """Stop sending, for clients of these services, instances that came back and are now published by none (R17).

        Otherwise members that never heard of the return, and members that start, would list them. Returns the events.
        """
        changed: dict[str, Client] = {}
        for key in keys if self._lessened else ():
            known = [(one, self._clients.get(one)) for one in self._lessened.get(key, ())]
            clients = [client for _, client in known if client is not None and key in client.left]
            present = self._published(key) if clients else set[str]()
            for client in clients:
                left = client.left[key]
                kept = {one: instance for one, instance in left.instances.items() if one in present}
                if len(kept) == len(left.instances):
                    continue
                changed[client.client_id] = client
                if kept:
                    client.left[key] = replace(left, instances=kept)
                else:
                    del client.left[key]
        native = [one for one in changed.values() if one.native and one.revision < REVISION_MAX]
        for client in native:
            self._count(client)
        return [ClientChanged(client.client_id) for client in native]

    def _published(self, key: ServiceKey) -> set[str]:
        """Return the keys of the instances of a service that any client publishes, ended ones and copies included."""
        service = self._table.get(*key)
        published = (service.published or {}) if service is not None else {}
        return {instance_key for one in published.values() for instance_key in one.instances}

    def _over_writers(self) -> set[str]:
        """Return the writers of copies whose runs are over, while their clients come back (R17)."""
        return {writer for writer in self._copy_writers if self.is_handing_over(writer)}

    def _handed_over(self, key: ServiceKey, over: set[str]) -> list[Client]:
        """Return the copies of ended runs that publish a service, and the clients that are expected elsewhere."""
        return [one for one in self._publishing(key) if one.ended or _is_copy_of(one, over)]

    def _drop_present(self, client: Client, key: ServiceKey, present: set[str]) -> bool:
        """Remove from a copy the instances that clients of active runs publish, too.

        Note in these where they came from.
        """
        instances = client.published[key].instances
        service = self._table.get(*key)
        for client_id, publication in ((service.published or {}) if service is not None else {}).items():
            other = self._clients.get(client_id)
            if other is not None and other.native and publication.instances.keys() & instances.keys():
                other.came_from = client.version.writer
        return self._drop_instances(client, key, present)

    def _present(self, key: ServiceKey, over: set[str], but: Client | None = None) -> set[str]:
        """Return the keys of a service's instances that clients of active runs publish, except for one client.

        A copy that arrived without instances that are back is of no such run, even if the end of its run was never
        heard of.
        """
        service = self._table.get(*key)
        published = (service.published or {}) if service is not None else {}
        clients = ((self._clients.get(client_id), publication) for client_id, publication in published.items())
        going_on = [
            part
            for client, part in clients
            if client is not None
            and client is not but
            and not client.ended
            and client.version.writer not in over
            and client.version.epoch >= EPOCH
        ]
        return {instance_key for part in going_on for instance_key in part.instances}

    def _drop_instances(self, client: Client, key: ServiceKey, instance_keys: Collection[str]) -> bool:
        """Remove instances that are back elsewhere from a copy's publication. Return whether any was in it.

        The copy then has another state, below all that its member gave. Should its run go on after all, because it was
        only out of the member list for a while, its next verify round repairs the copy.
        """
        publication = client.published[key]
        left = {one: instance for one, instance in publication.instances.items() if one not in instance_keys}
        if len(left) == len(publication.instances):
            return False
        client.left = client.left or client.published.copy()
        self._lessened.setdefault(key, set()).add(client.client_id)
        if left:
            less = replace(publication, instances=left)
            self._keep(client, key, less)
            self._table.publish(*key, client.client_id, less, self._now_ms())
        else:
            self._take_back(client, key)
        run, now_ms = client.came_from or client.version.writer, self._now_ms()
        client.back_ms = self._returned_ms[run] = now_ms
        self._returns.append((run, now_ms))
        if not client.native:
            client.version = _lessened(client.version)
            self._changed.note(client.client_id)
        return True

    def _is_lessened(self, client: Client, version: Version) -> bool:
        """Return whether a copy has this version, without instances that are back, while its run is over (R17).

        Or the copy is of a client that has ended. Another member may still have the whole copy. Taking it again would
        remove the same instances again, and count each time as a return, which prolongs the hand-over.
        """
        return client.version == _lessened(version) and (client.ended or self.is_handing_over(version.writer))

    def _keep(self, client: Client, key: ServiceKey, publication: Publication) -> None:
        old = client.published.get(key)
        client.instances += len(publication.instances) - (len(old.instances) if old else 0)
        client.metadata_bytes += publication.metadata_bytes - (old.metadata_bytes if old else 0)
        client.published[key] = publication

    def _take_back(self, client: Client, key: ServiceKey) -> None:
        publication = client.published.pop(key)
        client.instances -= len(publication.instances)
        client.metadata_bytes -= publication.metadata_bytes
        self._table.withdraw(*key, client.client_id, publication, self._now_ms())

    def _drop_subscriptions(self, client: Client) -> None:
        for key in client.subscribed:
            self._drop_subscriber(key, client.client_id)
        self._tally.grpc -= len(client.subscribed)
        client.subscribed.clear()

    def _drop_subscriber(self, key: ServiceKey, client_id: str) -> None:
        known = self._subscribers[key]
        del known[client_id]
        if not known:
            del self._subscribers[key]

    def _remember(self, client_id: str, version: Version) -> None:
        self._removals.add(client_id, version, self._now_ms())

    def _upgrade(self, client: Client | None, snapshot: ClientSnapshot, state: ClientState) -> list[Event]:
        """Make or change a copy. Return the events to publish."""
        client_id, now_ms = state.client_id, self._now_ms()
        if client is None:
            self._check_room()
            client = Client(snapshot.info or info_of(client_id), native=False, now_ms=now_ms, version=snapshot.version)
            self._clients[client_id] = client
            self._removals.discard(client_id)
        client.revision, client.version, client.left = state.revision, snapshot.version, {}
        self._changed.note(client_id)
        self._disputed.discard(client_id)
        client.renewed_ms = now_ms - max(self._expiry_ms - UNCONFIRMED_MS, 0) if snapshot.unconfirmed else now_ms
        self._copy_writers.add(snapshot.version.writer)
        if state.ended_from:
            client.ended, client.came_from = True, state.ended_from
            self._ended.add(client_id)
        events: list[Event] = []
        former = {key: one for key, one in client.published.items() if key not in state.publications}
        for key in former:
            self._take_back(client, key)
            events.append(ServiceChanged(*key))
        for key, publication in state.publications.items():
            publication = publication if state.dated else self._dated(key, publication)
            old = client.published.get(key)
            if old is not None and (old == publication or (not state.dated and old.says_the_same(publication))):
                continue
            if old is not None:
                former[key] = old
            self._put(client, key, publication)
            events.append(ServiceChanged(*key))
        if client.ended:
            self._drop_what_it_left(client)
            self._drop_what_is_there(client)
        return events + self._withdrawn(client, former) + self._settle_told(client, state.withdrawn)

    def _dated(self, key: ServiceKey, publication: Publication) -> Publication:
        """Return a publication of a peer that does not name the list version it saw: it counts from now."""
        service = self._table.get(*key)
        if service is None:
            return publication
        return Publication(publication.instances, publication.batch, publication.at_ms, service.version)

    def _drop_copy(self, client: Client) -> list[Event]:
        """Drop a copy with its publications. Return the events to publish."""
        del self._clients[client.client_id]
        self._changed.note(client.client_id)
        self._disputed.discard(client.client_id)
        events: list[Event] = [ClientDisconnect(client.client_id, native=False)]
        for key in list(client.published):
            self._take_back(client, key)
            events.append(ServiceChanged(*key))
        return events


def _is_copy_of(client: Client, writers: set[str]) -> bool:
    return not client.native and client.version.writer in writers


def _member_of(writer: str) -> str:
    """Return the address of the member that a run belongs to."""
    return writer.partition("~")[0]


def _lessened(version: Version) -> Version:
    """Return the version of such a copy after a loss of returned instances: below all that its member gave."""
    return Version(EPOCH - 1, version.counter, version.writer)


def _says_the_same(published: Mapping[ServiceKey, Publication], told: Mapping[ServiceKey, Publication]) -> bool:
    return published.keys() == told.keys() and all(one.says_the_same(told[key]) for key, one in published.items())


def _check_service(key: ServiceKey) -> None:
    check_service_format(key[1])
    check_service_chars(key[1])
    check_namespace(key[0])


def _check_kind(full_name: str, service: Service | None) -> None:
    """Refuse a client's instance in a service with only persistent instances. Over HTTP a service may have both kinds.

    That is as in Nacos 1.4.

    Raises:
        InvalidParam: with the text of Nacos 2.2.3 EphemeralClientOperationServiceImpl.
    """
    if service is not None and service.persistent and not service.stored and not service.published:
        raise InvalidParam(f"Current service {full_name} is persistent service, can't register ephemeral instance.")
