"""Projection: durable records turned into services' descriptions, persistent instances and switches.

Called for every record that changed, wherever it was written; the records themselves stay the only source.
"""

from collections.abc import Callable, Mapping
from typing import Any

from app.naming.model.events import Event, ServiceChanged
from app.naming.model.instance_check import check_instance, check_metadata_size, check_port
from app.naming.model.json_fields import FROM_RECORD, Fields
from app.naming.model.keys import check_namespace, check_service_chars, is_namespace_id
from app.naming.model.meta import metadata_of, service_meta
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.switches import SwitchDomain, from_json
from app.naming.records.record_keys import (
    NamespaceKey,
    PermissionKey,
    PersistentKey,
    RoleKey,
    ServiceMetaKey,
    SwitchesKey,
    UserKey,
    parse_record_key,
)
from app.naming.records.records import Record
from app.naming.records.user_records import check_users_record
from app.naming.registry.operations import clamp_weight
from app.naming.registry.registry import Registry

NAMESPACE_TEXT_CHARS_MAX = 65_536
STATUS_DELAY_MS = 1_000
"""Real Nacos reads the status every 5 s, so that calls under way when it is set still get their answer."""


class Projection:
    """Keeps services and switches in line with the records. Reads take no lock."""

    def __init__(self, registry: Registry, monotonic_ms: Callable[[], int], publish: Callable[[Event], None]) -> None:
        self._table = registry.table
        self._now_ms = monotonic_ms
        self._publish = publish
        self.on_users: Callable[[Record], None] = lambda _record: None
        """Called with each record of a user, role or permission that was read, written or removed; under a lock."""
        self.namespaces: set[str] = set()
        """The ids of the namespaces that were created."""
        self.switches = SwitchDomain()
        """The switches in force: the record's, or those that ``override`` set on this member alone."""
        self.limits_calls = False
        """Whether they may have calls refused: by limited paths, or a status that is or was set. Each call asks."""
        self._status_before: str | None = None
        self._status_set_ms = monotonic_ms()

    @property
    def overridden_status(self) -> str | None:
        """The status set by an operator in place of the node's own; it counts ``STATUS_DELAY_MS`` after it was set."""
        status = self.switches.overridden_server_status
        if status is self._status_before:
            return status
        waited_ms = self._now_ms() - self._status_set_ms
        return status if waited_ms >= STATUS_DELAY_MS else self._status_before

    def override(self, switches: SwitchDomain) -> None:
        """Set switches on this member only, until the record changes or the process ends."""
        if switches.overridden_server_status != self.switches.overridden_server_status:
            self._status_before, self._status_set_ms = self.overridden_status, self._now_ms()
        self.switches = switches
        self.limits_calls = bool(switches.limited_url_map or switches.overridden_server_status or self._status_before)

    def on_record(self, record: Record) -> None:
        """Apply a record that was read, written or removed. Its value was checked before it was stored."""
        match parse_record_key(record.key):
            case ServiceMetaKey(namespace, name):
                meta = None if record.value is None else service_meta(record.value)
                self._table.set_meta(namespace, name, meta, self._now_ms())
                self._publish(ServiceChanged(namespace, name))
            case PersistentKey(namespace, name, key):
                instance = None if record.value is None else instance_of(record.value, name)
                self._table.set_persistent(namespace, name, key, instance, self._now_ms())
                self._publish(ServiceChanged(namespace, name))
            case SwitchesKey():
                self.override(from_json(record.value or {}, SwitchDomain()))
            case UserKey() | RoleKey() | PermissionKey():
                self.on_users(record)
            case NamespaceKey(namespace):
                if record.value is None:
                    self.namespaces.discard(namespace)
                else:
                    self.namespaces.add(namespace)
            case None:
                return


def check_record(key: str, value: Mapping[str, Any] | None) -> None:
    """Refuse a record that ``on_record`` could not apply, before it is stored.

    Raises:
        InvalidParam: the key is of no kind of record, or the value does not fit its kind.
    """
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
            if value is not None:
                one = instance_of(value, name)
                check_instance(one, namespace, name)
                if one.key != instance_key:
                    raise InvalidParam("the persistent instance is another than its key names")
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
        case None:
            raise InvalidParam(f"not the key of a durable record: {key[:200]!r}")


def without_secrets(key: str, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A record's checked value without the passwords of MYSQL checkers, which members of earlier releases kept.

    The same object when there are none.
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
    """A persistent instance as its record's value."""
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
    """The persistent instance of a record's value.

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
