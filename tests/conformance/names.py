"""The names of services that running Nacos servers took and refused, and the table of them in docs/names.md.

By hand, from the root: ``.venv/bin/python -m tests.conformance.names`` writes the table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RECORDED = Path(__file__).with_name("names.jsonl")
PAGE = Path(__file__).parents[2] / "docs" / "names.md"
START, END = "<!-- names -->\n", "<!-- /names -->\n"
LONG = 512
"""Longer names are shown by their length."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way in, and the column of the servers that were asked over it."""

    title: str
    servers: tuple[str, ...]
    """Of the recordings: release and API."""


WAYS = {
    "v1": Way("HTTP v1", ("1.4.1 HTTP v1",)),
    "v1 as 2.x": Way("HTTP v1, 2.x", ("2.3.1 HTTP v1",)),
    "v2": Way("HTTP v2", ("2.3.1 HTTP v2",)),
    "v3": Way("HTTP v3", ("3.0.3 HTTP v3",)),
    "grpc": Way("gRPC", ("2.3.1 gRPC", "3.0.3 gRPC")),
}
DIFFERENT = {("@@", "v3"): "It has no name after its group, and no other call could name it."}
"""Where Rollcall answers otherwise, by name and way, with the reason."""

Recorded = Mapping[str, Mapping[str, str | None]]
"""By name, then by column: the text of the refusal, or None for a name that was taken."""


def recorded() -> Recorded:
    """Return all that was recorded."""
    rows = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    return {row.pop("name"): row for row in rows}


def is_taken(row: Mapping[str, str | None], way: str) -> bool:
    """Return whether the servers took a name over a way. They agree, if there are several."""
    [answer] = {row[server] is None for server in WAYS[way].servers}
    return answer


def shown(name: str) -> str:
    """Return a name as a cell of the table has it: as code, what is not printable escaped."""
    if len(name) >= LONG:
        return f"{len(name)} letters"
    text = name if name.isprintable() else json.dumps(name)[1:-1]
    if name.strip(" ") != name or not name:
        text = f'"{text}"'
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def table() -> str:
    """Return the table: a row for all names with the same answers."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, row in recorded().items():
        cells = tuple(_cell(name, row, way) for way in WAYS)
        rows.setdefault(cells, []).append(shown(name))
    head = [
        "names",
        *(f"{one.title} ({', '.join(server.partition(' ')[0] for server in one.servers)})" for one in WAYS.values()),
    ]
    lines = [head, ["---"] * len(head), *([" ".join(names), *cells] for cells, names in rows.items())]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(name: str, row: Mapping[str, str | None], way: str) -> str:
    theirs = is_taken(row, way)
    ours = theirs != ((name, way) in DIFFERENT)
    words = {True: "yes", False: "no"}
    return words[theirs] if ours == theirs else f"{words[theirs]}, here {words[ours]}"


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text(before + START + "\n" + table() + "\n" + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
