"""The number of refusals by each limit."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class LimitStats:
    """Refusals since the start, by limit; each field is named as the setting ``rollcall.limit.*`` that it counts.

    Written by several threads without a lock: now and then one count may be lost.
    """

    namespaces: int = 0
    services_per_namespace: int = 0
    instances_per_namespace: int = 0
    instances_per_service: int = 0
    persistent_instances: int = 0
    metadata_bytes: int = 0
    clusters_per_service: int = 0
    record_bytes: int = 0
    """Durable records that were too large."""
    list_bytes: int = 0
    """Instances refused because the list of their service or client was too large for one call."""
    subscribers: int = 0
    subscriptions_per_connection: int = 0
    connections_per_address: int = 0
    writes_per_second_per_address: int = 0
    page_size: int = 0
    """Pages that were cut to the longest one allowed."""
    memory_services: int = 0
    """New services refused near the memory limit."""
    memory_instances: int = 0
    """New instances of known services refused near the memory limit."""
    answers_mb: int = 0
    """Large answers refused because too many bytes of answers were under way."""

    def cut_page(self, asked: int, allowed: int) -> int:
        """Return the entries of a page of ``asked`` entries when ``allowed`` are allowed. Counts a page that is cut."""
        if asked <= allowed:
            return asked
        self.page_size += 1
        return allowed

    def counters(self) -> dict[str, int]:
        """Return the counts, under the names of the metrics in snake_case."""
        return {f"limit_{name}": count for name, count in asdict(self).items()}
