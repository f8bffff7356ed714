"""PeerState: one member as this node knows it, and when it learned that; and Contact, its frozen copy for readers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from distro.model.config import DistroConfig
from distro.model.types import Member, MemberState

NEVER_MS, ALWAYS_MS = -(1 << 60), 1 << 60


@dataclass(slots=True)
class PeerState:
    """One listed member, as this node sees it. Times are monotonic ms."""

    member: Member
    last_ok_ms: int
    """The last contact in which it served; before the first, when it came into the list."""
    next_report_ms: int
    reporting_until_ms: int = 0
    """A report to it is under way, and over at this time in any case; 0 between reports."""
    refused: bool = False
    unlisting: bool = False
    """It answered the last report that this node is not in its list."""
    seen: bool = False
    """It has served since it came into the list."""
    lost: bool = False
    """It served, then went DOWN: on its return it gets a rejoin delay."""
    rejoin_at_ms: int = 0
    """The end of the rejoin delay that this node gave it."""
    declared_rejoin_at_ms: int = 0
    """The end of the rejoin delay that it reported of itself."""
    view: tuple[str, ...] = ()
    failures: int = 0
    answered_ms: int = 0
    """When it last answered a report of this node; before the first answer, when it came into the list."""
    called_ms: int = 0
    """When its own report last arrived; before the first, when it came into the list."""
    calls: Mapping[str, int] | None = None
    """``PeerReport.calls`` of its last report (R12)."""
    heard_ms: int = NEVER_MS
    """When it told that, by its own report or by the report of another member."""
    told_ms: int = NEVER_MS
    """Beats that it had taken until then are known here; ``NEVER_MS`` of a member that does not tell."""
    said_farewell: bool = False
    """A report in its name said that it leaves; its answer to the next report decides."""
    farewell: bool = False
    """It reported that it leaves."""
    draining: bool = False
    """It answered that it hands its keys over, and continues."""
    cut_off: bool = False
    """It carried keys, and no member could call it: callable again before it is DOWN, it gets a rejoin delay."""
    heard_since_ms: int | None = None
    """Since when another member hears of it, while this node does not."""

    @classmethod
    def listed_at(cls, address: str, now_ms: int) -> "PeerState":
        """A member that comes into the list; a report to it is due."""
        member = Member(address, MemberState.DOWN, extend_info=MappingProxyType({}))
        return cls(member, last_ok_ms=now_ms, next_report_ms=now_ms, answered_ms=now_ms, called_ms=now_ms)

    @property
    def is_alive(self) -> bool:
        """Return whether it is UP or SUSPICIOUS: anything was heard of it in time, directly or by others."""
        return self.member.state in (MemberState.UP, MemberState.SUSPICIOUS)

    @property
    def last_heard_ms(self) -> int:
        """When anything was heard of it last, directly or through others."""
        return max(self.last_ok_ms, self.heard_ms)

    def silent_ms(self, config: DistroConfig) -> int:
        """When it has been silent for so long that it is DOWN, unless anything is heard of it."""
        return self.last_heard_ms + (config.refused_down_ms if self.refused else config.silent_down_ms)

    def note_beats(self, wait_ms: int | None, now_ms: int) -> None:
        """Note for how long the oldest beat waits there that this node does not have; None if that is not told."""
        if wait_ms is not None:
            self.told_ms = max(self.told_ms, now_ms - wait_ms)

    def answers(self, config: DistroConfig, now_ms: int) -> bool:
        """Return whether it answers this node's calls, or did until a short time ago."""
        return not self.failures or is_lately(self.answered_ms, config, now_ms, refused=self.refused)


class Contact(NamedTuple):
    """One listed member: its entry, and when this node heard of it. The fields are those of ``PeerState``."""

    member: Member
    is_alive: bool
    seen: bool
    lost: bool
    refused: bool
    farewell: bool
    failures: int
    rejoin_at_ms: int
    answered_ms: int
    last_ok_ms: int
    heard_ms: int
    told_ms: int
    calls: Mapping[str, int] | None

    @classmethod
    def of(cls, peer: PeerState) -> "Contact":
        """Return a copy of a peer's state."""
        return cls(
            peer.member,
            peer.is_alive,
            peer.seen,
            peer.lost,
            peer.refused,
            peer.farewell,
            peer.failures,
            peer.rejoin_at_ms,
            peer.answered_ms,
            peer.last_ok_ms,
            peer.heard_ms,
            peer.told_ms,
            None if peer.calls is None else MappingProxyType(peer.calls),
        )

    @property
    def last_heard_ms(self) -> int:
        """When anything was heard of it last, directly or through others."""
        return max(self.last_ok_ms, self.heard_ms)


def is_lately(answered_ms: int, config: DistroConfig, now_ms: int, *, refused: bool) -> bool:
    """Return whether a peer that fails now has answered a short time ago; ``refused``: by its last failure."""
    return now_ms - answered_ms < (config.refused_down_ms if refused else config.silent_down_ms)
