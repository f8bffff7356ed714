"""ProtocolParts: the values that the parts of one protocol share, and the rules that it follows."""

from collections.abc import Callable
from dataclasses import dataclass

from distro.members.members import MemberList
from distro.members.members_view import MembersView
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats, EngineTimes
from distro.model.observer import DistroObserver
from distro.model.ports import Components


@dataclass(frozen=True, slots=True)
class ProtocolRules:
    """The rules of docs/replication.md that a member follows. A node follows all of them, and has no switch for any.

    The simulation switches single ones off, to show that each is needed.
    """

    sends_changes: bool = True
    """A change is sent to each peer as it comes."""
    repeats_sends: bool = True
    """A send that failed is repeated."""
    verifies: bool = True
    """Verify rounds, and fetches of what waits for this member at a peer (R4, R12)."""
    compares_digests: bool = True
    """Verify rounds compare digests with peers that know them, and name no keys."""
    compares_new_views: bool = True
    """Another view of the members begins a round with each peer (R16)."""
    calls_one_by_one: bool = True
    """A call of data to a peer waits for the end of the one before it."""
    loads: bool = True
    """A member loads before it serves (R7)."""
    loads_again: bool = True
    """After a pause in which removals may have been forgotten it loads again (R9)."""
    notices_pauses: bool = True
    """A late tick moves the deadlines (R9)."""
    holds_back: Callable[[MembersView, str, int], bool] | None = None
    """Answers if the peer gets no calls of data at this monotonic ms; None: it gets them at any time."""


ALL_RULES = ProtocolRules()


@dataclass(frozen=True, slots=True)
class ProtocolParts:
    """The values that all parts of one protocol read. They belong to the thread that owns the protocol."""

    members: MemberList
    own_writer: str
    """This run of this member, as it stands in versions."""
    config: DistroConfig
    components: Components
    stats: DistroStats
    times: EngineTimes
    rules: ProtocolRules
    observer: DistroObserver
