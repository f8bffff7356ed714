"""The file of suppressions: what it may hold, and which entry and field a refusal names."""

import re
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.suppressions import (
    ENTRIES_MAX,
    FILE_BYTES_MAX,
    BadSuppressions,
    Suppression,
    _expression,
    read_suppressions,
)
from app.tools.audit.format.findings import FindingClass

NIGHT = "2026-11-20"
ENTRY = '[[suppress]]\nclass = "MISSING"\nuntil = 2026-12-31\nreason = "known"\n'


def read(tmp_path: Path, text: str | bytes) -> list[Suppression]:
    path = tmp_path / "known.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_suppressions(str(path), NIGHT)


def test_entries_with_and_without_patterns(tmp_path: Path) -> None:
    found = read(tmp_path, ENTRY + ENTRY + 'service = "DEFAULT_GROUP@@or***ders"\nmember = "10.0.0.?:8848"\n')
    patterns = (("service", "DEFAULT_GROUP@@or*ders"), ("member", "10.0.0.?:8848"))
    assert found == [
        Suppression(1, FindingClass.MISSING, (), date(2026, 12, 31), "known"),
        Suppression(2, FindingClass.MISSING, patterns, date(2026, 12, 31), "known"),
    ]


def test_no_file_and_an_empty_one_suppress_nothing(tmp_path: Path) -> None:
    assert read_suppressions(None, NIGHT) == []
    assert read(tmp_path, "# nothing\n") == []


def test_the_last_night_is_the_one_named(tmp_path: Path) -> None:
    [entry] = read(tmp_path, ENTRY)
    assert [entry.holds(night) for night in ("2026-12-30", "2026-12-31", "2027-01-01")] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[suppress]", "is not TOML: "),
        (b"\xff\xfe", "is not TOML: "),
        ("a = " + "[" * 5_000, "is not TOML: "),
        ("suppres = 1", "unknown field 'suppres'"),
        ("suppress = 1", f"suppress should be at most {ENTRIES_MAX} tables"),
        ("suppress = [1]", "entry 1: it should be a table"),
        (ENTRY * (ENTRIES_MAX + 1), f"suppress should be at most {ENTRIES_MAX} tables"),
        (ENTRY + "until_ = 1\n", "entry 1: 'until_' is not a field"),
        (ENTRY.replace("MISSING", "missing"), "entry 1: class should be one of MISSING, EXTRA"),
        (ENTRY.replace('class = "MISSING"', ""), "entry 1: class should be a text"),
        (ENTRY.replace('"MISSING"', "1"), "entry 1: class should be a text"),
        (ENTRY + ENTRY.replace("until = 2026-12-31", ""), "entry 2: until should be a date"),
        (ENTRY.replace("2026-12-31", '"2026-12-31"'), "entry 1: until should be a date without quotes"),
        (ENTRY.replace("2026-12-31", "2026-12-31T00:00:00Z"), "entry 1: until should be a date"),
        (ENTRY.replace("2026-12-31", "2027-11-22"), "entry 1: until should be at most a year ahead, so 2027-11-21"),
        (ENTRY.replace('"known"', '"  "'), "entry 1: reason should be a text"),
        (ENTRY.replace('reason = "known"', ""), "entry 1: reason should be a text"),
        (ENTRY.replace("known", r"a\u0007b"), "entry 1: reason should be a text"),
        (ENTRY.replace("known", "x" * 301), "entry 1: reason should be a text"),
        (ENTRY + "ip = 10\n", "entry 1: ip should be a text"),
        (ENTRY + 'ip = ""\n', "entry 1: ip should be a text"),
        (ENTRY + 'service = "*a*b*c*d*e*"\n', "entry 1: service should have at most 5 stars"),
        ("#" * (FILE_BYTES_MAX + 1), f"is over {FILE_BYTES_MAX} bytes"),
    ],
)
def test_what_is_wrong_is_named(text: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadSuppressions) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)
    assert str(tmp_path / "known.toml") in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadSuppressions, match=r"none\.toml cannot be read: No such file"):
        read_suppressions(str(tmp_path / "none.toml"), NIGHT)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("10.1.*", "10.1.0.1", True),
        ("10.1.*", "10.11.0.1", False),
        ("10.1.0.?", "10.1.0.11", False),
        ("a+b(c)[d]\\Q", "a+b(c)[d]\\Q", True),
        ("a", "a\n", False),
        ("orders*", "my-orders", False),
        ("*", "", True),
    ],
)
def test_a_pattern_is_of_the_whole_text(pattern: str, text: str, matches: bool) -> None:
    """Python reads the expressions that are made here as Java does, but for the sign of the end."""
    assert bool(re.search(_expression(pattern).replace(r"\z", r"\Z"), text)) is matches
