"""ClientExpiry: drops, tick by tick, the clients and copies whose time is over."""

from collections.abc import Callable, Collection

from app.naming.clients.client_copies import ClientCopies
from app.naming.clients.own_clients import OwnClients

EXPIRY_TICK_MS = 1_000


class ClientExpiry:
    """Drops copies of clients that their member no longer confirms, or whose member left. One thread calls ``tick``."""

    def __init__(self, own: OwnClients, copies: ClientCopies, has_left: Callable[[str], bool], pause_ms: int) -> None:
        """``has_left``: returns whether a ``writer``, one member's run, is over and its hand-over too.

        ``pause_ms``: a later call is one after a pause of this process.
        """
        self._own = own
        self._copies = copies
        self._has_left = has_left
        self._pause_ms = pause_ms
        self._expected_ms: int | None = None

    def tick(self, now_ms: int) -> int:
        """Drop expired copies. Return when to call again.

        A late call delays every copy's expiry by the same time (R9).
        """
        late_ms = now_ms - self._expected_ms if self._expected_ms is not None else 0
        self.expire(now_ms, late_ms if late_ms > self._pause_ms else 0)
        self._expected_ms = now_ms + EXPIRY_TICK_MS
        return self._expected_ms

    def expire(self, now_ms: int, late_ms: int = 0) -> Collection[str]:
        """Drop what is over. Return the ids of the clients whose copies were not confirmed, or whose member left.

        ``late_ms``: as of ``ClientCopies.expire``.
        """
        self._copies.drop_returned(now_ms)
        self._copies.drop_withdrawn(now_ms)
        self._own.remove_finished(now_ms)
        return self._copies.expire(now_ms, self._has_left, late_ms)
