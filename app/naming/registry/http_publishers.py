"""Clients over HTTP: the addresses that registered instances, found when somebody asks for them.

Nothing is kept for that, so no write pays for it. A search takes no lock: an instance that comes or goes meanwhile is
among what it finds, or is not.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from app.naming.model.model import Instance, Service
from app.naming.registry.service_table import ServiceTable

SORTED_MAX = 4_096
"""Ids that are sorted in one call of C, in which no other thread runs."""


def address_client_id(ip: str, port: int, *, ephemeral: bool) -> str:
    """The id of a client over HTTP. Source: Nacos 2.2.3 IpPortBasedClient."""
    return f"{ip}:{port}#{'true' if ephemeral else 'false'}"


def address_client_ids(table: ServiceTable, contained: str = "") -> set[str]:
    """The ids that contain a text, of all clients over HTTP."""
    found: set[str] = set()
    for service in table.services():
        # ``list`` is one step for other threads; nearly all services have no persistent instances.
        found.update([f"{one.instance.ip}:{one.instance.port}#true" for one in list(service.stored.values())])
        if service.persistent:
            found.update([_id_of(one) for one in list(service.persistent.values())])
    return {one for one in found if contained in one} if contained else found


def in_order(ids: set[str], first: int = 0, end: int | None = None) -> list[str]:
    """The ids from position ``first`` to before ``end``, as they are sorted."""
    unsorted = iter(ids)
    parts = iter(lambda: sorted(islice(unsorted, SORTED_MAX)), [])
    return list(islice(merge(*parts), first, end))


def instances_of_address(table: ServiceTable, client_id: str) -> Iterator[tuple[Service, Instance]]:
    """What a client over HTTP registered, with the service of each instance."""
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
