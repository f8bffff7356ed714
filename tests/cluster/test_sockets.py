"""What is done to a node's sockets, in short: it stays, keeps nothing, and answers beats all the while."""

import asyncio
import itertools
import random
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from scripts.chaos.slow_clients import after_refusal, silent_body, sipped, slow_body, slow_chunks, slow_head, unread
from scripts.chaos.socket_attacks import HUGE, QUICK, Attack, at_most, endless
from scripts.support.beat_load import InstanceLoad, beating
from scripts.support.raw_sockets import GOOD, HOSTS, LARGE_SERVICE, Raw, Target, connect, connected, statuses
from tests.cluster.conftest import StartCluster
from tests.support.processes import Member, eventually, is_gone

SEED = 20
CONNECTIONS_MAX = 400
CROWD = 300
ROUNDS = 4
ATTACKERS = 8
ATTACKS_EACH = 6
VISITORS, VISITORS_AT_ONCE = 2_000, 50
LOAD = InstanceLoad(services=10, hosts=10)
BEATS_RATE = 100
BEATING = 8
"""Connections of the beats."""
SETTLED_S = 60.0
CUT_S = 180.0
GROWTH_BYTES_MAX = 32 << 20
"""From the second round to the last: until then buffers and arenas are made that stay."""
MIB = 1 << 20


@pytest.fixture
def node(make_cluster: StartCluster) -> Iterator[Member]:
    """A standalone node that takes few connections, with a long list and instances that beat."""
    limit = {"GUNICORN_CMD_ARGS": f"--worker-connections {CONNECTIONS_MAX}"}
    [member] = make_cluster(1, {"nacos.standalone": "true", **limit})
    member.restart()
    for host in range(HOSTS):
        assert member.client.register(LARGE_SERVICE, f"10.70.0.{host + 1}").status == 200
    for service, ip in LOAD.instances():
        assert member.client.register(service, ip).status == 200
    yield member
    member.stop()


class Siege:
    """The attacks on one node."""

    def __init__(self, node: Member) -> None:
        self._node = node
        self.worker = node.worker
        self._target = Target.at(node.address)

    async def settled(self, connections: int) -> None:
        """Return when only so many connections are left, and the one that asks."""
        await asyncio.to_thread(
            eventually, lambda: self._node.client.metrics()["connections"] <= connections + 1, SETTLED_S
        )

    async def until_all_is_given_back(self, descriptors: int) -> None:
        await asyncio.to_thread(eventually, lambda: self.worker.num_fds() <= descriptors, SETTLED_S)

    async def quick(self, number: int) -> None:
        """Some attacks side by side; each raises if it is answered wrongly or not ended."""

        async def attacker(name: int) -> None:
            rng = random.Random(f"{SEED} {number} {name}")
            for _ in range(ATTACKS_EACH):
                await at_most(rng.choice(QUICK), self._target, rng)

        await asyncio.gather(*(attacker(name) for name in range(ATTACKERS)))

    async def each_once(self) -> None:
        for attack in QUICK:
            await at_most(attack, self._target, random.Random(SEED))
        for kind in HUGE:
            await endless(self._target, kind)

    async def round(self, number: int) -> None:
        """Attacks in a crowd of connections that do nothing; then more of these than the node takes."""
        opened: list[Raw] = []
        try:
            await self._open(CROWD, opened)
            await self.quick(number)
            refused = self._node.client.metrics()["connectionsRefused"]
            await self._open(CONNECTIONS_MAX, opened)
        finally:
            for raw, reset in zip(opened, itertools.cycle((True, False)), strict=False):
                raw.close(reset=reset)
        await asyncio.to_thread(
            eventually, lambda: self._node.client.metrics()["connectionsRefused"] > refused, SETTLED_S
        )

    async def come_and_go(self) -> None:
        """Many connections that ask once: what each left behind would add up."""

        async def ask(reset: bool) -> None:
            async with connected(self._target, reset=reset) as raw:
                await raw.send(GOOD[0])
                assert statuses(await raw.read()) == [200]

        for number in range(VISITORS // VISITORS_AT_ONCE):
            await asyncio.gather(*(ask(number % 2 == 0) for _ in range(VISITORS_AT_ONCE)))

    async def _open(self, count: int, opened: list[Raw]) -> None:
        for _ in range(count):
            opened.append(await connect(self._target))

    def slow(self, client: Attack) -> Coroutine[Any, Any, str]:
        """A client that takes its time, until the node ends its connection."""
        return asyncio.wait_for(client(self._target, random.Random(SEED)), CUT_S)

    async def run(self) -> None:
        await asyncio.to_thread(
            eventually, lambda: self._node.client.metrics()["connections"] == BEATING + 1, SETTLED_S
        )
        await self.each_once()
        await self.settled(BEATING)
        descriptors, grown = self.worker.num_fds(), []
        clients = (slow_head, slow_body, slow_chunks, silent_body, after_refusal, unread, sipped)
        slow = asyncio.gather(*(self.slow(client) for client in clients))
        for number in range(ROUNDS):
            await self.round(number)
            await self.come_and_go()
            await self.settled(BEATING + len(clients))
            grown.append(self.worker.memory_info().rss)
        assert await slow == ["408", "408", "408", "408", "400", "cut", "cut"]
        await self.until_all_is_given_back(descriptors)
        assert grown[-1] - grown[1] < GROWTH_BYTES_MAX, f"MiB after each round: {[one // MIB for one in grown]}"


def test_a_node_under_siege(node: Member) -> None:
    with beating(node.address, LOAD, BEATS_RATE, BEATING) as load:
        siege = Siege(node)
        asyncio.run(siege.run())
        beaten = load.end()
    assert not is_gone(siege.worker)
    assert node.worker.pid == siege.worker.pid
    assert not beaten.failures
    assert len(beaten.answered) > BEATS_RATE
