"""A matplotlib figure as SVG inside a page: small, accessible, in the page's colours and letters."""

import io
import logging
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "ink": "#010101",
    "muted": "#020202",
    "line": "#030303",
    "accent": "#050505",
    "late": "#060606",
    "gap": "#070707",
    **{f"series-{number}": f"#0801{number:02x}" for number in range(8)},
}
"""Colours to draw with. Each stands for the page's own variable of that name, which differs by light and dark."""

FONT_SIZE = 11
POINTS_AN_INCH = 72

_SETTINGS: dict[Any, Any] = {
    # Text stays text: a page of outlines is ten times as long, and cannot be searched.
    "svg.fonttype": "none",
    # Without it the dollars of a hostile name would start a formula.
    "text.parse_math": False,
    "font.size": FONT_SIZE,
    "text.color": COLOURS["ink"],
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_FAMILY = re.compile(r"font-family: [^;]*; ?")
_DECIMALS = re.compile(r"(\.\d)\d+")
_TURNED = re.compile(r"rotate\(-?0 [^)]*\)")
_LINK = re.compile(r"#([^)\"']+)")
_SPACE = re.compile(r"\s+")


def draw(name: str, title: str, text: str, plot: Callable[[], "tuple[Figure, Mapping[str, str]]"]) -> str:
    """Return the figure of ``plot`` as an ``<svg>`` element, named by ``title`` and told in words by ``text``.

    ``plot`` returns a figure, and by gid the hint of an element, which is shown when a pointer rests there. Every id
    has ``name`` in it, so that the drawings of a page share none.
    """
    # A service has no home to keep the list of fonts in; that costs a second a night, and is no news for its log.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    with matplotlib.rc_context({**_SETTINGS, "svg.hashsalt": name}), warnings.catch_warnings():
        # A letter that matplotlib's font lacks is one that the reader's has: only its width is guessed here.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure, hints = plot()
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", transparent=True)
    root = ElementTree.fromstring(drawn.getvalue())
    _describe(root, name, title, text, hints)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def plain(text: object) -> str:
    """The text as a drawing may hold it: without control characters and marks that turn the direction of writing."""
    spaced = _SPACE.sub(" ", str(text))
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in spaced)


def _describe(root: ElementTree.Element, name: str, title: str, text: str, hints: Mapping[str, str]) -> None:
    """Make a drawing part of a page: tags without XML namespaces, ids of its own, title and text for screen readers."""
    _remove_idle(root)
    linked = {link for one in root.iter() for value in one.attrib.values() for link in _links(value)}
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
        identity = one.attrib.pop("id", None)
        if hint := hints.get(identity or ""):
            shown = ElementTree.Element("title")
            shown.text = hint
            one.insert(0, shown)
        attributes = {key.rpartition("}")[2]: _restyle(value, name) for key, value in one.attrib.items()}
        if identity in linked:
            attributes["id"] = f"{name}-{identity}"
        one.attrib.clear()
        one.attrib.update(attributes)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-text"}
    for place, (tag, words) in enumerate((("title", title), ("desc", text))):
        told = ElementTree.Element(tag, {"id": f"{name}-{'title' if tag == 'title' else 'text'}"})
        told.text = plain(words)
        root.insert(place, told)


def _remove_idle(parent: ElementTree.Element) -> None:
    """Remove metadata, style sheets, empty definitions, rotations by 0, and the white space between elements."""
    for child in list(parent):
        if child.tag.rpartition("}")[2] in {"metadata", "style"}:
            parent.remove(child)
            continue
        _remove_idle(child)
        if child.tag.endswith("}defs") and not len(child):
            parent.remove(child)
        if _TURNED.fullmatch(child.get("transform", "")):
            del child.attrib["transform"]
        child.tail = None
    if not (parent.text or "").strip():
        parent.text = None


def _links(value: str) -> list[str]:
    if value.startswith("#") or "url(#" in value:
        return _LINK.findall(value)
    return []


def _restyle(value: str, name: str) -> str:
    """The attribute with the page's colours and letters, numbers to a tenth, and links to ids of this drawing."""
    for variable, colour in COLOURS.items():
        value = value.replace(colour, f"var(--{variable})")
    value = _DECIMALS.sub(r"\1", _FAMILY.sub("", value))
    return _LINK.sub(rf"#{name}-\1", value) if _links(value) else value
