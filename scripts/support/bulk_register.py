"""Registers instances as fast as members accept them: pipelined over persistent connections, from separate processes.

Instance ``host`` of service ``number`` has a unique address. Its metadata is realistic: some keys that all instances
of a service share. Its time-outs are a day, because no client beats for a million instances here.
"""

import json
import multiprocessing
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlencode

from scripts.support.member_processes import CONTEXT_PATH

GROUP = "DEFAULT_GROUP@@"
PORT = 8080
PIPELINED = 48
"""Requests under way on one connection; a member reads at most 64."""
TIMEOUT_S = 60.0
RECEIVE_BYTES = 1 << 20
STATUS_OK, STATUS = b"HTTP/1.1 200", b"HTTP/1.1 "
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Fleet:
    """``services`` services of ``hosts`` instances each."""

    services: int
    hosts: int

    def name(self, number: int) -> str:
        """The full name of a service."""
        return f"{GROUP}fleet-{number}"

    def ip(self, number: int, host: int) -> str:
        each = number * self.hosts + host
        return f"10.{each >> 16 & 255}.{each >> 8 & 255}.{each & 255}"

    def metadata(self, number: int) -> dict[str, str]:
        """Return the metadata of each instance of a service."""
        return {
            "preserved.register.source": "SPRING_CLOUD",
            "preserved.heart.beat.timeout": str(DAY_MS),
            "preserved.ip.delete.timeout": str(DAY_MS),
            "version": f"1.{number % 40}.{number % 7}",
            "team": f"team-{number % 300}",
            "zone": f"zone-{'abc'[number % 3]}",
        }

    def requests(self, number: int) -> Iterator[bytes]:
        """A registration of each instance of a service."""
        said = {"serviceName": self.name(number), "port": PORT, "ephemeral": "true"}
        query = urlencode({**said, "metadata": json.dumps(self.metadata(number))})
        for host in range(self.hosts):
            yield (
                f"POST {CONTEXT_PATH}/v1/ns/instance?ip={self.ip(number, host)}&{query} HTTP/1.1\r\n"
                f"Host: fleet\r\nUser-Agent: Nacos-Java-Client:v1.4.1\r\nContent-Length: 0\r\n\r\n"
            ).encode()


def register_all(fleet: Fleet, owner_of: Callable[[str], str], processes: int) -> None:
    """Register every instance at the member that ``owner_of`` names for its service, from several processes.

    Raises:
        RuntimeError: an answer was not 200, or a connection ended.
    """
    by_owner: dict[str, list[int]] = {}
    for number in range(fleet.services):
        by_owner.setdefault(owner_of(fleet.name(number)), []).append(number)
    shares = [{owner: numbers[at::processes] for owner, numbers in by_owner.items()} for at in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.starmap(_register, [(fleet, share) for share in shares])


def _register(fleet: Fleet, share: dict[str, list[int]]) -> None:
    """Register services at several members in turn, service after service; for a separate process."""
    rounds = [(address, _requests(fleet, numbers)) for address, numbers in share.items()]
    connections = {address: _connect(address) for address in share}
    try:
        while rounds:
            sent = []
            for address, requests in rounds:
                part = list(islice(requests, PIPELINED))
                connections[address].sendall(b"".join(part))
                sent.append((address, len(part)))
            for address, count in sent:
                _read_answers(connections[address], count)
            left = {address for address, count in sent if count == PIPELINED}
            rounds = [one for one in rounds if one[0] in left]
    finally:
        for one in connections.values():
            one.close()


def _requests(fleet: Fleet, numbers: list[int]) -> Iterator[bytes]:
    for number in numbers:
        yield from fleet.requests(number)


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def _read_answers(connection: socket.socket, count: int) -> None:
    """Read this many answers, all of them 200 with a body that contains no status line."""
    came = b""
    while came.count(STATUS) < count or not came.endswith(b"ok"):
        data = connection.recv(RECEIVE_BYTES)
        if not data:
            raise RuntimeError(f"the connection ended: {came[-200:]!r}")
        came += data
        if came.count(STATUS) != came.count(STATUS_OK):
            raise RuntimeError(f"a registration was refused: {came[-400:]!r}")


def list_of(address: str, service: str) -> list[dict[str, object]]:
    """The hosts in a member's list of a service.

    Raises:
        OSError, RuntimeError: the answer is not 200.
    """
    with closing(_connect(address)) as connection:
        query = urlencode({"serviceName": service})
        target = f"{CONTEXT_PATH}/v1/ns/instance/list?{query}"
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\r\n".encode())
        came = b""
        while data := connection.recv(RECEIVE_BYTES):
            came += data
    head, _, body = came.partition(b"\r\n\r\n")
    if not head.startswith(STATUS_OK):
        raise RuntimeError(f"{address} answers {head[:40]!r}")
    hosts: list[dict[str, object]] = json.loads(body)["hosts"]
    return hosts
