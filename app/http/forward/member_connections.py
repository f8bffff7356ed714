"""Kept connections to the members of the cluster, each call on one with a deadline for all of it."""

import socket
from collections.abc import Mapping
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError
from urllib3.util import Timeout

from distro.clock import SystemClock

CONNECTIONS_MAX = 8
"""To one member."""
IDLE_MS_MAX = 10_000
"""A connection that was quiet for longer is not used again: Tomcat closes one after 20 s, maybe just as we send."""
ANSWER_BYTES_MAX = 1024 * 1024
_CLOCK = SystemClock()


class _DeadlineSocket(socket.socket):
    """A socket whose time-out counts from when it was set, over all that is read since, and not from each packet."""

    _ends_ms: int | None = None

    def settimeout(self, value: float | None) -> None:
        self._ends_ms = None if value is None else _CLOCK.monotonic_ms() + int(value * 1000)
        super().settimeout(value)

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        if self._ends_ms is not None:
            left_ms = self._ends_ms - _CLOCK.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError("timed out")
            super().settimeout(left_ms / 1000)
        return super().recv_into(*args, **kwargs)


class _KeptConnection(HTTPConnection):
    _used_ms = 0

    def _new_conn(self) -> socket.socket:
        plain = super()._new_conn()
        timeout_s = plain.gettimeout()
        kept = _DeadlineSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        kept.settimeout(timeout_s)
        self._used_ms = _CLOCK.monotonic_ms()
        return kept

    def getresponse(self) -> Any:
        response = super().getresponse()
        self._used_ms = _CLOCK.monotonic_ms()
        return response

    @property
    def is_connected(self) -> bool:
        return super().is_connected and _CLOCK.monotonic_ms() - self._used_ms <= IDLE_MS_MAX


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _KeptConnection


class MemberConnections:
    """The connections to one member."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._pool = _Pool(host.strip("[]"), int(port), maxsize=CONNECTIONS_MAX, retries=False)

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Return status, body and headers of the answer, which is whole within ``timeout_s``.

        Raises:
            urllib3.exceptions.HTTPError: nothing was answered; NewConnectionError and ConnectTimeoutError say that
                nothing was sent either.
        """
        response = self._pool.urlopen(
            method,
            target,
            body=body,
            headers=headers,
            redirect=False,
            retries=False,
            timeout=Timeout(total=timeout_s),
            preload_content=False,
        )
        try:
            answer = response.read(ANSWER_BYTES_MAX + 1)
        except BaseException:
            response.close()
            raise
        if len(answer) > ANSWER_BYTES_MAX:
            response.close()
            raise HTTPError(f"the answer is over {ANSWER_BYTES_MAX} bytes")
        response.drain_conn()
        response.release_conn()
        return response.status, answer, response.headers

    def close(self) -> None:
        self._pool.close()
