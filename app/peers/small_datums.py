"""SmallSends: instance lists and their deltas in small frames, which the event loop sends on connections that it keeps.

A blocking call costs the client library half a millisecond of work, and the other member as much again; the loops need
a twentieth of that. A send of many changes goes out as several frames, one after the other. Large datums go through the
blocking agent, as does everything for members that do not read small frames on their loop.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from threading import Lock
from typing import Any, Protocol

from app.config.version import MEMBER_AGENT
from app.peers.link_results import LinkAnswer, LinkResult
from app.peers.passed_writes import LoopForwarder
from app.peers.peer_parts import PeerParts
from distro.model.errors import CodecError, ForbiddenError, RejectedError, TransportError
from distro.model.ports import Clock, Done
from distro.model.types import CAPABILITY_DELTAS, Datum, Received, Version
from distro.wire.call_trust import CLOCK_HEADER, DEADLINE_HEADER
from distro.wire.codec import decode_received, frame_of, gzip_body
from distro.wire.http_agent import GZIP_FROM_BYTES, MEMBER_HEADER, DistroHttpAgent

SMALL_BYTES, SMALL_ZIPPED_BYTES = 16_384, 4_096
"""The largest frames, plain and as gzip, that a member reads on its event loop: under a millisecond's work."""
PATH = "/v1/ns/distro/datum"
FRAMES_MAX = 16
"""The most frames of one send. With more, a blocking call costs less."""
SAME_FRAME_MS = 20
"""For how long a frame is reused for further peers: the same change goes to all of them at nearly the same time."""


@dataclass(frozen=True, slots=True)
class PeerPut:
    """A call to a Rollcall member. ``path`` is below the context path."""

    peer: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float


@dataclass(frozen=True, slots=True)
class PutAnswer:
    """The answer of a member. None stands for it if there was none in time."""

    status: int
    body: bytes


class LoopCalls(Protocol):
    """Makes calls from the event loop. For any thread; never blocks."""

    def put(self, call: PeerPut, done: Callable[[PutAnswer | None], None]) -> None:
        """Make a call. ``done`` is called once, from any thread, soon after the time-out at the latest."""
        ...


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame as the loop sends it, and the keys of its datums."""

    body: bytes
    keys: list[str]
    is_packed: bool


@dataclass(frozen=True, slots=True)
class _Frames:
    """The frames of one send, which serve every peer that lacks the same changes."""

    of: tuple[tuple[str, Version | None, Version], ...]
    """The key, base and version of each datum in them, which determine their content except for ages."""
    entries: list[bytes]
    small: list[_Frame] | None
    """The frames for the loop; None if they are too large or too many for it."""
    stamp: str
    """When they were made, from which the receivers count the ages in them."""
    made_ms: int


class SmallSends:
    """DistroCallbackAgent of instance lists, while a loop is attached. Thread-safe."""

    sends_small = True

    def __init__(self, agent: DistroHttpAgent, clock: Clock) -> None:
        """``agent``: takes large datums, and verify rounds."""
        self._agent = agent
        self._clock = clock
        self._calls: LoopCalls | None = None
        self._lock = Lock()
        """Guards ``_last``. A send of the same changes to another peer waits for the frames instead of making them."""
        self._last: _Frames | None = None

    def attach(self, calls: LoopCalls | None) -> None:
        """Send on this loop from now on; None to stop that."""
        self._calls = calls

    def takes(self, peer: str) -> bool:
        return self._calls is not None and CAPABILITY_DELTAS in self._agent.capabilities(peer)

    def start_verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int, done: Done) -> None:
        try:
            received = self._agent.verify(peer, summary, timeout_ms)
        except TransportError as error:
            done(error)
        else:
            done(received)

    def start_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> None:
        """Send datums. The caller waits for those that are too large for the peer's loop."""
        frames = self._frames(datums)
        if self._started(peer, frames, timeout_ms, done):
            return
        try:
            received = self._agent.sync_frame(peer, frame_of(frames.entries), timeout_ms)
        except TransportError as error:
            done(error)
        else:
            done(received)

    def start_small_sync(self, peer: str, datums: list[Datum], timeout_ms: int, done: Done) -> bool:
        return self._started(peer, self._frames(datums), timeout_ms, done)

    def _started(self, peer: str, frames: _Frames, timeout_ms: int, done: Done) -> bool:
        """Send frames from the loop. Return False if they are too large or too many for it, or there is no loop."""
        calls, end_ms = self._calls, self._clock.boot_ms() + timeout_ms
        if calls is None or frames.small is None:
            return False
        _Series(self._agent, self._clock, calls, peer, frames.small, frames.stamp, end_ms, done).send_next()
        return True

    def _frames(self, datums: list[Datum]) -> _Frames:
        """Return the frames of these datums. Recent frames of the same deltas are used again."""
        of = tuple([(one.key, one.base, one.version) for one in datums])
        if any(one.base is None for one in datums):
            return self._made(datums, of)  # a whole list may be large: nobody else should wait until it is encoded
        with self._lock:
            last = self._last
            if last is None or last.of != of or self._clock.monotonic_ms() - last.made_ms > SAME_FRAME_MS:
                last = self._made(datums, of)
                self._last = None if last.small is None else last
            return last

    def _made(self, datums: list[Datum], of: tuple[tuple[str, Version | None, Version], ...]) -> _Frames:
        made_ms, stamp = self._clock.monotonic_ms(), self._agent.stamp()
        entries = self._agent.entries(datums)
        return _Frames(of, entries, _small_frames(entries, [one.key for one in datums]), stamp, made_ms)


class _Series:
    """The frames of one send on their way to a peer, each sent when the one before it was answered."""

    __slots__ = ("_agent", "_answers", "_calls", "_clock", "_done", "_end_ms", "_frames", "_peer", "_stamp")

    def __init__(
        self,
        agent: DistroHttpAgent,
        clock: Clock,
        calls: LoopCalls,
        peer: str,
        frames: list[_Frame],
        stamp: str,
        end_ms: int,
        done: Done,
    ) -> None:
        """``end_ms``: the deadline of all, by the clock since the boot."""
        self._agent = agent
        self._clock = clock
        self._calls = calls
        self._peer = peer
        self._frames = frames
        self._stamp = stamp
        self._end_ms = end_ms
        self._done = done
        self._answers: list[tuple[Received, int]] = []
        """The answers that came, each with its time."""

    def send_next(self) -> None:
        frame, left_ms = self._frames[len(self._answers)], max(self._end_ms - self._clock.boot_ms(), 1)
        headers = {
            "user-agent": MEMBER_AGENT,
            "content-type": "application/json",
            MEMBER_HEADER.lower(): self._agent.self_address,
        }
        if frame.is_packed:
            headers["content-encoding"] = "gzip"
        try:
            deadline = self._agent.deadline(self._peer, left_ms)
        except TransportError as error:
            self._done(error)
            return
        if deadline:
            headers |= {DEADLINE_HEADER.lower(): deadline, CLOCK_HEADER.lower(): self._stamp}
        self._agent.sent(self._peer, len(frame.body))
        self._calls.put(PeerPut(self._peer, PATH, headers, frame.body, left_ms / 1_000), self._answered)

    def _answered(self, answer: PutAnswer | None) -> None:
        now_ms = self._clock.boot_ms()
        # R9: an answer read after its deadline may be as old as a pause of this process.
        result = _result(self._peer, None if now_ms > self._end_ms else answer)
        if isinstance(result, TransportError):
            self._done(result)  # the peer recognizes earlier frames when they come again
            return
        self._answers.append((result, now_ms))
        if len(self._answers) < len(self._frames):
            self.send_next()
        else:
            self._done(result if len(self._answers) == 1 else self._joined(now_ms))

    def _joined(self, now_ms: int) -> Received:
        """Return the answers as one that comes now: ages in an earlier answer grow by the time since."""
        refused: dict[str, Version] = {}
        failed: dict[str, str] = {}
        wanted: list[str] = []
        ages_ms: dict[str, float | None] = {}
        pushed_ms: dict[str, float] = {}
        for frame, (one, at_ms) in zip(self._frames, self._answers, strict=True):
            refused.update(one.refused)
            failed.update(one.failed)
            wanted += one.wanted
            pushed_ms.update(one.pushed_ms)
            for key in frame.keys:
                age_ms = one.ages_ms.get(key, 0.0)
                ages_ms[key] = None if age_ms is None else age_ms + now_ms - at_ms
        return Received(refused, failed, tuple(wanted), ages_ms, pushed_ms)


def _small_frames(entries: list[bytes], keys: list[str]) -> list[_Frame] | None:
    """Return small frames of these entries; None if an entry is too large, or there are too many."""
    begins, size = [0], 0
    for at, entry in enumerate(entries):
        size += len(entry) + 1
        if size >= SMALL_BYTES and at > begins[-1]:
            begins.append(at)
            size = len(entry) + 1
        if size >= SMALL_BYTES or len(begins) > FRAMES_MAX:
            return None
    ends = [*begins[1:], len(entries)]
    return [_frame(entries[begin:end], keys[begin:end]) for begin, end in zip(begins, ends, strict=True)]


def _frame(entries: list[bytes], keys: list[str]) -> _Frame:
    plain = frame_of(entries)
    if len(plain) >= GZIP_FROM_BYTES and len(packed := gzip_body(plain)) <= SMALL_ZIPPED_BYTES:
        return _Frame(packed, keys, is_packed=True)
    return _Frame(plain, keys, is_packed=False)


def _result(peer: str, answer: PutAnswer | None) -> Received | TransportError:
    if answer is None:
        return TransportError(f"{peer} did not answer in time")
    if answer.status == HTTPStatus.OK:
        try:
            return decode_received(answer.body)
        except CodecError as error:
            return TransportError(f"the answer of {peer} cannot be read: {error}")
    text = f"{peer} answered {PATH} with status {answer.status}: {answer.body[:200]!r}"
    if answer.status == HTTPStatus.FORBIDDEN:
        return ForbiddenError(text)
    return RejectedError(text) if 400 <= answer.status < 500 else TransportError(text)


Told = Callable[[PutAnswer | None], None]


class DatumSender:
    """LoopCalls on the connections of ``LoopForwarder``. ``put`` is for any thread, ``close`` for the loop's."""

    def __init__(self, services: PeerParts, forwarder: LoopForwarder[Any]) -> None:
        self._services = services
        self._forwarder = forwarder
        self._loop: asyncio.AbstractEventLoop = forwarder.loop
        self._waiting: dict[int, Told] = {}
        """The callbacks that wait for an answer, by number; at most one for each peer and resource type."""
        self._number = 0
        self._closed = False

    def put(self, call: PeerPut, done: Told) -> None:
        """Make a call, signed, and signed again once if the member asks for that."""
        try:
            self._loop.call_soon_threadsafe(self._begin, call, done)
        except RuntimeError:  # the loop is closed
            done(None)

    def close(self) -> None:
        """End all calls; later ones are not made."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for told in waiting.values():
            told(None)

    def _begin(self, call: PeerPut, done: Told) -> None:
        if self._closed:
            done(None)
            return
        self._number += 1
        self._waiting[self._number] = done
        self._send(call, self._number, self._loop.time() + call.timeout_s, signed_anew=False)

    def _send(self, call: PeerPut, number: int, deadline_s: float, *, signed_anew: bool) -> None:
        target = self._services.settings.context_path + call.path
        request = self._forwarder.requests.signed("PUT", target, call.peer, dict(call.headers), call.body)
        on_result = partial(self._on_result, call, number, deadline_s, signed_anew)
        if not self._forwarder.ask(call.peer, request, deadline_s, on_result, own_kind=True):
            self._tell(number, None)

    def _on_result(self, call: PeerPut, number: int, deadline_s: float, signed_anew: bool, result: LinkResult) -> None:
        if not isinstance(result, LinkAnswer):
            self._tell(number, None)
        elif not signed_anew and self._forwarder.requests.learn(call.peer, result):
            self._send(call, number, deadline_s, signed_anew=True)
        else:
            self._tell(number, PutAnswer(result.status, result.body))

    def _tell(self, number: int, answer: PutAnswer | None) -> None:
        told = self._waiting.pop(number, None)
        if told is not None:
            told(answer)
