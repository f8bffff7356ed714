"""PublishedTable: what clients with a connection publish, put into and taken out of the services."""

from app.naming.model.model import NOT_DUE_MS, Publication
from app.naming.model.model import Service as Service
from app.naming.registry.service_table import ServiceTable
from distro.types import NO_VERSION


class PublishedTable(ServiceTable):
    """Publications have no version here and no clock: they come and go with their clients."""

    def publish(self, namespace: str, full_name: str, client_id: str, publication: Publication, now_ms: int) -> None:
        """Put in what a client says of a service, in the place of what it said before."""
        clusters = {one.cluster_name for one in publication.instances.values()}
        with self._lock:
            service = self._open(namespace, full_name, now_ms)
            if service.published is None:
                service.published = {}
            service.published[client_id] = publication
            if not clusters <= service.clusters:
                service.clusters = service.clusters | clusters
            service.changed_ms = now_ms
            service.revision += 1

    def withdraw(self, namespace: str, full_name: str, client_id: str, publication: Publication, now_ms: int) -> bool:
        """Take out what a client said, unless it says something else by now; return whether it was there."""
        with self._lock:
            service = self.get(namespace, full_name)
            published = service.published if service else None
            if service is None or published is None or published.get(client_id) is not publication:
                return False
            del published[client_id]
            service.changed_ms = now_ms
            service.revision += 1
            if not published:
                self._expect(service, now_ms + self._slack_ms + 1)
                self._hide_if_dropped(service)
            return True

    def drop_bare(self, service: Service, now_ms: int) -> int:
        """Drop a service that only clients had made, some time after the last of them left; return when to come again.

        One whose only client comes back soon is the same for its readers all the time.
        """
        with self._lock:
            if self._keep_empty or service.version != NO_VERSION or service.published or service.stored:
                return NOT_DUE_MS
            if service.published is None:
                return NOT_DUE_MS
            due_ms = service.changed_ms + self._slack_ms + 1
            if now_ms < due_ms:
                return due_ms
            self._drop_if_bare(service)
            return NOT_DUE_MS
