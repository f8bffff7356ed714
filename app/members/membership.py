"""Membership: the cluster as frontends see it, and the reports between members."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson

from app.config.addresses import split_address
from app.config.settings import Settings
from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.members.member_ips import MAPPED, MemberIps
from app.members.reports import OWN_FIELD, RAFT_PORT_OFFSET, is_nacos_2, nacos_2_member, parse_report
from app.naming.health.beat_refusals import BeatRefusals
from distro.engine.runtime import DistroRuntime
from distro.model.errors import RejectedError, TransportError
from distro.model.ports import Clock
from distro.model.types import (
    CAPABILITY_CLIENTS_ONLY,
    CAPABILITY_GZIP,
    CAPABILITY_SIGNED,
    CAPABILITY_VERSIONS,
    CAPABILITY_WRITES,
    WIRE_VERSION,
    Member,
    MemberState,
    PeerReport,
)
from distro.protocol.engine_reader import EngineReader
from distro.wire.call_trust import CallSigner, PeerTls
from distro.wire.deadlines import CallDeadlines
from distro.wire.peer_calls import call_peer, peer_session

_STARTING, _UP, _DOWN = MemberState.STARTING, MemberState.UP, MemberState.DOWN
"""Asked for with each request; Python 3.11 looks members up in their class slowly."""
CAPABILITIES = (CAPABILITY_VERSIONS, CAPABILITY_GZIP, CAPABILITY_WRITES)
REPORT_BYTES_MAX = 256 * 1024


class NacosMembers(Protocol):
    """The way to members that are real Nacos since 2.0."""

    def replace(self, addresses: tuple[str, ...]) -> None:
        """Keep connections to these members alone."""
        ...

    def is_nacos(self, peer: str) -> bool:
        """Return whether there is a connection to the member, and it is such a one."""
        ...

    def call(self, peer: str, type_name: str, fields: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]: ...


class WaitingBeats(Protocol):
    """The beats that could not be sent so far, by the peer that owns their instances (R12)."""

    def told_to(self, owner: str, now_ms: int) -> dict[str, dict[str, int]]:
        """Return those for a peer that fetches them, as ages in ms by datum and instance key."""
        ...

    def wait_ms(self, owner: str, now_ms: int) -> int:
        """Return for how long the oldest beat waits that a peer does not have; 0 without any."""
        ...


class Membership:
    """The cluster as the frontends see it, and the engine's MemberAgent. Thread-safe."""

    def __init__(
        self,
        settings: Settings,
        reader: EngineReader,
        clock: Clock,
        deadlines: CallDeadlines | None = None,
        signer: CallSigner | None = None,
        calls: NacosMembers | None = None,
        tls: PeerTls | None = None,
        *,
        beats: WaitingBeats,
        take_beats: Callable[[str, Mapping[str, int]], object],
        refusal_by_switch: Callable[[], str],
    ) -> None:
        """``signer`` signs every call over HTTP, ``tls`` if that is HTTPS; without ``calls`` there are no others.

        ``take_beats``: takes the beats of one datum that a peer could not send to this member, as ages in ms.
        ``refusal_by_switch``: returns why an operator's switches have this node refuse calls; empty while they do not.
        """
        self._calls = calls
        self._beats, self._take_beats = beats, take_beats
        self._refusal_by_switch = refusal_by_switch
        self.self_address = settings.self_address
        self.standalone = settings.standalone
        self._settings = settings
        self._reader = reader
        self._clock = clock
        self._runtime: DistroRuntime | None = None
        self._writer = reader.own_writer
        self._deadlines = deadlines or CallDeadlines(reader.own_writer, clock)
        self._leaving = False
        self._retiring = False
        self._knowing: set[str] = set()
        """The peers that were answered that this member leaves."""
        self._views: dict[str, tuple[str, ...]] = {}
        """The members that carry keys, as each listed peer told last."""
        self.draining = False
        self.is_behind = False
        """This process stood still, and has not compared its data with a peer's since (R9). Each read asks."""
        self.refusals = BeatRefusals(clock.monotonic_ms)
        self._own_capabilities = (*CAPABILITIES, CAPABILITY_SIGNED) if settings.identity else CAPABILITIES
        self._listed = frozenset[str]()
        self._ips = MemberIps()
        self.name_stats = self._ips.stats
        self._session = peer_session(
            MEMBER_AGENT,
            {"Content-Type": "application/json;charset=UTF-8", "Nacos-Server": NACOS_VERSION},
            tls,
            signer,
        )

    def attach(self, runtime: DistroRuntime, members: tuple[str, ...]) -> None:
        """Join the runtime, which is made with this object, with a first list. Called once, by the node."""
        self._runtime = runtime
        self.take_list(members)

    def note_behind(self, is_behind: bool) -> None:
        self.is_behind = is_behind

    def stood_still(self) -> None:
        """Compare with a peer before reads are answered, as this process stood still (R9). Returns at once."""
        if self._runtime is not None:
            self._runtime.after_pause.begin()

    def take_list(self, addresses: tuple[str, ...]) -> None:
        """Take a new member list."""
        self._listed = frozenset(addresses)
        self._ips.replace(addresses)
        self.refusals.keep(self._listed)
        self._views = {one: view for one, view in self._views.items() if one in self._listed}
        if self._runtime is not None and not self.standalone:
            self._runtime.replace_members(addresses)
            if self._calls is not None:
                self._calls.replace(addresses)

    def retire(self) -> None:
        """Be not ready from now on, and go on serving: whoever sends clients here is to choose another. Signal-safe."""
        self._retiring = True

    def leave(self) -> None:
        """Take no writes from now on, and report to the others at once that this member leaves. Signal-safe."""
        self._leaving = True
        if self._runtime is not None:
            self._runtime.leave()

    def drain(self, enabled: bool) -> None:
        # The others are told that it is STARTING, not that it leaves: so it can come back in this run.
        self.draining = enabled
        if self._runtime is not None and not self._leaving:
            self._runtime.drain(enabled)

    def is_leave_known(self) -> bool:
        """Return whether every member of our kind that can be reached has heard from this one that it leaves."""
        members = self._reader.view.members
        own = [one.address for one in members.listed if CAPABILITY_VERSIONS in one.capabilities]
        return all(one in self._knowing or not members.is_reachable(one) for one in own)

    def is_handed_over(self) -> bool:
        """Return whether all members that can be reached have all changes, and none of them sends this one writes."""
        view, views = self._reader.view, self._views
        owners = [one for one in views if self.self_address in views[one] and view.members.is_reachable(one)]
        return not self.standalone and view.pending() == 0 and not owners

    def unsent_keys(self) -> int:
        """Changed keys that have not reached a member yet, counted for each member."""
        return sum(self._reader.view.pending_keys().values())

    def close(self) -> None:
        self._session.close()
        self._ips.close()

    # --- what frontends ask ----------------------------------------------------------------------

    def responsible(self, tag: str) -> bool:
        return self._reader.view.mapper.responsible(tag)

    def map_srv(self, tag: str) -> str:
        return self._reader.view.mapper.map_srv(tag)

    def responsible_durable(self, tag: str) -> bool:
        return self._reader.view.mappers.own_kind.responsible(tag)

    def map_srv_durable(self, tag: str) -> str:
        return self._reader.view.mappers.own_kind.map_srv(tag)

    def deadline(self, member: str, left_ms: int) -> str | None:
        """The deadline of a call to ``member``, empty for one that names no clock; None: it may not be called."""
        text = self._deadlines.text(member, left_ms)
        return text if text or self._may_be_called(member) else None

    def next_hop(self, member: str) -> str | None:
        hop = self._reader.view.members.next_hop(member, self._clock.monotonic_ms())
        return hop if hop is not None and self._may_be_called(hop) else None

    def _may_be_called(self, member: str) -> bool:
        """Return whether a call to the member can have its deadline (R13).

        A member of our own kind of which only others told names a clock that is not known here: a call without it may
        be executed long after it is given up.
        """
        return self._deadlines.is_heard(member) or CAPABILITY_VERSIONS not in self.capabilities(member)

    def left_ms(self, deadline: str) -> int:
        return self._deadlines.left_ms(deadline)

    def sent_ms(self, member: str, clock: str | None) -> int:
        """When a call or an answer of ``member`` was sent, by our monotonic clock; ``clock``: its ``CLOCK_HEADER``."""
        return self._deadlines.sent_ms(member, clock)

    def stamp(self) -> str:
        """The text of ``CLOCK_HEADER`` in a call or an answer that is made now."""
        return self._deadlines.stamp()

    def is_over(self, deadline: str) -> bool:
        return self._deadlines.left_ms(deadline) < 0

    def state(self) -> MemberState:
        """As clients are told: also DOWN while the others do not list this member, as nothing here reaches them."""
        view = self._reader.view
        if self._leaving or self.draining or view.is_unlisted:
            return _DOWN
        return _UP if view.serving else _STARTING

    def unready_reason(self) -> str:
        """Why this node does not serve; empty while it does."""
        if self._leaving:
            return "this node leaves the cluster"
        if self.draining:
            return "an operator drains this node"
        if self._retiring:
            return "this node leaves the cluster soon"
        if self._reader.view.is_unlisted:
            return "the other members do not list this node"
        if self._runtime is None and not self.standalone:
            return "no list of members was found yet"
        if not self._reader.view.serving:
            return "the data of the other members is being loaded"
        return self._refusal_by_switch()

    def _own_state(self) -> MemberState:
        if self._leaving:
            return _DOWN
        return _UP if self._reader.view.serving and not self.draining else _STARTING

    def members(self) -> list[Member]:
        return sorted([*self._reader.view.members.listed, self._own_member()], key=lambda member: member.address)

    def member_json(self, member: Member) -> dict[str, Any]:
        """Source: Nacos 1.4.1 Member, as its read endpoints show it."""
        return {
            "ip": member.ip,
            "port": member.port,
            "state": member.state.value,
            "extendInfo": {key: value for key, value in member.extend_info.items() if key != OWN_FIELD},
            "address": member.address,
            "failAccessCnt": member.fail_access_count,
        }

    def is_listed(self, remote_ip: str) -> bool:
        return self._ips.is_of_any(remote_ip)

    def ips_of(self, member: str) -> frozenset[str]:
        """The IP addresses that a listed member has, or had before its name could not be looked up any more."""
        return self._ips.of(member)

    def is_heard(self, remote_ip: str) -> bool:
        return self.is_listed(remote_ip) or self._ips.is_of_parting(remote_ip)

    def has_any_of(self, remote_ip: str, is_one: Callable[[str], bool]) -> bool:
        """Return whether a member is listed at the address for which ``is_one`` is true."""
        ip, peers = remote_ip.removeprefix(MAPPED), self._reader.view.members.listed
        return any(ip in self._ips.of(one.address) and is_one(one.address) for one in peers)

    def sender_of(self, named: str | None, remote_ip: str) -> str | None:
        """The listed peer that a call or a report names as its sender, if it comes from its address; else None."""
        if named is None or named not in self._reader.view.members.contacts:
            return None
        return named if self._ips.is_of(named, remote_ip) else None

    def parting_sender_of(self, named: str | None, remote_ip: str, clock: str | None) -> str | None:
        """The same for a member that left the list lately, and has not restarted since; ``clock``: of the call."""
        if named is None or not self._ips.is_of_parting(remote_ip, named):
            return None
        return named if self._deadlines.is_known_run(named, clock) else None

    def java_peers_at(self, remote_ip: str) -> list[str]:
        """The listed members at an address that are not known to be of our kind."""
        ip, peers = remote_ip.removeprefix(MAPPED), self._reader.view.members.listed
        return [
            one.address
            for one in peers
            if CAPABILITY_VERSIONS not in one.capabilities and ip in self._ips.of(one.address)
        ]

    def nacos_at(self, remote_ip: str) -> str:
        """A listed member of another kind at an address, empty when there is none."""
        return next(iter(self.java_peers_at(remote_ip)), "")

    def release(self, address: str) -> object:
        """The release that a member reported; None before its first report."""
        member = self._reader.view.members.get(address)
        return member.extend_info.get("version") if member else None

    def capabilities(self, address: str) -> frozenset[str]:
        member = self._reader.view.members.get(address)
        return member.capabilities if member else frozenset()

    # --- reports ---------------------------------------------------------------------------------

    def _own_member(self) -> Member:
        port = split_address(self.self_address)[1]
        info = {
            "lastRefreshTime": self._clock.wall_ms(),
            "raftPort": str(port - RAFT_PORT_OFFSET),
            "version": NACOS_VERSION,
        }
        return Member(self.self_address, self._own_state(), frozenset(self._own_capabilities), info)

    def own_report(self, receiver: str, beats: Mapping[str, Mapping[str, int]] | None = None) -> dict[str, Any]:
        """This member's report to ``receiver``; an answer to one tells the ``beats`` that could not be sent."""
        members, now_ms = self._reader.view.members, self._clock.monotonic_ms()
        member = self._own_member()
        own = {
            "capabilities": list(self._own_capabilities),
            "wire": WIRE_VERSION,
            "view": list(members.view) if member.state is MemberState.UP else [],
            "holdMs": members.own_rejoin_delay_ms(now_ms),
            "toldHoldMs": members.rejoin_delay_for(receiver, now_ms),
            "writer": self._writer,
            "clockMs": self._deadlines.clock_ms(),
            "served": members.served,
            "calls": members.calls(now_ms),
            "heard": {
                address: {"age": one.age_ms, "calls": dict(one.calls)}
                for address, one in members.heard(now_ms).items()
                if address != receiver
            },
        }
        if self.draining and not self._leaving:
            own["draining"] = True
        own["beatsWaitMs"] = self._beats.wait_ms(receiver, now_ms) if beats is None else 0
        if (refused_ms := self.refusals.age_ms()) is not None:
            own["beatsRefusedMs"] = refused_ms
        if beats:
            own["beats"] = beats
        if waiting := self._reader.waiting_for(receiver):
            own["waiting"] = {
                name: {key: version.to_text() for key, version in keys.items()} for name, keys in waiting.items()
            }
        return {**self.member_json(member), "extendInfo": {**member.extend_info, OWN_FIELD: own}}

    def report(self, peer: str, timeout_ms: int) -> PeerReport:
        """Send this member's report to the peer; return the peer's own.

        Source: Nacos 1.4.1 ServerMemberManager.MemberInfoReportTask; 404 and 501 come from a release without the call.

        Raises:
            TransportError: refused, late, or an answer that is no success.
        """
        if self._calls is not None and self._calls.is_nacos(peer):
            return self._report_to_nacos(self._calls, peer, timeout_ms)
        url = f"{self._settings.scheme}://{peer}{self._settings.context_path}/v1/core/cluster/report"
        body = orjson.dumps(self.own_report(peer))
        status, answer, _ = call_peer(
            self._session, "POST", url, timeout_ms, body=body, body_bytes_max=REPORT_BYTES_MAX
        )
        if status != 200:
            raise TransportError(f"POST {url}: status {status}")
        if (report := self.read_answer(peer, url, answer)) is not None:
            return report
        known = self._reader.view.members.get(peer)
        info = known.extend_info if known else {}
        if "version" not in info:
            info = self._info_of(peer, timeout_ms)
        kind = frozenset({CAPABILITY_CLIENTS_ONLY}) if is_nacos_2(info.get("version")) else frozenset[str]()
        return PeerReport(peer, MemberState.UP, kind, info)

    def read_answer(self, peer: str, url: str, answer: bytes) -> PeerReport | None:
        """The peer's own report, in its answer to one; None for a member of another kind. Takes the beats in it.

        Raises:
            RejectedError: this member is not in the peer's list.
            TransportError: it is no success.
        """
        try:
            fields = orjson.loads(answer)
            code = fields.get("code")
        except (orjson.JSONDecodeError, AttributeError) as error:
            raise TransportError(f"POST {url}: not the JSON of a report's answer") from error
        own = fields.get(OWN_FIELD)
        if isinstance(own, dict) and own.get("listed") is False:
            raise RejectedError(f"POST {url}: this member is not in the list there")
        if code not in (0, 200):
            raise TransportError(f"POST {url}: code {code}")
        report = parse_report(own) if isinstance(own, dict) else None
        if report is None or report.address != peer:
            return None
        self._note_clock(report)
        self._views[peer] = report.view
        # An answer that waited while this process stood still is old, and so are the beats in it (R9).
        late_ms = self._age_ms(report)
        for key, ages_ms in report.beats.items():
            self._take_beats(key, {instance: age_ms + late_ms for instance, age_ms in ages_ms.items()})
        self._note_refused(report)
        return report

    def _info_of(self, peer: str, timeout_ms: int) -> Mapping[str, Any]:
        """The ``extendInfo`` of a member of another kind, whose release decides which resource types it is sent."""
        url = f"{self._settings.scheme}://{peer}{self._settings.context_path}/v1/core/cluster/self"
        answer = call_peer(self._session, "GET", url, timeout_ms, body_bytes_max=REPORT_BYTES_MAX).body
        try:
            info = orjson.loads(answer)["data"]["extendInfo"]
        except (orjson.JSONDecodeError, LookupError, TypeError):
            return {}
        return info if isinstance(info, dict) else {}

    def _report_to_nacos(self, calls: NacosMembers, peer: str, timeout_ms: int) -> PeerReport:
        """Source: Nacos 2.2.3 ServerMemberManager, which reports by HTTP only to members before 2.2.1."""
        answer = calls.call(
            peer, "MemberReportRequest", {"node": self._nacos_2_member(), "module": "cluster"}, timeout_ms
        )
        node = answer.get("node")
        info = node.get("extendInfo") if isinstance(node, dict) else None
        kind = frozenset({CAPABILITY_CLIENTS_ONLY})
        return PeerReport(peer, MemberState.UP, kind, info if isinstance(info, dict) else {})

    def _nacos_2_member(self) -> dict[str, Any]:
        return nacos_2_member(self.self_address, self.state(), self._clock.wall_ms())

    def receive_report(self, body: Mapping[str, Any], remote_ip: str) -> dict[str, Any]:
        """Take a peer's report. Shape: ``{"code", "message", "data"}``, and ours beside it to our own kind."""
        report = parse_report(body)
        if report is None:
            return {"code": 400, "message": "Node information is illegal", "data": None}
        if not self._take_report(report, remote_ip):
            if CAPABILITY_VERSIONS not in report.capabilities:
                return {"code": 200, "message": None, "data": "false"}
            # A plain success is what real Nacos answers: the sender would take this member for one.
            unlisted = {} if report.address in self._listed else {OWN_FIELD: {"listed": False}}
            return {"code": 403, "message": None, "data": "false", **unlisted}
        answer: dict[str, Any] = {"code": 200, "message": None, "data": "true"}
        if CAPABILITY_VERSIONS in report.capabilities:
            is_told = self._leaving  # before the answer is made
            waiting = self._beats.told_to(report.address, self._clock.monotonic_ms())
            answer[OWN_FIELD] = self.own_report(report.address, waiting)
            if is_told:
                self._knowing.add(report.address)
        return answer

    def receive_rpc_report(self, node: Mapping[str, Any], remote_ip: str) -> tuple[str, dict[str, Any]] | None:
        """Take a report of real Nacos since 2.0; return its address, empty if unlisted, and this member's JSON.

        None for a report that names no member.
        """
        report = parse_report(node)
        if report is None:
            return None
        return report.address if self._take_report(report, remote_ip) else "", self._nacos_2_member()

    def _take_report(self, report: PeerReport, remote_ip: str) -> bool:
        if self.sender_of(report.address, remote_ip) is None:
            return False
        if not self._is_late(report) and self._runtime is not None:
            self._note_refused(report)
            self._runtime.on_report(report)
        return True

    def _note_refused(self, report: PeerReport) -> None:
        if report.beats_refused_ms is not None:
            self.refusals.note_peer(report.address, report.beats_refused_ms + max(self._age_ms(report), 0))

    def _is_late(self, report: PeerReport) -> bool:
        """Return whether the sender gave this report up, or is over itself, so that it is old (R13). Note its clock."""
        if self._reader.view.members.runs.is_replaced(report.writer):
            return True
        self._note_clock(report)
        return self._age_ms(report) > self._settings.distro.report_timeout_ms

    def _age_ms(self, report: PeerReport) -> int:
        """How long ago a report, or the answer to one, was made; by its clock, which was noted."""
        sent_ms = self._deadlines.sent_ms(report.address, f"{report.writer} {report.clock_ms}")
        return self._clock.monotonic_ms() - sent_ms

    def _note_clock(self, report: PeerReport) -> None:
        self._deadlines.note(report.address, report.writer, report.clock_ms)
