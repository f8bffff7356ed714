"""The dump of this node for the audit: its services and instances as JSON lines, made while they are sent."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from threading import BoundedSemaphore
from typing import Any

import orjson

from app.naming.clients.client_table import ClientTable
from app.naming.model.foreign import ForeignPart
from app.naming.model.meta import NO_META
from app.naming.model.model import Instance, ServiceSnapshot
from app.naming.records.durable_service import DurableService
from app.naming.records.record_keys import (
    LinkKey,
    NamespaceKey,
    OverrideKey,
    PermissionKey,
    RoleKey,
    SwitchesKey,
    UserKey,
    parse_record_key,
)
from app.naming.registry.union import of_clients_only, overridden
from app.naming.service import NamingService
from app.ports.http_ports import Cluster
from app.rows.rows import (
    EXTRA_KINDS,
    FORMAT,
    ClientKind,
    ServiceSettings,
    client_row,
    encode_row,
    instance_row,
    linked_row,
    record_row,
    service_row,
)
from distro.model.types import NO_VERSION, Version

DUMPS_MAX = 2
"""Dumps under way at a time: each occupies a thread of the HTTP frontend until its client has read it."""
CHUNK_BYTES = 65_536
NAME_DIGITS = 16
"""The digits of the hash that names a record of users."""
NO_SETTINGS = ServiceSettings.of(NO_META.metadata, NO_META.protect_threshold, NO_META.selector.to_json(), {})


class Dumps:
    """The places for dumps under way, ``dumps_max`` of them. Thread-safe."""

    def __init__(self, dumps_max: int = DUMPS_MAX) -> None:
        self._free = BoundedSemaphore(dumps_max)

    def begin(self, lines: Iterable[bytes]) -> "Dump | None":
        """Return a dump of ``lines``, or None while ``dumps_max`` dumps are open.

        The dump keeps its place until its ``close`` is called.
        """
        return Dump(lines, self._free) if self._free.acquire(blocking=False) else None


class Dump:
    """A dump under way: lines in chunks of about ``CHUNK_BYTES``, and a place among ``Dumps``.

    It is not a generator: the ``close`` of one that never began would not free the place.
    """

    def __init__(self, lines: Iterable[bytes], place: BoundedSemaphore) -> None:
        self._chunks = _chunks(lines)
        self._place: BoundedSemaphore | None = place

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        """Free the place of the dump; may be called twice."""
        place, self._place = self._place, None
        if place is not None:
            place.release()


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    buffer = bytearray()
    for line in lines:
        buffer += line
        if len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def dump_lines(
    header: dict[str, Any],
    naming: NamingService,
    durable: DurableService,
    clients: ClientTable,
    cluster: Cluster,
    only: tuple[str, str] | None = None,
    linked: Iterable[dict[str, Any]] = (),
) -> Iterator[bytes]:
    """The lines of a dump: the header, shared records, clients, each service's row and those of its instances, counts.

    The rows of a service are of one snapshot. A dump without its last line was cut off. ``only``: the namespace and
    full name of the one service to tell, with the clients that publish it, and without records. ``linked``: the rows
    of instances that links brought.
    """
    yield encode_row({"kind": "member", "format": FORMAT, "tells": [] if only else sorted(EXTRA_KINDS), **header})
    if only is None:
        yield from map(encode_row, _record_rows(durable))
        yield from map(encode_row, _client_rows(clients, clients.ids()))
    else:
        yield from map(encode_row, _client_rows(clients, clients.publishers(*only)))
    services = instances = 0
    for snapshot in naming.snapshots(only):
        services += 1
        rows = _rows(snapshot, naming, durable, cluster)
        service = next(rows)
        instances += service["instances"]
        yield encode_row(service)
        yield from map(encode_row, rows)
    yield from map(encode_row, linked)
    yield encode_row({"kind": "end", "services": services, "instances": instances})


def _record_rows(durable: DurableService) -> Iterator[dict[str, Any]]:
    """The records that do not belong to the row of a service."""
    for record in [*durable.shared_records(), *durable.overrides.records()]:
        version = record.changed.to_text()
        match parse_record_key(record.key):
            case SwitchesKey():
                yield record_row("switches", record.value, version)
            case NamespaceKey(namespace):
                yield record_row(f"namespace {namespace}", record.value, version)
            case LinkKey(link):
                yield record_row(f"link {link}", record.value, version)
            case OverrideKey(namespace, service, instance_key):
                yield record_row(f"override {namespace} {service} {instance_key}", record.value, version)
            case UserKey() | RoleKey() | PermissionKey():
                # A dump lies about in files: it tells whether members agree on users, not what they know of them.
                text = orjson.dumps([record.key, record.value], option=orjson.OPT_SORT_KEYS)
                name = f"users {sha256(record.key.encode()).hexdigest()[:NAME_DIGITS]}"
                yield record_row(name, sha256(text).hexdigest(), version)


def _client_rows(clients: ClientTable, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The clients of these ids of which a datum exists: they published something, at this member or another."""
    for client_id in ids:
        client = clients.client(client_id)
        if client is not None and client.version.counter:
            member = client.version.writer.partition("~")[0]
            yield client_row(client_id, client.revision, member, client.instances)


def _rows(
    snapshot: ServiceSnapshot, naming: NamingService, durable: DurableService, cluster: Cluster
) -> Iterator[dict[str, Any]]:
    namespace, name = snapshot.namespace, snapshot.full_name
    owner, is_ours = cluster.map_srv(name), cluster.responsible(name)
    of_clients = of_clients_only(snapshot) if snapshot.published else []
    count = len(snapshot.stored) + len(snapshot.persistent) + len(of_clients)
    yield service_row(namespace, name, _text(snapshot.version), owner, count, _settings(durable, namespace, name))

    def seen(one: Instance) -> Instance:
        return next(overridden([one], snapshot.overrides)) if snapshot.overrides else one

    for stored in snapshot.stored.values():
        age_ms = naming.silent_ms(stored) if is_ours else None
        silent_ms = naming.judged_silence_ms(snapshot, stored) if is_ours else None
        yield _row(
            namespace,
            name,
            seen(stored.instance),
            version=_text(stored.version),
            owner=owner,
            # A copy's time is the owner's at the last change, not that of the last beat.
            beat_age_ms=age_ms,
            silent_ms=None if silent_ms == age_ms else silent_ms,
            delete_timeout_ms=stored.instance.delete_timeout_ms,
            client=ClientKind.HTTP,
        )
    for instance in of_clients:
        yield _row(namespace, name, seen(instance), client=ClientKind.GRPC)
    durable_owner = cluster.map_srv_durable(name) if snapshot.persistent else ""
    for instance in snapshot.persistent.values():
        version = durable.version_of(namespace, instance)
        yield _row(
            namespace,
            name,
            seen(instance),
            version=_text(version) if version is not None else None,
            owner=durable_owner,
            client=ClientKind.DURABLE,
        )


def _settings(durable: DurableService, namespace: str, service: str) -> ServiceSettings:
    meta, version = durable.settings(namespace, service)
    if meta is NO_META:
        return NO_SETTINGS
    clusters = {name: config.to_json() for name, config in meta.clusters.items()}
    text = version.to_text() if version is not None else None
    return ServiceSettings.of(meta.metadata, meta.protect_threshold, meta.selector.to_json(), clusters, text)


def _row(namespace: str, service: str, instance: Instance, **rest: Any) -> dict[str, Any]:
    return instance_row(**instance_values(namespace, service, instance), **rest)


def instance_values(namespace: str, service: str, instance: Instance) -> dict[str, Any]:
    """Which instance it is and the values that clients see, by the names of the fields of its row."""
    return {
        "namespace": namespace,
        "service": service,
        "cluster": instance.cluster_name,
        "ip": instance.ip,
        "port": instance.port,
        "ephemeral": instance.ephemeral,
        "healthy": instance.healthy,
        "enabled": instance.enabled,
        "weight": instance.weight,
        "metadata": instance.metadata,
    }


def linked_rows(brought: Iterable[tuple[str, str, ForeignPart]], now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of instances that links brought. ``brought``: namespace, full name and state of each service and
    link.
    """
    for namespace, name, part in brought:
        stated_ms = max(now_ms - part.stated_ms, 0)
        stale_ms = None if part.stale_ms is None else max(now_ms - part.stale_ms, 0)
        for held, since_ms in ((part.instances, stale_ms), (part.kept, stated_ms)):
            for one in held.values():
                row = instance_row(**instance_values(namespace, name, one))
                yield linked_row(row, part.link, part.origin, stated_ms, since_ms)


def _text(version: Version) -> str | None:
    return None if version == NO_VERSION else version.to_text()
