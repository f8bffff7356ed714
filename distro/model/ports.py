"""The Protocols through which the engine reaches the outside. A resource type brings its store, codec and agent.

``DistroObserver`` hears of each decision of the engine, and of the rule behind it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from distro.model.digest import KeyDigest
from distro.model.errors import TransportError
from distro.model.stores import DeltaStore, DistroStore
from distro.model.types import Datum, DistroKey, MemberKind, Page, PeerReport, Received, Version


class Clock(Protocol):
    """The only source of time, in ms."""

    def monotonic_ms(self) -> int:
        """Time that never goes back, for deadlines and ages."""
        ...

    def boot_ms(self) -> int:
        """Return time that never goes back, counts during sleep of the machine, and outlives the process.

        It dates peers' calls.
        """
        ...

    def wall_ms(self) -> int:
        """Ms since 1970, for people and wire fields."""
        ...


class DatumCodec(Protocol):
    """The JSON value inside a datum of one resource type."""

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        """The datum's JSON object, whole or a delta; without our own fields when not ``versioned``."""
        ...

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int, version: Version | None = None) -> Datum:
        """Return the datum of a JSON object. ``version``: that of its field, if the caller has read it.

        Raises:
            CodecError: a field is missing or of another type; the text names it.
        """
        ...

    def checksum(self, datum: Datum) -> str:
        """Return the checksum that real Nacos compares in its verify rounds."""
        ...


class DistroTransportAgent(Protocol):
    """Blocking calls to one peer. Each ends within ``timeout_ms``, even if bytes keep coming one by one.

    Raises:
        TransportError: the call failed and may be repeated.
        RejectedError: the peer will never take these bytes.
    """

    def sync_data(self, peer: str, datums: list[Datum], timeout_ms: int) -> Received:
        """Send datums to the peer; return its answer."""
        ...

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        """Send the peer the version text of each owned key, to real Nacos the checksum; return its answer."""
        ...

    def compare(self, peer: str, body: bytes, timeout_ms: int) -> bytes:
        """Send a peer of our kind one message of a round that compares digests, of all types; return its answer."""
        ...

    def query(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> list[Datum]:
        """The peer's datums of these keys; keys that it does not know are left out."""
        ...

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | Mapping[str, Version] | None:
        """Return all datums of the peer; or the versions of all its keys, if it gives the datums in pages.

        None if the peer is itself loading.
        """
        ...

    def page(self, peer: str, keys: Sequence[str], timeout_ms: int) -> Page:
        """Return the peer's datums of the first of these keys, as many as fit a page, after ``load`` gave versions."""
        ...

    def close(self) -> None:
        """End the calls under way, and fail all later ones. May be called twice, from any thread."""
        ...


Done = Callable[[Received | TransportError], None]
"""Called once with the result of a call, from any thread."""


class DistroCallbackAgent(Protocol):
    """Calls to one peer that return at once, and call ``done`` with the result within ``timeout_ms``."""

    sends_small: bool
    """True if ``start_small_sync`` may send anything: else nothing is read for it."""

    def takes(self, peer: str) -> bool:
        """Return whether this agent can call the peer now."""
        ...

    def start_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> None:
        """As ``DistroTransportAgent.sync_data``."""
        ...

    def start_small_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> bool:
        """As ``start_sync``, if the call is short and blocks nowhere. Otherwise send nothing and return False."""
        ...

    def start_verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int, done: Done) -> None:
        """As ``DistroTransportAgent.verify``."""
        ...


class MemberAgent(Protocol):
    """Carries reports between members."""

    def report(self, peer: str, timeout_ms: int) -> PeerReport:
        """Send the peer this node's report; return the peer's description of itself.

        Raises:
            TransportError: refused, late, or no answer of a member.
        """
        ...


@dataclass(frozen=True, slots=True)
class Component:
    """All that one resource type brings."""

    store: DistroStore
    codec: DatumCodec
    agent: DistroTransportAgent
    callbacks: DistroCallbackAgent | None = None
    """Used in place of ``agent`` for sends and verify rounds, for the peers that it takes."""
    taken_by: frozenset[MemberKind] = frozenset({MemberKind.OWN, MemberKind.NACOS_1})
    """The kinds of members that get this type. Its keys are spread over Rollcall members, and over members of
    Nacos 1.4 if these take it. A type that Rollcall members do not take is never loaded."""
    needs: str = ""
    """The capability that a member must have to get this type; empty for none."""
    owned_by_writer: bool = False
    """Each key belongs for ever to the member that wrote it first, which is the store's tag, and is never claimed.

    The owner sends keys that fail in a verify round to that peer at once; no member fetches them.
    """
    on_verified: Callable[[Collection[str], int], None] | None = None
    """Called with the keys that a verify round found as their owner has them, and the monotonic ms."""
    on_compared: Callable[[Collection[str], Collection[str], int], None] | None = None
    """Called with members whose keys are held here as there, the keys that are excepted, and the monotonic ms."""
    on_verify_failed: Callable[[str, str], None] | None = None
    """Called with a key of this member, and the peer that does not hold it in its present state."""
    deltas: DeltaStore | None = None
    """None for a type whose datums are always whole."""
    digest: KeyDigest = field(init=False)
    """The digest of the store's keys."""
    is_of_all_kinds: bool = field(init=False)
    """True if its keys are spread over members of Nacos 1.4, too."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", KeyDigest(self.store))
        object.__setattr__(self, "is_of_all_kinds", MemberKind.NACOS_1 in self.taken_by)


Components = Mapping[str, Component]


class DistroObserver:
    """Hears of each decision, on the thread that made it. This base class does nothing.

    A subclass must neither block nor raise. A node never has one: the simulation does, for its transcript.
    """

    def decided(
        self, key: DistroKey, sender: str, received: Version, stored: Version | None, rule: str, reason: str, done: str
    ) -> None:
        """Hear the decision on a datum that the sender sent, or that was fetched from it.

        ``rule`` as in replication.md.
        """

    def had(self, resource_type: str, received: Mapping[str, Version], stored: Mapping[str, Version]) -> None:
        """Hear that datums of these stored keys brought nothing new, though some have earlier versions (R3)."""

    def compared(self, resource_type: str, source: str, equal: int, wanted: Collection[str], answer: Received) -> None:
        """Hear how a verify round of the source ended: the equal keys, the keys to fetch, and the answer."""

    def fetches(self, peer: str, keys: Collection[str], rule: str, reason: str) -> None:
        """Hear that these keys, if any, are to be fetched from the peer, which has states that this node lacks."""

    def forgot(self, key: DistroKey, reason: str) -> None:
        """Hear that a key was dropped because a peer, or every peer, no longer holds it (R6)."""


NO_OBSERVER = DistroObserver()
