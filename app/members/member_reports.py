"""Reports between members: each member tells the others its state, its view, and the beats that wait for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import orjson

from app.config.settings import Settings
from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.members.member_ips import MemberSenders
from app.members.membership import Membership
from app.members.reports import OWN_FIELD, is_nacos_2, nacos_2_member, parse_report
from distro.model.errors import RejectedError, TransportError
from distro.model.ports import Clock
from distro.model.types import (
    CAPABILITY_CLIENTS_ONLY,
    CAPABILITY_VERSIONS,
    WIRE_VERSION,
    MemberState,
    PeerReport,
)
from distro.protocol.engine_reader import EngineReader
from distro.receive.call_times import CallDeadlines
from distro.wire.call_trust import CallSigner, PeerTls
from distro.wire.peer_calls import call_peer, peer_session

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

    def left_out_ms(self, owner: str, now_ms: int) -> int:
        """Return for how long the oldest of those waits that ``told_to`` leaves out, as they came just before."""
        ...


class MemberReports:
    """The reports to and from the other members: the engine's MemberAgent. Thread-safe."""

    def __init__(
        self,
        settings: Settings,
        cluster: Membership,
        senders: MemberSenders,
        reader: EngineReader,
        clock: Clock,
        deadlines: CallDeadlines,
        signer: CallSigner | None = None,
        calls: NacosMembers | None = None,
        tls: PeerTls | None = None,
        *,
        beats: WaitingBeats,
        take_beats: Callable[[str, Mapping[str, int]], object],
        on_report: Callable[[PeerReport], None],
    ) -> None:
        """``signer`` signs every call over HTTP, ``tls`` if that is HTTPS; without ``calls`` there are no others.

        ``take_beats``: takes the beats of one datum that a peer could not send to this member, as ages in ms.
        ``on_report``: has the engine take a peer's report; returns at once.
        """
        self._calls = calls
        self._beats, self._take_beats = beats, take_beats
        self._on_report = on_report
        self._settings = settings
        self._cluster = cluster
        self._senders = senders
        self._reader = reader
        self._clock = clock
        self._deadlines = deadlines
        self._knowing: set[str] = set()
        """The peers that were answered that this member leaves."""
        self._views: dict[str, tuple[str, ...]] = {}
        """The members that carry keys, as each listed peer told last."""
        self._session = peer_session(
            MEMBER_AGENT,
            {"Content-Type": "application/json;charset=UTF-8", "Nacos-Server": NACOS_VERSION},
            tls,
            signer,
        )

    def take_list(self, addresses: tuple[str, ...]) -> None:
        """Take a new member list, after the membership has taken it."""
        listed = frozenset(addresses)
        self._views = {one: view for one, view in self._views.items() if one in listed}
        if self._calls is not None:
            self._calls.replace(addresses)

    def close(self) -> None:
        self._session.close()

    def is_leave_known(self) -> bool:
        """Return whether every member of our kind that can be reached has heard from this one that it leaves."""
        members = self._reader.view.members
        own = [one.address for one in members.listed if CAPABILITY_VERSIONS in one.capabilities]
        return all(one in self._knowing or not members.is_reachable(one) for one in own)

    def is_handed_over(self) -> bool:
        """Return whether all members that can be reached have all changes, and none of them sends this one writes."""
        view, views = self._reader.view, self._views
        owners = [one for one in views if self._cluster.self_address in views[one] and view.members.is_reachable(one)]
        return not self._cluster.standalone and view.pending() == 0 and not owners

    def own_report(self, receiver: str, beats: Mapping[str, Mapping[str, int]] | None = None) -> dict[str, Any]:
        """This member's report to ``receiver``; an answer to one tells the ``beats`` that could not be sent."""
        members, now_ms = self._reader.view.members, self._clock.monotonic_ms()
        member = self._cluster.own_member()
        own = {
            "capabilities": list(self._cluster.own_capabilities),
            "wire": WIRE_VERSION,
            "view": list(members.view) if member.state is MemberState.UP else [],
            "holdMs": members.own_rejoin_delay_ms(now_ms),
            "toldHoldMs": members.rejoin_delay_for(receiver, now_ms),
            "writer": self._reader.own_writer,
            "clockMs": self._deadlines.clock_ms(),
            "served": members.served,
            "calls": members.calls(now_ms),
            "heard": {
                address: {"age": one.age_ms, "calls": dict(one.calls)}
                for address, one in members.heard(now_ms).items()
                if address != receiver
            },
        }
        if self._cluster.draining and not self._cluster.leaving:
            own["draining"] = True
        if self._cluster.leaving:
            own["leaving"] = True
        wait_ms = self._beats.wait_ms if beats is None else self._beats.left_out_ms
        own["beatsWaitMs"] = wait_ms(receiver, now_ms)
        if (refused_ms := self._cluster.refusals.age_ms()) is not None:
            own["beatsRefusedMs"] = refused_ms
        if beats:
            own["beats"] = beats
        if waiting := self._reader.waiting_for(receiver):
            own["waiting"] = {
                name: {key: version.to_text() for key, version in keys.items()} for name, keys in waiting.items()
            }
        return {**self._cluster.member_json(member), "extendInfo": {**member.extend_info, OWN_FIELD: own}}

    def report(self, peer: str, timeout_ms: int) -> PeerReport:
        """Send this member's report to the peer; return the peer's own.

        Source: Nacos 1.4.1 ServerMemberManager.MemberInfoReportTask; 404 and 501 come from a release without the call.

        Raises:
            TransportError: refused, late, or an answer without success.
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
        """The peer's own report, in its answer to one; None for a member of other software. Takes the beats in it.

        Raises:
            RejectedError: this member is not in the peer's list.
            TransportError: it is not a success.
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
        return self._as_of_now(report, late_ms)

    def _info_of(self, peer: str, timeout_ms: int) -> Mapping[str, Any]:
        """The ``extendInfo`` of a member of other software, whose release decides which resource types it is sent."""
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
        return nacos_2_member(self._cluster.self_address, self._cluster.state(), self._clock.wall_ms())

    def receive_report(self, body: Mapping[str, Any], remote_ip: str) -> dict[str, Any]:
        """Take a peer's report. Shape: ``{"code", "message", "data"}``, and to a Rollcall member ours next to it."""
        report = parse_report(body)
        if report is None:
            return {"code": 400, "message": "Node information is illegal", "data": None}
        if not self._take_report(report, remote_ip):
            if CAPABILITY_VERSIONS not in report.capabilities:
                return {"code": 200, "message": None, "data": "false"}
            # A plain success is what real Nacos answers: the sender would take this member for one.
            unlisted = {} if report.address in self._cluster.listed else {OWN_FIELD: {"listed": False}}
            return {"code": 403, "message": None, "data": "false", **unlisted}
        answer: dict[str, Any] = {"code": 200, "message": None, "data": "true"}
        if CAPABILITY_VERSIONS in report.capabilities:
            is_told = self._cluster.leaving  # before the answer is made
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
        if self._senders.sender_of(report.address, remote_ip) is None:
            return False
        if self._reader.view.members.runs.is_replaced(report.writer):
            return True  # it is of a run that is over, and so old (R13)
        self._note_clock(report)
        age_ms = self._age_ms(report)
        if age_ms <= self._settings.distro.report_timeout_ms:  # else its sender gave it up (R13)
            self._on_report(self._as_of_now(report, age_ms))
        return True

    def _as_of_now(self, report: PeerReport, age_ms: int) -> PeerReport:
        """Return a report of this age as it would be if made now (R12). Note when beats were refused there."""
        late_ms = max(age_ms, 0)
        if report.beats_refused_ms is not None:
            self._cluster.refusals.note_peer(report.address, report.beats_refused_ms + late_ms)
        if report.beats_wait_ms is None:
            return report
        return replace(report, beats_wait_ms=report.beats_wait_ms + late_ms)

    def _age_ms(self, report: PeerReport) -> int:
        """How long ago a report, or the answer to one, was made; by its clock, which was noted."""
        sent_ms = self._deadlines.sent_ms(report.address, f"{report.writer} {report.clock_ms}")
        return self._clock.monotonic_ms() - sent_ms

    def _note_clock(self, report: PeerReport) -> None:
        self._deadlines.note(report.address, report.writer, report.clock_ms)
