"""Does a node stand what is done to its sockets, and do beats beside it notice?

A standalone node takes steady beats over kept connections. Round after round, a crowd of idle connections is opened, as
many as the node takes and then more, while others send random bytes, requests with bytes changed, garbage behind good
requests, parts of requests and then a reset or nothing more, too much of everything, and thousands of requests whose
answers they do not read. Clients of each kind that take their time stay until the node ends their connections.
Prints a summary as JSON; exit code 1 when a beat was not answered, an attack was answered wrongly or not ended, the
node was not the same process at the end, had more descriptors than before, grew from the second round to the last, or
wrote a stack trace into its log.

    python -m scripts.chaos.sockets --seconds 300 --connections 10000 --seed 7
"""

import argparse
import asyncio
import collections
import contextlib
import http.client
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from scripts.chaos.slow_clients import CUT
from scripts.chaos.socket_attacks import QUICK, at_most
from scripts.support.beat_load import Beaten, Figures, InstanceLoad, beating, figures
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess
from scripts.support.raw_sockets import HOSTS, LARGE_SERVICE, Raw, Target, Wrong, connect, raise_own_limit

LOAD = InstanceLoad(services=30, hosts=10)
BEATS_RATE = 200
ROOM = 500
"""Connections that the node takes beside the crowd."""
OVER = 300
"""Connections beyond what it takes."""
FILES_SPARE = 1_000
"""Descriptors for all else, here and in the node."""
OPENED_AT_ONCE = 100
ATTACKERS = 32
SLOW_EACH = 5
CALM_S = 5.0
WARM_S = 3.0
ROUND_S = 15.0
ROUNDS_MIN = 3
SETTLED_S = 90.0
PATIENCE_S = 90.0
"""On top of what the node has with a client."""
LIMIT_MS = 50.0
GROWTH_MB_MAX = 16.0
CALL_TIMEOUT_S = 30.0
POLL_S = 0.2
NICE = 10
WRONG_KEPT = 20
PATIENT = json.dumps({"preserved.heart.beat.timeout": "86400000", "preserved.ip.delete.timeout": "86400000"})


class LimitedNode(MemberProcess):
    """A standalone node that takes so many connections, and the call that watches it, on a kept one."""

    def __init__(self, port: int, folder: Path, connections_max: int) -> None:
        limit = {"GUNICORN_CMD_ARGS": f"--worker-connections {connections_max}"}
        super().__init__(port, folder, settings={"nacos.standalone": "true", **limit})
        self._kept = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_TIMEOUT_S)

    def call(self, method: str, path: str, **parameters: object) -> bytes:
        self._kept.request(method, f"{CONTEXT_PATH}{path}?{urlencode(parameters)}")
        answer = self._kept.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Wrong(f"{method} {path} is answered {answer.status} {body[:200]!r}")
        return body

    def register(self) -> None:
        """Have what beats, and a service whose list is long."""
        for host in range(HOSTS):
            ip = f"10.70.0.{host + 1}"
            self.call("POST", "/v1/ns/instance", serviceName=LARGE_SERVICE, ip=ip, port=80, metadata=PATIENT)
        for service, ip in LOAD.instances():
            self.call("POST", "/v1/ns/instance", serviceName=service, ip=ip, port=8080)

    def metrics(self) -> dict[str, Any]:
        counters: dict[str, Any] = json.loads(self.call("GET", "/v1/ns/operator/metrics"))
        return counters

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pids()[-1]}/fd"))

    def memory_mb(self) -> float:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{self.pids()[-1]}/status").read_text().splitlines())
        return round(int(fields["VmRSS"].split()[0]) / 1_024, 1)

    def disconnect(self) -> None:
        self._kept.close()


@dataclass
class Seen:
    """What came of it all."""

    ended: collections.Counter[str] = field(default_factory=collections.Counter)
    """By attack and how it ended."""
    cut_s: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    """After how long clients that take their time were cut."""
    wrong: list[str] = field(default_factory=list)
    rounds: list[dict[str, float]] = field(default_factory=list)


class Drill:
    """The attacks on one node."""

    def __init__(self, node: LimitedNode, options: argparse.Namespace) -> None:
        self._node = node
        self._options = options
        self._target = Target.at(node.address)
        self.seen = Seen()

    async def run(self) -> None:
        """Attack for as long as was asked for, and until every patience of the node has ended."""
        await self._round(-1, crowd=100, seconds=WARM_S)
        begun_s = time.monotonic()
        descriptors = self._node.descriptors()
        cuts = [
            asyncio.create_task(self._cut(kind, number)) for kind in CUT for number in range(self._options.slow_each)
        ]
        number = 0
        while number < ROUNDS_MIN or time.monotonic() - begun_s < self._options.seconds:
            await self._round(number, self._options.connections, ROUND_S)
            number += 1
        await asyncio.gather(*cuts)
        if not await self._until(lambda: self._node.descriptors() <= descriptors):
            self.seen.wrong.append(f"{descriptors} descriptors before, {self._node.descriptors()} at the end")

    async def _until(self, check: Callable[[], bool]) -> bool:
        deadline_s = time.monotonic() + SETTLED_S
        while not check():
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def _round(self, number: int, crowd: int, seconds: float) -> None:
        """One round; the connections of clients that take their time go on beside it."""
        kept = self._node.metrics()["connections"]
        opened = await self._open(crowd)
        end_s = time.monotonic() + seconds
        await asyncio.gather(*(self._attack(number, attacker, end_s) for attacker in range(ATTACKERS)))
        refused = await self._open_too_many(opened) if number >= 0 else 0
        for turn, raw in enumerate(opened):
            raw.close(reset=turn % 2 == 0)
        if not await self._until(lambda: self._node.metrics()["connections"] <= kept):
            self.seen.wrong.append(f"round {number}: connections stay: {kept} before, {self._node.metrics()}")
        self.seen.rounds.append({"opened": len(opened), "refused": refused, "memory_mb": self._node.memory_mb()})

    async def _open(self, count: int) -> list[Raw]:
        """Open connections that do nothing."""
        opened: list[Raw] = []
        while len(opened) < count:
            some = min(OPENED_AT_ONCE, count - len(opened))
            opened += await asyncio.gather(*(connect(self._target) for _ in range(some)))
        return opened

    async def _open_too_many(self, opened: list[Raw]) -> int:
        """Open more connections than the node takes; return how many it refused."""
        before = self._node.metrics()["connectionsRefused"]
        opened += await self._open(ROOM + OVER)
        if not await self._until(lambda: self._node.metrics()["connectionsRefused"] > before):
            self.seen.wrong.append(f"{len(opened)} connections are open, and none was refused")
        return int(self._node.metrics()["connectionsRefused"] - before)

    async def _attack(self, number: int, attacker: int, end_s: float) -> None:
        rng = random.Random(f"{self._options.seed} {number} {attacker}")
        while time.monotonic() < end_s:
            attack = rng.choice(QUICK)
            try:
                ended = await at_most(attack, self._target, rng)
            except Wrong as error:
                self._note(f"round {number}: {error}")
                continue
            self.seen.ended[f"{attack.__name__}: {ended}"] += 1

    async def _cut(self, kind: str, number: int) -> None:
        """One client that takes its time, until the node ends its connection."""
        client, patience_s = CUT[kind]
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(patience_s + PATIENCE_S):
                await client(self._target, random.Random(f"{self._options.seed} {kind} {number}"))
        except TimeoutError:
            self._note(f"{kind}: not ended by the node after {patience_s + PATIENCE_S} s")
        except (Wrong, ConnectionError) as error:
            self._note(f"{kind}: {error!r}")
        else:
            self.seen.cut_s[kind].append(round(time.monotonic() - begun_s, 1))

    def _note(self, text: str) -> None:
        if len(self.seen.wrong) < WRONG_KEPT:
            self.seen.wrong.append(text)


def complaints(seen: Seen, node: LimitedNode, pids: list[int], beaten: Beaten, beside: Figures) -> list[str]:
    """All that is wrong after it."""
    wrong = [*seen.wrong, *(f"{count} beats: {text}" for text, count in beaten.failures.items())]
    if node.pids() != pids:
        wrong.append(f"the processes were {pids}, and are {node.pids()}")
    if "Traceback (most recent call last)" in node.log.read_text(errors="replace"):
        wrong.append(f"stack traces in {node.log}")
    grown_mb = seen.rounds[-1]["memory_mb"] - seen.rounds[2]["memory_mb"]
    if grown_mb > GROWTH_MB_MAX:
        wrong.append(f"it grew by {grown_mb:.1f} MB from the second round to the last")
    if beside.p99_ms > LIMIT_MS:
        wrong.append(f"p99 of beats is {beside.p99_ms:.1f} ms")
    wrong += [f"no client was cut: {kind}" for kind in CUT if not seen.cut_s[kind]]
    return wrong


def drill(node: LimitedNode, options: argparse.Namespace) -> bool:
    """Start, attack, and tell; whether all is well."""
    node.start()
    node.wait_ready()
    pids = node.pids()
    node.register()
    with beating(node.address, LOAD, BEATS_RATE) as load:
        os.nice(NICE)
        calm_s = time.time()
        time.sleep(CALM_S)
        begun_s = time.time()
        attacks = Drill(node, options)
        asyncio.run(attacks.run())
        ended_s = time.time()
        beaten = load.end()
    seen = attacks.seen
    beside = figures(beaten.between(begun_s, ended_s), LIMIT_MS)
    wrong = complaints(seen, node, pids, beaten, beside)
    summary = {
        "good": not wrong,
        "wrong": wrong,
        "seed": options.seed,
        "seconds": round(ended_s - begun_s),
        "beats before": asdict(figures(beaten.between(calm_s, begun_s), LIMIT_MS)),
        "beats beside": asdict(beside),
        "late ms of the load itself, p99": round(figures(beaten.late_between(begun_s, ended_s), LIMIT_MS).p99_ms, 1),
        "rounds, the first to warm up": seen.rounds,
        "quick attacks": dict(sorted(seen.ended.items())),
        "seconds until clients that take their time were cut": {
            kind: [min(times_s), max(times_s)] for kind, times_s in seen.cut_s.items()
        },
        "counters": {
            name: count for name, count in node.metrics().items() if name[:4] in ("conn", "requ", "pool", "loop")
        },
    }
    node.disconnect()
    print(json.dumps(summary, indent=2))
    return not wrong


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=180.0, help="of rounds (180); three at least")
    parser.add_argument("--connections", type=int, default=10_000, help="of the idle crowd (10000)")
    parser.add_argument("--slow-each", type=int, default=SLOW_EACH, help="clients of each kind that takes its time (5)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=26_848)
    return parser.parse_args()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rollcall-sockets-") as name:
        yield Path(name)


def main() -> int:
    """Attack a node; 0 when it stood that."""
    options = _options()
    allowed = options.connections + ROOM
    raise_own_limit(allowed + OVER + FILES_SPARE)
    with _folder() as folder:
        node = LimitedNode(options.port, folder, allowed)
        try:
            return 0 if drill(node, options) else 1
        finally:
            node.kill_all()


if __name__ == "__main__":
    sys.exit(main())
