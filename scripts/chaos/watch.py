"""Check that the watch reports no false findings on busy members, and that its memory does not grow.

Starts three members with 2,000 instances, then registers and deregisters at a steady rate through all of them while it
runs one round of the watch after the other. Every service reported as different is a false finding. Prints one JSON
line; exit code 1 after a false finding, or when a round had no verdict.

    python -m scripts.chaos.watch --rounds 100 --rate 200 --gap 2s
"""

import argparse
import json
import sys
import time
from pathlib import Path
from threading import Event

from app.rows.summary import Verdict
from app.tools.audit.client.access import Access, duration_s
from app.tools.audit.watch.rounds import RoundOutcome, RoundPlan, run_round
from scripts.chaos.audit import Load, fill
from scripts.support.arguments import add_port
from scripts.support.member_processes import running_members

WARM_ROUNDS = 20
"""Rounds after which memory is measured for the first time."""


def rss_kb() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--rate", type=float, default=200.0, help="registrations and deregistrations a second (200)")
    parser.add_argument("--gap", type=duration_s, default=2.0, help="time between the readings of a round (2s)")
    add_port(parser)
    options = parser.parse_args()
    outcomes: list[RoundOutcome] = []
    memory_kb = []
    with running_members(3, options.port) as members:
        fill(members)
        plan = RoundPlan(Access(), options.gap)
        addresses = [member.address for member in members]
        begun_s = time.monotonic()
        with Load(members, options.rate) as load:
            for _ in range(options.rounds):
                outcomes.append(run_round(plan, addresses, Event()))
                memory_kb.append(rss_kb())
        took_s = time.monotonic() - begun_s
    wrong = [one.summary for one in outcomes if one.summary.verdict is not Verdict.AGREED]
    for summary in wrong[:5]:
        print(summary.line, *summary.examples[:2], file=sys.stderr)
    report = {
        "rounds": len(outcomes),
        "not_agreed": len(wrong),
        "rounds_with_services_in_motion": sum(one.in_motion > 0 for one in outcomes),
        "services_in_motion": sum(one.in_motion for one in outcomes),
        "writes_per_s": round(sum(load.calls) / took_s, 1),
        "refused": sum(load.refused),
        "rss_mb": [round(memory_kb[place] / 1024, 1) for place in (min(WARM_ROUNDS, len(memory_kb) - 1), -1)],
    }
    print(json.dumps(report))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
