"""The HTTP frontend of a simulated member: the real endpoints, forwarder and beat sender in virtual time.

A call is answered, forwarded to its owner or left to a pool, as in ``HttpServer``; the simulated network replaces the
sockets, and the queue of the disk replaces the pool's threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.auth.member_calls import Unidentified
from app.http.api.answers import MEMBER_REPLIES, error_reply, refuse_unless_up, text_reply
from app.http.api.call import (
    CLIENT_AGENT,
    DEADLINE,
    RELAY,
    ROUTES,
    Answer,
    Call,
    Decline,
    Events,
    Forward,
    Later,
    Lines,
    Reply,
    Route,
    Services,
)
from app.http.api.rights import caller_of, check_access, unidentified_reply
from app.http.server.line_streams import LineStreams
from app.http.v1 import cluster, distro, heal, instance, links  # noqa: F401  # they fill the table of routes
from app.http.v1.writes import answer_writes
from app.machine.process.loop_parts import WAITED_S
from app.members.membership import TOO_LATE, executing_until
from app.naming.model.nacos_errors import NacosError
from app.peers.beats import BeatSender
from app.peers.link_results import LinkAnswer, LinkResult, NotAnswered, NotSent
from app.peers.owner_forwarder import (
    FORWARD_MS_MAX,
    REFRESH_MS_MIN,
    REFRESH_TRIES,
    WaitingCall,
    unseen_text,
)
from app.peers.passed_writes import LoopForwarder
from app.peers.write_batches import WRITES_PATH
from app.replication.http_peers import REFRESH_TIMEOUT_MS
from app.tools.simulation.member.client_writes import WriteKind
from app.tools.simulation.member.disk import DiskQueue
from app.tools.simulation.member.engine_calls import CallAgent
from app.tools.simulation.member.sim_links import SimStream
from app.tools.simulation.member.sim_ports import NOTHING_SAID, FrontendMember
from app.tools.simulation.member.sim_ports import Reply as NetworkReply
from app.tools.simulation.transcript.entry import What
from distro.model.errors import CodecError, NotInitialized
from distro.model.types import Outcome

CONTEXT = "/nacos"
CONNECT_MS_MAX = 1_000
"""The time that a member waits for a connection. Source: ``CONNECT_S`` of its links, ``CONNECT_TIMEOUT_S`` of peers."""
ROWS = {(row.method, row.path): row for row in ROUTES}
Respond = Callable[[Reply], None]


class SimForwarder(LoopForwarder[Reply]):
    """The real forwarder, whose requests and answers go over the simulated network."""

    def __init__(self, member: FrontendMember, services: Services, loop: Any, agent: CallAgent) -> None:
        super().__init__(services, loop, MEMBER_REPLIES)
        self._member = member
        self.agent = agent

    def ask(
        self, member: str, request: bytes, deadline_s: float, done: Callable[[LinkResult], None], *, own_kind: bool
    ) -> bool:
        own, world = self._member, self._member.world
        call = parse_request(request, own.ip)
        if call.header(RELAY) is not None:
            world.marks["call passed on through a relay"] += 1
        timeout_ms = max(math.ceil((deadline_s - self.loop.time()) * 1_000), 1)
        if world.network.is_silent(own.address, member) and world.chance(0.3):  # there was no connection yet
            world.marks["no connection to a member"] += 1
            own.in_run(min(CONNECT_MS_MAX, timeout_ms), lambda: done(NotSent()))
            return True

        def end(outcome: Outcome, reply: Any) -> None:
            if outcome is Outcome.DELIVERED:
                headers = {name.lower().encode(): value.encode("latin-1") for name, value in reply.headers.items()}
                done(LinkAnswer(reply.status, reply.body, headers))
            elif outcome is Outcome.REFUSED:
                done(NotSent())
            else:
                world.marks["forwarded call not answered"] += 1
                done(NotAnswered())

        write = world.write_of(call) if world.tracing else None
        about = (f"forwards: {write.text}", (write.key,)) if write is not None else NOTHING_SAID
        if write is not None:
            world.trace(
                own.address, about[0], What.SEND, peer=member, keys=about[1], minor=write.kind is WriteKind.BEAT
            )
        world.network.call(
            own, member, lambda peer, reply: peer.http.serve(call, reply), timeout_ms, end, repeats=False, about=about
        )
        return True

    def fetch_datum(self, member: str, key: str, deadline_s: float) -> None:
        at, left_ms = (member, key), int((deadline_s - self.loop.time()) * 1_000)
        if at in self._fetching or left_ms <= 0:
            return
        self._fetching.add(at)
        self._member.world.marks["datum of a forwarded write fetched"] += 1
        self.agent.refresh(member, (key,), left_ms, lambda _came: self._fetching.discard(at))


def parse_request(request: bytes, remote_ip: str) -> Call:
    """Return the call in the bytes of a request."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    path, _, query = target.partition("?")
    pairs = (line.partition(": ") for line in lines)
    headers = {name.lower(): value for name, _, value in pairs}
    return Call(method, path.removeprefix(CONTEXT), query.encode(), headers, body, remote_ip)


class DiskTurn(Exception):
    """A durable write waits for its turn, and continues after the disk's delay."""


class HttpFrontend:
    """The answers of a member to clients and peers."""

    def __init__(self, member: FrontendMember, services: Services, disk: DiskQueue, forwarder: SimForwarder) -> None:
        self._member = member
        self._services = services
        self._disk = disk
        self.forwarder = forwarder
        self.beat_sender = BeatSender(services, forwarder)
        self.streams = LineStreams(forwarder.loop, self._put)

    def _put(self, work: Callable[[], None]) -> bool:
        """Do work of a stream as a thread of the pool would."""
        self._member.in_run(0, work)
        return True

    def stream(self, call: Call, connection: SimStream, reply: NetworkReply) -> None:
        """Answer a call for a stream of lines: with None if it begins, else with the refusal."""
        connection.begin(self._member)
        answer = self._run(ROWS[call.method, call.path], call, on_loop=True)
        opened: Any = connection  # it has what a stream needs of a connection
        refusal = self.streams.begin(opened, answer) if isinstance(answer, Lines) else answer
        reply(Outcome.DELIVERED, refusal)

    def serve(self, call: Call, reply: NetworkReply) -> None:
        """Answer a call that came over the network."""
        write = self._member.world.write_of(call) if CLIENT_AGENT not in call.headers else None

        def respond(answer: Reply) -> None:
            if write is not None and answer.status >= 500:
                self._member.world.checker.refused(write)
            reply(Outcome.DELIVERED, answer)

        self.take(call, respond)

    def take(self, call: Call, respond: Respond) -> None:
        """Answer a call, now or later."""
        row = ROWS[call.method, call.path]
        caller = caller_of(call, self._services)
        if isinstance(caller, Unidentified):
            respond(unidentified_reply(caller))
            return
        call.caller = caller
        if not row.hot:
            self._in_pool(row, call, respond)
            return
        answer = self._run(row, call, on_loop=True)
        if isinstance(answer, Reply):
            respond(answer)
        elif isinstance(answer, Forward):
            self._member.world.marks["write forwarded"] += 1

            def done(answer: Answer) -> None:
                if isinstance(answer, Reply):
                    respond(answer)
                else:
                    self._in_pool(row, call, respond)

            self.forwarder.forward(call, answer, lambda: self._run(row, call, on_loop=True), done)
        else:
            self._in_pool(row, call, respond)

    def _run(self, row: Route, call: Call, *, on_loop: bool = False) -> Answer:
        """Run an endpoint, and report the executed call to the checker."""
        call.on_loop = on_loop
        write = self._member.world.write_of(call)
        before = self._member.revision_of(write) if write is not None else None
        try:
            refusal = refuse_unless_up(call, self._services)
            if refusal is None:
                check_access(row.access, call, self._services)
            answer = self._endpoint(row, call) if refusal is None else refusal
        except (NacosError, CodecError, NotInitialized) as error:
            answer = error_reply(error)
        if isinstance(answer, Reply):
            self._mark_refusal(answer)
            if write is not None and answer.status == 200 and b"20404" not in answer.body:
                self._member.note_executed(write, before)
        return answer

    def _endpoint(self, row: Route, call: Call) -> Answer:
        if row.path != WRITES_PATH:
            return row.endpoint(call, self._services)
        self._member.world.marks["writes passed on together"] += 1
        # Each of them is run here, so that the checker learns of it.
        return answer_writes(call, self._services, lambda row, one, _services: self._run(row, one, on_loop=True))

    def _mark_refusal(self, reply: Reply) -> None:
        if reply.status == 503 and reply.body == TOO_LATE.encode():
            self._member.world.marks["late write refused"] += 1
        elif reply.status == 503 and b"stood still" in reply.body:
            self._member.world.marks["write refused after a pause"] += 1

    # --- the pool ----------------------------------------------------------------------------------

    def _in_pool(self, row: Route, call: Call, respond: Respond) -> None:
        """Answer a call like a thread that may block; a write of durable records waits for its turn at the disk."""
        if (call.method, call.path) == ("PUT", "/v1/ns/distro/datum"):
            self._disk.put(lambda: None, lambda: respond(self._reply(row, call)))
            return
        outcome = self._try(row, call, respond)
        if isinstance(outcome, Reply):
            respond(outcome)
        elif isinstance(outcome, Forward):
            self._member.world.marks["durable write forwarded"] += 1
            OwnerCall(self._member, self.forwarder, call, outcome, lambda: self._try(row, call, respond), respond).ask()

    def _try(self, row: Route, call: Call, respond: Respond) -> Reply | Forward | None:
        """Run an endpoint; return None if it waits for the disk, and responds later."""
        try:
            self._member.waits_for_disk = True
            answer = self._run(row, call)
            assert not isinstance(answer, Decline | Events | Later | Lines)
            return answer
        except DiskTurn:
            self._on_disk(row, call, respond)
            return None
        finally:
            self._member.waits_for_disk = False

    def _reply(self, row: Route, call: Call) -> Reply:
        answer = self._run(row, call)
        assert isinstance(answer, Reply), answer
        return _whole(answer)

    def _on_disk(self, row: Route, call: Call, respond: Respond) -> None:
        """Execute a durable write once it has its turn: its deadline is checked at the start of the turn (R13)."""
        deadline, late = call.header(DEADLINE), False

        def begin() -> None:
            nonlocal late
            late = deadline is not None and self._services.cluster.is_over(deadline)
            if not late and (write := self._member.world.write_of(call)) is not None:
                self._member.note_begin(write)

        def finish() -> None:
            self._member.owns_durable = True  # as it was when the write came to the lock
            try:
                with executing_until(lambda: late):
                    answer = self._run(row, replace(call, headers=_without_deadline(call)))
            finally:
                self._member.owns_durable = None
            assert isinstance(answer, Reply), answer
            respond(answer)

        self._disk.put(begin, finish)


def _without_deadline(call: Call) -> dict[str, str]:
    return {name: value for name, value in call.headers.items() if name != DEADLINE}


def _whole(reply: Reply) -> Reply:
    return reply if reply.stream is None else replace(reply, body=b"".join(reply.stream), stream=None)


class OwnerCall(WaitingCall[Reply]):
    """A call for which a thread would wait in ``OwnerForwarder``: repeated until its owner or this member answers."""

    def __init__(
        self,
        member: FrontendMember,
        forwarder: SimForwarder,
        call: Call,
        to: Forward,
        run: Callable[[], Reply | Forward | None],
        respond: Respond,
    ) -> None:
        owners = member.membership
        super().__init__(owners, to, forwarder.request_maker(call), is_relayed=call.header(RELAY) is not None)
        left_ms = FORWARD_MS_MAX
        if (deadline := call.header(DEADLINE)) is not None:
            left_ms = min(left_ms, owners.left_ms(deadline))
        self._sim, self._forwarder, self._keys, self._run, self._respond = member, forwarder, to.durable, run, respond
        self._end_ms = member.clock.monotonic_ms() + left_ms
        self._answered = False

    def ask(self, *, hold_first: bool = False) -> None:
        self._answered = False
        left_s = (self._end_ms - self._sim.clock.monotonic_ms()) / 1_000
        self._forwarder.forward_waiting(self, left_s, hold_first=hold_first)

    def answer(self, answer: Reply | None) -> None:
        if self._answered:
            return
        self._answered = True
        if answer is None:
            outcome = self._run()
            if isinstance(outcome, Reply):
                self._respond(outcome)
            elif isinstance(outcome, Forward):
                self.ask(hold_first=True)
        elif answer.status == 200 and self._keys:
            self._refresh(answer, REFRESH_TRIES)
        else:
            self._respond(answer)

    def _refresh(self, answer: Reply, tries: int) -> None:
        def refreshed(came: bool) -> None:
            if came:
                self._respond(answer)
            elif tries > 1:
                self._refresh(answer, tries - 1)
            else:
                self._respond(text_reply(503, unseen_text(self.member)))

        left_ms = max(self._end_ms - self._sim.clock.monotonic_ms(), REFRESH_MS_MIN)
        self._forwarder.agent.refresh(self.hop, self._keys, min(left_ms, REFRESH_TIMEOUT_MS), refreshed)


def stood_still_ms() -> int:
    """Return how long, after a pause, the calls that are read may have waited."""
    return round(WAITED_S * 1_000)
