"""Arguments that the scripts share, and their types."""

import argparse
from collections.abc import Callable, Collection
from pathlib import Path

from scripts.support.member_processes import COMMAND, PORT_STEP

FREE = "free"


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Make the type of a comma-separated argument that lists some of ``known``, as in ``register,beat``.

    Returns:
        A function for argparse: it takes the argument's text, returns the names in the given order, and raises
        ArgumentTypeError with the first unknown name.
    """

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(known)}")
        return names

    return parse


def add_port(parser: argparse.ArgumentParser, count: int = 6) -> None:
    """Add ``--port NUMBER``, of the first member; by default find ``count`` ports, each 10 above the one before.

    For each of them, all ports that a member listens on are free.
    """
    parser.add_argument("--port", type=_port_of(count), default=FREE, help="port of the first member (free ports)")


def _port_of(count: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if text != FREE:
            return int(text)
        from tests.support.processes import ports_apart  # not if a port is given, because the import loads psutil

        return ports_apart(count, PORT_STEP)[0]

    return parse


def add_rollcall(parser: argparse.ArgumentParser) -> None:
    """Add ``--rollcall PATH``, the command that the members run, to compare another release."""
    parser.add_argument("--rollcall", type=Path, default=COMMAND, help="the command of the members, of any release")


def add_drill(parser: argparse.ArgumentParser) -> None:
    """Add ``--port``, ``--rollcall`` and ``--logs FOLDER``: what every drill says of the members that it starts."""
    add_port(parser)
    add_rollcall(parser)
    parser.add_argument("--logs", type=Path, help="folder for the members' logs and data")
