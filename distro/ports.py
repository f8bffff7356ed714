"""What the engine needs from outside, as Protocols. A resource type brings its store, codec and agent."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from distro.errors import TransportError
from distro.types import Datum, MemberKind, Merged, PeerReport, Received, Version


class Clock(Protocol):
    """The only source of time, in ms."""

    def monotonic_ms(self) -> int:
        """Time that never goes back, for deadlines and ages."""
        ...

    def boot_ms(self) -> int:
        """Time that never goes back, counts while the machine sleeps, and outlives the process; dates peers' calls."""
        ...

    def wall_ms(self) -> int:
        """Ms since 1970, for people and wire fields."""
        ...


class DistroStore(Protocol):
    """The datums of one resource type. Every call may come from any thread; each write is atomic for its key."""

    def version(self, key: str) -> Version | None:
        """The version stored, or None for an unknown key."""
        ...

    def versions(self) -> Mapping[str, Version]:
        """All keys with their versions: a copy."""
        ...

    def highest_own(self) -> Version:
        """The highest version that this run gave to any key, forgotten ones too; ``NO_VERSION`` before the first."""
        ...

    def tag(self, key: str) -> str:
        """What DistroMapper hashes for this key."""
        ...

    def datums(self, keys: Iterable[str]) -> Iterable[Datum]:
        """Today's datums of those keys that are known."""
        ...

    def is_covered(self, datum: Datum) -> bool:
        """Whether the datum knows of every change of its key that is stored here, by the versions of its parts."""
        ...

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        """Whether the key holds nothing but removals that are old enough to be forgotten (R6)."""
        ...

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        """Put a peer's datum in place of the stored one; False when that is no longer ``expected``: resolve again."""
        ...

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        """Bring a peer's datum and the stored state together per part, newer wins.

        A state that neither side had gets a version above both, written by this node; each of its parts is then at
        least as new as on either side, so that both take it.
        """
        ...

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        """Give this node's state the next version if a peer holds other values under the stored one; return whether.

        ``restoring``: before that, take the parts of the peer's state of which nothing is known here.
        """
        ...

    def claim_all(self, keys: Collection[str], now_ms: int) -> list[str]:
        """Become the writer of keys and restart their deadlines (R2); return those that another wrote before.

        What readers see stays, so nobody is told of it (R11).
        """
        ...

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        """Drop a spent key; with ``absent``, one that is not spent but that its owner or all peers hold no more."""
        ...


class DatumCodec(Protocol):
    """The JSON value inside a datum of one resource type."""

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        """The datum's JSON object; without our own fields when not ``versioned``."""
        ...

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int) -> Datum:
        """The datum of a JSON object.

        Raises:
            CodecError: a field is missing or of another type; the text names it.
        """
        ...

    def checksum(self, datum: Datum) -> str:
        """What real Nacos compares in its verify rounds."""
        ...


class DistroTransportAgent(Protocol):
    """Blocking calls to one peer. Each ends within ``timeout_ms``, even if bytes go on coming one by one.

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

    def query(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> list[Datum]:
        """The peer's datums of these keys; keys that it does not know are left out."""
        ...

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | None:
        """All the peer's datums; None when it has none because it is itself loading."""
        ...

    def close(self) -> None:
        """End the calls under way, and fail all later ones. May be called twice, from any thread."""
        ...


Done = Callable[[Received | TransportError], None]
"""Called once with the result of a call, from any thread."""


class DistroCallbackAgent(Protocol):
    """Calls to one peer that return at once, and call ``done`` with the result within ``timeout_ms``."""

    def takes(self, peer: str) -> bool:
        """Whether this agent can call the peer now."""
        ...

    def start_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> None:
        """As ``DistroTransportAgent.sync_data``."""
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
    """Taken in place of ``agent`` for sends and verify rounds, to peers that it takes."""
    taken_by: frozenset[MemberKind] = frozenset({MemberKind.OWN, MemberKind.NACOS_1})
    """The members that are told of it. Its keys are spread over those of our own kind, and over those of Nacos 1.4
    where these take it; a type that our own kind does not take is loaded from nobody."""
    owned_by_writer: bool = False
    """Each key belongs for ever to the member that wrote it first, which is the store's tag; nobody claims it.

    What fails in a verify round is sent by its owner at once, to that peer; nobody fetches it.
    """
    on_verified: Callable[[Collection[str], int], None] | None = None
    """Called with the keys that are held as their owner says in a verify round, and the monotonic ms."""
    on_verify_failed: Callable[[str, str], None] | None = None
    """Called with a key of this member, and the peer that does not hold it as it is."""


Components = Mapping[str, Component]
