"""The steps of one link: the server that it calls, when it compares, and how it takes the stream of changes.

It does no I/O: it yields each step, and gets its result, or ``LinkError``. A thread takes the steps over sockets
(``link_thread``), the simulation over its network.
"""

import logging
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from app.links.feed_lines import FollowedPart
from app.links.follower import Held, LinkFollower
from app.links.link_calls import TIMEOUT_S, LinkError
from distro.model.errors import CodecError

LOG = logging.getLogger(__name__)
SILENT_MS = 3_000
"""After so long without a word the link is silent. The other side says something each second."""
MARKED_MS = 4_500
"""An attempt to connect ends so long after the last word: the silence is marked within 5 s (docs/links.md)."""
COMPARED_MS = 10_000
"""The longest time from a request to compare to its answer."""
CONNECT_S = 0.5
"""The shortest time for an attempt to connect."""
RETRY_S, RETRY_MAX_S = 0.1, 2.0
"""The first wait after a failure and the longest: each is doubled, and up to a quarter is left off by chance."""
AGAIN_S = 0.05
WAIT_S = 0.2
"""The wait while this member owns nothing, as it has just come."""
COMPARE_MS = 300_000
"""A link compares at least so often: what any fault left different is found."""
LOG_AGAIN_MS = 60_000
MORE_MAX = 10_000
"""Answers of one comparison that may say that there is more."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect to a member of the other cluster within ``timeout_s``, and log in."""

    server: str
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True)
class CompareSlice:
    """Ask for a comparison. Its answer is a JSON object."""

    query: dict[str, object]
    body: dict[str, object]


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Ask for the stream of changes."""

    query: dict[str, object]


@dataclass(frozen=True, slots=True)
class ReadStream:
    """Wait for lines of the stream. Its answer: the lines and their bytes; None at the end of the stream."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection, if there is one."""


Step = Rest | Connect | CompareSlice | OpenStream | ReadStream | Disconnect
Lines = tuple[list[dict[str, Any]], int] | None


class Pace:
    """Holds a link to so many changes and bytes a second, over windows of a second."""

    def __init__(self, changes_per_s: int, bytes_per_s: int) -> None:
        self._changes_per_s, self._bytes_per_s = changes_per_s, bytes_per_s
        self._free_s = 0.0

    def wait_s(self, changes: int, size: int, now_s: float) -> float:
        """Count what came. Return how long to read nothing: the other side then waits, too."""
        cost_s = max(changes / self._changes_per_s, size / self._bytes_per_s)
        self._free_s = max(self._free_s, now_s - 1.0) + cost_s
        return max(self._free_s - now_s, 0.0)


class LinkSteps:
    """The steps of a link at this member, for a thread or the simulation."""

    def __init__(
        self,
        follower: LinkFollower,
        part: Callable[[], tuple[int, int] | None],
        now_ms: Callable[[], int],
        share: Callable[[], float] = random.random,
    ) -> None:
        """``part``: which of how many parts of the services this member owns; None while it owns none.

        ``share``: a number from 0 to 1 by chance.
        """
        self.follower, self._part, self._now_ms, self._share = follower, part, now_ms, share
        settings = follower.settings
        self._pace = Pace(settings.changes_per_s, settings.bytes_per_s)
        self._server = 0
        self._failures = 0
        self._compared_ms = 0
        self._logged_ms = -LOG_AGAIN_MS
        self.bytes = self.connections = 0

    @property
    def sent_services(self) -> int:
        """Return how many services have instances that this member registers at the other side."""
        return 0

    @property
    def sent_instances(self) -> int:
        """Return how many local instances this member registers at the other side."""
        return 0

    def run(self) -> Generator[Step, Any, None]:
        """Yield the steps, without an end. A step that fails gets ``LinkError``."""
        wait_s = 0.0
        while True:
            yield Rest(wait_s)
            if (place := self._part()) is None:
                self.follower.part = None  # another member follows these services, and changes what is stored
                wait_s = WAIT_S
                continue
            self._take_part(place)
            try:
                yield from self._follow_one()
                wait_s = AGAIN_S
            except (LinkError, CodecError) as error:
                wait_s = self._failed(str(error))
            except Exception as error:
                LOG.exception("link %s failed unexpectedly", self.follower.settings.name)
                wait_s = self._failed(f"{type(error).__name__}: {error}")
            yield Disconnect()

    def _take_part(self, place: tuple[int, int]) -> None:
        part = FollowedPart(*place, self.follower.settings.chosen)
        if part != self.follower.part:
            self.follower.follow(part)

    def _failed(self, text: str) -> float:
        """Note a failure. Return how long to wait before the next server is called."""
        follower, now_ms = self.follower, self._now_ms()
        follower.error = text
        follower.again.failed()
        self.next_server()
        self._failures += 1
        if now_ms - self._logged_ms >= LOG_AGAIN_MS:
            self._logged_ms = now_ms
            LOG.warning("link %s: %s", follower.settings.name, text)
        if now_ms - follower.heard_ms >= SILENT_MS and (place := self._part()) is not None:
            self._take_part(place)  # what another member owns by now is not for this one to mark
            follower.silent(now_ms)
        wait_s: float = min(RETRY_S * 2 ** min(self._failures - 1, 10), RETRY_MAX_S)
        return wait_s * (1 - self._share() / 4)

    def _follow_one(self) -> Generator[Step, Any, None]:
        """Follow one server until something else is to be done than to take its stream.

        Raises:
            LinkError, CodecError: the link is to try another one.
        """
        assert self.follower.part is not None
        self.connections += 1
        yield Connect(self._server_of(self.follower.part.part), self._connect_timeout_s())
        while self._is_same_part():
            if self._is_comparison_due():
                yield from self._compare()
            if not (yield from self._take_lines()):
                return  # what is left of the stream would come before the answer to another call

    def _connect_timeout_s(self) -> float:
        """Return how long to wait for a connection: only until silence is to be marked, while it is not."""
        if self.follower.stale:
            return TIMEOUT_S
        left_s = (self.follower.heard_ms + MARKED_MS - self._now_ms()) / 1_000
        return min(max(left_s, CONNECT_S), TIMEOUT_S)

    def next_server(self) -> None:
        """Call another server from now on."""
        self._server += 1

    def _server_of(self, number: int) -> str:
        """Return the server for a member by its number: members call different ones."""
        servers = self.follower.settings.servers
        return servers[(self._server + number) % len(servers)]

    def _is_same_part(self) -> bool:
        """Return whether this member owns the same services as when it began."""
        part = self.follower.part
        return part is not None and self._part() == (part.part, part.of)

    def _is_comparison_due(self) -> bool:
        follower, now_ms = self.follower, self._now_ms()
        if follower.placed is None or follower.is_disturbed or follower.again.is_due:
            return True
        if now_ms - self._compared_ms >= COMPARE_MS:
            return True
        return follower.recheck_ms is not None and now_ms >= follower.recheck_ms

    def _compare(self) -> Generator[Step, Any, None]:
        self.follower.begin_comparison()
        self.follower.again.begin()
        follower, answers, slices, number = self.follower, list[dict[str, Any]](), self.follower.slices(), 0
        held = follower.held()
        while number < slices:
            found = yield from self._compare_slice(held, number, slices)
            if found is None:  # there are more services than were known
                answers, slices, number = [], follower.slices(), 0
                continue
            answers += found
            number += 1
        follower.compared(answers, held, self._now_ms())
        follower.again.fetched()
        self._compared_ms = self._now_ms()

    def _compare_slice(self, held: Held, number: int, slices: int) -> Generator[Step, Any, list[dict[str, Any]] | None]:
        """Return the answers to one comparison; None if it has to be cut into more."""
        follower, answers = self.follower, list[dict[str, Any]]()
        query, body = follower.query() | {"slice": number, "slices": slices}, follower.body(held, number, slices)
        for _ in range(MORE_MAX):
            begun_ms = self._now_ms()
            answer: dict[str, Any] = yield CompareSlice(query, body)
            self._check_timely(begun_ms, COMPARED_MS)
            follower.greeted(answer, self._now_ms())
            follower.counted(answer)
            if follower.slices() > slices:
                return None
            answers.append(answer)
            found = answer.get("set")
            if answer.get("more") is not True or not isinstance(found, list) or not found:
                break
            body = {"held": _with(body["held"], found)}
            yield Rest(self._pace.wait_s(len(found), 0, self._now_ms() / 1_000))
        return answers

    def _take_lines(self) -> Generator[Step, Any, bool]:
        """Take the stream of changes. Return whether it came to its end."""
        follower, placed = self.follower, self.follower.placed
        if placed is None:
            return False
        yield OpenStream(follower.query() | {"run": placed.run, "since": placed.place})
        while True:
            begun_ms = self._now_ms()
            read: Lines = yield ReadStream()
            self._check_timely(begun_ms, SILENT_MS)
            if read is None:
                return True
            lines, size = read
            for one in lines:
                follower.line(one, self._now_ms())
            yield Rest(self.came(sum("service" in one for one in lines), size))
            if follower.placed is None or self._is_comparison_due() or not self._is_same_part():
                return False

    def _check_timely(self, begun_ms: int, most_ms: int) -> None:
        """Refuse an answer that may have waited here for this member to continue: another one may have heard later
        ones.

        Raises:
            LinkError: the answer took longer than ``most_ms``.
        """
        if (took_ms := self._now_ms() - begun_ms) > most_ms:
            raise LinkError(f"an answer took {took_ms} ms: this member may have stood still, and the answer may be old")

    def came(self, changes: int, size: int) -> float:
        """Count what a server sent, which works therefore. Return how long to read nothing more, in s."""
        self.bytes += size
        self._failures = 0
        return self._pace.wait_s(changes, size, self._now_ms() / 1_000)


def _with(held: object, found: list[object]) -> list[list[object]]:
    """Return the rows of the copies, with those of an answer."""
    rows = {(row[0], row[1]): row for row in (held if isinstance(held, list) else [])}
    for one in found:
        if isinstance(one, dict):
            rows[one.get("ns"), one.get("service")] = [one.get("ns"), one.get("service"), one.get("digest")]
    return list(rows.values())
