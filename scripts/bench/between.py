"""Measure what a write that comes through one of three members costs each of them, beside another checkout.

Three members run as processes on loopback. All services belong to the second member: so the first one forwards each
write, the second executes it and sends it to both others, and the third only receives it. 32 connections to the
first member send a write each, wait for all answers, and go on 20 ms after they began: each round makes batches of the
same size, however fast the machine is. The CPU time of each thread comes from /proc, so that other work on the machine
disturbs little. Prints the CPU-us per write by member, apart for the event loop and for all other threads; the sum; and
its ratio to the other checkout. The checkouts take turns, with new processes, and the turn with the least sum counts.

churn: alternately a new instance and the removal of an old one. update: PUT of another weight and other metadata.

    python -m scripts.bench.between --other ../before/.venv/bin/rollcall
    python -m scripts.bench.between --kinds update --rounds 300 --turns 5
"""

import argparse
import http.client
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from distro.members.mapper import DistroMapper
from scripts.support.arguments import add_port, names_of
from scripts.support.member_processes import COMMAND, CONTEXT_PATH, MemberProcess, running_members
from scripts.support.tables import head, row
from tests.support.raw import RawConnection

KINDS = ("churn", "update")
ROLES = ("forwards", "owns", "receives")
PORTS_APART = 40
SERVICES, HOSTS = 100, 10
CONNECTIONS = 32
ROUND_S = 0.02
SEEN_S = 60.0
"""The time in which the members find each other."""
SETTLE_S, TAIL_S = 3.0, 0.5
"""The time for what follows the start, and for sends that the last writes cause."""
HEADERS = "Host: 127.0.0.1:8848\r\nUser-Agent: Nacos-Java-Client:v1.4.1\r\n"


def writes(kind: str, services: Sequence[str]) -> Iterator[bytes]:
    """Yield requests without end: first the registrations of all instances, then those of the kind."""
    kept, number = SERVICES * HOSTS, 0

    def request(method: str, number: int, more: str) -> bytes:
        service = quote(f"DEFAULT_GROUP@@{services[number % len(services)]}")
        ip = f"11.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        target = f"{CONTEXT_PATH}/v1/ns/instance?serviceName={service}&namespaceId=public&ip={ip}&port=8080{more}"
        return f"{method} {target}&ephemeral=true HTTP/1.1\r\n{HEADERS}\r\n".encode()

    def new(number: int) -> bytes:
        metadata = quote(f'{{"version":"v1.2.3","start":"{number}"}}')
        return request("POST", number, f"&weight=1.0&enable=true&healthy=true&metadata={metadata}")

    for number in range(kept):
        yield new(number)
    while True:
        number += 1
        if kind == "churn":
            yield new(number)
            yield request("DELETE", number - kept, "")
        else:
            metadata = quote(f'{{"zone":"a","change":"{number}"}}')
            more = f"&weight={number % 100 + 1}&enabled=true&healthy=true&metadata={metadata}"
            yield request("PUT", number % kept, more)


def cpu_us(pid: int) -> tuple[float, float]:
    """Return the CPU time of the first thread of a process, which runs the event loop, and of all others."""
    loop_us = others_us = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        used_us = int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1_000
        if task.name == str(pid):
            loop_us = used_us
        else:
            others_us += used_us
    return loop_us, others_us


@dataclass(frozen=True, slots=True)
class Cost:
    """The CPU-us of each write, by member in the order of ``ROLES``: of its event loop, and of its other threads."""

    loop_us: tuple[float, ...]
    others_us: tuple[float, ...]

    @property
    def sum_us(self) -> float:
        return sum(self.loop_us) + sum(self.others_us)


def wait_for_members(members: Sequence[MemberProcess]) -> None:
    """Return when each member considers all of them alive."""
    end_s = time.monotonic() + SEEN_S
    for member in members:
        host, _, port = member.address.rpartition(":")
        states: list[str] = []
        while states != ["UP"] * len(members):
            if time.monotonic() > end_s:
                raise SystemExit(f"{member.address} does not find the others")
            time.sleep(0.1)
            with closing(http.client.HTTPConnection(host, int(port), timeout=5)) as connection:
                connection.request("GET", f"{CONTEXT_PATH}/v1/core/cluster/nodes")
                states = [one["state"] for one in json.loads(connection.getresponse().read())["data"]]
    time.sleep(SETTLE_S)


def measure(command: Path, kind: str, port: int, rounds: int) -> Cost:
    """Start three members, and measure what writes cost them."""
    with running_members(len(ROLES), port, command=command) as members, ExitStack() as stack:
        wait_for_members(members)
        first, owner, _ = addresses = [one.address for one in members]
        mapper = DistroMapper.over(first, addresses)
        named = (f"between-{number}" for number in range(100 * SERVICES))
        services = [name for name in named if mapper.map_srv(f"DEFAULT_GROUP@@{name}") == owner][:SERVICES]
        made = writes(kind, services)
        connections = [stack.enter_context(RawConnection(first)) for _ in range(CONNECTIONS)]

        def send(count: int) -> None:
            for _ in range(count):
                end_s = time.monotonic() + ROUND_S
                for one in connections:
                    one.send(next(made))
                if wrong := [answer for one in connections if (answer := one.read()).status != 200]:
                    raise SystemExit(f"{kind}: a member answers {wrong[0]}")
                time.sleep(max(end_s - time.monotonic(), 0))

        send(2 * SERVICES * HOSTS // CONNECTIONS)
        time.sleep(TAIL_S)
        workers = [one.pids()[-1] for one in members]
        before = [cpu_us(pid) for pid in workers]
        send(rounds)
        time.sleep(TAIL_S)
        used = [
            tuple((now - then) / rounds / CONNECTIONS for now, then in zip(cpu_us(pid), one, strict=True))
            for pid, one in zip(workers, before, strict=True)
        ]
        loop_us, others_us = zip(*used, strict=True)
        return Cost(loop_us, others_us)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=lambda text: Path(text).absolute(), help="another release's rollcall command")
    parser.add_argument("--kinds", type=names_of(KINDS), default=list(KINDS), help=f"of {','.join(KINDS)} (all)")
    parser.add_argument("--rounds", type=int, default=200, help=f"of {CONNECTIONS} writes each (200)")
    parser.add_argument("--turns", type=int, default=3)
    add_port(parser, 7)
    options = parser.parse_args()
    commands = [("this", COMMAND)] + ([("other", options.other)] if options.other else [])
    print(head(["CPU-us per write", "", *(f"{role}: loop, rest" for role in ROLES), "sum", "ratio"]), flush=True)
    for kind in options.kinds:
        least: dict[str, Cost] = {}
        for turn in range(options.turns):
            for name, command in commands if turn % 2 else commands[::-1]:
                port = options.port + PORTS_APART * (name != "this")
                cost = measure(command, kind, port, options.rounds)
                print(f"{kind}, {name}: {cost.sum_us:.1f}", file=sys.stderr, flush=True)
                if name not in least or cost.sum_us < least[name].sum_us:
                    least[name] = cost
        for name, cost in least.items():
            by_role = [f"{loop:.1f}, {rest:.1f}" for loop, rest in zip(cost.loop_us, cost.others_us, strict=True)]
            ratio = f"{cost.sum_us / least['other'].sum_us:.3f}" if options.other and name == "this" else ""
            print(row([kind, name, *by_role, f"{cost.sum_us:.1f}", ratio]), flush=True)


if __name__ == "__main__":
    main()
