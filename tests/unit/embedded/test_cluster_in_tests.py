"""A cluster in the process of a test: replication, cuts, deaths and returns, in the members' own time."""

import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from app.testing import Cluster, UseError, WaitOver
from tests.support.sdk_client import SdkClient, run_client


@pytest.fixture
def three() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


def addresses(cluster: Cluster, service: str) -> list[list[str]]:
    return [[one.ip for one in member.instances(service)] for member in cluster if member.is_running]


def test_what_one_member_takes_all_members_have(three: Cluster) -> None:
    for number, member in enumerate(three):
        member.register(f"service-{number}", f"10.0.0.{number}")
    for number in range(3):
        assert [one.ip for one in three.wait_for_instances(f"service-{number}")] == [f"10.0.0.{number}"]
    three.clock.advance(31)
    assert three.wait_for_instances("service-0", 0) == []
    assert len(three) == 3


def test_both_sides_of_a_partition_go_on_and_agree_after_it(three: Cluster) -> None:
    three.partition(0)
    three.settle()
    three[0].register("alone", "10.0.0.1")
    three[1].register("together", "10.0.0.2")
    assert three[2].wait_for_instances("together")
    assert addresses(three, "alone") == [["10.0.0.1"], [], []]
    assert addresses(three, "together") == [[], ["10.0.0.2"], ["10.0.0.2"]]
    three.heal()
    three.settle()
    three[0].beat("alone", "10.0.0.1")
    three[1].beat("together", "10.0.0.2")
    three.wait_for_instances("alone")
    three.wait_for_instances("together")


def test_a_write_for_an_owner_behind_a_cut_is_refused_until_the_cut_is_known(three: Cluster) -> None:
    names = [f"service-{number}" for number in range(12)]
    three.partition(three[0], three.members[1:])
    refused = 0
    for name in names:
        try:
            three[0].register(name)
        except UseError:
            refused += 1
    assert refused, "of a dozen services the others own some"
    three.settle()
    for name in names:
        three[0].register(name)
        assert len(three[0].instances(name)) == 1


def test_a_killed_member_is_noticed_and_comes_back_with_what_the_others_have(three: Cluster) -> None:
    three[0].register("orders", "10.0.0.1")
    three.wait_for_instances("orders")
    address = three[1].address
    three.kill(1)
    three.settle()
    three[0].register("meanwhile", "10.0.0.2")
    three[0].beat("orders", "10.0.0.1")
    three.wait_for_instances("meanwhile")
    three[1].restart()
    three.settle()
    three[0].beat("orders", "10.0.0.1")
    three[0].beat("meanwhile", "10.0.0.2")
    assert three[1].address == address
    assert three[1].wait_for_instances("meanwhile")
    three.wait_for_instances("orders")


def test_a_member_that_restarts_behind_a_cut_stays_behind_it(three: Cluster) -> None:
    three.partition([2])
    three.settle()
    three[2].restart()
    three.settle()
    three[0].register("orders", "10.0.0.1")
    assert three[1].wait_for_instances("orders")
    assert three[2].instances("orders") == []
    three.heal()
    three.settle()
    three[0].beat("orders", "10.0.0.1")
    three.wait_for_instances("orders")


def test_a_member_that_stops_hands_over_what_it_has(three: Cluster) -> None:
    three[2].register("orders", "10.0.0.1")
    three[2].stop()
    three.settle()
    assert three.wait_for_instances("orders")
    assert addresses(three, "orders") == [["10.0.0.1"], ["10.0.0.1"]]


def test_a_grpc_client_is_seen_at_all_members_and_a_cut_hides_its_news(three: Cluster) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            near = await stack.enter_async_context(SdkClient(three[0].grpc_port))
            far = await stack.enter_async_context(SdkClient(three[2].grpc_port))
            await near.set_up()
            await far.set_up()
            await far.subscribe("orders")
            await near.register("orders", "10.0.0.1")
            await far.wait(lambda: [len(one["hosts"]) for one in far.pushes()][-1:] == [1])
            three.partition(2)
            three.settle()
            await near.register("carts", "10.0.0.2")
            assert three[1].wait_for_instances("carts")
            assert three[2].instances("carts") == []
            three.heal()
            three.settle()
            assert three[2].wait_for_instances("carts")

    run_client(main)


def test_misuse_is_told(three: Cluster) -> None:
    with pytest.raises(UseError, match="from 2 to 9 members"):
        Cluster(1)
    with pytest.raises(UseError, match="not a setting of a node"):
        Cluster(3, settings={"no.such": 1})
    with pytest.raises(UseError, match="in two groups"):
        three.partition([0, 1], [1])
    with pytest.raises(UseError, match="leave one out"):
        three.partition([0, 1, 2])
    with pytest.raises(UseError, match="3 is not a member"):
        three.kill(3)
    with pytest.raises(UseError, match="serves once"):
        three.__enter__()
    three[1].register("orders")
    three.kill(0)
    with pytest.raises(UseError, match="does not run"):
        three.kill(0)
    with pytest.raises(WaitOver, match="5 instances of orders at each member"):
        three.wait_for_instances("orders", 5, timeout_s=0)
    three.kill(1)
    three.kill(2)
    with pytest.raises(UseError, match="no member runs"):
        three.wait_for_instances("orders")


def test_nothing_is_left_of_it() -> None:
    before = set(threading.enumerate())
    with Cluster(2, settings={"rollcall.rpc.enabled": False}) as cluster:
        cluster[1].register("orders")
        cluster.partition(0)
    assert not [one for one in set(threading.enumerate()) - before if not one.daemon]
