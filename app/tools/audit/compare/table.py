"""The differences between two members as text: lines of JSON, or a table for a terminal."""

import shutil
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.languages.catalogues import N_
from app.languages.command_texts import command_texts, gettext
from app.tools.audit.compare.compare import Difference
from app.tools.printable import json_line as any_json_line
from app.tools.printable import printable

TABLE_ROWS_MAX = 1_000
"""The most rows of a table, which are held until all are known: a column is as wide as its widest cell."""
CELL_WIDTH_MAX = 60
WIDE = "WF"
NOT_LASTING = N_(" (late)")
MORE_IN_JSON = N_("... and %(count)s more; --json shows them all")


def json_line(difference: Difference, a: str, b: str) -> str:
    """Return one difference as a line of JSON. ``a`` and ``b`` are the members' addresses."""
    value = {
        "finding_class": difference.finding_class.value,
        "lasting": difference.lasting,
        "namespace": difference.namespace,
        "service": difference.service,
        "cluster": difference.cluster,
        "ip": difference.ip,
        "port": difference.port,
        "ephemeral": difference.ephemeral,
        "a": {"member": a, "value": difference.a, "version": difference.a_version},
        "b": {"member": b, "value": difference.b, "version": difference.b_version},
    }
    if difference.name:
        value["name"] = difference.name
    return any_json_line(value)


@dataclass(slots=True)
class Tally:
    """The counts of the differences that were shown: by class, late ones, and the services in which they are."""

    by_class: Counter[str] = field(default_factory=Counter)
    late: int = 0
    services: set[tuple[str, str]] = field(default_factory=set)

    def count(self, differences: Iterable[Difference]) -> Iterator[Difference]:
        """Yield the differences, and count them."""
        for one in differences:
            self.by_class[one.finding_class.value] += 1
            self.late += one.lasting is False
            if one.service:
                self.services.add((one.namespace, one.service))
            yield one

    @property
    def total(self) -> int:
        return self.by_class.total()

    def text(self) -> str:
        """Return the counts in words.

        Shape: ``3 differences in 2 services: MISSING 2, WEIGHT 1; 1 of them not alike in both rounds``.
        """
        if not self.total:
            return gettext("no difference")
        classes = ", ".join(f"{name} {count}" for name, count in sorted(self.by_class.items()))
        texts = command_texts()
        count = texts.ngettext("%(count)s difference", "%(count)s differences", self.total, count=self.total)
        if self.services:
            number = len(self.services)
            where = texts.ngettext("%(count)s service", "%(count)s services", number, count=number)
            count = gettext("%(differences)s in %(services)s", differences=count, services=where)
        text = f"{count}: {classes}"
        if self.late:
            text = gettext("%(text)s; %(count)s of them not the same in both rounds", text=text, count=self.late)
        return text


def table(differences: Iterable[Difference], a: str, b: str) -> Iterator[str]:
    """Yield the lines of a table; its last line counts differences beyond ``TABLE_ROWS_MAX``. No lines without any."""
    rows: list[list[str]] = []
    more = 0
    for one in differences:
        if len(rows) == TABLE_ROWS_MAX:
            more += 1
        else:
            rows.append(_cells(one))
    if not rows:
        return
    head = [gettext("CLASS"), gettext("SERVICE"), gettext("INSTANCE"), a, b]
    versions = [gettext("VERSION %(member)s", member=one) for one in (a, b)]
    yield from aligned([*head, *versions], rows)
    if more:
        yield gettext(MORE_IN_JSON, count=more)


def aligned(head: Iterable[str], rows: Sequence[Sequence[str]], indent: str = "") -> Iterator[str]:
    """Yield the lines of a table with this head; columns that are empty in all rows are left out, long cells cut.

    On a terminal that is narrower, each row is a block of lines, one for each cell, as no cell should break.
    """
    head, shown = list(head), [[_cell(cell) for cell in row] for row in rows]
    columns = [index for index in range(len(head)) if any(row[index] for row in shown)]
    widths = [max(_width(row[index]) for row in [head, *shown]) for index in columns]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    if len(indent) + sum(widths) + 2 * (len(widths) - 1) > room:
        yield from _blocks(head, shown, columns, indent)
        return
    for row in [head, *shown]:
        cells = (row[index] + " " * (width - _width(row[index])) for index, width in zip(columns, widths, strict=True))
        yield indent + "  ".join(cells).rstrip()


def _blocks(head: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int], indent: str) -> Iterator[str]:
    """Yield a block of lines for each row, with blank lines between them."""
    width = max(_width(head[index]) for index in columns)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for index in columns:
            if row[index]:
                yield f"{indent}{head[index]}{' ' * (width - _width(head[index]))}  {row[index]}"


def _cells(one: Difference) -> list[str]:
    late = gettext(NOT_LASTING) if one.lasting is False else ""
    kind = gettext(" durable") if one.ephemeral is False else ""
    host = f"[{one.ip}]" if ":" in one.ip else one.ip
    return [
        one.finding_class.value + late,
        f"{one.namespace}/{one.service}" if one.service else "",
        f"{host}:{one.port}#{one.cluster}{kind}" if one.ip else one.name,
        one.a,
        one.b,
        one.a_version or "",
        one.b_version or "",
    ]


def _cell(text: str) -> str:
    """Return the text in one line of bounded width; characters that might control a terminal are escaped."""
    text = printable(text)
    if _width(text) <= CELL_WIDTH_MAX:
        return text
    while _width(text) > CELL_WIDTH_MAX - 3:
        text = text[: min(len(text) - 1, CELL_WIDTH_MAX)]
    return f"{text}..."


def _width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in WIDE else 1 for one in text
    )
