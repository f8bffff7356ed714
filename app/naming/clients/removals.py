"""Removals: which clients are gone, remembered until no member can still hold a copy of them."""

from dataclasses import dataclass
from itertools import takewhile

from distro.model.digest import ChangedKeys
from distro.model.types import Version

REMOVALS_MAX = 200_000
"""The most removals that are remembered. Beyond it the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A client that is gone: the version of its removal, and when this member learned of it (monotonic ms)."""

    version: Version
    at_ms: int


class Removals:
    """The removals by client id, the oldest first. Its owner serialises the changes; reads need no lock."""

    def __init__(self, keep_ms: int, changed: ChangedKeys) -> None:
        """``keep_ms``: how long a removal is remembered at least. ``changed``: gets the ids that come or go."""
        self._changed = changed
        self._keep_ms = keep_ms
        self._removals: dict[str, Removal] = {}

    def __contains__(self, client_id: str) -> bool:
        return client_id in self._removals

    def get(self, client_id: str) -> Removal | None:
        """Return the removal of a client; None if none is remembered."""
        return self._removals.get(client_id)

    def versions(self) -> dict[str, Version]:
        """Return the versions of all removals, by client id."""
        return {client_id: one.version for client_id, one in self._removals.copy().items()}

    def is_forgettable(self, client_id: str, now_ms: int) -> bool:
        """Return whether a client's removal was remembered for ``keep_ms``; False for a client without one."""
        removal = self._removals.get(client_id)
        return removal is not None and now_ms - removal.at_ms > self._keep_ms

    def add(self, client_id: str, version: Version, now_ms: int) -> None:
        """Remember a removal, in place of an older one of the same client."""
        self._removals.pop(client_id, None)
        self._removals[client_id] = Removal(version, now_ms)
        self._changed.note(client_id)
        while len(self._removals) > REMOVALS_MAX:
            self.discard(next(iter(self._removals)))

    def discard(self, client_id: str) -> None:
        """Forget a client's removal, if there is one."""
        self._removals.pop(client_id, None)
        self._changed.note(client_id)

    def older_than(self, expiry_ms: int, now_ms: int) -> list[tuple[str, Removal]]:
        """Return the removals, by client id, that are older than ``expiry_ms`` and twice ``keep_ms`` together."""
        end_ms = now_ms - expiry_ms - 2 * self._keep_ms
        return list(takewhile(lambda item: item[1].at_ms < end_ms, self._removals.copy().items()))
