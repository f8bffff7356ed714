"""A whole member in virtual time: the real domain, engine and frontend; a runtime of events is in place of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from app.auth.access_control import AccessControl
from app.auth.member_calls import Callers
from app.auth.member_signer import MemberSigner
from app.auth.user_table import UserTable
from app.auth.users import Users
from app.commands.call_deadline import check_call_deadline
from app.commands.record_writes import RecordWrites
from app.commands.writes import Writes
from app.config.settings import read_settings
from app.http.api.answers import refusal_by_switch, refuses_beats
from app.http.api.call import Services
from app.http.api.parse_memo import WRITES_KEPT_MAX, ParseMemo
from app.http.api.stats import HttpStats
from app.machine.limits.answer_budget import AnswerBudget
from app.machine.limits.client_addresses import AddressTable
from app.machine.limits.connection_room import ConnectionRoom
from app.machine.storage.warm_log import decode_aged
from app.machine.tls.node_tls import build_tls
from app.members.member_ips import MemberSenders
from app.members.member_reports import MemberReports
from app.members.membership import Membership
from app.metrics.instruments import Instruments
from app.naming.changes import Changes
from app.naming.health.beat_check import BeatCheck, HealthCheckGate
from app.naming.model.events import Event, HealthChanged, InstancesChanged, Origin, RecordChanged
from app.naming.model.keys import EPHEMERAL_PREFIX
from app.naming.model.model import Service, StoredInstance
from app.naming.records.durable_service import DurableService
from app.naming.records.projection import Projection
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.list_state import ListState
from app.naming.registry.list_upkeep import ListUpkeep
from app.naming.registry.local_writes import LocalWrites
from app.naming.registry.operations import Shared
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import ServiceTable
from app.naming.service import NamingService
from app.naming.wire.datum_codec import InstanceListCodec
from app.node.node_engine import beat_taker
from app.peers.beats import BeatCollector
from app.replication.http_peers import NodeReplication
from app.replication.instance_list_type import INSTANCE_LIST, InstanceListStore
from app.replication.large_bodies import LargeBodies
from app.replication.record_type import RECORDS, RecordCodec
from app.replication.service_heal import ServiceHealer
from app.replication.warm_start import WarmStart
from app.tools.simulation.member.costs import CostedStore, CostMeter, CostModel
from app.tools.simulation.member.disk import DiskQueue, SimDisk
from app.tools.simulation.member.engine_calls import CallAgent
from app.tools.simulation.member.member_frontend import (
    DiskTurn,
    HttpFrontend,
    SimForwarder,
    SimOwnerForwarder,
    Write,
    stood_still_ms,
)
from app.tools.simulation.member.sim_time import MemberClock, SimLoop
from app.tools.simulation.member.watched_parts import WatchedKeys, WatchedRecords
from app.tools.simulation.transcript.decisions import Decisions, named
from app.tools.simulation.transcript.entry import KEYS_MAX, What
from distro.engine.local_actions import LocalActions
from distro.engine.peer_sends import PeerSends
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats
from distro.model.observer import NO_OBSERVER, DistroObserver
from distro.model.ports import Component
from distro.model.types import (
    Action,
    Call,
    Claim,
    DistroKey,
    FinishLoad,
    Forget,
    LocalAction,
    MemberKind,
    MemberState,
    PeerReport,
    Report,
)
from distro.protocol.claims import Claimer
from distro.protocol.engine_reader import EngineReader
from distro.protocol.protocol import DistroProtocol
from distro.protocol.protocol_parts import ALL_RULES, ProtocolRules
from distro.receive.receive import DistroReceiver, ReceiverEvents
from distro.verify.checksums import OwnChecksums
from distro.verify.digest_answers import DigestAnswers
from distro.wire.deadlines import CallDeadlines

if TYPE_CHECKING:
    from app.tools.simulation.world.sim_clients import SimClient
    from app.tools.simulation.world.world import World

SETTINGS = read_settings({"nacos.standalone": "true"}, {})
QUIET = read_settings({"nacos.standalone": "true", "rollcall.audit.enabled": "false"}, {})
WAKE_MS_MAX = 1
"""How long an event waits until the protocol's thread has woken up."""
LOCAL_MS_MAX = 3
"""How long a local action takes: a slice of claims on a disk, for example."""
RUNS_OF_A_CLOCK_MS = 1_000_000_000
"""Monotonic clocks start at any value, so that a test notices one that is sent to a peer."""
WARM_MS = 500
"""The age of the copy of instance lists on disk. Source: ``FLUSH_MS`` of the warm log."""


class SimMailbox(ReceiverEvents):
    """Events for the protocol; each new event wakes it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._events: list[Callable[[DistroProtocol, int], None]] = []
        self._keys: dict[DistroKey, None] = {}

    def sync(self, key: DistroKey) -> None:
        self._keys[key] = None
        self._wake()

    def claim(self, key: DistroKey, source: str | None = None) -> None:
        self.put(lambda protocol, now_ms: protocol.claim_later(key, now_ms, source))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.put(lambda protocol, _now_ms: protocol.fetch(peer, keys))

    def on_report(self, report: PeerReport) -> None:
        self.put(lambda protocol, now_ms: protocol.on_report(report, now_ms))

    def came_back(self, writer: str, now_ms: int) -> None:
        """Note that a client came back, which wakes no thread."""
        self._events.append(lambda protocol, _now_ms: protocol.came_back({writer: now_ms}))

    def served(self, peer: str, resource_type: str, keys: list[str]) -> None:
        self._events.append(
            lambda protocol, now_ms: protocol.on_served(peer, resource_type, keys, now_ms / 1_000),
        )

    def put(self, event: Callable[[DistroProtocol, int], None]) -> None:
        self._events.append(event)
        self._wake()

    def take(self) -> tuple[list[Callable[[DistroProtocol, int], None]], list[DistroKey]]:
        taken = self._events, list(self._keys)
        self._events, self._keys = [], {}
        return taken


class SimMember:
    """One member's process. Its address stays; ``start`` creates everything else again, as after a kill.

    Subclasses in tests replace a part, to show the effect of a missing rule.
    """

    lists_class: type[ListState] = ListState
    writes_class: type[LocalWrites] = LocalWrites
    replication_class: type[ListReplication] = ListReplication
    rules = ALL_RULES
    """The protocol rules that it follows."""
    protocol_class: type[DistroProtocol] = DistroProtocol
    receiver_class: type[DistroReceiver] = DistroReceiver
    sends_class: type[PeerSends] = PeerSends
    beat_check_class: type[BeatCheck] = BeatCheck
    records_class: type[WatchedRecords] = WatchedRecords
    members_class: type[MemberList] = MemberList
    membership_class: type[SimMembership]
    forwarder_class: type[SimForwarder] = SimForwarder
    parallel_calls = False
    """Calls to one peer do not wait for each other."""
    notices_pauses = True
    costs: CostModel | None = None
    """The costs of its work in virtual time; None: nothing but ``LOCAL_MS_MAX`` and the time of its disk."""
    claim_ms = 0
    """The cost of a claim of one key, above ``LOCAL_MS_MAX``."""

    guard_rounds = 2
    """The number of verify rounds for which an unexplained loss is not shown."""

    def __init__(self, world: World, address: str, config: DistroConfig, wall_skew_ms: int) -> None:
        self.world = world
        self.address = address
        self.ip = address.partition(":")[0]
        self.config = config
        self.run = 0
        self.paused = False
        self.listed: tuple[str, ...] = ()
        """Its file of members."""
        self.record_disk = SimDisk()
        self.warm: dict[str, tuple[int, bytes]] = {}
        """Its copy of instance lists on disk, with the wall clock of each."""
        self._cold: dict[str, None] = {}
        """Lists that changed since they were copied."""
        self._alive = False
        self._wall_skew_ms = wall_skew_ms
        self._waiting: list[Callable[[], None]] = []
        self._paused_ms = 0
        self.longest_tick_ms = 0.0
        """The longest of all its runs, by ``costs``."""

    # --- life ------------------------------------------------------------------------------------

    @property
    def listening(self) -> bool:
        return self._alive

    @property
    def serving(self) -> bool:
        """Return whether clients get answers."""
        return self._alive and not self.paused and not self.leaving and not self.protocol.loading

    @property
    def leaving(self) -> bool:
        return self._alive and self.membership.state() is MemberState.DOWN

    def start(self) -> None:
        """Begin a new run with empty memory."""
        assert not self._alive
        self.run += 1
        self._alive, self.paused = True, False
        self._waiting.clear()
        self._turn_at_ms: int | None = None
        self._turn_number = 0
        self._busy_until_ms = 0
        self._calls: dict[tuple[str, bool], deque[Call]] = {}
        self._local_end_ms = 0
        self.clock = MemberClock(self.world, self.world.between(1, RUNS_OF_A_CLOCK_MS), self._wall_skew_ms)
        self.writer = f"{self.address}~{self.run}"
        self.waits_for_disk = False
        self.owns_durable: bool | None = None
        """Set while a write goes on that came to the disk earlier: whether this member owns it."""
        self._build()
        self.records.read_disk()
        self._read_warm()
        runtime: Any = self.runtime  # the part of it that is used
        self.senders.take_list(self.listed)
        self.membership.attach(runtime, self.listed)
        self.reports.take_list(self.listed)
        self.in_run(1, self._check_beats)

    def protocol_rules(self) -> ProtocolRules:
        return self.rules

    def reports_class(self) -> type[MemberReports]:
        return MemberReports

    def _build_registry(self) -> Registry:
        slack_ms, shared = self.config.tombstone_slack_ms, Shared()
        table, self.keys = ServiceTable(slack_ms), WatchedKeys()
        guard_ms = self.guard_rounds * self.config.verify_interval_ms
        lists = self.lists_class(self.writer, table, self.keys, tombstone_slack_ms=slack_ms, guard_ms=guard_ms)
        return Registry(
            table,
            lists,
            self.writes_class(table, lists, shared),
            self.replication_class(table, lists, shared),
            ListUpkeep(table, lists),
        )

    def _build(self) -> None:
        config, clock = self.config, self.clock
        self.stats = DistroStats()
        registry = self.registry = self._build_registry()
        changes = Changes(registry.table, registry.replication, clock.monotonic_ms, self._publish)
        self.naming = NamingService(registry.table, registry.writes, changes, clock.monotonic_ms, self._publish)
        projection = Projection(registry.table, clock.monotonic_ms, self._publish)
        self.records = self.records_class(
            self.world.checker.word,
            self.writer,
            self.record_disk,
            clock.wall_ms,
            clock.monotonic_ms,
            projection.on_record,
            self._check_write,
        )
        self.durable = DurableService(
            self.records, projection, registry.table, registry.writes, clock.monotonic_ms, self._publish
        )
        self.components: dict[str, Component] = {}
        observer = Decisions(self.world, self.address) if self.world.tracing else NO_OBSERVER
        self.protocol = self._build_protocol(observer)
        reader = self.reader = self.protocol.reader
        self.beats, self.deadlines = BeatCollector(), CallDeadlines(self.writer, clock)
        self.mailbox = SimMailbox(self._wake)
        self._build_membership(reader)
        self.membership.member = self
        self.runtime: SimRuntime = SimRuntime(self)
        self.receiver = self.receiver_class(
            self.writer,
            self.components,
            reader.mapper_of,
            reader.is_loading,
            self.mailbox,
            self.stats,
            reader.is_known_writer,
            reader.answers_itself,
        )
        self.claimer = CountingClaimer(self.components, self.writer)
        self.local_actions = LocalActions(reader, self.components, self._fill, self.claimer)
        self.checksums = OwnChecksums(self.components, reader)
        self.agent = CallAgent(self)
        agent: Any = self.agent  # it answers by call-back; only this module calls it
        self.codec = InstanceListCodec(clock.wall_ms)
        store = InstanceListStore(registry.lists, registry.replication, registry.upkeep, self._publish)
        self.components[INSTANCE_LIST] = Component(store, self.codec, agent, deltas=store)
        self.sends = self.sends_class(self.components, reader, self.stats)
        own_kind = frozenset({MemberKind.OWN})
        self.components[RECORDS] = Component(self.records, RecordCodec(), agent, taken_by=own_kind)
        self.beat_check = self.beat_check_class(
            registry.table, self.writer, registry.writes, registry.upkeep, self._publish, pause_ms=config.pause_ms
        )
        self.meter = self._build_meter()
        self._build_frontend()
        self.receiver.observer = observer

    def _build_membership(self, reader: EngineReader) -> None:
        self.settings = replace(
            SETTINGS, standalone=False, self_address=self.address, members=self.listed, distro=self.config
        )
        settings, clock, deadlines = self.settings, self.clock, self.deadlines
        refusal = partial(refusal_by_switch, self.durable, "")
        self.membership = self.membership_class(settings, reader, clock, deadlines, refusal)
        self.senders = MemberSenders(reader, deadlines)
        self.reports = self.reports_class()(
            settings,
            self.membership,
            self.senders,
            reader,
            clock,
            deadlines,
            beats=self.beats,
            take_beats=beat_taker(self.naming, reader),
            on_report=self.mailbox.on_report,
        )

    def _build_protocol(self, observer: DistroObserver) -> DistroProtocol:
        now_ms = self.clock.monotonic_ms()
        return self.protocol_class(
            self.members_class(self.address, self.config, now_ms),
            self.writer,
            self.config,
            self.components,
            self.stats,
            now_ms,
            rules=self.protocol_rules(),
            observer=observer,
        )

    def _build_meter(self) -> CostMeter | None:
        """Apply ``costs`` to the stores and the disk."""
        if self.costs is None:
            return None
        meter = self.record_disk.meter = CostMeter(self.costs)
        for name, component in self.components.items():
            self.components[name] = replace(component, store=CostedStore(component.store, meter))
        return meter

    def spent_us(self) -> float:
        """Return the cost of all work of this run so far."""
        return self.meter.us if self.meter is not None else 0.0

    def _build_writes(
        self, access: AccessControl, beats: BeatCollector, http: HttpStats, instruments: Instruments
    ) -> Writes:
        naming, durable, audit, wall_ms = self.naming, self.durable, instruments.audit, self.clock.wall_ms
        users = Users(self.records, access.table, wall_ms, self._publish)
        records = RecordWrites(naming, durable, users, access, audit)
        is_nacos_2_at, collect_beat = self.senders.is_nacos_2_at, beats.collect
        return Writes(self.membership, is_nacos_2_at, naming, durable, audit, http, collect_beat, wall_ms, records)

    def _build_frontend(self) -> None:
        clock, bodies = self.clock, LargeBodies(self.config.body_bytes_max)
        components, receiver, cluster = self.components, self.receiver, self.membership
        digests = DigestAnswers(components, receiver, self.reader, self.stats)
        self.disk = DiskQueue(self)
        nothing: Any = None
        forwarder: Any = SimOwnerForwarder()
        beats, http, instruments = self.beats, HttpStats(), Instruments.of(QUIET, clock.wall_ms)
        access = AccessControl(None, UserTable(), clock.wall_ms, clock.monotonic_ms)
        services = Services(
            settings=self.settings,
            naming=self.naming,
            durable=self.durable,
            writes=self._build_writes(access, beats, http, instruments),
            push=nothing,
            cluster=cluster,
            senders=self.senders,
            reports=self.reports,
            lookup=None,
            callers=Callers(None, self.writer, clock.boot_ms, self.senders),
            signer=MemberSigner(self.address, None, self.deadlines),
            small_sends=nothing,
            replication=NodeReplication(receiver, components, cluster, self.senders, clock, bodies, digests),
            healer=ServiceHealer(
                cluster, self.reader.mapper_of, components, receiver, self.mailbox, self.durable, None, clock
            ),
            forwarder=forwarder,
            beats=beats,
            refusals=cluster.refusals,
            access=access,
            users=nothing,
            written=ParseMemo(WRITES_KEPT_MAX),
            http=http,
            pauses=nothing,
            clients=nothing,
            loop_frontends=(),
            loader=None,
            counters=nothing,
            config_calls=nothing,
            explainer=nothing,
            drains=nothing,
            drain_steps=nothing,
            engine_facts=nothing,
            count_history=nothing,
            tls=build_tls(self.settings, clock.monotonic_ms),
            addresses=AddressTable(),
            room=ConnectionRoom(),
            answers=AnswerBudget(),
            instruments=instruments,
            metrics=nothing,
            wall_ms=clock.wall_ms,
            monotonic_ms=clock.monotonic_ms,
        )
        self.http_stats, self.http = services.http, HttpFrontend(self, services, SimLoop(self))

    def _check_write(self) -> None:
        if self.waits_for_disk:
            raise DiskTurn
        check_call_deadline()

    def kill(self) -> None:
        """End the process, which loses its memory (SIGKILL)."""
        self.world.checker.losing(self)
        self.world.trace(self.address, "ends")
        self.disk.crash()
        self._alive = self.paused = False
        self._waiting.clear()
        self.run += 1

    def leave(self) -> None:
        """Refuse writes, notify the others, send pending changes, and end (SIGTERM)."""
        self.membership.leave()
        self._drain(self.world.now_ms + self.config.drain_ms_max)

    def _drain(self, end_ms: int) -> None:
        if self.protocol.pending() and self.world.now_ms < end_ms:
            self.in_run(20, lambda: self._drain(end_ms))
        else:
            self.in_run(20, self.kill)

    def pause(self) -> None:
        """Pause with all memory and open connections (SIGSTOP)."""
        self.paused, self._paused_ms = True, self.world.now_ms

    def resume(self) -> None:
        """Continue. Events that arrived meanwhile are handled in any order, as by threads that wake together."""
        self.paused = False
        self._notice_pause()
        waiting, self._waiting = self._waiting, []
        self.world.shuffle(waiting)
        for work in waiting:
            if self.paused or not self._alive:
                self._waiting.append(work)
            else:
                self.post(work)

    def _notice_pause(self) -> None:
        """As ``LoopPauses.check`` does before anything is read."""
        if self.world.now_ms - self._paused_ms <= self.config.pause_ms or not self.notices_pauses:
            return
        self.world.marks["pause noticed by the frontend"] += 1
        self.http_stats.stood_still = True
        run, until_ms = self.run, self.world.now_ms + stood_still_ms()

        def go_on() -> None:
            if self.run == run and self.world.now_ms >= until_ms:
                self.http_stats.stood_still = False

        self.world.after(stood_still_ms(), go_on)

    def post(self, work: Callable[[], None]) -> None:
        if self.paused:
            self.world.marks["call or timer that waited in a paused process"] += 1
            self._waiting.append(work)
            return
        work()
        if self._alive and self.keys.touched:
            self.world.checker.look(self)

    def in_run(self, delay_ms: int, work: Callable[[], None]) -> None:
        run = self.run

        def do() -> None:
            if self.run == run:
                self.post(lambda: work() if self.run == run else None)

        self.world.after(delay_ms, do)

    # --- callbacks of the node ---------------------------------------------------------------------

    def _publish(self, event: Event) -> None:
        match event:
            case InstancesChanged(key, origin):
                if origin is Origin.LOCAL:
                    self.mailbox.sync(DistroKey(INSTANCE_LIST, key))
                self._keep_warm(key)
            case RecordChanged(key):
                self.mailbox.sync(DistroKey(RECORDS, key))
            case HealthChanged(key, instance, what):
                text = f"its check finds {instance} of {key} {what}"
                self.world.trace(self.address, text, What.HEALTH, keys=(key,))

    # --- the copy on disk ------------------------------------------------------------------------

    def _keep_warm(self, key: str) -> None:
        if self.world.warm and key not in self._cold:
            if not self._cold:
                self.in_run(WARM_MS, self._write_warm)
            self._cold[key] = None

    def _write_warm(self) -> None:
        keys, self._cold = list(self._cold), {}
        for key in keys:
            self.warm.pop(key, None)
        now_ms = self.clock.monotonic_ms()
        wall_ms = self.clock.wall_ms()
        for one in self.registry.lists.datums(keys):
            self.warm[one.key] = wall_ms, self.codec.encode(one, now_ms, True)

    def _read_warm(self) -> None:
        self._cold = {}
        self._warm_start, now_ms = (
            WarmStart(self.registry.lists, self.registry.replication, claims=False),
            self.clock.monotonic_ms(),
        )
        wall_ms = self.clock.wall_ms()
        self._warm_start.read(
            decode_aged(self.codec, key, orjson.loads(body), wall_ms - at_ms, now_ms)
            for key, (at_ms, body) in list(self.warm.items())  # as it was at the start
        )

    def _fill(self, now_ms: int) -> None:
        """Add the lists of the disk, as a load is over."""
        before = self.registry.lists.versions()
        self._warm_start.fill(now_ms)
        if self.registry.lists.versions() != before:
            self.world.marks["lists taken from the own disk"] += 1

    # --- further callbacks of the node ------------------------------------------------------------

    def take_list(self, addresses: Collection[str]) -> None:
        """Take a new file of members; this member itself is always listed."""
        self.listed = tuple(sorted({*addresses, self.address}))
        if self._alive:
            self.post(self._take_list)

    def _take_list(self) -> None:
        self.senders.take_list(self.listed)
        self.membership.take_list(self.listed)
        self.reports.take_list(self.listed)

    def set_wall(self, jump_ms: int) -> None:
        """Set the wall clock."""
        self._wall_skew_ms += jump_ms
        self.clock.jump(jump_ms)

    def store(self, resource_type: str, work: Callable[[], None]) -> None:
        """Store datums: records when the disk has its turn for them."""
        if resource_type == RECORDS:
            self.disk.put(lambda: None, work)
        else:
            work()

    def type_of(self, key: str) -> str:
        return INSTANCE_LIST if key.startswith(EPHEMERAL_PREFIX) else RECORDS

    def _check_beats(self) -> None:
        now_ms = self.clock.monotonic_ms()
        next_ms = self.beat_check.tick(now_ms, self.ask_gate)
        self.in_run(next_ms - now_ms, self._check_beats)

    def ask_gate(self) -> HealthCheckGate:
        view, now_ms = self.reader.view, self.clock.monotonic_ms()
        members = view.members
        cut_off_since_ms = members.cut_off_since_ms(now_ms)
        return HealthCheckGate(
            view.steady(now_ms),
            members.confirmed_ms,
            view.mapper.responsible,
            cut_off_since_ms,
            members.returned_ms,
            beats_known_ms=members.beats_known_ms(now_ms),
            refused_ms=self.membership.refusals.last_ms(refuses_all=refuses_beats(self.membership, self.durable, "")),
        )

    # --- queries of the checks -------------------------------------------------------------------------

    def revision_of(self, write: Write) -> int | None:
        """Return the revision that this member knows of the instance of a write, None for none."""
        known = self.instances(write.datum_key).get(write.instance_key) if write.ephemeral else None
        return int((known.instance.metadata or {})["revision"] or 0) if known else None

    def owns(self, service: str) -> bool:
        return self.protocol.mapper.responsible(service)

    def instances(self, key: str) -> Mapping[str, StoredInstance]:
        service = self.registry.table.find(key)
        return service.stored if service else {}

    def shows(self, client: SimClient) -> bool:
        return client.instance_key in self.instances(client.datum_key)

    def stored(self) -> Iterator[tuple[str, Service]]:
        """The services that hold instances, by datum key."""
        return ((one.key, one) for one in self.registry.table.services() if one.stored)

    def dump(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return this member's visible data, without ages."""
        return {
            key: (service.version.to_text(), {name: one.instance for name, one in sorted(service.stored.items())})
            for key, service in self.stored()
        }

    # --- the protocol's thread -------------------------------------------------------------------

    def _wake(self) -> None:
        self._turn_by(self.world.now_ms + self.world.between(0, WAKE_MS_MAX))

    def _turn_by(self, at_ms: int) -> None:
        """Schedule a turn at ``at_ms`` at the latest, or after the current tick."""
        at_ms = max(at_ms, self._busy_until_ms)
        if self._turn_at_ms is not None and self._turn_at_ms <= at_ms:
            return
        self._turn_at_ms = at_ms
        self._turn_number += 1
        number = self._turn_number
        self.in_run(max(at_ms - self.world.now_ms, 0), lambda: self._turn() if number == self._turn_number else None)

    def _turn(self) -> None:
        self._turn_at_ms = None
        protocol, seen, loading = self.protocol, self.protocol.mapper.servers, self.protocol.loading
        now_ms, before_us = self.clock.monotonic_ms(), self.spent_us()
        events, keys = self.mailbox.take()
        for event in events:
            event(protocol, now_ms)
        protocol.sync(dict.fromkeys(keys, now_ms / 1_000), now_ms)
        actions, next_ms = protocol.tick(now_ms)
        if protocol.mapper.servers != seen:
            self.world.trace(self.address, f"sees {', '.join(protocol.mapper.servers)}")
        if protocol.loading != loading:
            self.world.trace(self.address, "loads" if protocol.loading else "is UP")
        self._end_tick(actions, (self.spent_us() - before_us) / 1_000)
        self._turn_by(max(self.world.now_ms + max(next_ms - now_ms, 0), self._busy_until_ms))

    def _end_tick(self, actions: list[Action], taken_ms: float) -> None:
        """Dispatch the actions after the tick, which took this long."""
        self.longest_tick_ms = max(self.longest_tick_ms, taken_ms)
        self.world.checker.ticked(self, taken_ms)
        if taken_ms < 1:
            self._give_out(actions)
            return
        self._busy_until_ms = self.world.now_ms + round(taken_ms)
        self.in_run(round(taken_ms), lambda: self._give_out(actions))

    def _give_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, LocalAction):
                self._mark(action)
                self.execute_here(action)
            else:
                self._put(action)

    def execute_here(self, action: LocalAction) -> None:
        """Run actions on a separate thread, one after the other. Its end is reported after the duration."""
        begin_ms = max(self.world.now_ms, self._local_end_ms) + self.world.between(0, LOCAL_MS_MAX)
        self._local_end_ms = begin_ms

        def run() -> None:
            before_us = self.spent_us()
            event = self.local_actions.run(action, self.clock.monotonic_ms())
            if self.world.tracing:
                self._tell(action)
            taken_ms = round((self.spent_us() - before_us) / 1_000)
            taken_ms += self.claimer.claimed * self.claim_ms if isinstance(action, Claim) else 0
            self._local_end_ms = max(self._local_end_ms, self.world.now_ms + taken_ms)
            self.in_run(taken_ms, lambda: self.mailbox.put(event))

        self.in_run(begin_ms - self.world.now_ms, run)

    def stand_still(self, length_ms: int) -> None:
        """Do nothing for a while."""
        if length_ms:
            run = self.run
            self.pause()
            self.world.after(length_ms, lambda: self.world.resume(self) if self.run == run else None)

    def _tell(self, action: LocalAction) -> None:
        """Record the effect of a local action."""
        match action:
            case Claim() if keys := self.claimer.keys:
                text = f"takes over {named({self._at(key): None for key in keys})}"
                names = tuple(one.key for one in keys)[:KEYS_MAX]
                self.world.trace(self.address, text, What.CLAIM, keys=names, rule="R2: this member owns them now")
            case Forget(keys):
                names = tuple(one.key for one in keys)
                text = f"forgets {named(names)}"
                rule = "R6: nothing is left of them, and all peers agree"
                self.world.trace(self.address, text, What.FORGET, keys=names[:KEYS_MAX], rule=rule)
            case FinishLoad():
                self.world.trace(self.address, "has loaded", What.LOAD, rule="R7: before it claims or answers")

    def _at(self, key: DistroKey) -> str:
        version = self.components[key.resource_type].store.version(key.key)
        return f"{key.key} {version.to_text()}" if version is not None else key.key

    def _mark(self, action: LocalAction) -> None:
        match action:
            case Claim(all_keys=False, keys=()):
                self.world.marks["further slice of claims"] += 1
            case Forget():
                self.world.marks["keys forgotten"] += 1

    def drop_calls(self, listed: Collection[str]) -> None:
        """Let calls to members that left the list end by themselves; a new entry of one begins anew."""
        for at in [at for at in self._calls if at[0] not in listed]:
            del self._calls[at]

    def _put(self, action: Call) -> None:
        """One queue of calls a peer for data and one for reports, each with one call at a time."""
        calls = self._calls.setdefault((action.peer, isinstance(action, Report)), deque())
        calls.append(action)
        if len(calls) == 1 or self.parallel_calls:
            self.agent.execute(action, lambda: self._next(calls, action))

    def _next(self, calls: deque[Call], ended: Call) -> None:
        calls.remove(ended)
        if calls and not self.parallel_calls:
            action = calls[0]
            self.agent.execute(action, lambda: self._next(calls, action))


class CountingClaimer(Claimer):
    """Remembers the outcome of its last action."""

    claimed, unfinished = 0, False
    keys: tuple[DistroKey, ...] = ()

    def run(self, *parts: Any) -> tuple[list[DistroKey], list[DistroKey], bool]:
        claimed, refused, self.unfinished = super().run(*parts)
        self.claimed, self.keys = len(claimed), tuple(claimed)
        return claimed, refused, self.unfinished


class SimMembership(Membership):
    """The real one; a write that waits for the disk goes on even if its owner is another by then."""

    member: SimMember

    def responsible_durable(self, tag: str) -> bool:
        pinned = self.member.owns_durable
        return super().responsible_durable(tag) if pinned is None else pinned


class SimRuntime:
    """The part of a runtime that a membership asks."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def replace_members(self, addresses: tuple[str, ...]) -> None:
        self._member.mailbox.put(lambda protocol, now_ms: protocol.replace_members(addresses, now_ms))
        self._member.drop_calls(addresses)

    def leave(self) -> None:
        self._member.mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms))


SimMember.membership_class = SimMembership
