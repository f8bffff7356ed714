"""How soon does a gRPC client hear of a change, how soon is a dead one gone, and what do idle ones cost?

Three members on loopback. latency: a client at the first member changes its instance, again and again; listeners at the
first and at the second note when they are told. cut: a publisher's connection is closed without a word; the time until
no member lists it over HTTP, looked at every 2 ms. frozen: publishers, each a process of its own with a health check
each 5 s, are stopped by SIGSTOP, one after another; the time of each until no member lists it. crowd: connections
subscribed to one service of one node: memory for each, CPU while all are idle but for a health check each 5 s, and one
change: the time until the last was told of it, and until its node has the last acknowledgement. calls: CPU of a call
of 32 connections; with --other, beside another release.

    python -m scripts.bench.rpc --changes 300 --cuts 30
    python -m scripts.bench.rpc --parts frozen --publishers 9
    python -m scripts.bench.rpc --parts crowd --connections 5000
    python -m scripts.bench.rpc --other ../before/.venv/bin/rollcall
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import resource
import signal
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from scripts.bench.idle import cpu_s, pss_mb
from scripts.support.arguments import names_of
from scripts.support.member_processes import COMMAND, CONTEXT_PATH, MemberProcess, local_members
from tests.support.sdk_client import SdkClient

MEMBERS = 3
SDK_OFFSET = 1_000
TIMEOUT_S = 10.0
POLL_S = 0.002
HEALTH_S = 5.0
"""After which SDKs ask whether they are still known."""
FROZEN_POLL_S = 0.02
FROZEN_TIMEOUT_S = 60.0
OPENED_AT_ONCE = 50
IDLE_S = 20.0
FILES_SPARE = 500
PARTS = ["latency", "cut", "frozen", "crowd", "calls"]
CALLERS = 32
TURNS = 7
PORTS_APART = 100


def port_of(member: MemberProcess) -> int:
    return int(member.address.rpartition(":")[2]) + SDK_OFFSET


def hosts(member: MemberProcess, service: str) -> set[str]:
    host, _, port = member.address.rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as connection:
        connection.request("GET", f"{CONTEXT_PATH}/v1/ns/instance/list?serviceName={service}")
        return {one["ip"] for one in json.loads(connection.getresponse().read())["hosts"]}


def told(client: SdkClient, service: str, number: int) -> bool:
    """Whether a client was told of the state with this number."""
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
    """From the end of a publisher's transport to no list having it."""
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
    """Publish an instance and ask for its health, until killed."""

    async def live() -> None:
        async with SdkClient(port) as client:
            await client.set_up()
            await client.register(service, ip)
            while True:
                await asyncio.sleep(HEALTH_S)
                await client.call("HealthCheckRequest")

    asyncio.run(live())


async def frozen(members: Sequence[MemberProcess], publishers: int) -> dict[str, Any]:
    """From SIGSTOP of a publisher, whose connection stays open, to no list having it."""
    service, found = "frozen", list[float]()
    # What grpc holds does not survive a fork.
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
            assert time.perf_counter() < deadline_s, "not all publishers have come"
            await asyncio.sleep(FROZEN_POLL_S)
        stopped_s = {}
        for ip, process in processes.items():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGSTOP)
            stopped_s[ip] = time.perf_counter()
            # So that their last health checks, and the node's next look, are spread.
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


def counter(member: MemberProcess, name: str) -> int:
    """One of the figures that a member tells of itself."""
    host, _, port = member.address.rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as connection:
        connection.request("GET", f"{CONTEXT_PATH}/v1/ns/operator/metrics?onlyStatus=false")
        found: int = json.loads(connection.getresponse().read())[name]
        return found


async def crowd(member: MemberProcess, connections: int) -> dict[str, Any]:
    """Many connections of one process, all subscribed to one service."""
    service, port = "crowd", port_of(member)
    before_mb = sum(map(pss_mb, member.pids()))
    async with AsyncExitStack() as stack:
        clients: list[SdkClient] = []
        for start in range(0, connections, OPENED_AT_ONCE):
            some = [SdkClient(port) for _ in range(start, min(start + OPENED_AT_ONCE, connections))]
            for client in some:
                await stack.enter_async_context(client)

            async def begin(client: SdkClient) -> None:
                await client.set_up()
                await client.subscribe(service)

            await asyncio.gather(*map(begin, some))
            clients += some
        opened_mb = sum(map(pss_mb, member.pids()))

        async def live(client: SdkClient, wait_s: float) -> None:
            await asyncio.sleep(wait_s)
            while True:
                await client.call("HealthCheckRequest")
                await asyncio.sleep(HEALTH_S)

        lives = [
            asyncio.create_task(live(client, HEALTH_S * number / len(clients))) for number, client in enumerate(clients)
        ]
        await asyncio.sleep(HEALTH_S)
        begun_cpu_s = sum(map(cpu_s, member.pids()))
        await asyncio.sleep(IDLE_S)
        idle_cpu_s = sum(map(cpu_s, member.pids())) - begun_cpu_s
        for task in lives:
            task.cancel()
        acknowledged = counter(member, "rpcPushesAcknowledged")
        begun_cpu_s, begun_s = sum(map(cpu_s, member.pids())), time.perf_counter()
        await clients[0].register(service, "10.0.0.1", metadata={"n": "1"})
        await asyncio.gather(*(one.wait(lambda one=one: told(one, service, 1), 60.0) for one in clients))  # type: ignore[misc]
        all_told_s = time.perf_counter() - begun_s
        while counter(member, "rpcPushesAcknowledged") < acknowledged + connections:
            await asyncio.sleep(POLL_S)
        all_acknowledged_s = time.perf_counter() - begun_s
        push_cpu_s = sum(map(cpu_s, member.pids())) - begun_cpu_s
    return {
        "connections": connections,
        "kb_each": round((opened_mb - before_mb) * 1024 / connections, 1),
        "idle_cpu_percent": round(idle_cpu_s / IDLE_S * 100, 1),
        "one_change_told_to_all_ms": round(all_told_s * 1e3),
        "and_acknowledged_by_all_ms": round(all_acknowledged_s * 1e3),
        "cpu_of_that_ms": round(push_cpu_s * 1e3),
    }


async def calls(members: Sequence[MemberProcess], count: int) -> list[dict[str, float]]:
    """CPU-µs of a call at each node, by kind: medians of ``TURNS`` turns, in which the nodes take turns."""
    kinds: dict[str, Callable[[SdkClient, int], Awaitable[object]]] = {
        "health check": lambda client, _: client.call("HealthCheckRequest"),
        "register, repeated": lambda client, at: client.register(f"calls-{at}", f"10.0.0.{at + 1}"),
        "query": lambda client, at: client.call("ServiceQueryRequest", serviceName=f"calls-{at}"),
    }
    async with AsyncExitStack() as stack:
        clients_of = []
        for member in members:
            clients = [await stack.enter_async_context(SdkClient(port_of(member))) for _ in range(CALLERS)]
            for at, client in enumerate(clients):
                await client.set_up()
                await client.register(f"calls-{at}", f"10.0.0.{at + 1}")
            clients_of.append(clients)
        found = [{kind: list[float]() for kind in kinds} for _ in members]
        for turn in range(TURNS + 1):
            for kind, call in kinds.items():
                for which in sorted(range(len(members)), key=lambda which: (which + turn) % len(members)):

                    async def work(client: SdkClient, at: int, call: Any = call) -> None:
                        for _ in range(count // CALLERS):
                            await call(client, at)

                    pids = members[which].pids()
                    begun_s = sum(map(cpu_s, pids))
                    await asyncio.gather(*(work(client, at) for at, client in enumerate(clients_of[which])))
                    used_s = sum(map(cpu_s, pids)) - begun_s
                    if turn:  # the first warms up
                        found[which][kind].append(used_s / (count // CALLERS * CALLERS) * 1e6)
    return [{kind: round(statistics.median(times), 1) for kind, times in one.items()} for one in found]


async def run(options: argparse.Namespace, command: Path = COMMAND) -> dict[str, Any]:
    """What the parts find of the ``rollcall`` command."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if {"latency", "cut", "frozen"} & set(options.parts):
            with local_members(MEMBERS, options.port, Path(folder), command=command) as members:
                for member in members:
                    member.start()
                for member in members:
                    member.wait_ready()
                if "latency" in options.parts:
                    found["latency"] = await latency(members, options.changes)
                if "cut" in options.parts:
                    found["cut"] = await cut(members, options.cuts)
                if "frozen" in options.parts:
                    found["frozen"] = await frozen(members, options.publishers)
        if {"calls", "crowd"} & set(options.parts):
            with alone(options.port, Path(folder), command) as member:
                if "calls" in options.parts:
                    found["calls"] = (await calls([member], options.calls))[0]
                if "crowd" in options.parts:
                    found["crowd"] = await crowd(member, options.connections)
    return found


async def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Calls at this release and at another one, in turns: CPU-µs of each, and the ratio of the medians."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ours = stack.enter_context(alone(options.port, Path(folder), COMMAND))
        other = stack.enter_context(alone(options.port + PORTS_APART, Path(folder), options.other))
        one, two = await calls([ours, other], options.calls)
    return {"ours": one, "other": two, "ratio": {kind: round(one[kind] / two[kind], 3) for kind in one}}


@contextmanager
def alone(port: int, folder: Path, command: Path) -> Iterator[MemberProcess]:
    """A standalone node that serves, killed at the end."""
    member = MemberProcess(port, folder, settings={"nacos.standalone": "true"}, command=command)
    try:
        member.start()
        member.wait_ready()
        yield member
    finally:
        member.kill_all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=names_of(PARTS), default=PARTS, help=f"of {','.join(PARTS)} (all)")
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--cuts", type=int, default=30)
    parser.add_argument("--publishers", type=int, default=9)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=4_000, help="of each kind and turn, over all connections (4000)")
    parser.add_argument("--other", type=Path, help="another release's rollcall command: calls of both, in turns")
    parser.add_argument("--port", type=int, default=24_400)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(options.connections + FILES_SPARE, hard), hard))
    work = run(options) if options.other is None else compare(options)
    print(json.dumps(asyncio.run(work), indent=1))


if __name__ == "__main__":
    main()
