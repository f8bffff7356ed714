"""Measure a cluster with a million instances: memory, idle cost, a failed member, a full load, restarts, changes.

Starts its own members on this machine, registers ``--instances`` in ``--services`` at their owners, and runs the parts
in this order. Prints each figure as a line of JSON as soon as it is measured:

register: instances a second and CPU-us of all members for each, until all members have all instances and no send is
    pending. ``--alone`` is faster: it registers at the first member before the others start and load the data.
memory: resident bytes of each member for each instance, beyond those of the same member when it was empty.
rest: without changes: CPU of a member and bytes sent to a peer, for each verify round.
kill: the last member is killed: seconds until the others own all keys; meanwhile light beats at the first, and the
    lists that lacked an instance or had an unhealthy one.
load: it starts again with an empty data folder: seconds until it serves and until it owns its third; CPU of all
    members, peaks of memory, and meanwhile beats at the first.
warm: all members stop in order and start again from their disks: seconds until the first serves all.
changes: single registrations in the services, one after the other: convergence, and bytes sent for each and peer.

    python -m scripts.bench.scale --instances 50000 --services 1000
    python -m scripts.bench.scale --members 5 --instances 200000 --services 4000 --parts register,changes
"""

import argparse
import json
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from distro.members.mapper import DistroMapper
from scripts.bench.convergence import measure
from scripts.bench.idle import cpu_s
from scripts.support.arguments import add_port, names_of
from scripts.support.beat_load import Beaten, InstanceLoad, beating, figures
from scripts.support.bulk_register import Fleet, list_of, register_all
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, drill_folder, local_members, start_all

PARTS = ["register", "memory", "rest", "kill", "load", "warm", "changes"]
POLL_S = 0.1
CALL_TIMEOUT_S = 30.0
WAIT_S = 900.0
"""Time limit of each wait; a longer wait ends the run."""
REST_S = 20.0
BEAT_LIMIT_MS = 50.0
BEATING = InstanceLoad(services=30, hosts=10)
CHANGES = 100


class Cluster:
    """The members, and the figures that each reports."""

    def __init__(self, members: list[MemberProcess], fleet: Fleet) -> None:
        self.members = members
        self.fleet = fleet
        self.empty: list[int] = []
        """Resident bytes of each member before the registrations."""
        self.total = fleet.services * fleet.hosts + BEATING.services * BEATING.hosts

    def worker(self, member: MemberProcess) -> int:
        """The process that holds the registry."""
        return member.pids()[-1]

    def cpu_s(self, member: MemberProcess) -> float:
        return cpu_s(self.worker(member))

    def memory(self, member: MemberProcess, name: str = "VmRSS") -> int:
        """Return the value in bytes; ``VmHWM`` is the peak."""
        lines = Path(f"/proc/{self.worker(member)}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))

    def counters(self, member: MemberProcess) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_get(member, "/v1/ns/operator/metrics"))
        return found

    def sum_of(self, member: MemberProcess, metric: str) -> float:
        """The sum of a metric over all its labels."""
        lines = _get(member, "/actuator/prometheus").decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric))

    def has_all(self, member: MemberProcess) -> bool:
        counters = self.counters(member)
        return bool(counters["status"] == "UP" and counters["instanceCount"] == self.total)

    def is_settled(self, members: list[MemberProcess]) -> bool:
        """Return whether each member has all instances, each instance has one owner, and no sync waits."""
        counters = [self.counters(member) for member in members]
        owned = sum(one["responsibleInstanceCount"] for one in counters)
        whole = all(one["instanceCount"] == self.total for one in counters) and owned == self.total
        return whole and not any(self.sum_of(member, "rollcall_peer_pending_keys") for member in members)


def _get(member: MemberProcess, path: str) -> bytes:
    with urlopen(f"http://{member.address}{CONTEXT_PATH}{path}", timeout=CALL_TIMEOUT_S) as answer:
        body: bytes = answer.read()
        return body


def until(check: Callable[[], bool]) -> float:
    """Wait until the check is true; return the seconds that this took."""
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < WAIT_S:
        try:
            if check():
                return time.monotonic() - begun_s
        except OSError:
            pass
        time.sleep(POLL_S)
    raise SystemExit("the wait took too long")


def say(part: str, **found: object) -> None:
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
    print(json.dumps({"part": part, **rounded}), flush=True)


def beats(beaten: Beaten, begin_s: float = 0.0, end_s: float = float("inf")) -> dict[str, object]:
    times = beaten.between(begin_s, end_s)
    late = beaten.late_between(begin_s, end_s)
    if not times:
        return {"beats": 0}
    found, load = figures(times, BEAT_LIMIT_MS), figures(late, BEAT_LIMIT_MS)
    return {
        "beats": found.count,
        "p50_ms": round(found.p50_ms, 2),
        "p99_ms": round(found.p99_ms, 1),
        "max_ms": round(found.max_ms, 1),
        "over_50_ms": found.slow,
        "failures": beaten.failures,
        "load_late_p99_ms": round(load.p99_ms, 1),
    }


@contextmanager
def watching_lists(cluster: Cluster, members: list[MemberProcess]) -> Iterator[dict[str, int]]:
    """Read random lists all the time; count their faults."""
    seen = {"lists": 0, "lacking": 0, "unhealthy": 0, "unanswered": 0}
    ended = threading.Event()

    def look() -> None:
        rng = random.Random(1)
        while not ended.wait(0.02):
            number = rng.randrange(cluster.fleet.services)
            try:
                hosts = list_of(rng.choice(members).address, cluster.fleet.name(number))
            except (OSError, RuntimeError, ValueError):
                seen["unanswered"] += 1
                continue
            seen["lists"] += 1
            seen["lacking"] += len(hosts) < cluster.fleet.hosts
            seen["unhealthy"] += not all(host["healthy"] for host in hosts)

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            yield seen
        finally:
            ended.set()
            looking.result()


# --- parts ------------------------------------------------------------------------------------------


def register(cluster: Cluster, processes: int, *, alone: bool) -> None:
    members = cluster.members[:1] if alone else cluster.members
    mapper = DistroMapper.over(members[0].address, [member.address for member in members])
    register_all(BeatingFleet(BEATING.services, BEATING.hosts), mapper.map_srv, 1)
    cluster.empty = [cluster.memory(member) for member in members]
    cpu_s, begun_s = sum(map(cluster.cpu_s, members)), time.monotonic()
    register_all(cluster.fleet, mapper.map_srv, processes)
    took_s = time.monotonic() - begun_s
    settled_s = until(lambda: cluster.is_settled(members))
    cpu_s = sum(map(cluster.cpu_s, members)) - cpu_s
    count = cluster.fleet.services * cluster.fleet.hosts
    say(
        "register",
        instances=count,
        took_s=took_s,
        per_s=count / took_s,
        settled_after_s=settled_s,
        cpu_us_each=cpu_s / count * 1e6,
        cpu_us_each_and_member=cpu_s / count / len(members) * 1e6,
        **engine(cluster, members),
    )
    if alone:
        for member in cluster.members[1:]:
            member.start()
            loaded_s = until(partial(cluster.has_all, member))
            say("loads", member=member.address, whole_after_s=loaded_s, cpu_s=cluster.cpu_s(member))
        until(lambda: cluster.is_settled(cluster.members))


class BeatingFleet(Fleet):
    """The instances for which ``BeatLoad`` sends beats."""

    __slots__ = ()

    def name(self, number: int) -> str:
        return f"DEFAULT_GROUP@@{BEATING.name}-{number}"

    def ip(self, number: int, host: int) -> str:
        return f"10.{number // 250}.{number % 250}.{host + 1}"


def engine(cluster: Cluster, members: list[MemberProcess] | None = None) -> dict[str, object]:
    """Return the longest lag of the loops in the last minute, and the longest turn of the engines since their start."""
    asked = members or cluster.members
    lags = [cluster.counters(member)["loopLagMaxMs"] for member in asked]
    turns_s = [cluster.sum_of(member, "rollcall_engine_turn_max_seconds") for member in asked]
    return {"loop_lag_max_ms": max(lags), "engine_turn_max_ms": max(turns_s) * 1e3}


def memory(cluster: Cluster) -> None:
    count = cluster.fleet.services * cluster.fleet.hosts
    grown = [cluster.memory(member) - empty for member, empty in zip(cluster.members, cluster.empty, strict=False)]
    peaks = [cluster.memory(member, "VmHWM") for member in cluster.members]
    say(
        "memory",
        bytes_each=[round(one / count) for one in grown],
        rss_mb=[cluster.memory(member) >> 20 for member in cluster.members],
        peak_mb=[one >> 20 for one in peaks],
    )


def rest(cluster: Cluster) -> None:
    first = cluster.members[0]
    rounds, cpu_s = cluster.counters(first)["verifySent"], cluster.cpu_s(first)
    sent = cluster.sum_of(first, "rollcall_peer_sent_bytes_total")
    time.sleep(REST_S)
    cpu_s = cluster.cpu_s(first) - cpu_s
    sent = cluster.sum_of(first, "rollcall_peer_sent_bytes_total") - sent
    rounds = cluster.counters(first)["verifySent"] - rounds
    say(
        "rest",
        seconds=REST_S,
        verify_calls=rounds,
        cpu_ms_per_s=cpu_s * 1e3 / REST_S,
        cpu_ms_per_call=cpu_s * 1e3 / max(rounds, 1),
        bytes_per_call=sent / max(rounds, 1),
        **engine(cluster, [first]),
    )


def kill(cluster: Cluster) -> None:
    victim, others = cluster.members[-1], cluster.members[:-1]
    cpu_s = sum(map(cluster.cpu_s, others))
    sent = sum(cluster.sum_of(member, "rollcall_peer_sent_bytes_total") for member in others)
    with beating(others[0].address, BEATING) as load, watching_lists(cluster, others) as lists:
        time.sleep(3)
        begun_s = time.time()
        victim.kill_all()
        claims = [cluster.counters(member)["claims"] for member in others]
        owned_s = until(lambda: cluster.is_settled(others) and _claimed(cluster, others, claims))
        end_s = time.time()
        time.sleep(3)
        beaten = load.end()
    cpu_s = sum(map(cluster.cpu_s, others)) - cpu_s
    sent = sum(cluster.sum_of(member, "rollcall_peer_sent_bytes_total") for member in others) - sent
    say(
        "kill",
        taken_over_after_s=owned_s,
        cpu_s=cpu_s,
        sent_mb=sent / 1e6,
        lists=lists,
        rss_mb=[cluster.memory(member) >> 20 for member in others],
        **engine(cluster, others),
    )
    say("kill: beats before", **beats(beaten, 0.0, begun_s))
    say("kill: beats", **beats(beaten, begun_s, end_s))


def _claimed(cluster: Cluster, others: list[MemberProcess], before: list[int]) -> bool:
    """Return whether the others claimed as many keys as had to change their owner."""
    left = tuple(sorted(member.address for member in others))
    all_of = tuple(sorted(member.address for member in cluster.members))
    moved = 0
    for number in range(cluster.fleet.services):
        name = cluster.fleet.name(number)
        before_owner, owner = (DistroMapper("", servers).map_srv(name) for servers in (all_of, left))
        moved += before_owner != owner
    claims: int = sum(cluster.counters(member)["claims"] for member in others)
    return claims - sum(before) >= moved


def load(cluster: Cluster) -> None:
    last, others = cluster.members[-1], cluster.members[:-1]
    _wipe(last)
    others_cpu_s = sum(map(cluster.cpu_s, others))
    peaks = [cluster.memory(member) for member in others]
    with beating(others[0].address, BEATING) as sender, watching_lists(cluster, others) as lists:
        time.sleep(3)
        begun_s = time.time()
        last.start()
        up_s = until(last.is_ready)
        loaded_s = time.time()
        cpu_s, others_cpu_s = cluster.cpu_s(last), sum(map(cluster.cpu_s, others)) - others_cpu_s
        peak, first = cluster.memory(last, "VmHWM"), cluster.counters(last)["instanceCount"]
        rss = cluster.memory(last)
        whole_s = until(lambda: cluster.has_all(last))
        settled_s = until(lambda: _owns_its_part(cluster, last) and cluster.is_settled(cluster.members))
        end_s = time.time()
        beaten = sender.end()
    say(
        "load",
        served_after_s=up_s,
        instances_then=first,
        whole_after_s=up_s + whole_s,
        owns_its_part_after_s=up_s + whole_s + settled_s,
        cpu_s=cpu_s,
        cpu_us_each=cpu_s / cluster.total * 1e6,
        others_cpu_s=others_cpu_s,
        rss_mb=rss >> 20,
        peak_mb=peak >> 20,
        others_grew_mb=[
            (cluster.memory(member, "VmHWM") - before) >> 20 for member, before in zip(others, peaks, strict=True)
        ],
        lists=lists,
        rss_mb_then=[cluster.memory(member) >> 20 for member in cluster.members],
        **engine(cluster),
    )
    say("load: beats", **beats(beaten, begun_s, loaded_s))
    say("load: beats until it owns its part", **beats(beaten, loaded_s, end_s))


def _owns_its_part(cluster: Cluster, member: MemberProcess) -> bool:
    return bool(cluster.counters(member)["responsibleInstanceCount"])


def _wipe(member: MemberProcess) -> None:
    member.kill_all()
    shutil.rmtree(member.data, ignore_errors=True)


def warm(cluster: Cluster) -> None:
    begun_s = time.monotonic()
    for member in cluster.members:
        member.stop()
    stopped_s = time.monotonic() - begun_s
    for member in cluster.members:
        member.start()
    up_s = until(cluster.members[0].is_ready)
    whole_s = until(lambda: all(cluster.has_all(member) for member in cluster.members))
    say("warm", stopped_after_s=stopped_s, first_serves_after_s=up_s, all_whole_after_s=up_s + whole_s)


def changes(cluster: Cluster) -> None:
    urls = [f"http://{member.address}{CONTEXT_PATH}" for member in cluster.members]
    sent = sum(cluster.sum_of(member, "rollcall_peer_sent_bytes_total") for member in cluster.members)
    asked = argparse.Namespace(services=1, hosts=0, changes=CHANGES, rate=0, timeout_s=15.0, gap_s=0.05)
    begun_s = time.monotonic()
    found = measure(urls, asked)
    took_s = time.monotonic() - begun_s
    sent = sum(cluster.sum_of(member, "rollcall_peer_sent_bytes_total") for member in cluster.members) - sent
    cluster.total += CHANGES
    peers = len(cluster.members) - 1
    say("changes", took_s=took_s, bytes_per_change_and_peer=sent / CHANGES / peers, **found)


def run(options: argparse.Namespace) -> None:
    fleet = Fleet(options.services, options.instances // options.services)
    folder = drill_folder(options.logs)
    with local_members(options.members, options.port, folder) as members:
        cluster = Cluster(members, fleet)
        started = members[:1] if options.alone else members
        start_all(started)
        for part in [name for name in PARTS if name in options.parts]:
            if part == "register":
                register(cluster, options.processes, alone=options.alone)
            else:
                {"memory": memory, "rest": rest, "kill": kill, "load": load, "warm": warm, "changes": changes}[part](
                    cluster
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--services", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="that register")
    parser.add_argument("--alone", action="store_true", help="register at the first member; the others load it then")
    add_port(parser)
    parser.add_argument("--parts", type=names_of(PARTS), default=PARTS, help=f"of {','.join(PARTS)} (all)")
    parser.add_argument("--logs", type=Path, help="the folder for logs and data of the members; a new one if not given")
    run(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
