"""What every endpoint gets and gives, whoever carries the bytes; and the route table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from werkzeug.datastructures import ImmutableDict

from app.config.settings import Settings
from app.http.api.beats import BeatCollector
from app.http.api.dump_lines import Dumps
from app.http.api.stats import ForwardStats, HttpStats
from app.http.input.params import Parameters
from app.naming.clients.clients import Clients
from app.naming.push.udp_subscribers import Subscriber, UdpPushStats
from app.naming.records.durable_service import DurableService
from app.naming.service import NamingService
from distro.types import Member, MemberState

TEXT = "text/plain;charset=UTF-8"
JSON = "application/json;charset=UTF-8"
BYTES = "application/octet-stream"
CLIENT_AGENT = "rollcall-client-agent"
"""Header of a call that is passed on: the client's own name, as some answers depend on it."""
WANTS_CHANGE = "rollcall-wants-change"
"""Header of a call that is passed on: the answer is to bring what the call changed."""
CHANGE = "rollcall-change"
"""Header of such an answer; see ``app.naming.changes``."""

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
    """The path as it was sent: with the context path, still escaped. Empty when the carrier does not tell."""
    on_loop: bool = False
    """The event loop waits for the answer: nothing may block, or take long; ``Decline`` what would."""
    _parameters: Parameters | None = field(default=None, repr=False)

    @property
    def parameters(self) -> Parameters:
        """Query and form, parsed at the first use."""
        if self._parameters is None:
            self._parameters = Parameters.of(self.raw_query, self.header("content-type") or "", self.body, self.method)
        return self._parameters

    def parse(self, parser: Callable[[Parameters], C]) -> C:
        """The command that a parser makes of the parameters; a carrier may remember it, as far as it is a value."""
        return parser(self.parameters)

    def header(self, name: str) -> str | None:
        """One header, by its name in lower case."""
        return self.headers.get(name)

    @property
    def uri(self) -> str:
        """What errors name: the path as it was sent."""
        return self.raw_path or self.context_path + self.path

    @property
    def agent(self) -> str:
        """The client's name; ``Client-Version`` counts when ``User-Agent`` is absent or empty."""
        return self.header("user-agent") or self.header("client-version") or ""

    @property
    def client_agent(self) -> str:
        """The name of the client that first sent a call which a member may have passed on."""
        return self.header(CLIENT_AGENT) or self.agent


_NO_HEADERS: Mapping[str, str] = ImmutableDict()


@dataclass(slots=True)
class Reply:
    """An answer; nobody changes one. ``content_type`` None sends none, as real Nacos does while it is not UP."""

    status: int = 200
    body: bytes = b"ok"
    content_type: str | None = TEXT
    headers: Mapping[str, str] = _NO_HEADERS
    stream: Iterable[bytes] | None = None
    """In place of ``body``: chunks that are sent as they are made; closed, where it can be, when the answer ended."""
    head: bytes | None = field(default=None, compare=False, repr=False)
    """Kept here by who carries the bytes: the head of the answer, for replies that are given often."""


@dataclass(frozen=True, slots=True)
class Forward:
    """The call belongs to another member: pass it on, one hop, and give its answer."""

    tag: str
    """What DistroMapper hashes: the full service name."""
    durable: tuple[str, ...] = ()
    """Keys of the durable records that the call writes: they are fetched before it is answered here."""


@dataclass(frozen=True, slots=True)
class Decline:
    """A hot function leaves the call to the pool: it would block or take long. Only for calls on the loop."""


OK = Reply()
DECLINE = Decline()
Answer = Reply | Forward | Decline


class Cluster(Protocol):
    """The member list and who is responsible, as this node sees it."""

    self_address: str
    standalone: bool

    def responsible(self, tag: str) -> bool: ...

    def map_srv(self, tag: str) -> str: ...

    def responsible_durable(self, tag: str) -> bool:
        """As ``responsible``, among members of our own kind: the others keep durable data in their own way."""
        ...

    def map_srv_durable(self, tag: str) -> str: ...

    def members(self) -> list[Member]:
        """All members with this node among them, by address."""
        ...

    def member_json(self, member: Member) -> dict[str, Any]:
        """The wire shape of a member, facts: Nacos 1.4 Member."""
        ...

    def view(self) -> tuple[str, ...]:
        """The addresses among which keys are spread now."""
        ...

    def wait_for_view(self, seen: tuple[str, ...], timeout_s: float) -> None:
        """Return as soon as the view is another one than ``seen``, and at the latest after ``timeout_s``."""
        ...

    def is_listed(self, remote_ip: str) -> bool:
        """Whether calls of a peer may come from there: a listed member's address; any loopback one when standalone."""
        ...

    def java_peers_at(self, remote_ip: str) -> list[str]:
        """The listed members at an address that are not known to be of our kind."""
        ...

    def capabilities(self, address: str) -> frozenset[str]:
        """What a member's report says that it can do; nothing for one that is unknown, or of another kind."""
        ...

    def state(self) -> MemberState:
        """Own state; STARTING until the data of the others was loaded."""
        ...

    def receive_report(self, body: Mapping[str, Any], remote_ip: str) -> dict[str, Any]:
        """Take a peer's report; return the JSON answer ``{code, message, data}``."""
        ...


class Replication(Protocol):
    """The engine's receiving side. Each call may come from any thread.

    Raises (each): CodecError (answer 400 with its text), NotInitialized (answer 503).
    """

    def receive(self, body: bytes, headers: Mapping[str, str], remote_ip: str) -> bytes:
        """Take ``{key: datum}``, gzip or plain; return the answer's body: ``ok``, or JSON to a peer of our kind."""
        ...

    def verify(
        self, body: bytes, source: str, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> bytes:
        """Compare ``{key: checksum or version}`` with what is held; what differs is fetched later."""
        ...

    def datums(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], bool]:
        """The JSON of those keys, of all for None, in parts; and whether it is gzip (the peer takes it)."""
        ...

    def refresh(self, peer: str, keys: tuple[str, ...]) -> None:
        """Fetch durable records that the peer has just written."""
        ...


class Forwarding(Protocol):
    """Passes calls on to the member that must execute them, and waits for its answer. Not for the event loop."""

    @property
    def stats(self) -> ForwardStats:
        """What happened to calls that were passed on, from the loop too."""
        ...

    def forward(self, call: Call, to: Forward, run: Callable[[], Answer]) -> Reply:
        """Return the answer of the member responsible; ``run`` executes the call here, should that be us."""
        ...


class Pushing(Protocol):
    """Subscribers of this node, told over UDP when a service changes. Each call returns at once."""

    def subscribe(self, subscriber: Subscriber) -> None: ...

    def subscribers(self, namespace: str) -> list[Subscriber]:
        """All of a namespace."""
        ...

    def state(self, *, reset: bool) -> tuple[UdpPushStats, list[tuple[Subscriber, int, int]]]:
        """Counters, and what is not acknowledged yet: subscriber, reference, sends; ``reset`` counts anew from now."""
        ...


class LoopFrontend(Protocol):
    """Another door on the worker's loop: it starts before HTTP answers, and ends after it. Called on the loop."""

    async def start(self) -> None:
        """Listen. Raises SettingError, when that is not possible."""
        ...

    def leave(self) -> None:
        """Tell the clients that this node goes."""
        ...

    async def stop(self) -> None:
        """End all connections. May be called twice."""
        ...


class Loader(Protocol):
    """Connections of another door, as operators see them. A call returns at once, but for those that say otherwise."""

    def current(self) -> dict[str, Any]:
        """What is to be shown of each, by id."""
        ...

    def reload_client(self, connection_id: str, redirect: tuple[str, int] | None) -> None: ...

    def reload_to(self, count: int, redirect: tuple[str, int] | None) -> None:
        """Send the latest elsewhere, so that ``count`` are left."""
        ...

    def cluster(self) -> dict[str, Any]:
        """How connections are spread over all members. Asks the others, and waits for seconds at most."""
        ...

    def smart_reload(self, factor: float) -> bool:
        """Have full members send clients to empty ones; whether all took it. Asks the others, and waits."""
        ...


class Services(Protocol):
    """All that endpoints may use; the node provides it, so that this package never imports the node."""

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
        """What the door counts."""
        ...

    @property
    def clients(self) -> Clients:
        """Those with connections, here and at other members."""
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
    """One row of the table; ``hot`` marks what the fast worker may answer on its loop."""

    method: str
    path: str
    endpoint: Endpoint
    hot: bool = False


ROUTES: list[Route] = []


def route(method: str, *paths: str, hot: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Add the function to the route table, once for each path."""

    def add(endpoint: Endpoint) -> Endpoint:
        ROUTES.extend(Route(method, path, endpoint, hot) for path in paths)
        return endpoint

    return add
