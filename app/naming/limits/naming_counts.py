"""What this member holds, counted as it changes: nothing is looked through to know it."""


class NamingCounts:
    """Instances by namespace, persistent instances, bytes of metadata; of all sources, an address counts for each.

    Changed by the holder of the lock of ``ServiceTable``. A reader without it may see one change less.
    """

    __slots__ = ("_instances", "metadata_bytes", "persistent")

    def __init__(self) -> None:
        self._instances: dict[str, int] = {}
        """Namespaces without instances are not in it."""
        self.persistent = 0
        self.metadata_bytes = 0
        """Of all instances and descriptions, as if none shared it with another one."""

    def add(self, namespace: str, instances: int, metadata_bytes: int) -> None:
        """Count instances of a namespace and bytes of metadata that came, or went where a number is negative."""
        self.metadata_bytes += metadata_bytes
        if instances:
            left = self._instances.get(namespace, 0) + instances
            if left:
                self._instances[namespace] = left
            else:
                del self._instances[namespace]

    def instances(self) -> int:
        """The number of instances of all namespaces."""
        return sum(self._instances.copy().values())

    def instances_of(self, namespace: str) -> int:
        """The number of instances of a namespace."""
        return self._instances.get(namespace, 0)
