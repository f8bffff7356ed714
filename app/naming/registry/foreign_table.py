"""ForeignTable: sets what links bring of the services in the table."""

from app.naming.model.foreign import ForeignPart, foreign_clusters
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import has_local_instances


class ForeignTable:
    """Changes the foreign source of services. Thread-safe."""

    def __init__(self, table: ServiceTable) -> None:
        self._table = table

    def put(self, namespace: str, full_name: str, link: str, part: ForeignPart | None, now_ms: int) -> bool:
        """Set what a link brought of a service; None for nothing any more. Return whether readers may see a change.

        It counts against no limit of local writes: ``ForeignStore`` bounds what all links bring.
        """
        table = self._table
        with table.lock:
            service = table.get(namespace, full_name)
            if part is None or part.is_empty:
                if service is None or link not in (service.foreign or {}):
                    return False
                left = {name: one for name, one in (service.foreign or {}).items() if name != link}
                service.foreign = left or None
            else:
                service = table.open(namespace, full_name, service, now_ms)
                service.foreign = {**(service.foreign or {}), link: part}
                service.clusters = service.clusters.union(foreign_clusters({link: part}))
            service.revision += 1
            if service.foreign is None:
                table.hide_if_dropped(service)
                if not service.published and not service.hidden:
                    table.drop_if_bare(service)
            return True

    def would_be_empty(self, namespace: str, full_name: str, link: str) -> bool:
        """Return whether readers would see no instance of a service without what this link brought."""
        service = self._table.get(namespace, full_name)
        if service is None or has_local_instances(service):
            return False
        return not any(one.shown for name, one in (service.foreign or {}).items() if name != link)
