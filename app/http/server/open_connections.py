"""The connections of the HTTP port: which are open, and the right to one more."""

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress

from app.http.api.answers import error_reply
from app.http.api.call import Services
from app.http.server.connection import HttpConnection
from app.http.server.http_messages import closing_bytes
from app.machine.limits.client_addresses import Frontend
from app.machine.limits.connection_room import Share
from app.naming.model.nacos_errors import TooManyRequests

RETRY_S = 5
UNACKED_AT, INFO_BYTES = 24, 104
"""Where ``tcp_info`` has ``tcpi_unacked``, of a listening socket the connections that wait. Source: linux/tcp.h."""


def waiting_connections(listening: socket.socket) -> int:
    """Return how many connections wait to be accepted; 0 where the system does not tell."""
    info = b""
    with suppress(OSError, AttributeError):
        info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    return int.from_bytes(info[UNACKED_AT : UNACKED_AT + 4], sys.byteorder)


class OpenConnections:
    """Counts connections in the node's room, and by their addresses. Used on the loop's thread."""

    def __init__(self, services: Services, connections_max: int) -> None:
        services.room.http.bound(connections_max)
        self._services = services
        self._stats = services.http
        self._open: set[HttpConnection] = set()
        refusal = TooManyRequests(services.addresses.connections_refusal(), RETRY_S)
        self._too_many_of_address = closing_bytes(error_reply(refusal))

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[HttpConnection]:
        return iter(list(self._open))

    def admit(self, remote_ip: str) -> Share | None:
        """Count a connection more; None when there are too many, and one is to be closed."""
        share = self._services.room.take_http(is_member=self._is_member(remote_ip))
        if share is None:
            self._refused()
        return share

    def add(self, connection: HttpConnection) -> bytes | None:
        """Take a connection in; None if it may stay, else the answer with which it is closed, perhaps empty."""
        ip = connection.remote_ip
        if connection.share is None:
            connection.share = self.admit(ip)
        if connection.share is None:
            return b""
        connection.at_member = self._is_member(ip)
        address = self._services.addresses.connect(ip, Frontend.HTTP, is_exempt=connection.at_member)
        if address is None:
            self._refused()
            return self._too_many_of_address
        connection.address = address
        self._open.add(connection)
        self._stats.connections = len(self._open)
        return None

    def _refused(self) -> None:
        self._stats.connections_refused += 1
        self._services.refusals.note()  # it may have brought beats

    def remove(self, connection: HttpConnection) -> None:
        """Count a connection no more, whether it could stay or not."""
        if connection.share is not None:
            connection.share.give_back()
            connection.share = None
        if connection.address is not None:
            self._services.addresses.disconnect(connection.address, Frontend.HTTP)
            connection.address = None
        self._open.discard(connection)
        self._stats.connections = len(self._open)

    def _is_member(self, ip: str) -> bool:
        return not self._services.settings.standalone and self._services.senders.is_listed(ip)
