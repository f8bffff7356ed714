"""Clients that ask for large lists and do not read them: memory stays within a bound, and others are served."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scripts.chaos.unread_answers import ATTACKS, ClusteredFleet, attacked
from scripts.support.bulk_register import register_all
from scripts.support.grpc_clients import SDK_OFFSET
from tests.support.client import CODE_OK
from tests.support.processes import Member, eventually, free_ports
from tests.support.sdk_client import SdkClient, run_client

LARGE = ClusteredFleet(1, 5_000)
"""A list of it has 2 MB: without a bound the attacks take 0.4 to 3 GB."""
LARGE_NAME = LARGE.name(0)
GROWN_MB_MAX = 100
BUDGET_MB = 16
BESIDE_S = 2.0
GIVEN_BACK_S = 60.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    folder: Path = tmp_path_factory.mktemp("unread")
    [port] = free_ports(1)
    settings = {"rollcall.announce": "false", "rollcall.limit.answersMb": str(BUDGET_MB)}
    member = Member(port, folder / "node", settings)
    try:
        member.start()
        member.wait_ready()
        register_all(LARGE, lambda _: member.address, 1)
        assert member.client.register("short", "10.0.0.1").status == 200
        assert len(member.client.hosts(LARGE_NAME)) == LARGE.hosts
        yield member
        member.stop()
    finally:
        member.end()
    assert "Traceback" not in member.log_text(), member.log_text()[-6_000:]


def rss_mb(node: Member) -> float:
    return float(psutil.Process(node.worker.pid).memory_info().rss) / (1 << 20)


async def _ask_over_grpc(node: Member) -> None:
    async with SdkClient(int(node.address.rpartition(":")[2]) + SDK_OFFSET) as client:
        await client.set_up()
        answer = await client.call("ServiceQueryRequest", serviceName="short", groupName="DEFAULT_GROUP")
        assert [one["ip"] for one in answer["serviceInfo"]["hosts"]] == ["10.0.0.1"]


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_not_read_takes_little_and_others_are_served(node: Member, name: str) -> None:
    attack, connections = ATTACKS[name]
    before_mb, large = rss_mb(node), Counter[int]()
    end_s = time.monotonic() + BESIDE_S
    with attacked(attack, node.address, LARGE_NAME, connections):
        while time.monotonic() < end_s:
            assert list(node.client.hosts("short")) == ["10.0.0.1:8080"]
            assert node.client.beat("short", "10.0.0.1").json()["code"] == CODE_OK
            large[node.client.call("GET", "/v1/ns/instance/list", serviceName=LARGE_NAME).status] += 1
            run_client(lambda: _ask_over_grpc(node))
            metrics = node.client.metrics()
            assert metrics["answersBytes"] < 2 * metrics["answersBoundBytes"] == 2 * BUDGET_MB << 20
            assert rss_mb(node) - before_mb < GROWN_MB_MAX
    assert set(large) <= {200, 429}
    eventually(lambda: node.client.metrics()["answersBytes"] == 0, GIVEN_BACK_S)
    eventually(
        lambda: node.client.call("GET", "/v1/ns/instance/list", serviceName=LARGE_NAME).status == 200, GIVEN_BACK_S
    )


def test_who_stays_and_reads_nothing_makes_room_in_time(node: Member) -> None:
    attack, connections = ATTACKS["silent readers"]
    with attacked(attack, node.address, LARGE_NAME, connections):
        eventually(lambda: node.client.metrics()["limitAnswersMb"] > 0, GIVEN_BACK_S)
        eventually(lambda: node.client.metrics()["answersBytes"] == 0, GIVEN_BACK_S)
        assert len(node.client.hosts(LARGE_NAME)) == LARGE.hosts
