"""Membership: the cluster as frontends see it, and the state of this node in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol

from app.config.addresses import split_address
from app.config.settings import Settings
from app.config.version import NACOS_VERSION
from app.members.reports import DRAINED, LEFT, OWN_FIELD, RAFT_PORT_OFFSET, planned_absence
from app.naming.health.beat_refusals import BeatRefusals
from app.naming.model.nacos_errors import NotExecuted, Unavailable
from distro.engine.runtime import DistroRuntime
from distro.model.ports import Clock
from distro.model.types import (
    CAPABILITY_GZIP,
    CAPABILITY_SIGNED,
    CAPABILITY_VERSIONS,
    CAPABILITY_WRITES,
    Member,
    MemberKind,
    MemberState,
)
from distro.protocol.engine_reader import EngineReader
from distro.receive.call_times import CallDeadlines

_STARTING, _UP, _DOWN = MemberState.STARTING, MemberState.UP, MemberState.DOWN
"""Asked for with each request; Python 3.11 looks members up in their class slowly."""
TOO_LATE = "server is asked too late: the call was given up"
"""The text of the 503 for a call that came after its deadline; it means that nothing was executed."""
STOOD_STILL = "server is back after it stood still, please try again later!"
CAPABILITIES = (CAPABILITY_VERSIONS, CAPABILITY_GZIP, CAPABILITY_WRITES)


class Membership:
    """The cluster as the frontends see it. Thread-safe."""

    def __init__(
        self,
        settings: Settings,
        reader: EngineReader,
        clock: Clock,
        deadlines: CallDeadlines,
        refusal_by_switch: Callable[[], str],
    ) -> None:
        """``refusal_by_switch``: returns why an operator's switches have this node refuse calls; empty for none."""
        self.refusal_by_switch = refusal_by_switch
        self.self_address = settings.self_address
        self.standalone = settings.standalone
        self._reader = reader
        self._clock = clock
        self._runtime: DistroRuntime | None = None
        self._deadlines = deadlines
        self.leaving = False
        self._retiring = False
        self.draining = False
        self.is_behind = False
        """This process stood still, and has not compared its data with a peer's since (R9). Each read asks."""
        self.refusals = BeatRefusals(clock.monotonic_ms)
        self.own_capabilities = (*CAPABILITIES, CAPABILITY_SIGNED) if settings.identity else CAPABILITIES
        self.listed = frozenset[str]()
        """The addresses in the member list."""

    def attach(self, runtime: DistroRuntime, members: tuple[str, ...]) -> None:
        """Join the runtime, which is made with this object, with a first list. Called once, by the node."""
        self._runtime = runtime
        self.take_list(members)

    def note_behind(self, is_behind: bool) -> None:
        self.is_behind = is_behind

    def stood_still(self) -> None:
        """Compare with a peer before reads are answered, as this process stood still (R9). Returns at once."""
        if self._runtime is not None:
            self._runtime.after_pause.begin()

    def take_list(self, addresses: tuple[str, ...]) -> None:
        """Take a new member list."""
        self.listed = frozenset(addresses)
        self.refusals.keep(self.listed)
        if self._runtime is not None and not self.standalone:
            self._runtime.replace_members(addresses)

    def retire(self) -> None:
        """Be not ready from now on, and continue to serve: load balancers are to choose other members. Signal-safe."""
        self._retiring = True

    def leave(self) -> None:
        """Take no writes from now on, and report to the others at once that this member leaves. Signal-safe."""
        self.leaving = True
        if self._runtime is not None:
            self._runtime.leave()

    def drain(self, enabled: bool) -> None:
        # The others are told that it is STARTING, not that it leaves: so it can come back in this run.
        self.draining = enabled
        if self._runtime is not None and not self.leaving:
            self._runtime.drain(enabled)

    def unsent_keys(self) -> int:
        """Changed keys that have not reached a member yet, counted for each member."""
        return sum(self._reader.view.pending_keys().values())

    # --- what frontends ask ----------------------------------------------------------------------

    def responsible(self, tag: str) -> bool:
        return self._reader.view.mapper.responsible(tag)

    def map_srv(self, tag: str) -> str:
        return self._reader.view.mapper.map_srv(tag)

    def owner_if_up(self, tag: str) -> str:
        view = self._reader.view
        is_up = view.serving and not (self.leaving or self.draining or view.is_unlisted)
        return view.mapper.map_srv(tag) if is_up else ""

    def responsible_durable(self, tag: str) -> bool:
        return self._reader.view.mappers.own_kind.responsible(tag)

    def map_srv_durable(self, tag: str) -> str:
        return self._reader.view.mappers.own_kind.map_srv(tag)

    def deadline(self, member: str, left_ms: int) -> str | None:
        """The deadline of a call to ``member``, empty for one that names no clock; None: it may not be called."""
        text = self._deadlines.text(member, left_ms)
        return text if text or self._may_be_called(member) else None

    def next_hop(self, member: str) -> str | None:
        hop = self._reader.view.members.next_hop(member, self._clock.monotonic_ms())
        return hop if hop is not None and self._may_be_called(hop) else None

    def _may_be_called(self, member: str) -> bool:
        """Return whether a call to the member can have its deadline (R13).

        A Rollcall member that is known only from others names a clock that is not known here: a call without it may
        be executed long after it is given up.
        """
        return self._deadlines.is_heard(member) or CAPABILITY_VERSIONS not in self.capabilities(member)

    def left_ms(self, deadline: str) -> int:
        return self._deadlines.left_ms(deadline)

    def sent_ms(self, member: str, clock: str | None) -> int:
        """When a call or an answer of ``member`` was sent, by our monotonic clock; ``clock``: its ``CLOCK_HEADER``."""
        return self._deadlines.sent_ms(member, clock)

    def stamp(self) -> str:
        """The text of ``CLOCK_HEADER`` in a call or an answer that is made now."""
        return self._deadlines.stamp()

    def is_over(self, deadline: str) -> bool:
        return self._deadlines.left_ms(deadline) < 0

    def state(self) -> MemberState:
        """The state for clients: also DOWN while the others do not list this member, as nothing here reaches them."""
        view = self._reader.view
        if self.leaving or self.draining or view.is_unlisted:
            return _DOWN
        return _UP if view.serving else _STARTING

    def unready_reason(self) -> str:
        """Why this node does not serve; empty while it does."""
        if self.leaving:
            return "this node leaves the cluster"
        if self.draining:
            return "an operator drains this node"
        if self._retiring:
            return "this node leaves the cluster soon"
        if self._reader.view.is_unlisted:
            return "the other members do not list this node"
        if self._runtime is None and not self.standalone:
            return "no list of members was found yet"
        if not self._reader.view.serving:
            return "the data of the other members is being loaded"
        return self.refusal_by_switch()

    def _own_state(self) -> MemberState:
        if self.leaving:
            return _DOWN
        return _UP if self._reader.view.serving and not self.draining else _STARTING

    def members(self) -> list[Member]:
        """All members. One that is drained serves no client, so its state is STARTING, as it says itself."""
        others = (
            replace(one, state=_STARTING) if one.state is _UP and self.planned(one) == DRAINED else one
            for one in self._reader.view.members.listed
        )
        return sorted([*others, self.own_member()], key=lambda member: member.address)

    def member_json(self, member: Member) -> dict[str, Any]:
        """Source: Nacos 1.4.1 Member, as its read endpoints show it."""
        return {
            "ip": member.ip,
            "port": member.port,
            "state": member.state.value,
            "extendInfo": {key: value for key, value in member.extend_info.items() if key != OWN_FIELD},
            "address": member.address,
            "failAccessCnt": member.fail_access_count,
        }

    def planned(self, member: Member) -> str:
        """Return why a member is out by plan, as ``planned_absence``; empty if it is not, and if it crashed."""
        if member.address == self.self_address:
            return LEFT if self.leaving else DRAINED if self.draining else ""
        return planned_absence(member.extend_info, member.state)

    def release(self, address: str) -> object:
        """The release that a member reported; None before its first report."""
        member = self._reader.view.members.get(address)
        return member.extend_info.get("version") if member else None

    def capabilities(self, address: str) -> frozenset[str]:
        member = self._reader.view.members.get(address)
        return member.capabilities if member else frozenset()

    def lacking(self, capability: str) -> list[str]:
        listed = self._reader.view.members.listed
        alive = [one for one in listed if one.kind is MemberKind.OWN and one.state is not _DOWN]
        return [one.address for one in alive if capability not in one.capabilities]

    def own_member(self) -> Member:
        """Return this node's entry in the member list, with the state that it reports to the other members."""
        port = split_address(self.self_address)[1]
        info = {
            "lastRefreshTime": self._clock.wall_ms(),
            "raftPort": str(port - RAFT_PORT_OFFSET),
            "version": NACOS_VERSION,
        }
        return Member(self.self_address, self._own_state(), frozenset(self.own_capabilities), info)


# --- calls that come too late (R13) --------------------------------------------------------------


class ReadsDeadlines(Protocol):
    """The members, as far as a call's deadline depends on them."""

    def is_over(self, deadline: str) -> bool:
        """Return whether it is too late to execute a call with this deadline."""
        ...


class Pauses(Protocol):
    """The frontend's knowledge of pauses of this process."""

    stood_still: bool
    """The process went on a moment ago after it had stood still: what is read now may have waited."""
    too_late: int
    """Calls that were refused for coming too late."""


def check_late(deadline: str | None, members: ReadsDeadlines, pauses: Pauses) -> None:
    """Check that a call may still be executed. ``deadline``: the text that came with it; None without one.

    Raises:
        NotExecuted: the member that passed it on has given it up, or it may have waited while this process stood
            still.
    """
    if deadline is not None:
        if members.is_over(deadline):
            pauses.too_late += 1
            raise NotExecuted(TOO_LATE)
    elif pauses.stood_still:
        pauses.too_late += 1
        raise NotExecuted(STOOD_STILL)


_is_over: ContextVar[Callable[[], bool] | None] = ContextVar("is_over", default=None)


@contextmanager
def executing_until(is_over: Callable[[], bool]) -> Iterator[None]:
    """Let ``check_call_deadline`` in the body fail as soon as ``is_over`` says so."""
    token = _is_over.set(is_over)
    try:
        yield
    finally:
        _is_over.reset(token)


def check_call_deadline() -> None:
    """Check that the call which this thread executes may still write.

    Raises:
        Unavailable: its caller has given it up.
    """
    is_over = _is_over.get()
    if is_over is not None and is_over():
        raise Unavailable(TOO_LATE)
