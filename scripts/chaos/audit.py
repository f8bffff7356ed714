"""Check that the audit reports no false findings on busy members.

Starts three members with 2,000 instances. Registers and deregisters at a steady rate through all of them while it
takes one dump after the other; then checks the dumps. Every lasting finding is a false one. Prints a line a run, and
one JSON line at the end; exit code 1 after a false finding, or when a run could not be judged.

    python -m scripts.chaos.audit --runs 20 --rate 200 --gap 5s
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from app.rows.summary import Summary
from app.tools.audit.check.check import CannotJudge, judge
from app.tools.audit.check.night_check import NightCheck
from app.tools.audit.check.results import Results
from app.tools.audit.check.session import open_session
from scripts.bench.convergence import Member
from scripts.support.arguments import add_port
from scripts.support.member_processes import MemberProcess, clean_environ, local_members, start_all

SERVICES = 200
INSTANCES = 2_000
WRITERS = 16
LONG = {"preserved.heart.beat.timeout": "3600000", "preserved.ip.delete.timeout": "3600000"}
"""Metadata of instances that must stay although they send no beats."""


class Load:
    """Registers instances of the same services at a rate, and deregisters each soon afterwards."""

    def __init__(self, members: Sequence[MemberProcess], rate: float) -> None:
        self._urls = [f"http://{member.address}/nacos" for member in members]
        self._pause_s = WRITERS / rate
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(WRITERS, thread_name_prefix="writer")
        self._running: list[Future[None]] = []
        self.calls = [0] * WRITERS
        self.refused = [0] * WRITERS

    def __enter__(self) -> "Load":
        self._running = [self._pool.submit(self._write, number) for number in range(WRITERS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        for writer in self._running:
            writer.result()

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        members = [Member(url) for url in self._urls]
        alive: list[tuple[str, str]] = []
        due_s = time.monotonic()
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            due_s += self._pause_s
            member = chance.choice(members)
            if alive and chance.random() < 0.5:
                service, ip = alive.pop(chance.randrange(len(alive)))
                method = "DELETE"
            else:
                service, ip = f"drill-{chance.randrange(SERVICES)}", f"10.{100 + number}.0.{chance.randrange(100)}"
                alive.append((service, ip))
                method = "POST"
            status, _ = member.call(method, "/v1/ns/instance", serviceName=service, ip=ip, port=8080)
            self.calls[number] += 1
            self.refused[number] += status != 200


def fill(members: Sequence[MemberProcess]) -> None:
    clients = [Member(f"http://{member.address}/nacos") for member in members]
    for number in range(INSTANCES):
        status, _ = clients[number % len(clients)].call(
            "POST",
            "/v1/ns/instance",
            serviceName=f"drill-{number % SERVICES}",
            ip=f"10.1.{number // 250}.{number % 250}",
            port=8080,
            metadata=json.dumps(LONG),
        )
        assert status == 200, f"register: {status}"


def dump(members: Sequence[MemberProcess], out: Path, gap: str) -> int:
    listed = ",".join(member.address for member in members)
    command = Path(sys.executable).with_name("rollcall")
    done = subprocess.run(
        [command, "dump", "--members", listed, "--out", out, "--gap", gap, "--no-progress"],
        env=clean_environ(),
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="drill-audit-") as name:
        folder = Path(name)
        with local_members(3, options.port, folder) as members:
            start_all(members)
            fill(members)
            begun_s = time.monotonic()
            with Load(members, options.rate) as load:
                codes = [dump(members, folder / f"dumps-{number}", options.gap) for number in range(options.runs)]
            took_s = time.monotonic() - begun_s
        judged = check(folder, options.runs)
    findings, late = (sum(sum(getattr(one, name).values()) for one in judged) for name in ("findings", "late"))
    report = {
        "runs": options.runs,
        "judged": len(judged),
        "false_findings": findings,
        "late": late,
        "dumps_without_a_member": sum(code != 0 for code in codes),
        "writes": sum(load.calls),
        "writes_per_s": round(sum(load.calls) / took_s, 1),
        "refused": sum(load.refused),
    }
    print(json.dumps(report))
    return 1 if findings or len(judged) < options.runs else 0


def check(folder: Path, runs: int) -> list[Summary]:
    """Judge the dumps, and print each result; leave out dumps that cannot be judged."""
    spark = open_session("local[2]", "drill", shuffle_partitions=4)
    judged = []
    for number in range(runs):
        results = Results(str(folder / f"out-{number}"))
        results.open()
        try:
            judged.append(judge(spark, NightCheck(str(folder / f"dumps-{number}")), results))
        except CannotJudge as error:
            print(f"run {number + 1}: could not judge: {error}", flush=True)
            continue
        print(f"run {number + 1}: {_told(judged[-1])}", flush=True)
        spark.catalog.clearCache()
    spark.stop()
    return judged


def _told(summary: Summary) -> str:
    first = f"; such as {summary.examples[0]}" if summary.findings else ""
    return f"{summary.line}{first}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rate", type=float, default=200.0, help="registrations and deregistrations a second (200)")
    parser.add_argument("--gap", default="5s", help="time between the rounds of a dump (5s)")
    add_port(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
