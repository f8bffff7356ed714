"""PeerTable: the listed peers, each with the work that is pending for it and the changes that it lacks."""

import logging

from distro.model.monitor import PeerStats
from distro.model.types import CAPABILITY_DIGESTS, DataCall, MemberKind
from distro.protocol.convergence import PeerTrace
from distro.protocol.engine_view import cause_of
from distro.protocol.protocol_parts import ProtocolParts
from distro.protocol.tasks import BackOff, PeerQueue

LOG = logging.getLogger(__name__)
TRACE_INTERVAL_MS = 1_000
"""From one look for changes that are stuck to the next: each goes over all that a peer lacks."""


class PeerTable:
    """The queue, the trace and the counts of each listed peer. The thread that owns the protocol changes it."""

    def __init__(self, parts: ProtocolParts, now_ms: int) -> None:
        self._parts = parts
        self._members = parts.members
        self.queues: dict[str, PeerQueue] = {}
        self.traces: dict[str, PeerTrace] = {}
        """The changes that each listed peer lacks, and how long others took to it."""
        self._traced_ms = now_ms

    def add(self, peer: str) -> None:
        """Begin with a peer that came into the list."""
        self.queues[peer] = PeerQueue(self.new_back_off())
        self._parts.times.peers[peer] = PeerStats()
        self.traces[peer] = PeerTrace(self._parts.own_writer)

    def remove(self, peer: str) -> None:
        """Drop what is pending for a peer that left the list."""
        del self.queues[peer], self._parts.times.peers[peer], self.traces[peer]

    def new_back_off(self) -> BackOff:
        """Return the waits after failures of calls to one peer."""
        return BackOff(self._parts.config.retry_delay_ms, self._parts.config.retry_delay_ms_max)

    def follow(self, now_ms: int) -> list[str]:
        """Bring the queues in line with the member list; return the peers that are reachable now, or no more."""
        moved = []
        for peer, queue in self.queues.items():
            reachable = self._members.is_reachable(peer)
            if reachable == queue.reachable:
                continue
            moved.append(peer)
            LOG.info("member %s is %s", peer, member.state.value if (member := self._members.get(peer)) else "gone")
            if reachable:
                queue.on_reachable(now_ms)
                self.traces[peer].not_counted = 0
            else:
                self.traces[peer].log_unreachable(peer)
                self.traces[peer].drop()
                self._parts.stats.sync_dropped += queue.on_unreachable()
        return moved

    def begin(self, peer: str, call: DataCall, now_ms: int) -> None:
        """Note that a call of data to the peer goes out now."""
        queue = self.queues[peer]
        queue.call, queue.call_since_ms = call, now_ms
        queue.bytes_before = self._parts.times.peers[peer].bytes

    def end(self, call: DataCall) -> PeerQueue | None:
        """Return the queue of the peer that the call was made to; None when the peer left, or the call was given up."""
        queue = self.queues.get(call.peer)
        if queue is None or not self._parts.rules.calls_one_by_one:
            return queue
        if queue.call is not call:
            return None
        queue.call = None
        return queue

    def forget_calls(self) -> None:
        """Let each peer get another call, though one is under way."""
        for queue in self.queues.values():
            queue.call = None

    def is_busy(self, now_ms: int) -> bool:
        """Return whether a key that changes now waits for the end of a call, as each peer has one that is not late."""
        reachable = [one for one in self.queues.values() if one.reachable]
        return bool(reachable) and all(one.call is not None and not one.is_stuck(now_ms) for one in reachable)

    def log_stuck(self, now_ms: int) -> None:
        """Tell the log of changes that peers lack for long."""
        if now_ms - self._traced_ms < TRACE_INTERVAL_MS:
            return
        self._traced_ms = now_ms
        for peer, trace in self.traces.items():
            oldest = trace.oldest()
            refused = oldest is not None and oldest[2]
            trace.log_stuck(peer, cause_of(self.queues[peer], now_ms, refused=refused), now_ms / 1_000)

    # --- kinds of peers --------------------------------------------------------------------------

    def is_own_kind(self, peer: str) -> bool:
        """Return whether the peer is a Rollcall member."""
        return self._members.kind(peer) is MemberKind.OWN

    def reachable_own_kind(self) -> list[str]:
        """Return the reachable Rollcall peers."""
        return [peer for peer, queue in self.queues.items() if queue.reachable and self.is_own_kind(peer)]

    def compares_digests(self, peer: str) -> bool:
        """Return whether verify rounds with the peer compare digests."""
        member = self._members.get(peer)
        known = self.is_own_kind(peer) and member is not None and CAPABILITY_DIGESTS in member.capabilities
        return known and self._parts.rules.compares_digests

    def takes(self, peer: str, resource_type: str) -> bool:
        """Return whether the peer, as it is now, gets data of the resource type: by its kind and its capabilities."""
        member, part = self._members.get(peer), self._parts.components[resource_type]
        if member is None or member.kind not in part.taken_by:
            return False
        return not part.needs or part.needs in member.capabilities

    def types_for(self, peer: str) -> tuple[str, ...]:
        """Return the resource types of which the peer gets data."""
        return tuple([name for name in self._parts.components if self.takes(peer, name)])
