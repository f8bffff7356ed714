"""The node's counters, from all its parts, under the names of the metrics."""

from collections.abc import Callable, Mapping

Source = Callable[[], Mapping[str, int | float]]
"""Reads the counters of one part, by name in snake_case."""


class Counters:
    """Reads all sources at each call. Sources are added before the node starts; any thread may call."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        """Add a source, to be read from now on."""
        self._sources.append(source)

    def by_name(self) -> dict[str, int | float]:
        """Return each counter under its own name."""
        return {name: count for source in self._sources for name, count in source().items()}

    def __call__(self) -> dict[str, int | float]:
        """Return each counter under its metric's name, in the order of the sources: ``syncSent`` for ``sync_sent``."""
        return {_camel_case(name): count for name, count in self.by_name().items()}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
