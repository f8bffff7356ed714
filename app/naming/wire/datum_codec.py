"""The JSON of an instance-list datum: Nacos 1.4's fields, and ours beside them, which Nacos ignores.

Shape: ``{"key", "value": {"instanceList": [instance ...]}, "timestamp": 1, "version": text, "tombstones":
{instance key: {"version": text, "age": ms, "keep": ms}}}``; a tombstone of R15 carries ``"unknown": true``. Of
an instance our fields are ``"version"``, ``"said"`` (its client version) where that differs, ``"beatAge"`` (ms),
``"saidAge"`` (ms, of its client's last change) where that differs, and ``"heard": true`` when the sender knows the age
of the beat for certain. Times travel as ages, because the members' clocks differ.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import orjson

from app.naming.model.instance_check import check_instance
from app.naming.model.json_fields import member_object
from app.naming.model.keys import DEFAULT_CLUSTER, check_namespace, check_service_chars, parse_datum_key
from app.naming.model.model import (
    NEVER_MS,
    PRESERVED_ID_GENERATOR,
    Instance,
    Metadata,
    StoredInstance,
    Tombstone,
)
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import clamp_weight
from app.naming.wire.checksum import instance_list_checksum
from distro.errors import CodecError
from distro.types import NO_VERSION, Datum, Version

INSTANCE_KEY_CHARS_MAX = 1_024
"""More than the longest address and cluster make."""
AGE_MS_MAX = 10 * 365 * 86_400_000
KEEP_MS_DEFAULT = 90_000
ENTRIES_PER_PART = 100
_NOT_ASCII = re.compile("[^\x00-\x7f]+")


def instance_fields(one: Instance) -> dict[str, Any]:
    """An instance as Nacos 1.4 writes it in datums: null fields are left out. Source: captured PUT of a 1.4.1."""
    fields: dict[str, Any] = {}
    if one.instance_id is not None:
        fields["instanceId"] = one.instance_id
    fields.update(
        ip=one.ip,
        port=one.port,
        weight=one.weight,
        healthy=one.healthy,
        enabled=one.enabled,
        ephemeral=one.ephemeral,
        clusterName=one.cluster_name,
    )
    if one.service_name:
        fields["serviceName"] = one.service_name
    if one.metadata is not None:
        fields["metadata"] = one.metadata
    fields["marked"] = one.marked
    if one.app is not None:
        fields["app"] = one.app
    return fields


def derived_fields(one: Instance) -> dict[str, Any]:
    """The fields that Nacos computes from an instance's metadata and writes beside the others."""
    fields: dict[str, Any] = {
        "instanceHeartBeatInterval": one.beat_interval_ms,
        "instanceHeartBeatTimeOut": one.beat_timeout_ms,
        "ipDeleteTimeout": one.delete_timeout_ms,
    }
    if not one.metadata:
        fields["instanceIdGenerator"] = "simple"
    elif one.metadata.get(PRESERVED_ID_GENERATOR):
        fields["instanceIdGenerator"] = one.metadata[PRESERVED_ID_GENERATOR]
    return fields


def encode_stored(stored: StoredInstance, now_ms: int, wall_ms: int, versioned: bool) -> dict[str, Any]:
    """The fields of an instance in a datum, with its last beat; ``versioned`` adds our own fields."""
    age_ms = max(now_ms - stored.beat_ms, 0)
    fields = instance_fields(stored.instance)
    fields["lastBeat"] = wall_ms - age_ms
    if not versioned:
        fields.update(derived_fields(stored.instance))
        return fields
    fields["metadata"] = stored.instance.metadata  # null too, or members would list it differently
    fields["version"] = stored.version.to_text()
    if stored.client_version != stored.version:
        fields["said"] = stored.client_version.to_text()
    fields["beatAge"] = age_ms
    if stored.changed_ms != stored.beat_ms:
        fields["saidAge"] = min(max(now_ms - stored.changed_ms, 0), AGE_MS_MAX)
    if stored.last_confirmed_ms == stored.beat_ms:
        fields["heard"] = True
    return fields


class InstanceListCodec:
    """DatumCodec of instance lists. ``wall_ms`` dates ``lastBeat``, which is for show: members' clocks differ."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        """The datum's JSON.

        Unless ``versioned`` it is plain ASCII: some calls of real Nacos re-read it in the machine's charset.
        """
        return b"".join(self.encode_parts(datum, now_ms, versioned))

    def encode_parts(self, datum: Datum, now_ms: int, versioned: bool) -> Iterator[bytes]:
        """The datum's JSON in parts, each made in under a millisecond: one call for a big datum stops all threads."""
        value: InstanceList = datum.value
        wall_ms = self._wall_ms()
        yield b'{"key":' + _json(datum.key, versioned) + b',"value":{"instanceList":['
        stored_instances, comma = iter(value.stored.values()), b""
        while part := [
            encode_stored(stored, now_ms, wall_ms, versioned) for stored in islice(stored_instances, ENTRIES_PER_PART)
        ]:
            yield comma + _json(part, versioned)[1:-1]
            comma = b","
        yield b']},"timestamp":1'
        if versioned:
            yield b',"version":' + orjson.dumps(datum.version.to_text()) + b',"tombstones":{'
            tombstones, comma = iter(value.tombstones.items()), b""
            while gone := {
                key: _encode_tombstone(tombstone, now_ms) for key, tombstone in islice(tombstones, ENTRIES_PER_PART)
            }:
                yield comma + orjson.dumps(gone)[1:-1]
                comma = b","
            yield b"}"
        yield b"}"

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int) -> Datum:
        """The datum of a JSON object; its fields are checked one by one.

        Raises:
            CodecError: names the key's field that is wrong.
        """
        parsed = parse_datum_key(key)
        if parsed is None:
            raise CodecError(f"not an ephemeral instance list: {key[:200]!r}")
        with refused_as_datum():
            check_namespace(parsed[0])
            check_service_chars(parsed[1])
        if body.get("key", key) != key:
            raise CodecError(f"field 'key' differs from the key it stands under: {key[:200]!r}")
        value = body.get("value")
        listed = value.get("instanceList") if isinstance(value, dict) else None
        if not isinstance(listed, list):
            raise CodecError(f"field 'value.instanceList' of {key[:200]!r} is not a list")
        version = Version.from_text(body["version"]) if "version" in body else NO_VERSION
        stored: dict[str, StoredInstance] = {}
        for fields in listed:
            one = decode_stored(fields, *parsed, now_ms)
            stored[one.instance.key] = one
        tombstones = _decode_tombstones(body.get("tombstones"), now_ms)
        inner = [one.version for one in stored.values()] + [one.version for one in tombstones.values()]
        if max(inner, default=NO_VERSION) > version:
            raise CodecError(f"field 'version' of a part of {key[:200]!r} is above that of the whole")
        return Datum(key, version, InstanceList(stored, tombstones))

    def checksum(self, datum: Datum) -> str:
        """The checksum that Nacos 1.4 computes of the datum."""
        value: InstanceList = datum.value
        return instance_list_checksum([stored.instance for stored in value.stored.values()])


def _encode_tombstone(tombstone: Tombstone, now_ms: int) -> dict[str, Any]:
    age_ms = max(now_ms - tombstone.at_ms, 0)
    fields = {"version": tombstone.version.to_text(), "age": age_ms, "keep": tombstone.keep_ms}
    return fields | {"unknown": True} if tombstone.unknown else fields


def _json(value: object, versioned: bool) -> bytes:
    return orjson.dumps(value) if versioned else to_ascii(orjson.dumps(value))


def to_ascii(utf8: bytes) -> bytes:
    """JSON with every character that is not ASCII written as ``\\uXXXX``."""
    return utf8 if utf8.isascii() else _NOT_ASCII.sub(_escape, utf8.decode()).encode()


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2]):04x}" for i in range(0, len(units), 2))


@contextmanager
def refused_as_datum() -> Iterator[None]:
    """Raise what the checks of registrations refuse as CodecError: it came from a member."""
    try:
        yield
    except InvalidParam as error:
        raise CodecError(error.text) from error


def decode_stored(fields: Any, namespace: str, full_name: str, now_ms: int) -> StoredInstance:
    """An ephemeral instance of a service's datum; its fields are checked as those of a registration are.

    Raises:
        CodecError: names the field that is wrong.
    """
    read = member_object(fields, "an element of 'instanceList'", " of an instance")
    instance = Instance(
        ip=read.required("ip"),
        port=read.integer("port", 0),
        cluster_name=read.text("clusterName", DEFAULT_CLUSTER),
        service_name=read.text("serviceName"),
        weight=clamp_weight(read.number("weight", 1.0)),
        healthy=read.flag("healthy", True),
        enabled=read.flag("enabled", True),
        ephemeral=read.flag("ephemeral", True),
        marked=read.flag("marked", False),
        metadata=_metadata(fields),
        app=read.text_or_none("app"),
        instance_id=read.text_or_none("instanceId"),
    )
    if not instance.ephemeral:
        raise CodecError("field 'ephemeral' of an instance is false under the key of an ephemeral list")
    try:  # not ``refused_as_datum``, which would cost as much as the check
        check_instance(instance, namespace, full_name)
    except InvalidParam as error:
        raise CodecError(error.text) from error
    version = Version.from_text(fields["version"]) if "version" in fields else NO_VERSION
    client_version = Version.from_text(fields["said"]) if "said" in fields else version
    beat_ms = now_ms - min(max(read.integer("beatAge", 0), 0), AGE_MS_MAX)
    confirmed_ms = beat_ms if read.flag("heard", False) else NEVER_MS
    changed_ms = now_ms - min(max(read.integer("saidAge", now_ms - beat_ms), 0), AGE_MS_MAX)
    if version == NO_VERSION:
        changed_ms = NEVER_MS  # real Nacos tells no time
    return StoredInstance(instance, version, beat_ms, client_version, confirmed_ms, changed_ms)


def _decode_tombstones(tombstones: object, now_ms: int) -> dict[str, Tombstone]:
    if tombstones is None:
        return {}
    if not isinstance(tombstones, dict):
        raise CodecError("field 'tombstones' is not an object")
    decoded = {}
    for key, fields in tombstones.items():
        if len(key) > INSTANCE_KEY_CHARS_MAX or not key.isprintable():
            raise CodecError(f"a key of field 'tombstones' is that of no instance: {key[:200]!r}")
        one = member_object(fields, "an element of 'tombstones'")
        age_ms = min(max(one.integer("age", 0), 0), AGE_MS_MAX)
        keep_ms = min(max(one.integer("keep", KEEP_MS_DEFAULT), 0), AGE_MS_MAX)
        version, unknown = Version.from_text(fields.get("version")), one.flag("unknown", False)
        decoded[key] = Tombstone(version, now_ms - age_ms, keep_ms, unknown)
    return decoded


def _metadata(fields: Mapping[str, Any]) -> Metadata | None:
    """An instance's metadata: numbers and booleans become text, as in Java's reader; an explicit null becomes None."""
    value = fields.get("metadata", {})
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CodecError("field 'metadata' of an instance is not an object")
    if {str}.issuperset(map(type, value.values())):
        return value
    texts: dict[str, str | None] = {}
    for name, item in value.items():
        if isinstance(item, dict | list):
            raise CodecError(f"field 'metadata.{name[:200]}' of an instance is not a text")
        if item is None or isinstance(item, str):
            texts[name] = item
        else:
            texts[name] = orjson.dumps(item).decode()
    return texts
