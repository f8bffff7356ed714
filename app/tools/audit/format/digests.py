"""Digests of the rows of a member in one round, by buckets of services: the dump writes them into its manifest.

Buckets with equal digests hold the same services and instances, so a check need not group their rows. A digest covers
all that the check compares between members. A fault of one member alone makes its bucket odd: the check reads it,
with any digests. Such faults are silence, a duplicate address, and rows that do not fit each other.
A dump with an invalid line has no digests.
"""

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from app.naming.model.keys import DUMP_BUCKETS, GROUP_SPLITTER, dump_bucket
from app.rows.rows import STALE_SLACK_MS, Layer, RowKind
from app.tools.audit.format.manifest import Digests

DIGEST_KIND = f"sha256/{DUMP_BUCKETS}/bucket"
"""The name of the rule for digests of rows that name their bucket. Digests of two kinds cannot be
compared."""
OWNERS_MAX = 256
"""The most owners that a member's services may name; with more the dump has no digests."""
ODD = "odd"
_SUM = (1 << 64) - 1
_BUCKET = re.compile(r"([0-9a-f]{16}) (\d{1,15}) (\d{1,15}) (\d{1,15})( odd)?")
_NEEDED = ("layer", "cluster", "ip", "port", "ephemeral", "healthy", "enabled", "weight")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as the manifest states it: the sum of its rows' digests, and the numbers of its rows."""

    total: int
    rows: int
    services: int
    instances: int
    is_odd: bool

    @property
    def text(self) -> str:
        return f"{self.total:016x} {self.rows} {self.services} {self.instances}{f' {ODD}' if self.is_odd else ''}"


def bucket_in(text: str) -> Bucket | None:
    """Return the bucket that a manifest states; None for any other text."""
    found = _BUCKET.fullmatch(text)
    if found is None:
        return None
    total, rows, services, instances, odd = found.groups()
    return Bucket(int(total, 16), int(rows), int(services), int(instances), odd is not None)


class DigestWriter:
    """Sums up the digests of the rows of one member while they are written. It holds 8 bytes for each row."""

    def __init__(self) -> None:
        self._fits = True
        self._sums: dict[int, list[int]] = {}
        self._keys: dict[int, array[int]] = {}
        self._odd: set[int] = set()
        self._owners: dict[str, int] = {}
        self._misfits: dict[int, int] = {}
        self._last: tuple[str, str] | None = None
        self._number = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row, as it is written."""
        if not self._fits:
            return
        try:
            self._add(row)
        except (KeyError, TypeError, ValueError, OverflowError):
            self._fits = False

    def result(self, *, corrupt: int = 0) -> Digests | None:
        """Return the digests; None if a row lacks a value that its kind needs.

        ``corrupt``: how many rows have values for which the files have no place.
        """
        if not self._fits or corrupt or len(self._owners) > OWNERS_MAX:
            return None
        for number, keys in self._keys.items():
            if len(set(keys)) < len(keys) or self._misfits.get(number):
                self._odd.add(number)
        buckets = {}
        for number, (total, rows, services, instances) in sorted(self._sums.items()):
            buckets[str(number)] = Bucket(total, rows, services, instances, number in self._odd).text
        owners = {owner: f"{owned:x}" for owner, owned in sorted(self._owners.items())}
        return Digests(DIGEST_KIND, owners, buckets)

    def _add(self, row: Mapping[str, Any]) -> None:
        kind, namespace, service = row["kind"], row["namespace"], row["service"]
        name = (namespace, service)
        if name != self._last:
            if not isinstance(namespace, str) or not isinstance(service, str):
                raise ValueError(name)
            self._last, self._number = name, dump_bucket(namespace, service)
        number = self._number
        sums = self._sums.get(number)
        if sums is None:
            sums = self._sums[number] = [0, 0, 0, 0]
            self._keys[number] = array("q")
        text = orjson.dumps(self._compared(kind, name, row), option=orjson.OPT_SORT_KEYS)
        sums[0] = (sums[0] + int.from_bytes(sha256(text).digest()[:8], "big")) & _SUM
        sums[1] += 1
        sums[2] += kind == RowKind.SERVICE
        sums[3] += kind == RowKind.INSTANCE
        # Instances of one address share a key across the groups of a service, and whether they are ephemeral or not.
        short = service.rpartition(GROUP_SPLITTER)[2] if kind == RowKind.INSTANCE else service
        key = (kind, namespace, short, row.get("cluster"), row.get("ip"), row.get("port"), row.get("name"))
        self._keys[number].append(hash(key))

    def _compared(self, kind: str, name: tuple[str, str], row: Mapping[str, Any]) -> list[Any]:
        """Return all values of a row in which members must agree; note what only this member's rows tell.

        Raises:
            ValueError: the row lacks a value that its kind needs, or is of an unknown kind.
        """
        values = [kind, *name, row.get("cluster"), row.get("ip"), row.get("port"), row.get("name"), row.get("version")]
        match kind:
            case RowKind.INSTANCE:
                if any(row[field] is None for field in _NEEDED):
                    raise ValueError(kind)
                if row["layer"] != Layer.BOTH or _is_stale(row):
                    self._odd.add(self._number)
                self._count(name, -1)
                values += row["ephemeral"], row["healthy"], row["enabled"], float(row["weight"])
                values.append(row.get("metadata") or {})
            case RowKind.SERVICE:
                instances = row.get("instances")
                if isinstance(instances, int):
                    self._count(name, instances)
                elif instances is None:
                    self._odd.add(self._number)
                else:
                    raise ValueError(kind)
                if (owner := row.get("owner")) is not None:
                    self._owners[owner] = self._owners.get(owner, 0) | 1 << self._number
                values.append(owner)
                if (threshold := row.get("protect_threshold")) is not None:
                    values += float(threshold), row.get("selector"), row.get("clusters"), row.get("metadata") or {}
            case RowKind.RECORD:
                values.append(row["value"])
                if row["name"] is None or row["value"] is None:
                    raise ValueError(kind)
            case RowKind.CLIENT:
                values += row.get("revision"), row.get("owner")
                if row["name"] is None:
                    raise ValueError(kind)
            case _:
                raise ValueError(kind)
        return values

    def _count(self, name: tuple[str, str], instances: int) -> None:
        """Add to a sum that is 0 once the rows of each service in the bucket are as many as its own row states."""
        self._misfits[self._number] = self._misfits.get(self._number, 0) + hash(name) * instances


def _is_stale(row: Mapping[str, Any]) -> bool:
    """Return whether the owner has had no beat for longer than it may keep the instance."""
    silent_ms = row.get("silent_ms")
    if silent_ms is None:
        silent_ms = row.get("beat_age_ms")
    timeout_ms = row.get("delete_timeout_ms")
    return silent_ms is not None and timeout_ms is not None and silent_ms > timeout_ms + STALE_SLACK_MS
