"""The results of ``http.py``: medians of turns, ratios, tables, JSON and a plot."""

import os
import platform
import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts.bench.load import Mode, WrkRun
from scripts.support.tables import table

ALONE, CLUSTER = "alone", "cluster"
PLACES = {ALONE: "Standalone", CLUSTER: "Through one member of three, CPU of all three added up"}
LABEL_WIDTH = 12
FIGURES = ("load", "connections", "server", "req/s", "p50 ms", "p99 ms", "CPU-µs per request", "bytes", "bad")
Key = tuple[str, str, int, str]
"""Place, mode, connections, server."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn: the figures of wrk, and the CPU time of the server's processes."""

    run: WrkRun
    cpu_s: float

    @property
    def req_s(self) -> float:
        return self.run.requests / self.run.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time for each request."""
        return self.cpu_s * 1e6 / self.run.requests

    @property
    def bytes(self) -> float:
        """Bytes of each answer, including its head."""
        return self.run.bytes / self.run.requests

    @property
    def bad(self) -> int:
        """Refusals and errors."""
        return self.run.refused + self.run.errors


@dataclass(slots=True)
class Row:
    """One server under one load, with its measured turns."""

    place: str
    mode: Mode
    connections: int
    server: str
    samples: list[Sample] = field(default_factory=list)
    wrong: int = 0
    """Wrong answers among those checked before the measured runs."""
    failed: int = 0
    """Turns without figures."""

    @property
    def key(self) -> Key:
        return self.place, self.mode.name, self.connections, self.server

    def median(self, figure: Callable[[Sample], float]) -> float:
        return statistics.median(map(figure, self.samples))

    @property
    def cpu_us(self) -> float:
        return self.median(lambda one: one.cpu_us)

    @property
    def bad(self) -> int:
        """Answers of all turns together, and turns that failed."""
        return self.wrong + self.failed + sum(one.bad for one in self.samples)

    def as_dict(self, times_ours: float | None) -> dict[str, Any]:
        """The medians, and every turn. Shape: see the keys."""
        return {
            "place": self.place,
            "mode": self.mode.name,
            "connections": self.connections,
            "server": self.server,
            "req_s": round(self.median(lambda one: one.req_s)),
            "p50_ms": round(self.median(lambda one: one.run.p50_ms), 3),
            "p99_ms": round(self.median(lambda one: one.run.p99_ms), 3),
            "max_ms": round(max(one.run.max_ms for one in self.samples), 3),
            "cpu_us": round(self.cpu_us, 2),
            "bytes": round(self.median(lambda one: one.bytes)),
            "bad": self.bad,
            "cpu_times_ours": times_ours,
            "turns": [{**asdict(one.run), "cpu_s": round(one.cpu_s, 3)} for one in self.samples],
        }


class Results:
    """All rows of a run, in the order in which they were measured."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._rows: dict[Key, Row] = {}

    def row(self, place: str, mode: Mode, connections: int, server: str) -> Row:
        """Return the row of this load, adding it if it is new."""
        made = Row(place, mode, connections, server)
        return self._rows.setdefault(made.key, made)

    @property
    def rows(self) -> list[Row]:
        """Rows that have figures."""
        return [row for row in self._rows.values() if row.samples]

    @property
    def bad_of_ours(self) -> int:
        return sum(row.bad for row in self._rows.values() if row.server == self._ours)

    def times_ours(self, row: Row) -> float | None:
        """The CPU time of a server for a load, as a multiple of ours."""
        ours = self._rows.get((row.place, row.mode.name, row.connections, self._ours))
        if ours is None or not ours.samples or not ours.cpu_us:
            return None
        return round(row.cpu_us / ours.cpu_us, 2)

    def as_list(self) -> list[dict[str, Any]]:
        return [row.as_dict(self.times_ours(row)) for row in self.rows]


# --- tables ------------------------------------------------------------------------------------------


def tables(results: Results) -> str:
    """A Markdown table for each place; ``bytes`` are those of an answer."""
    parts = []
    for place, title in PLACES.items():
        if rows := [row for row in results.rows if row.place == place]:
            cells = _cells(rows, results.times_ours)
            parts.append(f"{title}:\n\n" + table([*FIGURES[:7], "CPU, times ours", *FIGURES[7:]], cells))
    return "\n\n".join(parts) + "\n"


def overview(results: Results) -> str:
    """A Markdown table for each number of connections, with a line per load and a column per server."""
    parts = []
    for connections in dict.fromkeys(row.connections for row in results.rows):
        rows = [row for row in results.rows if row.connections == connections]
        columns = list(dict.fromkeys(map(_column, rows)))
        lines: dict[str, dict[str, str]] = {}
        for row in rows:
            req_s, p99_ms = row.median(lambda one: one.req_s), row.median(lambda one: one.run.p99_ms)
            cells = lines.setdefault(row.mode.title, {})
            cells[_column(row)] = f"{row.cpu_us:,.1f} / {req_s:,.0f} / {p99_ms:,.1f}"
        body = ([load, *(cells.get(one, "") for one in columns)] for load, cells in lines.items())
        parts.append(
            f"{connections} connections, CPU-µs per request / requests per second / p99 ms:\n\n"
            + table(["load", *columns], body)
        )
    return "\n\n".join(parts) + "\n"


def _column(row: Row) -> str:
    return row.server if row.place == ALONE else f"{row.server}, one of three"


def _cells(rows: Iterable[Row], times: Callable[[Row], float | None]) -> Iterator[Sequence[str]]:
    for row in rows:
        against = times(row)
        yield (
            row.mode.title,
            str(row.connections),
            row.server,
            f"{row.median(lambda one: one.req_s):,.0f}",
            f"{row.median(lambda one: one.run.p50_ms):.2f}",
            f"{row.median(lambda one: one.run.p99_ms):.2f}",
            f"{row.cpu_us:.1f}",
            "" if against is None else f"{against:.2f}",
            f"{row.median(lambda one: one.bytes):,.0f}",
            str(row.bad),
        )


# --- the machine -------------------------------------------------------------------------------------


def machine() -> dict[str, str | int]:
    """Describe this machine."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "model": cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def cpu_model(cpuinfo: str) -> str:
    """The processor's name in ``/proc/cpuinfo``, or else the architecture."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def machine_line(found: Mapping[str, str | int]) -> str:
    return (
        f"{found['cores']} cores of {found['model']}, {found['memory_mb']} MB, Linux {found['kernel']}, "
        f"Python {found['python']}"
    )


# --- the plot ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Series:
    """The bars of one colour: the CPU time of each load, None where it was not measured."""

    title: str
    cpu_us: tuple[float | None, ...]


def series(results: Results) -> tuple[int, list[str], list[Series]]:
    """Return the contents of the plot: the fewest connections, the loads, and the bars of every server."""
    rows = results.rows
    connections = min(row.connections for row in rows)
    shown = [row for row in rows if row.connections == connections]
    modes = {row.mode.name: row.mode.title for row in shown}
    by_column: dict[str, dict[str, float]] = {}
    for row in shown:
        by_column.setdefault(_column(row), {})[row.mode.name] = row.cpu_us
    drawn = [Series(column, tuple(map(found.get, modes))) for column, found in by_column.items()]
    return connections, list(modes.values()), drawn


def plot(results: Results, path: Path) -> None:
    """Draw the CPU time of a request, one group of bars per load; the suffix selects the format.

    Raises:
        ImportError: matplotlib, of the extra ``dev``, is not installed.
    """
    from matplotlib.figure import Figure

    connections, loads, drawn = series(results)
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(drawn)
    for index, one in enumerate(drawn):
        _bars(axes, one.title, [at + (index - (len(drawn) - 1) / 2) * width for at in range(len(loads))], width, one)
    axes.set_yscale("log")
    axes.set_ylabel("CPU-µs per request (logarithmic)")
    axes.set_title(f"CPU time of a request, {connections} connections; less is better")
    axes.set_xticks(range(len(loads)), [textwrap.fill(load, LABEL_WIDTH) for load in loads])
    axes.margins(y=0.12)
    axes.legend(ncols=len(drawn), loc="upper left", fontsize="small")
    # Without the date, so that the file changes only with its figures.
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=120)


def _bars(axes: Any, title: str, at: Sequence[float], width: float, drawn: Series) -> None:
    known = [(place, value) for place, value in zip(at, drawn.cpu_us, strict=True) if value]
    bars = axes.bar([place for place, _ in known], [value for _, value in known], width, label=title)
    axes.bar_label(bars, [f"{value:.0f}" for _, value in known], fontsize=7)
