"""The values of durable records, and the one check of a record's key and value.

``Records`` uses it before a write, ``RecordCodec`` for records from members, and ``RecordFile`` for those that a start
reads. A record that one of them accepts, all of them accept (R18).
"""

import re
from collections.abc import Mapping
from typing import Any

from app.naming.model.json_fields import FROM_RECORD, Fields
from app.naming.model.keys import (
    NO_METADATA,
    check_instance,
    check_instance_key,
    check_metadata_size,
    check_namespace,
    check_port,
    check_service_chars,
    is_namespace_id,
)
from app.naming.model.meta import metadata_of, service_meta
from app.naming.model.model import Instance, kept_id
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.override import Override
from app.naming.model.switches import SwitchDomain, from_json
from app.naming.records.record_keys import (
    LinkKey,
    NamespaceKey,
    OverrideKey,
    PermissionKey,
    PersistentKey,
    RoleKey,
    ServiceMetaKey,
    SwitchesKey,
    UserKey,
    parse_record_key,
)
from app.naming.records.user_records import check_users_record
from app.naming.registry.operations import clamp_weight

NAMESPACE_TEXT_CHARS_MAX = 65_536
LEVELS_MAX = 16
"""The most levels of objects and lists in a value: a description has four. Deep JSON can be read, but not written."""

LINK_NAME = re.compile(r"[0-9a-zA-Z-]{1,32}")
LINK_FIELDS_MAX, LINK_FIELD_CHARS_MAX, LINK_TEXT_CHARS_MAX = 32, 64, 8_192
LINK_FIELDS_OF_MEMBERS = frozenset({"password", "trusted"})
"""Fields that each member has in its file: a record is sent to all members, and written to dumps."""


def check_record(key: str, value: Mapping[str, Any] | None) -> None:
    """Refuse a record that a member could not store, send or apply, before it is stored.

    Raises:
        InvalidParam: the key is not that of a record, or the value does not fit its type.
    """
    if _is_deeper(value, LEVELS_MAX):
        raise InvalidParam(f"the value of a record should have at most {LEVELS_MAX} levels of objects and lists")
    match parse_record_key(key):
        case ServiceMetaKey(namespace, name):
            check_namespace(namespace)
            check_service_chars(name)
            if value is not None:
                meta = service_meta(value)
                check_metadata_size(meta.metadata)
                for cluster in meta.clusters.values():
                    check_port(cluster.check_port)
                    check_metadata_size(cluster.metadata)
        case PersistentKey(namespace, name, instance_key):
            check_namespace(namespace)
            check_service_chars(name)
            check_instance_key(instance_key)
            if value is not None:
                one = instance_of(value, name)
                check_instance(one, kept_id(one), namespace, name)
                if one.key != instance_key:
                    raise InvalidParam("the persistent instance does not match its key")
        case OverrideKey(namespace, name, instance_key):
            check_namespace(namespace)
            check_service_chars(name)
            check_instance_key(instance_key)
            if value is not None:
                check_metadata_size(override_of(value).metadata)
        case SwitchesKey():
            from_json(value or {}, SwitchDomain())
        case (UserKey() | RoleKey() | PermissionKey()) as users_key:
            check_users_record(users_key, value)
        case NamespaceKey(namespace):
            if not is_namespace_id(namespace):
                raise InvalidParam(f"the key of a namespace of no allowed id: {key[:200]!r}")
            if value is not None:
                fields = Fields(value, FROM_RECORD, " of a namespace")
                for name in ("name", "description"):
                    fields.required(name, NAMESPACE_TEXT_CHARS_MAX)
        case LinkKey(link):
            check_link_record(link, value)
        case None:
            raise InvalidParam(f"not the key of a durable record: {key[:200]!r}")


def check_link_record(link: str, value: Mapping[str, Any] | None) -> None:
    """Refuse the record of a link that no member could keep. The meaning of its fields is checked where it is read.

    A later release may have further fields.

    Raises:
        InvalidParam: the name is not allowed; or a field is too long, no text, or in ``LINK_FIELDS_OF_MEMBERS``.
    """
    if not LINK_NAME.fullmatch(link):
        raise InvalidParam("Parameter 'name' is illegal: the name of a link has up to 32 letters, digits and -")
    if value is None:
        return
    if len(value) > LINK_FIELDS_MAX:
        raise InvalidParam(f"a link should have at most {LINK_FIELDS_MAX} fields")
    for name, text in value.items():
        if not name.isprintable() or len(name) > LINK_FIELD_CHARS_MAX:
            raise InvalidParam(
                f"the name of a field of a link should be printable, at most {LINK_FIELD_CHARS_MAX} characters long"
            )
        if name in LINK_FIELDS_OF_MEMBERS:
            raise InvalidParam(
                f"field '{name}' of a link is not kept by calls: set rollcall.link.{link}.{name} in the file of each "
                "member"
            )
        if not isinstance(text, str) or not text.isprintable() or len(text) > LINK_TEXT_CHARS_MAX:
            raise InvalidParam(
                f"field '{name}' of a link should be a printable text of at most {LINK_TEXT_CHARS_MAX} characters"
            )


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether a value of JSON has too many levels of objects and lists, unknown fields included."""
    if not isinstance(value, Mapping | list):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner)


def without_secrets(key: str, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a record's checked value without the passwords of MYSQL checkers, which earlier releases kept.

    The same object if there are none.
    """
    if value is None or not isinstance(parse_record_key(key), ServiceMetaKey):
        return value
    clusters: Mapping[str, Any] = value.get("clusters", {})
    if not any(config["healthChecker"].get("pwd") for config in clusters.values()):
        return value
    cleaned = {
        name: {**config, "healthChecker": {**config["healthChecker"], "pwd": ""}} for name, config in clusters.items()
    }
    return {**value, "clusters": cleaned}


def value_of(instance: Instance) -> dict[str, Any]:
    """Return a persistent instance as its record's value."""
    return {
        "ip": instance.ip,
        "port": instance.port,
        "clusterName": instance.cluster_name,
        "weight": instance.weight,
        "healthy": instance.healthy,
        "enabled": instance.enabled,
        "marked": instance.marked,
        "metadata": instance.metadata,
        "app": instance.app,
        "instanceId": instance.instance_id,
    }


def instance_of(value: Mapping[str, Any], full_name: str) -> Instance:
    """Return the persistent instance of a record's value.

    Raises:
        InvalidParam: a field is missing or of another type; the text names it.
    """
    fields = Fields(value, FROM_RECORD, " of a persistent instance")
    return Instance(
        ip=fields.required("ip"),
        port=fields.integer("port"),
        cluster_name=fields.required("clusterName"),
        service_name=full_name,
        weight=clamp_weight(fields.number("weight", 1.0)),
        healthy=fields.flag("healthy", True),
        enabled=fields.flag("enabled", True),
        ephemeral=False,
        marked=fields.flag("marked", False),
        metadata=metadata_of(value["metadata"], " of a persistent instance") if fields.has("metadata") else None,
        app=fields.text_or_none("app"),
        instance_id=fields.text_or_none("instanceId"),
    )


def value_of_override(override: Override) -> dict[str, Any]:
    """Return an operator's change of an instance as its record's value: only the attributes that it sets."""
    told: dict[str, Any] = {"weight": override.weight, "enabled": override.enabled}
    if override.metadata:
        told["metadata"] = dict(override.metadata)
    return {name: one for name, one in told.items() if one is not None}


def override_of(value: Mapping[str, Any]) -> Override:
    """Return the operator's change of an instance of a record's value.

    Raises:
        InvalidParam: a field is of another type; the text names it.
    """
    fields = Fields(value, FROM_RECORD, " of an override")
    metadata = metadata_of(value["metadata"], " of an override") if fields.has("metadata") else NO_METADATA
    return Override(
        clamp_weight(fields.number("weight")) if fields.has("weight") else None,
        fields.flag("enabled") if fields.has("enabled") else None,
        metadata or NO_METADATA,
    )
