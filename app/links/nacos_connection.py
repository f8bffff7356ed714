"""One gRPC connection to a server of Nacos 2.x or 3.x, as SDKs have it: calls, and the messages of its stream."""

import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Any

import grpc

from app.config.addresses import join_address, split_address
from app.config.link_settings import LinkSettings
from app.config.rpc_settings import RPC_SDK_OFFSET
from app.config.version import NACOS_2_VERSION
from app.links.link_calls import APP, TIMEOUT_S, LinkError, LinkRefused
from app.links.nacos_inbox import Inbox, Message
from app.links.nacos_side import NacosMoved
from app.peers import payload as wire
from app.peers.payload import Payload, PayloadError

MESSAGE_BYTES_MAX = 32 * 1024 * 1024
SENT_BYTES_MAX = 10 * 1024 * 1024
"""A Nacos ends a call with more. Source: Nacos 2.3.1 nacos.remote.server.grpc.sdk.max-inbound-message-size."""
VALUES_MAX = 8_000_000
"""Values of one message, which is some 100 for each instance."""
ANSWERS_MAX = 10_000
"""Answers to messages of the stream that the server has not taken."""
SETUP_S = 3.0
NOT_NEGOTIATED_S = 0.1
"""The time after which a server that does not acknowledge the setup counts as ready. Source: Nacos 2.2.3 RpcClient."""
CHECK_AGAIN_S = 0.02
ABILITIES = {"fuzzyWatch": True}
HEALTH = "HealthCheckRequest"
RESET, SETUP_DONE = "ConnectResetRequest", "SetupAckRequest"
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),  # a separate transport: it is what the server knows the link by
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # those would go over another connection
)


class NacosConnection:
    """A connection to ``server``. Used by one thread, except for ``cut``."""

    def __init__(self, settings: LinkSettings, server: str, token: str = "") -> None:
        """``token``: that of a login at the server."""
        host, port = split_address(server)
        target = join_address(host, port + RPC_SDK_OFFSET)
        self.server, self.token = server, token
        self.inbox = Inbox()
        self.id = ""
        """The id that the server gave to the connection."""
        self.abilities: Mapping[str, Any] = {}
        self._name = settings.name
        self._answers: Queue[bytes | None] = Queue(ANSWERS_MAX)
        self._channel = _channel(target, settings)
        self._call: Any = self._channel.unary_unary(wire.REQUEST_METHOD)
        self._is_acknowledged = threading.Event()
        self._is_reset = False
        self._stream: Any = None

    def open(self) -> None:
        """Introduce the link to the server, as an SDK does.

        Raises:
            LinkError: the server does not answer, or takes no connection.
        """
        checked = self.call("ServerCheckRequest", {}, SETUP_S)
        self.id = str(checked.get("connectionId") or "")
        open_stream: Any = self._channel.stream_stream(wire.STREAM_METHOD)
        self._stream = open_stream(iter(self._answers.get, None))
        threading.Thread(target=self._read, args=(self._stream,), name=f"link-{self._name}-in", daemon=True).start()
        body = wire.request_body(
            clientVersion=f"Nacos-Java-Client:v{NACOS_2_VERSION}",
            tenant="",
            labels={"source": "sdk", "module": "naming", "AppName": APP},
            abilityTable=ABILITIES,
            module="internal",
        )
        self._answers.put(wire.encode("ConnectionSetupRequest", body, headers=self._headers()))
        negotiates = checked.get("supportAbilityNegotiation") is True
        if not self._is_acknowledged.wait(SETUP_S if negotiates else NOT_NEGOTIATED_S) and negotiates:
            raise LinkError(f"{self.server} took no connection: {self.inbox.ended or 'no acknowledgement'}")
        end_s = time.monotonic() + SETUP_S
        while True:
            try:
                self.call(HEALTH, {})
                return
            except LinkRefused:
                if time.monotonic() > end_s:
                    raise
                time.sleep(CHECK_AGAIN_S)

    def _headers(self) -> Mapping[str, str]:
        return {"app": APP, "accessToken": self.token} if self.token else {"app": APP}

    def call(self, request_type: str, fields: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Return the fields of the answer to one call.

        Raises:
            LinkRefused: the answer is an error.
            LinkError: there is no answer, or it cannot be read.
        """
        [answer] = self.call_all([(request_type, fields)], timeout_s)
        if isinstance(answer, LinkRefused):
            raise answer
        return answer

    def call_all(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], timeout_s: float = TIMEOUT_S
    ) -> list[dict[str, Any] | LinkRefused]:
        """Make several calls at once. Return the fields of each answer, or the refusal, in their order.

        Raises:
            LinkError: one has no answer, or it cannot be read.
        """
        under_way = [(request_type, self._begin(request_type, fields, timeout_s)) for request_type, fields in calls]
        return [
            begun if isinstance(begun, LinkRefused) else self._answer(request_type, begun)
            for request_type, begun in under_way
        ]

    def _begin(self, request_type: str, fields: Mapping[str, Any], timeout_s: float) -> Any:
        message = wire.encode(request_type, wire.request_body(**fields), headers=self._headers())
        if len(message) > SENT_BYTES_MAX:
            return LinkRefused(f"{request_type} has {len(message)} bytes, more than {SENT_BYTES_MAX}")
        try:
            return self._call.future(message, timeout=timeout_s)
        except ValueError as error:  # the connection was cut
            raise LinkError(f"{self.server} was not called: {error}") from None

    def _answer(self, request_type: str, begun: Any) -> dict[str, Any] | LinkRefused:
        try:
            answer: Payload = wire.decode(begun.result())
            values = answer.json(VALUES_MAX)
        except grpc.FutureCancelledError:
            raise LinkError(f"the link ends the call of {self.server}") from None
        except (grpc.RpcError, PayloadError) as error:
            text = f"{self.server} does not answer {request_type}: {_reason(error)}"
            if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                return LinkRefused(text)
            raise LinkError(text) from None
        if answer.type == "ErrorResponse" or values.get("success") is False:
            code, text = values.get("errorCode"), str(values.get("message"))[:200]
            if code == wire.UNREGISTERED and request_type == HEALTH and self._is_acknowledged.is_set():
                self.inbox.end("the server forgot the connection")
            return LinkRefused(f"{self.server} refuses {request_type} with {code}: {text}")
        return values

    def check(self) -> None:
        """Check that the server answers and knows this connection.

        Raises:
            NacosMoved: it asks to connect elsewhere.
            LinkError: it does not.
        """
        if self.inbox.ended is not None:
            raise LinkError(f"{self.server}: {self.inbox.ended}")
        if self._is_reset:
            raise NacosMoved(f"{self.server} asks to connect to another server")
        self.call(HEALTH, {})

    def _read(self, stream: Any) -> None:
        """Pass the messages of the stream on, and answer them, until it ends."""
        reason = "the server ended the connection"
        try:
            for data in stream:
                message = wire.decode(data)
                values = message.json(VALUES_MAX)
                request_id = values.get("requestId")
                if message.type.endswith("Request") and isinstance(request_id, str):
                    answer_type = message.type.removesuffix("Request") + "Response"
                    self._answers.put_nowait(wire.encode_json(answer_type, wire.success(requestId=request_id)))
                if message.type == RESET:
                    self._is_reset = True
                    self.inbox.wake()
                    continue
                if message.type == SETUP_DONE:
                    table = values.get("abilityTable")
                    self.abilities = table if isinstance(table, dict) else {}
                    self._is_acknowledged.set()
                elif not self.inbox.put(Message(message.type, values, len(data))):
                    break
        except (grpc.RpcError, PayloadError) as error:
            reason = _reason(error)
        except Full:
            reason = "the server takes no answers"
        self.inbox.end(reason)

    def cut(self) -> None:
        """End the connection, and with it all that was registered over it. From any thread, and more than once."""
        self.inbox.end("the link ends the connection")
        with suppress(Empty):
            while True:
                self._answers.get_nowait()
        with suppress(Full):
            self._answers.put_nowait(None)
        self._channel.close()


def _channel(target: str, settings: LinkSettings) -> grpc.Channel:
    if not settings.tls:
        return grpc.insecure_channel(target, options=_OPTIONS)
    cafile = ssl.get_default_verify_paths().cafile
    trusted = settings.trusted or (Path(cafile) if cafile else None)
    try:
        roots = trusted.read_bytes() if trusted is not None else None
    except OSError as error:
        raise LinkError(f"{error.filename} cannot be read: {error.strerror}") from None
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(roots), options=_OPTIONS)


def _reason(error: BaseException) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
