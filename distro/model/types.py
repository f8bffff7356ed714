"""The values that the engine passes around: keys, versions, members, and the calls to make. All are immutable."""

import enum
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from distro.model.errors import CodecError

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a dataclass with slots whose fields are frozen for the type checker only.

    A dataclass that is frozen at run time stores each field by a call: an instance of a service, with twelve fields,
    takes 2.3 microseconds to make instead of 0.4.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


@dataclass_transform(frozen_default=True, order_default=True)
def ordered_value(cls: type[T]) -> type[T]:
    """Make a class as ``value`` does, whose objects compare by their fields in order."""
    return dataclass(slots=True, order=True, unsafe_hash=True)(cls)


@ordered_value
class Version:
    """The place of a datum, or of one of its parts, in the order of a key's changes (R1).

    ``epoch`` rises when another writer takes the key over, ``counter`` with every change by one writer. ``writer``
    names one run of one member (``address~run``): a member that restarts without its memory never gives a version of
    its former run to a different state.

    Text form on the wire: ``epoch.counter.writer``.
    """

    epoch: int
    counter: int
    writer: str

    def next(self, writer: str) -> "Version":
        """Return the version of a change by ``writer``: its own next counter, or a new epoch (a claim)."""
        if self.writer == writer:
            return Version(self.epoch, self.counter + 1, writer)
        return self.next_epoch(writer)

    def next_epoch(self, writer: str) -> "Version":
        """Return the version of a claim by ``writer``, above all versions that any writer gives in this epoch."""
        return Version(self.epoch + 1, 0, writer)

    def has_had(self, other: "Version") -> bool:
        """Return whether a state of this version is that of ``other``, or a later one of the same writer (R3)."""
        if self.writer != other.writer:
            return False
        return self.counter >= other.counter if self.epoch == other.epoch else self.epoch > other.epoch

    def has_room(self) -> bool:
        """Return whether a member can start with it: others accept it and the versions that follow it (R10)."""
        return self.epoch <= KEPT_EPOCH_MAX and self.counter <= ACCEPTED_MAX

    def to_text(self) -> str:
        """Return the wire form."""
        return f"{self.epoch}.{self.counter}.{self.writer}"

    def beside(self, text: object) -> "Version":
        """Return the version of a wire form as ``from_text``, at half its cost if it has this one's epoch and writer.

        Raises:
            CodecError: as ``from_text``.
        """
        head, tail = f"{self.epoch}.", f".{self.writer}"
        if type(text) is str and self.writer and text.startswith(head) and text.endswith(tail):
            counter = text[len(head) : -len(tail)]
            if counter.isdecimal() and counter.isascii() and len(counter) < VERSION_DIGITS_MAX:
                return Version(self.epoch, int(counter), self.writer)
        return Version.from_text(text)

    @classmethod
    def from_text(cls, text: object) -> "Version":
        """Return the version of a wire form.

        Raises:
            CodecError: it is not a text, a part is missing, or a part is beyond its bound (R10).
        """
        if not isinstance(text, str):
            raise CodecError(f"a version is a text, not {type(text).__name__}")
        epoch, _, rest = text.partition(".")
        counter, _, writer = rest.partition(".")
        # Nearly every version has this form, and one is read for each change that arrives.
        if (
            epoch.isdecimal()
            and counter.isdecimal()
            and text.isascii()
            and len(epoch) < VERSION_DIGITS_MAX > len(counter)
            and writer.isprintable()
            and 0 < len(writer) <= WRITER_CHARS_MAX
        ):
            return cls(int(epoch), int(counter), writer)
        # isdecimal() also takes digits of other scripts, and int() of a very long text is refused by Python itself.
        if not (epoch.isascii() and epoch.isdecimal() and counter.isascii() and counter.isdecimal() and writer):
            raise CodecError(f"not a version: {text[:80]!r}")
        if max(len(epoch), len(counter)) > VERSION_DIGITS_MAX or max(int(epoch), int(counter)) > VERSION_NUMBER_MAX:
            raise CodecError(f"a number of this version is above {VERSION_NUMBER_MAX}: {text[:80]!r}")
        if len(writer) > WRITER_CHARS_MAX or not writer.isprintable():
            raise CodecError(
                f"the writer of a version has at most {WRITER_CHARS_MAX} printable characters: {text[:80]!r}"
            )
        return cls(int(epoch), int(counter), writer)


VERSION_NUMBER_MAX = 2**53
"""The highest epoch and counter (R10): far above all that members ever count to."""
ACCEPTED_MAX = VERSION_NUMBER_MAX - 2**32
"""The highest epoch and counter that are accepted at all, so that each has successors that every member can read."""
KEPT_EPOCH_MAX = 2**36
"""The highest epoch that a starting node takes from its file: a claim adds one. No other member would accept a higher
one within half an hour, as each fetch brings a member that knows only low epochs at most 2^28 nearer."""
VERSION_DIGITS_MAX = len(str(VERSION_NUMBER_MAX))
WRITER_CHARS_MAX = 200
NO_VERSION = Version(0, 0, "")
"""Below all others: the version of an unknown key, and of a datum from real Nacos, which sends no versions (R8)."""


class DataOperation(enum.Enum):
    """The operations of a Distro request over gRPC. Source: Nacos 2.x DataOperation."""

    ADD = "ADD"
    CHANGE = "CHANGE"
    DELETE = "DELETE"
    VERIFY = "VERIFY"
    SNAPSHOT = "SNAPSHOT"
    QUERY = "QUERY"


class DistroKey(NamedTuple):
    """A key of one resource type. The type determines its store, codec and transport agent.

    (A tuple: each change is looked up under its key a dozen times, and a tuple's hash needs no function in Python.)
    """

    resource_type: str
    key: str


@value
class Datum:
    """One key's whole state as it travels. ``value`` belongs to the resource type's codec and store."""

    key: str
    version: Version
    """``NO_VERSION`` from a member that keeps none (real Nacos 1.4)."""
    value: Any
    base: Version | None = None
    """The version that a delta (R5) builds on; None for a whole state.

    If the base has the same epoch and writer, ``value`` has only the parts that changed after it, in their last state.
    If the base has another writer, whose state was claimed, nothing in it changed, and ``value`` is a digest of it.
    """

    @property
    def is_claim(self) -> bool:
        """True if the delta says only that the state of its base was claimed (R2)."""
        return self.base is not None and self.base.writer != self.version.writer


@dataclass(frozen=True, slots=True)
class Page:
    """A bounded part of a snapshot: the first of the keys that were asked for, or all of them."""

    datums: list[Datum]
    keys: tuple[str, ...]
    """All keys that the page covers, including those whose datum cannot be read. Of the requested keys up to the last
    of these, the peer has no others."""


class MemberState(enum.Enum):
    """The state of a member in the eyes of this node. Source: Nacos 1.4 NodeState."""

    STARTING = "STARTING"
    """It answers, but is still loading and carries no keys."""
    UP = "UP"
    SUSPICIOUS = "SUSPICIOUS"
    """The last report to it failed. It still carries its keys and still receives changes."""
    DOWN = "DOWN"
    """Silent for too long, refused, leaving, or never reached: it carries no keys and gets only reports."""


class MemberKind(enum.Enum):
    """The software that a member runs: it decides which resource types the member gets."""

    OWN = "own"
    """This software: it keeps versions."""
    NACOS_1 = "nacos-1"
    """Real Nacos before 2.0, and every member that has not reported yet."""
    NACOS_2 = "nacos-2"
    """Real Nacos since 2.0."""


@dataclass(frozen=True, slots=True)
class Member:
    """An entry of the member list as this node sees it; ``address`` (``ip:port``) is its identity."""

    address: str
    state: MemberState
    capabilities: frozenset[str] = frozenset()
    """The ``CAPABILITY_...`` names in its last report. For real Nacos they follow from its release."""
    extend_info: Mapping[str, Any] = field(default_factory=dict)
    """The field ``extendInfo`` of its last report, as it came."""
    fail_access_count: int = 0
    """Reports to it that failed since it was last UP."""

    @property
    def ip(self) -> str:
        """The host of the address; IPv6 without brackets."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self.address.rpartition(":")[2])

    @property
    def kind(self) -> MemberKind:
        """The kind that its capabilities show."""
        if CAPABILITY_VERSIONS in self.capabilities:
            return MemberKind.OWN
        return MemberKind.NACOS_2 if CAPABILITY_CLIENTS_ONLY in self.capabilities else MemberKind.NACOS_1


CAPABILITY_VERSIONS = "versions"
"""The member keeps versions by the rules R1 to R6: it is a Rollcall member."""
CAPABILITY_GZIP = "gzip"
"""The member takes gzip bodies; real Nacos answers 500 to them."""
CAPABILITY_WRITES = "writes"
"""The member takes forwarded calls in a pipeline, returns the change that a call made, and takes batches of beats."""

CAPABILITY_SIGNED = "signed"
"""The member has an identity, signs its calls, and reads signatures."""
CAPABILITY_DIGESTS = "digests"
"""The member compares digests of all keys in verify rounds; follows from its wire version."""
CAPABILITY_DELTAS = "deltas"
"""The member takes deltas of a datum (R5); follows from its wire version."""
CAPABILITY_CLAIMS = "claims"
"""The member takes a claim as a delta (R5); follows from its wire version."""
CAPABILITY_WRITE_BATCHES = "write-batches"
"""The member takes several forwarded writes of clients in one call; follows from its wire version."""
CAPABILITY_OVERRIDES = "overrides"
"""The member keeps operators' changes of instances as records; follows from its wire version."""
CAPABILITY_HTTP_V3 = "http-v3"
"""The member answers calls of HTTP v3; follows from its wire version."""
CAPABILITY_LINKS = "links"
"""The member takes instances of linked clusters as a resource type; follows from its wire version."""
WIRE_VERSION = 6
"""The version of the messages between our own members; each report names it. A report without one means version 1."""
SINCE_WIRE_VERSION: Mapping[int, frozenset[str]] = {
    2: frozenset({CAPABILITY_DIGESTS, CAPABILITY_DELTAS}),
    3: frozenset({CAPABILITY_CLAIMS}),
    4: frozenset({CAPABILITY_WRITE_BATCHES}),
    5: frozenset({CAPABILITY_OVERRIDES, CAPABILITY_HTTP_V3}),
    6: frozenset({CAPABILITY_LINKS}),
}
"""The capabilities that follow from a wire version, and that a member therefore does not name."""
CAPABILITY_CLIENTS_ONLY = "clients-only"
"""Real Nacos since 2.0: of our resource types it takes only clients, over gRPC."""


@dataclass(frozen=True, slots=True)
class PeerReport:
    """A member's description of itself, from its report or from its answer to ours."""

    address: str
    state: MemberState
    capabilities: frozenset[str] = frozenset()
    extend_info: Mapping[str, Any] = field(default_factory=dict)
    view: tuple[str, ...] = ()
    """The members that carry keys in its view. Empty from real Nacos, and from a member that has not loaded."""
    rejoin_delay_ms: int = 0
    """For how long the reporting member itself will not carry keys."""
    imposed_rejoin_delay_ms: int = 0
    """For how long the receiver of the report shall not carry keys."""
    writer: str = ""
    """The ``Version.writer`` of the reporting member's run; empty from real Nacos."""
    clock_ms: int | None = None
    """The reporting member's clock when it made the report (R13); None from a member that names none."""
    calls: Mapping[str, int] | None = None
    """For how long each peer has not answered the reporting member's calls, in ms; 0 if it answers (R12).

    None from a member that does not report it.
    """
    heard: Mapping[str, "HeardOf"] = field(default_factory=dict)
    """The last contacts that the reporting member had with other Rollcall members (R12), by address."""
    served: bool = False
    """True if the reporting member's run wrote keys: it has more than it loaded from others (R16)."""
    waiting: Mapping[str, Mapping[str, Version]] = field(default_factory=dict)
    """The versions of keys that the reporting member could not send to the receiver (R12), by resource type and key."""
    beats: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Ages in ms of the beats that it could not send to the receiver (R12), by datum and instance key."""
    beats_wait_ms: int | None = None
    """For how long the oldest beat that the receiver lacks has waited at the reporting member; None if not reported."""
    beats_refused_ms: int | None = None
    """How long ago the reporting member last refused a beat on purpose; None if not reported, or long ago."""
    draining: bool = False
    """It hands its keys over, and carries none until it revokes this. Unlike a leaving member, its run continues."""


@dataclass(frozen=True, slots=True)
class HeardOf:
    """One member's last news of another, however it arrived."""

    age_ms: int
    """How long ago the other member sent it."""
    calls: Mapping[str, int]
    """As ``PeerReport.calls``, at that time."""


class Resolution(enum.Enum):
    """The answer of ``resolve``: how to handle a received datum."""

    APPLY = "apply"
    """Replace the stored state by the datum."""
    TAKE_OVER = "take over"
    """Replace the stored state if the datum contains each of its changes; otherwise refuse the datum."""
    MERGE = "merge"
    """Merge datum and stored state part by part; a state that neither side had gets a version above both."""
    FETCH = "fetch"
    """Query the sender for its current state of the key, and merge that."""
    EQUAL = "equal"
    """The version is the stored one already: nothing to do."""
    REFUSE = "refuse"
    """The datum is older: keep the stored state, and answer its version."""


class Merged(enum.Enum):
    """How a merge of a received datum with the stored state ended (R4)."""

    NOTHING = "nothing"
    """The stored state had every change of the datum, and stays."""
    TAKEN = "taken"
    """The datum had every stored change, and replaced the stored state under its own version."""
    MADE = "made"
    """Each side had a change that the other lacked: a new state under a new version of this node."""


@value
class Received:
    """A member's answer to datums, and to the versions of a verify round."""

    refused: Mapping[str, Version] = field(default_factory=dict)
    """Keys that the answering member has in a state that the sender lacks, with its version of each."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Keys that could not be read or stored, with the reason."""
    wanted: tuple[str, ...] = ()
    """Keys that the answering member lacks, or has in an older state: the sender is to send them. From a verify round,
    or from deltas whose base is missing here (R5), which are to be sent whole."""
    ages_ms: Mapping[str, float | None] = field(default_factory=dict)
    """How long before its answer the answering member applied a datum, in ms; None if it has not applied it yet.

    Datums that are not named were applied just then. A member that does not report ages names none.
    """
    pushed_ms: Mapping[str, float] = field(default_factory=dict)
    """How many ms after it applied a datum, of this send or an earlier one, it pushed it to its subscribers."""
    fetching: int | None = None
    """The number of keys of a verify round that the answering member will fetch; None if it does not report it."""


class Outcome(enum.Enum):
    """How a call to a peer ended."""

    DELIVERED = "delivered"
    """The peer answered with success."""
    REJECTED = "rejected"
    """The peer answered that the request is wrong. Repeating the same bytes is useless."""
    FORBIDDEN = "forbidden"
    """The peer takes no calls of this member, which may not be in its list yet."""
    REFUSED = "refused"
    """The connection was refused: no process listens at the address."""
    FAILED = "failed"
    """A time-out, a broken connection, or an error of the peer."""


# --- actions: what the protocol asks its runtime to do, each one call to one peer by ``deadline_ms`` (monotonic)


@dataclass(frozen=True, slots=True)
class KeysCall:
    """A call about keys of one resource type."""

    peer: str
    resource_type: str
    keys: tuple[str, ...]
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class SyncData(KeysCall):
    """Send the peer the datums of these keys, as they are when the call is made, whole or as deltas (R5)."""

    relayed: frozenset[str] = frozenset()
    """The members of which this node passes on what they wrote, as they cannot reach the peer (R12)."""
    passed_on: Mapping[str, Version] = field(default_factory=dict, hash=False)
    """Keys with states of other writers that the peer may get until this node claims them (R16)."""
    turn: int = field(default=0, compare=False)
    """The engine's turn that made the call. What is read for one peer serves the others of that turn; 0: none."""


@dataclass(frozen=True, slots=True)
class Verify(KeysCall):
    """Send the peer the version of each of these keys, to compare with its own.

    To real Nacos, checksums of all own keys.
    """


@dataclass(frozen=True, slots=True)
class Compare:
    """Run a verify round with a peer that compares digests: of all keys of these resource types together."""

    peer: str
    resource_types: tuple[str, ...]
    relayed: frozenset[str]
    """The members whose writes this node relays, as they cannot reach the peer (R12)."""
    sampled: range
    """The leaves whose contents are compared, too."""
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class DigestFindings:
    """The findings of a round that compared digests, for one resource type."""

    received: Received
    """The peer's answer to the versions that it was sent."""
    told: int = 0
    """How many versions it was sent."""
    pending: frozenset[str] = frozenset()
    """Keys that were not compared because they were about to be sent."""
    is_whole: bool = True
    """True if every difference was compared."""
    agreed: tuple[str, ...] = ()
    """Forgettable keys that this node wrote and owns, and of which the peer has no other state (R6)."""


@dataclass(frozen=True, slots=True)
class Query(KeysCall):
    """Fetch the datums of these keys from the peer, and receive them."""


@dataclass(frozen=True, slots=True)
class Load:
    """Fetch all datums of one resource type from the peer: a snapshot, while this node loads (R7)."""

    peer: str
    resource_type: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Report:
    """Send the peer this node's report on itself."""

    peer: str
    deadline_ms: int


DataCall = SyncData | Verify | Compare | Query | Load
Call = DataCall | Report


# --- actions that call no peer: work that would hold up the protocol's thread (R11)


@dataclass(frozen=True, slots=True)
class Claim:
    """Become the writer of keys that belong to this node (R2): a few of the keys that are still to examine."""

    view_since_ms: int
    """The view that decides on claims."""
    keys: tuple[DistroKey, ...]
    """Single keys to examine in addition."""
    all_keys: bool
    """True to begin again with all keys, because the view changed."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop keys that all peers agreed to forget (R6)."""

    keys: tuple[DistroKey, ...]


@dataclass(frozen=True, slots=True)
class FinishLoad:
    """End a load (R7): drop the keys that no peer has any more, and add those that only the own disk has."""

    known: Mapping[str, Sequence[Set[str]]] | None
    """For each resource type that peers gave, the keys of each snapshot. None in a first load, which drops nothing."""


@dataclass(frozen=True, slots=True)
class RefreshDigests:
    """Bring the digests of all keys up to date, so that few changes stay noted for them."""


LocalAction = Claim | Forget | FinishLoad | RefreshDigests
Action = Call | LocalAction
