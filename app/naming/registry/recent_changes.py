"""RecentChanges: which instances of a list changed since one of its last versions, for deltas (R5)."""

from app.naming.model.model import Service
from distro.model.types import Version

KEYS_MAX = 256
"""The last changes of one list that are remembered at least, and twice as many at most: those of 50 ms at 5,000 a
second. Fewer where all lists together have more than ``ALL_KEYS_MAX``."""
LISTS_MAX = 4_096
"""Lists of which changes are remembered; beyond it the one that began first starts anew, with its next change."""
ALL_KEYS_MAX = 65_536
"""Of all lists together: beyond it each change cuts another list to its last ``KEYS_LEFT`` changes, in turn.

The key of an instance that is there already is a text of its own, 80 bytes that stay for as long as it is noted here.
"""
KEYS_LEFT = ALL_KEYS_MAX // LISTS_MAX


class RecentChanges:
    """A log of instance keys in ``Service.recent``, one for each of the last versions that this member gave in a row.

    The caller holds the lock of the services. A change costs one append to a list.
    """

    __slots__ = ("_count", "_kept", "_logs")

    def __init__(self, *, kept: bool = True) -> None:
        """``kept``: False of a node without peers, which sends no deltas."""
        self._kept = kept
        self._logs: dict[Service, None] = {}
        self._count = 0

    def __len__(self) -> int:
        """The changes that are remembered, of all lists."""
        return self._count

    def note(self, service: Service, key: str) -> None:
        """Note the instance of the change to which the list's present version was given."""
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
        """Begin anew with the next change of this list."""
        if service.recent is not None:
            self._count -= len(service.recent)
            service.recent = None
            del self._logs[service]

    def _cut_next(self) -> None:
        # One list a change: a change costs the same however many lists there are.
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
        """The instances that changed since ``base``; None where that is not known."""
        version, recent = service.version, service.recent
        if recent is None or (base.writer, base.epoch) != (version.writer, version.epoch):
            return None
        count = version.counter - base.counter
        return frozenset(recent[-count:]) if 0 < count <= len(recent) else None
