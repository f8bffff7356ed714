"""Measure the memory of answers that clients never read: they query a service of 20,000 instances and wait.

Each attack of ``scripts/chaos/unread_answers.py`` gets a new standalone node. The figures are RSS above that
before the attack: the peak while the clients wait, as the kernel counts it, and some time after they have left. The
list is encoded for the first time during the attack. Meanwhile a client that does read asks for a short list, which
must be answered, and for the large one, which may be refused while there is no room.

    python -m scripts.bench.answers_memory
    python -m scripts.bench.answers_memory --rollcall ../before/.venv/bin/rollcall --attacks "closed windows"
    python -m scripts.bench.answers_memory --instances 1000 --set rollcall.limit.answersMb=32
"""

import argparse
import collections
import json
import time
from dataclasses import dataclass, field

from scripts.chaos.unread_answers import ATTACKS, ClusteredFleet, attacked, status_of
from scripts.support.arguments import add_port, add_rollcall, names_of
from scripts.support.bulk_register import register_all
from scripts.support.member_processes import MemberProcess, running_members
from scripts.support.process_memory import forget_peak, peak_mb, rss_mb

ASK_EACH_S = 0.1
SHORT = ClusteredFleet(2, 3)
TIMEOUT_S = 30.0


@dataclass
class Beside:
    """The answers of a client that reads."""

    short: collections.Counter[int] = field(default_factory=collections.Counter)
    large: collections.Counter[int] = field(default_factory=collections.Counter)
    slowest_ms: float = 0.0
    """The slowest of the short lists."""

    def ask(self, address: str, large: str) -> None:
        begun_s = time.perf_counter()
        self.short[status_of(address, SHORT.name(1))] += 1
        self.slowest_ms = max(self.slowest_ms, (time.perf_counter() - begun_s) * 1_000)
        self.large[status_of(address, large)] += 1


def measure(name: str, member: MemberProcess, options: argparse.Namespace) -> dict[str, object]:
    """Attack a running node; return its memory above the value before the attack."""
    attack, connections = ATTACKS[name]
    large = ClusteredFleet(1, options.instances)
    register_all(SHORT, lambda _: member.address, 1)
    register_all(large, lambda _: member.address, 1)
    pid = member.pids()[1]
    start_mb, beside = rss_mb(pid), Beside()
    forget_peak([pid])
    end_s = time.monotonic() + options.seconds
    with attacked(attack, member.address, large.name(0), connections):
        while time.monotonic() < end_s:
            beside.ask(member.address, large.name(0))
            time.sleep(ASK_EACH_S)
    most_mb = peak_mb([pid])
    time.sleep(options.after)
    return {
        "attack": name,
        "connections": connections,
        "start_mb": round(start_mb),
        "above_during_mb": round(most_mb - start_mb),
        "above_after_mb": round(rss_mb(pid) - start_mb),
        "short_lists": dict(beside.short),
        "short_slowest_ms": round(beside.slowest_ms),
        "large_lists": dict(beside.large),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", type=names_of(ATTACKS), default=list(ATTACKS), help="comma-separated")
    parser.add_argument("--instances", type=int, default=20_000, help="of the large service")
    parser.add_argument("--seconds", type=float, default=15.0, help="that the clients wait")
    parser.add_argument(
        "--after", type=float, default=60.0, help="seconds from the end of the clients to the last measurement"
    )
    add_port(parser)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the node")
    add_rollcall(parser)
    options = parser.parse_args()
    settings = dict(one.split("=", 1) for one in options.set)
    for name in options.attacks:
        with running_members(1, options.port, settings, options.rollcall) as [member]:
            print(json.dumps(measure(name, member, options)), flush=True)


if __name__ == "__main__":
    main()
