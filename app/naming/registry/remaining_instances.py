"""The healthy instances of a service that remain when some are taken out of service, and the stop of the operator."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import TooFewRemain


class Candidate(NamedTuple):
    """One instance, as far as the choice of clients depends on it."""

    key: tuple[str, int, str]
    """IP, port, cluster."""
    healthy: bool
    enabled: bool
    weight: float

    @property
    def serves(self) -> bool:
        """Return whether clients call it."""
        return self.healthy and self.enabled and self.weight > 0


@dataclass(frozen=True, slots=True)
class Remaining:
    """A service before and after some of its instances are taken out of service."""

    total: int
    """All instances, in any state: the protect threshold is a part of these."""
    serving: int
    """Instances that clients call now: healthy, enabled, with a weight above 0."""
    remaining: int
    """Instances among them that stay."""
    threshold: float

    @property
    def is_refused(self) -> bool:
        """Return whether too few remain: none, or too few, so that clients get unhealthy instances, too.

        Taking out instances that serve no clients changes nothing, and is never refused.
        """
        if self.remaining == self.serving:
            return False
        return self.remaining == 0 or self.remaining / self.total <= self.threshold

    def check(self) -> None:
        """Refuse the change if too few remain.

        Raises:
            TooFewRemain: with the numbers.
        """
        if self.is_refused:
            why = "clients would get unhealthy ones, too" if self.remaining else "clients would get an empty list"
            raise TooFewRemain(
                f"nothing was changed: {self.remaining} of {self.serving} healthy instances in service would remain, "
                f"protect threshold {self.threshold:g}: {why}"
            )


def remaining_of(view: ServiceView, leaving: Iterable[Instance]) -> Remaining:
    """Return the state of a service as readers see it, without the instances that are ``leaving``."""
    candidates = (Candidate(_key(one), one.healthy, one.enabled, one.weight) for one in view.instances)
    return remaining_without(candidates, view.meta.protect_threshold, map(_key, leaving))


def _key(one: Instance) -> tuple[str, int, str]:
    return one.ip, one.port, one.cluster_name


def remaining_without(
    instances: Iterable[Candidate], threshold: float, leaving: Iterable[tuple[str, int, str]]
) -> Remaining:
    """Return the state of a service without the instances that are ``leaving``; unknown ones are ignored."""
    gone, listed = set(leaving), list(instances)
    serving = [one for one in listed if one.serves]
    return Remaining(len(listed), len(serving), sum(one.key not in gone for one in serving), threshold)
