"""Arguments that the audit's commands share: a number of days, the date of a night, and the recipient of alerts."""

import argparse
import re
from datetime import date

from app.languages.command_texts import gettext

KEEP_DAYS_MAX = 100_000
ALERT_FORMATS = ("json", "slack", "alertmanager", "text")
CLUSTER_CHARS_MAX = 100
_RUN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def days_argument(text: str) -> int:
    """Return the number of days to keep, from 1 to ``KEEP_DAYS_MAX``; for argparse."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= KEEP_DAYS_MAX):
        raise argparse.ArgumentTypeError(
            gettext("%(text)s is not a number of days from 1 to %(most)s", text=repr(text), most=KEEP_DAYS_MAX)
        )
    return int(text)


def night_argument(text: str) -> str:
    """Return the date of a night, such as ``2026-11-21``, as it was given; for argparse."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            gettext("%(text)s is not a date such as 2026-11-21", text=repr(text))
        ) from None
    return text


def run_argument(text: str) -> str:
    """Return the name of a run of a dump, as it was given; for argparse."""
    if not _RUN.fullmatch(text):
        raise argparse.ArgumentTypeError(
            gettext("a run should have 1 to 64 letters, digits, dots, dashes or underscores")
        )
    return text


def add_alert_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the recipient of alerts and the format of their bodies."""
    parser.add_argument("--alert-url", metavar="URL", help="POST findings here, and again when they are resolved")
    parser.add_argument(
        "--alert-format", choices=ALERT_FORMATS, default=ALERT_FORMATS[0], help="format of the body (json)"
    )
    parser.add_argument(
        "--alert-cluster",
        metavar="NAME",
        type=cluster_argument,
        default="rollcall",
        help="the name of the cluster in alerts (rollcall)",
    )


def cluster_argument(text: str) -> str:
    """Return the name of a cluster, which is a label's value in Alertmanager; for argparse."""
    if not text.strip() or not text.isprintable() or len(text) > CLUSTER_CHARS_MAX:
        raise argparse.ArgumentTypeError(
            gettext("a name should have 1 to %(most)s printable characters", most=CLUSTER_CHARS_MAX)
        )
    return text.strip()
