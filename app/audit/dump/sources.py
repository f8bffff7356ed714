"""One member's state as rows, from whatever kind of member it is: that shows in what it can answer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.audit.client.http_client import CallError, MemberClient, OtherType, Refused, Unusable
from app.audit.dump.nacos import Found, Nodes, read_names, read_namespaces, read_nodes, read_service, read_shown
from app.audit.dump.nacos_datums import Datums, read_datums, take_datums
from app.audit.format.manifest import Seen
from app.audit.format.rows import FORMAT, ClientKind, RowKind, encode_row, instance_row, service_row

DUMP_PATH = "/v1/ns/operator/dump"
NDJSON = "application/x-ndjson"
_NOT_OURS = {400, 401, 403, 404, 405, 500, 501}
"""What others answer to a path that they do not know, or that needs more than we have."""

Emit = Callable[[bytes], None]
"""Takes one line, with its end."""


@dataclass(slots=True)
class Taken:
    """What was told beside the rows, and how many of them there were. ``address`` is empty where it is not told."""

    kind: str
    version: str = ""
    address: str = ""
    members: list[Seen] = field(default_factory=list)
    services: int = 0
    instances: int = 0


def take(client: MemberClient, namespaces: Sequence[str], emit: Emit) -> Taken:
    """Give all rows of a member to ``emit``; return what else it tells. A failure leaves a part of them given.

    ``namespaces``: those that real Nacos may not list, as each is asked for by its name.

    Raises:
        CallError: the member did not answer, answered wrongly or broke off.
    """
    if (ours := _take_ours(client, emit)) is not None:
        return ours
    nodes = read_nodes(client)
    taken = Taken("catalog", nodes.version, nodes.address, list(nodes.members))
    counted = _Counted(taken, emit)
    if (datums := _datums_of(client, nodes)) is not None:
        taken.kind = "nacos-1"
        wanted = dict.fromkeys([*namespaces, *(namespace for namespace, _ in datums.lists)])
        take_datums(client, nodes, datums, read_namespaces(client, wanted), counted.emit_row)
    else:
        _take_catalog(client, read_namespaces(client, namespaces), counted.emit_row)
    return taken


@dataclass(slots=True)
class _Counted:
    """Counts rows on their way."""

    taken: Taken
    emit: Emit

    def emit_row(self, row: dict[str, Any]) -> None:
        if row["kind"] == RowKind.SERVICE:
            self.taken.services += 1
        else:
            self.taken.instances += 1
        self.emit(encode_row(row))


# --- our own kind --------------------------------------------------------------------------------


def _take_ours(client: MemberClient, emit: Emit) -> Taken | None:
    """The dump of a member of our own kind, None for another. Shape: see docs/wire.md."""
    try:
        with client.lines(DUMP_PATH, NDJSON) as lines:
            return _read_dump(lines, emit)
    except OtherType:
        return None
    except Refused as error:
        if error.status in _NOT_OURS:
            return None
        raise


def _read_dump(lines: Iterator[bytes], emit: Emit) -> Taken:
    header = _object(next(lines, b""))
    if header.get("kind") != "member":
        raise CallError(f"{DUMP_PATH}: the first line is no member's")
    if header.get("format") != FORMAT:
        raise Unusable(f"{DUMP_PATH}: its format is {header.get('format')!r}; this version reads {FORMAT}")
    listed = header.get("members")
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    members = [Seen(str(one.get("address", "")), str(one.get("state", ""))) for one in entries]
    taken = Taken("rollcall", str(header.get("version", "")), str(header.get("address", "")), members)
    for line in lines:
        row = _object(line)
        match row.get("kind"):
            case RowKind.INSTANCE.value:
                taken.instances += 1
            case RowKind.SERVICE.value:
                taken.services += 1
            case "end":
                if (row.get("services"), row.get("instances")) != (taken.services, taken.instances):
                    raise CallError(f"{DUMP_PATH}: the counts of its last line are not those of its rows")
                return taken
        emit(line + b"\n")
    raise CallError(f"{DUMP_PATH}: the answer ended before its last line")


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise CallError(f"{DUMP_PATH}: a line is no JSON object")
    return value


# --- others --------------------------------------------------------------------------------------


def _datums_of(client: MemberClient, nodes: Nodes) -> Datums | None:
    """The datums of a real Nacos 1.x. Its 2.x answers too, up to 2.1, with what it held before it was upgraded."""
    if nodes.version and not nodes.version.startswith("1."):
        return None
    return read_datums(client)


def _take_catalog(client: MemberClient, namespaces: Sequence[str], emit_row: Callable[[dict[str, Any]], None]) -> None:
    """Rows of what the catalog shows: one call for each cluster that has instances, after a few for all services."""
    for namespace in namespaces:
        names = read_names(client, namespace)
        shown = read_shown(client, namespace, names)
        for name in names:
            known = shown.get(name)
            clusters = [cluster for cluster, found in known.clusters.items() if found] if known else []
            if known is not None and not clusters:
                emit_row(service_row(namespace, name, instances=0))
                continue
            service = read_service(client, namespace, name, clusters)
            if service is None:
                continue
            found = [one for instances in service.clusters.values() for one in instances]
            emit_row(service_row(namespace, name, instances=len(found)))
            for one in found:
                emit_row(_catalog_row(namespace, name, one))


def _catalog_row(namespace: str, name: str, found: Found) -> dict[str, Any]:
    ephemeral = found.ephemeral is not False
    return instance_row(
        namespace=namespace,
        service=name,
        cluster=found.cluster,
        ip=found.ip,
        port=found.port,
        ephemeral=ephemeral,
        healthy=found.healthy,
        enabled=found.enabled,
        weight=found.weight,
        metadata=found.metadata,
        delete_timeout_ms=found.delete_timeout_ms if ephemeral else None,
        client=None if ephemeral else ClientKind.DURABLE,
    )
