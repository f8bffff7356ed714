"""Endpoints' arguments and results, the same on the event loop and in Flask; their services; the route table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from werkzeug.datastructures import ImmutableDict

from app.config.settings import Settings
from app.http.api.beats import BeatCollector
from app.http.api.dump_lines import Dumps
from app.http.api.stats import HttpStats
from app.http.input.params import Parameters
from app.naming.clients.clients import Clients
from app.naming.push.udp_subscribers import Subscriber, UdpPushStats
from app.naming.records.durable_service import DurableService
from app.naming.service import NamingService
from app.writes.owner_forwarder import ForwardStats, LoopForwarding, MemberRequest
from app.writes.ownership import Forward as Forward
from distro.types import Member, MemberState

TEXT = "text/plain;charset=UTF-8"
JSON = "application/json;charset=UTF-8"
BYTES = "application/octet-stream"
CLIENT_AGENT = "rollcall-client-agent"
"""Header of a forwarded call: the agent string of the client, as some answers depend on it."""
WANTS_CHANGE = "rollcall-wants-change"
"""Header of a forwarded call: the answer is to carry the instance as the call left it."""
CHANGE = "rollcall-change"
"""Header of an answer that carries such an instance; see ``app.naming.changes``."""

C = TypeVar("C")


@dataclass(slots=True)
class Call:
    """One request. ``path`` is below the context path; header names are in lower case."""

    method: str
    path: str
    raw_query: bytes
    headers: Mapping[str, str]
    body: bytes
    remote_ip: str
    context_path: str = "/nacos"
    raw_path: str = ""
    """The path as the client sent it: with the context path, still escaped. Empty when it is not known."""
    on_loop: bool = False
    """The event loop waits for the answer: an endpoint that would block or take long answers ``Decline``."""
    _parameters: Parameters | None = field(default=None, repr=False)

    @property
    def parameters(self) -> Parameters:
        """Query and form, parsed at the first use."""
        if self._parameters is None:
            self._parameters = Parameters.of(self.raw_query, self.header("content-type") or "", self.body, self.method)
        return self._parameters

    def parse(self, parser: Callable[[Parameters], C]) -> C:
        """The command that a parser makes of the parameters. On the loop, commands of repeated queries are reused."""
        return parser(self.parameters)

    def header(self, name: str) -> str | None:
        """One header, by its name in lower case."""
        return self.headers.get(name)

    @property
    def uri(self) -> str:
        """The path for texts of errors: as the client sent it, with the context path."""
        return self.raw_path or self.context_path + self.path

    @property
    def agent(self) -> str:
        """The sender's agent string: ``User-Agent``, or ``Client-Version`` when that is absent or empty."""
        return self.header("user-agent") or self.header("client-version") or ""

    @property
    def client_agent(self) -> str:
        """The agent string of the client, also when a member forwarded its call."""
        return self.header(CLIENT_AGENT) or self.agent


_NO_HEADERS: Mapping[str, str] = ImmutableDict()


@dataclass(slots=True)
class Reply:
    """An answer, which is not changed once made. ``content_type`` None sends none, as real Nacos while it is not UP."""

    status: int = 200
    body: bytes = b"ok"
    content_type: str | None = TEXT
    headers: Mapping[str, str] = _NO_HEADERS
    stream: Iterable[bytes] | None = None
    """In place of ``body``: chunks, sent as they are made. Its ``close``, if any, is called when the answer ends."""
    head: bytes | None = field(default=None, compare=False, repr=False)
    """Status line and headers as bytes, kept by the connection that sent them first, for replies that are reused."""


@dataclass(frozen=True, slots=True)
class Decline:
    """The call would block or take long: the pool is to answer it. Only for calls on the loop."""


OK = Reply()
DECLINE = Decline()
Answer = Reply | Forward | Decline


class Cluster(Protocol):
    """The member list and the owners of keys, as this node sees them."""

    self_address: str
    standalone: bool

    def responsible(self, tag: str) -> bool:
        """Whether this node owns ``tag``."""
        ...

    def map_srv(self, tag: str) -> str:
        """The address of the member that owns ``tag``."""
        ...

    def responsible_durable(self, tag: str) -> bool:
        """As ``responsible``, among members of our own kind: real Nacos stores durable data in its own way."""
        ...

    def map_srv_durable(self, tag: str) -> str:
        """As ``map_srv``, among members of our own kind."""
        ...

    def members(self) -> list[Member]:
        """All members with this node among them, by address."""
        ...

    def member_json(self, member: Member) -> dict[str, Any]:
        """A member as the wire has it. Source: Nacos 1.4 Member."""
        ...

    def is_listed(self, remote_ip: str) -> bool:
        """Whether peers may call from ``remote_ip``: a listed member's address; when standalone, any loopback one."""
        ...

    def java_peers_at(self, remote_ip: str) -> list[str]:
        """The addresses of listed members at ``remote_ip`` that are not known to be of our kind."""
        ...

    def capabilities(self, address: str) -> frozenset[str]:
        """The capabilities in a member's last report; none for an unknown member, or one of another kind."""
        ...

    def state(self) -> MemberState:
        """This node's state; STARTING until the other members' data is loaded."""
        ...

    def receive_report(self, body: Mapping[str, Any], remote_ip: str) -> dict[str, Any]:
        """Take a peer's report. Returns the fields of the answer: ``{code, message, data}``."""
        ...


class Replication(Protocol):
    """The engine's receiving side. Each call may come from any thread.

    Raises (each): CodecError (answer 400 with its text), NotInitialized (answer 503).
    """

    def receive(self, body: bytes, headers: Mapping[str, str], remote_ip: str) -> bytes:
        """Take the body ``{key: datum}``, gzip or plain. Returns the answer: ``ok``, or JSON for a peer of our kind."""
        ...

    def verify(
        self, body: bytes, source: str, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> bytes:
        """Compare ``{key: checksum or version}`` with the stored datums; those that differ are fetched later."""
        ...

    def datums(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], bool]:
        """The datums of ``keys``, of all for None, as JSON in parts; and whether that is gzip, if the peer takes it."""
        ...

    def refresh(self, peer: str, keys: tuple[str, ...]) -> None:
        """Fetch from ``peer`` the durable records that it has just written."""
        ...


class Forwarding(Protocol):
    """Has calls of any thread executed by their owners; see ``app.writes.owner_forwarder``."""

    @property
    def stats(self) -> ForwardStats:
        """The counters of all calls that were passed on, those of the loop too."""
        ...

    def attach(self, over: LoopForwarding[Reply]) -> None:
        """Send over this loop's forwarder from now on."""
        ...

    def detach(self) -> None:
        """Answer all threads that wait, and refuse further calls: the loop ends."""
        ...

    def forward(self, request: MemberRequest, to: Forward, run: Callable[[], Reply | Forward]) -> Reply:
        """Return the owner's answer; ``run`` executes the call here, should this node be its owner by then. Blocks."""
        ...


class Pushing(Protocol):
    """The UDP subscribers of this node, who receive a service when it changes. Each call returns at once."""

    def subscribe(self, subscriber: Subscriber) -> None: ...

    def subscribers(self, namespace: str) -> list[Subscriber]:
        """The subscribers to services of a namespace."""
        ...

    def state(self, *, reset: bool) -> tuple[UdpPushStats, list[tuple[Subscriber, int, int]]]:
        """The counters, and the unacknowledged pushes: subscriber, reference, sends. ``reset`` zeroes the counters."""
        ...


class LoopFrontend(Protocol):
    """A frontend beside HTTP on the worker's loop: starts before HTTP, and stops after it. Called on the loop."""

    async def start(self) -> None:
        """Listen.

        Raises:
            SettingError: a port is not free, or a certificate cannot be read.
        """
        ...

    def leave(self) -> None:
        """Ask the clients to connect to another member, as this node stops."""
        ...

    async def stop(self) -> None:
        """End all connections. May be called twice."""
        ...


class Loader(Protocol):
    """Operators' view of the gRPC connections. Each call returns at once, except those that ask other members."""

    def current(self) -> dict[str, Any]:
        """The connections of this node, by id."""
        ...

    def reload_client(self, connection_id: str, redirect: tuple[str, int] | None) -> None:
        """Ask one client to connect to ``redirect``, or to any other member."""
        ...

    def reload_to(self, count: int, redirect: tuple[str, int] | None) -> None:
        """Ask the latest clients to connect elsewhere, so that ``count`` stay."""
        ...

    def cluster(self) -> dict[str, Any]:
        """The connections and load of each member. Asks the others, and waits for seconds at most."""
        ...

    def smart_reload(self, factor: float) -> bool:
        """Have overloaded members send clients to others; whether all of them agreed. Asks the others, and waits."""
        ...


class Services(Protocol):
    """The services that endpoints use. The node provides them, so that this package never imports the node."""

    @property
    def settings(self) -> Settings: ...

    @property
    def naming(self) -> NamingService: ...

    @property
    def durable(self) -> DurableService: ...

    @property
    def push(self) -> Pushing: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def replication(self) -> Replication: ...

    @property
    def forwarder(self) -> Forwarding: ...

    @property
    def dumps(self) -> Dumps: ...

    @property
    def beats(self) -> BeatCollector: ...

    @property
    def http(self) -> HttpStats:
        """The counters of the HTTP frontend."""
        ...

    @property
    def clients(self) -> Clients:
        """The clients that keep a gRPC connection, to this node or to another member."""
        ...

    @property
    def loop_frontends(self) -> Sequence[LoopFrontend]: ...

    @property
    def loader(self) -> Loader | None: ...

    def counters(self) -> Mapping[str, int | float]:
        """``cpu``, ``load``, ``mem`` and the engine's counters, for the metrics endpoint."""
        ...

    def wall_ms(self) -> int: ...


Endpoint = Callable[[Call, Services], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the route table. ``hot``: the event loop may answer it."""

    method: str
    path: str
    endpoint: Endpoint
    hot: bool = False


ROUTES: list[Route] = []


def route(method: str, *paths: str, hot: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that adds an endpoint to the route table, once for each path."""

    def add(endpoint: Endpoint) -> Endpoint:
        ROUTES.extend(Route(method, path, endpoint, hot) for path in paths)
        return endpoint

    return add
