"""Parts that the frontends on the event loop share.

``LoopPauses`` notices at the begin of a turn whether the process stood still, ``RequestMemo`` remembers requests that
repeat, ``TurnSends`` sends the replies together that a turn made for many connections, and a coroutine becomes a task
only once it waits.
"""

import asyncio
import logging
import math
import time
import types
from array import array
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Protocol, TypeVar

from distro.timing.clock import boot_s

LOG = logging.getLogger(__name__)
WAITED_S = 1.0
"""After this process stood still, what is read for so long may have waited in its sockets."""
WAITED_S_MAX = 15.0
"""The same while connections wait to be accepted, as the loop accepts a few in a turn."""
TOGETHER_MAX = 16
"""The most connections that wait: the first of them should not wait for the requests of a thousand others."""
UNUSED_S = 60.0
"""An entry that is unused for one to two of these periods goes. Clients repeat a beat every 5 s, a list every 10 s."""
LOOKS = 8
"""The entries that are looked at for each one that is added, which takes 2 us."""
MARKS_PER_WORD = 2
MARKS_MAX = 524_288
"""Requests that came once, per generation of marks: 4 MiB in all, enough for the beats of 300,000 instances."""
_PAIRS = tuple(1 << first | 1 << second for first in range(64) for second in range(64))
"""One or two bits of a word, for each 12 bits of a hash."""

R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")


class Remembered(Protocol):
    """A request as the memo keeps it."""

    used: bool
    """Set by each reader that finds the request, and at first; the memo clears it when it looks."""


V = TypeVar("V", bound=Remembered)


class Keeper(Protocol[R_contra, V]):
    """Makes the values that a memo keeps."""

    def keep(self, data: bytes, request: R_contra) -> tuple[V, int] | None:
        """Return a request as it is kept, and the bytes of memory that it takes with its key.

        None: the bytes alone do not decide the meaning of the request.
        """
        ...

    def drop(self, data: bytes, kept: V) -> int:
        """Let go of a kept request; return the bytes of memory that this frees."""
        ...


class RequestMemo(Generic[R_contra, V]):
    """The requests of one frontend that came at least twice, by their bytes. One thread uses it.

    The memo is bounded by memory. It keeps each entry that clients use at least once in ``UNUSED_S``: a full memo takes
    no new ones in place of these. (A memo that replaced the oldest would never find a round of beats that is larger
    than itself.) Unused entries leave as others are added, so a burst of requests holds its memory for two
    minutes at most once others come.

    A request that comes once leaves a mark of four bits in a word of a table, which is chosen by its hash. Two
    generations of marks replace each other; a request is known for as long as fewer than ``marks_max`` others come. One
    of 200 new requests finds its bits set by others, and is kept at once, which does no harm.
    """

    __slots__ = (
        "_clock_s",
        "_keeper",
        "_left",
        "_length_max",
        "_made",
        "_marked",
        "_marks_max",
        "_mask",
        "_old",
        "_order",
        "_rest_until_s",
        "_young",
        "bytes_held",
        "bytes_max",
        "find",
    )

    def __init__(
        self,
        keeper: Keeper[R_contra, V],
        bytes_max: int,
        length_max: int,
        marks_max: int = MARKS_MAX,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``bytes_max``: the memory of all entries. ``length_max``: the bytes of the longest request that is kept.

        ``marks_max``: a power of two.
        """
        self._keeper = keeper
        self.bytes_max = bytes_max
        self.bytes_held = 0
        """The memory of all entries, as the keeper reckons it."""
        self._length_max = length_max
        self._clock_s = clock_s
        self._marks_max = marks_max
        self._mask = marks_max // MARKS_PER_WORD - 1
        self._young = self._old = self._no_marks()
        self._marked = 0
        """The marks in the young generation."""
        self._made: dict[bytes, V] = {}
        self._order: deque[bytes] = deque()
        """The keys in the order in which they were looked at, the latest last."""
        self._left = 0
        """Entries that this round of looks has not reached yet."""
        self._rest_until_s = 0.0
        """The time from which on the next round may begin."""
        self.find: Callable[[bytes], V | None] = self._made.get
        """Return the request that a piece of bytes is; None for one that is to be parsed. The caller sets ``used``."""

    def __len__(self) -> int:
        return len(self._made)

    def _no_marks(self) -> "array[int]":
        return array("Q", bytes(8 * (self._mask + 1)))

    def note(self, data: bytes, request: R_contra) -> None:
        """Take note of a piece of bytes that was one whole request, unknown so far; keep it if it came before."""
        if len(data) > self._length_max:
            return
        mark = hash(data)
        at, bits = mark & self._mask, _PAIRS[mark >> 20 & 4095] | _PAIRS[mark >> 32 & 4095]
        word = self._young[at]
        if (word | self._old[at]) & bits != bits:
            self._young[at] = word | bits
            self._marked += 1
            if self._marked >= self._marks_max:
                self._old, self._young, self._marked = self._young, self._no_marks(), 0
            return
        self._look()
        if self.bytes_held >= self.bytes_max or data in self._made:
            return
        if (kept := self._keeper.keep(data, request)) is not None:
            self._made[data], size = kept
            self._order.append(data)
            self.bytes_held += size

    def _look(self) -> None:
        """Look at the next entries of this round, and drop those that were not used since the last one.

        A round begins ``UNUSED_S`` after the end of the one before, so that each entry has as long to be used.
        """
        if not self._left:
            if self._clock_s() < self._rest_until_s:
                return
            self._left = len(self._order)
        made, order = self._made, self._order
        for _ in range(min(self._left, LOOKS)):
            self._left -= 1
            data = order.popleft()
            kept = made[data]
            if kept.used:
                kept.used = False
                order.append(data)
            else:
                del made[data]
                self.bytes_held -= self._keeper.drop(data, kept)
        if not self._left:
            self._rest_until_s = self._clock_s() + UNUSED_S


class PauseStats(Protocol):
    """Where the watch shows that calls may have waited."""

    stood_still: bool


class LoopPauses:
    """The event loop's watch for pauses of its process. All calls come from the loop's thread."""

    __slots__ = ("_awake_s", "_on_pause", "_pause_s", "_ran_s", "_stats", "_waited_until_max_s", "_waited_until_s")

    def __init__(
        self,
        stats: PauseStats,
        pause_ms: int,
        on_pause: Callable[[], None],
        awake_s: Callable[[], float] = boot_s,
    ) -> None:
        """``pause_ms``: a loop that did not run for longer stood still. ``on_pause``: called then; returns at once.

        ``awake_s``: a clock that counts a sleep of the machine too (the loop's does not).
        """
        self._stats = stats
        self._pause_s = pause_ms / 1_000
        self._on_pause = on_pause
        self._awake_s = awake_s
        self._ran_s = math.inf
        """When the loop last ran; the first ``ran`` begins the watch."""
        self._waited_until_s = self._waited_until_max_s = 0.0

    def check(self) -> None:
        """Notice a pause; call it before anything that came in the meantime is executed."""
        now_s = self._awake_s()
        if now_s - self._ran_s <= self._pause_s:
            return
        self._ran_s = now_s
        if not self._stats.stood_still:
            LOG.warning("this process was paused; waiting calls are refused")
        self._stats.stood_still = True
        self._waited_until_s = now_s + WAITED_S
        self._waited_until_max_s = now_s + WAITED_S_MAX
        self._on_pause()

    def ran(self, is_waiting: Callable[[], bool]) -> None:
        """Note that the loop runs; let calls be executed again once all that waited in the sockets is read.

        ``is_waiting``: returns whether connections wait to be accepted; asked after a pause alone.
        """
        self.check()
        self._ran_s = now_s = self._awake_s()
        if not self._stats.stood_still:
            return
        if is_waiting():
            self._waited_until_s = min(now_s + WAITED_S, self._waited_until_max_s)
        if now_s >= self._waited_until_s:
            self._stats.stood_still = False


class TurnSends:
    """The functions to call at the end of a turn, each of which sends a reply. Used on the loop's thread.

    A reply that is sent as soon as it is made wakes a waiting client for each request. Replies sent one after
    another find the client awake, which halves the cost of a short call at both sides.
    """

    __slots__ = ("_is_due", "_soon", "_waiting")

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """``soon``: calls a function in the loop's next turn, before more is read, as ``loop.call_soon`` does."""
        self._soon = soon
        self._waiting: list[Callable[[], None]] = []
        self._is_due = False

    def add(self, send: Callable[[], None]) -> None:
        """Call ``send`` at the end of this turn, or now if enough of them wait.

        It is called once each time, and must do nothing if the connection has ended or everything has been sent.
        """
        waiting = self._waiting
        waiting.append(send)
        if len(waiting) >= TOGETHER_MAX:
            self.send()
        elif not self._is_due:
            self._is_due = True
            self._soon(self._at_turn)

    def _at_turn(self) -> None:
        self._is_due = False
        self.send()

    def send(self) -> None:
        """Send everything that waits."""
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            try:
                send()
            except Exception:  # the others still get their replies
                LOG.exception("a reply could not be sent")


def begin(coroutine: Coroutine[Any, Any, T], on_task: Callable[[asyncio.Task[T]], None]) -> T | None:
    """Return the result of a coroutine that need not wait; else None, and ``on_task`` is called with its task.

    Until it waits it runs outside of a task: it may await futures, but no ``asyncio.timeout``.

    Raises:
        Exception: the one of the coroutine, before it waits.
    """
    try:
        waited = coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    on_task(asyncio.get_running_loop().create_task(_finish(coroutine, waited)))
    return None


async def _finish(coroutine: Coroutine[Any, Any, T], waited: Any) -> T:
    return await _rest(coroutine, waited)


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, T], waited: Any) -> Generator[Any, Any, T]:
    """Continue with a coroutine that waits for the future ``waited``."""
    while True:
        failure: BaseException | None = None
        try:
            got = yield waited
        except BaseException as error:
            failure = error
        try:
            waited = coroutine.send(got) if failure is None else coroutine.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            failure = None  # its traceback has this frame, which would refer to itself
