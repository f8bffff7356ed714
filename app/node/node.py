"""Node: starts and stops the parts that the builders beside it make."""

import logging
from dataclasses import asdict
from functools import partial

from app.config.settings import Settings
from app.dns.name_index import NameIndex
from app.machine.limits.node_limits import build_limits
from app.machine.process.data_lock import DataLock
from app.machine.storage.private_files import make_private
from app.machine.tls.node_tls import build_tls
from app.metrics.instruments import Instruments
from app.node.background import build_background, build_checker, build_push, udp_subscribers
from app.node.domain import build_domain, build_registry
from app.node.frontends import build_frontends, count_engine
from app.node.node_engine import build_engine, make_engine
from app.node.node_parts import NodeClock
from app.node.wiring import pushed_here, subscribe
from app.replication.warm_start import WarmStart
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from distro.timing.clock import SystemClock

LOG = logging.getLogger(__name__)


class Node:
    """One member of a cluster, or a node alone. ``start`` and ``stop`` once each."""

    def __init__(self, settings: Settings, clock: NodeClock | None = None) -> None:
        """``clock``: of registry, replication and users; sockets and those who subscribe at them have the machine's."""
        clock = SystemClock() if clock is None else clock
        self.settings = settings
        self._clock = clock
        self._instruments = instruments = Instruments.of(settings, clock.wall_ms)
        audit = instruments.audit
        limits, names = build_limits(settings), NameIndex() if settings.dns is not None else None
        registry = build_registry(settings, clock, limits, names)
        self._warm_start = WarmStart(registry.lists, registry.replication, claims=settings.standalone)
        over_udp, over_grpc = udp_subscribers(limits), GrpcSubscriptions()
        is_pushed = pushed_here(over_udp, over_grpc)
        made = make_engine(settings, clock, registry.lists.writer, self._warm_start.fill, audit, is_pushed)
        self.domain = domain = build_domain(settings, clock, limits, registry, names, made.reader, audit)
        push = build_push(domain, clock, over_udp)
        tls = build_tls(settings, clock.monotonic_ms)
        self.engine = engine = build_engine(settings, clock, domain, made, tls)
        checker = build_checker(settings, domain, engine, clock)
        counters = count_engine(domain, engine)
        counters.add(instruments.counters)
        self.services, grpc = build_frontends(
            settings, clock, domain, engine, push, counters, instruments, checker, over_grpc
        )
        setup = self.services.access.setup
        self.background = build_background(settings, clock, domain, engine, push, grpc, setup, checker)
        counters.add(partial(asdict, engine.tls.stats))
        counters.add(lambda: {"lists_held_back": registry.lists.held_back})
        counters.add(partial(asdict, domain.notify.stats))
        counters.add(domain.limits.counters)
        counters.add(self._identity_counters)
        counters.add(lambda: {"checks_unwritten": checker.unwritten, "checks_refused": checker.refused})
        counters.add(partial(asdict, self.background.machine.stats))
        subscribe(domain, engine, push, grpc, audit)
        self._lock = DataLock(settings.data_dir)
        self._has_members = False

    def _identity_counters(self) -> dict[str, int]:
        calls = {f"identity_{name}": count for name, count in asdict(self.engine.callers.stats).items()}
        return {**calls, "identity_learnt": self.engine.signer.learnt}

    def start(self) -> None:
        """Take the data folder and start the threads.

        Raises:
            DataLockError: another node uses the folder.
        """
        settings, domain, engine = self.settings, self.domain, self.engine
        self._lock.acquire()
        make_private(settings.data_dir)
        domain.record_file.open()
        count = domain.records.read_disk()
        if (setup := self.services.access.setup) is not None:
            setup.tick(self._clock.monotonic_ms())  # the file is there before the node serves
        versions = domain.records.versions()
        engine.remember(version.writer for version in versions.values())
        lists, now_ms = domain.registry.lists, self._clock.monotonic_ms()
        self._warm_start.read(
            domain.warm_store.load(settings.warm_age_ms_max, now_ms, lambda key, version: lists.version(key) == version)
        )
        if settings.warm_age_ms_max:
            domain.warm_store.open()
        if engine.lookup is None:
            self._warm_start.fill(self._clock.monotonic_ms())
        else:
            engine.lookup.start(self._take_members)
        self.background.timer.start()
        self.background.push.start()
        LOG.info("member %s starts, %d durable records in %s", settings.self_address, count, settings.data_dir)

    def _take_members(self, members: tuple[str, ...]) -> None:
        """Take a member list; with the first one this node begins to load from the others."""
        engine, is_first = self.engine, not self._has_members
        self._instruments.audit.on_members(members)
        self._has_members = True
        engine.senders.take_list(members)
        if is_first:
            engine.cluster.attach(engine.runtime, members)
        else:
            engine.cluster.take_list(members)
        engine.reports.take_list(members)
        if is_first:
            engine.runtime.start()

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
        """Refuse writes, send what is due, end the threads; return whether all ended in time. May be called twice."""
        engine, background = self.engine, self.background
        self._warm_start.stop()
        if engine.lookup is not None:
            engine.lookup.close()
        engine.cluster.leave()
        self.services.drains.stop()
        ended = engine.runtime.stop(timeout_s)
        ended = background.timer.stop(timeout_s) and ended
        background.checker.stop()
        ended = background.push.stop(timeout_s) and ended
        self.services.forwarder.detach()
        engine.reports.close()
        engine.senders.close()
        self.domain.warm_store.close(self._clock.monotonic_ms())
        self.domain.record_file.close()
        ended = self._instruments.stop(timeout_s) and ended
        self._lock.release()
        return ended
