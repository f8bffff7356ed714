"""A member in virtual time: the real node, of parts without threads, sockets and files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from app.config.settings import read_settings
from app.members.member_reports import MemberReports
from app.members.membership import Membership
from app.naming.health.beat_check import BeatCheck
from app.naming.model.events import HealthChanged
from app.naming.model.keys import EPHEMERAL_PREFIX
from app.naming.model.model import Service, StoredInstance
from app.naming.records.record import Record
from app.naming.records.records import Records
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.list_state import ListState
from app.naming.registry.local_writes import LocalWrites
from app.naming.registry.registry import ListKinds
from app.naming.registry.service_table import ServiceTable
from app.node.node import wire_node
from app.node.node_parts import NodeKinds
from app.replication.address_client_type import HTTP_CLIENTS
from app.replication.client_type import CLIENTS
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS
from app.tools.simulation.member.client_writes import Write
from app.tools.simulation.member.costs import CostedStore, CostMeter, CostModel
from app.tools.simulation.member.disk import DiskQueue, SimDisk, SimWarmStore
from app.tools.simulation.member.member_frontend import (
    DiskTurn,
    HttpFrontend,
    SimForwarder,
    stood_still_ms,
)
from app.tools.simulation.member.sim_ports import Listed, MemberWorld
from app.tools.simulation.member.sim_runtime import SimMailbox, SimRuntime
from app.tools.simulation.member.sim_time import MemberClock, SimLoop
from app.tools.simulation.member.watched_parts import SimEvents, WatchedKeys, WatchedRecords
from app.tools.simulation.transcript.decisions import Decisions
from app.tools.simulation.transcript.entry import What
from distro.engine.engine import EngineKinds
from distro.engine.peer_sends import PeerSends
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.digest import ChangedKeys
from distro.model.ports import NO_OBSERVER, Component
from distro.model.types import MemberState
from distro.protocol.protocol import DistroProtocol
from distro.protocol.protocol_parts import ALL_RULES, ProtocolRules
from distro.receive.receive import DistroReceiver

STANDALONE = {"nacos.standalone": "true", "rollcall.rpc.enabled": "false", "rollcall.audit.enabled": "false"}
SETTINGS = replace(read_settings(STANDALONE, {}), standalone=False)
"""The settings of all members, except for addresses: of a cluster, whose list no file has."""
RUNS_OF_A_CLOCK_MS = 1_000_000_000
"""Monotonic clocks start at any value, so that a test notices one that is sent to a peer."""


class SimMembership(Membership):
    """The real one; a write that waits for the disk continues even if its owner is another by then."""

    def __init__(self, member: SimMember, *parts: Any) -> None:
        super().__init__(*parts)
        self._member = member

    def responsible_durable(self, tag: str) -> bool:
        pinned = self._member.owns_durable
        return super().responsible_durable(tag) if pinned is None else pinned


class SimMember:
    """One member's process. Its address stays; ``start`` creates everything else again, as after a kill.

    Subclasses in tests replace a part, to show the effect of a missing rule.
    """

    left_out = frozenset({CLIENTS, HTTP_CLIENTS})
    """The resource types that it does not have."""
    rules = ALL_RULES
    """The protocol rules that it follows."""
    lists_class: type[ListState] = ListState
    writes_class: type[LocalWrites] = LocalWrites
    replication_class: type[ListReplication] = ListReplication
    protocol_class: type[DistroProtocol] = DistroProtocol
    receiver_class: Callable[..., DistroReceiver] = DistroReceiver
    members_class: Callable[..., MemberList] = MemberList
    mailbox_class: type[SimMailbox] = SimMailbox
    runtime_class: type[SimRuntime] = SimRuntime
    sends_class: type[PeerSends] = PeerSends
    beat_check_class: type[BeatCheck] = BeatCheck
    records_class: type[WatchedRecords] = WatchedRecords
    membership_class: type[SimMembership] = SimMembership
    forwarder_class: type[SimForwarder] = SimForwarder
    notices_pauses = True
    sends_deltas = True
    costs: CostModel | None = None
    """The costs of its work in virtual time; None: only ``LOCAL_MS_MAX`` and the time of its disk."""
    claim_ms = 0
    """The cost of a claim of one key, above ``LOCAL_MS_MAX``."""

    def __init__(self, world: MemberWorld[SimMember], address: str, config: DistroConfig, wall_skew_ms: int) -> None:
        self.world = world
        self.address = address
        self.ip = address.partition(":")[0]
        self.settings = replace(SETTINGS, self_address=address, distro=config)
        self.config = config
        self.run = 0
        self.paused = False
        self.listed: tuple[str, ...] = ()
        """Its file of members."""
        self.record_disk = SimDisk()
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
        self.clock = MemberClock(self.world, self.world.between(1, RUNS_OF_A_CLOCK_MS), self._wall_skew_ms)
        self.writer = f"{self.address}~{self.run}"
        self.waits_for_disk = False
        self.owns_durable: bool | None = None
        """Set while a write continues that came to the disk earlier: whether this member owns it."""
        self.build()
        self.records.read_disk()
        self.node.warm_start.read(self.node.domain.warm_store.load(0, self.clock.monotonic_ms()))
        self.node.take_members(self.listed, is_first=True)
        for resource_type in reversed(self.components):
            if (tick := self.node.background.upkeep.get(resource_type)) is not None:
                self.in_run(1, partial(self._keep_up, tick))

    def _keep_up(self, tick: Callable[[int], int]) -> None:
        now_ms = self.clock.monotonic_ms()
        next_ms = tick(now_ms)
        self.in_run(next_ms - now_ms, partial(self._keep_up, tick))

    def build(self) -> None:
        """Make the node, and keep those of its parts that the world asks for. A test may change them after it."""
        self.keys, self.mailbox = WatchedKeys(), self.mailbox_class(self)
        node = self.node = wire_node(replace(self.settings, members=self.listed), self.clock, self._kinds())
        domain, engine = node.domain, node.engine
        self.registry, self.records = domain.registry, domain.records
        self.naming, self.durable = domain.naming, domain.durable
        self.reader, self.stats = engine.reader, engine.stats
        self.membership, self.reports = engine.cluster, engine.reports
        self.receiver, self.components = engine.replication.receiver, engine.components
        runtime: Any = engine.runtime  # it has events in place of threads
        self.runtime: SimRuntime = runtime
        self.protocol: DistroProtocol = self.runtime.protocol
        for resource_type in self.left_out:
            del self.components[resource_type]
        self.meter = self.record_disk.meter = CostMeter(self.costs) if self.costs is not None else None
        for resource_type, made in self.components.items():
            self.components[resource_type] = self.component(resource_type, made)
        domain.notify.subscribe(HealthChanged, self._tell_health)
        self.disk = DiskQueue(self.world, self.record_disk, self.in_run)
        loop, services = SimLoop(self.clock, self.in_run), node.services
        forwarder = self.forwarder_class(self, services, loop, self.runtime.agent)
        self.http_stats, self.http = services.http, HttpFrontend(self, services, self.disk, forwarder)

    def _kinds(self) -> NodeKinds:
        """Return the kinds of the node's parts: those of this class, on a disk and a network of the world's."""
        disk: Any = self.record_disk  # it outlives the runs
        mailbox: Any = self.mailbox
        runtime: Any = partial(self.runtime_class, self, self.mailbox)
        return NodeKinds(
            name_run=lambda _settings, _clock: self.writer,
            notify=SimEvents,
            lists=ListKinds(self._lists, self.writes_class, self.replication_class),
            record_file=lambda _folder: disk,
            records=self._records,
            warm_store=partial(SimWarmStore, self.record_disk, self.world, self.clock, self.in_run),
            membership=partial(self.membership_class, self),
            reports=self.reports_class(),
            beat_check=self.beat_check_class,
            engine=EngineKinds(
                rules=self.protocol_rules(),
                observer=Decisions(self.world.trace, self.address) if self.world.tracing else NO_OBSERVER,
                members=self.members_class,
                protocol=self.protocol_class,
                receiver=self.receiver_class,
                mailbox=lambda *_parts: mailbox,
                runtime=runtime,
            ),
        )

    def wake(self) -> None:
        self.runtime.wake()

    def protocol_rules(self) -> ProtocolRules:
        return self.rules

    def reports_class(self) -> type[MemberReports]:
        return MemberReports

    def _lists(self, writer: str, table: ServiceTable, _changed: ChangedKeys, **bounds: Any) -> ListState:
        return self.lists_class(writer, table, self.keys, **bounds)

    def _records(
        self,
        writer: str,
        disk: SimDisk,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        on_change: Callable[[Record], None],
        check_write: Callable[[], None],
        **checks: Any,
    ) -> Records:
        def check() -> None:
            if self.waits_for_disk:
                raise DiskTurn
            check_write()

        return self.records_class(
            self.world.checker.word, writer, disk, wall_ms, monotonic_ms, on_change, check, **checks
        )

    def _tell_health(self, event: HealthChanged) -> None:
        text = f"its check finds {event.instance} of {event.key} {event.what}"
        self.world.trace(self.address, text, What.HEALTH, keys=(event.key,))

    def component(self, resource_type: str, made: Component) -> Component:
        """Return one of the node's resource types as this member has it."""
        if self.meter is not None:
            made = replace(made, store=CostedStore(made.store, self.meter))
        return made if self.sends_deltas else replace(made, deltas=None)

    def spent_us(self) -> float:
        """Return the cost of all work of this run so far."""
        return self.meter.us if self.meter is not None else 0.0

    def note_tick(self, taken_ms: float) -> None:
        """Note that the engine did one tick, which took this long."""
        self.longest_tick_ms = max(self.longest_tick_ms, taken_ms)
        self.world.checker.ticked(self, taken_ms)

    def note_begin(self, write: Write) -> None:
        """Note that a client's write begins, which can no longer be delayed."""
        self.world.checker.begins(self, write)

    def note_executed(self, write: Write, before: int | None) -> None:
        """Note that a client's write is executed; its instance had the revision ``before``, if any."""
        self.world.checker.executed(self, write, before)

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

    def drain(self, *, enabled: bool = True) -> None:
        """Refuse clients and hand all keys over, or serve again; the run continues."""
        self.membership.drain(enabled)

    def pause(self) -> None:
        """Pause with all memory and open connections (SIGSTOP)."""
        self.paused, self._paused_ms = True, self.world.now_ms

    def resume(self) -> None:
        """Continue. Events that arrived in the meantime are handled in any order, as by threads that wake together."""
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

    # --- faults ------------------------------------------------------------------------------------

    def take_list(self, addresses: Collection[str]) -> None:
        """Take a new file of members; this member itself is always listed."""
        self.listed = tuple(sorted({*addresses, self.address}))
        if self._alive:
            self.post(lambda: self.node.take_members(self.listed, is_first=False))

    def set_wall(self, jump_ms: int) -> None:
        """Set the wall clock."""
        self._wall_skew_ms += jump_ms
        self.clock.jump(jump_ms)

    def stand_still(self, length_ms: int) -> None:
        """Do nothing for a while."""
        if length_ms:
            run = self.run
            self.pause()
            self.world.after(length_ms, lambda: self.world.resume(self) if self.run == run else None)

    def store(self, resource_type: str, work: Callable[[], None]) -> None:
        """Store datums: records when the disk has its turn for them."""
        if resource_type == RECORDS:
            self.disk.put(lambda: None, work)
        else:
            work()

    def type_of(self, key: str) -> str:
        return INSTANCE_LIST if key.startswith(EPHEMERAL_PREFIX) else RECORDS

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

    def shows(self, one: Listed) -> bool:
        return one.instance_key in self.instances(one.datum_key)

    def stored(self) -> Iterator[tuple[str, Service]]:
        """The services that hold instances, by datum key."""
        return ((one.key, one) for one in self.registry.table.services() if one.stored)

    def dump(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return this member's visible data, without ages."""
        return {
            key: (service.version.to_text(), {name: one.instance for name, one in sorted(service.stored.items())})
            for key, service in self.stored()
        }
