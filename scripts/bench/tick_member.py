"""The engine of one member with its stores, and peers that are made up: what ``ticks.py`` measures."""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from app.naming.model.events import Event, InstancesChanged, Origin
from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.records.projection import Projection
from app.naming.records.record import Record
from app.naming.records.record_keys import service_meta_key
from app.naming.records.records import Records
from app.naming.registry import service_table
from app.naming.registry.merge import InstanceList
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication.instance_list_type import INSTANCE_LIST, InstanceListStore
from app.replication.record_type import RECORDS, RecordCodec
from app.replication.warm_start import WarmStart
from app.storage.record_file import RecordFile
from app.storage.warm_log import WarmStore
from distro.engine.mailbox import Event as EngineEvent
from distro.engine.mailbox import Mailbox
from distro.engine.peer_call_runner import EngineParts
from distro.engine.runtime import DistroRuntime
from distro.members.mapper import DistroMapper
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.errors import TransportError
from distro.model.monitor import DistroStats
from distro.model.ports import Component, DatumCodec
from distro.model.types import (
    CAPABILITY_CLAIMS,
    CAPABILITY_DELTAS,
    CAPABILITY_DIGESTS,
    CAPABILITY_VERSIONS,
    Datum,
    DistroKey,
    MemberKind,
    MemberState,
    PeerReport,
    Received,
    Version,
)
from distro.protocol.protocol import DistroProtocol
from distro.receive.receive import DistroReceiver
from distro.timing.clock import SystemClock
from distro.timing.paced import paced
from distro.timing.sliced import dumps_sliced
from distro.wire.codec import decode_frame, encode_frame
from distro.wire.digest_wire import DigestAnswer

SELF, NEAR, ENDING = ALL = ("10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848")
"""The member itself, a peer that stays, and one that will end."""
OWN_KIND = frozenset({MemberKind.OWN})
FORMER = "1"
"""The run of each member that wrote what is there at the beginning."""
CONFIG = DistroConfig(tombstone_slack_ms=3_000)
OF_THIS_RELEASE = frozenset({CAPABILITY_VERSIONS, CAPABILITY_DIGESTS, CAPABILITY_DELTAS, CAPABILITY_CLAIMS})
EQUAL = DigestAnswer().to_bytes()
"""The answer of a peer whose digests are the same."""
DELETE_TIMEOUT = {"preserved.ip.delete.timeout": "1000"}


class Longest:
    """The longest of some durations since it was last asked, in ms. One thread adds, another asks."""

    def __init__(self) -> None:
        self._s = 0.0

    def add(self, taken_s: float) -> None:
        self._s = max(self._s, taken_s)

    def take(self) -> float:
        longest_s, self._s = self._s, 0.0
        return longest_s * 1_000


HELD = Longest()


class TimedLock:
    """A lock that notes in ``HELD`` for how long its holder computes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since_s = 0.0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._since_s = time.thread_time()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held_s = time.thread_time() - self._since_s
        self._lock.release()
        HELD.add(held_s)


def time_locks() -> None:
    """Have the lock of each registry that is made from now on timed."""
    service_table.Lock = TimedLock  # type: ignore[assignment,misc]


class TimedMailbox(Mailbox):
    """A mailbox that notes for how long its reader was away: one turn of the engine's thread."""

    def __init__(self, events_max: int, stats: DistroStats) -> None:
        super().__init__(events_max, stats)
        self.turns, self.turns_cpu = Longest(), Longest()
        """By the clock, and what the thread computed of that: a busy machine makes the first longer."""
        self._taken: tuple[float, float] | None = None

    def take(self, timeout_s: float, **options: Any) -> tuple[list[EngineEvent], list[DistroKey], bool]:
        if self._taken is not None:
            self.turns.add(time.perf_counter() - self._taken[0])
            self.turns_cpu.add(time.thread_time() - self._taken[1])
        taken = super().take(timeout_s, **options)
        self._taken = time.perf_counter(), time.thread_time()
        return taken


class Peers:
    """What the peers are now. ``gone``: those that refuse connections; ``failing``: those that take no data."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.failing: set[str] = set()
        self.snapshots: dict[str, bytes] = {}
        """By resource type, the one that ``NEAR`` gives."""


class PeerAgent:
    """DistroTransportAgent of one resource type, to peers that agree with everything."""

    def __init__(self, resource_type: str, codec: DatumCodec, peers: Peers, clock: SystemClock) -> None:
        self._resource_type = resource_type
        self._codec = codec
        self._peers = peers
        self._clock = clock

    def _call(self, peer: str) -> None:
        if peer in self._peers.gone or peer in self._peers.failing:
            raise TransportError(f"{peer} does not answer", refused=peer in self._peers.gone)

    def sync_data(self, peer: str, datums: list[Datum], timeout_ms: int) -> Received:
        self._call(peer)
        encode_frame(datums, self._codec, self._clock.monotonic_ms(), versioned=True)
        return Received()

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        self._call(peer)
        dumps_sliced(summary)
        return Received()

    def compare(self, peer: str, body: bytes, timeout_ms: int) -> bytes:
        self._call(peer)
        return EQUAL

    def query(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> list[Datum]:
        self._call(peer)
        return []

    def load(self, peer: str, timeout_ms: int) -> list[Datum] | None:
        self._call(peer)
        body = self._peers.snapshots.get(self._resource_type) if peer == NEAR else None
        return [] if body is None else decode_frame(body, self._codec, self._clock.monotonic_ms())[0]

    def close(self) -> None:
        """Nothing is open."""


class PeerReports:
    """MemberAgent: the peers that are there serve, and see the same members."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def report(self, peer: str, timeout_ms: int) -> PeerReport:
        if peer in self._peers.gone:
            raise TransportError(f"{peer} is gone", refused=True)
        view = tuple(one for one in ALL if one not in self._peers.gone)
        return PeerReport(peer, MemberState.UP, OF_THIS_RELEASE, {}, view, writer=f"{peer}~{FORMER}")


def service_names(count: int) -> Iterator[str]:
    return (f"DEFAULT_GROUP@@service-{number}" for number in range(count))


def first_lists(count: int, now_ms: int) -> Iterator[Datum]:
    """The lists that are there at the beginning, each by its owner."""
    mapper = DistroMapper.over(SELF, ALL)
    for number, name in enumerate(service_names(count)):
        version = Version(1, 1, f"{mapper.map_srv(name)}~{FORMER}")
        ip = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        one = Instance(ip=ip, port=8080, cluster_name="DEFAULT", service_name=name, metadata=DELETE_TIMEOUT)
        stored = StoredInstance(one, version, now_ms)
        yield Datum(datum_key("public", name), version, InstanceList({one.key: stored}, {}))


def first_snapshot(count: int) -> bytes:
    """Those lists as a peer gives them to a member that loads."""
    clock = SystemClock()
    now_ms = clock.monotonic_ms()
    return encode_frame(first_lists(count, now_ms), InstanceListCodec(clock.wall_ms), now_ms, versioned=True)


def first_records(count: int, wall_ms: int) -> Iterator[Record]:
    """The records that are there at the beginning: descriptions of the first services, each by its owner."""
    mapper = DistroMapper.over(SELF, ALL)
    for name in service_names(count):
        version = Version(1, 1, f"{mapper.map_srv(name)}~{FORMER}")
        value = {"protectThreshold": 0.5, "metadata": {"zone": "a"}, "selector": {"type": "none"}, "clusters": {}}
        yield Record(service_meta_key("public", name), version, version, value, wall_ms)


class Member:
    """The engine of one member with its stores, in a folder that has what the last run left. ``start`` once."""

    def __init__(self, folder: Path) -> None:
        self.clock = clock = SystemClock()
        self.stats = DistroStats()
        self.peers = Peers()
        writer = f"{SELF}~2"
        self.registry = Registry(writer, CONFIG.tombstone_slack_ms, 2 * CONFIG.verify_interval_ms)
        self.codec = InstanceListCodec(clock.wall_ms)
        self.warm_store = WarmStore(folder, self.codec, self.registry.datums, clock.wall_ms)
        self._projection = Projection(self.registry, clock.monotonic_ms, lambda _event: None)
        self.record_file = RecordFile(folder)
        self.records = Records(writer, self.record_file, clock.wall_ms, clock.monotonic_ms, self._projection.on_record)
        self.mailbox = TimedMailbox(CONFIG.mailbox_events_max, self.stats)
        lists = InstanceListStore(self.registry, self.publish)
        agents = {
            name: PeerAgent(name, codec, self.peers, clock)
            for name, codec in ((INSTANCE_LIST, self.codec), (RECORDS, RecordCodec()))
        }
        components = {
            INSTANCE_LIST: Component(lists, self.codec, agents[INSTANCE_LIST], taken_by=OWN_KIND, deltas=lists),
            RECORDS: Component(self.records, RecordCodec(), agents[RECORDS], taken_by=OWN_KIND),
        }
        now_ms = clock.monotonic_ms()
        members = MemberList(SELF, CONFIG, now_ms)
        self.protocol = DistroProtocol(members, writer, CONFIG, components, self.stats, now_ms)
        self._warm_start = WarmStart(self.registry, claims=False)
        self.protocol.before_serving = self._warm_start.fill
        receiver = DistroReceiver(
            writer,
            components,
            self.protocol.mapper_of,
            lambda: self.protocol.loading,
            self.mailbox,
            self.stats,
            members.is_known_writer,
        )
        self.runtime = DistroRuntime(
            EngineParts(self.protocol, receiver, self.mailbox, components, PeerReports(self.peers), clock, CONFIG)
        )
        self.record_file.open()
        self.records.read_disk()

    def read_warm(self) -> None:
        """Read the copy of the lists of the last run, as a start does."""
        self._warm_start.read(self.warm_store.load(600_000, self.clock.monotonic_ms()))

    def start(self) -> None:
        self.warm_store.open()
        self.runtime.replace_members(ALL)
        self.runtime.start()

    def publish(self, event: Event) -> None:
        if isinstance(event, InstancesChanged):
            self.warm_store.changed(event.key)
            if event.origin is Origin.LOCAL:
                self.mailbox.sync(DistroKey(INSTANCE_LIST, event.key))

    def own(self) -> Iterator[StoredInstance]:
        """The instances of all services that this run wrote, with rests."""
        for service in paced(self.registry.table.services()):
            if service.version.writer == self.registry.writer:
                yield from list(service.stored.values())

    def change(self, one: Instance) -> None:
        """Change an instance's health, which changes its list."""
        service = self.registry.table.get("public", one.service_name)
        assert service is not None
        self.registry.set_health(service, one.key, not one.healthy, self.clock.monotonic_ms())
        self.publish(InstancesChanged(service.key, Origin.LOCAL))

    def remove(self, one: Instance) -> None:
        key = self.registry.remove("public", one.service_name, one.key, self.clock.monotonic_ms())
        if key is not None:
            self.publish(InstancesChanged(key, Origin.LOCAL))

    def prune(self) -> None:
        """Drop old tombstones, as the health check does."""
        for service in paced(self.registry.table.services()):
            if service.tombstones:
                self.registry.prune_tombstones(service, self.clock.monotonic_ms())

    def stop(self) -> None:
        self.runtime.stop(10.0)
        self.warm_store.close(self.clock.monotonic_ms())
        self.record_file.close()


def write_folder(folder: Path, services: int, records: int) -> None:
    """Leave in the folder what a former run would."""
    clock = SystemClock()
    registry = Registry(f"{SELF}~{FORMER}")
    store = WarmStore(folder, InstanceListCodec(clock.wall_ms), registry.datums, clock.wall_ms)
    store.open()
    for datum in first_lists(services, clock.monotonic_ms()):
        registry.apply(datum, None, clock.monotonic_ms())
        store.changed(datum.key)
    store.close(clock.monotonic_ms())
    file = RecordFile(folder)
    file.open()
    file.write(list(first_records(records, clock.wall_ms())), 0)
    file.close()
