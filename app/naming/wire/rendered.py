"""Rendered lists of services, kept until the service changes: one cache class, and one cache for each renderer."""

from threading import Lock
from typing import Generic, Protocol, TypeVar

from app.naming.model.model import ServiceView

ECHOED_CHARS_MAX = 256
"""A list with longer texts of its query in it is not kept: hardly a second client sends the same."""


class ListVariant(Protocol):
    """The values that a renderer's list depends on, beside the service. Hashable."""

    @property
    def echoed_chars(self) -> int:
        """The length of the texts that the list repeats."""
        ...


class RenderedList(Protocol):
    """The bytes of a list, for one state of a service."""

    revision: int
    """Of the view that was rendered."""

    def __len__(self) -> int:
        """The bytes that it takes up, at the most."""
        ...


V = TypeVar("V", bound=ListVariant)
R = TypeVar("R", bound=RenderedList)


class RenderedLists(Generic[V, R]):
    """The latest list of each service and variant, bounded in bytes. Thread-safe: reads take no lock."""

    def __init__(self, bytes_max: int, list_bytes_max: int) -> None:
        """``bytes_max``: of all lists; the oldest goes first. ``list_bytes_max``: a larger list is not kept."""
        self._bytes_max = bytes_max
        self._list_bytes_max = list_bytes_max
        self._lock = Lock()
        self._kept: dict[tuple[str, str, V], R] = {}
        """By namespace, full name and variant, in the order of rendering."""
        self.kept_bytes = 0

    def find(self, view: ServiceView, variant: V) -> R | None:
        """The list of a view, if it is kept."""
        found = self._kept.get((view.namespace, view.full_name, variant))
        return found if found is not None and found.revision == view.revision else None

    def keep(self, namespace: str, full_name: str, variant: V, rendered: R | None) -> None:
        """Keep a list in place of an older one, unless it is too large or echoes long texts; None drops the older."""
        key = (namespace, full_name, variant)
        with self._lock:
            if (old := self._kept.pop(key, None)) is not None:
                self.kept_bytes -= len(old)
            if rendered is None or len(rendered) > self._list_bytes_max or variant.echoed_chars > ECHOED_CHARS_MAX:
                return
            self._kept[key] = rendered
            self.kept_bytes += len(rendered)
            while self.kept_bytes > self._bytes_max:
                self.kept_bytes -= len(self._kept.pop(next(iter(self._kept))))
