"""Measure the cost of gRPC calls and connections, beside r-nacos, real Nacos 2.3.1, and a bare grpc.aio server.

The servers take turns: one is measured while the others idle. One load program, in Go on grpc-go, behaves like the
SDKs. CPU is the user and system time of all processes of a server.

calls: 32 connections, one call at a time on each. Churn (alternately a new instance and its removal), batches of 100
instances with other metadata, health checks, queries, and unchanged registrations. Each kind has new processes: one
node, and then three members, of which the first gets the calls and the CPU of all is added up. Each runs with a
different grpc-timeout per call, as the SDK for Go sends it, and without any, as that for Java. Medians of the turns:
CPU-us of a call and its ratio to ours, p50 and p99 as the load sees them.
crowd: many connections that subscribe to one service, each with a health check every 5 s, at a newly started server:
kB of memory (PSS) a connection at first and after a while, percent of a core while all are idle, and for one change
the time until the last push, the time until the last answer was sent, and CPU. Medians of the changes.
fanout: one change of a service with 1,000 gRPC subscribers, and 200 over UDP where a server pushes to them, while
other services get new instances and lose them, 500 calls a second: the time until the last is told, and its CPU beyond
that of these calls alone. Medians of the changes.
hold: the failures of many connections that stay open for some minutes. Node and load need a descriptor for each: a
hard limit of 20,000 allows 17,200 connections.

    python -m scripts.bench.rpc_cost --rnacos PATH
    python -m scripts.bench.rpc_cost --parts calls --kinds churn,batch --places cluster --peers rnacos --rnacos PATH
    python -m scripts.bench.rpc_cost --parts crowd --connections 5000 --peers none
    python -m scripts.bench.rpc_cost --parts hold --connections 20000 --minutes 10 --peers none
"""

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from scripts.bench.idle import cpu_s, pss_mb
from scripts.bench.peers import OTHER, OURS, CannotStart, Target, nacos, our_cluster, our_node, rnacos, rnacos_cluster
from scripts.bench.push import TELL_TIMEOUT_S, Http, Listener, seconds_until_told
from scripts.bench.report import ALONE, PLACES
from scripts.bench.rpc_program import RpcLoad, build
from scripts.support.arguments import add_port, names_of

PARTS = ["calls", "crowd", "fanout", "hold"]
PEERS = ["rnacos", "nacos", "echo"]
KINDS = ("churn", "batch", "health", "query", "register")
LIMITS = ("none", "changing")
"""Deadlines of the calls."""
ECHO = "grpc.aio echo"
CALLERS = 32
SDK_OFFSET = 1_000
PORTS_APART = 30
WARM_CALLS = 60_000
"""Number of calls of each kind that warm up Java's compilers."""
BATCHED = 20
"""A batch counts as so many calls."""
HEALTH_S = 5
IDLE_S = 20.0
CHANGES = 3
SETTLE_S = 2.0
TAIL_S = 0.5
"""Time for the work that calls cause later, such as replication."""
FANOUT_RPC, FANOUT_UDP, FANOUT_CHANGES = 1_000, 200, 15
CHURN_CALLERS, CHURN_PER_S, CHURN_S = 20, 500, 20
FANOUT_GAP_S = 1.0
SUBSCRIBED = "load"
"""The service to which the load program's connections subscribe."""
FILES_SPARE = 500

Start = Callable[[int, Path], AbstractContextManager[Target]]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def echo(port: int, folder: Path) -> Iterator[Target]:
    """A bare server with the same offset to its gRPC port as the others."""
    command = [sys.executable, "-m", "scripts.bench.echo_server", str(port + SDK_OFFSET)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise CannotStart("the echo server does not start")
        yield Target(ECHO, (f"127.0.0.1:{port}",), lambda: [process.pid])
    finally:
        process.kill()
        process.communicate()


def starts_of(options: argparse.Namespace, place: str = ALONE) -> Mapping[str, Start]:
    """Return the function that starts each requested server at a place, ours first."""
    node, theirs = (our_node, rnacos) if place == ALONE else (our_cluster, rnacos_cluster)
    starts: dict[str, Start] = {"ours": node}
    if options.other is not None:
        starts["other"] = lambda port, folder: node(port, folder, options.other, OTHER)
    if "rnacos" in options.peers and options.rnacos is not None:
        starts["rnacos"] = lambda port, folder: theirs(options.rnacos, port, folder)
    if "nacos" in options.peers and place == ALONE:
        starts["nacos"] = lambda port, folder: nacos(port, folder, "2")
    if "echo" in options.peers and place == ALONE:
        starts["echo"] = echo
    return starts


def port_of(target: Target) -> str:
    host, _, port = target.addresses[0].rpartition(":")
    return f"{host}:{int(port) + SDK_OFFSET}"


def cpu_of(target: Target) -> float:
    return sum(map(cpu_s, target.pids()))


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median([row[name] for row in rows]), 3) for name in rows[0]}


def once(target: Target, load: RpcLoad, kind: str, count: int, limit: str) -> dict[str, float]:
    """Make calls; return the cost of each."""
    before_s = cpu_of(target)
    done = load.do("calls", kind, count, limit)
    time.sleep(TAIL_S)
    used_s = cpu_of(target) - before_s
    if done["errors"]:
        raise CannotStart(f"{target.name}: {done['errors']} of {done['calls']} calls of {kind} failed")
    return {"cpu_us": used_s / done["calls"] * 1e6, "p50_us": done["p50_us"], "p99_us": done["p99_us"]}


def calls(kind: str, targets: Sequence[Target], program: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The costs of calls of a kind, by limit of time and server."""
    found: dict[str, Any] = {}
    share = BATCHED if kind == "batch" else 1
    with ExitStack() as stack:
        loads = []
        for target in targets:
            load = RpcLoad(program, [port_of(target)], CALLERS, *(["-bare"] if target.name == ECHO else []))
            stack.callback(load.close)
            loads.append((target, load))
            load.do("calls", kind, options.warm_calls // share, LIMITS[0])
        for limit in LIMITS:
            rows: dict[str, list[dict[str, float]]] = {target.name: [] for target in targets}
            for turn in range(options.turns):
                first = turn % len(loads)
                for target, load in loads[first:] + loads[:first]:
                    rows[target.name].append(once(target, load, kind, options.calls // share, limit))
            found[f"grpc-timeout {limit}"] = costs = {name: medians(some) for name, some in rows.items()}
            for name in costs.keys() - {OURS}:
                costs[name]["ours_to_it"] = round(costs[OURS]["cpu_us"] / costs[name]["cpu_us"], 2)
            say(f"{kind}, {limit}: {costs}")
    return found


def all_calls(program: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The costs of calls by place and kind; the servers are new for each kind."""
    found: dict[str, Any] = {}
    for place in options.places:
        for kind in options.kinds:
            with ExitStack() as stack:
                targets = []
                for number, (which, start) in enumerate(starts_of(options, place).items()):
                    if which == "echo" and kind != "health":
                        continue
                    own = folder / f"{place}-{kind}-{which}"
                    own.mkdir()
                    try:
                        targets.append(stack.enter_context(start(options.port + PORTS_APART * number, own)))
                    except CannotStart as error:
                        if which == "ours":
                            raise
                        say(f"{which} is left out: {error}")
                found[f"{PLACES[place]}: {kind}"] = calls(kind, targets, program, options)
    return found


def crowd(target: Target, program: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the cost of many connections at a newly started server."""
    time.sleep(SETTLE_S)
    before_mb = sum(map(pss_mb, target.pids()))
    count: int = options.connections

    def kb_each() -> float:
        return round((sum(map(pss_mb, target.pids())) - before_mb) * 1024 / count, 1)

    load = RpcLoad(program, [port_of(target)], count, "-subscribe", wide=True)
    try:
        time.sleep(SETTLE_S)
        found: dict[str, Any] = {"connections": count, "kb_each_at_first": kb_each()}
        load.do("health", HEALTH_S)
        time.sleep(HEALTH_S)
        used_s, begun_s = cpu_of(target), time.perf_counter()
        time.sleep(IDLE_S)
        found["idle_cpu_percent"] = round((cpu_of(target) - used_s) / (time.perf_counter() - begun_s) * 100, 1)
        load.do("health", 0)
        found["kb_each"], rows = kb_each(), []
        for number in range(CHANGES):
            used_s = cpu_of(target)
            told = load.do("change", f"c{number}")
            time.sleep(SETTLE_S / 2)  # until the last answers are read
            rows.append(
                {
                    "last_told_ms": told["max_ms"],
                    "last_answer_ms": told["last_answer_ms"],
                    "cpu_ms": (cpu_of(target) - used_s) * 1e3,
                }
            )
        return {**found, "one_change": medians(rows), "failed": load.do("counts")}
    finally:
        load.close()


def fanout(target: Target, program: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure changes of a service with many subscribers, while other services change all the time."""
    with ExitStack() as stack:
        load = RpcLoad(program, [port_of(target)], FANOUT_RPC, "-subscribe", wide=True)
        stack.callback(load.close)
        churn = RpcLoad(program, [port_of(target)], CHURN_CALLERS)
        stack.callback(churn.close)
        listeners = [Listener("127.0.0.1") for _ in range(FANOUT_UDP)]
        for one in listeners:
            stack.callback(one.socket.close)
        try:
            for one in listeners:
                one.subscribe(Http(target.addresses[0]), SUBSCRIBED)
        except RuntimeError as error:
            say(f"{target.name} pushes nothing over UDP: {error}")
            listeners = []
        pool = stack.enter_context(ThreadPoolExecutor(2))
        time.sleep(SETTLE_S)

        def churned(seconds: int) -> tuple[dict[str, Any], float]:
            used_s = cpu_of(target)
            return churn.do("calls", "churn", CHURN_PER_S * seconds, LIMITS[0], CHURN_PER_S), cpu_of(target) - used_s

        alone, alone_s = churned(CHURN_S)
        beside = pool.submit(churned, CHURN_S)
        rows = []
        for number in range(FANOUT_CHANGES):
            mark, begun_s = f"f{number}", time.perf_counter()
            udp = pool.submit(seconds_until_told, listeners, f'\\"n\\":\\"{mark}\\"'.encode(), begun_s)
            told = load.do("change", mark)
            last_s = [TELL_TIMEOUT_S if one is None else one for one in udp.result()]
            rows.append({"last_told_ms": told["max_ms"], "last_udp_told_ms": max(last_s, default=0.0) * 1e3})
            time.sleep(max(begun_s + FANOUT_GAP_S - time.perf_counter(), 0))
        with_changes, used_s = beside.result()
        return {
            "subscribers": FANOUT_RPC,
            "udp_subscribers": len(listeners),
            "one_change": medians(rows) | {"cpu_ms": round((used_s - alone_s) / FANOUT_CHANGES * 1e3, 1)},
            "churn_p99_us": {"alone": alone["p99_us"], "with_changes": with_changes["p99_us"]},
            "failed": alone["errors"] + with_changes["errors"],
        }


def hold(target: Target, program: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure CPU and failures while many connections stay open, each with its health checks."""
    load = RpcLoad(program, [port_of(target)], options.connections, "-subscribe", wide=True)
    try:
        load.do("health", HEALTH_S)
        used_s, begun_s = cpu_of(target), time.perf_counter()
        time.sleep(options.minutes * 60)
        percent = round((cpu_of(target) - used_s) / (time.perf_counter() - begun_s) * 100, 1)
        load.do("health", 0)
        return {"minutes": options.minutes, "cpu_percent": percent, **load.do("change", "last"), **load.do("counts")}
    finally:
        load.close()


def run(options: argparse.Namespace) -> dict[str, Any]:
    program, starts, found = build(), starts_of(options), dict[str, Any]()
    with tempfile.TemporaryDirectory(prefix="rollcall-bench-") as name:
        if "calls" in options.parts:
            found["calls"] = all_calls(program, Path(name), options)
        for part, work in (("crowd", crowd), ("fanout", fanout), ("hold", hold)):
            for number, (which, start) in enumerate(starts.items()):
                if part not in options.parts or which == "echo":
                    continue
                folder = Path(name) / f"{part}-{which}"
                folder.mkdir()
                try:
                    with start(options.port + PORTS_APART * number, folder) as target:
                        found[f"{part}, {target.name}"] = one = work(target, program, options)
                        say(f"{part}, {target.name}: {one}")
                except CannotStart as error:
                    say(f"{which} is left out: {error}")
    return found


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", type=names_of(PARTS), default=PARTS[:2], help="of calls,crowd,fanout,hold (calls,crowd)"
    )
    parser.add_argument(
        "--peers", type=names_of([*PEERS, "none"]), default=PEERS, help="of rnacos,nacos,echo,none (all)"
    )
    parser.add_argument("--kinds", type=names_of(KINDS), default=KINDS, help=f"of calls: {','.join(KINDS)} (all)")
    parser.add_argument("--places", type=names_of(PLACES), default=PLACES, help=f"of calls: {','.join(PLACES)} (all)")
    parser.add_argument("--rnacos", type=Path, help="the program of r-nacos; without it, it is left out")
    parser.add_argument("--other", type=Path, help="another release's rollcall command, measured beside ours in turns")
    parser.add_argument("--connections", type=int, default=5_000, help="of a crowd (5000)")
    parser.add_argument(
        "--calls",
        type=int,
        default=16_000,
        help=f"of each kind and turn, over all connections (16000; a {BATCHED}th in batches)",
    )
    parser.add_argument("--warm-calls", type=int, default=WARM_CALLS, help=f"warm-up calls of each kind ({WARM_CALLS})")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes for which connections stay open (10)")
    add_port(parser, 15)
    options = parser.parse_args()
    # The servers and the load inherit this limit.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(3 * options.connections + FILES_SPARE, hard), hard))
    try:
        print(json.dumps(run(options), indent=1))
    except CannotStart as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
