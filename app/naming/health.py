"""Beats that ran out: who fell silent becomes unhealthy, then goes. Only the responsible member judges."""

from collections.abc import Callable
from dataclasses import dataclass

from app.naming.events import Event, HealthChanged, InstancesChanged, Origin, ServiceChanged
from app.naming.model import Held, Service
from app.naming.registry import Registry

PAUSES_REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether and for which services this node may judge now."""

    may_judge: bool
    confirmed_ms: int
    """When a report to another member last got through; now, for a node without others."""
    responsible: Callable[[str], bool]
    forget_spent: bool = False
    """Nobody else is there to agree on what may be forgotten."""


class BeatCheck:
    """Scans the services this node wrote and is responsible for. One thread calls ``tick``."""

    def __init__(
        self,
        registry: Registry,
        publish: Callable[[Event], None],
        *,
        interval_ms: int = 1_000,
        pause_ms: int = 2_000,
        expire: bool = True,
    ) -> None:
        self._registry = registry
        self._publish = publish
        self._interval_ms = interval_ms
        self._pause_ms = pause_ms
        self._expire = expire
        self._expected_ms: int | None = None
        self._pauses: list[tuple[int, int]] = []

    def tick(self, now_ms: int, judgement: Callable[[], Judgement]) -> int:
        """Judge once; return when to come again. A late call gives every instance the delay (R9).

        ``judgement`` is asked after the delay was noticed, and may then refuse until a report got through.
        """
        self._notice_pause(now_ms)
        verdict = judgement()
        may_judge = verdict.may_judge and not (self._pauses and verdict.confirmed_ms < self._pauses[-1][0])
        for service in self._registry.services():
            if service.ghosts and self._registry.lay_ghosts(service, now_ms):
                self._publish(ServiceChanged(service.namespace, service.full_name))
            if service.tombstones:
                self._registry.prune_tombstones(service, now_ms)
            if verdict.forget_spent and not service.held and self._registry.is_spent(service.key, now_ms):
                self._registry.forget(service.key)
                self._publish(InstancesChanged(service.key, Origin.PEER))
            if (
                may_judge
                and service.held
                and service.version.writer == self._registry.writer
                and verdict.responsible(service.full_name)
            ):
                self._judge(service, now_ms)
        self._expected_ms = now_ms + self._interval_ms
        return self._expected_ms

    def _notice_pause(self, now_ms: int) -> None:
        if self._expected_ms is not None and now_ms - self._expected_ms > self._pause_ms:
            self._pauses.append((now_ms, now_ms - self._expected_ms))
            del self._pauses[:-PAUSES_REMEMBERED]

    def silent_ms(self, service: Service, held: Held, now_ms: int) -> int:
        """For how long nothing was heard of the instance, without the time in which nothing could be heard.

        A service taken over counts from its claim: its new owner was not the one that the beats went to.
        """
        since_ms = max(held.beat_ms, service.claimed_ms)
        paused_ms = sum(length for resumed_ms, length in self._pauses if since_ms < resumed_ms)
        return now_ms - since_ms - paused_ms

    def _judge(self, service: Service, now_ms: int) -> None:
        changed = False
        for key, held in list(service.held.items()):
            silent_ms = self.silent_ms(service, held, now_ms)
            if held.instance.marked or not held.instance.ephemeral:
                continue
            if silent_ms > held.delete_timeout_ms and self._expire:
                if self._registry.remove(service.namespace, service.full_name, key, now_ms, held.beat_ms):
                    self._publish(HealthChanged(service.key, key, "removed"))
                    changed = True
            elif (
                silent_ms > held.beat_timeout_ms
                and held.instance.healthy
                and self._registry.set_health(service, key, False, now_ms, held.beat_ms)
            ):
                self._publish(HealthChanged(service.key, key, "unhealthy"))
                changed = True
        if changed:
            self._publish(InstancesChanged(service.key, Origin.LOCAL))
