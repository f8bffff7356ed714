"""Floods of HTTP/2 frames at a gRPC port: each ends its connection soon, for little, while others are answered."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.rpc.server.transport import STALLED_S
from scripts.bench.idle import pss_mb
from scripts.chaos.http2_floods import CPU_S_MAX, FLOODS, GROWN_MB_MAX, check_call, chunks, cpu_s, flood
from tests.support.http2_client import END_STREAM, MAGIC, ByHand, frame, prefixed
from tests.support.processes import Member, free_ports
from tests.support.sdk_client import SdkClient, run_client

CALLS = 250
"""As many as one connection may have under way, nearly."""
BEFORE_S_MAX = 2 * CPU_S_MAX
"""CPU time of the node while a call beside an attack waits for its answer: the machine, busy or not, does not count.
`scripts/chaos/http2_floods.py` measures how long calls take."""
BESIDE_S = 1.0
SWEPT_S = 10.0
"""After which a connection is looked at once more at the latest, and some."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    folder: Path = tmp_path_factory.mktemp("flooded")
    [port] = free_ports(1)
    member = Member(port, folder / "node", {"rollcall.announce": "false"})
    try:
        member.start()
        member.wait_ready()
        flood(rpc_port(member), chunks("ping"), reads=True)  # code and caches are made ready
        yield member
        member.stop()
    finally:
        member.end()
    assert "Traceback" not in member.log_text(), member.log_text()[-6_000:]


def rpc_port(node: Member) -> int:
    return int(node.address.rpartition(":")[2]) + 1_000


async def beside(node: Member, attack: Callable[[], None]) -> list[float]:
    """The node's CPU seconds during each health check of a client while the node is attacked, and a while after."""
    pid, used = node.worker.pid, []
    async with SdkClient(rpc_port(node)) as client:
        await client.set_up()
        attacking = asyncio.create_task(asyncio.to_thread(attack))
        end_s = time.monotonic() + BESIDE_S
        while not attacking.done() or time.monotonic() < end_s:
            before_s = cpu_s(pid)
            assert (await client.call("HealthCheckRequest"))["resultCode"] == 200
            used.append(cpu_s(pid) - before_s)
            await asyncio.sleep(0.01)
        await attacking
    return used


@pytest.mark.parametrize("reads", [True, False], ids=["read", "unread"])
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_its_connection_for_little(node: Member, name: str, reads: bool) -> None:
    pid, written = node.worker.pid, chunks(name)
    before_s, before_mb = cpu_s(pid), pss_mb(pid)
    flood(rpc_port(node), written, reads=reads)
    assert cpu_s(pid) - before_s <= CPU_S_MAX
    assert pss_mb(pid) - before_mb < GROWN_MB_MAX


@pytest.mark.parametrize("name", FLOODS)
def test_others_are_answered_beside_a_flood(node: Member, name: str) -> None:
    written = chunks(name)

    def attack() -> None:
        for _ in range(5):
            flood(rpc_port(node), written, reads=True)

    async def main() -> None:
        assert max(await beside(node, attack)) < BEFORE_S_MAX

    run_client(main)


def test_who_never_opens_a_window_is_held_and_cut(node: Member) -> None:
    pid, says, ping = node.worker.pid, ByHand(begun=False), frame("PING", 0, 0, b"all read")
    check, zero = prefixed(check_call()), frame("SETTINGS", 0, 0, b"\0\4" + bytes(4))
    calls = b"".join(
        says.opening(stream) + says.content(stream, check, END_STREAM) for stream in range(1, 2 * CALLS, 2)
    )  # fmt: skip
    before_s, before_mb = cpu_s(pid), pss_mb(pid)
    with socket.create_connection(("127.0.0.1", rpc_port(node)), timeout=STALLED_S + SWEPT_S) as client:
        client.sendall(MAGIC + zero + frame("SETTINGS", 1) + calls + ping)
        begun_s, data = time.monotonic(), b""
        while b"all read" not in data:
            data += client.recv(1 << 16)
        used_s, grown_mb = cpu_s(pid) - before_s, pss_mb(pid) - before_mb
        with suppress(ConnectionResetError):
            while more := client.recv(1 << 16):
                data += more
        took_s = time.monotonic() - begun_s
    assert used_s <= CPU_S_MAX
    assert grown_mb < GROWN_MB_MAX
    assert STALLED_S - 5 < took_s < STALLED_S + SWEPT_S
    assert b"replies are not read" in data
    assert pss_mb(pid) - before_mb < GROWN_MB_MAX
