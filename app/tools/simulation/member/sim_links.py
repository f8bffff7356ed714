"""Links between simulated clusters: the real steps of a link, and the real streams, over the network of the world.

A connection is as TCP makes it: a lost part is sent again, and comes in order, as long as both processes live.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import urlencode

import orjson

from app.http.api.call import Call, Reply
from app.links.follower import LinkFollower
from app.links.link_calls import CHANGES_PATH, COMPARE_PATH, LinkError
from app.links.link_steps import (
    SILENT_MS,
    CompareSlice,
    Connect,
    Disconnect,
    LinkSteps,
    OpenStream,
    ReadStream,
    Rest,
    Step,
)
from app.tools.simulation.member.sim_ports import FrontendMember
from app.tools.simulation.transcript.entry import What
from distro.model.types import Outcome

CALL_MS = 3_000
"""The time-out of a call, and of a stream that brings nothing. Source: ``TIMEOUT_S`` of ``link_calls``."""
AGAIN_MS = 300
"""When TCP sends unconfirmed parts again."""
LOOK_MS = 250
"""How soon a reader learns that the process at the other end of its connection is gone."""


class SimStream:
    """One stream of lines, as the connection that its server writes to, and as the queue that its link reads.

    Each part is sent again until it has come, and the next one after it.
    """

    def __init__(self, link: SimLink, server: str) -> None:
        self._link, self.server = link, server
        self._client_run = link.member.run
        self.server_run = 0
        self.parts: deque[bytes] = deque()
        self.has_ended = self.is_closed = False
        self._came = self._sent = 0
        self._process: FrontendMember | None = None
        self._left: deque[tuple[bytes, Callable[[], object]]] = deque()

    # --- the side that reads ----------------------------------------------------------------------

    def arrive(self, number: int, part: bytes) -> bool:
        """Take a part, or the end, which is empty. Return False if this side reads no more."""
        if self.is_closed or self._link.member.run != self._client_run:
            return False
        if number == self._came:
            self._came += 1
            if part:
                self.parts.append(part)
            else:
                self.has_ended = True
            self._link.came()
        return True

    # --- the side that writes: as ``LineStreams`` sees a connection ---------------------------------

    def begin(self, process: FrontendMember) -> None:
        """Note the process that writes."""
        self._process, self.server_run = process, process.run

    def stream_head(self, _reply: Reply) -> None:
        """Send nothing: the first part has it."""

    def stream_part(self, part: bytes, taken: Callable[[], object]) -> None:
        self._put(part, taken)

    def stream_end(self, *, whole: bool) -> None:
        self._put(b"", lambda: None)

    def _put(self, part: bytes, taken: Callable[[], object]) -> None:
        self._left.append((part, taken))
        if len(self._left) == 1:
            self._send()

    def _send(self) -> None:
        process, number = self._process, self._sent
        assert process is not None
        part, taken = self._left[0]

        def serve(_target: Any, reply: Callable[[Outcome, Any], None]) -> None:
            reply(Outcome.DELIVERED, self.arrive(number, part))

        def end(outcome: Outcome, is_read: bool | None) -> None:
            if outcome is Outcome.DELIVERED and is_read:
                self._sent += 1
                self._left.popleft()
                taken()
                if self._left:
                    self._send()
            elif outcome is Outcome.FAILED and not self.is_closed:
                process.world.marks["part of a stream sent again"] += 1
                self._send()
            else:
                self._left.clear()
                process.http.streams.forget(self)

        process.world.outer.call(
            process, self._link.member.address, serve, AGAIN_MS, end, of_member=False, repeats=False
        )


class SimLink:
    """A link of one run of a member: takes the steps of ``LinkSteps`` as ``LinkThread`` does."""

    steps_class = LinkSteps

    def __init__(
        self,
        member: FrontendMember,
        follower: LinkFollower,
        part: Callable[[], tuple[int, int] | None],
        now_ms: Callable[[], int],
    ) -> None:
        world = member.world
        self.member, self.follower = member, follower
        self.steps = self.steps_class(follower, part, now_ms, lambda: world.between(0, 1_000) / 1_000)
        self.server = ""
        self._run: Generator[Step, Any, None] = self.steps.run()
        self._stream: SimStream | None = None
        self._turn = 0
        self._reads = self._has_ended = False

    def start(self) -> None:
        self._take(next(self._run))

    def end(self, *, withdraws: bool = False) -> None:
        self._has_ended = True
        self._close()

    def join(self, _timeout_s: float) -> bool:
        return True

    def check(self) -> None:
        """Do nothing: no call of the simulation hangs."""

    # --- steps --------------------------------------------------------------------------------------

    def _go_on(self, turn: int, answer: object = None, error: str = "") -> None:
        """Give the answer, or the failure, of the step that was taken in a turn, and take the next one."""
        if turn != self._turn or self._has_ended:
            return
        self._reads = False
        if error:
            self.member.world.trace(self.member.address, f"link: {error}", What.LOST, peer=self.server)
        self._take(self._run.throw(LinkError(error)) if error else self._run.send(answer))

    def _take(self, step: Step) -> None:
        self._turn += 1
        turn = self._turn
        match step:
            case Rest(seconds):
                self.member.in_run(math.ceil(seconds * 1_000), lambda: self._go_on(turn))
            case Connect(server, _):
                self.server = server
                self._ask(turn, lambda _process, reply: reply(Outcome.DELIVERED, None), lambda _answer: None)
            case CompareSlice(query, body):
                call = self._call("POST", COMPARE_PATH, query, orjson.dumps(body))
                self._ask(turn, lambda process, reply: process.http.serve(call, reply), self._read_answer)
            case OpenStream(query):
                self._stream = stream = SimStream(self, self.server)
                call = self._call("GET", CHANGES_PATH, query, b"")
                self._ask(turn, lambda process, reply: process.http.stream(call, stream, reply), _refused)
            case ReadStream():
                self._reads = True
                self._read()
                if self._reads:
                    self._look(turn, SILENT_MS)
            case Disconnect():
                self._close()
                self.member.in_run(0, lambda: self._go_on(turn))

    def _call(self, method: str, path: str, query: dict[str, object], body: bytes) -> Call:
        return Call(method, path, urlencode(query).encode(), {}, body, self.member.ip)

    def _ask(
        self,
        turn: int,
        serve: Callable[[Any, Callable[[Outcome, Any], None]], None],
        read: Callable[[Any], object],
    ) -> None:
        """Make a call, and continue with the result of ``read`` for its answer."""

        def end(outcome: Outcome, answer: Any) -> None:
            if outcome is not Outcome.DELIVERED:
                self._go_on(turn, error=f"{self.server} does not answer: {outcome.value}")
                return
            try:
                found = read(answer)
            except LinkError as error:
                self._go_on(turn, error=str(error))
            else:
                self._go_on(turn, found)

        self.member.world.outer.call(self.member, self.server, serve, CALL_MS, end, of_member=False, repeats=False)

    def _read_answer(self, answer: Reply) -> object:
        if answer.status != 200:
            raise LinkError(f"{self.server} answers {answer.status}")
        return orjson.loads(answer.body)

    # --- the stream -----------------------------------------------------------------------------------

    def came(self) -> None:
        """Read on: something came by the stream."""
        if self._reads:
            self._read()

    def _read(self) -> None:
        stream = self._stream
        assert stream is not None
        if stream.parts:
            part = stream.parts.popleft()
            self._go_on(self._turn, ([orjson.loads(one) for one in part.splitlines()], len(part)))
        elif stream.has_ended:
            self._go_on(self._turn, None)

    def _look(self, turn: int, left_ms: int) -> None:
        """Wait on, for so long, unless the other end of the connection is gone."""
        if turn != self._turn or self._stream is None:
            return
        if left_ms <= 0:
            self._go_on(turn, error=f"the stream from {self.server} broke: nothing came")
        elif self.member.world.outer.is_reset(self.server, self._stream.server_run, self.member.address):
            self._go_on(turn, error=f"the stream from {self.server} broke: its process is gone")
        else:
            self.member.in_run(LOOK_MS, lambda: self._look(turn, left_ms - LOOK_MS))

    def _close(self) -> None:
        self.server = ""
        if self._stream is not None:
            self._stream.is_closed = True
            self._stream = None


def _refused(refusal: Reply | None) -> None:
    """Raise LinkError if the call for a stream was refused."""
    if refusal is not None:
        raise LinkError(f"the other side answers {refusal.status}")
