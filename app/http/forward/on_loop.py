"""Pass hot writes on to the member that is responsible for them, from the event loop: one hop, no thread held.

A member of our own kind gets the call as it came, pipelined, and answers with what it changed; that is taken over
before the client is answered, so that its own write shows here at once. Real Nacos gets what its own members send.
"""

import asyncio
import logging
from collections.abc import Callable

from app.http.api.answers import NOT_RESPONSIBLE, text_reply
from app.http.api.call import CHANGE, CLIENT_AGENT, WANTS_CHANGE, Answer, Call, Forward, Reply, Services
from app.http.api.stats import ForwardStats
from app.http.forward.in_pool import (
    FORWARD_MS_MAX,
    headers_of,
    not_executed,
    own_headers,
    target_of,
)
from app.http.forward.member_link import LinkAnswer, LinkResult, MemberLinks, NotAnswered, NotSent
from distro.errors import CodecError
from distro.types import CAPABILITY_WRITES

FORWARD_S_MAX = FORWARD_MS_MAX / 1_000
HOLD_S = 0.05
"""How long a refused call waits before it looks who is responsible now."""
EXPIRE_S = 0.1
HELD_MAX = 4_096
CHANGE_SEEN_S = 0.3
"""How long an answer waits for the owner's own send, when its change does not fit what is held here."""
LOOK_S = 0.002
_NOT_RESPONSIBLE = NOT_RESPONSIBLE.lower().encode()
_CHANGE = CHANGE.encode()

log = logging.getLogger(__name__)

Answered = Callable[[Answer], None]


class LoopForwarder:
    """Owns the connections to the members. Used on the loop's thread only."""

    def __init__(self, services: Services, loop: asyncio.AbstractEventLoop, stats: ForwardStats) -> None:
        self._services = services
        self._cluster = services.cluster
        self.loop = loop
        self.stats = stats
        self._own_headers = own_headers(services.cluster.self_address, services.settings)
        self._member_lines = "".join(
            f"{name}: {value}\r\n"
            for name, value in self._own_headers.items()
            if name not in ("content-type", "accept-charset", "accept-encoding", "client-version", "request-source")
        ).encode("latin-1")
        self._links: dict[str, MemberLinks] = {}
        self._held = 0
        self._expiring: asyncio.TimerHandle | None = None
        self._closed = False

    def forward(self, call: Call, to: Forward, run: Callable[[], Answer], done: Answered) -> None:
        """Have the responsible member answer; ``done`` is called once, within ``FORWARD_S_MAX`` and a bit.

        ``run`` executes the call here, if this node becomes responsible meanwhile; it may then decline.
        """
        if self._held >= HELD_MAX:
            self._busy(done)
            return
        ForwardedCall(self, call, to, run, done).go()

    def ask(
        self, member: str, request: bytes, deadline_s: float, done: Callable[[LinkResult], None], *, own_kind: bool
    ) -> bool:
        """Send bytes to a member; False when too much waits for it."""
        if self._closed:
            return False
        if self._expiring is None:
            self._expiring = self.loop.call_later(EXPIRE_S, self._expire)
        links = self._links.get(member)
        if links is None:
            self._forget_removed()
            links = self._links[member] = MemberLinks(self.loop, member)
        return links.ask(request, deadline_s, done, pipelined=own_kind)

    def is_own_kind(self, member: str) -> bool:
        return CAPABILITY_WRITES in self._cluster.capabilities(member)

    def close(self) -> None:
        """Send nothing more. Who waits for an answer is told so."""
        self._closed = True
        if self._expiring is not None:
            self._expiring.cancel()
        for links in self._links.values():
            links.close()
        self._links = {}

    def _forget_removed(self) -> None:
        known = {one.address for one in self._cluster.members()}
        for address in self._links.keys() - known:
            self._links.pop(address).close()

    def _expire(self) -> None:
        now_s = self.loop.time()
        for links in list(self._links.values()):
            links.expire(now_s)
        self._expiring = self.loop.call_later(EXPIRE_S, self._expire)

    def _busy(self, done: Answered) -> None:
        self.stats.forward_busy += 1
        done(text_reply(503, "too many calls wait for other members, please try another server"))

    # --- bytes ---------------------------------------------------------------------------------------

    def bytes_for_own(self, member: str, call: Call) -> bytes:
        """The call as it came, for a member of our own kind."""
        target = f"{call.context_path}{call.path}".encode()
        if call.raw_query:
            target += b"?" + call.raw_query
        lines = [f"{CLIENT_AGENT}: {call.client_agent}\r\n{WANTS_CHANGE}: 1\r\n"]
        if call.body and "content-type" in call.headers:
            lines.append(f"content-type: {call.headers['content-type']}\r\n")
        lines.append(f"content-length: {len(call.body)}\r\n\r\n")
        return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b%b%b" % (
            call.method.encode(),
            target,
            member.encode(),
            self._member_lines,
            "".join(lines).encode("latin-1", "replace"),
            call.body,
        )

    def request_to_own(self, method: str, path: str, member: str, body: bytes) -> bytes:
        """A call of this member's own."""
        context_path = self._services.settings.context_path
        head = f"{method} {context_path}{path} HTTP/1.1\r\nhost: {member}\r\ncontent-length: {len(body)}\r\n"
        return b"%b%b\r\n%b" % (head.encode("latin-1"), self._member_lines, body)

    def bytes_for_java(self, member: str, call: Call) -> bytes:
        """The call in the form in which members of Nacos pass calls on."""
        target, body = target_of(call)
        headers = headers_of(call, self._own_headers) | {"host": member, "content-length": str(len(body or b""))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{call.method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1", "replace") + (body or b"")


class ForwardedCall:
    """One call on its way to whoever is responsible."""

    __slots__ = ("_call", "_deadline_s", "_done", "_forwarder", "_is_held", "_member", "_run", "_to")

    def __init__(
        self, forwarder: LoopForwarder, call: Call, to: Forward, run: Callable[[], Answer], done: Answered
    ) -> None:
        self._forwarder = forwarder
        self._call = call
        self._to = to
        self._run = run
        self._done = done
        self._member = ""
        self._deadline_s = forwarder.loop.time() + FORWARD_S_MAX
        self._is_held = False

    def go(self) -> None:
        """Ask who is responsible now."""
        forwarder = self._forwarder
        if self._is_held:
            self._is_held = False
            forwarder._held -= 1
        cluster = forwarder._cluster
        member = self._member = cluster.map_srv(self._to.tag)
        if member == cluster.self_address:
            answer = self._run()
            if isinstance(answer, Forward):
                self._hold()
            else:
                self._done(answer)
            return
        own_kind = forwarder.is_own_kind(member)
        make = forwarder.bytes_for_own if own_kind else forwarder.bytes_for_java
        if not forwarder.ask(member, make(member, self._call), self._deadline_s, self._on_result, own_kind=own_kind):
            forwarder._busy(self._done)

    def _on_result(self, result: LinkResult) -> None:
        match result:
            case NotSent():
                self._hold()
            case NotAnswered():
                # It may have been executed. Who sends it again must be the client, who knows whether it may.
                self._give_up()
            case LinkAnswer(status, body, headers):
                if not_executed(status, body, _NOT_RESPONSIBLE in headers):
                    self._hold()
                else:
                    self._answer(result)

    def _answer(self, result: LinkAnswer) -> None:
        forwarder = self._forwarder
        forwarder.stats.forward_answered += 1
        content_type = result.headers.get(b"content-type")
        reply = Reply(result.status, result.body, None if content_type is None else content_type.decode("latin-1"))
        change = result.headers.get(_CHANGE)
        if change is None:
            self._done(reply)
            return
        try:
            seen = forwarder._services.naming.take_change(change)
        except CodecError as error:
            log.warning("what %s says of its change cannot be read: %s", self._member, error)
            seen = None
        if seen is None or seen():
            self._done(reply)
            return
        self._wait(seen, reply, forwarder.loop.time() + CHANGE_SEEN_S, LOOK_S)

    def _wait(self, seen: Callable[[], bool], reply: Reply, until_s: float, wait_s: float) -> None:
        """Answer when the owner's own send was taken, which is under way, or after a while."""
        if seen() or self._forwarder.loop.time() >= until_s:
            self._done(reply)
            return
        self._forwarder.loop.call_later(wait_s, self._wait, seen, reply, until_s, wait_s * 1.5)

    def _hold(self) -> None:
        """Nobody executed the call: ask again a little later."""
        forwarder = self._forwarder
        left_s = self._deadline_s - forwarder.loop.time()
        if left_s <= 0:
            self._give_up()
            return
        forwarder.stats.forward_held += 1
        forwarder._held += 1
        self._is_held = True
        forwarder.loop.call_later(min(left_s, HOLD_S), self.go)

    def _give_up(self) -> None:
        self._forwarder.stats.forward_failed += 1
        self._done(text_reply(503, f"the responsible member {self._member} does not answer, please try another server"))
