"""Clients over HTTP: the addresses that registered instances, searched on request.

No index is kept for them, so no write pays for it. A search takes no lock: its result may or may not have an instance
that comes or goes during the call.
"""

from collections.abc import Iterator

from app.naming.model.model import Instance, Service
from app.naming.registry.service_table import ServiceTable


def address_client_id(ip: str, port: int, *, ephemeral: bool) -> str:
    """Return the id of a client over HTTP. Source: Nacos 2.2.3 IpPortBasedClient."""
    return f"{ip}:{port}#{'true' if ephemeral else 'false'}"


def address_client_ids(table: ServiceTable, contained: str = "") -> set[str]:
    """Return the ids that contain a text, of all clients over HTTP."""
    found: set[str] = set()
    for service in table.services():
        # ``list`` is one step for other threads. Nearly all services have no persistent instances.
        found.update([f"{one.instance.ip}:{one.instance.port}#true" for one in list(service.stored.values())])
        if service.persistent:
            found.update([_id_of(one) for one in list(service.persistent.values())])
    return {one for one in found if contained in one} if contained else found


def instances_of_address(table: ServiceTable, client_id: str) -> Iterator[tuple[Service, Instance]]:
    """Return the instances that a client over HTTP registered, each with its service."""
    ip = client_id.rpartition(":")[0]
    for service in table.services():
        for stored in list(service.stored.values()):
            if stored.instance.ip == ip and _id_of(stored.instance) == client_id:
                yield service, stored.instance
        for one in list(service.persistent.values()):
            if one.ip == ip and _id_of(one) == client_id:
                yield service, one


def _id_of(one: Instance) -> str:
    return address_client_id(one.ip, one.port, ephemeral=one.ephemeral)
