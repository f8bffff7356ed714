"""ProtocolParts: the values that the parts of one protocol share, and the rules that it follows.

And PauseWatch (R9): notices by a late tick that this process stood still.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from distro.members.members import MemberList
from distro.members.members_view import MembersView
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats, EngineTimes
from distro.model.ports import Components, DistroObserver


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
    """Verify rounds, and fetches of changes that wait for this member at a peer (R4, R12)."""
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
    """This run of this member, as versions name it."""
    config: DistroConfig
    components: Components
    stats: DistroStats
    times: EngineTimes
    rules: ProtocolRules
    observer: DistroObserver


LOG = logging.getLogger(__name__)


class PauseWatch:
    """The time at which the next tick is expected, and the end of the last pause. For the protocol's thread."""

    def __init__(self, parts: ProtocolParts, now_ms: int) -> None:
        self._parts = parts
        self.expected_ms: int | None = None
        """When the next tick is to be at the latest; None before the first."""
        self.resumed_ms = now_ms
        """The end of the last pause: calls that were under way end soon after it."""

    def notice(self, now_ms: int, ran_ms: int) -> int:
        """Return by how many ms this tick is late, as the process stood still; 0 if it did not.

        ``ran_ms``: for how long this process ran since the last tick (CPU time). A tick that is late by the process's
        own work has the same effect, as nothing was heard in the meantime; but that is counted apart.
        """
        if self.expected_ms is None or not self._parts.rules.notices_pauses:
            return 0
        late_ms = now_ms - self.expected_ms
        if late_ms <= self._parts.config.pause_ms:
            return 0
        self.resumed_ms = now_ms
        if ran_ms * 2 >= late_ms:
            self._parts.stats.overruns += 1
            LOG.warning(
                "the engine was %d ms late by this process's own work (%d ms); deadlines move, reports come first",
                late_ms,
                ran_ms,
            )
        else:
            self._parts.stats.pauses += 1
            LOG.warning("this process did not run for %d ms; deadlines move, reports come first", late_ms)
        return late_ms
