"""The engine's threads in virtual time: its mailbox, its turns, its calls to peers and the actions next to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from app.tools.simulation.member.engine_calls import CallAgent
from app.tools.simulation.member.sim_ports import EngineMember, WokenMember
from app.tools.simulation.transcript.decisions import named
from app.tools.simulation.transcript.entry import KEYS_MAX, What
from distro.engine.local_actions import LocalActions
from distro.engine.peer_call_runner import EngineParts, OwnChecksums
from distro.model.types import (
    Action,
    Call,
    Claim,
    DistroKey,
    FinishLoad,
    Forget,
    LocalAction,
    PeerReport,
    Report,
)
from distro.protocol.claims import Claimer
from distro.protocol.protocol import DistroProtocol, Event
from distro.receive.receive import ReceiverEvents

WAKE_MS_MAX = 1
"""How long an event waits until the protocol's thread has woken up."""
LOCAL_MS_MAX = 3
"""How long a local action takes: a slice of claims on a disk, for example."""


class SimMailbox(ReceiverEvents):
    """Events for the protocol; each new event wakes it."""

    def __init__(self, member: WokenMember) -> None:
        self.member = member
        self._events: list[Event] = []
        self._keys: dict[DistroKey, None] = {}

    def sync(self, key: DistroKey) -> None:
        self._keys[key] = None
        self.member.wake()

    def claim(self, key: DistroKey, source: str | None = None) -> None:
        self.put(lambda protocol, now_ms: protocol.claim_later(key, now_ms, source))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.put(lambda protocol, _now_ms: protocol.fetch(peer, keys))

    def on_report(self, report: PeerReport) -> None:
        self.put(lambda protocol, now_ms: protocol.on_report(report, now_ms))

    def remember(self, writers: Iterable[str]) -> None:
        """Have the engine know the members that wrote what is on the disk."""
        known = frozenset(writers)
        self.put(lambda protocol, now_ms: protocol.remember(known, now_ms))

    def came_back(self, writer: str, now_ms: int) -> None:
        """Note that a client came back, which wakes no thread."""
        self._events.append(lambda protocol, _now_ms: protocol.came_back({writer: now_ms}))

    def served(self, peer: str, resource_type: str, keys: list[str]) -> None:
        self._events.append(
            lambda protocol, now_ms: protocol.on_served(peer, resource_type, keys, now_ms / 1_000),
        )

    def put(self, event: Event) -> None:
        self._events.append(event)
        self.member.wake()

    def take(self) -> tuple[list[Event], list[DistroKey]]:
        taken = self._events, list(self._keys)
        self._events, self._keys = [], {}
        return taken


class SimRuntime:
    """The runtime of one run of a member, as events of its world: ``DistroRuntime`` without threads."""

    def __init__(
        self,
        member: EngineMember,
        mailbox: SimMailbox,
        protocol: DistroProtocol,
        parts: EngineParts,
        before_serving: Callable[[int], None],
        _on_behind: Callable[[bool], None],
    ) -> None:
        self.member, self.mailbox, self._world = member, mailbox, member.world
        self.protocol = protocol
        self._before_serving = before_serving
        self._turn_at_ms: int | None = None
        self._turn_number = 0
        self._busy_until_ms = 0
        self._calls: dict[tuple[str, bool], deque[Call]] = {}
        self._local_end_ms = 0
        self._one_by_one = member.protocol_rules().calls_one_by_one
        self.claimer = CountingClaimer(parts.components, parts.reader.own_writer)
        self.local_actions = LocalActions(parts.reader, parts.components, self._fill, self.claimer)
        self.sends = member.sends_class(parts.components, parts.reader, parts.stats)
        self.checksums = OwnChecksums(parts.components, parts.reader)
        self.agent = CallAgent(member, mailbox.put, self.sends, self.checksums)

    # --- calls of the node -----------------------------------------------------------------------

    def replace_members(self, addresses: tuple[str, ...]) -> None:
        self.mailbox.put(lambda protocol, now_ms: protocol.replace_members(addresses, now_ms))
        self._drop_calls(addresses)

    def leave(self) -> None:
        self.mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms))

    def drain(self, enabled: bool) -> None:
        self.mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms, leaving=enabled))

    def workers(self) -> dict[str, dict[str, object]]:
        """Return nothing, as there are no threads."""
        return {}

    # --- the protocol's thread -------------------------------------------------------------------

    def wake(self) -> None:
        """Begin a turn soon."""
        self._turn_by(self._world.now_ms + self._world.between(0, WAKE_MS_MAX))

    def _turn_by(self, at_ms: int) -> None:
        """Schedule a turn at ``at_ms`` at the latest, or after the current tick."""
        at_ms = max(at_ms, self._busy_until_ms)
        if self._turn_at_ms is not None and self._turn_at_ms <= at_ms:
            return
        self._turn_at_ms = at_ms
        self._turn_number += 1
        number = self._turn_number
        self.member.in_run(
            max(at_ms - self._world.now_ms, 0), lambda: self._turn() if number == self._turn_number else None
        )

    def _turn(self) -> None:
        self._turn_at_ms = None
        member, protocol = self.member, self.protocol
        seen, loading = protocol.mapper.servers, protocol.loading
        now_ms, before_us = member.clock.monotonic_ms(), member.spent_us()
        events, keys = self.mailbox.take()
        for event in events:
            event(protocol, now_ms)
        protocol.sync(dict.fromkeys(keys, now_ms / 1_000), now_ms)
        actions, next_ms = protocol.tick(now_ms)
        if protocol.mapper.servers != seen:
            self._world.trace(member.address, f"sees {', '.join(protocol.mapper.servers)}")
        if protocol.loading != loading:
            self._world.trace(member.address, "loads" if protocol.loading else "is UP")
        self._end_tick(actions, (member.spent_us() - before_us) / 1_000)
        self._turn_by(max(self._world.now_ms + max(next_ms - now_ms, 0), self._busy_until_ms))

    def _end_tick(self, actions: list[Action], taken_ms: float) -> None:
        """Dispatch the actions after the tick, which took this long."""
        self.member.note_tick(taken_ms)
        if taken_ms < 1:
            self._give_out(actions)
            return
        self._busy_until_ms = self._world.now_ms + round(taken_ms)
        self.member.in_run(round(taken_ms), lambda: self._give_out(actions))

    def _give_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, LocalAction):
                self._mark(action)
                self.execute_here(action)
            else:
                self._put(action)

    # --- the thread next to it --------------------------------------------------------------------

    def execute_here(self, action: LocalAction) -> None:
        """Run actions on a separate thread, one after the other. Its end is reported after the duration."""
        member, world = self.member, self._world
        begin_ms = max(world.now_ms, self._local_end_ms) + world.between(0, LOCAL_MS_MAX)
        self._local_end_ms = begin_ms

        def run() -> None:
            before_us = member.spent_us()
            event = self.local_actions.run(action, member.clock.monotonic_ms())
            if world.tracing:
                self._tell(action)
            taken_ms = round((member.spent_us() - before_us) / 1_000)
            taken_ms += self.claimer.claimed * member.claim_ms if isinstance(action, Claim) else 0
            self._local_end_ms = max(self._local_end_ms, world.now_ms + taken_ms)
            member.in_run(taken_ms, lambda: self.mailbox.put(event))

        member.in_run(begin_ms - world.now_ms, run)

    def _fill(self, now_ms: int) -> None:
        """Add the lists of the disk, as a load is over."""
        lists = self.member.registry.lists
        before = lists.versions()
        self._before_serving(now_ms)
        if lists.versions() != before:
            self._world.marks["lists taken from the own disk"] += 1

    def _tell(self, action: LocalAction) -> None:
        """Record the effect of a local action."""
        trace = partial(self._world.trace, self.member.address)
        match action:
            case Claim() if keys := self.claimer.keys:
                text = f"takes over {named({self._at(key): None for key in keys})}"
                names = tuple(one.key for one in keys)[:KEYS_MAX]
                trace(text, What.CLAIM, keys=names, rule="R2: this member owns them now")
            case Forget(keys):
                names = tuple(one.key for one in keys)
                rule = "R6: they are empty, and all peers agree"
                trace(f"forgets {named(names)}", What.FORGET, keys=names[:KEYS_MAX], rule=rule)
            case FinishLoad():
                trace("has loaded", What.LOAD, rule="R7: before it claims or answers")

    def _at(self, key: DistroKey) -> str:
        version = self.member.components[key.resource_type].store.version(key.key)
        return f"{key.key} {version.to_text()}" if version is not None else key.key

    def _mark(self, action: LocalAction) -> None:
        match action:
            case Claim(all_keys=False, keys=()):
                self._world.marks["further slice of claims"] += 1
            case Forget():
                self._world.marks["keys forgotten"] += 1

    # --- the peers' threads ----------------------------------------------------------------------

    def _drop_calls(self, listed: Collection[str]) -> None:
        """Let calls to members that left the list end by themselves; a new entry of one begins again."""
        for at in [at for at in self._calls if at[0] not in listed]:
            del self._calls[at]

    def _put(self, action: Call) -> None:
        """One queue of calls a peer for data and one for reports, each with one call at a time."""
        calls = self._calls.setdefault((action.peer, isinstance(action, Report)), deque())
        calls.append(action)
        if len(calls) == 1 or not self._one_by_one:
            self.agent.execute(action, lambda: self._next(calls, action))

    def _next(self, calls: deque[Call], ended: Call) -> None:
        calls.remove(ended)
        if calls and self._one_by_one:
            action = calls[0]
            self.agent.execute(action, lambda: self._next(calls, action))


class CountingClaimer(Claimer):
    """Remembers the outcome of its last action."""

    claimed, unfinished = 0, False
    keys: tuple[DistroKey, ...] = ()

    def run(self, *parts: Any) -> tuple[list[DistroKey], list[DistroKey], bool]:
        claimed, refused, self.unfinished = super().run(*parts)
        self.claimed, self.keys = len(claimed), tuple(claimed)
        return claimed, refused, self.unfinished
