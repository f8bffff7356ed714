"""Attack the memory of a node in a pod of 512 MB: compressed messages, large forms, logins, unread answers.

Runs one attack after the other on a standalone node that knows its bound, with a service of 20,000 instances; attacks
on logins use a node that requires a login. After each attack the node must still answer a short list, and its processes
together must never have used more than the bound. They get no control group, because that needs privileges: the kernel
counts the peak of each process, and shared pages count twice. Prints a table; exit code 1 after a breach.

    python -m scripts.chaos.small_pod
    python -m scripts.chaos.small_pod --only "form-8m,closed windows" --rollcall ../before/.venv/bin/rollcall
"""

import argparse
import collections
import http.client
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from scripts.bench.hostile_cost import GRPC_OFFSET, INPUTS, send_at_once, send_wrong_logins
from scripts.chaos.unread_answers import ATTACKS, ClusteredFleet, attacked, status_of
from scripts.support.arguments import add_port, add_rollcall, names_of
from scripts.support.bulk_register import register_all
from scripts.support.member_processes import MemberProcess, drill_folder
from scripts.support.process_memory import forget_peak, peak_mb, rss_mb
from scripts.support.secured_members import auth_settings, make_first_administrator
from scripts.support.verdicts import Measured, table

POD_MB = 512
SHORT = ClusteredFleet(2, 3)
SHORT_NAME = SHORT.name(1)
MESSAGES = ("lists", "lists-set-up", "form-1m", "form-8m")
LOGINS = ("logins", "wrong-logins")
READ_EACH_S = 0.1
TIMEOUT_S = 30.0


class Pod:
    """A node, its bound, and its measurements."""

    def __init__(self, member: MemberProcess, options: argparse.Namespace) -> None:
        self._member = member
        self._options = options
        self._pids: list[int] = []
        self._token = ""
        self.rows: list[Measured] = []

    def start(self, *, has_users: bool) -> None:
        """Start the node with the requested services."""
        self._member.start()
        self._member.wait_ready()
        self._pids = self._member.pids()
        if has_users:
            self._token = make_first_administrator(self._member.address, self._member.data, None)
            return
        for fleet in (SHORT, self._large):
            register_all(fleet, lambda _: self._member.address, 1)
        self.attack("at rest", lambda: None)

    @property
    def _large(self) -> ClusteredFleet:
        return ClusteredFleet(1, self._options.instances)

    def attack(self, name: str, attack: Callable[[], None]) -> None:
        """Make an attack, and measure the node."""
        forget_peak(self._pids)
        attack()
        short = self._status_of(SHORT_NAME)
        lives = self._member.pids() == self._pids
        self.rows.append(
            Measured(f"{name}: the node has ended, or gives no short list", int(not lives or short != 200), 0)
        )
        if not lives:
            self._pids = self._member.pids()
            return
        self.rows.append(Measured(f"{name}: peak of all processes, MB", round(peak_mb(self._pids)), POD_MB))
        time.sleep(self._options.rest)
        after = round(sum(map(rss_mb, self._pids)))
        self.rows.append(Measured(f"{name}: {self._options.rest:.0f} s later, MB", after, POD_MB))

    def send(self, name: str) -> None:
        """Send a message of ``hostile_cost`` on many connections at once, or wrong logins for a while."""
        port, given = self._options.port, INPUTS[name]
        if name == "wrong-logins":
            send_wrong_logins(port)
        else:
            send_at_once(port + GRPC_OFFSET * given.is_grpc, given.make(), given.at_once)

    def leave_unread(self, name: str) -> None:
        """Request the large list and read nothing, while another client reads short and large lists."""
        (attack, connections), large = ATTACKS[name], self._large.name(0)
        short: collections.Counter[int] = collections.Counter()
        others: collections.Counter[int] = collections.Counter()
        end_s = time.monotonic() + self._options.seconds
        with attacked(attack, self._member.address, large, connections):
            while time.monotonic() < end_s:
                short[self._status_of(SHORT_NAME)] += 1
                others[self._status_of(large)] += 1
                time.sleep(READ_EACH_S)
        self.rows.append(Measured(f"{name}: short lists not answered beside it", short.total() - short[200], 0))
        self.rows.append(
            Measured(f"{name}: large lists by status", ", ".join(f"{n} of {s}" for s, n in others.items()))
        )

    def _status_of(self, service: str) -> int:
        """Return the status of a list that is read completely; 0 without an answer."""
        try:
            return status_of(self._member.address, service, self._token)
        except (OSError, http.client.HTTPException):
            return 0


@contextmanager
def pod(options: argparse.Namespace, folder: Path, settings: Mapping[str, str]) -> Iterator[Pod]:
    """Run a node, and kill it at the end."""
    bound = {"nacos.standalone": "true", "rollcall.limit.memoryMb": str(POD_MB)}
    folder.mkdir(parents=True, exist_ok=True)
    member = MemberProcess(options.port, folder, "", bound | dict(settings), options.rollcall)
    made = Pod(member, options)
    try:
        made.start(has_users=bool(settings))
        yield made
    finally:
        member.kill_all()


def drill(options: argparse.Namespace) -> list[Measured]:
    """Make all requested attacks."""
    folder, rows = drill_folder(options.logs), list[Measured]()
    for names, settings in (((*MESSAGES, *ATTACKS), {}), (LOGINS, auth_settings())):
        if not (chosen := [name for name in names if name in options.only]):
            continue
        with pod(options, folder / ("users" if settings else "open"), settings) as node:
            for name in chosen:
                node.attack(name, partial(node.leave_unread if name in ATTACKS else node.send, name))
                print(*(f"{row.what}: {row.value}" for row in node.rows[-3:]), sep="; ", flush=True)
            rows += node.rows
    return rows


def main() -> int:
    everything = (*MESSAGES, *ATTACKS, *LOGINS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names_of(everything), default=list(everything), help="comma-separated")
    parser.add_argument("--instances", type=int, default=20_000, help="of the large service")
    parser.add_argument("--seconds", type=float, default=12.0, help="seconds for which answers stay unread")
    parser.add_argument(
        "--rest", type=float, default=5.0, help="seconds from the end of an attack to the second measurement"
    )
    add_port(parser)
    parser.add_argument("--logs", type=Path, help="folder for logs and data (a new one)")
    add_rollcall(parser)
    rows = drill(parser.parse_args())
    print(table(rows))
    return int(any(row.is_breach for row in rows))


if __name__ == "__main__":
    sys.exit(main())
