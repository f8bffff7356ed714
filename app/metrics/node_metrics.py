"""A node's metrics: collectors that read plain counters on request, and the page for Prometheus."""

import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from app.background.push_udp import UdpPusher
from app.config.version import __version__
from app.members.membership import Membership
from app.metrics.catalogue import MEASURED_ELSEWHERE, PREFIX, info_of
from app.metrics.instruments import RequestStats
from app.metrics.nacos_metrics import nacos_collectors
from app.naming.clients.client_table import ClientCounts, ClientTable
from app.naming.push.udp_subscribers import UdpPushStats
from app.naming.registry.service_table import Counts
from app.naming.service import NamingService
from distro.model.monitor import EngineTimes, TimingCounts, Timings
from distro.model.types import Member, MemberState
from distro.protocol.engine_view import EngineView, PeerView

PAGE_MS = 1_000
"""How long a page is cached: counting 100,000 services takes 62 to 78 ms of a thread."""


class Sources(Protocol):
    """The source of the metrics' values. Each call may come from any thread."""

    def counters(self) -> Mapping[str, int | float]:
        """Return the counters of all parts, by their own names."""
        ...

    def counts(self) -> Counts:
        """Return the services and instances that readers see."""
        ...

    def client_counts(self) -> ClientCounts:
        """Return the clients of gRPC connections."""
        ...

    def udp(self) -> tuple[int, UdpPushStats]:
        """Return the number of UDP subscribers, and the counters of their pushes."""
        ...

    def members(self) -> Sequence[Member]:
        """Return all members, this node included."""
        ...

    def planned(self, member: Member) -> str:
        """Return why a member is out by plan; empty if it is not."""
        ...

    def peers(self) -> Mapping[str, PeerView]:
        """Return the pending work for each peer, and the peer's progress."""
        ...

    def unready_reason(self) -> str:
        """Return the reason why this node is not ready; empty while it is."""
        ...


@dataclass(frozen=True, slots=True)
class NodeSources:
    """The parts of a node as ``Sources``."""

    counters: Callable[[], Mapping[str, int | float]]
    naming: NamingService
    clients: ClientTable
    push: UdpPusher
    cluster: Membership
    view: Callable[[], EngineView]

    def counts(self) -> Counts:
        return self.naming.counts(self.cluster.responsible)

    def client_counts(self) -> ClientCounts:
        return self.clients.counts()

    def udp(self) -> tuple[int, UdpPushStats]:
        return self.push.subscriber_count, self.push.state(reset=False)[0]

    def members(self) -> Sequence[Member]:
        return self.cluster.members()

    def planned(self, member: Member) -> str:
        return self.cluster.planned(member)

    def peers(self) -> Mapping[str, PeerView]:
        return self.view().peers

    def unready_reason(self) -> str:
        return self.cluster.unready_reason()


class ReadOnce:
    """The values of ``Sources`` that several collectors show: each is read once for a page. One thread at a time."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.forget()

    def forget(self) -> None:
        """Begin another page."""
        sources = self._sources
        self.counters, self.counts = cache(sources.counters), cache(sources.counts)
        self.client_counts, self.udp = cache(sources.client_counts), cache(sources.udp)


@dataclass(frozen=True, slots=True)
class MetricParts:
    """The parts of a node from which its metrics are read."""

    sources: Sources
    times: EngineTimes
    http: RequestStats
    grpc: RequestStats
    data_dir: Path
    monotonic_ms: Callable[[], int]
    self_address: str
    dns_kinds: Callable[[], Sequence[tuple[str, str, int]]] | None = None
    """DNS answers by type and result, with their count; None without a DNS server."""


class NodeMetrics:
    """The page of a node's metrics. Thread-safe."""

    def __init__(self, parts: MetricParts) -> None:
        self._registry = CollectorRegistry()
        self._once = once = ReadOnce(parts.sources)
        for collector in (
            CounterCollector(once),
            RequestCollector(parts.http, parts.grpc),
            NamingCollector(once),
            ClusterCollector(parts),
            MachineCollector(parts.data_dir),
            *nacos_collectors(once, parts.http, parts.grpc),
        ):
            self._registry.register(collector)
        if parts.dns_kinds is not None:
            self._registry.register(DnsCollector(parts.dns_kinds))
        ProcessCollector(registry=self._registry)
        self._monotonic_ms = parts.monotonic_ms
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[int, bytes]] = {}
        """The last page by content type, and when it was made."""

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the page in the format that ``accept`` requests, and its content type. Not for the event loop."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            made_ms, page = self._pages.get(content_type, (0, b""))
            if not page or self._monotonic_ms() - made_ms >= PAGE_MS:
                self._once.forget()
                page = encode(self._registry)
                self._pages = {content_type: (self._monotonic_ms(), page)}
        return page, content_type

    def families(self) -> Iterator[Metric]:
        """Yield all metrics as they are now."""
        with self._lock:
            self._once.forget()
            found = list(self._registry.collect())
        yield from found


class CounterCollector(Collector):
    """The plain counters of all parts. One without an entry in the catalogue is shown under its own name."""

    def __init__(self, sources: ReadOnce) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for name, count in self._sources.counters().items():
            if name in MEASURED_ELSEWHERE:
                continue
            info = info_of(name)
            family = GaugeMetricFamily if info.is_gauge else CounterMetricFamily
            yield family(PREFIX + info.name, info.help, value=float(count) * info.scale)


class RequestCollector(Collector):
    """Requests of both frontends by route, method and status. A route without requests has no samples."""

    def __init__(self, http: RequestStats, grpc: RequestStats) -> None:
        self._http, self._grpc = http, grpc

    def collect(self) -> Iterator[Metric]:
        by_route = ["method", "route"]
        requests = CounterMetricFamily(
            f"{PREFIX}http_requests", "HTTP requests by route and status.", labels=[*by_route, "status"]
        )
        seconds = HistogramMetricFamily(
            f"{PREFIX}http_request_seconds", "From a request's last byte to its answer.", labels=by_route
        )
        for one in self._http.read():
            for status, count in sorted(one.statuses.items()):
                requests.add_metric([one.method, one.route, str(status)], count)
            add_timings(seconds, [one.method, one.route], one.timings)
        calls = CounterMetricFamily(
            f"{PREFIX}grpc_requests", "gRPC requests by type and code.", labels=["type", "code"]
        )
        call_seconds = HistogramMetricFamily(
            f"{PREFIX}grpc_request_seconds", "From a gRPC request to its answer.", labels=["type"]
        )
        for one in self._grpc.read():
            for status, count in sorted(one.statuses.items()):
                calls.add_metric([one.route, str(status)], count)
            add_timings(call_seconds, [one.route], one.timings)
        lag = HistogramMetricFamily(f"{PREFIX}loop_lag_seconds", "By how much the event loop was late with a timer.")
        add_timings(lag, [], self._http.loop_lag)
        yield from (requests, seconds, calls, call_seconds, lag)


class DnsCollector(Collector):
    """DNS answers by type and result."""

    def __init__(self, kinds: Callable[[], Sequence[tuple[str, str, int]]]) -> None:
        self._kinds = kinds

    def collect(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            f"{PREFIX}dns_answers", "DNS answers by type and result.", labels=["type", "result"]
        )
        for qtype, result, count in sorted(self._kinds()):
            answers.add_metric([qtype, result], count)
        yield answers


class NamingCollector(Collector):
    """Services, instances, clients, subscribers, and pushes over UDP."""

    def __init__(self, sources: ReadOnce) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        counts, clients = self._sources.counts(), self._sources.client_counts()
        for name, value, text in (
            ("services", counts.services, "Services that clients see."),
            ("instances", counts.instances, "Instances of these services."),
            ("unhealthy_instances", counts.unhealthy_instances, "Unhealthy instances, without disabled ones."),
            ("responsible_services", counts.responsible_services, "Services that this member is responsible for."),
            ("responsible_instances", counts.responsible_instances, "Instances of the services it is responsible for."),
            ("clients", clients.native, "gRPC clients that are connected here and publish or subscribe."),
            ("client_copies", clients.copies, "Copies of gRPC clients that are connected to other members."),
        ):
            yield GaugeMetricFamily(PREFIX + name, text, value=value)
        udp_count, udp = self._sources.udp()
        subscribers = GaugeMetricFamily(f"{PREFIX}subscribers", "Subscriptions to services.", labels=["over"])
        subscribers.add_metric(["udp"], udp_count)
        subscribers.add_metric(["grpc"], clients.subscriptions)
        yield subscribers
        pushes = CounterMetricFamily(
            f"{PREFIX}udp_pushes", "Pushes over UDP by result; sent counts all.", labels=["result"]
        )
        for result, count in (
            ("sent", udp.total),
            ("acknowledged", udp.succeeded),
            ("failed", udp.failed),
            ("too_large", udp.too_large),
            ("unsent", udp.unsent),
            ("overrun", udp.overrun),
            ("refused", udp.refused),
        ):
            pushes.add_metric([result], count)
        yield pushes


class ClusterCollector(Collector):
    """The states of members, sends to each peer, and the turns of the engine."""

    def __init__(self, parts: MetricParts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        sources = self._parts.sources
        reason = sources.unready_reason()
        yield GaugeMetricFamily(f"{PREFIX}ready", "1 while this node serves clients.", value=float(not reason))
        state = GaugeMetricFamily(
            f"{PREFIX}member_state", "1 for the state of a member as this node sees it.", labels=["member", "state"]
        )
        for member in sources.members():
            for one in MemberState:
                state.add_metric([member.address, one.value], float(member.state is one))
        yield state
        planned = GaugeMetricFamily(
            f"{PREFIX}member_planned_state",
            "1 for a member that is out by plan, as it was drained or left in order; 0 for any other.",
            labels=["member"],
        )
        for member in sources.members():
            planned.add_metric([member.address], float(bool(sources.planned(member))))
        yield planned
        yield from self._peers()
        yield from self._traces()
        yield from self._engine()

    def _engine(self) -> Iterator[Metric]:
        times = self._parts.times
        turns = HistogramMetricFamily(f"{PREFIX}engine_turn_seconds", "Turns of the thread that owns the protocol.")
        add_timings(turns, [], times.turns)
        yield turns
        yield GaugeMetricFamily(
            f"{PREFIX}engine_turn_max_seconds", "The longest turn of that thread since the start.", times.turn_max_s
        )
        actions = HistogramMetricFamily(
            f"{PREFIX}engine_action_seconds", "Work on the engine's second thread, by kind.", labels=["action"]
        )
        for name, timings in sorted(times.actions.copy().items()):
            add_timings(actions, [name], timings)
        yield actions

    def _peers(self) -> Iterator[Metric]:
        sends = CounterMetricFamily(f"{PREFIX}peer_sends", "Sends to a member.", labels=["peer", "result"])
        keys = CounterMetricFamily(f"{PREFIX}peer_delivered_keys", "Keys that a member took.", labels=["peer"])
        sent = CounterMetricFamily(
            f"{PREFIX}peer_sent_bytes", "Bytes of bodies that were sent to a member over HTTP.", labels=["peer"]
        )
        age = GaugeMetricFamily(
            f"{PREFIX}peer_delivery_age_seconds", "Time since a member took the last send.", labels=["peer"]
        )
        pending = GaugeMetricFamily(
            f"{PREFIX}peer_pending_keys", "Keys that wait to be sent to a member.", labels=["peer"]
        )
        now_ms = self._parts.monotonic_ms()
        for peer, stats in sorted(dict(self._parts.times.peers).items()):
            sends.add_metric([peer, "delivered"], stats.delivered)
            sends.add_metric([peer, "failed"], stats.failed)
            keys.add_metric([peer], stats.keys)
            sent.add_metric([peer], stats.bytes)
            if stats.delivered_ms is not None:
                age.add_metric([peer], max(now_ms - stats.delivered_ms, 0) / 1_000)
        for address, peer_view in self._parts.sources.peers().items():
            pending.add_metric([address], peer_view.to_send + peer_view.in_flight)
        yield from (sends, keys, sent, age, pending)

    def _traces(self) -> Iterator[Metric]:
        applied = HistogramMetricFamily(
            f"{PREFIX}peer_convergence_seconds", "From a change made here to a member's applying it.", labels=["peer"]
        )
        pushed = HistogramMetricFamily(
            f"{PREFIX}peer_pushed_seconds",
            "From a change made here to a member's first push of it to subscribers there.",
            labels=["peer"],
        )
        age = GaugeMetricFamily(
            f"{PREFIX}peer_unapplied_age_seconds",
            "Age of the oldest change that a member lacks, 0 without any; those of a member that is DOWN do not count.",
            labels=["peer"],
        )
        unapplied = GaugeMetricFamily(
            f"{PREFIX}peer_unapplied_keys", "Keys with a change that a member lacks.", labels=["peer"]
        )
        now_s = self._parts.monotonic_ms() / 1_000
        for address, peer in sorted(self._parts.sources.peers().items()):
            age.add_metric([address], max(now_s - peer.oldest.at_s, 0.0) if peer.oldest else 0.0)
            unapplied.add_metric([address], peer.unapplied)
            add_timings(applied, [address], peer.applied)
            add_timings(pushed, [address], peer.pushed)
        yield from (age, unapplied, applied, pushed)


class MachineCollector(Collector):
    """The build, and the disk under the data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily(f"{PREFIX}build_info", "1, by release and Python.", labels=["version", "python"])
        build.add_metric([__version__, platform.python_version()], 1)
        yield build
        free = GaugeMetricFamily(f"{PREFIX}data_free_bytes", "Bytes that this node may still write to its data folder.")
        size = GaugeMetricFamily(f"{PREFIX}data_size_bytes", "Bytes of the file system of the data folder.")
        try:
            disk = os.statvfs(self._data_dir)
        except OSError:
            pass  # a missing folder has no numbers: an alert fires on their absence
        else:
            free.add_metric([], disk.f_bavail * disk.f_frsize)
            size.add_metric([], disk.f_blocks * disk.f_frsize)
        yield from (free, size)


def add_timings(family: HistogramMetricFamily, labels: Sequence[str], timings: Timings | TimingCounts) -> None:
    """Add a histogram, whose buckets each count all durations up to their bound."""
    total, buckets = 0, list[tuple[str, Any]]()
    counts = list(timings.counts)
    for bound, count in zip((*timings.bounds_s, None), counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else repr(bound), total))
    family.add_metric(labels, buckets, timings.sum_s)
