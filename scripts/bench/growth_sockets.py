"""The part ``sockets`` of ``growth.py``: the cost of a request on a fuller node, under a load from wrk."""

import contextlib
import http.client
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.bench.idle import cpu_s
from scripts.bench.load import LoadError, Mode, Wrk, find_wrk
from scripts.bench.peers import Target, our_node
from scripts.support.tables import table
from tests.support.processes import free_ports

HOSTS = 10
KINDS = ("register", "beat", "list")
CONNECTIONS = 32
FILL_S = 10
"""Length of a run that registers 100,000 instances; it is repeated until all are registered."""
FILLS_MAX = 12
TAIL_S = 0.3
CALL_TIMEOUT_S = 10.0


@dataclass
class SocketRow:
    stored: int
    best_us: dict[str, float] = field(default_factory=dict)
    """CPU-us per request of each kind, the best run."""


def _call(target: Target, method: str, path: str) -> bytes:
    host, _, port = target.addresses[0].rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, f"/nacos/v1/ns{path}")
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != 200:
        raise LoadError(f"{method} {path} is answered {answer.status} {body[:200]!r}")
    return body


def _mode(kind: str, stored: int) -> Mode:
    return Mode(kind, kind, kind, services=stored // HOSTS, hosts=HOSTS)


def _fill(target: Target, wrk: Wrk, stored: int) -> None:
    """Register all instances. None expires without beats, because only some loads send beats."""
    _call(target, "PUT", "/operator/switches?entry=check&value=false")
    for _ in range(FILLS_MAX):
        wrk.run(target.addresses[0], _mode("register", stored), CONNECTIONS, max(FILL_S * stored // 100_000, 1))
        if json.loads(_call(target, "GET", "/operator/metrics"))["instanceCount"] == stored:
            return
    raise LoadError(f"{target.addresses[0]} does not hold {stored:,} instances after {FILLS_MAX} runs")


@contextlib.contextmanager
def _nodes(count: int) -> Iterator[list[Target]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield [stack.enter_context(our_node(port, folder)) for port in free_ports(count)]


def measure_sockets(stored_instances: Sequence[int], seconds: int, turns: int) -> list[SocketRow]:
    """Measure separate nodes in turns.

    Raises:
        LoadError: wrk is missing, or an answer was wrong.
    """
    wrk = Wrk(find_wrk())
    rows = [SocketRow(stored) for stored in stored_instances]
    with _nodes(len(rows)) as nodes:
        for row, node in zip(rows, nodes, strict=True):
            _fill(node, wrk, row.stored)
        for kind in KINDS:
            for turn in range(turns + 1):
                for row, node in zip(rows, nodes, strict=True):
                    before_s = sum(map(cpu_s, node.pids()))
                    run = wrk.run(node.addresses[0], _mode(kind, row.stored), CONNECTIONS, seconds)
                    time.sleep(TAIL_S)
                    took_us = (sum(map(cpu_s, node.pids())) - before_s) / run.requests * 1e6
                    if run.refused or run.errors:
                        raise LoadError(f"{run.refused + run.errors} calls of {kind} failed")
                    if turn:  # the first run is a warm-up: it encodes the lists
                        row.best_us[kind] = min(took_us, row.best_us.get(kind, took_us))
    return rows


def print_sockets(rows: Sequence[SocketRow]) -> None:
    first_us = rows[0].best_us
    lines = (
        [
            f"held {row.stored:,}",
            *(f"{row.best_us[kind]:.1f} ({row.best_us[kind] / first_us[kind]:.2f})" for kind in KINDS),
        ]
        for row in rows
    )
    print(table(["CPU-us, with sockets", *KINDS], lines))
