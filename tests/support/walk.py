"""The Python calls that one thread makes for one request: recorded, counted, printed."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "distro")
LEFT_OUT = ("app/tools/embedded",)
"""Nodes of tests alone have it."""
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
"""Functions of their own before Python 3.12, and since then part of the function around them."""
WIDTH = 100
INDENT_MAX = 40


class Figures(NamedTuple):
    """The length of a walk."""

    calls: int
    """Functions that were called. The next value of a generator counts as a call."""
    files: int
    """Files that these functions are in."""
    returns: int
    """Calls that come back to a file which the calls before them had entered and left."""

    def __str__(self) -> str:
        return f"calls: {self.calls}, files: {self.files}, returns: {self.returns}"


@dataclass(frozen=True, slots=True)
class Step:
    """One call. ``depth``: how many calls that count are around it. ``line``: where the function begins."""

    depth: int
    file: str
    function: str
    line: int


@dataclass(frozen=True)
class Walk:
    """The calls of one thread, in their order."""

    steps: Sequence[Step]

    @cached_property
    def entered(self) -> Sequence[bool]:
        """Whether a step is in another file than the step before it; for each step."""
        files = ["", *(step.file for step in self.steps)]
        return [file != before for before, file in pairwise(files)]

    @property
    def figures(self) -> Figures:
        """Its length."""
        files = len({step.file for step in self.steps})
        return Figures(len(self.steps), files, sum(self.entered) - files)

    @property
    def text(self) -> str:
        """One line for each call, indented by its depth, then the totals. No line has over 100 characters.

        A call in another file than the call before it names that file: behind ``+`` where the walk enters the file for
        the first time, behind ``<`` where it comes back.
        """
        seen = set[str]()
        lines = []
        for number, (step, is_entered) in enumerate(zip(self.steps, self.entered, strict=True), 1):
            where = ""
            if is_entered:
                where = f" {'<' if step.file in seen else '+'} {step.file}:{step.line}"
                seen.add(step.file)
            room = WIDTH - len(where)
            call = f"{number:4} {' ' * min(step.depth, INDENT_MAX)}{step.function}"[:room]
            lines.append(f"{call:{room}}{where}".rstrip())
        return "\n".join([*lines, f"{self.figures}"])


class WalkRecorder:
    """Records the calls of functions in some folders, made by the threads that ``watched`` starts.

    Calls of libraries are left out. A function that a library calls back is part of the walk.
    """

    def __init__(
        self, root: Path = ROOT, packages: Sequence[str] = PACKAGES, left_out: Sequence[str] = LEFT_OUT
    ) -> None:
        """``packages``: folders in ``root``. ``left_out``: folders below them whose functions do not count."""
        self._root = f"{root}/"
        self._packages = tuple(f"{one}/" for one in packages)
        self._left_out = tuple(f"{one}/" for one in left_out)
        self._files: dict[CodeType, str | None] = {}
        self._steps: dict[str, list[Step]] | None = None
        """By the name of the thread; None while nothing is recorded."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch each thread that is started in the block, for as long as it runs."""
        before = threading.getprofile()
        threading.setprofile(self._begin)
        try:
            yield
        finally:
            threading.setprofile(before)

    def record(self, work: Callable[[], object]) -> dict[str, Walk]:
        """Return the calls that the watched threads made while ``work`` ran, by the name of the thread."""
        steps = self._steps = {}
        try:
            work()
        finally:
            self._steps = None
        return {thread: Walk(tuple(made)) for thread, made in steps.items()}

    def _begin(self, _frame: FrameType, _event: str, _argument: object) -> None:
        """Give a thread that begins an observer of its own."""
        sys.setprofile(self._observer(threading.current_thread().name))

    def _observer(self, thread: str) -> Callable[[FrameType, str, object], None]:
        files, depth = self._files, 0

        def observe(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal depth
            if event not in ("call", "return"):
                return
            code = frame.f_code
            file = files[code] if code in files else self._file_of(code)
            if file is None:
                return
            if event == "return":
                depth = max(depth - 1, 0)
                return
            if (steps := self._steps) is not None:
                steps.setdefault(thread, []).append(Step(depth, file, code.co_qualname, code.co_firstlineno))
            depth += 1

        return observe

    def _file_of(self, code: CodeType) -> str | None:
        """Return the file of a function that counts, below the root, and remember it; None for other functions."""
        file = code.co_filename.removeprefix(self._root)
        counts = file.startswith(self._packages) and not file.startswith(self._left_out)
        self._files[code] = file if counts and code.co_name not in COMPREHENSIONS else None
        return self._files[code]
