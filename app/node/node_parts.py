"""Parts of a node: the frozen values that its builders make and hand to one another."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.auth.member_calls import Callers
from app.auth.member_signer import MemberSigner
from app.auth.user_table import UserTable
from app.auth.users import Users
from app.background.health_checks import Checker
from app.background.notify import NotifyCenter
from app.background.override_upkeep import OverrideUpkeep
from app.background.push_udp import UdpPusher
from app.background.timers import NamingTimer, Tick
from app.config.settings import Settings
from app.dns.name_index import NameIndex
from app.links.node_links import LINKS, LinkKinds
from app.machine.limits.node_limits import Limits
from app.machine.process.machine_watch import MachineWatch
from app.machine.storage.record_file import RecordFile
from app.machine.storage.warm_log import WarmStore
from app.machine.tls.node_tls import NodeTls
from app.members.member_ips import MemberSenders
from app.members.member_lookup import MemberLookup
from app.members.member_reports import MemberReports
from app.members.membership import Membership
from app.naming.clients.clients import ClientExpiry, Clients
from app.naming.health.beat_check import BeatCheck
from app.naming.model.events import ServicePushed
from app.naming.records.durable_service import DurableService
from app.naming.records.records import Records
from app.naming.registry.registry import LISTS, ListKinds, Registry
from app.naming.service import NamingService
from app.naming.wire.datum_codec import InstanceListCodec
from app.operator.drain_steps import DrainSteps
from app.operator.engine_page import EnginePage
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import InstanceFacts
from app.operator.instance_history import CountHistory, InstanceHistory
from app.peers.beats import BeatCollector
from app.peers.grpc_links import GrpcLinks
from app.peers.small_datums import SmallSends
from app.replication.address_clients import HttpClients
from app.replication.client_receiver import ClientReceiver
from app.replication.foreign_type import ForeignStore
from app.replication.http_peers import NodeReplication
from app.replication.service_heal import ServiceHealer
from distro.engine.engine import ENGINE, EngineKinds
from distro.engine.runtime import DistroRuntime
from distro.model.monitor import DistroStats, EngineTimes
from distro.model.ports import Clock, Component
from distro.model.types import DistroKey
from distro.protocol.engine_reader import EngineReader


class NodeClock(Clock, Protocol):
    """The time of a node, which also measures how long changes take."""

    @property
    def boot_s(self) -> Callable[[], float]:
        """Returns the time of ``boot_ms`` in seconds, as finely as the clock has it."""
        ...


def name_run(settings: Settings, clock: Clock) -> str:
    """Return the name of a new run of this node in versions (R1): a member that lost its memory never repeats one."""
    return f"{settings.self_address}~{clock.wall_ms():x}{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True)
class NodeKinds:
    """The kinds of a node's parts that touch its machine, or follow a rule of replication.

    The simulation gives others: a disk in memory, an engine in virtual time, or a member that lacks one rule.
    """

    name_run: Callable[[Settings, Clock], str] = name_run
    notify: Callable[[], NotifyCenter] = NotifyCenter
    lists: ListKinds = LISTS
    record_file: Callable[[Path], RecordFile] = RecordFile
    records: Callable[..., Records] = Records
    warm_store: Callable[..., WarmStore] = WarmStore
    membership: Callable[..., Membership] = Membership
    reports: Callable[..., MemberReports] = MemberReports
    beat_check: Callable[..., BeatCheck] = BeatCheck
    engine: EngineKinds = ENGINE
    links: LinkKinds = LINKS


NODE = NodeKinds()


@dataclass(frozen=True, slots=True)
class Domain:
    """Services, clients and durable records of this node, with their files and events."""

    writer: str
    """This run of this node, as versions name it (R1)."""
    notify: NotifyCenter
    registry: Registry
    names: NameIndex | None
    """The names that DNS answers; None without DNS."""
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
    foreign: ForeignStore
    """The instances that links to other clusters brought."""
    history: InstanceHistory
    """The ends of instances here, for later questions."""
    count_history: CountHistory

    def on_pushed(self, namespace: str, service: str) -> None:
        """Tell all who hear of it that a push of a service's current list began. From any thread."""
        self.notify.publish(ServicePushed(namespace, service))


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
    senders: MemberSenders
    """Tells which members calls come from."""
    reports: MemberReports
    """The reports to and from the other members."""
    beats: BeatCollector
    """The beats that wait for other members."""
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
    came_back: Callable[[str, int], None]
    """Notes that clients of a run of another member came back here, by its name in versions, and when (R17)."""
    sync: Callable[[DistroKey], None] | None
    """Has the other members get the state of a key; None for a node alone."""
    now_s: Callable[[], float]
    """The clock's time since the boot, in seconds."""


@dataclass(frozen=True, slots=True)
class Background:
    """The threads next to the engine: timer, active health checks, end of overrides, UDP push; and the watched
    resources."""

    timer: NamingTimer
    upkeep: Mapping[str, Tick]
    """The timer's tasks that end what is kept for a time alone, by resource type."""
    checker: Checker
    overrides: OverrideUpkeep
    push: UdpPusher
    machine: MachineWatch


@dataclass(frozen=True, slots=True)
class Operator:
    """The questions of an operator about one instance or the engine, and the drains of instances."""

    explainer: InstanceFacts
    drains: InstanceDrains
    drain_steps: DrainSteps
    engine_page: EnginePage
