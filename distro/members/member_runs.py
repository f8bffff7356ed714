"""MemberRuns: which runs of members are over, and until when the clients of such a run are handed over (R17)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

HANDOVER_MS = 40_000
"""For so long after the end of a member's run others keep the clients that were connected to it.

The SDKs for Python publish anew up to 35 s later: each 30 s they look for what they have to repeat.
"""
RETURNING_MS = 20_000
"""A hand-over lasts for so long at least after a client came back: where the others wait for a machine that is busy."""
HANDOVER_MS_MAX = 300_000
"""And never longer than this, as clients that are gone for good are listed until its end."""
RUNS_REMEMBERED = 16
"""Ended runs that are known of a member."""
FORMER_MAX = 64
"""Members that left the list and are remembered."""


class Handover(NamedTuple):
    """Until when the clients of a run that is over are kept, and at most, in monotonic ms."""

    end_ms: int
    max_ms: int

    def moved(self, by_ms: int) -> "Handover":
        return Handover(self.end_ms + by_ms, self.max_ms + by_ms)

    def until(self, end_ms: int) -> "Handover":
        """One that lasts until then, if it may, and if it does not last longer."""
        return Handover(min(max(self.end_ms, end_ms), self.max_ms), self.max_ms)


class MemberRuns:
    """The runs of listed members, named as versions' writers (``address~run``). Times are monotonic ms.

    One thread changes it; any may ask ``is_known``, ``has_left`` and ``is_handing_over``, and call ``came_back``.
    """

    def __init__(self, self_address: str, now_ms: int) -> None:
        self.own_writer = ""
        """The writer of this run, once its protocol is made."""
        self._self_address = self_address
        self._writers: dict[str, str] = {}
        """The writer of each listed peer's run, by its last answer."""
        self._ended: Mapping[str, tuple[str, ...]] = {}
        """Of each listed peer, the writers of its runs that are over, the latest last. Replaced, never changed."""
        self._former: tuple[str, ...] = ()
        """Members that left the list, the latest last: what they wrote is claimed by others, but not at once."""
        self._handing_over: Mapping[str, Handover] = {}
        """Writers of runs that are over, whose clients are handed over. Replaced, never changed."""
        self._own: Handover | None = _handover(now_ms)
        """The hand-over of the clients of runs that were over when this member started; None once it is over."""
        self._returns: dict[str, int] = {}
        """When a client of a run came back last, since the last ``tick``."""

    def is_known(self, writer: str) -> bool:
        """Whether it is a run of a member that is listed, or was until lately."""
        address = writer.partition("~")[0]
        return address in self._ended or address == self._self_address or address in self._former

    def is_present(self, writer: str) -> bool:
        """Return whether it is the run in a peer's last answer. Called from any thread."""
        return bool(writer) and self._writers.get(writer.partition("~")[0]) == writer

    def is_replaced(self, writer: str) -> bool:
        """Whether a run is over and another one of the same member has answered since. Called from any thread."""
        address = writer.partition("~")[0]
        return writer in self._ended.get(address, ()) and self._writers.get(address, writer) != writer

    def has_left(self, writer: str) -> bool:
        """Whether a run is over, as far as known, and the hand-over of its clients too."""
        return self._is_over(writer) and not self.is_handing_over(writer)

    def is_handing_over(self, writer: str) -> bool:
        """Whether a run is over, and its clients are still kept until they are back elsewhere."""
        return writer in self._handing_over or (self._own is not None and self._ended_before(writer))

    def _ended_before(self, writer: str) -> bool:
        """Whether a run was over when this member started: its own, or earlier than that in a peer's last answer."""
        if self._is_former(writer):
            return True
        address = writer.partition("~")[0]
        last = self._writers.get(address, "")
        is_earlier = (len(writer), writer) < (len(last), last)  # they start with the time of the start, in hex
        return is_earlier and writer not in self._ended.get(address, ())

    def came_back(self, writer: str, now_ms: int) -> None:
        """Note that a client that a run is handing over publishes elsewhere: others of it may need as long."""
        self._returns[writer] = now_ms

    def _is_over(self, writer: str) -> bool:
        address = writer.partition("~")[0]
        ended = self._ended.get(address)
        return writer in ended if ended is not None else address != self._self_address or self._is_former(writer)

    def _is_former(self, writer: str) -> bool:
        is_own = bool(self.own_writer) and writer.partition("~")[0] == self._self_address
        return is_own and writer != self.own_writer

    def replace(self, came: Iterable[str], left: Iterable[str], now_ms: int) -> None:
        """Follow the member list: all runs of who left are over."""
        for address in left:
            self.end(address, now_ms)
            self._writers.pop(address, None)
        gone = list(left)
        self._former = (*[one for one in self._former if one not in gone], *gone)[-FORMER_MAX:]
        kept = {address: ended for address, ended in self._ended.items() if address not in gone}
        self._ended = kept | dict.fromkeys(came, ())

    def remember(self, writers: Iterable[str]) -> None:
        """Know the members that wrote what this one has on its disk, though no list names them any more.

        Members that are known by their addresses may all have others after a restart of all.
        """
        addresses = sorted({writer.partition("~")[0] for writer in writers} - {self._self_address, *self._former})
        self._former = (*addresses, *self._former)[-FORMER_MAX:]

    def follow(self, address: str, writer: str, now_ms: int, *, goes_on: bool = True) -> None:
        """Note the run in a peer's answer; the one before it is over. (A report may be late, from a run that is.)

        ``goes_on``: it does not say that it ends; it may have left the list for a while, or only be said to have left.
        """
        if goes_on and (writer in self._ended.get(address, ()) or writer in self._handing_over):
            ended = tuple(one for one in self._ended.get(address, ()) if one != writer)
            self._ended = {**self._ended, address: ended}
            self._handing_over = {one: end_ms for one, end_ms in self._handing_over.items() if one != writer}
        if not writer or writer == self._writers.get(address):
            return
        self.end(address, now_ms)
        self._writers[address] = writer

    def end(self, address: str, now_ms: int, writer: str = "") -> None:
        """Note that a peer's run is over, that of its last answer unless said."""
        run = writer or self._writers.get(address)
        ended = self._ended.get(address, ())
        if run and run not in ended:
            self._ended = {**self._ended, address: (*ended, run)[-RUNS_REMEMBERED:]}
            # Clients of runs before may have gone to this one, and not have published yet: their time begins anew.
            before = {one: handover.until(now_ms + HANDOVER_MS) for one, handover in self._handing_over.items()}
            self._handing_over = {**before, run: _handover(now_ms)}
            if self._own is not None:
                self._own = self._own.until(now_ms + HANDOVER_MS)

    def on_pause(self, pause_ms: int) -> None:
        """Add a pause of this process to the ends of all hand-overs (R9)."""
        self._handing_over = {one: handover.moved(pause_ms) for one, handover in self._handing_over.items()}
        if self._own is not None:
            self._own = self._own.moved(pause_ms)

    def tick(self, now_ms: int) -> None:
        """End the hand-overs whose time is over."""
        returns, self._returns = self._returns, {}
        for writer, at_ms in list(returns.items()):  # a thread that was interrupted may still add one
            end_ms = at_ms + RETURNING_MS
            if writer in self._handing_over:
                self._handing_over = {**self._handing_over, writer: self._handing_over[writer].until(end_ms)}
            elif self._own is not None and self._ended_before(writer):
                self._own = self._own.until(end_ms)
        if self._own is not None and self._own.end_ms <= now_ms:
            self._own = None
        if any(one.end_ms <= now_ms for one in self._handing_over.values()):
            self._handing_over = {writer: one for writer, one in self._handing_over.items() if one.end_ms > now_ms}


def _handover(now_ms: int) -> Handover:
    return Handover(now_ms + HANDOVER_MS, now_ms + HANDOVER_MS_MAX)
