"""Arguments that the scripts share, and their types."""

import argparse
from collections.abc import Callable, Collection
from pathlib import Path

from scripts.support.member_processes import COMMAND, PORT_STEP

FREE = "free"


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Make the type of an argument that lists some of ``known`` with commas between, as in ``register,beat``.

    Returns:
        What argparse calls with the argument's text: it returns the names in the order given, and raises
        ArgumentTypeError, which names the unknown one, for any other.
    """

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return names

    return parse


def add_port(parser: argparse.ArgumentParser, count: int = 6) -> None:
    """Take ``--port NUMBER``, of the first member; without it ``count`` ports are found, each 10 above the one before.

    All that a member listens on is free with each of them.
    """
    parser.add_argument(
        "--port", type=_port_of(count), default=FREE, help="of the first member; free ones if not given"
    )


def _port_of(count: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if text != FREE:
            return int(text)
        from tests.support.processes import ports_apart  # not where a port is given: it loads psutil

        return ports_apart(count, PORT_STEP)[0]

    return parse


def add_rollcall(parser: argparse.ArgumentParser) -> None:
    """Take ``--rollcall PATH``, the command that the members run, to compare another release."""
    parser.add_argument("--rollcall", type=Path, default=COMMAND, help="the command of the members, of any release")
