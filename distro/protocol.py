"""DistroProtocol: when to send, verify, fetch, load and claim. Time comes in, actions go out; one thread owns it."""

import logging
from collections.abc import Callable, Iterable, Mapping

from distro.claims import Claims
from distro.config import DistroConfig
from distro.load import SnapshotLoad
from distro.mapper import DistroMapper, WriterMapper
from distro.members import MemberList
from distro.monitor import DistroStats
from distro.ports import Components
from distro.tasks import BackOff, PeerQueue
from distro.types import (
    Action,
    DistroKey,
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
"""The longest that the protocol lets itself sleep, so that a pause of the process is noticed soon after it."""
AGREED_ROUNDS = 2
"""A spent key is dropped after its peers agreed in so many rounds: after the first they may only have asked for it."""


class DistroProtocol:
    """The engine's decisions for all resource types. Not thread-safe: its owner is one thread."""

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
        self.own_writer = own_writer
        self._config = config
        self._components = components
        self._stats = stats
        self._queues: dict[str, PeerQueue] = {}
        self._claims = Claims(components, config.claim_interval_ms, now_ms)
        self._expected_ms: int | None = None
        self._leaving = False
        self.before_serving: Callable[[int], None] = lambda _now_ms: None
        """Called once a load is over, before this member answers: what the disk knows may fill what is missing."""
        members.serving = not self.loading

    @property
    def loading(self) -> bool:
        """Whether this node still takes over the others' data: it claims, verifies and accepts nothing (R7)."""
        return self._load is not None

    # --- events ----------------------------------------------------------------------------------

    def leave(self, now_ms: int) -> None:
        """This node stops: it claims nothing any more, and reports say so."""
        self._leaving = True
        self.members.report_all_now(now_ms)

    def sync(self, key: DistroKey, now_ms: int) -> None:
        """A key changed here: every reachable peer is owed it."""
        for peer, queue in self._queues.items():
            if not self._takes(peer, key.resource_type):
                continue
            if queue.reachable:
                queue.tasks.add(key, now_ms + self._config.sync_delay_ms)
            else:
                self._stats.sync_dropped += 1

    def claim_later(self, key: DistroKey) -> None:
        """A key is ours and written by another: claim it once the view is steady (R2)."""
        self._claims.later(key)

    def fetch(self, peer: str, keys: Iterable[DistroKey]) -> None:
        """The peer holds newer data of these keys."""
        queue = self._queues.get(peer)
        if queue is not None:
            queue.fetch.update(dict.fromkeys(keys))

    def replace_members(self, addresses: Iterable[str], now_ms: int) -> None:
        """Take a new member list. What is owed to a member that left counts as done."""
        came, left = self.members.replace(addresses, now_ms)
        for address in left:
            self._queues.pop(address, None)
            if self._load is not None:
                self._load.remove(address)
            LOG.info("member %s left the list", address)
        for address in came:
            back_off = BackOff(self._config.retry_delay_ms, self._config.retry_delay_ms_max)
            self._queues[address] = PeerQueue(back_off)
            if self._load is not None:
                self._load.add(address, now_ms)
            LOG.info("member %s is in the list", address)
        self._follow_members(now_ms)

    def on_report(self, report: PeerReport, now_ms: int) -> None:
        """A peer reported itself."""
        self.members.on_report(report, now_ms)
        self._follow_members(now_ms)

    def on_report_done(self, peer: str, outcome: Outcome, answer: PeerReport | None, now_ms: int) -> None:
        """A report of ours ended."""
        self.members.on_report_done(peer, outcome, answer, now_ms)
        self._follow_members(now_ms)

    def on_sync_done(self, action: SyncData, outcome: Outcome, received: Received, now_ms: int) -> None:
        """A send ended: the peer is free; failed keys wait for another try, refused ones are fetched."""
        queue = self._free(action.peer)
        if queue is None:
            return
        keys = [DistroKey(action.resource_type, key) for key in action.keys]
        match outcome:
            case Outcome.DELIVERED:
                queue.sent(action.deadline_ms - self._config.sync_timeout_ms, now_ms)
                self._stats.sync_delivered += 1
                queue.fetch.update({DistroKey(action.resource_type, key): None for key in received.refused})
                for key, reason in received.failed.items():
                    LOG.warning("%s cannot take %s: %s", action.peer, key, reason)
            case Outcome.REJECTED if len(keys) == 1:
                self._stats.sync_failed += 1
                LOG.warning("%s rejects %s; it is not sent again until it changes", action.peer, keys[0].key)
            case Outcome.REJECTED:
                queue.tasks.retry(keys, now_ms, alone=True)
            case _:
                self._stats.sync_failed += 1
                self._retry(queue, keys, now_ms)

    def _retry(self, queue: PeerQueue, keys: list[DistroKey], now_ms: int) -> None:
        if queue.reachable:
            queue.tasks.retry(keys, now_ms + queue.back_off.failed())

    def on_verify_done(self, action: Verify, outcome: Outcome, received: Received, now_ms: int) -> None:
        """A verify round ended: what the peer has newer of our keys, or of unknown ones, is fetched."""
        queue = self._free(action.peer)
        if queue is None:
            return
        if outcome is not Outcome.DELIVERED:
            self._stats.verify_failed += 1
            return
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
        """What this node speaks for and the peer failed to confirm is sent to that peer, at once."""
        component = self._components[action.resource_type]
        for name in received.wanted:
            version = component.store.version(name)
            if version is None or not self.speaks_for(action.resource_type, name, version):
                continue
            self._stats.verify_wanted += 1
            queue.tasks.add(DistroKey(action.resource_type, name), now_ms)
            if component.on_verify_failed is not None:
                component.on_verify_failed(name, action.peer)

    def on_query_done(self, action: Query, outcome: Outcome, versions: Mapping[str, Version], now_ms: int) -> None:
        """A fetch ended; ``versions`` are those of the datums that came. The peer is owed what is newer here now."""
        queue = self._free(action.peer)
        if queue is None:
            return
        if outcome is not Outcome.DELIVERED:
            queue.fetch.update({DistroKey(action.resource_type, key): None for key in action.keys})
            queue.fetch_not_before_ms = now_ms + queue.back_off.failed()
            return
        queue.back_off.succeeded()
        store = self._components[action.resource_type].store
        for name, version in versions.items():
            held = store.version(name)
            if held is not None and held > version and self.speaks_for(action.resource_type, name, held):
                queue.tasks.add(DistroKey(action.resource_type, name), now_ms)

    def on_load_done(self, action: Load, outcome: Outcome, keys: Iterable[str] | None, now_ms: int) -> None:
        """A snapshot ended; ``keys`` are None when the peer is itself loading with nothing."""
        self._free(action.peer)
        if self._load is not None:
            self._load.on_done(action, outcome, keys, now_ms)

    def _free(self, peer: str) -> PeerQueue | None:
        queue = self._queues.get(peer)
        if queue is not None:
            queue.busy = False
        return queue

    # --- time ------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> tuple[list[Action], int]:
        """Return what is to be done now, at most one call a free peer, and when to come again at the latest."""
        if self.members.standalone:
            return [], now_ms + HEARTBEAT_MS
        self._notice_pause(now_ms)
        self.members.tick(now_ms)
        self._follow_members(now_ms)
        actions: list[Action] = [*self.members.due_reports(now_ms)]
        if self._load is not None and self._load.is_over(now_ms, self.members.is_reachable):
            self._finish_load(self._load, now_ms)
        if not self.loading:
            self._claim(now_ms)
        for peer, queue in self._queues.items():
            if not queue.busy and (action := self._next_action(peer, queue, now_ms)) is not None:
                queue.busy = True
                actions.append(action)
        self._expected_ms = self._next_due_ms(now_ms)
        return actions, self._expected_ms

    def _notice_pause(self, now_ms: int) -> None:
        """R9: a late tick means that this process stood still, not that the others did."""
        if self._expected_ms is None:
            return
        late_ms = now_ms - self._expected_ms
        if late_ms <= self._config.pause_ms:
            return
        self._stats.pauses += 1
        LOG.warning("this process did not run for %d ms; deadlines move, reports come first", late_ms)
        self.members.on_pause(late_ms, now_ms)
        if late_ms >= self._config.tombstone_slack_ms and self._queues:
            # Removals made meanwhile may be forgotten by now: only a fresh load tells what is really gone.
            self.members.serving = False
            self._load = SnapshotLoad(self._config, self._components, now_ms, again=True)
            for peer in self._queues:
                self._load.add(peer, now_ms)

    def _next_action(self, peer: str, queue: PeerQueue, now_ms: int) -> Action | None:
        if self._load is not None:
            member = self.members.get(peer)
            if member is not None and member.kind is MemberKind.NACOS_2:
                self._load.leave_out(peer, member.kind)  # whoever has not said what it is counts as another kind
            return self._load.next_call(peer, now_ms)
        if not queue.reachable:
            return None
        if queue.fetch and queue.fetch_not_before_ms <= now_ms:
            return self._next_query(peer, queue, now_ms)
        # What is owed goes first, or the peer would ask for it; but no stream of changes puts a round off for long.
        is_late = now_ms - queue.verify_due_ms >= self._config.verify_interval_ms
        if (is_late or not queue.is_sync_due(now_ms)) and (verify := self._next_verify(peer, queue, now_ms)):
            return verify
        if keys := queue.take_sync(now_ms, self._config.batch_keys_max, self._config.sync_spacing_ms):
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
        if not queue.verify_types:
            if queue.verify_due_ms > now_ms:
                return None
            queue.verify_due_ms = now_ms + self._config.verify_interval_ms
            queue.verify_types = [name for name in self._components if self._takes(peer, name)]
            if not queue.verify_types:
                return None
        resource_type = queue.verify_types.pop()
        self._stats.verify_sent += 1
        keys = self._owned(resource_type, now_ms, unclaimed=self._is_own_kind(peer))
        return Verify(peer, resource_type, keys, now_ms + self._config.verify_timeout_ms)

    def _owned(self, resource_type: str, now_ms: int, *, unclaimed: bool) -> tuple[str, ...]:
        """The keys that this node owns; spent ones on which all agreed are dropped first (R6).

        Those that it has not claimed yet only for our own kind: real Nacos may still think that they are its own.
        """
        component = self._components[resource_type]
        reachable = [queue for peer, queue in self._queues.items() if queue.reachable and self._is_own_kind(peer)]
        owned = []
        for name, version in component.store.versions().items():
            own = version.writer == self.own_writer
            if not (own or unclaimed) or not self.mapper_of(resource_type).responsible(component.store.tag(name)):
                continue
            key = DistroKey(resource_type, name)
            spent = own and component.store.is_forgettable(name, now_ms)
            if spent and all(queue.agreed.get(key, 0) >= AGREED_ROUNDS for queue in reachable):
                component.store.forget(name, now_ms)
                self._stats.forgotten += 1
                for queue in self._queues.values():
                    queue.agreed.pop(key, None)
                continue
            owned.append(name)
        return tuple(owned)

    def _takes(self, peer: str, resource_type: str) -> bool:
        """Whether the peer is to get data of this type."""
        member = self.members.get(peer)
        return member is not None and member.kind in self._components[resource_type].taken_by

    def mapper_of(self, resource_type: str) -> DistroMapper:
        """Who is responsible for keys of this type. May be read from any thread."""
        component = self._components[resource_type]
        if component.owned_by_writer:
            return self._writer_mapper
        return self.mapper if MemberKind.NACOS_1 in component.taken_by else self.own_mapper

    def speaks_for(self, resource_type: str, name: str, version: Version) -> bool:
        """Whether what is held of a key is this node's to send: it wrote it, if writers own in any run. Any thread."""
        component = self._components[resource_type]
        own = component.owned_by_writer and self._writer_mapper.responsible(component.store.tag(name))
        return own or version.writer == self.own_writer

    def _is_own_kind(self, peer: str) -> bool:
        member = self.members.get(peer)
        return member is not None and member.kind is MemberKind.OWN

    def _finish_load(self, load: SnapshotLoad, now_ms: int) -> None:
        load.drop_what_is_gone(now_ms)
        self.before_serving(now_ms)
        self._load = None
        self.members.serving = True
        self.members.report_all_now(now_ms)
        for queue in self._queues.values():
            queue.verify_due_ms = now_ms
        LOG.info("loaded from %s; this member is UP", ", ".join(load.loaded_from()) or "nobody, as no member had data")

    # --- ownership -------------------------------------------------------------------------------

    def _follow_members(self, now_ms: int) -> None:
        """Bring mapper and lanes in line with the member list."""
        if self.members.view != self.mapper.servers:
            LOG.info("members that carry keys: %s", ", ".join(self.members.view) or "none")
            self.mapper = DistroMapper.over(self.members.self_address, self.members.view, self.members.standalone)
        own = tuple(one for one in self.members.view if one == self.members.self_address or self._is_own_kind(one))
        if own != self.own_mapper.servers:
            self.own_mapper = DistroMapper.over(self.members.self_address, own, self.members.standalone)
            self._claims.recheck_all()
        for peer, queue in self._queues.items():
            reachable = self.members.is_reachable(peer)
            if reachable == queue.reachable:
                continue
            member = self.members.get(peer)
            LOG.info("member %s is %s", peer, member.state.value if member else "gone")
            if reachable:
                queue.found(now_ms)
            else:
                self._stats.sync_dropped += queue.lost()

    def steady(self, now_ms: int) -> bool:
        """Whether ownership may be acted on (R2, R9): loaded, the view steady, a report through since a pause."""
        members = self.members
        return members.standalone or (
            not self.loading
            and not self._leaving
            and now_ms - members.view_since_ms >= self._config.report_interval_ms
            and (members.confirmed_ms >= 0 or not self._queues)
        )

    def _claim(self, now_ms: int) -> None:
        """R2: become the writer of keys that are ours by a steady view, a slice at a time."""
        if not self.steady(now_ms):
            return
        claimed = self._claims.tick(self.members.view_since_ms, now_ms, self._is_responsible)
        for key in claimed:
            self._stats.claims += 1
            self.sync(key, now_ms)
        if claimed:
            LOG.info("took over %d keys", len(claimed))

    def _is_responsible(self, key: DistroKey) -> bool:
        return self.mapper_of(key.resource_type).responsible(self._components[key.resource_type].store.tag(key.key))

    def _next_due_ms(self, now_ms: int) -> int:
        due = [now_ms + HEARTBEAT_MS]
        if (report_ms := self.members.next_due_ms()) is not None:
            due.append(report_ms)
        if self._load is not None:
            due.append(self._load.next_due_ms(now_ms))
        elif (claim_ms := self._claims.next_due_ms(now_ms, steady=self.steady(now_ms))) is not None:
            due.append(claim_ms)
        for queue in self._queues.values():
            if not (queue.busy or self.loading) and queue.reachable:
                due.append(queue.next_due_ms(now_ms))
        return max(min(due), now_ms)

    def pending(self) -> int:
        """How many sends are still owed to reachable peers: what a stopping node drains."""
        return sum(len(queue.tasks) + queue.busy for queue in self._queues.values() if queue.reachable)
