"""The differences of two members beyond instances: in a service's own row, in records of the cluster, in clients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.rows.rows import RowKind, canonical
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.manifest import Seen

Row = Mapping[str, Any]
Told = tuple[FindingClass, str, str, str, str | None, str | None]
"""The class, the name of a record or client, the values of both members, and their versions."""
ABSENT = "absent"
EMPTY = "there, without instances"
_SETTINGS = ("protect_threshold", "selector", "clusters", "metadata")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a member's dump next to its rows. ``kind``: empty if it is not known."""

    kind: str = ""
    tells: frozenset[str] = frozenset()
    """The kinds of rows that it gives besides services and instances."""
    listed: tuple[Seen, ...] = ()
    """The members that it lists."""


NO_FACTS = Facts()


@dataclass(frozen=True, slots=True)
class ComparedParts:
    """The parts that are compared. Members of different kinds have no settings, records and clients in common."""

    settings: bool = True
    records: bool = True
    clients: bool = True
    left_out: tuple[str, ...] = ()
    """Texts that say which classes are not compared, and why."""

    def takes(self, kind: str) -> bool:
        """Return whether rows of a kind are compared."""
        return (kind != RowKind.RECORD or self.records) and (kind != RowKind.CLIENT or self.clients)


def scope_of(a: Facts, b: Facts, *, is_filtered: bool) -> ComparedParts:
    """Return the parts that both members give. ``is_filtered``: only one service or namespace is compared."""
    left_out = []
    if is_filtered:
        left_out.append("RECORD, CLIENT and MEMBERSHIP: leave out --service and --namespace for them")
    if a.kind != b.kind:
        left_out.append(f"SETTINGS, RECORD and CLIENT: the members are of two kinds, {a.kind} and {b.kind}")
    elif not is_filtered and a.kind:
        for kind, name in ((RowKind.RECORD, FindingClass.RECORD), (RowKind.CLIENT, FindingClass.CLIENT)):
            if (kind in a.tells) != (kind in b.tells):
                left_out.append(f"{name}: one of the members does not report it")
    if {a.kind, b.kind} - {"", "rollcall"}:
        left_out.append("BEHIND: only Rollcall members report versions")
    is_alike = a.kind == b.kind
    return ComparedParts(
        is_alike,
        is_alike and not is_filtered and (RowKind.RECORD in a.tells) == (RowKind.RECORD in b.tells),
        is_alike and not is_filtered and (RowKind.CLIENT in a.tells) == (RowKind.CLIENT in b.tells),
        tuple(left_out),
    )


def fields_of(row: Row, scope: ComparedParts) -> list[Any]:
    """Return the values of a service, record or client that two members should have alike."""
    match row["kind"]:
        case RowKind.SERVICE:
            settings = _settings(row) if scope.settings else None
            return [row.get("owner"), settings, order_of(row.get("version"))]
        case RowKind.RECORD:
            return [row["name"], row.get("value")]
    return [row["name"], row.get("revision"), row.get("owner")]


def membership(a: Facts, b: Facts) -> Iterator[Told]:
    """Yield the difference of two member lists; none if a member gives no list."""
    views = [{f"{seen.address} {seen.state}" for seen in one.listed} for one in (a, b)]
    if all(views) and views[0] != views[1]:
        texts = [", ".join(sorted(mine - other)) or "no others" for mine, other in (views, views[::-1])]
        yield FindingClass.MEMBERSHIP, "", texts[0], texts[1], None, None


def of_service(
    rows_a: Sequence[Row], rows_b: Sequence[Row], scope: ComparedParts, *, others_differ: bool
) -> Iterator[Told]:
    """Yield the differences in a service's own row.

    ``others_differ``: its instances differ, so that different versions of it say nothing more.
    """
    service_a, service_b = (_service(rows) for rows in (rows_a, rows_b))
    has_instances = any(row["kind"] == RowKind.INSTANCE for row in (*rows_a, *rows_b))
    if service_a is None or service_b is None:
        there = service_a or service_b
        if there is not None and not has_instances:
            texts = (ABSENT, EMPTY) if service_a is None else (EMPTY, ABSENT)
            versions = [None if one is None else one.get("version") for one in (service_a, service_b)]
            yield FindingClass.SERVICE, "", texts[0], texts[1], versions[0], versions[1]
        return
    own_a, own_b = _settings(service_a), _settings(service_b)
    if scope.settings and own_a is not None and own_b is not None and own_a != own_b:
        versions = [one.get("settings_version") for one in (service_a, service_b)]
        yield FindingClass.SETTINGS, "", _beyond(own_a, own_b), _beyond(own_b, own_a), versions[0], versions[1]
    version_a, version_b = service_a.get("version"), service_b.get("version")
    if not others_differ and is_behind(version_a, version_b):
        yield FindingClass.BEHIND, "", str(version_a), str(version_b), version_a, version_b


def of_others(rows_a: Sequence[Row], rows_b: Sequence[Row]) -> Iterator[Told]:
    """Yield the differences in records and clients, which have no service."""
    for kind, finding_class in ((RowKind.RECORD, FindingClass.RECORD), (RowKind.CLIENT, FindingClass.CLIENT)):
        held_a, held_b = ({row["name"]: row for row in rows if row["kind"] == kind} for rows in (rows_a, rows_b))
        for name in sorted(held_a.keys() | held_b.keys()):
            pair = held_a.get(name), held_b.get(name)
            texts = [ABSENT if row is None else _value(row) for row in pair]
            if texts[0] != texts[1]:
                versions = [None if row is None else row.get("version") for row in pair]
                yield finding_class, name, texts[0], texts[1], versions[0], versions[1]


def order_of(version: object) -> tuple[int, int] | None:
    """Return the epoch and counter of a version; None without one. The writer orders nothing between two members."""
    parts = version.split(".", 2) if isinstance(version, str) else []
    try:
        return (int(parts[0]), int(parts[1])) if len(parts) > 1 else None
    except ValueError:
        return None


def is_behind(version_a: object, version_b: object) -> bool:
    """Return whether one of two versions is lower than the other."""
    orders = order_of(version_a), order_of(version_b)
    return None not in orders and orders[0] != orders[1]


def _service(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row["kind"] == RowKind.SERVICE), None)


def _settings(row: Row) -> dict[str, Any] | None:
    """Return a service's own values; None if the member does not give them."""
    if row.get("protect_threshold") is None:
        return None
    return {name: row.get(name) or {} if name == "metadata" else row.get(name) or "{}" for name in _SETTINGS} | {
        "protect_threshold": float(row["protect_threshold"])
    }


def _beyond(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={canonical(value)}" for name, value in one.items() if other.get(name) != value)


def _value(row: Row) -> str:
    if row["kind"] == RowKind.RECORD:
        return str(row.get("value"))
    revision = "there" if row.get("revision") is None else f"revision {row['revision']}"
    return f"{revision} of {row['owner']}" if row.get("owner") else revision
