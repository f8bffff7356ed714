"""Decides whether an operator's change goes into the registration or into a separate record (decision 0061)."""

from collections.abc import Sequence
from typing import NamedTuple

from app.commands.record_commands import ChangeInstance, OfInstances, OfLinks, RecordCommand
from app.commands.write_caller import WriteOwners
from app.naming.model.model import Instance, Service
from app.naming.model.nacos_errors import Unavailable
from app.naming.registry.operations import PatchInstance, RegisterInstance
from app.naming.registry.union import is_held, is_published
from distro.model.types import CAPABILITY_LINKS, CAPABILITY_OVERRIDES


def check_kept_by_all(cluster: WriteOwners, capability: str = CAPABILITY_OVERRIDES, what: str = "instances") -> None:
    """Refuse a change in a separate record while a member of an earlier release would neither keep nor show it.

    Raises:
        Unavailable: names such a member.
    """
    if lacking := cluster.lacking(capability):
        text = f"member {lacking[0]} runs a release that does not keep operators' changes of {what}: upgrade it first"
        raise Unavailable(text)


def check_command_kept_by_all(cluster: WriteOwners, command: RecordCommand) -> None:
    """Refuse a command whose record a member of an earlier release would not keep, as ``check_kept_by_all``."""
    if isinstance(command, OfInstances):
        check_kept_by_all(cluster)
    elif isinstance(command, OfLinks):
        check_kept_by_all(cluster, CAPABILITY_LINKS, "links")


class Parted(NamedTuple):
    """The instances of a change, by where it goes."""

    beside: list[Instance]
    persistent: list[Instance]
    listed: list[Instance]


def is_kept_beside(service: Service, key: str) -> bool:
    """Return whether a change over HTTP v1 is kept in a separate record of the instance with an instance key.

    It cannot be written into what a connection publishes, and an override would hide it.
    """
    if key in service.overrides:
        return is_held(service, key)
    return bool(service.published) and key not in service.persistent and is_published(service, key)


def parted(service: Service | None, found: Sequence[Instance], all_beside: bool) -> Parted:
    """Return the instances of a service by where a change of them goes. ``all_beside``: as HTTP v2 and v3 ask."""
    beside, persistent, listed = Parted([], [], [])
    for one in found:
        if all_beside or (service is not None and is_kept_beside(service, one.key)):
            beside.append(one)
        else:
            (listed if one.ephemeral else persistent).append(one)
    return Parted(beside, persistent, listed)


def change_of_update(one: RegisterInstance) -> ChangeInstance:
    """Return the operator's change that a PUT means: all attributes, independent of the registration."""
    where = one.namespace, one.service, one.ip, one.port, one.cluster
    return ChangeInstance(*where, one.weight, one.enabled, one.metadata, whole=True)


def change_of_patch(one: PatchInstance) -> ChangeInstance:
    """Return the operator's change that a PATCH means. Health and application stay those of the registration."""
    where = one.namespace, one.service, one.ip, one.port, one.cluster
    return ChangeInstance(*where, one.weight, one.enabled, one.metadata)
