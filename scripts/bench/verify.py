"""What verify rounds cost members that hold the same: CPU and bytes for each peer and round, and the engine's turns.

Starts three members, registers services of one instance at them, and compares two stretches of rest: without verify
rounds, and, after all were restarted, with a round each ``--interval-ms``. What the second takes more is the rounds':
those that a member begins and those that it answers, one of each counted together. Contents are sampled as by default:
so many keys in each round as with an interval of 5 s. ``--before`` gives the ``rollcall`` of another release, which is
measured first, with the default interval, as its rounds may take longer than a shorter one.

Each stretch begins when the members are settled: each has all services, all are owned, for ``STILL_S`` nothing was
sent, fetched, loaded or claimed, and in the second one the last round with each peer found nothing, and rounds come as
set. If that is not so within ``--settle-s``, or fewer rounds take place than were due, it ends with an error.

Prints a line of JSON for each release: CPU ms and bytes of bodies for each peer and round, the rounds, and the turns of
the engine in the second stretch by the bound in seconds that they were within.

    python -m scripts.bench.verify --services 100000 --before ../earlier/.venv/bin/rollcall
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from scripts.support.member_processes import COMMAND, CONTEXT_PATH, MemberProcess, local_members

MEMBERS = 3
TICKS_S = os.sysconf("SC_CLK_TCK")
AT_ONCE = 100
"""Requests that are sent before their answers are read."""
NEVER_MS, DAY_MS = 3_600_000, 86_400_000
DEFAULT_INTERVAL_MS, DEFAULT_SAMPLE_MS = 5_000, 600_000
STILL_S = 10.0
"""So long nothing may have happened at any member: longer than the wait for a steady view, and between claims."""
POLL_S = 0.5
DUE_PART = 0.9
"""Of the rounds that are due by the clock; less of them are another state than rest."""
LASTING = json.dumps({"preserved.heart.beat.timeout": str(DAY_MS), "preserved.ip.delete.timeout": str(DAY_MS)})
READY_S = 180.0
"""On a machine with other work, until all members serve."""
_METRIC = re.compile(
    r"^rollcall_(verify_sent_total|peer_sent_bytes_total|engine_turn_seconds_bucket)(\S*) (\S+)$", re.MULTILINE
)


def register(address: str, names: range) -> None:
    """Register a service of one instance, which needs no beats, for each number."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        for start in range(names.start, names.stop, AT_ONCE):
            part = range(start, min(start + AT_ONCE, names.stop))
            opened.sendall(b"".join(map(_request, part)))
            left, came = len(part), b""
            while left:
                came += opened.recv(1 << 16)
                left -= came.count(b"HTTP/1.1 200")
                came = came[-11:] if b"HTTP/1.1 200" not in came[-11:] else b""


def _request(number: int) -> bytes:
    fields = urlencode(
        {"serviceName": f"service-{number}", "ip": "10.1.2.3", "port": 80, "metadata": LASTING}, quote_via=quote
    )
    return f"POST {CONTEXT_PATH}/v1/ns/instance?{fields} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()


def cpu_s(member: MemberProcess) -> float:
    """User and system time of a member's processes so far."""
    total = 0
    for pid in member.pids():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_S


def _get(member: MemberProcess, path: str) -> bytes:
    host, _, port = member.address.rpartition(":")
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=30)) as connection:
        connection.request("GET", f"{CONTEXT_PATH}{path}")
        return connection.getresponse().read()


def counters(member: MemberProcess) -> dict[str, float]:
    """The metrics that are compared, by name and labels; those of all peers together."""
    text = _get(member, "/actuator/prometheus").decode()
    found: dict[str, float] = {}
    for name, labels, value in _METRIC.findall(text):
        key = name if name.startswith("peer") else f"{name}{labels}"
        found[key] = found.get(key, 0.0) + float(value)
    return found


class Settling:
    """Looks at members until nothing happens at any of them any more."""

    def __init__(self, members: list[MemberProcess], services: int, interval_ms: int) -> None:
        """``interval_ms``: between two verify rounds with a peer."""
        self._members = members
        self._services = services
        self._interval_s = interval_ms / 1_000
        self._still_s = max(STILL_S, 3 * self._interval_s) if self._has_rounds else STILL_S

    @property
    def _has_rounds(self) -> bool:
        return self._interval_s * 1_000 < NEVER_MS

    def wait(self, timeout_s: float) -> float:
        """Return when they are settled, after how many seconds.

        Raises:
            SystemExit: they are not in time; with what is still to be done, or what happened last.
        """
        begun_s = time.monotonic()
        since_s, before, why = begun_s, self._look()[0], "nothing was seen as yet"
        rounds = self._rounds()
        while (now_s := time.monotonic()) - begun_s < timeout_s:
            time.sleep(POLL_S)
            done, unsettled = self._look()
            if unsettled or done != before:
                why = unsettled or "something was sent, received, fetched or claimed"
                since_s, before, rounds = now_s, done, self._rounds()
            elif now_s - since_s >= self._still_s:
                came = self._rounds() - rounds
                if came >= DUE_PART * self._due(now_s - since_s):
                    return now_s - begun_s
                why = f"only {came} rounds in {now_s - since_s:.0f} s"
                since_s, rounds = now_s, self._rounds()
        raise SystemExit(f"the members did not settle within {timeout_s:.0f} s: {why}")

    def _due(self, seconds: float) -> float:
        return len(self._members) * (len(self._members) - 1) * seconds / self._interval_s if self._has_rounds else 0

    def _rounds(self) -> int:
        return sum(json.loads(_get(member, "/v1/ns/operator/metrics"))["verifySent"] for member in self._members)

    def _look(self) -> tuple[list[dict[str, object]], str]:
        """What each member has done so far, without its rounds; and why they are not settled, empty if they are."""
        done, reasons, owned = list[dict[str, object]](), list[str](), 0
        for member in self._members:
            counts = json.loads(_get(member, "/v1/ns/operator/metrics"))
            facts = json.loads(_get(member, "/v1/ns/operator/distro"))
            owned += counts["responsibleServiceCount"]
            done.append({name: count for name, count in facts["counters"].items() if not name.startswith("verify_")})
            found = list(unsettled(facts, self._interval_s if self._has_rounds else None))
            if counts["serviceCount"] != self._services:
                found.append(f"it has {counts['serviceCount']} services")
            reasons += [f"{member.address}: {one}" for one in found]
        if owned != self._services:
            reasons.append(f"{owned} services are owned")
        return done, "; ".join(reasons)


def unsettled(facts: Mapping[str, Any], interval_s: float | None) -> Iterator[str]:
    """What one member still has to do, by its page for operators; ``interval_s``: between rounds, None without any."""
    if facts["loading"] or not facts["steady"]:
        yield "it loads, or its view is not steady"
    for peer, one in facts["peers"].items():
        queue = one["queue"]
        if one["state"] != "UP" or one["unapplied"]:
            yield f"{peer} is {one['state']} and lacks {one['unapplied']} changes"
        if queue["toSend"] or queue["inFlight"] or queue["toFetch"]:
            yield f"{peer}: {queue['toSend']} keys to send, {queue['inFlight']} under way, {queue['toFetch']} to fetch"
        if interval_s is None:
            continue
        if not one["verify"]:
            yield f"no round with {peer} as yet"
        for name, last in one["verify"].items():
            if last["outcome"] != "delivered" or last["newerThere"] or last["lackingThere"]:
                yield f"the last round of {name} with {peer} found differences"
            if last["ageMs"] > (2 * interval_s + 1) * 1_000:
                yield f"the last round of {name} with {peer} was {last['ageMs']} ms ago"


def rest(members: list[MemberProcess], seconds: float) -> tuple[float, dict[str, float]]:
    """CPU-s of all members together in a stretch of rest, and what their counters rose by."""
    before, cpu_before_s = [counters(one) for one in members], sum(map(cpu_s, members))
    time.sleep(seconds)
    taken_s, risen = sum(map(cpu_s, members)) - cpu_before_s, dict[str, float]()
    for member, old in zip(members, before, strict=True):
        for name, value in counters(member).items():
            risen[name] = risen.get(name, 0.0) + value - old.get(name, 0.0)
    return taken_s, risen


def measure(command: Path, interval_ms: int, options: argparse.Namespace) -> dict[str, object]:
    """Measure one release."""
    rounds_of = {
        "nacos.core.protocol.distro.data.verify.intervalMs": str(interval_ms),
        "rollcall.distro.sampleMs": str(DEFAULT_SAMPLE_MS * interval_ms // DEFAULT_INTERVAL_MS),
    }
    quiet = {"nacos.core.protocol.distro.data.verify.intervalMs": str(NEVER_MS)}
    with tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder:
        with local_members(MEMBERS, options.port, Path(folder), quiet, command) as members:
            _start(members)
            step = -(-options.services // MEMBERS)
            for index, member in enumerate(members):
                register(member.address, range(index * step, min((index + 1) * step, options.services)))
            Settling(members, options.services, NEVER_MS).wait(options.settle_s)
            quiet_s, _ = rest(members, options.seconds)
            for member in members:
                member.stop()
        with local_members(MEMBERS, options.port, Path(folder), rounds_of, command) as members:
            _start(members)
            settled_s = Settling(members, options.services, interval_ms).wait(options.settle_s)
            busy_s, risen = rest(members, options.seconds)
    rounds = MEMBERS * (MEMBERS - 1) * options.seconds * 1_000 / interval_ms
    calls = risen.get("verify_sent_total", 0.0)
    if calls < DUE_PART * rounds:
        raise SystemExit(f"only {calls:.0f} of {rounds:.0f} rounds took place: this is no rest")
    turns = {name: count for name, count in risen.items() if name.startswith("engine_turn")}
    return {
        "services": options.services,
        "cpu_ms_per_peer_and_round": round((busy_s - quiet_s) * 1_000 / rounds, 2),
        "body_bytes_per_peer_and_round": round(risen.get("peer_sent_bytes_total", 0.0) / rounds),
        "rounds": round(rounds),
        "calls": round(calls),
        "settled_after_s": round(settled_s, 1),
        "turns_within_s": {name.partition('le="')[2].rstrip('"}'): round(count) for name, count in turns.items()},
        "cpu_s_without_rounds": round(quiet_s, 2),
        "cpu_s_with_rounds": round(busy_s, 2),
    }


def _start(members: list[MemberProcess]) -> None:
    for member in members:
        member.start()
    end_s = time.monotonic() + READY_S
    while not all(member.is_ready() for member in members) and time.monotonic() < end_s:
        time.sleep(0.5)
    for member in members:
        member.wait_ready()


def main() -> int:
    """Measure; 0 in the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--services", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each stretch")
    parser.add_argument("--interval-ms", type=int, default=1_000, help="between two rounds of this release")
    parser.add_argument("--settle-s", type=float, default=300.0, help="the longest wait for rest")
    parser.add_argument("--before", type=Path, help="the rollcall of another release")
    parser.add_argument("--port", type=int, default=24_148, help="of the first member")
    options = parser.parse_args()
    releases = [("before", options.before, DEFAULT_INTERVAL_MS)] if options.before else []
    for name, command, interval_ms in [*releases, ("now", COMMAND, options.interval_ms)]:
        print(json.dumps({"release": name, **measure(command, interval_ms, options)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
