"""Markdown tables in the form of the pages in docs/, as lines that can be printed one by one."""

from collections.abc import Iterable, Sequence


def row(cells: Iterable[object]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(titles: Sequence[str]) -> str:
    """Return the two lines above the rows."""
    return f"{row(titles)}\n|{'---|' * len(titles)}"


def table(titles: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a whole table, without a line break at its end."""
    return "\n".join([head(titles), *map(row, rows)])
