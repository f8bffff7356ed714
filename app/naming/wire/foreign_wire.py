"""The JSON of foreign instances, between linked clusters and between members, and digests of their content."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from app.naming.model.foreign import LINK, ORIGIN, STALE
from app.naming.model.json_fields import member_object
from app.naming.model.keys import DEFAULT_CLUSTER, INSTANCE_ID_CHARS_MAX, SIMPLE_ID, check_instance
from app.naming.model.model import Instance, kept_id
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import clamp_weight
from distro.model.errors import CodecError

DIGEST_BITS = 64
_MASK = (1 << DIGEST_BITS) - 1
_DIGEST = re.compile("[0-9a-f]{16}")
_LABELS = frozenset((ORIGIN, LINK, STALE))


class EncodedInstance(NamedTuple):
    """An instance as it leaves its cluster, its JSON, and the 64 bits that stand for it in a digest."""

    instance: Instance
    json: bytes
    hash: int


def encode_foreign(one: Instance) -> bytes:
    """Return the JSON of an instance, without fields that have their default values. Equal instances have equal JSON.

    Shape: ``{"ip", "port", "weight", "healthy", "enabled", "ephemeral", "clusterName", "metadata", "app",
    "instanceId"}``. Labels of links are left out.
    """
    fields: dict[str, Any] = {"ip": one.ip, "port": one.port}
    if one.weight != 1.0:
        fields["weight"] = float(one.weight)
    if not one.healthy:
        fields["healthy"] = False
    if not one.enabled:
        fields["enabled"] = False
    if not one.ephemeral:
        fields["ephemeral"] = False
    if one.cluster_name != DEFAULT_CLUSTER:
        fields["clusterName"] = one.cluster_name
    if one.metadata and (metadata := {k: v for k, v in one.metadata.items() if v is not None and k not in _LABELS}):
        fields["metadata"] = metadata
    if one.app:
        fields["app"] = one.app
    if (instance_id := kept_id(one)) and instance_id is not SIMPLE_ID:
        fields["instanceId"] = instance_id
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def encoded(one: Instance) -> EncodedInstance:
    """Return an instance with its JSON and hash."""
    made = encode_foreign(one)
    return EncodedInstance(one, made, int.from_bytes(hashlib.blake2b(made, digest_size=8).digest()))


def digest_of(hashes: Iterable[int]) -> int:
    """Return the digest of a service's instances, from their hashes in any order."""
    return sum(hashes) & _MASK


def digest_text(digest: int) -> str:
    """Return a digest as it travels: 16 hexadecimal digits."""
    return f"{digest:016x}"


def parse_digest(text: object, name: str) -> int:
    """Return the digest of its text.

    Raises:
        CodecError: names the field ``name``.
    """
    if not isinstance(text, str) or not _DIGEST.fullmatch(text):
        raise CodecError(f"field '{name}' must be a digest of 16 hexadecimal digits")
    return int(text, 16)


def decode_foreign(value: object, namespace: str, full_name: str) -> Instance:
    """Return an instance that another cluster, or a member, sent. Its fields are checked like a registration's.

    Raises:
        CodecError: names the field that is wrong.
    """
    fields = member_object(value, "an element of 'instances'", " of an instance")
    one = Instance(
        ip=fields.required("ip"),
        port=fields.integer("port", 0),
        cluster_name=fields.text("clusterName", DEFAULT_CLUSTER),
        service_name=full_name,
        weight=clamp_weight(fields.number("weight", 1.0)),
        healthy=fields.flag("healthy", True),
        enabled=fields.flag("enabled", True),
        ephemeral=fields.flag("ephemeral", True),
        metadata=dict[str, str | None](fields.texts("metadata")),
        app=fields.text_or_none("app"),
        instance_id=fields.text_or_none("instanceId", INSTANCE_ID_CHARS_MAX) or SIMPLE_ID,
    )
    try:
        check_instance(one, kept_id(one), namespace, full_name)
    except InvalidParam as error:
        raise CodecError(error.text) from error
    return one


def decode_all(values: object, namespace: str, full_name: str, count_max: int) -> dict[str, Instance]:
    """Return the instances of a list by their keys.

    Raises:
        CodecError: as ``decode_foreign``, or they are more than ``count_max``.
    """
    if not isinstance(values, list):
        raise CodecError("field 'instances' is not a list")
    if len(values) > count_max:
        raise CodecError(f"field 'instances' has {len(values)} elements, more than {count_max}")
    decoded = [decode_foreign(one, namespace, full_name) for one in values]
    return {one.key: one for one in decoded}
