"""Entry: one event of a world."""

import enum
from dataclasses import dataclass


class What(enum.Enum):
    """Of what kind an event is; the value stands in the transcript."""

    WRITE = "write"
    """A client calls a member, or a member executes such a call."""
    ANSWER = "answer"
    """What a client was told."""
    SEND = "send"
    """A member sends datums to a peer."""
    DECIDE = "decide"
    """What a member makes of a datum that it got, and by which rule."""
    VERIFY = "verify"
    """A member compares its keys with a peer's."""
    FETCH = "fetch"
    """A member asks a peer for datums."""
    LOAD = "load"
    """A member that starts takes all that its peers hold."""
    CLAIM = "claim"
    """A member becomes the writer of keys."""
    FORGET = "forget"
    """A member drops a key of which nothing is left."""
    HEALTH = "health"
    """A check of beats or of an instance changes something."""
    LIST = "list"
    """What a member shows to its readers changes."""
    LOST = "lost"
    """A message that does not arrive, or arrives late or twice; a call without an answer."""
    FAULT = "fault"
    """Something goes wrong, as planned, or ends."""
    STATE = "state"
    """A member starts, is UP, pauses, or sees other members than before."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event. Addresses, keys and versions are whole: they are made short where the entry is written."""

    at_ms: int
    """Virtual time since the world began."""
    what: What
    who: str
    """The address of the member, or the name of the client, that does it."""
    text: str
    peer: str = ""
    """The other end."""
    incoming: bool = False
    """It comes from the peer; else it goes there."""
    keys: tuple[str, ...] = ()
    """The datums that it is about, ``KEYS_MAX`` at most."""
    rule: str = ""
    """Which rule decides, as docs/replication.md numbers them."""
    minor: bool = False
    """There are many of the kind: beats, and rounds in which nothing differs."""


KEYS_MAX = 50
"""Of an event that is about more, these are kept."""
