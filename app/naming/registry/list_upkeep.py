"""ListUpkeep: the end of retained instances, of tombstones and of spent lists, each after its time."""

from collections.abc import Mapping

from app.naming.model.model import NOT_DUE_MS, Instance, Service, StoredInstance
from app.naming.registry.list_state import ListState, free_in_steps
from app.naming.registry.merge import NO_INSTANCES, shown, vanished
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, ServiceTable
from distro.model.types import NO_VERSION

TOMBSTONES_PER_WAIT_MS = 16
"""The more tombstones, the longer until the next search for old ones. It takes at most a hundredth of the time."""


class ListUpkeep:
    """Drops the parts of instance lists that are no longer needed. Thread-safe."""

    def __init__(self, table: ServiceTable, lists: ListState) -> None:
        self._table = table
        self._lists = lists

    def drop_retained(self, service: Service, now_ms: int) -> bool:
        """Drop the retained instances whose time is over. Return whether there were any."""
        with self._table.lock:
            if not service.retained or now_ms < service.retained_until_ms:
                return False
            service.retained = {}
            service.revision += 1
            self._table.drop_if_bare(service)
            return True

    def prune_tombstones(self, service: Service, now_ms: int) -> int:
        """Drop tombstones that every member has had time to learn of (R1). Return when to call again (monotonic ms)."""
        tombstones = service.tombstones.copy()
        old, due_ms = [], NOT_DUE_MS
        for key, tombstone in tombstones.items():
            end_ms = tombstone.at_ms + tombstone.keep_ms
            if now_ms > end_ms:
                old.append(key)
            elif end_ms < due_ms:
                due_ms = end_ms
        for start in range(0, len(old), COPIED_UNDER_LOCK_MAX):
            with self._table.lock:
                for key in old[start : start + COPIED_UNDER_LOCK_MAX]:
                    if service.tombstones.get(key) is tombstones[key]:
                        del service.tombstones[key]
        if due_ms == NOT_DUE_MS:
            return NOT_DUE_MS
        return max(due_ms + 1, now_ms + (len(tombstones) - len(old)) // TOMBSTONES_PER_WAIT_MS)

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        """Return whether a list is empty, of tombstones too, and has not changed for the tombstones' slack (R6)."""
        service = self._table.find(key)
        return (
            service is not None
            and service.version != NO_VERSION
            and not service.stored
            and not service.tombstones
            and now_ms - service.changed_ms > self._lists.tombstone_slack_ms
        )

    def forgettable_at_ms(self, service: Service) -> int:
        """Return the earliest ``now_ms`` at which ``is_forgettable`` can be true, if nothing changes until then."""
        return service.changed_ms + self._lists.tombstone_slack_ms + 1

    def forget(self, key: str, now_ms: int | None = None) -> None:
        """Drop a list and its version (R6). The service stays if it has other sources.

        ``now_ms``: given if a peer no longer knows the key; the guard then retains the instances for a while.
        """
        found = self._table.find(key)
        if found is None:
            return
        service = found
        replaced: list[dict[str, StoredInstance]] = []

        def forget(lost: Mapping[str, Instance]) -> None:
            if self._table.find(key) is not service:
                return
            if now_ms is not None:
                self._lists.retain(service, lost, now_ms)
            replaced.append(service.stored)
            self._lists.forget(service)

        if now_ms is None:
            with self._table.lock:
                forget({})
        else:
            self._table.with_consistent_copy(service, lambda: vanished(shown(service), NO_INSTANCES), forget)
        free_in_steps(replaced)

    def forget_spent(self, key: str, now_ms: int) -> bool:
        """Drop a list as ``forget`` does, if it is forgettable now. Return whether it was."""
        with self._table.lock:
            service = self._table.find(key)
            if service is None or not self.is_forgettable(key, now_ms):
                return False
            self._lists.forget(service)
            return True
