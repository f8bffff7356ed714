"""Projection: durable records turned into descriptions of services, persistent instances, overrides, switches, links.

Called for every record that changed, wherever it was written; the records themselves stay the only source.
"""

from collections.abc import Callable, Mapping

from app.naming.model.events import Event, ServiceChanged
from app.naming.model.meta import service_meta
from app.naming.model.switches import SwitchDomain, from_json
from app.naming.records.record import Record
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
from app.naming.records.record_values import instance_of, override_of
from app.naming.registry.override_table import set_override
from app.naming.registry.service_table import ServiceTable

STATUS_DELAY_MS = 1_000
"""Real Nacos reads the status every 5 s. With this delay, calls in progress when it is set still get their answer."""


class Projection:
    """Keeps services and switches in line with the records. Reads take no lock."""

    def __init__(
        self,
        table: ServiceTable,
        monotonic_ms: Callable[[], int],
        publish: Callable[[Event], None],
        on_users: Callable[[Record], None] = lambda _record: None,
    ) -> None:
        """``on_users``: called with each record of a user, role or permission, read or changed; under a lock."""
        self._table = table
        self._now_ms = monotonic_ms
        self._publish = publish
        self._on_users = on_users
        self.namespaces: set[str] = set()
        """The ids of the namespaces that were created."""
        self.links: Mapping[str, Mapping[str, str]] = {}
        """The fields of links that calls set, by link; another object after each change."""
        self.switches = SwitchDomain()
        """The switches in force: the record's, or those that ``override`` set only on this member."""
        self.limits_calls = False
        """True if they may refuse calls: by limited paths, or a status that is or was set. Read for each call."""
        self._status_before: str | None = None
        self._status_set_ms = monotonic_ms()

    @property
    def overridden_status(self) -> str | None:
        """Return the status set by an operator in place of the node's own.

        It counts from ``STATUS_DELAY_MS`` after it was set.
        """
        status = self.switches.overridden_server_status
        if status is self._status_before:
            return status
        waited_ms = self._now_ms() - self._status_set_ms
        return status if waited_ms >= STATUS_DELAY_MS else self._status_before

    def override(self, switches: SwitchDomain) -> None:
        """Set switches only on this member, until the record changes or the process ends."""
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
            case OverrideKey(namespace, name, key):
                override = None if record.value is None else override_of(record.value)
                set_override(self._table, namespace, name, key, override)
                self._publish(ServiceChanged(namespace, name))
            case SwitchesKey():
                self.override(from_json(record.value or {}, SwitchDomain()))
            case UserKey() | RoleKey() | PermissionKey():
                self._on_users(record)
            case LinkKey(link):
                others = {name: fields for name, fields in self.links.items() if name != link}
                self.links = others if record.value is None else {**others, link: record.value}
            case NamespaceKey(namespace):
                if record.value is None:
                    self.namespaces.discard(namespace)
                    self._table.created_namespaces.discard(namespace)
                else:
                    self.namespaces.add(namespace)
                    self._table.created_namespaces.add(namespace)
            case None:
                return
