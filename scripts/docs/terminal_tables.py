"""Records the tables and helps of all commands as a terminal of 80 and of 132 columns shows them.

Each command runs at three members that hold what tables break at: long names and addresses, Chinese letters, much
metadata. The recordings are for reading before a release, and are not kept: python -m scripts.docs.terminal_tables OUT
"""

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path

from app.tools.cli import make_parser
from scripts.docs.cli_help import parsers
from scripts.docs.cli_session import Session, free_port, nodes, wait_for

WIDTHS = (80, 132)
LONG = "payments-group@@com.example.payment.settlement.SettlementService"
IPV6 = "[2001:db8:85a3:1234:5678:8a2e:370:7334]:65535"
CHINESE = "\u57ce\u5e02=\u5317\u4eac\u5e02\u671d\u9633\u533a\u5efa\u56fd\u95e8\u5916\u5927\u8857"
NAMESPACE = "3f2a1c7e-0b1d-4a55-9c7e-0123456789ab"
MUCH = f"--metadata {CHINESE} --metadata note={'x' * 150} --metadata owner=team-with-a-long-name"
FILLED = (
    f"register {LONG} {IPV6} --persistent --cluster availability-zone-1 {MUCH}",
    f"register orders 10.0.0.1:8080 --persistent {MUCH}",
    "register orders 10.0.0.2:8080 --persistent",
    f"register orders 10.0.0.1:8080 --persistent --namespace {NAMESPACE}",
    f"namespaces --create zh --name {CHINESE} --description {'y' * 90}",
)
"""Commands that fill the cluster."""
LINES = (
    *("services", "services -A", "services -o wide", "services --unhealthy", f"instances {LONG}", "instances orders"),
    *("instances orders -A", "instances orders -o wide", "find 10.0.0", "find owner=team-with-a-long-name"),
    *("find --state unhealthy", "members", "members --each", "clients", "clients --service orders", "namespaces"),
    *("clients 10.0.0.7:80#true", "switches", "events", f"events --service {LONG}", "watch orders --for 1s"),
    *("register orders 10.0.0.3:8080 --persistent", "disable 10.0.0.3:8080 --service orders"),
    *("enable 10.0.0.3:8080 --service orders", "weight 10.0.0.3:8080 2 --service orders"),
    f"metadata 10.0.0.3:8080 {CHINESE} --service orders",
    *("update orders 10.0.0.3:8080 --weight 3", "drain orders 10.0.0.3:8080 --within 100ms", "drain --node --status"),
    *("deregister orders 10.0.0.3:8080", f"explain {IPV6} --service {LONG}", "explain 10.0.0.1:8080 --service orders"),
    *("heal --service orders --dry-run --gap 0", "watch-agreement --once --gap 0", "user list", "config"),
    *("config --client", "simulate --list", "instances no-such-service", "find 10.0.0.1 -o name"),
    "links",
)
"""Commands with their arguments, for one member or several."""
OF_SEVERAL = ("compare --gap 0",)
"""Commands that need several members."""


class Terminal(Session):
    """A transcript of commands in a terminal of a width."""

    def __init__(self, port: int, columns: int) -> None:
        super().__init__(port, head="")
        self.columns = columns


def _members(folder: Path, port: int) -> contextlib.AbstractContextManager[None]:
    # The instances are not there to be checked.
    return nodes(folder / "data", port, 3, **{"rollcall.healthCheck.allow": "127.0.0.0/8"})


def helps() -> list[str]:
    """Return the lines that show each help."""
    return [f"{parser.prog.removeprefix('rollcall').strip()} --help".strip() for parser in parsers(make_parser())]


def record(port: int, columns: int) -> str:
    """Run all commands in a terminal of a width, and return what it showed."""
    session = Terminal(port, columns)
    session.variables["ROLLCALL_SERVER"] = f"127.0.0.1:{port}"
    for line in (*LINES, *OF_SEVERAL, *helps()):
        session.type(line)
    return session.text()


def main() -> None:
    """Start the members, fill them, and write a file for each width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the folder of the recordings")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    port = free_port()
    os.environ["LANG"] = "C.UTF-8"
    with tempfile.TemporaryDirectory(prefix="rollcall-") as name, _members(Path(name), port):
        filler = Terminal(port, WIDTHS[0])
        filler.variables["ROLLCALL_SERVER"] = f"127.0.0.1:{port}"
        wait_for(filler, "members --json", "UP")
        for line in FILLED:
            wait_for(filler, line, "ed ")
        for columns in WIDTHS:
            path = out / f"terminal-{columns}.txt"
            path.write_text(record(port, columns), encoding="utf-8")
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
