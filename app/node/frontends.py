"""Builds the frontends of a node, and their shared parts: access, writes, forwarding, metrics, operators' questions."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from app.auth.access_control import AccessControl
from app.auth.setup_secret import SetupSecret
from app.background.health_checks import Checker
from app.background.push_udp import UdpPusher
from app.commands.member_writes import MemberWrites
from app.commands.record_writes import RecordWrites
from app.commands.writes import Writes
from app.config.addresses import split_address
from app.config.settings import Settings
from app.dns.dns_frontend import DnsFrontend
from app.http.api.answers import text_reply
from app.http.api.call import Reply, Services
from app.http.api.parse_memo import WRITES_KEPT_MAX, ParseMemo
from app.http.api.stats import HttpStats
from app.links.node_links import NodeLinks
from app.machine.process.config_call_log import ConfigCallLog
from app.machine.process.counters import Counters, ProcessLoad
from app.machine.process.loop_parts import LoopPauses
from app.members.member_lookup import LookupStats
from app.members.membership import Membership
from app.metrics.audit_trail import Actor, AuditTrail
from app.metrics.instruments import Instruments
from app.metrics.node_metrics import MetricParts, NodeMetrics, NodeSources
from app.naming.model.switches import is_served
from app.node.domain import disk_counters
from app.node.node_parts import Domain, Engine, Operator
from app.operator.content_checks import ContentChecks
from app.operator.drain_steps import DrainSteps
from app.operator.engine_page import EnginePage
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import InstanceFacts, PushWay
from app.peers.owner_forwarder import OwnerForwarder
from app.ports.grpc_ports import RpcServices
from app.rpc.frontend import GrpcFrontend
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from distro.model.ports import Clock
from distro.model.types import MemberState


def build_operator(
    domain: Domain, engine: Engine, clock: Clock, push: UdpPusher, grpc: GrpcFrontend | None, checker: Checker
) -> Operator:
    """Make them. They read what the checker and both ways of push know."""
    push_states: list[PushWay] = [("udp", push.states), *([("grpc", grpc.push_states)] if grpc else [])]
    cluster = engine.cluster
    return Operator(
        InstanceFacts(
            domain.registry.table,
            domain.writer,
            domain.clients.table,
            domain.records,
            lambda: engine.reader.view,
            engine.reader.pending_of,
            domain.history,
            clock,
            cluster.self_address,
            lambda: cluster.state().value,
            push_states,
            checker.last,
        ),
        InstanceDrains(clock),
        DrainSteps(
            domain.registry.table,
            domain.naming,
            domain.durable,
            domain.clients.table,
            domain.clients.own,
            cluster,
            cluster.responsible,
            clock,
            push_states,
        ),
        EnginePage(
            lambda: engine.reader.view, domain.writer, engine.components, engine.stats, clock, engine.runtime.workers
        ),
    )


UP, UP_TEXT = MemberState.UP, MemberState.UP.value
"""Python 3.11 needs ten times as long to look a member up in its class."""


def count_engine(domain: Domain, engine: Engine) -> Counters:
    """Make the counters of a node, with those of the process, the domain and the engine."""
    counters = Counters()
    counters.add(ProcessLoad().read)
    counters.add(partial(asdict, engine.stats))
    counters.add(engine.replication.nacos_1.counters)
    counters.add(lambda: disk_counters(domain))
    counters.add(lambda: {"draining": int(engine.cluster.draining), "unsent_keys": engine.cluster.unsent_keys()})
    counters.add(lambda: {"refused_by_switch": int(bool(engine.cluster.refusal_by_switch()))})
    counters.add(partial(asdict, engine.lookup.stats if engine.lookup is not None else LookupStats()))
    counters.add(lambda: asdict(engine.senders.name_stats))
    return counters


def build_frontends(
    settings: Settings, clock: Clock, domain: Domain, engine: Engine, push: UdpPusher, counters: Counters,
    instruments: Instruments, checker: Checker, over_grpc: GrpcSubscriptions, links: NodeLinks,
) -> tuple[Services, GrpcFrontend | None]:  # fmt: skip
    """Make all that HTTP uses, and the gRPC frontend, None for none. ``counters`` gets those of all parts."""
    http, calls, limits = HttpStats(), ConfigCallLog(), domain.limits
    pauses = LoopPauses(http, settings.distro.pause_ms, engine.cluster.stood_still)
    dns = build_dns(settings, clock, domain, engine.cluster, counters, pauses)
    forwarder = build_forwarder(settings, engine)
    access = build_access(settings, clock, domain, counters, instruments.audit, lambda: engine.reader.view.serving)
    counters.add(lambda: asdict(forwarder.stats) | asdict(http) | asdict(calls.stats))
    writes = build_writes(settings, clock, domain, engine, access, instruments, http)
    durable = MemberWrites(writes, forwarder, settings.context_path)
    grpc = build_grpc(settings, clock, domain, engine, counters, calls, durable, access, instruments, over_grpc, pauses)
    operator = build_operator(domain, engine, clock, push, grpc, checker)
    return Services(
        settings=settings,
        naming=domain.naming,
        durable=domain.durable,
        writes=writes,
        push=push,
        cluster=engine.cluster,
        senders=engine.senders,
        reports=engine.reports,
        lookup=engine.lookup,
        callers=engine.callers,
        signer=engine.signer,
        replication=engine.replication,
        small_sends=engine.small_sends,
        healer=engine.healer,
        forwarder=forwarder,
        beats=engine.beats,
        refusals=engine.cluster.refusals,
        access=access,
        users=domain.users,
        written=ParseMemo(WRITES_KEPT_MAX),
        http=http,
        pauses=pauses,
        clients=domain.clients,
        loop_frontends=tuple(one for one in (grpc, dns) if one is not None),
        links=links,
        loader=grpc.loader if grpc else None,
        counters=counters,
        config_calls=calls,
        explainer=operator.explainer,
        drains=operator.drains,
        drain_steps=operator.drain_steps,
        engine_facts=operator.engine_page.facts,
        content_checks=ContentChecks(clock.monotonic_ms),
        count_history=domain.count_history,
        tls=engine.tls,
        addresses=limits.addresses,
        room=limits.room,
        answers=limits.answers,
        memory_bytes=limits.memory.bound_bytes,
        instruments=instruments,
        metrics=build_metrics(settings, clock, domain, engine, push, counters, instruments, dns),
        wall_ms=clock.wall_ms,
        monotonic_ms=clock.monotonic_ms,
    ), grpc


def build_forwarder(settings: Settings, engine: Engine) -> OwnerForwarder[Reply]:
    """Make the forwarder of threads' calls to their owners. Half of the threads continue to answer reads."""
    return OwnerForwarder(engine.cluster, max(1, settings.http_threads // 2), engine.replication.refresh, text_reply)


def build_writes(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    engine: Engine,
    access: AccessControl,
    instruments: Instruments,
    http: HttpStats,
) -> Writes:
    """Make the executor of writes of any frontend."""
    audit = instruments.audit
    naming, durable = domain.naming, domain.durable
    records = RecordWrites(naming, durable, domain.users, access, audit, settings.links)
    cluster, is_nacos_2_at, collect_beat = engine.cluster, engine.senders.is_nacos_2_at, engine.beats.collect
    return Writes(cluster, is_nacos_2_at, naming, durable, audit, http, collect_beat, clock.wall_ms, records)


def build_grpc(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    engine: Engine,
    counters: Counters,
    config_calls: ConfigCallLog,
    writes: MemberWrites,
    access: AccessControl,
    instruments: Instruments,
    subscriptions: GrpcSubscriptions,
    pauses: LoopPauses,
) -> GrpcFrontend | None:
    """Make the gRPC frontend; None when it is off."""
    if settings.rpc is None:
        return None
    services = RpcServices(
        settings=settings,
        naming=domain.naming,
        durable=domain.durable,
        clients=domain.clients,
        cluster=engine.cluster,
        senders=engine.senders,
        reports=engine.reports,
        check_pause=pauses.check,
        client_receiver=engine.client_receiver,
        links=engine.links,
        access=access,
        callers=engine.callers,
        persistent_writes=writes,
        counters=counters,
        config_calls=config_calls,
        addresses=domain.limits.addresses,
        room=domain.limits.room,
        answers=domain.limits.answers,
        instruments=instruments,
        wall_ms=clock.wall_ms,
    )
    grpc = GrpcFrontend(services, settings.rpc, engine.tls.grpc, subscriptions, domain.on_pushed)
    counters.add(grpc.counters)
    return grpc


def build_dns(
    settings: Settings, clock: Clock, domain: Domain, cluster: Membership, counters: Counters, pauses: LoopPauses
) -> DnsFrontend | None:
    """Make the DNS frontend; None when it is off."""
    if settings.dns is None or (names := domain.names) is None:
        return None

    def serves() -> bool:
        # As HTTP answers lists: an operator's status may allow reads, or nothing.
        pauses.check()
        if cluster.is_behind:
            return False
        return cluster.state() is UP and is_served(domain.durable.overridden_status or UP_TEXT, is_read=True)

    own_host, _ = split_address(settings.self_address)
    dns = DnsFrontend(settings.dns, names, domain.naming.service_view, serves, own_host, clock.wall_ms())
    counters.add(dns.stats.counters)
    counters.add(lambda: {"dns_exact_only": names.exact_only})
    return dns


def build_access(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    counters: Counters,
    audit: AuditTrail,
    is_serving: Callable[[], bool],
) -> AccessControl:
    """Make the decision on users' calls, which both frontends ask. ``counters`` gets its own.

    ``is_serving()``: whether this node has loaded the users of the other members.
    """
    table, now_ms = domain.user_table, clock.monotonic_ms
    setup = SetupSecret(settings.data_dir, table.has_admin, is_serving, now_ms)
    access = AccessControl(
        settings.auth,
        table,
        clock.wall_ms,
        now_ms,
        setup,
        on_login=lambda what, name, ip: audit.on_access(what, "", Actor(ip, name)),
    )
    counters.add(partial(asdict, access.stats))
    if access.passwords is not None:
        counters.add(partial(asdict, access.passwords.stats))
    return access


def build_metrics(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    engine: Engine,
    push: UdpPusher,
    counters: Counters,
    instruments: Instruments,
    dns: DnsFrontend | None,
) -> NodeMetrics:
    """Make the metrics over the counters of all parts, those that are added later too."""
    sources = NodeSources(
        counters.by_name, domain.naming, domain.clients.table, push, engine.cluster, lambda: engine.reader.view
    )
    parts = MetricParts(
        sources,
        engine.times,
        instruments.http,
        instruments.grpc,
        settings.data_dir,
        clock.monotonic_ms,
        settings.self_address,
        dns.stats.kinds if dns else None,
    )
    return NodeMetrics(parts)
