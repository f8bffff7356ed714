"""The metrics that dashboards of Nacos draw, under Nacos's names, read from the counters that the node has anyway.

Source: Nacos 2.4.3 MetricsMonitor of naming, core and config, Spring Boot's actuator, and the boards of
nacos-group/nacos-template. A metric of something that this node does not have, such as configurations, is 0.
"""

import gc
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from app.metrics.instruments import NO_ROUTE, RequestStats, RouteCounts
from app.naming.clients.client_table import ClientCounts
from app.naming.push.udp_subscribers import UdpPushStats
from app.naming.registry.service_table import Counts

CONFIG_URI = "/v1/cs/configs"
"""A board divides the times of this path's calls by their number: it always has samples."""
UNKNOWN_URI = "UNKNOWN"
NO_COST = -1
"""The cost of pushes before the first one, as in Nacos."""
SUCCESS = 200
OUTCOMES = {1: "INFORMATIONAL", 2: "SUCCESS", 3: "REDIRECTION", 4: "CLIENT_ERROR", 5: "SERVER_ERROR"}
CONFIG_GAUGES = ("configCount", "longPolling", "getConfig", "publish", "notifyTask", "notifyClientTask", "dumpTask")
CONFIG_EXCEPTIONS = ("configNotify", "db", "unhealth")
NAMING_EXCEPTIONS = ("disk", "leaderSendBeatFailed")
MAJOR = 2
"""The oldest generation of Python's garbage collector."""


class NacosSources(Protocol):
    """The source of the values. Each call may come from any thread."""

    def counters(self) -> Mapping[str, int | float]: ...
    def counts(self) -> Counts: ...
    def client_counts(self) -> ClientCounts: ...
    def udp(self) -> tuple[int, UdpPushStats]: ...


class NacosCollector(Collector):
    """``nacos_monitor`` and the other families of Nacos's own, for the modules naming, core and config."""

    def __init__(self, sources: NacosSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        counters, counts, clients = self._sources.counters(), self._sources.counts(), self._sources.client_counts()
        udp_count, udp = self._sources.udp()
        monitor = GaugeMetricFamily("nacos_monitor", "Nacos's own gauges, by module.", labels=["module", "name"])
        latencies = list(udp.latencies_ms)
        pushed = {name: int(counters.get(f"rpc_pushes_{name}", 0)) for name in ("sent", "acknowledged", "refused")}
        timed_out = int(counters.get("rpc_pushes_timed_out", 0))
        pending = pushed["sent"] - pushed["acknowledged"] - pushed["refused"] - timed_out
        naming = {
            "serviceCount": counts.services,
            "domCount": counts.services,
            "ipCount": counts.instances,
            "subscriberCount": udp_count + clients.subscriptions,
            "totalPush": udp.total + pushed["sent"],
            "failedPush": udp.failed + pushed["refused"] + timed_out,
            "pushPendingTaskCount": max(pending, 0),
            "avgPushCost": sum(latencies) / len(latencies) if latencies else NO_COST,
            "maxPushCost": max(latencies, default=NO_COST),
            "leaderStatus": 0,
            "tcpHealthCheck": 0,
            "httpHealthCheck": 0,
            "mysqlHealthCheck": 0,
        }
        core = {"longConnection": counters.get("rpc_sdk_connections", 0)}
        for module, gauges in (("naming", naming), ("core", core), ("config", dict.fromkeys(CONFIG_GAUGES, 0))):
            for name, value in gauges.items():
                monitor.add_metric([module, name], value)
        yield monitor
        for family, numbers in (
            ("nacos_naming_subscriber", {"v1": udp_count, "v2": clients.subscriptions}),
            ("nacos_config_subscriber", {"v1": 0, "v2": 0}),
        ):
            subscribers = GaugeMetricFamily(family, "Subscriptions by the kind of client.", labels=["version"])
            for version, number in numbers.items():
                subscribers.add_metric([version], number)
            yield subscribers
        timer = SummaryMetricFamily(
            "nacos_timer_seconds", "Notifications of configurations.", labels=["module", "name"]
        )
        timer.add_metric(["config", "notifyRt"], 0, 0.0)
        yield timer


class NacosRequestCollector(Collector):
    """Requests as Spring's actuator and Nacos's gRPC server count them, refused ones also as exceptions.

    The time of a route is shared out to its statuses by their numbers.
    """

    def __init__(self, http: RequestStats, grpc: RequestStats) -> None:
        self._http, self._grpc = http, grpc

    def collect(self) -> Iterator[Metric]:
        requests = SummaryMetricFamily(
            "http_server_requests_seconds",
            "HTTP requests by path, method and status.",
            labels=["exception", "method", "outcome", "status", "uri"],
        )
        refused = failed = 0
        has_config = False
        for one in self._http.read():
            uri = UNKNOWN_URI if one.route == NO_ROUTE else one.route
            has_config = has_config or uri == CONFIG_URI
            for status, count, taken_s in _by_status(one):
                outcome = OUTCOMES.get(status // 100, "UNKNOWN")
                requests.add_metric(["None", one.method, outcome, str(status), uri], count, taken_s)
                refused += count if status // 100 == 4 else 0
                failed += count if status // 100 == 5 else 0
        if not has_config:
            requests.add_metric(["None", "GET", "SUCCESS", str(SUCCESS), CONFIG_URI], 0, 0.0)
        yield requests
        yield from self._calls()
        exceptions = CounterMetricFamily("nacos_exception", "Failures by module and kind.", labels=["module", "name"])
        exceptions.add_metric(["config", "illegalArgument"], refused)
        exceptions.add_metric(["config", "nacos"], failed)
        for module, names in (("config", CONFIG_EXCEPTIONS), ("naming", NAMING_EXCEPTIONS)):
            for name in names:
                exceptions.add_metric([module, name], 0)
        yield exceptions

    def _calls(self) -> Iterator[Metric]:
        calls = SummaryMetricFamily(
            "grpc_server_requests_seconds",
            "gRPC requests by type and code.",
            labels=["errorCode", "module", "requestClass", "success", "throwableClass"],
        )
        total = 0
        for one in self._grpc.read():
            for code, count, taken_s in _by_status(one):
                success = "true" if code == SUCCESS else "false"
                calls.add_metric([str(code), "naming", one.route, success, "None"], count, taken_s)
                total += count
        if not total:
            calls.add_metric([str(SUCCESS), "naming", "HealthCheckRequest", "true", "None"], 0, 0.0)
        yield calls
        executor = GaugeMetricFamily(
            "grpc_server_executor", "The event loop as an executor of one thread.", labels=["module", "name", "type"]
        )
        sizes = {"activeCount": 0, "poolSize": 1, "corePoolSize": 1, "maximumPoolSize": 1, "inQueueTaskCount": 0}
        for name, value in (sizes | {"taskCount": total, "completedTaskCount": total}).items():
            executor.add_metric(["core", name, "grpcSdkServer"], value)
        yield executor


def _by_status(one: RouteCounts) -> Iterator[tuple[int, int, float]]:
    """Yield each status of a route with its number of answers and its share of their seconds."""
    total = sum(one.statuses.values())
    for status, count in sorted(one.statuses.items()):
        yield status, count, one.timings.sum_s * count / total


class JavaCollector(Collector):
    """The machine and this process under the names that the actuator has for them and for a Java machine."""

    def __init__(self, sources: NacosSources) -> None:
        self._sources = sources
        self._seen = _cpu_times()

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("system_load_average_1m", "Load of the machine.", value=os.getloadavg()[0])
        before, self._seen = self._seen, _cpu_times()
        total = self._seen[1] - before[1]
        busy = (self._seen[0] - before[0]) / total if total > 0 else 0.0
        yield GaugeMetricFamily("system_cpu_usage", "Used share of the machine's CPU time since the last page.", busy)
        yield GaugeMetricFamily("system_cpu_count", "CPUs of the machine.", value=os.cpu_count() or 1)
        daemons = sum(one.daemon for one in threading.enumerate())
        yield GaugeMetricFamily("jvm_threads_daemon_threads", "Daemon threads of this process.", value=daemons)
        bound = self._sources.counters().get("limit_memory_bound_bytes", 0) or _machine_bytes()
        for name, text, value in (
            ("jvm_memory_used_bytes", "Memory of this process.", _resident_bytes()),
            ("jvm_memory_max_bytes", "The limit of this process's memory, or that of the machine.", bound),
        ):
            memory = GaugeMetricFamily(name, text, labels=["area", "id"])
            memory.add_metric(["heap", "process"], value)
            yield memory
        pauses = Metric(
            "jvm_gc_pause_seconds", "Runs of Python's garbage collector, whose time is not known.", "summary"
        )
        runs = [generation["collections"] for generation in gc.get_stats()]
        for action, count in (("end of minor GC", sum(runs[:MAJOR])), ("end of major GC", sum(runs[MAJOR:]))):
            pauses.add_sample("jvm_gc_pause_seconds_count", {"action": action, "cause": "Allocation"}, count)
        yield pauses


def _cpu_times() -> tuple[float, float]:
    """Return the machine's busy CPU time and all of it, in ticks; zeros if unknown."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(text) for text in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0.0, 0.0
    idle = sum(ticks[3:5])
    return float(sum(ticks) - idle), float(sum(ticks))


def _resident_bytes() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return float(file.readline().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0.0


def _machine_bytes() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def nacos_collectors(sources: NacosSources, http: RequestStats, grpc: RequestStats) -> tuple[Any, ...]:
    """Return the collectors of all these metrics."""
    return NacosCollector(sources), NacosRequestCollector(http, grpc), JavaCollector(sources)
