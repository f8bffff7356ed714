"""PeerTurns: which call of data a peer gets next, a query, a part of a verify round or a send."""

from distro.model.types import DataCall
from distro.protocol.peer_exchange import PeerExchange
from distro.protocol.tasks import PeerQueue
from distro.protocol.verify_rounds import VerifyRounds


class PeerTurns:
    """The order of the calls to each peer, and which had its turn last. For the thread that owns the protocol."""

    def __init__(self, exchange: PeerExchange, rounds: VerifyRounds, interval_ms: int) -> None:
        """``interval_ms``: from one verify round to the next."""
        self._exchange, self._rounds, self._interval_ms = exchange, rounds, interval_ms
        self._verified: set[str] = set()
        """The peers whose last call was part of a round, and to which no send has been due since or gone out."""

    def remove(self, peer: str) -> None:
        """Forget a peer that left the list."""
        self._verified.discard(peer)

    def next_call(self, peer: str, queue: PeerQueue, now_ms: int) -> DataCall | None:
        """Return the call to make now to a reachable peer without a call under way; None if none is due."""
        if queue.fetch and (query := self._exchange.next_query(peer, queue, now_ms)) is not None:
            return query
        # Sends go first, or the peer would ask for what they bring; but no stream of them puts a round off for long,
        # nor do rounds that take longer than their interval put a send off: then they take turns.
        is_send_due = queue.is_sync_due(now_ms)
        is_late = now_ms - self._rounds.of[peer].due_ms >= self._interval_ms and peer not in self._verified
        if (is_late or not is_send_due) and (verify := self._rounds.next_call(peer, now_ms)):
            self._verified.add(peer)
            return verify
        self._verified.discard(peer)
        return self._exchange.next_send(peer, queue, now_ms) if is_send_due else None

    def next_due_ms(self, peer: str, queue: PeerQueue, now_ms: int) -> int:
        """Return when the next call to the peer is due."""
        round_ms, queue_ms = self._rounds.of[peer].next_due_ms(now_ms), queue.next_due_ms()
        return round_ms if queue_ms is None else min(round_ms, queue_ms)
