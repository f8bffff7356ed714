"""The decision on a datum that a peer sends, by the versions alone: the rules R3, R4 and R8."""

from dataclasses import dataclass

from distro.model.types import NO_VERSION, Merged, Resolution, Version


@dataclass(frozen=True, slots=True)
class KeyVersions:
    """The input of ``resolve``: a received datum, and this node's state of its key."""

    stored: Version | None
    """The version of this node's state; None for an unknown key."""
    received: Version
    """The version of the datum; ``NO_VERSION`` from real Nacos."""
    is_owner: bool
    """True if this node is responsible for the key by its own view."""
    sender_is_owner: bool
    """True if the sender is responsible for the key by this node's view."""
    fetched: bool
    """True if the datum is no late copy: it answers a recent query of this node, or its sender cannot be queried."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The answer of ``resolve``, with the rule that it follows and the reason."""

    resolution: Resolution
    rule: str
    reason: str


FOREIGN_TO_OWNER = Resolved(Resolution.MERGE, "R8", "it has no version, and this member owns the key")
FOREIGN_TAKEN = Resolved(Resolution.APPLY, "R8", "it has no version, and its sender owns the key or it is unknown here")
FOREIGN_REFUSED = Resolved(Resolution.REFUSE, "R8", "it has no version, and its sender does not own the key")
UNKNOWN = Resolved(Resolution.APPLY, "R3", "the key is unknown here")
EQUAL = Resolved(Resolution.EQUAL, "R3", "it is the version that is stored")
LATER = Resolved(Resolution.APPLY, "R3", "it is later, by the same writer")
EARLIER = Resolved(Resolution.REFUSE, "R3", "it is earlier, by the same writer")
OTHER_FETCHED = Resolved(Resolution.MERGE, "R4", "this member owns the key, and fetched another writer's state")
OTHER_CAME = Resolved(Resolution.FETCH, "R4", "this member owns the key, and another wrote it: that state may be old")
OTHER_HIGHER = Resolved(Resolution.TAKE_OVER, "R3", "another writer's version is higher")
OTHER_LOWER = Resolved(Resolution.REFUSE, "R3", "another writer's version is lower")


DELTA = Resolved(Resolution.APPLY, "R5", "it is a delta of the state that is stored")
DELTA_KNOWN = Resolved(Resolution.EQUAL, "R5", "a state of the delta's version was here before")
DELTA_OF_ANOTHER = Resolved(Resolution.REFUSE, "R5", "the delta is not of the state that is stored")

MERGED = {
    Merged.NOTHING: "merged, and what is stored has all of it",
    Merged.TAKEN: "merged, and it has all that is stored: applied",
    Merged.MADE: "merged into a new state of this member",
}
"""The texts by which an observer hears how a merge ended."""


def resolve(versions: KeyVersions) -> Resolved:
    """Decide on a received datum, and say why: the rules R3, R4 and R8 for one key.

    Versions of two writers do not show whether the higher state contains the changes of the lower one. So that no
    acknowledged change is lost when a key gets another writer, the owner merges what another member wrote even if
    that is lower, and every other member takes a new writer's state only if it contains all changes of the stored
    one. The sender of a datum that is refused fetches and merges the state that it lacks: all take the outcome.
    """
    stored, received = versions.stored, versions.received
    if received == NO_VERSION:  # R8: from real Nacos
        if versions.is_owner:
            return FOREIGN_TO_OWNER
        return FOREIGN_TAKEN if stored is None or versions.sender_is_owner else FOREIGN_REFUSED
    if stored is None:
        return UNKNOWN
    if received == stored:
        return EQUAL
    if received.writer == stored.writer:  # R3: one writer's versions have one order
        return LATER if received > stored else EARLIER
    if versions.is_owner:  # R4
        return OTHER_FETCHED if versions.fetched else OTHER_CAME
    return OTHER_HIGHER if received > stored else OTHER_LOWER
