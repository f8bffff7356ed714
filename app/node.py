"""Node: the one place where classes meet. Functions build its frozen parts; the class starts and stops them."""

import logging
import random
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from app.auth.access_control import AccessControl
from app.auth.identity import identity_of
from app.auth.member_calls import Callers
from app.auth.member_signer import MemberSigner
from app.auth.setup_secret import SetupSecret
from app.auth.user_table import UserTable
from app.auth.users import Users
from app.background.check_targets import CheckTargets, MemberPorts
from app.background.health_checks import Checker
from app.background.health_log import log_health, log_health_check
from app.background.notify import NotifyCenter
from app.background.push_udp import UdpPusher
from app.background.timers import NamingTimer, Tick
from app.commands.call_deadline import check_call_deadline
from app.commands.member_writes import MemberWrites
from app.commands.owner_forwarder import OwnerForwarder
from app.commands.writes import Writes
from app.config.addresses import split_address
from app.config.settings import Settings
from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.dns.dns_frontend import DnsFrontend
from app.dns.name_index import NameIndex
from app.http.api.answers import refuses_beats, text_reply
from app.http.api.beats import BeatCollector
from app.http.api.call import Reply, Services
from app.http.api.parse_memo import WRITES_KEPT_MAX, ParseMemo
from app.http.api.stats import HttpStats
from app.http.v1.drain import step_at_all
from app.machine.limits.answer_budget import part_of_memory
from app.machine.limits.node_limits import Limits, build_limits
from app.machine.process.announce import announce
from app.machine.process.config_call_log import ConfigCallLog
from app.machine.process.counters import Counters
from app.machine.process.data_lock import DataLock
from app.machine.process.machine_watch import MachineWatch
from app.machine.process.process_load import ProcessLoad
from app.machine.storage.private_files import make_private
from app.machine.storage.record_file import RecordFile
from app.machine.storage.warm_log import WarmStore
from app.machine.tls.node_tls import NodeTls, build_tls
from app.members.last_list import LastList
from app.members.member_lookup import LookupStats, MemberLookup
from app.members.member_sources import source_maker
from app.members.membership import Membership
from app.members.own_entry import OwnEntry
from app.metrics.audit_trail import NODE, Actor, AuditTrail
from app.metrics.instruments import Instruments
from app.metrics.metric_sources import NodeSources
from app.metrics.node_metrics import MetricParts, NodeMetrics
from app.naming.clients.client_model import ClientBounds, ServiceKey
from app.naming.clients.clients import Clients
from app.naming.health.beat_check import BeatCheck, HealthCheckGate
from app.naming.health.checks import Check, CheckBoard, CheckedCluster, checked_clusters
from app.naming.model.events import (
    REMOVED,
    ClientChanged,
    ClientDisconnect,
    HealthChanged,
    HealthChecked,
    InstancesChanged,
    Origin,
    RecordChanged,
    ServiceChanged,
)
from app.naming.model.keys import datum_key, parse_datum_key
from app.naming.model.model import Publication
from app.naming.model.switches import is_served
from app.naming.push.push_payload import payload_of
from app.naming.push.udp_subscribers import UdpSubscribers
from app.naming.records.durable_service import DurableService
from app.naming.records.projection import Projection
from app.naming.records.record_values import check_record
from app.naming.records.records import Records
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.naming.wire.datum_codec import InstanceListCodec
from app.naming.wire.service_info import ANSWERS_BYTES_MAX
from app.operator.count_history import CountHistory
from app.operator.drain_steps import DrainSteps
from app.operator.engine_page import EnginePage
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import InstanceFacts, PushWay
from app.operator.instance_history import InstanceHistory
from app.ports.grpc_ports import RpcServices
from app.replication.address_client_type import HTTP_CLIENTS, http_client_component
from app.replication.address_clients import HttpClients
from app.replication.client_receiver import ClientReceiver
from app.replication.client_type import (
    CLIENTS,
    ClientCodec,
    ClientExpiry,
    ClientStore,
    client_key,
)
from app.replication.health_report import InstanceListAgent
from app.replication.http_peers import NodeReplication
from app.replication.instance_list_type import INSTANCE_LIST, InstanceListStore
from app.replication.large_bodies import LargeBodies
from app.replication.record_type import RECORDS, RecordCodec
from app.replication.service_heal import ServiceHealer
from app.replication.small_sends import SmallSends
from app.replication.warm_start import WarmStart
from app.rpc.frontend import GrpcFrontend
from app.rpc.links.client_agent import ClientAgent
from app.rpc.links.links import GrpcLinks
from distro.engine.engine import DistroEngine
from distro.engine.runtime import DistroRuntime
from distro.model.monitor import DistroStats, EngineTimes
from distro.model.ports import Clock, Component, DatumCodec, DistroCallbackAgent, DistroTransportAgent
from distro.model.types import DistroKey, MemberKind, MemberState
from distro.protocol.engine_reader import EngineReader
from distro.timing.clock import SystemClock, boot_s
from distro.wire.deadlines import CallDeadlines
from distro.wire.http_agent import DistroHttpAgent

LOG = logging.getLogger(__name__)
UP, UP_TEXT = MemberState.UP, MemberState.UP.value
"""Python 3.11 needs ten times as long to look a member up in its class."""
READY_CHECK_MS = 20
FOREVER_MS = 1 << 60
NOTED_MAX = 1_000
"""Instances of one publication whose end is noted one by one."""
CLAIMED_SHOWN_MAX = 20
"""Keys that stand in the audit trail, of those that this member took over at once."""

Send = Callable[[str, str], None]
"""Sends a key of a resource type to the peers: type, key."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Services, clients and durable records of this node, with their files and events."""

    writer: str
    """This run of this node, as it stands in versions (R1)."""
    notify: NotifyCenter
    registry: Registry
    naming: NamingService
    clients: Clients
    record_file: RecordFile
    records: Records
    durable: DurableService
    user_table: UserTable
    users: Users
    instance_codec: InstanceListCodec
    limits: Limits
    warm_store: WarmStore
    count_history: CountHistory


@dataclass(frozen=True, slots=True)
class Engine:
    """Replication: the engine and its threads, the resource types, and what peers call."""

    stats: DistroStats
    times: EngineTimes
    reader: EngineReader
    """The state of the engine, for any thread."""
    runtime: DistroRuntime
    remember: Callable[[Iterable[str]], None]
    """Has the engine know the members that wrote what this one has on its disk."""
    components: dict[str, Component]
    cluster: Membership
    lookup: MemberLookup | None
    """Where the member list comes from; None for a node alone."""
    callers: Callers
    """Tells who makes the calls that come here."""
    signer: MemberSigner
    """Signs the calls to other members as this one's."""
    links: GrpcLinks | None
    small_sends: SmallSends
    """The sends that the event loop makes, once it runs."""
    replication: NodeReplication
    healer: ServiceHealer
    client_receiver: ClientReceiver
    client_expiry: ClientExpiry
    address_clients: HttpClients
    tls: NodeTls
    send: Send
    now_s: Callable[[], float]
    """The clock's time since the boot, in seconds."""


@dataclass(frozen=True, slots=True)
class Background:
    """The threads beside the engine: timer, active health checks, UDP push; and what the timer watches."""

    timer: NamingTimer
    checker: Checker
    push: UdpPusher
    machine: MachineWatch


class Node:
    """One member of a cluster, or a node alone. ``start`` and ``stop`` once each."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """``clock``: of registry, replication and users; sockets and those who subscribe at them have the machine's."""
        clock = SystemClock() if clock is None else clock
        self.settings = settings
        self._clock = clock
        self.domain = build_domain(settings, clock)
        self._warm_start = WarmStart(self.domain.registry, claims=settings.standalone)
        self._instruments = Instruments.of(settings, clock.wall_ms)
        tls = build_tls(settings, clock.monotonic_ms)
        self.engine = build_engine(settings, clock, self.domain, tls, self._warm_start.fill, self._instruments.audit)
        push = build_push(self.domain, clock)
        counters = count_engine(self.domain, self.engine)
        counters.add(self._instruments.counters)
        self.services, grpc = build_frontends(
            settings, clock, self.domain, self.engine, push, counters, self._instruments
        )
        setup = self.services.access.setup
        self.background = build_background(settings, clock, self.domain, self.engine, push, grpc, setup)
        counters.add(partial(asdict, self.engine.tls.stats))
        checker = self.background.checker
        counters.add(lambda: {"lists_held_back": self.domain.registry.held_back})
        counters.add(partial(asdict, self.domain.notify.stats))
        counters.add(self.domain.limits.counters)
        counters.add(self._identity_counters)
        counters.add(lambda: {"checks_unwritten": checker.unwritten, "checks_refused": checker.refused})
        self.services.explainer.use_checks(checker.last)
        counters.add(partial(asdict, self.background.machine.stats))
        subscribe(self.domain, self.engine, push)
        trace_pushes(self.engine, push, grpc)
        audit_events(self.domain, self.engine, self._instruments.audit, self.services.access)
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
        registry, now_ms = domain.registry, self._clock.monotonic_ms()
        self._warm_start.read(
            domain.warm_store.load(
                settings.warm_age_ms_max, now_ms, lambda key, version: registry.version(key) == version
            )
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
        cluster, runtime = self.engine.cluster, self.engine.runtime
        self._instruments.audit.on_members(members)
        if self._has_members:
            cluster.take_list(members)
            return
        self._has_members = True
        cluster.attach(runtime, members)
        runtime.start()

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
        engine.cluster.close()
        self.domain.warm_store.close(self._clock.monotonic_ms())
        self.domain.record_file.close()
        ended = self._instruments.stop(timeout_s) and ended
        self._lock.release()
        return ended


# --- the domain ----------------------------------------------------------------------------------


def build_domain(settings: Settings, clock: Clock) -> Domain:
    """Make the domain of one run; nothing is read or opened yet."""
    # A run of its own in every version (R1): a member that lost its memory never repeats one.
    writer = f"{settings.self_address}~{clock.wall_ms():x}{secrets.token_hex(2)}"
    notify = NotifyCenter()
    # A loss that nobody caused is believed when two verify rounds have not repaired it.
    guard_ms = 0 if settings.standalone else 2 * settings.distro.verify_interval_ms
    limits = build_limits(settings)
    registry = Registry(
        writer,
        settings.distro.tombstone_slack_ms,
        guard_ms,
        limits.admission,
        keep_empty=not settings.clean_empty,
        alone=settings.standalone,
    )
    clients = Clients(
        registry,
        clock.monotonic_ms,
        clock.wall_ms,
        notify.publish,
        ClientBounds(subscriptions_per_client_max=settings.limits.subscriptions_per_connection),
        limits.subscribers,
        expiry_ms=settings.client_expiry_ms,
        keep_ms=settings.distro.tombstone_slack_ms,
        alone=settings.standalone,
    )
    record_file = RecordFile(settings.data_dir)
    projection = Projection(registry, clock.monotonic_ms, notify.publish)
    user_table = UserTable()
    projection.on_users = user_table.on_record
    records = Records(
        writer,
        record_file,
        clock.wall_ms,
        clock.monotonic_ms,
        projection.on_record,
        check_call_deadline,
        check_record=check_record,
        alone=settings.standalone,
        check_size=limits.admission.check_record,
    )
    codec = InstanceListCodec(clock.wall_ms)
    return Domain(
        writer=writer,
        notify=notify,
        registry=registry,
        naming=build_naming(registry, clock, notify, limits),
        clients=clients,
        record_file=record_file,
        records=records,
        durable=DurableService(records, projection, registry, clock.monotonic_ms, notify.publish),
        user_table=user_table,
        users=Users(records, user_table, clock.wall_ms, notify.publish),
        instance_codec=codec,
        limits=limits,
        warm_store=WarmStore(settings.data_dir, codec, registry.datums, clock.wall_ms),
        count_history=CountHistory(registry.table.totals, clock.wall_ms),
    )


def build_naming(registry: Registry, clock: Clock, notify: NotifyCenter, limits: Limits) -> NamingService:
    """Make the operations on services; the lists that they keep take a part of the bound of memory."""
    kept_bytes_max = part_of_memory(ANSWERS_BYTES_MAX, limits.memory.bound_bytes)
    return NamingService(registry, clock.monotonic_ms, notify.publish, kept_bytes_max)


def count_engine(domain: Domain, engine: Engine) -> Counters:
    """Make the counters of a node, with those of the process, the domain and the engine."""
    counters = Counters()
    counters.add(ProcessLoad().read)
    counters.add(partial(asdict, engine.stats))
    counters.add(lambda: disk_counters(domain))
    counters.add(lambda: {"draining": int(engine.cluster.draining), "unsent_keys": engine.cluster.unsent_keys()})
    counters.add(partial(asdict, engine.lookup.stats if engine.lookup is not None else LookupStats()))
    counters.add(lambda: asdict(engine.cluster.name_stats))
    return counters


def subscribe(domain: Domain, engine: Engine, push: UdpPusher) -> None:
    """Connect the domain's events with the engine, the copy on disk and the push; handlers only enqueue."""

    copied, marked, pushed, sent, local = (
        domain.warm_store.changed,
        engine.address_clients.mark,
        push.changed,
        engine.send,
        Origin.LOCAL,  # Python 3.11 needs ten times as long to look a member up in its class
    )

    def on_instances(event: InstancesChanged) -> None:
        key = event.key
        copied(key)
        marked(key)
        if event.shown and (parsed := parse_datum_key(key)):
            pushed(*parsed)
        if event.origin is local:
            sent(INSTANCE_LIST, key)

    def on_disconnect(event: ClientDisconnect) -> None:
        if event.native:
            engine.send(CLIENTS, client_key(event.client_id))

    on = domain.notify.subscribe
    on(InstancesChanged, on_instances)
    on(RecordChanged, lambda event: engine.send(RECORDS, event.key))
    on(ServiceChanged, lambda event: push.changed(event.namespace, event.service))
    on(HealthChanged, log_health)
    on(HealthChecked, log_health_check)
    on(ClientChanged, lambda event: engine.send(CLIENTS, client_key(event.client_id)))
    on(ClientDisconnect, on_disconnect)


def trace_pushes(engine: Engine, push: UdpPusher, grpc: GrpcFrontend | None) -> None:
    """Have peers told when their changes were applied here, and when subscribers were sent them."""
    receiver, now_s = engine.replication.receiver, engine.now_s
    receiver.applied.now_s = now_s

    def has_subscribers(key: DistroKey) -> bool:
        parsed = parse_datum_key(key.key) if key.resource_type == INSTANCE_LIST else None
        return parsed is not None and (push.has(*parsed) or (grpc is not None and grpc.has_subscribers(*parsed)))

    def on_pushed(namespace: str, service: str) -> None:
        receiver.applied.pushed(DistroKey(INSTANCE_LIST, datum_key(namespace, service)), now_s())

    receiver.applied.is_pushed = has_subscribers
    if not engine.reader.view.members.standalone:
        push.on_pushed = on_pushed
        if grpc is not None:
            grpc.trace_pushes(on_pushed)


def disk_counters(domain: Domain) -> dict[str, int]:
    """The counters of what the disk took, did not take, and gave in a form that cannot be read."""
    return {
        "record_commits": domain.record_file.commits,
        "record_writes_failed": domain.record_file.writes_failed,
        "warm_writes_failed": domain.warm_store.writes_failed,
        "records_set_aside": domain.record_file.set_aside,
        "warm_lists_unread": domain.warm_store.unread,
    }


def audit_events(domain: Domain, engine: Engine, audit: AuditTrail, access: AccessControl) -> None:
    """Have the audit trail told of durable records that are changed here, and of what the node does by itself."""

    def on_disconnect(event: ClientDisconnect) -> None:
        if event.native and audit.covers_instances:
            audit.write("client.disconnect", event.client_id, actor=NODE)

    def on_health(event: HealthChanged) -> None:
        if event.what == REMOVED and audit.covers_instances:
            audit.write("instance.expire", f"{event.key}/{event.instance}", actor=NODE)

    def on_login(what: str, name: str, ip: str) -> None:
        audit.on_access(what, "", Actor(ip, name))

    access.on_login = on_login
    domain.records.on_written = audit.on_record
    domain.notify.subscribe(ClientDisconnect, on_disconnect)
    domain.notify.subscribe(HealthChanged, on_health)


# --- the engine ----------------------------------------------------------------------------------


def build_engine(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    tls: NodeTls,
    before_serving: Callable[[int], None],
    audit: AuditTrail,
) -> Engine:
    """Make the engine with all resource types; no thread runs yet. ``before_serving``: as of ``DistroEngine``."""
    # That of the machine is asked with each change, in one call.
    now_s = boot_s if isinstance(clock, SystemClock) else lambda: clock.boot_ms() / 1_000
    made = make_engine(settings, clock, domain, now_s, before_serving, audit)
    config, reader, mailbox, components = settings.distro, made.reader, made.mailbox, made.components
    cluster, callers, signer, links = build_membership(settings, clock, domain, reader, tls)

    def send(resource_type: str, key: str) -> None:
        if not settings.standalone:
            mailbox.sync(DistroKey(resource_type, key))

    connect_members(domain, made, cluster)
    address_clients = HttpClients(
        lambda: reader.view,
        domain.registry,
        lambda client_id: send(HTTP_CLIENTS, client_key(client_id)),
        lambda client_id: domain.clients.forget(client_id, absent=True),
    )
    built, small_sends = build_components(settings, clock, domain, made, cluster, links, signer, tls)
    components.update(built)
    components[HTTP_CLIENTS] = http_client_component(address_clients, domain.writer, components[CLIENTS])
    receiver, bodies = made.receiver, LargeBodies(config.body_bytes_max)
    runtime = made.runtime(cluster)
    runtime.after_pause.on_change = cluster.note_behind
    return Engine(
        stats=made.stats,
        times=made.times,
        reader=reader,
        runtime=runtime,
        remember=mailbox.remember,
        components=components,
        cluster=cluster,
        lookup=build_lookup(settings),
        callers=callers,
        signer=signer,
        links=links,
        small_sends=small_sends,
        replication=NodeReplication(receiver, components, cluster, clock, bodies, made.digests),
        healer=ServiceHealer(
            cluster, reader.mapper_of, components, receiver, mailbox, domain.durable, domain.clients, clock
        ),
        client_receiver=ClientReceiver(receiver, domain.clients, address_clients, clock, cluster.capabilities, bodies),
        client_expiry=ClientExpiry(domain.clients, reader.has_left, config.pause_ms),
        address_clients=address_clients,
        tls=tls,
        send=send,
        now_s=now_s,
    )


def make_engine(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    now_s: Callable[[], float],
    before_serving: Callable[[int], None],
    audit: AuditTrail,
) -> DistroEngine:
    """Make the engine without its resource types; claims are written to the audit trail."""
    return DistroEngine(
        settings.self_address,
        domain.writer,
        settings.distro,
        clock,
        standalone=settings.standalone,
        now_s=now_s,
        before_serving=before_serving,
        on_claimed=partial(audit_claims, audit),
    )


def audit_claims(audit: AuditTrail, keys: list[DistroKey]) -> None:
    """Write to the audit trail that this node took keys over."""
    shown = [key.key for key in keys[:CLAIMED_SHOWN_MAX]]
    audit.write("ownership.claim", f"{len(keys)} keys", after=shown, actor=NODE)


def build_membership(
    settings: Settings, clock: Clock, domain: Domain, reader: EngineReader, tls: NodeTls
) -> tuple[Membership, Callers, MemberSigner, GrpcLinks | None]:
    """Make the cluster as this node sees it, what tells who calls it, and what signs its own calls."""
    deadlines = CallDeadlines(domain.writer, clock)
    identity = identity_of(settings.identity)
    signer = MemberSigner(settings.self_address, identity, deadlines)
    rpc = None if settings.standalone else settings.rpc
    links = GrpcLinks(settings.self_address, rpc.cluster, signer) if rpc else None
    cluster = Membership(settings, reader, clock, deadlines, signer, links, tls.members)
    return cluster, Callers(identity, domain.writer, deadlines.clock_ms, cluster), signer, links


def build_lookup(settings: Settings) -> MemberLookup | None:
    """Make what follows the member list; None for a node alone."""
    if settings.standalone:
        return None
    own = settings.self_address
    # Of a list from elsewhere nothing is known but this node itself, if nothing answered before the start.
    is_known = not settings.lookup.is_polled or settings.members != (own,)
    return MemberLookup(
        settings.lookup.kind,
        source_maker(settings.lookup, settings.cluster_conf, own),
        settings.members if is_known else (),
        OwnEntry(own, settings.host),
        own,
        settings.check_members,
        LastList(settings.data_dir),
    )


def connect_members(domain: Domain, made: DistroEngine, cluster: Membership) -> None:
    """Have the domain ask the members what it must know of them, and take the beats that they could not send."""
    domain.clients.is_handing_over = made.reader.is_handing_over
    domain.clients.on_return = made.mailbox.came_back
    domain.clients.contact_ms = made.reader.contact_ms

    def take_beats(key: str, ages_ms: Mapping[str, int]) -> None:
        parsed = parse_datum_key(key)
        if parsed is not None and cluster.responsible(parsed[1]):
            domain.naming.take_beats(key, ages_ms)

    cluster.take_beats = take_beats


def build_components(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    made: DistroEngine,
    cluster: Membership,
    links: GrpcLinks | None,
    signer: MemberSigner,
    tls: NodeTls,
) -> tuple[dict[str, Component], SmallSends]:
    """Make the resource types with stores of their own, by name: each a store, a codec and the way to the peers.

    And the way of small frames of instance lists, which the event loop is to be attached to.
    """

    def agent_parts(codec: DatumCodec) -> dict[str, Any]:
        return {
            "self_address": settings.self_address,
            "context_path": settings.context_path,
            "user_agent": MEMBER_AGENT,
            "headers": {"Client-Version": NACOS_VERSION},
            "signer": signer,
            "codec": codec,
            "clock": clock,
            "capabilities": cluster.capabilities,
            "deadline": cluster.deadline,
            "stamp": cluster.stamp,
            "sent_ms": cluster.sent_ms,
            "body_bytes_max": settings.distro.body_bytes_max,
            "tls": tls.members,
            "sent": made.times.sent,
        }

    client_codec = ClientCodec()
    over_http = DistroHttpAgent(**agent_parts(client_codec), resource_type=CLIENTS)
    over_grpc: ClientAgent | None = None
    if links is not None and (rpc := settings.rpc) is not None:
        over_grpc = ClientAgent(over_http, links, client_codec, clock, cluster.release, rpc.cluster.message_bytes_max)
    list_store = InstanceListStore(domain.registry, domain.notify.publish)
    list_agent = InstanceListAgent(domain.naming.service_view, **agent_parts(domain.instance_codec))
    small_sends = SmallSends(list_agent, clock)
    return {
        INSTANCE_LIST: Component(list_store, domain.instance_codec, list_agent, small_sends, deltas=list_store),
        RECORDS: Component(
            domain.records,
            RecordCodec(),
            DistroHttpAgent(**agent_parts(RecordCodec()), resource_type=RECORDS),
            taken_by=frozenset({MemberKind.OWN}),
        ),
        CLIENTS: client_component(
            domain, settings.self_address, made.reader.has_left, over_grpc or over_http, over_grpc
        ),
    }, small_sends


def client_component(
    domain: Domain,
    self_address: str,
    has_left: Callable[[str], bool],
    agent: DistroTransportAgent,
    callbacks: DistroCallbackAgent | None,
) -> Component:
    """Make the resource type of clients with connections."""
    store = ClientStore(domain.clients, self_address, has_left)
    return Component(
        store,
        ClientCodec(),
        agent,
        callbacks=callbacks,
        taken_by=frozenset({MemberKind.OWN, MemberKind.NACOS_2}),
        owned_by_writer=True,
        on_verified=store.on_verified,
        on_compared=store.on_compared,
        deltas=store,
    )


# --- the frontends -------------------------------------------------------------------------------


def build_frontends(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    engine: Engine,
    push: UdpPusher,
    counters: Counters,
    instruments: Instruments,
) -> tuple[Services, GrpcFrontend | None]:
    """Make all that HTTP uses, and the gRPC frontend, None for none. ``counters`` gets those of all parts."""
    forwarder = build_forwarder(settings, engine)
    http, config_calls = HttpStats(), ConfigCallLog()
    access = build_access(settings, clock, domain, counters, lambda: engine.reader.view.serving)
    counters.add(lambda: asdict(forwarder.stats) | asdict(http) | asdict(config_calls.stats))
    writes, beats = build_writes(clock, domain, engine, instruments, http)
    durable = MemberWrites(writes, forwarder, settings.context_path)
    grpc = build_grpc(settings, clock, domain, engine, counters, config_calls, durable, access, instruments)
    dns = build_dns(settings, clock, domain, engine.cluster, counters)
    operator = build_operator(domain, engine, clock, push, grpc)
    services = Services(
        settings=settings,
        naming=domain.naming,
        durable=domain.durable,
        writes=writes,
        push=push,
        cluster=engine.cluster,
        lookup=engine.lookup,
        callers=engine.callers,
        signer=engine.signer,
        replication=engine.replication,
        small_sends=engine.small_sends,
        healer=engine.healer,
        forwarder=forwarder,
        beats=beats,
        refusals=engine.cluster.refusals,
        access=access,
        users=domain.users,
        written=ParseMemo(WRITES_KEPT_MAX),
        http=http,
        clients=domain.clients,
        loop_frontends=tuple(one for one in (grpc, dns) if one is not None),
        loader=grpc.loader if grpc else None,
        counters=counters,
        config_calls=config_calls,
        explainer=operator.explainer,
        drains=operator.drains,
        drain_steps=operator.drain_steps,
        engine_facts=operator.engine_page.facts,
        count_history=domain.count_history,
        tls=engine.tls,
        addresses=domain.limits.addresses,
        room=domain.limits.room,
        answers=domain.limits.answers,
        instruments=instruments,
        metrics=build_metrics(settings, clock, domain, engine, push, counters, instruments, dns),
        wall_ms=clock.wall_ms,
        monotonic_ms=clock.monotonic_ms,
    )
    operator.drains.step = partial(step_at_all, services)
    return services, grpc


def build_forwarder(settings: Settings, engine: Engine) -> OwnerForwarder[Reply]:
    """Make what has calls of threads executed by their owners. Half of the threads go on answering reads."""
    return OwnerForwarder(engine.cluster, max(1, settings.http_threads // 2), engine.replication.refresh, text_reply)


def build_writes(
    clock: Clock, domain: Domain, engine: Engine, instruments: Instruments, http: HttpStats
) -> tuple[Writes, BeatCollector]:
    """Make what executes writes of any frontend, and what collects beats for other members."""
    beats, audit = build_beats(clock, engine), instruments.audit
    return Writes(engine.cluster, domain.naming, domain.durable, audit, http, beats.collect, clock.wall_ms), beats


def build_beats(clock: Clock, engine: Engine) -> BeatCollector:
    """Make the collector of beats for other members, which their reports are told of."""
    beats = BeatCollector()
    engine.cluster.waiting_beats = lambda peer: beats.told_to(peer, clock.monotonic_ms())
    engine.cluster.beats_wait_ms = lambda peer: beats.wait_ms(peer, clock.monotonic_ms())
    return beats


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
) -> GrpcFrontend | None:
    """Make the gRPC frontend; None when there is to be none."""
    if settings.rpc is None:
        return None
    services = RpcServices(
        settings=settings,
        naming=domain.naming,
        durable=domain.durable,
        clients=domain.clients,
        cluster=engine.cluster,
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
    grpc = GrpcFrontend(services, settings.rpc, engine.tls.grpc, domain.notify.subscribe)
    counters.add(grpc.counters)
    return grpc


def build_dns(
    settings: Settings, clock: Clock, domain: Domain, cluster: Membership, counters: Counters
) -> DnsFrontend | None:
    """Make the DNS frontend, and have it told of all services from now on; None when there is to be none."""
    if settings.dns is None:
        return None
    index = NameIndex()
    domain.registry.table.on_listed = index.note

    def serves() -> bool:
        # As HTTP answers lists: an operator's status may allow reads, or nothing.
        cluster.check_pause()
        if cluster.is_behind:
            return False
        return cluster.state() is UP and is_served(domain.durable.overridden_status or UP_TEXT, is_read=True)

    own_host, _ = split_address(settings.self_address)
    dns = DnsFrontend(settings.dns, index, domain.naming.service_view, serves, own_host, clock.wall_ms())
    counters.add(dns.stats.counters)
    return dns


@dataclass(frozen=True, slots=True)
class Operator:
    """The questions of an operator about one instance or the engine, and the drains of instances."""

    explainer: InstanceFacts
    drains: InstanceDrains
    drain_steps: DrainSteps
    engine_page: EnginePage


def build_operator(
    domain: Domain, engine: Engine, clock: Clock, push: UdpPusher, grpc: GrpcFrontend | None
) -> Operator:
    """Make them, with the history that they read; the way to the peers is added later."""
    history = InstanceHistory()
    push_states: list[PushWay] = [("udp", push.states), *([("grpc", grpc.push_states)] if grpc else [])]

    def note(key: str, instance_key: str, what: str) -> None:
        history.note(key, instance_key, what, clock.monotonic_ms())

    def on_withdrawn(client_id: str, former: Mapping[ServiceKey, Publication], gone: bool) -> None:
        what = "is gone" if gone else "withdrew it"
        for key, publication in former.items():
            for instance_key in list(publication.instances)[:NOTED_MAX]:
                note(datum_key(*key), instance_key, f"its gRPC client {client_id} {what}")

    def on_health(event: HealthChanged) -> None:
        what = "removed, as no beat came" if event.what == "removed" else "made unhealthy, as no beat came"
        note(event.key, event.instance, what)

    domain.clients.on_withdrawn = on_withdrawn
    domain.naming.on_deregistered = lambda key, instance: note(key, instance, "deregistered by a call")
    domain.notify.subscribe(HealthChanged, on_health)
    cluster = engine.cluster
    return Operator(
        InstanceFacts(
            domain.registry,
            domain.clients,
            domain.records,
            lambda: engine.reader.view,
            engine.reader.pending_of,
            history,
            clock,
            cluster.self_address,
            lambda: cluster.state().value,
            push_states,
        ),
        InstanceDrains(clock),
        DrainSteps(
            domain.registry,
            domain.naming,
            domain.durable,
            domain.clients,
            cluster,
            cluster.responsible,
            clock,
            push_states,
        ),
        EnginePage(
            lambda: engine.reader.view, domain.writer, engine.components, engine.stats, clock, engine.runtime.workers
        ),
    )


def build_access(
    settings: Settings, clock: Clock, domain: Domain, counters: Counters, is_serving: Callable[[], bool]
) -> AccessControl:
    """Make the decision on users' calls, which both frontends ask. ``counters`` gets its own.

    ``is_serving()``: whether this node has loaded the users of the other members.
    """
    table, now_ms = domain.user_table, clock.monotonic_ms
    setup = SetupSecret(settings.data_dir, table.has_admin, is_serving, now_ms)
    access = AccessControl(settings.auth, table, clock.wall_ms, now_ms, setup)
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
        counters.by_name, domain.naming, domain.clients, push, engine.cluster, lambda: engine.reader.view
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


# --- the threads beside the engine ---------------------------------------------------------------


def build_push(domain: Domain, clock: Clock) -> UdpPusher:
    """Make the UDP push. References are random, so that no acknowledgement can be guessed."""
    return UdpPusher(
        UdpSubscribers(draw=lambda: secrets.randbits(32), tally=domain.limits.subscribers),
        lambda one: payload_of(domain.naming, one, domain.durable.switches, clock.wall_ms()),
        SystemClock(),
    )


def build_background(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    engine: Engine,
    push: UdpPusher,
    grpc: GrpcFrontend | None,
    setup: SetupSecret | None,
) -> Background:
    """Make the timer with all periodic work, and the active health checks; no thread runs yet."""
    checker = build_checker(settings, domain, engine, clock)
    machine = MachineWatch(settings.data_dir, clock.wall_ms)
    ticks = [
        ready_line(settings, engine.reader),
        beat_checks(settings, clock, domain, engine),
        checker.tick,
        domain.warm_store.tick,
        engine.client_expiry.tick,
        engine.address_clients.tick,
        engine.tls.watch.tick,
        domain.limits.memory.tick,
        domain.limits.answers.tick,
        machine.tick,
        domain.count_history.tick,
    ]
    if grpc is not None:
        ticks.append(grpc.limits.tick)
    if setup is not None:
        ticks.append(setup.tick)
    return Background(NamingTimer(clock, ticks), checker, push, machine)


def build_checker(settings: Settings, domain: Domain, engine: Engine, clock: Clock) -> Checker:
    """Make the active health checks of persistent instances that this node is responsible for."""

    def clusters() -> list[CheckedCluster]:
        if not engine.reader.view.steady(clock.monotonic_ms()):
            return []
        return checked_clusters(domain.registry, engine.cluster.responsible_durable)

    def is_healthy(check: Check) -> bool | None:
        service = domain.registry.table.get(check.cluster.namespace, check.cluster.service)
        instance = service.persistent.get(check.instance_key) if service else None
        return instance.healthy if instance else None

    def on_flip(check: Check, healthy: bool) -> None:
        where, key = check.cluster, check.instance_key
        if domain.durable.set_health(where.namespace, where.service, key, healthy, by_check=True):
            LOG.info("check: %s of %s is %s", key, where.service, "healthy" if healthy else "unhealthy")

    board = CheckBoard(random.randrange)
    targets = CheckTargets(
        settings.guards.check_allowed, MemberPorts(engine.cluster.members, engine.cluster.is_listed).has
    )
    return Checker(board, clusters, is_healthy, on_flip, lambda: domain.durable.switches, clock, targets)


def beat_checks(settings: Settings, clock: Clock, domain: Domain, engine: Engine) -> Tick:
    """Return the tick that checks beats, with leave to check asked for in each round (R9)."""
    reader, cluster = engine.reader, engine.cluster
    cluster.refusals.refuses_all = lambda: refuses_beats(cluster, domain.durable, settings.context_path)
    cluster.overridden_status = lambda: domain.durable.overridden_status
    check = BeatCheck(
        domain.registry, domain.notify.publish, pause_ms=settings.distro.pause_ms, expire=settings.expire_instance
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
            cluster.refusals.last_ms(),
        )

    return lambda now_ms: check.tick(now_ms, gate)


def ready_line(settings: Settings, reader: EngineReader) -> Tick:
    """Return the tick that prints the ready line once, when the node has loaded."""

    def tick(now_ms: int) -> int:
        if reader.view.loading:
            return now_ms + READY_CHECK_MS
        if settings.announce:
            sys.stdout.write(announce(settings) + "\n")
            sys.stdout.flush()
        return FOREVER_MS

    return tick
