"""PeerSends: reads the datums of a send to a peer, whole or as deltas (R5) to the acknowledged state."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from threading import Lock

from distro.model.monitor import DistroStats
from distro.model.ports import Components
from distro.model.stores import DeltaStore
from distro.model.types import CAPABILITY_CLAIMS, CAPABILITY_DELTAS, NO_VERSION, Datum, Received, SyncData, Version
from distro.protocol.engine_reader import EngineReader

KEYS_MAX = 16_384
"""Keys of one peer and resource type whose version at the peer is remembered; others are sent whole."""

SMALL_CHANGES_MAX = 256
"""Changes in a send that is read at once, some 3 ms of work. Each gave its key the next counter, so a difference of
two counters is their number (R1)."""


@dataclass(frozen=True, slots=True)
class _SharedDeltas:
    """The deltas that were read last. They serve every send of their turn: a later change is due after that turn."""

    turn: tuple[int, bool, str] = 0, False, ""
    """The turn of the engine; whether claims are among them; the resource type."""
    keys: tuple[str, ...] = ()
    bases: list[Version | None] = field(default_factory=list)
    deltas: list[Datum | None] = field(default_factory=list)


class PeerSends:
    """Reads what is sent, and notes what arrived. For any thread; of one peer's sends one at a time."""

    def __init__(self, components: Components, reader: EngineReader, stats: DistroStats) -> None:
        self._components = components
        self._reader = reader
        self._stats = stats
        self._acknowledged: dict[tuple[str, str], dict[str, Version]] = {}
        """By peer and resource type: the version of each key that the peer has, the latest acknowledged last.

        ``NO_VERSION``: it asked for the whole.
        """
        self._lock = Lock()
        """Guards ``_shared``. A send of the same keys to another peer waits for the deltas instead of reading them."""
        self._shared = _SharedDeltas()

    def read(self, action: SyncData) -> list[Datum]:
        """The datums of a send as they are now: of each key what the peer lacks, where that is known."""
        component = self._components[action.resource_type]
        datums = self._deltas(action)
        in_part = {one.key for one in datums}
        for one in component.store.datums([key for key in action.keys if key not in in_part]):
            if self._may_send(action, one):
                datums.append(one)
        self._stats.sync_deltas += len(in_part)
        return datums

    def read_small(self, action: SyncData) -> list[Datum] | None:
        """As ``read``, of keys with a few changes here since; None for any other send: it may take long to read."""
        store = self._components[action.resource_type].store
        known = self._acknowledged.get((action.peer, action.resource_type), {})
        changes = 0
        for key in action.keys:
            base, version = known.get(key), store.version(key)
            if base is None or version is None:
                return None
            changes += max(version.counter - base.counter, 1)
        if changes > SMALL_CHANGES_MAX:
            return None
        datums = self._deltas(action, of_claims=False)
        return datums if len(datums) == len(action.keys) else None

    def _deltas(self, action: SyncData, *, of_claims: bool = True) -> list[Datum]:
        """The deltas of those keys of a send of which it is known what the peer lacks; ``of_claims``: claims, too."""
        deltas, peer, resource_type = self._components[action.resource_type].deltas, action.peer, action.resource_type
        if deltas is None or not self._takes(CAPABILITY_DELTAS, peer):
            return []
        known = self._acknowledged.get((peer, resource_type), {})
        of_claims = of_claims and self._takes(CAPABILITY_CLAIMS, peer)
        keys, bases, turn = (
            action.keys,
            [known.get(key) for key in action.keys],
            (action.turn, of_claims, resource_type),
        )
        with self._lock:
            shared = self._shared
            if not action.turn or shared.turn != turn or shared.keys != keys or shared.bases != bases:
                pairs = zip(keys, bases, strict=True)
                found = [_delta(deltas, key, base, of_claims=of_claims) for key, base in pairs]
                shared = self._shared = _SharedDeltas(turn, keys, bases, found)
        return [one for one in shared.deltas if one is not None and self._may_send(action, one)]

    def _may_send(self, action: SyncData, datum: Datum) -> bool:
        """Return whether this node sends the datum to the peer: its own, or another writer's (R12, R16)."""
        version = datum.version
        if version.writer.partition("~")[0] in action.relayed:
            return True
        is_ours = self._reader.speaks_for(action.resource_type, datum.key, version)
        return is_ours or action.passed_on.get(datum.key) == version

    def _takes(self, capability: str, peer: str) -> bool:
        member = self._reader.view.members.get(peer)
        return member is not None and capability in member.capabilities

    def ended(self, action: SyncData, sent: Iterable[Datum], received: Received | None) -> Received:
        """Note what the peer has by its answer, None for no answer; return the answer.

        ``wanted`` then has those keys alone that were sent as deltas and are to be sent whole.
        """
        if received is None:
            return Received()  # it may have arrived: a delta from the former version fits what came of it
        if self._components[action.resource_type].deltas is None:
            return replace(received, wanted=())
        known = self._acknowledged.setdefault((action.peer, action.resource_type), {})
        wanted, in_part = frozenset(received.wanted), set[str]()
        for datum in sent:
            known.pop(datum.key, None)
            refused = received.refused.get(datum.key)
            if datum.key in received.failed or (refused is not None and not refused.has_had(datum.version)):
                continue
            if datum.key not in wanted:
                known[datum.key] = datum.version
            elif datum.base is not None:
                in_part.add(datum.key)
                known[datum.key] = NO_VERSION  # or a claim would be told once more
        while len(known) > KEYS_MAX:
            del known[next(iter(known))]
        return replace(received, wanted=tuple(in_part)) if received.wanted else received

    def forget_others(self, peers: Iterable[str]) -> None:
        """Forget what peers had that left the list."""
        for at in [at for at in self._acknowledged if at[0] not in peers]:
            self._acknowledged.pop(at, None)


def _delta(deltas: DeltaStore, key: str, base: Version | None, *, of_claims: bool) -> Datum | None:
    """Return what a peer lacks that acknowledged ``base``; ``of_claims``: it takes the claim of another's key."""
    if base == NO_VERSION:
        return None
    delta = deltas.delta(key, base) if base is not None else None
    return deltas.claim_delta(key) if delta is None and of_claims else delta
