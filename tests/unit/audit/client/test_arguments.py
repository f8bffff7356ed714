"""What the audit's commands take alike."""

import argparse

import pytest

from app.tools.audit.client.arguments import days_argument, night_argument


def test_dates_and_days_are_taken() -> None:
    assert night_argument("2026-11-21") == "2026-11-21"
    assert (days_argument("1"), days_argument("100000")) == (1, 100_000)


@pytest.mark.parametrize("text", ["2026-99-99", "20261121", "2026-11-21 ", "", "2026-02-30"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a date"):
        night_argument(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "100001", "9" * 5_000])
def test_what_is_no_number_of_days_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of days"):
        days_argument(text)
