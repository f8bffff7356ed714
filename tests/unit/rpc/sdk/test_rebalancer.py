"""Clients over all members: who carries what, who sends some to whom, and what members ask each other for that."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auth.member_calls import Callers
from app.naming.model.nacos_errors import InvalidParam
from app.peers import payload as wire
from app.rpc.sdk.balance import MemberLoad, Move, count_to_keep, moves, parse_load, summary
from app.rpc.sdk.rebalancer import Rebalancer
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.dispatcher import Dispatcher
from app.rpc.server.limits import LimitWatch
from distro.model.types import Member, MemberState
from tests.support.fake_node import SELF, StubCluster

A, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"


def loads(**counts: int) -> list[MemberLoad]:
    """Members by name with so many clients of SDKs."""
    return [MemberLoad(name, count + 1, count, "0.5", "0.1") for name, count in counts.items()]


class TestArithmetic:
    def test_the_summary(self) -> None:
        told = summary(loads(a=10, b=3, c=4), 4)
        assert told == {
            "detail": [
                {"address": name, "metric": {"conCount": con, "sdkConCount": sdk, "load": "0.5", "cpu": "0.1"}}
                for name, con, sdk in (("a", "11", "10"), ("b", "4", "3"), ("c", "5", "4"))
            ],
            "memberCount": 4,
            "metricsCount": 3,
            "completed": False,
            "max": 10,
            "min": 3,
            "avg": 5,
            "threshold": pytest.approx(5.5),
            "total": 17,
        }
        assert summary(loads(a=0), 1)["completed"] is True

    def test_the_fullest_sheds_to_the_emptiest(self) -> None:
        """The average is 50: with a tenth more or less nobody is asked."""
        spread = loads(a=90, b=70, c=50, d=30, e=10)
        assert moves(spread, 0.1) == [Move("a", "e", 55), Move("b", "d", 55)]
        assert moves(spread, 0.5) == [Move("a", "e", 75)]
        assert moves(spread, 0.9) == []
        assert moves(loads(a=55, b=50, c=45), 0.1) == []
        assert moves(loads(a=56, b=50, c=44), 0.1) == [Move("a", "c", 55)]

    def test_nobody_sheds_without_somebody_to_shed_to(self) -> None:
        assert moves(loads(a=100, b=90, c=90, d=90), 0.05) == []
        assert moves(loads(a=7), 0.1) == []
        assert moves([], 0.1) == []
        assert moves(loads(a=0, b=0), 0.1) == []

    def test_members_with_as_many_are_taken_in_order_of_their_addresses(self) -> None:
        assert moves(loads(b=90, a=90, d=0, c=0), 0.1) == [Move("a", "c", 49), Move("b", "d", 49)]

    @pytest.mark.parametrize(
        ("clients", "wanted", "kept"),
        [(100, 10, 90), (100, 95, 95), (100, 0, 90), (9, 0, 8), (2, 0, 1), (1, 0, 0), (0, 0, 0)],
    )
    def test_not_more_than_a_tenth_goes_at_a_time(self, clients: int, wanted: int, kept: int) -> None:
        assert count_to_keep(clients, wanted) == kept

    def test_what_a_member_tells_of_itself(self) -> None:
        [one] = loads(a=10)
        assert parse_load("a", {"resultCode": 200, "loaderMetrics": one.fields()}) == one
        assert parse_load("a", {"resultCode": 200, "loaderMetrics": {"conCount": 1, "sdkConCount": "2"}}) == (
            MemberLoad("a", 1, 2, "", "")
        )

    @pytest.mark.parametrize(
        "answer",
        [
            {},
            {"resultCode": 500, "loaderMetrics": {"conCount": "1", "sdkConCount": "2"}},
            {"resultCode": 200},
            {"resultCode": 200, "loaderMetrics": []},
            {"resultCode": 200, "loaderMetrics": {"conCount": "1"}},
            {"resultCode": 200, "loaderMetrics": {"conCount": "1", "sdkConCount": "-2"}},
            {"resultCode": 200, "loaderMetrics": {"conCount": "1", "sdkConCount": "1" * 10}},
            {"resultCode": 200, "loaderMetrics": {"conCount": 1.5, "sdkConCount": "1"}},
        ],
    )
    def test_what_is_of_no_use_counts_as_no_answer(self, answer: dict[str, Any]) -> None:
        assert parse_load("a", answer) is None


@dataclass
class FakeCalls:
    """Other members, by address: how many clients each has, or how it fails."""

    clients: dict[str, int] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)
    request: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    asked_at_once: list[set[str]] = field(default_factory=list)

    def call_all(
        self, type_name: str, requests: Mapping[str, Mapping[str, Any]], timeout_ms: int
    ) -> dict[str, dict[str, Any]]:
        assert timeout_ms > 0
        self.asked_at_once.append(set(requests))
        self.request += [(peer, type_name, fields) for peer, fields in requests.items()]
        return {peer: self.answer(peer, type_name) for peer in requests if peer in self.clients.keys() - self.refuses}

    def answer(self, peer: str, type_name: str) -> dict[str, Any]:
        if type_name == "ServerReloadRequest":
            return {"resultCode": 200, "message": "ok"}
        count = str(self.clients[peer])
        return {"resultCode": 200, "loaderMetrics": {"conCount": count, "sdkConCount": count, "load": "", "cpu": ""}}

    def reloads(self) -> list[tuple[str, Any, Any]]:
        return [
            (peer, fields["reloadCount"], fields["reloadServer"])
            for peer, type_name, fields in self.request
            if type_name == "ServerReloadRequest"
        ]


@dataclass
class Around:
    """What the node gives to the loader."""

    cluster: StubCluster
    links: FakeCalls | None

    def counters(self) -> Mapping[str, int | float]:
        return {"cpu": 0.25, "load": 1.5, "mem": 0.5}

    def wall_ms(self) -> int:
        return 5_000


class OwnMember:
    """This node with its connections; what it sends away is noted."""

    def __init__(self, links: FakeCalls | None, others: tuple[Member, ...] = ()) -> None:
        self.cluster = StubCluster(listed={"10.0.0.2"}, others=list(others))
        self.connections = Connections(lambda: 5_000, lambda: 1_000)
        around: Any = Around(self.cluster, links)
        self.sent: list[tuple[str, tuple[str, int] | None]] = []
        self.loader = Rebalancer(
            self.connections, 9848, around, lambda: 1_000, lambda one: self.sent.append((one.id, one.redirect))
        )
        nobody: Any = None
        callers = Callers(None, "", lambda: 1_000, self.cluster)
        self.dispatcher = Dispatcher(self.connections, self.cluster, callers, nobody, LimitWatch(Path()), lambda: 1_000)
        self.dispatcher.add(self.loader.routes())

    def add_clients(self, count: int) -> None:
        for number in range(count):
            one = self.connections.opened(f"ipv4:10.9.0.1:{number}", False)
            one.opened_ms = number
            self.connections.register(one)

    def connect(self, peer: str, *, on_cluster_port: bool = True) -> Connection:
        connection = self.connections.opened(peer, on_cluster_port)
        body = orjson.dumps({"labels": {"source": "cluster"}})
        assert self.dispatcher.take(connection, wire.encode("ConnectionSetupRequest", body))
        return connection

    async def ask(self, connection: Connection, kind: str, **fields: Any) -> dict[str, Any]:
        answer = wire.decode(await self.dispatcher.answer(connection, wire.encode_json(kind, fields)))
        return answer.json() | {"@type": answer.type}


@contextmanager
def member(calls: FakeCalls | None, *others: Member) -> Iterator[OwnMember]:
    made = OwnMember(calls, others)
    try:
        yield made
    finally:
        made.loader.stop()


def up(address: str) -> Member:
    return Member(address, MemberState.UP)


class TestCluster:
    def test_all_members_are_asked_at_once_and_shown_in_order(self) -> None:
        calls = FakeCalls({A: 4, B: 6})
        with member(calls, up(B), up(A)) as node:
            node.add_clients(2)
            told = node.loader.cluster()
        assert calls.asked_at_once == [{A, B}]
        assert [one["address"] for one in told["detail"]] == [A, B, SELF]
        assert told["detail"][2]["metric"] == {"conCount": "2", "sdkConCount": "2", "load": "1.5", "cpu": "0.25"}
        assert (told["memberCount"], told["metricsCount"], told["completed"]) == (3, 3, True)
        assert (told["max"], told["min"], told["avg"], told["total"]) == (6, 2, 4, 12)

    def test_who_does_not_answer_is_missing(self) -> None:
        with member(FakeCalls({A: 4, B: 6}, refuses={B}), up(A), up(B)) as node:
            told = node.loader.cluster()
        assert [one["address"] for one in told["detail"]] == [A, SELF]
        assert (told["memberCount"], told["metricsCount"], told["completed"]) == (3, 2, False)

    def test_who_is_down_is_not_asked(self) -> None:
        calls = FakeCalls({A: 4, B: 6})
        with member(calls, up(A), Member(B, MemberState.DOWN)) as node:
            assert node.loader.cluster()["completed"] is False
        assert [peer for peer, _, _ in calls.request] == [A]

    @pytest.mark.parametrize("others", [(), (up(A),)])
    def test_without_a_way_to_others_there_is_this_node(self, others: tuple[Member, ...]) -> None:
        with member(None, *others) as node:
            told = node.loader.cluster()
            assert (told["metricsCount"], told["completed"]) == (1, not others)
            assert node.loader.smart_reload(0.1) is True


class TestRedirects:
    @pytest.mark.parametrize("redirect", [("10.6.6.6", 8848), ("10.0.0.1", 8849), ("evil.example", 80)])
    def test_clients_are_sent_to_listed_members_only(self, redirect: tuple[str, int]) -> None:
        async def main() -> None:
            with member(None, up(A)) as node:
                node.loader.start()
                node.add_clients(3)
                for ask in (
                    lambda: node.loader.reload_to(0, redirect),
                    lambda: node.loader.reload_client("x", redirect),
                ):
                    with pytest.raises(InvalidParam, match="is not the address of a listed member"):
                        ask()
                node.loader.reload_to(0, ("10.0.0.1", 8848))
                await asyncio.sleep(0)
                assert [where for _, where in node.sent] == [("10.0.0.1", 8848)] * 3
                node.cluster.others = []
                assert not node.loader.is_member(("10.0.0.1", 8848)), "it has left the list meanwhile"

        asyncio.run(main())


class TestSmartReload:
    def test_full_members_are_asked_to_shed(self) -> None:
        calls = FakeCalls({A: 100, B: 20, C: 90})
        with member(calls, up(A), up(B), up(C)) as node:
            assert node.loader.smart_reload(0.1) is True
        # The average is 52; this node has none, and is the emptiest.
        assert calls.reloads() == [(A, 57, SELF), (C, 57, B)]
        assert node.sent == []

    def test_this_node_sheds_its_latest_itself_a_tenth_at_a_time(self) -> None:
        async def main() -> None:
            calls = FakeCalls({A: 0})
            with member(calls, up(A)) as node:
                node.loader.start()
                node.add_clients(20)
                assert await asyncio.to_thread(node.loader.smart_reload, 0.1) is True
                await asyncio.sleep(0)
                where = {redirect for _, redirect in node.sent}
                assert where == {("10.0.0.1", 8848)}
                assert [name.rpartition("_")[2] for name, _ in node.sent] == ["18", "19"]
                assert calls.reloads() == []

        asyncio.run(main())

    def test_one_that_does_not_take_it_is_told(self) -> None:
        class Refusing(FakeCalls):
            def call_all(self, type_name: str, requests: Any, timeout_ms: int) -> dict[str, dict[str, Any]]:
                return {} if type_name == "ServerReloadRequest" else super().call_all(type_name, requests, timeout_ms)

        with member(Refusing({A: 100, B: 0}), up(A), up(B)) as node:
            assert node.loader.smart_reload(0.1) is False
            assert node.loader.smart_reload(5.0) is True, "there is nothing to ask for"


class TestMembersRequests:
    def test_a_member_is_told_what_there_is_to_carry(self) -> None:
        async def main() -> None:
            with member(None) as node:
                node.add_clients(3)
                answer = await node.ask(node.connect("ipv4:10.0.0.2:1"), "ServerLoaderInfoRequest")
                assert (answer["@type"], answer["resultCode"]) == ("ServerLoaderInfoResponse", 200)
                assert answer["loaderMetrics"] == {"conCount": "4", "sdkConCount": "3", "load": "1.5", "cpu": "0.25"}

        asyncio.run(main())

    def test_a_member_has_clients_sent_to_another(self) -> None:
        async def main() -> None:
            with member(None) as node:
                node.loader.start()
                node.add_clients(20)
                connection = node.connect("ipv4:10.0.0.2:1")
                node.cluster.others = [Member(B, MemberState.UP)]
                answer = await node.ask(connection, "ServerReloadRequest", reloadCount=20, reloadServer=B)
                assert (answer["@type"], answer["message"]) == ("ServerReloadResponse", "ignore")
                answer = await node.ask(connection, "ServerReloadRequest", reloadCount=5, reloadServer=B)
                assert (answer["message"], answer["success"]) == ("ok", True)
                await asyncio.sleep(0)
                assert [redirect for _, redirect in node.sent] == [("10.0.0.2", 8848)] * 2
                await node.ask(connection, "ServerReloadRequest", reloadCount=19)
                await asyncio.sleep(0)
                assert [redirect for _, redirect in node.sent[2:]] == [None]

        asyncio.run(main())

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"reloadCount": -1},
            {"reloadCount": 2**31},
            {"reloadCount": "x"},
            {"reloadCount": 1, "reloadServer": "a b"},
            {"reloadCount": 1, "reloadServer": "10.0.0.1:0"},
            {"reloadCount": 1, "reloadServer": 7},
            {"reloadCount": 1, "reloadServer": "10.6.6.6:8848"},
        ],
    )
    def test_what_is_wrong_is_refused_and_moves_nobody(self, fields: dict[str, Any]) -> None:
        async def main() -> None:
            with member(None) as node:
                node.loader.start()
                node.add_clients(20)
                answer = await node.ask(node.connect("ipv4:10.0.0.2:1"), "ServerReloadRequest", **fields)
                assert (answer["@type"], answer["errorCode"]) == ("ErrorResponse", 400)
                await asyncio.sleep(0)
                assert node.sent == []

        asyncio.run(main())

    @pytest.mark.parametrize("kind", ["ServerLoaderInfoRequest", "ServerReloadRequest"])
    @pytest.mark.parametrize(
        ("peer", "on_cluster_port", "code"),
        [("ipv4:10.0.0.2:1", False, 502), ("ipv4:10.7.7.7:1", True, 403)],
        ids=["the port of SDKs", "a stranger"],
    )
    def test_only_members_may_ask(self, kind: str, peer: str, on_cluster_port: bool, code: int) -> None:
        async def main() -> None:
            with member(None) as node:
                node.loader.start()
                node.add_clients(20)
                connection = node.connect(peer, on_cluster_port=on_cluster_port)
                assert (await node.ask(connection, kind, reloadCount=0))["errorCode"] == code
                await asyncio.sleep(0)
                assert node.sent == []

        asyncio.run(main())
