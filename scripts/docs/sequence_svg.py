"""Draws the events of a simulated run as a sequence: a lane for each process, a row for each event, and its text."""

import re
import textwrap
from collections.abc import Sequence
from xml.sax.saxutils import escape

from app.tools.simulation.transcript.entry import Entry, What
from app.tools.simulation.transcript.lines import letter_of, short

INK, PALE, LINE, PAPER = "#1f2933", "#52606d", "#c5ccd3", "#ffffff"
COLOURS = {
    What.WRITE: "#1d4ed8",
    What.ANSWER: "#1d4ed8",
    What.SEND: "#c2410c",
    What.VERIFY: "#7c3aed",
    What.FETCH: "#7c3aed",
    What.DECIDE: "#15803d",
    What.LIST: "#15803d",
    What.CLAIM: "#b45309",
    What.LOST: "#b91c1c",
    What.FAULT: "#b91c1c",
}
"""Colors of arrows and dots, by the kind of the event; other kinds have the color of the text."""
TRAVELS = {What.WRITE, What.SEND, What.ANSWER, What.FETCH, What.LOST}
"""Events that travel from one process to another; all others happen at one process."""
TIME_WIDTH, LANE_WIDTH, TEXT_WIDTH, HEAD_HEIGHT, ROW_HEIGHT, LINE_HEIGHT, CHARS_MAX = 68, 60, 500, 46, 26, 15, 78
CONNECTION = re.compile(r"\b\d+_10\.9\.0\.(\d+)_\d+")
"""The id of a client with a connection, in the form of the simulation."""


def draw(title: str, entries: Sequence[Entry]) -> str:
    """Return the picture as SVG; the same entries give the same text."""
    lanes = _lanes(entries)
    rows: list[str] = []
    top = HEAD_HEIGHT
    for entry in entries:
        lines = _said(entry)
        rows += _row(entry, lines, lanes, top, entry.at_ms - entries[0].at_ms)
        top += ROW_HEIGHT + LINE_HEIGHT * (len(lines) - 1)
    width, height = TIME_WIDTH + LANE_WIDTH * len(lanes) + TEXT_WIDTH, top + 8
    heads = [_text(x, 26, name, anchor="middle", weight="bold") for name, x in lanes.items()]
    stems = [f'<line x1="{x}" y1="34" x2="{x}" y2="{height - 6}" stroke="{LINE}"/>' for x in lanes.values()]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' role="img" font-family="sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
            *stems,
            *heads,
            *rows,
            "</svg>\n",
        )
    )


def _lanes(entries: Sequence[Entry]) -> dict[str, int]:
    """The position of each lane: processes outside the cluster first, then the members."""
    names = {_name(one) for entry in entries for one in (entry.who, entry.peer) if one}
    ordered = sorted(names, key=lambda name: (len(name) == 1, name))
    return {name: TIME_WIDTH + LANE_WIDTH * number + LANE_WIDTH // 2 for number, name in enumerate(ordered)}


def _name(address: str) -> str:
    return letter_of(CONNECTION.sub(r"sdk-\1", address))


def _said(entry: Entry) -> list[tuple[str, str]]:
    """The lines of an event's text, each with its colour; the last line is the rule that decided, if any."""
    text = short(CONNECTION.sub(r"sdk-\1", entry.text)).replace(" of iplist ", " of ").replace("iplist ", "")
    if entry.what not in TRAVELS:
        text = f"{_name(entry.who)}{':' if entry.what is What.DECIDE else ''} {text}"
    rule = f"({entry.rule})" if entry.rule else ""
    return [(line, INK) for line in textwrap.wrap(text, CHARS_MAX)] + [
        (line, PALE) for line in textwrap.wrap(rule, CHARS_MAX)
    ]


def _row(entry: Entry, lines: Sequence[tuple[str, str]], lanes: dict[str, int], top: int, after_ms: int) -> list[str]:
    middle, colour = top + 10, COLOURS.get(entry.what, INK)
    text_left = TIME_WIDTH + LANE_WIDTH * len(lanes) + 12
    found = [_text(TIME_WIDTH - 10, middle + 4, f"{after_ms:,} ms", anchor="end", colour=PALE)]
    here = lanes[_name(entry.who)]
    if entry.peer and entry.what in TRAVELS:
        there = lanes[_name(entry.peer)]
        source, target = (there, here) if entry.incoming else (here, there)
        found += _arrow(source, target, middle, colour, lost=entry.what is What.LOST)
    else:
        found.append(f'<circle cx="{here}" cy="{middle}" r="5" fill="{colour}"/>')
    for number, (line, its_colour) in enumerate(lines):
        found.append(_text(text_left, middle + 4 + LINE_HEIGHT * number, line, colour=its_colour))
    return found


def _arrow(source: int, target: int, y: int, colour: str, *, lost: bool) -> list[str]:
    way = 1 if target > source else -1
    end = (source + target) // 2 if lost else target - 2 * way
    line = f'<line x1="{source}" y1="{y}" x2="{end}" y2="{y}" stroke="{colour}" stroke-width="1.8"'
    if lost:
        cross = f"M{end - 5} {y - 5}l10 10m0 -10l-10 10"
        return [f'{line} stroke-dasharray="4 3"/>', f'<path d="{cross}" stroke="{colour}" stroke-width="1.8"/>']
    return [f"{line}/>", f'<path d="M{end} {y}l{-8 * way} -4v8z" fill="{colour}"/>']


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal", colour: str = INK) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
