"""Print the Python calls that a node makes for one request, called its walk.

Starts nodes in this process, makes a request of the kind at least five times, each time with a new service, and prints
the shortest walk: in the others a timer ran, or the bytes arrived in other pieces. The walk has the calls of
functions in app and distro, by the thread of the event loop. That thread does all the work of these kinds until the
client has its answer; the walk ends there. ``tests/cluster/test_walks.py`` bounds the figures.

    python -m scripts.walk register     # the calls of one kind, indented
    python -m scripts.walk              # the figures of all kinds
"""

import argparse
import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.config.identity_settings import IDENTITY_KEY, IDENTITY_VALUE
from app.naming.model.keys import datum_key
from app.tools.embedded.clock_ahead import ClockAhead
from app.tools.embedded.free_ports import HOST, bind_free
from app.tools.embedded.loop_thread import LoopThread
from app.tools.embedded.node_life import NodeLife
from app.tools.embedded.node_settings import node_settings
from tests.support.raw import RawConnection
from tests.support.sdk_client import SdkClient
from tests.support.walk import Walk, WalkRecorder

LOOP = "embedded-loop"
"""The thread of a node's event loop."""
WARM = 2
"""Requests that are not recorded: they open connections between members, and fill caches."""
FRESH, FRESH_MAX = 5, 25
"""Requests that are recorded. After five, more are made until the shortest walk was seen twice."""
SETTLE_STEP_S = 0.25
LOOK_S = 0.001
FOUND_S = 60.0
API = "/nacos/v1/ns/instance"
HEADERS = "Host: 127.0.0.1:8848\r\nUser-Agent: Nacos-Java-Client:v1.4.1\r\n"
NAMES = "namespaceId=public&groupName=DEFAULT_GROUP&clusterName=DEFAULT"
ADDRESS = "&ip=10.0.0.1&port=8080"
FLAGS = "&enable=true&healthy=true&ephemeral=true&metadata=%7B%7D"
REGISTER = ("POST", "", f"{ADDRESS}&weight=1.0{FLAGS}")
PUT = ("PUT", "", f"{ADDRESS}&weight=2.0{FLAGS}")
DELETE = ("DELETE", "", f"{ADDRESS}&ephemeral=true")
BEAT = ("PUT", "/beat", ADDRESS)
LIST = ("GET", "/list", "&clusters=&healthyOnly=false")
ALIVE = f"GET /nacos/v1/console/health/liveness HTTP/1.1\r\n{HEADERS}\r\n".encode()
GRPC_INSTANCE = {"ip": "10.0.0.1", "port": 8080, "weight": 1.0, "healthy": True, "enabled": True, "ephemeral": True}
IDENTITY = {IDENTITY_KEY.name: "Walk", IDENTITY_VALUE.name: "as-long-as-a-real-identity"}
SENDS_LATE = {"nacos.core.protocol.distro.data.sync.delayMs": "60000"}
"""Keeps the owner's list from reaching the member that forwarded the write at about the same time as the answer."""


def group_name(service: str) -> str:
    return f"DEFAULT_GROUP@@{service}"


def request(service: str, method: str, path: str = "", more: str = "") -> bytes:
    """Return a request for a service as the SDK for Java sends it, with the address of an instance in ``more``."""
    target = f"{API}{path}?serviceName={group_name(service).replace('@', '%40')}&{NAMES}{more}"
    return f"{method} {target} HTTP/1.1\r\n{HEADERS}\r\n".encode()


async def _nothing() -> None:
    """Run on a loop, after the earlier callbacks."""


class WalkedNode:
    """A node with its own event loop, whose threads' calls can be recorded."""

    def __init__(self, life: NodeLife, loop: LoopThread, recorder: WalkRecorder) -> None:
        self._life = life
        self._loop = loop
        self._recorder = recorder

    @property
    def address(self) -> str:
        return self._life.settings.self_address

    @property
    def grpc_port(self) -> int:
        assert self._life.settings.rpc is not None, "gRPC is on by default"
        return self._life.settings.rpc.sdk.port

    def knows(self, members: frozenset[str]) -> bool:
        """Return whether the node serves, and considers exactly these members alive."""
        return self._life.served.knows(members)

    def owns(self, service: str) -> bool:
        return self._life.served.node.services.cluster.responsible(group_name(service))

    def has(self, service: str) -> bool:
        """Return whether the node stores instances of the service, without a call to the loop."""
        return (
            self._life.served.node.domain.registry.lists.version(datum_key("public", group_name(service))) is not None
        )

    def walk(self, work: Callable[[], object]) -> Walk:
        """Return the calls of the loop's thread while ``work`` runs, up to the end of the loop's turn."""

        def whole() -> None:
            work()
            self._loop.run(_nothing())

        self._loop.run(_nothing())
        return self._recorder.record(whole)[LOOP]


@contextmanager
def running(count: int, settings: Mapping[str, str]) -> Iterator[list[WalkedNode]]:
    """Start a standalone node, or members that know each other."""
    clock = ClockAhead()
    with ExitStack() as stack:
        # The thread of grpcio ends with the last of its objects, some of which are in reference cycles.
        stack.callback(gc.collect)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="rollcall-walk-")))
        opened = [stack.enter_context(bind_free()) for _ in range(count)]
        addresses = tuple(f"{HOST}:{one.getsockname()[1]}" for one in opened)
        nodes = []
        for one in opened:
            port = one.getsockname()[1]
            texts = node_settings(settings, port, folder / str(port), addresses if count > 1 else ())
            life, loop, recorder = NodeLife(clock), LoopThread(), WalkRecorder()
            stack.callback(loop.stop)
            stack.callback(life.end)
            with recorder.watched():
                loop.start()
                life.begin(one, texts, loop)
            nodes.append(WalkedNode(life, loop, recorder))
        end_s = time.monotonic() + FOUND_S
        while not all(node.knows(frozenset(addresses)) for node in nodes):
            assert time.monotonic() < end_s, f"the members did not find each other within {FOUND_S:g} s"
            clock.advance(SETTLE_STEP_S)
        yield nodes


def call(connection: RawConnection, sent: bytes) -> None:
    answer = connection.call(sent)
    assert answer.status == 200, answer


# --- the kinds ------------------------------------------------------------------------------------

Walks = Callable[[Sequence[WalkedNode], str], Walk]
"""Makes one request for an unused service; returns the walk."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request, and the nodes that it needs."""

    says: str
    walk: Walks
    members: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def connected(node: WalkedNode) -> Iterator[RawConnection]:
    """Open a connection, and make one call so that the node has accepted it."""
    with RawConnection(node.address) as connection:
        call(connection, ALIVE)
        yield connection


def over_http(*requests: tuple[str, str, str]) -> Walks:
    """Return the walk of the last of these requests, each given as method, path and parameters."""

    def walk(nodes: Sequence[WalkedNode], service: str) -> Walk:
        *before, last = (request(service, *one) for one in requests)
        with connected(nodes[0]) as connection:
            for one in before:
                call(connection, one)
            return nodes[0].walk(lambda: call(connection, last))

    return walk


GrpcCall = Callable[[SdkClient, str], Awaitable[dict[str, Any]]]


def over_grpc(*calls: GrpcCall) -> Walks:
    """Return the walk of the last of these calls, after the earlier ones on the same connection."""

    def walk(nodes: Sequence[WalkedNode], service: str) -> Walk:
        client = SdkClient(nodes[0].grpc_port)
        with asyncio.Runner() as runner:

            def make(one: GrpcCall) -> None:
                answer = runner.run(_answered(one(client, service)))
                assert answer["resultCode"] == 200, answer

            runner.run(_opened(client))
            try:
                for one in calls[:-1]:
                    make(one)
                return nodes[0].walk(lambda: make(calls[-1]))
            finally:
                runner.run(client.close())

    return walk


async def _opened(client: SdkClient) -> None:
    await client.__aenter__()
    await client.set_up()


async def _answered(answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    return await answer


def rpc_health(client: SdkClient, _service: str) -> Awaitable[dict[str, Any]]:
    return client.call("HealthCheckRequest")


def rpc_register(client: SdkClient, service: str) -> Awaitable[dict[str, Any]]:
    return client.call("InstanceRequest", type="registerInstance", instance=GRPC_INSTANCE, **grpc_names(service))


def rpc_query(client: SdkClient, service: str) -> Awaitable[dict[str, Any]]:
    return client.call("ServiceQueryRequest", cluster="", healthyOnly=False, udpPort=0, **grpc_names(service))


def grpc_names(service: str) -> dict[str, str]:
    return {"namespace": "public", "serviceName": service, "groupName": "DEFAULT_GROUP"}


def from_peer(nodes: Sequence[WalkedNode], service: str) -> Walk:
    """Register at the owner; return the walk of the other member, to which the owner sends the list."""
    owner, other = nodes if nodes[0].owns(service) else reversed(nodes)

    def register() -> None:
        call(connection, request(service, *REGISTER))
        end_s = time.monotonic() + FOUND_S
        while not other.has(service):
            assert time.monotonic() < end_s, f"no list came within {FOUND_S:g} s"
            time.sleep(LOOK_S)

    with connected(owner) as connection:
        return other.walk(register)


def forwarded(nodes: Sequence[WalkedNode], service: str) -> Walk:
    """Register at the member that is not the owner; return the walk of that member."""
    entry = nodes[1] if nodes[0].owns(service) else nodes[0]
    with connected(entry) as connection:
        return entry.walk(lambda: call(connection, request(service, *REGISTER)))


KINDS: dict[str, Kind] = {
    "register": Kind("the first registration of an instance over HTTP", over_http(REGISTER)),
    "put": Kind("a change of its weight by PUT", over_http(REGISTER, PUT)),
    "delete": Kind("its removal by DELETE", over_http(REGISTER, DELETE)),
    "beat": Kind("the beat of a known instance, as it comes each 5 s", over_http(REGISTER, *[BEAT] * 4)),
    "list": Kind("the list of a service over HTTP", over_http(REGISTER, LIST)),
    "rpc-register": Kind("the first registration of a connection of gRPC", over_grpc(rpc_register)),
    "rpc-query": Kind("the list of a service over gRPC", over_grpc(rpc_register, rpc_query)),
    "rpc-health": Kind("a health check of a connection of gRPC", over_grpc(rpc_health, rpc_health)),
    "from-peer": Kind("PUT /distro/datum from the owner, at another member", from_peer, 2, IDENTITY),
    "forwarded": Kind(
        "a registration at a member that forwards it to the owner", forwarded, 2, {**IDENTITY, **SENDS_LATE}
    ),
}
"""Kinds by their name on the command line."""


def shortest_walks(names: Sequence[str]) -> Iterator[tuple[str, Walk]]:
    """Yield each of these kinds with its shortest walk; consecutive kinds share their nodes."""
    for (members, settings), kinds in groupby(names, lambda name: (KINDS[name].members, KINDS[name].settings)):
        with running(members, settings) as nodes:
            for name in kinds:
                yield name, _shortest(KINDS[name], nodes, name)


def _shortest(kind: Kind, nodes: Sequence[WalkedNode], name: str) -> Walk:
    """Return the shortest walk of some requests."""
    for number in range(WARM):
        kind.walk(nodes, f"{name}-warm-{number}")
    walks: list[Walk] = []
    for number in range(FRESH_MAX):
        walks = sorted([*walks, kind.walk(nodes, f"{name}-{number}")], key=lambda walk: walk.figures)
        if number >= FRESH - 1 and walks[0].figures == walks[1].figures:
            break
    return walks[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = "; ".join(f"{name}: {kind.says}" for name, kind in KINDS.items())
    parser.add_argument("kind", nargs="?", choices=KINDS, help=listed)
    kind = parser.parse_args().kind
    if kind is not None:
        [(_, walk)] = shortest_walks([kind])
        print(walk.text)
        return
    print(f"{'':14}{'calls':>6}{'files':>6}{'returns':>8}")
    for name, walk in shortest_walks(list(KINDS)):
        calls, files, returns = walk.figures
        print(f"{name:14}{calls:6}{files:6}{returns:8}  {KINDS[name].says}", flush=True)


if __name__ == "__main__":
    main()
