"""HTTP calls of clients, apart from the project's own code: one connection a call, and a time-out for all of it."""

import asyncio
import http.client
from typing import Any
from urllib.parse import urlencode

CLIENT_TIMEOUT_S = 3.0
"""Of a whole call. Source: the Java client's connect and read time-outs are 3 s each."""
ANSWER_BYTES_MAX = 4 * 1024 * 1024


def call_blocking(address: str, method: str, target: str, timeout_s: float = 1.0) -> tuple[int, bytes]:
    """Status and body.

    Raises:
        OSError: no whole answer came.
    """
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


async def call(
    address: str, method: str, path: str, parameters: dict[str, Any], timeout_s: float = CLIENT_TIMEOUT_S
) -> tuple[int, bytes]:
    """Status and body of a call below ``/nacos/v1/ns``, the parameters in its query.

    Raises:
        OSError: no whole answer came within ``timeout_s``.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _call(address, method, f"/nacos/v1/ns{path}?{urlencode(parameters)}")
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


async def _call(address: str, method: str, target: str) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=ANSWER_BYTES_MAX)
    try:
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None
        )
        body = await (reader.read(ANSWER_BYTES_MAX) if length is None else reader.readexactly(length))
        return status, body
    finally:
        writer.transport.abort()
