"""Has calls of any thread executed by the members that own them: the event loop sends each, the thread waits."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

from app.commands.member_writes import MemberAnswer
from app.commands.ownership import Forward, Owners, not_serving_text
from app.peers.headers import DEADLINE, RELAY
from app.peers.peer_parts import ForwardStats, MemberRequest
from distro.model.ports import Clock
from distro.model.types import MemberState
from distro.timing.clock import SystemClock

FORWARD_MS_MAX = 2_000
"""The time for the whole call, with the waits for another owner. Source: Nacos 1.4.8, its read time-out."""
LATE_S = 1.0
"""The loop ends a call by its deadline; the thread that waits for it waits so much longer."""
REFRESH_TRIES, REFRESH_MS_MIN = 2, 100
"""Tries to fetch records that the owner wrote, and the time for each try once the call's own time is over."""
BUSY = "too many calls wait for other members, please try another server"

R = TypeVar("R")
"""The outcome of a call that is executed here."""

log = logging.getLogger(__name__)


def silent_text(member: str) -> str:
    """The text of the 503 for a call that ``member`` may or may not have executed, or that no owner took in time."""
    return f"the responsible member {member} does not answer, please try another server"


def unseen_text(member: str) -> str:
    """The text of the 503 for a call that ``member`` executed, of which this node could not get the outcome in time."""
    return f"the responsible member {member} has executed this, but it cannot be read here yet, please try again"


A = TypeVar("A", bound=MemberAnswer)


class WaitingCall(Generic[A]):
    """One call for whose answer a thread waits. ``wait`` is for that thread, everything else for the loop's."""

    __slots__ = ("_future", "_owners", "_to", "hop", "is_relayed", "member", "request_to")

    def __init__(
        self,
        owners: Owners,
        to: Forward,
        request_to: Callable[[str, Mapping[str, str]], bytes],
        *,
        is_relayed: bool = False,
    ) -> None:
        """``request_to(member, headers)``: the bytes to send, with these headers.

        ``is_relayed``: a member passed the call on that cannot call the owner itself (R12).
        """
        self._owners = owners
        self._to = to
        self.request_to = request_to
        self.is_relayed = is_relayed
        self.hop = ""
        """The member that was called last: the owner, or one that passed the call on to it."""
        self.member = ""
        """The owner that was asked last."""
        self._future: Future[A | None] = Future()

    @property
    def wants_change(self) -> bool:
        """Return whether the answer is to bring the change; durable records are fetched by their keys instead."""
        return not (self._to.durable or self.is_relayed)

    def find_owner(self) -> str:
        """Return who owns the call now."""
        owners, to = self._owners, self._to
        self.member = owners.map_srv_durable(to.tag) if to.durable else owners.map_srv(to.tag)
        return self.member

    def begin(self) -> bool:
        """Return whether the thread still waits. Only then may the call be sent."""
        return not self._future.done() and self._future.set_running_or_notify_cancel()

    def answer(self, answer: A | None) -> None:
        """End the wait with the answer; None: this node is the owner by now. Of several answers the first counts."""
        with suppress(InvalidStateError):
            self._future.set_result(answer)

    def wait(self, timeout_s: float) -> A | None:
        """Return the owner's answer; None: this node is the owner by now, and the thread is to execute the call.

        Raises:
            TimeoutError: no answer within ``timeout_s``. A call that the loop has not begun by then is never sent.
        """
        try:
            return self._future.result(timeout_s)
        except TimeoutError:
            self._future.cancel()
            raise


class LoopForwarding(Protocol[A]):
    """The event loop's forwarder: the connections to the members, and the rules for asking again."""

    loop: asyncio.AbstractEventLoop

    def request_maker(self, request: MemberRequest) -> Callable[[str, Mapping[str, str]], bytes]:
        """Return a function from an address and headers to the bytes, in Nacos's form. For any thread."""
        ...

    def forward_waiting(self, call: WaitingCall[A], left_s: float, *, hold_first: bool) -> None:
        """Answer the call with its owner's answer, or with a 503 soon after ``left_s``. For the loop's thread.

        ``hold_first``: not now, but after the pause before any further try.
        """
        ...


class OwnerForwarder(Generic[A]):
    """Has calls executed by the members that own them; the thread that calls waits. Not for the loop's thread.

    At most half of the HTTP threads wait at a time; the others keep answering reads.
    """

    def __init__(
        self,
        owners: Owners,
        waiting_max: int,
        refresh: Callable[[str, tuple[str, ...], int], bool],
        refuse: Callable[[int, str], A],
        clock: Clock | None = None,
    ) -> None:
        """``refresh(member, keys, timeout_ms)`` fetches durable records from the member that has just written them.

        It returns whether they came.

        ``refuse(status, text)`` makes an answer of this node's own.
        """
        self._owners = owners
        self._refresh = refresh
        self._refuse = refuse
        self._clock = clock or SystemClock()
        self._under_way = threading.BoundedSemaphore(waiting_max)
        self._lock = threading.Lock()
        self._over: LoopForwarding[A] | None = None
        self._waiting: set[WaitingCall[A]] = set()
        self.stats = ForwardStats()

    def attach(self, over: LoopForwarding[A]) -> None:
        """Send over this loop from now on. Until then every call is refused."""
        self._over = over

    def detach(self) -> None:
        """The loop ends: answer all waiting threads now, and refuse further calls. May be called twice."""
        with self._lock:
            self._over = None
            waiting = list(self._waiting)
        for one in waiting:
            one.answer(self._give_up(one.member) if one.member else self._down())

    def forward(self, request: MemberRequest, to: Forward, run: Callable[[], R | Forward]) -> A | R:
        """Return the owner's answer, or a 503 of this node's own when no owner answers within ``FORWARD_MS_MAX``.

        ``run`` executes the call here, should this node become its owner then; a Forward from it means: not yet.
        Records that the owner has written (status 200) are fetched before this returns.

        Raises:
            Any exception of ``run``.
        """
        if not self._under_way.acquire(blocking=False):
            self.stats.forward_busy += 1
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, BUSY)
        try:
            return self._forward(request, to, run)
        finally:
            self._under_way.release()

    def _forward(self, request: MemberRequest, to: Forward, run: Callable[[], R | Forward]) -> A | R:
        over = self._over
        if over is None:
            return self._down()
        left_ms = FORWARD_MS_MAX
        if (deadline := request.headers.get(DEADLINE)) is not None:
            left_ms = min(left_ms, self._owners.left_ms(deadline))
        deadline_ms = self._clock.monotonic_ms() + left_ms
        request_to = over.request_maker(request)
        hold_first = False
        while True:
            call = WaitingCall[A](self._owners, to, request_to, is_relayed=RELAY in request.headers)
            answer = self._ask(over, call, (deadline_ms - self._clock.monotonic_ms()) / 1_000, hold_first)
            if answer is not None:
                if to.durable and answer.status == HTTPStatus.OK and not self._refreshed(call.hop, to, deadline_ms):
                    self.stats.forward_unseen += 1
                    return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, unseen_text(call.member))
                return answer
            outcome = run()
            if not isinstance(outcome, Forward):
                return outcome
            hold_first = True

    def _refreshed(self, member: str, to: Forward, deadline_ms: int) -> bool:
        """Fetch what was written there, so that the next read here shows it; return whether that was done."""
        for _ in range(REFRESH_TRIES):
            left_ms = max(deadline_ms - self._clock.monotonic_ms(), REFRESH_MS_MIN)
            if self._refresh(member, to.durable, left_ms):
                return True
        return False

    def _ask(self, over: LoopForwarding[A], call: WaitingCall[A], left_s: float, hold_first: bool) -> A | None:
        def begin() -> None:
            if call.begin():
                over.forward_waiting(call, left_s, hold_first=hold_first)

        with self._lock:
            if self._over is None:
                return self._down()
            self._waiting.add(call)
        try:
            over.loop.call_soon_threadsafe(begin)
            return call.wait(max(left_s, 0) + LATE_S)
        except RuntimeError:  # the loop is closed
            return self._down()
        except TimeoutError:
            log.warning("the event loop did not end a call to another member in time")
            return self._give_up(call.member or call.find_owner())
        finally:
            with self._lock:
                self._waiting.discard(call)

    def _down(self) -> A:
        """The answer while no loop sends anything: nothing was executed."""
        return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, not_serving_text(MemberState.DOWN.value))

    def _give_up(self, member: str) -> A:
        self.stats.forward_failed += 1
        return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, silent_text(member))
