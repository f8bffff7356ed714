"""A link to a real Nacos: what one side registers, clients of the other see; and what a link leaves behind."""

import json
import threading
import time
from collections.abc import Iterator

import pytest

from app.testing import Cluster
from app.tools.embedded.embedded_node import EmbeddedNode
from tests.peers.conftest import skip_without_tools
from tests.peers.real_members import RealMember
from tests.peers.test_real_nacos_2 import listed, register, sdk_of
from tests.support.client import Client
from tests.support.processes import eventually, free_ports
from tests.support.sdk_client import run_client

SEEN_S = 60.0
ORIGIN = "rollcall.origin"


@pytest.fixture(scope="module", params=["2", "3"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A real Nacos 2.3.1 alone, and a 3.0.3."""
    skip_without_tools()
    [port] = free_ports(1)
    member = RealMember(request.param, port, tmp_path_factory.mktemp("linked") / f"real-{port}", [f"127.0.0.1:{port}"])
    try:
        member.begin()
        member.wait()
        yield member.client
    finally:
        member.stop()


def linked_with(real: Client, direction: str) -> dict[str, str]:
    values = {"servers": real.address, "kind": "nacos", "direction": direction}
    return {"rollcall.cluster.id": "dc-a"} | {f"rollcall.link.old.{name}": value for name, value in values.items()}


@pytest.fixture
def here(real: Client) -> Iterator[Cluster]:
    """A cluster of three with a link to it."""
    with Cluster(3, settings=linked_with(real, "both")) as cluster:
        yield cluster


def link_of(member: EmbeddedNode) -> dict[str, object]:
    [told] = json.loads(member.call("GET", "/v1/ns/link/list", local="true"))["members"]
    [link] = told["links"]
    return dict(link)


def seen(member: EmbeddedNode, service: str) -> set[str]:
    return {one.ip for one in member.instances(service)}


def labels(client: Client, service: str) -> list[str | None]:
    """The origins of a service's instances, as the real Nacos lists them."""
    hosts = client.call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"]
    return [one["metadata"].get(ORIGIN) for one in hosts]


def test_each_side_sees_what_the_other_registers_and_removes(real: Client, here: Cluster) -> None:
    names = [f"there-{number}" for number in range(6)]

    async def main() -> None:
        async with sdk_of(real) as sdk:
            await sdk.set_up()
            for name in names:
                await register(sdk, name, "10.1.0.1", weight=2.0, metadata={"zone": "b"})
            begun_s = time.monotonic()
            for member in here:
                for name in names:
                    eventually(lambda member=member, name=name: seen(member, name) == {"10.1.0.1"}, SEEN_S)
            print(f"there to here, new services: {time.monotonic() - begun_s:.2f} s")
            [one] = here[0].instances(names[0])
            assert (one.weight, one.metadata["zone"], one.metadata[ORIGIN]) == (2.0, "b", "nacos:old")
            begun_s = time.monotonic()
            here[0].register("here-1", "10.2.0.1", 80, metadata={"zone": "a"})
            eventually(lambda: listed(real, "here-1") == {"10.2.0.1:80"}, SEEN_S)
            print(f"here to there: {time.monotonic() - begun_s:.2f} s")
            assert labels(real, "here-1") == ["dc-a"]
            here[1].register("here-1", "10.2.0.2", 80)
            eventually(lambda: listed(real, "here-1") == {"10.2.0.1:80", "10.2.0.2:80"}, SEEN_S)
            here[2].deregister("here-1", "10.2.0.1", 80)
            eventually(lambda: listed(real, "here-1") == {"10.2.0.2:80"}, SEEN_S)
            assert [one.metadata for one in here[0].instances("here-1")] == [{}], "it came back"
        for member in here:  # the client of the other side is gone
            for name in names:
                eventually(lambda member=member, name=name: not seen(member, name), SEEN_S)

    run_client(main)
    here[1].deregister("here-1", "10.2.0.2", 80)
    eventually(lambda: listed(real, "here-1") == set(), SEEN_S)


def test_an_address_that_is_registered_at_both_sides_is_one(real: Client, here: Cluster) -> None:
    async def main() -> None:
        async with sdk_of(real) as sdk:
            await sdk.set_up()
            await register(sdk, "both", "10.3.0.1")
            here[0].register("both", "10.3.0.1", 80)
            here[0].register("both", "10.3.0.2", 80)
            eventually(lambda: sorted(map(str, labels(real, "both"))) == ["None", "dc-a"], SEEN_S)
            assert {one.ip for one in here[1].instances("both")} == {"10.3.0.1", "10.3.0.2"}
        eventually(lambda: labels(real, "both") == ["dc-a", "dc-a"], SEEN_S)

    run_client(main)


def test_nothing_is_missing_when_a_member_that_carries_is_killed(real: Client, here: Cluster) -> None:
    names = [f"carried-{number}" for number in range(6)]
    for name in names:
        here[0].register(name, "10.4.0.1", 80, ephemeral=False)
        eventually(lambda name=name: listed(real, name) == {"10.4.0.1:80"}, SEEN_S)
    eventually(lambda: sum(int(str(link_of(one)["sentInstances"])) for one in here) == 2 * len(names), SEEN_S)
    over, missing, looks = threading.Event(), list[str](), 0

    def look() -> None:
        nonlocal looks
        while not over.is_set():
            missing.extend(name for name in names if listed(real, name) != {"10.4.0.1:80"})
            looks += 1

    looking = threading.Thread(target=look)
    looking.start()
    try:
        here.kill(2)
        here.settle()
        survivors = [here[0], here[1]]
        eventually(lambda: [link_of(one)["part"] for one in survivors] == ["1/2", "2/2"], SEEN_S)
        eventually(lambda: [link_of(one)["sentServices"] for one in survivors] == [len(names)] * 2, SEEN_S)
    finally:
        over.set()
        looking.join()
    print(f"{looks} observations of {len(names)} services, {len(missing)} without their instance")
    assert missing == []


def test_nothing_is_left_when_a_link_ends(real: Client) -> None:
    with Cluster(2, settings=linked_with(real, "out")) as here:
        for number in range(3):
            here[0].register(f"left-{number}", "10.5.0.1", 80)
            eventually(lambda number=number: listed(real, f"left-{number}") == {"10.5.0.1:80"}, SEEN_S)
        assert link_of(here[0])["services"] == 0
    for number in range(3):
        eventually(lambda number=number: listed(real, f"left-{number}") == set(), SEEN_S)
