"""The counts of this member's data, updated with each change, so that reading them needs no search."""


class NamingCounts:
    """Instances by namespace, persistent instances, bytes of metadata; an address counts once for each of its sources.

    Changed by the holder of the lock of ``ServiceTable``. A reader without it may see one change less.
    """

    __slots__ = ("_instances", "metadata_bytes", "persistent")

    def __init__(self) -> None:
        self._instances: dict[str, int] = {}
        """Instances by namespace. Namespaces without instances are not in it."""
        self.persistent = 0
        self.metadata_bytes = 0
        """The bytes of all instances and descriptions, as if none of them shared metadata."""

    def add(self, namespace: str, instances: int, metadata_bytes: int) -> None:
        """Count added instances of a namespace and bytes of metadata; negative numbers are removals."""
        self.metadata_bytes += metadata_bytes
        if instances:
            left = self._instances.get(namespace, 0) + instances
            if left:
                self._instances[namespace] = left
            else:
                del self._instances[namespace]

    def instances(self) -> int:
        """Return the number of instances of all namespaces."""
        return sum(self._instances.copy().values())

    def instances_of(self, namespace: str) -> int:
        """Return the number of instances of a namespace."""
        return self._instances.get(namespace, 0)
