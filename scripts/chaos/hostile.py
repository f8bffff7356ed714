"""Send three members forged messages in other members' names; afterwards none may have had an effect.

Forged versions, forged reports, datums with values that no registration accepts, and decompression bombs (see
``hostile_corpus.py``). Afterwards new services must reach all members, nothing forged may be listed, all members must
restart and serve what they had, a list query beside the largest bodies must be answered in time, and the logs may have
neither a traceback nor a line that came from outside. Prints a table; exit code 1 after a breach.

    python -m scripts.chaos.hostile
    python -m scripts.chaos.hostile --rollcall ../before/.venv/bin/rollcall
"""

import argparse
import asyncio
import collections
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from scripts.chaos.hostile_calls import fetch, send
from scripts.chaos.hostile_corpus import BOMBS, DATUMS, FORGED, RECORDS_TYPE, SERVICE, Scene, reports, values, versions
from scripts.support.arguments import add_drill
from scripts.support.beat_load import Figures, figures
from scripts.support.http_clients import Http
from scripts.support.load_process import LoadProcess
from scripts.support.member_processes import MemberProcess, drill_members, start_all
from scripts.support.verdicts import Measured, table

MEMBERS = 3
GROUPS = {"versions": versions, "reports": reports, "values": values}
KNOWN_LISTS, KNOWN_RECORDS = 30, 10
NEW = 100
SETTLED_TIMEOUT_S = 45.0
"""More than the longest rejoin delay that a report may impose."""
REPLICATED_TIMEOUT_S = 15.0
READ_PERIOD_S = 0.01
LIMIT_MS = 50.0
RSS_MB_MAX = 768
POLL_S = 0.1
KEPT_NAMES = 5
NAMESPACES = "/v1/console/namespaces"
PATIENT = json.dumps({"preserved.heart.beat.timeout": "86400000", "preserved.ip.delete.timeout": "86400000"})
"""Metadata of instances that send no beats."""
TRACEBACK = "Traceback (most recent call last)"


class Drill:
    """Three members, their data before the attacks, and the attacks."""

    def __init__(self, members: Sequence[MemberProcess], options: argparse.Namespace) -> None:
        self._members = members
        self._http = {member: Http(member.address) for member in members}
        self._options = options
        self._lists = [f"known-{number}" for number in range(KNOWN_LISTS)]
        self._known = Scene([member.address for member in members], {}, {})
        self._records = [f"durable-{number}" for number in range(KNOWN_RECORDS)]

    async def run(self) -> list[Measured]:
        """Run all attacks; return the measurements."""
        await self._start()
        await self._fill()
        calm = await self._timed(self._options.seconds)
        rows = []
        for name, shots in GROUPS.items():
            answers = await self._attack(shots)
            rows.append(Measured(f"{name}: answers by status", told(answers)))
            rows.append(Measured(f"{name}: answers 500 or none", _faults(answers), 0))
        rows.append(Measured("list query, p50 / p99 / max ms, at rest", _times(calm)))
        for kind in BOMBS:
            beside, answers = await self._bombed(kind)
            rows.append(Measured(f"bombs, {kind}: answers by status", told(answers)))
            rows.append(Measured(f"bombs, {kind}: list query beside, p50 / p99 / max ms", _times(beside)))
            rows.append(Measured(f"bombs, {kind}: list query beside, p99 ms", round(beside.p99_ms, 1), LIMIT_MS))
        rows.append(Measured("largest RSS of a process so far, MB", round(self._peak_mb()), RSS_MB_MAX))
        rows += await self._aftermath()
        rows += await self._restarted()
        return [*rows, *self._logged()]

    async def _start(self) -> None:
        await asyncio.to_thread(start_all, self._members)

    async def _fill(self) -> None:
        """Create ephemeral and persistent instances and namespaces, and wait until every member has them."""
        for number, name in enumerate((*self._lists, *self._records)):
            ephemeral = str(name in self._lists).lower()
            assert await self._register(name, number, ephemeral), "a cluster at rest takes every write"
        for name in self._records:
            status, _ = await self._http[self._members[0]].call(
                "POST", NAMESPACES, customNamespaceId=name, namespaceName=name, namespaceDesc=""
            )
            assert status == 200, "a cluster at rest takes every write"
        assert await self._until(self._has_all, REPLICATED_TIMEOUT_S), "a cluster at rest agrees"

    async def _register(self, service: str, start: int, ephemeral: str = "true") -> bool:
        status, _ = await self._http[self._members[start % MEMBERS]].call(
            "POST",
            "/v1/ns/instance",
            serviceName=service,
            ip="10.1.0.1",
            port=80,
            ephemeral=ephemeral,
            metadata=PATIENT,
        )
        return status == 200

    # --- attacks ---------------------------------------------------------------------------------

    async def _scene(self) -> Scene:
        """Return the cluster's data as a peer fetches it; an attacker on the same machine can read it, too.

        Returns the previous scene when the members no longer answer.
        """
        first, second = self._members[:2]
        try:
            lists, records = [
                await asyncio.to_thread(fetch, first.address, DATUMS + kind, second.address)
                for kind in ("", f"?type={RECORDS_TYPE}")
            ]
        except (OSError, RuntimeError) as error:
            print(f"a peer cannot fetch the data: {error}", flush=True)
        else:
            self._known = Scene([member.address for member in self._members], lists, records)
        return self._known

    async def _attack(self, shots: Callable[[Scene, str, str], Iterator[Any]]) -> collections.Counter[str]:
        """Send each member all shots of a group, in another member's name."""
        scene = await self._scene()
        answers: collections.Counter[str] = collections.Counter()
        for target, sender in itertools.permutations(scene.members, 2):
            for shot in shots(scene, target, sender):
                answers[await asyncio.to_thread(send, target, shot)] += 1
        return answers

    async def _bombed(self, kind: str) -> tuple[Figures, collections.Counter[str]]:
        """Time list queries while decompression bombs arrive at all members."""
        load = LoadProcess("scripts.chaos.hostile_bombs", kind, *(member.address for member in self._members))
        try:
            await asyncio.to_thread(load.wait_ready)
            load.go()
            beside = await self._timed(self._options.seconds)
            return beside, collections.Counter(await asyncio.to_thread(load.halt))
        finally:
            await asyncio.to_thread(load.kill)

    async def _timed(self, seconds: float) -> Figures:
        """Times of list queries at all members in turn; a query without an answer counts with its time-out."""
        times_ms = []
        end_s = time.monotonic() + seconds
        for http, name in zip(itertools.cycle(self._http.values()), itertools.cycle(self._lists), strict=False):
            begun_s = time.monotonic()
            if begun_s > end_s:
                break
            await http.call("GET", "/v1/ns/instance/list", serviceName=name)
            times_ms.append((time.monotonic() - begun_s) * 1_000)
            await asyncio.sleep(READ_PERIOD_S)
        return figures(times_ms, LIMIT_MS)

    # --- afterwards ------------------------------------------------------------------------------

    async def _aftermath(self) -> list[Measured]:
        """Measure whether the cluster still works as before."""
        kept_s = await self._until(self._has_all, SETTLED_TIMEOUT_S)
        if kept_s is None:
            print(f"lacking: {sorted(await self._lacking([*self._lists, *self._records]))[:KEPT_NAMES]}", flush=True)
        new = [f"new-{number}" for number in range(NEW)]
        refused = [name for number, name in enumerate(new) if not await self._register(name, number)]

        async def replicated() -> bool:
            return not await self._lacking(new)

        replicated_s = await self._until(replicated, REPLICATED_TIMEOUT_S)
        lacking = await self._lacking(new)
        forged = await self._forged()
        for name in sorted(forged):
            print(f"forged: {name[:100]!r}", flush=True)
        self._lists += [name for name in new if name not in refused]
        return [
            Measured("seconds until all had all that was there before", _seconds(kept_s), SETTLED_TIMEOUT_S),
            Measured("new services that were refused", len(refused), 0),
            Measured(f"of {NEW} new services, not on all members", len(lacking), 0),
            Measured("seconds until all members had them", _seconds(replicated_s)),
            Measured("forged services listed by some member", len(forged), 0),
        ]

    async def _restarted(self) -> list[Measured]:
        """Measure whether all members stop, start, and still have their data."""
        codes = [await asyncio.to_thread(_stop, member) for member in self._members]
        begun_s = time.monotonic()
        try:
            await self._start()
        except RuntimeError as error:
            return [Measured(f"members that start again: {error}", "no", 0)]
        ready_s = time.monotonic() - begun_s
        has_all = await self._until(self._has_all, REPLICATED_TIMEOUT_S)
        return [
            Measured("members that did not end in order", sum(code != 0 for code in codes), 0),
            Measured("seconds until all were ready again", round(ready_s, 1)),
            Measured("seconds until all had all after a restart", _seconds(has_all), REPLICATED_TIMEOUT_S),
            Measured("forged services listed after a restart", len(await self._forged()), 0),
        ]

    async def _has_all(self) -> bool:
        if await self._lacking([*self._lists, *self._records]):
            return False
        for http in self._http.values():
            status, body = await http.call("GET", NAMESPACES)
            if status != 200 or set(self._records) - {one["namespace"] for one in orjson.loads(body)["data"]}:
                return False
        return True

    async def _lacking(self, services: Sequence[str]) -> set[str]:
        """The services whose only healthy instance is missing at some member."""
        lacking = set()
        for http, name in itertools.product(self._http.values(), services):
            status, body = await http.call("GET", "/v1/ns/instance/list", serviceName=name)
            if status != 200 or [host["healthy"] for host in orjson.loads(body)["hosts"]] != [True]:
                lacking.add(name)
        return lacking

    async def _forged(self) -> set[str]:
        """The names of services and namespaces that exist only in forged datums."""
        found: set[str] = set()
        for http in self._http.values():
            status, body = await http.call("GET", "/v1/ns/service/list", pageNo=1, pageSize=100_000)
            names = orjson.loads(body)["doms"] if status == 200 else []
            status, body = await http.call("GET", NAMESPACES)
            names += [one["namespace"] for one in orjson.loads(body)["data"]] if status == 200 else []
            found.update(name for name in names if SERVICE in name or FORGED in name)
        return found

    async def _until(self, check: Callable[[], Awaitable[bool]], timeout_s: float) -> float | None:
        """Wait until a check is true; return the seconds that this took, None when it never was."""
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < timeout_s:
            if await check():
                return time.monotonic() - begun_s
            await asyncio.sleep(POLL_S)
        return None

    def _peak_mb(self) -> float:
        """The peak memory of any process of the members."""
        return max(_peak_mb(pid) for member in self._members for pid in member.pids())

    def _logged(self) -> list[Measured]:
        lines = [line for member in self._members for line in member.log.read_text(errors="replace").splitlines()]
        return [
            Measured("tracebacks in the members' logs", lines.count(TRACEBACK), 0),
            Measured("lines in the logs that came from outside", sum(line.startswith(FORGED) for line in lines), 0),
            Measured("longest line of a log, characters", max(map(len, lines), default=0)),
        ]


def _stop(member: MemberProcess) -> int:
    """Stop a member, by force if it does not stop in order; return its exit code, -1 after force."""
    try:
        return member.stop()
    except subprocess.TimeoutExpired:
        member.kill_all()
        return -1


def told(answers: collections.Counter[str]) -> str:
    return ", ".join(f"{status}: {count}" for status, count in sorted(answers.items()))


def _faults(answers: collections.Counter[str]) -> int:
    """Count answers 500 and calls without an answer, which are no deliberate refusals."""
    return sum(count for status, count in answers.items() if status == "500" or not status.isdigit())


def _times(found: Figures) -> str:
    return f"{found.p50_ms:.1f} / {found.p99_ms:.1f} / {found.max_ms:.1f}"


def _seconds(found: float | None) -> float | str:
    return "never" if found is None else round(found, 2)


def _peak_mb(pid: int) -> float:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1_024


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="seconds of list queries at rest, and beside bombs (15)"
    )
    add_drill(parser)
    return parser.parse_args()


def main() -> int:
    """Run the drill; return 0 when no forged message had an effect."""
    options = _options()
    with drill_members(MEMBERS, options.port, options.logs, options.rollcall) as members:
        rows = asyncio.run(Drill(members, options).run())
    print(table(rows), flush=True)
    return 1 if any(row.is_breach for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
