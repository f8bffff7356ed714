"""MembersView: the member list at one moment, as one frozen value that any thread may read.

And MemberRuns: the runs of members that are over, and until when the clients of each are handed over (R17).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from distro.members.peer_state import ALWAYS_MS, NEVER_MS, Contact, is_lately
from distro.model.config import DistroConfig
from distro.model.types import HeardOf, Member, MemberKind, MemberState

HANDOVER_MS = 40_000
"""For so long after the end of a member's run others keep the clients that were connected to it.

The SDKs for Python publish again up to 35 s later: each 30 s they look for calls to repeat.
"""
RETURNING_MS = 20_000
"""A hand-over lasts for so long at least after a client came back: where the others wait for a machine that is busy."""
HANDOVER_MS_MAX = 300_000
"""And never longer than this, as clients that are gone for good are listed until its end."""
RUNS_REMEMBERED = 16
"""Ended runs that are known of a member."""
FORMER_MAX = 64
"""Members that left the list and are remembered."""


Value = TypeVar("Value")


class Handover(NamedTuple):
    """The hand-over of the clients of a run that is over. Times are monotonic ms."""

    end_ms: int
    """Until then the clients are kept."""
    max_ms: int
    """And until then at most, however long others need."""
    heard_ms: int
    """When the run was last heard of: it could not report later events."""

    def moved(self, by_ms: int) -> "Handover":
        """Return this hand-over, with all times moved by so many ms."""
        return Handover(self.end_ms + by_ms, self.max_ms + by_ms, self.heard_ms + by_ms)

    def until(self, end_ms: int) -> "Handover":
        """Return this hand-over, lasting until ``end_ms`` at least, as far as it may."""
        return self._replace(end_ms=min(max(self.end_ms, end_ms), self.max_ms))


class RunsView(NamedTuple):
    """Which runs of members are over, as of one moment. A run is named as a version's writer (``address~run``).

    The mappings are read-only.
    """

    self_address: str
    own_writer: str
    """The writer of this run; empty until its protocol is made."""
    writers: Mapping[str, str]
    """The writer of each listed peer's run, by its last answer."""
    ended: Mapping[str, tuple[str, ...]]
    """The writers of each listed peer's runs that are over, the latest last."""
    former: tuple[str, ...]
    """Members that left the list, the latest last: others claim what these wrote, but not at once."""
    handing_over: Mapping[str, Handover]
    """Writers of runs that are over, whose clients are handed over."""
    own: Handover | None
    """The hand-over of the clients of runs that were over when this member started; None once it is over."""

    def is_known(self, writer: str) -> bool:
        """Return whether it is a run of a member that is listed, or was until lately."""
        address = writer.partition("~")[0]
        return address in self.ended or address == self.self_address or address in self.former

    def is_present(self, writer: str) -> bool:
        """Return whether it is the run in a peer's last answer."""
        return bool(writer) and self.writers.get(writer.partition("~")[0]) == writer

    def is_replaced(self, writer: str) -> bool:
        """Return whether a run is over and another one of the same member has answered since."""
        address = writer.partition("~")[0]
        return writer in self.ended.get(address, ()) and self.writers.get(address, writer) != writer

    def has_left(self, writer: str) -> bool:
        """Return whether a run is over, as far as known, and the hand-over of its clients too."""
        return self._is_over(writer) and not self.is_handing_over(writer)

    def is_handing_over(self, writer: str) -> bool:
        """Return whether a run is over, and its clients are still kept until they are back elsewhere."""
        return writer in self.handing_over or (self.own is not None and self.ended_before(writer))

    def ended_before(self, writer: str) -> bool:
        """Return whether a run was over when this member started.

        Such is a version of this node's own run, or one earlier than the run in a peer's last answer.
        """
        if self._is_former(writer):
            return True
        address = writer.partition("~")[0]
        last = self.writers.get(address, "")
        is_earlier = (len(writer), writer) < (len(last), last)  # they start with the time of the start, in hex
        return is_earlier and writer not in self.ended.get(address, ())

    def _is_over(self, writer: str) -> bool:
        address = writer.partition("~")[0]
        ended = self.ended.get(address)
        return writer in ended if ended is not None else address != self.self_address or self._is_former(writer)

    def _is_former(self, writer: str) -> bool:
        is_own = bool(self.own_writer) and writer.partition("~")[0] == self.self_address
        return is_own and writer != self.own_writer


class MemberRuns:
    """The runs of listed members. One thread owns it; others read ``view``, a frozen value. Times are monotonic ms."""

    def __init__(self, self_address: str, now_ms: int) -> None:
        self.view = RunsView(self_address, "", _frozen({}), _frozen({}), (), _frozen({}), _handover(now_ms, NEVER_MS))
        """Replaced with each change, never changed itself."""
        self._returns: dict[str, int] = {}
        """When a client of a run came back last, since the last ``tick``."""
        self._heard_ms: dict[str, int] = {}
        """When the present run of a peer last called or answered, by address."""

    def heard(self, address: str, writer: str, now_ms: int) -> None:
        """Note that a run of a peer called or answered. (Before its first answer, it is not known for the present.)"""
        if writer and writer == self.view.writers.get(address):
            self._heard_ms[address] = now_ms

    def set_own_writer(self, own_writer: str) -> None:
        """Note the writer of this run."""
        self.view = self.view._replace(own_writer=own_writer)

    def came_back(self, writer: str, now_ms: int) -> None:
        """Note that a client that a run is handing over publishes elsewhere: others of it may need as long."""
        self._returns[writer] = now_ms

    def replace(self, came: Iterable[str], left: Iterable[str], now_ms: int) -> None:
        """Follow the member list: all runs of who left are over."""
        gone = list(left)
        for address in gone:
            self.end(address, now_ms)
            self._heard_ms.pop(address, None)
        view = self.view
        kept = {address: ended for address, ended in view.ended.items() if address not in gone}
        self.view = view._replace(
            writers=_frozen({address: writer for address, writer in view.writers.items() if address not in gone}),
            former=(*[one for one in view.former if one not in gone], *gone)[-FORMER_MAX:],
            ended=_frozen(kept | dict.fromkeys(came, ())),
        )

    def remember(self, writers: Iterable[str]) -> None:
        """Know the members that wrote what this one has on its disk, though no list names them any more.

        Members that are known by their addresses may all have others after a restart of all.
        """
        former = self.view.former
        addresses = sorted({writer.partition("~")[0] for writer in writers} - {self.view.self_address, *former})
        self.view = self.view._replace(former=(*addresses, *former)[-FORMER_MAX:])

    def follow(self, address: str, writer: str, now_ms: int, *, goes_on: bool = True) -> None:
        """Note the run in a peer's answer; the one before it is over. (A report may be late, from a run that is.)

        ``goes_on``: it does not say that it ends; it may have left the list for a while, or only be said to have left.
        """
        view = self.view
        if goes_on and (writer in view.ended.get(address, ()) or writer in view.handing_over):
            ended = tuple(one for one in view.ended.get(address, ()) if one != writer)
            self.view = view._replace(
                ended=_frozen({**view.ended, address: ended}),
                handing_over=_frozen({one: end_ms for one, end_ms in view.handing_over.items() if one != writer}),
            )
        if not writer or writer == view.writers.get(address):
            return
        self.end(address, now_ms)
        self.view = self.view._replace(writers=_frozen({**self.view.writers, address: writer}))

    def end(self, address: str, now_ms: int, writer: str = "") -> None:
        """Note that a peer's run is over, that of its last answer unless said."""
        view = self.view
        run = writer or view.writers.get(address)
        ended = view.ended.get(address, ())
        if run and run not in ended:
            # Clients of runs before may have gone to this one, and not have published yet: their time begins again.
            before = {one: handover.until(now_ms + HANDOVER_MS) for one, handover in view.handing_over.items()}
            self.view = view._replace(
                ended=_frozen({**view.ended, address: (*ended, run)[-RUNS_REMEMBERED:]}),
                handing_over=_frozen({**before, run: _handover(now_ms, self._heard_ms.get(address, now_ms))}),
                own=None if view.own is None else view.own.until(now_ms + HANDOVER_MS),
            )

    def on_pause(self, pause_ms: int) -> None:
        """Add a pause of this process to the times of all runs (R9)."""
        view = self.view
        self._heard_ms = {address: heard_ms + pause_ms for address, heard_ms in self._heard_ms.items()}
        self.view = view._replace(
            handing_over=_frozen({one: handover.moved(pause_ms) for one, handover in view.handing_over.items()}),
            own=None if view.own is None else view.own.moved(pause_ms),
        )

    def tick(self, now_ms: int) -> None:
        """End the hand-overs whose time is over."""
        if not self._returns and self.view.own is None and not self.view.handing_over:
            return
        returns, self._returns = self._returns, {}
        for writer, at_ms in returns.items():
            self._prolong(writer, at_ms + RETURNING_MS)
        own, handing_over = self.view.own, self.view.handing_over
        if own is not None and own.end_ms <= now_ms:
            self.view = self.view._replace(own=None)
        if any(one.end_ms <= now_ms for one in handing_over.values()):
            left = {writer: one for writer, one in handing_over.items() if one.end_ms > now_ms}
            self.view = self.view._replace(handing_over=_frozen(left))

    def _prolong(self, writer: str, end_ms: int) -> None:
        """Have the hand-over of a run last until then."""
        view = self.view
        if writer in view.handing_over:
            longer = {**view.handing_over, writer: view.handing_over[writer].until(end_ms)}
            self.view = view._replace(handing_over=_frozen(longer))
        elif view.own is not None and view.ended_before(writer):
            self.view = view._replace(own=view.own.until(end_ms))


def _frozen(values: dict[str, Value]) -> Mapping[str, Value]:
    return MappingProxyType(values)


def _handover(now_ms: int, heard_ms: int) -> Handover:
    return Handover(now_ms + HANDOVER_MS, now_ms + HANDOVER_MS_MAX, heard_ms)


HALF_MS_MAX, CUT_OFF_MS_MAX = 30_000, 300_000
"""For so long a member that hears nothing of half of the others, or of more, does not judge what these heard of."""


class MembersView(NamedTuple):
    """The listed members, and the members that carry keys. Times are monotonic ms; the mappings are read-only."""

    self_address: str
    config: DistroConfig
    standalone: bool
    listed: tuple[Member, ...]
    """All listed members but this node, by address."""
    contacts: Mapping[str, Contact]
    """The same members with the last contacts of this node."""
    view: tuple[str, ...]
    """Addresses of the members that carry keys, sorted."""
    view_since_ms: int
    """When the view last changed, or a pause of this process ended."""
    confirmed_ms: int
    """When a report last succeeded, or the reports to all peers had ended; -1 before, and after a pause (R9)."""
    returned_ms: int
    """When a member that had been DOWN for this node served again (R12)."""
    own_rejoin_at_ms: int
    """The end of the rejoin delay that a peer imposed on this node."""
    served: bool
    """This run wrote keys (R16)."""
    runs: RunsView

    def get(self, address: str) -> Member | None:
        """Return the peer of this address; None when it is not listed."""
        return one.member if (one := self.contacts.get(address)) else None

    def kind(self, address: str) -> MemberKind | None:
        """Return the kind of the peer of this address; None when it is not listed."""
        return one.member.kind if (one := self.contacts.get(address)) else None

    def is_reachable(self, address: str) -> bool:
        """Return whether the peer is UP or SUSPICIOUS, so that data is sent to it."""
        return (one := self.contacts.get(address)) is not None and one.is_alive

    # --- the directions of links (R12) -----------------------------------------------------------

    def calls(self, now_ms: int) -> dict[str, int]:
        """Return for how long each peer has not answered this node's calls, in ms, 0 if it answers (R12)."""
        return {
            address: max(now_ms - one.answered_ms, 1) if one.failures else 0 for address, one in self.contacts.items()
        }

    def cut_off_since_ms(self, now_ms: int) -> int | None:
        """Return since when this node hears nothing of half of the members that it last saw, or more; or None (R12).

        A member that left, or where no process listens, is not cut off. Half is counted for ``HALF_MS_MAX`` at most,
        and more for ``CUT_OFF_MS_MAX``: a member that is silent for longer has ended.
        """
        alive = 1 + sum(one.is_alive for one in self.contacts.values())
        silent = [
            one.last_heard_ms
            for one in self.contacts.values()
            if one.lost and not one.farewell and not one.refused and one.member.state is MemberState.DOWN
        ]
        if not silent or alive > len(silent):
            return None
        since_ms = min(silent)
        limit_ms = HALF_MS_MAX if alive == len(silent) else CUT_OFF_MS_MAX
        if now_ms - since_ms >= limit_ms:
            return None
        # What the others heard until the cut began may have arrived for as long as their next report would.
        return since_ms + 2 * self.config.report_interval_ms

    def heard(self, now_ms: int) -> dict[str, HeardOf]:
        """Return the last contact of this node with each Rollcall peer, for its reports (R12)."""
        return {
            address: HeardOf(max(now_ms - one.heard_ms, 0), one.calls)
            for address, one in self.contacts.items()
            if one.calls is not None and now_ms - one.heard_ms < self.config.silent_down_ms
        }

    def next_hop(self, address: str, now_ms: int) -> str | None:
        """Return the member to send a call for a peer to: itself, or one that can call it (R12); None for neither."""
        one = self.contacts.get(address)
        if one is None or not one.failures:
            return address
        relays = [
            other
            for other, relay in self.contacts.items()
            if other != address
            and not relay.failures
            and relay.is_alive
            and relay.calls is not None
            and relay.calls.get(address) == 0
        ]
        if relays:
            return min(relays)
        return address if is_lately(one.answered_ms, self.config, now_ms, refused=one.refused) else None

    def beats_known_ms(self, now_ms: int) -> int:
        """Return until when all beats that other members took are known here, as far as these members are alive."""
        told = (one.told_ms for one in self.contacts.values() if one.is_alive and one.told_ms != NEVER_MS)
        return min(told, default=now_ms)

    # --- runs that versions name -----------------------------------------------------------------

    def contact_ms(self, writer: str) -> int:
        """Return when the run that a version names last answered or called; of no peer ``ALWAYS_MS``.

        Of a run that was over when this member started, that is ``NEVER_MS``. While the clients of an ended run are
        kept (R17), calls of the next run do not count as its own. What others heard does not count either: the ages in
        their reports are a little older when these are read, and so go round.
        """
        if (over := self.runs.handing_over.get(writer)) is not None:
            return over.heard_ms
        if self.runs.ended_before(writer):
            return NEVER_MS
        one = self.contacts.get(writer.partition("~")[0])
        return ALWAYS_MS if one is None else one.last_ok_ms

    def is_known_writer(self, writer: str) -> bool:
        """Return whether a version's ``writer`` is a run of a member that is listed, or was until lately."""
        return self.standalone or self.runs.is_known(writer)

    def answers_itself(self, writer: str) -> bool:
        """Return whether a version's ``writer`` is the present run of a peer that answers."""
        one = self.contacts.get(writer.partition("~")[0])
        return one is not None and one.is_alive and not one.failures and self.runs.is_present(writer)

    # --- rejoin delays ---------------------------------------------------------------------------

    @property
    def mixed(self) -> bool:
        """Return whether a member of real Nacos 1.4 is listed and has served: its rule of states holds for all (R8)."""
        return any(one.seen and one.member.kind is MemberKind.NACOS_1 for one in self.contacts.values())

    def rejoin_delay_for(self, address: str, now_ms: int) -> int:
        """Return for how long the peer is to carry no keys, in ms: the rejoin delay that reports impose on it."""
        one = self.contacts.get(address)
        if one is None or self.mixed:
            return 0
        if one.lost:
            return self.config.steady_ms
        return max(0, one.rejoin_at_ms - now_ms)

    def own_rejoin_delay_ms(self, now_ms: int) -> int:
        """Return for how long this node carries no keys, in ms, because a peer imposed it."""
        return 0 if self.mixed else max(0, self.own_rejoin_at_ms - now_ms)
