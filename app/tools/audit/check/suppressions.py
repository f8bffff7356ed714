"""Known findings that change no verdict until a date: a file of the operator's, and the findings that match it."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app.tools.audit.format.findings import FindingClass

FILE_BYTES_MAX = 256 * 1024
ENTRIES_MAX = 200
TEXT_CHARS_MAX = 300
STARS_MAX = 5
"""The most stars in one pattern: the time that a text takes to match grows with their number."""
DAYS_AHEAD_MAX = 366
PATTERNS = ("namespace", "service", "ip", "member")
_PREFIX = "suppressed until "
_FIELDS = {"class", "until", "reason", *PATTERNS}


class BadSuppressions(Exception):
    """The file cannot be used; the text names the entry and the field."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """An entry of the file. ``patterns``: by field, with ``*`` for any text and ``?`` for one character."""

    number: int
    finding_class: FindingClass
    patterns: tuple[tuple[str, str], ...]
    until: date
    """The last night that it holds for."""
    reason: str

    def holds(self, night: str) -> bool:
        return str(self.until) >= night

    @property
    def text(self) -> str:
        return f"{_PREFIX}{self.until} by entry {self.number}: {self.reason}"


def read_suppressions(path: str | None, night: str) -> list[Suppression]:
    """Return the entries of a file, including those that have ended; none without a file.

    Raises:
        BadSuppressions: the file cannot be read, or an entry is invalid.
    """
    if path is None:
        return []
    try:
        with Path(path).open("rb") as file:
            body = file.read(FILE_BYTES_MAX + 1)
        if len(body) > FILE_BYTES_MAX:
            raise BadSuppressions(f"{path} is over {FILE_BYTES_MAX} bytes")
        value = tomllib.loads(body.decode("utf-8"))
    except OSError as error:
        raise BadSuppressions(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BadSuppressions(f"{path} is not TOML: {error}") from None
    entries = value.pop("suppress", [])
    if value:
        raise BadSuppressions(f"{path}: unknown field {min(value)!r}; entries are tables [[suppress]]")
    if not isinstance(entries, list) or len(entries) > ENTRIES_MAX:
        raise BadSuppressions(f"{path}: suppress should be at most {ENTRIES_MAX} tables [[suppress]]")
    latest = date.fromisoformat(night) + timedelta(days=DAYS_AHEAD_MAX)
    return [_entry(f"{path}, entry {number}", number, one, latest) for number, one in enumerate(entries, 1)]


def _entry(where: str, number: int, value: Any, latest: date) -> Suppression:
    if not isinstance(value, dict):
        raise BadSuppressions(f"{where}: it should be a table [[suppress]]")
    if unknown := value.keys() - _FIELDS:
        raise BadSuppressions(f"{where}: {min(unknown)!r} is not a field; the fields are {', '.join(sorted(_FIELDS))}")
    name = _text(where, value, "class")
    if name not in set(FindingClass):
        raise BadSuppressions(f"{where}: class should be one of {', '.join(FindingClass)}")
    until = value.get("until")
    if not isinstance(until, date) or isinstance(until, datetime):
        raise BadSuppressions(f"{where}: until should be a date without quotes, such as until = {latest}")
    if until > latest:
        raise BadSuppressions(f"{where}: until should be at most a year ahead, so {latest} or earlier")
    patterns = tuple((field, _pattern(where, value, field)) for field in PATTERNS if field in value)
    return Suppression(number, FindingClass(name), patterns, until, _text(where, value, "reason"))


def _text(where: str, value: dict[str, Any], field: str) -> str:
    text = value.get(field)
    if not isinstance(text, str) or not text.strip() or len(text) > TEXT_CHARS_MAX or not text.isprintable():
        raise BadSuppressions(f"{where}: {field} should be a text of 1 to {TEXT_CHARS_MAX} printable characters")
    return text.strip()


def _pattern(where: str, value: dict[str, Any], field: str) -> str:
    text = _text(where, value, field)
    while "**" in text:
        text = text.replace("**", "*")
    if text.count("*") > STARS_MAX:
        raise BadSuppressions(f"{where}: {field} should have at most {STARS_MAX} stars")
    return text


def suppressed(findings: DataFrame, entries: Sequence[Suppression]) -> DataFrame:
    """Return the findings; those that match an entry no longer last, and their ``detail`` names the entry and why."""
    if not entries:
        return findings
    by = F.lit(None).cast("string")
    for entry in reversed(entries):
        matches = F.col("lasting") & (F.col("finding_class") == entry.finding_class.value)
        for field, pattern in entry.patterns:
            matches = matches & F.coalesce(F.col(field), F.lit("")).rlike(_expression(pattern))
        by = F.when(matches, F.lit(entry.text)).otherwise(by)
    marked = findings.withColumn("suppressed_by", by)
    return marked.select(
        *[
            {
                "lasting": F.col("lasting") & F.col("suppressed_by").isNull(),
                "detail": F.when(F.col("suppressed_by").isNull(), F.col("detail")).otherwise(
                    F.concat_ws("; ", "suppressed_by", "detail")
                ),
            }.get(name, F.col(name)).alias(name)
            for name in findings.columns
        ]
    )


def _expression(pattern: str) -> str:
    """Return the pattern as a regular expression of Java for the whole text."""
    signs = {"*": ".*", "?": "."}
    return r"(?s)\A" + "".join(signs.get(one) or (one if one.isalnum() else f"\\{one}") for one in pattern) + r"\z"


def is_suppressed() -> Column:
    """Return whether a finding is suppressed, rather than not lasting because only one round has it."""
    return ~F.col("lasting") & F.coalesce(F.col("detail").startswith(_PREFIX), F.lit(False))


def open_again(findings: DataFrame) -> DataFrame:
    """Return the findings with suppressed ones as lasting: their faults stay open until nothing finds them."""
    return findings.withColumn("lasting", F.col("lasting") | is_suppressed())


def notes_on(findings: DataFrame | None, entries: Sequence[Suppression], night: str) -> list[str]:
    """Return a text on each entry: how much it suppresses, or that it has ended, or matches nothing.

    ``findings``: None if none is suppressed.
    """
    counts: dict[int, int] = {}
    if findings is not None:
        number = F.regexp_extract("detail", rf"^{_PREFIX}\S+ by entry (\d+): ", 1).cast("int")
        counted = findings.where(is_suppressed()).groupBy(number.alias("number")).count().collect()
        counts = {row["number"]: row["count"] for row in counted}
    notes = []
    for entry in entries:
        if not entry.holds(night):
            said = f"expired at {entry.until}, and suppresses nothing: {entry.reason}"
        elif count := counts.get(entry.number):
            said = f"suppresses {count:,} {entry.finding_class} until {entry.until}: {entry.reason}"
        else:
            said = f"matched no lasting {entry.finding_class}; is it still needed? {entry.reason}"
        notes.append(f"suppressions, entry {entry.number} {said}")
    return notes
