"""How long does the engine hold its own thread, the registry's lock and the interpreter, with much to do at once?

One process has the engine of a member with everything that it works on: registry, records in SQLite, the copy of the
lists on disk. Its two peers are made up: they answer at once, and all bodies for them are made and read as ever.
Beside it an event loop measures its lag, as one that serves clients would feel it. Phases, each with its longest turn
of the engine's thread (``turn``), hold of the registry's lock (``lock``) and lag of the loop (``lag``), in ms; ``CPU``
is what the thread computed of that, which a busy machine does not make longer:

warm: the start; no peer has data, so all lists come from the copy on disk. claim: of the own third, after that.
load: instead of these two, the snapshot of a peer that has everything.
take-over: of another third, as its member ends. verify: two rounds, at rest.
fails: every own key changes, and a peer that is alive takes none of them. leave: that peer leaves the list.
back: it is there again. removed: every own instance is deregistered. forget: until nothing of them is left.

    python -m scripts.bench.ticks
    python -m scripts.bench.ticks --services 20000 --records 2000 --json
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from app.http.server.worker import GC_THRESHOLDS, SWITCH_INTERVAL_S
from app.replication.instance_list_type import INSTANCE_LIST
from distro.members.mapper import DistroMapper
from scripts.bench.tick_member import (
    ALL,
    ENDING,
    HELD,
    NEAR,
    SELF,
    Longest,
    Member,
    first_snapshot,
    time_locks,
    write_folder,
)

WAIT_S = 120.0
POLL_S = 0.02
LAG_STEP_S = 0.001
FAILS_S = 4.0


class LoopLag:
    """An event loop of its own thread, and how late its timers are."""

    def __init__(self) -> None:
        self.lag = Longest()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._measure()), name="loop-lag", daemon=False)
        self._thread.start()

    async def _measure(self) -> None:
        while not self._stopped.is_set():
            due_s = time.perf_counter() + LAG_STEP_S
            await asyncio.sleep(LAG_STEP_S)
            self.lag.add(time.perf_counter() - due_s)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


# --- what is measured ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Phase:
    """The longest of each, in ms; ``..._cpu``: what the thread computed of it. The rest in seconds."""

    name: str
    seconds: float
    turn_ms: float
    turn_cpu_ms: float
    lock_cpu_ms: float
    lag_ms: float
    cpu_s: float


class Phases:
    """Runs phases at one member, and prints a line for each."""

    def __init__(self, member: Member, loop: LoopLag, *, as_json: bool) -> None:
        self._member = member
        self._loop = loop
        self._as_json = as_json

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        box = self._member.mailbox
        all_longest = (box.turns, box.turns_cpu, HELD, self._loop.lag)
        for longest in all_longest:
            longest.take()
        begun_s, cpu_s = time.perf_counter(), cpu_now_s()
        yield
        took_s = time.perf_counter() - begun_s
        found = Phase(name, took_s, *(longest.take() for longest in all_longest), cpu_now_s() - cpu_s)
        if self._as_json:
            print(json.dumps(asdict(found)), flush=True)
        else:
            print(
                f"{name:<12}{found.seconds:8.1f} s {found.turn_ms:9.1f} {found.turn_cpu_ms:9.1f}"
                f" {found.lock_cpu_ms:9.1f} {found.lag_ms:9.1f} {found.cpu_s:9.2f}",
                flush=True,
            )

    def until(self, is_done: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + WAIT_S
        while not is_done():
            if time.monotonic() > end_s:
                raise SystemExit(f"{what} did not come within {WAIT_S:.0f} s")
            time.sleep(POLL_S)


def cpu_now_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_phases(member: Member, phases: Phases, *, loaded: bool) -> None:
    protocol, stats = member.protocol, member.stats

    def settled() -> bool:
        return not any(protocol.view.pending_keys().values()) and protocol.view.steady(member.clock.monotonic_ms())

    def owned(count: int) -> Callable[[], bool]:
        return lambda: stats.claims >= count and settled()

    mapper, left = DistroMapper.over(SELF, ALL), DistroMapper.over(SELF, (SELF, NEAR))
    versions = [*member.registry.versions(), *member.records.versions()]
    tags = [protocol_tag(key) for key in versions]
    first = sum(mapper.responsible(tag) for tag in tags)
    moved = sum(left.responsible(tag) and not mapper.responsible(tag) for tag in tags)
    with phases.phase("claim"):
        phases.until(owned(first), "the claim of the own third")
    with phases.phase("take-over"):
        member.peers.gone.add(ENDING)
        phases.until(owned(first + moved), "the take-over")
    if loaded:
        return
    with phases.phase("verify"):
        sent = stats.verify_sent
        phases.until(lambda: stats.verify_sent >= sent + 4, "two verify rounds")
    with phases.phase("fails"):
        member.peers.failing.add(NEAR)
        for stored in member.own():
            member.change(stored.instance)
        time.sleep(FAILS_S)
    with phases.phase("leave"):
        member.runtime.replace_members((SELF, ENDING))
        phases.until(lambda: NEAR not in protocol.times.peers, "the new list")
        time.sleep(1.0)
    with phases.phase("back"):
        member.peers.failing.clear()
        member.runtime.replace_members(ALL)
        phases.until(lambda: NEAR in protocol.mapper.servers and settled(), "the return")
    count = sum(1 for _ in member.own())
    forgotten = stats.forgotten
    with phases.phase("removed"):
        for stored in member.own():
            member.remove(stored.instance)
        phases.until(settled, "the end of the sends")
    mine = left.responsible
    expected = sum(1 for one in member.registry.table.services() if not one.stored and mine(one.full_name))
    with phases.phase("forget"):

        def is_forgotten() -> bool:
            member.prune()
            return stats.forgotten - forgotten >= min(expected, count)

        phases.until(is_forgotten, "the last removal's end")


def protocol_tag(key: str) -> str:
    return key.rpartition("##")[2]


def main(arguments: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--services", type=int, default=100_000, help="instance lists, of one instance each")
    parser.add_argument("--records", type=int, default=10_000, help="descriptions of services, durable")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each phase, in place of a table")
    options = parser.parse_args(list(arguments))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*GC_THRESHOLDS)
    time_locks()
    if not options.json:
        titles = " ".join(f"{title:>9}" for title in ("turn ms", "turn CPU", "lock CPU", "lag ms", "CPU s"))
        print(f"{'':<12}{'took':>10} {titles}   {os.cpu_count()} cores")
    for loaded in (False, True):
        loop = LoopLag()
        with tempfile.TemporaryDirectory(prefix="ticks-") as name:
            measure(Path(name), loop, options, loaded=loaded)
        loop.stop()


def measure(folder: Path, loop: LoopLag, options: argparse.Namespace, *, loaded: bool) -> None:
    """Run one member from its start to its end; ``loaded``: it finds nothing on its disk but records."""
    write_folder(folder, 0 if loaded else options.services, options.records)
    snapshots = {INSTANCE_LIST: first_snapshot(options.services)} if loaded else {}
    member = Member(folder)
    phases = Phases(member, loop, as_json=options.json)
    member.peers.snapshots.update(snapshots)
    member.read_warm()
    with phases.phase("load" if loaded else "warm"):
        member.start()
        phases.until(lambda: bool(member.protocol.times.peers) and not member.protocol.loading, "the load")
    run_phases(member, phases, loaded=loaded)
    member.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
