"""Clients over HTTP: the addresses that registered instances, searched on request.

No index is kept for them, so no write pays for it. A search takes no lock: its result may or may not have an instance
that comes or goes during the call.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.naming.model.keys import PORT_DIGITS_MAX, instance_key
from app.naming.model.model import Instance, Service, StoredInstance
from app.naming.registry.service_table import ServiceTable

Found = dict[str, StoredInstance | Instance]
_PERSISTENT_END = "#false"
"""Ends the key of a client with persistent instances: the same address may have ephemeral ones as another client."""
_SEPARATORS = re.compile("[:#]")
_NOT_IN_KEYS = ("true", "false", "0")
"""Parts of an id that the key may lack: the key of an instance leaves out port 0."""
_NOT_IN_IDS = ("unknown", "false")
"""Parts of a key, besides the cluster, that the id may lack."""


def address_client_id(ip: str, port: int, *, ephemeral: bool) -> str:
    """Return the id of a client over HTTP. Source: Nacos 2.2.3 IpPortBasedClient."""
    return f"{ip}:{port}#{'true' if ephemeral else 'false'}"


@dataclass(frozen=True, slots=True)
class AddressClients:
    """Clients over HTTP: one instance of each, by a key that sorts clients by address.

    The keys are those of the instance lists, which have their hashes, too. So clients are found, counted and sorted
    without a look at their instances, and an id is made only for a client that is shown. Two IPv6 addresses with the
    same key, such as ``fe80::1`` with port 80 and ``fe80::1:80`` with port 0, count as one client.
    """

    found: Found

    def __len__(self) -> int:
        return len(self.found)

    def ids_of(self, keys: Iterable[str]) -> list[str]:
        """Return the ids of the clients with these keys."""
        return [_id_of(self.found[key]) for key in keys]


def address_clients(table: ServiceTable, contained: str = "") -> AddressClients:
    """Return the clients over HTTP whose ids contain a text."""
    stored: dict[str, Found] = {}
    persistent: dict[str, Found] = {}
    for service in table.services():
        clusters = service.clusters.copy()
        if len(clusters) == 1:  # nearly always: then all instances are taken in one step of C
            stored.setdefault(clusters.pop(), {}).update(service.stored)
        else:
            for key, one in list(service.stored.items()):
                stored.setdefault(one.instance.cluster_name, {})[key] = one
        for key, durable in list(service.persistent.items()) if service.persistent else ():
            persistent.setdefault(durable.cluster_name, {})[key] = durable
    found = _of_all_clusters(stored)
    found.update({key + _PERSISTENT_END: one for key, one in _of_all_clusters(persistent).items()})
    return AddressClients(_containing(found, contained, stored.keys() | persistent.keys()) if contained else found)


def _of_all_clusters(by_cluster: Mapping[str, Found]) -> Found:
    """Return each address once, with its key in the largest cluster."""
    if not by_cluster:
        return {}
    largest = max(by_cluster, key=lambda cluster: len(by_cluster[cluster]))
    found = by_cluster[largest]
    for cluster, instances in by_cluster.items():
        if cluster != largest:
            for key, one in instances.items():
                found.setdefault(key.removesuffix(cluster) + largest, one)
    return found


def _containing(found: Found, text: str, clusters: set[str]) -> Found:
    """Return the clients whose ids contain a text. Of most others the key shows that they do not."""
    part = max(_SEPARATORS.split(text), key=len)
    may_be_beside_key = any(part in one for one in _NOT_IN_KEYS)
    if not may_be_beside_key:
        found = {key: one for key, one in found.items() if part in key}
    if part == text and not may_be_beside_key and not any(part in one for one in (*_NOT_IN_IDS, *clusters)):
        return found
    return {key: one for key, one in found.items() if text in _id_of(one)}


def instances_of_address(table: ServiceTable, client_id: str) -> Iterator[tuple[Service, Instance]]:
    """Yield the instances that a client over HTTP registered, each with its service; of a service by cluster."""
    ip, _, port = client_id.rpartition("#")[0].rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= PORT_DIGITS_MAX):
        return
    for service in table.services():
        for cluster in sorted(service.clusters.copy()):
            key = instance_key(ip, int(port), cluster)
            stored, durable = service.stored.get(key), service.persistent.get(key)
            if stored is not None and _id_of(stored) == client_id:
                yield service, stored.instance
            if durable is not None and _id_of(durable) == client_id:
                yield service, durable


def _id_of(one: StoredInstance | Instance) -> str:
    instance = one.instance if isinstance(one, StoredInstance) else one
    return address_client_id(instance.ip, instance.port, ephemeral=instance.ephemeral)
