"""Drawings as SVG inside a page: small, accessible, in the page's colours and letters."""

import math
import re
import unicodedata
from collections.abc import Iterator
from xml.etree import ElementTree

FONT_SIZE = 11
LETTER_WIDTH = 0.62 * FONT_SIZE
"""The width of a letter of the page's fonts, a little above the average; a wide letter (CJK) takes 1.8 of it."""
WIDE = 1.8
_SPACE = re.compile(r"\s+")


class Drawing:
    """An ``<svg>`` element that is drawn from left to right and from top to bottom, in units of a pixel.

    ``name`` is in each of its ids, so that the drawings of a page share none; ``title`` names it, ``text`` describes it
    in words.
    """

    def __init__(self, name: str, title: str, text: str, width: float, height: float) -> None:
        self._root = ElementTree.Element(
            "svg",
            {
                "viewBox": f"0 0 {number(width)} {number(height)}",
                "font-size": str(FONT_SIZE),
                "role": "img",
                "aria-labelledby": f"{name}-title {name}-text",
            },
        )
        for tag, identity, words in (("title", "title", title), ("desc", "text", text)):
            told = ElementTree.SubElement(self._root, tag, {"id": f"{name}-{identity}"})
            told.text = plain(words)

    def rect(self, x: float, y: float, width: float, height: float, colour: str, hint: str = "") -> None:
        """Draw a rectangle; ``hint`` is shown when the pointer rests on it."""
        sides = {"x": x, "y": y, "width": width, "height": height}
        self._add("rect", {key: number(side) for key, side in sides.items()} | {"fill": f"var(--{colour})"}, hint)

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str) -> None:
        ends = {"x1": x, "y1": y, "x2": to_x, "y2": to_y}
        self._add("line", {key: number(end) for key, end in ends.items()} | {"stroke": f"var(--{colour})"})

    def path(self, steps: str, colour: str, width: float = 1.5) -> None:
        """Draw a line along ``steps``, in the syntax of SVG paths."""
        self._add("path", {"d": steps, "fill": "none", "stroke": f"var(--{colour})", "stroke-width": str(width)})

    def circle(self, x: float, y: float, radius: float, colour: str, hint: str = "") -> None:
        places = {"cx": number(x), "cy": number(y), "r": number(radius)}
        self._add("circle", places | {"fill": f"var(--{colour})"}, hint)

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", colour: str = "ink", hint: str = ""
    ) -> None:
        """Draw a line of text with its baseline at ``y``; its start, middle or end (``anchor``) is at ``x``."""
        given = {"x": number(x), "y": number(y), "fill": f"var(--{colour})"}
        if anchor != "start":
            given["text-anchor"] = anchor
        self._add("text", given, hint, plain(words))

    def markup(self) -> str:
        """Return the element as text."""
        return ElementTree.tostring(self._root, encoding="unicode", short_empty_elements=True)

    def _add(self, tag: str, attributes: dict[str, str], hint: str = "", words: str | None = None) -> None:
        element = ElementTree.SubElement(self._root, tag, attributes)
        if hint:
            told = ElementTree.SubElement(element, "title")
            told.text = plain(hint)
            told.tail = words
        else:
            element.text = words


def plain(text: object) -> str:
    """Return the text without characters unfit for a drawing: controls, and marks that change the writing direction."""
    spaced = _SPACE.sub(" ", str(text))
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in spaced)


def number(value: float) -> str:
    """Return the number to a tenth, without a fraction of zero."""
    return f"{value:.1f}".removesuffix(".0")


def width_of(text: str) -> float:
    """Return roughly how wide the text is."""
    return LETTER_WIDTH * sum(WIDE if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def ticks(highest: int, count_max: int) -> list[int]:
    """Return numbers from 0 to at least ``highest``, at most ``count_max`` steps of 1, 2 or 5 times a power of ten."""
    step = next(step for step in _steps() if math.ceil(highest / step) <= count_max)
    return list(range(0, max(1, math.ceil(highest / step)) * step + 1, step))


def _steps() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10
