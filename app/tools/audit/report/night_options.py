"""Options that choose findings: their night and their classes."""

import argparse

from app.tools.audit.client.arguments import night_argument
from app.tools.audit.format.findings import FindingClass


def add_night_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose findings by night and class."""
    parser.add_argument(
        "--results", metavar="URI", help="the results of the check (ROLLCALL_AUDIT_RESULTS, or those of nightly.sh)"
    )
    parser.add_argument("--night", type=night_argument, metavar="DATE", help="the night (the last with a verdict)")
    parser.add_argument(
        "--class",
        dest="classes",
        type=classes_argument,
        default=frozenset(),
        metavar="CLASS,...",
        help="only findings of these classes",
    )


def classes_argument(text: str) -> frozenset[FindingClass]:
    """Return the classes of findings in a list with commas; for argparse."""
    try:
        return frozenset(FindingClass(name.strip()) for name in text.split(",") if name.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; the classes are {', '.join(FindingClass)}") from None
