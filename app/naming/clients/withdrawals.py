"""Withdrawals of clients that a silent member may not know of, though it has a client with the same instances (R15)."""

from collections import deque

from app.naming.clients.client_model import ServiceKey, Withdrawal

SILENT_MS = 3_500
"""The silence that counts: a healthy member reports more often. Reports are 2 s apart, and each may take 1.5 s."""
OPEN_MS_MAX = 2 * SILENT_MS
TOLD_MS = 30_000
"""For how long a client's state includes its withdrawals. All members have that state long before."""
TOLD_SERVICES_MAX = 100
"""The most services of one client whose withdrawals are sent; the latest count."""
WITHDRAWALS_MAX = 10_000
"""The most open withdrawals. The oldest beyond it are forgotten: their instances may stay listed for a while."""


class Withdrawals:
    """The open withdrawals of the last seconds, by service. Not thread-safe."""

    def __init__(self) -> None:
        self._open: deque[tuple[ServiceKey, Withdrawal]] = deque(maxlen=WITHDRAWALS_MAX)

    def add(self, key: ServiceKey, withdrawal: Withdrawal) -> None:
        self._open.append((key, withdrawal))

    def take(self, now_ms: int) -> dict[ServiceKey, list[Withdrawal]]:
        """Take out all, except those that were open for too long."""
        found: dict[ServiceKey, list[Withdrawal]] = {}
        for key, one in self._open:
            if now_ms - one.at_ms <= OPEN_MS_MAX:
                found.setdefault(key, []).append(one)
        self._open.clear()
        return found

    def __len__(self) -> int:
        return len(self._open)
