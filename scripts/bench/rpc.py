"""Measure how soon a gRPC client learns of a change, and how soon a dead client is removed. See also ``rpc_cost``.

Runs three members on loopback. latency: a client at the first member changes its instance repeatedly; listeners at the
first and the second note the time of each push. cut: a publisher's connection is closed abruptly; the figure is the
time until no member lists its instance over HTTP, polled every 2 ms. frozen: publishers, each in its own process with a
health check every 5 s, are stopped by SIGSTOP in turn; the figure is the time until no member lists the instance.

    python -m scripts.bench.rpc --changes 300 --cuts 30
    python -m scripts.bench.rpc --parts frozen --publishers 9
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

from scripts.support.arguments import add_port, names_of
from scripts.support.member_processes import COMMAND, CONTEXT_PATH, MemberProcess, running_members
from tests.support.sdk_client import SdkClient

MEMBERS = 3
SDK_OFFSET = 1_000
TIMEOUT_S = 10.0
POLL_S = 0.002
HEALTH_S = 5.0
"""Period of the health checks of SDKs."""
FROZEN_POLL_S = 0.02
FROZEN_TIMEOUT_S = 60.0
PARTS = ["latency", "cut", "frozen"]


def port_of(member: MemberProcess) -> int:
    return int(member.address.rpartition(":")[2]) + SDK_OFFSET


def hosts(member: MemberProcess, service: str) -> set[str]:
    host, _, port = member.address.rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as connection:
        connection.request("GET", f"{CONTEXT_PATH}/v1/ns/instance/list?serviceName={service}")
        return {one["ip"] for one in json.loads(connection.getresponse().read())["hosts"]}


def told(client: SdkClient, service: str, number: int) -> bool:
    """Return whether the last push to a client has the state with this number."""
    pushes = client.pushes(service)
    return bool(pushes) and any(one["metadata"].get("n") == str(number) for one in pushes[-1]["hosts"])


def figures(times_s: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times_s)
    return {
        "count": len(ordered),
        "p50_ms": round(statistics.median(ordered) * 1e3, 1),
        "p99_ms": round(ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)] * 1e3, 1),
        "max_ms": round(ordered[-1] * 1e3, 1),
    }


async def latency(members: Sequence[MemberProcess], changes: int) -> dict[str, Any]:
    """From the start of the registering call to the listener's callback."""
    service, found = "latency", {"writing member": list[float](), "another member": list[float]()}
    async with AsyncExitStack() as stack:
        writer, near, far = [
            await stack.enter_async_context(SdkClient(port_of(member))) for member in (members[0], *members[:2])
        ]
        for client in (writer, near, far):
            await client.set_up()
        for client in (near, far):
            await client.subscribe(service)
        for number in range(changes):
            begun_s = time.perf_counter()

            async def heard(client: SdkClient, number: int = number, begun_s: float = begun_s) -> float:
                await client.wait(lambda: told(client, service, number), TIMEOUT_S)
                return time.perf_counter() - begun_s

            waiting = [asyncio.create_task(heard(client)) for client in (near, far)]
            await writer.register(service, "10.0.0.1", metadata={"n": str(number)})
            for times, task in zip(found.values(), waiting, strict=True):
                times.append(await task)
            near.messages.clear()
            far.messages.clear()
            await asyncio.sleep(0.06)  # pushes of one service are 50 ms apart
    return {name: figures(times) for name, times in found.items()}


async def cut(members: Sequence[MemberProcess], cuts: int) -> dict[str, Any]:
    """Measure from the end of a publisher's transport until no list has its instance."""
    times = []
    for number in range(cuts):
        service, place = "cut", members[number % len(members)]
        async with SdkClient(port_of(place)) as client:
            await client.set_up()
            await client.register(service, "10.0.0.1")
            while not all("10.0.0.1" in hosts(one, service) for one in members):
                await asyncio.sleep(POLL_S)
            begun_s = time.perf_counter()
        while any("10.0.0.1" in hosts(one, service) for one in members):
            await asyncio.sleep(POLL_S)
        times.append(time.perf_counter() - begun_s)
    return {"gone on all members": figures(times)}


def publish(port: int, service: str, ip: str) -> None:
    """Publish an instance and send health checks, until killed."""

    async def live() -> None:
        async with SdkClient(port) as client:
            await client.set_up()
            await client.register(service, ip)
            while True:
                await asyncio.sleep(HEALTH_S)
                await client.call("HealthCheckRequest")

    asyncio.run(live())


async def frozen(members: Sequence[MemberProcess], publishers: int) -> dict[str, Any]:
    """Measure from SIGSTOP of a publisher, whose connection stays open, until no list has its instance."""
    service, found = "frozen", list[float]()
    # The state of grpc does not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    processes = {
        f"10.0.1.{number}": spawn.Process(
            target=publish, args=(port_of(members[number % len(members)]), service, f"10.0.1.{number}")
        )
        for number in range(publishers)
    }
    try:
        for process in processes.values():
            process.start()
        deadline_s = time.perf_counter() + FROZEN_TIMEOUT_S
        while not all(hosts(one, service) == processes.keys() for one in members):
            assert time.perf_counter() < deadline_s, "not all publishers are listed"
            await asyncio.sleep(FROZEN_POLL_S)
        stopped_s = {}
        for ip, process in processes.items():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGSTOP)
            stopped_s[ip] = time.perf_counter()
            # Spreads the last health checks, and the node's next checks.
            await asyncio.sleep(HEALTH_S / publishers)
        deadline_s = time.perf_counter() + FROZEN_TIMEOUT_S
        while stopped_s:
            assert time.perf_counter() < deadline_s, f"still listed: {sorted(stopped_s)}"
            listed = set().union(*(hosts(one, service) for one in members))
            found += [time.perf_counter() - stopped_s.pop(ip) for ip in stopped_s.keys() - listed]
            await asyncio.sleep(FROZEN_POLL_S)
    finally:
        for process in processes.values():
            if process.pid is not None:
                process.kill()
                process.join()
    return {"gone on all members": figures(found)}


async def run(options: argparse.Namespace, command: Path = COMMAND) -> dict[str, Any]:
    """Run the parts with this ``rollcall`` command, and return the results of each."""
    found: dict[str, Any] = {}
    with running_members(MEMBERS, options.port, command=command) as members:
        if "latency" in options.parts:
            found["latency"] = await latency(members, options.changes)
        if "cut" in options.parts:
            found["cut"] = await cut(members, options.cuts)
        if "frozen" in options.parts:
            found["frozen"] = await frozen(members, options.publishers)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=names_of(PARTS), default=PARTS, help=f"of {','.join(PARTS)} (all)")
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--cuts", type=int, default=30)
    parser.add_argument("--publishers", type=int, default=9)
    add_port(parser)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(run(options)), indent=1))


if __name__ == "__main__":
    main()
