"""The empty-push guard: instances that vanish from a list without a tombstone stay visible for a while.

They vanish so in a load (R7), by absence (R6), or with data that has no versions (R8).
"""

from collections.abc import Mapping

from app.naming.model.model import Instance, Service
from app.naming.registry.merge import InstanceList

GUARD_FROM_INSTANCES = 4
"""From this size of a service on, the loss of more than half is held back, too, and not only the loss of all."""


def shown(service: Service) -> dict[str, Instance]:
    """Return the ephemeral instances that readers see, retained ones included, by instance key."""
    return {key: stored.instance for key, stored in service.stored.copy().items()} | service.retained


def vanished(shown: Mapping[str, Instance], value: InstanceList) -> dict[str, Instance]:
    """Return the instances of ``shown`` to retain when ``value`` replaces them; none if the loss is plausible.

    A removal that some member accepted or decided comes as a tombstone, and counts at once. An instance missing without
    one was lost by a load, an absence, a take-over, or a member that sends no versions.
    """
    expected = {key: one for key, one in shown.items() if key not in value.tombstones}
    lost = {key: one for key, one in expected.items() if key not in value.stored}
    halved = len(expected) >= GUARD_FROM_INSTANCES and 2 * len(lost) > len(expected)
    return lost if lost and (halved or len(lost) == len(expected)) else {}
