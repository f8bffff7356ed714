"""A protocol that does what a test plans, and a runtime of it whose thread does not run."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from distro.engine.mailbox import Mailbox
from distro.engine.peer_call_runner import EngineParts
from distro.engine.runtime import DistroRuntime
from distro.model.config import DistroConfig
from distro.model.errors import TransportError
from distro.model.monitor import DistroStats, EngineTimes
from distro.model.ports import Component
from distro.model.types import Action, Member, MemberState, PeerReport
from tests.support.named_store import NamedStore, ValueChecksum

RESOURCE_TYPE = "t"


class PlannedMembers:
    """A list of members, some of them reachable."""

    def __init__(self) -> None:
        self.listed: list[Member] = []
        self.reachable: set[str] = set()

    def get(self, address: str) -> Member | None:
        return next((one for one in self.listed if one.address == address), None)

    def is_reachable(self, address: str) -> bool:
        return address in self.reachable


class PlannedProtocol:
    """In place of a protocol: it notes each call in ``told``, and its next ticks answer ``plans``."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.plans: list[tuple[list[Action], int] | Callable[[], tuple[list[Action], int]]] = []
        self.unsent: dict[str, int] = {}
        """The answer of ``view.pending_keys``."""
        self.members = PlannedMembers()
        self.view = self
        self.times = EngineTimes()
        self.waiting = 0
        """The answer of ``pending``."""
        self.gathering_ms = 0
        """What ``gathers_ms`` answers."""
        self.busy = False
        """What ``is_busy`` answers."""
        self.peers = self

    def tick(self, now_ms: int, ran_ms: int = 0) -> tuple[list[Action], int]:
        self.told.append(("tick", now_ms))
        plan = self.plans.pop(0) if self.plans else ([], now_ms + 3_600_000)
        return plan() if callable(plan) else plan

    def pending(self) -> int:
        return self.waiting

    def gathers_ms(self, now_ms: int) -> int:
        return self.gathering_ms

    def is_busy(self, now_ms: int) -> bool:
        return self.busy

    def pending_keys(self) -> dict[str, int]:
        return self.unsent

    def replace_members(self, addresses: Collection[str], now_ms: int) -> None:
        self.told.append(("replace_members", tuple(addresses), now_ms))

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, *arguments))


class Answers:
    """The agents of reports and of a resource type: they note calls in ``called`` and answer nothing."""

    def __init__(self) -> None:
        self.called: list[tuple[str, str, int]] = []
        """Shape: ``(call, peer, timeout_ms)``."""
        self.silent: set[str] = set()
        """Peers that do not answer reports."""
        self.before: Callable[[], object] = lambda: None
        """Called at the start of each call, on its thread."""
        self.closed = 0

    def report(self, peer: str, timeout_ms: int) -> PeerReport:
        self.before()
        self.called.append(("report", peer, timeout_ms))
        if peer in self.silent:
            raise TransportError(f"{peer} does not answer")
        return PeerReport(peer, MemberState.UP)

    def load(self, peer: str, timeout_ms: int) -> None:
        self.before()
        self.called.append(("load", peer, timeout_ms))

    def close(self) -> None:
        self.closed += 1


class PlannedRuntime:
    """A runtime of a planned protocol, of which a test runs what it wants. Its clock stands."""

    def __init__(self, *, now_ms: int, mailbox: Mailbox | None = None, **settings: int) -> None:
        self.now_ms = now_ms
        self.protocol, self.agent, self.store = PlannedProtocol(), Answers(), NamedStore()
        self.mailbox = mailbox or Mailbox(10, DistroStats())
        component = Component(self.store, ValueChecksum(), self.agent)  # type: ignore[arg-type]
        self.runtime = DistroRuntime(
            self.protocol,  # type: ignore[arg-type]
            EngineParts(
                self.protocol,  # type: ignore[arg-type]
                None,  # type: ignore[arg-type]
                self.mailbox,
                {RESOURCE_TYPE: component},
                self.agent,
                self,
                DistroConfig(**settings),
                DistroStats(),
            ),
        )

    def monotonic_ms(self) -> int:
        return self.now_ms

    boot_ms = wall_ms = monotonic_ms

    def run_events(self, events: Iterable[Any], now_ms: int) -> None:
        """Let events call the protocol."""
        for event in events:
            event(self.protocol, now_ms)
