"""Services as Nacos writes them and as a link holds them: lists that come, and instances that it registers there."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from app.naming.model.foreign import LINK, ORIGIN, STALE
from app.naming.model.json_fields import member_object
from app.naming.model.keys import DEFAULT_CLUSTER
from app.naming.model.model import Instance
from app.naming.wire.foreign_wire import digest_of, digest_text
from app.replication.foreign_type import INSTANCES_MAX
from distro.model.errors import CodecError

ServiceName = tuple[str, str]
"""The namespace and the full name, as the Nacos has them."""
Address = tuple[str, int, str]
"""The IP, the port and the name of the cluster of an instance."""
_NOT_SENT = frozenset((LINK, STALE))


class NacosList(NamedTuple):
    """The instances of a service that were registered at the Nacos itself, and the addresses that links registered
    there.

    ``rows``: as in a change of the stream between Rollcall clusters.
    """

    rows: list[dict[str, Any]]
    digest: int
    addresses: frozenset[Address]
    """The addresses of ``rows``."""

    def change(self, name: ServiceName) -> dict[str, Any]:
        """Return the change of the service as a Rollcall cluster would send it."""
        return {"ns": name[0], "service": name[1], "digest": digest_text(self.digest), "instances": self.rows}


def read_list(hosts: object) -> NacosList:
    """Return the instances of a list that were registered at the Nacos itself: those without a label of origin.

    Raises:
        CodecError: the list, an address or metadata has another type, or there are too many instances.
    """
    if not isinstance(hosts, list):
        raise CodecError("field 'hosts' is not a list")
    if len(hosts) > INSTANCES_MAX:
        raise CodecError(f"field 'hosts' has {len(hosts)} elements, more than {INSTANCES_MAX}")
    rows, addresses, hashes = list[dict[str, Any]](), set[Address](), list[int]()
    for host in hosts:
        fields = member_object(host, "an element of 'hosts'", " of an instance")
        metadata = fields.values.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise CodecError("field 'metadata' of an instance is not an object")
        if ORIGIN in metadata:
            continue
        address = (
            fields.required("ip"),
            fields.integer("port"),
            fields.text("clusterName", DEFAULT_CLUSTER),
        )
        row = _row(address, fields.values, metadata)
        rows.append(row)
        addresses.add(address)
        json = orjson.dumps(row, option=orjson.OPT_SORT_KEYS)
        hashes.append(int.from_bytes(hashlib.blake2b(json, digest_size=8).digest()))
    return NacosList(rows, digest_of(hashes), frozenset(addresses))


def _row(address: Address, values: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    ip, port, cluster = address
    row: dict[str, Any] = {"ip": ip, "port": port, "clusterName": cluster}
    weight = values.get("weight")
    if weight not in (None, 1):
        row["weight"] = weight
    row |= {name: False for name in ("healthy", "enabled", "ephemeral") if values.get(name) is False}
    if metadata:
        row["metadata"] = metadata
    instance_id = values.get("instanceId")
    # The others are made of the address. Nacos 3.x makes them before it knows the cluster: 10.0.0.1#80#null#G@@a.
    if instance_id and not (isinstance(instance_id, str) and instance_id.startswith(f"{ip}#{port}#")):
        row["instanceId"] = instance_id
    return row


def address_of(one: Instance) -> Address:
    """Return the address of an instance."""
    return one.ip, one.port, one.cluster_name


def sent_rows(
    instances: Iterable[Instance], own_cluster: str, taken: frozenset[Address]
) -> dict[Address, dict[str, Any]]:
    """Return the instances that a link registers at a Nacos, by address, each with the label of its origin.

    Left out: those that another cluster labelled, and those whose address is ``taken`` by the Nacos itself.

    Raises:
        CodecError: an instance has the label of this cluster already. The link leads back here.
    """
    rows = {}
    for one in instances:
        metadata = {k: v for k, v in (one.metadata or {}).items() if v is not None and k not in _NOT_SENT}
        if (origin := metadata.get(ORIGIN)) is not None:
            if origin == own_cluster:
                raise CodecError(
                    f"what this link registers comes back to this cluster, {own_cluster!r}: remove the link"
                )
            continue
        if (address := address_of(one)) in taken:
            continue
        rows[address] = {
            "ip": one.ip,
            "port": one.port,
            "weight": float(one.weight),
            "healthy": one.healthy,
            "enabled": one.enabled,
            "ephemeral": True,
            "clusterName": one.cluster_name,
            "metadata": metadata | {ORIGIN: own_cluster},
        }
    return rows


class WatchedNames:
    """The namespaces in which a service of each full name is watched: a list that comes does not name its own."""

    def __init__(self) -> None:
        self._namespaces: dict[str, set[str]] = {}

    def add(self, name: ServiceName) -> None:
        self._namespaces.setdefault(name[1], set()).add(name[0])

    def discard(self, name: ServiceName) -> None:
        if namespaces := self._namespaces.get(name[1]):
            namespaces.discard(name[0])
            if not namespaces:
                del self._namespaces[name[1]]

    def of(self, full_name: str) -> Collection[str]:
        """Return the namespaces in which a service of this name is watched."""
        return self._namespaces.get(full_name, ())
