"""Withdrawals of clients that a silent member may not know of, though it has a client with the same instances (R15)."""

from collections import deque
from typing import NamedTuple

from app.naming.clients.client_model import ServiceKey

SILENT_MS = 3_500
"""A member that is well tells of itself more often: from one report to the next it is 2 s, and each has 1.5 s."""
OPEN_MS_MAX = 2 * SILENT_MS
WITHDRAWALS_MAX = 10_000
"""Beyond these the oldest are forgotten: what they withdrew may be listed until the silent member is back."""


class Withdrawal(NamedTuple):
    """What a client withdrew of one service."""

    instance_keys: frozenset[str]
    published_ms: int
    """When the client had published it, by its member's wall clock: ``Publication.at_ms``."""
    since_ms: int
    """Since when the client was known here (monotonic)."""
    at_ms: int
    """When it withdrew that (monotonic)."""

    def is_later(self, published_ms: int, contact_ms: int) -> bool:
        """Whether it is later than all that is known of a member whose last contact was at ``contact_ms`` (monotonic).

        A member with a contact since the client came would have told that its own client went: that one is another.
        """
        return published_ms <= self.published_ms and contact_ms < self.since_ms


class Withdrawals:
    """The open withdrawals of the last seconds, by service. Not thread-safe."""

    def __init__(self) -> None:
        self._open: deque[tuple[ServiceKey, Withdrawal]] = deque(maxlen=WITHDRAWALS_MAX)

    def add(self, key: ServiceKey, withdrawal: Withdrawal) -> None:
        self._open.append((key, withdrawal))

    def take(self, now_ms: int) -> dict[ServiceKey, list[Withdrawal]]:
        """Take out all; without those that were open for too long."""
        found: dict[ServiceKey, list[Withdrawal]] = {}
        for key, one in self._open:
            if now_ms - one.at_ms <= OPEN_MS_MAX:
                found.setdefault(key, []).append(one)
        self._open.clear()
        return found

    def __len__(self) -> int:
        return len(self._open)
