"""MemberList: the state of each member as this node sees it, the view (members that carry keys), and the reports due.

Among Rollcall members a member leaves the view after ``refused_down_ms`` or ``silent_down_ms`` without contact,
and one that returns carries keys again after a rejoin delay of ``steady_ms``. As soon as one listed member is real
Nacos, its rule holds for all: DOWN at the first refusal or the failure after ``fail_access_max``, UP at the first
contact. Source: Nacos 1.4.1 MemberUtil.onFail, ServerMemberManager.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

from distro.members import reachability
from distro.members.members_view import MemberRuns, MembersView
from distro.members.peer_state import NEVER_MS, Contact, PeerState
from distro.members.reachability import ALL_MEMBER_RULES, MemberRules, is_smaller_side
from distro.model.config import DistroConfig
from distro.model.types import (
    CAPABILITY_CLIENTS_ONLY,
    CAPABILITY_VERSIONS,
    Member,
    MemberKind,
    MemberState,
    Outcome,
    PeerReport,
    Report,
)

REPORT_LOST_MS = 10_000
"""So long after its deadline a report is given up, though its end was not told."""
PULL_INTERVAL_MS = 500
"""From one report to the next to a peer whose own calls do not arrive."""
RETURNS_MS = 60_000
"""A member that comes and goes puts off checks of beats once in this time."""
LOADING_REPORT_INTERVAL_MS = 500
"""From one report to the next while this node loads, so that the others learn of it soon."""


@dataclass(slots=True)
class MemberList:
    """The states of all members, moved by reports and by time (monotonic ms). One thread owns it; see ``frozen``."""

    view_class: ClassVar[type[MembersView]] = MembersView
    self_address: str
    config: DistroConfig
    now_ms: int
    standalone: bool = False
    rules: MemberRules = ALL_MEMBER_RULES
    _peers: dict[str, PeerState] = field(default_factory=dict)
    _own_rejoin_at_ms: int = 0
    view: tuple[str, ...] = ()
    """Addresses of the members that carry keys, sorted."""
    view_since_ms: int = 0
    """When the view last changed, or a pause of this process ended."""
    confirmed_ms: int = -1
    """When a report last succeeded, or the reports to all peers had ended; -1 before, and after a pause (R9)."""
    serving: bool = False
    """This node has loaded (R7)."""
    served: bool = False
    """This run wrote keys (R16)."""
    returned_ms: int = NEVER_MS
    """When a member that had been DOWN for this node served again (R12); of several in ``RETURNS_MS`` the first."""
    runs: MemberRuns = field(init=False)
    _round: set[str] = field(default_factory=set)
    _is_changed: bool = True
    """An entry of the list changed since the last ``frozen``."""
    _still_until_ms: int = NEVER_MS
    """Until then time alone moves nothing in the list; ``NEVER_MS`` after each event."""
    _contacts: Mapping[str, Contact] = field(default_factory=dict)
    _listed: tuple[Member, ...] = ()

    def __post_init__(self) -> None:
        self.view = (self.self_address,)
        self.view_since_ms = self.now_ms
        self.runs = MemberRuns(self.self_address, self.now_ms)

    def frozen(self) -> MembersView:
        """Return the list as it is now, as a value that any thread may read."""
        if self._is_changed:
            self._is_changed = False
            by_address = sorted(self._peers.items())
            self._contacts = MappingProxyType({address: Contact.of(peer) for address, peer in by_address})
            self._listed = tuple([peer.member for _, peer in by_address])
        return self.view_class(
            self.self_address,
            self.config,
            self.standalone,
            self._listed,
            self._contacts,
            self.view,
            self.view_since_ms,
            self.confirmed_ms,
            self.returned_ms,
            self._own_rejoin_at_ms,
            self.served,
            self.runs.view,
        )

    # --- what the engine's thread reads ----------------------------------------------------------

    def peers(self) -> list[Member]:
        """Return all listed members but this node, by address."""
        return [peer.member for _, peer in sorted(self._peers.items())]

    def get(self, address: str) -> Member | None:
        """Return the peer of this address; None when it is not listed."""
        return peer.member if (peer := self._peers.get(address)) else None

    def kind(self, address: str) -> MemberKind | None:
        """Return the kind of the peer of this address; None when it is not listed."""
        return peer.member.kind if (peer := self._peers.get(address)) else None

    def is_reachable(self, address: str) -> bool:
        """Return whether the peer is UP or SUSPICIOUS, so that data is sent to it."""
        return (peer := self._peers.get(address)) is not None and peer.is_alive

    def relayed(self) -> dict[str, frozenset[str]]:
        """Return the peers that this node can call, each with the members that it cannot exchange with (R12)."""
        return reachability.relayed(self._peers)

    def is_failing(self, address: str) -> bool:
        """Return whether the peer did not answer this node's last report."""
        return (peer := self._peers.get(address)) is not None and peer.failures > 0

    def is_unlisting(self, address: str) -> bool:
        """Return whether the peer answers that this node is not in its member list."""
        return (peer := self._peers.get(address)) is not None and peer.unlisting

    @property
    def is_unlisted(self) -> bool:
        """Return whether all peers that answer say that this node is not in their lists: its data goes nowhere."""
        return reachability.is_unlisted(self._peers)

    @property
    def mixed(self) -> bool:
        """Return whether a member of real Nacos 1.4 is listed and has served: its rule of states holds for all (R8)."""
        return any(peer.seen and peer.member.kind is MemberKind.NACOS_1 for peer in self._peers.values())

    # --- events ----------------------------------------------------------------------------------

    def replace(self, addresses: Iterable[str], now_ms: int) -> tuple[list[str], list[str]]:
        """Take a new member list; return the peers that came, and those that left. This node is always a member."""
        self._on_event()
        wanted = set(addresses) - {self.self_address}
        left = [address for address in self._peers if address not in wanted]
        peers = dict(self._peers)  # another one: other threads may be on this
        for address in left:
            del peers[address]
            self._round.discard(address)
        came = sorted(wanted - self._peers.keys())
        self.runs.replace(came, left, now_ms)
        for address in came:
            peers[address] = PeerState.listed_at(address, now_ms)
        self._peers = peers
        self._update_view(now_ms)
        return came, left

    def due_reports(self, now_ms: int) -> list[Report]:
        """The reports to send now, to DOWN peers too; one is under way to each peer at a time."""
        reports = []
        interval_ms = self.config.report_interval_ms if self.serving else LOADING_REPORT_INTERVAL_MS
        for address, peer in self._peers.items():
            if peer.reporting_until_ms > now_ms or peer.next_report_ms > now_ms:
                continue
            peer.reporting_until_ms = now_ms + self.config.report_timeout_ms + REPORT_LOST_MS
            # R12: a member that cannot call this one is told by its answers what waits for it.
            is_pulling = peer.calls is not None and now_ms - peer.called_ms > 2 * self.config.report_interval_ms
            is_soon = is_pulling or peer.unlisting
            peer.next_report_ms = now_ms + (min(interval_ms, PULL_INTERVAL_MS) if is_soon else interval_ms)
            reports.append(Report(address, now_ms + self.config.report_timeout_ms))
        return reports

    def report_all_now(self, now_ms: int) -> None:
        """Make a report to every peer due."""
        for peer in self._peers.values():
            peer.next_report_ms = now_ms

    def on_report_done(self, address: str, outcome: Outcome, answer: PeerReport | None, now_ms: int) -> bool:
        """Note how a report ended; ``answer``: what the peer says of itself. Return whether it answers again now."""
        peer = self._peers.get(address)
        if peer is None:
            return False
        self._on_event()
        failures, peer.reporting_until_ms = peer.failures, 0
        if outcome in (Outcome.DELIVERED, Outcome.REJECTED):
            peer.unlisting = outcome is Outcome.REJECTED
        if outcome is Outcome.DELIVERED and answer is not None:
            peer.draining = answer.draining
            self.runs.follow(address, answer.writer, now_ms, goes_on=answer.state is not MemberState.DOWN)
            peer.answered_ms, peer.failures = now_ms, 0
            peer.note_beats(answer.beats_wait_ms, now_ms)
            if peer.cut_off:
                peer.cut_off, peer.rejoin_at_ms = False, now_ms + self.config.steady_ms
            self._on_contact(peer, answer, now_ms)
            self._hear(peer, answer, now_ms)
        else:
            self._on_failure(peer, outcome, now_ms)
        self._count_round(address, outcome, now_ms)
        self._update_view(now_ms)
        return failures > peer.failures

    def on_report(self, report: PeerReport, now_ms: int) -> bool:
        """Take a peer's report; return False if the peer is not listed."""
        peer = self._peers.get(report.address)
        if peer is None:
            return False
        self._on_event()
        peer.called_ms = now_ms
        peer.note_beats(report.beats_wait_ms, now_ms)
        if report.state is MemberState.DOWN and peer.is_alive and not peer.failures:
            # Whoever says so may be another: the member itself is asked, and believed.
            peer.said_farewell, peer.next_report_ms = True, now_ms
            return True
        if report.draining is not peer.draining:  # as above
            peer.next_report_ms = now_ms
        self._on_contact(peer, report, now_ms)
        self._hear(peer, report, now_ms)
        self._update_view(now_ms)
        return True

    def _hear(self, peer: PeerState, report: PeerReport, now_ms: int) -> None:
        """Note whom the peer can call, and what it heard of others."""
        if report.calls is None or report.state is not MemberState.UP or not self.rules.hears_others:
            return
        peer.calls, peer.heard_ms, peer.heard_since_ms = report.calls, now_ms, None
        for address, heard in report.heard.items():
            other = self._peers.get(address)
            if other is None or now_ms - heard.age_ms <= other.heard_ms:
                continue
            other.calls, other.heard_ms = heard.calls, now_ms - heard.age_ms
            if other.member.state is MemberState.DOWN and address in report.view:
                self._revive(other, now_ms)

    def _revive(self, peer: PeerState, now_ms: int) -> None:
        """Count a peer that only others reach as alive, once it is clear that this node hears nothing of it itself."""
        if peer.heard_since_ms is None:
            peer.heard_since_ms = now_ms
        elif now_ms - peer.heard_since_ms >= 2 * self.config.report_interval_ms:
            peer.lost, peer.rejoin_at_ms, peer.heard_since_ms = False, 0, None
            own_kind = peer.member.capabilities or frozenset({CAPABILITY_VERSIONS})
            peer.member = replace(peer.member, state=MemberState.SUSPICIOUS, capabilities=own_kind)

    def on_pause(self, pause_ms: int, now_ms: int) -> None:
        """Add a pause of this process to all deadlines: the silence of the peers in it proves nothing (R9)."""
        self._on_event()
        for peer in self._peers.values():
            peer.last_ok_ms += pause_ms
            if peer.reporting_until_ms:
                peer.reporting_until_ms += pause_ms
            peer.rejoin_at_ms += pause_ms
        self.runs.on_pause(pause_ms)
        self.confirmed_ms = -1
        self._round.clear()
        self.view_since_ms = now_ms
        self.report_all_now(now_ms)

    def tick(self, now_ms: int) -> bool:
        """Let time pass: silent members go DOWN, rejoin delays and hand-overs end.

        Returns whether anything may have moved since the last call, by an event or by time.
        """
        self.runs.tick(now_ms)
        if now_ms < self._still_until_ms:
            return False
        if not self.mixed:
            for peer in self._peers.values():
                self._check_silence(peer, now_ms)
        self._update_view(now_ms)
        is_waiting = self.mixed or self._own_rejoin_at_ms > now_ms
        self._still_until_ms = now_ms if is_waiting else reachability.still_until_ms(self._peers, self.config, now_ms)
        return True

    def next_due_ms(self) -> int | None:
        """When the next report is due; None without a peer."""
        return min((max(peer.next_report_ms, peer.reporting_until_ms) for peer in self._peers.values()), default=None)

    # --- the machine -----------------------------------------------------------------------------

    def _on_contact(self, peer: PeerState, report: PeerReport, now_ms: int) -> None:
        state = report.state
        own_kind = CAPABILITY_VERSIONS in report.capabilities
        if not own_kind or state is MemberState.SUSPICIOUS:
            state = MemberState.UP  # the rule of real Nacos: a member that answers or reports is UP
        elif state is MemberState.STARTING and peer.draining:
            state = MemberState.UP  # it has all data, and goes on replicating; ``_carries`` keeps it out of the view
        if state is MemberState.DOWN:  # it is leaving
            self._set_state(peer, MemberState.DOWN, report)
            peer.lost, peer.farewell = peer.seen, True
            if report.writer:
                self.runs.end(report.address, now_ms, report.writer)
            return
        peer.refused = peer.farewell = peer.said_farewell = False
        if state is MemberState.STARTING:
            # It is loading: a member that was UP stays in the view as long as one that refuses connections.
            if peer.member.state is MemberState.DOWN:
                self._set_state(peer, MemberState.STARTING, report)
            else:
                peer.refused = True
                self._set_state(peer, peer.member.state, report)
            return
        if peer.lost or (self.rules.waits_apart and not peer.seen and self._served_apart(report)):
            self._on_return(peer, report, now_ms)
            if now_ms - self.returned_ms >= RETURNS_MS:
                self.returned_ms = now_ms
        peer.seen, peer.lost, peer.last_ok_ms, peer.view = True, False, now_ms, report.view
        self.runs.heard(report.address, report.writer, now_ms)
        peer.declared_rejoin_at_ms = now_ms + report.rejoin_delay_ms
        if report.imposed_rejoin_delay_ms and is_smaller_side(self.self_address, self.view, report):
            self._own_rejoin_at_ms = max(self._own_rejoin_at_ms, now_ms + report.imposed_rejoin_delay_ms)
        self._set_state(peer, MemberState.UP, report)

    def _on_return(self, peer: PeerState, report: PeerReport, now_ms: int) -> None:
        """Give a member that was lost a rejoin delay, unless it is this node that was cut off: then it waits itself."""
        if self._own_rejoin_at_ms > now_ms:
            return  # by now its view has members of both sides, and decides nothing
        until_ms = now_ms + self.config.steady_ms
        if not report.rejoin_delay_ms and is_smaller_side(self.self_address, self.view, report):
            self._own_rejoin_at_ms = until_ms
        else:
            peer.rejoin_at_ms = until_ms

    def _served_apart(self, report: PeerReport) -> bool:
        """Return whether this node and a member that is new to this run both wrote keys without the other (R16)."""
        both_served = self.serving and self.served and report.served
        return both_served and self.self_address not in report.view and report.address not in self.view

    def _on_failure(self, peer: PeerState, outcome: Outcome, now_ms: int) -> None:
        peer.failures, peer.refused, state = peer.failures + 1, outcome is Outcome.REFUSED, peer.member.state
        if peer.said_farewell:
            peer.said_farewell, peer.farewell, peer.lost = False, True, peer.seen
            self.runs.end(peer.member.address, now_ms)
            self._set_state(peer, MemberState.DOWN)
            return
        if self.mixed:
            down = peer.refused or peer.failures > self.config.fail_access_max
            if state is not MemberState.DOWN:
                self._set_state(peer, MemberState.DOWN if down else MemberState.SUSPICIOUS)
            return
        if state is MemberState.UP:
            self._set_state(peer, MemberState.SUSPICIOUS)
        elif state is MemberState.STARTING:
            self._set_state(peer, MemberState.DOWN)
        if peer.rejoin_at_ms > now_ms:
            peer.lost = True  # not steady: its rejoin delay begins again with the next contact
        self._check_silence(peer, now_ms)

    def _on_event(self) -> None:
        self._is_changed, self._still_until_ms = True, NEVER_MS

    def _check_silence(self, peer: PeerState, now_ms: int) -> None:
        if peer.member.state not in (MemberState.UP, MemberState.SUSPICIOUS):
            return
        if now_ms >= peer.silent_ms(self.config):
            self._set_state(peer, MemberState.DOWN)
            peer.lost, peer.cut_off = peer.seen, False  # what it gets on its return is decided then

    def _set_state(self, peer: PeerState, state: MemberState, report: PeerReport | None = None) -> None:
        self._is_changed = True
        old = peer.member
        peer.member = Member(
            old.address,
            state,
            report.capabilities if report else old.capabilities,
            MappingProxyType(report.extend_info) if report else old.extend_info,
            peer.failures,
        )

    def _count_round(self, address: str, outcome: Outcome, now_ms: int) -> None:
        if outcome is Outcome.DELIVERED:
            self.confirmed_ms = now_ms
        self._round.add(address)
        if self._round >= self._peers.keys():
            self._round.clear()
            self.confirmed_ms = now_ms

    def _update_view(self, now_ms: int) -> None:
        mixed = self.mixed
        view = {
            address
            for address, peer in self._peers.items()
            if peer.is_alive
            and CAPABILITY_CLIENTS_ONLY not in peer.member.capabilities
            and (mixed or self._carries(address, peer, now_ms))
        }
        is_called = reachability.is_called(self._peers, self.self_address, self.config)
        if not view or mixed or (self._own_rejoin_at_ms <= now_ms and is_called):
            view.add(self.self_address)
        new = tuple(sorted(view))
        if new != self.view:
            self.view, self.view_since_ms = new, now_ms

    def _carries(self, address: str, peer: PeerState, now_ms: int) -> bool:
        """Return whether an alive peer carries keys: no rejoin delay runs, and a member can call it (R12)."""
        if self.rules.hears_others and not reachability.is_callable(self._peers, address, self.config, now_ms):
            # One that is back, and was not called yet since, is not cut off.
            peer.cut_off = peer.cut_off or address in self.view
            return False
        return not peer.lost and not peer.draining and max(peer.rejoin_at_ms, peer.declared_rejoin_at_ms) <= now_ms
