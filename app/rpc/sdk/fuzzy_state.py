"""The state of fuzzy watches: of namespaces, of patterns, and of clients with their waiting messages."""

from dataclasses import dataclass, field

from app.naming.clients.client_model import ServiceKey
from app.rpc.server.fuzzy_pattern import FuzzyPattern

BATCH_NAMES = 100
"""The services in one message of a list. Nacos has 10, and sends them all at once; here each follows an answer."""


@dataclass(slots=True, eq=False)
class WatchedPattern:
    """A pattern with its watchers, and the number of services that it matches."""

    pattern: FuzzyPattern
    watchers: "dict[str, WatchingClient]" = field(default_factory=dict)
    counted: int = 0
    """The number of matching services by the last count."""
    moves: int = 0
    """The services that came since the pattern was first watched, without those that went."""

    @property
    def count(self) -> int:
        """The services that match now."""
        return self.counted + self.moves

    def set_count(self, found: int, moves: int) -> None:
        """Take a count of the services. ``moves``: the number as it was when the count began."""
        self.counted = found - moves


@dataclass(slots=True, eq=False)
class WatchedNamespace:
    """A namespace that is watched: its services with instances, and the patterns."""

    name: str
    patterns: dict[str, WatchedPattern] = field(default_factory=dict)
    present: set[str] | None = None
    """The full names of the services that have an instance; None until they are read."""
    early: dict[str, None] = field(default_factory=dict)
    """Services that changed before the names were read."""


@dataclass(slots=True, eq=False)
class ServiceNames:
    """The services that a client is to be sent of one pattern, in batches, each after the answer to the one before."""

    pattern: FuzzyPattern
    is_first: bool
    """True if the client has no list yet, and waits for the message that ends it."""
    names: list[str]
    known_from: int
    """The index of the first service that the client takes to be there while it is gone; those before are new to it."""
    at: int = 0
    """The names that are sent and acknowledged."""
    sends: int = 0
    """The sends of the next batch so far."""

    @property
    def is_over(self) -> bool:
        return self.at >= len(self.names) and not self.is_first

    @property
    def total(self) -> int:
        """The number of batches."""
        return -(-len(self.names) // BATCH_NAMES)

    @property
    def number(self) -> int:
        """The number of the next batch; the first is 1."""
        return self.at // BATCH_NAMES + 1


@dataclass(slots=True, eq=False)
class WatchingClient:
    """A client with fuzzy watches, and what waits for it."""

    client_id: str
    patterns: dict[str, tuple[WatchedNamespace, WatchedPattern]] = field(default_factory=dict)
    lists: dict[str, ServiceNames] = field(default_factory=dict)
    """The lists to send, by pattern."""
    changed: dict[ServiceKey, int] = field(default_factory=dict)
    """The services that came or went, with the number of sends so far."""
    sent: "dict[str, Sent]" = field(default_factory=dict)
    """The messages without acknowledgement, by request id."""
    list_sent: bool = False
    """True if one of them is of a list."""


@dataclass(slots=True, eq=False)
class Sent:
    """A message to a client: of one service that came or went, or the next batch of a list."""

    watcher: WatchingClient
    key: ServiceKey | None
    batch: ServiceNames | None
    sends: int
    request_id: str = ""
    due_ms: int = 0
    """When its acknowledgement counts as lost."""


@dataclass(slots=True)
class FuzzyStats:
    """Counts since the start."""

    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    timed_out: int = 0
    given_up: int = 0
    """Messages that were not acknowledged after all their sends."""
    patterns_over: int = 0
    """Watches that were refused, as there were too many patterns."""
    matches_over: int = 0
    """Watches whose clients learned that more services match than they are shown."""
    dropped: int = 0
    """Changes that were not sent, as too many waited, or more services matched than may be shown."""
