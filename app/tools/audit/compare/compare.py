"""The differences of two members, from their rows, in one process and bounded memory.

The classes are those of the nightly check, as far as two members can differ in them: STALE, and one address in services
of two groups, concern each member alone. Values that differ under one version are shown by their own classes, with
these versions. Fields about the member itself (the age of a beat, the client kind) are not
compared.

Memory: about 300 bytes for each service of both members together, and the rows of at most ``SLICE_ROWS_MAX`` in
services that differ, or of one service when it alone has more. A dump's order does not matter; the rows are read
twice, and once more for each further slice.
"""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import orjson

from app.rows.rows import Layer, RowKind
from app.tools.audit.compare.services import (
    NO_FACTS,
    ComparedParts,
    Facts,
    Told,
    fields_of,
    membership,
    of_others,
    of_service,
    scope_of,
)
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.manifest import ROUNDS

SLICE_ROWS_MAX = 200_000
ABSENT = "absent"

Row = Mapping[str, Any]
ServiceKey = tuple[str, str]
InstanceKey = tuple[str, str, int, bool]

_COMPARED = (
    (FindingClass.HEALTH, "healthy"),
    (FindingClass.ENABLED, "enabled"),
    (FindingClass.WEIGHT, "weight"),
)
_DIGEST_BYTES = 16
NO_SERVICE: ServiceKey = ("", "")
_KINDS = {FindingClass.RECORD: RowKind.RECORD, FindingClass.CLIENT: RowKind.CLIENT}


@dataclass(frozen=True, slots=True)
class Side:
    """A member, and a function that yields its rows from the first one on, whenever it is called."""

    address: str
    rows: Callable[[], Iterable[Row]]
    facts: Facts = NO_FACTS


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in an instance; or in a service, a record or a client: then the instance's fields are empty or None.

    ``a`` and ``b`` are the members' values, as text; ``lasting`` is unset when there was one round only.
    """

    finding_class: FindingClass
    namespace: str
    service: str
    cluster: str
    ip: str
    port: int | None
    ephemeral: bool | None
    a: str
    b: str
    a_version: str | None
    b_version: str | None
    lasting: bool | None = None
    name: str = ""
    """The record or client that differs; empty for everything else."""

    @property
    def key(self) -> tuple[str, str, str, str, int, bool, str, str]:
        """The sort key: the service and instance that differ, and the class."""
        instance = (self.cluster, self.ip, self.port or 0, bool(self.ephemeral))
        return (self.namespace, self.service, *instance, self.finding_class.value, self.name)


def is_seen(row: Row) -> bool:
    """Return whether clients see the row's instance; a datum is only replicated, and concerns its member alone."""
    layer: str = row.get("layer", Layer.BOTH)
    return layer != Layer.DATUM


def compare(
    a: Side, b: Side, slice_rows_max: int = SLICE_ROWS_MAX, *, is_filtered: bool = False
) -> Iterator[Difference]:
    """Yield the differences of two members, by namespace, service and instance.

    ``is_filtered``: the rows are those of one service or namespace.
    """
    scope = scope_of(a.facts, b.facts, is_filtered=is_filtered)
    if not is_filtered:
        yield from (_difference(NO_SERVICE, one) for one in membership(a.facts, b.facts))
    for services in _slices(*_differing(a, b, scope), slice_rows_max):
        held_a, held_b = _rows_of(a, services), _rows_of(b, services)
        for key in services:
            yield from sorted(_of_service(key, a, b, held_a[key], held_b[key], scope), key=lambda one: one.key)


def _of_service(
    key: ServiceKey, a: Side, b: Side, rows_a: list[Row], rows_b: list[Row], scope: ComparedParts
) -> list[Difference]:
    """Return the differences in the rows of one service; of records and clients for the key without a service."""
    found = [*_owner(key, rows_a, rows_b), *_instances(key, a, b, rows_a, rows_b)]
    told = [*of_service(rows_a, rows_b, scope, others_differ=bool(found)), *of_others(rows_a, rows_b)]
    return found + [_difference(key, one) for one in told if scope.takes(_KINDS.get(one[0], ""))]


def _difference(key: ServiceKey, told: Told) -> Difference:
    finding_class, name, text_a, text_b, version_a, version_b = told
    return Difference(finding_class, *key, "", "", None, None, text_a, text_b, version_a, version_b, name=name)


def _differing(a: Side, b: Side, scope: ComparedParts) -> tuple[list[ServiceKey], dict[ServiceKey, int]]:
    """Return the services that differ, in order, and the number of rows of each."""
    balance: dict[ServiceKey, int] = {}
    counts: dict[ServiceKey, int] = {}
    for side, sign in ((a, 1), (b, -1)):
        for row in side.rows():
            if not scope.takes(row["kind"]):
                continue
            key = (row["namespace"], row["service"])
            # A sum, so that the order of the rows does not matter.
            balance[key] = balance.get(key, 0) + sign * _digest(row, scope)
            counts[key] = counts.get(key, 0) + 1
    return sorted(key for key, rest in balance.items() if rest), counts


def _digest(row: Row, scope: ComparedParts) -> int:
    if row["kind"] != RowKind.INSTANCE:
        fields = [row["kind"], *fields_of(row, scope)]
    else:
        fields = [
            row.get("layer", Layer.BOTH),
            *_instance_key(row),
            row["healthy"],
            row["enabled"],
            float(row["weight"]),
            row["metadata"],
        ]
    text = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest(), "big")


def _slices(keys: list[ServiceKey], counts: Mapping[ServiceKey, int], rows_max: int) -> Iterator[list[ServiceKey]]:
    part: list[ServiceKey] = []
    rows = 0
    for key in keys:
        if part and rows + counts[key] > rows_max:
            yield part
            part, rows = [], 0
        part.append(key)
        rows += counts[key]
    if part:
        yield part


def _rows_of(side: Side, services: list[ServiceKey]) -> dict[ServiceKey, list[Row]]:
    found: dict[ServiceKey, list[Row]] = {key: [] for key in services}
    for row in side.rows():
        rows = found.get((row["namespace"], row["service"]))
        if rows is not None:
            rows.append(row)
    return found


def _instance_key(row: Row) -> InstanceKey:
    return row["cluster"], row["ip"], row["port"], row["ephemeral"]


def _owner(key: ServiceKey, rows_a: list[Row], rows_b: list[Row]) -> Iterator[Difference]:
    """Yield an OWNER difference when the members name different members as responsible for the service."""
    service_a, service_b = (
        next((row for row in rows if row["kind"] == RowKind.SERVICE and row.get("owner")), None)
        for rows in (rows_a, rows_b)
    )
    if service_a is not None and service_b is not None and service_a["owner"] != service_b["owner"]:
        versions = service_a.get("version"), service_b.get("version")
        yield Difference(
            FindingClass.OWNER, *key, "", "", None, None, service_a["owner"], service_b["owner"], *versions
        )


def _instances(key: ServiceKey, a: Side, b: Side, rows_a: list[Row], rows_b: list[Row]) -> Iterator[Difference]:
    held_a, held_b = _by_instance(rows_a), _by_instance(rows_b)
    for instance in held_a.keys() | held_b.keys():
        rows = held_a.get(instance, []), held_b.get(instance, [])
        seen_a, seen_b = ([row for row in side if is_seen(row)] for side in rows)
        found: list[tuple[FindingClass, str, str]] = []
        if seen_a and seen_b:
            found += _values(seen_a[0], seen_b[0])
            if len(seen_a) != len(seen_b):
                found.append((FindingClass.DUPLICATE, _times(seen_a), _times(seen_b)))
        elif seen_a:
            found.append((_presence(seen_a[0], b), _text(seen_a[0]), ABSENT))
        elif seen_b:
            found.append((_presence(seen_b[0], a), ABSENT, _text(seen_b[0])))
        drift_a, drift_b = map(_drift, rows)
        if drift_a != drift_b:
            found.append((FindingClass.DRIFT, drift_a, drift_b))
        version_a, version_b = (next((row.get("version") for row in side), None) for side in (seen_a, seen_b))
        cluster, ip, port, ephemeral = instance
        for finding_class, text_a, text_b in found:
            where = (*key, cluster, ip, port, ephemeral)
            yield Difference(finding_class, *where, text_a, text_b, version_a, version_b)


def _by_instance(rows: list[Row]) -> dict[InstanceKey, list[Row]]:
    held: dict[InstanceKey, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == RowKind.INSTANCE:
            held[_instance_key(row)].append(row)
    return held


def _presence(row: Row, lacking: Side) -> FindingClass:
    """Return EXTRA (left over) if the member that lacks the instance is its owner, else MISSING."""
    return FindingClass.EXTRA if row.get("owner") == lacking.address else FindingClass.MISSING


def _values(row_a: Row, row_b: Row) -> Iterator[tuple[FindingClass, str, str]]:
    for finding_class, field in _COMPARED:
        if row_a[field] != row_b[field]:
            yield finding_class, _json(row_a[field]), _json(row_b[field])
    data_a, data_b = row_a["metadata"], row_b["metadata"]
    if data_a != data_b:
        # Only what differs: metadata may be long.
        yield FindingClass.METADATA, _json(_beyond(data_a, data_b)), _json(_beyond(data_b, data_a))


def _beyond(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in other or other[name] != value}


def _drift(rows: list[Row]) -> str:
    """Return the instance's values in the datum and in the view of one member, as text; empty if they are equal."""
    by_layer = {row.get("layer", Layer.BOTH): row for row in rows}
    datum, view = by_layer.get(Layer.DATUM), by_layer.get(Layer.VIEW)
    if datum is None and view is None:
        return ""
    # Without the health: the view decides it, and a datum has the health as of its last change.
    texts = [ABSENT if row is None else _text(row, with_health=False) for row in (datum, view)]
    return "" if texts[0] == texts[1] else f"datum: {texts[0]}, view: {texts[1]}"


def _times(rows: list[Row]) -> str:
    return "once" if len(rows) == 1 else f"{len(rows)} times"


def _text(row: Row, with_health: bool = True) -> str:
    """Return the values of an instance as text, such as ``healthy weight 1.0``."""
    parts = ["healthy" if row["healthy"] else "unhealthy"] if with_health else []
    if not row["enabled"]:
        parts.append("disabled")
    parts.append(f"weight {_json(row['weight'])}")
    if row["metadata"]:
        parts.append(_json(row["metadata"]))
    return " ".join(parts)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def lasting(first: Iterable[Difference], second: Iterable[Difference]) -> Iterator[Difference]:
    """Yield the differences of two rounds, each once, with the values of the later round that has it.

    A difference lasts when both rounds have it with the same versions and values; a value that changed with its version
    is another change.
    """
    merged = heapq.merge(first, second, key=lambda one: one.key)
    for _, found in groupby(merged, key=lambda one: one.key):
        shown = list(found)
        yield replace(shown[-1], lasting=len(shown) == ROUNDS and shown[0] == shown[-1])
