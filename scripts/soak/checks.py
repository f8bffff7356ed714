"""Reads every list of every member repeatedly, and compares it with the instances that must and must not be in it."""

import asyncio
import collections
import time
from dataclasses import dataclass, field

import orjson

from scripts.soak.soaked import GONE_AT, PORT, SERVICES, SILENT_KEY, TAKEN_OVER_MS, Access, beating, now_ms
from scripts.soak.wire import Lines
from scripts.support.verdicts import Absences

EXAMPLES = 5
FOREVER_MS = 1 << 60
GAP_S = 0.02
"""Pause between two lists, because the members need the CPU."""


@dataclass(slots=True)
class Checked:
    """Counts of list answers and of instances that were absent or unhealthy in them."""

    lists: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    """Answers other than a list, for instance from a member that starts or stops."""
    absent: Absences = field(default_factory=Absences)
    """Instances that beat but were not listed."""
    unhealthy: Absences = field(default_factory=Absences)
    """Instances that beat but were listed as unhealthy."""
    empty: int = 0
    ghosts: set[str] = field(default_factory=set)
    """Instances that were listed after their expiry."""
    ghost_examples: list[str] = field(default_factory=list)


class Checker:
    """Checks all members, one list at a time."""

    def __init__(self, access: Access, count: int) -> None:
        self._access = access
        self._expected: dict[str, set[str]] = collections.defaultdict(set)
        for service, ip in beating(count, SERVICES):
            self._expected[service].add(f"{ip}:{PORT}")
        self.found = Checked()
        self._begun_s = time.monotonic()
        self._disturbed_ms = 0

    def disturbed(self) -> None:
        """Note that a member stopped or came back, so services change their owner. For any thread."""
        self._disturbed_ms = now_ms()

    async def run(self, period_s: float) -> None:
        """Read all lists every ``period_s``, for ever."""
        lines = Lines(self._access)
        await lines.open()
        try:
            while True:
                begun_s = time.monotonic()
                for service, expected in self._expected.items():
                    await self._look(lines, service, expected)
                    await asyncio.sleep(GAP_S)
                await asyncio.sleep(max(period_s - (time.monotonic() - begun_s), 0.0))
        finally:
            await lines.close()

    async def _look(self, lines: Lines, service: str, expected: set[str]) -> None:
        for number, port in enumerate(self._access.ports):
            status, body = await lines.members[number][0].ask("GET", "/v1/ns/instance/list", serviceName=service)
            if status == 200:
                self._compare(str(port), service, expected, body)
            else:
                self.found.refused[f"{port}: {status or 'no answer'}"] += 1

    def _compare(self, member: str, service: str, expected: set[str], body: bytes) -> None:
        found, now_s = self.found, time.monotonic() - self._begun_s
        hosts = {f"{host['ip']}:{host['port']}": host for host in orjson.loads(body)["hosts"]}
        found.lists += 1
        found.empty += not hosts
        found.absent.note(member, service, expected - hosts.keys(), now_s)
        sick = {one for one in expected & hosts.keys() if not hosts[one]["healthy"]}
        found.unhealthy.note(member, service, sick, now_s)
        for address, host in hosts.items():
            metadata = host.get("metadata") or {}
            gone_ms = int(metadata.get(GONE_AT, FOREVER_MS))
            if metadata.get(SILENT_KEY) == "True":
                gone_ms = max(gone_ms, self._disturbed_ms + TAKEN_OVER_MS)
            if gone_ms < now_ms():
                found.ghosts.add(f"{service} {address}")
                if len(found.ghost_examples) < EXAMPLES:
                    late_s = (now_ms() - gone_ms) / 1_000
                    found.ghost_examples.append(f"{now_s:.0f} s, {member}: {service} {address}, {late_s:.1f} s late")
