"""Admission of durable writes: the additions of a record, from the values before and after.

Called while a write has its turn: writes of one service, and of all namespaces, are admitted one after the other, so
that their limits are exact. Writes of several services are admitted side by side: the limits of a namespace and of the
node can be exceeded by as many instances as there are threads that write.
"""

from app.naming.model.keys import datum_key, metadata_bytes
from app.naming.model.meta import ServiceMeta, description_bytes
from app.naming.model.override import NO_OVERRIDES, Override
from app.naming.model.similar_names import SimilarNames, check_new_namespace
from app.naming.records.record import Value
from app.naming.registry.service_table import ServiceTable


class DurableAdmission:
    """Refuses durable writes beyond the limits. A write that adds nothing is never refused.

    Raises (each): LimitReached, TooManyRequests, as ``ServiceTable.admit``.
    """

    def __init__(self, table: ServiceTable) -> None:
        self._table = table

    def description(self, namespace: str, service: str, old: ServiceMeta | None, new: ServiceMeta) -> ServiceMeta:
        """Return the new description of a service, which may make it."""
        if old is None or len(new.clusters) > len(old.clusters):
            self._table.admission.check_clusters(service, len(new.clusters))
        self._admit(namespace, service, 0, description_bytes(new) - description_bytes(old))
        return new

    def instance(self, namespace: str, service: str, old: Value | None, new: Value) -> Value:
        """Return the new value of a persistent instance."""
        known = metadata_bytes(old.get("metadata")) if old is not None else 0
        self._admit(namespace, service, 1 if old is None else 0, metadata_bytes(new.get("metadata")) - known)
        return new

    def override(self, namespace: str, service: str, old: Override | None, new: Override, added: int) -> None:
        """Admit an operator's change of an instance. ``added``: the new changes of this write so far, this one too."""
        if old is None:
            held = self._table.overrides.get(datum_key(namespace, service), NO_OVERRIDES)
            self._table.admission.check_overrides(self._table.counts_held, service, len(held), added)
        known = metadata_bytes(old.metadata) if old is not None else 0
        self._admit(namespace, service, 0, metadata_bytes(new.metadata) - known)

    def namespace(self, name: str, created: int) -> None:
        """Let one more namespace be created, in addition to ``created`` others.

        Raises:
            InvalidParam: it looks like another one.
        """
        check_new_namespace("customNamespaceId", name, self._table.created_namespaces, SimilarNames())
        self._table.admission.check_namespaces(created)

    def _admit(self, namespace: str, service: str, instances: int, grown: int) -> None:
        self._table.admit(namespace, service, self._table.get(namespace, service), instances, grown, instances)
