"""Test durable data on three members: delay until a write is visible, writes a second, and the effect of a kill.

``visible``: registers persistent instances through each member; the next read there must show them, and the others
are polled until they do. ``rate``: several writers create namespaces at once. ``kill``: one member is killed (SIGKILL)
during 1,000 writes through all members, the others go on, and the member returns; ``killall``: all are killed. Every
member must then have every acknowledged write. Prints figures as JSON; exit code 1 when a write was missing.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import time

import orjson

from scripts.support.arguments import add_drill
from scripts.support.http_clients import Http
from scripts.support.member_processes import MemberProcess, drill_members, start_all

TRIES_MAX = 200
SEEN_TIMEOUT_S = 5.0
NAMESPACES = "/v1/console/namespaces"


class Drill:
    """Three members, and writes through them."""

    def __init__(self, members: list[MemberProcess], options: argparse.Namespace) -> None:
        self._members = members
        self._options = options
        self._http = {member: Http(member.address) for member in members}

    async def run(self) -> bool:
        """Run all parts; return whether nothing was missing."""
        await self._start(self._members)
        parts = [await self._visible(), await self._rate(), await self._kill("kill"), await self._kill("killall")]
        return all(parts)

    async def _start(self, members: list[MemberProcess]) -> None:
        await asyncio.to_thread(start_all, members)

    # --- visible ---------------------------------------------------------------------------------

    async def _visible(self) -> bool:
        unseen, elsewhere_ms = 0, []
        for number, entry in zip(range(self._options.writes), itertools.cycle(self._members), strict=False):
            service = f"durable-{number}"
            status, body = await self._http[entry].call(
                "POST", "/v1/ns/instance", serviceName=service, ip="10.6.0.1", port=80, ephemeral="false"
            )
            assert status == 200, body
            written_s = time.monotonic()
            unseen += not await self._lists(entry, service)
            others = [member for member in self._members if member is not entry]
            elsewhere_ms += await asyncio.gather(*(self._until_seen(member, service, written_s) for member in others))
        good = unseen == 0 and max(elsewhere_ms) < SEEN_TIMEOUT_S * 1_000
        return self._say(
            "visible",
            good,
            {
                "writes": self._options.writes,
                "not shown by the next read at the entry member": unseen,
                "ms from the answer until another member showed it, p50": round(statistics.median(elsewhere_ms), 1),
                "p95": round(sorted(elsewhere_ms)[int(len(elsewhere_ms) * 0.95)], 1),
                "max": round(max(elsewhere_ms), 1),
            },
        )

    async def _lists(self, member: MemberProcess, service: str) -> bool:
        status, body = await self._http[member].call("GET", "/v1/ns/instance/list", serviceName=service)
        return status == 200 and bool(orjson.loads(body)["hosts"])

    async def _until_seen(self, member: MemberProcess, service: str, since_s: float) -> float:
        while time.monotonic() - since_s < SEEN_TIMEOUT_S:
            if await self._lists(member, service):
                break
        return (time.monotonic() - since_s) * 1_000

    # --- rate and kill ---------------------------------------------------------------------------

    async def _make(self, name: str, start: int) -> bool:
        """Create a namespace through any member that accepts it; return whether one acknowledged it."""
        for turn in range(TRIES_MAX):
            member = self._members[(start + turn) % len(self._members)]
            status, body = await self._http[member].call(
                "POST", NAMESPACES, customNamespaceId=name, namespaceName=name, namespaceDesc=""
            )
            # "false" after an attempt whose answer was lost: the namespace exists already.
            if status == 200 and (body == b"true" or turn):
                return True
            await asyncio.sleep(0.02)
        return False

    async def _rate(self) -> bool:
        begun_s, counts = time.monotonic(), [0] * self._options.writers

        async def write(writer: int) -> None:
            while time.monotonic() - begun_s < self._options.rate_s:
                assert await self._make(f"rate-{writer}-{counts[writer]}", writer)
                counts[writer] += 1

        await asyncio.gather(*(write(writer) for writer in range(self._options.writers)))
        took_s = time.monotonic() - begun_s
        return self._say(
            "rate", True, {"writers": self._options.writers, "writes a second": round(sum(counts) / took_s)}
        )

    async def _kill(self, name: str) -> bool:
        victims = self._members[:1] if name == "kill" else self._members
        acknowledged: list[str] = []
        numbers, killed = iter(range(self._options.kill_writes)), False

        async def write(writer: int) -> None:
            for number in numbers:
                if killed and name == "killall":
                    return
                if await self._make(f"{name}-{number}", writer):
                    acknowledged.append(f"{name}-{number}")

        writers = [asyncio.create_task(write(writer)) for writer in range(self._options.writers)]
        while len(acknowledged) < self._options.kill_writes // 2:
            await asyncio.sleep(0)
        killed = True
        await asyncio.gather(*(asyncio.to_thread(member.kill_all) for member in victims))
        if name == "kill":
            await asyncio.gather(*writers)
        else:
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
        await self._start(victims)
        missing = {member.address: await self._missing(member, acknowledged) for member in self._members}
        return self._say(
            name,
            not any(missing.values()),
            {
                "members killed": len(victims),
                "acknowledged": len(acknowledged),
                "of these missing, by member": missing,
            },
        )

    async def _missing(self, member: MemberProcess, names: list[str]) -> int:
        """Return how many writes are missing after at most one verify round."""
        begun_s, missing = time.monotonic(), len(names)
        while missing and time.monotonic() - begun_s < 2 * SEEN_TIMEOUT_S:
            status, body = await self._http[member].call("GET", NAMESPACES)
            if status == 200:
                missing = len(set(names) - {one["namespace"] for one in orjson.loads(body)["data"]})
            await asyncio.sleep(0.1)
        return missing

    def _say(self, part: str, good: bool, figures: dict[str, object]) -> bool:
        summary = {"part": part, "good": good, **figures}
        print(orjson.dumps(summary, option=orjson.OPT_INDENT_2).decode(), flush=True)
        return good


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--writes", type=int, default=300, help="looked for one by one")
    parser.add_argument("--kill-writes", type=int, default=1_000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--rate-s", type=float, default=5.0)
    add_drill(parser)
    return parser.parse_args()


def main() -> int:
    """Run the drill; return 0 when every acknowledged write was visible in time and found again."""
    options = _options()
    with drill_members(3, options.port, options.logs, options.rollcall) as members:
        return 0 if asyncio.run(Drill(members, options).run()) else 1


if __name__ == "__main__":
    sys.exit(main())
