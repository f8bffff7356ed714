"""EngineView: the state of the engine at the end of a tick, as one frozen value that any thread may read."""

from collections.abc import Mapping
from typing import NamedTuple

from distro.members.mapper import DistroMapper, Mappers
from distro.members.members_view import MembersView
from distro.model.monitor import TimingCounts
from distro.model.types import Compare, DataCall, DistroKey
from distro.protocol.convergence import Cause, PeerTrace, VerifyRound
from distro.protocol.tasks import PeerQueue

KEYS_SHOWN = 20
"""Keys of a queue that a view names, in the order in which they are sent."""


class CallView(NamedTuple):
    """A call of data that is under way."""

    what: str
    """The name of its action, such as ``SyncData``."""
    resource_type: str
    """``all`` for a comparison of digests."""
    since_ms: int
    """Monotonic."""


class OldestChange(NamedTuple):
    """The oldest change that a peer lacks."""

    key: DistroKey
    at_s: float
    """When it was written, by the engine's clock."""
    cause: Cause


class PeerView(NamedTuple):
    """The work that is pending for one peer, and how far the peer is with this node's changes."""

    reachable: bool
    to_send: int
    """Keys that wait to be sent."""
    in_flight: int
    """Keys of the send under way."""
    to_fetch: int
    """Keys to be fetched from the peer."""
    keys: tuple[str, ...]
    """The first ``KEYS_SHOWN`` keys to send, those under way first."""
    call: CallView | None
    failing: bool
    """The last call of data failed."""
    next_send_ms: int | None
    """When keys are sent next, monotonic; None if none wait."""
    unapplied: int
    """Changes that the peer lacks."""
    oldest: OldestChange | None
    not_counted: int
    """Changes made or dropped while the peer is unreachable, since it became so."""
    rounds: Mapping[str, VerifyRound]
    """The last verify round of each resource type."""
    applied: TimingCounts
    """From the write of a change to the peer's applying it."""
    pushed: TimingCounts
    """From the write to the peer's push to its own subscribers."""
    waiting: tuple[DistroKey, ...]
    """The first keys to send, while the peer does not answer: its own calls are informed of them (R12)."""

    @property
    def pending(self) -> int:
        """Keys to send and calls under way: a stopping node waits for these while the peer is reachable."""
        return self.to_send + (self.call is not None)


class EngineView(NamedTuple):
    """The engine's state that other threads read. Times are monotonic ms."""

    loading: bool
    """This node still loads the data of its peers (R7)."""
    serving: bool
    """This node has loaded."""
    is_unlisted: bool
    """All peers that answer say that this node is not in their member lists."""
    steady_from_ms: int | None
    """From when on keys may be claimed and beats checked (R2, R7, R9); None: not before the view changes."""
    view_id: str
    """A digest of the members that carry keys, with the kind of each."""
    mappers: Mappers
    mapper: DistroMapper
    """The first of ``mappers``: each call of a client asks it."""
    members: MembersView
    peers: Mapping[str, PeerView]
    """By address; read-only."""

    @property
    def own_mapper(self) -> DistroMapper:
        """The mapper over the Rollcall members that carry keys."""
        return self.mappers.own_kind

    def steady(self, now_ms: int) -> bool:
        """Return whether keys may be claimed and beats checked (R2, R7, R9)."""
        return self.steady_from_ms is not None and now_ms >= self.steady_from_ms

    def pending(self) -> int:
        """Return how many keys wait for reachable peers, and calls to them: what a stopping node waits for."""
        return sum(peer.pending for peer in self.peers.values() if peer.reachable)

    def pending_keys(self) -> dict[str, int]:
        """Return how many keys are to be sent to each peer, those under way included."""
        return {address: peer.to_send + peer.in_flight for address, peer in self.peers.items()}


def peer_view(queue: PeerQueue, trace: PeerTrace, now_ms: int) -> PeerView:
    """Return the view of a peer. For the thread that owns the protocol."""
    call, oldest, to_send = queue.call, trace.oldest_lately(now_ms), len(queue.tasks)
    return PeerView(
        queue.reachable,
        to_send,
        len(queue.in_flight),
        len(queue.fetch),
        queue.first_keys(KEYS_SHOWN) if to_send or queue.in_flight else (),
        None if call is None else _call_view(call, queue.call_since_ms),
        queue.back_off.is_failing,
        queue.next_send_ms() if to_send else None,
        trace.unapplied(),
        None if oldest is None else OldestChange(oldest[0], oldest[1], cause_of(queue, now_ms, refused=oldest[2])),
        trace.not_counted,
        trace.rounds,
        trace.applied.frozen(),
        trace.pushed.frozen(),
        queue.waiting,
    )


def _call_view(call: DataCall, since_ms: int) -> CallView:
    return CallView(type(call).__name__, "all" if isinstance(call, Compare) else call.resource_type, since_ms)


def cause_of(queue: PeerQueue, now_ms: int, *, refused: bool) -> Cause:
    """Return why a peer lacks its oldest change, which it ``refused`` or not."""
    if not queue.reachable:
        return Cause.UNREACHABLE
    if queue.is_stuck(now_ms):
        return Cause.FAILING
    return Cause.REFUSED if refused else Cause.QUEUE
