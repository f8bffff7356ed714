"""Go through what happens after an operator's change, and note what each member then shows of the instances."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.peers.kept_changes.members import COUNT, Members
from tests.peers.kept_changes.publishers import NO_ANSWER, PUBLISHERS, Publisher, call
from tests.peers.kept_changes.rows import (
    ANEW,
    APART,
    BOTH,
    KINDS,
    LATER,
    MAJORITY,
    MINORITY,
    ROWS,
    WHOLE,
    Attributes,
    Call,
    Row,
)
from tests.support.client import Answer, Client

OPERATOR_TIMEOUT_S = 20.0
SEEN_S = 5.0
"""Real members tell of a change after 1 s, and show it after another half; a busy machine takes longer."""
AGREE_TIMEOUT_S = 90.0
POLL_S = 1.0
CALLS_MAX, CALLS_APART_S = 10, 1.0
"""A call that a member refuses for a moment is made so often."""
WAITED_S = 40.0
FORGOTTEN_S = 80.0
"""From a call to a look: longer than the minute after which Nacos forgets the change of an instance that is gone."""
CUT_S, CHANGED_AFTER_S = 115.0, 25.0
"""A partition: longer than an instance lives without beats plus the minute; and the changes that are made meanwhile."""
LEFT_OUT, ELSEWHERE, HOME = 0, 2, 1
"""The member that is cut off, the one to which clients move, and the one where they start."""

Shown = list[Attributes]
"""The instances of a service at a member; there should be one."""


@dataclass
class Entry:
    """An instance, and what was found about it."""

    row: Row
    kind: str
    service: str
    ip: str
    found: dict[str, Any] = field(default_factory=dict)


@dataclass
class Stage:
    """The instances for one of the things that can happen, and their publishers by kind."""

    name: str
    entries: list[Entry]
    publishers: list[Publisher]
    lives: list[asyncio.Task[None]] = field(default_factory=list)

    async def begin(self) -> None:
        """Register all instances, and keep them."""
        for one in self.publishers:
            await one.register()
            self.lives.append(asyncio.ensure_future(one.live()))

    async def end(self) -> None:
        for task in self.lives:
            task.cancel()
        await asyncio.gather(*self.lives, return_exceptions=True)
        for one in self.publishers:
            await one.end()


class Run:
    """One run over members of a kind. ``is_real`` leaves out the rows that real Nacos 2.3.1 does not have."""

    def __init__(self, members: Members, is_real: bool, note: Callable[[str], None]) -> None:
        self._members = members
        self._rows = [row for row in ROWS if not (is_real and row.like)]
        self._note = note
        self._operator = [Client(one, timeout_s=OPERATOR_TIMEOUT_S) for one in members.addresses]
        self._stages: list[Stage] = []

    async def all(self) -> dict[str, Any]:
        """Go through all stages; return what was found, by stage, row and kind."""
        try:
            await self._without_faults()
            await self._restart()
            await self._partition()
        finally:
            for stage in self._stages:
                await stage.end()
        return {
            stage.name: {f"{one.row.name}, {one.kind}": one.found for one in stage.entries} for stage in self._stages
        }

    # --- stages -----------------------------------------------------------------------------------

    async def _without_faults(self) -> None:
        waited, anew, moved = [self._stage(name) for name in ("waited", "registered anew", "moved")]
        await self._begin(waited, anew, moved)
        begun_s = time.monotonic()
        for one in anew.publishers:
            one.values = ANEW
            await one.register()
        for one in moved.publishers:
            await one.move(ELSEWHERE)
        await asyncio.sleep(begun_s + WAITED_S - time.monotonic())
        await self._look("after", waited, anew)
        await asyncio.sleep(begun_s + FORGOTTEN_S - time.monotonic())
        await self._look("after", moved)
        await self._end(waited, anew, moved)

    async def _restart(self) -> None:
        stage = self._stage("restarted")
        await self._begin(stage)
        self._note("restart")
        await asyncio.to_thread(self._members.stop)
        await asyncio.to_thread(self._members.start)
        await asyncio.sleep(SEEN_S)
        await self._look("after", stage)
        await self._end(stage)

    async def _partition(self) -> None:
        majority, minority = self._stage("healed, in the majority"), self._stage("healed, in the minority", LEFT_OUT)
        apart = self._stage("changed apart", rows=[Row(one, ()) for one in APART])
        stages = majority, minority, apart
        await self._begin(majority, minority, is_changed=True)
        await self._begin(apart, is_changed=False)
        self._note("partition")
        begun_s = time.monotonic()
        self._members.network.split([LEFT_OUT], [one for one in range(COUNT) if one != LEFT_OUT])
        await asyncio.sleep(CHANGED_AFTER_S)
        await self._change_apart(apart)
        await asyncio.sleep(max(0.0, begun_s + CUT_S - time.monotonic()))
        await self._look("cut", *stages, timeout_s=0.0)
        self._members.network.heal()
        self._note("healed")
        await asyncio.sleep(WAITED_S)
        await self._look("after", *stages)
        await self._end(*stages)

    async def _change_apart(self, stage: Stage) -> None:
        """Change instances on one side or on both, the majority's side first."""
        for place, named in ((ELSEWHERE, (MAJORITY, BOTH)), (LEFT_OUT, (MINORITY, BOTH))):
            for entry in stage.entries:
                if entry.row.name in named:
                    change = LATER if place == LEFT_OUT else WHOLE
                    parameters = change.parameters(entry.service, entry.ip, entry.kind)
                    answer = await call(self._operator[place], change.method, change.path, parameters)
                    entry.found.setdefault("status", []).append(None if answer is None else answer.status)
            await asyncio.sleep(SEEN_S)

    # --- parts of stages ----------------------------------------------------------------------------

    def _stage(self, name: str, at: int = HOME, rows: Sequence[Row] = ()) -> Stage:
        number = len(self._stages)
        entries = [
            Entry(row, kind, f"stage{number}-{kind}-{place}", f"10.{20 + number}.{KINDS.index(kind)}.{1 + place}")
            for place, row in enumerate(rows or self._rows)
            for kind in KINDS
        ]
        publishers = [
            PUBLISHERS[kind](self._members.addresses, at, {one.service: one.ip for one in entries if one.kind == kind})
            for kind in KINDS
        ]
        self._stages.append(Stage(name, entries, publishers))
        return self._stages[-1]

    async def _begin(self, *stages: Stage, is_changed: bool = True) -> None:
        for stage in stages:
            await stage.begin()
        await self._look("registered", *stages)
        if is_changed:
            # A real member that is called again at once may read the state from before the first call.
            for calls in itertools.zip_longest(*(entry.row.calls for entry in _entries(stages))):
                for number, (entry, one) in enumerate(zip(_entries(stages), calls, strict=True)):
                    if one is not None:
                        status = await self._change(entry, one, number % COUNT)
                        entry.found.setdefault("status", []).append(status)
                await asyncio.sleep(SEEN_S)
            self._note(f"changed: {', '.join(one.name for one in stages)}")
            await self._look("call", *stages)

    async def _change(self, entry: Entry, one: Call, place: int) -> int | None:
        """Make a call of an entry at a member. Return the status; None for no answer."""
        for _ in range(CALLS_MAX):
            parameters = one.parameters(entry.service, entry.ip, entry.kind)
            answer = await call(self._operator[place], one.method, one.path, parameters)
            if answer is not None and not is_for_a_moment(answer):
                break
            self._note(f"{entry.row.name}, {entry.kind}: {answer}")
            await asyncio.sleep(CALLS_APART_S)
        return None if answer is None else answer.status

    async def _look(self, when: str, *stages: Stage, timeout_s: float = AGREE_TIMEOUT_S) -> None:
        """Note what the members show, once all show the same one instance, or after the time-out."""
        end_s = time.monotonic() + timeout_s
        open_ones = _entries(stages)
        while open_ones:
            views = await asyncio.gather(*(self._views(one) for one in open_ones))
            is_last = time.monotonic() >= end_s
            left = []
            for entry, shown in zip(open_ones, views, strict=True):
                agreed = shown[0] is not None and len(shown[0]) == 1 and all(one == shown[0] for one in shown)
                if agreed or is_last:
                    entry.found[when] = shown[0][0] if agreed and shown[0] else shown
                else:
                    left.append(entry)
            open_ones = left if not is_last else []
            if open_ones:
                await asyncio.sleep(POLL_S)
        self._note(f"looked: {when}")

    async def _views(self, entry: Entry) -> list[Shown | None]:
        return [await _shown(one, entry.service) for one in self._operator]

    async def _end(self, *stages: Stage) -> None:
        await asyncio.gather(*(stage.end() for stage in stages))


def _entries(stages: Iterable[Stage]) -> list[Entry]:
    return [entry for stage in stages for entry in stage.entries]


def is_for_a_moment(answer: Answer) -> bool:
    """Return whether a real member refuses a call because it lost sight of another for a moment."""
    return answer.status >= 500 or b"receive invalid redirect request" in answer.body


async def _shown(member: Client, service: str) -> Shown | None:
    """Return the instances that operators see at a member, disabled ones too; None without an answer."""
    page: dict[str, str | int] = {"serviceName": service, "clusterName": "DEFAULT", "pageNo": 1, "pageSize": 10}
    answer = await call(member, "GET", "/v1/ns/catalog/instances", page)
    if answer is None or answer.status != 200:
        return None
    with contextlib.suppress(*NO_ANSWER):
        return [{name: one[name] for name in ("weight", "enabled", "metadata")} for one in answer.json()["list"]]
    return None
