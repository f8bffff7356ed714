"""A cluster and its clients in one virtual time: a heap of events, and one source of chance."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TypeVar

from app.http.api.call import Call
from app.tools.simulation.member.client_writes import SEQUENCE, Write, WriteKind
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.member.sim_ports import Process
from app.tools.simulation.transcript.entry import Entry, What
from app.tools.simulation.transcript.recorder import present_recorder
from app.tools.simulation.world.checker import InvariantChecker
from app.tools.simulation.world.network import Network
from app.tools.simulation.world.sim_clients import SimClient, SimOperator
from app.tools.simulation.world.sim_nacos import SimNacos
from distro.model.config import DistroConfig

T = TypeVar("T")
CLUSTER_MEMBERS_MAX, CLUSTER_CLIENTS_MAX = 6, 1_000
"""The most members and clients of each of several linked clusters, which have their own numbers."""
WALL_SKEW_MS = 300_000
"""The difference of wall clocks: up to five minutes either way."""


class World:
    """Everything of one seed. Two worlds of one seed and one plan do the same, event by event."""

    def __init__(
        self,
        seed: int,
        members: int = 3,
        *,
        config: DistroConfig | None = None,
        member_class: type[SimMember] = SimMember,
        nacos: int = 0,
        number: int = 0,
    ) -> None:
        """``nacos``: how many of the members, the last ones, are real Nacos 1.4. ``number``: of linked clusters."""
        self.seed = seed
        self.now_ms = 0
        self.events = 0
        self.recorder = present_recorder()
        """The recorder of events; None for none."""
        self.tracing = self.recorder is not None
        if self.recorder is not None:
            self.recorder.world = self
        self.warm = False
        """True if members copy their instance lists to disk, and start with the copy."""
        self.marks: Counter[str] = Counter()
        """Counts of events: of each kind of fault, and of each rule's answer to one."""
        self._writes: dict[str, Write] = {}
        self.config = config or DistroConfig()
        self._random = Random(seed if not number else f"{seed} {number}")
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._pushed = 0
        self._healed = False
        first = 1 + number * CLUSTER_MEMBERS_MAX
        self.addresses = [f"10.0.0.{one}:8848" for one in range(first, first + members)]
        skews = [self.between(-WALL_SKEW_MS, WALL_SKEW_MS) for _ in self.addresses]
        self.checker = InvariantChecker(self)
        self.members = {
            address: member_class(self, address, self.config, skew)
            for address, skew in zip(self.addresses[: members - nacos], skews, strict=False)
        }
        self.nacos = {address: SimNacos(self, address) for address in self.addresses[members - nacos :]}
        for member in self.members.values():
            member.take_list(self.addresses)
        processes: dict[str, Process] = {**self.members, **self.nacos}
        self.network = self.outer = Network(self, processes)
        self.clients: list[SimClient] = []
        self._first_client = 1 + number * CLUSTER_CLIENTS_MAX
        self.operators: list[SimOperator] = []
        self.words = 0
        """The number of operators' changes so far."""

    @property
    def checked(self) -> dict[str, int]:
        """The number of checks of each invariant so far, by its title."""
        return {invariant.title: times for invariant, times in self.checker.checked.items()}

    @property
    def longest_missing_ms(self) -> int:
        """The longest time for which an instance that beats was missing at its owner."""
        return self.checker.longest_missing_ms

    # --- chance and time -------------------------------------------------------------------------

    def between(self, low: int, high: int) -> int:
        """Return a random integer, both ends included."""
        return low + int(self._random.random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        return self._random.sample(options, count)

    def shuffle(self, items: list[T]) -> None:
        self._random.shuffle(items)

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._pushed += 1  # of what is due at one time, what was put first comes first
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._pushed, work))

    def in_faults(self, delay_ms: int, work: Callable[[], None]) -> None:
        """As ``after``, but not once the world is healed."""
        self.after(delay_ms, lambda: None if self._healed else work())

    def next_ms(self) -> float:
        """Return the time of the next event."""
        return self._heap[0][0] if self._heap else math.inf

    def step(self) -> None:
        """Do the next event, whose time it is."""
        _, _, work = heapq.heappop(self._heap)
        self.events += 1
        work()

    def run(self, span_ms: int) -> None:
        """Advance the time."""
        end_ms = self.now_ms + span_ms
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, work = heapq.heappop(heap)
            self.events += 1
            work()
        self.now_ms = end_ms

    def trace(
        self,
        who: str,
        text: str,
        what: What = What.STATE,
        *,
        peer: str = "",
        incoming: bool = False,
        keys: tuple[str, ...] = (),
        rule: str = "",
        minor: bool = False,
    ) -> None:
        """Write down an event if there is a recorder; see ``Entry``. It has no effect on the world."""
        if self.recorder is not None:
            self.recorder.add(Entry(self.now_ms, what, who, text, peer, incoming, keys, rule, minor))

    # --- members and clients ---------------------------------------------------------------------

    def start_all(self, *, settle_ms: int = 0) -> None:
        """Start all members within a second of each other; with ``settle_ms`` also let them find each other."""
        for member in self.members.values():
            self.after(self.between(0, 1_000), partial(self.start, member))
        for nacos in self.nacos.values():
            self.after(1_500, nacos.start)
        self.run(settle_ms)

    def start(self, member: SimMember) -> None:
        if not member.listening:
            self.trace(member.address, "starts")
            member.start()

    def kill(self, member: SimMember) -> None:
        if member.listening:
            member.kill()

    def resume(self, member: SimMember) -> None:
        if member.listening and member.paused:
            self.trace(member.address, "continues")
            member.resume()

    def write(
        self, kind: WriteKind, service: str, ip: str, port: int, revision: int, *, ephemeral: bool = True
    ) -> Write:
        """Return one more call of a client."""
        sequence = len(self._writes) + 1
        made = Write(kind, service, ip, port, revision, sequence, ephemeral)
        self._writes[str(sequence)] = made
        return made

    def write_of(self, call: Call) -> Write | None:
        """Return the write that a client's call makes, forwarded by any member; None for members' calls."""
        if SEQUENCE.encode() not in call.raw_query:
            return None
        return self._writes[call.parameters.get(SEQUENCE) or ""]

    def any_member(self) -> SimMember:
        return self.members[self.choice(list(self.members))]

    def running(self) -> list[SimMember]:
        return [member for member in self.members.values() if member.listening]

    def add_client(self, service: str) -> SimClient:
        client = SimClient(self, self._first_client + len(self.clients), service)
        self.clients.append(client)
        self.checker.add(client)
        return client

    def add_operator(self, service: str, ip: str) -> SimOperator:
        operator = SimOperator(self, len(self.operators) + 1, service, ip)
        self.operators.append(operator)
        return operator

    def heal(self) -> None:
        """End all faults: every message arrives, every member runs."""
        self._healed = True
        self.network.heal()
        self.trace("world", "is healed")
        for member in self.members.values():
            member.take_list(self.addresses)
            member.record_disk.empty()
            member.record_disk.hurry()
            self.resume(member)
            if member.leaving:
                self.kill(member)
            self.start(member)


def settle_ms(config: DistroConfig) -> int:
    """Return how long after the end of all faults the members' states may differ, from the settings alone.

    In this order: a load that hangs since before the heal ends; the members find each other by a report, and one whose
    answer is under way is repeated; the returning side carries no keys for the steady time; claims wait for a view
    that is steady; a verify round finds the lost change; a query, a send and a last round bring it everywhere, each
    after the longest back-off.
    """
    find_ms = config.report_interval_ms + config.report_timeout_ms
    repair_ms = (
        config.verify_interval_ms
        + config.verify_timeout_ms
        + 2 * (config.sync_timeout_ms + config.retry_delay_ms_max)
        + config.verify_interval_ms
    )
    return config.load_timeout_ms + 2 * find_ms + config.steady_ms + config.report_interval_ms + repair_ms
