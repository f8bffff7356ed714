"""Calls between simulated members: what peer workers send, and what a peer's HTTP frontend does with it, in bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from app.replication.http_peers import NodeReplication
from distro.codec import decode_frame, decode_received, encode_frame, gunzip_if_gzip, gzip_body
from distro.deadlines import CLOCK_HEADER
from distro.errors import CodecError, NotInitialized
from distro.http_agent import GZIP_FROM_BYTES, MEMBER_HEADER
from distro.types import Call, Load, Outcome, PeerReport, Query, Received, Report, SyncData, Verify
from tests.support.simulated.network import Reply

if TYPE_CHECKING:
    from tests.support.simulated.member import SimMember

Done = Callable[[], None]
UNAVAILABLE = b"503"
"""Stands for the answer of a member that loads."""


class CallAgent:
    """Executes the protocol's actions on the simulated network, as peer workers do over HTTP."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def execute(self, action: Call, done: Done) -> None:
        """Make the call; ``done`` when it ended, after the protocol's event was put."""
        match action:
            case Report():
                self.report(action, done)
            case SyncData():
                self._sync(action, done)
            case Verify():
                self._verify(action, done)
            case Query():
                self._query(action, done)
            case Load():
                self._load(action, done)

    def _call(self, action: Call, serve: Callable[[SimMember, Reply], None], on_done: Reply) -> None:
        member = self._member
        left_ms = max(action.deadline_ms - member.clock.monotonic_ms(), 1)
        member.world.network.call(member, action.peer, serve, left_ms, on_done)

    def report(self, action: Report, done: Done) -> None:
        report = self._member.own_report(action.peer)

        def end(outcome: Outcome, answer: PeerReport | None) -> None:
            self._member.mailbox.put(lambda one, now_ms: one.on_report_done(action.peer, outcome, answer, now_ms))
            done()

        self._call(action, lambda peer, reply: peer.peer_frontend.report(report, reply), end)

    def _sync(self, action: SyncData, done: Done) -> None:
        member = self._member
        store = member.components[action.resource_type].store
        may_send = partial(member.protocol.may_send, action.resource_type, action.peer)
        datums = [one for one in store.datums(action.keys) if may_send(one.key, one.version)]
        if not datums:
            member.mailbox.put(lambda one, now_ms: one.on_sync_done(action, Outcome.DELIVERED, Received(), now_ms))
            done()
            return
        codec = member.components[action.resource_type].codec
        body = encode_frame(datums, codec, member.clock.monotonic_ms(), versioned=True)
        if len(body) >= GZIP_FROM_BYTES:
            body = gzip_body(body)
        sender = member.address
        if member.world.tracing:
            summary = ", ".join(f"{one.key.rpartition('@')[2]}={one.version.to_text()}" for one in datums)
            member.world.trace(sender, f"sends to {action.peer}: {summary}")

        def end(outcome: Outcome, answer: bytes | None) -> None:
            received = decode_received(answer) if answer else Received()
            member.mailbox.put(lambda one, now_ms: one.on_sync_done(action, outcome, received, now_ms))
            done()

        sent_ms = member.world.now_ms
        self._call(action, lambda peer, reply: peer.peer_frontend.receive(body, sender, sent_ms, reply), end)

    def _verify(self, action: Verify, done: Done) -> None:
        member = self._member
        store = member.components[action.resource_type].store
        stored = ((key, store.version(key)) for key in action.keys)
        body = orjson.dumps({key: version.to_text() for key, version in stored if version is not None})
        sender = member.address

        def end(outcome: Outcome, answer: bytes | None) -> None:
            received = decode_received(answer) if answer else Received()
            member.mailbox.put(lambda one, now_ms: one.on_verify_done(action, outcome, received, now_ms))
            done()

        kind = action.resource_type
        self._call(action, lambda peer, reply: peer.peer_frontend.verify(body, sender, kind, reply), end)

    def _query(self, action: Query, done: Done) -> None:
        member = self._member
        keys, sender = list(action.keys), member.address

        def end(outcome: Outcome, answer: bytes | None) -> None:
            versions = {}
            if answer is not None:
                datums = self._datums(action, answer)
                versions = {one.key: one.version for one in datums}
                try:
                    now_ms = member.clock.monotonic_ms()
                    fetched = now_ms <= action.deadline_ms
                    member.receiver.receive(action.resource_type, action.peer, datums, now_ms, fetched=fetched)
                except NotInitialized:
                    outcome = Outcome.FAILED
            member.mailbox.put(lambda one, now_ms: one.on_query_done(action, outcome, versions, now_ms))
            done()

        self._call(action, lambda peer, reply: peer.peer_frontend.datums(keys, sender, "", reply), end)

    def _load(self, action: Load, done: Done) -> None:
        member = self._member
        sender = member.address

        def end(outcome: Outcome, answer: bytes | None) -> None:
            keys: list[str] | None = None
            if answer == UNAVAILABLE:
                outcome = Outcome.DELIVERED
            elif answer is not None:
                datums = self._datums(action, answer)
                member.receiver.load(action.resource_type, datums, member.clock.monotonic_ms())
                keys = [one.key for one in datums]
            member.mailbox.put(lambda one, now_ms: one.on_load_done(action, outcome, keys, now_ms))
            done()

        kind = action.resource_type
        self._call(action, lambda peer, reply: peer.peer_frontend.datums(None, sender, kind, reply), end)

    def _datums(self, action: Query | Load, answer: bytes) -> list[Any]:
        plain = gunzip_if_gzip(answer, self._member.config.body_bytes_max)
        codec = self._member.components[action.resource_type].codec
        datums, failed = decode_frame(plain, codec, self._member.clock.monotonic_ms())
        assert not failed, failed
        return datums


class PeerFrontend:
    """What a member answers to its peers."""

    def __init__(self, member: SimMember, replication: NodeReplication) -> None:
        self._member = member
        self._replication = replication

    def report(self, report: PeerReport, reply: Reply) -> None:
        self._member.mailbox.put(lambda protocol, now_ms: protocol.on_report(report, now_ms))
        reply(Outcome.DELIVERED, self._member.own_report(report.address))

    def receive(self, body: bytes, sender: str, sent_ms: int, reply: Reply) -> None:
        clock = {CLOCK_HEADER.lower(): str(sent_ms)}
        self._answer(reply, lambda headers, ip: self._replication.receive(body, headers | clock, ip), sender)

    def verify(self, body: bytes, sender: str, kind: str, reply: Reply) -> None:
        self._answer(reply, lambda headers, ip: self._replication.verify(body, sender, headers, ip, kind), sender)

    def datums(self, keys: list[str] | None, sender: str, kind: str, reply: Reply) -> None:
        self._answer(
            reply,
            lambda headers, ip: b"".join(self._replication.datums(keys, headers, ip, kind)[0]),
            sender,
            snapshot=keys is None,
        )

    @staticmethod
    def _answer(
        reply: Reply, work: Callable[[dict[str, str], str], bytes], sender: str, *, snapshot: bool = False
    ) -> None:
        try:
            answer = work({MEMBER_HEADER.lower(): sender}, sender.partition(":")[0])
        except NotInitialized:
            reply(*((Outcome.DELIVERED, UNAVAILABLE) if snapshot else (Outcome.FAILED, None)))
        except CodecError:
            reply(Outcome.REJECTED, None)
        else:
            reply(Outcome.DELIVERED, answer)
