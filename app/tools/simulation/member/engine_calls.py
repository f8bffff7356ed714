"""Calls of the engine between simulated members, as its peer workers make them over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson

from app.config.version import MEMBER_AGENT
from app.http.api.call import DEADLINE, Reply
from app.http.api.call import Call as HttpCall
from app.tools.simulation.member.sim_ports import NOTHING_SAID, About, EngineMember
from app.tools.simulation.transcript.decisions import named
from app.tools.simulation.transcript.entry import KEYS_MAX, What
from distro.engine.peer_call_runner import OwnChecksums
from distro.engine.peer_sends import PeerSends
from distro.model.errors import CodecError, NotInitialized, RejectedError, TransportError
from distro.model.types import (
    CAPABILITY_GZIP,
    CAPABILITY_VERSIONS,
    Call,
    Compare,
    Datum,
    Load,
    MemberState,
    Outcome,
    PeerReport,
    Query,
    Received,
    Report,
    SyncData,
    Verify,
)
from distro.protocol.protocol import Event
from distro.verify.comparison import Comparison
from distro.wire.call_trust import CLOCK_HEADER
from distro.wire.codec import decode_frame, decode_received, encode_frame, gunzip_if_gzip, gzip_body
from distro.wire.http_agent import GZIP_FROM_BYTES, MEMBER_HEADER, keys_body

Done = Callable[[], None]
End = Callable[[Outcome, bytes, int], None]
"""Gets the outcome of a call, the answer's body, and the time of the answer, in ms by the caller's clock."""
DATUM, DATUMS, CHECKSUM = "/v1/ns/distro/datum", "/v1/ns/distro/datums", "/v1/ns/distro/checksum"
DIGEST = "/v1/ns/distro/digest"
REPORT = "/v1/core/cluster/report"


class CallAgent:
    """Executes the protocol's actions on the simulated network."""

    def __init__(
        self, member: EngineMember, put: Callable[[Event], None], sends: PeerSends, checksums: OwnChecksums
    ) -> None:
        """``put``: gives the protocol an event."""
        self._member, self._put = member, put
        self._sends, self._checksums = sends, checksums

    def execute(self, action: Call, done: Done) -> None:
        """Make the call; call ``done`` when it ended, after the protocol's event was put."""
        if self._member.world.tracing:
            self._tell(action)
        match action:
            case Report():
                self.report(action, done)
            case SyncData():
                self._sync(action, done)
            case Verify():
                self._verify(action, done)
            case Compare():
                self._compare(action, done)
            case Query():
                self._query(action, done)
            case Load():
                self._load(action, done)

    def _call(
        self,
        action: Call,
        method: str,
        path: str,
        body: bytes,
        end: End,
        query: str = "",
    ) -> None:
        left_ms = max(action.deadline_ms - self._member.clock.monotonic_ms(), 1)
        about = about_of(action) if self._member.world.tracing else NOTHING_SAID
        self.call(action.peer, method, path, body, left_ms, end, query, about)

    def _tell(self, action: Call) -> None:
        """Write down a call that the protocol asks for."""
        said, keys = about_of(action)
        match action:
            case SyncData():
                return  # with the versions, once the datums are read
            case Verify():
                what, minor = What.VERIFY, True
            case Query():
                what, minor = What.FETCH, False
            case Load():
                what, minor = What.LOAD, False
            case _:
                return
        self._member.world.trace(self._member.address, said, what, peer=action.peer, keys=keys, minor=minor)

    def call(
        self,
        peer: str,
        method: str,
        path: str,
        body: bytes,
        timeout_ms: int,
        end: End,
        query: str = "",
        about: About = NOTHING_SAID,
    ) -> None:
        """Call a peer; ``end`` gets the outcome according to ``DistroHttpAgent.call``."""
        member = self._member
        headers = {MEMBER_HEADER.lower(): member.address, "user-agent": MEMBER_AGENT}
        if path != REPORT:
            deadline = member.membership.deadline(peer, timeout_ms)
            if deadline is None:
                member.world.marks["call without a known clock not made"] += 1
                member.post(lambda: end(Outcome.FAILED, b"", member.clock.monotonic_ms()))
                return
            if deadline:
                headers[DEADLINE] = deadline
                headers[CLOCK_HEADER.lower()] = member.membership.stamp()
        call = HttpCall(method, path, query.encode(), headers, body, member.ip)

        end_ms = member.clock.monotonic_ms() + timeout_ms

        def answered(outcome: Outcome, reply: Reply | None) -> None:
            now_ms = member.clock.monotonic_ms()
            if reply is None:
                end(outcome, b"", now_ms)
            elif now_ms > end_ms:
                member.world.marks["answer read after its deadline"] += 1
                end(Outcome.FAILED, b"", now_ms)
            else:
                end(*outcome_of(reply), member.membership.sent_ms(peer, reply.headers.get(CLOCK_HEADER)))

        member.world.network.call(
            member, peer, lambda process, reply: process.http.serve(call, reply), timeout_ms, answered, about=about
        )

    def _is_own_kind(self, peer: str) -> bool:
        return CAPABILITY_VERSIONS in self._member.membership.capabilities(peer)

    # --- reports ---------------------------------------------------------------------------------

    def report(self, action: Report, done: Done) -> None:
        reports = self._member.reports
        body = orjson.dumps(reports.own_report(action.peer))

        def end(outcome: Outcome, answer: bytes, _made_ms: int) -> None:
            outcome = Outcome.FAILED if outcome in (Outcome.REJECTED, Outcome.FORBIDDEN) else outcome
            report = None
            if outcome is Outcome.DELIVERED:
                try:
                    report = reports.read_answer(action.peer, REPORT, answer) or nacos_report(action.peer)
                except RejectedError:
                    outcome = Outcome.REJECTED
                except TransportError:
                    outcome = Outcome.FAILED
            self._put(lambda one, now_ms: one.on_report_done(action.peer, outcome, report, now_ms))
            done()

        self._call(action, "POST", REPORT, body, end)

    # --- datums ----------------------------------------------------------------------------------

    def _sync(self, action: SyncData, done: Done) -> None:
        member = self._member
        component = member.components[action.resource_type]
        datums = self._sends.read(action)
        if not datums:
            self._put(lambda one, now_ms: one.on_sync_done(action, Outcome.DELIVERED, Received(), now_ms))
            done()
            return
        versioned = self._is_own_kind(action.peer)
        body = encode_frame(datums, component.codec, member.clock.monotonic_ms(), versioned=versioned)
        if len(body) >= GZIP_FROM_BYTES and CAPABILITY_GZIP in member.membership.capabilities(action.peer):
            body = gzip_body(body)
        if member.world.tracing:
            versions = {
                f"{one.key} {one.version.to_text()}{'' if one.base is None else ' as a delta'}": None for one in datums
            }
            keys = tuple(one.key for one in datums)[:KEYS_MAX]
            member.world.trace(member.address, f"sends {named(versions)}", What.SEND, peer=action.peer, keys=keys)

        def end(outcome: Outcome, answer: bytes, _made_ms: int) -> None:
            received = _received(outcome, answer) if outcome is Outcome.DELIVERED else None
            received = self._sends.ended(action, datums, received)
            member.world.marks["datum asked for whole"] += len(received.wanted)
            if outcome is not Outcome.DELIVERED and member.world.tracing:
                said, keys = about_of(action)
                text = f"{said}: ended as {outcome.value}"
                member.world.trace(member.address, text, What.LOST, peer=action.peer, keys=keys)
            self._put(lambda one, now_ms: one.on_sync_done(action, outcome, received, now_ms))
            done()

        member.world.marks["delta sent"] += sum(one.base is not None for one in datums)
        self._call(action, "PUT", DATUM, body, end)

    def _verify(self, action: Verify, done: Done) -> None:
        member = self._member
        component = member.components[action.resource_type]
        if self._is_own_kind(action.peer):
            stored = ((key, component.store.version(key)) for key in action.keys)
            summary = {key: version.to_text() for key, version in stored if version is not None}
        else:
            summary = self._checksums.of(action.resource_type)

        def end(outcome: Outcome, answer: bytes, _made_ms: int) -> None:
            received = _received(outcome, answer)
            self._put(lambda one, now_ms: one.on_verify_done(action, outcome, received, now_ms))
            done()

        query = f"source={member.address}&type={action.resource_type}"
        self._call(action, "PUT", CHECKSUM, orjson.dumps(summary), end, query)

    def _compare(self, action: Compare, done: Done) -> None:
        """Compare digests as ``DistroRuntime._compare`` does, with a call for each message."""
        member = self._member
        comparison = Comparison(action, member.components, member.reader, member.clock.monotonic_ms())

        def end(outcome: Outcome, answer: bytes, _made_ms: int) -> None:
            if outcome is Outcome.DELIVERED:
                following = comparison.answered(answer)
                if following is not None:
                    member.world.marks["digests differ"] += 1
                    self._call(action, "PUT", DIGEST, following, end)
                    return
            compared = comparison.compared() if outcome is Outcome.DELIVERED else {}
            self._put(lambda one, now_ms: one.on_compare_done(action, outcome, compared, now_ms))
            done()

        self._call(action, "PUT", DIGEST, comparison.request(), end)

    def _query(self, action: Query, done: Done) -> None:
        member = self._member

        def end(outcome: Outcome, answer: bytes, made_ms: int) -> None:
            if outcome is not Outcome.DELIVERED:
                finish(outcome, [])
                return
            datums = self._datums(action.peer, action.resource_type, answer, made_ms)
            late = member.clock.monotonic_ms() > action.deadline_ms

            def receive() -> None:
                try:
                    now_ms = member.clock.monotonic_ms()
                    member.receiver.receive(action.resource_type, action.peer, datums, now_ms, fetched=not late)
                except NotInitialized:
                    finish(Outcome.FAILED, [])
                else:
                    finish(outcome, datums)

            member.store(action.resource_type, receive)

        def finish(outcome: Outcome, datums: list[Datum]) -> None:
            versions = {one.key: one.version for one in datums}
            self._put(lambda one, now_ms: one.on_query_done(action, outcome, versions, now_ms))
            done()

        self._call(action, "GET", DATUM, keys_body(action.keys), end)

    def refresh(self, peer: str, keys: tuple[str, ...], timeout_ms: int, done: Callable[[bool], None]) -> None:
        """Fetch a peer's latest writes, as ``NodeReplication.refresh`` does; ``done`` gets whether they came."""
        member = self._member
        resource_type = member.type_of(keys[0])

        def end(outcome: Outcome, answer: bytes, made_ms: int) -> None:
            datums = self._datums(peer, resource_type, answer, made_ms) if outcome is Outcome.DELIVERED else []

            def receive() -> None:
                came = False
                with suppress(NotInitialized):
                    now_ms = member.clock.monotonic_ms()
                    received = member.receiver.receive(resource_type, peer, datums, now_ms, fetched=True)
                    came = outcome is Outcome.DELIVERED and not (received.refused or received.failed)
                done(came)

            member.store(resource_type, receive)

        self.call(peer, "GET", DATUM, keys_body(keys), timeout_ms, end)

    def _load(self, action: Load, done: Done) -> None:
        member = self._member

        def end(outcome: Outcome, answer: bytes, made_ms: int) -> None:
            if answer != _UNAVAILABLE and outcome is Outcome.DELIVERED:
                datums = self._datums(action.peer, action.resource_type, answer, made_ms)

                def take() -> None:
                    before_us, keys = member.spent_us(), frozenset(one.key for one in datums)
                    member.receiver.load(action.resource_type, datums, member.clock.monotonic_ms(), action.peer)
                    taken_ms = round((member.spent_us() - before_us) / 1_000)
                    if taken_ms:
                        member.in_run(taken_ms, lambda: finish(outcome, keys))
                    else:
                        finish(outcome, keys)

                member.store(action.resource_type, take)
            else:
                finish(Outcome.DELIVERED if answer == _UNAVAILABLE else outcome, None)

        def finish(outcome: Outcome, keys: frozenset[str] | None) -> None:
            self._put(lambda one, now_ms: one.on_load_done(action, outcome, keys, now_ms))
            done()

        self._call(action, "GET", DATUMS, b"", end, f"type={action.resource_type}")

    def _datums(self, peer: str, resource_type: str, answer: bytes, made_ms: int) -> list[Any]:
        plain = gunzip_if_gzip(answer, self._member.config.body_bytes_max)
        codec = self._member.components[resource_type].codec
        datums, failed = decode_frame(plain or b"{}", codec, made_ms)
        if failed and peer in self._member.world.members:  # real Nacos answers for its own type, whatever is asked
            raise self._member.world.checker.broken(f"{self._member.address} cannot read {failed}")
        return datums


def about_of(action: Call) -> About:
    """Describe a call of the engine; return nothing for reports, which are many."""
    match action:
        case SyncData(_, _, keys):
            return f"sends {named(keys)}", keys[:KEYS_MAX]
        case Verify(_, resource_type, keys):
            return f"asks it to compare {len(keys)} keys of {resource_type}", ()
        case Query(_, _, keys):
            return f"fetches {named(keys)}", keys[:KEYS_MAX]
        case Load(_, resource_type):
            return f"loads all of {resource_type}", ()
        case _:
            return NOTHING_SAID


_UNAVAILABLE = b"503"
"""A stand-in for the answer of a loading member: only a load distinguishes it from a failure."""


def outcome_of(reply: Reply) -> tuple[Outcome, bytes]:
    """Return the outcome of a call, and the body of its answer."""
    if reply.status == 200:
        return Outcome.DELIVERED, reply.body
    if reply.status == 503:
        return Outcome.FAILED, _UNAVAILABLE
    if reply.status == 403:
        return Outcome.FORBIDDEN, b""
    return Outcome.REJECTED if 400 <= reply.status < 500 or reply.status == 501 else Outcome.FAILED, b""


def _received(outcome: Outcome, answer: bytes) -> Received:
    if outcome is not Outcome.DELIVERED or answer == b"ok":
        return Received()
    try:
        return decode_received(answer)
    except CodecError as error:
        raise AssertionError(answer) from error


def nacos_report(peer: str) -> PeerReport:
    """Return the report that ``MemberReports.report`` makes of the answer of real Nacos 1.4."""
    return PeerReport(peer, MemberState.UP, frozenset(), {"version": "1.4.1"})
