"""DistroProtocol: decides when to send, verify, fetch, load, report and claim. Events and time in, actions out."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from types import MappingProxyType

from distro.members.mapper import DistroMapper, Mappers, WriterMapper
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.digest import LEAVES
from distro.model.monitor import DistroStats, EngineTimes, PeerStats
from distro.model.observer import DistroObserver
from distro.model.ports import Components
from distro.model.types import (
    CAPABILITY_DIGESTS,
    NO_VERSION,
    Action,
    Compare,
    DataCall,
    DigestFindings,
    DistroKey,
    FinishLoad,
    Forget,
    Load,
    MemberKind,
    Outcome,
    PeerReport,
    Query,
    Received,
    RefreshDigests,
    Report,
    SyncData,
    Verify,
    Version,
)
from distro.protocol.claims import Claims
from distro.protocol.convergence import PeerTrace, VerifyRound
from distro.protocol.engine_reader import EngineReader
from distro.protocol.engine_view import EngineView, cause_of, peer_view
from distro.protocol.load import SnapshotLoad
from distro.protocol.samples import sample_after
from distro.protocol.tasks import BackOff, PeerQueue

LOG = logging.getLogger(__name__)
HEARTBEAT_MS = 500
"""The longest time between two ticks, so that a pause of the process is noticed soon after it (R9)."""
RELAY_INTERVAL_MS = 1_000
"""From one verify round to the next with a peer to which this node passes on what others wrote."""
TRACE_INTERVAL_MS = 1_000
"""From one look for changes that are stuck to the next: each goes over all that a peer lacks."""
WAITING_MAX = 250
"""Keys that one report names as waiting for its receiver."""
FORGOTTEN_MAX = 1_000
"""Keys that one action forgets."""
PASSED_ON_MAX = 100_000
"""Keys with states of other writers that are passed on; beyond it the peers wait for the claim of the oldest."""
CALL_LOST_MS = 10_000
"""So long after its deadline a call is given up, though its end was not told."""
ALL_TYPES = ""
"""In place of a resource type: the part of a verify round that compares digests of all types."""
AGREED_ROUNDS = 2
"""Verify rounds in which each peer must agree to drop a key (R6): in the first it may only have asked for it."""
VIEW_ID_BYTES = 8


class DistroProtocol:
    """The engine's decisions, by the rules in docs/replication.md. One thread owns it; others have its ``reader``.

    Python 3.11 makes slower calls on an object of more than 29 attributes.
    """

    observer = DistroObserver()

    def __init__(
        self,
        members: MemberList,
        own_writer: str,
        config: DistroConfig,
        components: Components,
        stats: DistroStats,
        now_ms: int,
        on_claimed: Callable[[list[DistroKey]], None] = lambda _keys: None,
    ) -> None:
        """``on_claimed`` is called with the keys that this member took over, on the thread that owns the protocol."""
        self.members = members
        mapper = DistroMapper.over(members.self_address, members.view, members.standalone)
        writers = WriterMapper(members.self_address, (), members.standalone)
        self._mappers = Mappers(mapper, mapper, writers)
        self._view_id = self._digest_of_view()
        self._load: SnapshotLoad | None = None if members.standalone else SnapshotLoad(config, components, now_ms)
        self.own_writer = own_writer
        members.runs.set_own_writer(own_writer)
        self._config = config
        self._components = components
        self.stats = stats
        self.times = EngineTimes()
        self.traces: dict[str, PeerTrace] = {}
        """The changes that each listed peer lacks, and how long others took to it."""
        self._traced_ms = now_ms
        self._queues: dict[str, PeerQueue] = {}
        self._reporting: set[str] = set()
        """The peers to which a report is under way."""
        self._claims = Claims(config.claim_interval_ms, now_ms)
        self._passed_on: dict[DistroKey, Version] = {}
        """The states of other writers that peers may get from this member, until it claims their keys (R16)."""
        self._finishing: FinishLoad | None = None
        self._forgetting: dict[DistroKey, None] = {}
        """Keys to be forgotten, in the order of verify rounds, until that is done: no round names them meanwhile."""
        self._forget_under_way: tuple[DistroKey, ...] = ()
        self._refresh_due_ms: int | None = now_ms + config.verify_interval_ms
        """None while the digests are brought up to date."""
        self._relayed: Mapping[str, frozenset[str]] = {}
        """The peers to which this node passes on what other members, that cannot reach them, wrote (R12)."""
        self._expected_ms: int | None = None
        self._ran_ms = 0
        """For how long this process ran between the last two ticks (CPU time)."""
        self._resumed_ms = now_ms
        """The end of the last pause: calls that were under way end soon after it."""
        self._leaving = False
        self.is_unlisted = False
        self._on_claimed = on_claimed
        self.reader = EngineReader(own_writer, components, self._queues)
        members.serving = not self.loading
        self.publish(now_ms)

    @property
    def loading(self) -> bool:
        """Return whether this node is still loading the peers' data: it claims, verifies and accepts nothing (R7)."""
        return self._load is not None

    # --- events ----------------------------------------------------------------------------------

    def remember(self, writers: Iterable[str], now_ms: int) -> None:
        """Know the members that wrote what this node has on its disk, though no list may name them any more."""
        self.members.runs.remember(writers)
        self.publish(now_ms)

    def came_back(self, returned: Mapping[str, int]) -> None:
        """Note when clients of runs that hand them over came back here, in monotonic ms by the run's writer (R17)."""
        for writer, at_ms in returned.items():
            self.members.runs.came_back(writer, at_ms)

    def leave(self, now_ms: int, *, leaving: bool = True) -> None:
        """Claim nothing from now on (R2), and make reports due, which say that this node is going; or take it back."""
        self._leaving = leaving
        self.members.report_all_now(now_ms)
        self.publish(now_ms)

    def sync(self, changed: Mapping[DistroKey, float | None], now_ms: int) -> None:
        """Send these keys, which changed here, to every reachable peer that takes their resource types.

        ``changed``: when the oldest change of each was made that is not known yet; None for what no reader sees.
        """
        due_ms = now_ms + self._config.sync_delay_ms
        for peer, queue in self._queues.items():
            taken, trace = self._types_for(peer), self.traces[peer]
            for key, changed_s in changed.items():
                if key.resource_type not in taken:
                    continue
                if queue.reachable:
                    queue.tasks.add(key, due_ms)
                    if changed_s is not None:
                        trace.changed(key, changed_s)
                else:
                    self.stats.sync_dropped += 1
                    trace.not_counted += 1

    def claim_later(self, key: DistroKey, now_ms: int, source: str | None = None) -> None:
        """Claim the key once the view is steady, if it is ours and has another writer then (R2).

        ``source``: the peer that its state was fetched from. The others get that state now, as it is: only ownership
        waits for a steady view, and no reader (R16).
        """
        self._claims.later(key)
        version = self._components[key.resource_type].store.version(key.key)
        if source is None or version is None:
            return
        self._passed_on.pop(key, None)  # the latest last
        self._passed_on[key] = version
        while len(self._passed_on) > PASSED_ON_MAX:
            del self._passed_on[next(iter(self._passed_on))]
        for peer, queue in self._queues.items():
            if peer != source and queue.reachable and self._is_own_kind(peer):
                queue.tasks.add(key, now_ms)

    def fetch(self, peer: str, keys: Iterable[DistroKey]) -> None:
        """Query the peer for these keys, of which it has a state that this node lacks."""
        queue = self._queues.get(peer)
        if queue is not None:
            queue.fetch.update(dict.fromkeys(keys))

    def replace_members(self, addresses: Iterable[str], now_ms: int) -> None:
        """Take a new member list. What is pending for a peer that left is dropped."""
        came, left = self.members.replace(addresses, now_ms)
        for address in left:
            del self._queues[address], self.times.peers[address], self.traces[address]
            if self._load is not None:
                self._load.remove(address)
            LOG.info("member %s left the list", address)
        for address in came:
            self._queues[address] = PeerQueue(self._new_back_off())
            self.times.peers[address] = PeerStats()
            self.traces[address] = PeerTrace(self.own_writer)
            if self._load is not None:
                self._load.add(address, now_ms)
            LOG.info("member %s is in the list", address)
        self._follow_members(now_ms)
        self.publish(now_ms)

    def _new_back_off(self) -> BackOff:
        return BackOff(self._config.retry_delay_ms, self._config.retry_delay_ms_max)

    def on_report(self, report: PeerReport, now_ms: int) -> None:
        """Take a peer's report."""
        self.members.on_report(report, now_ms)
        self._pull(report)
        self._follow_members(now_ms)
        self.publish(now_ms)

    def on_report_done(self, peer: str, outcome: Outcome, answer: PeerReport | None, now_ms: int) -> None:
        """Note how a report of this node ended; ``answer`` is the peer's description of itself."""
        self._reporting.discard(peer)
        answers_again = self.members.on_report_done(peer, outcome, answer, now_ms)
        if answers_again and (queue := self._queues.get(peer)) is not None and queue.reachable:
            queue.on_answering(now_ms)
        if answer is not None:
            self._pull(answer)
        self._follow_members(now_ms)
        self.publish(now_ms)

    def _pull(self, report: PeerReport) -> None:
        """R12: fetch what the peer cannot send, because its calls do not arrive here."""
        queue = self._queues.get(report.address)
        if queue is None:
            return
        for resource_type, keys in report.waiting.items():
            if resource_type in self._components:
                lacking = self._fetch_lacking(queue, resource_type, keys)
                self.observer.fetches(report.address, lacking, "R12", "it cannot send them")

    def _fetch_lacking(self, queue: PeerQueue, resource_type: str, keys: Mapping[str, Version]) -> list[str]:
        """Query the peer for those of its keys whose versions there are not of a state that this node has had."""
        store = self._components[resource_type].store
        lacking = []
        for name, version in islice(keys.items(), max(self._config.batch_keys_max, WAITING_MAX)):
            stored = store.version(name)
            if stored is None or not stored.has_had(version):
                queue.fetch[DistroKey(resource_type, name)] = None
                lacking.append(name)
        return lacking

    def on_sync_done(
        self, action: SyncData, outcome: Outcome, received: Received, now_ms: int, ended_s: float | None = None
    ) -> None:
        """Note how a send ended: keys that did not arrive are sent again later, refused ones are fetched (R3).

        ``ended_s``: when the answer came, where that is known better than by ``now_ms``.
        """
        queue = self._free(action)
        if queue is None:
            return
        queue.in_flight = ()
        keys = [DistroKey(action.resource_type, key) for key in action.keys]
        trace = self.traces[action.peer]
        match outcome:
            case Outcome.DELIVERED:
                trace.told_pushes(received.pushed_ms, action.resource_type)
                trace.answered(received, now_ms / 1_000 if ended_s is None else ended_s, self._is_own_state)
                stats = self.times.peers[action.peer]
                stats.note(len(keys), now_ms)
                begun_ms = action.deadline_ms - self._config.sync_timeout_ms
                queue.sync_ended(len(keys), delivered=True)
                queue.sent(begun_ms, now_ms, stats.bytes - queue.bytes_before)
                self.stats.sync_delivered += 1
                lacking = self._fetch_lacking(queue, action.resource_type, received.refused)
                self.observer.fetches(action.peer, lacking, "R3", "it refused what this member sent")
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
                self._retry(queue, keys, now_ms)

    def _count_failed(self, peer: str) -> None:
        self.stats.sync_failed += 1
        self.times.peers[peer].failed += 1

    def _set_aside(self, queue: PeerQueue, key: DistroKey, now_ms: int) -> None:
        self.stats.keys_unfit += 1
        queue.set_aside(key, now_ms)

    def _retry(self, queue: PeerQueue, keys: list[DistroKey], now_ms: int) -> None:
        if queue.reachable:
            queue.tasks.retry(keys, now_ms + queue.back_off.failed())

    def on_verify_done(self, action: Verify, outcome: Outcome, received: Received, now_ms: int) -> None:
        """Note how a verify round ended: fetch what the peer has and this node lacks, send what the peer asked for."""
        queue = self._free(action)
        if queue is None:
            return
        form = "versions" if self._is_own_kind(action.peer) else "checksums"
        self._note_round(action.peer, action.resource_type, outcome, received, form, len(action.keys), now_ms)
        if not self._has_verified(queue, action.resource_type, outcome, now_ms):
            return
        self._follow_verify(action.peer, action.resource_type, received, queue, now_ms)
        equal = frozenset(action.keys) - received.refused.keys() - frozenset(received.wanted)
        self._trace_verified(action.peer, action.resource_type, received, queue, equal.__contains__, now_ms)
        store = self._components[action.resource_type].store
        for name in action.keys:
            key = DistroKey(action.resource_type, name)
            if name in received.refused:
                queue.agreed.pop(key, None)
            elif store.is_forgettable(name, now_ms):
                queue.agreed[key] = queue.agreed.get(key, 0) + 1

    def _note_round(
        self,
        peer: str,
        resource_type: str,
        outcome: Outcome,
        received: Received,
        form: str,
        told: int,
        now_ms: int,
    ) -> None:
        lacking, trace = received.fetching, self.traces[peer]
        lacking_there = None if lacking is None else lacking + len(received.wanted)
        ended = VerifyRound(now_ms, outcome, form, told, len(received.refused), lacking_there)
        trace.rounds = MappingProxyType({**trace.rounds, resource_type: ended})

    def _trace_verified(
        self,
        peer: str,
        resource_type: str,
        received: Received,
        queue: PeerQueue,
        is_equal: Callable[[str], bool],
        now_ms: int,
    ) -> None:
        """Note what the peer has, when it told that it fetches nothing: all keys of the round that ``is_equal``."""
        trace = self.traces[peer]
        trace.told_pushes(received.pushed_ms, resource_type)
        trace.take_over(self._is_own_state)
        if received.fetching != 0 or not trace.unapplied():
            return
        trace.agreed(resource_type, queue.call_since_ms / 1_000, now_ms / 1_000, is_equal)

    def on_served(self, peer: str, resource_type: str, keys: Iterable[str], served_s: float) -> None:
        """Note that the peer fetched datums of these keys here at ``served_s``: it has what they say."""
        if (trace := self.traces.get(peer)) is not None:
            trace.served([DistroKey(resource_type, name) for name in keys], served_s)

    def _is_own_state(self, key: DistroKey) -> bool:
        version = self._components[key.resource_type].store.version(key.key)
        return version is not None and self.reader.speaks_for(key.resource_type, key.key, version)

    def _log_stuck(self, now_ms: int) -> None:
        if now_ms - self._traced_ms < TRACE_INTERVAL_MS:
            return
        self._traced_ms = now_ms
        for peer, trace in self.traces.items():
            oldest = trace.oldest()
            refused = oldest is not None and oldest[2]
            trace.log_stuck(peer, cause_of(self._queues[peer], now_ms, refused=refused), now_ms / 1_000)

    def on_compare_done(
        self, action: Compare, outcome: Outcome, compared: Mapping[str, DigestFindings], now_ms: int
    ) -> None:
        """Note how a verify round that compared digests ended; ``compared``: what it found, by resource type."""
        queue = self._free(action)
        if queue is None:
            return
        for name in action.resource_types:
            one = compared.get(name, DigestFindings(Received()))
            self._note_round(action.peer, name, outcome, one.received, "digests", one.told, now_ms)
        if not self._has_verified(queue, ALL_TYPES, outcome, now_ms):
            return
        queue.sampled = action.sampled.stop % LEAVES
        agreed = dict[DistroKey, int]()
        for resource_type, one in compared.items():
            self._follow_verify(action.peer, resource_type, one.received, queue, now_ms)
            differing = one.pending | one.received.refused.keys() | frozenset(one.received.wanted)
            if one.is_whole:
                self._trace_verified(
                    action.peer, resource_type, one.received, queue, partial(_is_outside, differing), now_ms
                )
            for name in one.agreed:
                key = DistroKey(resource_type, name)
                agreed[key] = queue.agreed.get(key, 0) + 1
        queue.agreed = agreed  # in rounds one after the other
        reachable = self._reachable_own_kind()
        for key in [one for one in agreed if self._all_agreed(one, reachable)]:
            self._forget(key)

    def _has_verified(self, queue: PeerQueue, part: str, outcome: Outcome, now_ms: int) -> bool:
        """Return whether a part of a verify round was answered; if not, it is sent again after a wait."""
        if outcome is Outcome.DELIVERED:
            queue.verify_back_offs.pop(part, None)
            return True
        self.stats.verify_failed += 1
        if queue.reachable and outcome is not Outcome.REJECTED:
            queue.verify_failed(part, now_ms, self._new_back_off)
        return False

    def _follow_verify(self, peer: str, resource_type: str, received: Received, queue: PeerQueue, now_ms: int) -> None:
        """Fetch what the peer has and this node lacks; send at once what it asked for and this node speaks for."""
        component, mapper = self._components[resource_type], self.mapper_of(resource_type)
        store = component.store
        lacking = [  # a third member's key is for that one to merge
            name for name in received.refused if store.version(name) is None or mapper.responsible(store.tag(name))
        ]
        queue.fetch.update({DistroKey(resource_type, name): None for name in lacking})
        self.observer.fetches(peer, lacking, "R4", "it has another state, as its answer to a verify round says")
        for name in received.wanted:
            version, is_aside = component.store.version(name), queue.is_aside(DistroKey(resource_type, name), now_ms)
            if version is None or is_aside or not self.may_send(resource_type, peer, name, version):
                continue
            self.stats.verify_wanted += 1
            queue.tasks.add(DistroKey(resource_type, name), now_ms)
            if component.on_verify_failed is not None:
                component.on_verify_failed(name, peer)

    def on_query_done(self, action: Query, outcome: Outcome, versions: Mapping[str, Version], now_ms: int) -> None:
        """Note how a query ended; the peer gets keys whose version here is above that of the datum that came (R4).

        One of our own kind gets those, too, of which it knows nothing, unless nothing is left of them (R6).
        """
        queue = self._free(action)
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
        lacking = () if not self._is_own_kind(action.peer) else [one for one in action.keys if one not in versions]
        unknown = {name: NO_VERSION for name in lacking if not store.is_forgettable(name, now_ms)}
        for name, version in (*versions.items(), *unknown.items()):
            stored = store.version(name)
            if stored is not None and stored > version and self.reader.speaks_for(action.resource_type, name, stored):
                queue.tasks.add(DistroKey(action.resource_type, name), now_ms)

    def on_load_done(self, action: Load, outcome: Outcome, keys: frozenset[str] | None, now_ms: int) -> None:
        """Note how the fetch of a snapshot ended; ``keys`` are its keys, None from a peer that is itself loading."""
        if self._free(action) is not None and self._load is not None:
            self._load.on_done(action, outcome, keys, now_ms)

    def on_load_part(self, action: Load, now_ms: int) -> None:
        """Note that a part of a snapshot came before the call's time was over; the rest is asked for next."""
        if self._free(action) is not None and self._load is not None:
            self._load.on_part(action, now_ms)

    def on_load_finished(self, action: FinishLoad, now_ms: int) -> None:
        """Note that what ends a load is done: this member is UP, unless it loads again meanwhile."""
        if self._finishing is not action:
            return
        self._load = self._finishing = None
        self.members.serving = True
        self.members.report_all_now(now_ms)
        for queue in self._queues.values():
            queue.verify_due_ms = now_ms
        self.publish(now_ms)
        LOG.info("this member is UP")

    def on_finish_failed(self, action: FinishLoad, now_ms: int) -> None:
        """Note that what ends a load failed, for a reason that nobody foresaw: it is done again a few times."""
        if self._finishing is not action or self._load is None:
            return
        if self._load.end_failed(now_ms):
            self._finishing = None
        else:
            self.on_load_finished(action, now_ms)

    def on_claim_done(
        self, claimed: list[DistroKey], refused: list[DistroKey], now_ms: int, *, unfinished: bool
    ) -> None:
        """Send the keys that were claimed; those that their store ``refused`` are claimed later.

        ``unfinished``: there are more to examine.
        """
        self._claims.on_done(unfinished=unfinished)
        self._claims.refused(refused, now_ms)
        for key in claimed:
            self._passed_on.pop(key, None)
        if claimed:
            self._on_claimed(claimed)
            self.stats.claims += len(claimed)
            self.sync(dict.fromkeys(claimed), now_ms)
            LOG.info("took over %d keys", len(claimed))

    def on_claim_failed(self, now_ms: int) -> None:
        """Note that keys could not be examined, for a reason that nobody foresaw."""
        self._claims.on_failed(now_ms)

    def on_digests_refreshed(self, now_ms: int) -> None:
        """Note that the digests were brought up to date, or could not be: they are again in a while."""
        self._refresh_due_ms = now_ms + self._config.verify_interval_ms

    def on_forget_done(self, forgotten: int) -> None:
        """Count the keys that were forgotten; the next ones may follow. Those that were not are found again."""
        self.stats.forgotten += forgotten
        for key in self._forget_under_way:
            self._forgetting.pop(key, None)
        self._forget_under_way = ()

    def _free(self, action: DataCall) -> PeerQueue | None:
        """The queue of the peer that the call was made to; None when the peer left, or the call was given up."""
        queue = self._queues.get(action.peer)
        if queue is None or queue.call is not action:
            return None
        queue.call = None
        return queue

    def _give_up(self, action: DataCall, now_ms: int) -> None:
        """Take a call for failed that did not end long after its deadline, so that its peer gets data again."""
        self.stats.calls_lost += 1
        LOG.error("%s to %s did not end in time", type(action).__name__, action.peer)
        match action:
            case SyncData():
                self.on_sync_done(action, Outcome.FAILED, Received(), now_ms)
            case Verify():
                self.on_verify_done(action, Outcome.FAILED, Received(), now_ms)
            case Compare():
                self.on_compare_done(action, Outcome.FAILED, {}, now_ms)
            case Query():
                self.on_query_done(action, Outcome.FAILED, {}, now_ms)
            case Load():
                self.on_load_done(action, Outcome.FAILED, None, now_ms)

    # --- time ------------------------------------------------------------------------------------

    def tick(self, now_ms: int, ran_ms: int = 0) -> tuple[list[Action], int]:
        """Return the calls to make now and the latest time of the next tick; a peer gets one call of data at a time.

        ``ran_ms``: for how long threads of this process ran since the last tick (CPU time).
        """
        if self.members.standalone:
            return [], now_ms + HEARTBEAT_MS
        actions = self._tick(now_ms, ran_ms)
        self._expected_ms = self._next_due_ms(now_ms)
        self.publish(now_ms)
        return actions, self._expected_ms

    def _tick(self, now_ms: int, ran_ms: int) -> list[Action]:
        self._ran_ms = ran_ms
        self._notice_pause(now_ms)
        self.members.tick(now_ms)
        self._follow_members(now_ms)
        actions: list[Action] = [*self.members.due_reports(now_ms)]
        self._reporting.update(action.peer for action in actions if isinstance(action, Report))
        if self._load is not None and not self._finishing and self._is_loaded(self._load, now_ms):
            self._finishing = self._load.end()
            actions.append(self._finishing)
            LOG.info("loaded from %s", ", ".join(self._load.loaded_from()) or "nobody, as no member had data")
        if self.steady(now_ms) and (claim := self._claims.next_action(self.members.view_since_ms, now_ms)):
            actions.append(claim)
        for peer, queue in self._queues.items():
            is_waiting = (queue.is_stuck(now_ms) or self.members.is_failing(peer)) and self._is_own_kind(peer)
            queue.waiting = tuple(islice(chain(queue.in_flight, queue.tasks), WAITING_MAX)) if is_waiting else ()
        self._log_stuck(now_ms)
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
                queue.bytes_before = self.times.peers[peer].bytes
                actions.append(action)
        if self._refresh_due_ms is not None and self._refresh_due_ms <= now_ms:
            self._refresh_due_ms = None
            actions.append(RefreshDigests())
        if self._forgetting and not self._forget_under_way:
            self._forget_under_way = tuple(islice(self._forgetting, FORGOTTEN_MAX))
            actions.append(Forget(self._forget_under_way))
        return actions

    def _is_loaded(self, load: SnapshotLoad, now_ms: int) -> bool:
        return load.is_over(now_ms, self.members.is_reachable, self.members.is_unlisting)

    def _notice_pause(self, now_ms: int) -> None:
        """R9: a late tick shows that this process stood still. The deadlines move by the delay, reports come first.

        If it was late by its own work, the same is done, as nothing was heard meanwhile; but that is told apart.
        """
        if self._expected_ms is None:
            return
        late_ms = now_ms - self._expected_ms
        if late_ms <= self._config.pause_ms:
            return
        self._resumed_ms = now_ms
        if self._ran_ms * 2 >= late_ms:
            self.stats.overruns += 1
            LOG.warning(
                "the engine was %d ms late by this process's own work (%d ms); deadlines move, reports come first",
                late_ms,
                self._ran_ms,
            )
        else:
            self.stats.pauses += 1
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
        for key in [one for one in queue.unfit if one in queue.fetch and queue.is_aside(one, now_ms)]:
            del queue.fetch[key]
        if queue.fetch and queue.fetch_not_before_ms <= now_ms:
            return self._next_query(peer, queue, now_ms)
        # Sends go first, or the peer would ask for what they bring; but no stream of them puts a round off for long,
        # nor do rounds that take longer than their interval put a send off: then they take turns.
        is_late = now_ms - queue.verify_due_ms >= self._config.verify_interval_ms and not queue.verified_last
        if (is_late or not queue.is_sync_due(now_ms)) and (verify := self._next_verify(peer, queue, now_ms)):
            queue.verified_last = True
            return verify
        queue.verified_last = False
        if keys := queue.take_sync(now_ms, self._config.batch_keys_max, self._config.sync_spacing_ms):
            queue.in_flight = tuple(keys)
            self.traces[peer].begun(keys)
            self.stats.sync_sent += 1
            self.stats.sync_keys += len(keys)
            return self._sync_data(peer, keys, now_ms)
        return None

    def _sync_data(self, peer: str, keys: list[DistroKey], now_ms: int) -> SyncData:
        passed_on = {key.key: self._passed_on[key] for key in keys if key in self._passed_on} if self._passed_on else {}
        return SyncData(
            peer,
            keys[0].resource_type,
            tuple(key.key for key in keys),
            now_ms + self._config.sync_timeout_ms,
            self._relayed.get(peer, frozenset()),
            passed_on,
        )

    def _next_query(self, peer: str, queue: PeerQueue, now_ms: int) -> Query:
        keys = queue.take_fetch(self._config.batch_keys_max)
        self.stats.query_keys += len(keys)
        return Query(peer, keys[0].resource_type, tuple(key.key for key in keys), now_ms + self._config.sync_timeout_ms)

    def _next_verify(self, peer: str, queue: PeerQueue, now_ms: int) -> Verify | Compare | None:
        if not queue.verify_types and queue.verify_due_ms <= now_ms:
            interval_ms = self._config.verify_interval_ms
            queue.verify_due_ms = now_ms + (
                min(interval_ms, RELAY_INTERVAL_MS) if peer in self._relayed else interval_ms
            )
            taken = self._types_for(peer)
            queue.verify_types = [ALL_TYPES] if self._compares_digests(peer) else list(taken)
            queue.verify_again.clear()
        resource_type = queue.next_verify_type(now_ms)
        if resource_type is None:
            return None
        self.stats.verify_sent += 1
        if resource_type == ALL_TYPES:
            taken = self._types_for(peer)
            held = max([len(self._components[name].digest) for name in taken], default=0)
            sampled = sample_after(queue.sampled, self._config.verify_interval_ms, self._config.sample_ms, held)
            deadline_ms = now_ms + self._config.verify_timeout_ms
            return Compare(peer, taken, self._relayed.get(peer, frozenset()), sampled, deadline_ms)
        if not self._is_own_kind(peer):
            return Verify(peer, resource_type, (), now_ms + self._config.verify_timeout_ms)
        keys = self._owned(resource_type, now_ms)
        if peer in self._relayed:
            keys += self._of_writers(resource_type, self._relayed[peer])
        return Verify(peer, resource_type, keys, now_ms + self._config.verify_timeout_ms)

    def _of_writers(self, resource_type: str, members: frozenset[str]) -> tuple[str, ...]:
        versions = self._components[resource_type].store.versions()
        return tuple(name for name, version in versions.items() if version.writer.partition("~")[0] in members)

    def _owned(self, resource_type: str, now_ms: int) -> tuple[str, ...]:
        """The keys that this node owns; forgettable ones on which all peers agreed are dropped instead (R6)."""
        component = self._components[resource_type]
        reachable = self._reachable_own_kind()
        owned = []
        for name, version in component.store.versions().items():
            if not self.mapper_of(resource_type).responsible(component.store.tag(name)):
                continue
            key = DistroKey(resource_type, name)
            if key in self._forgetting:
                continue
            forgettable = version.writer == self.own_writer and component.store.is_forgettable(name, now_ms)
            if forgettable and self._all_agreed(key, reachable):
                self._forget(key)
                continue
            owned.append(name)
        return tuple(owned)

    def _reachable_own_kind(self) -> list[PeerQueue]:
        return [queue for peer, queue in self._queues.items() if queue.reachable and self._is_own_kind(peer)]

    @staticmethod
    def _all_agreed(key: DistroKey, reachable: Iterable[PeerQueue]) -> bool:
        return all(queue.agreed.get(key, 0) >= AGREED_ROUNDS for queue in reachable)

    def _forget(self, key: DistroKey) -> None:
        self._forgetting[key] = None
        for queue in self._queues.values():
            queue.agreed.pop(key, None)

    def _compares_digests(self, peer: str) -> bool:
        member = self.members.get(peer)
        return self._is_own_kind(peer) and member is not None and CAPABILITY_DIGESTS in member.capabilities

    def _types_for(self, peer: str) -> tuple[str, ...]:
        """The resource types of which the peer gets data."""
        kind = self.members.kind(peer)
        return tuple(name for name, part in self._components.items() if kind in part.taken_by)

    @property
    def mapper(self) -> DistroMapper:
        """The mapper over all members that carry keys."""
        return self._mappers.all_kinds

    def mapper_of(self, resource_type: str) -> DistroMapper:
        """Return the present mapper of a resource type."""
        return self._mappers.of(self._components[resource_type])

    def may_send(self, resource_type: str, peer: str, name: str, version: Version) -> bool:
        """Return whether this node sends the key to the peer: its own, or another writer's (R12, R16)."""
        is_relayed = version.writer.partition("~")[0] in self._relayed.get(peer, ())
        if is_relayed or self.reader.speaks_for(resource_type, name, version):
            return True
        return self._passed_on.get(DistroKey(resource_type, name)) == version

    def _is_own_kind(self, peer: str) -> bool:
        return self.members.kind(peer) is MemberKind.OWN

    # --- ownership -------------------------------------------------------------------------------

    def _follow_members(self, now_ms: int) -> None:
        """Bring the mappers and the peers' queues in line with the member list."""
        if self.members.view != self.mapper.servers:
            LOG.info("members that carry keys: %s", ", ".join(self.members.view) or "none")
            self._mappers = self._mappers._replace(all_kinds=replace(self.mapper, servers=self.members.view))
        own = tuple(one for one in self.members.view if one == self.members.self_address or self._is_own_kind(one))
        if own != self._mappers.own_kind.servers:
            self._mappers = self._mappers._replace(own_kind=replace(self._mappers.own_kind, servers=own))
            self._claims.recheck_all()
            self._compare_now(now_ms)
        self._view_id = self._digest_of_view()
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
                self.traces[peer].not_counted = 0
            else:
                self.traces[peer].log_unreachable(peer)
                self.traces[peer].drop()
                self.stats.sync_dropped += queue.on_unreachable()

    def _compare_now(self, now_ms: int) -> None:
        """R16: begin a round with each peer: only by this view does this member name the keys that it owns now."""
        for peer, queue in self._queues.items():
            if queue.reachable and self._compares_digests(peer):
                queue.verify_due_ms = now_ms
                queue.agreed.clear()  # these rounds may follow each other too soon to count as two (R6)

    def _digest_of_view(self) -> str:
        text = f"{','.join(self.mapper.servers)} {','.join(self._mappers.own_kind.servers)}"
        return hashlib.blake2b(text.encode(), digest_size=VIEW_ID_BYTES).hexdigest()

    def steady(self, now_ms: int) -> bool:
        """Return whether keys may be claimed and beats checked (R2, R7, R9)."""
        from_ms = self._steady_from_ms()
        return from_ms is not None and now_ms >= from_ms

    def _steady_from_ms(self) -> int | None:
        members = self.members
        if members.standalone:
            return 0
        if self.loading or self._leaving or (members.confirmed_ms < 0 and self._queues):
            return None
        return members.view_since_ms + self._config.report_interval_ms

    def gathers_ms(self, now_ms: int) -> int:
        """For how long no key that changes from now on can be sent to any peer, as all were sent something just now."""
        return min((one.gathers_ms(now_ms) for one in self._queues.values() if one.reachable), default=0)

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

    def pending(self) -> int:
        """Return how many keys wait for reachable peers, and calls to them: a stopping node waits for these."""
        return sum(len(queue.tasks) + (queue.call is not None) for queue in self._queues.values() if queue.reachable)

    def publish(self, now_ms: int) -> None:
        """Replace the view that other threads read: after each tick, and each event that moves members."""
        queues, traces = self._queues, self.traces
        self.reader.view = EngineView(
            self.loading,
            self.members.serving,
            self.is_unlisted,
            self._steady_from_ms(),
            self._view_id,
            self._mappers,
            self._mappers.all_kinds,
            self.members.frozen(),
            MappingProxyType({peer: peer_view(queue, traces[peer], now_ms) for peer, queue in queues.items()}),
        )

    def is_calling(self) -> bool:
        """Return whether a call to a peer, or work on the own keys, is under way; its end is told as an event."""
        is_working = self._finishing is not None or self._refresh_due_ms is None or bool(self._forget_under_way)
        calls = any(queue.call is not None for queue in self._queues.values())
        return calls or is_working or self._claims.is_under_way or not self._reporting.isdisjoint(self._queues)


def _is_outside(differing: Set[str], name: str) -> bool:
    return name not in differing


Event = Callable[[DistroProtocol, int], None]
"""A call on the protocol, made by its thread with the monotonic ms."""
