"""The ways in which a member may depart from the others on a list of two instances, by the class of the finding."""

from collections.abc import Callable
from typing import Any

ONE, TWO, EXTRA = "10.7.0.1", "10.7.0.2", "10.66.0.1"
Instances = list[dict[str, Any]]


def lacking(instances: Instances) -> None:
    instances.pop()


def having_more(instances: Instances) -> None:
    instances.append({**instances[0], "ip": EXTRA, "instanceId": EXTRA})


def having(**changes: Any) -> Callable[[Instances], None]:
    def depart(instances: Instances) -> None:
        _change(instances[0], changes)

    return depart


def having_of_before(**changes: Any) -> Callable[[Instances], None]:
    """Another state of an instance, in a version of before its last change."""

    def depart(instances: Instances) -> None:
        epoch, _, writer = instances[0]["version"].split(".", 2)
        before = f"{int(epoch) - 1}.0.{writer}"
        _change(instances[0], {"version": before, "said": before, **changes})

    return depart


def _change(instance: dict[str, Any], changes: dict[str, Any]) -> None:
    """Change values; metadata are added: its own keep an instance alive whose beats a busy member misses."""
    instance.update(changes, metadata=instance["metadata"] | changes.get("metadata", {}))


DEPARTURES: list[tuple[str, Callable[[Instances], None]]] = [
    ("MISSING", lacking),
    ("EXTRA", having_more),
    ("SILENT_CORRUPTION", having(healthy=False)),
    ("SILENT_CORRUPTION", having(weight=7.0)),
    ("SILENT_CORRUPTION", having(enabled=False)),
    ("SILENT_CORRUPTION", having(metadata={"forged": "yes"})),
    ("HEALTH", having_of_before(healthy=False)),
    ("WEIGHT", having_of_before(weight=7.0)),
    ("ENABLED", having_of_before(enabled=False)),
    ("METADATA", having_of_before(metadata={"forged": "yes"})),
    ("BEHIND", having_of_before()),
]
