"""Draw the packages of the code and the path of a registration through them: docs/architecture.svg.

Packages and their layers come from the import contracts in setup.cfg, captions from the docstrings of the packages,
counts from the files. The path at both members is recorded on running nodes (``registration_way.py``); the steps of the
engine between them are a list (``ENGINE``). Each function must exist, and a step of the engine must name what leads to
the next one, or nothing is drawn.

    python -m scripts.docs.picture            # record the path, and write docs/architecture.svg
    python -m scripts.docs.picture --check    # exit code 1 when the file is out of date
"""

import argparse
import ast
import configparser
import hashlib
import io
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from scripts.docs.registration_way import ENDS, Passed, read_recorded, record

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "architecture.svg"
CONTRACT = "importlinter:contract:"
WITH_INNER_LAYERS = {"app.http": "http", "app.rpc": "rpc", "app.naming": "naming", "distro": "distro"}
"""Packages that are drawn with their contents, and the contract that names their layers."""
WIDTH, MARGIN, GAP, CHIP_HEIGHT, HEADER_HEIGHT, LEGEND_WIDTH = 100.0, 1.2, 1.0, 2.5, 4.4, 46.0
CAPTION_CHARS_PER_UNIT, CAPTION_CHARS_MIN, NARROW = 1.75, 20, 14.0
LEGEND_CHARS_MAX = 88
DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
INK, PALE, ROOM, CHIP, PATH = "#1f2933", "#6b7885", "#f4f6f8", "#ffffff", "#c2410c"


@dataclass(frozen=True, slots=True)
class Step:
    """One function on the path. ``leads_by``: the name in it that leads to the next; empty for a recorded step."""

    function: str
    """``module:Class.method`` or ``module:function``."""
    leads_by: str
    says: str


ENGINE = (
    Step("distro.engine.mailbox:Mailbox.sync", "_sync", "the key waits for the engine's thread"),
    Step("distro.engine.runtime:DistroRuntime._turn", "tick", "that thread wakes"),
    Step("distro.protocol.protocol:DistroProtocol._next_calls", "_next_call", "one action for each idle peer"),
    Step(
        "distro.engine.peer_call_runner:PeerCallRunner.sync_at_once",
        "start_small_sync",
        "reads what changed for the peer; the peer's worker sends what is large",
    ),
    Step("app.peers.small_datums:SmallSends._started", "send_next", "encoded; the event loop sends what is small"),
)
"""The steps between the two members. The engine's thread also does other work, so its calls are not recorded."""


@dataclass(slots=True)
class Room:
    """A package or a loose module, with the layers inside it, top layer first: names of sub-packages or modules."""

    name: str
    caption: str
    files: int
    layers: list[list[str]] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    """Captions of the contents, by name."""

    @property
    def weight(self) -> float:
        """The share of the width of a layer."""
        return max([4.0, *(sum(len(name) + 3 for name in layer) * 0.8 for layer in self.layers)])

    @property
    def height(self) -> float:
        return HEADER_HEIGHT + len(self.layers) * (CHIP_HEIGHT + 0.5)


def contract_layers(text: str, contract: str) -> list[list[str]]:
    """The layers of a contract in setup.cfg, top first, each with its modules."""
    parser = configparser.ConfigParser()
    parser.read_string(text)
    lines = parser[CONTRACT + contract]["layers"].split("\n")
    return [re.findall(r"\w+", line) for line in lines if line.strip()]


def read_room(module: str, setup_cfg: str) -> Room:
    """Return the box of a package or module."""
    path = ROOT.joinpath(*module.split("."))
    files = sum(one.name != "__init__.py" for one in path.rglob("*.py")) if path.is_dir() else 1
    inner = WITH_INNER_LAYERS.get(module)
    layers = contract_layers(setup_cfg, inner) if inner else []
    captions = {name: _caption(path / name) for layer in layers for name in layer}
    return Room(module, _caption(path), files, layers, captions)


def _caption(path: Path) -> str:
    """The first line of a package's or module's docstring."""
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
    return docstring.split("\n")[0].replace("``", "")


def read_floors() -> list[list[Room]]:
    """All packages, the top layer first."""
    setup_cfg = (ROOT / "setup.cfg").read_text()
    floors = [[f"app.{name}" for name in layer] for layer in contract_layers(setup_cfg, "app")]
    return [[read_room(module, setup_cfg) for module in floor] for floor in [*floors, ["distro"]]]


def read_way() -> list[Step]:
    """Return the path of a registration: at the owner, through its engine, at another member.

    Raises:
        LookupError: a function of the path is not in the code.
    """
    at_owner, at_peer = [[_recorded(one) for one in read_recorded() if one.walk == walk] for walk in ENDS]
    check_way(ENGINE)
    first, *others = at_peer
    return [*at_owner, *ENGINE, replace(first, says=f"at another member: {first.says}"), *others]


def _recorded(one: Passed) -> Step:
    """Return the step of a recorded function, with the first sentence of the nearest docstring around its code."""
    texts = [ast.get_docstring(node) for node in _nodes(one.function) if isinstance(node, DOCUMENTED)]
    line = next(text for text in reversed(texts) if text).split("\n")[0].replace("``", "")
    return Step(one.function, "", line.split(". ")[0].rstrip("."))


def check_way(way: tuple[Step, ...]) -> None:
    """Raises LookupError when a step's function is not in the code, or does not name what leads to the next."""
    for step in way:
        names = {name for node in ast.walk(_nodes(step.function)[-1]) for name in _names(node)}
        if step.leads_by and step.leads_by not in names:
            raise LookupError(f"{step.function} names no {step.leads_by!r}: mend ENGINE in {Path(__file__).name}")


def _nodes(function: str) -> list[ast.AST]:
    """Return the syntax of a function, behind that of its module and of the classes and functions around it."""
    module, _, qualified = function.partition(":")
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    nodes: list[ast.AST] = [ast.parse(file.read_text() if file.exists() else "")]
    for name in qualified.replace("<locals>.", "").split("."):
        body = getattr(nodes[-1], "body", [])
        found = next((one for one in body if getattr(one, "name", None) == name), None)
        if found is None:
            raise LookupError(f"no function {function}: record the way again (python -m scripts.docs.picture)")
        nodes.append(found)
    return nodes


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id


def draw() -> str:
    """Return the picture as SVG.

    Raises:
        LookupError: the path does not match the code.
    """
    way = read_way()
    import matplotlib

    matplotlib.use("svg")
    floors = read_floors()
    with matplotlib.rc_context(
        {"svg.hashsalt": "rooms", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8}
    ):
        return _Drawing(floors, way).svg() + f"<!-- {digest(floors, way)} -->\n"


def digest(floors: list[list[Room]], way: list[Step]) -> str:
    """A digest of the contents of the picture, independent of the output of matplotlib."""
    shown = repr([[asdict(room) for room in floor] for floor in floors]) + repr(way)
    return f"shows {hashlib.sha256(shown.encode()).hexdigest()}"


def is_current() -> bool:
    """Return whether the file shows the current packages and path."""
    return TARGET.exists() and digest(read_floors(), read_way()) in TARGET.read_text()


class _Drawing:
    """Draw the layers from top to bottom, the path over them, and its steps as text beside them."""

    def __init__(self, floors: list[list[Room]], way: list[Step]) -> None:
        from matplotlib.figure import Figure

        heights = [max(room.height for room in floor) for floor in floors]
        self._height = sum(heights) + GAP * (len(floors) + 1)
        self._places: dict[str, tuple[float, float]] = {}
        figure = Figure(figsize=((WIDTH + LEGEND_WIDTH) / 10, self._height / 10), facecolor="white")
        self._figure, self._axes = figure, figure.add_axes((0, 0, 1, 1))
        self._axes.set_xlim(0, WIDTH + LEGEND_WIDTH)
        self._axes.set_ylim(self._height, 0)
        self._axes.axis("off")
        top = GAP
        for floor, height in zip(floors, heights, strict=True):
            self._floor(floor, top, height)
            top += height + GAP
        self._draw_way(way)

    def svg(self) -> str:
        drawn = io.StringIO()
        self._figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        return re.sub(r"[ \t]+$", "", drawn.getvalue(), flags=re.MULTILINE)

    def _floor(self, floor: list[Room], top: float, height: float) -> None:
        room_width = WIDTH - 2 * MARGIN - GAP * (len(floor) - 1)
        weight = sum(room.weight for room in floor)
        left = MARGIN
        for room in floor:
            width = room_width * room.weight / weight
            self._room(room, left, top, width, height)
            left += width + GAP

    def _room(self, room: Room, left: float, top: float, width: float, height: float) -> None:
        self._box(left, top, width, height, ROOM, PALE)
        self._places[room.name] = (left + width - 1.4, top + height - 1.4)
        self._axes.text(left + 0.6, top + 1.3, room.name, color=INK, weight="bold", va="center")
        if room.files > 1:
            count = str(room.files) if width < NARROW else f"{room.files} files"
            self._axes.text(left + width - 0.6, top + 1.3, count, color=PALE, va="center", ha="right", size=6.5)
        lines = textwrap.wrap(room.caption, max(int(width * CAPTION_CHARS_PER_UNIT), 12), max_lines=2, placeholder=" …")
        self._axes.text(left + 0.6, top + 3.1, "\n".join(lines), color=PALE, va="center", size=6, linespacing=1.1)
        below = top + HEADER_HEIGHT
        for layer in room.layers:
            chip_width = (width - GAP * (len(layer) + 1) * 0.5) / len(layer)
            for number, name in enumerate(layer):
                x = left + GAP * 0.5 + number * (chip_width + GAP * 0.5)
                self._box(x, below, chip_width, CHIP_HEIGHT, CHIP, "#c5ccd3")
                self._axes.text(x + 0.5, below + CHIP_HEIGHT / 2, name, color=INK, va="center", size=7)
                self._chip_caption(room.captions[name], x + 1.5 + len(name), x + chip_width - 4.0, below)
                self._places[f"{room.name}.{name}"] = (x + chip_width - 1.2, below + CHIP_HEIGHT / 2)
            below += CHIP_HEIGHT + 0.5

    def _chip_caption(self, caption: str, left: float, right: float, top: float) -> None:
        chars = int((right - left) * CAPTION_CHARS_PER_UNIT)
        if chars > CAPTION_CHARS_MIN:
            text = textwrap.shorten(caption, chars, placeholder=" …")
            self._axes.text(left, top + CHIP_HEIGHT / 2, text, color=PALE, va="center", size=6)

    def _box(self, left: float, top: float, width: float, height: float, fill: str, edge: str) -> None:
        from matplotlib.patches import FancyBboxPatch

        style = "round,pad=0,rounding_size=0.5"
        self._axes.add_patch(FancyBboxPatch((left, top), width, height, boxstyle=style, fc=fill, ec=edge, lw=0.8))

    def _draw_way(self, way: list[Step]) -> None:
        steps_at: dict[tuple[float, float], int] = {}
        before: tuple[float, float] | None = None
        legend_top = 4.0
        left = WIDTH + 1.5
        self._axes.text(left, 2.0, "The way of a registration", color=INK, weight="bold", va="center", size=9)
        for number, step in enumerate(way, 1):
            x, y = self._place_of(step)
            same = steps_at.get((x, y), 0)
            steps_at[x, y] = same + 1
            at = (x - 2.3 * same, y)
            if before is not None:
                arrow = {
                    "arrowstyle": "-|>",
                    "color": PATH,
                    "lw": 1.3,
                    "alpha": 0.75,
                    "connectionstyle": "arc3,rad=0.12",
                }
                self._axes.annotate("", at, before, arrowprops=arrow | {"shrinkA": 5, "shrinkB": 5})
            self._axes.text(*at, str(number), color="white", weight="bold", ha="center", va="center", size=6.5,
                            bbox={"boxstyle": "circle,pad=0.25", "fc": PATH, "ec": "white", "lw": 0.6})  # fmt: skip
            before = at
            module, _, name = step.function.partition(":")
            self._axes.text(left, legend_top, f"{number}", color=PATH, weight="bold", va="center", size=7)
            name = name.replace("<locals>.", "")
            says = textwrap.shorten(step.says, LEGEND_CHARS_MAX - len(module), placeholder=" …")
            self._axes.text(left + 2.4, legend_top, name, color=INK, va="center", size=7)
            self._axes.text(left + 2.4, legend_top + 1.3, f"{says}  ({module})", color=PALE, va="center", size=6)
            legend_top += 3.4

    def _place_of(self, step: Step) -> tuple[float, float]:
        module = step.function.partition(":")[0]
        while module not in self._places:
            module, dot, _ = module.rpartition(".")
            if not dot:
                raise LookupError(f"no room for {step.function}")
        return self._places[module]


def main() -> int:
    """Write or check the picture; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when the file is out of date")
    if parser.parse_args().check:
        return int(not is_current())
    record()
    TARGET.write_text(draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())
