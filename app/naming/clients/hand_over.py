"""Hand-over: clients of a run that is over come back elsewhere, and leave the copies that kept their place (R17)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from app.naming.clients.client_model import REVISION_MAX, Client, ServiceKey
from app.naming.clients.client_table import EPOCH, ClientTable
from app.naming.model.events import ClientChanged, ClientReturned, Event
from app.naming.model.model import Publication
from distro.model.types import Version

MOVED_AGAIN_MS = 6_000
"""How long an SDK takes to publish again after a second move: Java SDKs check every 3 s which calls to repeat.

It counts from the return of the last client of the same run: as long as others return, the machine is busy, and this
client may still be waiting.
"""


class ReturnSources(NamedTuple):
    """The clients that the publisher of a service may have come from."""

    over: Collection[str]
    """The writers of copies whose runs are over, while their clients come back."""
    clients: Collection[Client]
    """The copies of these runs that publish the service, and the clients that are expected elsewhere."""


NO_SOURCES = ReturnSources((), ())


class HandOver:
    """The clients that are expected elsewhere, and the returns of clients by run.

    Its methods are steps for the holder of the table's lock. They return the events to publish once it is free.
    """

    def __init__(self, table: ClientTable, is_handing_over: Callable[[str], bool]) -> None:
        """``is_handing_over``: returns whether a ``writer``, one member's run, is over, and its clients come back."""
        self._table = table
        self._is_handing_over = is_handing_over
        self.ended: set[str] = set()
        """The ids of clients whose connections are gone, and that are expected elsewhere."""
        self.returned_ms: dict[str, int] = {}
        """When a client last came back, by the run that it came from, while that run is handed over."""
        self.reduced: dict[ServiceKey, set[str]] = {}
        """The ids of clients that lost published instances to a return elsewhere, by service; some may be gone."""

    # --- runs that are over -----------------------------------------------------------------------

    def over_writers(self) -> set[str]:
        """Return the writers of copies whose runs are over, while their clients come back."""
        return {writer for writer in self._table.copy_writers if self._is_handing_over(writer)}

    def sources(self, key: ServiceKey) -> ReturnSources:
        """Return the clients that the publisher of a service may have come from."""
        over = self.over_writers()
        if not (over or self.ended):
            return NO_SOURCES
        clients = [one for one in self._table.publishing(key) if one.ended or is_copy_of(one, over)]
        return ReturnSources(over, clients)

    def present(self, key: ServiceKey, over: Collection[str], but: Client | None = None) -> set[str]:
        """Return the keys of a service's instances that clients of active runs publish, except for one client.

        A copy that arrived without instances that are back is of no such run, even if the end of its run was never
        heard of.
        """
        publications = self._table.publications(key)
        clients = ((self._table.client(client_id), publication) for client_id, publication in publications.items())
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

    def is_reduced(self, client: Client, version: Version) -> bool:
        """Return whether a copy has this version, without instances that are back, while its run is over.

        Or the copy is of a client that has ended. Another member may still have the whole copy. Taking it again would
        remove the same instances again, and count each time as a return, which prolongs the hand-over.
        """
        return client.version == _reduced(version) and (client.ended or self._is_handing_over(version.writer))

    # --- returns ----------------------------------------------------------------------------------

    def replace_sources(
        self, client: Client, key: ServiceKey, publication: Publication, sources: ReturnSources, now_ms: int
    ) -> list[Event]:
        """Remove what a client publishes from the clients that it came from, and note from which run it came."""
        events: list[Event] = []
        over = sources.over
        if client.ended or client.version.writer in over:
            return events
        for other in sources.clients:
            if other is not client and (
                returned := self.drop_instances(other, key, publication.instances.keys(), now_ms)
            ):
                events += returned
                run = other.version.writer
                client.came_from = run if run in over or not other.came_from else other.came_from
        return events

    def drop_present(self, clients: Iterable[Client], key: ServiceKey, over: set[str], now_ms: int) -> list[Event]:
        """Remove from copies the instances of a service that clients of active runs publish, too.

        Note in these where they came from.
        """
        present = self.present(key, over)
        events: list[Event] = []
        for client in clients:
            if key not in client.published or not present & client.published[key].instances.keys():
                continue
            instances = client.published[key].instances
            for client_id, publication in self._table.publications(key).items():
                other = self._table.client(client_id)
                if other is not None and other.native and publication.instances.keys() & instances.keys():
                    other.came_from = client.version.writer
            events += self.drop_instances(client, key, present, now_ms)
        return events

    def drop_instances(
        self, client: Client, key: ServiceKey, instance_keys: Collection[str], now_ms: int
    ) -> list[Event]:
        """Remove instances that are back elsewhere from a copy's publication. Return nothing if none was in it.

        The copy then has another state, below all that its member gave. Should its run continue after all, because it
        was only out of the member list for a while, its next verify round repairs the copy.
        """
        publication = client.published[key]
        left = {one: instance for one, instance in publication.instances.items() if one not in instance_keys}
        if len(left) == len(publication.instances):
            return []
        client.left = client.left or client.published.copy()
        self.reduced.setdefault(key, set()).add(client.client_id)
        if left:
            self._table.publish(client, key, replace(publication, instances=left), now_ms)
        else:
            self._table.withdraw(client, key, now_ms)
        run = client.came_from or client.version.writer
        client.back_ms = self.returned_ms[run] = now_ms
        if not client.native:
            self._table.set_version(client, _reduced(client.version))
        return [ClientReturned(run, now_ms)]

    def stop_sending(self, keys: Iterable[ServiceKey]) -> list[Event]:
        """Stop sending, for clients of these services, instances that came back and are now published by none.

        Otherwise members that never heard of the return, and members that start, would list them.
        """
        changed: dict[str, Client] = {}
        for key in keys if self.reduced else ():
            known = [(one, self._table.client(one)) for one in self.reduced.get(key, ())]
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
            self._table.next_version(client)
        return [ClientChanged(client.client_id) for client in native]

    def _published(self, key: ServiceKey) -> set[str]:
        """Return the keys of the instances of a service that any client publishes, ended ones and copies included."""
        return {instance_key for one in self._table.publications(key).values() for instance_key in one.instances}

    # --- clients that are expected elsewhere ------------------------------------------------------

    def may_be_back(self, client: Client) -> bool:
        """Return whether a client has publications and came from a run that is over, whose clients still come back."""
        is_from_over = bool(client.came_from) and self._is_handing_over(client.came_from)
        return client.native and bool(client.published) and is_from_over and client.revision < REVISION_MAX

    def end_own(self, client: Client, now_ms: int) -> list[Event]:
        """Keep a client whose connection here is gone, without the instances that others publish now."""
        client.ended, client.ended_ms = True, now_ms
        self.ended.add(client.client_id)
        self._table.next_version(client)
        return [*self._drop_published_elsewhere(client, now_ms), ClientChanged(client.client_id)]

    def mark_ended(self, client: Client, run: str) -> None:
        """Note that the connection of a copy's client is gone, and that it came from a ``run`` that is over."""
        client.ended, client.came_from = True, run
        self.ended.add(client.client_id)

    def reduce_ended(self, client: Client, now_ms: int) -> list[Event]:
        """Remove from the copy of an ended client what others publish now, and from other copies what it left."""
        return [*self._drop_from_former_run(client, now_ms), *self._drop_published_elsewhere(client, now_ms)]

    def finished(self, now_ms: int) -> list[str]:
        """Return the ids of the ended clients of this member that are back or no longer expected."""
        known = [(one, self._table.client(one)) for one in self.ended]
        self.ended = {one for one, client in known if client is not None and client.ended}
        done = [one for one, client in known if client is not None and client.native and self._is_done(client, now_ms)]
        self.returned_ms = {run: at_ms for run, at_ms in self.returned_ms.items() if self._is_handing_over(run)}
        if not self.returned_ms:
            self.reduced.clear()
        return done

    def _is_done(self, client: Client, now_ms: int) -> bool:
        """Return whether the wait for an ended client is over, because it is back or will not come back.

        A client that is back still stays for a while: other members may hear of its removal here before they hear of it
        from its new member.
        """
        soon_ms = now_ms - MOVED_AGAIN_MS
        if not client.published:
            return client.back_ms <= soon_ms
        waited_ms = max(client.ended_ms, self.returned_ms.get(client.came_from, 0))
        return waited_ms <= soon_ms or not self.may_be_back(client)

    def _drop_published_elsewhere(self, client: Client, now_ms: int) -> list[Event]:
        over = self.over_writers()
        events: list[Event] = []
        for key in list(client.published):
            events += self.drop_instances(client, key, self.present(key, over, client), now_ms)
        return events

    def _drop_from_former_run(self, client: Client, now_ms: int) -> list[Event]:
        """Remove an ended client's publications from the copies of the run that it came from.

        If the end of that run becomes known after the client's own end, nothing else would remove them: these copies
        would stay listed to the end of the hand-over, though their client came back and left.
        """
        events: list[Event] = []
        for key, publication in list(client.published.items()):
            for other in self._table.publishing(key):
                if is_copy_of(other, {client.came_from}):
                    events += self.drop_instances(other, key, publication.instances.keys(), now_ms)
        return events

    def copies_to_reduce(self, over: Collection[str]) -> Mapping[ServiceKey, list[Client]]:
        """Return the copies of these runs by service. Needs no lock: some may change during the call."""
        copies: dict[ServiceKey, list[Client]] = {}
        for client in self._table.all():
            if is_copy_of(client, over):
                for key in list(client.published):
                    copies.setdefault(key, []).append(client)
        return copies


def is_copy_of(client: Client, writers: Collection[str]) -> bool:
    """Return whether a client is a copy of one of these runs."""
    return not client.native and client.version.writer in writers


def _reduced(version: Version) -> Version:
    """Return the version of such a copy after a loss of returned instances: below all that its member gave."""
    return Version(EPOCH - 1, version.counter, version.writer)
