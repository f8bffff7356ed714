"""Ports of a simulated member: the world and the network as a member sees them, and the member as its parts see it."""

from collections import Counter
from collections.abc import Callable, Container
from typing import Any, Protocol, TypeVar

from app.http.api.call import Call
from app.members.member_reports import MemberReports
from app.members.membership import Membership
from app.naming.records.record import Record
from app.naming.registry.registry import Registry
from app.tools.simulation.member.client_writes import Write
from app.tools.simulation.transcript.entry import Trace
from distro.engine.peer_sends import PeerSends
from distro.model.config import DistroConfig
from distro.model.ports import Clock, Components
from distro.model.types import Outcome
from distro.protocol.engine_reader import EngineReader
from distro.protocol.protocol_parts import ProtocolRules
from distro.receive.receive import DistroReceiver

M_contra = TypeVar("M_contra", contravariant=True)
Reply = Callable[[Outcome, Any], None]
"""Gives the answer of a call, which travels back as the request came."""
About = tuple[str, tuple[str, ...]]
"""The content of a call as text, and its keys."""
NOTHING_SAID: About = ("", ())
InRun = Callable[[int, Callable[[], None]], None]
"""Does work after so many ms, unless the run of its process has ended."""


class Process(Protocol):
    """A process at an end of a call."""

    @property
    def address(self) -> str: ...

    @property
    def run(self) -> int:
        """The number of the run, which rises with every start; a message for an earlier run is lost."""
        ...

    @property
    def listening(self) -> bool: ...

    def post(self, work: Callable[[], None]) -> None:
        """Do the work now, or when the process runs again."""
        ...


class Scheduler(Protocol):
    """The time, the chance and the records of a world."""

    @property
    def now_ms(self) -> int: ...

    @property
    def marks(self) -> Counter[str]: ...

    @property
    def trace(self) -> Trace: ...

    def after(self, delay_ms: int, work: Callable[[], None]) -> None: ...

    def between(self, low: int, high: int) -> int: ...

    def chance(self, share: float) -> bool: ...


class NetworkCalls(Protocol):
    """The calls that a network carries; see ``Network``."""

    def is_silent(self, source: str, target: str) -> bool: ...

    def is_reset(self, server: str, run: int, client: str) -> bool: ...

    def call(
        self,
        source: Process,
        target: str,
        serve: Callable[[Any, Reply], None],
        timeout_ms: int,
        on_done: Reply,
        *,
        of_member: bool = ...,
        repeats: bool = ...,
        about: About = ...,
    ) -> None: ...


class ClusterWorld(Scheduler, Protocol):
    """A world as each process in it sees it."""

    @property
    def tracing(self) -> bool:
        """True if the lines of ``trace`` are read."""
        ...

    @property
    def addresses(self) -> list[str]:
        """The addresses of all members."""
        ...

    @property
    def network(self) -> NetworkCalls: ...

    @property
    def outer(self) -> NetworkCalls:
        """The network between clusters; that of the cluster itself if it has no other."""
        ...


class PartChecks(Protocol):
    """The notes that parts of a member make for the checker of its world."""

    def refused(self, write: Write) -> None: ...

    def broken(self, text: str) -> AssertionError: ...


class MemberChecks(PartChecks, Protocol[M_contra]):
    """The notes that a member makes for the checker of its world."""

    def begins(self, member: M_contra, write: Write) -> None: ...

    def executed(self, member: M_contra, write: Write, before: int | None) -> None: ...

    def ticked(self, member: M_contra, taken_ms: float) -> None: ...

    def word(self, record: Record) -> None: ...

    def losing(self, member: M_contra) -> None: ...

    def look(self, member: M_contra) -> None: ...


class PartWorld(ClusterWorld, Protocol):
    """A world as the parts of a member see it."""

    @property
    def warm(self) -> bool: ...

    @property
    def members(self) -> Container[str]:
        """The addresses of the Rollcall members."""
        ...

    @property
    def checker(self) -> PartChecks: ...

    def write_of(self, call: Call) -> Write | None: ...


class MemberWorld(PartWorld, Protocol[M_contra]):
    """A world as its members see it."""

    @property
    def checker(self) -> MemberChecks[M_contra]: ...

    def shuffle(self, items: list[Callable[[], None]]) -> None: ...

    def resume(self, member: M_contra) -> None: ...


class WokenMember(Protocol):
    """A member as its mailbox sees it."""

    @property
    def world(self) -> PartWorld: ...

    def wake(self) -> None:
        """Let the engine's thread begin a turn soon."""
        ...


class PartMember(Process, Protocol):
    """A member as each of its parts sees it."""

    @property
    def world(self) -> PartWorld: ...

    @property
    def ip(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def membership(self) -> Membership: ...

    @property
    def in_run(self) -> InRun: ...


class EngineMember(PartMember, Protocol):
    """A member as its engine and the engine's calls see it."""

    @property
    def claim_ms(self) -> int: ...

    @property
    def sends_class(self) -> type[PeerSends]: ...

    @property
    def config(self) -> DistroConfig: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def reports(self) -> MemberReports: ...

    @property
    def components(self) -> Components: ...

    @property
    def reader(self) -> EngineReader: ...

    @property
    def receiver(self) -> DistroReceiver: ...

    def protocol_rules(self) -> ProtocolRules: ...

    def stand_still(self, length_ms: int) -> None: ...

    def store(self, resource_type: str, work: Callable[[], None]) -> None: ...

    def type_of(self, key: str) -> str: ...

    def spent_us(self) -> float: ...

    def note_tick(self, taken_ms: float) -> None: ...


class StreamConnections(Protocol):
    """The open streams of a member, by the connections that they are written to."""

    def forget(self, connection: Any) -> None: ...


class MemberHttp(Protocol):
    """The frontend of a member, as the parts of its world see it."""

    @property
    def streams(self) -> StreamConnections: ...


class FrontendMember(PartMember, Protocol):
    """A member as its frontend sees it."""

    waits_for_disk: bool
    owns_durable: bool | None

    @property
    def http(self) -> MemberHttp: ...

    def revision_of(self, write: Write) -> int | None: ...

    def note_begin(self, write: Write) -> None: ...

    def note_executed(self, write: Write, before: int | None) -> None: ...


class Listed(Protocol):
    """An instance, by the keys under which a member lists it."""

    @property
    def datum_key(self) -> str: ...

    @property
    def instance_key(self) -> str: ...
