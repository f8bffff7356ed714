"""RecentChanges: the instances of a list that changed since one of its last versions, for deltas (R5)."""

from app.naming.model.model import Service
from distro.model.types import Version

KEYS_MAX = 256
"""How many last changes of a list are remembered, and at most twice as many: those of 50 ms at 5,000 a second. Fewer if
all lists together have more than ``ALL_KEYS_MAX``."""
LISTS_MAX = 4_096
"""The most lists whose changes are remembered. Beyond it the one that began first starts again with its next change."""
ALL_KEYS_MAX = 65_536
"""The bound for all lists together. Beyond it each change cuts another list to its last ``KEYS_LEFT`` changes, in turn.

The key of an instance that already exists is a separate text, 80 bytes that stay for as long as it is noted here.
"""
KEYS_LEFT = ALL_KEYS_MAX // LISTS_MAX


class RecentChanges:
    """A log of instance keys in ``Service.recent``, one for each of the latest versions that this member gave in a row.

    The caller holds the lock of the services. A change costs one append to a list.
    """

    __slots__ = ("_count", "_kept", "_logs")

    def __init__(self, *, kept: bool = True) -> None:
        """``kept``: False for a node without peers, which sends no deltas."""
        self._kept = kept
        self._logs: dict[Service, None] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return the number of remembered changes, of all lists."""
        return self._count

    def note(self, service: Service, key: str) -> None:
        """Note the instance of the change that gave the list its current version."""
        if not self._kept:
            return
        self._count += 1
        recent = service.recent
        if recent is None:
            service.recent = [key]
            self._logs[service] = None
            if len(self._logs) > LISTS_MAX:
                self.forget(next(iter(self._logs)))
        else:
            recent.append(key)
            if len(recent) > 2 * KEYS_MAX:
                self._cut(recent, KEYS_MAX)
        if self._count > ALL_KEYS_MAX:
            self._cut_next()

    def forget(self, service: Service) -> None:
        """Begin again with the next change of this list."""
        if service.recent is not None:
            self._count -= len(service.recent)
            service.recent = None
            del self._logs[service]

    def _cut_next(self) -> None:
        # One list per change: a change costs the same however many lists there are.
        service = next(iter(self._logs))
        del self._logs[service]
        self._logs[service] = None
        if service.recent is not None:
            self._cut(service.recent, KEYS_LEFT)

    def _cut(self, recent: list[str], left: int) -> None:
        before = len(recent)
        del recent[:-left]
        self._count -= before - len(recent)

    @staticmethod
    def since(service: Service, base: Version) -> frozenset[str] | None:
        """Return the instances that changed since ``base``; None if they are unknown."""
        version, recent = service.version, service.recent
        if recent is None or (base.writer, base.epoch) != (version.writer, version.epoch):
            return None
        count = version.counter - base.counter
        return frozenset(recent[-count:]) if 0 < count <= len(recent) else None
