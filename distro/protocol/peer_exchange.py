"""PeerExchange: sends of changed keys, and queries of keys of which a peer has a state that this member lacks."""

import logging
from collections.abc import Iterable, Mapping
from itertools import chain, islice

from distro.model.types import (
    NO_VERSION,
    DistroKey,
    Outcome,
    PeerReport,
    Query,
    Received,
    SyncData,
    Version,
)
from distro.protocol.key_ownership import SendRights
from distro.protocol.peer_table import PeerTable
from distro.protocol.protocol_parts import ProtocolParts
from distro.protocol.tasks import PeerQueue

LOG = logging.getLogger(__name__)
WAITING_MAX = 250
"""Keys that one report names as waiting for its receiver."""


class PeerExchange:
    """The keys to send to each peer and to fetch from it, and the ends of these calls. For the protocol's thread."""

    def __init__(self, parts: ProtocolParts, peers: PeerTable, rights: SendRights) -> None:
        self._peers, self._rights = peers, rights
        self._config, self._components = parts.config, parts.components
        self._stats, self._times = parts.stats, parts.times
        self._members, self._rules, self._observer = parts.members, parts.rules, parts.observer
        self._turn = 0

    # --- keys ------------------------------------------------------------------------------------

    def sync(self, changed: Mapping[DistroKey, float | None], now_ms: int) -> None:
        """Send these keys, which changed here, to every reachable peer that takes their resource types.

        ``changed``: when the oldest change of each was made that is not known yet; None for changes that no reader
        sees.
        """
        if not self._rules.sends_changes:
            return
        due_ms = now_ms + self._config.sync_delay_ms
        for peer, queue in self._peers.queues.items():
            taken, trace = self._peers.types_for(peer), self._peers.traces[peer]
            for key, changed_s in changed.items():
                if key.resource_type not in taken:
                    continue
                if queue.reachable:
                    queue.tasks.add(key, due_ms)
                    if changed_s is not None:
                        trace.changed(key, changed_s)
                else:
                    self._stats.sync_dropped += 1
                    trace.not_counted += 1

    def pass_on(self, key: DistroKey, source: str, now_ms: int) -> None:
        """Send the state of another writer, which was fetched from ``source``, to the others of our kind (R16)."""
        version = self._components[key.resource_type].store.version(key.key)
        if version is None:
            return
        self._rights.pass_on(key, version)
        for peer, queue in self._peers.queues.items():
            if peer != source and queue.reachable and self._peers.is_own_kind(peer):
                queue.tasks.add(key, now_ms)

    def fetch(self, peer: str, keys: Iterable[DistroKey]) -> None:
        """Query the peer for these keys, of which it has a state that this member lacks."""
        queue = self._peers.queues.get(peer)
        if queue is not None:
            queue.fetch.update(dict.fromkeys(keys))

    def pull(self, report: PeerReport) -> None:
        """R12: fetch what the peer cannot send, because its calls do not arrive here."""
        queue = self._peers.queues.get(report.address)
        if queue is None or not self._rules.verifies:
            return
        for resource_type, keys in report.waiting.items():
            if resource_type in self._components:
                lacking = self._fetch_lacking(queue, resource_type, keys)
                self._observer.fetches(report.address, lacking, "R12", "it cannot send them")

    def _fetch_lacking(self, queue: PeerQueue, resource_type: str, keys: Mapping[str, Version]) -> list[str]:
        """Query the peer for the keys whose versions there are not of a state that this member has had."""
        store = self._components[resource_type].store
        lacking = []
        for name, version in islice(keys.items(), max(self._config.batch_keys_max, WAITING_MAX)):
            stored = store.version(name)
            if stored is None or not stored.has_had(version):
                queue.fetch[DistroKey(resource_type, name)] = None
                lacking.append(name)
        return lacking

    def note_waiting(self, now_ms: int) -> None:
        """Note the first keys to send to each peer that does not answer: its own calls are informed of them (R12)."""
        members = self._members
        for peer, queue in self._peers.queues.items():
            is_waiting = (queue.is_stuck(now_ms) or members.is_failing(peer)) and self._peers.is_own_kind(peer)
            queue.waiting = tuple(islice(chain(queue.in_flight, queue.tasks), WAITING_MAX)) if is_waiting else ()

    # --- calls -----------------------------------------------------------------------------------

    def begin_turn(self) -> None:
        """Begin a turn: a key that changes from now on is sent again after the sends of this turn."""
        self._turn += 1

    def next_query(self, peer: str, queue: PeerQueue, now_ms: int) -> Query | None:
        """Return the query to make now; None if none is due."""
        for key in [one for one in queue.unfit if one in queue.fetch and queue.is_aside(one, now_ms)]:
            del queue.fetch[key]
        if not queue.fetch or queue.fetch_not_before_ms > now_ms:
            return None
        keys = queue.take_fetch(self._config.batch_keys_max)
        self._stats.query_keys += len(keys)
        return Query(peer, keys[0].resource_type, tuple(key.key for key in keys), now_ms + self._config.sync_timeout_ms)

    def next_send(self, peer: str, queue: PeerQueue, now_ms: int) -> SyncData | None:
        """Return the send to make now; None if none is due."""
        keys = queue.take_sync(now_ms, self._config.batch_keys_max, self._config.sync_spacing_ms)
        if not keys:
            return None
        if not self._peers.takes(peer, keys[0].resource_type):
            self._drop(peer, keys)
            return None
        queue.in_flight = tuple(keys)
        self._peers.traces[peer].begun(keys)
        self._stats.sync_sent += 1
        self._stats.sync_keys += len(keys)
        return SyncData(
            peer,
            keys[0].resource_type,
            tuple(key.key for key in keys),
            now_ms + self._config.sync_timeout_ms,
            self._rights.relayed.get(peer, frozenset()),
            self._rights.passed_on(keys),
            self._turn,
        )

    def _drop(self, peer: str, keys: list[DistroKey]) -> None:
        """Drop keys that waited while another member came to run at the peer's address: its kind takes none of them."""
        self._stats.sync_dropped += len(keys)
        self._peers.traces[peer].leave_out(keys)

    # --- ends of calls ---------------------------------------------------------------------------

    def on_sync_done(
        self, action: SyncData, outcome: Outcome, received: Received, now_ms: int, ended_s: float | None
    ) -> None:
        """Note how a send ended, as ``DistroProtocol.on_sync_done`` says."""
        queue = self._peers.end(action)
        if queue is None:
            return
        queue.in_flight = ()
        keys = [DistroKey(action.resource_type, key) for key in action.keys]
        trace = self._peers.traces[action.peer]
        match outcome:
            case Outcome.DELIVERED:
                trace.told_pushes(received.pushed_ms, action.resource_type)
                trace.answered(received, now_ms / 1_000 if ended_s is None else ended_s, self._rights.is_own_state)
                stats = self._times.peers[action.peer]
                stats.note(len(keys), now_ms)
                begun_ms = action.deadline_ms - self._config.sync_timeout_ms
                queue.sync_ended(len(keys), delivered=True)
                queue.sent(begun_ms, now_ms, stats.bytes - queue.bytes_before)
                self._stats.sync_delivered += 1
                lacking = self._fetch_lacking(queue, action.resource_type, received.refused)
                self._observer.fetches(action.peer, lacking, "R3", "it refused what this member sent")
                if received.wanted:
                    queue.send_now([DistroKey(action.resource_type, name) for name in received.wanted], now_ms)
                for key, reason in received.failed.items():
                    LOG.warning("%s cannot take %s: %s", action.peer, key, reason)
            case Outcome.REJECTED if len(keys) == 1:
                self._count_failed(action.peer)
                trace.rejected()
                self._set_aside(queue, keys[0], now_ms)
                LOG.warning("%s rejects %s; it is not sent again until it changes", action.peer, keys[0].key)
            case Outcome.REJECTED:
                trace.failed()
                queue.tasks.retry(keys, now_ms, alone=True)
            case _:
                self._count_failed(action.peer)
                trace.failed()
                if outcome is Outcome.FAILED:
                    queue.sync_ended(len(keys), delivered=False)
                if queue.reachable and self._rules.repeats_sends:
                    queue.tasks.retry(keys, now_ms + queue.back_off.failed())

    def _count_failed(self, peer: str) -> None:
        self._stats.sync_failed += 1
        self._times.peers[peer].failed += 1

    def _set_aside(self, queue: PeerQueue, key: DistroKey, now_ms: int) -> None:
        self._stats.keys_unfit += 1
        queue.set_aside(key, now_ms)

    def on_query_done(self, action: Query, outcome: Outcome, versions: Mapping[str, Version], now_ms: int) -> None:
        """Note how a query ended, as ``DistroProtocol.on_query_done`` says."""
        queue = self._peers.end(action)
        if queue is None:
            return
        queue.fetch_ended(len(action.keys), delivered=outcome is Outcome.DELIVERED)
        if outcome is Outcome.REJECTED:
            queue.fetch_not_before_ms = now_ms + self._config.retry_delay_ms
            if len(action.keys) == 1:
                self._set_aside(queue, DistroKey(action.resource_type, action.keys[0]), now_ms)
                LOG.error("%s of %s cannot be fetched: it is too large, or unreadable", action.keys[0], action.peer)
            else:  # fewer of them may do
                queue.fetch.update({DistroKey(action.resource_type, key): None for key in action.keys})
            return
        if outcome is not Outcome.DELIVERED:
            queue.fetch.update({DistroKey(action.resource_type, key): None for key in action.keys})
            queue.fetch_not_before_ms = now_ms + queue.back_off.failed()
            return
        queue.back_off.succeeded()
        store = self._components[action.resource_type].store
        is_own_kind = self._peers.is_own_kind(action.peer)
        lacking = [one for one in action.keys if one not in versions] if is_own_kind else ()
        unknown = {name: NO_VERSION for name in lacking if not store.is_forgettable(name, now_ms)}
        for name, version in (*versions.items(), *unknown.items()):
            stored = store.version(name)
            if stored is not None and stored > version and self._rights.speaks_for(action.resource_type, name, stored):
                queue.tasks.add(DistroKey(action.resource_type, name), now_ms)
