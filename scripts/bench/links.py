"""Measure how long a change in one cluster takes to become visible in those that are linked with it.

Starts two or four clusters on this machine (``--shape``), each in a network namespace of its own. Packets between them
take half of ``--round-trip-ms``, so that a link meets the network of two data centres. Registers ``--instances``,
spread over the clusters, and waits until the others show them. Then one process registers and removes ``--rate``
instances a second, in all clusters. Another one registers new instances in the first cluster, one after the other, and
polls the members of the clusters that follow it every 2 ms until they show it. After each of ``--rounds`` the changes
end, and ``rollcall compare --link`` counts the differences between both ends of each link.

Prints one JSON line: the times in ms, from the registering call, until the first and until the last of these members
showed a change; the bytes and the changes that all links took meanwhile; the CPU time of the members; and the
differences. With ``--shape apart`` the same two clusters have no links: the CPU time that they take less is that of the
links.
"""

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from typing import Any

from scripts.bench.convergence import Member, percentiles_ms, seconds_until, steady_changes
from scripts.bench.idle import cpu_s
from scripts.support.arguments import add_port
from scripts.support.member_processes import COMMAND, CONTEXT_PATH, PORT_STEP, MemberProcess, MembersAt, running_members
from tests.chaos.cluster import IDENTITY
from tests.chaos.network import FOLDER, Network, run_in_own_namespaces, unable
from tests.chaos.slow_link import SlowLink

LIVES_MS = 86_400_000
"""The beat and delete time-outs of the instances, which nobody beats for."""
METADATA = json.dumps({"preserved.heart.beat.timeout": LIVES_MS, "preserved.ip.delete.timeout": LIVES_MS})
SERVICE_HOSTS = 10
FILL_CALLS = 8
SHOWN_TIMEOUT_S = 300.0
CHURN_SERVICES = 100
CHURN_LIVES = 10
"""Instances that come and go live until the member has taken so many further registrations."""
QUIET_S = 3.0
"""From the last change until both ends of a link are compared."""
COMPARE_TIMEOUT_S = 300.0
SHAPES: dict[str, dict[int, tuple[int, ...]]] = {
    "one-way": {0: (), 1: (0,)},
    "pair": {0: (1,), 1: (0,)},
    "apart": {0: (), 1: ()},
    "ring": {0: (1,), 1: (2,), 2: (3,), 3: (0,)},
    "star": {0: (1, 2, 3), 1: (0,), 2: (0,), 3: (0,)},
}
"""The clusters that each cluster follows."""


class LinkedClusters:
    """Running clusters, and the clusters that each of them follows."""

    def __init__(self, clusters: Sequence[Sequence[MemberProcess]], follows: Mapping[int, Sequence[int]]) -> None:
        self.members, self.follows = clusters, follows
        self.urls = [[f"http://{one.address}{CONTEXT_PATH}" for one in members] for members in clusters]

    @property
    def followers(self) -> list[str]:
        """Return the URLs of the members of all clusters that follow the first one."""
        return [url for at, followed in self.follows.items() if 0 in followed for url in self.urls[at]]

    @property
    def all_urls(self) -> list[str]:
        return list(itertools.chain.from_iterable(self.urls))

    def links(self) -> list[dict[str, int]]:
        """Return the links of all members."""
        return [link for at, followed in self.follows.items() if followed for link in links_of(self.urls[at][0])]

    def cpu_s(self) -> list[float]:
        """Return the CPU time that the processes of each cluster took."""
        return [sum(cpu_s(pid) for one in members for pid in one.pids()) for members in self.members]

    def differences(self) -> int:
        """Return how many differences ``rollcall compare`` finds between both ends of all links."""
        found = 0
        for here, followed in self.follows.items():
            for there in followed:
                for one, other in zip(self.members[here], self.members[there], strict=True):
                    found += _compare(one.address, other.address, there)
        return found


def _compare(address: str, other: str, cluster: int) -> int:
    command = [str(COMMAND), "compare", address, other, "--link", f"c{cluster}", "--gap", "0", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=COMPARE_TIMEOUT_S, check=False)
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr}")
    return len(ended.stdout.splitlines())


def fill(clusters: Sequence[Sequence[str]], instances: int) -> None:
    """Register instances, ten in each service, through all members of all clusters."""
    urls = list(itertools.chain.from_iterable(zip(*clusters, strict=True)))

    def run(first: int) -> None:
        members = [Member(url) for url in urls]
        for number in range(first, instances, FILL_CALLS):
            ip = f"10.{20 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
            assert members[number % len(urls)].register(f"filled-{number // SERVICE_HOSTS}", ip, METADATA) == 200

    with ThreadPoolExecutor(FILL_CALLS) as pool:
        for future in [pool.submit(run, first) for first in range(FILL_CALLS)]:
            future.result()


def churn(urls: Sequence[str], rate: float, over: Event) -> None:
    """Register and remove instances through all members, ``rate`` times a second in all, until ``over``."""

    def run(at: int) -> None:
        member, begun_s, living = Member(urls[at]), time.monotonic(), deque[tuple[str, str]]()
        for number in itertools.count():
            if over.is_set():
                break
            if number % 2 and len(living) > CHURN_LIVES:
                remove(member, *living.popleft())
            else:
                living.append((f"churn-{number % CHURN_SERVICES}", f"10.{100 + at}.{number >> 8 & 255}.{number & 255}"))
                assert member.register(*living[-1], METADATA) == 200
            over.wait(max(begun_s + (number + 1) * len(urls) / rate - time.monotonic(), 0))
        for one in living:
            remove(member, *one)

    with ThreadPoolExecutor(len(urls)) as pool:
        for future in [pool.submit(run, at) for at in range(len(urls))]:
            future.result()


def remove(member: Member, service: str, ip: str) -> None:
    """Deregister an instance."""
    status, body = member.call("DELETE", "/v1/ns/instance", serviceName=service, ip=ip, port=8080, ephemeral="true")
    assert status == 200, body


def links_of(url: str) -> list[dict[str, int]]:
    """Return the link of each member of a cluster."""
    status, body = Member(url).call("GET", "/v1/ns/link/list")
    assert status == 200, body
    return [link for member in json.loads(body)["members"] for link in member["links"]]


def wait_until_shown(clusters: LinkedClusters, instances: int) -> float:
    """Wait until each member has so many instances by each of its links; return the time in s."""
    begun_s = time.monotonic()
    while not all(link["instances"] >= instances for link in clusters.links()):
        if time.monotonic() - begun_s > SHOWN_TIMEOUT_S:
            raise RuntimeError(f"after {SHOWN_TIMEOUT_S:.0f} s the links have {clusters.links()}")
        time.sleep(0.2)
    return time.monotonic() - begun_s


def measure(clusters: LinkedClusters, options: argparse.Namespace) -> dict[str, Any]:
    """Make the changes, and return the printed figures."""
    fill(clusters.urls, options.instances)
    # A cluster has a few instances less than its share where this is no whole number.
    caught_up_s = wait_until_shown(clusters, options.instances // len(clusters.urls) - options.members)
    writers, readers = [Member(url) for url in clusters.urls[0]], [Member(url) for url in clusters.followers]
    first_s, all_s, differences = list[float](), list[float](), list[int]()
    lost, took_s, changes, size, cpu = 0, 0.0, 0, 0, [0.0] * len(clusters.urls)
    for turn in range(options.rounds):
        with steady_changes(clusters.all_urls, options.rate, churn):
            before, cpu_before, begun_s = clusters.links(), clusters.cpu_s(), time.monotonic()
            for number in range(turn, options.changes, options.rounds):
                service, ip = f"timed-{number % 100}", f"10.9.{number // 250}.{number % 250 + 1}"
                at_s = time.perf_counter()
                assert writers[number % len(writers)].register(service, ip, METADATA) == 200
                times = seconds_until(readers, service, ip, at_s, options.timeout_s)
                shown = [one for one in times if one is not None]
                lost += len(times) - len(shown)
                first_s += [min(shown)] if shown else []
                all_s += [max(shown)] if shown else []
                time.sleep(options.gap_s)
            took_s += time.monotonic() - begun_s
            cpu = [sum(it) for it in zip(cpu, clusters.cpu_s(), (-one for one in cpu_before), strict=True)]
            after = clusters.links()
        changes += sum(one["changes"] for one in after) - sum(one["changes"] for one in before)
        size += sum(one["bytes"] for one in after) - sum(one["bytes"] for one in before)
        time.sleep(QUIET_S)
        differences.append(clusters.differences())
    return {
        "shape": options.shape,
        "members": options.members,
        "instances": options.instances,
        "rate": options.rate,
        "round_trip_ms": options.round_trip_ms,
        "caught_up_s": round(caught_up_s, 1),
        "timed": options.changes,
        "lost": lost,
        "first": percentiles_ms(first_s),
        "all": percentiles_ms(all_s),
        "changes_per_s": round(changes / took_s, 1),
        "bytes_per_change": round(size / changes) if changes else None,
        "member_cpu_percent": [round(100 * one / took_s / options.members, 2) for one in cpu],
        "differences": differences,
    }


@contextlib.contextmanager
def namespaces(count: int, delay_s: float) -> Iterator[list[MembersAt]]:
    """Yield places whose packets to each other take ``delay_s``."""
    network = Network(count)
    slow = SlowLink(network, delay_s, loss=0.0, seed=1)
    slow.begin()
    try:
        yield [MembersAt(place.ip, place.enter()) for place in network.places]
    finally:
        slow.end()
        network.end()


@contextlib.contextmanager
def linked_clusters(options: argparse.Namespace) -> Iterator[LinkedClusters]:
    """Yield running clusters that follow each other, by the shape."""
    follows, count = SHAPES[options.shape], options.members
    ports = [options.port + PORT_STEP * member for member in range(count)]
    with contextlib.ExitStack() as stack:
        places = stack.enter_context(namespaces(len(follows), options.round_trip_ms / 2_000))
        clusters = []
        for cluster, followed in follows.items():
            settings = IDENTITY | {"rollcall.cluster.id": f"cluster-{cluster}"}
            for one in followed:
                settings[f"rollcall.link.c{one}.servers"] = ",".join(map(places[one].address, ports))
            members = running_members(count, options.port, settings, at=places[cluster])
            clusters.append(stack.enter_context(members))
        yield LinkedClusters(clusters, follows)


def main() -> int:
    """Measure, in namespaces of our own; 0 when nothing was lost, and no lists differed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_port(parser, 12)
    parser.add_argument("--shape", choices=SHAPES, default="pair", help="the clusters that follow each other (pair)")
    parser.add_argument("--members", type=int, default=3, help="members of each cluster")
    parser.add_argument("--instances", type=int, default=20_000, help="instances of all clusters together")
    parser.add_argument("--changes", type=int, default=300, help="timed changes")
    parser.add_argument("--gap-s", type=float, default=0.1, help="seconds between two timed changes")
    parser.add_argument("--rounds", type=int, default=3, help="quiet points, at which the clusters are compared")
    parser.add_argument("--rate", type=float, default=50, help="other changes a second, of all clusters together")
    parser.add_argument("--round-trip-ms", type=float, default=40, help="of the network between the clusters")
    parser.add_argument("--timeout-s", type=float, default=15.0, help="seconds after which a change counts as lost")
    options = parser.parse_args()
    if FOLDER not in os.environ:
        if reason := unable():
            raise SystemExit(reason)
        return run_in_own_namespaces(["-m", "scripts.bench.links", *sys.argv[1:]])
    with linked_clusters(options) as clusters:
        result = measure(clusters, options)
    print(json.dumps(result))
    return 1 if result["lost"] or any(result["differences"]) else 0


if __name__ == "__main__":
    sys.exit(main())
