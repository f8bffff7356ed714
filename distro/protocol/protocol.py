"""DistroProtocol: decides when to send, verify, fetch, load, report and claim. Events and time in, actions out."""

import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from distro.members.mapper import DistroMapper
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats, EngineTimes
from distro.model.ports import NO_OBSERVER, Components, DistroObserver
from distro.model.types import (
    Action,
    Compare,
    DataCall,
    DigestFindings,
    DistroKey,
    FinishLoad,
    Load,
    Outcome,
    PeerReport,
    Query,
    Received,
    SyncData,
    Verify,
    Version,
)
from distro.protocol.claims import Claims
from distro.protocol.engine_reader import EngineReader
from distro.protocol.engine_view import EngineView, peer_view
from distro.protocol.key_ownership import Ownership, SendRights
from distro.protocol.load_rounds import LoadRounds
from distro.protocol.peer_exchange import PeerExchange
from distro.protocol.peer_table import PeerTable
from distro.protocol.protocol_parts import ALL_RULES, PauseWatch, ProtocolParts, ProtocolRules
from distro.protocol.tasks import PeerQueue
from distro.protocol.verify_rounds import PeerTurns, VerifyRounds

LOG = logging.getLogger(__name__)
HEARTBEAT_MS = 500
"""The longest time between two ticks, so that a pause of the process is noticed soon after it (R9)."""
CALL_LOST_MS = 10_000
"""So long after its deadline a call is given up, though its end was not told."""


class DistroProtocol:
    """The order of the engine's decisions, by the rules in docs/replication.md; its parts make them.

    One thread owns it, with its parts; others have its ``reader``.
    """

    def __init__(
        self,
        members: MemberList,
        own_writer: str,
        config: DistroConfig,
        components: Components,
        stats: DistroStats,
        now_ms: int,
        on_claimed: Callable[[list[DistroKey]], None] = lambda _keys: None,
        *,
        rules: ProtocolRules = ALL_RULES,
        observer: DistroObserver = NO_OBSERVER,
    ) -> None:
        """``on_claimed`` is called with the keys that this member took over, on the thread that owns the protocol."""
        self.members = members
        members.runs.set_own_writer(own_writer)
        self.stats = stats
        self.times = EngineTimes()
        self._config, self._rules = config, rules
        parts = ProtocolParts(members, own_writer, config, components, stats, self.times, rules, observer)
        self.peers = PeerTable(parts, now_ms)
        self.reader = EngineReader(own_writer, components, self.peers.queues)
        self.ownership = Ownership(parts)
        self.loads = LoadRounds(parts, now_ms)
        self.claims = Claims(config.claim_interval_ms, now_ms)
        self.rights = SendRights(parts, self.reader)
        self.exchange = PeerExchange(parts, self.peers, self.rights)
        self.rounds = VerifyRounds(parts, self.peers, self.rights, self.ownership, now_ms)
        self.turns = PeerTurns(self.exchange, self.rounds, config.verify_interval_ms)
        self.pauses = PauseWatch(parts, now_ms)
        self._reporting: set[str] = set()
        """The peers to which a report is under way."""
        self._on_claimed = on_claimed
        self.publish(now_ms)

    # --- what the engine's thread reads ----------------------------------------------------------

    @property
    def loading(self) -> bool:
        """Return whether this node is still loading the peers' data: it claims, verifies and accepts nothing (R7)."""
        return self.loads.load is not None

    @property
    def mapper(self) -> DistroMapper:
        """The mapper over all members that carry keys."""
        return self.ownership.mappers.all_kinds

    def steady(self, now_ms: int) -> bool:
        """Return whether keys may be claimed and beats checked (R2, R7, R9)."""
        from_ms = self._steady_from_ms()
        return from_ms is not None and now_ms >= from_ms

    def _steady_from_ms(self) -> int | None:
        return self.ownership.steady_from_ms(loading=self.loads.load is not None, has_peers=bool(self.peers.queues))

    def gathers_ms(self, now_ms: int) -> int:
        """For how long no key that changes from now on can be sent to any peer, as all were sent something just now."""
        return min((one.gathers_ms(now_ms) for one in self.peers.queues.values() if one.reachable), default=0)

    def pending(self) -> int:
        """Return how many keys wait for reachable peers, and calls to them: a stopping node waits for these."""
        queues = self.peers.queues.values()
        return sum(len(queue.tasks) + (queue.call is not None) for queue in queues if queue.reachable)

    def is_calling(self) -> bool:
        """Return whether a call to a peer, or work on the own keys, is under way; an event reports its end."""
        queues, rounds = self.peers.queues, self.rounds
        is_working = self.loads.finishing is not None or rounds.refresh_due_ms is None or rounds.forgetting.is_under_way
        calls = any(queue.call is not None for queue in queues.values())
        return calls or is_working or self.claims.is_under_way or not self._reporting.isdisjoint(queues)

    # --- events: members -------------------------------------------------------------------------

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
        self.ownership.leaving = leaving
        self.members.report_all_now(now_ms)
        self.publish(now_ms)

    def replace_members(self, addresses: Iterable[str], now_ms: int) -> None:
        """Take a new member list. What is pending for a peer that left is dropped."""
        came, left = self.members.replace(addresses, now_ms)
        for address in left:
            self.peers.remove(address)
            self.rounds.remove(address)
            self.loads.remove(address)
            self.turns.remove(address)
            LOG.info("member %s left the list", address)
        for address in came:
            self.peers.add(address)
            self.rounds.add(address)
            self.loads.add(address, now_ms)
            LOG.info("member %s is in the list", address)
        self._follow_members(now_ms)
        self.publish(now_ms)

    def on_report(self, report: PeerReport, now_ms: int) -> None:
        """Take a peer's report."""
        self.members.on_report(report, now_ms)
        self.exchange.pull(report)
        self._follow_members(now_ms)
        self.publish(now_ms)

    def on_report_done(self, peer: str, outcome: Outcome, answer: PeerReport | None, now_ms: int) -> None:
        """Note how a report of this node ended; ``answer`` is the peer's description of itself."""
        self._reporting.discard(peer)
        answers_again = self.members.on_report_done(peer, outcome, answer, now_ms)
        if answers_again and (queue := self.peers.queues.get(peer)) is not None and queue.reachable:
            queue.on_answering(now_ms)
            self.rounds.on_answering(peer, now_ms)
        if answer is not None:
            self.exchange.pull(answer)
        self._follow_members(now_ms)
        self.publish(now_ms)

    def _follow_members(self, now_ms: int) -> None:
        """Bring ownership and the peers' queues in line with the member list."""
        if self.ownership.follow():
            self.claims.recheck_all()
            self.rounds.compare_now(now_ms)
        for peer in self.peers.follow(now_ms):
            self.rounds.on_moved(peer, now_ms)

    # --- events: keys ----------------------------------------------------------------------------

    def sync(self, changed: Mapping[DistroKey, float | None], now_ms: int) -> None:
        """Send these keys, which changed here, to the peers, as ``PeerExchange.sync`` does."""
        self.exchange.sync(changed, now_ms)

    def claim_later(self, key: DistroKey, now_ms: int, source: str | None = None) -> None:
        """Claim the key once the view is steady, if it is ours and has another writer then (R2).

        ``source``: the peer that its state was fetched from. The others get that state now, as it is: only ownership
        waits for a steady view, and no reader (R16).
        """
        self.claims.later(key)
        if source is not None:
            self.exchange.pass_on(key, source, now_ms)

    def fetch(self, peer: str, keys: Iterable[DistroKey]) -> None:
        """Query the peer for these keys, of which it has a state that this node lacks."""
        self.exchange.fetch(peer, keys)

    def on_served(self, peer: str, resource_type: str, keys: Iterable[str], served_s: float) -> None:
        """Note that the peer fetched datums of these keys here at ``served_s``, and so has their values."""
        if (trace := self.peers.traces.get(peer)) is not None:
            trace.served([DistroKey(resource_type, name) for name in keys], served_s)

    def on_claim_done(
        self, claimed: list[DistroKey], refused: list[DistroKey], now_ms: int, *, unfinished: bool
    ) -> None:
        """Send the keys that were claimed; those that their store ``refused`` are claimed later.

        ``unfinished``: there are more to examine.
        """
        self.claims.on_done(unfinished=unfinished)
        self.claims.refused(refused, now_ms)
        self.rights.on_claimed(claimed)
        if claimed:
            self._on_claimed(claimed)
            self.stats.claims += len(claimed)
            self.sync(dict.fromkeys(claimed), now_ms)
            LOG.info("took over %d keys", len(claimed))

    def on_claim_failed(self, now_ms: int) -> None:
        """Note that keys could not be examined, for an unexpected reason."""
        self.claims.on_failed(now_ms)

    def on_forget_done(self, forgotten: int) -> None:
        """Count the keys that were forgotten; the next ones may follow."""
        self.stats.forgotten += forgotten
        self.rounds.forgetting.on_done()

    # --- events: ends of calls -------------------------------------------------------------------

    def on_sync_done(
        self, action: SyncData, outcome: Outcome, received: Received, now_ms: int, ended_s: float | None = None
    ) -> None:
        """Note how a send ended: keys that did not arrive are sent again later, refused ones are fetched (R3).

        ``ended_s``: when the answer came, where that is known better than by ``now_ms``.
        """
        self.exchange.on_sync_done(action, outcome, received, now_ms, ended_s)

    def on_verify_done(self, action: Verify, outcome: Outcome, received: Received, now_ms: int) -> None:
        """Note how a verify round ended: fetch the keys that this node lacks, send those that the peer asked for."""
        self.rounds.on_verify_done(action, outcome, received, now_ms)

    def on_compare_done(
        self, action: Compare, outcome: Outcome, compared: Mapping[str, DigestFindings], now_ms: int
    ) -> None:
        """Note how a verify round that compared digests ended; ``compared``: what it found, by resource type."""
        self.rounds.on_compare_done(action, outcome, compared, now_ms)

    def on_query_done(self, action: Query, outcome: Outcome, versions: Mapping[str, Version], now_ms: int) -> None:
        """Note how a query ended; the peer gets keys whose version here is above that of the datum that came (R4).

        A Rollcall member also gets keys that it does not know, unless nothing is left of them (R6).
        """
        self.exchange.on_query_done(action, outcome, versions, now_ms)

    def on_load_done(self, action: Load, outcome: Outcome, keys: frozenset[str] | None, now_ms: int) -> None:
        """Note how the fetch of a snapshot ended; ``keys`` are its keys, None from a peer that is itself loading."""
        if self.peers.end(action) is not None:
            self.loads.on_done(action, outcome, keys, now_ms)

    def on_load_part(self, action: Load, now_ms: int) -> None:
        """Note that a part of a snapshot came before the call's time was over; the rest is asked for next."""
        if self.peers.end(action) is not None:
            self.loads.on_part(action, now_ms)

    def on_load_finished(self, action: FinishLoad, now_ms: int) -> None:
        """Note that the last step of a load is done: this member is UP, unless it loads again in the meantime."""
        if self.loads.on_finished(action):
            self._serve(now_ms)

    def on_finish_failed(self, action: FinishLoad, now_ms: int) -> None:
        """Note that the last step of a load failed unexpectedly: it is repeated a few times."""
        if self.loads.on_finish_failed(action, now_ms):
            self._serve(now_ms)

    def _serve(self, now_ms: int) -> None:
        self.members.report_all_now(now_ms)
        self.rounds.verify_all_now(now_ms)
        self.publish(now_ms)
        LOG.info("this member is UP")

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
        next_due_ms = self.pauses.expected_ms = self._next_due_ms(now_ms)
        self.publish(now_ms)
        return actions, next_due_ms

    def _tick(self, now_ms: int, ran_ms: int) -> list[Action]:
        if not self._rules.calls_one_by_one:
            self.peers.forget_calls()
        if late_ms := self.pauses.notice(now_ms, ran_ms):
            self.members.on_pause(late_ms, now_ms)
            if late_ms >= self._config.tombstone_slack_ms and self.peers.queues:
                self.loads.begin_again(self.peers.queues, now_ms)
        if self.members.tick(now_ms):
            self._follow_members(now_ms)
            self.rights.relayed = self.members.relayed()
        reports = self.members.due_reports(now_ms)
        self._reporting.update([report.peer for report in reports])
        actions: list[Action] = [*reports]
        if (finish := self.loads.next_end(now_ms)) is not None:
            actions.append(finish)
        if self.steady(now_ms) and (claim := self.claims.next_action(self.members.view_since_ms, now_ms)):
            actions.append(claim)
        self.exchange.begin_turn()
        self.exchange.note_waiting(now_ms)
        self.peers.log_stuck(now_ms)
        if not self.members.served:
            self.members.served = self.ownership.has_written()
        actions += self._next_calls(now_ms)
        if (refresh := self.rounds.next_refresh(now_ms)) is not None:
            actions.append(refresh)
        if (forget := self.rounds.forgetting.next_action()) is not None:
            actions.append(forget)
        return actions

    def _next_calls(self, now_ms: int) -> list[DataCall]:
        calls: list[DataCall] = []
        for peer, queue in self.peers.queues.items():
            call = queue.call
            if call is not None and now_ms - max(call.deadline_ms, self.pauses.resumed_ms) >= CALL_LOST_MS:
                self._give_up(call, now_ms)
            if queue.call is None and (action := self._next_call(peer, queue, now_ms)) is not None:
                self.peers.begin(peer, action, now_ms)
                calls.append(action)
        return calls

    def _next_call(self, peer: str, queue: PeerQueue, now_ms: int) -> DataCall | None:
        if self._rules.holds_back is not None and self._rules.holds_back(self.members.frozen(), peer, now_ms):
            return None
        if (load := self.loads.load) is not None:
            return self.loads.next_call(load, peer, now_ms, reachable=queue.reachable)
        if not queue.reachable:
            return None
        return self.turns.next_call(peer, queue, now_ms)

    def _next_due_ms(self, now_ms: int) -> int:
        due = [now_ms + HEARTBEAT_MS]
        members, loading = self.members, self.loads.load is not None
        claim_ms = self.claims.next_due_ms(members.view_since_ms, now_ms, steady=self.steady(now_ms))
        for at_ms in (members.next_due_ms(), self.loads.next_due_ms(now_ms), claim_ms):
            if at_ms is not None:
                due.append(at_ms)
        for peer, queue in self.peers.queues.items():
            if queue.call is None and not loading and queue.reachable:
                due.append(self.turns.next_due_ms(peer, queue, now_ms))
        return max(min(due), now_ms)

    def publish(self, now_ms: int) -> None:
        """Replace the view that other threads read: after each tick, and each event that moves members."""
        queues, traces, ownership = self.peers.queues, self.peers.traces, self.ownership
        self.reader.view = EngineView(
            self.loads.load is not None,
            self.members.serving,
            ownership.is_unlisted,
            self._steady_from_ms(),
            ownership.view_id,
            ownership.mappers,
            ownership.mappers.all_kinds,
            self.members.frozen(),
            MappingProxyType({peer: peer_view(queue, traces[peer], now_ms) for peer, queue in queues.items()}),
        )


Event = Callable[[DistroProtocol, int], None]
"""A call on the protocol, made by its thread with the monotonic ms."""
