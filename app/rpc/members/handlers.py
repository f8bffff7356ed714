"""Calls of other members over gRPC: their clients, and their reports about themselves."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from app.auth.access_rules import MEMBERS
from app.members.membership import TOO_LATE
from app.naming.model.nacos_errors import InvalidParam, NoRight
from app.peers import payload as wire
from app.peers.distro_payload import (
    HANDLE_FAILED,
    REQUEST,
    RESPONSE,
    SNAPSHOT_KEY,
    VERIFY_FAILED,
    DistroCall,
    decode_request,
    failure,
    packed,
    success,
)
from app.ports.grpc_ports import RpcReports, RpcSenders
from app.ports.shared_ports import MemberDirectory
from app.replication.client_receiver import ClientReceiver
from app.replication.client_type import CLIENTS
from app.rpc.server.grpc_messages import MESSAGE_BYTES_MAX
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute
from distro.model.errors import CodecError, NotInitialized
from distro.model.types import DataOperation

SMALL_BYTES = 16_384
"""The largest content that is decoded on the event loop: under a millisecond's work."""
REPORT_BYTES_MAX = 262_144
"""The longest report of a member about itself, with the additions of real Nacos."""
THREADS = 2
Answer = Mapping[str, Any]
T = TypeVar("T")


class MemberHandlers:
    """``routes`` once; ``stop`` at the end. The handlers run on the loop, long decoding in threads."""

    def __init__(
        self, receiver: ClientReceiver, cluster: MemberDirectory, senders: RpcSenders, reports: RpcReports
    ) -> None:
        self._receiver = receiver
        self._cluster = cluster
        self._senders = senders
        self._reports = reports
        self._pool = ThreadPoolExecutor(THREADS, "rpc-received")

    def routes(self) -> dict[str, GrpcRoute]:
        return {
            REQUEST: GrpcRoute(self._distro, RESPONSE, access=MEMBERS, bytes_max=MESSAGE_BYTES_MAX),
            "MemberReportRequest": GrpcRoute(self._report, "MemberReportResponse", MEMBERS, bytes_max=REPORT_BYTES_MAX),
        }

    def stop(self) -> None:
        """May be called twice."""
        self._pool.shutdown(wait=False)

    def join(self) -> None:
        """Wait for the threads after ``stop``."""
        self._pool.shutdown()

    # --- reports ----------------------------------------------------------------------------------

    async def _report(self, request: GrpcRequest) -> Answer:
        """Source: Nacos 2.2.3 MemberReportHandler."""
        node = request.fields.whole_object("node")
        answer = self._reports.receive_rpc_report(node, request.connection.remote_ip)
        if answer is None:
            raise InvalidParam("Node information is illegal")
        request.connection.reporter, own = answer
        return wire.success(node=own)

    # --- clients ----------------------------------------------------------------------------------

    async def _distro(self, request: GrpcRequest) -> Answer:
        call = decode_request(request.fields)
        if call.resource_type != CLIENTS:
            return failure(HANDLE_FAILED)
        connection = request.connection
        try:
            if connection.named:
                member = self._senders.sender_of(connection.named, connection.remote_ip)
                if member is None:
                    raise NoRight(f"{connection.named} is not listed, or not at {connection.remote_ip}")
                return await self._of_own_kind(member, call)
            sent_by = connection.reporter or self._senders.nacos_at(connection.remote_ip)
            return await self._of_nacos(sent_by, call)
        except (CodecError, NotInitialized) as error:
            return failure(str(error))

    async def _of_own_kind(self, member: str, call: DistroCall) -> Answer:
        content = call.content
        if call.deadline and self._cluster.is_over(call.deadline):
            return failure(TOO_LATE)
        match call.operation:
            case DataOperation.CHANGE:
                answer = await self._run(len(content), lambda: self._receiver.take_frame(member, content))
            case DataOperation.VERIFY:
                answer = await self._run(len(content), lambda: self._receiver.verify_frame(member, content))
            case DataOperation.QUERY:
                answer = await self._run(SMALL_BYTES, lambda: packed(self._receiver.query_frame(content)))
            case _:
                return failure(HANDLE_FAILED)
        return success(answer)

    async def _of_nacos(self, sent_by: str, call: DistroCall) -> Answer:
        """Source: Nacos 2.2.3 DistroDataRequestHandler."""
        receiver, client_id, content = self._receiver, call.resource_key, call.content
        match call.operation:
            case DataOperation.ADD | DataOperation.CHANGE:
                await self._run(len(content), lambda: receiver.take(sent_by, client_id, content))
            case DataOperation.DELETE:
                receiver.remove(sent_by, client_id)
            case DataOperation.VERIFY:
                if not receiver.confirm(sent_by, content):
                    return failure(VERIFY_FAILED)
            case DataOperation.QUERY:
                return success(receiver.client(client_id), client_id)
            case DataOperation.SNAPSHOT:
                return success(await self._run(SMALL_BYTES, receiver.snapshot), SNAPSHOT_KEY)
        return success()

    async def _run(self, size: int, work: Callable[[], T]) -> T:
        if size < SMALL_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
