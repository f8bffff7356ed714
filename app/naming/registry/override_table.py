"""Operators' changes of instances, apart from the services of the table: set by records, read when a view is made."""

from app.naming.model.keys import datum_key, metadata_bytes
from app.naming.model.override import NO_OVERRIDES, Override
from app.naming.registry.service_table import ServiceTable


def set_override(table: ServiceTable, namespace: str, full_name: str, key: str, override: Override | None) -> None:
    """Set the change of the instance with this instance key; None if there is none any more."""
    service_key = datum_key(namespace, full_name)
    with table.lock:
        changed = dict(table.overrides.get(service_key, NO_OVERRIDES))
        old = changed.pop(key, None)
        table.counts_held.add(namespace, 0, _bytes(override) - _bytes(old))
        table.counts_held.overrides += (override is not None) - (old is not None)
        if override is not None:
            changed[key] = override
        if changed:
            table.overrides[service_key] = changed
        else:
            table.overrides.pop(service_key, None)
        if (service := table.find(service_key)) is not None:
            service.overrides = changed
            service.revision += 1


def _bytes(override: Override | None) -> int:
    return metadata_bytes(override.metadata) if override is not None else 0
