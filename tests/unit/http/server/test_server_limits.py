"""Limits over HTTP: connections and writes of one address, what they answer, and who they leave alone."""

import pytest

from tests.support.fake_node import PEER, SELF, FakeNode, StubCluster, make_settings
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.served import served
from tests.support.wire import replies_of, request

REGISTER = "/nacos/v1/ns/instance?serviceName=a&ip=10.0.0.1&port=80"
BEAT = "/nacos/v1/ns/instance/beat?serviceName=a&ip=10.0.0.1&port=80"
FULL_BEAT = "/nacos/v1/ns/instance/beat?serviceName=a&beat=%7B%22ip%22%3A%2210.0.0.{0}%22%2C%22port%22%3A80%7D"
LIST = "/nacos/v1/ns/instance/list?serviceName=a"
PEER_AGENT = "User-Agent: Nacos-Server:1.4.8"
CLIENT, OTHER = "10.7.0.1", "10.7.0.2"
BURST = 5


def limited(**limits: int) -> FakeNode:
    return FakeNode(settings=make_settings(**{f"rollcall_limit_{name}": str(value) for name, value in limits.items()}))


def slow() -> FakeNode:
    """A write per second, five at once."""
    return limited(writesPerSecondPerAddress=1)


class TestConnections:
    def test_an_address_has_so_many_and_is_told_so(self) -> None:
        async def main(_: SkippingLoop) -> None:
            node = limited(connectionsPerAddress=2)
            with served(node) as one:
                first, second = one.connect(CLIENT), one.connect(CLIENT)
                refused = one.connect(CLIENT)
                [reply] = replies_of(refused.received)
                assert (reply.status, reply.headers["retry-after"]) == (429, "5")
                assert reply.headers["connection"] == "close"
                assert reply.body == (b"refused by rollcall.limit.connectionsPerAddress=2: your address has as many")
                assert refused.transport.closing
                other = one.connect(OTHER)
                for wire in (first, second, other):
                    wire.send(request(LIST))
                    assert wire.statuses() == [200]
                assert (node.http.connections, node.http.connections_refused) == (3, 1)
                assert node.limits.stats.connections_per_address == 1
                assert node.refusals.age_ms() == 0, "the client may have had beats"

        run_loop(main)

    def test_a_connection_that_ends_makes_room(self) -> None:
        async def main(_: SkippingLoop) -> None:
            node = limited(connectionsPerAddress=1)
            with served(node) as one:
                for _turn in range(3):
                    wire = one.connect(CLIENT)
                    wire.send(request(LIST, "GET", b"", "Connection: close"))
                    await until(lambda wire=wire: wire.transport.closing)
                    wire.transport.turn()
                    assert wire.statuses() == [200]
                assert len(node.addresses) == 0

        run_loop(main)

    def test_members_are_not_limited_but_in_a_cluster_of_one(self) -> None:
        async def main(_: SkippingLoop) -> None:
            for standalone, refused in ((True, 1), (False, 0)):
                settings = make_settings(
                    rollcall_limit_connectionsPerAddress="1",
                    nacos_standalone=str(standalone).lower(),
                    nacos_member_list=f"{SELF},{PEER}",
                )
                node = FakeNode(settings=settings, cluster=StubCluster(listed={CLIENT}))
                with served(node) as one:
                    one.connect(CLIENT)
                    one.connect(CLIENT)
                    assert node.http.connections_refused == refused

        run_loop(main)


class TestWrites:
    def test_a_flood_is_refused_while_beats_reads_and_others_go_on(self) -> None:
        async def main(_: SkippingLoop) -> None:
            node = slow()
            with served(node) as one:
                flood, other = one.connect(CLIENT), one.connect(OTHER)
                flood.send(request(REGISTER, "POST") * (BURST + 2))
                assert flood.statuses() == [200] * BURST + [429] * 2
                reply = replies_of(flood.received)[-1]
                assert reply.headers["retry-after"] == "1"
                assert reply.body.startswith(b"refused by rollcall.limit.writesPerSecondPerAddress=1: ")
                flood.send(request(BEAT, "PUT") * 20 + request(LIST) * 20)
                assert flood.statuses()[BURST + 2 :] == [200] * 40
                other.send(request(REGISTER, "POST"))
                assert other.statuses() == [200]
                node.now_ms += 2_000
                flood.send(request(REGISTER, "DELETE") * 3)
                assert flood.statuses()[-3:] == [200, 200, 429]
                assert node.limits.stats.writes_per_second_per_address == 3

        run_loop(main)

    @pytest.mark.parametrize(
        ("method", "target"),
        [
            ("POST", REGISTER + "&ephemeral=false"),
            ("POST", "/nacos/v1/ns/%69nstance?serviceName=a&ip=10.0.0.1&port=80"),
            ("POST", "/nacos/v1/ns/service?serviceName=b{0}"),
            ("PUT", "/nacos/v1/ns/operator/switches?entry=pushEnabled&value=true"),
            ("POST", "/nacos/v2/ns/instance?serviceName=a&ip=10.0.0.1&port=80"),
        ],
    )
    def test_calls_of_the_pool_count_once_each_and_escapes_help_nobody(self, method: str, target: str) -> None:
        async def main(_: SkippingLoop) -> None:
            with served(slow()) as one:
                wire = one.connect(CLIENT)
                wire.send(b"".join(request(target.format(number), method) for number in range(BURST + 1)))
                await until(lambda: wire.received.count(b"HTTP/1.1 ") == BURST + 1)
                assert wire.statuses() == [200] * BURST + [429]

        run_loop(main)

    def test_a_beat_that_registers_counts_and_one_of_a_known_instance_does_not(self) -> None:
        async def main(_: SkippingLoop) -> None:
            with served(slow()) as one:
                wire = one.connect(CLIENT)
                wire.send(b"".join(request(FULL_BEAT.format(number), "PUT") for number in range(BURST + 1)))
                assert wire.statuses() == [200] * BURST + [429]
                wire.send(b"".join(request(FULL_BEAT.format(number), "PUT") for number in range(BURST)))
                assert wire.statuses()[BURST + 1 :] == [200] * BURST

        run_loop(main)

    def test_what_a_member_passes_on_was_counted_there(self) -> None:
        async def main(_: SkippingLoop) -> None:
            settings = make_settings(
                rollcall_limit_writesPerSecondPerAddress="1",
                nacos_standalone="false",
                nacos_member_list=f"{SELF},{PEER}",
            )
            node = FakeNode(settings=settings, cluster=StubCluster(standalone=False, listed={CLIENT}))
            with served(node) as one:
                member, forger = one.connect(CLIENT), one.connect(OTHER)
                for wire in (member, forger):
                    wire.send(request(REGISTER, "POST", b"", PEER_AGENT) * (BURST + 1))
                assert member.statuses() == [200] * (BURST + 1)
                assert forger.statuses()[BURST:] == [403], "an agent string alone makes nobody a member"
                client = one.connect(CLIENT)
                client.send(request(REGISTER, "POST") * (BURST + 1))
                assert client.statuses() == [200] * BURST + [429], "a client at a member's address"

        run_loop(main)

    def test_a_write_is_counted_at_the_first_member(self) -> None:
        async def main(_: SkippingLoop) -> None:
            node = slow()
            node.cluster.owner = PEER
            node.cluster.hops = {PEER: None}  # nobody takes the calls: they wait
            with served(node) as one:
                wires = [one.connect(CLIENT) for _ in range(BURST + 1)]
                for wire in wires:
                    wire.send(request(REGISTER, "POST"))
                assert [wire.statuses() for wire in wires] == [[]] * BURST + [[429]]

        run_loop(main)


class TestAnswers:
    @pytest.mark.parametrize(
        ("target", "shape"),
        [
            (REGISTER, b"refused by rollcall.limit.servicesPerNamespace=1: "),
            (
                "/nacos/v2/ns/instance?serviceName=a&ip=10.0.0.1&port=80",
                b'{"code":30000,"message":"server error","data":"refused by rollcall.limit.servicesPerNamespace=1: ',
            ),
            (REGISTER + "&ephemeral=false", b"refused by rollcall.limit.servicesPerNamespace=1: "),
        ],
    )
    def test_a_limit_of_what_is_held_answers_413(self, target: str, shape: bytes) -> None:
        async def main(_: SkippingLoop) -> None:
            with served(limited(servicesPerNamespace=1)) as one:
                wire = one.connect(CLIENT)
                wire.send(request(REGISTER.replace("=a&", "=first&"), "POST") + request(target, "POST"))
                await until(lambda: wire.received.count(b"HTTP/1.1 ") == 2)
                reply = replies_of(wire.received)[1]
                assert reply.status == 413
                assert reply.body.startswith(shape)

        run_loop(main)
