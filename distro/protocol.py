"""DistroProtocol: what to send, verify, fetch, load, report and claim, and when. Events and time in, actions out."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, islice

from distro.claims import Claims
from distro.config import DistroConfig
from distro.load import SnapshotLoad
from distro.mapper import DistroMapper, WriterMapper
from distro.members import MemberList
from distro.monitor import DistroStats, EngineTimes, PeerStats
from distro.ports import Components
from distro.tasks import BackOff, PeerQueue
from distro.types import (
    NO_VERSION,
    Action,
    DataCall,
    DistroKey,
    FinishLoad,
    Forget,
    Load,
    MemberKind,
    Outcome,
    PeerReport,
    Query,
    Received,
    SyncData,
    Verify,
    Version,
)

LOG = logging.getLogger(__name__)
HEARTBEAT_MS = 500
"""The longest time between two ticks, so that a pause of the process is noticed soon after it (R9)."""
RELAY_INTERVAL_MS = 1_000
"""From one verify round to the next with a peer to which this node passes on what others wrote."""
WAITING_MAX = 250
"""Keys that one report names as waiting for its receiver."""
CALL_LOST_MS = 10_000
"""So long after its deadline a call is given up, though its end was not told."""
AGREED_ROUNDS = 2
"""Verify rounds in which each peer must agree to drop a key (R6): in the first it may only have asked for it."""


class DistroProtocol:
    """The engine's decisions, by the rules in docs/replication.md. One thread owns it; some calls say that any may."""

    def __init__(
        self,
        members: MemberList,
        own_writer: str,
        config: DistroConfig,
        components: Components,
        stats: DistroStats,
        now_ms: int,
    ) -> None:
        self.members = members
        self.mapper = self.own_mapper = DistroMapper.over(members.self_address, members.view, members.standalone)
        self._writer_mapper = WriterMapper.over(members.self_address, (), members.standalone)
        self._load: SnapshotLoad | None = None if members.standalone else SnapshotLoad(config, components, now_ms)
        self.own_writer = members.runs.own_writer = own_writer
        self._config = config
        self._components = components
        self._stats = stats
        self.times = EngineTimes()
        self._queues: dict[str, PeerQueue] = {}
        self._claims = Claims(config.claim_interval_ms, now_ms)
        self._finishing: FinishLoad | None = None
        self._forgetting: dict[DistroKey, None] = {}
        """Keys to be forgotten, in the order of verify rounds."""
        self._waiting: Mapping[str, tuple[DistroKey, ...]] = {}
        """Keys to be sent to peers that do not answer; another mapping in each tick, as other threads read it."""
        self._relayed: Mapping[str, frozenset[str]] = {}
        """The peers to which this node passes on what other members, that cannot reach them, wrote (R12)."""
        self._expected_ms: int | None = None
        self._resumed_ms = now_ms
        """The end of the last pause: calls that were under way end soon after it."""
        self._leaving = False
        self.is_unlisted = False
        """As the member list has it, kept here for the calls of clients, each of which asks. Read by any thread."""
        self.before_serving: Callable[[int], None] = lambda _now_ms: None
        """Called with the monotonic ms when a load is over, before this member answers: data on disk may be added.

        On the thread of the local actions (R11).
        """
        self.on_claimed: Callable[[list[DistroKey]], None] = lambda _keys: None
        """Called with the keys that this member took over; on the thread that owns the protocol."""
        members.serving = not self.loading

    @property
    def loading(self) -> bool:
        """Whether this node is still loading the peers' data: it claims, verifies and accepts nothing (R7)."""
        return self._load is not None

    # --- events ----------------------------------------------------------------------------------

    def leave(self, now_ms: int, *, leaving: bool = True) -> None:
        """Claim nothing from now on (R2), and make reports due, which say that this node is going; or take it back."""
        self._leaving = leaving
        self.members.report_all_now(now_ms)

    def sync(self, key: DistroKey, now_ms: int) -> None:
        """Send the key, which changed here, to every reachable peer that takes its resource type."""
        for peer, queue in self._queues.items():
            if not self._takes(peer, key.resource_type):
                continue
            if queue.reachable:
                queue.tasks.add(key, now_ms + self._config.sync_delay_ms)
            else:
                self._stats.sync_dropped += 1

    def claim_later(self, key: DistroKey) -> None:
        """Claim the key once the view is steady, if it is ours and has another writer then (R2)."""
        self._claims.later(key)

    def fetch(self, peer: str, keys: Iterable[DistroKey]) -> None:
        """Query the peer for these keys, of which it has a state that this node lacks."""
        queue = self._queues.get(peer)
        if queue is not None:
            queue.fetch.update(dict.fromkeys(keys))

    def replace_members(self, addresses: Iterable[str], now_ms: int) -> None:
        """Take a new member list. What is pending for a peer that left is dropped."""
        came, left = self.members.replace(addresses, now_ms)
        for address in left:
            del self._queues[address], self.times.peers[address]
            if self._load is not None:
                self._load.remove(address)
            LOG.info("member %s left the list", address)
        for address in came:
            self._queues[address] = PeerQueue(self._new_back_off())
            self.times.peers[address] = PeerStats()
            if self._load is not None:
                self._load.add(address, now_ms)
            LOG.info("member %s is in the list", address)
        self._follow_members(now_ms)

    def _new_back_off(self) -> BackOff:
        return BackOff(self._config.retry_delay_ms, self._config.retry_delay_ms_max)

    def on_report(self, report: PeerReport, now_ms: int) -> None:
        """Take a peer's report."""
        self.members.on_report(report, now_ms)
        self._pull(report)
        self._follow_members(now_ms)

    def on_report_done(self, peer: str, outcome: Outcome, answer: PeerReport | None, now_ms: int) -> None:
        """Note how a report of this node ended; ``answer`` is the peer's description of itself."""
        self.members.on_report_done(peer, outcome, answer, now_ms)
        if answer is not None:
            self._pull(answer)
        self._follow_members(now_ms)

    def _pull(self, report: PeerReport) -> None:
        """R12: fetch what the peer cannot send, because its calls do not arrive here."""
        queue = self._queues.get(report.address)
        if queue is None:
            return
        for resource_type, keys in report.waiting.items():
            if resource_type in self._components:
                self._fetch_lacking(queue, resource_type, keys)

    def _fetch_lacking(self, queue: PeerQueue, resource_type: str, keys: Mapping[str, Version]) -> None:
        """Query the peer for those of its keys whose versions there are not of a state that this node has had."""
        store = self._components[resource_type].store
        for name, version in keys.items():
            stored = store.version(name)
            if stored is None or not stored.has_had(version):
                queue.fetch[DistroKey(resource_type, name)] = None

    def waiting_for(self, peer: str) -> dict[str, dict[str, Version]]:
        """The keys that could not be sent to the peer, with their versions, by resource type. Any thread."""
        found: dict[str, dict[str, Version]] = {}
        for key in self._waiting.get(peer, ()):
            version = self._components[key.resource_type].store.version(key.key)
            if version is not None and self.speaks_for(key.resource_type, key.key, version):
                found.setdefault(key.resource_type, {})[key.key] = version
        return found

    def on_sync_done(self, action: SyncData, outcome: Outcome, received: Received, now_ms: int) -> None:
        """Note how a send ended: keys that did not arrive are sent again later, refused ones are fetched (R3)."""
        queue = self._free(action)
        if queue is None:
            return
        queue.in_flight = ()
        keys = [DistroKey(action.resource_type, key) for key in action.keys]
        match outcome:
            case Outcome.DELIVERED:
                changed_ms = queue.oldest_due_ms() - self._config.sync_delay_ms
                self.times.peers[action.peer].note(len(keys), changed_ms, now_ms)
                queue.sent(action.deadline_ms - self._config.sync_timeout_ms, now_ms)
                self._stats.sync_delivered += 1
                self._fetch_lacking(queue, action.resource_type, received.refused)
                for key, reason in received.failed.items():
                    LOG.warning("%s cannot take %s: %s", action.peer, key, reason)
            case Outcome.REJECTED if len(keys) == 1:
                self._count_failed(action.peer)
                LOG.warning("%s rejects %s; it is not sent again until it changes", action.peer, keys[0].key)
            case Outcome.REJECTED:
                queue.tasks.retry(keys, now_ms, alone=True)
            case _:
                self._count_failed(action.peer)
                queue.keep_oldest_due()
                self._retry(queue, keys, now_ms)

    def _count_failed(self, peer: str) -> None:
        self._stats.sync_failed += 1
        self.times.peers[peer].failed += 1

    def _retry(self, queue: PeerQueue, keys: list[DistroKey], now_ms: int) -> None:
        if queue.reachable:
            queue.tasks.retry(keys, now_ms + queue.back_off.failed())

    def on_verify_done(self, action: Verify, outcome: Outcome, received: Received, now_ms: int) -> None:
        """Note how a verify round ended: fetch what the peer has and this node lacks, send what the peer asked for."""
        queue = self._free(action)
        if queue is None:
            return
        if outcome is not Outcome.DELIVERED:
            self._stats.verify_failed += 1
            if queue.reachable and outcome is not Outcome.REJECTED:
                queue.verify_failed(action.resource_type, now_ms, self._new_back_off)
            return
        queue.verify_back_offs.pop(action.resource_type, None)
        store, mapper = self._components[action.resource_type].store, self.mapper_of(action.resource_type)
        for name in received.refused:  # a third member's key is for that one to merge
            if store.version(name) is None or mapper.responsible(store.tag(name)):
                queue.fetch[DistroKey(action.resource_type, name)] = None
        self._add_wanted(action, received, queue, now_ms)
        for name in action.keys:
            key = DistroKey(action.resource_type, name)
            if name in received.refused:
                queue.agreed.pop(key, None)
            elif store.is_forgettable(name, now_ms):
                queue.agreed[key] = queue.agreed.get(key, 0) + 1

    def _add_wanted(self, action: Verify, received: Received, queue: PeerQueue, now_ms: int) -> None:
        """Send the peer at once the keys that it asked for in a verify round and that this node speaks for."""
        component = self._components[action.resource_type]
        for name in received.wanted:
            version = component.store.version(name)
            if version is None:
                continue
            if not self.may_send(action.resource_type, action.peer, name, version):
                continue
            self._stats.verify_wanted += 1
            queue.tasks.add(DistroKey(action.resource_type, name), now_ms)
            if component.on_verify_failed is not None:
                component.on_verify_failed(name, action.peer)

    def on_query_done(self, action: Query, outcome: Outcome, versions: Mapping[str, Version], now_ms: int) -> None:
        """Note how a query ended; the peer gets keys whose version here is above that of the datum that came (R4).

        One of our own kind gets those, too, of which it knows nothing, unless nothing is left of them (R6).
        """
        queue = self._free(action)
        if queue is None:
            return
        if outcome is not Outcome.DELIVERED:
            queue.fetch.update({DistroKey(action.resource_type, key): None for key in action.keys})
            queue.fetch_not_before_ms = now_ms + queue.back_off.failed()
            return
        queue.back_off.succeeded()
        store = self._components[action.resource_type].store
        lacking = () if not self._is_own_kind(action.peer) else [one for one in action.keys if one not in versions]
        unknown = {name: NO_VERSION for name in lacking if not store.is_forgettable(name, now_ms)}
        for name, version in (*versions.items(), *unknown.items()):
            stored = store.version(name)
            if stored is not None and stored > version and self.speaks_for(action.resource_type, name, stored):
                queue.tasks.add(DistroKey(action.resource_type, name), now_ms)

    def on_load_done(self, action: Load, outcome: Outcome, keys: Iterable[str] | None, now_ms: int) -> None:
        """Note how the fetch of a snapshot ended; ``keys`` are its keys, None from a peer that is itself loading."""
        if self._free(action) is not None and self._load is not None:
            self._load.on_done(action, outcome, keys, now_ms)

    def on_load_finished(self, action: FinishLoad, now_ms: int) -> None:
        """Note that what ends a load is done: this member is UP, unless it loads again meanwhile."""
        if self._finishing is not action:
            return
        self._load = self._finishing = None
        self.members.serving = True
        self.members.report_all_now(now_ms)
        for queue in self._queues.values():
            queue.verify_due_ms = now_ms
        LOG.info("this member is UP")

    def on_claim_done(
        self, claimed: list[DistroKey], refused: list[DistroKey], now_ms: int, *, unfinished: bool
    ) -> None:
        """Send the keys that were claimed; those that their store ``refused`` are claimed later.

        ``unfinished``: there are more to examine.
        """
        self._claims.on_done(unfinished=unfinished)
        self._claims.refused(refused, now_ms)
        if claimed:
            self.on_claimed(claimed)
        for key in claimed:
            self._stats.claims += 1
            self.sync(key, now_ms)
        if claimed:
            LOG.info("took over %d keys", len(claimed))

    def on_claim_failed(self, now_ms: int) -> None:
        """Note that keys could not be examined, for a reason that nobody foresaw."""
        self._claims.on_failed(now_ms)

    def on_forget_done(self, forgotten: int) -> None:
        """Count the keys that were forgotten."""
        self._stats.forgotten += forgotten

    def _free(self, action: DataCall) -> PeerQueue | None:
        """The queue of the peer that the call was made to; None when the peer left, or the call was given up."""
        queue = self._queues.get(action.peer)
        if queue is None or queue.call is not action:
            return None
        queue.call = None
        return queue

    def _give_up(self, action: DataCall, now_ms: int) -> None:
        """Take a call for failed that did not end long after its deadline, so that its peer gets data again."""
        self._stats.calls_lost += 1
        LOG.error("%s to %s did not end in time", type(action).__name__, action.peer)
        match action:
            case SyncData():
                self.on_sync_done(action, Outcome.FAILED, Received(), now_ms)
            case Verify():
                self.on_verify_done(action, Outcome.FAILED, Received(), now_ms)
            case Query():
                self.on_query_done(action, Outcome.FAILED, {}, now_ms)
            case Load():
                self.on_load_done(action, Outcome.FAILED, None, now_ms)

    # --- time ------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> tuple[list[Action], int]:
        """Return the calls to make now and the latest time of the next tick; a peer gets one call of data at a time."""
        if self.members.standalone:
            return [], now_ms + HEARTBEAT_MS
        self._notice_pause(now_ms)
        self.members.tick(now_ms)
        self._follow_members(now_ms)
        actions: list[Action] = [*self.members.due_reports(now_ms)]
        if self._load is not None and not self._finishing and self._is_loaded(self._load, now_ms):
            self._finishing = self._load.end()
            actions.append(self._finishing)
            LOG.info("loaded from %s", ", ".join(self._load.loaded_from()) or "nobody, as no member had data")
        if self.steady(now_ms) and (claim := self._claims.next_action(self.members.view_since_ms, now_ms)):
            actions.append(claim)
        self._waiting = {
            peer: tuple(islice(chain(queue.in_flight, queue.tasks), WAITING_MAX))
            for peer, queue in self._queues.items()
            if (queue.is_stuck(now_ms) or self.members.is_failing(peer)) and self._is_own_kind(peer)
        }
        self._relayed = self.members.relayed()
        if not self.members.served:
            all_parts = self._components.values()
            parts = [part for part in all_parts if MemberKind.OWN in part.taken_by and not part.owned_by_writer]
            self.members.served = any(part.store.highest_own() != NO_VERSION for part in parts)
        for peer, queue in self._queues.items():
            if queue.call is not None and now_ms - max(queue.call.deadline_ms, self._resumed_ms) >= CALL_LOST_MS:
                self._give_up(queue.call, now_ms)
            if queue.call is None and (action := self._next_action(peer, queue, now_ms)) is not None:
                queue.call, queue.call_since_ms = action, now_ms
                actions.append(action)
        if self._forgetting:
            actions.append(Forget(tuple(self._forgetting)))
            self._forgetting = {}
        self._expected_ms = self._next_due_ms(now_ms)
        return actions, self._expected_ms

    def _is_loaded(self, load: SnapshotLoad, now_ms: int) -> bool:
        return load.is_over(now_ms, self.members.is_reachable, self.members.is_unlisting)

    def _notice_pause(self, now_ms: int) -> None:
        """R9: a late tick shows that this process stood still. The deadlines move by the delay, reports come first."""
        if self._expected_ms is None:
            return
        late_ms = now_ms - self._expected_ms
        if late_ms <= self._config.pause_ms:
            return
        self._stats.pauses += 1
        self._resumed_ms = now_ms
        LOG.warning("this process did not run for %d ms; deadlines move, reports come first", late_ms)
        self.members.on_pause(late_ms, now_ms)
        if late_ms >= self._config.tombstone_slack_ms and self._queues:
            # The peers may have forgotten removals made meanwhile: only a new load shows what is gone.
            self.members.serving = False
            self._load, self._finishing = SnapshotLoad(self._config, self._components, now_ms, again=True), None
            for peer in self._queues:
                self._load.add(peer, now_ms)

    def _next_action(self, peer: str, queue: PeerQueue, now_ms: int) -> DataCall | None:
        if self._load is not None:
            if self._finishing:
                return None
            if self.members.kind(peer) is MemberKind.NACOS_2:
                self._load.leave_out(peer, MemberKind.NACOS_2)  # one that has not reported yet may be of our kind
            return self._load.next_call(peer, now_ms, reachable=queue.reachable)
        if not queue.reachable:
            return None
        if queue.fetch and queue.fetch_not_before_ms <= now_ms:
            return self._next_query(peer, queue, now_ms)
        # Sends go first, or the peer would ask for what they bring; but no stream of them puts a round off for long.
        is_late = now_ms - queue.verify_due_ms >= self._config.verify_interval_ms
        if (is_late or not queue.is_sync_due(now_ms)) and (verify := self._next_verify(peer, queue, now_ms)):
            return verify
        if keys := queue.take_sync(now_ms, self._config.batch_keys_max, self._config.sync_spacing_ms):
            queue.in_flight = tuple(keys)
            self._stats.sync_sent += 1
            self._stats.sync_keys += len(keys)
            names = tuple(key.key for key in keys)
            return SyncData(peer, keys[0].resource_type, names, now_ms + self._config.sync_timeout_ms)
        return None

    def _next_query(self, peer: str, queue: PeerQueue, now_ms: int) -> Query:
        keys = queue.take_fetch(self._config.batch_keys_max)
        self._stats.query_keys += len(keys)
        return Query(peer, keys[0].resource_type, tuple(key.key for key in keys), now_ms + self._config.sync_timeout_ms)

    def _next_verify(self, peer: str, queue: PeerQueue, now_ms: int) -> Verify | None:
        if not queue.verify_types and queue.verify_due_ms <= now_ms:
            interval_ms = self._config.verify_interval_ms
            queue.verify_due_ms = now_ms + (
                min(interval_ms, RELAY_INTERVAL_MS) if peer in self._relayed else interval_ms
            )
            queue.verify_types = [name for name in self._components if self._takes(peer, name)]
            queue.verify_again.clear()
        resource_type = queue.next_verify_type(now_ms)
        if resource_type is None:
            return None
        self._stats.verify_sent += 1
        keys = self._owned(resource_type, now_ms, unclaimed=self._is_own_kind(peer))
        if peer in self._relayed:
            keys += self._of_writers(resource_type, self._relayed[peer])
        return Verify(peer, resource_type, keys, now_ms + self._config.verify_timeout_ms)

    def _of_writers(self, resource_type: str, members: frozenset[str]) -> tuple[str, ...]:
        versions = self._components[resource_type].store.versions()
        return tuple(name for name, version in versions.items() if version.writer.partition("~")[0] in members)

    def _owned(self, resource_type: str, now_ms: int, *, unclaimed: bool) -> tuple[str, ...]:
        """The keys that this node owns; forgettable ones on which all peers agreed are dropped instead (R6).

        ``unclaimed``: with those that another member wrote, of which real Nacos may think that they are its own (R8).
        """
        component = self._components[resource_type]
        reachable = [queue for peer, queue in self._queues.items() if queue.reachable and self._is_own_kind(peer)]
        owned = []
        for name, version in component.store.versions().items():
            own = version.writer == self.own_writer
            if not (own or unclaimed) or not self.mapper_of(resource_type).responsible(component.store.tag(name)):
                continue
            key = DistroKey(resource_type, name)
            if key in self._forgetting:
                continue
            forgettable = own and component.store.is_forgettable(name, now_ms)
            if forgettable and all(queue.agreed.get(key, 0) >= AGREED_ROUNDS for queue in reachable):
                self._forgetting[key] = None
                for queue in self._queues.values():
                    queue.agreed.pop(key, None)
                continue
            owned.append(name)
        return tuple(owned)

    def _takes(self, peer: str, resource_type: str) -> bool:
        """Whether the peer gets data of this resource type."""
        return self.members.kind(peer) in self._components[resource_type].taken_by

    def mapper_of(self, resource_type: str) -> DistroMapper:
        """The present mapper of a resource type. Called from any thread."""
        component = self._components[resource_type]
        if component.owned_by_writer:
            return self._writer_mapper
        return self.mapper if MemberKind.NACOS_1 in component.taken_by else self.own_mapper

    def may_send(self, resource_type: str, peer: str, name: str, version: Version) -> bool:
        """Whether this node sends the key to the peer: its own, or one of a member that cannot (R12). Any thread."""
        is_relayed = version.writer.partition("~")[0] in self._relayed.get(peer, ())
        return is_relayed or self.speaks_for(resource_type, name, version)

    def speaks_for(self, resource_type: str, name: str, version: Version) -> bool:
        """Whether this run, or of types owned by writers any run of this member, wrote the version. Any thread."""
        component = self._components[resource_type]
        own = component.owned_by_writer and self._writer_mapper.responsible(component.store.tag(name))
        return own or version.writer == self.own_writer

    def _is_own_kind(self, peer: str) -> bool:
        return self.members.kind(peer) is MemberKind.OWN

    # --- ownership -------------------------------------------------------------------------------

    def _follow_members(self, now_ms: int) -> None:
        """Bring the mappers and the peers' queues in line with the member list."""
        if self.members.view != self.mapper.servers:
            LOG.info("members that carry keys: %s", ", ".join(self.members.view) or "none")
            self.mapper = replace(self.mapper, servers=self.members.view)
        own = tuple(one for one in self.members.view if one == self.members.self_address or self._is_own_kind(one))
        if own != self.own_mapper.servers:
            self.own_mapper = replace(self.own_mapper, servers=own)
            self._claims.recheck_all()
        if (is_unlisted := self.members.is_unlisted) != self.is_unlisted:
            self.is_unlisted = is_unlisted
            if is_unlisted:
                LOG.warning("no member that answers has this one in its list: it takes no calls of clients")
        for peer, queue in self._queues.items():
            reachable = self.members.is_reachable(peer)
            if reachable == queue.reachable:
                continue
            LOG.info("member %s is %s", peer, member.state.value if (member := self.members.get(peer)) else "gone")
            if reachable:
                queue.on_reachable(now_ms)
            else:
                self._stats.sync_dropped += queue.on_unreachable()

    def steady(self, now_ms: int) -> bool:
        """Whether keys may be claimed and beats checked (R2, R7, R9). Called from any thread."""
        members = self.members
        return members.standalone or (
            not self.loading
            and not self._leaving
            and now_ms - members.view_since_ms >= self._config.report_interval_ms
            and (members.confirmed_ms >= 0 or not self._queues)
        )

    def is_responsible(self, key: DistroKey) -> bool:
        """Whether the key is this node's by the present view. Called from any thread."""
        return self.mapper_of(key.resource_type).responsible(self._components[key.resource_type].store.tag(key.key))

    def _next_due_ms(self, now_ms: int) -> int:
        due = [now_ms + HEARTBEAT_MS]
        if (report_ms := self.members.next_due_ms()) is not None:
            due.append(report_ms)
        if self._load is not None and not self._finishing:
            due.append(self._load.next_due_ms(now_ms))
        view_since_ms, steady = self.members.view_since_ms, self.steady(now_ms)
        if (claim_ms := self._claims.next_due_ms(view_since_ms, now_ms, steady=steady)) is not None:
            due.append(claim_ms)
        for queue in self._queues.values():
            if queue.call is None and not self.loading and queue.reachable:
                due.append(queue.next_due_ms(now_ms))
        return max(min(due), now_ms)

    def pending_of(self, key: DistroKey) -> dict[str, str]:
        """What is still to be done with a key, in words, by peer. Called from any thread."""
        found = {}
        for peer, queue in list(self._queues.items()):
            said = [
                "not reachable: it is compared when the peer is back" if not queue.reachable else "",
                "being sent" if key in queue.in_flight else "",
                ("to be sent again" if queue.back_off.is_failing else "to be sent") if key in queue.tasks else "",
                "to be fetched" if key in queue.fetch else "",
            ]
            if text := ", ".join(one for one in said if one):
                found[peer] = text
        return found

    def pending(self) -> int:
        """How many keys are to be sent to reachable peers, and calls under way: what a stopping node waits for."""
        return sum(len(queue.tasks) + (queue.call is not None) for queue in self._queues.values() if queue.reachable)

    def pending_keys(self) -> dict[str, int]:
        """How many keys are to be sent to each peer. Any thread."""
        return {peer: len(queue.tasks) + len(queue.in_flight) for peer, queue in list(self._queues.items())}
