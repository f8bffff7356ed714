"""The thread of one link: it connects to a member of the other cluster, compares, and takes the stream of changes."""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from app.links.feed_lines import FollowedPart
from app.links.follower import LinkFollower
from app.links.link_calls import LinkCalls, LinkError
from distro.model.errors import CodecError

LOG = logging.getLogger(__name__)
SILENT_MS = 3_000
"""After so long without a word the link is silent. The other side says something each second."""
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


class Calls(Protocol):
    """The calls to one server."""

    server: str

    def cut(self) -> None:
        """End the calls under way, from any thread."""


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


class LinkThread:
    """Follows the other cluster until it is stopped. ``state`` is for any thread."""

    def __init__(
        self,
        follower: LinkFollower,
        part: Callable[[], tuple[int, int] | None],
        now_ms: Callable[[], int],
    ) -> None:
        """``part``: which of how many parts of the services this member owns; None while it owns none."""
        self.follower, self._part, self._now_ms = follower, part, now_ms
        settings = follower.settings
        self._pace = Pace(settings.changes_per_s, settings.bytes_per_s)
        self._stopped = threading.Event()
        self._withdraws = False
        self._calls: Calls | None = None
        self._server = 0
        self._failures = 0
        self._compared_ms = self._begun_ms = 0
        self._logged_ms = -LOG_AGAIN_MS
        self._token = ""
        self.bytes = self.connections = 0
        self._thread = threading.Thread(target=self._run, name=f"link-{settings.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, *, withdraws: bool = False) -> None:
        """Begin to end the thread, from any thread. ``withdraws``: as of ``NacosSide.close``."""
        self._withdraws = withdraws
        self._stopped.set()
        if (calls := self._calls) is not None:
            calls.cut()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread after ``end``. Return whether it ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def check(self) -> None:
        """Cut a call under way in which nothing whole came for too long. For a timer."""
        calls = self._calls
        if calls is not None and self._now_ms() - max(self.follower.heard_ms, self._begun_ms) > 2 * SILENT_MS:
            calls.cut()

    @property
    def server(self) -> str:
        """Return the member that is followed; empty while none is."""
        calls = self._calls
        return calls.server if calls is not None else ""

    @property
    def sent_services(self) -> int:
        """Return how many services have instances that this member registers at the other side."""
        return 0

    @property
    def sent_instances(self) -> int:
        """Return how many local instances this member registers at the other side."""
        return 0

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopped.wait(wait_s):
            if (place := self._part()) is None:
                wait_s = WAIT_S
                continue
            self._take_part(place)
            try:
                self._follow_one()
                wait_s = AGAIN_S
            except (LinkError, CodecError) as error:
                wait_s = self._failed(str(error))
            except Exception as error:
                LOG.exception("link %s failed unexpectedly", self.follower.settings.name)
                wait_s = self._failed(f"{type(error).__name__}: {error}")
            finally:
                self._calls = None

    def _take_part(self, place: tuple[int, int]) -> None:
        part = FollowedPart(*place, self.follower.settings.chosen)
        if part != self.follower.part:
            self.follower.follow(part)

    def _failed(self, text: str) -> float:
        """Note a failure. Return how long to wait before the next server is called."""
        follower, now_ms = self.follower, self._now_ms()
        if self._stopped.is_set():
            return 0.0
        follower.error, self._token = text, ""
        self._server += 1
        self._failures += 1
        if now_ms - self._logged_ms >= LOG_AGAIN_MS:
            self._logged_ms = now_ms
            LOG.warning("link %s: %s", follower.settings.name, text)
        if now_ms - follower.heard_ms >= SILENT_MS:
            follower.silent(now_ms)
        wait_s: float = min(RETRY_S * 2 ** min(self._failures - 1, 10), RETRY_MAX_S)
        return wait_s * random.uniform(0.75, 1.0)

    def _follow_one(self) -> None:
        """Follow one server until something else is to be done than to take its stream.

        Raises:
            LinkError, CodecError: the link is to try another one.
        """
        follower, servers = self.follower, self.follower.settings.servers
        assert follower.part is not None
        server = servers[(self._server + follower.part.part) % len(servers)]
        with LinkCalls(follower.settings, server, self._token) as calls:
            self._calls, self._begun_ms = calls, self._now_ms()
            self.connections += 1
            calls.log_in()
            self._token = calls.token
            while not self._stopped.is_set() and self._is_same_part():
                if self._is_comparison_due():
                    self._compare(calls)
                if not self._take_lines(calls):
                    return  # what is left of the stream would come before the answer to another call

    def _is_same_part(self) -> bool:
        """Return whether this member owns the same services as when it began."""
        part = self.follower.part
        return part is not None and self._part() == (part.part, part.of)

    def _is_comparison_due(self) -> bool:
        follower, now_ms = self.follower, self._now_ms()
        is_late = now_ms - self._compared_ms >= COMPARE_MS
        return follower.placed is None or is_late or (follower.recheck_ms is not None and now_ms >= follower.recheck_ms)

    def _compare(self, calls: LinkCalls) -> None:
        follower, answers, slices, number = self.follower, list[dict[str, Any]](), self.follower.slices(), 0
        while number < slices and not self._stopped.is_set():
            found = self._compare_slice(calls, number, slices)
            if found is None:  # there are more services than were known
                answers, slices, number = [], follower.slices(), 0
                continue
            answers += found
            number += 1
        if not self._stopped.is_set():
            follower.compared(answers, self._now_ms())
            self._compared_ms = self._now_ms()

    def _compare_slice(self, calls: LinkCalls, number: int, slices: int) -> list[dict[str, Any]] | None:
        """Return the answers to one comparison; None if it has to be cut into more."""
        follower, answers = self.follower, list[dict[str, Any]]()
        query, body = follower.query() | {"slice": number, "slices": slices}, follower.body(number, slices)
        for _ in range(MORE_MAX):
            answer = calls.compare(query, body)
            follower.greeted(answer, self._now_ms())
            follower.counted(answer)
            if follower.slices() > slices:
                return None
            answers.append(answer)
            found = answer.get("set")
            if answer.get("more") is not True or not isinstance(found, list) or not found:
                break
            body = {"held": _with(body["held"], found)}
            self._rest(len(found), 0)
        return answers

    def _take_lines(self, calls: LinkCalls) -> bool:
        """Take the stream of changes. Return whether it came to its end."""
        follower, placed = self.follower, self.follower.placed
        if placed is None:
            return False
        for lines, size in calls.lines(follower.query() | {"run": placed.run, "since": placed.place}):
            self.bytes += size
            self._failures = 0
            for one in lines:
                follower.line(one, self._now_ms())
            self._rest(sum("service" in one for one in lines), size)
            is_done = follower.placed is None or self._is_comparison_due() or not self._is_same_part()
            if self._stopped.is_set() or is_done:
                return False
        return True

    def _rest(self, changes: int, size: int) -> None:
        wait_s = self._pace.wait_s(changes, size, time.monotonic())
        if wait_s > 0:
            self._stopped.wait(wait_s)


def _with(held: object, found: list[object]) -> list[list[object]]:
    """Return the rows of what is held, with what an answer brought."""
    rows = {(row[0], row[1]): row for row in (held if isinstance(held, list) else [])}
    for one in found:
        if isinstance(one, dict):
            rows[one.get("ns"), one.get("service")] = [one.get("ns"), one.get("service"), one.get("digest")]
    return list(rows.values())
