"""Tables in a real terminal, of processes of their own; test_terminal_widths.py has all commands."""

import itertools
import json
import os
import pty
import re
import subprocess
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from app.config.client_config import CLIENT_VARIABLES
from tests.support.command_node import Commands
from tests.support.processes import COMMAND, HANG_S
from tests.support.tiny_server import Given, tiny_server

NARROW, WIDE = 80, 132
SERVICE = "com.example.payment.settlement.SettlementService"
IP = "2001:db8:85a3:1234:5678:8a2e:370:7334"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def typed(columns: int, home: Path, server: str, *arguments: str) -> tuple[list[str], int]:
    """The lines that a command prints in a terminal, without colours, and its exit code."""
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    gone = {*CLIENT_VARIABLES, "COLUMNS", "LINES", "NO_COLOR"}
    environ = {name: value for name, value in os.environ.items() if name not in gone}
    environ |= {"HOME": str(home), "TERM": "xterm", "ROLLCALL_SERVER": server}
    with subprocess.Popen(
        [COMMAND, *arguments], stdin=terminal, stdout=terminal, stderr=terminal, env=environ
    ) as process:
        os.close(terminal)
        printed = b"".join(_pieces(main))
        os.close(main)
        process.wait(HANG_S)
    return _ESCAPES.sub("", printed.decode()).replace("\r\n", "\n").splitlines(), process.returncode


def _pieces(descriptor: int) -> Iterator[bytes]:
    # Linux reports an error when the other side of a terminal is closed.
    with suppress(OSError):
        while piece := os.read(descriptor, 65_536):
            yield piece


def is_note(line: str) -> bool:
    return line.startswith("rollcall ")


@pytest.fixture
def filled(command: Commands) -> Commands:
    """A node with a long name, a long address, much metadata and Chinese letters."""
    more = ("--metadata", "\u57ce\u5e02=\u5317\u4eac\u5e02\u671d\u9633\u533a", "--metadata", f"note={'x' * 150}")
    command("register", f"payments-group@@{SERVICE}", f"[{IP}]:65535", "--cluster", "availability-zone-1", *more)
    command("register", "orders", "10.0.0.1:8080", *more)
    command("register", "orders", "10.0.0.1:8080", "--namespace", "3f2a1c7e-0b1d-4a55-9c7e-0123456789ab")
    return command


def test_a_wider_terminal_shows_more_and_wide_all(filled: Commands, home: Path) -> None:
    narrow, _ = typed(NARROW, home, filled.server, "instances", "orders")
    wide, _ = typed(WIDE, home, filled.server, "instances", "orders")
    all_of_it, _ = typed(NARROW, home, filled.server, "instances", "orders", "-o", "wide")
    assert narrow[-1].startswith("rollcall instances: -o wide also shows: kind, ")
    assert narrow[-1].endswith("texts that are cut")
    assert (" KIND " in narrow[0], " KIND " in wide[0], " KIND " in all_of_it[0]) == (False, True, True)
    assert NARROW < max(map(cell_len, wide[:-1])) <= WIDE
    assert any("x" * 150 in one for one in all_of_it)


def test_what_is_found_and_what_happened_fit_80_columns(home: Path) -> None:
    instance = {
        "namespaceId": "production", "serviceName": f"g@@{SERVICE}", "clusterName": "DEFAULT", "ip": "10.0.0.1",
        "port": 8080, "healthy": False, "enabled": True, "metadata": {"a": "b" * 90},
    }  # fmt: skip
    event = {
        "id": "a~1", "atMs": 1_790_000_000_000, "node": "10.0.0.5:8848", "says": f"10.0.0.7:8080 {'changed ' * 20}",
        "namespaceId": "production", "serviceName": f"g@@{SERVICE}", "user": "ann", "from": "10.0.0.9",
    }  # fmt: skip

    def answer(received: Any) -> Given:
        found = {"count": 1, "complete": True, "instances": [instance], "serviceCount": 0, "services": []}
        happened = {"more": False, "events": [event], "members": {}, "notAnswered": []}
        return Given(200, json.dumps(found if "/search" in received.target else happened).encode())

    with tiny_server(answer) as server:
        for line, whole in (("find 10.0.0.1", [f"g@@{SERVICE}", "10.0.0.1:8080"]), ("events", ["10.0.0.7:8080"])):
            lines, code = typed(NARROW, home, server.address, *line.split())
            table = list(itertools.takewhile(lambda one: not is_note(one), lines))
            assert (code, len(table)) == (0, 3), lines
            assert max(map(cell_len, table)) <= NARROW
            assert all(text in table[2] for text in whole), table
