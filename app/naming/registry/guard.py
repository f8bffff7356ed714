"""The empty-push guard: what vanishes without anybody having removed it is not believed at once."""

from collections.abc import Mapping

from app.naming.model.model import Instance
from app.naming.registry.merge import InstanceList

GUARD_FROM_INSTANCES = 4
"""Of a service of so many the loss of more than half is held back too, not only that of all."""


def vanished(shown: Mapping[str, Instance], value: InstanceList) -> dict[str, Instance]:
    """What to go on showing when ``value`` takes the place of what is shown; nothing when the loss is believable.

    Judged by cause: a removal that was accepted or decided somewhere comes as a tombstone, and counts at once. What is
    missing without one comes from a load, an absence, a take-over, or a member that sends no versions.
    """
    expected = {key: one for key, one in shown.items() if key not in value.tombstones}
    lost = {key: one for key, one in expected.items() if key not in value.stored}
    halved = len(expected) >= GUARD_FROM_INSTANCES and 2 * len(lost) > len(expected)
    return lost if lost and (halved or len(lost) == len(expected)) else {}
