"""Fuzzy watches as clients see them: their requests, and the messages that follow; rights, bounds, and long lists."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from app.auth.member_calls import Callers
from app.naming.clients.client_model import ClientInfo
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.peers import payload as wire
from app.rpc.sdk import fuzzy_pusher, fuzzy_requests
from app.rpc.sdk.fuzzy_pusher import FuzzyPusher
from app.rpc.sdk.fuzzy_requests import NAMES_PER_LOOK, FuzzyHandlers
from app.rpc.sdk.fuzzy_state import BATCH_NAMES
from app.rpc.sdk.fuzzy_watches import FuzzyWatches
from app.rpc.server.connections import CONTROLS_MAX, Connection, Connections
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.limits import LimitWatch
from tests.support.auth import add_user, node_with_users, token_of
from tests.support.fake_node import FakeNode

ALL = "public>>*>>*"


class Client:
    """One client with a connection, which acknowledges what it is sent."""

    def __init__(self, host: "Host", connection: Connection) -> None:
        self.host, self.connection = host, connection
        self.known: set[str] = set()
        """The services that it takes to be there, after all that it was sent."""
        self.syncs: list[dict[str, Any]] = []
        self.changes: list[tuple[str, str]] = []
        self.answers = True

    async def watch(
        self, pattern: str = ALL, *, first: bool = True, kind: str = "WATCH", **more: Any
    ) -> dict[str, Any]:
        fields = {"groupKeyPattern": pattern, "watchType": kind, "initializing": first, "namespace": "public"}
        body = orjson.dumps({**fields, "receivedGroupKeys": sorted(self.known), **more})
        message = wire.encode("NamingFuzzyWatchRequest", body, headers=self.host.headers)
        return wire.decode(await self.host.dispatcher.answer(self.connection, message)).json()

    def read(self) -> bool:
        """Take all that waits for it, and acknowledge it; return whether there was something."""
        any_came = bool(self.connection.controls)
        while self.connection.controls:
            message = wire.decode(self.connection.controls.popleft())
            fields = message.json()
            if message.type == "NamingFuzzyWatchSyncRequest":
                self.syncs.append(fields)
                pairs = [(one["serviceKey"], one["changedType"]) for one in fields["contexts"]]
            else:
                assert (message.type, fields["syncType"]) == (
                    "NamingFuzzyWatchChangeNotifyRequest",
                    "FUZZY_WATCH_RESOURCE_CHANGED",
                )
                pairs = [(fields["serviceKey"], fields["changedType"])]
                self.changes += pairs
            for key, what in pairs:
                self.known.add(key) if what == "ADD_SERVICE" else self.known.discard(key)
            if self.answers:
                self.host.pusher.answered(self.connection.id, fields["requestId"], True)
        return any_came

    async def settle(self, wanted: set[str]) -> None:
        """Read until it knows these services."""
        async with asyncio.timeout(20):
            while self.known != wanted:
                self.read()
                await asyncio.sleep(0)

    async def settle_first(self) -> None:
        """Read until its first list has ended."""
        async with asyncio.timeout(20):
            while not any(one["syncType"] == "FINISH_FUZZY_WATCH_INIT_NOTIFY" for one in self.syncs):
                self.read()
                await asyncio.sleep(0)


class Host:
    """A node with fuzzy watches, and its clients."""

    def __init__(self, node: FakeNode | None = None, matches: int = 0, patterns: int = 0) -> None:
        self.node: Any = node or FakeNode()
        self.headers: dict[str, str] = {}
        self.connections = Connections(self.node.wall_ms, self.node.monotonic_ms, self.node.addresses)
        self.watches = FuzzyWatches(patterns, 0, matches)
        self.table = self.node.clients.table.services
        self.waits = False
        self.pusher = FuzzyPusher(
            self.watches, self.table, self.connections, lambda: int(time.monotonic() * 1_000), lambda: self.waits
        )
        self.dispatcher = Dispatcher(
            self.connections,
            self.node.cluster,
            Callers(None, "", self.node.monotonic_ms, self.node.cluster),
            self.node.clients.own,
            LimitWatch(self.node.settings.data_dir / "none"),
            self.node.monotonic_ms,
            access=self.node.access,
            on_gone=self.watches.forget,
        )
        self.dispatcher.add(FuzzyHandlers(self.table, self.watches, self.pusher).routes())

    def connect(self, port: int = 5) -> Client:
        connection = self.connections.opened(f"ipv4:10.1.2.3:{port}", False)
        self.connections.register(connection)
        self.node.clients.own.connect(ClientInfo(connection.id, "10.1.2.3", port, "app", "v2"))
        return Client(self, connection)

    def register(self, name: str, namespace: str = "public", ip: str = "10.0.0.1") -> None:
        self.node.naming.register(RegisterInstance(name, ip, 80, namespace))
        self.pusher.changed(namespace, name)

    def deregister(self, name: str, namespace: str = "public", ip: str = "10.0.0.1") -> None:
        self.node.naming.deregister(DeregisterInstance(name, ip, 80, namespace, "DEFAULT"))
        self.pusher.changed(namespace, name)


def run(host: Host, main: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        host.pusher.start()
        try:
            await main()
        finally:
            host.pusher.stop()

    asyncio.run(whole())


async def turns() -> None:
    """Let the loop do all that is due now."""
    for _ in range(5):
        await asyncio.sleep(0)


def keys(*names: str) -> set[str]:
    return {f"public@@{name}" for name in names}


def test_a_first_watch_is_sent_what_matches_and_then_the_end_and_then_changes() -> None:
    host = Host()
    client = host.connect()

    async def main() -> None:
        host.register("shop@@a")
        host.register("other@@b")
        host.register("shop@@c", "dev")
        assert await client.watch("public>>shop>>*") == {"resultCode": 200, "errorCode": 0, "success": True}
        await client.settle_first()
        assert client.known == keys("shop@@a")
        first, end = client.syncs
        contexts = [{"serviceKey": "public@@shop@@a", "changedType": "ADD_SERVICE"}]
        assert (first["syncType"], first["contexts"]) == ("FUZZY_WATCH_INIT_NOTIFY", contexts)
        assert (first["groupKeyPattern"], first["totalBatch"], first["currentBatch"]) == ("public>>shop>>*", 1, 1)
        assert (first["headers"], first["module"]) == ({}, "naming")
        assert (end["contexts"], end["totalBatch"], end["currentBatch"]) == ([], 1, 1)
        host.register("shop@@d")
        host.register("other@@e")
        host.register("shop@@a", ip="10.0.0.2")  # it is there already
        await client.settle(keys("shop@@a", "shop@@d"))
        host.deregister("shop@@a")
        host.deregister("shop@@d")
        host.deregister("shop@@a", ip="10.0.0.2")
        await client.settle(set())
        assert client.changes == [
            ("public@@shop@@d", "ADD_SERVICE"),
            *sorted(client.changes[1:], reverse=client.changes[1][0].endswith("d")),
        ]
        assert len(client.changes) == 3

    run(host, main)


def test_a_client_from_another_member_is_sent_the_difference() -> None:
    host = Host()
    client = host.connect()

    async def main() -> None:
        for name in ("g@@kept", "g@@new"):
            host.register(name)
        client.known = keys("g@@kept", "g@@gone") | {"dev@@g@@other"}
        await client.watch(first=False)
        await client.settle(keys("g@@kept", "g@@new") | {"dev@@g@@other"})
        [difference] = client.syncs
        assert difference["syncType"] == "FUZZY_WATCH_DIFF_SYNC_NOTIFY"
        assert difference["contexts"] == [
            {"serviceKey": "public@@g@@new", "changedType": "ADD_SERVICE"},
            {"serviceKey": "public@@g@@gone", "changedType": "DELETE_SERVICE"},
        ]
        while not client.changes:  # the Java client reads no removals in a list
            client.read()
            await asyncio.sleep(0)
        assert client.changes == [("public@@g@@gone", "DELETE_SERVICE")]
        await client.watch(first=False)
        await turns()
        assert not client.read()

    run(host, main)


def test_a_watch_that_ends_is_sent_nothing_more_and_costs_nothing() -> None:
    host = Host()
    client = host.connect()

    async def main() -> None:
        assert host.watches.namespaces == {}
        await client.watch()
        await client.settle_first()
        assert (await client.watch(kind="CANCEL_WATCH"))["success"]
        assert (await client.watch(kind="CANCEL_WATCH"))["success"]
        assert host.watches.namespaces == {}
        host.register("g@@a")
        await turns()
        assert not client.read()
        await client.watch()
        host.dispatcher.ended(client.connection)
        assert host.watches.namespaces == {}

    run(host, main)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"groupKeyPattern": ""}, "groupKeyPattern"),
        ({"groupKeyPattern": 7}, "groupKeyPattern"),
        ({"groupKeyPattern": "public>>a"}, "groupKeyPattern"),
        ({"watchType": "LOOK"}, "Unsupported request type LOOK"),
        ({"watchType": None}, "Unsupported request type"),
        ({"receivedGroupKeys": "public@@a@@b"}, "receivedGroupKeys"),
        ({"receivedGroupKeys": ["public@@a@@b", 7]}, "receivedGroupKeys"),
        ({"initializing": "yes"}, "initializing"),
    ],
)
def test_a_wrong_request_is_refused_by_its_field(fields: dict[str, Any], named: str) -> None:
    host = Host()
    client = host.connect()

    async def main() -> None:
        answer = await client.watch(**fields)
        assert (answer["errorCode"], answer["success"]) == (400, False)
        assert named in answer["message"]

    run(host, main)


def test_a_request_may_leave_out_what_java_leaves_out() -> None:
    host = Host()
    client = host.connect()

    async def main() -> None:
        host.register("g@@a")
        assert (await client.watch(receivedGroupKeys=None, initializing=None, isInitializing=True))["success"]
        await client.settle_first()
        assert client.known == keys("g@@a")

    run(host, main)


def test_too_many_patterns_have_the_code_of_nacos() -> None:
    host = Host(patterns=1)
    client = host.connect()

    async def main() -> None:
        assert (await client.watch())["success"]
        answer = await client.watch("public>>g>>*")
        assert (answer["resultCode"], answer["errorCode"]) == (500, 50_310)
        assert "rollcall.limit.fuzzyPatterns=1" in answer["message"]

    run(host, main)


def test_too_many_services_have_the_code_of_nacos_and_a_part_is_shown() -> None:
    host = Host(matches=2)
    client = host.connect()

    async def main() -> None:
        for number in range(2):
            host.register(f"g@@{number}")
        assert (await client.watch())["success"]
        await client.settle_first()
        host.register("g@@2")
        await turns()
        answer = await client.watch(first=False)
        assert (answer["resultCode"], answer["errorCode"]) == (500, 50_311)
        assert "rollcall.limit.fuzzyMatches=2: 3 services match" in answer["message"]
        assert client.known == keys("g@@0", "g@@1")
        other = host.connect(6)
        assert (await other.watch())["errorCode"] == 50_311
        await other.settle_first()
        assert len(other.known) == 2
        host.deregister("g@@0")
        await client.settle(keys("g@@1"))
        assert (await client.watch(first=False))["success"]
        await client.settle(keys("g@@1", "g@@2"))

    run(host, main)


def test_too_many_requests_at_a_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy_requests, "COMPARED_MAX", 1)
    monkeypatch.setattr(fuzzy_pusher, "SLICE_S", 0.0)
    host = Host()
    client, other = host.connect(5), host.connect(6)

    async def main() -> None:
        host.register("g@@a")
        answers = await asyncio.gather(client.watch(), other.watch())
        assert [answer["errorCode"] for answer in answers] == [0, 503]
        assert (await other.watch())["success"]

    run(host, main)


def test_requests_are_compared_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy_pusher, "SLICE_S", 0.0)
    host = Host()
    clients = [host.connect(port) for port in range(5, 10)]

    async def main() -> None:
        for number in range(1_000):
            host.register(f"g@@{number}")
        answers = await asyncio.gather(*(client.watch() for client in clients))
        assert all(answer["success"] for answer in answers)
        for client in clients:
            await client.settle(keys(*(f"g@@{number}" for number in range(1_000))))

    run(host, main)


def test_a_first_list_of_many_services_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is over at the first look at the clock here, after ``NAMES_PER_LOOK`` names."""
    monkeypatch.setattr(fuzzy_pusher, "SLICE_S", 0.0)
    host = Host()
    client, count = host.connect(), 20_000
    others = 0

    async def take_turns() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    async def main() -> None:
        for number in range(count):
            host.node.naming.register(RegisterInstance(f"g@@{number}", "10.0.0.1", 80))
        taking = asyncio.create_task(take_turns())
        await client.watch()
        assert others >= 2 * count // NAMES_PER_LOOK, "the names are read, and then compared"
        await client.settle_first()
        client.known = {key.replace("g@@", "h@@") for key in client.known}
        before = others
        await client.watch(first=False)
        assert others - before >= 3 * count // NAMES_PER_LOOK, "what is known, what is there, and what is gone"
        taking.cancel()
        assert len(client.syncs) == count // BATCH_NAMES + 1
        assert [one["currentBatch"] for one in client.syncs[:-1]] == list(range(1, count // BATCH_NAMES + 1))
        assert {one["totalBatch"] for one in client.syncs[:-1]} == {count // BATCH_NAMES}

    run(host, main)


def test_services_that_change_during_a_first_list_are_right_in_the_end() -> None:
    host = Host()
    client, count = host.connect(), 3_000

    async def main() -> None:
        for number in range(count):
            host.register(f"g@@{number}")
        asked = asyncio.create_task(client.watch())
        for number in range(count):
            if number % 3 == 0:
                host.deregister(f"g@@{number}")
            if number % 5 == 0:
                host.register(f"h@@{number}")
            if number % 50 == 0:
                client.read()
                await asyncio.sleep(0)
        assert (await asked)["success"]
        await client.settle_first()
        there = {f"g@@{number}" for number in range(count) if number % 3}
        await client.settle(keys(*there, *(f"h@@{number}" for number in range(0, count, 5))))

    run(host, main)


def test_a_client_that_reads_nothing_is_bounded_and_gets_the_rest_later() -> None:
    host = Host()
    client, other = host.connect(5), host.connect(6)

    async def main() -> None:
        await client.watch()
        await other.watch()
        await client.settle_first()
        await other.settle_first()
        for number in range(200):
            host.register(f"g@@{number}")
        await other.settle(keys(*(f"g@@{number}" for number in range(200))))
        assert len(client.connection.controls) < CONTROLS_MAX
        await client.settle(other.known)

    run(host, main)


def test_nothing_is_sent_while_the_node_may_be_behind() -> None:
    host = Host()
    client = host.connect()

    async def main() -> None:
        await client.watch()
        await client.settle_first()
        host.waits = True
        host.register("g@@a")
        await turns()
        assert not client.read()
        host.waits = False
        await client.settle(keys("g@@a"))

    run(host, main)


def test_a_client_that_went_while_its_request_was_answered_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzy_pusher, "SLICE_S", 0.0)
    host = Host()
    client = host.connect()

    async def main() -> None:
        for number in range(200):
            host.register(f"g@@{number}")
        asked = asyncio.create_task(client.watch())
        await asyncio.sleep(0)
        assert not asked.done()
        host.dispatcher.ended(client.connection)
        assert (await asked)["success"]
        assert (host.watches.namespaces, host.watches.queued, host.watches.watch_count()) == ({}, 0, 0)

    run(host, main)


def test_a_user_watches_what_they_may_read_whatever_namespace_the_request_names() -> None:
    node = node_with_users()
    add_user(node, "bob", ("dev:shop:*", "r"))
    host = Host(node)
    host.headers = {"accessToken": token_of(node, "bob")}
    client = host.connect()

    async def main() -> None:
        assert (await client.watch("dev>>shop>>a*"))["success"]
        for pattern in ("dev>>*>>*", "public>>shop>>*", "dev>>shop*>>*", "dev>>*shop>>x"):
            answer = await client.watch(pattern, namespace="dev")
            assert (answer["errorCode"], answer["success"]) == (403, False), pattern
        assert [one.text for one in host.watches.patterns_of(client.connection.id)] == ["dev>>shop>>a*"]
        host.headers = {}
        assert (await client.watch("dev>>shop>>a*"))["errorCode"] == 403

    run(host, main)
