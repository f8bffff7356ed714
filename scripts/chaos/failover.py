"""Kill and pause a member of three under load; check that no instance with beats is ever missing, and time the writes.

Runs three members. Instances beat through all of them, and go to another member on an error, as SDKs do; readers poll
the survivors all the time. Scenarios: ``worker`` (kill -9 of one member's worker alone), ``member`` (kill -9 of all its
processes, later a restart), ``pause`` (SIGSTOP, later SIGCONT). Prints a summary of each as JSON; exit code 1 when
something was missing, too late or answered wrongly.
"""

import argparse
import asyncio
import collections
import itertools
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from scripts.support.arguments import add_drill
from scripts.support.http_clients import Http, HttpInstances
from scripts.support.member_processes import MemberProcess, drill_members, start_all

WRITE_LIMIT_S = 3.0
EQUAL_LIMIT_S = 10.0
WRITE_PERIOD_S = 0.2
WRITERS = 4
WRITTEN = "10.200.0.1:8080"
"""The instance in each of the victim's services that changes all the time."""

Lists = dict[str, dict[str, Any]]
"""The lists of one member: service to instance (``ip:port``) to host."""


@dataclass
class Findings:
    """Observations of one scenario."""

    reads: collections.Counter[str] = field(default_factory=collections.Counter)
    gaps: list[tuple[float, str, str, list[str]]] = field(default_factory=list)
    """Seconds since the harm, member, service, missing instances."""
    unhealthy: set[str] = field(default_factory=set)
    beats: collections.Counter[str] = field(default_factory=collections.Counter)
    tries: list[tuple[float, int, float]] = field(default_factory=list)
    """Writes to the victim's services: seconds since the harm, status, how long it took."""
    writes_s: list[float] = field(default_factory=list)
    """Seconds from a write's first attempt to its success."""


class Drill:
    """The load, and the harm done under it."""

    def __init__(self, members: list[MemberProcess], options: argparse.Namespace) -> None:
        self._options = options
        self._http = {member: Http(member.address) for member in members}
        # The count changes with each scenario, while the clients stay.
        self._clients = HttpInstances(
            list(self._http.values()), options.beat_s, lambda outcome: self.found.beats.update([outcome])
        )
        self._victim = members[options.victim - 1]
        self._survivors = [member for member in members if member is not self._victim]
        self._members = [self._victim, *self._survivors]
        self._expected: dict[str, set[str]] = {f"drill-{number}": set() for number in range(options.services)}
        services = itertools.cycle(self._expected)
        self._instances = [
            (next(services), f"10.{number // 62_500}.{number // 250 % 250}.{number % 250}", number)
            for number in range(options.instances)
        ]
        for service, ip, _ in self._instances:
            self._expected[service].add(f"{ip}:8080")
        self._harmed_s = time.monotonic()
        self.found = Findings()

    # --- clients ---------------------------------------------------------------------------------

    async def _write(self, services: list[str]) -> None:
        """Change the victim's services repeatedly, through either survivor."""
        ip, _, port = WRITTEN.partition(":")
        for number in itertools.count():
            service, begun_s = services[number % len(services)], time.monotonic()
            for turn in itertools.count(number):
                member, try_s = self._survivors[turn % len(self._survivors)], time.monotonic()
                status, _ = await self._http[member].call(
                    "POST",
                    "/v1/ns/instance",
                    WRITE_LIMIT_S + 2,
                    serviceName=service,
                    ip=ip,
                    port=port,
                    metadata=f'{{"write":"{number}"}}',
                )
                self.found.tries.append((try_s - self._harmed_s, status, time.monotonic() - try_s))
                if status == 200:
                    break
                await asyncio.sleep(0.05)
            self.found.writes_s.append(time.monotonic() - begun_s)
            await asyncio.sleep(WRITE_PERIOD_S)

    # --- readers ---------------------------------------------------------------------------------

    async def _lists(self, member: MemberProcess) -> Lists | None:
        """All services as the member lists them; None when it does not answer, or redirects its clients."""
        lists: Lists = {}
        for service in self._expected:
            status, body = await self._http[member].call("GET", "/v1/ns/instance/list", 1.0, serviceName=service)
            if status != 200:
                return None
            hosts = {f"{host['ip']}:{host['port']}": host for host in orjson.loads(body)["hosts"]}
            self._look(member, service, hosts)
            lists[service] = hosts
        return lists

    def _look(self, member: MemberProcess, service: str, hosts: dict[str, Any]) -> None:
        self.found.reads[member.address] += 1
        if missing := self._expected[service] - hosts.keys():
            at_s = round(time.monotonic() - self._harmed_s, 2)
            self.found.gaps.append((at_s, member.address, service, sorted(missing)))
        self.found.unhealthy.update(
            address for address in self._expected[service] & hosts.keys() if not hosts[address]["healthy"]
        )

    async def _watch(self, member: MemberProcess) -> None:
        while True:
            begun_s = time.monotonic()
            await self._lists(member)
            await asyncio.sleep(max(0.0, self._options.poll_ms / 1000 - (time.monotonic() - begun_s)))

    async def _beating_equal(self) -> bool:
        """Return whether all members list the beating instances alike, without the one that changes all the time."""
        views = [await self._lists(member) for member in self._members]
        for view in views:
            for hosts in (view or {}).values():
                hosts.pop(WRITTEN, None)
        return self._is_whole(views)

    async def _all_equal(self) -> bool:
        return self._is_whole([await self._lists(member) for member in self._members])

    def _is_whole(self, views: list[Lists | None]) -> bool:
        first, *others = views
        if first is None or any(one != first for one in others):
            return False
        return all(expected <= first[service].keys() for service, expected in self._expected.items())

    async def _until(self, check: Callable[[], Awaitable[bool]], timeout_s: float) -> float | None:
        """Wait until the check is true; return the seconds that this took, None when it never was."""
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < timeout_s:
            if await check():
                return time.monotonic() - begun_s
            await asyncio.sleep(0.02)
        return None

    async def _is_ready(self) -> bool:
        status, _ = await self._http[self._victim].call("GET", "/v1/console/health/readiness", 1.0)
        return status == 200

    async def _owned(self) -> list[str]:
        """The services for which all members consider the victim responsible."""
        owned = []
        for service in self._expected:
            answers = [
                await self._http[member].call(
                    "GET", "/v1/ns/operator/distro/server", serviceName=f"DEFAULT_GROUP@@{service}"
                )
                for member in self._members
            ]
            if all(status == 200 and self._victim.address.encode() in body for status, body in answers):
                owned.append(service)
        return owned

    # --- scenarios -------------------------------------------------------------------------------

    async def run(self) -> bool:
        """Run the chosen scenarios; return whether all went well."""
        await asyncio.to_thread(start_all, self._members)
        registered = [await self._clients.register(service, ip, number) for service, ip, number in self._instances]
        assert all(registered), "a healthy cluster takes every registration"
        equal_s = await self._until(self._all_equal, EQUAL_LIMIT_S)
        print(f"registered {len(registered)} instances; all lists equal after {equal_s:.2f} s", flush=True)
        tasks = [asyncio.create_task(self._clients.live(*instance)) for instance in self._instances]
        tasks += [asyncio.create_task(self._watch(member)) for member in self._survivors]
        try:
            good = [await self._scenario(name) for name in self._options.scenarios]
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for failure in ended:
            if not isinstance(failure, asyncio.CancelledError):
                raise failure if isinstance(failure, Exception) else RuntimeError("a client ended early")
        return all(good)

    async def _scenario(self, name: str) -> bool:
        # Each scenario begins with a healthy cluster: the victim owns its third again, and nothing is under way.
        owned_before: list[str] = []

        async def owns() -> bool:
            owned_before[:] = await self._owned()
            return len(owned_before) > len(self._expected) // 10

        assert await self._until(owns, 60) is not None, "the victim owns nothing"
        self.found, self._harmed_s = Findings(), time.monotonic()
        await asyncio.sleep(self._options.beat_s)
        self._harmed_s = time.monotonic()
        writers = [asyncio.create_task(self._write(owned_before[at::WRITERS])) for at in range(WRITERS)]
        await asyncio.sleep(WRITE_PERIOD_S * 3)
        self._harmed_s = time.monotonic()
        await self._harm(name)
        back_s = time.monotonic()
        ready_s = await self._until(self._is_ready, 60)
        await self._until(self._beating_equal, EQUAL_LIMIT_S * 3)
        equal_s = time.monotonic() - back_s
        owner_s = await self._until(owns, 60)
        owner_s = owner_s and time.monotonic() - back_s
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        await asyncio.sleep(self._options.settle_s)
        settled = await self._until(self._all_equal, EQUAL_LIMIT_S) is not None
        return self._summary(name, ready_s, equal_s, owner_s, settled)

    async def _harm(self, name: str) -> None:
        """Harm the victim, and return when it has begun to come back."""
        victim = self._victim
        match name:
            case "worker":
                victim.signal(signal.SIGKILL, victim.pids()[1:])
            case "member":
                await asyncio.to_thread(victim.kill_all)
                await asyncio.sleep(self._options.down_s)
                victim.start()
            case "pause":
                pids = victim.pids()
                victim.signal(signal.SIGSTOP, pids)
                await asyncio.sleep(self._options.pause_s)
                victim.signal(signal.SIGCONT, pids)

    def _summary(self, name: str, ready_s: float | None, equal_s: float, owner_s: float | None, settled: bool) -> bool:
        found, took = self.found, [took_s for _, _, took_s in self.found.tries]
        statuses = collections.Counter(status for _, status, _ in found.tries)
        wrong = [one for one in found.tries if one[1] not in (200, 503) or one[2] > WRITE_LIMIT_S]
        missing = {address for *_, addresses in found.gaps for address in addresses}
        good = not found.gaps and not wrong and equal_s < EQUAL_LIMIT_S and ready_s is not None and settled
        summary = {
            "scenario": name,
            "good": good,
            "instances ever missing": len(missing),
            "lists that lacked some": len(found.gaps),
            "first of these": found.gaps[:3],
            "instances ever unhealthy": len(found.unhealthy),
            "lists read": dict(found.reads),
            "beats": dict(found.beats),
            "seconds from return to ready": ready_s and round(ready_s, 2),
            "seconds from return to all lists equal": round(equal_s, 2),
            "seconds from return to owning again": owner_s and round(owner_s, 2),
            "equal at the end": settled,
            "write tries by status": {str(status or "no answer"): count for status, count in statuses.items()},
            "slowest write try, s": round(max(took), 3),
            "slowest success, s": round(max((one[2] for one in found.tries if one[1] == 200), default=0), 3),
            "longest from first try to success, s": round(max(found.writes_s, default=0), 3),
            "wrong write tries": wrong[:3],
        }
        print(orjson.dumps(summary, option=orjson.OPT_INDENT_2).decode(), flush=True)
        return good


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="worker, member, pause (all)")
    parser.add_argument("--instances", type=int, default=1_000)
    parser.add_argument("--services", type=int, default=50)
    parser.add_argument("--beat-s", type=float, default=5.0, help="seconds between two beats of an instance")
    parser.add_argument("--poll-ms", type=int, default=150, help="time between two readings of all lists of a survivor")
    parser.add_argument("--down-s", type=float, default=15.0, help="seconds from the kill of a member to its restart")
    parser.add_argument("--pause-s", type=float, default=20.0)
    parser.add_argument(
        "--settle-s", type=float, default=35.0, help="observed after a return: longer than instances live without beats"
    )
    parser.add_argument("--victim", type=int, choices=(1, 2, 3), default=1, help="index of the victim, by port")
    add_drill(parser)
    options = parser.parse_args()
    options.scenarios = options.scenarios or ["worker", "member", "pause"]
    if unknown := set(options.scenarios) - {"worker", "member", "pause"}:
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    """Run the drill; return 0 when nothing was missing, too late or wrong."""
    options = _options()
    with drill_members(3, options.port, options.logs, options.rollcall) as members:
        return 0 if asyncio.run(Drill(members, options).run()) else 1


if __name__ == "__main__":
    sys.exit(main())
