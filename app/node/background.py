"""Builds the threads next to the engine: the timer with all periodic work, health checks and the UDP push."""

import hashlib
import logging
import random
import secrets
import sys
from functools import partial
from itertools import chain

from app.auth.setup_secret import SetupSecret
from app.background.check_targets import CheckTargets, MemberPorts
from app.background.health_checks import Checker
from app.background.override_upkeep import OverrideUpkeep
from app.background.push_udp import UdpPusher, payload_of
from app.background.timers import NamingTimer, Tick
from app.config.observability import JSON
from app.config.settings import Settings
from app.http.api.answers import refuses_beats
from app.links.node_links import LINKS, LinkKinds, NodeLinks
from app.machine.limits.node_limits import Limits
from app.machine.process.announce import announce, ready_text
from app.machine.process.machine_watch import MachineWatch
from app.metrics.audit_trail import AuditTrail
from app.metrics.day_history import DaySources
from app.metrics.instruments import Instruments
from app.naming.health.beat_check import HealthCheckGate
from app.naming.health.checks import Check, CheckBoard, CheckedCluster, checked_clusters
from app.naming.push.udp_subscribers import UdpSubscribers
from app.naming.records.override_expiry import ExpiryGate, OverrideExpiry
from app.naming.registry.foreign_table import ForeignTable
from app.node.node_parts import Background, Domain, Engine, NodeKinds
from app.replication.address_client_type import HTTP_CLIENTS
from app.replication.client_type import CLIENTS
from app.replication.instance_list_type import INSTANCE_LIST
from app.rpc.frontend import GrpcFrontend
from distro.model.ports import Clock
from distro.model.types import MemberState
from distro.protocol.engine_reader import EngineReader
from distro.timing.clock import SystemClock

LOG = logging.getLogger(__name__)


READY_CHECK_MS = 20


FOREVER_MS = 1 << 60

STATES_EVERY_MS = 1_000
"""Between two looks at the states of the other members."""


def udp_subscribers(limits: Limits) -> UdpSubscribers:
    """Make the table of subscribers over UDP. References are random, so that no acknowledgement can be guessed."""
    return UdpSubscribers(draw=lambda: secrets.randbits(32), tally=limits.subscribers)


def build_links(
    settings: Settings, clock: Clock, domain: Domain, engine: Engine, kinds: LinkKinds = LINKS
) -> NodeLinks:
    """Make the links to other clusters, and the feed for those that follow this one; no thread runs yet."""

    def own_cluster() -> str:
        if settings.links.cluster_id:
            return settings.links.cluster_id
        listed = ",".join(sorted(one.address for one in engine.cluster.members()))
        return f"members-{hashlib.blake2b(listed.encode(), digest_size=6).hexdigest()}"

    def part() -> tuple[int, int] | None:
        view = engine.reader.view
        mapper = view.mappers.own_kind
        if mapper.standalone:
            return 0, 1
        if not view.serving or mapper.self_address not in mapper.servers:
            return None
        return mapper.servers.index(mapper.self_address), len(mapper.servers)

    table, now_ms = domain.registry.table, clock.monotonic_ms
    feed = kinds.feed(table, domain.notify.subscribe, now_ms)
    foreign = ForeignTable(table)
    return NodeLinks(
        settings.links,
        feed,
        domain.foreign,
        foreign,
        clock,
        own_cluster,
        domain.writer,
        part,
        domain.durable.projection,
        kinds,
    )


def build_push(domain: Domain, clock: Clock, subscribers: UdpSubscribers) -> UdpPusher:
    """Make the UDP push."""
    return UdpPusher(
        subscribers,
        lambda one: payload_of(domain.naming, one, domain.durable.switches, clock.wall_ms()),
        SystemClock(),
        domain.on_pushed,
    )


def build_background(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    engine: Engine,
    push: UdpPusher,
    grpc: GrpcFrontend | None,
    setup: SetupSecret | None,
    checker: Checker,
    instruments: Instruments,
    links: NodeLinks,
    kinds: NodeKinds,
) -> Background:
    """Make the timer with all periodic work; no thread runs yet."""
    machine = MachineWatch(settings.data_dir, clock.wall_ms)
    upkeep = {
        INSTANCE_LIST: beat_checks(settings, clock, domain, engine, kinds),
        CLIENTS: engine.client_expiry.tick,
        HTTP_CLIENTS: engine.address_clients.tick,
    }
    overrides = override_upkeep(settings, clock, domain, engine)
    ticks: list[Tick] = [
        ready_line(settings, engine.reader),
        *upkeep.values(),
        checker.tick,
        overrides.tick,
        domain.warm_store.tick,
        engine.tls.watch.tick,
        domain.limits.memory.tick,
        domain.limits.answers.tick,
        machine.tick,
        domain.count_history.tick,
        links.tick,
        watch_states(engine, instruments.audit),
        partial(instruments.day.tick, day_sources(domain, engine, push, grpc, instruments)),
    ]
    if grpc is not None:
        ticks.append(grpc.limits.tick)
    if setup is not None:
        ticks.append(setup.tick)
    return Background(NamingTimer(clock, ticks), upkeep, checker, overrides, push, machine)


def build_checker(settings: Settings, domain: Domain, engine: Engine, clock: Clock) -> Checker:
    """Make the active health checks of persistent instances that this node is responsible for."""

    def clusters() -> list[CheckedCluster]:
        if not engine.reader.view.steady(clock.monotonic_ms()):
            return []
        return checked_clusters(domain.registry.table, engine.cluster.responsible_durable)

    def is_healthy(check: Check) -> bool | None:
        service = domain.registry.table.get(check.cluster.namespace, check.cluster.service)
        instance = service.persistent.get(check.instance_key) if service else None
        return instance.healthy if instance else None

    def on_flip(check: Check, healthy: bool) -> None:
        where, key = check.cluster, check.instance_key
        if domain.durable.set_health(where.namespace, where.service, key, healthy, by_check=True):
            LOG.debug("check: %s of %s is %s", key, where.service, "healthy" if healthy else "unhealthy")

    board = CheckBoard(random.randrange)
    targets = CheckTargets(
        settings.guards.check_allowed, MemberPorts(engine.cluster.members, engine.senders.is_listed).has
    )
    return Checker(board, clusters, is_healthy, on_flip, lambda: domain.durable.switches, clock, targets)


def override_upkeep(settings: Settings, clock: Clock, domain: Domain, engine: Engine) -> OverrideUpkeep:
    """Make the upkeep that ends operators' changes of instances that are gone."""
    reader, cluster = engine.reader, engine.cluster

    def gate() -> ExpiryGate:
        view = reader.view
        has_all = all(one.state is not MemberState.DOWN for one in view.members.listed)
        return ExpiryGate(view.steady(clock.monotonic_ms()), has_all, cluster.responsible_durable)

    expiry = OverrideExpiry(domain.registry.table, settings.override_expiry_ms)
    return OverrideUpkeep(expiry, domain.durable.overrides, gate, settings.distro.pause_ms)


def beat_checks(settings: Settings, clock: Clock, domain: Domain, engine: Engine, kinds: NodeKinds) -> Tick:
    """Return the tick that checks beats, with leave to check asked for in each round (R9)."""
    reader, cluster = engine.reader, engine.cluster
    registry = domain.registry
    check = kinds.beat_check(
        registry.table,
        domain.writer,
        registry.writes,
        registry.upkeep,
        domain.notify.publish,
        pause_ms=settings.distro.pause_ms,
        expire=settings.expire_instance,
        silence=domain.naming.silence,
    )

    def gate() -> HealthCheckGate:
        now_ms, view = clock.monotonic_ms(), reader.view
        members = view.members
        confirmed_ms = now_ms if settings.standalone else members.confirmed_ms
        may_check = view.steady(now_ms) and domain.durable.switches.health_check_enabled
        return HealthCheckGate(
            may_check,
            confirmed_ms,
            view.mapper.responsible,
            members.cut_off_since_ms(now_ms),
            members.returned_ms,
            settings.standalone,
            members.beats_known_ms(now_ms),
            cluster.refusals.last_ms(refuses_all=refuses_beats(cluster, domain.durable, settings.context_path)),
        )

    return lambda now_ms: check.tick(now_ms, gate)


def day_sources(
    domain: Domain, engine: Engine, push: UdpPusher, grpc: GrpcFrontend | None, instruments: Instruments
) -> DaySources:
    """Return what the charts of the last day are read from."""
    table, reader = domain.registry.table, engine.reader

    def pushes() -> int:
        over_udp = push.state(reset=False)[0].total
        return over_udp if grpc is None else over_udp + grpc.subscriptions.stats.sent

    return DaySources(
        table.services,
        lambda: table.totals()[1],
        (lambda: chain(instruments.http.read(), instruments.grpc.read())) if instruments.counts_requests else None,
        pushes,
        lambda: reader.view.peers,
        instruments.http.loop_lag,
    )


def watch_states(engine: Engine, audit: AuditTrail) -> Tick:
    """Return the tick that writes to the audit trail which members changed their state, as this one sees them."""
    cluster = engine.cluster

    def tick(now_ms: int) -> int:
        others = [one for one in cluster.members() if one.address != cluster.self_address]
        audit.on_states({one.address: one.state.value for one in others})
        return now_ms + STATES_EVERY_MS

    return tick


def ready_line(settings: Settings, reader: EngineReader) -> Tick:
    """Return the tick that prints the ready line once, when the node has loaded."""

    def tick(now_ms: int) -> int:
        if reader.view.loading:
            return now_ms + READY_CHECK_MS
        if settings.told.log_format == JSON:
            LOG.info("%s", ready_text(settings))
        elif settings.announce:
            sys.stdout.write(announce(settings) + "\n")
            sys.stdout.flush()
        return FOREVER_MS

    return tick
