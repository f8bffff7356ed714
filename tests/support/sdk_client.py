"""A raw client of the gRPC frontend: what SDKs send, message by message, and all that comes back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import grpc
import orjson
from grpc import aio

from app.peers import payload as wire
from app.peers.payload import Payload
from tests.support.processes import HANG_S

T = TypeVar("T")
RUN_TIMEOUT_S = 400.0
SETUP_LABELS = {"source": "sdk", "module": "naming"}
OWN_TRANSPORT = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.http2.bdp_probe", 0),  # or the window grows to many messages
)


class SdkClient:
    """One transport to one port; ``async with`` closes it."""

    def __init__(
        self, port: int, *, acknowledges: bool = True, certificate: bytes | None = None, host: str = "127.0.0.1"
    ) -> None:
        """``acknowledges``: what is asked of it on its stream is answered as SDKs do. ``certificate``: speak TLS."""
        self._certificate = certificate
        self._target = f"{host}:{port}"
        self._acknowledges = acknowledges
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self.messages: list[Payload] = []
        """All that came on the stream."""
        self.ended = False
        """The stream was ended by the other side."""
        self.answers_detection = acknowledges
        self.reads = asyncio.Event()
        """Cleared, it takes nothing from its stream any more."""
        self.reads.set()

    async def __aenter__(self) -> "SdkClient":
        if self._certificate is None:
            self._channel = aio.insecure_channel(self._target, options=OWN_TRANSPORT)
        else:
            trusted = grpc.ssl_channel_credentials(self._certificate)
            self._channel = aio.secure_channel(self._target, trusted, options=OWN_TRANSPORT)
        self._call = self._channel.unary_unary(wire.REQUEST_METHOD)
        self._open = self._channel.stream_stream(wire.STREAM_METHOD)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cut the transport, as the end of a process does. May be called twice."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait((self._reader,))
            self._reader = None
        if (channel := self.__dict__.pop("_channel", None)) is not None:
            await channel.close()
        # The library keeps the transport as long as anything refers to the channel.
        for name in ("_stream", "_call", "_open"):
            self.__dict__.pop(name, None)

    async def raw(self, data: bytes) -> Payload:
        """The answer to these bytes."""
        return wire.decode(await self._call(data, timeout=HANG_S))

    async def send(self, request_type: str, body: bytes, headers: Mapping[str, str] | None = None) -> Payload:
        return await self.raw(wire.encode(request_type, body, headers=headers))

    async def call(self, request_type: str, **fields: Any) -> dict[str, Any]:
        """The fields of the answer, its type among them as ``@type``."""
        answer = await self.send(request_type, orjson.dumps(fields))
        return answer.json() | {"@type": answer.type}

    async def set_up(
        self,
        client_ip: str = "",
        labels: Mapping[str, str] = SETUP_LABELS,
        abilities: Mapping[str, bool] | None = None,
    ) -> str:
        """Check the server, open the stream and introduce oneself; return the connection's id when that counts."""
        connection_id = await self.introduce(client_ip, labels, abilities)
        while not self.ended and (await self.call("HealthCheckRequest"))["@type"] != "HealthCheckResponse":
            await asyncio.sleep(0)
        return connection_id

    async def introduce(
        self,
        client_ip: str = "",
        labels: Mapping[str, str] = SETUP_LABELS,
        abilities: Mapping[str, bool] | None = None,
    ) -> str:
        """The same without asking whether it counts; a server that is told abilities says so on the stream."""
        checked = await self.call("ServerCheckRequest")
        connection_id: str = checked["connectionId"]
        self._stream = self._open()
        self._reader = asyncio.get_running_loop().create_task(self._read())
        body: dict[str, Any] = {"clientVersion": "Nacos-Raw-Client:v2.0", "labels": labels}
        if abilities is not None:
            body["abilityTable"] = abilities
        await self.write("ConnectionSetupRequest", orjson.dumps(body), client_ip)
        return connection_id

    async def write(self, message_type: str, body: bytes, client_ip: str = "") -> None:
        """Put a message on the stream."""
        await self._stream.write(wire.encode(message_type, body, client_ip))

    async def _read(self) -> None:
        try:
            while (data := await self._stream.read()) is not aio.EOF:
                await self._take(wire.decode(data))
                await self.reads.wait()
        except grpc.RpcError:
            pass
        finally:
            self.ended = True
            async with self._news:
                self._news.notify_all()

    async def _take(self, message: Payload) -> None:
        if message.type.endswith("Request"):
            assert message.json()["headers"] == {}, f"{message.type} of a node lacks what the Rust SDK insists on"
        async with self._news:
            self.messages.append(message)
            self._news.notify_all()
        wanted = self._acknowledges or (message.type == "ClientDetectionRequest" and self.answers_detection)
        if wanted and (request_id := message.json().get("requestId")):
            await self.acknowledge(message.type, request_id)

    async def acknowledge(self, request_type: str, request_id: str, result: int = 200) -> None:
        body = {"requestId": request_id, "resultCode": result, "errorCode": 0}
        await self.write(request_type.replace("Request", "Response"), orjson.dumps(body))

    async def wait(self, check: Callable[[], T], timeout_s: float = HANG_S) -> T:
        """Return the first true result of a check, which is made at every message and at the stream's end."""
        async with asyncio.timeout(timeout_s), self._news:
            while not (result := check()):
                await self._news.wait()
            return result

    def of_type(self, message_type: str) -> list[Payload]:
        return [one for one in self.messages if one.type == message_type]

    def pushes(self, service: str = "") -> list[dict[str, Any]]:
        """What was pushed, of one service or all: each a ServiceInfo."""
        infos = [one.json()["serviceInfo"] for one in self.of_type("NotifySubscriberRequest")]
        return [one for one in infos if not service or one["name"] == service]

    # --- naming ----------------------------------------------------------------------------------

    async def register(self, service: str, ip: str, port: int = 80, **instance: Any) -> dict[str, Any]:
        whole = {"ip": ip, "port": port, **instance}
        return await self.call("InstanceRequest", type="registerInstance", serviceName=service, instance=whole)

    async def deregister(self, service: str, ip: str, port: int = 80) -> dict[str, Any]:
        instance = {"ip": ip, "port": port, "weight": 0, "healthy": False, "metadata": None}
        return await self.call("InstanceRequest", type="deregisterInstance", serviceName=service, instance=instance)

    async def subscribe(self, service: str, *, on: bool = True, clusters: str = "") -> dict[str, Any]:
        return await self.call("SubscribeServiceRequest", serviceName=service, subscribe=on, clusters=clusters)

    async def hosts(self, service: str, **query: Any) -> dict[str, dict[str, Any]]:
        answer = await self.call("ServiceQueryRequest", serviceName=service, **query)
        return hosts_of(answer["serviceInfo"])


def hosts_of(info: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The instances by ``ip:port``."""
    return {f"{one['ip']}:{one['port']}": one for one in info["hosts"]}


def run_client(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test's clients on a loop of their own."""

    async def whole() -> None:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            await main()

    asyncio.run(whole())
