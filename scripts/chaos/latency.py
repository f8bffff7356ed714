"""Check that beats stay fast beside large requests, slow clients and a dead member.

A node gets a steady, light load of beats from another process, alternately undisturbed and with a disturbance: a peer
sends datums of 10,000 instances; a peer fetches 100,000 instances; users read every page; a service grows to 10,000
instances while clients list it; of three members the owner of a third of the services hangs.
Prints a table: times of beats (p50, p99, max in ms) undisturbed and disturbed, and how late the event loop was. Exit
code 1 when a beat got a wrong answer, or a disturbed p99 is over the limit.

    python -m scripts.chaos.latency --seconds 10 --turns 3
    python -m scripts.chaos.latency --cases large-datums,owner-hangs

"late" is the delay of the load itself (p99): with other work on the machine, its scheduler adds to all measurements.
"""

import argparse
import contextlib
import http.client
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlencode

from distro.members.mapper import DistroMapper
from scripts.chaos.disturbers import Disturber, disturbing
from scripts.support.arguments import add_port, names_of
from scripts.support.beat_load import Beaten, Figures, InstanceLoad, beating, figures
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, running_members
from scripts.support.tables import table

LIMIT_MS = 50.0
LOAD = InstanceLoad(services=90, hosts=10)
MEMBERS = 3
HANGS_S = 6.0
AFTER_S = 4.0
"""Time after the owner resumes; beats in this time count, too."""
SETTLED_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 30.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Stretch:
    """A period with or without a disturbance, with the lag of the loop and the number of its late timers."""

    begin_s: float
    end_s: float
    lag_max_ms: float
    late: int


@dataclass(slots=True)
class Course:
    """The measurements of one case."""

    name: str
    calm: list[Stretch] = field(default_factory=list)
    disturbed: list[Stretch] = field(default_factory=list)
    done: list[dict[str, float]] = field(default_factory=list)
    """Counts of the disturbers, one entry for each turn."""


class Node:
    """One running member, for the drill's own calls."""

    def __init__(self, member: MemberProcess) -> None:
        self.member = member
        self.address = member.address

    def call(self, method: str, path: str, **parameters: object) -> bytes:
        """Return the body of an answer 200."""
        host, _, port = self.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request(method, f"{CONTEXT_PATH}{path}?{urlencode(parameters)}")
            answer = connection.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path} is answered {answer.status} {body[:200]!r}")
        return body

    def register(self, load: InstanceLoad) -> None:
        for service, ip in load.instances():
            self.call("POST", "/v1/ns/instance", serviceName=service, ip=ip, port=8080)

    def metrics(self) -> dict[str, Any]:
        counters: dict[str, Any] = json.loads(self.call("GET", "/v1/ns/operator/metrics"))
        return counters

    def holds(self, load: InstanceLoad) -> bool:
        return int(self.metrics()["instanceCount"]) >= load.services * load.hosts

    def sees_all_up(self) -> bool:
        nodes = json.loads(self.call("GET", "/v1/core/cluster/nodes"))["data"]
        return [one["state"] for one in nodes] == ["UP"] * MEMBERS

    def owner_of(self, service: str) -> str:
        answer = json.loads(self.call("GET", "/v1/ns/operator/distro/server", serviceName=f"DEFAULT_GROUP@@{service}"))
        owner: str = answer["responsibleServer"]
        return owner


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def wait_for(check: Callable[[], bool], lacking: str) -> None:
    deadline_s = time.monotonic() + SETTLED_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError, RuntimeError, http.client.HTTPException):
            if check():
                return
        if time.monotonic() > deadline_s:
            raise RuntimeError(lacking)
        time.sleep(POLL_S)


# --- the cases -------------------------------------------------------------------------------------


def stretch(node: Node, pass_time: Callable[[], None]) -> Stretch:
    """Wait, and read the meter of the event loop for this time."""
    before = node.metrics()["loopLate"]
    begin_s = time.time()
    pass_time()
    end_s = time.time()
    after = node.metrics()
    return Stretch(begin_s, end_s, after["loopLagMaxMs"], after["loopLate"] - before)


def disturb(disturber: Disturber, seconds: float, course: Course) -> None:
    disturber.go()
    time.sleep(seconds)
    course.done.append(disturber.halt())


def alone(name: str, options: argparse.Namespace) -> tuple[Course, Beaten]:
    """A standalone node, and a disturber of that kind."""
    course = Course(name)
    with running_members(1, options.port) as [member]:
        node = Node(member)
        with disturbing(name, node.address) as disturber:
            # Started after the disturber is ready, which takes longer than instances live without a beat.
            node.register(LOAD)
            with beating(node.address, LOAD, options.rate) as load:
                for _ in range(options.turns):
                    course.calm.append(stretch(node, lambda: time.sleep(options.seconds)))
                    course.disturbed.append(stretch(node, lambda: disturb(disturber, options.seconds, course)))
                return course, load.end()


def owner_hangs(name: str, options: argparse.Namespace) -> tuple[Course, Beaten]:
    """Three members. One hangs, while beats for all services, and writes to them, go to another."""
    course = Course(name)
    with running_members(MEMBERS, options.port) as members:
        nodes = [Node(member) for member in members]
        asked, victim = nodes[1], nodes[0]
        for node in nodes:
            wait_for(node.sees_all_up, f"{node.address} does not see all others")
        asked.register(LOAD)
        with beating(asked.address, LOAD, options.rate) as load:
            for node in nodes:
                wait_for(partial(node.holds, LOAD), f"{node.address} does not hold all")
            with disturbing("writes", asked.address, LOAD.name, str(LOAD.services)) as writers:
                for _ in range(options.turns):
                    wait_for(lambda: all_settled(nodes), "the members do not settle")
                    course.calm.append(stretch(asked, lambda: time.sleep(options.seconds)))
                    course.disturbed.append(stretch(asked, lambda: hang(victim, writers, course)))
            return course, load.end()


def all_settled(nodes: Sequence[Node]) -> bool:
    """Return whether each node sees all others, and all agree on the owners of services while all are UP."""
    addresses = tuple(sorted(node.address for node in nodes))
    mapper = DistroMapper.over(addresses[0], addresses, False)
    services = [f"{LOAD.name}-{number}" for number in range(LOAD.services)]
    owners = [mapper.map_srv(f"DEFAULT_GROUP@@{service}") for service in services]
    # One service of each owner is enough.
    telling = dict(zip(owners, services, strict=True))
    return all(
        node.sees_all_up() and all(node.owner_of(service) == owner for owner, service in telling.items())
        for node in nodes
    )


def hang(victim: Node, writers: Disturber, course: Course) -> None:
    """Pause the owner for a while, then let it continue."""
    pids = victim.member.pids()
    victim.member.signal(signal.SIGSTOP, pids)
    try:
        disturb(writers, HANGS_S, course)
    finally:
        victim.member.signal(signal.SIGCONT, pids)
    time.sleep(AFTER_S)


Case = Callable[[str, argparse.Namespace], tuple[Course, Beaten]]
CASES: dict[str, tuple[str, Case]] = {
    "large-datums": ("a peer PUTs datums of 10,000 instances", alone),
    "snapshots": ("GET /distro/datums of 100,000 instances", alone),
    "cold-pages": ("8 clients on cold pages, 100,000 instances", alone),
    "growth": ("a service grows to 10,000, 4 clients list it", alone),
    "owner-hangs": ("an owner hangs for 6 s, 8 clients write", owner_hangs),
}


# --- the table -------------------------------------------------------------------------------------


def within(beaten: Beaten, stretches: Sequence[Stretch]) -> Figures:
    return figures([ms for one in stretches for ms in beaten.between(one.begin_s, one.end_s)], LIMIT_MS)


def cells_of(course: Course, beaten: Beaten) -> list[str]:
    """One line of the table."""
    cells = [CASES[course.name][0]]
    for stretches in (course.calm, course.disturbed):
        timed = within(beaten, stretches)
        cells.append(f"{timed.p50_ms:.2f} / {timed.p99_ms:.1f} / {timed.max_ms:.1f}")
        late = [ms for one in stretches for ms in beaten.late_between(one.begin_s, one.end_s)]
        cells.append(f"{figures(late, LIMIT_MS).p99_ms:.1f}")
        cells.append(f"{max(one.lag_max_ms for one in stretches):.0f} / {sum(one.late for one in stretches)}")
    return cells


_LATE = ("late ms", "loop lag max ms / late")
TITLES = ("disturbance", "calm p50 / p99 / max ms", *_LATE, "disturbed p50 / p99 / max ms", *_LATE)


def complaints(course: Course, beaten: Beaten) -> list[str]:
    """Return the failures of a case: failed beats, and a p99 over the limit."""
    wrong = [f"{course.name}: {count} beats: {text}" for text, count in beaten.failures.items()]
    p99_ms = within(beaten, course.disturbed).p99_ms
    if p99_ms > LIMIT_MS:
        wrong.append(f"{course.name}: p99 of {p99_ms:.1f} ms")
    return wrong


def _tell(course: Course, beaten: Beaten) -> None:
    for number, (calm, disturbed, done) in enumerate(zip(course.calm, course.disturbed, course.done, strict=True), 1):
        before, beside = within(beaten, [calm]), within(beaten, [disturbed])
        say(
            f"{course.name} {number}: p99 {before.p99_ms:.1f} -> {beside.p99_ms:.1f} ms, max {before.max_ms:.1f} -> "
            f"{beside.max_ms:.1f} ms, {beside.slow} of {beside.count} over {LIMIT_MS:.0f} ms; done: {done}"
        )


# --- the command -----------------------------------------------------------------------------------


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=names_of(CASES), default=list(CASES), help=f"of {','.join(CASES)} (all)")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each period, calm or disturbed (10)")
    parser.add_argument("--turns", type=int, default=3, help="turns of calm and disturbed (3)")
    parser.add_argument("--rate", type=int, default=300, help="beats a second (300)")
    add_port(parser)
    return parser.parse_args()


def main() -> int:
    """Run the cases; return 0 when all beats were answered in time."""
    options = _options()
    rows, wrong = [], []
    for name in options.cases:
        say(f"== {CASES[name][0]}")
        course, beaten = CASES[name][1](name, options)
        _tell(course, beaten)
        rows.append(cells_of(course, beaten))
        wrong += complaints(course, beaten)
    print(table(TITLES, rows))
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
