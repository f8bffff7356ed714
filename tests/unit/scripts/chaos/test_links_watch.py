"""The observers of a link to a Nacos note what is missing, and what never arrives."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from scripts.chaos.links_watch import HERE, THERE, LinkedSides, Lists, ListWatch, Subscribers, Timings
from scripts.support.member_processes import MemberProcess
from scripts.support.real_nacos import NacosServer
from scripts.support.verdicts import Measured
from tests.sdk.environments import Environment
from tests.sdk.program import Event, Program
from tests.support.processes import eventually

SIDES = LinkedSides(
    [MemberProcess(port, Path()) for port in (8848, 8858)], [NacosServer("2", 9848, Path(), ["127.0.0.1:9848"])]
)


class ScriptedProgram(Program):
    """Has these events, and no process."""

    def __init__(self, events: Collection[Event]) -> None:
        super().__init__(Environment(()), Path())
        self._scripted = events

    def follow(self, told: Callable[[Event], None], over: threading.Event) -> None:
        for event in self._scripted:
            told(event)
        over.wait()


def judged(timings: Timings) -> dict[str, Measured]:
    return {row.what: row for row in timings.rows()}


def test_a_change_that_one_subscriber_never_sees_is_a_breach() -> None:
    seen = [("added", client, "10.0.0.1:8080") for client in ("here-0", "here-1", "there-0")]
    subscribers = Subscribers(ScriptedProgram([*seen, ("added", "here-0", "10.0.0.2:8080")]), SIDES)
    timings = Timings(subscribers, timeout_s=0.1)
    with subscribers.following():
        eventually(lambda: subscribers.times("added", THERE, "10.0.0.1:8080") is not None)
        begun = [(side, f"10.0.0.{number}:8080", time.perf_counter()) for number, side in enumerate((THERE, THERE), 1)]
        asyncio.run(timings.settle("registration", "added", begun))
    rows = judged(timings)
    lost = rows["registration there, subscribers here: of 2 changes, not seen within 0.1 s"]
    assert (lost.value, lost.is_breach) == (1, True)
    assert "registration there, subscribers there: ms until all knew, p50 / p99 / max" in rows


def test_what_subscribers_are_told_to_be_gone_is_counted() -> None:
    events = [("removed", "here-0", "10.0.0.1:8080"), ("removed", "there-0", "10.0.0.9:8080")]
    subscribers = Subscribers(ScriptedProgram(events), SIDES)
    with subscribers.following():
        eventually(lambda: subscribers.removed({"10.0.0.9:8080"}))
        assert subscribers.removed({"10.0.0.1:8080"}) == 1
    assert subscribers.clients == {HERE: ["here-0", "here-1"], THERE: ["there-0"]}


class ScriptedLists(Lists):
    """Answers with these lists, one after the other, and then with the last one."""

    def __init__(self, answers: list[list[dict[str, Any]] | None]) -> None:
        super().__init__(SIDES)
        self.answers = answers
        self.asked = asyncio.Event()

    async def hosts(self, address: str, service: str) -> list[dict[str, Any]] | None:
        if len(self.answers) == 1:
            self.asked.set()
            return self.answers[0]
        return self.answers.pop(0)


def test_lists_without_their_instance_or_with_an_unhealthy_one_are_counted() -> None:
    healthy, unhealthy = ([{"ip": "10.0.0.1", "port": 8080, "healthy": one}] for one in (True, False))

    async def watched() -> ListWatch:
        lists = ScriptedLists([healthy, [], None, unhealthy, healthy])
        watch = ListWatch(lists, ["127.0.0.1:8848"], {"orders": "10.0.0.1:8080"})
        watch.begin()
        await lists.asked.wait()
        await watch.end()
        return watch

    watch = asyncio.run(watched())
    assert (watch.missing.answers, watch.unhealthy.answers) == (1, 1)
    assert watch.lists >= 3
