"""The JSON of an instance-list datum: Nacos 1.4's fields, and Rollcall's additional ones, which Nacos ignores.

Shape: ``{"key", "value": {"instanceList": [instance ...]}, "timestamp": 1, "version": text, "tombstones": {instance
key: {"version": text, "age": ms, "keep": ms}}}``. A tombstone of R15 has ``"unknown": true``. Rollcall's fields of an
instance are ``"version"`` and ``"beatAge"`` (ms). ``"said"`` (its client version) and ``"saidAge"`` (ms, of its
client's last change) are added if they differ, and ``"heard": true`` if the sender knows the age of the beat for
certain. Times travel as ages, because the members' clocks differ.

A delta (R5) is ``{"since": counter of its base, "version", "changed": [instance ...], "tombstones"}``. The base has the
epoch and writer of its version. Its instances have only the counter as ``"version"``. They leave out: fields of Nacos
with default values, the service's name, an ``instanceId`` that follows from the rest, ``lastBeat``, and empty
``tombstones``. An instance without ``app`` or ``instanceId`` has null there.

A claim of another writer's state, as a delta (R5), is ``{"claimed": version of its base, "version", "digest": 16 hex
digits}``. The digest is that of the versions of its instances and removals.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

from app.naming.model.json_fields import Fields, member_object
from app.naming.model.keys import (
    APP_CHARS_MAX,
    DEFAULT_CLUSTER,
    INSTANCE_KEY_CHARS_MAX,
    METADATA_CHARS_MAX,
    PORT_MAX,
    SIMPLE_ID,
    check_instance,
    check_instance_key,
    check_names,
    is_four_numbers,
    parse_datum_key,
    simple_instance_id,
    surplus_bytes,
)
from app.naming.model.model import (
    NEVER_MS,
    PRESERVED_ID_GENERATOR,
    WEIGHT_MAX,
    Instance,
    Metadata,
    StoredInstance,
    Tombstone,
    kept_id,
)
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import clamp_weight
from app.naming.wire.checksum import instance_list_checksum
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Version

AGE_MS_MAX = 10 * 365 * 86_400_000
KEEP_MS_DEFAULT = 90_000
ENTRIES_PER_PART = 100
_USUAL_APP = "DEFAULT"
"""The application that a delta leaves out, besides the values that ``decode_stored`` reads for absent fields."""
_USUAL_SHORT = frozenset(
    ("app", "ip", "port", "weight", "healthy", "enabled", "metadata", "version", "beatAge", "saidAge", "heard")
)
"""The fields in a delta of an instance whose other fields have their default values."""
_USUAL_TOMBSTONE = frozenset(("version", "age", "keep"))
DIGEST_CHARS = 16
_DIGEST = re.compile(f"[0-9a-f]{{{DIGEST_CHARS}}}")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")


def instance_fields(one: Instance) -> dict[str, Any]:
    """Return an instance as Nacos 1.4 writes it in datums, without null fields. Source: captured PUT of a 1.4.1."""
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
    """Return the fields that Nacos computes from an instance's metadata and writes with the others."""
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
    """Return the fields of an instance in a datum, with its last beat. ``versioned`` adds our own fields."""
    age_ms = max(now_ms - stored.beat_ms, 0)
    fields = instance_fields(stored.instance)
    fields["lastBeat"] = wall_ms - age_ms
    if not versioned:
        fields.update(derived_fields(stored.instance))
        return fields
    fields["metadata"] = stored.instance.metadata  # null too, or members would list it differently
    fields["version"] = stored.version.to_text()
    _add_times(fields, stored, now_ms)
    return fields


def _add_times(fields: dict[str, Any], stored: StoredInstance, now_ms: int) -> None:
    """Add when the instance was last heard and changed, and its client version if that differs."""
    if stored.client_version != stored.version:
        fields["said"] = stored.client_version.to_text()
    fields["beatAge"] = max(now_ms - stored.beat_ms, 0)
    if stored.changed_ms != stored.beat_ms:
        fields["saidAge"] = min(max(now_ms - stored.changed_ms, 0), AGE_MS_MAX)
    if stored.last_confirmed_ms == stored.beat_ms:
        fields["heard"] = True


class InstanceListCodec:
    """The DatumCodec of instance lists. ``wall_ms`` dates ``lastBeat``, which is only shown: members' clocks differ."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        """Return the datum's JSON.

        Unless ``versioned`` it is plain ASCII: some calls of real Nacos read it in the machine's charset.
        """
        return b"".join(self.encode_parts(datum, now_ms, versioned))

    def encode_parts(self, datum: Datum, now_ms: int, versioned: bool) -> Iterator[bytes]:
        """Yield the datum's JSON in parts, each made in under a millisecond: one call would stop all threads."""
        value: InstanceList = datum.value
        wall_ms = self._wall_ms()
        if datum.base is not None:
            yield _encode_delta(datum, datum.base, now_ms)
            return
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

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int, version: Version | None = None) -> Datum:
        """Return the datum of a JSON object. Its fields are checked one by one.

        Raises:
            CodecError: names the key's field that is wrong.
        """
        parsed = parse_datum_key(key)
        if parsed is None:
            raise CodecError(f"not an ephemeral instance list: {key[:200]!r}")
        try:
            check_names(parsed[1], DEFAULT_CLUSTER, parsed[0])
        except InvalidParam as error:
            raise CodecError(error.text) from error
        if body.get("key", key) != key:
            raise CodecError(f"field 'key' differs from the key of the entry: {key[:200]!r}")
        if "since" in body:
            return _decode_delta(key, parsed, body, version or Version.from_text(body.get("version")), now_ms)
        if "claimed" in body:
            return _decode_claim(key, body, version or Version.from_text(body.get("version")))
        value = body.get("value")
        listed = value.get("instanceList") if isinstance(value, dict) else None
        if not isinstance(listed, list):
            raise CodecError(f"field 'value.instanceList' of {key[:200]!r} is not a list")
        version = version or (Version.from_text(body["version"]) if "version" in body else NO_VERSION)
        text, stored = body.get("version"), dict[str, StoredInstance]()
        for fields in listed:
            # The last change of a list is that of one of its instances, and nearly every list has a single one.
            is_last = text is not None and isinstance(fields, dict) and fields.get("version") == text
            one = _decode_at(fields, *parsed, version, now_ms) if is_last else decode_stored(fields, *parsed, now_ms)
            stored[one.instance.key] = one
        tombstones = _decode_tombstones(body.get("tombstones"), text, version, now_ms)
        inner = [one.version for one in stored.values()] + [one.version for one in tombstones.values()]
        if max(inner, default=NO_VERSION) > version:
            raise CodecError(f"field 'version' of a part of {key[:200]!r} is above that of the whole")
        return Datum(key, version, InstanceList(stored, tombstones))

    def checksum(self, datum: Datum) -> str:
        """Return the checksum that Nacos 1.4 computes of the datum."""
        value: InstanceList = datum.value
        return instance_list_checksum([stored.instance for stored in value.stored.values()])


def encode_short(stored: StoredInstance, full_name: str, now_ms: int) -> dict[str, Any]:
    """Return the fields of an instance in a delta, without those that have their default values."""
    one, fields = stored.instance, dict[str, Any]()
    if one.app != _USUAL_APP:
        fields["app"] = one.app
    # Its simple id has its own service's name, which is nearly always this one.
    if kept_id(one) is not SIMPLE_ID or one.service_name != full_name:
        instance_id = one.instance_id
        if instance_id != simple_instance_id(one.ip, one.port, one.cluster_name, full_name):
            fields["instanceId"] = instance_id
    fields["ip"], fields["port"] = one.ip, one.port
    if one.weight != 1.0:
        fields["weight"] = one.weight
    if not one.healthy:
        fields["healthy"] = False
    if not one.enabled:
        fields["enabled"] = False
    if not one.ephemeral:
        fields["ephemeral"] = False
    if one.cluster_name != DEFAULT_CLUSTER:
        fields["clusterName"] = one.cluster_name
    if one.service_name and one.service_name != full_name:
        fields["serviceName"] = one.service_name
    fields["metadata"] = one.metadata
    if one.marked:
        fields["marked"] = True
    fields["version"] = stored.version.counter
    _add_times(fields, stored, now_ms)
    return fields


def decode_short(fields: Any, namespace: str, full_name: str, of: Version, now_ms: int) -> StoredInstance:
    """Return an instance in a delta of the version ``of``, for callers that checked the names of service and cluster.

    Raises:
        CodecError: names the field that is wrong.
    """
    if (usual := usual_short(fields, full_name, of, now_ms)) is not None:
        return usual
    if not isinstance(fields, dict) or type(counter := fields.get("version")) is not int:
        raise CodecError("an element of 'changed' must be an instance with the counter of a version")
    whole = {"serviceName": full_name, "app": _USUAL_APP, **fields}
    if "instanceId" not in whole:
        # The fields may have any type: wrong ones are found when the instance is read.
        ip, port, cluster = whole.get("ip", ""), whole.get("port", 0), whole.get("clusterName", DEFAULT_CLUSTER)
        whole["instanceId"] = simple_instance_id(ip, port, cluster, full_name)
    return _decode_at(whole, namespace, full_name, Version(of.epoch, counter, of.writer), now_ms)


def usual_short(fields: Any, full_name: str, of: Version, now_ms: int) -> StoredInstance | None:
    """As ``decode_short``, for an instance of the default cluster, as nearly all are: at a third of the cost.

    None for all others, which are then read, or refused by name, field by field.
    """
    if type(fields) is not dict or not fields.keys() <= _USUAL_SHORT:
        return None
    get: Callable[..., Any] = fields.get
    ip, port, app, metadata, counter = get("ip"), get("port"), get("app", _USUAL_APP), get("metadata"), get("version")
    beat_age, said_age, heard = get("beatAge"), get("saidAge"), get("heard", False)
    weight, healthy, enabled = get("weight", 1.0), get("healthy", True), get("enabled", True)
    try:
        texts = "".join([*metadata, *metadata.values()])
    except (AttributeError, TypeError):  # it is no object of texts
        return None
    if not (
        type(ip) is type(app) is str
        and type(port) is type(counter) is type(beat_age) is int
        and type(weight) is float
        and 0.0 <= weight <= WEIGHT_MAX
        and type(healthy) is type(enabled) is type(heard) is bool
        and 0 <= port <= PORT_MAX
        and 0 <= beat_age <= AGE_MS_MAX
        and (said_age is None or (type(said_age) is int and 0 <= said_age <= AGE_MS_MAX))
        and len(app) <= APP_CHARS_MAX
        and app.isprintable()
        and is_four_numbers(ip)
        and len(texts) <= METADATA_CHARS_MAX
    ):
        return None
    if weight != 1.0:
        weight = clamp_weight(weight)
    instance = Instance(
        ip, port, DEFAULT_CLUSTER, full_name, weight, healthy, enabled, True, False, metadata, app, SIMPLE_ID
    )  # fmt: skip
    version, beat_ms = of if counter == of.counter else Version(of.epoch, counter, of.writer), now_ms - beat_age
    changed_ms = beat_ms if said_age is None else now_ms - said_age
    size = len(texts) if texts.isascii() else len(texts.encode("utf-8", "surrogatepass"))
    size += surplus_bytes(size, metadata, ip, DEFAULT_CLUSTER, app)
    return StoredInstance(instance, version, beat_ms, version, beat_ms if heard else NEVER_MS, changed_ms, size)


def _encode_delta(datum: Datum, base: Version, now_ms: int) -> bytes:
    if datum.is_claim:
        digest = f"{datum.value:0{DIGEST_CHARS}x}"
        return orjson.dumps({"claimed": base.to_text(), "version": datum.version.to_text(), "digest": digest})
    value: InstanceList = datum.value
    names = parse_datum_key(datum.key)
    changed = [encode_short(one, names[1] if names is not None else "", now_ms) for one in value.stored.values()]
    fields: dict[str, Any] = {"since": base.counter, "version": datum.version.to_text(), "changed": changed}
    if value.tombstones:
        fields["tombstones"] = {key: _encode_tombstone(one, now_ms) for key, one in value.tombstones.items()}
    return orjson.dumps(fields)


def _decode_delta(key: str, names: tuple[str, str], body: Mapping[str, Any], version: Version, now_ms: int) -> Datum:
    since, changed = body["since"], body.get("changed")
    if type(since) is not int or not 0 <= since < version.counter:
        raise CodecError(f"field 'since' of {key[:200]!r} must be a version before that of the delta")
    if not isinstance(changed, list):
        raise CodecError(f"field 'changed' of {key[:200]!r} is not a list")
    base = Version(version.epoch, since, version.writer)
    stored: dict[str, StoredInstance] = {}
    for fields in changed:
        one = decode_short(fields, *names, version, now_ms)
        if one.version is not version:
            _check_part(one.version, key, since, version)
        stored[one.instance.key] = one
    tombstones = _decode_tombstones(body.get("tombstones"), body.get("version"), version, now_ms)
    for name, tombstone in tombstones.items():
        if name in stored:
            raise CodecError(f"an instance of {key[:200]!r} is both changed and removed")
        if tombstone.version is not version:
            _check_part(tombstone.version, key, since, version)
    return Datum(key, version, InstanceList(stored, tombstones), base)


def _check_part(part: Version, key: str, since: int, version: Version) -> None:
    is_of_row = part.epoch == version.epoch and part.writer == version.writer
    if not is_of_row or not since < part.counter <= version.counter:
        raise CodecError(f"field 'version' of a part of {key[:200]!r} is not between those of the delta")


def _decode_claim(key: str, body: Mapping[str, Any], version: Version) -> Datum:
    base = Version.from_text(body["claimed"])
    if base == NO_VERSION or base.writer == version.writer or base.next(version.writer) != version:
        raise CodecError(f"field 'claimed' of {key[:200]!r} must be the version that this one claims")
    digest = body.get("digest")
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise CodecError(f"field 'digest' of {key[:200]!r} is not {DIGEST_CHARS} hexadecimal digits")
    return Datum(key, version, int(digest, 16), base)


def _encode_tombstone(tombstone: Tombstone, now_ms: int) -> dict[str, Any]:
    age_ms = max(now_ms - tombstone.at_ms, 0)
    fields = {"version": tombstone.version.to_text(), "age": age_ms, "keep": tombstone.keep_ms}
    return fields | {"unknown": True} if tombstone.unknown else fields


def _json(value: object, versioned: bool) -> bytes:
    return orjson.dumps(value) if versioned else to_ascii(orjson.dumps(value))


def to_ascii(utf8: bytes) -> bytes:
    """Return JSON with every character that is not ASCII written as ``\\uXXXX``."""
    return utf8 if utf8.isascii() else _NOT_ASCII.sub(_escape, utf8.decode()).encode()


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2]):04x}" for i in range(0, len(units), 2))


def decode_stored(fields: Any, namespace: str, full_name: str, now_ms: int) -> StoredInstance:
    """Return an ephemeral instance of a service's datum. Its fields are checked like those of a registration.

    Raises:
        CodecError: names the field that is wrong.
    """
    named = isinstance(fields, dict) and "version" in fields
    version = Version.from_text(fields["version"]) if named else NO_VERSION
    return _decode_at(fields, namespace, full_name, version, now_ms)


def _decode_at(fields: Any, namespace: str, full_name: str, version: Version, now_ms: int) -> StoredInstance:
    """As ``decode_stored``, for an instance of this version."""
    instance = _hot_instance(fields) if type(fields) is dict else None
    if instance is None:
        instance = _read_instance(_fields_of(fields), fields)
    if not instance.ephemeral:
        raise CodecError("field 'ephemeral' of an instance is false under the key of an ephemeral list")
    try:
        check_instance(instance, kept_id(instance), namespace, full_name)
    except InvalidParam as error:
        raise CodecError(error.text) from error
    client_version = Version.from_text(fields["said"]) if "said" in fields else version
    if client_version > version:
        raise CodecError("field 'said' of an instance is above its 'version'")
    beat_age_ms, said_age_ms, heard = fields.get("beatAge", 0), fields.get("saidAge", 0), fields.get("heard", False)
    if not (type(beat_age_ms) is type(said_age_ms) is int and type(heard) is bool):
        read = _fields_of(fields)  # refuses the one that is of another type
        read.integer("beatAge", 0)
        read.flag("heard", False)
        read.integer("saidAge", 0)
    beat_ms = now_ms - min(max(beat_age_ms, 0), AGE_MS_MAX)
    confirmed_ms = beat_ms if heard else NEVER_MS
    changed_ms = now_ms - min(max(said_age_ms, 0), AGE_MS_MAX) if "saidAge" in fields else beat_ms
    if version == NO_VERSION:
        changed_ms = NEVER_MS  # real Nacos sends no time
    return StoredInstance(instance, version, beat_ms, client_version, confirmed_ms, changed_ms)


def _fields_of(fields: object) -> Fields:
    return member_object(fields, "an element of 'instanceList'", " of an instance")


def _hot_instance(fields: Mapping[str, Any]) -> Instance | None:
    """Return the instance in fields that all have the expected types, as nearly all have: at a third of the cost.

    None for all others, which ``_read_instance`` reads, or refuses by name.
    """
    get = fields.get
    ip: Any
    ip, port, cluster, name = get("ip"), get("port", 0), get("clusterName", DEFAULT_CLUSTER), get("serviceName", "")
    weight, app, instance_id = get("weight", 1.0), get("app"), get("instanceId")
    healthy, enabled, marked = get("healthy", True), get("enabled", True), get("marked", False)
    is_usual = (
        type(ip) is type(cluster) is type(name) is str
        and cluster
        and type(port) is int
        and type(weight) is float
        and 0.0 <= weight <= WEIGHT_MAX
        and type(healthy) is type(enabled) is type(marked) is bool
        and get("ephemeral", True) is True
        and (app is None or type(app) is str)
        and (instance_id is None or type(instance_id) is str)
    )
    if not is_usual:
        return None
    if weight != 1.0:
        weight = clamp_weight(weight)
    metadata = _metadata(fields)
    return Instance(ip, port, cluster, name, weight, healthy, enabled, True, marked, metadata, app, instance_id)


def _read_instance(read: Fields, fields: Mapping[str, Any]) -> Instance:
    """Return the instance in the fields that are read."""
    return Instance(
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


def _decode_tombstones(tombstones: object, text: object, version: Version, now_ms: int) -> dict[str, Tombstone]:
    """Return the removals of a datum. ``text``: what was read as its ``version``, which the last of them has, too."""
    if tombstones is None:
        return {}
    if not isinstance(tombstones, dict):
        raise CodecError("field 'tombstones' is not an object")
    decoded = {}
    for key, fields in tombstones.items():
        one = None
        if type(fields) is dict and fields.keys() <= _USUAL_TOMBSTONE:
            told = fields.get("version")
            of = version if text is not None and told == text else version.beside(told)
            one = usual_tombstone(key, fields.get("age"), fields.get("keep"), of, now_ms)
        decoded[key] = one or _read_tombstone(key, fields, now_ms)
    return decoded


def usual_tombstone(key: str, age_ms: Any, keep_ms: Any, of: Version, now_ms: int) -> Tombstone | None:
    """Return a removal of the version ``of``; None for values that are not as usual, which may be wrong."""
    if not (
        type(age_ms) is type(keep_ms) is int
        and 0 <= age_ms <= AGE_MS_MAX
        and 0 <= keep_ms <= AGE_MS_MAX
        and key.isprintable()
        and len(key) <= INSTANCE_KEY_CHARS_MAX
    ):
        return None
    return Tombstone(of, now_ms - age_ms, keep_ms)


def _read_tombstone(key: str, fields: object, now_ms: int) -> Tombstone:
    try:
        check_instance_key(key)
    except InvalidParam as error:
        raise CodecError(f"a key of field 'tombstones' is not the key of an instance: {key[:200]!r}") from error
    one = member_object(fields, "an element of 'tombstones'")
    age_ms = min(max(one.integer("age", 0), 0), AGE_MS_MAX)
    keep_ms = min(max(one.integer("keep", KEEP_MS_DEFAULT), 0), AGE_MS_MAX)
    version, unknown = Version.from_text(one.value("version")), one.flag("unknown", False)
    return Tombstone(version, now_ms - age_ms, keep_ms, unknown)


def _metadata(fields: Mapping[str, Any]) -> Metadata | None:
    """Return an instance's metadata. Numbers and booleans become text, as in Java's reader; an explicit null, None."""
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
