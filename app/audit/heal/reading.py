"""What one running member holds of a service, and the call by which it exchanges the service with the others."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import orjson

from app.audit.client.access import Access
from app.audit.client.http_client import CallError, MemberClient, Patience, Refused
from app.audit.compare.input import parse_row
from app.audit.dump.nacos import read_nodes
from app.audit.dump.sources import take_service
from app.audit.format.manifest import Seen
from app.audit.format.rows import RowKind

HEAL_PATH = "/v1/ns/operator/heal"
SERVICE_PATH = "/v1/ns/service"
ROWS_MAX = 500_000
"""Of one member; all rows of a service are held at once."""
_NO_SERVICE = {400, 404, 500}
"""Statuses by which members answer that they do not know a service."""
_SETTINGS = ("protectThreshold", "metadata", "selector")

InstanceKey = tuple[str, str, int, bool]
"""Cluster, ip, port, and whether the instance is ephemeral."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The service that is healed, by namespace and full name."""

    namespace: str
    service: str


@dataclass(frozen=True, slots=True)
class Row:
    """An instance as one member holds it."""

    healthy: bool
    enabled: bool
    weight: float
    metadata: Mapping[str, Any]
    version: str | None = None
    owner: str | None = None
    client: str | None = None
    beat_age_ms: int | None = None
    delete_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """What one Rollcall member holds of the service. ``address`` is the one by which the members name it."""

    address: str
    is_known: bool = False
    """The member lists the service."""
    version: str | None = None
    """Of its instance list."""
    owner: str | None = None
    """The member that it takes for responsible."""
    instances: Mapping[InstanceKey, Row] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The service's own values, and those of its clusters, each by its name."""
    members: tuple[Seen, ...] = ()
    """The members that it lists."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A member that did not answer; ``reason`` says how."""

    reason: str


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A member that is not of our kind; ``name`` is its software with its release."""

    name: str


Answered = Held | NoAnswer | OtherKind


def read_member(asked: str, access: Access, wanted: Wanted, stop: Event) -> Answered:
    """Ask a member what it holds of the service; what fails is tried again as often as ``access`` says."""
    patience = Patience(access.retries, stop)
    with contextlib.closing(MemberClient(asked, access, patience)) as client:
        while True:
            try:
                return _read(client, wanted)
            except CallError as error:
                if not patience.try_again(error):
                    return NoAnswer(str(error))


def _read(client: MemberClient, wanted: Wanted) -> Answered:
    rows = _Rows(wanted)
    dumped = take_service(client, wanted.namespace, wanted.service, rows.take)
    if dumped is None:
        version = read_nodes(client).version
        return OtherKind(
            f"Nacos {version}" if version[:2] in ("1.", "2.", "3.") else f"another server {version}".strip()
        )
    return Held(
        dumped.address or client.address,
        rows.service is not None,
        _text(rows.service, "version"),
        _text(rows.service, "owner"),
        rows.instances,
        _settings(client, wanted) if rows.service is not None else {},
        tuple(dumped.members),
    )


class _Rows:
    """Takes the lines of a dump, and keeps the rows of the service."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = (wanted.namespace, wanted.service)
        self._name = orjson.dumps(wanted.service)
        self.service: Mapping[str, Any] | None = None
        self.instances: dict[InstanceKey, Row] = {}

    def take(self, line: bytes) -> None:
        """Keep the row in a line of the dump.

        Raises:
            CallError: the line is no row, or there are more than ``ROWS_MAX``.
        """
        if self._name not in line:
            return
        row = parse_row(line)
        if row is None:
            raise CallError("a line of its dump is no row")
        if (row.get("namespace"), row.get("service")) != self._wanted:
            return
        if row["kind"] == RowKind.SERVICE:
            self.service = row
        elif row["kind"] == RowKind.INSTANCE:
            if len(self.instances) >= ROWS_MAX:
                raise CallError(f"it holds over {ROWS_MAX} instances of the service, more than can be compared here")
            self.instances[row["cluster"], row["ip"], row["port"], row["ephemeral"]] = _row(row)


def _row(row: Mapping[str, Any]) -> Row:
    return Row(
        row["healthy"],
        row["enabled"],
        float(row["weight"]),
        row["metadata"],
        _text(row, "version"),
        _text(row, "owner"),
        _text(row, "client"),
        _whole(row, "beat_age_ms"),
        _whole(row, "delete_timeout_ms"),
    )


def _text(row: Mapping[str, Any] | None, name: str) -> str | None:
    value = row.get(name) if row is not None else None
    return value if isinstance(value, str) else None


def _whole(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    return value if type(value) is int else None


def _settings(client: MemberClient, wanted: Wanted) -> dict[str, Any]:
    """The settings of a service by name; empty when the member does not know it any more."""
    parameters: dict[str, str | int] = {"namespaceId": wanted.namespace, "serviceName": wanted.service}
    try:
        told = client.get(SERVICE_PATH, parameters).json()
    except Refused as error:
        if error.status in _NO_SERVICE:
            return {}
        raise
    if not isinstance(told, dict):
        raise CallError(f"{SERVICE_PATH}: the answer is no JSON object")
    clusters = told.get("clusters")
    named = [one for one in clusters if isinstance(one, dict)] if isinstance(clusters, list) else []
    return {name: told.get(name) for name in _SETTINGS} | {f"cluster {one.get('name')}": one for one in named}


def ask_to_heal(
    asked: str, access: Access, wanted: Wanted, stop: Event, source: str = "", instances: tuple[str, ...] = ()
) -> str:
    """Have a member exchange the service with the others; return why it did not, empty when it began.

    ``source``: the member from which it takes the instances of which it knows nothing. ``instances``: keys of durable
    instances that it may not know.
    """
    parameters: dict[str, str | int] = {"namespaceId": wanted.namespace, "serviceName": wanted.service}
    if source:
        parameters["source"] = source
    if instances:
        parameters["instances"] = ",".join(instances)
    with contextlib.closing(MemberClient(asked, access, Patience(access.retries, stop))) as client:
        try:
            client.post(HEAL_PATH, parameters)
        except CallError as error:
            return str(error)
    return ""
