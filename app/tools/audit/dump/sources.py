"""One member's state as rows, from Rollcall, Nacos 1.x or others: the calls that a member answers show its software."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.rows.rows import EXTRA_KINDS, FORMAT, RowKind, encode_row, service_row
from app.tools.audit.client.http_client import CallError, MemberClient, OtherType, Refused, Unusable
from app.tools.audit.dump.nacos import (
    Nodes,
    found_row,
    listed_namespaces,
    namespace_ids,
    read_names,
    read_nodes,
    read_service,
    read_shown,
)
from app.tools.audit.dump.nacos_datums import Datums, read_datums, take_datums
from app.tools.audit.dump.nacos_settings import SettingsReader, read_clients, read_records
from app.tools.audit.format.manifest import DumpState, MemberDump, Seen, links_of

DUMP_PATH = "/v1/ns/operator/dump"
NDJSON = "application/x-ndjson"
_NOT_OURS = {400, 401, 403, 404, 405, 500, 501}
"""Statuses of members of another kind for a path that they do not know, or that needs a login or a right."""

Emit = Callable[[bytes, Mapping[str, Any]], object]
"""Takes one row, as a line with its end, and parsed."""


def take(client: MemberClient, namespaces: Sequence[str], emit: Emit, *, links: bool = False) -> MemberDump:
    """Give all rows of a member to ``emit``; return its address, kind, release, member list and counts of rows.

    After a failure some of the rows have been given. ``address`` is empty if the member does not give its own; times
    and parts are not set. ``namespaces``: more ids to ask for, as real Nacos may not list them. ``links``: also give
    what links brought.

    Raises:
        CallError: the member did not answer, answered wrongly or broke off.
    """
    if (ours := _take_ours(client, emit, {"links": "true"} if links else None)) is not None:
        return ours
    nodes = read_nodes(client)
    datums = _datums_of(client, nodes)
    kind = "catalog" if datums is None else "nacos-1"
    told = MemberDump(nodes.address, DumpState.DUMPED, kind, nodes.version, members=list(nodes.members))
    counted = _Counted(emit, SettingsReader(client))
    tells = [RowKind.RECORD.value]
    listed = listed_namespaces(client)
    for row in read_records(client, listed):
        emit(encode_row(row), row)
    if (clients := read_clients(client)) is not None:
        tells.append(RowKind.CLIENT.value)
        for row in clients:
            emit(encode_row(row), row)
    if datums is not None:
        wanted = dict.fromkeys([*namespaces, *(namespace for namespace, _ in datums.lists)])
        take_datums(client, nodes, datums, namespace_ids(listed, wanted), counted.emit_row)
    else:
        _take_catalog(client, namespace_ids(listed, namespaces), counted.emit_row)
    return replace(told, services=counted.services, instances=counted.instances, tells=tells)


def take_service(client: MemberClient, namespace: str, service: str, emit: Emit) -> MemberDump | None:
    """Give the rows of one service of a Rollcall member to ``emit``, as ``take`` does; None for other software.

    Members of the first release give all rows.
    """
    return _take_ours(client, emit, {"namespaceId": namespace, "serviceName": service})


def take_linked(client: MemberClient, emit: Emit) -> MemberDump | None:
    """Give all rows of a Rollcall member to ``emit``, as ``take`` does with links; None for other software."""
    return _take_ours(client, emit, {"links": "true"})


def take_all(client: MemberClient, emit: Emit) -> MemberDump | None:
    """Give all rows of a Rollcall member to ``emit``, as ``take`` does; None for other software."""
    return _take_ours(client, emit)


@dataclass(slots=True)
class _Counted:
    """Counts the rows of services and of instances on their way to ``emit``, and adds each service's settings."""

    emit: Emit
    settings: SettingsReader
    services: int = 0
    instances: int = 0

    def emit_row(self, row: dict[str, Any]) -> None:
        if row["kind"] == RowKind.SERVICE:
            self.services += 1
            if (settings := self.settings.read(row["namespace"], row["service"])) is not None:
                row |= settings.fields()
        else:
            self.instances += 1
        self.emit(encode_row(row), row)


# --- our own kind --------------------------------------------------------------------------------


def _take_ours(
    client: MemberClient, emit: Emit, parameters: Mapping[str, str | int] | None = None
) -> MemberDump | None:
    """Return the dump of a Rollcall member, its rows given to ``emit``; else None. Shape: docs/wire-tools.md."""
    try:
        with client.lines(DUMP_PATH, NDJSON, parameters) as lines:
            return _read_dump(lines, emit)
    except OtherType:
        return None
    except Refused as error:
        if error.status in _NOT_OURS:
            return None
        raise


def _read_dump(lines: Iterator[bytes], emit: Emit) -> MemberDump:
    header = _object(next(lines, b""))
    if header.get("kind") != "member":
        raise CallError(f"{DUMP_PATH}: the first line does not describe a member")
    if header.get("format") != FORMAT:
        raise Unusable(f"{DUMP_PATH}: its format is {header.get('format')!r}; this version reads {FORMAT}")
    listed = header.get("members")
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    members = [Seen(str(one.get("address", "")), str(one.get("state", ""))) for one in entries]
    address, version = str(header.get("address", "")), str(header.get("version", ""))
    extra = [kind.value for kind in sorted(EXTRA_KINDS) if kind in _texts(header.get("tells"))]
    cluster, links = str(header.get("cluster", "")), links_of(header.get("links"))
    told = MemberDump(
        address, DumpState.DUMPED, "rollcall", version, members=members, tells=extra, cluster=cluster, links=links
    )
    services = instances = 0
    for line in lines:
        row = _object(line)
        match row.get("kind"):
            case RowKind.INSTANCE.value:
                instances += 1
            case RowKind.SERVICE.value:
                services += 1
            case "end":
                if (row.get("services"), row.get("instances")) != (services, instances):
                    raise CallError(f"{DUMP_PATH}: the counts in its last line do not match its rows")
                return replace(told, services=services, instances=instances)
        emit(line + b"\n", row)
    raise CallError(f"{DUMP_PATH}: the answer ended before its last line")


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise CallError(f"{DUMP_PATH}: a line is not a JSON object")
    return value


# --- others --------------------------------------------------------------------------------------


def _datums_of(client: MemberClient, nodes: Nodes) -> Datums | None:
    """Return the datums of Nacos 1.x, else None: Nacos 2.x up to 2.1 would give those from before its upgrade."""
    if nodes.version and not nodes.version.startswith("1."):
        return None
    return read_datums(client)


def _take_catalog(client: MemberClient, namespaces: Sequence[str], emit_row: Callable[[dict[str, Any]], None]) -> None:
    """Emit the rows of the catalog: a few calls for all services, then one for each cluster with instances."""
    for namespace in namespaces:
        names = read_names(client, namespace)
        shown = read_shown(client, namespace, names)
        for name in names:
            known = shown.get(name)
            clusters = [cluster for cluster, found in known.items() if found] if known else []
            if known is not None and not clusters:
                emit_row(service_row(namespace, name, instances=0))
                continue
            service = read_service(client, namespace, name, clusters)
            if service is None:
                continue
            found = [one for instances in service.values() for one in instances]
            emit_row(service_row(namespace, name, instances=len(found)))
            for one in found:
                emit_row(found_row(namespace, name, one, client=None))
