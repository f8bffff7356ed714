"""Run real Nacos servers and Rollcall members in one cluster under load; compare all lists at each quiet point.

Instances beat over HTTP through all members in turn; others come and go through any member. With Nacos 2 some also
publish over gRPC, and an address uses members of one kind only, as Nacos 2 requires. Every minute the changes stop:
then all members must list exactly the live instances within 30 s. At the end nothing changes for a minute: in that time
no real server may complain about a Rollcall member. Prints a table; exit code 1 after a breach.

    python -m scripts.chaos.mixed                                # two real Nacos 1.4.1 and one of ours, 15 minutes
    python -m scripts.chaos.mixed --theirs 1 --ours 2
    python -m scripts.chaos.mixed --release 2 --minutes 5
"""

import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import orjson

from scripts.support.arguments import add_drill
from scripts.support.grpc_clients import GrpcInstance, Outages
from scripts.support.http_clients import Http, HttpInstances
from scripts.support.member_processes import MemberProcess, drill_folder
from scripts.support.real_nacos import RELEASES, NacosServer, nacos_servers
from scripts.support.verdicts import Measured, table

PORT_STEP = 100
SERVICES = 30
PORT = 8080
BEAT_S = 5.0
CHURN_LIFE_S = (3.0, 20.0)
QUIET_EVERY_S = 60.0
AGREE_S_MAX = 30.0
"""Real Nacos sends a change after 2 s, and repeats a failed send after 6 s."""
LAST_QUIET_S = 60.0
SEEN_TIMEOUT_S = 180.0
POLL_S = 0.5
EXAMPLES = 5


class Load:
    """The clients, with the instances that they keep live, by service."""

    def __init__(self, addresses: Sequence[str], options: argparse.Namespace) -> None:
        self._members = [Http(address) for address in addresses]
        self._addresses = addresses
        self._options = options
        self.beats: collections.Counter[str] = collections.Counter()
        self.words: collections.Counter[str] = collections.Counter()
        self.live: dict[str, set[str]] = collections.defaultdict(set)
        theirs, ours = self._members[: options.theirs], self._members[options.theirs :]
        self._groups = [theirs, ours] if options.release == "2" else [self._members]
        self._instances = [HttpInstances(one, BEAT_S, lambda told: self.beats.update([told])) for one in self._groups]
        self._lasting: list[asyncio.Task[None]] = []
        self._churning: set[asyncio.Task[None]] = set()
        self._churner: asyncio.Task[None] | None = None
        self._numbers = itertools.count()

    async def begin(self) -> None:
        """Register the lasting instances."""
        for number in range(self._options.lasting):
            service, ip = f"mixed-{number % SERVICES}", f"10.50.{number // 250}.{number % 250}"
            instances = self._instances[number % len(self._groups)]
            assert await instances.register(service, ip, number), "a cluster at rest takes a registration"
            self.live[service].add(f"{ip}:{PORT}")
            self._lasting.append(asyncio.create_task(instances.live(service, ip, number)))
        ports = [int(address.rpartition(":")[2]) for address in self._addresses]
        for number in range(self._options.grpc):
            service, ip = f"mixed-rpc-{number % SERVICES}", f"10.52.{number // 250}.{number % 250}"
            client = GrpcInstance(ports, number, service, ip, lambda _info: None, Outages())
            self._lasting.append(asyncio.create_task(client.live()))
            await client.registered.wait()
            self.live[service].add(f"{ip}:{PORT}")

    def churn(self) -> None:
        """Let instances come and go from now on, until ``rest``."""
        self._churner = asyncio.create_task(self._churn())

    async def rest(self) -> None:
        """Register no more instances; return when all temporary ones are gone."""
        assert self._churner is not None, "it churns"
        self._churner.cancel()
        await asyncio.gather(self._churner, *self._churning, return_exceptions=True)

    async def end(self) -> None:
        for task in self._lasting:
            task.cancel()
        await asyncio.gather(*self._lasting, return_exceptions=True)

    async def _churn(self) -> None:
        while True:
            task = asyncio.create_task(self._come_and_go(next(self._numbers)))
            self._churning.add(task)
            task.add_done_callback(self._churning.discard)
            await asyncio.sleep(1 / self._options.churn)

    async def _come_and_go(self, number: int) -> None:
        service, ip = f"mixed-{number % SERVICES}", f"10.51.{number // 250 % 250}.{number % 250}"
        group = number % len(self._groups)
        if not await self._say(group, "POST", service, ip):
            return
        beating = asyncio.create_task(self._instances[group].live(service, ip, number))
        await asyncio.sleep(random.uniform(*CHURN_LIFE_S))
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        for _ in range(2 * len(self._members)):
            if await self._say(group, "DELETE", service, ip):
                return
            await asyncio.sleep(1.0)

    async def _say(self, group: int, method: str, service: str, ip: str) -> bool:
        """Send a write through any member of a group; return whether it was acknowledged."""
        member = random.choice(self._groups[group])
        status, _ = await member.call(method, "/v1/ns/instance", serviceName=service, ip=ip, port=PORT)
        self.words[f"{method} {'acknowledged' if status == 200 else status or 'not answered'}"] += 1
        return status == 200

    async def differences(self) -> list[str]:
        """Return each difference between a member's lists and the expected state."""
        found = []
        for member, address in zip(self._members, self._addresses, strict=True):
            for number in range(SERVICES):
                for service in (f"mixed-{number}", *([f"mixed-rpc-{number}"] if self._options.grpc else [])):
                    status, body = await member.call("GET", "/v1/ns/instance/list", serviceName=service)
                    if status != 200:
                        found.append(f"{address} answers {status} for {service}")
                        continue
                    hosts = orjson.loads(body)["hosts"]
                    healthy = {f"{one['ip']}:{one['port']}" for one in hosts if one["healthy"]}
                    if healthy != self.live[service] or len(hosts) != len(healthy):
                        lacks, more = self.live[service] - healthy, healthy - self.live[service]
                        found.append(
                            f"{address} lists {service} without {sorted(lacks)}, and with unexpected {sorted(more)}"
                        )
        return found


async def drill(
    options: argparse.Namespace, real: Sequence[NacosServer], ours: Sequence[MemberProcess]
) -> list[Measured]:
    """Put load on the cluster, and return the measurements."""
    for server in real:
        await asyncio.to_thread(server.wait_ready)
    for member in ours:
        await asyncio.to_thread(member.wait_ready)
    addresses = [server.address for server in real] + [member.address for member in ours]
    await _all_see_all(addresses)
    load = Load(addresses, options)
    await load.begin()
    print(f"{sum(map(len, load.live.values()))} lasting instances", flush=True)
    agreed_s, never = [], 0
    end_s = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end_s:
        load.churn()
        await asyncio.sleep(QUIET_EVERY_S)
        await load.rest()
        took_s, left = await _agree(load)
        agreed_s.append(took_s)
        never += bool(left)
        print(f"quiet after {took_s:.1f} s; {dict(load.words)}", *left[:EXAMPLES], sep="\n    ", flush=True)
    before = {server.address: _complaints(server, ours) for server in real}
    await asyncio.sleep(LAST_QUIET_S)
    left = await load.differences()
    late = {server.address: _complaints(server, ours)[len(before[server.address]) :] for server in real}
    await load.end()
    for line in (*left[:EXAMPLES], *(line for lines in late.values() for line in lines[:EXAMPLES])):
        print(line, flush=True)
    agreed_s.sort()
    refused = sum(count for word, count in load.words.items() if not word.endswith("acknowledged"))
    return [
        Measured("quiet points", len(agreed_s)),
        Measured("quiet points at which members did not list the same within 30 s", never, 0),
        Measured(
            "s until all members listed what is live, p50 / max",
            f"{agreed_s[len(agreed_s) // 2]:.1f} / {agreed_s[-1]:.1f}",
        ),
        Measured("lists that differ after the last quiet minute", len(left), 0),
        Measured("complaints of real servers about ours, before the last minute", sum(map(len, before.values()))),
        Measured("complaints of real servers about ours, in the last minute", sum(map(len, late.values())), 0),
        Measured("registrations and deregistrations acknowledged", sum(load.words.values()) - refused),
        Measured("registrations and deregistrations not acknowledged", refused),
        *(Measured(f"beats {outcome}", count) for outcome, count in sorted(load.beats.items())),
    ]


def _complaints(server: NacosServer, ours: Sequence[MemberProcess]) -> list[str]:
    return [line for member in ours for line in server.complaints(member.address)]


async def _agree(load: Load) -> tuple[float, list[str]]:
    """Wait until all members list the live instances; return the time in s, and the remaining differences."""
    begun_s = time.monotonic()
    while (left := await load.differences()) and time.monotonic() - begun_s < AGREE_S_MAX:
        await asyncio.sleep(POLL_S)
    return time.monotonic() - begun_s, left


async def _all_see_all(addresses: Sequence[str]) -> None:
    """Wait until each member has all others UP, with their releases.

    Raises:
        RuntimeError: a member does not.
    """
    end_s = time.monotonic() + SEEN_TIMEOUT_S
    for address in addresses:
        member = Http(address)
        while True:
            status, body = await member.call("GET", "/v1/core/cluster/nodes")
            nodes: Sequence[Mapping[str, object]] = orjson.loads(body)["data"] if status == 200 else ()
            # A real server reports no release of its own.
            known = [one for one in nodes if one["address"] == address or "version" in json.dumps(one["extendInfo"])]
            if sum(one["state"] == "UP" for one in known) == len(addresses):
                break
            if time.monotonic() > end_s:
                raise RuntimeError(f"{address} sees {nodes}")
            await asyncio.sleep(POLL_S)


@contextlib.contextmanager
def _cluster(options: argparse.Namespace) -> Iterator[tuple[list[NacosServer], list[MemberProcess]]]:
    """All members, started; stopped at the end."""
    folder = drill_folder(options.logs)
    ports = [options.port + PORT_STEP * number for number in range(options.theirs + options.ours)]
    listed = [f"127.0.0.1:{port}" for port in ports]
    ours = [MemberProcess(port, folder, ",".join(listed), command=options.rollcall) for port in ports[options.theirs :]]
    with nacos_servers(options.release, ports[: options.theirs], folder, listed) as real:
        try:
            for member in ours:
                member.start()
            yield real, ours
        finally:
            for member in ours:
                member.kill_all()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--release", choices=RELEASES, default="1.4", help="of the real servers: 1.4.1 or 2.3.1")
    parser.add_argument("--theirs", type=int, default=2, help="real servers (2)")
    parser.add_argument("--ours", type=int, default=1, help="members of ours (1)")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--lasting", type=int, default=200, help="instances that beat all the time (200)")
    parser.add_argument("--grpc", type=int, help="instances over gRPC (50 with release 2)")
    parser.add_argument("--churn", type=float, default=5.0, help="temporary instances registered each second (5)")
    add_drill(parser)
    options = parser.parse_args()
    if options.grpc is None:
        options.grpc = 50 if options.release == "2" else 0
    return options


def main() -> int:
    """Run the drill; return 0 when all members agreed at each quiet point."""
    options = _options()
    with _cluster(options) as (real, ours):
        rows = asyncio.run(drill(options, real, ours))
    print(table(rows), flush=True)
    return 1 if any(row.is_breach for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
