"""The number of subscriptions of all kinds, which one limit bounds."""

from app.naming.limits.admission import PREFIX
from app.naming.limits.limit_stats import LimitStats


class SubscriberTally:
    """Counts subscriptions. Each kind's own count is written only by its owner, and read by the other."""

    __slots__ = ("_stats", "grpc", "limit", "udp")

    def __init__(self, limit: int = 0, stats: LimitStats | None = None) -> None:
        """``limit``: the most subscriptions in all; 0 for any number."""
        self.limit = limit
        self.udp = 0
        self.grpc = 0
        self._stats = stats or LimitStats()

    def has_room(self) -> bool:
        """Return whether one more subscription fits. Count it as refused if not."""
        if not self.limit or self.udp + self.grpc < self.limit:
            return True
        self._stats.subscribers += 1
        return False

    def refusal(self) -> str:
        """Return the text for a client whose subscription does not fit."""
        return f"refused by {PREFIX}subscribers={self.limit}: there are {self.udp + self.grpc} subscriptions"
