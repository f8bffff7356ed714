"""Active checks of persistent instances: which are due, and when consecutive results change an instance's health.

Pure: time and clusters come in, checks go out. Each cluster of a service has a plan; its next round comes after the
normalised time of its last checks, so that slow clusters are checked less often. Source: Nacos 1.4.1 HealthCheckCommon.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from app.naming.model.meta import DEFAULT_CLUSTER_CONFIG, NO_META, ClusterConfig, HealthChecker
from app.naming.model.model import Instance
from app.naming.model.switches import CheckParams, SwitchDomain
from app.naming.registry.service_table import ServiceTable

FIRST_DELAY_MS = 2_000
FIRST_SPREAD_MS = 5_000
"""Source of both: Nacos 1.4.1 HealthCheckTask."""


class CheckResult(enum.Enum):
    """The outcome of one check."""

    OK = "ok"
    FAILED = "failed"
    """No answer in time, or an unexpected one: it may be load."""
    REFUSED = "refused"
    """No process listens on the port: certain at once."""


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """A cluster of a service. ``service`` is the full name."""

    namespace: str
    service: str
    cluster: str


@dataclass(frozen=True, slots=True)
class CheckedCluster:
    """A cluster with its settings and its persistent instances."""

    key: ClusterKey
    config: ClusterConfig
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One check to make: connect, and for HTTP send a request."""

    cluster: ClusterKey
    instance_key: str
    ip: str
    port: int
    checker: HealthChecker


@dataclass(frozen=True, slots=True)
class LastCheck:
    """The result of the last check of an instance. ``at_ms``: monotonic."""

    result: CheckResult
    took_ms: int
    at_ms: int
    in_a_row: int
    """The number of consecutive results of that kind, this one included; negative for bad ones."""


@dataclass(slots=True)
class _Plan:
    due_ms: int
    normalised_ms: int
    pending: int = 0
    in_a_row: dict[str, int] = field(default_factory=dict)
    """Counts by instance key: consecutive results, positive for good ones and negative for bad ones."""
    last: dict[str, "LastCheck"] = field(default_factory=dict)

    def end_check(self, now_ms: int) -> None:
        """Count a check of the round as over. The last one sets the time of the next round."""
        self.pending = max(self.pending - 1, 0)
        if self.pending == 0:
            self.due_ms = now_ms + self.normalised_ms


class CheckBoard:
    """The plans of active checks, by cluster. Not thread-safe: its owner serialises the calls."""

    def __init__(self, spread_ms: Callable[[int], int]) -> None:
        """``spread_ms(bound)`` returns a random number below the bound, so that first checks are spread."""
        self._spread_ms = spread_ms
        self._plans: dict[ClusterKey, _Plan] = {}

    def tick(self, clusters: Iterable[CheckedCluster], now_ms: int, switches: SwitchDomain) -> list[Check]:
        """Return the checks that are due. Plans of clusters that are no longer among ``clusters`` are dropped."""
        seen: dict[ClusterKey, _Plan] = {}
        due: list[Check] = []
        for cluster in clusters:
            if cluster.config.checker.kind not in ("TCP", "HTTP") or not cluster.instances:
                continue
            plan = self._plans.get(cluster.key)
            if plan is None:
                wait_ms = FIRST_DELAY_MS + self._spread_ms(FIRST_SPREAD_MS)
                plan = _Plan(now_ms + wait_ms, wait_ms)
            seen[cluster.key] = plan
            if plan.pending or plan.due_ms > now_ms or not switches.health_check_enabled:
                continue
            checks = _checks_of(cluster)
            plan.pending = len(checks)
            stored = {one.instance_key for one in checks}
            plan.in_a_row = {key: count for key, count in plan.in_a_row.items() if key in stored}
            plan.last = {key: one for key, one in plan.last.items() if key in stored}
            due.extend(checks)
        self._plans = seen
        return due

    def on_result(
        self, check: Check, result: CheckResult, took_ms: int, healthy: bool, now_ms: int, switches: SwitchDomain
    ) -> bool:
        """Count a result. Return whether the instance's health, which is ``healthy`` now, is to change."""
        plan = self._plans.get(check.cluster)
        if plan is None:
            return False
        params = switches.http_health_params if check.checker.kind == "HTTP" else switches.tcp_health_params
        plan.normalised_ms = _normalise(plan.normalised_ms, took_ms, params)
        plan.end_check(now_ms)
        good = result is CheckResult.OK
        last = plan.in_a_row.get(check.instance_key, 0)
        count = (max(last, 0) + 1) if good else (min(last, 0) - 1)
        plan.in_a_row[check.instance_key] = count
        plan.last[check.instance_key] = LastCheck(result, took_ms, now_ms, count)
        certain = result is CheckResult.REFUSED or abs(count) >= switches.check_times
        if good == healthy or not certain:
            return False
        plan.in_a_row[check.instance_key] = 0
        return True

    def last(self, cluster: ClusterKey, instance_key: str) -> LastCheck | None:
        """Return the last result of an instance's check; None if this member has made none."""
        plan = self._plans.get(cluster)
        return plan.last.get(instance_key) if plan is not None else None

    def abandon(self, check: Check, now_ms: int) -> None:
        """Count a check that was not made because too many are running. Its cluster's next round comes as planned."""
        plan = self._plans.get(check.cluster)
        if plan is not None:
            plan.end_check(now_ms)


def checked_clusters(table: ServiceTable, responsible: Callable[[str], bool]) -> list[CheckedCluster]:
    """Return the clusters with persistent instances, of the services that this member is responsible for."""
    found: list[CheckedCluster] = []
    for service in table.durable_services():
        if not responsible(service.full_name):
            continue
        by_cluster: dict[str, list[Instance]] = {}
        for instance in service.persistent.copy().values():
            by_cluster.setdefault(instance.cluster_name, []).append(instance)
        configs = (service.meta or NO_META).clusters
        for name, instances in by_cluster.items():
            key = ClusterKey(service.namespace, service.full_name, name)
            found.append(CheckedCluster(key, configs.get(name, DEFAULT_CLUSTER_CONFIG), tuple(instances)))
    return found


def _checks_of(cluster: CheckedCluster) -> list[Check]:
    config = cluster.config
    return [
        Check(cluster.key, one.key, one.ip, one.port if config.use_instance_port else config.check_port, config.checker)
        for one in cluster.instances
        if not one.marked
    ]


def _normalise(old_ms: int, took_ms: int, params: CheckParams) -> int:
    """Return the wait until the next round: a moving average of the checks' time, between minimum and maximum."""
    mixed = params.factor * old_ms + (1 - params.factor) * took_ms
    return int(min(max(mixed, params.min), params.max))
