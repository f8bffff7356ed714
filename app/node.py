"""Node: the one place where classes meet. ``start`` and ``stop`` once each."""

import logging
import random
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from app.background.health_checks import Checker
from app.background.notify import NotifyCenter
from app.background.push_udp import UdpPusher
from app.background.timers import NamingTimer, Tick
from app.config.settings import Settings
from app.config.version import NACOS_VERSION
from app.http.api.answers import text_reply
from app.http.api.beats import BeatCollector
from app.http.api.dump_lines import Dumps
from app.http.api.stats import HttpStats
from app.naming.clients.clients import Clients
from app.naming.health.beat_check import BeatCheck, HealthCheckGate
from app.naming.health.checks import Check, CheckBoard, CheckedCluster, Flip, checked_clusters
from app.naming.model.events import (
    ClientChanged,
    ClientDisconnect,
    HealthChanged,
    InstancesChanged,
    Origin,
    RecordChanged,
    ServiceChanged,
)
from app.naming.model.keys import parse_datum_key
from app.naming.model.model import NEVER_MS
from app.naming.push.push_payload import payload_of
from app.naming.push.udp_subscribers import UdpSubscribers
from app.naming.records.durable_service import DurableService
from app.naming.records.projection import Projection
from app.naming.records.records import Records
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.naming.wire.datum_codec import InstanceListCodec
from app.process.announce import announce
from app.process.data_lock import DataLock
from app.process.process_load import ProcessLoad
from app.replication.address_client_type import HTTP_CLIENTS, http_client_component
from app.replication.address_clients import index_for
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
from app.replication.membership import ClusterConfWatch, Membership
from app.replication.record_type import RECORDS, RecordCodec
from app.rpc.frontend import GrpcFrontend
from app.rpc.links.client_agent import ClientAgent
from app.rpc.links.links import GrpcLinks
from app.storage.record_file import RecordFile
from app.storage.warm_log import WarmStore
from app.writes.member_writes import MemberWrites
from app.writes.owner_forwarder import OwnerForwarder
from distro.clock import SystemClock
from distro.http_agent import DistroHttpAgent
from distro.mailbox import Mailbox
from distro.members import MemberList
from distro.monitor import DistroStats
from distro.ports import Component, DatumCodec
from distro.protocol import DistroProtocol
from distro.receive import DistroReceiver
from distro.runtime import DistroRuntime
from distro.types import Datum, DistroKey, MemberKind, Merged

LOG = logging.getLogger(__name__)
READY_CHECK_MS = 20
FOREVER_MS = 1 << 60


class Node:
    """One member: registry, engine, timers. It is also the ``Services`` of the doors."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._clock = SystemClock()
        now_ms = self._clock.monotonic_ms()
        # A run of its own in every version (R1): a member that lost its memory never repeats one.
        writer = f"{settings.self_address}~{self._clock.wall_ms():x}{secrets.token_hex(2)}"
        self._notify = NotifyCenter()
        # A loss that nobody caused is believed when two verify rounds have not repaired it.
        guard_ms = 0 if settings.standalone else 2 * settings.distro.verify_interval_ms
        self._registry = Registry(
            writer, settings.distro.tombstone_slack_ms, guard_ms, keep_empty=not settings.clean_empty
        )
        self.naming = NamingService(self._registry, self._clock.monotonic_ms, self._notify.publish)
        self.clients = Clients(
            self._registry,
            self._clock.monotonic_ms,
            self._clock.wall_ms,
            self._notify.publish,
            expiry_ms=settings.client_expiry_ms,
            keep_ms=settings.distro.tombstone_slack_ms,
        )
        self._record_file = RecordFile(settings.data_dir)
        projection = Projection(self._registry, self._clock.monotonic_ms, self._notify.publish)
        self._records = Records(writer, self._record_file, self._clock.wall_ms, projection.on_record)
        self.durable = DurableService(
            self._records, projection, self._registry, self._clock.monotonic_ms, self._notify.publish
        )
        self.stats = DistroStats()
        instance_codec = InstanceListCodec(self._clock.wall_ms)
        self._warm = WarmStore(settings.data_dir, instance_codec, self._registry.datums, self._clock.wall_ms)
        self._build_engine(writer, instance_codec, now_ms)
        self._beat_check = BeatCheck(
            self._registry,
            self._notify.publish,
            pause_ms=settings.distro.pause_ms,
            expire=settings.expire_instance,
        )
        self._subscribe()
        watch = ClusterConfWatch(settings.cluster_conf, settings.self_address, self.cluster.take_list)
        self._checker = self._build_checker()
        self.push = UdpPusher(
            UdpSubscribers(secrets.randbits(32)),
            lambda one: payload_of(self.naming, one, self.durable.switches, self._clock.wall_ms()),
            self._clock,
        )
        ticks = [
            self._announce_when_ready,
            self._check_beats,
            self._checker.tick,
            self._warm.tick,
            self._client_expiry.tick,
            self._http_clients.tick,
            *self._build_rpc(),
        ]
        self._timer = NamingTimer(self._clock, ticks if settings.standalone else [*ticks, watch.tick])
        self._warm_datums: list[Datum] = []
        self._lock = DataLock(settings.data_dir)
        self._load = ProcessLoad()
        self._started = False

    def _build_engine(self, writer: str, instance_codec: InstanceListCodec, now_ms: int) -> None:
        settings, config = self.settings, self.settings.distro
        members = MemberList(settings.self_address, config, now_ms, settings.standalone)
        components: dict[str, Component] = {}
        self._protocol = DistroProtocol(members, writer, config, components, self.stats, now_ms)
        rpc = None if settings.standalone else settings.rpc
        self.links = GrpcLinks(settings.self_address, rpc.cluster, self._identity()) if rpc else None
        self.cluster = Membership(settings, self._protocol, self._clock, self._identity(), self.links)
        record_codec = RecordCodec()
        components[INSTANCE_LIST] = Component(
            InstanceListStore(self._registry, self._notify.publish),
            instance_codec,
            InstanceListAgent(self.naming.service_view, **self._agent_parts(instance_codec)),
        )
        components[RECORDS] = Component(
            self._records,
            record_codec,
            DistroHttpAgent(**self._agent_parts(record_codec), resource_type=RECORDS),
            taken_by=frozenset({MemberKind.OWN}),
        )
        components[CLIENTS] = self._client_component(members)
        self._http_clients = index_for(
            self._protocol,
            self._registry,
            lambda client_id: self._send(HTTP_CLIENTS, client_key(client_id)),
            lambda client_id: self.clients.forget(client_id, absent=True),
        )
        components[HTTP_CLIENTS] = http_client_component(self._http_clients, writer, components[CLIENTS])
        self._components = components
        self._protocol.before_serving = self._fill_from_disk
        mailbox = Mailbox(config.mailbox_events_max, self.stats)
        receiver = DistroReceiver(
            writer,
            config,
            components,
            self._protocol.mapper_of,
            lambda: self._protocol.loading,
            mailbox,
            self.stats,
        )
        self._runtime = DistroRuntime(self._protocol, receiver, mailbox, components, self.cluster, self._clock, config)
        self.replication = NodeReplication(receiver, components, self.cluster, self._clock, config.body_bytes_max)
        self.client_receiver = ClientReceiver(
            receiver, self.clients, self._http_clients, self._clock, self.cluster.capabilities, config.body_bytes_max
        )
        waiting_max = max(1, settings.http_threads // 2)
        self.forwarder = OwnerForwarder(self.cluster, waiting_max, self.replication.refresh, text_reply)
        self.dumps = Dumps()
        self.http = HttpStats()
        self.beats = BeatCollector()

    def _subscribe(self) -> None:
        notify = self._notify
        notify.subscribe(InstancesChanged, self._on_change)
        notify.subscribe(RecordChanged, lambda event: self._send(RECORDS, event.key))
        notify.subscribe(ServiceChanged, lambda event: self.push.changed(event.namespace, event.service))
        notify.subscribe(HealthChanged, _log_health)
        notify.subscribe(ClientChanged, lambda event: self._send_client(event.client_id))
        notify.subscribe(ClientDisconnect, lambda event: self._send_client(event.client_id) if event.native else None)

    def _client_component(self, members: MemberList) -> Component:
        codec, settings = ClientCodec(), self.settings
        http = DistroHttpAgent(**self._agent_parts(codec), resource_type=CLIENTS)
        agent: DistroHttpAgent | ClientAgent = http
        if self.links is not None and settings.rpc is not None:
            release, bytes_max = self.cluster.release, settings.rpc.cluster.message_bytes_max
            agent = ClientAgent(http, self.links, codec, self._clock, release, bytes_max)
        store = ClientStore(self.clients, self.settings.self_address, members.has_left)
        self._client_expiry = ClientExpiry(self.clients, members.has_left, self.settings.distro.pause_ms)
        return Component(
            store,
            codec,
            agent,
            callbacks=agent if isinstance(agent, ClientAgent) else None,
            taken_by=frozenset({MemberKind.OWN, MemberKind.NACOS_2}),
            owned_by_writer=True,
            on_verified=store.on_verified,
        )

    def _build_rpc(self) -> list[Tick]:
        """Make the gRPC door, if there is to be one; return what the timer does for it."""
        self.persistent_writes = MemberWrites(self.cluster, self.durable, self.forwarder, self.settings.context_path)
        settings = self.settings.rpc
        rpc = GrpcFrontend(self, settings, self._notify.subscribe) if settings else None
        self.loop_frontends = (rpc,) if rpc else ()
        self.loader = rpc.loader if rpc else None
        return [rpc.limits.tick] if rpc else []

    def _identity(self) -> dict[str, str]:
        settings = self.settings
        return {settings.identity_key: settings.identity_value} if settings.identity_key else {}

    def _agent_parts(self, codec: DatumCodec) -> dict[str, Any]:
        return {
            "self_address": self.settings.self_address,
            "context_path": self.settings.context_path,
            "user_agent": f"Nacos-Server:{NACOS_VERSION}",
            "headers": {"Client-Version": NACOS_VERSION, **self._identity()},
            "codec": codec,
            "clock": self._clock,
            "capabilities": self.cluster.capabilities,
            "body_bytes_max": self.settings.distro.body_bytes_max,
        }

    def _build_checker(self) -> Checker:
        def clusters() -> list[CheckedCluster]:
            if not self._protocol.steady(self._clock.monotonic_ms()):
                return []
            return checked_clusters(self._registry, self.cluster.responsible_durable)

        def is_healthy(check: Check) -> bool | None:
            service = self._registry.table.get(check.cluster.namespace, check.cluster.service)
            instance = service.persistent.get(check.instance_key) if service else None
            return instance.healthy if instance else None

        def on_flip(flip: Flip) -> None:
            where, key = flip.cluster, flip.instance_key
            if self.durable.set_health(where.namespace, where.service, key, flip.healthy):
                LOG.info("check: %s of %s is %s", key, where.service, "healthy" if flip.healthy else "unhealthy")

        board = CheckBoard(random.randrange)
        return Checker(board, clusters, is_healthy, on_flip, lambda: self.durable.switches, self._clock)

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take the data folder and start the threads.

        Raises:
            DataLockError: another node uses the folder.
        """
        self._lock.acquire()
        self._record_file.open()
        count = self._records.read_disk()
        self._warm_datums = list(self._warm.load(self.settings.warm_age_ms_max, self._clock.monotonic_ms()))
        if self.settings.warm_age_ms_max:
            self._warm.open()
        if self.settings.standalone:
            self._fill_from_disk(self._clock.monotonic_ms())
        if not self.settings.standalone:
            self.cluster.attach(self._runtime)
            self._runtime.start()
        self._timer.start()
        self.push.start()
        self._started = True
        LOG.info(
            "member %s starts, %d durable records in %s", self.settings.self_address, count, self.settings.data_dir
        )

    def leave(self) -> None:
        """Refuse writes and hand them to the other members, while requests under way end. For a signal's handler."""
        self.cluster.leave()

    def stop(self, timeout_s: float = 8.0) -> bool:
        """Refuse writes, send what is due, end the threads; return whether all ended in time. May be called twice."""
        self.leave()
        ended = True
        if self._started and not self.settings.standalone:
            ended = self._runtime.stop(timeout_s)
        ended = self._timer.stop(timeout_s) and ended
        self._checker.stop()
        ended = self.push.stop(timeout_s) and ended
        self.forwarder.detach()
        for component in self._components.values():
            component.agent.close()
        self.cluster.close()
        self._warm.close(self._clock.monotonic_ms())
        self._record_file.close()
        self._lock.release()
        self._started = False
        return ended

    # --- what happens inside ---------------------------------------------------------------------

    def _fill_from_disk(self, now_ms: int) -> None:
        """Take over what the last run held and no other member holds newer (R7), each instance with a full time-out."""
        taken = 0
        for datum in self._warm_datums:
            stored = self._registry.version(datum.key)
            for one in datum.value.stored.values():
                one.beat_ms, one.last_confirmed_ms = (
                    now_ms,
                    NEVER_MS,
                )  # that it lives is a guess: any removal known wins
            if stored is None:
                taken += self._registry.apply(datum, stored, now_ms)
            elif datum.version > stored:
                taken += self._registry.merge(datum, now_ms) is not Merged.NOTHING
            if self.settings.standalone:  # nobody else takes it over: it is judged from here on
                self._registry.claim(datum.key, now_ms)
        if taken:
            LOG.info("%d services with their instances are taken over from the last run", taken)
        self._warm_datums = []

    def _on_change(self, event: InstancesChanged) -> None:
        self._warm.changed(event.key)
        self._http_clients.mark(event.key)
        if parsed := parse_datum_key(event.key):
            self.push.changed(*parsed)
        if event.origin is Origin.LOCAL:
            self._send(INSTANCE_LIST, event.key)

    def _send(self, resource_type: str, key: str) -> None:
        if not self.settings.standalone:
            self._runtime.sync(DistroKey(resource_type, key))

    def _send_client(self, client_id: str) -> None:
        self._send(CLIENTS, client_key(client_id))

    def _check_beats(self, now_ms: int) -> int:
        return self._beat_check.tick(now_ms, self._health_check_gate)

    def _health_check_gate(self) -> HealthCheckGate:
        protocol = self._protocol
        now_ms = self._clock.monotonic_ms()
        confirmed_ms = now_ms if self.settings.standalone else protocol.members.confirmed_ms
        may_check = protocol.steady(now_ms) and self.durable.switches.health_check_enabled
        return HealthCheckGate(may_check, confirmed_ms, protocol.mapper.responsible, self.settings.standalone)

    def _announce_when_ready(self, now_ms: int) -> int:
        if self._protocol.loading:
            return now_ms + READY_CHECK_MS
        if self.settings.announce:
            sys.stdout.write(announce(self.settings) + "\n")
            sys.stdout.flush()
        return FOREVER_MS

    # --- what endpoints ask ----------------------------------------------------------------------

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def counters(self) -> Mapping[str, int | float]:
        """``cpu`` of this process since the last call, ``load`` and ``mem`` (0..1) of the machine."""
        held_back = {"lists_held_back": self._registry.held_back}
        counts = {**self.stats.as_dict(), **self.forwarder.stats.as_dict(), **self.http.as_dict(), **held_back}
        counts |= self._notify.stats.as_dict()
        for rpc in self.loop_frontends:
            counts |= rpc.counters()
        return {**self._load.read(), **{_camel_case(name): count for name, count in counts.items()}}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _log_health(event: HealthChanged) -> None:
    LOG.info("instance %s of %s is %s: no beat came in time", event.instance, event.key, event.what)
