"""The member list as this node sees it: who is there, who carries keys, whom to report to and when.

Among members of our own kind a member leaves the view after ``refused_down_ms`` or ``silent_down_ms`` without contact,
and one that returns waits for ``steady_ms`` before it carries keys again. As soon as one listed member is real Nacos,
its rule holds for all: DOWN at the first refusal or the failure after ``fail_access_max``, UP at the first contact.
Source: Nacos 1.4.1 MemberUtil.onFail, ServerMemberManager.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from distro.config import DistroConfig
from distro.types import (
    CAPABILITY_CLIENTS_ONLY,
    CAPABILITY_VERSIONS,
    Member,
    MemberState,
    Outcome,
    PeerReport,
    Report,
)

RUNS_REMEMBERED = 16
OTHER_RULES = frozenset({CAPABILITY_VERSIONS, CAPABILITY_CLIENTS_ONLY})
"""Where none of these is, the rule of Nacos 1.4 holds for all."""
LOADING_REPORT_INTERVAL_MS = 500
"""Reports leave more often until this node has loaded, so that the others learn of it soon."""


@dataclass(slots=True)
class _Peer:
    member: Member
    last_ok_ms: int
    """Last contact in which it said that it serves; the start, before any."""
    next_report_ms: int
    reporting: bool = False
    refused: bool = False
    seen: bool = False
    """It served at some time since this node knows it."""
    lost: bool = False
    """It was seen and then went DOWN; its return must be steady."""
    rejoin_at_ms: int = 0
    declared_rejoin_at_ms: int = 0
    view: tuple[str, ...] = ()
    failures: int = 0
    writer: str = ""
    """Its run, by its last answer."""
    ended: tuple[str, ...] = ()
    """Runs of it that are over, the latest last."""


@dataclass(slots=True)
class MemberList:
    """Pure state machine over reports. Own times are monotonic ms."""

    self_address: str
    config: DistroConfig
    now_ms: int
    standalone: bool = False
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _own_rejoin_at_ms: int = 0
    _view: tuple[str, ...] = ()
    view_since_ms: int = 0
    confirmed_ms: int = -1
    """When a report last succeeded, or a whole round of them was over."""
    serving: bool = False
    _round: set[str] = field(default_factory=set)
    _round_since_ms: int = 0

    def __post_init__(self) -> None:
        self._view = (self.self_address,)
        self.view_since_ms = self.now_ms
        self._round_since_ms = self.now_ms

    # --- what others read ------------------------------------------------------------------------

    @property
    def view(self) -> tuple[str, ...]:
        """Addresses of the members that carry keys, sorted."""
        return self._view

    def peers(self) -> list[Member]:
        return [peer.member for _, peer in sorted(self._peers.items())]

    def get(self, address: str) -> Member | None:
        peer = self._peers.get(address)
        return peer.member if peer else None

    def is_reachable(self, address: str) -> bool:
        """Whether sending makes sense: it is UP or SUSPICIOUS."""
        peer = self._peers.get(address)
        return peer is not None and peer.member.state in (MemberState.UP, MemberState.SUSPICIOUS)

    def is_serving(self, address: str) -> bool:
        peer = self._peers.get(address)
        return peer is not None and peer.member.state is MemberState.UP

    def is_starting(self, address: str) -> bool:
        peer = self._peers.get(address)
        return peer is not None and peer.member.state is MemberState.STARTING

    def has_left(self, writer: str) -> bool:
        """Whether a member's run, as it stands in versions, is known to be over. May be asked from any thread."""
        address = writer.partition("~")[0]
        peer = self._peers.get(address)
        return writer in peer.ended if peer is not None else address != self.self_address

    @property
    def mixed(self) -> bool:
        """Whether a member of another kind is listed that carries keys: real Nacos 1.4."""
        return any(peer.seen and peer.member.capabilities.isdisjoint(OTHER_RULES) for peer in self._peers.values())

    def rejoin_delay_for(self, address: str, now_ms: int) -> int:
        """For how long the peer shall carry no keys, in ms."""
        peer = self._peers.get(address)
        if peer is None or self.mixed:
            return 0
        if peer.lost:
            return self.config.steady_ms
        return max(0, peer.rejoin_at_ms - now_ms)

    def own_rejoin_delay_ms(self, now_ms: int) -> int:
        return 0 if self.mixed else max(0, self._own_rejoin_at_ms - now_ms)

    # --- events ----------------------------------------------------------------------------------

    def replace(self, addresses: Iterable[str], now_ms: int) -> tuple[list[str], list[str]]:
        """Take a new member list; return the addresses that came and those that left. This node is always a member."""
        wanted = set(addresses) - {self.self_address}
        left = [address for address in self._peers if address not in wanted]
        for address in left:
            del self._peers[address]
            self._round.discard(address)
        came = sorted(wanted - self._peers.keys())
        for address in came:
            self._peers[address] = _Peer(Member(address, MemberState.DOWN), last_ok_ms=now_ms, next_report_ms=now_ms)
        self._update_view(now_ms)
        return came, left

    def due_reports(self, now_ms: int) -> list[Report]:
        """The reports to send now, one a peer, to DOWN ones too."""
        reports = []
        interval_ms = self.config.report_interval_ms if self.serving else LOADING_REPORT_INTERVAL_MS
        for address, peer in self._peers.items():
            if peer.reporting or peer.next_report_ms > now_ms:
                continue
            peer.reporting = True
            peer.next_report_ms = now_ms + interval_ms
            reports.append(Report(address, now_ms + self.config.report_timeout_ms))
        return reports

    def report_all_now(self, now_ms: int) -> None:
        """Let every peer be reported to at the next occasion."""
        for peer in self._peers.values():
            peer.next_report_ms = now_ms

    def on_report_done(self, address: str, outcome: Outcome, answer: PeerReport | None, now_ms: int) -> None:
        """A report of ours ended."""
        peer = self._peers.get(address)
        if peer is None:
            return
        peer.reporting = False
        if outcome is Outcome.DELIVERED and answer is not None:
            self._follow_run(peer, answer.writer)
            self._on_contact(peer, answer, now_ms)
        else:
            self._on_failure(peer, outcome, now_ms)
        self._count_round(address, outcome, now_ms)
        self._update_view(now_ms)

    def on_report(self, report: PeerReport, now_ms: int) -> bool:
        """A peer reported itself; False when it is not listed."""
        peer = self._peers.get(report.address)
        if peer is None:
            return False
        self._on_contact(peer, report, now_ms)
        self._update_view(now_ms)
        return True

    def on_pause(self, pause_ms: int, now_ms: int) -> None:
        """This process did not run for so long: silence of the others in that time proves nothing (R9)."""
        for peer in self._peers.values():
            peer.last_ok_ms += pause_ms
            peer.rejoin_at_ms += pause_ms
        self.confirmed_ms = -1
        self._round.clear()
        self._round_since_ms = now_ms
        self.view_since_ms = now_ms
        self.report_all_now(now_ms)

    def tick(self, now_ms: int) -> None:
        """Let time pass: silent members go DOWN, holds end."""
        if not self.mixed:
            for peer in self._peers.values():
                self._check_silence(peer, now_ms)
        self._update_view(now_ms)

    def next_due_ms(self) -> int | None:
        return min((peer.next_report_ms for peer in self._peers.values() if not peer.reporting), default=None)

    # --- the machine -----------------------------------------------------------------------------

    def _on_contact(self, peer: _Peer, report: PeerReport, now_ms: int) -> None:
        state = report.state
        own_kind = CAPABILITY_VERSIONS in report.capabilities
        if not own_kind or state is MemberState.SUSPICIOUS:
            state = MemberState.UP  # real Nacos: whoever answers or reports is UP
        if state is MemberState.DOWN:  # it is leaving, and says so
            self._set_state(peer, MemberState.DOWN, report)
            peer.lost = peer.seen
            if report.writer:
                _end_run(peer, report.writer)
            return
        peer.refused = False
        if state is MemberState.STARTING:
            # It answers but carries nothing yet: in the view it stays for a short restart only.
            if peer.member.state is MemberState.DOWN:
                self._set_state(peer, MemberState.STARTING, report)
            else:
                peer.refused = True
                self._set_state(peer, peer.member.state, report)
            return
        if peer.lost:
            self._on_return(peer, report, now_ms)
        peer.seen, peer.lost, peer.failures, peer.last_ok_ms, peer.view = True, False, 0, now_ms, report.view
        peer.declared_rejoin_at_ms = now_ms + report.rejoin_delay_ms if report.rejoin_delay_ms else 0
        if report.imposed_rejoin_delay_ms and self._is_smaller_side(report):
            self._own_rejoin_at_ms = max(self._own_rejoin_at_ms, now_ms + report.imposed_rejoin_delay_ms)
        self._set_state(peer, MemberState.UP, report)

    def _on_return(self, peer: _Peer, report: PeerReport, now_ms: int) -> None:
        """A lost member serves again: it waits, unless it is us who were away."""
        if not self._is_smaller_side(report):
            peer.rejoin_at_ms = now_ms + self.config.steady_ms

    def _is_smaller_side(self, report: PeerReport) -> bool:
        """After a separation, whether this node is the one that returns to the other.

        Who did not notice it was away itself; otherwise the smaller view returns to the larger, and of equal ones that
        without the first address. Both sides come to the same answer from the same two views.
        """
        they_have_us, we_have_them = self.self_address in report.view, report.address in self._view
        if they_have_us != we_have_them:
            return we_have_them
        ours, theirs = self._view, report.view or (report.address,)
        return (len(ours), theirs) < (len(theirs), ours)

    @staticmethod
    def _follow_run(peer: _Peer, writer: str) -> None:
        """Only answers tell of runs: a report may be delivered late, after those of the next run."""
        if not writer or writer == peer.writer:
            return
        if peer.writer:
            _end_run(peer, peer.writer)
        peer.writer = writer

    def _on_failure(self, peer: _Peer, outcome: Outcome, now_ms: int) -> None:
        peer.failures += 1
        peer.refused = outcome is Outcome.REFUSED
        state = peer.member.state
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
            peer.lost = True  # not steady: the wait begins again with the next contact
        self._check_silence(peer, now_ms)

    def _check_silence(self, peer: _Peer, now_ms: int) -> None:
        if peer.member.state not in (MemberState.UP, MemberState.SUSPICIOUS):
            return
        limit_ms = self.config.refused_down_ms if peer.refused else self.config.silent_down_ms
        if now_ms - peer.last_ok_ms >= limit_ms:
            self._set_state(peer, MemberState.DOWN)
            peer.lost = peer.seen

    def _set_state(self, peer: _Peer, state: MemberState, report: PeerReport | None = None) -> None:
        old = peer.member
        peer.member = Member(
            old.address,
            state,
            report.capabilities if report else old.capabilities,
            report.extend_info if report else old.extend_info,
            peer.failures,
        )

    def _count_round(self, address: str, outcome: Outcome, now_ms: int) -> None:
        if outcome is Outcome.DELIVERED:
            self.confirmed_ms = now_ms
        self._round.add(address)
        if self._round >= self._peers.keys():
            self._round.clear()
            self._round_since_ms = now_ms
            self.confirmed_ms = now_ms

    def _update_view(self, now_ms: int) -> None:
        mixed = self.mixed
        view = {
            address
            for address, peer in self._peers.items()
            if peer.member.state in (MemberState.UP, MemberState.SUSPICIOUS)
            and CAPABILITY_CLIENTS_ONLY not in peer.member.capabilities
            and (mixed or (not peer.lost and max(peer.rejoin_at_ms, peer.declared_rejoin_at_ms) <= now_ms))
        }
        if not view or mixed or self._own_rejoin_at_ms <= now_ms:
            view.add(self.self_address)
        new = tuple(sorted(view))
        if new != self._view:
            self._view = new
            self.view_since_ms = now_ms


def _end_run(peer: _Peer, writer: str) -> None:
    if writer not in peer.ended:
        peer.ended = (*peer.ended, writer)[-RUNS_REMEMBERED:]
