"""An operator's request that a link fetches services again, even if it holds them."""

from collections.abc import Collection
from threading import Lock

from app.links.feed import ServiceName

INTERVAL_MS = 2_000
"""A link takes a request at most so often: each costs both clusters a comparison."""
NAMES_MAX = 10_000
"""Services that one link fetches again at once."""


class FetchAgain:
    """The services of one link that are to be fetched again. Any thread asks; the thread of the link does the rest."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asked_ms: int | None = None
        self._waits = False
        """True from a request to the end of a comparison that began after it."""
        self._names: set[ServiceName] = set()
        self._under_way: frozenset[ServiceName] | None = None
        """The services of the request that the comparison under way answers; None without a request."""

    def ask(self, names: Collection[ServiceName], now_ms: int) -> int:
        """Ask for a comparison, in which these services count as not held: they come whole.

        ``names``: by their namespaces at the other cluster. Return 0; or how many ms to wait before the next request,
        and nothing is asked for.
        """
        with self._lock:
            if self._asked_ms is not None and (wait_ms := self._asked_ms + INTERVAL_MS - now_ms) > 0:
                return wait_ms
            if len(self._names | set(names)) > NAMES_MAX:
                return INTERVAL_MS  # the earlier ones are still to be fetched
            self._asked_ms, self._waits = now_ms, True
            self._names.update(names)
            return 0

    @property
    def is_due(self) -> bool:
        """Return whether a comparison is asked for."""
        return self._waits

    def begin(self) -> None:
        """Note that a comparison begins, which is to fetch all services requested so far."""
        with self._lock:
            self._under_way = frozenset(self._names) if self._waits else None
            self._waits = False

    def has(self, name: ServiceName) -> bool:
        """Return whether a service is to be fetched in the comparison under way, even if it is held."""
        return self._under_way is not None and name in self._under_way

    def fetched(self) -> None:
        """Note that the comparison came to its end."""
        with self._lock:
            self._names -= self._under_way or frozenset()
            self._under_way = None
            self._waits = self._waits or bool(self._names)

    def failed(self) -> None:
        """Note that the comparison broke off: the next one fetches the same."""
        with self._lock:
            self._waits = self._waits or self._under_way is not None
            self._under_way = None
