"""The clients of ``rolling.py``, one process for each kind: ``KIND COUNT SERVICES BEAT_S PORT ...``.

``grpc``: clients with connections that publish an instance each and listen to its service. ``http``: instances that
beat. Their counts begin at ``go``; until then services are incomplete.
"""

import asyncio
import collections
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from scripts.support.grpc_clients import GrpcInstance, Info, Outages
from scripts.support.http_clients import Http, HttpInstances
from scripts.support.raw_sockets import raise_own_limit

FILES_EACH = 4
"""Descriptors of each gRPC client: two connections while it moves, and those of the library."""
FILES_SPARE = 1_000
AT_ONCE = 25
PORT = 8080
KEPT_EXAMPLES = 5
NETWORKS = {"grpc": 100, "http": 101}


def planned(kind: str, count: int, services: int) -> Iterator[tuple[str, str]]:
    """Return service and address of each instance of a kind of client, ``grpc`` or ``http``."""
    for number in range(count):
        yield f"rolling-{kind}-{number % services}", f"10.{NETWORKS[kind]}.{number // 250}.{number % 250}"


def percentiles(times_s: Sequence[float]) -> list[float]:
    """Return p50, p99 and maximum of times in s; empty without times."""
    ordered = sorted(times_s)
    count = len(ordered)
    return [round(ordered[min(at, count - 1)], 2) for at in (count // 2, count * 99 // 100, count - 1)] if count else []


class Pushes:
    """Compares pushed lists with the instances that are live all the time."""

    def __init__(self, expected: dict[str, set[str]]) -> None:
        self._expected = expected
        self.count = self.empty = self.lacking = self.unhealthy = 0
        self.missing: set[str] = set()
        self.examples: list[str] = []

    def note(self, info: Info) -> None:
        """Count a push, and the instances that it lacks."""
        expected = self._expected[info["name"].rpartition("@@")[2]]
        healthy = {f"{host['ip']}:{host['port']}": host["healthy"] for host in info["hosts"]}
        self.count += 1
        self.empty += not healthy
        self.unhealthy += not all(healthy.values())
        if missing := expected - healthy.keys():
            self.lacking += 1
            self.missing |= missing
            if len(self.examples) < KEPT_EXAMPLES:
                self.examples.append(f"{info['name']} lacks {len(missing)} of {len(expected)}")


async def _grpc(instances: Sequence[tuple[str, str]], ports: Sequence[int]) -> None:
    raise_own_limit(len(instances) * FILES_EACH + FILES_SPARE)
    expected = collections.defaultdict(set)
    for service, ip in instances:
        expected[service].add(f"{ip}:{PORT}")
    before, pushes, outages = Pushes(expected), Pushes(expected), Outages()
    seen = [before]

    def on_push(info: Info) -> None:
        seen[-1].note(info)

    clients = [
        GrpcInstance(ports, number, service, ip, on_push, outages) for number, (service, ip) in enumerate(instances)
    ]
    tasks = []
    for start in range(0, len(clients), AT_ONCE):
        batch = clients[start : start + AT_ONCE]
        tasks += [asyncio.create_task(client.live()) for client in batch]
        await asyncio.gather(*(client.registered.wait() for client in batch))
    # Only now: each later instance would be pushed to all subscribers of its service.
    for start in range(0, len(clients), AT_ONCE):
        await asyncio.gather(*(client.subscribe() for client in clients[start : start + AT_ONCE]))
    await _say("ready")
    await _told()
    seen.append(pushes)
    await _told()
    report = {
        "pushes": pushes.count,
        "empty": pushes.empty,
        "lacking": pushes.lacking,
        "lacked": len(pushes.missing),
        "unhealthy": pushes.unhealthy,
        "examples": pushes.examples,
        "moves": len(outages.connected_s),
        "connected_s": percentiles(outages.connected_s),
        "known_s": percentiles(outages.known_s),
    }
    await _end(tasks, report)


async def _http(instances: Sequence[tuple[str, str]], ports: Sequence[int], beat_s: float) -> None:
    raise_own_limit(len(instances) * len(ports) + FILES_SPARE)  # open connections, when all members are slow
    beats: collections.Counter[str] = collections.Counter()
    members = [Http(f"127.0.0.1:{port}") for port in ports]
    clients = HttpInstances(members, beat_s, lambda outcome: beats.update([outcome]))
    tasks = []
    for start in range(0, len(instances), AT_ONCE):
        batch = list(enumerate(instances[start : start + AT_ONCE], start))
        registered = await asyncio.gather(*(clients.register(*one, number) for number, one in batch))
        assert all(registered), "a healthy cluster takes every registration"
        tasks += [asyncio.create_task(clients.live(*one, number)) for number, one in batch]
    await _say("ready")
    await _told()
    beats.clear()
    await _told()
    await _end(tasks, {"beats": dict(beats)})


async def _say(text: str) -> None:
    print(text, flush=True)


async def _told() -> None:
    """Wait for the next line, ``go`` or ``halt``."""
    await asyncio.to_thread(sys.stdin.readline)


async def _end(tasks: Sequence[asyncio.Task[None]], report: dict[str, Any]) -> None:
    """Stop all clients; a client that ended early is a fault of the load."""
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    report["faults"] = sorted({repr(one) for one in ended if not isinstance(one, asyncio.CancelledError)})
    await _say(json.dumps(report))


def main() -> int:
    kind, count, services, beat_s, *ports = sys.argv[1:]
    instances = list(planned(kind, int(count), int(services)))
    numbers = [int(port) for port in ports]
    asyncio.run(_grpc(instances, numbers) if kind == "grpc" else _http(instances, numbers, float(beat_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
