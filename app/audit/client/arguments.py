"""Argument types that the audit's commands share: a number of days, and the date of a night."""

import argparse
import re
from datetime import date

KEEP_DAYS_MAX = 100_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def days_argument(text: str) -> int:
    """The number of days to keep, from 1 to ``KEEP_DAYS_MAX``; for argparse."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= KEEP_DAYS_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days from 1 to {KEEP_DAYS_MAX}")
    return int(text)


def night_argument(text: str) -> str:
    """The date of a night, such as ``2026-11-21``, as it was given; for argparse."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-11-21") from None
    return text
