"""Check that all attacks of the table are refused and change nothing, and that beats stay fast meanwhile.

Runs three members with instances that beat at a steady rate; repeats each attack of ``attack_table.py`` for some
seconds against the first member. Prints a table: the number of attempts, the changes, and the latency of beats.
Exit code 1 when an attack was not refused, anything changed, a beat failed or their p99 was 50 ms or more.

    python -m scripts.chaos.attacks --seconds 10
    python -m scripts.chaos.attacks --secured            # members with users, an identity and TLS
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from scripts.chaos.attack_calls import CONTEXT, INSTANCE, Victim
from scripts.chaos.attack_table import OF_USERS, TABLE, log_complaints, settled
from scripts.support import tables
from scripts.support.arguments import add_port
from scripts.support.beat_load import BeatLoad, Figures, InstanceLoad, beating, figures
from scripts.support.member_processes import MemberProcess, local_members, start_all
from scripts.support.raw_sockets import Wrong, raise_own_limit
from scripts.support.secured_members import auth_settings, certificate, make_first_administrator, tls_settings
from scripts.support.tls_tunnel import tunnelled

LOAD = InstanceLoad(services=30, hosts=10)
BEATS_RATE = 200
LIMIT_MS = 50.0
CALM_S = 5.0
NICE = 10
DESCRIPTORS = 4_000
SYNC_S = 30.0
PATIENT = '{"preserved.heart.beat.timeout":"3600000","preserved.ip.delete.timeout":"7200000"}'
"""Metadata of instances that need no beats."""
TITLES = ("attack", "tried", "refused", "changed", "beats", "p50 ms", "p99 ms", "max ms", "load late p99 ms", "")


def fill(victim: Victim, load: InstanceLoad) -> None:
    """Register the data that must not change, and wait until every member has it."""
    registered = [(victim.service, "10.1.1.1", 80), *((service, ip, 8_080) for service, ip in load.instances())]
    for service, ip, port in registered:
        answer = victim.call("POST", INSTANCE, serviceName=service, ip=ip, port=port, metadata=PATIENT)
        if answer.status != 200:
            raise Wrong(f"{service} is not registered: {answer}")
    end_s = time.monotonic() + SYNC_S
    wanted = len(registered) * (1 + len(victim.others))
    while sum('"kind": "instance"' in line for line in victim.held()) < wanted:
        if time.monotonic() > end_s:
            raise Wrong("the members do not have all of each other's instances")
        time.sleep(0.5)


def tried(name: str, victim: Victim, seconds: float) -> tuple[int, str]:
    """Repeat an attack for this time; return the number of attempts, and the faults."""
    end_s, count = time.monotonic() + seconds, 0
    while not count or time.monotonic() < end_s:
        try:
            TABLE[name](victim)
        except Wrong as error:
            return count + 1, str(error)
        count += 1
    return count, ""


def row(name: str, victim: Victim, beaten_at: str, seconds: float) -> tuple[str, bool]:
    """Attack; return the row of the table, and whether the attack failed as it should."""
    before = victim.held()
    with beating(beaten_at, LOAD, BEATS_RATE, token=victim.token) as load:
        time.sleep(1.0)
        begun_s = time.time()
        count, wrong = tried(name, victim, seconds)
        ended_s = time.time()
        beaten = load.end()
    changed = settled(victim, before)
    beside = figures(beaten.between(begun_s, ended_s), LIMIT_MS)
    late = figures(beaten.late_between(begun_s, ended_s), LIMIT_MS)
    good = not wrong and not changed and not beaten.failures and beside.p99_ms < LIMIT_MS
    for text in (wrong, *changed[:5], *(f"{number} beats: {text}" for text, number in beaten.failures.items())):
        if text:
            print(f"  {name}: {text}", file=sys.stderr, flush=True)
    refused, mark = "no" if wrong else "yes", "" if good else "BREACH"
    return tables.row((name, count, refused, len(changed), *_times(beside), f"{late.p99_ms:.1f}", mark)), good


def _times(found: Figures) -> tuple[str, ...]:
    return str(found.count), f"{found.p50_ms:.1f}", f"{found.p99_ms:.1f}", f"{found.max_ms:.1f}"


def calm(victim: Victim, beaten_at: str) -> None:
    """Print how long beats take without an attack."""
    with beating(beaten_at, LOAD, BEATS_RATE, token=victim.token) as load:
        time.sleep(CALM_S)
        found = figures([ms for _, ms in _ended(load)], LIMIT_MS)
    print(tables.row(("(none)", "", "", "", *_times(found), "", "")))


def _ended(load: BeatLoad) -> list[tuple[float, float]]:
    return load.end().answered


def drill(members: list[MemberProcess], seconds: float, names: list[str], settings: dict[str, str]) -> bool:
    """Start the members and attack the first; return whether all attacks failed."""
    start_all(members)
    first, *others = (member.address for member in members)
    ca = settings.get("rollcall.http.tls.trustCollectionChainPath", "")
    token = ""
    if "nacos.core.auth.enabled" in settings:
        token = make_first_administrator(first, members[0].data, members[0].tls)
    # Attacks and beats use separate tunnels, so that a busy tunnel does not delay the other.
    with tunnelled(first, ca) as attacked_at, tunnelled(first, ca) as beaten_at:
        victim = Victim(first, tuple(others), "witness", settings=settings, plain_address=attacked_at, token=token)
        return attack_all(members, victim, beaten_at, seconds, names)


def attack_all(members: list[MemberProcess], victim: Victim, beaten_at: str, seconds: float, names: list[str]) -> bool:
    """Make each attack while beats are sent to ``beaten_at``; return whether all attacks failed."""
    pids = [member.pids() for member in members]
    fill(victim, LOAD)
    os.nice(NICE)
    print(tables.head(TITLES), flush=True)
    calm(victim, beaten_at)
    good = True
    for name in names or [one for one in TABLE if victim.has_users or one not in OF_USERS]:
        line, is_good = row(name, victim, beaten_at, seconds)
        print(line, flush=True)
        good &= is_good
    if pids != [member.pids() for member in members]:
        print("members were restarted", file=sys.stderr)
        good = False
    for member in members:
        for complaint in log_complaints(member.log.read_text(errors="replace")):
            print(f"{member.address} logged {complaint[:200]!a}", file=sys.stderr)
            good = False
    counters = victim.call("GET", f"{CONTEXT}/v1/ns/operator/metrics").json()
    print({name: count for name, count in counters.items() if "efused" in name or "ate" in name})
    return good


def main() -> int:
    """Attack; return 0 when every attack was refused and no client noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each attack (10), at least one attempt")
    add_port(parser)
    parser.add_argument("--secured", action="store_true", help="members with users, an identity and TLS")
    parser.add_argument("attacks", nargs="*", help=f"some of: {', '.join(TABLE)}")
    options = parser.parse_args()
    raise_own_limit(DESCRIPTORS)
    with tempfile.TemporaryDirectory(prefix="rollcall-attacks-") as name:
        settings = tls_settings(*certificate(Path(name))) | auth_settings() if options.secured else {}
        with local_members(3, options.port, Path(name), settings) as members:
            return 0 if drill(members, options.seconds, options.attacks, settings) else 1


if __name__ == "__main__":
    sys.exit(main())
