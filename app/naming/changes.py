"""One change of one instance, sent in the answer to a forwarded write to the member that forwarded it.

Shape: ``{"key": datum key, "id": instance key, "version": text, "instance": fields of a datum's instance}``. For
members that read the short form, ``"short"`` with the fields of a delta's instance replaces ``"instance"``. A removal
has ``"age"`` and ``"keep"`` (ms) instead, and ``"unknown"`` if no instance was known here. If the text would be too
long, it has none of these, and the member waits for the owner's own send. The text is ASCII and fits a header.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import orjson

from app.naming.model.events import Event, InstancesChanged, Origin
from app.naming.model.json_fields import Fields, member_object, parse_json
from app.naming.model.keys import DEFAULT_CLUSTER, WALL_MS_END, check_instance_key, check_names, parse_datum_key
from app.naming.model.model import Change, StoredInstance, Tombstone, is_later_word
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.service_table import ServiceTable
from app.naming.wire.datum_codec import (
    decode_short,
    decode_stored,
    encode_short,
    encode_stored,
    to_ascii,
    usual_short,
    usual_tombstone,
)
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, VERSION_NUMBER_MAX, Version

CHANGE_BYTES_MAX = 4_096
"""The longest text of a change, in bytes."""
_USUAL = frozenset({"key", "id", "version", "short", "age", "keep", "alone"})
_VERSION_ALONE = frozenset({"key", "id", "version"})
_PEER = Origin.PEER
"""Bound once: Python 3.11 needs ten times as long to look an enum member up in its class."""


class TakenChange:
    """A change that an owner reported, of the instance list with this datum ``key``."""

    __slots__ = ("_try", "key")

    def __init__(self, key: str, attempt: Callable[[], bool] | None) -> None:
        """``attempt`` applies the change, or returns False; None for a change that is known."""
        self.key = key
        self._try = attempt

    def is_known(self) -> bool:
        """Return whether the list here has the change. One that arrived too early is tried again, and fits later."""
        if self._try is not None and self._try():
            self._try = None
        return self._try is None


class Changes:
    """Encodes the changes of this member's lists, and applies changes that an owner encoded. Thread-safe."""

    def __init__(
        self,
        table: ServiceTable,
        replication: ListReplication,
        monotonic_ms: Callable[[], int],
        publish: Callable[[Event], None],
    ) -> None:
        self._table = table
        self._replication = replication
        self._now_ms = monotonic_ms
        self._publish = publish

    def change_of(
        self, namespace: str, full_name: str, instance_key: str, *, is_new: bool = True, short: bool = False
    ) -> bytes | None:
        """Return the last change of an instance in this member's list, as text; None for an unknown instance.

        Has only the version if the write made no change (``is_new`` False), or if the text would be too long.
        ``short``: for a member that reads the short form.
        """
        service = self._table.get(namespace, full_name)
        if service is None:
            return None
        now_ms = self._now_ms()
        stored, tombstone = service.stored.get(instance_key), service.tombstones.get(instance_key)
        last = stored if stored is not None else tombstone
        if last is None:
            return None
        fields: dict[str, object] = {"key": service.key, "id": instance_key, "version": last.version.to_text()}
        if not is_new:
            return _text(fields)
        if stored is not None and short:
            whole = {**fields, "short": encode_short(stored, full_name, now_ms)}
        elif stored is not None:
            whole = fields | {"instance": encode_stored(stored, now_ms, now_ms, versioned=True)}
        elif tombstone is not None:
            whole = fields | {"age": max(now_ms - tombstone.at_ms, 0), "keep": tombstone.keep_ms}
            if tombstone.unknown:
                whole["unknown"] = True
        if len(service.stored) + len(service.tombstones) == 1:
            whole["alone"] = True
        return _text(whole) or _text(fields)

    def take_change(self, change: bytes | dict[str, Any], sent_ms: int) -> "TakenChange":
        """Apply a change (R5) if it follows the version stored here. Return how to ask whether it is known here.

        ``change``: its text, or the object in it. ``sent_ms``: when it was sent, by our monotonic clock, from which the
        ages in it count.

        Raises:
            CodecError: the text cannot be read.
        """
        values = parse_json(change, "a change") if isinstance(change, bytes) else change
        if (known := self._known_version(values)) is not None:
            return TakenChange(known, None)
        read = self._usual(values, sent_ms)
        if read is None:
            key, version, fields = _fields(values)
            if self._is_past(key, version):
                return TakenChange(key, None)
            read = _decode(key, version, fields, sent_ms)
        # Nearly all follow the stored version.
        return TakenChange(read.key, None if self._apply(read) or self._try(read) else partial(self._try, read))

    def _known_version(self, values: object) -> str | None:
        """Return the key of a list of which only the version was sent, if that version is stored here."""
        if type(values) is not dict or values.keys() != _VERSION_ALONE or type(key := values["key"]) is not str:
            return None
        service = self._table.find(key)
        is_known = service is not None and service.version.writer and values["version"] == service.version.to_text()
        return key if is_known else None

    def _usual(self, values: object, sent_ms: int) -> Change | None:
        """Return the next change of a list that is held here: of an instance in the short form, or a removal.

        None for all others, and for malformed ones: those are then read, or refused by name, field by field.
        """
        if type(values) is not dict or not values.keys() <= _USUAL:
            return None
        key, instance_key, told = values.get("key"), values.get("id"), values.get("version")
        if not (type(key) is type(instance_key) is type(told) is str and type(values.get("alone", False)) is bool):
            return None
        service = self._table.find(key)
        if service is None or not (known := service.version).writer or known.counter >= VERSION_NUMBER_MAX:
            return None
        version = Version(known.epoch, known.counter + 1, known.writer)
        if told != version.to_text():
            return None
        if (short := values.get("short")) is None:
            tombstone = usual_tombstone(instance_key, values.get("age"), values.get("keep"), version, sent_ms)
            return None if tombstone is None else Change(key, instance_key, version, None, tombstone)
        stored = usual_short(short, service.full_name, version, sent_ms)
        if stored is None or stored.version is not version or stored.instance.key != instance_key:
            return None
        return Change(key, stored.instance.key, version, stored, None)

    def _is_past(self, key: str, version: Version) -> bool:
        """Return whether the list here is of this or a later version by the same writer, and so has the change."""
        service = self._table.find(key)
        return service is not None and service.version != NO_VERSION and service.version.has_had(version)

    def _is_held(self, change: Change) -> bool:
        """Return whether the list here, of another writer, has this change of the instance, or a later one.

        Its version alone does not show that: after a cut it may be above that of a list with changes that it lacks.
        """
        service = self._table.find(change.key)
        if service is None:
            return False
        stored, tombstone = service.stored.get(change.instance_key), service.tombstones.get(change.instance_key)
        told_ms = change.stored.changed_ms if change.stored else change.tombstone.at_ms if change.tombstone else None
        if stored is not None:
            held, held_ms = stored.client_version, stored.changed_ms
        elif tombstone is not None:
            held, held_ms = tombstone.version, tombstone.at_ms
        else:
            return False
        is_same = change.version == held or (stored is not None and change.version == stored.version)
        return is_same or is_later_word(held, held_ms, change.version, told_ms)

    def _try(self, change: Change) -> bool:
        """Return whether the list here has the change, after applying it if it fits."""
        return self._is_past(change.key, change.version) or self._is_held(change) or self._apply(change)

    def _apply(self, change: Change) -> bool:
        """Apply a change if it is the next one of the list here. Return whether it was applied."""
        if change.stored is None and change.tombstone is None:
            return False
        if not self._replication.take_change(change, self._now_ms()):
            return False
        self._publish(InstancesChanged(change.key, _PEER))
        return True


def _text(fields: Mapping[str, object]) -> bytes | None:
    """Return the text of a change; None if it would be too long."""
    # JSON need not escape DEL, but no header may contain it.
    text = to_ascii(orjson.dumps(fields)).replace(b"\x7f", b"\\u007f")
    return text if len(text) <= CHANGE_BYTES_MAX else None


def _fields(values: object) -> tuple[str, Version, Fields]:
    """Return the datum key, the version and all fields of a change."""
    fields = member_object(values, "a change", " of a change")
    return fields.required("key"), Version.from_text(fields.value("version")), fields


def _decode(key: str, version: Version, fields: Fields, sent_ms: int) -> Change:
    instance_key, instance, short = fields.required("id"), fields.value("instance"), fields.value("short")
    alone = fields.flag("alone", False)
    names = parse_datum_key(key)
    if names is None:
        raise CodecError(f"field 'key' of a change is not that of an ephemeral instance list: {key[:200]!r}")
    if instance is not None or short is not None:
        stored = (
            decode_stored(instance, *names, sent_ms) if short is None else _decode_short(short, names, version, sent_ms)
        )
        if stored.instance.key != instance_key or stored.version != version:
            raise CodecError("the instance of a change does not match its key")
        return Change(key, instance_key, version, stored, None, alone)
    try:
        check_names(names[1], DEFAULT_CLUSTER, names[0])
        check_instance_key(instance_key)
    except InvalidParam as error:
        raise CodecError(error.text) from error
    if not fields.has("age"):
        return Change(key, instance_key, version, None, None)
    age_ms, keep_ms = fields.whole("age", None, 0, WALL_MS_END), fields.whole("keep", None, 0, WALL_MS_END)
    tombstone = Tombstone(version, sent_ms - age_ms, keep_ms, fields.flag("unknown", False))
    return Change(key, instance_key, version, None, tombstone, alone)


def _decode_short(fields: object, names: tuple[str, str], version: Version, sent_ms: int) -> StoredInstance:
    namespace, full_name = names
    try:
        check_names(full_name, DEFAULT_CLUSTER, namespace)
    except InvalidParam as error:
        raise CodecError(error.text) from error
    return decode_short(fields, namespace, full_name, version, sent_ms)
