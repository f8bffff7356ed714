"""Restart and kill members of three under load; check that no list or push ever empties or halves a service.

Instances beat, and subscribers poll and receive UDP pushes as v1 SDKs do; both go to another member on an
error. Scenarios: ``full`` (all members stop in order and start again), ``crash`` (kill -9 of all), ``rolling`` (one
after the other), ``takeover`` (kill -9 of one, later a restart), ``removal`` (the last instance of a service is
deregistered: that must show at once). Every answer and push is checked; 503 and refused connections are fine.
Prints a summary of each scenario as JSON; exit code 1 when one failed.
"""

import argparse
import asyncio
import collections
import gzip
import itertools
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from scripts.support.arguments import add_drill
from scripts.support.http_clients import Http, HttpInstances
from scripts.support.member_processes import MemberProcess, drill_members, start_all

JAVA_AGENT = "Nacos-Java-Client:v1.4.8"
GZIP_MAGIC = b"\x1f\x8b"
SHOWN_LIMIT_S = 1.0
"""Seconds within which a real removal must be visible everywhere."""
KEPT_EXAMPLES = 5
REGISTERED_AT_ONCE = 20


@dataclass
class Findings:
    """Observations of one scenario."""

    answers: collections.Counter[str] = field(default_factory=collections.Counter)
    pushes: int = 0
    lacking: int = 0
    """Answers and pushes that lacked some instance, or showed it unhealthy."""
    least: float = 1.0
    """The smallest share of a service's instances that an answer or push showed as healthy."""
    bad: list[tuple[float, str, str, int, int]] = field(default_factory=list)
    """Seconds since the start, ``list`` or ``push`` and where from, service, healthy ones shown, instances."""
    beats: collections.Counter[str] = field(default_factory=collections.Counter)


class Subscriber(asyncio.DatagramProtocol):
    """One client: a UDP port, some services, and the member that it asks until a call fails."""

    def __init__(self, drill: "Drill", number: int, services: list[str]) -> None:
        self._drill = drill
        self.number = number
        self.services = services
        self.emptied_s: dict[str, float] = {}
        """When a push first showed a service empty, by service."""
        self._at = number
        self._transport: asyncio.DatagramTransport | None = None

    async def open(self) -> None:
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", 0)
        )

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        packet = orjson.loads(gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data)
        ack = {"type": "push-ack", "lastRefTime": str(packet["lastRefTime"]), "data": ""}
        assert self._transport is not None, "opened"
        self._transport.sendto(orjson.dumps(ack), addr)
        answer = orjson.loads(packet["data"])
        self._drill.found.pushes += 1
        service = answer["name"].rpartition("@@")[2]
        if not answer["hosts"]:
            self.emptied_s.setdefault(service, time.monotonic())
        self._drill.look("push", service, answer["hosts"])

    async def poll(self, period_s: float) -> None:
        """Query all services repeatedly."""
        await asyncio.sleep(random.random() * period_s)
        while True:
            begun_s = time.monotonic()
            for service in self.services:
                await self.ask(service)
            await asyncio.sleep(max(0.0, period_s - (time.monotonic() - begun_s)))

    async def ask(self, service: str) -> int | None:
        """Make one list query; return the number of hosts, None when no member answered."""
        assert self._transport is not None, "opened"
        port = self._transport.get_extra_info("sockname")[1]
        for _ in range(len(self._drill.members)):
            member = self._drill.members[self._at % len(self._drill.members)]
            status, body = await self._drill.http[member].call(
                "GET",
                "/v1/ns/instance/list",
                agent=JAVA_AGENT,
                serviceName=f"DEFAULT_GROUP@@{service}",
                clusters="",
                udpPort=port,
                clientIP="127.0.0.1",
                healthyOnly="false",
            )
            self._drill.found.answers[str(status or "none")] += 1
            if status == 200:
                hosts = orjson.loads(body)["hosts"]
                self._drill.look(f"list of {member.address}", service, hosts)
                return len(hosts)
            self._at += 1
        return None


class Drill:
    """The load, and the restarts and kills of members under it."""

    def __init__(self, members: list[MemberProcess], options: argparse.Namespace) -> None:
        self.members = members
        self.http = {member: Http(member.address) for member in members}
        # The count changes with each scenario, while the clients stay.
        self._clients = HttpInstances(
            list(self.http.values()), options.beat_s, lambda outcome: self.found.beats.update([outcome])
        )
        self.found = Findings()
        self._options = options
        self._begun_s = time.monotonic()
        self._expected: collections.Counter[str] = collections.Counter()
        names = itertools.cycle([f"guard-{number}" for number in range(options.services)])
        self._instances = [
            (next(names), f"10.{number // 62_500}.{number // 250 % 250}.{number % 250}", number)
            for number in range(options.instances)
        ]
        self._expected.update(service for service, _, _ in self._instances)
        services = list(self._expected)
        count = options.subscribers
        self._subscribers = [Subscriber(self, number, services[number::count]) for number in range(count)]

    def look(self, where: str, service: str, hosts: list[dict[str, Any]]) -> None:
        """Compare an answer or push with the registered instances."""
        expected = self._expected.get(service, 0)
        if not expected:
            return
        healthy = sum(host["healthy"] and host["enabled"] for host in hosts)
        self.found.lacking += healthy < expected
        self.found.least = min(self.found.least, healthy / expected)
        if 2 * healthy <= expected:
            at_s = round(time.monotonic() - self._begun_s, 2)
            self.found.bad.append((at_s, where, service, healthy, expected))

    # --- scenarios -------------------------------------------------------------------------------

    async def run(self) -> bool:
        """Run the chosen scenarios; return whether all went well."""
        await self._start(self.members)
        for one in self._subscribers:
            await one.open()
        registered = 0
        for start in range(0, len(self._instances), REGISTERED_AT_ONCE):
            batch = self._instances[start : start + REGISTERED_AT_ONCE]
            registered += sum(await asyncio.gather(*(self._clients.register(*instance) for instance in batch)))
        assert registered == len(self._instances), "a healthy cluster takes every registration"
        await self._until(self._all_whole, 30)
        tasks = [asyncio.create_task(self._clients.live(*instance)) for instance in self._instances]
        tasks += [asyncio.create_task(one.poll(self._options.poll_s)) for one in self._subscribers]
        try:
            good = [await self._scenario(name) for name in self._options.scenarios]
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for one in self._subscribers:
                one.close()
        for failure in ended:
            if not isinstance(failure, asyncio.CancelledError):
                raise failure if isinstance(failure, Exception) else RuntimeError("a client ended early")
        return all(good)

    async def _scenario(self, name: str) -> bool:
        await asyncio.sleep(self._options.beat_s)
        self.found, self._begun_s = Findings(), time.monotonic()
        extra: dict[str, object] = {}
        match name:
            case "full":
                await asyncio.gather(*(asyncio.to_thread(member.stop) for member in self.members))
                extra["seconds until all had stopped"] = round(time.monotonic() - self._begun_s, 1)
                await self._start(self.members)
            case "crash":
                await asyncio.gather(*(asyncio.to_thread(member.kill_all) for member in self.members))
                await self._start(self.members)
            case "rolling":
                for member in self.members:
                    await asyncio.to_thread(member.stop)
                    await self._start([member])
                    await asyncio.sleep(self._options.between_s)
            case "takeover":
                await asyncio.to_thread(self.members[0].kill_all)
                await asyncio.sleep(self._options.down_s)
                await self._start(self.members[:1])
            case "removal":
                extra = await self._removal()
        acted_s = time.monotonic() - self._begun_s
        if name != "removal":
            await asyncio.sleep(self._options.settle_s)
        whole_s = await self._until(self._all_whole, 30)
        found = self.found
        good = not found.bad and whole_s is not None and bool(extra.get("good", True))
        summary = {
            "scenario": name,
            "good": good,
            "answers and pushes that emptied or halved a service": len(found.bad),
            "first of these": found.bad[:KEPT_EXAMPLES],
            "answers by status": dict(found.answers),
            "pushes": found.pushes,
            "answers and pushes that lacked any instance": found.lacking,
            "least part of a service shown healthy": round(found.least, 3),
            "beats": dict(found.beats),
            "seconds of action": round(acted_s, 1),
            "all lists whole at the end": whole_s is not None,
            "lists held back by the guard": await self._held_back(),
            **extra,
        }
        print(orjson.dumps(summary, option=orjson.OPT_INDENT_2).decode(), flush=True)
        return good

    async def _start(self, members: list[MemberProcess]) -> None:
        await asyncio.to_thread(start_all, members)

    async def _removal(self) -> dict[str, object]:
        """Deregister the last instance of services of each owner; measure until all members show it."""
        polled, pushed = [], []
        for number in range(self._options.removals):
            service = f"guard-last-{number}"
            watchers = [Subscriber(self, member, [service]) for member in range(len(self.members))]
            for one in watchers:
                await one.open()
            assert await self._clients.register(service, "10.250.0.1", number)
            await self._until(partial(_all_show, watchers, service, 1), 5)
            begun_s = time.monotonic()
            status, _ = await self._clients.anywhere(
                number, "DELETE", "/v1/ns/instance", serviceName=service, ip="10.250.0.1", port=8080
            )
            assert status == 200
            await self._until(partial(_all_show, watchers, service, 0), 5)
            polled.append(time.monotonic() - begun_s)
            await self._until(partial(_all_pushed, watchers, service), 5)
            pushed.append(max(one.emptied_s.get(service, float("inf")) for one in watchers) - begun_s)
            for one in watchers:
                one.close()
        slowest = max(*polled, *pushed)
        return {
            "good": slowest < SHOWN_LIMIT_S,
            "last instances removed": len(polled),
            "slowest until every member lists none, s": round(max(polled), 3),
            "slowest until every subscriber was pushed that, s": round(max(pushed), 3) if max(pushed) < 99 else "never",
        }

    # --- looking ---------------------------------------------------------------------------------

    async def _all_whole(self) -> bool:
        for member in self.members:
            for service, expected in self._expected.items():
                status, body = await self.http[member].call("GET", "/v1/ns/instance/list", 2.0, serviceName=service)
                if status != 200 or len(orjson.loads(body)["hosts"]) != expected:
                    return False
        return True

    async def _held_back(self) -> dict[str, object]:
        counts: dict[str, object] = {}
        for member in self.members:
            status, body = await self.http[member].call("GET", "/v1/ns/operator/metrics", 2.0)
            counts[member.address] = orjson.loads(body).get("listsHeldBack") if status == 200 else None
        return counts

    async def _until(self, check: Callable[[], Any], timeout_s: float) -> float | None:
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < timeout_s:
            if await check():
                return time.monotonic() - begun_s
            await asyncio.sleep(0.005)
        return None


async def _all_show(watchers: list[Subscriber], service: str, count: int) -> bool:
    return all([await one.ask(service) == count for one in watchers])


async def _all_pushed(watchers: list[Subscriber], service: str) -> bool:
    return all(service in one.emptied_s for one in watchers)


def _options() -> argparse.Namespace:
    names = ["full", "crash", "rolling", "takeover", "removal"]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"{', '.join(names)} (all)")
    parser.add_argument("--instances", type=int, default=2_000)
    parser.add_argument("--services", type=int, default=100)
    parser.add_argument("--subscribers", type=int, default=50)
    parser.add_argument("--beat-s", type=float, default=5.0, help="seconds between two beats of an instance")
    parser.add_argument("--poll-s", type=float, default=1.0, help="seconds between two polls of a subscriber")
    parser.add_argument("--down-s", type=float, default=15.0, help="seconds from the kill of a member to its restart")
    parser.add_argument("--between-s", type=float, default=3.0, help="seconds between two members of a rolling restart")
    parser.add_argument(
        "--settle-s", type=float, default=35.0, help="observed afterwards: longer than instances live without beats"
    )
    parser.add_argument("--removals", type=int, default=10)
    add_drill(parser)
    options = parser.parse_args()
    options.scenarios = options.scenarios or names
    if unknown := set(options.scenarios) - set(names):
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    """Run the drill; return 0 when no answer and no push emptied or halved a service."""
    options = _options()
    with drill_members(3, options.port, options.logs, options.rollcall) as members:
        return 0 if asyncio.run(Drill(members, options).run()) else 1


if __name__ == "__main__":
    sys.exit(main())
