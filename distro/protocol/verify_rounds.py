"""VerifyRounds: the rounds in which this member and each peer compare their data (R4).

And PeerTurns: the call of data that a peer gets next, a query, a part of a round or a send.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from distro.model.digest import LEAVES
from distro.model.types import Compare, DataCall, DigestFindings, DistroKey, Outcome, Received, RefreshDigests, Verify
from distro.protocol.convergence import VerifyRound
from distro.protocol.forgetting import Forgetting
from distro.protocol.key_ownership import Ownership, SendRights
from distro.protocol.peer_exchange import PeerExchange
from distro.protocol.peer_table import PeerTable
from distro.protocol.protocol_parts import ProtocolParts
from distro.protocol.samples import sample_after
from distro.protocol.tasks import BackOff, PeerQueue

RELAY_INTERVAL_MS = 1_000
"""From one verify round to the next with a peer to which this node passes on what others wrote."""
ALL_TYPES = ""
"""In place of a resource type: the part of a verify round that compares digests of all types."""
NEVER_MS = 1 << 60


@dataclass(slots=True)
class PeerRounds:
    """The verify round with one peer that is due next or under way, part by part."""

    due_ms: int = 0
    types: list[str] = field(default_factory=list)
    """Resource types that the present round has still to send."""
    again: dict[str, int] = field(default_factory=dict)
    """Resource types whose part of the round failed, and when it is sent again."""
    back_offs: dict[str, BackOff] = field(default_factory=dict)
    sampled: int = 0
    """The number of leaves of which the present pass of rounds has compared the contents."""

    def next_type(self, now_ms: int) -> str | None:
        """Take the resource type whose part of the round is to be sent now, if there is one."""
        if self.types:
            return self.types.pop()
        due = next((name for name, due_ms in self.again.items() if due_ms <= now_ms), None)
        if due is not None:
            del self.again[due]
        return due

    def failed(self, resource_type: str, now_ms: int, new_back_off: Callable[[], BackOff]) -> None:
        """Send the part of the round again after a wait: a peer that is reached again lacks the keys that it finds."""
        if resource_type not in self.back_offs:
            self.back_offs[resource_type] = new_back_off()
        self.again[resource_type] = now_ms + self.back_offs[resource_type].failed()

    def next_due_ms(self, now_ms: int) -> int:
        """When the next part of a round is due."""
        return min([now_ms if self.types else self.due_ms, *self.again.values()])


class VerifyRounds:
    """The rounds with all listed peers, and the work that follows from their ends. For the protocol's thread."""

    def __init__(
        self, parts: ProtocolParts, peers: PeerTable, rights: SendRights, ownership: Ownership, now_ms: int
    ) -> None:
        self.of: dict[str, PeerRounds] = {}
        """The rounds with each listed peer, by its address."""
        self.forgetting = Forgetting()
        self.refresh_due_ms: int | None = now_ms + parts.config.verify_interval_ms
        """When the digests are brought up to date next; None while they are."""
        self._peers, self._rights, self._ownership = peers, rights, ownership
        self._config, self._components, self._stats = parts.config, parts.components, parts.stats
        self._rules, self._observer, self._own_writer = parts.rules, parts.observer, parts.own_writer

    # --- peers -----------------------------------------------------------------------------------

    def add(self, peer: str) -> None:
        """Begin with a peer that came into the list."""
        self.of[peer] = PeerRounds()

    def remove(self, peer: str) -> None:
        """Forget a peer that left the list."""
        del self.of[peer]
        self.forgetting.begin_anew(peer)

    def on_moved(self, peer: str, now_ms: int) -> None:
        """Begin a round if the peer is reachable now, as keys were not sent before; else give the present one up."""
        rounds = self.of[peer]
        if self._peers.queues[peer].reachable:
            rounds.back_offs.clear()
            rounds.due_ms = now_ms
        else:
            rounds.again.clear()
            self.forgetting.begin_anew(peer)

    def on_answering(self, peer: str, now_ms: int) -> None:
        """End the waits after failures (R16): the peer, which was reachable through others, answers again."""
        rounds = self.of[peer]
        rounds.again = dict.fromkeys(rounds.again, now_ms)

    def verify_all_now(self, now_ms: int) -> None:
        """Make a round with every peer due."""
        for rounds in self.of.values():
            rounds.due_ms = now_ms

    def compare_now(self, now_ms: int) -> None:
        """R16: begin a round with each peer: only by this view does this member name the keys that it owns now."""
        if not self._rules.compares_new_views:
            return
        for peer, rounds in self.of.items():
            if self._peers.queues[peer].reachable and self._peers.compares_digests(peer):
                rounds.due_ms = now_ms
                self.forgetting.begin_anew(peer)  # these rounds may follow each other too soon to count as two (R6)

    # --- calls -----------------------------------------------------------------------------------

    def next_refresh(self, now_ms: int) -> RefreshDigests | None:
        """Return the action that brings the digests up to date; None if it is not due, or under way."""
        if self.refresh_due_ms is None or self.refresh_due_ms > now_ms:
            return None
        self.refresh_due_ms = None
        return RefreshDigests()

    def on_refreshed(self, now_ms: int) -> None:
        """Note that the digests were brought up to date, or could not be: they are again in a while."""
        self.refresh_due_ms = now_ms + self._config.verify_interval_ms

    def next_call(self, peer: str, now_ms: int) -> Verify | Compare | None:
        """Return the part of a round with the peer to send now; None if none is due."""
        rounds, relayed = self.of[peer], self._rights.relayed
        if not self._rules.verifies:
            rounds.due_ms = now_ms + NEVER_MS
            return None
        if not rounds.types and rounds.due_ms <= now_ms:
            interval_ms = self._config.verify_interval_ms
            rounds.due_ms = now_ms + (min(interval_ms, RELAY_INTERVAL_MS) if peer in relayed else interval_ms)
            taken = self._peers.types_for(peer)
            rounds.types = [ALL_TYPES] if self._peers.compares_digests(peer) else list(taken)
            rounds.again.clear()
        resource_type = rounds.next_type(now_ms)
        if resource_type is None:
            return None
        self._stats.verify_sent += 1
        deadline_ms = now_ms + self._config.verify_timeout_ms
        if resource_type == ALL_TYPES:
            taken = self._peers.types_for(peer)
            held = max([len(self._components[name].digest) for name in taken], default=0)
            sampled = sample_after(rounds.sampled, self._config.verify_interval_ms, self._config.sample_ms, held)
            return Compare(peer, taken, relayed.get(peer, frozenset()), sampled, deadline_ms)
        if not self._peers.is_own_kind(peer):
            return Verify(peer, resource_type, (), deadline_ms)
        keys = self._owned(resource_type, now_ms)
        if peer in relayed:
            keys += self._of_writers(resource_type, relayed[peer])
        return Verify(peer, resource_type, keys, deadline_ms)

    def _of_writers(self, resource_type: str, members: frozenset[str]) -> tuple[str, ...]:
        versions = self._components[resource_type].store.versions()
        return tuple(name for name, version in versions.items() if version.writer.partition("~")[0] in members)

    def _owned(self, resource_type: str, now_ms: int) -> tuple[str, ...]:
        """The keys that this node owns; forgettable ones on which all peers agreed are dropped instead (R6)."""
        store, forgetting = self._components[resource_type].store, self.forgetting
        reachable, dropped = self._peers.reachable_own_kind(), self.forgetting.dropped
        mapper = self._ownership.mapper_of(resource_type)
        owned = []
        for name, version in store.versions().items():
            if not mapper.responsible(store.tag(name)):
                continue
            key = DistroKey(resource_type, name)
            if key in dropped:
                continue
            forgettable = version.writer == self._own_writer and store.is_forgettable(name, now_ms)
            if forgettable and forgetting.is_agreed(key, reachable):
                forgetting.drop(key)
                continue
            owned.append(name)
        return tuple(owned)

    # --- ends of calls ---------------------------------------------------------------------------

    def on_verify_done(self, action: Verify, outcome: Outcome, received: Received, now_ms: int) -> None:
        """Note how a verify round ended: fetch the keys that this node lacks, send those that the peer asked for."""
        queue = self._peers.end(action)
        if queue is None:
            return
        form = "versions" if self._peers.is_own_kind(action.peer) else "checksums"
        self._note_round(action.peer, action.resource_type, outcome, received, form, len(action.keys), now_ms)
        if not self._has_verified(action.peer, action.resource_type, outcome, now_ms):
            return
        self._follow(action.peer, action.resource_type, received, queue, now_ms)
        equal = frozenset(action.keys) - received.refused.keys() - frozenset(received.wanted)
        self._trace(action.peer, action.resource_type, received, queue, equal.__contains__, now_ms)
        store = self._components[action.resource_type].store
        for name in action.keys:
            if name in received.refused:
                self.forgetting.disagree(action.peer, DistroKey(action.resource_type, name))
            elif store.is_forgettable(name, now_ms):
                self.forgetting.agree(action.peer, DistroKey(action.resource_type, name))

    def on_compare_done(
        self, action: Compare, outcome: Outcome, compared: Mapping[str, DigestFindings], now_ms: int
    ) -> None:
        """Note how a verify round that compared digests ended; ``compared``: what it found, by resource type."""
        queue = self._peers.end(action)
        if queue is None:
            return
        for name in action.resource_types:
            one = compared.get(name, DigestFindings(Received()))
            self._note_round(action.peer, name, outcome, one.received, "digests", one.told, now_ms)
        if not self._has_verified(action.peer, ALL_TYPES, outcome, now_ms):
            return
        self.of[action.peer].sampled = action.sampled.stop % LEAVES
        agreed = list[DistroKey]()
        for resource_type, one in compared.items():
            self._follow(action.peer, resource_type, one.received, queue, now_ms)
            differing = one.pending | one.received.refused.keys() | frozenset(one.received.wanted)
            if one.is_whole:
                self._trace(action.peer, resource_type, one.received, queue, partial(_is_outside, differing), now_ms)
            agreed += [DistroKey(resource_type, name) for name in one.agreed]
        self.forgetting.agree_on(action.peer, agreed)
        self.forgetting.drop_agreed(action.peer, self._peers.reachable_own_kind())

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
        lacking, trace = received.fetching, self._peers.traces[peer]
        lacking_there = None if lacking is None else lacking + len(received.wanted)
        ended = VerifyRound(now_ms, outcome, form, told, len(received.refused), lacking_there)
        trace.rounds = MappingProxyType({**trace.rounds, resource_type: ended})

    def _has_verified(self, peer: str, part: str, outcome: Outcome, now_ms: int) -> bool:
        """Return whether a part of a verify round was answered; if not, it is sent again after a wait."""
        if outcome is Outcome.DELIVERED:
            self.of[peer].back_offs.pop(part, None)
            return True
        self._stats.verify_failed += 1
        if self._peers.queues[peer].reachable and outcome is not Outcome.REJECTED:
            self.of[peer].failed(part, now_ms, self._peers.new_back_off)
        return False

    def _follow(self, peer: str, resource_type: str, received: Received, queue: PeerQueue, now_ms: int) -> None:
        """Fetch what the peer has and this node lacks; send at once what it asked for and this node speaks for."""
        component, mapper = self._components[resource_type], self._ownership.mapper_of(resource_type)
        store = component.store
        lacking = [  # a third member's key is for that one to merge
            name for name in received.refused if store.version(name) is None or mapper.responsible(store.tag(name))
        ]
        queue.fetch.update({DistroKey(resource_type, name): None for name in lacking})
        self._observer.fetches(peer, lacking, "R4", "it has another state, as its answer to a verify round says")
        for name in received.wanted:
            version, is_aside = store.version(name), queue.is_aside(DistroKey(resource_type, name), now_ms)
            if version is None or is_aside or not self._rights.may_send(resource_type, peer, name, version):
                continue
            self._stats.verify_wanted += 1
            queue.tasks.add(DistroKey(resource_type, name), now_ms)
            if component.on_verify_failed is not None:
                component.on_verify_failed(name, peer)

    def _trace(
        self,
        peer: str,
        resource_type: str,
        received: Received,
        queue: PeerQueue,
        is_equal: Callable[[str], bool],
        now_ms: int,
    ) -> None:
        """Note what the peer has, when it told that it fetches nothing: all keys of the round that ``is_equal``."""
        trace = self._peers.traces[peer]
        trace.told_pushes(received.pushed_ms, resource_type)
        trace.take_over(self._rights.is_own_state)
        if received.fetching != 0 or not trace.unapplied():
            return
        trace.agreed(resource_type, queue.call_since_ms / 1_000, now_ms / 1_000, is_equal)


def _is_outside(differing: Set[str], name: str) -> bool:
    return name not in differing


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
