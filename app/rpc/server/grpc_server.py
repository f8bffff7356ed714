"""The gRPC servers on the worker's loop: calls and streams as bytes, and one writer task for each stream."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

from app.config.addresses import join_address
from app.config.settings import RpcPort, SettingError
from app.naming.clients.client_model import ServiceKey
from app.process.open_files import CONNECTIONS_MAX
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.dispatcher import Dispatcher
from app.tls.node_tls import PortCertificate
from app.tls.watched import WatchedFiles

LOG = logging.getLogger(__name__)
CALLS_MAX = 4_096
"""Calls under way at once, beside the streams."""
STREAMS_MAX = 256
"""Calls and streams of one transport at once."""
SETUP_S = 10.0
"""A stream whose client is not set up within this time is ended."""
GRACE_S = 1.0
GO_ELSEWHERE = "this server ends the connection, please connect to another one"

TakePending = Callable[[Connection, ServiceKey], Awaitable[bytes | None]]
"""Returns the push message of a service with its current state; None when the client needs it no more."""


class ClientStream:
    """One client's stream. Writes one message at a time, as fast as the client reads."""

    def __init__(
        self, connection: Connection, write: Callable[[bytes], Awaitable[None]], take_pending: TakePending
    ) -> None:
        self.connection = connection
        self._write = write
        self._take_pending = take_pending
        self._reader = asyncio.current_task()
        self._writer: asyncio.Task[None] | None = None
        self.ending = False

    def wake(self) -> None:
        if self._writer is None and not self.ending:
            self._writer = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        """End the stream with an error; messages that wait are written before, if the client takes them soon."""
        if not self.ending:
            self.ending = True
            if self._reader is not None:
                self._reader.cancel()

    async def finish(self) -> None:
        """Wait up to ``GRACE_S`` for the writer, unless the transport is gone; drop the messages that still wait."""
        if (writer := self._writer) is not None:
            if not self.ending:
                writer.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(writer, GRACE_S)
        self.connection.controls.clear()
        self.connection.pending.clear()

    async def _run(self) -> None:
        connection = self.connection
        try:
            while True:
                if connection.controls:
                    message: bytes | None = connection.controls.popleft()
                elif connection.pending:
                    key = next(iter(connection.pending))
                    del connection.pending[key]
                    message = await self._take_pending(connection, key)
                else:
                    return
                if message is not None:
                    await self._write(message)
        except (aio.BaseError, grpc.RpcError) as error:
            LOG.debug("a write to %s failed: %s", connection.id, error)
            self.end()
        except Exception:
            LOG.exception("writing to %s failed in an unforeseen way", connection.id)
            self.end()
        finally:
            self._writer = None


class RpcServer:
    """The server of one gRPC port. ``start`` and ``stop`` are called on the loop."""

    def __init__(
        self, host: str, port: RpcPort, certificate: WatchedFiles[PortCertificate] | None, on_cluster_port: bool,
        connections: Connections, dispatcher: Dispatcher, take_pending: TakePending,
    ) -> None:  # fmt: skip
        """``certificate``: plain for None."""
        self._host = host
        self._port = port
        self._certificate = certificate
        self._on_cluster_port = on_cluster_port
        self._connections = connections
        self._dispatcher = dispatcher
        self._take_pending = take_pending
        self._server: aio.Server | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            SettingError: the port is not free.
        """
        port, address = self._port, join_address(self._host, self._port.port)
        server = aio.server(options=_options(port), maximum_concurrent_rpcs=CONNECTIONS_MAX + CALLS_MAX)
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "Request", {"request": grpc.unary_unary_rpc_method_handler(self._call)}
                ),
                grpc.method_handlers_generic_handler(
                    "BiRequestStream", {"requestBiStream": grpc.stream_stream_rpc_method_handler(self._stream)}
                ),
            )
        )
        try:
            if self._certificate is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, _credentials(self._certificate))
            await server.start()
        except (RuntimeError, OSError) as error:
            raise SettingError(f"cannot serve gRPC on {address}: {error}") from None
        self._server = server

    async def stop(self) -> None:
        """Refuse new calls, and end those under way after ``GRACE_S``. May be called twice."""
        if self._server is not None:
            await self._server.stop(GRACE_S)
            self._server = None

    async def _call(self, data: bytes, context: Any) -> bytes:
        connection = self._connections.of_peer(context.peer(), self._on_cluster_port)
        return await self._dispatcher.answer(connection, data)

    async def _stream(self, messages: AsyncIterator[bytes], context: Any) -> None:
        peer = context.peer()
        stream: ClientStream | None = None
        try:
            async with asyncio.timeout(SETUP_S) as setup:
                async for data in messages:
                    # Looked up for each message: another stream of the transport may have ended the connection.
                    connection = self._connections.of_peer(peer, self._on_cluster_port)
                    if connection.stream is None and stream is None:
                        connection.stream = stream = ClientStream(connection, context.write, self._take_pending)
                    if not self._dispatcher.take(connection, data):
                        connection.close()
                    if connection.registered:
                        setup.reschedule(None)
        except TimeoutError:
            LOG.debug("a stream of %s came without a setup", peer)
        except asyncio.CancelledError:
            if stream is None or not stream.ending:
                raise
        finally:
            if stream is not None:
                self._dispatcher.ended(stream.connection)
                await stream.finish()
        if stream is not None and stream.ending:
            # Some SDKs do not notice the end of a stream with status OK.
            await context.abort(grpc.StatusCode.UNAVAILABLE, GO_ELSEWHERE)


def _credentials(files: WatchedFiles[PortCertificate]) -> grpc.ServerCredentials:
    """Credentials with the certificate that is current when a handshake begins."""
    shown = files.current

    def configuration(of: PortCertificate) -> grpc.ServerCertificateConfiguration:
        pair = (of.certificate.private_key, of.certificate.chain)
        return grpc.ssl_server_certificate_configuration([pair], of.trusted)

    def changed() -> Any:
        """Called by gRPC at each handshake; None to go on with the last one."""
        nonlocal shown
        current = files.current
        if current is shown:
            return None
        shown = current
        return configuration(current)

    return grpc.dynamic_ssl_server_credentials(configuration(shown), changed, shown.trusted is not None)


def _options(port: RpcPort) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", port.message_bytes_max),
        ("grpc.max_send_message_length", port.message_bytes_max),
        ("grpc.max_concurrent_streams", STREAMS_MAX),
        ("grpc.so_reuseport", 0),  # or two nodes would share a port, and each get some of the calls
        ("grpc.keepalive_time_ms", port.keep_alive_ms),
        ("grpc.keepalive_timeout_ms", port.keep_alive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", port.permit_keep_alive_ms),
    ]
