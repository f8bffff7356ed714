"""Rows of a dump, the same from every kind of member: one JSON object a line, or columns of the same names in Parquet.

Shape, instance: ``{"kind": "instance", "layer": "both", "namespace": "public", "service": "DEFAULT_GROUP@@orders",
"cluster": "DEFAULT", "ip": "10.0.0.1", "port": 8080, "ephemeral": true, "healthy": true, "enabled": true,
"weight": 1.0, "metadata": {"zone": "a"}, "version": "3.17.10.0.0.7:8848~f00d", "owner": "10.0.0.7:8848",
"beat_age_ms": 1200, "delete_timeout_ms": 30000, "client": "http"}``.

Shape, service: ``{"kind": "service", "namespace": "public", "service": "DEFAULT_GROUP@@orders",
"version": "3.17.10.0.0.7:8848~f00d", "owner": "10.0.0.7:8848", "instances": 1, "metadata": {},
"protect_threshold": 0.0, "selector": "{\\"type\\":\\"none\\"}", "clusters": "{}",
"settings_version": "5.2.10.0.0.7:8848~f00d"}``, one for each service, also for one without instances.

Shape, record: ``{"kind": "record", "namespace": "", "service": "", "name": "namespace dev", "value": "{...}",
"version": "5.3.10.0.0.7:8848~f00d"}``, one for each record that has no other row: switches, namespaces, users, and the
changes of instances by operators.

Shape, client: ``{"kind": "client", "namespace": "", "service": "", "name": "1795230900000_10.0.0.9_5123",
"revision": 4, "owner": "10.0.0.7:8848", "instances": 3}``, one for each client over gRPC that publishes instances.

Shape, linked: as an instance, of which ``name`` is the link that brought it and ``value`` the cluster in which it is
registered. Its values are those that it has there; ``beat_age_ms`` is how long ago that cluster stated it, and
``silent_ms``, if it is shown as stale, since when. A dump keeps these rows in their own files.

A row has no field for a value that the member does not give.

The watch compares digests: of instances, of services, and of buckets of services. A digest is a sum, so the order in
which a member holds its instances does not matter. It covers the values that clients see, without versions, owners and
the ages of beats, which not every kind of member gives.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import orjson

METADATA = "metadata"
CORRUPT = "_corrupt"
"""The column of an invalid line, in addition to those of ``FIELDS``."""
BUCKET = "bucket"
"""The column of Parquet files with the bucket of the row's service, which follows from its name."""
FORMAT = 1
"""The version of rows and manifest. A reader refuses any other version; it ignores unknown fields and names them."""


class RowKind(StrEnum):
    INSTANCE = "instance"
    SERVICE = "service"
    RECORD = "record"
    """A durable record of the whole cluster; the manifest names the members that give theirs."""
    CLIENT = "client"
    """A client over gRPC; the manifest names the members that give theirs."""
    LINKED = "linked"
    """An instance of another cluster, which a link brought."""


STALE_SLACK_MS = 5_000
"""The delay in removing silent instances below which a member gets no finding."""
EXTRA_KINDS = frozenset({RowKind.RECORD, RowKind.CLIENT})
"""Kinds of rows that not every kind of member, and no earlier release, gives."""


class Layer(StrEnum):
    """The layer of a member that holds an instance: the datum it replicates, the view of its clients, or both alike.

    Only members that keep datum and view apart, such as Nacos 1.4, have rows of one layer: an instance with a row for
    one layer only, or with two rows that differ, has drifted in that member.
    """

    DATUM = "datum"
    VIEW = "view"
    BOTH = "both"


class ClientKind(StrEnum):
    """How an instance stays registered: by beats over HTTP, by a gRPC connection, or as a durable record."""

    HTTP = "http"
    GRPC = "grpc"
    DURABLE = "durable"


FIELDS: dict[str, str] = {
    "kind": "string",
    "layer": "string",
    "namespace": "string",
    "service": "string",
    "cluster": "string",
    "ip": "string",
    "port": "int",
    "ephemeral": "boolean",
    "healthy": "boolean",
    "enabled": "boolean",
    "weight": "double",
    "metadata": "map<string,string>",
    "version": "string",
    "owner": "string",
    "beat_age_ms": "bigint",
    "silent_ms": "bigint",
    "delete_timeout_ms": "bigint",
    "client": "string",
    "instances": "bigint",
    "protect_threshold": "double",
    "selector": "string",
    "clusters": "string",
    "settings_version": "string",
    "name": "string",
    "value": "string",
    "revision": "bigint",
}
"""Every field of a row with its Spark type, in the order in which the fields are written.

``service`` is the full name (group@@name); ``owner`` the address of the responsible member, as the dumped member sees
it, or of the member that a client is connected to; ``version`` that of the instance's last change, or of the service's
list; ``beat_age_ms`` the time since the instance's last beat, which only its owner gives; ``silent_ms`` the part of
it that the owner's health check counts, left out if that is all of it. ``selector``, ``clusters`` and ``value`` are
JSON with sorted keys, as of ``canonical``.
"""


def canonical(value: Any) -> str:
    """Return a value as JSON in which equal values are equal texts: sorted keys, no white space."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def secret_hash(value: Any) -> str:
    """Return the hash that replaces a value with a secret in a dump."""
    return "sha256:" + hashlib.sha256(canonical(value).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """A service's own values, as its row has them."""

    metadata: Mapping[str, str | None] | None
    protect_threshold: float
    selector: str
    clusters: str
    version: str | None = None

    @classmethod
    def of(
        cls,
        metadata: Mapping[str, str | None] | None,
        protect_threshold: float,
        selector: Any,
        clusters: Mapping[str, Any],
        version: str | None = None,
    ) -> "ServiceSettings":
        """Return the settings of a service from Nacos's JSON of its selector and, by name, of its clusters.

        A hash replaces the password of a checker. The type and expression of a selector are kept.
        """
        shown = {name: _without_secrets(one) for name, one in clusters.items()}
        kept: dict[str, Any] = {"type": "none"}
        if isinstance(selector, Mapping) and selector.get("type") not in (None, "none"):
            kept = {name: selector.get(name) for name in ("type", "expression")}
        return cls(metadata, protect_threshold, canonical(kept), canonical(shown), version)

    def fields(self) -> dict[str, Any]:
        """Return the settings as fields of a service's row."""
        told = {
            "metadata": self.metadata or {},
            "protect_threshold": float(self.protect_threshold),
            "selector": self.selector,
            "clusters": self.clusters,
        }
        return told if self.version is None else {**told, "settings_version": self.version}


def _without_secrets(cluster: Any) -> Any:
    checker = cluster.get("healthChecker") if isinstance(cluster, Mapping) else None
    if not isinstance(checker, Mapping) or not checker.get("pwd"):
        return cluster
    return {**cluster, "healthChecker": {**checker, "pwd": secret_hash(checker["pwd"])}}


def instance_row(
    *,
    namespace: str,
    service: str,
    cluster: str,
    ip: str,
    port: int,
    ephemeral: bool,
    healthy: bool,
    enabled: bool,
    weight: float,
    metadata: Mapping[str, str | None] | None,
    layer: Layer = Layer.BOTH,
    version: str | None = None,
    owner: str | None = None,
    beat_age_ms: int | None = None,
    silent_ms: int | None = None,
    delete_timeout_ms: int | None = None,
    client: ClientKind | None = None,
) -> dict[str, Any]:
    """Return one instance as a row."""
    row: dict[str, Any] = {
        "kind": RowKind.INSTANCE.value,
        "layer": layer.value,
        "namespace": namespace,
        "service": service,
        "cluster": cluster,
        "ip": ip,
        "port": port,
        "ephemeral": ephemeral,
        "healthy": healthy,
        "enabled": enabled,
        "weight": weight,
        "metadata": metadata or {},
    }
    optional = {
        "version": version,
        "owner": owner,
        "beat_age_ms": beat_age_ms,
        "silent_ms": silent_ms,
        "delete_timeout_ms": delete_timeout_ms,
        "client": client.value if client else None,
    }
    return row | {name: value for name, value in optional.items() if value is not None}


def service_row(
    namespace: str,
    service: str,
    version: str | None = None,
    owner: str | None = None,
    instances: int | None = None,
    settings: ServiceSettings | None = None,
) -> dict[str, Any]:
    """Return one service as a row; ``instances`` is how many of its instances the member's clients see."""
    row: dict[str, Any] = {"kind": RowKind.SERVICE.value, "namespace": namespace, "service": service}
    optional: dict[str, Any] = {"version": version, "owner": owner, "instances": instances}
    row |= {name: value for name, value in optional.items() if value is not None}
    return row | settings.fields() if settings is not None else row


def record_row(name: str, value: Any, version: str | None = None) -> dict[str, Any]:
    """Return one record of the whole cluster as a row; ``name``: kind and id of the record."""
    row = {"kind": RowKind.RECORD.value, "namespace": "", "service": "", "name": name, "value": canonical(value)}
    return row | ({"version": version} if version is not None else {})


def client_row(
    client_id: str, revision: int | None = None, owner: str | None = None, instances: int | None = None
) -> dict[str, Any]:
    """Return one client over gRPC as a row; ``owner``: the member that it is connected to."""
    row = {"kind": RowKind.CLIENT.value, "namespace": "", "service": "", "name": client_id}
    optional = {"revision": revision, "owner": owner, "instances": instances}
    return row | {name: value for name, value in optional.items() if value is not None}


def linked_row(
    instance: Mapping[str, Any], link: str, origin: str, stated_ms: int, stale_ms: int | None
) -> dict[str, Any]:
    """Return an instance that a link brought as a row.

    ``instance``: its row as in its own cluster. ``stated_ms``: how long ago that cluster stated it; ``stale_ms``: since
    when it is stale, None if it is not.
    """
    row = {name: value for name, value in instance.items() if name != "layer"}
    row |= {"kind": RowKind.LINKED.value, "name": link, "value": origin, "beat_age_ms": stated_ms}
    return row if stale_ms is None else row | {"silent_ms": stale_ms}


def encode_row(row: Mapping[str, Any]) -> bytes:
    """Return the row as a line of JSON, with its line end."""
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


DIGEST_FORMAT = 1
"""The version of the digests: digests of two versions cannot be compared."""
BUCKETS = 256
_DIGESTED = ("namespace", "service", "cluster", "ip", "port", "ephemeral", "healthy", "enabled")
_SUM = (1 << 64) - 1


def bucket_of(namespace: str, service: str) -> int:
    """Return the bucket of a service, by its full name."""
    return blake2b(f"{namespace}\0{service}".encode(), digest_size=1).digest()[0]


def instance_digest(row: Mapping[str, Any]) -> int:
    """Return the digest of one instance with the service that it is in, by the fields of its row (see ``rows``)."""
    values = [row[name] for name in _DIGESTED]
    values += float(row["weight"]), row["metadata"] or {}
    text = orjson.dumps(values, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def digest_text(total: int) -> str:
    """Return a sum of digests as 16 hexadecimal digits."""
    return f"{total & _SUM:016x}"
