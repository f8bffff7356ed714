"""What the audit's commands take alike."""

import argparse
import re
from datetime import date

KEEP_DAYS_MAX = 100_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def days_argument(text: str) -> int:
    """A number of days to keep."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= KEEP_DAYS_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days from 1 to {KEEP_DAYS_MAX}")
    return int(text)


def night_argument(text: str) -> str:
    """A date, as it names a night."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-11-21") from None
    return text
