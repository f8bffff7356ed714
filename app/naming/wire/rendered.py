"""Rendered lists of services, cached until the service changes: one cache class, and one cache for each renderer."""

from threading import Lock
from typing import Generic, Protocol, Self, TypeVar

from app.naming.model.model import ServiceView

SERVICE_PART = 8
"""The part of a cache that several variants of one service may take."""
VARIANTS_MAX = 32
"""The most cached variants of one service: more than the combinations of clusters that a fleet requests."""
NO_CLUSTER = ","
"""Stands for clusters that the service does not have. No cluster has this name."""


class ListVariant(Protocol):
    """The values that a renderer's list depends on, in addition to the service. Hashable."""

    @property
    def clusters(self) -> str:
        """The names of the requested clusters, with commas between; empty for all."""
        ...

    def of_clusters(self, clusters: str) -> Self:
        """Return the variant with other clusters."""
        ...


class RenderedList(Protocol):
    """The bytes of a list, for one state of a service."""

    revision: int
    """The revision of the view that was rendered."""

    def __len__(self) -> int:
        """Return the most bytes that it occupies."""
        ...


V = TypeVar("V", bound=ListVariant)
R = TypeVar("R", bound=RenderedList)


def known_clusters(view: ServiceView, clusters: str) -> str:
    """Return the requested clusters that the service has, sorted; empty for all, ``NO_CLUSTER`` for none."""
    known = view.clusters
    if clusters in known and NO_CLUSTER not in clusters:
        return clusters if len(known) > 1 else ""
    asked = set(clusters.split(","))
    asked.discard("")
    if not asked:
        return ""
    found = asked.intersection(known)
    if len(found) == len(known) > 0:
        return ""
    return ",".join(sorted(found)) if found else NO_CLUSTER


class RenderedLists(Generic[V, R]):
    """The latest list of each service and variant, bounded in bytes. Thread-safe: reads take no lock.

    Queries that show the same instances share one list: unknown clusters, repetitions and their order make no variant.
    """

    def __init__(self, bytes_max: int, list_bytes_max: int) -> None:
        """``bytes_max``: of all lists.

        The oldest service goes first. ``list_bytes_max``: a larger list is not cached.
        """
        self._bytes_max = bytes_max
        self._list_bytes_max = list_bytes_max
        self._service_bytes_max = bytes_max // SERVICE_PART
        self._lock = Lock()
        self._kept: dict[tuple[str, str], tuple[tuple[V, R], ...]] = {}
        """Variants by namespace and full name, the service that was rendered last at the end, and so its variants."""
        self.kept_bytes = 0

    def find(self, view: ServiceView, variant: V) -> R | None:
        """Return the list of a view, if it is cached."""
        kept = self._kept.get((view.namespace, view.full_name))
        if kept is None:
            return None
        if variant.clusters:
            variant = variant.of_clusters(known_clusters(view, variant.clusters))
        for one, rendered in kept:
            if one == variant:
                return rendered if rendered.revision == view.revision else None
        return None

    def keep(self, view: ServiceView, variant: V, rendered: R) -> None:
        """Cache a list in place of older ones, unless it is too large."""
        service = (view.namespace, view.full_name)
        if variant.clusters:
            variant = variant.of_clusters(known_clusters(view, variant.clusters))
        with self._lock:
            before = self._take_out(service)
            kept = tuple(pair for pair in before if pair[0] != variant and pair[1].revision >= rendered.revision)
            if len(rendered) <= self._list_bytes_max:
                kept = (*kept, (variant, rendered))
            while len(kept) > VARIANTS_MAX or (len(kept) > 1 and _bytes_of(kept) > self._service_bytes_max):
                kept = kept[1:]
            if kept:
                self._kept[service] = kept
                self.kept_bytes += _bytes_of(kept)
            while self.kept_bytes > self._bytes_max:
                self._take_out(next(iter(self._kept)))

    def drop(self, namespace: str, full_name: str) -> None:
        """Drop all lists of a service, which is gone."""
        if (namespace, full_name) in self._kept:
            with self._lock:
                self._take_out((namespace, full_name))

    def _take_out(self, service: tuple[str, str]) -> tuple[tuple[V, R], ...]:
        found = self._kept.pop(service, ())
        self.kept_bytes -= _bytes_of(found)
        return found


def _bytes_of(kept: tuple[tuple[ListVariant, RenderedList], ...]) -> int:
    return sum([len(rendered) for _, rendered in kept])
