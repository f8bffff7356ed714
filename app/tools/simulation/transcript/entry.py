"""Entry: one event of a world."""

import enum
from dataclasses import dataclass
from typing import Protocol


class What(enum.Enum):
    """The kind of an event; the transcript shows the value."""

    WRITE = "write"
    """A client calls a member, or a member executes such a call."""
    ANSWER = "answer"
    """A client gets an answer."""
    SEND = "send"
    """A member sends datums to a peer."""
    DECIDE = "decide"
    """A member decides on a datum that it got, by a rule."""
    VERIFY = "verify"
    """A member compares its keys with a peer's."""
    FETCH = "fetch"
    """A member asks a peer for datums."""
    LOAD = "load"
    """A member that starts takes all that its peers hold."""
    CLAIM = "claim"
    """A member becomes the writer of keys."""
    FORGET = "forget"
    """A member drops an empty key."""
    HEALTH = "health"
    """A check of beats or of an instance changes something."""
    LIST = "list"
    """The list that a member shows to its readers changes."""
    LOST = "lost"
    """A message that does not arrive, or arrives late or twice; a call without an answer."""
    FAULT = "fault"
    """Something goes wrong, as planned, or ends."""
    STATE = "state"
    """A member starts, is UP, pauses, or sees other members than before."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event. Addresses, keys and versions are whole: the writer of an entry shortens them."""

    at_ms: int
    """The virtual time since the world began."""
    what: What
    who: str
    """The address of the member, or the name of the client, that does it."""
    text: str
    peer: str = ""
    """The other end."""
    incoming: bool = False
    """True if it comes from the peer; false if it goes there."""
    keys: tuple[str, ...] = ()
    """The datums that it is about, ``KEYS_MAX`` at most."""
    rule: str = ""
    """The rule that decides, as docs/replication.md numbers it."""
    minor: bool = False
    """True for frequent events: beats, and rounds in which nothing differs."""


KEYS_MAX = 50
"""The most keys that an event keeps."""


class Trace(Protocol):
    """Writes down an event of a world now, see ``Entry``; without a recorder it does nothing."""

    def __call__(
        self,
        who: str,
        text: str,
        what: What = ...,
        *,
        peer: str = ...,
        incoming: bool = ...,
        keys: tuple[str, ...] = ...,
        rule: str = ...,
        minor: bool = ...,
    ) -> None: ...
