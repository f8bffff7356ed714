"""The resource type of foreign instances: the instances of each service by link, in memory, for Rollcall members.

The owner of a service follows it at the other cluster and writes its datum. The other members get the datum as they get
any other, so each shows the same instances, and the next owner continues from the state that it holds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import orjson

from app.naming.model.events import ForeignChanged, ForeignWritten
from app.naming.model.foreign import Arrival, ArrivalRule, ForeignPart
from app.naming.model.json_fields import FROM_MEMBER, Fields
from app.naming.model.keys import (
    CLUSTER_NAME,
    DEFAULT_CLUSTER,
    NAMESPACE_SPLITTER,
    WALL_MS_END,
    WORD_MARGIN_MS,
    check_names,
)
from app.naming.model.model import WEIGHT_MAX
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.foreign_table import ForeignTable
from app.naming.wire.foreign_wire import decode_all, digest_text, encode_foreign, parse_digest
from distro.model.digest import ChangedKeys
from distro.model.errors import CodecError, RejectedError
from distro.model.stores import DistroStore
from distro.model.types import NO_VERSION, Datum, Merged, Version
from distro.wire.http_agent import DistroHttpAgent

FOREIGN, PREFIX = "rollcall.foreign", "rollcall.foreign."
INSTANCES_MAX = 100_000
"""Instances of one service that one link may bring; a setting bounds those of all links together."""
ORIGIN_CHARS_MAX = 128
_ESCAPES = (("%", "%25"), ("#", "%23"))
"""Escapes for service names in keys, so that no name contains ``##``."""


class ForeignKey(NamedTuple):
    """The parts of a key: the link, and the service as it is named in this cluster."""

    link: str
    namespace: str
    full_name: str

    def text(self) -> str:
        """Return the key."""
        name = self.full_name
        for char, escape in _ESCAPES:
            name = name.replace(char, escape)
        return PREFIX + NAMESPACE_SPLITTER.join((self.link, self.namespace, name))


def parse_foreign_key(key: str) -> ForeignKey | None:
    """Return the parts of a key; None for any other text."""
    parts = key.removeprefix(PREFIX).split(NAMESPACE_SPLITTER)
    if len(parts) != 3 or not all(parts) or not key.startswith(PREFIX):
        return None
    link, namespace, name = parts
    for char, escape in reversed(_ESCAPES):
        name = name.replace(escape, char)
    found = ForeignKey(link, namespace, name)
    return found if found.text() == key and CLUSTER_NAME.fullmatch(link) else None


class ForeignStore(DistroStore):
    """The parts that links brought, by key; an empty one is a removal. Thread-safe.

    Of two members' states of a key the one that the other cluster stated later stays, as a whole (L8).
    """

    def __init__(
        self,
        writer: str,
        table: ForeignTable,
        publish: Callable[[ForeignChanged | ForeignWritten], None],
        now_ms: Callable[[], int],
        keep_ms: int,
        instances_max: int,
    ) -> None:
        """``keep_ms``: how long a removal is remembered. ``instances_max``: the bound for all links together."""
        self._writer, self._table, self._publish, self._now_ms = writer, table, publish, now_ms
        self._keep_ms, self.instances_max = keep_ms, instances_max
        self._lock = Lock()
        self._datums: dict[str, Datum] = {}
        self._removed_ms: dict[str, int] = {}
        self.merges: dict[str, int] = {}
        """How often this owner took a state of another member, by link: that link has to compare."""
        self._changed = ChangedKeys()
        self.pop_changed = self._changed.pop
        self.instances = 0
        """Instances of all links, each as often as it came."""
        self.refused = 0
        """Services that were not taken, because all links together would have brought too many instances."""

    # --- the links' side --------------------------------------------------------------------------

    def part(self, key: str) -> ForeignPart | None:
        """Return what a link brought of a service; None for nothing."""
        stored = self._datums.get(key)
        return stored.value if stored is not None and not stored.value.is_empty else None

    def parts(self, link: str = "") -> list[tuple[str, ForeignPart]]:
        """Return a copy of all that a link brought, or all links for an empty name, by key."""
        begin = f"{PREFIX}{link}{NAMESPACE_SPLITTER}" if link else PREFIX
        found = [(key, one.value) for key, one in list(self._datums.items()) if key.startswith(begin)]
        return [(key, part) for key, part in found if not part.is_empty]

    def put(self, key: str, part: ForeignPart | None) -> bool:
        """Set what a link brought, as the owner of the key. Return False if it does not fit: then nothing changes."""
        now_ms = self._now_ms()
        with self._lock:
            stored = self._datums.get(key)
            if stored is None and part is None:
                return True
            if part is not None and self.instances + self._grown(stored, part) > self.instances_max:
                self.refused += 1
                return False
            version = (stored.version if stored is not None else NO_VERSION).next(self._writer)
            self._put(Datum(key, version, part if part is not None else removed_part(key, now_ms)), now_ms)
        self._show(key, now_ms)
        self._publish(ForeignWritten(key))
        return True

    def confirm(self, key: str, stated_ms: int) -> None:
        """Note that the other cluster stated again what is stored, as the owner of the key."""
        with self._lock:
            if (stored := self._datums.get(key)) is not None:
                self._datums[key] = replace(stored, value=replace(stored.value, stated_ms=stated_ms))

    @staticmethod
    def is_later(one: ForeignPart, other: ForeignPart) -> bool:
        """Return whether one state was stated later than another one, by more than ages may be off (L8)."""
        return one.stated_ms > other.stated_ms + WORD_MARGIN_MS

    @staticmethod
    def _grown(stored: Datum | None, part: ForeignPart) -> int:
        return len(part.shown) - (len(stored.value.shown) if stored is not None else 0)

    def _put(self, datum: Datum, now_ms: int) -> None:
        self.instances += self._grown(self._datums.get(datum.key), datum.value)
        self._datums[datum.key] = datum
        if datum.value.is_empty:
            self._removed_ms.setdefault(datum.key, now_ms)
        else:
            self._removed_ms.pop(datum.key, None)
        self._changed.note(datum.key)

    def _show(self, key: str, now_ms: int) -> None:
        """Have readers see the present state of a key."""
        parsed = parse_foreign_key(key)
        if parsed is not None and self._table.put(
            parsed.namespace, parsed.full_name, parsed.link, self.part(key), now_ms
        ):
            self._publish(ForeignChanged(parsed.namespace, parsed.full_name))

    # --- the engine's side ------------------------------------------------------------------------

    def version(self, key: str) -> Version | None:
        stored = self._datums.get(key)
        return stored.version if stored is not None else None

    def versions(self) -> Mapping[str, Version]:
        return {one.key: one.version for one in list(self._datums.values())}

    def all_keys(self) -> list[str]:
        return list(self._datums)

    def datums(self, keys: Iterable[str]) -> list[Datum]:
        return [stored for key in keys if (stored := self._datums.get(key)) is not None]

    def tag(self, key: str) -> str:
        """Return the name of the service: its owner follows it at the other cluster."""
        parsed = parse_foreign_key(key)
        return parsed.full_name if parsed is not None else key

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        removed_ms = self._removed_ms.get(key)
        return removed_ms is not None and now_ms - removed_ms > self._keep_ms

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        with self._lock:
            if self.version(datum.key) != expected:
                return False
            self._put(datum, now_ms)
        self._show(datum.key, now_ms)
        return True

    def is_covered(self, datum: Datum) -> bool:
        stored = self._datums.get(datum.key)
        return stored is None or stored.value == datum.value or not self.is_later(stored.value, datum.value)

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        with self._lock:
            stored = self._datums.get(datum.key)
            merged = self._merge(stored, datum, now_ms)
            if merged is not Merged.NOTHING:
                link = datum.value.link
                self.merges[link] = self.merges.get(link, 0) + 1
        self._show(datum.key, now_ms)
        return merged

    def _merge(self, stored: Datum | None, datum: Datum, now_ms: int) -> Merged:
        """Merge a datum with the stored one; the caller holds the lock."""
        is_higher = stored is None or datum.version > stored.version
        if stored is None or (is_higher and self.is_covered(datum)):
            self._put(datum, now_ms)
            return Merged.TAKEN
        best = stored
        if not is_higher:
            if stored.value == datum.value or not self.is_later(datum.value, stored.value):
                return Merged.NOTHING
            best = datum
        version = max(stored.version, datum.version).next(self._writer)
        self._put(Datum(datum.key, version, best.value), now_ms)
        return Merged.MADE

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        key, received = datum.key, datum.version
        with self._lock:
            stored = self._datums.get(key, Datum(key, NO_VERSION, removed_part(key, now_ms)))
            if received.writer == self._writer and received > stored.version:
                self._put(Datum(key, received.next_epoch(self._writer), stored.value), now_ms)
                return True
            if received == stored.version and datum.value != stored.value:
                self._put(Datum(key, received.next(self._writer), stored.value), now_ms)
                return True
        return False

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        with self._lock:
            stored = self._datums.get(key)
            if stored is None or not (absent or self.is_forgettable(key, now_ms)):
                return
            self._put(Datum(key, stored.version, removed_part(key, now_ms)), now_ms)
            del self._datums[key]
            self._removed_ms.pop(key, None)
        self._show(key, now_ms)

    def claim_all(self, keys: Collection[str], now_ms: int) -> list[str]:
        with self._lock:
            others = [one for one in self.datums(keys) if one.version.writer != self._writer]
            for one in others:
                self._put(Datum(one.key, one.version.next(self._writer), one.value), now_ms)
        return [one.key for one in others]


def removed_part(key: str, now_ms: int) -> ForeignPart:
    """Return the state of a key of which its link has nothing any more."""
    parsed = parse_foreign_key(key)
    return ForeignPart(parsed.link if parsed is not None else "", "", "", 0, {}, stated_ms=now_ms)


class ForeignCodec:
    """The DatumCodec of foreign instances.

    Shape: ``{"version", "statedAge": ms, "origin", "run", "digest": 16 hex digits, "arrival", "healthyMin", "weight",
    "staleAge": ms, "instances": [instance ...], "kept": [instance ...]}``; for nothing ``{"version", "statedAge",
    "removed": true}``. ``staleAge`` is missing while the link is heard.
    """

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        part: ForeignPart = datum.value
        fields: dict[str, Any] = {"version": datum.version.to_text(), "statedAge": max(now_ms - part.stated_ms, 0)}
        if part.is_empty:
            return orjson.dumps(fields | {"removed": True})
        fields |= {"origin": part.origin, "run": part.run, "digest": digest_text(part.digest)}
        fields |= {"arrival": part.rule.arrival.value, "healthyMin": part.rule.healthy_min, "weight": part.rule.weight}
        if part.stale_ms is not None:
            fields["staleAge"] = max(now_ms - part.stale_ms, 0)
        lists = [b",".join([encode_foreign(one) for one in held.values()]) for held in (part.instances, part.kept)]
        return orjson.dumps(fields)[:-1] + b',"instances":[%b],"kept":[%b]}' % tuple(lists)

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int, version: Version | None = None) -> Datum:
        """Return the datum of a JSON object.

        Raises:
            CodecError: names the field that is missing or wrong.
        """
        parsed = parse_foreign_key(key)
        if parsed is None:
            raise CodecError(f"not the key of foreign instances: {key[:200]!r}")
        link, namespace, full_name = parsed
        try:
            check_names(full_name, DEFAULT_CLUSTER, namespace)
        except InvalidParam as error:
            raise CodecError(error.text) from error
        version = version or Version.from_text(body.get("version"))
        fields = Fields(body, FROM_MEMBER, " of foreign instances")
        stated_ms = now_ms - fields.whole("statedAge", 0, 0, WALL_MS_END - 1)
        if fields.flag("removed", False):
            return Datum(key, version, removed_part(key, stated_ms))
        part = ForeignPart(
            link=link,
            origin=fields.required("origin", ORIGIN_CHARS_MAX),
            run=fields.text("run"),
            digest=parse_digest(body.get("digest"), "digest"),
            instances=decode_all(body.get("instances"), namespace, full_name, INSTANCES_MAX),
            kept=decode_all(body.get("kept"), namespace, full_name, INSTANCES_MAX),
            rule=_decode_rule(fields),
            stale_ms=now_ms - fields.whole("staleAge", None, 0, WALL_MS_END - 1) if fields.has("staleAge") else None,
            stated_ms=stated_ms,
        )
        return Datum(key, version, part)

    def checksum(self, datum: Datum) -> str:
        """Raise CodecError: real Nacos does not get foreign instances."""
        raise CodecError("foreign instances have no checksum of real Nacos")


def _decode_rule(fields: Fields) -> ArrivalRule:
    arrival, weight = fields.required("arrival"), fields.number("weight")
    if arrival not in {one.value for one in Arrival}:
        raise CodecError(f"field 'arrival' of foreign instances is unknown: {arrival[:80]!r}")
    if not 0 <= weight <= WEIGHT_MAX:
        raise CodecError(f"field 'weight' of foreign instances must be a number from 0 to {WEIGHT_MAX:g}")
    return ArrivalRule(Arrival(arrival), fields.whole("healthyMin", None, 0, INSTANCES_MAX), weight)


class ForeignAgent(DistroHttpAgent):
    """The DistroHttpAgent of foreign instances. A member of an earlier release lacks it."""

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | Mapping[str, Version] | None:
        """Return the snapshot of a peer; an empty one if its release does not know the type."""
        try:
            return super().load(peer, timeout_ms)
        except RejectedError:
            return []
