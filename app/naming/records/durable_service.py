"""DurableService: the operations on durable records. Each is on disk before it returns."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from app.naming.model import keys
from app.naming.model.events import Event, InstancesChanged, Origin, RecordChanged
from app.naming.model.keys import Metadata, check_address
from app.naming.model.meta import NO_META, ClusterConfig, Selector, ServiceMeta, service_meta
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam, NotFound
from app.naming.model.switches import ENTRIES, SwitchDomain, from_json, update
from app.naming.records.durable_admission import DurableAdmission
from app.naming.records.link_records import LinkRecords
from app.naming.records.override_service import OverrideService
from app.naming.records.projection import Projection
from app.naming.records.record import Record, Value
from app.naming.records.record_keys import (
    NAMESPACE_PREFIX,
    OF_NO_SERVICE,
    SWITCHES_KEY,
    namespace_key,
    persistent_key,
    service_meta_key,
)
from app.naming.records.record_values import instance_of, value_of
from app.naming.records.records import Records
from app.naming.registry import operations
from app.naming.registry.local_writes import LocalWrites
from app.naming.registry.operations import Shared
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import view_of
from distro.model.types import Version

NAMESPACE_TEXT_CHARS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace that was created. The public one always exists, and has no record."""

    id: str
    name: str
    description: str


class DurableService:
    """Service descriptions, persistent instances, namespaces, switches. Thread-safe.

    Raises (every change): InvalidParam, when no member could keep it (R18); StorageError, when the write to the disk
    failed; LimitReached or TooManyRequests, as ``ServiceTable.admit``. Then nothing changed.
    """

    def __init__(
        self,
        records: Records,
        projection: Projection,
        table: ServiceTable,
        writes: LocalWrites,
        monotonic_ms: Callable[[], int],
        publish: Callable[[Event], None],
    ) -> None:
        self._records = records
        self.projection = projection
        """Shows whether calls may be refused; read for each call."""
        self._table, self._writes = table, writes
        self._now_ms, self._publish = monotonic_ms, publish
        self._shared = Shared()
        self._admission = DurableAdmission(table)
        self.overrides = OverrideService(records, table, self._admission, self._put_all)
        self.links = LinkRecords(projection, self._put_all)

    @property
    def switches(self) -> SwitchDomain:
        """Return the switches in force on this member."""
        return self.projection.switches

    @property
    def overridden_status(self) -> str | None:
        """Return the status set by an operator in place of this member's own; empty or None for none."""
        return self.projection.overridden_status

    # --- services -------------------------------------------------------------------------------

    def create_service(self, namespace: str, service: str, meta: ServiceMeta) -> None:
        """Create a service without instances.

        Raises:
            InvalidParam: the name is not allowed, or the service exists.
        """
        keys.check_service_chars(service)
        keys.check_namespace(namespace)
        found = self._table.get(namespace, service)
        taken = InvalidParam(f"specified service already exists, serviceName : {service}")
        if found is not None and not found.hidden:
            raise taken

        def change(old: Value | None) -> Value:
            if old is not None:
                raise taken  # by a concurrent call
            return self._admission.description(namespace, service, None, meta).to_json()

        self._put(service_meta_key(namespace, service), change)

    def update_service(
        self, namespace: str, service: str, protect_threshold: float, metadata: Metadata, selector: Selector
    ) -> None:
        """Replace a service's description. Its clusters' settings stay.

        Raises:
            InvalidParam: the service does not exist.
        """
        self._check_known(namespace, service, f"service {service} not found!")

        def change(old: Value | None) -> Value:
            meta = service_meta(old) if old else NO_META
            described = replace(meta, protect_threshold=protect_threshold, metadata=metadata, selector=selector)
            return self._admission.description(namespace, service, meta, described).to_json()

        self._put(service_meta_key(namespace, service), change)

    def remove_service(self, namespace: str, service: str) -> None:
        """Remove a service with all its instances.

        Raises:
            InvalidParam: the service does not exist.
        """
        self._check_known(namespace, service, f"specified service not exist, serviceName : {service}")
        # A removal is written even without a description, so that the peers learn that the service was removed.
        self._put_all(dict.fromkeys(reversed(self.keys_of_service(namespace, service)), lambda _old: None), force=True)
        if emptied := self._writes.empty(namespace, service, self._now_ms()):
            self._publish(InstancesChanged(emptied, Origin.LOCAL))

    def keys_of_service(self, namespace: str, service: str) -> tuple[str, ...]:
        """Return the keys of a service's records: first its description's, then those of instances, and overrides."""
        found = self._table.get(namespace, service)
        instances = [persistent_key(namespace, service, key) for key in (found.persistent.copy() if found else ())]
        overrides = self.overrides.keys_of_service(namespace, service)
        return (service_meta_key(namespace, service), *instances, *overrides)

    def update_cluster(self, namespace: str, service: str, cluster: str, config: ClusterConfig) -> None:
        """Set the settings of a cluster. A missing cluster is created.

        Raises:
            InvalidParam: the service does not exist, or the cluster's name is not allowed.
        """
        self._check_known(namespace, service, f"service not found:{service}")
        keys.check_cluster_chars(cluster)

        def change(old: Value | None) -> Value:
            meta = service_meta(old) if old else NO_META
            return self._admission.description(namespace, service, meta, meta.with_cluster(cluster, config)).to_json()

        self._put(service_meta_key(namespace, service), change)

    def _check_known(self, namespace: str, service: str, text: str) -> None:
        found = self._table.get(namespace, service)
        if found is None or found.hidden:
            raise InvalidParam(text)

    # --- persistent instances -------------------------------------------------------------------

    def register(self, command: operations.RegisterInstance) -> None:
        """Register a persistent instance, or replace it. A missing service is created with it.

        Raises:
            InvalidParam: a name, the cluster or the weight is not allowed.
        """
        operations.check_weight(command.weight)

        def change(old: Value | None) -> Value:
            known = instance_of(old, command.service) if old else None
            ids = self._ids(command.namespace, command.service)
            return value_of(operations.register(known, command, ids, self._shared))

        self._put_instance(command, change)

    def update(self, command: operations.RegisterInstance, strict: bool) -> None:
        """Replace a persistent instance. ``strict`` refuses to create it.

        Raises:
            InvalidParam: as ``register``, or strict and the instance does not exist.
        """
        if strict:
            operations.check_weight(command.weight)
            found = self._table.get(command.namespace, command.service)
            known = None if found is None or found.hidden else list(found.persistent.copy().values())
            operations.check_known(known, command)
        self.register(command)

    def register_from_beat(self, command: operations.Beat) -> None:
        """Register the persistent instance that a full beat describes, unless it exists by now.

        Raises:
            InvalidParam: a name or the cluster is not allowed.
        """

        def change(old: Value | None) -> Value:
            if old is not None:
                return old
            ids = self._ids(command.namespace, command.service)
            return value_of(operations.instance_from_beat(command, ids, self._shared))

        self._put_instance(command, change)

    def _put_instance(
        self, command: operations.RegisterInstance | operations.Beat, change: Callable[[Value | None], Value]
    ) -> None:
        keys.check_names(command.service, command.cluster, command.namespace)
        key = persistent_key(command.namespace, command.service, operations.key_of(command))
        meta_key = service_meta_key(command.namespace, command.service)

        def admitted(old: Value | None) -> Value:
            return self._admission.instance(command.namespace, command.service, old, change(old))

        self._put_all({meta_key: lambda old: old or NO_META.to_json(), key: admitted}, said=[key])

    def _ids(self, namespace: str, service: str) -> list[str | None]:
        found = self._table.get(namespace, service)
        return [one.instance_id for one in view_of(found).instances] if found else []

    def deregister(self, command: operations.DeregisterInstance) -> None:
        """Remove a persistent instance. Removing an unknown one succeeds, and leaves a tombstone."""
        check_address(command.namespace, command.service, command.cluster, command.ip, command.port)
        key = persistent_key(command.namespace, command.service, operations.key_of(command))
        self._put_all({key: lambda _old: None}, said=[key])

    def patch(self, command: operations.PatchInstance) -> bool:
        """Change attributes of a persistent instance. Return False if it does not exist.

        Raises:
            InvalidParam: the weight is out of range.
        """
        return self._change(
            command.namespace,
            command.service,
            [operations.key_of(command)],
            lambda instance: operations.patch(instance, command),
        )

    def set_health(self, namespace: str, service: str, key: str, healthy: bool, *, by_check: bool = False) -> bool:
        """Set a persistent instance's health, by hand or ``by_check``. Return False if it does not exist."""
        change = partial(replace, healthy=healthy)
        return self._change(namespace, service, [key], change, by_check=by_check)

    def set_metadata(
        self, namespace: str, service: str, instance_keys: Iterable[str], change: operations.ChangeMetadata
    ) -> None:
        """Change metadata keys of persistent instances, all in one step. Unknown instances are ignored."""
        self._change(namespace, service, instance_keys, lambda instance: operations.change_metadata(instance, change))

    def set_at_ms(self, namespace: str, service: str, instance_key: str) -> int | None:
        """Return when a persistent instance was last changed, by the changing member's clock; None if unknown."""
        return self._records.changed_wall_ms(persistent_key(namespace, service, instance_key))

    def version_of(self, namespace: str, instance: Instance) -> Version | None:
        """Return the version at which a persistent instance got these attributes; None if it has others by now."""
        key = persistent_key(namespace, instance.service_name, instance.key)
        for datum in self._records.datums([key]):
            record: Record = datum.value
            if record.value is not None and instance_of(record.value, instance.service_name) == instance:
                return record.changed
        return None

    def _change(
        self,
        namespace: str,
        service: str,
        instance_keys: Iterable[str],
        change: Callable[[Instance], Instance],
        *,
        by_check: bool = False,
    ) -> bool:
        """Change persistent instances, all in one step. Return False if none of them exists."""
        found = False

        def apply(old: Value | None) -> Value | None:
            nonlocal found
            if old is None:
                return None
            found = True
            changed = value_of(change(instance_of(old, service)))
            return self._admission.instance(namespace, service, old, changed)

        self._put_all({persistent_key(namespace, service, key): apply for key in instance_keys}, by_check=by_check)
        return found

    # --- namespaces -----------------------------------------------------------------------------

    def namespaces(self) -> list[Namespace]:
        """Return all namespaces that were created, sorted by id."""
        return [
            Namespace(record.key.removeprefix(NAMESPACE_PREFIX), record.value["name"], record.value["description"])
            for record in self._records.live(NAMESPACE_PREFIX)
            if record.value is not None
        ]

    def namespace(self, name: str) -> Namespace:
        """Return the namespace of this id.

        Raises:
            NotFound: it does not exist.
        """
        value = self._records.value(namespace_key(name))
        if value is None:
            raise NotFound(f"namespace {name[: keys.NAMESPACE_ID_CHARS_MAX]} is not found!")
        return Namespace(name, value["name"], value["description"])

    def create_namespace(self, namespace: Namespace) -> bool:
        """Create a namespace. Return False if its id is illegal or exists. Source: Nacos 1.4.8 NamespaceController."""
        if not keys.is_namespace_id(namespace.id) or namespace.id == keys.DEFAULT_NAMESPACE:
            return False  # the public one always exists, and cannot be removed

        def change(old: Value | None) -> Value:
            if old is None:
                self._admission.namespace(namespace.id, len(self.projection.namespaces))
            return old or _namespace_value(namespace)

        return self._put(namespace_key(namespace.id), change)

    def update_namespace(self, namespace: Namespace) -> bool:
        """Change a namespace's name and description. Return False if it does not exist."""
        if not namespace.id or self._records.value(namespace_key(namespace.id)) is None:
            return False
        self._put(namespace_key(namespace.id), lambda old: _namespace_value(namespace) if old else None, is_said=True)
        return True

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace. The services in it stay. An unknown one is ignored."""
        if name:
            self._put(namespace_key(name), lambda _old: None)

    # --- for the audit --------------------------------------------------------------------------

    def settings(self, namespace: str, service: str) -> tuple[ServiceMeta, Version | None]:
        """Return a service's description and the version at which it was set, None for a service without one."""
        record = self._records.record(service_meta_key(namespace, service))
        if record is None or record.value is None:
            return NO_META, None
        return service_meta(record.value), record.changed

    def shared_records(self) -> list[Record]:
        """Return the records of no service that have a value: switches, namespaces, links, users and their rights."""
        switches = self._records.record(SWITCHES_KEY)
        listed = [one for prefix in OF_NO_SERVICE for one in self._records.live(prefix)]
        return [*([switches] if switches else []), *listed]

    # --- switches -------------------------------------------------------------------------------

    def update_switch(self, entry: str, value: str, *, here_only: bool) -> None:
        """Set one switch on all members, or on this one until its restart. An unknown entry changes nothing.

        Raises:
            InvalidParam: the value is not allowed.
        """
        if entry in ENTRIES:
            self._set_switches(lambda old: update(old, entry, value), here_only)

    def update_switches(self, body: Value, *, here_only: bool) -> None:
        """Set all switches in a JSON object, on all members or on this one until its restart.

        Raises:
            InvalidParam: a value is not allowed; the text names the field.
        """
        self._set_switches(lambda old: from_json(body, old), here_only)

    def _set_switches(self, change: Callable[[SwitchDomain], SwitchDomain], here_only: bool) -> None:
        if here_only:
            self.projection.override(change(self.switches))
            return
        if not self._put(
            SWITCHES_KEY, lambda old: change(from_json(old or {}, SwitchDomain())).to_json(), is_said=True
        ):
            # The record stays the same, but switches set only on this member end here.
            self.projection.override(from_json(self._records.value(SWITCHES_KEY) or {}, SwitchDomain()))

    def _put(self, key: str, change: Callable[[Value | None], Value | None], *, is_said: bool = False) -> bool:
        return self._put_all({key: change}, said=[key] if is_said else [])

    def _put_all(
        self,
        changes: Mapping[str, Callable[[Value | None], Value | None]],
        *,
        said: Collection[str] = (),
        force: bool = False,
        by_check: bool = False,
    ) -> bool:
        """Change records as ``Records.put_all``, and publish each that changed. Return whether one did."""
        changed = self._records.put_all(changes, said=said, force=force, by_check=by_check)
        for key in changed:
            self._publish(RecordChanged(key))
        return bool(changed)


def _namespace_value(namespace: Namespace) -> Value:
    return {
        "name": namespace.name[:NAMESPACE_TEXT_CHARS_MAX],
        "description": namespace.description[:NAMESPACE_TEXT_CHARS_MAX],
    }
