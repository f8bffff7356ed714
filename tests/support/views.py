"""What readers see of a registry, without the services above it."""

from app.naming.model.model import ServiceView
from app.naming.registry.registry import Registry
from app.naming.registry.union import view_of


def view(registry: Registry, namespace: str, full_name: str) -> ServiceView | None:
    """The view of a service, hidden or not; None for an unknown one."""
    service = registry.table.get(namespace, full_name)
    return None if service is None else view_of(service)
