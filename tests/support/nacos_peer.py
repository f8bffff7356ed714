"""A member of another kind: real Nacos 2.x as a node of ours meets it, on both sides of the port for members."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import orjson
from grpc import aio

from app.peers import payload as wire
from tests.support.processes import HANG_S
from tests.support.sdk_client import SdkClient

TYPE = "Nacos:Naming:v2:ClientData"
CLUSTER_LABELS = {"source": "cluster"}
CLUSTER_OFFSET = 1_001
VERSION = "2.3.1"


def sync_data(
    client_id: str, revision: int = 1, services: dict[str, dict[str, Any]] | None = None, batches: Any = None
) -> dict[str, Any]:
    """A client as real Nacos tells of it; each service with its InstancePublishInfo."""
    services = services or {}
    data: dict[str, Any] = {
        "clientId": client_id,
        "attributes": {"clientAttributes": {"revision": revision}},
        "namespaces": ["public"] * len(services),
        "groupNames": ["DEFAULT_GROUP"] * len(services),
        "serviceNames": list(services),
        "instancePublishInfos": list(services.values()),
        "batchInstanceData": batches or {},
    }
    return data


def publish_info(ip: str, port: int = 80, **data: Any) -> dict[str, Any]:
    key = {"metadataId": f"{ip}:{port}:DEFAULT"}
    return {"ip": ip, "port": port, "healthy": True, "cluster": "DEFAULT", "extendDatum": data, **key}


def member_json(address: str) -> dict[str, Any]:
    ip, _, port = address.partition(":")
    info = {"raftPort": "1", "readyToUpgrade": True, "version": VERSION}
    return {"ip": ip, "port": int(port), "address": address, "state": "UP", "extendInfo": info, "failAccessCnt": 0}


class NacosPeer:
    """``async with`` it: then it listens, and takes what it is told. All on the test's loop."""

    def __init__(self, port: int, target_port: int) -> None:
        """``port`` and ``target_port``: the HTTP ports of this member and of ours."""
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._target = target_port
        self.told: list[tuple[str, str, Any]] = []
        """Operation, key and content of what it was told, in order."""
        self.refuses: Callable[[str, str], str] = lambda operation, key: ""
        """May name how a call ends: ``failed`` by its result code, ``error`` by an ErrorResponse."""
        self.snapshot: list[dict[str, Any]] = []
        self.reports: list[dict[str, Any]] = []
        self.connections = 0
        self.calls: list[tuple[str, dict[str, str]]] = []
        """Types and headers of all calls."""
        self._news = asyncio.Condition()
        self._ending = asyncio.Event()

    async def __aenter__(self) -> "NacosPeer":
        self._server = aio.server(options=[("grpc.so_reuseport", 0)])
        unary = grpc.unary_unary_rpc_method_handler(self._call)
        stream = grpc.stream_stream_rpc_method_handler(self._stream)
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("Request", {"request": unary}),
                grpc.method_handlers_generic_handler("BiRequestStream", {"requestBiStream": stream}),
            )
        )
        self._server.add_insecure_port(f"127.0.0.1:{self._port + CLUSTER_OFFSET}")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        await self._server.stop(2)
        del self._server  # the last of them takes the library's thread along

    # --- what it is told --------------------------------------------------------------------------

    async def _call(self, data: bytes, context: Any) -> bytes:
        message = wire.decode(data)
        self.calls.append((message.type, dict(message.headers)))
        fields = message.json()
        if fields.get("headers") != {}:
            return wire.error_response(wire.UNREADABLE, f"{message.type} has no headers")
        match message.type:
            case "ServerCheckRequest":
                return wire.encode_json(
                    "ServerCheckResponse", wire.success(connectionId="1", supportAbilityNegotiation=True)
                )
            case "MemberReportRequest":
                async with self._news:
                    self.reports.append(fields["node"])
                    self._news.notify_all()
                return wire.encode_json("MemberReportResponse", wire.success(node=member_json(self.address)))
            case "DistroDataRequest":
                return await self._distro(fields)
        return wire.encode_json(message.type.replace("Request", "Response"), wire.success())

    async def _distro(self, fields: dict[str, Any]) -> bytes:
        operation, data = fields["dataOperation"], fields.get("distroData") or {}
        key = data.get("distroKey", {}).get("resourceKey", "")
        if operation == "SNAPSHOT":
            content = base64.b64encode(orjson.dumps({"clientSyncDataList": self.snapshot})).decode()
            answer = wire.success(
                distroData={"distroKey": {"resourceKey": "SNAPSHOT", "resourceType": TYPE}, "content": content}
            )
        else:
            answer = wire.success()
        content = orjson.loads(base64.b64decode(data["content"])) if "content" in data else None
        async with self._news:
            self.told.append((operation, key, content))
            self._news.notify_all()
        match self.refuses(operation, key):
            case "error":
                return wire.error_response(wire.FAILED, "no")
            case "failed":
                answer = {"resultCode": 500, "errorCode": 500, "message": "no", "success": False}
        return wire.encode_json("DistroDataResponse", answer)

    async def _stream(self, messages: AsyncIterator[bytes], context: Any) -> None:
        setup = wire.decode(await anext(messages))
        assert setup.type == "ConnectionSetupRequest"
        assert setup.json()["headers"] == {}
        self.connections += 1
        table = {"supportPersistentInstanceByGrpc": True}
        await context.write(wire.encode_json("SetupAckRequest", {"abilityTable": table, "module": "internal"}))
        await self._ending.wait()

    async def wait(self, check: Callable[[], Any], timeout_s: float = HANG_S) -> Any:
        """Return the first true result of a check, which is made whenever it was told something."""
        async with asyncio.timeout(timeout_s), self._news:
            while not (result := check()):
                await self._news.wait()
            return result

    def of(self, operation: str, key: str) -> list[Any]:
        """The contents of all calls of an operation about a key."""
        return [content for told, of, content in self.told if (told, of) == (operation, key)]

    # --- what it tells ----------------------------------------------------------------------------

    def client(self) -> SdkClient:
        """A connection of this member to ours; ``introduce`` sets it up."""
        return SdkClient(self._target + CLUSTER_OFFSET)

    async def introduce(self, client: SdkClient) -> None:
        """Set a connection up, as members do, and report."""
        await client.set_up(labels=CLUSTER_LABELS, abilities={})
        await client.call("MemberReportRequest", node=member_json(self.address), module="cluster")


async def distro(
    client: SdkClient, operation: str, key: str = "", content: Any = None, resource_type: str = TYPE
) -> dict[str, Any]:
    """Send a DistroDataRequest; return the answer's fields, the data's content read."""
    data: dict[str, Any] = {"distroKey": {"resourceKey": key, "resourceType": resource_type}, "type": operation}
    if content is not None:
        data["content"] = base64.b64encode(orjson.dumps(content)).decode()
    fields: dict[str, Any] = {"dataOperation": operation, "module": "cluster"}
    if operation != "SNAPSHOT":
        fields["distroData"] = data
    answer = await client.call("DistroDataRequest", **fields)
    if answer.get("distroData", {}).get("content"):
        answer["content"] = orjson.loads(base64.b64decode(answer["distroData"]["content"]))
    return answer
