"""The bar of a node's start on a terminal: what it reads from its disk, and how much of it."""

import sys
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, TextIO, TypeVar

from app.languages.catalogues import N_
from app.languages.command_texts import gettext

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")
RECORDS, LISTS = N_("durable records"), N_("lists of the last run")
"""The parts of a load."""
DELAY_S = 1.0
"""A shorter load shows no bar."""


def shown_load(
    things: Iterable[T], name: str, *, wanted: bool, file: TextIO | None = None, delay_s: float = DELAY_S
) -> Iterable[T]:
    """Return the things, whose reading shows a bar after ``delay_s``; without ``wanted`` or a terminal, none."""
    file = file or sys.stderr
    return ShownLoad(things, name, file, delay_s) if wanted and file.isatty() else things


class ShownLoad(Iterator[T]):
    """Things that a start reads, with a bar. After a failure the iteration continues with the next thing."""

    def __init__(self, things: Iterable[T], name: str, file: TextIO, delay_s: float) -> None:
        """``things``: if their number is known, it is that of the things still to come."""
        self._things = iter(things)
        self._left = things if isinstance(things, Sized) and isinstance(things, Iterator) else None
        self._name, self._file, self._delay_s = name, file, delay_s
        self._total = 0
        self._bar: tqdm | None = None

    def __next__(self) -> T:
        if (bar := self._bar) is None:  # now: what comes before the first thing is no part of the load
            bar = self._bar = self._begin()
        try:
            return next(self._things)
        except StopIteration:
            bar.close()
            raise
        finally:
            bar.update(1 if self._left is None else self._total - len(self._left) - bar.n)

    def _begin(self) -> "tqdm":
        from tqdm import tqdm

        class Bar(tqdm):  # type: ignore[misc]  # tqdm comes without types
            monitor_interval = 0
            """A setting of tqdm: no thread runs next to the bar."""

        total = self._total = len(self._left) if self._left is not None else 0
        return Bar(
            desc=gettext(self._name), total=total or None, delay=self._delay_s, file=self._file, leave=False, unit=""
        )
