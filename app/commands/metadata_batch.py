"""The instances that a batch of metadata names."""

from app.commands.record_commands import InstanceName, UpdateMetadata
from app.naming.model.model import Instance
from app.naming.service import NamingService
from app.naming.wire.service_info import QUICK_HOSTS_MAX

EPHEMERAL, PERSIST = "ephemeral", "persist"
LOOP_TARGETS_MAX = 32
"""Instances that the event loop changes for one call: more take longer than others may be kept waiting."""


def takes_long(naming: NamingService, asked: UpdateMetadata) -> bool:
    """Return whether a batch takes too long for the event loop: it searches many instances, or may change many."""
    count = naming.instance_count(asked.namespace, asked.service)
    return count > (LOOP_TARGETS_MAX if asked.kind else QUICK_HOSTS_MAX)


def instances_of(naming: NamingService, asked: UpdateMetadata) -> list[Instance]:
    """Return the known instances of a kind, or without a kind those that are named; none for an unknown kind.

    ``beside``: those that are named, of any kind, or without names all of the kind, or of the service.
    """
    if asked.beside:
        return _found_beside(naming, asked)
    hot = [_hot_instance(naming, asked, name) for name in asked.names]
    if hot and None not in hot:
        return [one for one in hot if one is not None]
    view = naming.service_view(asked.namespace, asked.service)
    if view is None:
        return []
    if asked.kind in (EPHEMERAL, PERSIST):
        return [one for one in view.instances if one.ephemeral is (asked.kind == EPHEMERAL)]
    if asked.kind:
        return []
    found = (next((one for one in view.instances if name.is_name_of(one)), None) for name in asked.names)
    return [one for one in found if one is not None]


def _found_beside(naming: NamingService, asked: UpdateMetadata) -> list[Instance]:
    """Source: Nacos 2.3.1 InstanceOperatorClientImpl.findBatchUpdateInstance."""
    if asked.names:
        found = (naming.find(asked.namespace, asked.service, one.cluster, one.ip, one.port) for one in asked.names)
        return [one for one in found if one is not None]
    view = naming.service_view(asked.namespace, asked.service)
    listed = view.instances if view is not None else ()
    kinds = {EPHEMERAL: (True,), PERSIST: (False,)}.get(asked.kind, (True, False))
    return [one for one in listed if one.ephemeral in kinds]


def _hot_instance(naming: NamingService, asked: UpdateMetadata, name: InstanceName) -> Instance | None:
    """Return a named instance without a view of all, which each change rebuilds; None if only the view can tell."""
    find = naming.hot_detail
    if find(asked.namespace, asked.service, name.ip, 0, name.cluster) is not None:
        return None  # it answers to the name, too
    found = find(asked.namespace, asked.service, name.ip, name.port, name.cluster)
    return found if found is not None and name.is_name_of(found) else None
