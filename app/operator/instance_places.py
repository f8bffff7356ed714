"""The services and clusters in which this member knows an address, for an operator who does not know them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.naming.model.ip_addresses import is_same_ip
from app.naming.model.keys import DEFAULT_CLUSTER, GROUP_SPLITTER, instance_key, short_name_of
from app.naming.model.model import Service
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import view_of

PLACES_MAX = 20
"""The most places in an answer, those that hold the instance first."""


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """A place where an address is or was registered. ``service`` is the full name; ``ip`` as it was registered."""

    service: str
    cluster: str
    ip: str
    is_held: bool
    """False if only the removal of the instance is recorded there."""

    def facts(self) -> dict[str, Any]:
        """Return the JSON of a place. Shape: serviceName, clusterName, ip, held."""
        return {"serviceName": self.service, "clusterName": self.cluster, "ip": self.ip, "held": self.is_held}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "InstancePlace":
        """Return the place that another member reports."""
        return cls(str(facts["serviceName"]), str(facts["clusterName"]), str(facts["ip"]), bool(facts["held"]))

    def rank(self, service: str) -> tuple[bool, bool, bool, str, str]:
        """Return the sort key of places: held first, then the named service, then the default cluster."""
        is_default = self.cluster == DEFAULT_CLUSTER
        return not self.is_held, self.service != service, not is_default, self.service, self.cluster


def places_of(table: ServiceTable, namespace: str, service: str, ip: str, port: int) -> list[InstancePlace]:
    """Return the places of an address in services with the short name of ``service``: all their groups and clusters.

    The best come first, at most ``PLACES_MAX``.
    """
    end = GROUP_SPLITTER + short_name_of(service)
    named = [one for one in table.in_namespace(namespace) if one.full_name.endswith(end)]
    hidden = table.get(namespace, service)  # it has only removals
    if hidden is not None and hidden not in named:
        named.append(hidden)
    found = {place for one in named for place in _places_in(one, ip, port)}
    held = {(one.service, one.cluster) for one in found if one.is_held}
    kept = [one for one in found if one.is_held or (one.service, one.cluster) not in held]
    return sorted(kept, key=lambda one: one.rank(service))[:PLACES_MAX]


def _places_in(service: Service, ip: str, port: int) -> Iterator[InstancePlace]:
    if not service.hidden:
        for one in view_of(service).instances:
            if one.port == port and _is_same(one.ip, ip):
                yield InstancePlace(service.full_name, one.cluster_name, one.ip, True)
    mark = instance_key("", port, "")
    for key in list(service.tombstones):
        registered, found, cluster = key.partition(mark)
        if found and _is_same(registered, ip):
            yield InstancePlace(service.full_name, cluster, registered, False)


def _is_same(registered: str, ip: str) -> bool:
    """Clients write IPv6 in several ways."""
    return registered == ip or (":" in ip and is_same_ip(registered, ip))
