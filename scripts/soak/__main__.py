"""Soak three members under load, restart them one by one, kill one; check for leaks, lost and stale instances.

10,000 instances beat, clients make twenty other changes a second, and there are 200 subscribers. All lists of all
members are read repeatedly: each must contain all instances that beat and no expired one, and none may be empty. Memory
and descriptors are sampled, and must not rise after the last disturbance. Writes JSON and a plot; exit code 1 on
a breach.

    python -m scripts.soak --minutes 5                         # a trial: too short to judge slopes
    python -m scripts.soak --minutes 120 --tls --auth --out docs/soak
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.soak.checks import Checked, Checker
from scripts.soak.plot import draw
from scripts.soak.slopes import member_slopes
from scripts.soak.soaked import SERVICES, Access
from scripts.soak.soaking import SoakedCluster
from scripts.support.arguments import add_port, add_rollcall
from scripts.support.load_process import LoadProcess
from scripts.support.member_processes import drill_folder
from scripts.support.secured_members import auth_settings, certificate, tls_settings
from scripts.support.verdicts import Measured, table

MEMBERS, PORT_STEP = 3, 10
PORT = 27_500
CHECK_S = 20.0
RESTART_AT, KILL_AT = 0.25, 0.45
"""Shares of the whole time."""
WARM_PART, WARM_S_MAX = 0.1, 600.0
"""Share of the whole time after the last disturbance that slopes leave out, because memory settles."""
JUDGED_S = 1_800.0
"""Slopes over less time are shown, but not judged."""
RSS_MB_PER_HOUR, DESCRIPTORS_PER_HOUR = 4.0, 2.0
ADMINISTRATOR = "nacos"
TRACEBACK = "Traceback (most recent call last)"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--churn", type=float, default=20.0, help="changes a second (20)")
    parser.add_argument("--subscribers", type=int, default=200)
    parser.add_argument("--tls", action="store_true", help="TLS between members and for clients, over HTTP and gRPC")
    parser.add_argument("--auth", action="store_true", help="require users, and an identity of members")
    add_port(parser)
    parser.add_argument("--out", type=Path, default=Path("soak"), help="path of the results, without .json and .svg")
    add_rollcall(parser)
    return parser.parse_args()


@contextmanager
def checking(checker: Checker) -> Iterator[Checked]:
    """Check lists in a thread with its own loop until the block ends; a failure of the checks is raised there."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(checker.run(CHECK_S))
    with ThreadPoolExecutor(1, thread_name_prefix="soak-checks") as pool:
        running = pool.submit(loop.run_until_complete, task)
        try:
            yield checker.found
        finally:
            loop.call_soon_threadsafe(task.cancel)
        with suppress(asyncio.CancelledError):
            running.result()


def soak(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], SoakedCluster]:
    """Run the soak; return all findings, and the members with their samples."""
    ports = [options.port + PORT_STEP * number for number in range(MEMBERS)]
    settings, ca = {"rollcall.log.level": "INFO"}, ""
    if options.tls:
        chain, key = certificate(folder)
        settings, ca = settings | tls_settings(chain, key), str(chain)
    if options.auth:
        settings |= auth_settings()
    cluster = SoakedCluster(ports, folder, settings, options.rollcall, ca)
    loads: list[LoadProcess] = []
    try:
        cluster.start()
        password = cluster.make_first_user() if options.auth else ""
        access = Access(tuple(ports), ca, ADMINISTRATOR if options.auth else "", password)
        access_file = folder / "access.json"
        access.write(access_file)
        for module, words in (
            ("scripts.soak.beats", (options.instances, options.churn)),
            ("scripts.soak.subscribers", (options.subscribers,)),
        ):
            loads.append(LoadProcess(module, str(access_file), *map(str, words)))
            loads[-1].wait_ready()
        cluster.begin()
        cluster.note(f"{options.instances} instances beat, {options.subscribers} subscribers listen")
        for load in loads:
            load.go()
        checker = Checker(access, options.instances)
        cluster.on_event = checker.disturbed
        with checking(checker) as checked:
            settled_s = _story(cluster, options.minutes * 60)
        beats, seen = (load.halt() for load in loads)
    finally:
        for load in loads:
            load.kill()
        cluster.end()
    return {
        "settings": {
            name: getattr(options, name) for name in ("minutes", "instances", "churn", "subscribers", "tls", "auth")
        },
        "services": SERVICES,
        "events": cluster.events,
        "beats": beats,
        "subscribers": seen,
        "lists": {
            "read": checked.lists,
            "refused": dict(checked.refused),
            "absent": asdict(checked.absent) | {"instances": sorted(checked.absent.instances)[:20], "_since_s": None},
            "unhealthy": asdict(checked.unhealthy) | {"instances": len(checked.unhealthy.instances), "_since_s": None},
            "empty": checked.empty,
            "ghosts": len(checked.ghosts),
            "ghost_examples": checked.ghost_examples,
        },
        "settled_s": settled_s,
        "slopes": member_slopes(cluster.samples, settled_s),
        "tracebacks": sum(member.log.read_text(errors="replace").count(TRACEBACK) for member in cluster.members),
        "samples": [asdict(one) for one in cluster.samples],
    }, cluster


def _story(cluster: SoakedCluster, whole_s: float) -> float:
    """Make a rolling restart and a kill, then wait; return the time after which memory has settled."""
    cluster.wait_until(whole_s * RESTART_AT)
    cluster.restart_all()
    cluster.wait_until(whole_s * KILL_AT)
    cluster.kill(1)
    settled_s = cluster.at_s() + min(whole_s * WARM_PART, WARM_S_MAX)
    cluster.wait_until(max(whole_s, settled_s))
    return settled_s


def verdict(found: dict[str, Any]) -> list[Measured]:
    """Return each measurement beside its limit."""
    lists, beats, seen = found["lists"], found["beats"], found["subscribers"]
    refused = sum(count for what, count in beats["outcomes"].items() if "lost" in what or "refused" in what)
    rows = [
        Measured("lists read of all members", lists["read"]),
        Measured("lists that lacked an instance that beats", lists["absent"]["answers"], 0),
        Measured("the longest absence of one (s)", round(lists["absent"]["longest_s"], 1)),
        Measured("lists that showed one as unhealthy", lists["unhealthy"]["answers"], 0),
        Measured("instances listed after their expiry", lists["ghosts"], 0),
        Measured("empty lists, answers and pushes", lists["empty"] + seen["seen"].get("empty", 0), 0),
        Measured("beats taken", beats["outcomes"].get("beats taken", 0)),
        Measured("beats and changes that no member took", refused, 0),
        Measured("pushes to subscribers", seen["seen"].get("pushes", 0)),
        Measured("tracebacks in logs", found["tracebacks"], 0),
        Measured("faults of the load", len(beats["faults"]) + len(seen["faults"]), 0),
    ]
    judged = found["settings"]["minutes"] * 60 - found["settled_s"] >= JUDGED_S
    for member, lines in found["slopes"].items():
        for name, most in (("rss_mb", RSS_MB_PER_HOUR), ("descriptors", DESCRIPTORS_PER_HOUR)):
            line = lines.get(name)
            if line:
                what = f"{member} {name} an hour: {line['per_hour']} +- {line['error']}, at least"
                rows.append(Measured(what, line["surely"], most if judged else None))
    return rows


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the members, too
    found, cluster = soak(options, drill_folder(None))
    rows = verdict(found)
    found["verdict"] = [asdict(row) for row in rows]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kinds = (
        " and ".join(kind for kind, on in (("TLS", options.tls), ("users", options.auth)) if on)
        or "neither TLS nor users"
    )
    title = f"{options.instances} instances, {options.churn:g} changes/s, {options.subscribers} subscribers, {kinds}"
    draw(cluster.samples, cluster.events, title, options.out.with_suffix(".svg"))
    print(table(rows))
    return int(any(row.is_breach for row in rows))


if __name__ == "__main__":
    sys.exit(main())
