"""Messages to handlers: the checks before a call, in Nacos's order, the setup of connections, answers to refusals."""

import logging
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import orjson

from app.auth.access_control import AccessControl
from app.auth.access_rules import PUBLIC
from app.auth.member_calls import Caller, Callers, Unidentified
from app.commands.ownership import BEHIND_TEXT
from app.machine.limits.answer_budget import LARGE_ANSWER_BYTES, AnswerBudget
from app.machine.process.loop_parts import RequestMemo
from app.machine.process.open_files import CONNECTIONS_MAX
from app.metrics.instruments import OK, RequestStats
from app.naming.clients.client_model import ClientInfo
from app.naming.clients.own_clients import OwnClients
from app.naming.model.json_fields import Fields
from app.naming.model.keys import JSON_VALUES_MAX
from app.naming.model.nacos_errors import ClientGone, InvalidParam, NacosError, TooManyRequests, Unavailable
from app.peers import payload as wire
from app.peers.grpc_link import OWN_KIND_ABILITY
from app.peers.grpc_links import MEMBER_LABEL
from app.peers.payload import Payload, PayloadError
from app.ports.shared_ports import MemberDirectory
from app.rpc.server.connections import LABELS_CHARS_MAX, Connection, Connections
from app.rpc.server.control_credit import CountedAnswer
from app.rpc.server.grpc_routes import KNOWN_BYTES_MAX, GrpcRequest, GrpcRoute, KnownMessage, MessageKeeper
from app.rpc.server.limits import LimitWatch
from app.rpc.server.message_bounds import TypeBounds
from app.rpc.server.user_check import check_rights, session_of, token_of
from distro.model.types import MemberState

LOG = logging.getLogger(__name__)
_UP = MemberState.UP
TRACED_BYTES_MAX = 1_000
MEMO_BYTES_MAX, MEMO_MARKS_MAX = 16 * 1024 * 1024, 65_536
"""The memory of the memo of messages, for some 5,000 registrations, and the messages that came once: 512 KiB."""
TYPE_CHARS_MAX = 200
HEALTH_CHECK = "HealthCheckRequest"
SERVER_ABILITIES = {"supportPersistentInstanceByGrpc": True, "fuzzyWatch": True}


class Dispatcher:
    """Answers clients' calls, and takes the messages of their streams. Used on the loop's thread."""

    def __init__(
        self, connections: Connections, cluster: MemberDirectory, callers: Callers, clients: OwnClients,
        limits: LimitWatch, now_ms: Callable[[], int], connections_max: int = CONNECTIONS_MAX,
        access: AccessControl | None = None,
        answers: AnswerBudget | None = None, requests: RequestStats | None = None,
        on_answer: Callable[[str, str, bool], None] = lambda _client_id, _request_id, _went_well: None,
        on_gone: Callable[[str], None] = lambda _client_id: None,
        on_no_handler: Callable[[str, str], None] = lambda _kind, _remote_ip: None,
        on_refused: Callable[[str, str, str, str], None] = lambda _what, _kind, _remote_ip, _why: None,
        check_pause: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """``connections_max``: registered connections of all kinds; the rule file limits those of SDKs further.

        ``callers``: identifies members. ``answers``: counts large answers; ``requests``: the handlers' answers by type
        of request and code.

        ``on_answer``: called with client id, request id and success for each answer of a client to a request of this
        node; ``on_gone`` with the client id of each registered connection that ended; ``on_no_handler`` with the type
        and the address of each call whose type has no handler here; ``on_refused`` for each refusal with its event
        (``access.refused``, ``member.refused``), type, address and reason; ``check_pause`` before each call.
        """
        self.answers = answers or AnswerBudget()
        self._callers = callers
        self._connections_max = connections_max
        self._connections = connections
        self._cluster = cluster
        self._clients = clients
        self._limits = limits
        self._now_ms = now_ms
        self._check_pause = check_pause
        self._access = access if access is not None and access.enabled else None
        self._on_answer, self._on_gone = on_answer, on_gone
        self._on_no_handler, self._on_refused = on_no_handler, on_refused
        self._requests = requests or RequestStats()
        self.leaving = False
        """True while this node stops: clients whose connections end go to other members and keep their data (R17)."""
        self.draining = False
        """True while an operator drains this node: a client's data are removed a while after its connection's end."""
        self._moved_ms: dict[str, int] = {}
        """The end of the connection of each such client, the latest last."""
        self._routes: dict[str, GrpcRoute] = {
            HEALTH_CHECK: GrpcRoute(_healthy, "HealthCheckResponse", PUBLIC, lambda *_: HEALTHY)
        }
        self.known: RequestMemo[KnownMessage, KnownMessage] = RequestMemo(
            MessageKeeper(), MEMO_BYTES_MAX, KNOWN_BYTES_MAX, MEMO_MARKS_MAX
        )
        """The messages that came before: for ``answer_hot``."""
        self.bounds = TypeBounds(self._routes, self._callers, self._access)

    def add(self, routes: Mapping[str, GrpcRoute]) -> None:
        """Answer these types of requests too."""
        self._routes.update(routes)

    # --- calls -----------------------------------------------------------------------------------

    def answer_hot(self, connection: Connection, known: KnownMessage) -> bytes | None:
        """Return the answer to a plain call whose bytes came before; None when ``answer`` is to be called.

        The checks of ``answer`` that are left out here let every message pass, or would have kept this message from
        being known.
        """
        cluster = self._cluster
        self._check_pause()
        if (hot := known.route.hot) is None or not connection.registered or self._access is not None:
            return None
        if cluster.state() is not _UP or cluster.is_behind:
            return None
        if self._limits.rule.traced_ips:
            return None
        begun_s = perf_counter()
        answer = hot(connection, known)
        if answer is None:
            return None
        connection.active_ms = self._now_ms()
        if known.route.is_client_write and connection.address is not None and not connection.is_member:
            try:
                connection.address.take()
            except TooManyRequests as error:
                return wire.error_response(error.status, error.text)
        self._requests.of_loop("", known.message.type).add(OK, perf_counter() - begun_s)
        return answer

    async def answer(self, connection: Connection, data: bytes, known: KnownMessage | None = None) -> bytes:
        """Return the answer to one call, an error if it is refused or fails.

        ``known``: the message, if it came before and ``answer_hot`` has no answer to it.
        Source of the order of checks: Nacos 2.2.3 GrpcRequestAcceptor.
        """
        if known is None:
            self._check_pause()
        try:
            message = wire.decode(data) if known is None else known.message
        except PayloadError as error:
            return wire.error_response(wire.UNREADABLE, str(error))
        route = self._routes.get(kind := message.type)
        if route is not None and route.members_only and not connection.on_cluster_port:
            self._on_refused("access.refused", kind, connection.remote_ip, "it came over the port of SDKs")
            return wire.error_response(wire.UNREADABLE, f" invoke {kind} from sdk is forbidden")
        if self._cluster.state() is not _UP:
            connection.active_ms = self._now_ms()  # refused by this node's will, the client is alive all the same
            return wire.error_response(wire.STARTING, "Server is starting,please try later.")
        if kind == "ServerCheckRequest":
            return self._server_check(connection, message)
        if route is None:
            LOG.debug("no handler for %a of %s", kind[:TYPE_CHARS_MAX], connection.id)
            self._on_no_handler(kind[:TYPE_CHARS_MAX], connection.remote_ip)
            return wire.error_response(wire.NO_HANDLER, "RequestHandler Not Found")
        if not connection.registered:
            # SDKs take codes from 300 to 399 in a health check for "not ready yet", and would never connect again.
            code = wire.FAILED if kind == HEALTH_CHECK else wire.UNREGISTERED
            return wire.error_response(code, "Connection is unregistered.")
        connection.active_ms = self._now_ms()  # also where the call is refused: its client is alive
        # Checked at each call: member lists change, at one member before the other.
        if route.members_only and (refusal := self._refusal(connection, message)):
            return refusal
        # The body of a call is not read when the caller may not make it, or makes too many.
        try:
            session = None if self._access is None else session_of(self._access, route.access, message.headers)
        except NacosError as error:
            self._on_refused("access.refused", kind, connection.remote_ip, error.text)
            return wire.encode_json(route.answer_type, wire.failure(error.status, error.text))
        if (refusal := self._refusal_for_now(connection, route)) is not None:
            return refusal
        if known is None:
            try:
                known = read_message(route, message)
            except PayloadError as error:
                return wire.error_response(wire.UNREADABLE, str(error))
            self.known.note(data, known)
        if self._limits.rule.traced_ips:
            self._trace(connection, message)
        if self._access is None:
            return await self._run(route, kind, GrpcRequest(connection, known.fields, "", known))
        if session is None:
            return await self._run(route, kind, GrpcRequest(connection, known.fields))
        try:
            check_rights(self._access, session, route.access, kind, known.fields)
        except NacosError as error:
            self._on_refused("access.refused", kind, connection.remote_ip, error.text)
            return wire.encode_json(route.answer_type, wire.failure(error.status, error.text))
        connection.take_session(session)
        return await self._run(route, kind, GrpcRequest(connection, known.fields, token_of(message.headers)))

    def _refusal_for_now(self, connection: Connection, route: GrpcRoute) -> bytes | None:
        """Return the refusal of a read after a pause, or of a write beyond the address's rate; None for other calls."""
        if self._cluster.is_behind and route.is_client_read:
            return wire.error_response(Unavailable.status, BEHIND_TEXT)
        if route.is_client_write and connection.address is not None and not connection.is_member:
            try:
                connection.address.take()
            except TooManyRequests as error:
                return wire.error_response(error.status, error.text)
        return None

    def _refusal(self, connection: Connection, message: Payload) -> bytes | None:
        """Return the refusal of a call for members from anybody else; None for a call from a member."""
        caller = self._caller_of(connection, message)
        if isinstance(caller, Unidentified):
            self._on_refused("member.refused", message.type, connection.remote_ip, caller.text)
            return wire.error_response(wire.FORBIDDEN, caller.text, caller.headers)
        if not caller.is_member:
            text = f"{connection.remote_ip} is not the address of a listed member"
            self._on_refused("access.refused", message.type, connection.remote_ip, text)
            return wire.error_response(wire.FORBIDDEN, text)
        self._connections.note_member(connection)
        return None

    def _caller_of(self, connection: Connection, message: Payload) -> Caller | Unidentified:
        return self._callers.caller_by_grpc(
            message.type, message.headers, message.body, connection.remote_ip, connection.named
        )

    def _server_check(self, connection: Connection, message: Payload) -> bytes:
        """Return the answer to a client's first call.

        It has this node's clock for a member, which needs it before its setup, as that cannot be repeated.
        """
        headers: Mapping[str, str] = {}
        if connection.on_cluster_port and message.headers:
            caller = self._caller_of(connection, message)
            headers = caller.headers if isinstance(caller, Unidentified) else {}
        answer = wire.success(connectionId=connection.id, supportAbilityNegotiation=True)
        return wire.encode("ServerCheckResponse", orjson.dumps(answer), headers=headers)

    async def _run(self, route: GrpcRoute, kind: str, request: GrpcRequest) -> bytes:
        begun_s, code = perf_counter(), OK
        try:
            answer = await route.handler(request)
            message = answer if isinstance(answer, bytes) else wire.encode_json(route.answer_type, answer)
            if len(message) > LARGE_ANSWER_BYTES and type(message) is not CountedAnswer:
                return self._counted(message, request.connection)
            return message
        except ClientGone as error:
            code = wire.CLIENT_GONE
            return wire.error_response(code, error.text)
        except NacosError as error:
            code = error.status
            return wire.error_response(code, error.text)
        except Exception:
            LOG.exception("%s of %s failed", kind, request.connection.id)
            code = wire.FAILED
            return wire.error_response(code, "internal error, see the server's log")
        finally:
            self._requests.of_loop("", kind).add(code, perf_counter() - begun_s)

    def _counted(self, message: bytes, connection: Connection) -> CountedAnswer:
        """Count a large message as long as it is kept; answers to members are never refused.

        Raises:
            TooManyRequests: it has no room.
        """
        self.answers.claim(len(message), is_for_member=connection.is_member)
        return CountedAnswer.of(message, self.answers)

    def _trace(self, connection: Connection, message: Payload) -> None:
        if connection.remote_ip in self._limits.rule.traced_ips:
            LOG.info("%s of %s: %a", message.type, connection.id, message.body[:TRACED_BYTES_MAX])

    # --- streams ---------------------------------------------------------------------------------

    def take(self, connection: Connection, data: bytes) -> bool:
        """Take a message of a client's stream; return False to end it. Invalid messages are answered with an error."""
        try:
            message = wire.decode(data)
            kind = message.type
            if kind == "ConnectionSetupRequest":
                return connection.registered or self._set_up(connection, message)
            if kind.endswith("Response"):
                self._take_answer(connection, message)
                return True
        except (PayloadError, InvalidParam) as error:
            connection.offer(wire.error_response(wire.UNREADABLE, str(error)))
            return True
        connection.offer(wire.error_response(wire.NO_HANDLER, "RequestHandler Not Found"))
        return True

    def _take_answer(self, connection: Connection, message: Payload) -> None:
        if not connection.registered:
            return
        fields = Fields(message.json())
        connection.active_ms = self._now_ms()
        if self._limits.rule.traced_ips:
            self._trace(connection, message)
        # The result code alone: an SDK acknowledges pushes with ``success`` false next to it.
        went_well = fields.whole("resultCode", wire.FAILED, -(2**31), 2**31) == wire.SUCCESS
        self._on_answer(connection.id, fields.text("requestId"), went_well)

    def _set_up(self, connection: Connection, message: Payload) -> bool:
        fields = Fields(message.json())
        labels = fields.texts("labels")
        if sum(len(name) + len(label) for name, label in labels.items()) > LABELS_CHARS_MAX:
            raise InvalidParam(f"field 'labels' should not exceed {LABELS_CHARS_MAX} characters")
        abilities = fields.inner("abilityTable") if fields.has("abilityTable") else None
        connection.agent, connection.tenant = fields.text("clientVersion"), fields.text("tenant")
        connection.labels, connection.app = labels, labels.get("AppName") or "-"
        connection.client_ip = Fields({"clientIp": message.client_ip}).text("clientIp") or connection.remote_ip
        # By the caller's identity and address: an SDK cannot escape the limits by claiming to be a member.
        connection.named = labels.get(MEMBER_LABEL, "") if connection.on_cluster_port else ""
        connection.active_ms = self._now_ms()
        if connection.on_cluster_port:
            caller = self._caller_of(connection, message)
            if isinstance(caller, Unidentified) and self._callers.identity is not None:
                LOG.info("connection %s of %s is refused: %s", connection.id, connection.remote_ip, caller.text)
                self.reset(connection)
                return False
            connection.is_member = isinstance(caller, Caller) and caller.is_member
        if self._cluster.state() is not _UP or self._is_too_many(connection):
            self.reset(connection)
            return False
        if labels.get("module") == "naming":
            whose = (connection.client_ip, connection.remote_port, connection.app, connection.agent)
            try:
                self._clients.connect(ClientInfo(connection.id, *whose))
            except Unavailable as error:
                LOG.warning("connection %s is refused: %s", connection.id, error)
                self._connections.give_address_back(connection)
                self.reset(connection)
                return False
            except InvalidParam:
                self._connections.give_address_back(connection)
                raise
        self._connections.register(connection)
        LOG.debug("connection %s of %s is set up", connection.id, connection.agent)
        if abilities is not None:  # older clients do not know the type
            table = SERVER_ABILITIES | ({OWN_KIND_ABILITY: True} if connection.named else {})
            self._ask(connection, "SetupAckRequest", {"abilityTable": table})
        return True

    def _is_too_many(self, connection: Connection) -> bool:
        known = self._connections
        of_ip = known.count_of_ip(connection.remote_ip)
        fits = len(known) < self._connections_max and not self._limits.rule.refuses(connection, of_ip, known.sdk_count)
        if fits and known.take_address(connection):
            return False
        LOG.info("connection %s of %s is refused: there are too many", connection.id, connection.remote_ip)
        return True

    # --- requests of ours ------------------------------------------------------------------------

    def reset(self, connection: Connection, redirect: tuple[str, int] | None = None) -> None:
        """Ask a client to connect to another member, at the HTTP address ``redirect`` if that is given."""
        fields = {"requestId": self._connections.next_request_id(), "connectionId": connection.id}
        if redirect is not None:
            fields |= {"serverIp": redirect[0], "serverPort": str(redirect[1])}
        self._ask(connection, "ConnectResetRequest", fields)

    def detect(self, connection: Connection) -> None:
        """Ask a client for a sign of life; any answer makes its connection active."""
        self._ask(connection, "ClientDetectionRequest", {"requestId": self._connections.next_request_id()})

    def _ask(self, connection: Connection, kind: str, fields: Mapping[str, Any]) -> None:
        connection.offer(wire.encode(kind, wire.request_body(**fields, module="internal")))

    def ended(self, connection: Connection) -> None:
        """Remove a connection whose stream ended, and all that its client published, unless this node stops."""
        if self._connections.forget(connection):
            if self.draining and not self.leaving:
                self._moved_ms[connection.id] = self._now_ms()
            elif not self.leaving:
                self._clients.disconnect(connection.id)
            self._on_gone(connection.id)
            LOG.debug("connection %s is gone", connection.id)

    def remove_moved(self, until_ms: int) -> None:
        """Remove the clients whose connections ended until then while this node was drained."""
        for client_id, ended_ms in list(self._moved_ms.items()):
            if ended_ms > until_ms:
                break
            del self._moved_ms[client_id]
            if not self.leaving:
                self._clients.disconnect(client_id)


HEALTHY = wire.encode_json("HealthCheckResponse", wire.success())


async def _healthy(_asked: GrpcRequest) -> bytes:
    return HEALTHY


def read_message(route: GrpcRoute, message: Payload) -> KnownMessage:
    """Parse a message of the route's type.

    Raises:
        PayloadError: its body is not a JSON object, or has too many values.
    """
    values_max = len(message.body) // route.bytes_per_value if route.bytes_per_value else 0
    return KnownMessage(message, route, Fields(message.json(max(JSON_VALUES_MAX, values_max))))
