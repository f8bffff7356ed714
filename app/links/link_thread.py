"""The thread of one link: it takes the steps of the link over one connection to a member of the other cluster."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from app.links.follower import LinkFollower
from app.links.link_calls import LinkCalls, LinkError
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


class ServerCalls(Protocol):
    """The calls to one server."""

    server: str

    def cut(self) -> None:
        """End the calls under way, from any thread."""


class LinkThread:
    """Takes the steps of a link until it is ended. ``server`` and the counts are for any thread."""

    def __init__(
        self,
        follower: LinkFollower,
        part: Callable[[], tuple[int, int] | None],
        now_ms: Callable[[], int],
        steps: Callable[..., LinkSteps] = LinkSteps,
    ) -> None:
        """``part``: as ``LinkSteps`` has it. ``steps``: makes those of the kind of the link."""
        self.follower, self._now_ms = follower, now_ms
        self.steps = steps(follower, part, now_ms, random.random)
        self._stopped = threading.Event()
        self._withdraws = False
        self._calls: ServerCalls | None = None
        self._begun_ms = 0
        self._lines: Iterator[tuple[list[dict[str, Any]], int]] = iter(())
        self._token = ""
        self._thread = threading.Thread(target=self._run, name=f"link-{follower.settings.name}", daemon=True)

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

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        steps = self.steps.run()
        step = next(steps)
        while not self._stopped.is_set():
            try:
                answer = self._take(step)
            except LinkError as error:
                self._token = ""
                if not self._stopped.is_set():
                    step = steps.throw(error)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
        self._disconnect()

    def _take(self, step: Step) -> object:
        """Take one step. Return its answer, if it has one.

        Raises:
            LinkError: it failed.
        """
        match step:
            case Rest(seconds):
                self._stopped.wait(seconds)
            case Connect(server, timeout_s):
                self._begun_ms = self._now_ms()
                self._calls = calls = LinkCalls(self.follower.settings, server, self._token)
                calls.connect(timeout_s)
                calls.log_in()
                self._token = calls.token
            case CompareSlice(query, body):
                return self._connected().compare(query, body)
            case OpenStream(query):
                self._lines = self._connected().lines(query)
            case ReadStream():
                return next(self._lines, None)
            case Disconnect():
                self._disconnect()
        return None

    def _connected(self) -> LinkCalls:
        assert isinstance(self._calls, LinkCalls)
        return self._calls

    def _disconnect(self) -> None:
        calls, self._calls = self._calls, None
        if isinstance(calls, LinkCalls):
            calls.close()
