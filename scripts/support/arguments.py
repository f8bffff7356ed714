"""Types of argparse that the scripts share."""

import argparse
from collections.abc import Callable, Collection


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
