"""One connection to another member's gRPC port for members: set up as SDKs do it, kept alive, and made again."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

from app.auth.signed import GRPC, PROOF
from app.peers import payload as wire
from app.peers.payload import Payload, PayloadError
from distro.model.errors import ForbiddenError, RejectedError, TransportError
from distro.wire.call_trust import CallSigner

LOG = logging.getLogger(__name__)
SETUP_S = 5.0
HEALTH_S = 5.0
"""The time without an answer after which the member gets a health check. Source: Nacos 2.2.3 RpcClient."""
HEALTH_TIMEOUT_S = 3.0
NOT_NEGOTIATED_S = 0.1
"""The time after which a member that does not acknowledge the setup counts as ready. Source: Nacos 2.2.3 RpcClient."""
PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 5.0
CALLS_MAX = 256
CHECK, CHECK_BODY = "ServerCheckRequest", wire.request_body(module="internal")
OWN_KIND_ABILITY = "rollcall"
"""The ability that marks a Rollcall member."""
ENDED = "the member ended the connection"


class LinkClosed(TransportError):
    """No connection to the member exists now."""


class GrpcLink:
    """The connection to one member, as long as the task of ``run`` lives. Used on that task's loop."""

    def __init__(
        self, peer: str, open_channel: Callable[[], aio.Channel], setup: Callable[[Mapping[str, str]], bytes],
        setup_body: bytes, signer: CallSigner,
    ) -> None:  # fmt: skip
        """``setup(headers)``: the bytes of this member's ConnectionSetupRequest, which has the body ``setup_body``."""
        self.peer = peer
        self._open_channel = open_channel
        self._setup = setup
        self._setup_body = setup_body
        self._signer = signer
        self._channel: aio.Channel | None = None
        self._call: Any = None
        self._stream: Any = None
        self._heard_s = 0.0
        self._under_way = 0
        self.is_own_kind = False
        """True if the member named itself as Rollcall when this connection was set up."""

    @property
    def running(self) -> bool:
        """True while calls can be made. Callable from any thread."""
        return self._call is not None

    async def run(self) -> None:
        """Connect, and connect again whenever the connection ends, until cancelled."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                async with self._open_channel() as channel:
                    call: Any = channel.unary_unary(wire.REQUEST_METHOD)
                    async with asyncio.timeout(SETUP_S):
                        stream = await self._introduce(call, channel)
                    self._channel, self._call, self._stream, pause_s = channel, call, stream, PAUSE_FIRST_S
                    LOG.info("connected to %s for members' calls", self.peer)
                    await self._keep(stream)
            except (grpc.RpcError, aio.BaseError, TransportError, PayloadError, TimeoutError) as error:
                LOG.debug("the connection to %s: %s", self.peer, _reason(error))
            except Exception:
                LOG.exception("the connection to %s failed unexpectedly", self.peer)
            finally:
                if self.running:
                    LOG.info("the connection to %s is gone", self.peer)
                self._channel = self._call = self._stream = None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def request(self, request_type: str, body: bytes, timeout_s: float) -> Payload:
        """Call the member; return its answer.

        Raises:
            LinkClosed: there is no connection.
            ForbiddenError: the member takes no calls of this one.
            RejectedError: the member does not know the type of request, or refuses its body.
            TransportError: no answer in time, or another refusal.
        """
        call, channel = self._call, self._channel
        # A call on a broken connection would open another one, whose far end has not proven that it is the member.
        if call is None or channel is None or channel.get_state() is not grpc.ChannelConnectivity.READY:
            raise LinkClosed(f"no connection to {self.peer} for members' calls")
        if self._under_way >= CALLS_MAX:
            raise TransportError(f"{CALLS_MAX} calls to {self.peer} are under way")
        self._under_way += 1
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        try:
            answer = await self._call_once(call, request_type, body, timeout_s)
            if PROOF in answer.headers and self._signer.learn(self.peer, _folded(answer.headers)):
                answer = await self._call_once(call, request_type, body, end_s - loop.time())
            self._check(request_type, answer)
        except (grpc.RpcError, aio.BaseError, PayloadError) as error:
            raise TransportError(f"{request_type} to {self.peer}: {_reason(error)}") from error
        finally:
            self._under_way -= 1
        self._heard_s = loop.time()
        return answer

    def _signed(self, request_type: str, body: bytes) -> Mapping[str, str]:
        return self._signer.headers(self.peer, GRPC, request_type, body, {})

    async def _call_once(self, call: Any, request_type: str, body: bytes, timeout_s: float) -> Payload:
        message = wire.encode(request_type, body, headers=self._signed(request_type, body))
        return wire.decode(await call(message, timeout=max(timeout_s, 0.001)))

    def _check(self, request_type: str, answer: Payload) -> None:
        if answer.type != "ErrorResponse":
            return
        fields = answer.json()
        code, text = fields.get("errorCode"), f"{request_type} to {self.peer}: {fields.get('message')}"
        if code == wire.UNREGISTERED and self._stream is not None:
            self._stream.cancel()  # the member does not know this connection, so it is made again
        if code == wire.FORBIDDEN:
            raise ForbiddenError(text)
        if code in (wire.NO_HANDLER, wire.INVALID, wire.UNREADABLE):
            raise RejectedError(text)
        raise TransportError(text)

    async def _introduce(self, call: Any, channel: aio.Channel) -> Any:
        """Set the connection up; return its stream. Source: Nacos 2.3 GrpcClient, for the order of messages."""
        question = self._signer.question(self.peer, GRPC, CHECK, CHECK_BODY)
        headers = self._signed(CHECK, CHECK_BODY) if question is None else question.headers
        checked = wire.decode(await call(wire.encode(CHECK, CHECK_BODY, headers=headers), timeout=SETUP_S))
        told = _folded(checked.headers)
        # The setup cannot be made again with the clock that the answer tells.
        if question is None:
            self._signer.learn(self.peer, told)
        if checked.type != "ServerCheckResponse":
            raise TransportError(f"it is not ready: {checked.body[:200]!r}")
        if question is not None and not question.is_answered(told):
            raise TransportError("it does not prove that it is a member")
        stream: Any = channel.stream_stream(wire.STREAM_METHOD)()
        await stream.write(self._setup(self._signed("ConnectionSetupRequest", self._setup_body)))
        self.is_own_kind = False
        if not checked.json().get("supportAbilityNegotiation"):
            await asyncio.sleep(NOT_NEGOTIATED_S)
            return stream
        while (data := await stream.read()) is not aio.EOF:
            message = wire.decode(data)
            if message.type == "SetupAckRequest":
                abilities = message.json().get("abilityTable")
                self.is_own_kind = isinstance(abilities, dict) and abilities.get(OWN_KIND_ABILITY) is True
                return stream
            if message.type == "ConnectResetRequest":
                break
        raise TransportError("it accepted no connection")

    async def _keep(self, stream: Any) -> None:
        """Answer the member's requests and check its health, until the connection ends."""
        loop = asyncio.get_running_loop()
        self._heard_s = loop.time()
        reader = loop.create_task(self._read(stream))
        try:
            while True:
                done, _ = await asyncio.wait((reader,), timeout=HEALTH_S)
                if done:
                    reader.result()
                    return
                if loop.time() - self._heard_s >= HEALTH_S:
                    await self.request("HealthCheckRequest", wire.request_body(module="internal"), HEALTH_TIMEOUT_S)
        finally:
            reader.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await reader

    async def _read(self, stream: Any) -> None:
        while (data := await stream.read()) is not aio.EOF:
            message = wire.decode(data)
            request_id = message.json().get("requestId")
            if message.type.endswith("Request") and isinstance(request_id, str):
                answer_type = message.type.removesuffix("Request") + "Response"
                await stream.write(wire.encode_json(answer_type, wire.success(requestId=request_id)))
            if message.type == "ConnectResetRequest":
                raise TransportError(ENDED)
        raise TransportError(ENDED)


def _folded(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _reason(error: BaseException) -> str:
    if isinstance(error, aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
