"""MembersView: the member list at one moment, as one frozen value that any thread may read."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from distro.members.member_runs import RunsView
from distro.members.peer_state import ALWAYS_MS, NEVER_MS, PeerState, is_lately
from distro.model.config import DistroConfig
from distro.model.types import HeardOf, Member, MemberKind, MemberState

HALF_MS_MAX, CUT_OFF_MS_MAX = 30_000, 300_000
"""For so long a member that hears nothing of half of the others, or of more, does not judge what these heard of."""


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


class MembersView(NamedTuple):
    """The listed members, and the members that carry keys. Times are monotonic ms; the mappings are read-only."""

    self_address: str
    config: DistroConfig
    standalone: bool
    listed: tuple[Member, ...]
    """All listed members but this node, by address."""
    contacts: Mapping[str, Contact]
    """The same members with what this node heard of them."""
    view: tuple[str, ...]
    """Addresses of the members that carry keys, sorted."""
    view_since_ms: int
    """When the view last changed, or a pause of this process ended."""
    confirmed_ms: int
    """When a report last succeeded, or the reports to all peers had ended; -1 before, and after a pause (R9)."""
    returned_ms: int
    """When a member that had been DOWN for this node served again (R12)."""
    own_rejoin_at_ms: int
    """The end of the rejoin delay that a peer imposed on this node."""
    served: bool
    """This run wrote keys (R16)."""
    runs: RunsView

    def get(self, address: str) -> Member | None:
        """Return the peer of this address; None when it is not listed."""
        return one.member if (one := self.contacts.get(address)) else None

    def kind(self, address: str) -> MemberKind | None:
        """Return the kind of the peer of this address; None when it is not listed."""
        return one.member.kind if (one := self.contacts.get(address)) else None

    def is_reachable(self, address: str) -> bool:
        """Return whether the peer is UP or SUSPICIOUS, so that data is sent to it."""
        return (one := self.contacts.get(address)) is not None and one.is_alive

    # --- the directions of links (R12) -----------------------------------------------------------

    def calls(self, now_ms: int) -> dict[str, int]:
        """Return for how long each peer has not answered this node's calls, in ms, 0 if it answers (R12)."""
        return {
            address: max(now_ms - one.answered_ms, 1) if one.failures else 0 for address, one in self.contacts.items()
        }

    def cut_off_since_ms(self, now_ms: int) -> int | None:
        """Return since when this node hears nothing of half of the members that it last saw, or more; or None (R12).

        A member that left, or where no process listens, is not cut off. Half is counted for ``HALF_MS_MAX`` at most,
        and more for ``CUT_OFF_MS_MAX``: a member that is silent for longer has ended.
        """
        alive = 1 + sum(one.is_alive for one in self.contacts.values())
        silent = [
            one.last_heard_ms
            for one in self.contacts.values()
            if one.lost and not one.farewell and not one.refused and one.member.state is MemberState.DOWN
        ]
        if not silent or alive > len(silent):
            return None
        since_ms = min(silent)
        limit_ms = HALF_MS_MAX if alive == len(silent) else CUT_OFF_MS_MAX
        if now_ms - since_ms >= limit_ms:
            return None
        # What the others heard until the cut began may have arrived for as long as their next report would.
        return since_ms + 2 * self.config.report_interval_ms

    def heard(self, now_ms: int) -> dict[str, HeardOf]:
        """Return what this node heard of each peer of our own kind, to be told in reports (R12)."""
        return {
            address: HeardOf(max(now_ms - one.heard_ms, 0), one.calls)
            for address, one in self.contacts.items()
            if one.calls is not None and now_ms - one.heard_ms < self.config.silent_down_ms
        }

    def next_hop(self, address: str, now_ms: int) -> str | None:
        """Return the member to send a call for a peer to: itself, or one that can call it (R12); None for neither."""
        one = self.contacts.get(address)
        if one is None or not one.failures:
            return address
        relays = [
            other
            for other, relay in self.contacts.items()
            if other != address
            and not relay.failures
            and relay.is_alive
            and relay.calls is not None
            and relay.calls.get(address) == 0
        ]
        if relays:
            return min(relays)
        return address if is_lately(one.answered_ms, self.config, now_ms, refused=one.refused) else None

    def beats_known_ms(self, now_ms: int) -> int:
        """Return until when all beats that other members took are known here, as far as these members are alive."""
        told = (one.told_ms for one in self.contacts.values() if one.is_alive and one.told_ms != NEVER_MS)
        return min(told, default=now_ms)

    # --- runs that versions name -----------------------------------------------------------------

    def contact_ms(self, writer: str) -> int:
        """Return when the peer that a version names last answered or called; of no peer ``ALWAYS_MS``.

        What others heard does not count: the ages in their reports are a little older when these are read, and so go
        round.
        """
        one = self.contacts.get(writer.partition("~")[0])
        return ALWAYS_MS if one is None else one.last_ok_ms

    def is_known_writer(self, writer: str) -> bool:
        """Return whether a version's ``writer`` is a run of a member that is listed, or was until lately."""
        return self.standalone or self.runs.is_known(writer)

    def answers_itself(self, writer: str) -> bool:
        """Return whether a version's ``writer`` is the present run of a peer that answers."""
        one = self.contacts.get(writer.partition("~")[0])
        return one is not None and one.is_alive and not one.failures and self.runs.is_present(writer)

    # --- rejoin delays ---------------------------------------------------------------------------

    @property
    def mixed(self) -> bool:
        """Return whether a member of real Nacos 1.4 is listed and has served: its rule of states holds for all (R8)."""
        return any(one.seen and one.member.kind is MemberKind.NACOS_1 for one in self.contacts.values())

    def rejoin_delay_for(self, address: str, now_ms: int) -> int:
        """Return for how long the peer is to carry no keys, in ms: the rejoin delay that reports impose on it."""
        one = self.contacts.get(address)
        if one is None or self.mixed:
            return 0
        if one.lost:
            return self.config.steady_ms
        return max(0, one.rejoin_at_ms - now_ms)

    def own_rejoin_delay_ms(self, now_ms: int) -> int:
        """Return for how long this node carries no keys, in ms, because a peer imposed it."""
        return 0 if self.mixed else max(0, self.own_rejoin_at_ms - now_ms)
