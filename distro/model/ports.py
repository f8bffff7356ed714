"""What the engine needs from outside, as Protocols. A resource type brings its store, codec and agent."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from distro.model.digest import KeyDigest
from distro.model.errors import TransportError
from distro.model.types import Datum, MemberKind, Merged, Page, PeerReport, Received, Version


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

    def all_keys(self) -> list[str]:
        """All keys, in one step, some perhaps without a version: for a pass that looks at each in its own time."""
        ...

    def highest_own(self) -> Version:
        """The highest version that this run gave to any key, forgotten ones too; ``NO_VERSION`` before the first."""
        ...

    def pop_changed(self) -> str | None:
        """Take one of the keys whose version changed, came or went since it was last taken; None without any.

        A key is in there once its change is whole, and costs the change next to nothing.
        """
        ...

    def is_empty(self, key: str) -> bool:
        """Whether a key holds nothing but removals; no other one can be forgettable (R6)."""
        ...

    def content(self, key: str) -> tuple[Version, int] | None:
        """The version stored, and 64 bits for all that a member must have under it; None for an unknown key.

        It may be None, too, of a key whose content members cannot compare now.
        """
        ...

    def tag(self, key: str) -> str:
        """What DistroMapper hashes for this key."""
        ...

    def datums(self, keys: Iterable[str]) -> Iterable[Datum]:
        """Today's datums of those keys that are known."""
        ...

    def grouped(self, keys: Collection[str]) -> AbstractContextManager[None]:
        """Store what ``apply`` and ``merge`` take of these keys within it together, at its end, if a disk keeps it.

        Raises:
            CodecError: at its end, the disk did not take it; nothing of it is stored.
        """
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

        Under a version of this run above the stored one, which this run did not give (R10): the state gets a new epoch
        above that. What is unknown here is then gone.

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

    def forget_all(self, keys: Collection[str], now_ms: int) -> int:
        """Drop those of these keys that are forgettable, as ``forget`` does; return how many that were.

        On a disk in one step. No key is dropped that is written meanwhile.
        """
        ...


class DeltaStore(Protocol):
    """What a store of a resource type has besides whose changes travel alone (R5). For any thread."""

    def delta(self, key: str, base: Version) -> Datum | None:
        """What this run changed after ``base``, at a cost of that alone; None when that is not known, or is nothing."""
        ...

    def claim_delta(self, key: str) -> Datum | None:
        """The claim of a state that another wrote, as a delta of that; None where this run changed it since."""
        ...

    def apply_delta(self, datum: Datum, now_ms: int) -> bool:
        """Apply a peer's delta, all of it, if the state stored is its base or one between it and its version."""
        ...


class DatumCodec(Protocol):
    """The JSON value inside a datum of one resource type."""

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        """The datum's JSON object, whole or a delta; without our own fields when not ``versioned``."""
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

    def compare(self, peer: str, body: bytes, timeout_ms: int) -> bytes:
        """Send a peer of our kind one message of a round that compares digests, of all types; return its answer."""
        ...

    def query(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> list[Datum]:
        """The peer's datums of these keys; keys that it does not know are left out."""
        ...

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | Mapping[str, Version] | None:
        """All the peer's datums; the versions of all its keys, if it gives the datums in pages.

        None when it has none because it is itself loading.
        """
        ...

    def page(self, peer: str, keys: Sequence[str], timeout_ms: int) -> Page:
        """The peer's datums of the first of these keys, as many as a page holds; asked of who told versions."""
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

    def start_small_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> bool:
        """As ``start_sync``, if that takes a moment and waits for nothing; False, with nothing sent, if it does not."""
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
    on_compared: Callable[[Collection[str], Collection[str], int], None] | None = None
    """Called with members of which all keys are held as there, but for some keys, with these, and the monotonic ms."""
    on_verify_failed: Callable[[str, str], None] | None = None
    """Called with a key of this member, and the peer that does not hold it as it is."""
    deltas: DeltaStore | None = None
    """None for a type whose datums are always whole."""
    digest: KeyDigest = field(init=False)
    """Of the store's keys."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", KeyDigest(self.store))


Components = Mapping[str, Component]
