"""The node's counters, from all its parts, under the names of the metrics."""

from collections.abc import Callable, Mapping

Source = Callable[[], Mapping[str, int | float]]
"""Reads the counters of one part, by name in snake_case."""


class Counters:
    """Reads all sources at each call. Sources are added before the node starts; any thread may call."""

    def __init__(self, load: Source, *sources: Source) -> None:
        """``load``: ``cpu`` of this process since the last call, ``load`` and ``mem`` (0..1) of the machine."""
        self._load = load
        self._sources = list(sources)

    def add(self, source: Source) -> None:
        """Read one more source from now on."""
        self._sources.append(source)

    def __call__(self) -> dict[str, int | float]:
        """Return the load, and each counter under its metric's name: ``syncSent`` for ``sync_sent``."""
        counts = {name: count for source in self._sources for name, count in source().items()}
        return {**self._load(), **{_camel_case(name): count for name, count in counts.items()}}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
