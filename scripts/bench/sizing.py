"""Measure what a size of docs/sizing.md costs: CPU, memory and disk of each member under a steady load.

Starts three members on this machine, registers the instances, and then sends beats of them all, every 5 s each and
spread over the members, and changes of their weight and metadata. Prints a line of JSON for each member: its CPU in
percent of a core, its memory (MB) and peak, and its disk (MB); then one for the changes and one for the beats.

    python -m scripts.bench.sizing --instances 10000 --changes 50
"""

import argparse
import http.client
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode

from distro.members.mapper import DistroMapper
from scripts.bench.scale import BEAT_LIMIT_MS, Cluster, until
from scripts.support.arguments import add_port
from scripts.support.beat_load import InstanceLoad, beating, figures
from scripts.support.bulk_register import PORT, Fleet, register_all
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, drill_folder, local_members, start_all

MEMBERS, HOSTS, BEAT_S = 3, 10, 5
SERVICES_MAX = 62_500
"""Addresses of the load's instances have no more."""
SETTLE_S, CALL_TIMEOUT_S = 5.0, 10.0


class LoadedFleet(Fleet):
    """The instances for which `beat_load` sends beats."""

    __slots__ = ()

    def name(self, number: int) -> str:
        return f"DEFAULT_GROUP@@beating-{number}"

    def ip(self, number: int, host: int) -> str:
        return f"10.{number // 250}.{number % 250}.{host + 1}"


@contextmanager
def making_changes(fleet: Fleet, members: list[MemberProcess], per_s: int) -> Iterator[list[int]]:
    """Change weights and metadata at a steady rate through all members in turn; yield the statuses of the answers."""
    statuses: list[int] = []
    ended = threading.Event()

    def change() -> None:
        rng, begun_s = random.Random(1), time.monotonic()
        connections = [http.client.HTTPConnection(member.address, timeout=CALL_TIMEOUT_S) for member in members]
        while not ended.wait(max(begun_s + len(statuses) / per_s - time.monotonic(), 0)):
            number, host = rng.randrange(fleet.services), rng.randrange(fleet.hosts)
            query = urlencode(
                {
                    "serviceName": fleet.name(number),
                    "ip": fleet.ip(number, host),
                    "port": PORT,
                    "ephemeral": "true",
                    "weight": rng.randint(1, 9),
                    "metadata": json.dumps({**fleet.metadata(number), "revision": str(rng.random())}),
                }
            )
            connection = connections[len(statuses) % len(connections)]
            connection.request("POST", f"{CONTEXT_PATH}/v1/ns/instance?{query}")
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change) if per_s else None
        try:
            yield statuses
        finally:
            ended.set()
            if changing:
                changing.result()


def disk_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(cluster: Cluster, fleet: Fleet, options: argparse.Namespace) -> None:
    """Load the members for a while, and print the figures."""
    rate = round(options.instances / BEAT_S / MEMBERS)
    load = InstanceLoad(fleet.services, fleet.hosts)
    with ExitStack() as stack:
        senders = [stack.enter_context(beating(one.address, load, rate)) for one in cluster.members] if rate else []
        statuses = stack.enter_context(making_changes(fleet, cluster.members, options.changes))
        time.sleep(SETTLE_S)
        cpu, begun_s, changes = [cluster.cpu_s(one) for one in cluster.members], time.monotonic(), len(statuses)
        time.sleep(options.seconds)
        took_s = time.monotonic() - begun_s
        cpu = [cluster.cpu_s(one) - before for one, before in zip(cluster.members, cpu, strict=True)]
        made = len(statuses) - changes
        beaten = [sender.end() for sender in senders]
    for member, used_s in zip(cluster.members, cpu, strict=True):
        found = {
            "member": member.address,
            "cpu_percent": round(100 * used_s / took_s, 1),
            "rss_mb": cluster.memory(member) >> 20,
            "peak_mb": cluster.memory(member, "VmHWM") >> 20,
            "disk_mb": round(disk_bytes(member.data) / 1e6, 1),
        }
        print(json.dumps(found), flush=True)
    times = [ms for one in beaten for _, ms in one.answered]
    refused = sum(status != 200 for status in statuses)
    print(json.dumps({"changes_per_s": round(made / took_s, 1), "refused": refused}), flush=True)
    if times:
        seen = figures(times, BEAT_LIMIT_MS)
        failed = sum(sum(one.failures.values()) for one in beaten)
        beats = {"beats_per_s": round(seen.count / (took_s + SETTLE_S)), "failed": failed}
        print(json.dumps(beats | {"p99_ms": round(seen.p99_ms, 1)}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=50, help="changes a second (50)")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--logs", type=Path, help="the folder for logs and data of the members; a new one if not given")
    add_port(parser, MEMBERS)
    options = parser.parse_args()
    if not HOSTS <= options.instances <= HOSTS * SERVICES_MAX:
        parser.error(f"--instances: {HOSTS} to {HOSTS * SERVICES_MAX}")
    fleet = LoadedFleet(options.instances // HOSTS, HOSTS)
    with local_members(MEMBERS, options.port, drill_folder(options.logs)) as members:
        start_all(members)
        cluster = Cluster(members, fleet)
        cluster.total = fleet.services * fleet.hosts
        register_all(fleet, DistroMapper.over(members[0].address, [one.address for one in members]).map_srv, 1)
        until(lambda: cluster.is_settled(members))
        measure(cluster, fleet, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
