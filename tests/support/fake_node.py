"""A node without a network behind the HTTP frontend: the real domain, with a cluster and replication of the test."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from app.auth.access_control import AccessControl
from app.auth.decision_memo import DecisionMemo
from app.auth.member_calls import Callers
from app.auth.member_signer import MemberSigner
from app.auth.setup_secret import SetupSecret
from app.auth.signed import identity_of
from app.auth.user_table import UserTable
from app.auth.users import Users
from app.commands.record_writes import RecordWrites
from app.commands.writes import Writes
from app.config.settings import Settings, read_settings
from app.http.api.call import Forward, Reply
from app.http.api.dump_lines import Dumps
from app.http.api.parse_memo import ParseMemo
from app.http.api.stats import HttpStats
from app.links.feed import Feed
from app.links.node_links import NodeLinks
from app.machine.limits.answer_budget import AnswerBudget
from app.machine.limits.client_addresses import AddressTable
from app.machine.limits.connection_room import ConnectionRoom
from app.machine.limits.node_limits import naming_limits
from app.machine.process.config_call_log import ConfigCallLog
from app.machine.process.loop_parts import LoopPauses
from app.machine.tls.node_tls import NodeTls, build_tls
from app.members.member_sources import NoListError
from app.members.reports import DRAINED, planned_absence
from app.metrics.audit_trail import Actor, AuditTrail, acting
from app.metrics.instruments import Instruments
from app.metrics.node_metrics import NodeMetrics
from app.naming.clients.clients import Clients, build_clients
from app.naming.health.beat_refusals import BeatRefusals
from app.naming.limits.admission import Admission
from app.naming.model.events import Event
from app.naming.push.udp_subscribers import Subscriber, UdpPushStats
from app.naming.records.durable_service import DurableService
from app.naming.records.projection import Projection
from app.naming.records.records import Records
from app.naming.registry.foreign_table import ForeignTable
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.operator.content_checks import ContentChecks
from app.operator.drain_steps import DrainSteps
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import InstanceFacts
from app.operator.instance_history import CountHistory, InstanceHistory
from app.operator.instance_search import InstanceSearches
from app.peers.beats import BeatCollector
from app.peers.owner_forwarder import LoopForwarding
from app.peers.peer_parts import ForwardStats, MemberRequest
from app.peers.small_datums import LoopCalls
from app.ports.http_ports import ConnectionLoader, LoopFrontend
from app.replication.foreign_type import ForeignStore
from app.tools.simulation.member.disk import MemoryDisk
from distro.members.mapper import DistroMapper
from distro.model.types import CAPABILITY_CLIENTS_ONLY, CAPABILITY_VERSIONS, DistroKey, Member, MemberKind, MemberState
from tests.support.registry_parts import naming_of

SELF = "127.0.0.1:8848"
PEER = "127.0.0.2:8848"
SECRET = "the-secret-of-these-members"
SETUP_SECRET = "the-secret-in-the-data-folder"


def make_settings(**overrides: str) -> Settings:
    """Settings of a standalone node; ``server_port`` means ``server.port``."""
    return read_settings({"nacos.standalone": "true"} | {k.replace("_", "."): v for k, v in overrides.items()}, {})


@dataclass
class StubCluster:
    """A member list that the test writes. ``owner`` is responsible for all services."""

    self_address: str = SELF
    standalone: bool = True
    owner: str = SELF
    listed: set[str] = field(default_factory=lambda: {"127.0.0.1"})
    own_state: MemberState = MemberState.UP
    others: list[Member] = field(default_factory=list)
    reports: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)
    names_deadlines: bool = False
    draining: bool = False
    unsent: int = 0
    """Changed keys that have not reached a member."""
    hops: dict[str, str | None] = field(default_factory=dict)
    """Who is called in place of a member that this one cannot call."""
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    """When a call of a member with this clock was sent, in monotonic ms; others are sent now."""
    over: set[str] = field(default_factory=set)
    """The deadlines of calls that are too late."""
    is_behind: bool = False
    """Whether it stood still, and has not compared with a peer since."""
    pauses: int = 0
    """How often it stood still."""
    on_look_up: Callable[[], None] = lambda: None
    """Called each time that the owner of a key is looked up, before it is returned."""

    def stood_still(self) -> None:
        self.pauses += 1

    def responsible(self, tag: str) -> bool:
        return self.owner == self.self_address

    def map_srv(self, tag: str) -> str:
        self.on_look_up()
        return self.owner

    def owner_if_up(self, tag: str) -> str:
        return self.map_srv(tag) if self.state() is MemberState.UP else ""

    def responsible_durable(self, tag: str) -> bool:
        return self.responsible(tag)

    def map_srv_durable(self, tag: str) -> str:
        return self.map_srv(tag)

    def drain(self, enabled: bool) -> None:
        self.draining = enabled

    def leave(self) -> None:
        self.own_state = MemberState.DOWN

    def is_leave_known(self) -> bool:
        return True

    def is_handed_over(self) -> bool:
        return self.unsent == 0

    def unsent_keys(self) -> int:
        return self.unsent

    def give_to(self, owner: str) -> None:
        self.owner = owner

    def members(self) -> list[Member]:
        own = Member(self.self_address, self.own_state)
        return sorted([own, *self.others], key=lambda member: member.address)

    def member_json(self, member: Member) -> dict[str, Any]:
        return {
            "ip": member.ip,
            "port": member.port,
            "state": member.state.value,
            "extendInfo": {"version": "1.4.8"},
            "address": member.address,
            "failAccessCnt": 0,
        }

    def planned(self, member: Member) -> str:
        if member.address == self.self_address:
            return DRAINED if self.draining else ""
        return planned_absence(member.extend_info, member.state)

    def is_listed(self, remote_ip: str) -> bool:
        return remote_ip in self.listed

    def is_heard(self, remote_ip: str) -> bool:
        return self.is_listed(remote_ip)

    def has_any_of(self, remote_ip: str, is_one: Callable[[str], bool]) -> bool:
        return any(is_one(one.address) and one.ip == remote_ip for one in self.others)

    def sender_of(self, named: str | None, remote_ip: str) -> str | None:
        return named if named in {one.address for one in self.others} and self.is_listed(remote_ip) else None

    def java_peers_at(self, remote_ip: str) -> list[str]:
        others = [one for one in self.others if CAPABILITY_VERSIONS not in one.capabilities]
        return [one.address for one in others if one.ip == remote_ip]

    def is_nacos_2_at(self, remote_ip: str) -> bool:
        return any(CAPABILITY_CLIENTS_ONLY in self.capabilities(one) for one in self.java_peers_at(remote_ip))

    def nacos_at(self, remote_ip: str) -> str:
        return next((one.address for one in self.others if one.ip == remote_ip and not one.capabilities), "")

    def receive_rpc_report(self, node: Mapping[str, Any], remote_ip: str) -> tuple[str, dict[str, Any]] | None:
        self.reports.append((node, remote_ip))
        return (node["address"], {"address": self.self_address}) if "address" in node else None

    def ips_of(self, member: str) -> frozenset[str]:
        return frozenset()

    def capabilities(self, address: str) -> frozenset[str]:
        return next((one.capabilities for one in self.others if one.address == address), frozenset())

    def lacking(self, capability: str) -> list[str]:
        own = [one for one in self.others if one.kind is MemberKind.OWN and one.state is not MemberState.DOWN]
        return [one.address for one in own if capability not in one.capabilities]

    def deadline(self, member: str, left_ms: int) -> str:
        return f"{member}~1 {left_ms}" if self.names_deadlines else ""

    def stamp(self) -> str:
        return f"{self.self_address}~1 5"

    def sent_ms(self, member: str, clock: str | None) -> int:
        return self.sent.get((member, clock or ""), 1 << 60)

    def next_hop(self, member: str) -> str | None:
        return self.hops.get(member, member)

    def left_ms(self, deadline: str) -> int:
        return -1 if deadline in self.over else int(deadline.rpartition(" ")[2])

    def is_over(self, deadline: str) -> bool:
        return deadline in self.over

    def state(self) -> MemberState:
        return self.own_state

    def unready_reason(self) -> str:
        if self.draining:
            return "an operator drains this node"
        return "" if self.own_state is MemberState.UP else f"it is {self.own_state.value}"

    def receive_report(self, body: Mapping[str, Any], remote_ip: str) -> dict[str, Any]:
        self.reports.append((body, remote_ip))
        return {"code": 200, "message": None, "data": "false"}


@dataclass
class StubClocks:
    """The clocks of peers that the test writes."""

    known: dict[str, tuple[str, int]] = field(default_factory=dict)

    def clock_of(self, peer: str) -> tuple[str, int] | None:
        return self.known.get(peer)

    def note(self, peer: str, writer: str, clock_ms: int | None) -> None:
        if clock_ms is not None:
            self.known[peer] = (writer, clock_ms)


class StubSends:
    """Notes the loop that is attached."""

    calls: LoopCalls | None = None

    def attach(self, calls: LoopCalls | None) -> None:
        self.calls = calls


@dataclass
class StubReplication:
    """Gives back what the test put in; raises ``failure`` when there is one."""

    taken: list[tuple[str, bytes]] = field(default_factory=list)
    answer: bytes = b"ok"
    stored: tuple[list[bytes], dict[str, str]] = field(default_factory=lambda: ([b"{}"], {}))
    asked: list[list[str] | None] = field(default_factory=list)
    pages_asked: list[list[str] | None] = field(default_factory=list)
    refreshed: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    failure: Exception | None = None

    frames: list[object] = field(default_factory=list)
    """The object that came with each body, read already."""

    def receive(self, body: bytes, headers: Mapping[str, str], remote_ip: str, frame: object = None) -> bytes:
        self.frames.append(frame)
        return self._take(remote_ip, body)

    def verify(
        self, body: bytes, source: str, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> bytes:
        return self._take(source, body)

    def compare(self, body: bytes, headers: Mapping[str, str], remote_ip: str) -> bytes:
        self._take(remote_ip, body)
        return b"{}"

    refresh_fails: bool = False

    def refresh(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
        assert timeout_ms > 0
        self.refreshed.append((peer, keys))
        return not self.refresh_fails

    def datums(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], dict[str, str]]:
        self.asked.append(keys)
        if self.failure:
            raise self.failure
        parts, answered = self.stored
        return iter(parts), answered

    def page(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], dict[str, str]]:
        self.pages_asked.append(keys)
        return self.datums(keys, headers, remote_ip, resource_type)

    def _take(self, sender: str, body: bytes) -> bytes:
        if self.failure:
            raise self.failure
        self.taken.append((sender, body))
        return self.answer


@dataclass
class StubLookup:
    """Remembers what it was switched to; a kind in ``lacking`` gives no list, for the reason there."""

    switched: list[str] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)

    def switch(self, kind: str) -> None:
        if kind in self.lacking:
            raise NoListError(self.lacking[kind])
        self.switched.append(kind)


@dataclass
class StubHealer:
    """Remembers what it was asked to heal. ``wait``: what it answers to who asks whether a heal may begin, in ms."""

    wait: int = 0
    healed: list[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=list)

    def wait_ms(self, namespace: str, service: str) -> int:
        return self.wait

    def heal(self, namespace: str, service: str, source: str, instances: Iterable[str]) -> dict[str, Any]:
        self.healed.append((namespace, service, source, tuple(instances)))
        return {"keys": 2, "owned": 2, "asked": {PEER: 2}}


@dataclass
class StubForwarder:
    """Remembers what it was asked to pass on."""

    tags: list[str] = field(default_factory=list)
    durable: list[tuple[str, ...]] = field(default_factory=list)
    reply: Reply = field(default_factory=lambda: Reply(200, b"from the owner"))
    stats: ForwardStats = field(default_factory=ForwardStats)

    def attach(self, over: LoopForwarding[Reply]) -> None:
        """Nothing is sent."""

    def detach(self) -> None:
        """Nobody waits."""

    def forward(self, request: MemberRequest, to: Forward, run: Callable[[], Reply | Forward]) -> Reply:
        self.tags.append(to.tag)
        self.durable.append(to.durable)
        return self.reply


@dataclass
class StubPush:
    """Remembers who subscribed."""

    known: list[Subscriber] = field(default_factory=list)
    stats: UdpPushStats = field(default_factory=UdpPushStats)

    def subscribe(self, subscriber: Subscriber) -> None:
        self.known.append(subscriber)

    def refuse(self) -> None:
        self.stats.refused += 1

    def subscribers(self, namespace: str) -> list[Subscriber]:
        return [one for one in self.known if one.namespace == namespace]

    def state(self, *, reset: bool) -> tuple[UdpPushStats, list[tuple[Subscriber, int, int]]]:
        return self.stats, []


class RecordedTrail(AuditTrail):
    """An audit trail that writes no file."""

    def __init__(self, node: "FakeNode") -> None:
        super().__init__(node.settings.told, SELF, node.wall_ms)
        self.audited = node.audited
        self.actors: list[Actor] = []
        self.accesses: list[tuple[str, str, Actor, str]] = []

    def on_access(self, what: str, key: str, who: Actor, why: str = "") -> None:
        self.accesses.append((what, key, who, why))

    def write(
        self, what: str, key: str, *, before: object = None, after: object = None, actor: Actor | None = None
    ) -> None:
        self.audited.append((what, key, before, after))
        self.actors.append(actor or acting())
        self._noted_line(self._wall_ms(), self.actors[-1], what, key, before, after)

    def write_instance(
        self, verb: str, service: tuple[str, str], key: str, before: object, after: object, actor: Actor
    ) -> None:
        self.write(f"instance.{verb}", "/".join((*service, key)), before=before, after=after, actor=actor)


class SentByPlan:
    """The engine of one of two members, as far as it is asked about an instance, and what is to be sent."""

    def __init__(self) -> None:
        self.mapper = self.own_mapper = DistroMapper.over(SELF, (SELF, PEER))
        self.pending: dict[str, str] = {}

    def steady(self, _now_ms: int) -> bool:
        return True

    def pending_of(self, _key: DistroKey) -> dict[str, str]:
        return self.pending


class EmptyPage:
    """The metrics of a node that has none."""

    def page(self, accept: str) -> tuple[bytes, str]:
        return b"", "text/plain; version=0.0.4; charset=utf-8"

    def families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("rollcall_instances", "Instances of these services.", value=7)


@dataclass
class FakeNode:
    """Everything that endpoints may use."""

    settings: Settings = field(default_factory=make_settings)
    cluster: StubCluster = field(default_factory=StubCluster)
    replication: StubReplication = field(default_factory=StubReplication)
    small_sends: StubSends = field(default_factory=StubSends)
    healer: StubHealer = field(default_factory=StubHealer)
    lookup: StubLookup | None = field(default_factory=StubLookup)
    forwarder: StubForwarder = field(default_factory=StubForwarder)
    push: StubPush = field(default_factory=StubPush)
    dumps: Dumps = field(default_factory=Dumps)
    searches: InstanceSearches = field(default_factory=InstanceSearches)
    http: HttpStats = field(default_factory=HttpStats)
    pauses: LoopPauses = field(init=False)
    """The loop's watch for pauses; made with the server."""
    beats: BeatCollector = field(default_factory=BeatCollector)
    refusals: BeatRefusals = field(init=False)
    loop_frontends: tuple[LoopFrontend, ...] = ()
    loader: ConnectionLoader | None = None
    links: NodeLinks = field(init=False)
    events: list[Event] = field(default_factory=list)
    config_calls: ConfigCallLog = field(default_factory=ConfigCallLog)
    now_ms: int = 1_000_000
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    clocks: StubClocks = field(default_factory=StubClocks)
    callers: Callers = field(init=False)
    signer: MemberSigner = field(init=False)
    audited: list[tuple[str, str, object, object]] = field(default_factory=list)
    """What the audit trail was told: what, key, before, after."""
    instruments: Instruments = field(init=False)
    metrics: EmptyPage | NodeMetrics = field(default_factory=EmptyPage)
    registry: Registry = field(init=False)
    naming: NamingService = field(init=False)
    durable: DurableService = field(init=False)
    clients: Clients = field(init=False)
    explainer: InstanceFacts = field(init=False)
    drains: InstanceDrains = field(init=False)
    drain_steps: DrainSteps = field(init=False)
    engine_facts: Callable[[], dict[str, Any]] = lambda: {
        "writer": f"{SELF}~1",
        "loading": False,
        "steady": True,
        "peers": {},
    }
    count_history: CountHistory = field(init=False)
    content_checks: ContentChecks = field(init=False)
    access: AccessControl = field(init=False)
    users: Users = field(init=False)
    decisions: DecisionMemo = field(default_factory=DecisionMemo)
    written: ParseMemo = field(default_factory=ParseMemo)
    tls: NodeTls = field(init=False)
    limits: Admission = field(init=False)
    """Refuses by the limits of the settings; its ``stats`` count for ``addresses`` too."""
    room: ConnectionRoom = field(default_factory=ConnectionRoom)
    answers: AnswerBudget = field(default_factory=AnswerBudget)
    memory_bytes: int = 0
    addresses: AddressTable = field(init=False)
    """By this node's clock."""
    later_ms: int = 0
    """How far the wall clock went since the begin."""

    _writes: tuple[tuple[Any, ...], Writes] | None = None

    @property
    def senders(self) -> StubCluster:
        """The part of the cluster that knows addresses."""
        return self.cluster

    @property
    def reports(self) -> StubCluster:
        """The part of the cluster that takes reports."""
        return self.cluster

    def __post_init__(self) -> None:
        self.refusals = BeatRefusals(self._monotonic_ms)
        self.tls = build_tls(self.settings, self._monotonic_ms)
        writer, chosen = f"{SELF}~1", self.settings.limits
        self.limits = Admission(naming_limits(chosen))
        self.addresses = AddressTable(
            chosen.connections_per_address,
            chosen.writes_per_second_per_address,
            self.limits.stats,
            lambda: self.now_ms / 1_000,
        )
        self.instruments = replace(Instruments.of(self.settings, self.wall_ms), audit=RecordedTrail(self))
        identity = identity_of(self.settings.identity)
        self.callers = Callers(identity, writer, self._monotonic_ms, self.cluster)
        self.signer = MemberSigner(self.cluster.self_address, identity, self.clocks)
        registry = self.registry = Registry.of(writer, admission=self.limits, alone=self.settings.standalone)
        self.naming = naming_of(registry, self._monotonic_ms, self.events.append)
        self.content_checks = ContentChecks(self._monotonic_ms)
        self.count_history = CountHistory(registry.table.totals, self.wall_ms)
        self.clients = build_clients(registry, self._monotonic_ms, self.wall_ms, self.events.append)
        table = UserTable()
        projection = Projection(registry.table, self._monotonic_ms, self.events.append, table.on_record)
        setup = SetupSecret(Path("/nowhere"), table.has_admin, lambda: True, self._monotonic_ms)
        setup.value = SETUP_SECRET
        audit = self.instruments.audit
        self.access = AccessControl(
            self.settings.auth,
            table,
            self.wall_ms,
            self._monotonic_ms,
            setup,
            on_login=lambda what, name, ip: audit.on_access(what, "", Actor(ip, name)),
        )
        records = Records(
            writer,
            self.disk,
            self.wall_ms,
            self._monotonic_ms,
            projection.on_record,
            alone=self.settings.standalone,
            on_written=audit.on_record,
        )
        self.durable = DurableService(
            records, projection, registry.table, registry.writes, self._monotonic_ms, self.events.append
        )
        self.drain_steps = DrainSteps(
            registry.table,
            self.naming,
            self.durable,
            self.clients.table,
            self.clients.own,
            self.cluster,
            self.cluster.responsible,
            self,
        )
        self.drains = InstanceDrains(self)
        foreign = ForeignTable(registry.table)
        store = ForeignStore(writer, foreign, self.events.append, self._monotonic_ms, 90_000, 1_000)
        feed = Feed(registry.table, lambda *_: None, self._monotonic_ms)
        self.links = NodeLinks(
            self.settings.links,
            feed,
            store,
            foreign,
            self,
            lambda: "here",
            writer,
            lambda: (0, 1),
            projection,
        )
        view: Any = SentByPlan()
        self.explainer = InstanceFacts(
            registry.table,
            writer,
            self.clients.table,
            records,
            lambda: view,
            view.pending_of,
            InstanceHistory(self._monotonic_ms),
            self,
            SELF,
            lambda: MemberState.UP.value,
        )
        self.users = Users(records, table, self.wall_ms, self.events.append)

    @property
    def writes(self) -> Writes:
        """Of the parts as they are now: tests put others in their place."""
        owners = (self.cluster, self.senders.is_nacos_2_at)
        parts = (*owners, self.naming, self.durable, self.instruments.audit, self.http, self.beats.collect)
        audit, links = self.instruments.audit, self.settings.links
        of_records = (self.naming, self.durable, self.users, self.access, audit, links)
        if self._writes is None or self._writes[0] != parts + of_records:
            self._writes = parts + of_records, Writes(*parts, self.wall_ms, RecordWrites(*of_records))
        return self._writes[1]

    def _monotonic_ms(self) -> int:
        return self.now_ms

    def counters(self) -> Mapping[str, int | float]:
        return {"cpu": 0.5, "load": 1.25, "mem": 0.25, "syncSent": 3}

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_123 + self.later_ms
