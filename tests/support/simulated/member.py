"""A whole member in virtual time: the real domain and engine, with a runtime of events in place of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from app.naming.health.beat_check import BeatCheck, HealthCheckGate
from app.naming.model.events import Event, HealthChanged, InstancesChanged, Origin
from app.naming.model.model import Service, StoredInstance
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication.http_peers import NodeReplication
from app.replication.instance_list_type import INSTANCE_LIST, InstanceListStore
from app.replication.large_bodies import LargeBodies
from distro.config import DistroConfig
from distro.local_actions import LocalActions
from distro.members import MemberList
from distro.monitor import DistroStats
from distro.ports import Component
from distro.protocol import DistroProtocol
from distro.receive import DistroReceiver, ReceiverEvents
from distro.types import (
    CAPABILITY_GZIP,
    CAPABILITY_VERSIONS,
    Call,
    DistroKey,
    LocalAction,
    MemberState,
    PeerReport,
    Report,
    Version,
)
from tests.support.simulated.calls import CallAgent, PeerFrontend
from tests.support.simulated.frontend import ClientReceiver

if TYPE_CHECKING:
    from tests.support.simulated.clients import SimClient
    from tests.support.simulated.world import World

CAPABILITIES = frozenset({CAPABILITY_VERSIONS, CAPABILITY_GZIP})
WAKE_MS_MAX = 1
"""How long an event waits until the protocol's thread has woken up."""
LOCAL_MS_MAX = 3
"""How long a local action takes: a slice of claims on a disk, for example."""
RUNS_OF_A_CLOCK_MS = 1_000_000_000
"""Monotonic clocks start anywhere, so that one which travels is noticed."""


class WatchedRegistry(Registry):
    """A registry that lists the keys it changed."""

    def __init__(self, writer: str, tombstone_slack_ms: int) -> None:
        super().__init__(writer, tombstone_slack_ms)
        self.touched: dict[str, None] = {}

    def _raise_version(self, service: Service, now_ms: int) -> None:
        self.touched[service.key] = None
        super()._raise_version(service, now_ms)

    def _swap(self, key: str, expected: Version | None, version: Version, value: Any, now_ms: int) -> bool:
        self.touched[key] = None
        return super()._swap(key, expected, version, value, now_ms)

    def forget(self, key: str, now_ms: int | None = None) -> None:
        self.touched[key] = None
        super().forget(key, now_ms)


class MemberClock:
    """One run's clocks: each begins where it likes, and walls disagree."""

    def __init__(self, world: World, start_ms: int, wall_ms: int) -> None:
        self._world = world
        self._start_ms = start_ms
        self._wall_ms = wall_ms

    def monotonic_ms(self) -> int:
        return self._start_ms + self._world.now_ms

    def boot_ms(self) -> int:
        return self._start_ms + self._world.now_ms

    def wall_ms(self) -> int:
        return self._wall_ms + self._world.now_ms

    def world_ms(self, monotonic_ms: int) -> int:
        return monotonic_ms - self._start_ms


class Mailbox(ReceiverEvents):
    """Events for the protocol; whoever puts one wakes it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._events: list[Callable[[DistroProtocol, int], None]] = []
        self._keys: dict[DistroKey, None] = {}

    def sync(self, key: DistroKey) -> None:
        self._keys[key] = None
        self._wake()

    def claim(self, key: DistroKey) -> None:
        self.put(lambda protocol, _now_ms: protocol.claim_later(key))

    def fetch(self, peer: str, keys: list[DistroKey]) -> None:
        self.put(lambda protocol, _now_ms: protocol.fetch(peer, keys))

    def put(self, event: Callable[[DistroProtocol, int], None]) -> None:
        self._events.append(event)
        self._wake()

    def take(self) -> tuple[list[Callable[[DistroProtocol, int], None]], list[DistroKey]]:
        taken = self._events, list(self._keys)
        self._events, self._keys = [], {}
        return taken


class PeerNames:
    """What the HTTP frontend asks of the membership: here all members are of our kind, each at an IP of its own."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def sender_of(self, named: str | None, remote_ip: str) -> str | None:
        return named if named is not None and named.partition(":")[0] == remote_ip else None

    def java_peers_at(self, _remote_ip: str) -> list[str]:
        return []

    def sent_ms(self, _member: str, clock: str | None) -> int:
        """``clock``: the world's time, in place of what reports tell of the sender's clock."""
        assert clock is not None
        return self._member.clock.monotonic_ms() - (self._member.world.now_ms - int(clock))

    def map_srv(self, tag: str) -> str:
        return self._member.protocol.mapper.map_srv(tag)


class SimMember:
    """One member's process. Its address lasts; ``start`` makes everything else anew, as after a kill.

    Subclasses of a test replace one of the parts, to see what happens without one rule.
    """

    registry_class: type[WatchedRegistry] = WatchedRegistry
    protocol_class: type[DistroProtocol] = DistroProtocol
    receiver_class: type[DistroReceiver] = DistroReceiver
    beat_check_class: type[BeatCheck] = BeatCheck
    names_class: type[PeerNames] = PeerNames
    parallel_calls = False
    """Calls to one peer do not wait for each other."""

    def __init__(self, world: World, address: str, config: DistroConfig, wall_skew_ms: int) -> None:
        self.world = world
        self.address = address
        self.ip = address.partition(":")[0]
        self.config = config
        self.run = 0
        self.paused = False
        self.leaving = False
        self._alive = False
        self._wall_skew_ms = wall_skew_ms
        self._waiting: list[Callable[[], None]] = []

    # --- life ------------------------------------------------------------------------------------

    @property
    def listening(self) -> bool:
        return self._alive

    @property
    def serving(self) -> bool:
        """Whether clients get answers."""
        return self._alive and not self.paused and not self.leaving and not self.protocol.loading

    def start(self) -> None:
        """Begin a new run without any memory."""
        assert not self._alive
        self.run += 1
        self._alive, self.paused, self.leaving = True, False, False
        self._waiting.clear()
        self._turn_at_ms: int | None = None
        self._turn_number = 0
        self._calls: dict[tuple[str, bool], deque[Call]] = {}
        self._local_end_ms = 0
        self.clock = MemberClock(self.world, self.world.between(1, RUNS_OF_A_CLOCK_MS), self._wall_skew_ms)
        self.writer = f"{self.address}~{self.run}"
        self._build()
        self.mailbox.put(lambda protocol, now_ms: protocol.replace_members(self.world.addresses, now_ms))
        self._in_run(1, self._check_beats)

    def _build(self) -> None:
        config, clock = self.config, self.clock
        now_ms = clock.monotonic_ms()
        self.stats = DistroStats()
        self.registry = self.registry_class(self.writer, config.tombstone_slack_ms)
        self.naming = NamingService(self.registry, clock.monotonic_ms, self._publish)
        members = MemberList(self.address, config, now_ms)
        codec = InstanceListCodec(clock.wall_ms)
        self.components: dict[str, Component] = {}
        self.protocol = self.protocol_class(members, self.writer, config, self.components, self.stats, now_ms)
        self.mailbox = Mailbox(self._wake)
        self.receiver = self.receiver_class(
            self.writer,
            self.components,
            self.protocol.mapper_of,
            lambda: self.protocol.loading,
            self.mailbox,
            self.stats,
            members.is_known_writer,
        )
        self.local_actions = LocalActions(self.protocol, self.components)
        self.agent = CallAgent(self)
        self.components[INSTANCE_LIST] = Component(
            InstanceListStore(self.registry, self._publish),
            codec,
            self.agent,  # type: ignore[arg-type]  # it answers by call-back; only this module calls it
        )
        names: Any = self.names_class(self)
        self.peer_frontend = PeerFrontend(
            self, NodeReplication(self.receiver, self.components, names, clock, LargeBodies(config.body_bytes_max))
        )
        self.client_receiver = ClientReceiver(self)
        self.beat_check = self.beat_check_class(self.registry, self._publish, pause_ms=config.pause_ms)

    def kill(self) -> None:
        """End the process with all that it knows (SIGKILL)."""
        self.world.checker.losing(self)
        self._alive = self.paused = False
        self._waiting.clear()
        self.run += 1

    def leave(self) -> None:
        """Refuse writes, tell the others, send what is due, end (SIGTERM)."""
        self.leaving = True
        self.mailbox.put(lambda protocol, now_ms: protocol.leave(now_ms))
        self._drain(self.world.now_ms + self.config.drain_ms_max)

    def _drain(self, end_ms: int) -> None:
        if self.protocol.pending() and self.world.now_ms < end_ms:
            self._in_run(20, lambda: self._drain(end_ms))
        else:
            self._in_run(20, self.kill)

    def pause(self) -> None:
        """Stand still with all memory and open connections (SIGSTOP)."""
        self.paused = True

    def resume(self) -> None:
        """Go on. What came meanwhile is done in any order, as threads that wake together would."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        self.world.shuffle(waiting)
        for work in waiting:
            if self.paused or not self._alive:
                self._waiting.append(work)
            else:
                self.post(work)

    def post(self, work: Callable[[], None]) -> None:
        if self.paused:
            self._waiting.append(work)
            return
        work()
        if self._alive and self.registry.touched:
            self.world.checker.look(self)

    def _in_run(self, delay_ms: int, work: Callable[[], None]) -> None:
        run = self.run

        def do() -> None:
            if self.run == run:
                self.post(lambda: work() if self.run == run else None)

        self.world.after(delay_ms, do)

    # --- what the node joins ---------------------------------------------------------------------

    def _publish(self, event: Event) -> None:
        match event:
            case InstancesChanged(key, Origin.LOCAL):
                self.mailbox.sync(DistroKey(INSTANCE_LIST, key))
            case HealthChanged(key, instance, what):
                self.world.trace(self.address, f"checks {instance} of {key}: {what}")

    def state(self) -> MemberState:
        if self.leaving:
            return MemberState.DOWN
        return MemberState.STARTING if self.protocol.loading else MemberState.UP

    def own_report(self, receiver: str) -> PeerReport:
        """What this member tells ``receiver`` of itself."""
        members, now_ms, state = self.protocol.members, self.clock.monotonic_ms(), self.state()
        return PeerReport(
            self.address,
            state,
            CAPABILITIES,
            {},
            members.view if state is MemberState.UP else (),
            members.own_rejoin_delay_ms(now_ms),
            members.rejoin_delay_for(receiver, now_ms),
            self.writer,
            calls=members.calls(now_ms),
            heard={address: one for address, one in members.heard(now_ms).items() if address != receiver},
            served=members.served,
            waiting=self.protocol.waiting_for(receiver),
        )

    def _check_beats(self) -> None:
        now_ms = self.clock.monotonic_ms()
        next_ms = self.beat_check.tick(now_ms, self.ask_gate)
        self._in_run(next_ms - now_ms, self._check_beats)

    def ask_gate(self) -> HealthCheckGate:
        protocol, now_ms = self.protocol, self.clock.monotonic_ms()
        members = protocol.members
        cut_off_since_ms = members.cut_off_since_ms(now_ms)
        return HealthCheckGate(
            protocol.steady(now_ms),
            members.confirmed_ms,
            protocol.mapper.responsible,
            cut_off_since_ms,
            members.returned_ms,
        )

    # --- what checks ask -------------------------------------------------------------------------

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
        """What this member shows, without ages."""
        return {
            key: (service.version.to_text(), {name: one.instance for name, one in sorted(service.stored.items())})
            for key, service in self.stored()
        }

    # --- the protocol's thread -------------------------------------------------------------------

    def _wake(self) -> None:
        self._turn_by(self.world.now_ms + self.world.between(0, WAKE_MS_MAX))

    def _turn_by(self, at_ms: int) -> None:
        """Let there be a turn at ``at_ms`` at the latest."""
        if self._turn_at_ms is not None and self._turn_at_ms <= at_ms:
            return
        self._turn_at_ms = at_ms
        self._turn_number += 1
        number = self._turn_number
        self._in_run(max(at_ms - self.world.now_ms, 0), lambda: self._turn() if number == self._turn_number else None)

    def _turn(self) -> None:
        self._turn_at_ms = None
        protocol, seen, loading = self.protocol, self.protocol.mapper.servers, self.protocol.loading
        now_ms = self.clock.monotonic_ms()
        events, keys = self.mailbox.take()
        for event in events:
            event(protocol, now_ms)
        for key in keys:
            protocol.sync(key, now_ms)
        actions, next_ms = protocol.tick(now_ms)
        if protocol.mapper.servers != seen:
            self.world.trace(self.address, f"sees {', '.join(protocol.mapper.servers)}")
        if protocol.loading != loading:
            self.world.trace(self.address, f"is {'loading' if protocol.loading else 'UP'}")
        for action in actions:
            if isinstance(action, LocalAction):
                end_ms = max(self.world.now_ms, self._local_end_ms) + self.world.between(0, LOCAL_MS_MAX)
                self._local_end_ms = end_ms
                self._in_run(end_ms - self.world.now_ms, partial(self._execute_here, action))
            else:
                self._put(action)
        self._turn_by(self.world.now_ms + max(next_ms - now_ms, 0))

    def _execute_here(self, action: LocalAction) -> None:
        """On a thread of its own, one after the other."""
        self.mailbox.put(self.local_actions.run(action, self.clock.monotonic_ms()))

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
