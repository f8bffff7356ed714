"""Rows of a dump: one JSON object a line, the same from every kind of member.

Shape, instance: ``{"kind": "instance", "layer": "both", "namespace": "public", "service": "DEFAULT_GROUP@@orders",
"cluster": "DEFAULT", "ip": "10.0.0.1", "port": 8080, "ephemeral": true, "healthy": true, "enabled": true,
"weight": 1.0, "metadata": {"zone": "a"}, "version": "3.17.10.0.0.7:8848~f00d", "owner": "10.0.0.7:8848",
"beat_age_ms": 1200, "delete_timeout_ms": 30000, "client": "http"}``.

Shape, service: ``{"kind": "service", "namespace": "public", "service": "DEFAULT_GROUP@@orders",
"version": "3.17.10.0.0.7:8848~f00d", "owner": "10.0.0.7:8848", "instances": 1}``, one for each service, also for one
without instances.

A row has no field for a value that the member does not tell.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson

FORMAT = 1
"""The version of rows and manifest. A reader refuses any other version, and names and ignores unknown fields."""


class RowKind(StrEnum):
    INSTANCE = "instance"
    SERVICE = "service"


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
    "delete_timeout_ms": "bigint",
    "client": "string",
    "instances": "bigint",
}
"""Every field of a row with its Spark type, in the order in which the fields are written.

``service`` is the full name (group@@name); ``owner`` the address of the responsible member, as the dumped member sees
it; ``version`` that of the instance's last change, or of the service's list; ``beat_age_ms`` the time since the
instance was last heard of, which only its owner tells.
"""


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
    delete_timeout_ms: int | None = None,
    client: ClientKind | None = None,
) -> dict[str, Any]:
    """One instance as a row."""
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
) -> dict[str, Any]:
    """One service as a row; ``instances`` is how many of its instances the member's clients see."""
    row = {"kind": RowKind.SERVICE.value, "namespace": namespace, "service": service}
    optional = {"version": version, "owner": owner, "instances": instances}
    return row | {name: value for name, value in optional.items() if value is not None}


def encode_row(row: Mapping[str, Any]) -> bytes:
    """The row as a line of JSON, with its line end."""
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
