"""OverrideService: operators' changes of instances, each a durable record apart from the registration."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from app.naming.model.keys import Metadata, datum_key
from app.naming.model.nacos_errors import NotFound, ServiceMissing
from app.naming.model.override import NO_OVERRIDES, Override
from app.naming.records.durable_admission import DurableAdmission
from app.naming.records.record import Record, Value
from app.naming.records.record_keys import OVERRIDE_PREFIX, override_key
from app.naming.records.record_values import override_of, value_of_override
from app.naming.records.records import Records
from app.naming.registry.operations import ChangeMetadata, changed_metadata, check_weight
from app.naming.registry.remaining_instances import Remaining, remaining_of
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import is_held, view_of

NONE = Override()


class PutAll(Protocol):
    """Changes records as ``Records.put_all``, and publishes each that changed. Returns whether one did."""

    def __call__(
        self,
        changes: Mapping[str, Callable[[Value | None], Value | None]],
        *,
        said: Collection[str] = (),
        by_check: bool = False,
    ) -> bool: ...


class OverrideService:
    """The changes that operators make of instances, however these are registered. Thread-safe.

    Raises (every change): as ``DurableService``.
    """

    def __init__(self, records: Records, table: ServiceTable, admission: DurableAdmission, put_all: PutAll) -> None:
        self._records, self._table = records, table
        self._admission = admission
        self._put_all = put_all

    def find(self, namespace: str, service: str, key: str) -> Override | None:
        """Return the change of the instance of an instance key; None for none."""
        return self._table.overrides.get(datum_key(namespace, service), NO_OVERRIDES).get(key)

    def replace(self, namespace: str, service: str, key: str, override: Override) -> None:
        """Set an operator's change of an instance, in place of an earlier one. The instance may yet have to register.

        Raises:
            ServiceMissing: the service does not exist. WeightRefused: the weight is out of range.
        """
        found = self._table.get(namespace, service)
        if found is None or found.hidden:
            raise ServiceMissing(f"service not found, namespace: {namespace}, service: {service}")
        self._put(namespace, service, {key: lambda _old: _checked(override)})

    def change(
        self,
        namespace: str,
        service: str,
        key: str,
        weight: float | None = None,
        enabled: bool | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        """Set the given attributes of an instance, ``metadata`` in place of the keys that an operator set before.

        Raises:
            NotFound: the instance does not exist. WeightRefused: the weight is out of range.
        """
        self._check_held(namespace, service, key)

        def changed(old: Override) -> Override:
            return _checked(
                Override(
                    old.weight if weight is None else weight,
                    old.enabled if enabled is None else enabled,
                    old.metadata if metadata is None else metadata,
                )
            )

        self._put(namespace, service, {key: changed})

    def change_all(
        self, namespace: str, service: str, instance_keys: Iterable[str], wanted: Override, *, if_enough: bool
    ) -> Remaining:
        """Set the given attributes of several instances in one step; other metadata keys stay.

        ``if_enough``: stop if clients would lose so many instances that too few healthy ones remain. Returns how many
        remain. No other change of the service comes between the look and the change.

        Raises:
            NotFound: an instance does not exist. WeightRefused: the weight is out of range.
            TooFewRemain: the stop. In each case nothing is changed.
        """
        wanted, named = _checked(wanted), list(dict.fromkeys(instance_keys))
        found: list[Remaining] = []

        def look() -> Remaining:
            held = self._table.get(namespace, service)
            for key in named:
                if held is None or held.hidden or not is_held(held, key):
                    address = key.replace(":unknown:", " in cluster ")
                    raise NotFound(f"nothing was changed: {service} has no instance {address}")
            assert held is not None, "a change names an instance"
            view, leaves = view_of(held), wanted.enabled is False or wanted.weight == 0
            gone = set(named) if leaves else set[str]()
            remaining = remaining_of(view, (one for one in view.instances if one.key in gone))
            if if_enough:
                remaining.check()
            return remaining

        def changed(old: Override) -> Override:
            if not found:  # the first of them, and the service has its turn from here on
                found.append(look())
            return Override(
                old.weight if wanted.weight is None else wanted.weight,
                old.enabled if wanted.enabled is None else wanted.enabled,
                {**old.metadata, **wanted.metadata},
            )

        self._put(namespace, service, dict.fromkeys(named, changed))
        return found[0]

    def change_metadata(self, namespace: str, service: str, keys: Iterable[str], change: ChangeMetadata) -> None:
        """Set and remove metadata keys that operators set, of several instances in one step."""

        def changed(old: Override) -> Override:
            return replace(old, metadata=changed_metadata(old.metadata, change))

        self._put(namespace, service, dict.fromkeys(keys, changed))

    def drop(self, namespace: str, service: str, keys: Iterable[str]) -> None:
        """Remove the changes of instances that are gone. No operator states this, so a later change wins (R14)."""
        self._put_all({override_key(namespace, service, key): lambda _old: None for key in keys}, by_check=True)

    def keys_of_service(self, namespace: str, service: str) -> tuple[str, ...]:
        """Return the keys of the records of a service's instances."""
        found = self._table.overrides.get(datum_key(namespace, service), NO_OVERRIDES)
        return tuple(override_key(namespace, service, key) for key in found)

    def records(self) -> list[Record]:
        """Return the records of all changes, sorted by key."""
        return self._records.live(OVERRIDE_PREFIX)

    def _put(self, namespace: str, service: str, changes: Mapping[str, Callable[[Override], Override]]) -> None:
        added = 0

        def written(change: Callable[[Override], Override]) -> Callable[[Value | None], Value | None]:
            def put(old: Value | None) -> Value | None:
                nonlocal added
                before = override_of(old) if old is not None else None
                after = change(before or NONE)
                added += before is None
                self._admission.override(namespace, service, before, after, added)
                return None if after.is_empty else value_of_override(after)

            return put

        records = {override_key(namespace, service, key): written(one) for key, one in changes.items()}
        # A statement about what is unknown here, and stays so, needs no record.
        known = [override_key(namespace, service, key) for key in changes if self.find(namespace, service, key)]
        self._put_all(records, said=known)

    def _check_held(self, namespace: str, service: str, key: str) -> None:
        """Refuse a partial change of an unknown instance. Source: Nacos 2.3.1 InstanceOperatorClientImpl.

        Raises:
            NotFound: the instance does not exist.
        """
        found = self._table.get(namespace, service)
        if found is None or found.hidden or not view_of(found).instances:
            cluster = key.rpartition(":")[2]
            raise NotFound(f"no ips found for cluster {cluster} in service {service}")
        if not is_held(found, key):
            raise NotFound("no matched ip found!")


def _checked(override: Override) -> Override:
    """Return the change with a weight as it is stored.

    Raises:
        WeightRefused: as ``check_weight``.
    """
    return override if override.weight is None else replace(override, weight=check_weight(override.weight))
