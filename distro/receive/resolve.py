"""The decision on a datum that a peer sends, by versions alone: its acceptance (R10), then the rules R3, R4 and R8.

An accepted version leaves room for the versions that members give after it.
"""

from dataclasses import dataclass
from typing import Protocol

from distro.members.mapper import Mappers
from distro.members.members_view import MembersView
from distro.model.errors import CodecError
from distro.model.ports import Components
from distro.model.types import ACCEPTED_MAX, NO_VERSION, Datum, Merged, Resolution, Version

HEAD_ROOM = 2**20
"""How far the epoch and the counter of a peer's version may be above all that are known here.

A claim adds one to an epoch, a change one to a counter. A member's version of the same run may be above by twice as
much: it may be the claim of a version that was just within this bound at that member.
"""
ASKED_HEAD_ROOM = 2**28
"""The same for versions that this member requested, in a load or a query: it may know few of them, or none."""


class NotGivenError(CodecError):
    """A version names this very run, which never gave it: by now other members may hold that state."""


class OthersWordError(CodecError):
    """A version names a run that answers this member itself, but came from another member."""


class ReceiverView(Protocol):
    """The part of the engine's view that decides on data from peers."""

    @property
    def loading(self) -> bool:
        """True while this node loads the data of its peers (R7)."""
        ...

    @property
    def mappers(self) -> Mappers:
        """The members that are responsible for keys."""
        ...

    @property
    def members(self) -> MembersView:
        """The members, and the runs of them that versions name."""
        ...


class ViewReader(Protocol):
    """The published state of an engine."""

    @property
    def view(self) -> ReceiverView:
        """The state at the end of the last tick. Take it once, then read it."""
        ...


class VersionCheck:
    """Checks the version of each datum before it is resolved. Thread-safe."""

    def __init__(
        self,
        own_writer: str,
        components: Components,
        reader: ViewReader,
    ) -> None:
        self._own_writer = own_writer
        self._components = components
        self._reader = reader
        self._highest: Version | None = None
        """The highest epoch and the highest counter of all versions stored and accepted; None until the first check."""

    def check(
        self,
        resource_type: str,
        datum: Datum,
        sender: str,
        *,
        loading: bool = False,
        fetched: bool = False,
        is_claimed: bool = False,
    ) -> None:
        """Check the version of a datum that ``sender`` gave.

        ``loading``: the datum is of a snapshot that this member asked for. ``fetched``: it answers a query of this
        member. ``is_claimed``: this member owns the key and fetched it to claim what comes, with a new counter.

        Raises:
            NotGivenError: the writer is this run, which never gave this version.
            OthersWordError: the writer is a run that answers this member, and is not the sender.
            CodecError: the writer is not a member, and the datum is not claimed; or a number is too high.
        """
        version, writer = datum.version, datum.version.writer
        if not writer:  # from real Nacos, which has no versions (R8)
            return
        component, is_of_sender = self._components[resource_type], writer.partition("~")[0] == sender
        if writer == self._own_writer:
            # The store has what this run gave to a key, unless the key was forgotten.
            store = component.store
            stored = store.version(datum.key)
            if version > (stored if stored is not None else store.highest_own()):
                raise NotGivenError(f"field 'version' names this run, which did not assign it: {version.to_text()}")
        elif not (
            is_claimed or self._reader.view.members.is_known_writer(writer)
        ):  # a claimed state belongs to this run from then on
            raise CodecError(f"field 'version' is of no member: {version.to_text()}")
        elif not (is_of_sender or loading or is_claimed) and self._reader.view.members.answers_itself(writer):
            stored = component.store.version(datum.key)
            if stored is None or not stored.has_had(version):
                raise OthersWordError(f"field 'version' names a run that is asked itself: {version.to_text()}")
        room = ASKED_HEAD_ROOM if loading or fetched else 2 * HEAD_ROOM if is_of_sender else HEAD_ROOM
        known = self._highest or self._stored()
        is_counted = is_claimed or version.counter <= known.counter + room
        if not is_counted or version.epoch > known.epoch + room or max(version.epoch, version.counter) > ACCEPTED_MAX:
            if fetched or (is_of_sender and component.owned_by_writer):  # nobody fetches the latter
                self._make_room(version, room)
            raise CodecError(f"field 'version' is too far above those known here: {version.to_text()}")

    def is_within(self, version: Version) -> bool:
        """Return whether other members may have taken a version of this epoch."""
        return version.epoch <= min((self._highest or self._stored()).epoch + ASKED_HEAD_ROOM, ACCEPTED_MAX)

    def accept(self, version: Version) -> None:
        """Note a version that was stored: later ones may be above it."""
        highest = self._highest
        if highest is not None and (version.epoch > highest.epoch or version.counter > highest.counter):
            self._highest = Version(max(highest.epoch, version.epoch), max(highest.counter, version.counter), "")

    def _make_room(self, version: Version, room: int) -> None:
        """Raise the known bound towards a refused version: one that is sent again and again is taken in the end."""
        known = self._highest or self._stored()
        self.accept(Version(min(version.epoch, known.epoch + room), min(version.counter, known.counter + room), ""))

    def _stored(self) -> Version:
        stored = [one for part in self._components.values() for one in part.store.versions().values()]
        epoch = max([one.epoch for one in stored], default=0)
        highest = self._highest = Version(epoch, max([one.counter for one in stored], default=0), "")
        return highest


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
    """True if the datum is current: it answers a recent query of this node, or its sender cannot be queried."""


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
    Merged.NOTHING: "merged; the stored state already has all of it",
    Merged.TAKEN: "merged, and it has all that is stored: applied",
    Merged.MADE: "merged into a new state of this member",
}
"""The texts that tell an observer how a merge ended."""


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
