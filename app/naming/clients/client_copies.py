"""ClientCopies: the copies of clients that are connected to other members.

A copy serves readers, is never sent on, and lives while the client's member confirms it.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from app.naming.clients.client_model import (
    ANY_REVISION,
    Client,
    ClientSnapshot,
    ClientState,
    ServiceKey,
    info_of,
)
from app.naming.clients.client_table import EPOCH, ClientTable
from app.naming.clients.hand_over import HandOver
from app.naming.clients.withdrawals import Withdrawals
from app.naming.model.events import ClientDisconnect, Event, ServiceChanged
from app.naming.model.model import Publication
from app.naming.model.nacos_errors import InvalidParam
from distro.model.types import Version

EXPIRY_MS = 180_000
"""A copy goes when it was not confirmed for longer. Source: Nacos 2.2.3, nacos.naming.client.expired.time."""
UNCONFIRMED_MS = 15_000
"""Three rounds, in which a client's member should have confirmed a copy that came from another member."""
EXPIRY_INTERVAL_MS = 5_000
"""Time between two searches for expired copies. Copies of a run that is over are dropped at once. Source: the same."""


class ClientCopies:
    """Takes, confirms and drops copies, and remembers removals of clients of other members. Thread-safe.

    Events are published when no lock is held: a handler reads the state of that time.
    """

    def __init__(
        self,
        table: ClientTable,
        hand_over: HandOver,
        withdrawals: Withdrawals,
        monotonic_ms: Callable[[], int],
        publish: Callable[[Event], None],
        *,
        expiry_ms: int = EXPIRY_MS,
    ) -> None:
        """``expiry_ms``: how long a copy lives unconfirmed."""
        self._table = table
        self._hand_over = hand_over
        self._withdrawals = withdrawals
        self._now_ms = monotonic_ms
        self._publish = publish
        self._expiry_ms = expiry_ms
        self._confirmed_ms: dict[str, int] = {}
        """When the copies of all clients of a member were last confirmed together, by its address."""
        self._disputed: set[str] = set()
        """The ids of clients whose copies were excepted from that, because their member has them in another state."""
        self._expiry_due_ms = 0

    # --- taking -----------------------------------------------------------------------------------

    def take(self, snapshot: ClientSnapshot, client_id: str, expected: Version | None) -> bool:
        """Replace the copy of a client by a peer's snapshot, if its version is still ``expected``. Return whether.

        New and changed publications are stored; those missing in the snapshot are withdrawn.

        Raises:
            InvalidParam: the client is connected here.
            Unavailable: the number of clients has reached its bound.
        """
        events: list[Event] = []
        table, now_ms = self._table, self._now_ms()
        with table.lock:
            if table.version(client_id) != expected:
                return False
            client = table.client(client_id)
            if client is not None and client.native:
                raise InvalidParam(f"client {client_id} is connected here")
            if snapshot.state is None:
                table.remember(client_id, snapshot.version, now_ms)
                if client is not None:
                    former = client.published.copy()
                    events = self._drop(client, now_ms) + self._withdrawals.withdraw(client, former, now_ms)
            elif client is None or not self._hand_over.is_reduced(client, snapshot.version):
                events = self._replace(client, snapshot, snapshot.state, now_ms)
        self._publish_all(events)
        return True

    def take_delta(self, snapshot: ClientSnapshot, client_id: str, base: Version) -> bool:
        """Apply a delta (R5) to a copy that is its base, or between it and its version. Return whether it was applied.

        It is applied as a whole or not at all: it has the last state of each service that changed after its base.

        Raises:
            InvalidParam: the client would publish more than it may.
        """
        version, delta = snapshot.version, snapshot.state
        now_ms = self._now_ms()
        with self._table.lock:
            client = self._table.client(client_id)
            if client is None or delta is None or client.native or client.ended or client.left:
                return False
            is_of_row = (client.version.epoch, client.version.writer) == (version.epoch, version.writer)
            if not is_of_row or not base.counter <= client.version.counter < version.counter:
                return False
            publications = {**client.published, **delta.publications}
            for key in delta.gone:
                publications.pop(key, None)
            self._table.check_size(len(publications), sum([len(one.instances) for one in publications.values()]))
            state = replace(delta, publications=publications, gone=frozenset())
            events = self._replace(client, snapshot, state, now_ms)
        self._publish_all(events)
        return True

    def _replace(self, client: Client | None, snapshot: ClientSnapshot, state: ClientState, now_ms: int) -> list[Event]:
        """Make or change a copy. Return the events to publish."""
        table, client_id = self._table, state.client_id
        if client is None:
            client = Client(snapshot.info or info_of(client_id), native=False, now_ms=now_ms, version=snapshot.version)
            table.add(client)
            table.forget_removal(client_id)
        client.revision, client.left = state.revision, {}
        table.set_version(client, snapshot.version)
        self._disputed.discard(client_id)
        client.renewed_ms = now_ms - max(self._expiry_ms - UNCONFIRMED_MS, 0) if snapshot.unconfirmed else now_ms
        table.copy_writers.add(snapshot.version.writer)
        if state.ended_from:
            self._hand_over.mark_ended(client, state.ended_from)
        events: list[Event] = []
        former = {key: one for key, one in client.published.items() if key not in state.publications}
        for key in former:
            table.withdraw(client, key, now_ms)
            events.append(ServiceChanged(*key))
        for key, publication in state.publications.items():
            publication = publication if state.dated else self._dated(key, publication)
            old = client.published.get(key)
            if old is not None and (old == publication or (not state.dated and old.says_the_same(publication))):
                continue
            if old is not None:
                former[key] = old
            table.publish(client, key, publication, now_ms)
            sources = self._hand_over.sources(key)
            events += self._hand_over.replace_sources(client, key, publication, sources, now_ms)
            events.append(ServiceChanged(*key))
        if client.ended:
            events += self._hand_over.reduce_ended(client, now_ms)
        events += self._withdrawals.withdraw(client, former, now_ms)
        return events + self._withdrawals.take_reported(client, state.withdrawn, now_ms)

    def _dated(self, key: ServiceKey, publication: Publication) -> Publication:
        """Return a publication of a peer that does not name the list version it saw: it counts from now."""
        service = self._table.services.get(*key)
        if service is None:
            return publication
        return Publication(publication.instances, publication.batch, publication.at_ms, service.version)

    def hand_to(self, client_id: str, member: str) -> None:
        """Note which real Nacos speaks for a copy or a removal that came from another one (R8).

        Real Nacos does not say whose clients a snapshot has, and the client of an address moves among its members. The
        latter may also come back after a removal by any member.
        """
        table = self._table
        known = table.version(client_id)
        if known is None or known.writer == member:
            return
        with table.lock:
            client, removal = table.client(client_id), table.removal(client_id)
            if client is not None and is_of_nacos(client.version):
                table.set_version(client, replace(client.version, writer=member))
                table.copy_writers.add(member)
            elif client is None and removal is not None and (is_of_nacos(removal.version) or "#" in client_id):
                table.forget_removal(client_id)

    # --- confirming -------------------------------------------------------------------------------

    def confirm(self, client_ids: Iterable[str], now_ms: int) -> None:
        """Keep the copies of these clients: their member has the same versions."""
        for client_id in client_ids:
            self.confirm_revision(client_id, ANY_REVISION, now_ms)

    def confirm_revision(self, client_id: str, revision: int, now_ms: int) -> bool:
        """Keep a client's copy if it has this revision, or for ``ANY_REVISION``. Return whether it has."""
        client = self._table.client(client_id)
        if client is None or (revision != ANY_REVISION and client.revision != revision):
            return False
        client.renewed_ms = now_ms
        return True

    def confirm_all(self, members: Collection[str], but: Collection[str], now_ms: int) -> None:
        """Keep all copies of these members' clients, ``but`` those of these clients, which are in another state.

        It costs the same for any number of copies.
        """
        with self._table.lock:
            for client_id in [one for one in self._disputed if one not in but]:
                client = self._table.client(client_id)
                if client is None or _member_of(client.version.writer) in members:
                    self._disputed.discard(client_id)
            for client_id in but:
                client = self._table.client(client_id)
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

    # --- dropping ---------------------------------------------------------------------------------

    def add_tombstone(self, client_id: str, seen: Version) -> bool:
        """Remember the removal of a client that an earlier run of this member had, and announce it to the peers.

        ``seen``: the version that a peer still holds; the removal gets a later one. Return False for a client that is
        here, or if a later removal is remembered already.
        """
        table, now_ms = self._table, self._now_ms()
        with table.lock:
            if table.client(client_id) is not None:
                return False
            known = table.removal(client_id)
            if known is not None and known.version > seen:
                return False
            version = Version(max(seen.epoch, EPOCH), seen.counter + 1, table.writer)
            table.remember(client_id, version, now_ms)
        self._publish(ClientDisconnect(client_id, native=True))
        return True

    def forget(self, client_id: str, *, absent: bool = False) -> None:
        """Drop a client's removal; with ``absent`` also its copy, because no peer holds it any more."""
        events: list[Event] = []
        now_ms = self._now_ms()
        with self._table.lock:
            self._table.forget_removal(client_id)
            client = self._table.client(client_id)
            if absent and client is not None and not client.native:
                keys = list(client.published)
                events = self._drop(client, now_ms) + self._hand_over.stop_sending(keys)
        self._publish_all(events)

    def expire(self, now_ms: int, has_left: Callable[[str], bool], late_ms: int = 0) -> Collection[str]:
        """Drop the copies that were not confirmed in time, or whose ``writer`` has left. Return their clients' ids.

        ``late_ms``: how long this process did not run, so that no copy could be confirmed. Removals that the members
        have not agreed to forget are dropped when all copies that could bring their clients back have expired.
        """
        table = self._table
        left = {writer for writer in table.copy_writers.copy() if has_left(writer)}
        if not (late_ms or left) and now_ms < self._expiry_due_ms:
            return []
        self._expiry_due_ms = now_ms + EXPIRY_INTERVAL_MS
        dropped, writers, withdrawn = [], set[str](), set[ServiceKey]()
        self._confirmed_ms = {member: at_ms + late_ms for member, at_ms in self._confirmed_ms.items()}
        for client in table.all():
            if client.native:
                continue
            client.renewed_ms += late_ms
            writer = client.version.writer
            if now_ms - self._renewed_ms(client) <= self._expiry_ms and writer not in left:
                writers.add(writer)
                continue
            events: list[Event] = []
            with table.lock:
                if table.client(client.client_id) is client:
                    withdrawn.update(client.published)
                    events = self._drop(client, now_ms)
            if events:
                dropped.append(client.client_id)
                self._publish_all(events)
            if writer in left and _member_of(writer) == _member_of(table.writer):
                self.add_tombstone(client.client_id, client.version)
        with table.lock:
            events = self._hand_over.stop_sending(withdrawn)
            table.copy_writers = writers  # the next search for expired copies adds the writer of a copy made since then
        self._publish_all(events)
        for client_id, removal in table.old_removals(self._expiry_ms, now_ms):
            with table.lock:
                if table.removal(client_id) is removal:
                    table.forget_removal(client_id)
        return dropped

    def drop_returned(self, now_ms: int) -> None:
        """Remove from copies of runs that are over the instances that other clients publish now (R17)."""
        hand_over, lock = self._hand_over, self._table.lock
        with lock:
            over = hand_over.over_writers()
        if not over:
            return
        for key, clients in hand_over.copies_to_reduce(over).items():
            with lock:
                events = hand_over.drop_present(clients, key, over, now_ms)
            if events:
                self._publish_all([*events, ServiceChanged(*key)])

    def drop_withdrawn(self, now_ms: int) -> None:
        """Remove withdrawn instances from copies of members that were not silent for long enough before (R15)."""
        with self._table.lock:
            events = self._withdrawals.close_open(now_ms)
        self._publish_all(events)

    def _drop(self, client: Client, now_ms: int) -> list[Event]:
        """Drop a copy with its publications. Return the events to publish."""
        self._table.drop(client)
        self._disputed.discard(client.client_id)
        events: list[Event] = [ClientDisconnect(client.client_id, native=False)]
        for key in list(client.published):
            self._table.withdraw(client, key, now_ms)
            events.append(ServiceChanged(*key))
        return events

    def _publish_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._publish(event)


def is_of_nacos(version: Version) -> bool:
    """Return whether a real Nacos wrote a version: it has no runs."""
    return "~" not in version.writer


def _member_of(writer: str) -> str:
    """Return the address of the member that a run belongs to."""
    return writer.partition("~")[0]
