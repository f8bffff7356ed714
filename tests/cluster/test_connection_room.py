"""A node whose limit of open files is low: each port takes what the other leaves, and never what it keeps."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest

from app.machine.limits.connection_room import ConnectionRoom
from app.machine.process.open_files import FILES_SPARE
from scripts.support.member_processes import COMMAND, MemberProcess
from tests.support.http2_client import MAGIC, frame
from tests.support.processes import eventually, free_ports

FILES = 700
ROOM = ConnectionRoom(FILES - FILES_SPARE, has_members=False)
SOURCES = [f"127.0.0.{last}" for last in range(2, 8)]
"""Of no address come more than its part."""
TIMEOUT_S = 30.0
FREED = 20
GREETING = MAGIC + frame("SETTINGS") + frame("SETTINGS", 1)
REQUEST = b"GET /nacos/v1/ns/instance/list?serviceName=a HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Node(MemberProcess):
    """A standalone node that may have few descriptors, and connections to it that last as long as the test."""

    def __init__(self, port: int, folder: Path, kept: ExitStack) -> None:
        limited = folder / "limited"
        limited.write_text(f'#!/bin/sh\nulimit -n {FILES}\nexec {COMMAND} "$@"\n')
        limited.chmod(0o700)
        super().__init__(port, folder, settings={"nacos.standalone": "true"}, command=limited)
        self._port = port
        self._kept = kept
        self._sources = cycle(SOURCES)

    def over_grpc(self) -> socket.socket | None:
        """A connection that is greeted; None when there is no room."""
        return self._opened(self._port + 1_000, GREETING)

    def over_http(self) -> socket.socket | None:
        """A connection that is answered; None when there is no room."""
        return self._opened(self._port, REQUEST)

    def _opened(self, port: int, sent: bytes) -> socket.socket | None:
        opened = socket.create_connection(("127.0.0.1", port), TIMEOUT_S, (next(self._sources), 0))
        self._kept.callback(opened.close)
        try:
            opened.sendall(sent)
            return opened if opened.recv(1_000) else None
        except ConnectionError:
            return None

    def metrics(self, opened: socket.socket) -> dict[str, int]:
        """The counters, over a connection that is there."""
        opened.sendall(b"GET /nacos/v1/ns/operator/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = http.client.HTTPResponse(opened)
        answer.begin()
        found: dict[str, int] = json.loads(answer.read())
        return found


def fill(opened: Callable[[], socket.socket | None]) -> list[socket.socket]:
    """Connections until one is refused."""
    return list(iter(opened, None))  # type: ignore[arg-type]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    [port] = free_ports(1)
    with ExitStack() as kept:
        made = Node(port, tmp_path, kept)
        made.start()
        kept.callback(made.kill_all)
        made.wait_ready()
        yield made
        assert "Traceback" not in made.log.read_text()


def test_grpc_takes_what_http_leaves_and_http_still_answers(node: Node) -> None:
    crowd = fill(node.over_grpc)
    assert len(crowd) == ROOM.grpc.possible
    answered = fill(node.over_http)
    assert len(answered) == ROOM.http.kept
    seen = node.metrics(answered[0])
    assert (seen["rpcTransports"], seen["connections"]) == (len(crowd), len(answered))
    assert (seen["connectionsFree"], seen["rpcConnectionsRefused"], seen["connectionsRefused"]) == (0, 1, 1)
    assert seen["descriptorsUsedUp"] == 0
    for one in crowd[:FREED]:
        one.close()
    eventually(lambda: node.metrics(answered[0])["connectionsFree"] == FREED)
    assert len(fill(node.over_http)) == FREED
    assert node.over_grpc() is None


def test_http_takes_what_grpc_leaves_and_grpc_still_answers(node: Node) -> None:
    answered = fill(node.over_http)
    assert len(answered) == ROOM.http.possible
    crowd = fill(node.over_grpc)
    assert len(crowd) == ROOM.grpc.kept
    for one in answered[1:]:
        one.close()
    eventually(lambda: node.metrics(answered[0])["connections"] == 1)
    assert len(crowd) + len(fill(node.over_grpc)) == ROOM.grpc.possible
    seen = node.metrics(answered[0])
    assert (seen["connectionsFree"], seen["descriptorsUsedUp"]) == (0, 0)
