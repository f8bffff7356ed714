"""Link three members with a real Nacos in both directions; time changes, kill members of both sides, remove the link.

SDKs of the release of the Nacos subscribe at each member of both sides, and register at the Nacos. First, the drill
registers and removes instances at each side, and takes the time until the subscribers of the other side know. While no
client changes anything, the links may not change anything either. Then it kills a Rollcall member, and one of three
servers of the Nacos, while it reads lists of each member every 50 ms. At the end it removes the link from the settings.
Prints a table; exit code 1 when a change did not arrive, an instance was missing from a list, a link changed something
by itself, or something was left at the Nacos.

    python -m scripts.chaos.links_nacos                                # three real Nacos 3.0.3
    python -m scripts.chaos.links_nacos --release 1.4 --members 1
"""

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from app.links.feed_lines import FollowedPart
from app.naming.model.keys import DEFAULT_GROUP, compose_service_name
from scripts.chaos.links_watch import HERE, PORT, THERE, LinkedSides, Lists, ListWatch, Subscribers, Timings, at
from scripts.support.arguments import add_drill
from scripts.support.http_clients import Http, HttpInstances
from scripts.support.member_processes import PORT_STEP, drill_folder, local_members, start_all
from scripts.support.real_nacos import NacosServer, nacos_servers
from scripts.support.verdicts import Measured, table
from tests.sdk.environments import GRPC_INSTALLERS, Environment, install_java
from tests.sdk.program import Program

SDKS: dict[str, Callable[[], Environment]] = {
    "1.4": install_java,
    "2": GRPC_INSTALLERS["java"],
    "3": GRPC_INSTALLERS["java-3"],
}
OURS = 3
SERVICES = 10
BOTH, BOTH_IP = "both", "10.3.0.1"
"""The service with one address that is registered at both sides."""
SIDES = (HERE, THERE)
BEAT_S = 5.0
SETTLED_TIMEOUT_S = READY_TIMEOUT_S = 180.0
POLL_S = 0.1
GAP_S = 0.1
AFTER_S = 5.0
QUIET_S = 10.0
EXPIRED_S = 210.0
"""From the kill of a server until the others have removed what its clients published: Nacos 2.x and 3.x keep that for
three minutes, and look for it every few seconds. Until then it hides a loss and outlives a deregistration."""
DROPPED_S_MAX = 90.0
"""Members keep what a removed link brought for a minute, in which they may learn of its removal one by one."""
ORIGIN = "rollcall.origin"
EXAMPLES = 5
WHOLE = {"cluster": "DEFAULT", "weight": 1.0, "metadata": {}}


def steady(side: str) -> dict[str, str]:
    """The instances that live all the time at a side, by service."""
    network = "10.1.0" if side == HERE else "10.2.0"
    return {f"{side}-{number}": f"{network}.{number + 1}" for number in range(SERVICES)}


def one_of_each_part(side: str) -> list[str]:
    """Return a service of each member's part: each Rollcall member carries one of them."""
    parts = [FollowedPart(part, OURS) for part in range(OURS)]
    return [next(one for one in steady(side) if part.has(compose_service_name(one, DEFAULT_GROUP))) for part in parts]


class Drill:
    """The steps, in their order, on running members of both sides."""

    def __init__(self, options: argparse.Namespace, sides: LinkedSides, conf: Path) -> None:
        self._options, self._sides, self._conf = options, sides, conf
        self._ours = [Http(one.address) for one in sides.ours]
        self._instances = HttpInstances(self._ours, BEAT_S, lambda _outcome: None)
        self._lists = Lists(sides)
        self._beating: list[asyncio.Task[None]] = []
        self.rows: list[Measured] = []

    def _judge(self, what: str, value: float, at_most: float | None = None) -> None:
        self.rows.append(Measured(what, value, at_most))

    async def run(self, provider: Program, subscribers: Subscribers) -> None:
        """Go through all steps."""
        self._provider, self._subscribers = provider, subscribers
        await self._begin()
        await self._time_changes()
        await self._change_nothing()
        await self._kill_ours()
        if len(self._sides.real) > 1:
            await self._kill_real()
        await self._remove_link()
        for task in self._beating:
            task.cancel()
        await asyncio.gather(*self._beating, return_exceptions=True)

    # --- the instances ----------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Register the steady instances; return when both sides show all of them."""
        begun_s = time.monotonic()
        for client in ("steady", "changing"):
            await asyncio.to_thread(self._provider.open, client, *self._sides.real)
        for service, ip in (steady(THERE) | {BOTH: BOTH_IP}).items():
            await self._register(THERE, service, ip, "steady")
        await self._until(lambda: self._lists.shows(BOTH, {at(BOTH_IP)}, self._sides.all), "the link brings")
        for number, (service, ip) in enumerate((steady(HERE) | {BOTH: BOTH_IP}).items()):
            await self._register(HERE, service, ip)
            self._beating.append(asyncio.create_task(self._instances.live(service, ip, number)))
        await self._until(self._is_whole, "all sides show all")
        print(f"all instances are shown at both sides {time.monotonic() - begun_s:.1f} s after the first", flush=True)

    async def _register(self, side: str, service: str, ip: str, client: str = "changing") -> None:
        if side == HERE:
            assert await self._instances.register(service, ip, int(ip.rpartition(".")[2])), f"{service} is refused"
        else:
            values = {"service": service, "ip": ip, "port": PORT, **WHOLE}
            await asyncio.to_thread(self._provider.call, "register", client, **values)

    async def _deregister(self, side: str, service: str, ip: str) -> None:
        if side == HERE:
            values = {"serviceName": service, "ip": ip, "port": PORT}
            status, body = await self._instances.anywhere(0, "DELETE", "/v1/ns/instance", **values)
            assert status == 200, body
        else:
            values = {"service": service, "ip": ip, "port": PORT, "cluster": "DEFAULT"}
            await asyncio.to_thread(self._provider.call, "deregister", "changing", **values)

    async def _is_whole(self) -> bool:
        """Return whether all members list all steady instances, and all links have registered what they carry."""
        for service, ip in (steady(HERE) | steady(THERE) | {BOTH: BOTH_IP}).items():
            if not await self._lists.shows(service, {at(ip)}, self._sides.all):
                return False
        links = await self._links()
        sent = SERVICES if self._options.release == "1.4" else 2 * SERVICES  # over gRPC two members register each
        return (
            len(links) == OURS
            and all(str(one["part"]).endswith(f"/{OURS}") for one in links)
            and sum(one["sentInstances"] for one in links) == sent
        )

    async def _links(self) -> list[dict[str, Any]]:
        for member in self._ours:
            status, body = await member.call("GET", "/v1/ns/link/list")
            if status == 200:
                return [link for one in orjson.loads(body)["members"] for link in one["links"]]
        return []

    async def _until(self, check: Callable[[], Awaitable[bool]], what: str) -> float:
        """Wait until the check is true; return the time in s.

        Raises:
            RuntimeError: it is false for three minutes.
        """
        begun_s = time.monotonic()
        while not await check():
            if time.monotonic() - begun_s > SETTLED_TIMEOUT_S:
                raise RuntimeError(f"not true within {SETTLED_TIMEOUT_S:.0f} s: {what}; {await self._links()}")
            await asyncio.sleep(POLL_S)
        return time.monotonic() - begun_s

    # --- changes ----------------------------------------------------------------------------------

    async def _time_changes(self) -> None:
        """Register and remove instances at both sides; the last round makes new services."""
        timings = Timings(self._subscribers, self._options.timeout_s)
        for turn in range(self._options.changes // SERVICES + 1):
            is_last = turn == self._options.changes // SERVICES
            places = [
                (side, f"{'new-' if is_last else ''}{side}-{number}", f"10.{4 + (side == THERE)}.{turn}.{number + 1}")
                for number, side in itertools.product(range(SERVICES), (HERE, THERE))
            ]
            for what, kind, change in (
                ("registration in a new service" if is_last else "registration", "added", self._register),
                ("removal", "removed", self._deregister),
            ):
                begun = []
                for side, service, ip in places:
                    begun.append((side, at(ip), time.perf_counter()))
                    await change(side, service, ip)
                    await asyncio.sleep(GAP_S)
                await timings.settle(what, kind, begun)
        self.rows += timings.rows()

    async def _change_nothing(self) -> None:
        """Judge whether links change anything when no client does."""
        await self._until(self._is_whole, "all is shown after the changes")
        before = await self._changes()
        await asyncio.sleep(QUIET_S)
        self._judge(f"changes of links in {QUIET_S:.0f} s without a change", await self._changes() - before, 0)

    async def _changes(self) -> int:
        return sum(one["changes"] for one in await self._links())

    # --- faults -----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _watched(self, when: str) -> AsyncIterator[None]:
        """Read the lists of each side for instances of the other one, and judge what was missing."""
        live = {at(ip) for ip in (*steady(HERE).values(), *steady(THERE).values())}
        removed = self._subscribers.removed(live)
        watches = [
            ListWatch(
                self._lists, self._sides.of(where), {one: at(steady(side)[one]) for one in one_of_each_part(side)}
            )
            for side, where in ((HERE, THERE), (THERE, HERE))
        ]
        for watch in watches:
            watch.begin()
        try:
            yield
        finally:
            for watch in watches:
                await watch.end()
        for where, watch in zip((THERE, HERE), watches, strict=True):
            self._judge(f"{when}: lists read {where}", watch.lists)
            for what, found in (("without their instance", watch.missing), ("with an unhealthy one", watch.unhealthy)):
                self._judge(f"{when}: lists {where} {what}", found.answers, 0)
                for text in found.examples[:EXAMPLES]:
                    print(f"{when}: {what}: {text}", flush=True)
        told = self._subscribers.removed(live) - removed
        self._judge(f"{when}: subscribers who were told that a live instance is gone", told, 0)

    async def _kill_ours(self) -> None:
        """Kill a member, each of which carries some of the watched instances, and start it again."""
        victim = self._sides.ours[-1]
        await self._until(self._is_whole, "all is shown before a member is killed")
        async with self._watched("our member is killed"):
            await asyncio.to_thread(victim.kill_all)
            await asyncio.sleep(self._options.watch_s)
        async with self._watched("it starts again"):
            await asyncio.to_thread(start_all, [victim], READY_TIMEOUT_S)
            took_s = await self._until(self._is_whole, "all is shown after the start of a member")
            await asyncio.sleep(AFTER_S)
        self._judge("it starts again: s until it carries its part again", round(took_s, 1))

    async def _kill_real(self) -> None:
        """Kill the server that most links use, and start it again."""
        servers = [one["server"] for one in await self._links()]
        victim = max(self._sides.real, key=lambda one: servers.count(one.address))
        self._judge("links to the server that is killed", servers.count(victim.address))
        async with self._watched("a server is killed"):
            await asyncio.to_thread(victim.kill)
            await asyncio.sleep(max(self._options.watch_s, EXPIRED_S if self._options.release != "1.4" else 0.0))
        await asyncio.to_thread(victim.start)
        await asyncio.to_thread(victim.wait_ready)
        took_s = await self._until(self._is_whole, "all is shown after the start of a server")
        self._judge("the server starts again: s from ready until all is shown everywhere", round(took_s, 1))

    # --- the end ----------------------------------------------------------------------------------

    async def _remove_link(self) -> None:
        """Take the link out of the settings, and judge what is left of it at both sides, and what is missing."""
        self._conf.write_text("")
        begun_s = time.monotonic()
        for side, within_s in ((THERE, self._options.timeout_s), (HERE, DROPPED_S_MAX)):
            while (left := await self._left_over(side)) and time.monotonic() - begun_s < within_s:
                await asyncio.sleep(POLL_S)
            self._judge(f"link removed: s until nothing of it was left {side}", round(time.monotonic() - begun_s, 1))
            self._judge(f"link removed: instances of it that are left {side}, in lists of all members", len(left), 0)
            for text in left[:EXAMPLES]:
                print(f"left over: {text}", flush=True)
        missing = 0
        for side in (HERE, THERE):
            for service, ip in (steady(side) | {BOTH: BOTH_IP}).items():
                for address in self._sides.of(side):
                    if not await self._lists.shows(service, {at(ip)}, [address]):
                        missing += 1
                        print(f"lost: {service} at {address}: {await self._lists.hosts(address, service)}", flush=True)
        self._judge("link removed: lists without an instance that was registered at their side", missing, 0)

    async def _left_over(self, side: str) -> list[str]:
        """Return each instance that a member of a side lists and that a link brought."""
        found = []
        names = [f"{new}{side}-{number}" for new in ("", "new-") for side in SIDES for number in range(SERVICES)]
        for address, service in itertools.product(self._sides.of(side), (*names, BOTH)):
            hosts = await self._lists.hosts(address, service)
            if hosts is None:
                found.append(f"{address} does not answer for {service}")
            else:
                found += [f"{service} {at(one['ip'])} at {address}" for one in hosts if ORIGIN in one["metadata"]]
        return found


def link_to(options: argparse.Namespace, servers: Sequence[str]) -> str:
    """Return the settings of a link to the Nacos."""
    kind = "nacos1" if options.release == "1.4" else "nacos"
    values = {"servers": ",".join(servers), "kind": kind, "direction": "both"}
    return "".join(f"rollcall.link.real.{name}={value}\n" for name, value in values.items())


async def wait_for_peers(real: Sequence[NacosServer]) -> None:
    """Wait until each server has all of them UP.

    Raises:
        RuntimeError: a server does not.
    """
    end_s = time.monotonic() + SETTLED_TIMEOUT_S
    for client in [Http(one.address) for one in real]:
        while True:
            status, body = await client.call("GET", "/v1/core/cluster/nodes")
            nodes = orjson.loads(body)["data"] if status == 200 else []
            if sum(one["state"] == "UP" for one in nodes) == len(real):
                break
            if time.monotonic() > end_s:
                raise RuntimeError(f"a server of {len(real)} sees {nodes}")
            await asyncio.sleep(POLL_S)


@contextlib.contextmanager
def linked_sides(options: argparse.Namespace, folder: Path, conf: Path) -> Iterator[LinkedSides]:
    """Yield running members of both sides, with a link."""
    ports = [options.port + PORT_STEP * number for number in range(options.members)]
    servers = [f"127.0.0.1:{port}" for port in ports]
    secret = secrets.token_hex(16) if options.release == "3" else ""
    first, settings = options.port + PORT_STEP * options.members, {"rollcall.cluster.id": "dc-a"}
    with (
        nacos_servers(options.release, ports, folder, servers, secret) as real,
        local_members(OURS, first, folder, settings, options.rollcall) as ours,
    ):
        for server in real:
            server.wait_ready()
        asyncio.run(wait_for_peers(real))
        conf.parent.mkdir(exist_ok=True)
        conf.write_text(link_to(options, servers))
        start_all(ours, READY_TIMEOUT_S)
        yield LinkedSides(ours, real)


def run(options: argparse.Namespace) -> list[Measured]:
    """Start both sides and the SDKs, go through the drill, and return what was measured."""
    sdk, folder = SDKS[options.release](), drill_folder(options.logs)
    conf = folder.absolute() / "conf" / "application.properties"
    names = {side: [f"{new}{side}-{number}" for new in ("", "new-") for number in range(SERVICES)] for side in SIDES}
    with (
        linked_sides(options, folder.absolute(), conf) as sides,
        Program(sdk, folder.absolute() / "provider") as provider,
        Program(sdk, folder.absolute() / "subscriber") as program,
    ):
        print("all members are ready", flush=True)
        subscribers = Subscribers(program, sides)
        subscribers.subscribe({HERE: names[THERE], THERE: names[HERE] + names[THERE]})
        with subscribers.following():
            drill = Drill(options, sides, conf)
            asyncio.run(drill.run(provider, subscribers))
        return drill.rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--release", choices=SDKS, default="3", help="of the Nacos: 1.4.1, 2.3.1 or 3.0.3 (3)")
    parser.add_argument("--members", type=int, choices=(1, 3), default=3, help="servers of the Nacos (3)")
    parser.add_argument("--changes", type=int, default=50, help="timed registrations at each side (50)")
    parser.add_argument("--watch-s", type=float, default=60.0, help="seconds of observation after a kill (60)")
    parser.add_argument("--timeout-s", type=float, default=30.0, help="seconds after which a change counts as lost")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to a file, too")
    add_drill(parser)
    return parser.parse_args()


def main() -> int:
    """Run the drill; return 0 when everything arrived, nothing was missing, and nothing was left."""
    options = _options()
    rows = run(options)
    print(table(rows), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    return 1 if any(row.is_breach for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
