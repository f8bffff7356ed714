"""The values that the engine passes around. All are immutable and hold no behaviour beyond ordering and naming."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from distro.errors import CodecError
from distro.value import ordered_value


@ordered_value
class Version:
    """Where a datum or one of its parts stands in the order of changes.

    ``epoch`` rises when another writer takes the key over, ``counter`` with every change of one writer. ``writer``
    names one run of one member (``address~run``), so that a member which restarts without its memory never makes a
    second, different datum of a version that it gave out before.

    Text form on the wire: ``epoch.counter.writer``.
    """

    epoch: int
    counter: int
    writer: str

    def next(self, writer: str) -> "Version":
        """The version of a change made by ``writer``: the next count of its own epoch, or a new epoch (a claim)."""
        if self.writer == writer:
            return Version(self.epoch, self.counter + 1, writer)
        return Version(self.epoch + 1, 0, writer)

    def to_text(self) -> str:
        return f"{self.epoch}.{self.counter}.{self.writer}"

    @classmethod
    def from_text(cls, text: object) -> "Version":
        """Parse the wire form.

        Raises:
            CodecError: not a version.
        """
        if not isinstance(text, str):
            raise CodecError(f"a version is a text, not {type(text).__name__}")
        epoch, _, rest = text.partition(".")
        counter, _, writer = rest.partition(".")
        # isdecimal() also takes digits of other scripts, and int() of a very long text is refused by Python itself.
        if not (epoch.isascii() and epoch.isdecimal() and counter.isascii() and counter.isdecimal() and writer):
            raise CodecError(f"not a version: {text[:80]!r}")
        if len(epoch) > VERSION_DIGITS_MAX or len(counter) > VERSION_DIGITS_MAX:
            raise CodecError(f"a version's numbers have at most {VERSION_DIGITS_MAX} digits: {text[:80]!r}")
        return cls(int(epoch), int(counter), writer)


VERSION_DIGITS_MAX = 18
NO_VERSION = Version(0, 0, "")
"""Before every version: what is held of a key that is unknown, or came from a member that sends none."""


class DataOperation(enum.Enum):
    """What a transfer does with its keys. Source: Nacos 2.x DataOperation."""

    ADD = "ADD"
    CHANGE = "CHANGE"
    DELETE = "DELETE"
    VERIFY = "VERIFY"
    SNAPSHOT = "SNAPSHOT"
    QUERY = "QUERY"


@dataclass(frozen=True, slots=True)
class DistroKey:
    """A key of one resource type; the type finds its store, codec and transport agent."""

    resource_type: str
    key: str


@dataclass(frozen=True, slots=True)
class Datum:
    """One key's whole state as it travels. ``value`` belongs to the resource type's codec and store."""

    key: str
    version: Version
    """``NO_VERSION`` when the sender keeps none (real Nacos 1.4)."""
    value: Any


class MemberState(enum.Enum):
    """Source: Nacos 1.4 NodeState."""

    STARTING = "STARTING"
    UP = "UP"
    SUSPICIOUS = "SUSPICIOUS"
    DOWN = "DOWN"


class MemberKind(enum.Enum):
    """What a member is, as far as it decides which data it gets."""

    OWN = "own"
    """It keeps versions, and takes everything."""
    NACOS_1 = "nacos-1"
    """Real Nacos before 2.0, and whoever has not said yet what it is."""
    NACOS_2 = "nacos-2"
    """Real Nacos since 2.0."""


@dataclass(frozen=True, slots=True)
class Member:
    """An entry of the member list as this node sees it. ``address`` is ``ip:port``, and the identity."""

    address: str
    state: MemberState
    capabilities: frozenset[str] = frozenset()
    """What the member advertised in its report; empty for real Nacos."""
    extend_info: Mapping[str, Any] = field(default_factory=dict)
    fail_access_count: int = 0

    @property
    def ip(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def kind(self) -> MemberKind:
        if CAPABILITY_VERSIONS in self.capabilities:
            return MemberKind.OWN
        return MemberKind.NACOS_2 if CAPABILITY_CLIENTS_ONLY in self.capabilities else MemberKind.NACOS_1


CAPABILITY_VERSIONS = "versions"
"""The member keeps versions (R1-R6): it is of our own kind."""
CAPABILITY_GZIP = "gzip"
"""The member takes gzip bodies; real Nacos answers 500 to them."""
CAPABILITY_WRITES = "writes"
"""The member takes calls passed on to it in a pipeline, answers with what they changed, and takes batches of beats."""

CAPABILITY_CLIENTS_ONLY = "clients-only"
"""Real Nacos since 2.0: it takes clients, through its port for members, and nothing else of ours."""


@dataclass(frozen=True, slots=True)
class PeerReport:
    """What one report, or the answer to one, says of the member that made it."""

    address: str
    state: MemberState
    capabilities: frozenset[str] = frozenset()
    extend_info: Mapping[str, Any] = field(default_factory=dict)
    view: tuple[str, ...] = ()
    """The members that carry keys in its eyes; empty from real Nacos and before it loaded."""
    rejoin_delay_ms: int = 0
    """For how long it still carries no keys, by its own word."""
    imposed_rejoin_delay_ms: int = 0
    """For how long the receiver of this shall carry no keys."""
    writer: str = ""
    """The run of the member's process, as it stands in versions; empty from real Nacos."""


class Resolution(enum.Enum):
    """What to do with a received datum."""

    APPLY = "apply"
    """Take it as it is."""
    TAKE_OVER = "succeed"
    """Take it as it is if it knows of every change that is held here; else refuse it."""
    MERGE = "merge"
    """Bring both states together per part, under a version above both where they differ."""
    FETCH = "fetch"
    """Ask the sender for its state of today, and merge that."""
    EQUAL = "equal"
    REFUSE = "refuse"
    """It is older than what is held: answer the own version."""


class Merged(enum.Enum):
    """How a merge of a received datum with the held one ended."""

    NOTHING = "nothing"
    """All of it was known here."""
    TAKEN = "taken"
    """It knew all that was held here, and took its place, version and all."""
    MADE = "made"
    """Each knew what the other did not: there is a new state, written by this node."""


@dataclass(frozen=True, slots=True)
class Received:
    """What a member answers to datums, and to the versions of a verify round."""

    refused: Mapping[str, Version] = field(default_factory=dict)
    """Keys whose version here is higher, with that version."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Keys that could not be taken, with the reason."""
    wanted: tuple[str, ...] = ()
    """Keys of the sender that failed a verify round: unknown here, or held in an older state."""


class Outcome(enum.Enum):
    """How a call to a peer ended."""

    DELIVERED = "delivered"
    REJECTED = "rejected"
    """The peer says that the request is wrong; the same bytes will not do."""
    REFUSED = "refused"
    """Nobody listens at the address."""
    FAILED = "failed"
    """Time-out, a broken connection, or a failure of the peer."""


# --- actions: what the protocol asks its runtime to do, each one call to one peer ---------------


@dataclass(frozen=True, slots=True)
class SyncData:
    """Read the keys' datums now and send them."""

    peer: str
    resource_type: str
    keys: tuple[str, ...]
    deadline_ms: int
    operation: DataOperation = DataOperation.CHANGE


@dataclass(frozen=True, slots=True)
class Verify:
    """Tell the peer which version (or checksum, to real Nacos) each owned key has."""

    peer: str
    resource_type: str
    keys: tuple[str, ...]
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Query:
    """Fetch the datums of these keys from the peer, to be received like a sync."""

    peer: str
    resource_type: str
    keys: tuple[str, ...]
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Load:
    """Fetch everything that the peer holds."""

    peer: str
    resource_type: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the peer about this member."""

    peer: str
    deadline_ms: int


Action = SyncData | Verify | Query | Load | Report
