"""Measure the speed of the HTTP API and the cost of a request, beside real Nacos 1.4 and r-nacos.

For every load it starts a node and the other servers again, because leftovers of one load slow the next; then three
members, and three of r-nacos. All are idle but the one under load. For each number of connections they take turns:
instances are registered, a run whose answers are all checked warms the server up, and a second run is measured. Prints
tables of medians: requests a second, p50 and p99 as wrk sees them, CPU time of a request (user and system of all
processes and threads; of all members of a cluster) and its ratios, bytes of an answer, and how many answers were bad.
Exit code 1 when Rollcall gave a bad answer, 2 when nothing could be measured.

    python -m scripts.bench.http --rnacos PATH --out http.json --plot docs/http.svg
    python -m scripts.bench.http --other ../before/.venv/bin/rollcall --peers none --connections 32
    python -m scripts.bench.http --peers none --places alone --variant "no gRPC:rollcall.rpc.enabled=false"
    python -m scripts.bench.http --modes beat,mixed --connections 32 --seconds 5 --peers none
"""

import argparse
import contextlib
import http.client
import importlib.util
import json
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.idle import cpu_s
from scripts.bench.load import MODES, LoadError, Mode, Wrk, fill, find_wrk
from scripts.bench.peers import (
    OTHER,
    OURS,
    CannotStart,
    Target,
    nacos,
    our_cluster,
    our_node,
    rnacos,
    rnacos_cluster,
)
from scripts.bench.report import (
    ALONE,
    CLUSTER,
    PLACES,
    Results,
    Row,
    Sample,
    machine,
    machine_line,
    overview,
    plot,
    tables,
)
from scripts.support.arguments import add_port, names_of

PEERS = ("nacos", "rnacos")
TAIL_S = 0.5
"""Time for work that a load causes later, such as replication: it belongs to the cost of the load."""
RUN_S_MAX = 10
"""A load of lists sends no beats, and an instance becomes unhealthy after 15 s without one."""
PORTS_APART = 200
CLUSTERS_APART = 50
VARIANTS_APART = 10
OTHER_HELP = "another release's rollcall command, measured beside ours in turns"
FAILURES = (LoadError, OSError, http.client.HTTPException)
"""Errors that a server under load may cause."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- measuring -------------------------------------------------------------------------------------


def sampled(target: Target, mode: Mode, wrk: Wrk, connections: int, seconds: int) -> Sample:
    """Return the figures of a load on the first address of a server, with the CPU time that it causes."""
    pids = target.pids()
    before_s = sum(map(cpu_s, pids))
    run = wrk.run(target.addresses[0], mode, connections, seconds, token=target.token)
    time.sleep(TAIL_S)
    return Sample(run, sum(map(cpu_s, pids)) - before_s)


def measure(target: Target, row: Row, wrk: Wrk, options: argparse.Namespace) -> None:
    """Measure one turn of a server, and add it to its row; a failed turn adds no figures."""
    try:
        fill(target.addresses, row.mode, target.token)
        row.wrong += wrk.run(target.addresses[0], row.mode, row.connections, options.warm_s, True, target.token).wrong
        sample = sampled(target, row.mode, wrk, row.connections, options.seconds)
    except FAILURES as error:
        row.failed += 1
        say(f"{row.mode.title}, {row.connections} connections: {target.name} fails: {error!r}")
        return
    row.samples.append(sample)
    say(
        f"{row.mode.title}, {row.connections} connections, {target.name}: {sample.req_s:,.0f}/s, "
        f"p99 {sample.run.p99_ms:.2f} ms, {sample.cpu_us:.1f} CPU-µs, {sample.bytes:,.0f} bytes, "
        f"bad {sample.bad + row.wrong}"
    )


def break_in(target: Target, mode: Mode, wrk: Wrk, options: argparse.Namespace) -> None:
    """Load a server for a while: this makes a Java virtual machine several times faster."""
    if not options.break_in_s:
        return
    try:
        fill(target.addresses, mode, target.token)
        wrk.run(target.addresses[0], mode, options.connections[0], options.break_in_s, token=target.token)
    except FAILURES as error:
        say(f"{target.name} fails before it is measured: {error!r}")


def measure_all(
    place: str, mode: Mode, targets: Sequence[Target], results: Results, wrk: Wrk, options: argparse.Namespace
) -> None:
    """Put one load on every server; each turn begins with another server."""
    say(f"== {PLACES[place]}, {mode.title}: {', '.join(target.name for target in targets)}")
    for target in targets:
        break_in(target, mode, wrk, options)
    for connections in options.connections:
        # Every server gets its row before the first measurement, so that tables keep their order.
        rows = [results.row(place, mode, connections, target.name) for target in targets]
        for turn in range(options.turns):
            first = turn % len(targets)
            ordered = list(zip(targets, rows, strict=True))
            for target, row in ordered[first:] + ordered[:first]:
                measure(target, row, wrk, options)


@contextlib.contextmanager
def lone_servers(options: argparse.Namespace, folder: Path) -> Iterator[list[Target]]:
    """Start our node and the other servers; say why a server cannot be started."""
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(our_node(options.port, folder))]
        if options.other is not None:
            port = options.port + PORTS_APART // 2
            targets.append(stack.enter_context(our_node(port, folder, options.other, OTHER)))
        for number, variant in enumerate(options.variant):
            port = options.port + PORTS_APART // 2 + VARIANTS_APART * (1 + number)
            node = our_node(port, folder, name=variant.name, settings=variant.settings)
            targets.append(stack.enter_context(node))
        starts = []
        if _is_wanted("rnacos", options):
            starts.append(("r-nacos", rnacos(options.rnacos, options.port + PORTS_APART, folder)))
        if "nacos" in options.peers:
            starts.append(("Nacos 1.4", nacos(options.port + 2 * PORTS_APART, folder)))
        yield targets + _started(starts, stack)


@contextlib.contextmanager
def clusters(options: argparse.Namespace, folder: Path) -> Iterator[list[Target]]:
    """Start three members of ours, and of the other servers that can be started."""
    port = options.port + 3 * PORTS_APART
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(our_cluster(port, folder))]
        if options.other is not None:
            targets.append(stack.enter_context(our_cluster(port + CLUSTERS_APART, folder, options.other, OTHER)))
        starts = []
        if _is_wanted("rnacos", options):
            starts.append(("r-nacos", rnacos_cluster(options.rnacos, port + 2 * CLUSTERS_APART, folder)))
        yield targets + _started(starts, stack)


def _is_wanted(peer: str, options: argparse.Namespace) -> bool:
    return peer in options.peers and options.rnacos is not None


def _started(
    starts: Sequence[tuple[str, contextlib.AbstractContextManager[Target]]], stack: contextlib.ExitStack
) -> list[Target]:
    """Start the other servers; say why a server cannot be started."""
    targets = []
    for name, start in starts:
        try:
            targets.append(stack.enter_context(start))
        except CannotStart as error:
            say(f"{name} is left out: {error}")
    return targets


def run(wrk: Wrk, options: argparse.Namespace) -> Results:
    """Start the requested servers again for each load, and measure them, one place after the other."""
    if "rnacos" in options.peers and options.rnacos is None:
        say("r-nacos is left out: --rnacos must name its program")
    results = Results(OURS)
    for place, servers in ((ALONE, lone_servers), (CLUSTER, clusters)):
        for mode in options.modes if place in options.places else ():
            with tempfile.TemporaryDirectory(prefix="rollcall-bench-") as name, servers(options, Path(name)) as targets:
                measure_all(place, mode, targets, results, wrk, options)
    return results


# --- the command -----------------------------------------------------------------------------------


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--modes", type=_modes, default=list(MODES.values()), help=f"of {','.join(MODES)} (all)")
    parser.add_argument("--connections", type=_counts, default=[32, 500], help="default 32,500")
    parser.add_argument("--places", type=names_of(PLACES), default=list(PLACES), help=f"of {','.join(PLACES)} (all)")
    parser.add_argument("--peers", type=names_of((*PEERS, "none")), default=list(PEERS), help="of nacos,rnacos or none")
    parser.add_argument("--rnacos", type=lambda text: Path(text).absolute(), metavar="PATH", help="r-nacos's program")
    parser.add_argument("--other", type=lambda text: Path(text).absolute(), metavar="PATH", help=OTHER_HELP)
    parser.add_argument(
        "--variant", type=_variant, action="append", default=[], metavar="NAME:KEY=VALUE,...",
        help="one more standalone node with these settings; if it requires a login, the load logs in; repeatable",
    )  # fmt: skip
    parser.add_argument("--seconds", type=int, default=6, help=f"of each measured run (6), at most {RUN_S_MAX}")
    parser.add_argument("--warm-s", type=int, default=2, help="of the run before each of them (2)")
    parser.add_argument("--break-in-s", type=int, default=3, help="seconds of a load before its first run (3)")
    parser.add_argument("--turns", type=int, default=3, help="turns from which the medians are taken (3)")
    parser.add_argument("--threads", type=int, default=1, help="of wrk (1)")
    parser.add_argument("--java", action="store_true", help="send all headers of the Java library")
    add_port(parser, 76)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all figures to this file as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the CPU times to this file, .svg or .png")
    options = parser.parse_args()
    if min(options.seconds, options.warm_s, options.turns, options.threads) < 1:
        parser.error("seconds, turns and threads are 1 or more")
    if options.seconds + options.warm_s > RUN_S_MAX:
        parser.error(f"--seconds and --warm-s are at most {RUN_S_MAX} together, or instances would expire")
    if min(options.connections) < options.threads:
        parser.error("wrk needs a connection for each of its threads")
    if options.plot is not None and options.plot.suffix not in (".svg", ".png"):
        parser.error("a plot is an .svg or a .png")
    if options.plot is not None and importlib.util.find_spec("matplotlib") is None:
        parser.error("a plot needs matplotlib: install the extra `dev`")
    if lost := [path for path in (options.out, options.plot) if path is not None and not path.parent.is_dir()]:
        parser.error(f"the folder for {lost[0]} does not exist")
    return options


@dataclass(frozen=True, slots=True)
class Variant:
    """A node of ours with settings of its own."""

    name: str
    settings: dict[str, str]


def _variant(text: str) -> Variant:
    name, _, pairs = text.partition(":")
    settings = dict(pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)
    if not name or not settings:
        raise argparse.ArgumentTypeError("a name, a colon, and comma-separated settings KEY=VALUE")
    return Variant(name, settings)


def _modes(text: str) -> list[Mode]:
    return [MODES[word] for word in names_of(MODES)(text)]


def _counts(text: str) -> list[int]:
    if not all(word.isdecimal() and int(word) for word in text.split(",")):
        raise argparse.ArgumentTypeError("comma-separated numbers")
    return [int(word) for word in text.split(",")]


def main() -> int:
    """Measure and print."""
    options = _options()
    # Started servers are stopped on SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = run(Wrk(find_wrk(), options.threads, options.java), options)
    except (LoadError, CannotStart) as error:
        say(str(error))
        return 2
    found = machine()
    print(machine_line(found), overview(results), tables(results), sep="\n\n", flush=True)
    if options.out is not None:
        said = {"machine": found, "command": shlex.join(sys.argv), "rows": results.as_list()}
        options.out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None and results.rows:
        plot(results, options.plot)
    if not results.rows:
        return 2
    return 1 if results.bad_of_ours else 0


if __name__ == "__main__":
    sys.exit(main())
