"""The steps of draining an instance. Each member carries them out for the data that it owns."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from app.commands.ownership import Owners
from app.naming.clients.client_table import ClientTable
from app.naming.clients.own_clients import OwnClients
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import ClientGone, InvalidParam, NacosError
from app.naming.records.durable_service import DurableService
from app.naming.records.record_keys import persistent_key, record_tag
from app.naming.registry.operations import DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import view_of
from app.naming.service import NamingService
from app.operator.instance_facts import AskedInstance, PushWay
from distro.model.ports import Clock

LOG = logging.getLogger(__name__)
DISABLE, REMOVE = "disable", "remove"
ACTIONS = (DISABLE, REMOVE)


@dataclass(slots=True)
class DrainSteps:
    """Carries out this member's part of a step.

    A step may arrive twice or late, so each one does only the work that is still missing.
    """

    table: ServiceTable
    naming: NamingService
    durable: DurableService
    clients: ClientTable
    own_clients: OwnClients
    owners: Owners
    responsible: Callable[[str], bool]
    clock: Clock
    push_states: list[PushWay] = field(default_factory=list)

    def take(self, action: str, asked: AskedInstance) -> dict[str, Any]:
        """Do this member's part of a step. Return its view afterwards. Shape: known, inLists, subscribers, behind.

        Raises:
            InvalidParam: there is no such step.
            StorageError: the disk refused a persistent instance's change.
        """
        if action not in ACTIONS:
            raise InvalidParam(f"Parameter 'action' is illegal: it should be one of {', '.join(ACTIONS)}")
        if action == REMOVE:
            # At each member, because any member may get the beats or become the owner.
            self.naming.drained.add((asked.namespace, asked.service, asked.key), self.clock.monotonic_ms())
        service = self.table.get(asked.namespace, asked.service)
        if service is not None:
            stored = service.stored.get(asked.key)
            if stored is not None and self.responsible(asked.service):
                self._listed(action, asked, stored.instance)
            persistent = service.persistent.get(asked.key)
            tag = record_tag(persistent_key(asked.namespace, asked.service, asked.key))
            if persistent is not None and self.owners.responsible_durable(tag):
                self._persistent(action, asked, persistent)
            override = service.overrides.get(asked.key)
            if action == DISABLE and override is not None and override.enabled and self.owners.responsible_durable(tag):
                # An operator enabled it: that would hide what is disabled below.
                disabled = replace(override, enabled=None)
                self.durable.overrides.replace(asked.namespace, asked.service, asked.key, disabled)
            for client_id, publication in list((service.published or {}).items()):
                if asked.key in publication.instances:
                    self._published(action, asked, client_id, publication.instances, publication.batch)
        return self._seen(asked)

    def _listed(self, action: str, asked: AskedInstance, instance: Instance) -> None:
        if action == REMOVE:
            self.naming.deregister(_deregistration(asked, ephemeral=True))
        elif instance.enabled:
            self.naming.patch(_disabling(asked))

    def _persistent(self, action: str, asked: AskedInstance, instance: Instance) -> None:
        if action == REMOVE:
            self.durable.deregister(_deregistration(asked, ephemeral=False))
        elif instance.enabled:
            self.durable.patch(_disabling(asked))

    def _published(self, action: str, asked: AskedInstance, client_id: str, instances: Any, batch: bool) -> None:
        """Publish a client's instances again, with this one disabled or left out, if the client is connected here."""
        client = self.clients.client(client_id)
        if client is None or not client.native or client.ended:
            return
        if action == DISABLE and not instances[asked.key].enabled:
            return
        changed = dict(instances)
        instance = changed.pop(asked.key)
        if action == DISABLE:
            changed[asked.key] = replace(instance, enabled=False)
        commands = [_registration(asked, one) for one in changed.values()]
        with suppress(ClientGone):  # and with it its publications
            if batch and commands:
                self.own_clients.batch_register(client_id, asked.namespace, asked.service, commands)
            elif commands:
                self.own_clients.register(client_id, commands[0])
            else:
                self.own_clients.deregister(client_id, asked.namespace, asked.service)

    def _seen(self, asked: AskedInstance) -> dict[str, Any]:
        service = self.table.get(asked.namespace, asked.service)
        shown = view_of(service).instances if service is not None and not service.hidden else ()
        one = next((one for one in shown if one.key == asked.key), None)
        states = [state for _, read in self.push_states for state in read(asked.namespace, asked.service)]
        return {
            "known": one is not None,
            "inLists": one is not None and one.enabled,
            "subscribers": len(states),
            "behind": sum(state.is_under_way for state in states),
        }


def take_safely(steps: DrainSteps, action: str, asked: AskedInstance) -> dict[str, Any] | None:
    """Do this member's part, for the job that runs here. Return None if it failed, so that the job tries again."""
    try:
        return steps.take(action, asked)
    except NacosError as error:
        LOG.warning("a step (%s) of the draining of %s failed: %s", action, asked.key, error.text)
        return None


def _disabling(asked: AskedInstance) -> PatchInstance:
    return PatchInstance(asked.service, asked.ip, asked.port, asked.namespace, asked.cluster, enabled=False)


def _deregistration(asked: AskedInstance, *, ephemeral: bool) -> DeregisterInstance:
    return DeregisterInstance(asked.service, asked.ip, asked.port, asked.namespace, asked.cluster, ephemeral)


def _registration(asked: AskedInstance, one: Instance) -> RegisterInstance:
    return RegisterInstance(
        service=asked.service,
        ip=one.ip,
        port=one.port,
        namespace=asked.namespace,
        cluster=one.cluster_name,
        weight=one.weight,
        healthy=one.healthy,
        enabled=one.enabled,
        metadata=one.metadata,
        instance_id=one.instance_id or "",
    )
