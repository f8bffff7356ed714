"""Executes writes: the only place with the checks before a write and the notifications after it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from app.commands import operator_changes as operators
from app.commands.metadata_batch import instances_of, takes_long
from app.commands.outcomes import DONE, UNCHANGED, WAITS, Beaten, Changed, Done, Outcome, Remained, Waits
from app.commands.ownership import Forward, durable_owner, not_serving_text
from app.commands.record_commands import RecordCommand, UpdateHealth, UpdateMetadata
from app.commands.record_writes import RecordStep, RecordWrites
from app.commands.write_caller import BATCH_CHANGE, SHORT_CHANGE, Misdirected, WriteCaller, WriteOwners
from app.members.membership import Pauses, check_late
from app.metrics.audit_trail import AuditTrail
from app.naming.model.keys import check_metadata_size
from app.naming.model.meta import DEFAULT_CLUSTER_CONFIG
from app.naming.model.model import Instance, instance_bytes
from app.naming.model.nacos_errors import InvalidParam, NotExecuted
from app.naming.records.durable_service import DurableService
from app.naming.records.record_keys import override_key, persistent_key, service_meta_key
from app.naming.registry import operations
from app.naming.registry.local_writes import Replaced
from app.naming.registry.operations import (
    Beat,
    ChangeMetadata,
    DeregisterInstance,
    PatchInstance,
    RegisterInstance,
    UpdateInstance,
    changed_metadata,
)
from app.naming.registry.remaining_instances import Remaining
from app.naming.service import NamingService
from app.naming.wire.service_info import QUICK_HOSTS_MAX
from distro.model.types import CAPABILITY_WRITES, MemberState

_UP = MemberState.UP
"""Python 3.11 needs ten times as long to look a member up in its class."""

Command = (
    RegisterInstance
    | UpdateInstance
    | DeregisterInstance
    | PatchInstance
    | Beat
    | UpdateHealth
    | UpdateMetadata
    | RecordCommand
)
Addressed = RegisterInstance | DeregisterInstance | PatchInstance | Beat
"""The commands that name an instance."""


_new_tuple = tuple.__new__


class Writes:
    """Executes commands for callers of any frontend: here, unless another member owns the service.

    The order of a write: is this member open, and the call in time? Who owns the service? Then it is done, written to
    the audit trail, and told to the member that passed the call on; subscribers of the domain's events do the rest.
    """

    def __init__(
        self,
        cluster: WriteOwners,
        is_nacos_2_at: Callable[[str], bool],
        naming: NamingService,
        durable: DurableService,
        audit: AuditTrail,
        pauses: Pauses,
        collect_beat: operations.CollectBeat,
        wall_ms: Callable[[], int],
        records: RecordWrites,
    ) -> None:
        """``is_nacos_2_at``: returns whether a listed member at an IP address is real Nacos since 2.0."""
        self._cluster, self._is_nacos_2_at = cluster, is_nacos_2_at
        self._naming = naming
        self._durable = durable
        self._audit = audit
        self._pauses = pauses
        self._collect_beat = collect_beat
        self._wall_ms = wall_ms
        self._steps: dict[type, Callable[[Any, Any], Outcome]] = {
            RegisterInstance: self._register,
            UpdateInstance: self._update,
            DeregisterInstance: self._deregister,
            PatchInstance: self._patch,
            Beat: self._beat,
            UpdateHealth: self._update_health,
            UpdateMetadata: self._update_metadata,
            **{kind: partial(self._write_records, step) for kind, step in records.steps().items()},
        }

    def execute(self, command: Command, caller: WriteCaller) -> Outcome:
        """Execute a command, or return which member is to be asked.

        Raises:
            NotExecuted: this member does not serve, or the call comes too late.
            NacosError: the command is refused; or the caller may not have it passed on.
            StorageError: a durable record cannot be written.
        """
        return self._steps[type(command)](command, caller)

    # --- what comes before -------------------------------------------------------------------------

    def check_timely(self, caller: WriteCaller) -> None:
        """Check that this member serves, and that the call does not come too late.

        Raises:
            NotExecuted: a member that passed it on keeps it, and asks the next owner.
        """
        state = self._cluster.state()
        if state is not _UP:
            raise NotExecuted(not_serving_text(state.value))
        # Looked at here for the sake of the many calls that have no deadline.
        if caller.deadline is not None or self._pauses.stood_still:
            check_late(caller.deadline, self._cluster, self._pauses)

    def _other_owner(self, service: str, caller: WriteCaller) -> str | None:
        """Return the member that owns the service, to which the write may be passed on; None when this member does."""
        cluster = self._cluster
        owner = cluster.owner_if_up(service)
        if not owner or caller.deadline is not None or self._pauses.stood_still:
            self.check_timely(caller)
            owner = owner or cluster.map_srv(service)
        if owner == cluster.self_address:
            return None
        self._check_passed_on(caller)
        return owner

    def _durable_elsewhere(self, caller: WriteCaller, *keys: str) -> Forward | Waits | None:
        """Return where to pass on a write of durable records, which share an owner; None when this member owns them.

        The owner is a Rollcall member: real Nacos stores durable data in its own way. The event loop executes none:
        such a write waits for the disk, here or at the owner.

        Raises:
            NotExecuted, Misdirected: as ``execute``.
        """
        if caller.on_loop:
            return WAITS
        self.check_timely(caller)
        to = durable_owner(self._cluster, *keys)
        if to is not None and (passed_on := caller.passed_on) is not None and passed_on.by_own_kind:
            # An operator may call under a member's agent string, as that is how a server is reached whose status
            # refuses clients.
            raise Misdirected(passed_on, self._wall_ms())
        return to

    def _check_passed_on(self, caller: WriteCaller) -> None:
        """Refuse a call that was passed on already, unless real Nacos 2.x did.

        Nacos maps addresses to owners, not services, so any Rollcall member may get its call. Source: Nacos 1.4.8 and
        2.3.1 DistroFilter.
        """
        if (passed_on := caller.passed_on) is None:
            return
        if passed_on.by_own_kind or not self._is_nacos_2_at(passed_on.remote_ip):
            raise Misdirected(passed_on, self._wall_ms())

    # --- the steps ---------------------------------------------------------------------------------

    def _register(self, command: RegisterInstance, caller: WriteCaller) -> Outcome:
        if not command.ephemeral:
            return self._write_durably(caller, _keys_of(command), lambda: self._durable.register(command))
        if (owner := self._other_owner(command.service, caller)) is not None:
            return Forward(command.service, owner=owner)
        return self._replaced("register", command, self._naming.register(command), command, caller)

    def _update(self, command: UpdateInstance, caller: WriteCaller) -> Outcome:
        instance, strict = command
        service = (self._naming.named(instance.namespace) or {}).get(instance.service)
        if service is not None and (service.published or service.overrides or service.persistent):
            if caller.on_loop and service.published_count > QUICK_HOSTS_MAX:
                return WAITS  # all publications are looked through
            key = operations.key_of(instance)
            if operators.is_kept_beside(service, key):
                return self.execute(operators.change_of_update(instance), caller)
            if not strict and key in service.persistent and key not in service.stored:
                instance = instance._replace(ephemeral=False)  # a second one without beats would only confuse
        if not instance.ephemeral:
            return self._write_durably(caller, _keys_of(instance), lambda: self._durable.update(instance, strict))
        if (owner := self._other_owner(instance.service, caller)) is not None:
            return Forward(instance.service, owner=owner)
        if caller.on_loop and strict and self._is_large(instance):
            return WAITS  # all instances are looked through for one that is missing
        return self._replaced("update", instance, self._naming.update(instance, strict, service), instance, caller)

    def _replaced(
        self, verb: str, command: Addressed, done: Replaced | None, after: object, caller: WriteCaller
    ) -> Done:
        key = ""
        if done is not None:
            _, before, key = done
            if self._audit.covers_instances:
                service = command.namespace, command.service
                self._audit.write_instance(verb, service, key, before, after, caller.actor)
        return DONE if caller.wants_change is None else self._done(command, caller, is_new=done is not None, key=key)

    def _deregister(self, command: DeregisterInstance, caller: WriteCaller) -> Outcome:
        if not command.ephemeral:
            key = persistent_key(command.namespace, command.service, operations.key_of(command))
            return self._write_durably(caller, (key,), lambda: self._durable.deregister(command))
        if (owner := self._other_owner(command.service, caller)) is not None:
            return Forward(command.service, owner=owner)
        return self._replaced("remove", command, self._naming.deregister(command), None, caller)

    def _patch(self, command: PatchInstance, caller: WriteCaller) -> Outcome:
        found = self._naming.hot_detail(command.namespace, command.service, command.ip, command.port, command.cluster)
        if found is None and caller.on_loop and self._is_large(command):
            return WAITS
        service = self._naming.service_of(command.namespace, command.service)
        if service is not None and operators.is_kept_beside(service, operations.key_of(command)):
            return self.execute(operators.change_of_patch(command), caller)
        found = found or self._find(command)
        if found is None or found.ephemeral:
            if self._other_owner(command.service, caller) is not None:
                return Forward(command.service)
            is_new = self._naming.patch(command)
            if is_new:
                self._tell("update", command, operations.key_of(command), found, command, caller)
            return self._done(command, caller, is_new=is_new)
        key = persistent_key(command.namespace, command.service, operations.key_of(command))
        return self._write_durably(caller, (key,), lambda: self._durable.patch(command))

    def _beat(self, command: Beat, caller: WriteCaller) -> Outcome:
        naming, switches = self._naming, self._durable.projection.switches
        interval_ms, light = switches.client_beat_interval, switches.light_beat_enabled
        if not command.ephemeral and self._find(command) is None:
            # As Nacos 1.4 does it: from here on the instance needs no beats.
            self._count_new(command, caller)
            if (other := self._durable_elsewhere(caller, *_keys_of(command))) is not None:
                return other
            self._durable.register_from_beat(command)
        elif (owner := self._other_owner(command.service, caller)) is not None:
            found_ms = None
            if CAPABILITY_WRITES in self._cluster.capabilities(owner):  # answered from the copy that is here, if any
                found_ms = naming.beat_of_copy(command, owner, self._collect_beat)
            if found_ms is None:
                self._count_new(command, caller)
                return Forward(command.service)
            return _new_tuple(Beaten, (found_ms or interval_ms, True, light, DONE))
        answer = naming.beat(command, interval_ms, self._tell_writer, caller.count_write)
        if answer.is_new:
            verb, after = ("healthy", None) if answer.is_healed else ("beat", command)
            self._tell(verb, command, operations.key_of(command), None, after, caller)
        done = self._done(command, caller, is_new=answer.is_new) if command.full else DONE
        return _new_tuple(Beaten, (answer.interval_ms, answer.known, light, done))

    def _count_new(self, command: Beat, caller: WriteCaller) -> None:
        """Count a beat as a write if it registers its instance."""
        if command.full and not self._naming.is_listed(command):
            caller.count_write()

    def _tell_writer(self, run: str, key: str, instance_key: str, now_ms: int) -> bool:
        """Collect a beat for the member that wrote a list last, if that is another one."""
        is_told = CAPABILITY_WRITES in self._cluster.capabilities(member := run.partition("~")[0])
        return is_told and self._collect_beat(member, key, instance_key, now_ms)

    def _update_health(self, command: UpdateHealth, caller: WriteCaller) -> Outcome:
        namespace, service, cluster, ip, port, healthy = command
        found = self._naming.find(namespace, service, cluster, ip, port)
        if found is None or found.ephemeral:
            if self._other_owner(service, caller) is not None:
                return Forward(service)
        elif (other := self._durable_elsewhere(caller, persistent_key(namespace, service, found.key))) is not None:
            return other
        view = self._naming.service_view(namespace, service)
        if view is None:
            raise InvalidParam(f"service not found: {service}")
        if cluster not in view.clusters:
            raise InvalidParam(f"cluster not found: {cluster} of service {service}")
        if view.meta.clusters.get(cluster, DEFAULT_CLUSTER_CONFIG).checker.kind != "NONE":
            raise InvalidParam(f"health check is still working, service: {service}")
        if found is not None:
            setter = self._naming.set_health if found.ephemeral else self._durable.set_health
            setter(namespace, service, found.key, healthy)
            if found.ephemeral and found.healthy is not healthy and self._audit.covers_instances:
                verb = "healthy" if healthy else "unhealthy"
                self._audit.write_instance(verb, (namespace, service), found.key, None, None, caller.actor)
        return DONE

    def _update_metadata(self, command: UpdateMetadata, caller: WriteCaller) -> Outcome:
        namespace, service, metadata = command.namespace, command.service, command.metadata
        if caller.on_loop and takes_long(self._naming, command):
            return WAITS
        found = instances_of(self._naming, command)
        beside, persistent, listed = operators.parted(
            self._naming.service_of(namespace, service), found, command.beside
        )
        if beside or command.beside:
            operators.check_kept_by_all(self._cluster)
        keys = [override_key(namespace, service, one.key) for one in beside]
        keys += [persistent_key(namespace, service, one.key) for one in persistent]
        if command.beside and not keys:
            keys.append(service_meta_key(namespace, service))  # the owner may know the instances
        if keys and (other := self._durable_elsewhere(caller, *keys)) is not None:
            return other
        if (listed or not keys) and self._other_owner(service, caller) is not None:
            return Forward(service)
        if metadata is None or not found:
            return Changed(())
        change = ChangeMetadata(remove=frozenset(metadata)) if command.removes else ChangeMetadata(put=metadata)
        grown = 0
        for one in (*persistent, *listed):
            changed = changed_metadata(one.metadata, change)
            check_metadata_size(changed)
            grown += instance_bytes(replace(one, metadata=changed)) - instance_bytes(one)
        self._naming.check_metadata(namespace, service, grown)
        if beside:
            self._durable.overrides.change_metadata(namespace, service, [one.key for one in beside], change)
        if persistent:
            self._durable.set_metadata(namespace, service, [one.key for one in persistent], change)
        for one in listed:
            self._naming.set_metadata(namespace, service, one.key, change)
        return Changed(tuple(found))

    def _write_records(self, step: RecordStep, command: RecordCommand, caller: WriteCaller) -> Outcome:
        operators.check_command_kept_by_all(self._cluster, command)
        if (keys := step.keys(command)) and (other := self._durable_elsewhere(caller, *keys)) is not None:
            return other
        done = step.write(command, caller)
        return UNCHANGED if done is False else Remained(done) if isinstance(done, Remaining) else DONE

    def _write_durably(self, caller: WriteCaller, keys: tuple[str, ...], write: Callable[[], object]) -> Outcome:
        if (other := self._durable_elsewhere(caller, *keys)) is not None:
            return other
        write()
        return DONE

    # --- what comes after --------------------------------------------------------------------------

    def _tell(
        self, verb: str, command: Addressed, key: str, before: Instance | None, after: object, caller: WriteCaller
    ) -> None:
        """Write the change of the instance with this key to the audit trail."""
        if self._audit.covers_instances:
            self._audit.write_instance(verb, (command.namespace, command.service), key, before, after, caller.actor)

    def _done(self, command: Addressed, caller: WriteCaller, *, is_new: bool, key: str = "") -> Done:
        """Return the end of a write; for a member that passed it on with the instance, as the write left it.

        Of a write that changed nothing there are no ages, and no time from which they count. ``key``: the instance key,
        if it is known.
        """
        wanted = caller.wants_change
        if wanted is None:
            return DONE
        key = key or operations.key_of(command)
        short = wanted in (SHORT_CHANGE, BATCH_CHANGE)
        change = self._naming.change_of(command.namespace, command.service, key, is_new=is_new, short=short)
        return (
            DONE if change is None else Done(change, self._cluster.stamp() if is_new and wanted != BATCH_CHANGE else "")
        )

    # --- what is asked of the domain ---------------------------------------------------------------

    def _find(self, command: Addressed) -> Instance | None:
        return self._naming.find(command.namespace, command.service, command.cluster, command.ip, command.port)

    def _is_large(self, command: Addressed) -> bool:
        return self._naming.instance_count(command.namespace, command.service) > QUICK_HOSTS_MAX


def _keys_of(command: RegisterInstance | Beat) -> tuple[str, ...]:
    """Return the keys of the durable records that the registration of a persistent instance writes."""
    return (
        service_meta_key(command.namespace, command.service),
        persistent_key(command.namespace, command.service, operations.key_of(command)),
    )
