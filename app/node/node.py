"""Node: starts and stops the parts that ``wire_node`` makes, by the builders next to it."""

import logging
from dataclasses import asdict, dataclass
from functools import partial

from app.config.settings import Settings
from app.config.version import __version__
from app.dns.name_index import NameIndex
from app.http.api.call import Services
from app.machine.limits.node_limits import build_limits
from app.machine.process.data_lock import DataLock
from app.machine.process.load_bar import LISTS, RECORDS, shown_load
from app.machine.storage.private_files import make_private
from app.machine.tls.node_tls import build_tls
from app.metrics.audit_trail import NODE as BY_NODE
from app.metrics.instruments import Instruments
from app.naming.registry.registry import Registry
from app.node.background import build_background, build_checker, build_links, build_push, udp_subscribers
from app.node.domain import build_domain, build_registry
from app.node.frontends import build_frontends, count_engine
from app.node.node_engine import build_engine, make_engine
from app.node.node_parts import NODE, Background, Domain, Engine, NodeClock, NodeKinds
from app.node.wiring import pushed_here, subscribe
from app.replication.warm_start import WarmStart
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from distro.timing.clock import SystemClock

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeParts:
    """All parts of one node, wired to one another."""

    instruments: Instruments
    warm_start: WarmStart
    domain: Domain
    engine: Engine
    services: Services
    background: Background

    def take_members(self, members: tuple[str, ...], *, is_first: bool) -> None:
        """Have the engine take a member list. With the first one it begins to load from the others."""
        engine = self.engine
        engine.senders.take_list(members)
        if is_first:
            engine.cluster.attach(engine.runtime, members)
        else:
            engine.cluster.take_list(members)
        engine.reports.take_list(members)


def wire_node(settings: Settings, clock: NodeClock, kinds: NodeKinds = NODE) -> NodeParts:
    """Make all parts of a node. No thread runs yet, and no file or socket is open.

    The simulation makes its members by it, of other ``kinds`` and by a ``clock`` in virtual time.
    """
    instruments = Instruments.of(settings, clock.wall_ms)
    audit = instruments.audit
    limits, names = build_limits(settings), NameIndex() if settings.dns is not None else None
    registry = build_registry(settings, clock, limits, names, kinds)
    warm_start = WarmStart(registry.lists, registry.replication, clock.monotonic_ms, claims=settings.standalone)
    over_udp, over_grpc = udp_subscribers(limits), GrpcSubscriptions()
    is_pushed = pushed_here(over_udp, over_grpc)
    made = make_engine(settings, clock, registry.lists.writer, warm_start.fill, audit, is_pushed, kinds)
    domain = build_domain(settings, clock, limits, registry, names, made.reader, audit, kinds)
    push = build_push(domain, clock, over_udp)
    tls = build_tls(settings, clock.monotonic_ms)
    engine = build_engine(settings, clock, domain, made, tls, kinds)
    checker = build_checker(settings, domain, engine, clock)
    counters = count_engine(domain, engine)
    counters.add(instruments.counters)
    links = build_links(settings, clock, domain, engine, kinds.links)
    services, grpc = build_frontends(
        settings, clock, domain, engine, push, counters, instruments, checker, over_grpc, links
    )
    background = build_background(
        settings, clock, domain, engine, push, grpc, services.access.setup, checker, instruments, links, kinds
    )
    counters.add(partial(asdict, engine.tls.stats))
    counters.add(lambda: {"lists_held_back": registry.lists.held_back})
    counters.add(partial(asdict, domain.notify.stats))
    counters.add(domain.limits.counters)
    counters.add(links.counters)
    counters.add(lambda: count_identity(engine))
    counters.add(lambda: {"checks_unwritten": checker.unwritten, "checks_refused": checker.refused})
    counters.add(partial(asdict, background.machine.stats))
    counters.add(lambda: count_overrides(registry, background))
    subscribe(domain, engine, push, grpc, audit)
    return NodeParts(instruments, warm_start, domain, engine, services, background)


def count_overrides(registry: Registry, background: Background) -> dict[str, int]:
    """Return the counts of operators' changes of instances."""
    return {
        "overrides": registry.table.counts_held.overrides,
        "overrides_dropped": background.overrides.dropped,
    }


def count_identity(engine: Engine) -> dict[str, int]:
    """Return the counts of members' calls by their identity."""
    calls = {f"identity_{name}": count for name, count in asdict(engine.callers.stats).items()}
    return {**calls, "identity_learnt": engine.signer.learnt}


class Node:
    """One member of a cluster, or a node alone. ``start`` and ``stop`` once each."""

    def __init__(self, settings: Settings, clock: NodeClock | None = None) -> None:
        """``clock``: of registry, replication and users; sockets and their subscribers have the machine's."""
        clock = SystemClock() if clock is None else clock
        self.settings = settings
        self._clock = clock
        self._parts = parts = wire_node(settings, clock)
        self.domain, self.engine = parts.domain, parts.engine
        self.services, self.background = parts.services, parts.background
        self._lock = DataLock(settings.data_dir)
        self._has_members = self._is_running = False

    def start(self) -> None:
        """Take the data folder and start the threads.

        Raises:
            DataLockError: another node uses the folder.
        """
        settings, domain, engine = self.settings, self.domain, self.engine
        self._lock.acquire()
        make_private(settings.data_dir)
        audit = self._parts.instruments.audit
        audit.recall()
        audit.write("node.start", settings.self_address, after=__version__, actor=BY_NODE)
        self._is_running = True
        began_ms = self._clock.monotonic_ms()
        domain.record_file.open()
        count = domain.records.read_disk(partial(shown_load, name=RECORDS, wanted=settings.announce))
        if (setup := self.services.access.setup) is not None:
            setup.tick(self._clock.monotonic_ms())  # the file is there before the node serves
        versions = domain.records.versions()
        engine.remember(version.writer for version in versions.values())
        lists, now_ms = domain.registry.lists, self._clock.monotonic_ms()
        warm_start = self._parts.warm_start
        kept = domain.warm_store.load(
            settings.warm_age_ms_max, now_ms, lambda key, version: lists.version(key) == version
        )
        warm_start.read(shown_load(kept, LISTS, wanted=settings.announce))
        if settings.warm_age_ms_max:
            domain.warm_store.open()
        if engine.lookup is None:
            warm_start.fill(self._clock.monotonic_ms())
        else:
            engine.lookup.start(self._take_members)
        self.background.timer.start()
        self.background.push.start()
        took_s = (self._clock.monotonic_ms() - began_ms) / 1_000
        text = "member %s starts, %d durable records in %s, read in %.1f s"
        LOG.info(text, settings.self_address, count, settings.data_dir, took_s)

    def _take_members(self, members: tuple[str, ...]) -> None:
        """Take a member list; with the first one this node begins to load from the others."""
        is_first = not self._has_members
        self._parts.instruments.audit.on_members(members)
        self._has_members = True
        self._parts.take_members(members, is_first=is_first)
        if is_first:
            self.engine.runtime.start()

    def retire(self) -> None:
        """Begin the end: not ready, and if there is no time of grace, leave. For a signal's handler."""
        self.engine.cluster.retire()
        if not self.settings.leave_grace_ms:
            self.engine.cluster.leave()

    def catch_up(self, timeout_s: float) -> bool:
        """Have all done that is due by the clock, which was put forward; return whether that is done."""
        is_done = self.background.timer.catch_up(timeout_s)
        return is_done if not self._has_members else self.engine.runtime.catch_up(timeout_s) and is_done

    def stop(self, timeout_s: float = 8.0) -> bool:
        """Refuse writes, send pending changes, end the threads; return whether all ended in time. May be called
        twice."""
        engine, background = self.engine, self.background
        self._parts.warm_start.stop()
        if engine.lookup is not None:
            engine.lookup.close()
        engine.cluster.leave()
        self.services.drains.stop()
        ended = self.services.links.stop()
        ended = engine.runtime.stop(timeout_s) and ended
        ended = background.timer.stop(timeout_s) and ended
        background.checker.stop()
        background.overrides.stop()
        ended = background.push.stop(timeout_s) and ended
        self.services.forwarder.detach()
        engine.reports.close()
        engine.senders.close()
        if self._is_running:
            self._is_running = False
            self._parts.instruments.audit.write("node.stop", self.settings.self_address, actor=BY_NODE)
        self.domain.warm_store.close(self._clock.monotonic_ms())
        self.domain.record_file.close()
        ended = self._parts.instruments.stop(timeout_s) and ended
        self._lock.release()
        return ended
