"""The server of one gRPC port: its listening socket, and what its connections share."""

import asyncio
import errno
import logging
import socket
from collections import deque
from typing import Protocol

from app.config.addresses import join_address
from app.config.rpc_settings import RpcPort
from app.config.settings import SettingError
from app.machine.limits.connection_room import Share
from app.machine.process.loop_parts import TurnSends
from app.machine.tls.node_tls import PortCertificate
from app.machine.tls.tls_accept import TlsAcceptor
from app.machine.tls.watched import WatchedFiles
from app.rpc.server.client_stream import GRACE_S, ClientStream, TakePending
from app.rpc.server.connections import Connections
from app.rpc.server.control_credit import KeptBytes
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.http2 import Http2Limits
from app.rpc.server.message_bounds import UnpackedBytes
from app.rpc.server.transport import TURN_S, RpcTransport

LOG = logging.getLogger(__name__)
CALLS_MAX = 4_096
"""The most calls that wait for something at once, of all connections of a port."""
STREAMS_MAX = 256
"""The most calls and streams of one connection at once."""
KEPT_BYTES_MAX = 256 << 20
"""The bytes of incomplete requests, of all connections of a port. Replies that wait count in the budget for answers."""
KEPT_MESSAGES_MAX = 4
"""The bound of one connection, in largest messages: for its incomplete requests, and again for replies that wait."""
BACKLOG = 1_024
SWEEP_S = 0.5
SWEEPS = 8
"""The number of sweeps in which all connections are checked once."""
GREETINGS_MAX = 2_048
"""The most TLS clients that are connected and have not sent a whole greeting."""
DRAIN_POLL_S = 0.01
STREAMS_PER_LOOK = 4
"""The streams that are written between two looks at the clock."""


class Listening(Protocol):
    """The acceptor of a socket's connections."""

    def close(self) -> None: ...


class RpcServer:
    """Owns the connections of one gRPC port. ``start`` and ``stop`` are called on the loop."""

    def __init__(
        self, host: str, port: RpcPort, certificate: WatchedFiles[PortCertificate] | None, on_cluster_port: bool,
        connections: Connections, dispatcher: Dispatcher, take_pending: TakePending, share: Share,
    ) -> None:  # fmt: skip
        """``certificate``: None for a plain port. ``share``: counts the port's sockets, with a setup or without."""
        self.answers = dispatcher.answers
        self._host = host
        self._port = port
        self._certificate = certificate
        self.on_cluster_port = on_cluster_port
        self.connections = connections
        self.dispatcher = dispatcher
        self.take_pending = take_pending
        self.limits = Http2Limits(port.message_bytes_max, STREAMS_MAX, port.permit_keep_alive_ms / 1_000)
        self.kept = KeptBytes(KEPT_BYTES_MAX)
        self.unpacked = UnpackedBytes()
        self.kept_bytes_max = KEPT_MESSAGES_MAX * port.message_bytes_max
        self.keep_alive_s = port.keep_alive_ms / 1_000
        self.keep_alive_timeout_s = port.keep_alive_timeout_ms / 1_000
        self._share = share
        self._transports: dict[RpcTransport, None] = {}
        """The transports in the order in which they are checked."""
        self._calls = 0
        self._due: deque[ClientStream] = deque()
        """Streams that have something to write."""
        self._is_writing = False
        self._listening: list[Listening] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self.loop: asyncio.AbstractEventLoop
        self.sends: TurnSends

    async def start(self) -> None:
        """Listen.

        Raises:
            SettingError: the port is not free.
        """
        self.loop = loop = asyncio.get_running_loop()
        self.sends = TurnSends(loop.call_soon)
        try:
            if (files := self._certificate) is None:
                backlog, port = BACKLOG, self._port.port
                self._listening.append(await loop.create_server(self._connection, self._host, port, backlog=backlog))
            else:
                self._listening += [self._accept_tls(one, files) for one in await self._sockets()]
        except OSError as error:
            where = join_address(self._host, self._port.port)
            raise SettingError(f"cannot serve gRPC on {where}: {error}") from None
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)

    def _connection(self) -> RpcTransport:
        return RpcTransport(self)

    def _accept_tls(self, listening: socket.socket, files: WatchedFiles[PortCertificate]) -> TlsAcceptor[Share]:
        return TlsAcceptor(
            self.loop,
            listening,
            self._admit,
            lambda _share: self._connection(),
            lambda: files.current.context,
            files.stats,
            waiting_max=min(GREETINGS_MAX, self._share.most),
        )

    async def _sockets(self) -> list[socket.socket]:
        """Return listening sockets for each address of the host, as ``create_server`` makes them."""
        found = await self.loop.getaddrinfo(
            self._host or None, self._port.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )  # fmt: skip
        made: list[socket.socket] = []
        absent: OSError | None = None
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                try:
                    made.append(socket.create_server(address, family=family, backlog=BACKLOG))
                except OSError as error:
                    if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                        raise
                    absent = error  # "::" of a machine without IPv6, next to its "0.0.0.0"
            if absent is not None and not made:
                raise absent
        except OSError:
            for one in made:
                one.close()
            raise
        return made

    async def stop(self) -> None:
        """Take no new connections and calls; end the calls under way after ``GRACE_S``. May be called twice.

        Clients get two notices: first to call elsewhere, then, as calls may be on their way, from which call on none is
        taken.
        """
        if not self._listening:
            return
        for listening in self._listening:
            listening.close()
        self._listening = []
        for one in list(self._transports):
            one.leave(finally_=False)
        end_s = self.loop.time() + GRACE_S
        while any(not one.is_idle for one in self._transports) and self.loop.time() < end_s:
            await asyncio.sleep(DRAIN_POLL_S)
        for one in list(self._transports):
            one.leave(finally_=True)
            one.end()
        while self._transports and self.loop.time() < end_s + GRACE_S:
            await asyncio.sleep(DRAIN_POLL_S)
        for one in list(self._transports):
            one.cut()
        if self._sweeping is not None:
            self._sweeping.cancel()

    # --- of the connections -------------------------------------------------------------------------

    def _admit(self, _remote_ip: str) -> Share | None:
        """Count one more connection; return None when there are too many, so that it is to be closed."""
        if self._share.take():
            return self._share
        self._share.refused += 1
        return None

    def opened(self, transport: RpcTransport) -> bool:
        # Connections with TLS are counted when they are accepted, as handshakes hold descriptors too.
        if self._certificate is None and self._admit("") is None:
            return False
        if not self._listening:
            self._share.give_back()
            return False
        self._transports[transport] = None
        return True

    def closed(self, transport: RpcTransport) -> None:
        if transport in self._transports:
            del self._transports[transport]
            self._share.give_back()

    def begin_call(self) -> bool:
        self._calls += 1
        return self._calls <= CALLS_MAX

    def end_call(self) -> None:
        self._calls -= 1

    def soon(self, stream: ClientStream) -> None:
        self._due.append(stream)
        if not self._is_writing:
            self._is_writing = True
            self.loop.call_soon(self._write)

    def _write(self) -> None:
        """Write the waiting messages of streams for ``TURN_S``; the rest has its turn after others."""
        begun_s, due = self.loop.time(), self._due
        while due:
            for _ in range(min(STREAMS_PER_LOOK, len(due))):
                try:
                    due.popleft().go_on()
                except Exception:  # or nothing would be pushed any more
                    LOG.exception("writing to a client failed unexpectedly")
            if self.loop.time() - begun_s > TURN_S:
                break
        self._is_writing = bool(due)
        if due:
            self.loop.call_soon(self._write)

    def _sweep(self) -> None:
        """Check a part of the connections for deadlines that have passed, and for silent clients."""
        self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)
        now_s = self.loop.time()
        for one in [one for one, _ in zip(self._transports, range(len(self._transports) // SWEEPS + 1), strict=False)]:
            del self._transports[one]
            self._transports[one] = None
            try:
                one.check(now_s)
            except Exception:  # without sweeps dead clients would stay for ever
                LOG.exception("the check of a connection failed unexpectedly")
