"""Every command in a terminal of 80 and of 132 columns: nothing is wider, no cell breaks, no essential text is lost."""

import os
import pty
import re
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from rich.cells import cell_len

from app.config.client_config import CLIENT_VARIABLES
from app.testing import Cluster
from app.tools.cli import main, make_parser
from scripts.docs.cli_help import parsers
from scripts.docs.terminal_tables import FILLED, IPV6, LINES, LONG, NAMESPACE, OF_SEVERAL, WIDTHS

HELP_ONLY = {
    "serve": "it runs until it is ended, and its lines are those of a log",
    "demo": "it runs members until it is ended",
    "dump": "it writes files, and a line for each member",
    "check": "it needs a dump of a night, and Java",
    "findings": "it needs the results of a night",
    "files": "it writes files",
    "doctor": "it reads the settings of this machine",
    "migrate": "it asks a Nacos",
    "admin": "it changes the users of a member that runs here",
    "completion": "its output is for a shell",
}
"""Commands of which only the help is shown, and why."""
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
RULE = "\u2500" * 8
ESSENTIAL = {
    "services": [LONG, "orders"],
    "services -A": ["orders", NAMESPACE[:15]],
    "clients": [f"{IPV6.replace('[', '').replace(']', '')}#false"],
    "clients --service orders": ["10.0.0.1:8080#false"],
    f"instances {LONG}": [IPV6, "HEALTH"],
    "instances orders": ["10.0.0.1:8080", "HEALTH"],
    "instances orders -A": [NAMESPACE, "10.0.0.1:8080"],
    "find 10.0.0": ["10.0.0.1:8080", "10.0.0.2:8080", "orders"],
    "members": ["UP"],
    "members --each": ["UP"],
    "namespaces": [NAMESPACE, "zh"],
    "switches": ["serviceStatusSynchronizationPeriodMillis", "distroThreshold"],
    "events": ["10.0.0.1:8080 registered"],
    "watch orders --for 1s": ["10.0.0.1:8080"],
    f"explain {IPV6} --service {LONG}": ["persistent: ", f"{IPV6} (availability-zone-1)"],
    "heal --service orders --dry-run --gap 0": ["the members agree"],
    "compare --gap 0": ["no difference"],
    "links": ["dc-b", "not heard yet"],
}
"""Texts that a command shows whole at each width."""


class Shell:
    """Runs commands of this process in a terminal."""

    def __init__(self, server: str, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        for name in (*CLIENT_VARIABLES, *[one for one in os.environ if one.startswith("ROLLCALL_")]):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("ROLLCALL_SERVER", server)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("TERM", "xterm")
        self._monkeypatch = monkeypatch

    def lines(self, columns: int, *arguments: str) -> list[str]:
        """Return what a command shows, without colours."""
        ours, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (50, columns))
        pieces: list[bytes] = []
        reader = threading.Thread(target=lambda: pieces.extend(_pieces(ours)))
        reader.start()
        with self._monkeypatch.context() as patch, open(terminal, "w", encoding="utf-8") as screen:
            patch.setenv("COLUMNS", str(columns))
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            with suppress(SystemExit):
                main(list(arguments))
        reader.join()
        os.close(ours)
        return ESCAPES.sub("", b"".join(pieces).decode()).replace("\r\n", "\n").splitlines()


def _pieces(descriptor: int) -> Iterator[bytes]:
    # Linux reports an error when the other side of a terminal is closed.
    with suppress(OSError):
        while piece := os.read(descriptor, 65_536):
            yield piece


def faults(line: str, shown: list[str], columns: int) -> Iterator[str]:
    """Yield what is wrong with what a command shows."""
    if "-o" not in line.split():
        # A word without a space, such as a path, is not broken: it is there to be copied.
        yield from (f"{line}: wider: {one}" for one in shown if cell_len(one) > columns and " " in one.strip())
    table = False
    for one in shown:
        table = RULE in one or (table and bool(one) and not one.startswith("rollcall "))
        if table and one.startswith(" "):
            yield f"{line}: a broken row: {one}"
    whole = " ".join(" ".join(shown).split())
    yield from (f"{line}: lacks {text}: {shown}" for text in ESSENTIAL.get(line, []) if text not in whole)
    if not shown:
        yield f"{line}: shows nothing"


def test_every_command_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Cluster(
        2, settings={"rollcall.audit.enabled": "true", "rollcall.link.dc-b.servers": "127.0.0.1:1"}
    ) as cluster:
        shell = Shell(cluster[0].address, monkeypatch, tmp_path)
        for line in FILLED:
            shown = shell.lines(WIDTHS[0], *line.split())
            assert any("ed " in one for one in shown), shown
        cluster.settle()
        found = [
            f"at {columns} columns: {fault}"
            for columns in WIDTHS
            for line in (*LINES, *OF_SEVERAL)
            for fault in faults(line, shell.lines(columns, *line.split()), columns)
        ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("columns", WIDTHS)
def test_every_help_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for parser in parsers(make_parser()):
        for line in parser.format_help().splitlines():
            assert cell_len(line) <= columns, (parser.prog, line)


def test_every_command_is_shown_or_says_why_not() -> None:
    commands = {parser.prog.split()[1] for parser in parsers(make_parser()) if " " in parser.prog}
    shown = {line.split()[0] for line in (*LINES, *OF_SEVERAL, *FILLED)}
    assert commands == shown | set(HELP_ONLY)
    assert not shown & set(HELP_ONLY)
