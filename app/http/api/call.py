"""Endpoints' arguments and results, the same on the event loop and in Flask; their services; the route table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from werkzeug.datastructures import ImmutableDict

from app.auth.access_control import AccessControl
from app.auth.access_rules import AccessRule, Scope
from app.auth.decision_memo import DecisionMemo
from app.auth.login_limits import LoginWait
from app.auth.member_calls import CLIENT, Caller, Callers
from app.auth.member_signer import MemberSigner
from app.auth.users import Users
from app.commands.outcomes import DONE, UNCHANGED, Done, Outcome
from app.commands.ownership import Forward as Forward
from app.commands.write_caller import BATCH_CHANGE as BATCH_CHANGE
from app.commands.write_caller import SHORT_CHANGE as SHORT_CHANGE
from app.commands.write_caller import PassedOn
from app.commands.writes import Writes
from app.config.settings import Settings
from app.http.api.agents import is_peer, is_redirect
from app.http.api.dump_lines import Dumps
from app.http.api.parse_memo import CallMemo, ParseMemo
from app.http.api.stats import HttpStats
from app.http.api.stream_answers import Events as Events
from app.http.api.stream_answers import Lines as Lines
from app.http.input.forms import Parameters
from app.http.shapes.described import Described
from app.links.node_links import NodeLinks
from app.machine.limits.answer_budget import AnswerBudget
from app.machine.limits.client_addresses import AddressTable, ClientAddress
from app.machine.limits.connection_room import ConnectionRoom
from app.machine.process.config_call_log import ConfigCallLog
from app.machine.tls.node_tls import NodeTls
from app.metrics.audit_trail import Actor
from app.metrics.instruments import Instruments
from app.metrics.node_metrics import NodeMetrics
from app.naming.clients.clients import Clients
from app.naming.health.beat_refusals import BeatRefusals
from app.naming.records.durable_service import DurableService
from app.naming.service import NamingService
from app.operator.content_checks import ContentChecks
from app.operator.drain_steps import DrainSteps
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_history import CountHistory
from app.operator.instance_search import InstanceSearches
from app.peers.beats import BeatCollector
from app.peers.headers import AUTHORIZATION as AUTHORIZATION
from app.peers.headers import BEARER as BEARER
from app.peers.headers import CHANGE as CHANGE
from app.peers.headers import CLIENT_ADDRESS as CLIENT_ADDRESS
from app.peers.headers import CLIENT_AGENT as CLIENT_AGENT
from app.peers.headers import CLOCK as CLOCK
from app.peers.headers import DEADLINE as DEADLINE
from app.peers.headers import RELAY as RELAY
from app.peers.headers import TEXT as TEXT
from app.peers.headers import TOKEN_HEADER as TOKEN_HEADER
from app.peers.headers import WANTS_CHANGE as WANTS_CHANGE
from app.peers.owner_forwarder import OwnerForwarder
from app.ports.http_ports import (
    Cluster,
    ConnectionLoader,
    Explainer,
    Healer,
    ListLookup,
    LoopFrontend,
    PauseChecks,
    Pushing,
    Replication,
    Reports,
    Senders,
    SmallSending,
)
from app.ports.shared_ports import ReadCounters

JSON = "application/json;charset=UTF-8"
BYTES = "application/octet-stream"
ADDRESS = "rollcall.address"
"""The key in WSGI's environ of the client's address, where writes of one are limited."""
READ = "rollcall.read"
"""The key in WSGI's environ of the part of the body that the loop read before it left the call to the pool."""
MEMBER_CERTIFICATE = "rollcall.member_certificate"
"""Key of WSGI's environ; see ``Call.has_member_certificate``. No header can set it."""
CALLER = "rollcall.caller"
"""Key of a WSGI environ: the ``Caller``, who was found out when the request came."""

LOGIN_WAIT, AGAIN_MS = "rollcall.login_wait", "rollcall.again_ms"
"""Keys of a WSGI environ: the call's ``LoginWait``; and, in place of an answer, when the call is to be made again."""
ROUTE = "rollcall.route"
"""The key in a WSGI environ under which Flask's view leaves the row that answers."""
AGENT_CHARS_MAX = 200
C = TypeVar("C")
# ``_new_tuple(C, (...))`` is ``C(...)`` without its function in Python.
_new_tuple = tuple.__new__


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
    hop_token: str = ""
    """A token for the member that executes the call, in place of the user's password; empty without a password."""
    user: str = ""
    """The user whose token the call brought; empty while authentication is off, and for calls of members."""
    path_values: Mapping[str, str] = field(default_factory=dict)
    """The values of the variable parts of the path, by their names in the route; none for a call on the loop."""
    on_loop: bool = False
    """The event loop waits for the answer: an endpoint that would block or take long answers ``Decline``."""
    has_member_certificate: bool = False
    """True if the caller showed a certificate that is trusted for members; checked only if mutual TLS is on."""
    caller: Caller = CLIENT
    """The caller: a member, if the call was identified as a member's, or anybody."""
    address: ClientAddress | None = None
    """The address of the connection, where the writes of each address are limited."""
    memo: CallMemo | None = None
    """The known facts about the call, if the same bytes came before."""
    read: dict[str, Any] | None = None
    """The object in the body, if the loop read it before it left the call to the pool."""
    login_wait: LoginWait | None = None
    """The place that keeps a login of this call while it waits; None for a call that is not repeated."""
    has_checked_name: bool = False
    """The name of the service is one that the API of the call allows."""
    _parameters: Parameters | None = field(default=None, repr=False)

    @property
    def parameters(self) -> Parameters:
        """Query and form, parsed at the first use."""
        if self._parameters is None:
            kind = (self.header("content-type") or "") if self.body else ""
            self._parameters = Parameters.of(self.raw_query, kind, self.body, self.method)
        return self._parameters

    def parse(self, parser: Callable[[Parameters], C]) -> C:
        """The command that a parser makes of the parameters. On the loop, commands of repeated queries are reused."""
        return parser(self.parameters)

    def give_token(self, token: str, *secrets: str) -> None:
        """Take parameters out, and have a member that the call is passed on to get a token in their place."""
        self.hop_token = token
        self._parameters = self.parameters.without(*secrets)
        self.headers = {**self.headers, AUTHORIZATION: BEARER + token}

    def replace_value(self, key: str, value: str) -> None:
        """Give a parameter another value, plain text without blanks, here and at a member that executes the call."""
        self._parameters = self.parameters.replacing(key, value)
        # Of several values the first counts.
        self.raw_query = f"{key}={value}&".encode() + self.raw_query

    def header(self, name: str) -> str | None:
        """One header, by its name in lower case."""
        return self.headers.get(name)

    @property
    def deadline(self) -> str | None:
        """The header that says when it is too late to execute the call (R13). Each write and beat asks for it."""
        return self.header(DEADLINE)

    @property
    def wants_change(self) -> str | None:
        """The header that asks for the instance as the call left it."""
        return self.header(WANTS_CHANGE)

    @property
    def actor(self) -> Actor:
        """The actor of the call. A member that forwarded the call states the client's address; no other caller may."""
        address, via = self.remote_ip, ""
        if self.caller.is_member and (told := self.header(CLIENT_ADDRESS)):
            address, via = told, address
        return _new_tuple(Actor, (address, self.user, self.client_agent[:AGENT_CHARS_MAX], via))

    @property
    def passed_on(self) -> PassedOn | None:
        """The member that passed the call on as to its owner; None for clients, and for calls with one hop more."""
        # What is remembered of calls is never of one that a member makes, by its own word or in truth.
        if self.memo is not None or not is_redirect(self.agent) or self.header(RELAY) is not None:
            return None
        return PassedOn(self.remote_ip, self.uri, self.header(CLIENT_AGENT) is not None)

    def count_write(self) -> None:
        """Count a write against the address of its client. What a member passed on was counted there.

        Raises:
            TooManyRequests: the address has done as many as it may.
        """
        if self.address is not None and not (self.caller.is_member and is_peer(self.agent)):
            self.address.take()

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
    """An answer, which is not changed once made. Without a ``content_type`` there is no such header, as at a real Nacos
    that is not UP.
    """

    status: int = 200
    body: bytes = b"ok"
    content_type: str | None = TEXT
    headers: Mapping[str, str] = _NO_HEADERS
    stream: Iterable[bytes] | None = None
    """Chunks in place of ``body``, sent as they are made. Their ``close``, if any, is called when the answer ends."""
    head: bytes | None = field(default=None, compare=False, repr=False)
    """Status line and headers as bytes, kept by the connection that sent them first, for replies that are reused."""


@dataclass(frozen=True, slots=True)
class Decline:
    """The call would block or take long: the pool is to answer it. Only for calls on the loop."""

    read: dict[str, Any] | None = None
    """The object that the endpoint read of the body on the way, for its second run: see ``Call.read``."""


@dataclass(frozen=True, slots=True)
class Later:
    """The reply, to be sent ``after_ms`` from now; sooner while the node stops. No thread waits for it.

    Only for hot calls: one that came to Flask, as its path is written in another way, is answered at once.
    """

    reply: Reply
    after_ms: int


OK = Reply()
DECLINE = Decline()
Answer = Reply | Forward | Decline | Later | Events | Lines


def rendered(outcome: Outcome, reply: Reply = OK) -> Answer:
    """Return the answer to a write. ``reply``: that to one which is executed.

    A member that passed it on gets the instance too, as the write left it, and the time from which its ages count.
    """
    if outcome is DONE or outcome is UNCHANGED:
        return reply
    if isinstance(outcome, Done):
        if outcome.change is None:
            return reply
        headers = {CHANGE: outcome.change.decode()} | ({CLOCK: outcome.made_at} if outcome.made_at else {})
        return Reply(reply.status, reply.body, reply.content_type, headers)
    return outcome if isinstance(outcome, Forward) else DECLINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All parts of a node that endpoints use. The node hands them over: this package never imports the node."""

    settings: Settings
    naming: NamingService
    durable: DurableService
    writes: Writes
    push: Pushing
    cluster: Cluster
    senders: Senders
    reports: Reports
    """The reports of the members to one another."""
    lookup: ListLookup | None
    """The source of the member list; None for a standalone node."""
    callers: Callers
    signer: MemberSigner
    replication: Replication
    small_sends: SmallSending
    healer: Healer
    forwarder: OwnerForwarder[Reply]
    dumps: Dumps = field(default_factory=Dumps)
    searches: InstanceSearches = field(default_factory=InstanceSearches)
    beats: BeatCollector
    refusals: BeatRefusals
    """The beats that this node and its peers chose to refuse."""
    access: AccessControl
    users: Users
    decisions: DecisionMemo = field(default_factory=DecisionMemo)
    """Calls on the event loop that were allowed."""
    written: ParseMemo
    """Parsed forms of writes that members forwarded to the event loop."""
    http: HttpStats
    pauses: PauseChecks
    clients: Clients
    """The clients that keep a gRPC connection, to this node or to another member."""
    loop_frontends: Sequence[LoopFrontend]
    links: NodeLinks
    loader: ConnectionLoader | None
    """Operators' view of the gRPC connections; None without a gRPC frontend."""
    counters: ReadCounters
    config_calls: ConfigCallLog
    explainer: Explainer
    drains: InstanceDrains
    drain_steps: DrainSteps
    engine_facts: Callable[[], dict[str, Any]]
    content_checks: ContentChecks
    count_history: CountHistory
    """The recent numbers of services and instances of this node."""
    tls: NodeTls
    addresses: AddressTable
    """The addresses of clients, with their connections over gRPC too."""
    room: ConnectionRoom
    """The room for connections, of all ports together."""
    answers: AnswerBudget
    """The bytes of answers under way, over gRPC too."""
    memory_bytes: int = 0
    """The memory limit of this process; 0 without one."""
    instruments: Instruments
    metrics: NodeMetrics
    wall_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]


Endpoint = Callable[[Call, Services], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the route table: who may call it, and with ``hot`` that the event loop may answer it."""

    method: str
    path: str
    endpoint: Endpoint
    access: AccessRule
    hot: bool = False
    for_members: bool = False
    """True if the endpoint distinguishes calls of members from others."""
    at_root: bool = False
    """True if no context path precedes the path."""
    described: Described | None = None
    """The endpoint's parameters and answers; None for an endpoint that the API description leaves out."""
    asks_users_alone: bool = field(init=False)
    """True if the user alone decides about access: while authentication is off, anybody may call the endpoint."""
    is_beat: bool = field(init=False)
    is_client_write: bool = field(init=False)
    """True if a call counts against the writes of the client's address: calls of members and beats do not."""

    def __post_init__(self) -> None:
        is_write = self.access.changes and self.access.scope in (Scope.NAMING, Scope.ADMIN)
        is_unsafe_read = self.access.changes and self.method in ("GET", "HEAD")
        of_users = self.access.scope in (Scope.NAMING, Scope.ADMIN, Scope.PUBLIC) and not is_unsafe_read
        object.__setattr__(self, "asks_users_alone", of_users)
        is_beat = self.path in BEAT_PATHS or (self.method == "POST" and self.path == V3_CLIENT_INSTANCE)
        object.__setattr__(self, "is_beat", is_beat)
        object.__setattr__(self, "is_client_write", is_write and not is_beat and not self.path.endswith("clientBeat"))


V1_BEAT_PATHS, V2_BEAT_PATH = ("/v1/ns/instance/beat", "/v1/ns/api/beat"), "/v2/ns/instance/beat"
BEAT_PATHS = (*V1_BEAT_PATHS, V2_BEAT_PATH)
V3_CLIENT_INSTANCE = "/v3/client/ns/instance"
ROUTES: list[Route] = []


def route(
    method: str,
    *paths: str,
    access: AccessRule,
    hot: bool = False,
    at_root: bool = False,
    described: Described | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that adds an endpoint to the route table, once for each path."""

    def add(endpoint: Endpoint) -> Endpoint:
        for_members = access.is_for_members
        ROUTES.extend(Route(method, path, endpoint, access, hot, for_members, at_root, described) for path in paths)
        return endpoint

    return add
