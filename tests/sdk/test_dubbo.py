"""Dubbo 3.3 with its Nacos registry over gRPC: the names of an interface inside a class, and calls through them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.environments import JAVA_2_SDK, NotInstallable, install_dubbo, install_java
from tests.sdk.program import Program
from tests.sdk.stories import running_cluster
from tests.support.processes import DIRECT_S, NO_VERIFY, ClusterProcesses, Member, eventually, free_ports
from tests.support.sdk_client import SdkClient

PROVIDERS, CONSUMERS = "providers:com.foo.Outer___Inner:1.0.0:", "consumers:com.foo.Outer___Inner:1.0.0:"
"""Dubbo 3.3 writes the dollar sign of an inner class as three underscores (NacosNamingServiceWrapper of 3.3.6)."""
ANY_GROUP = "consumers:Greeter:1.0:*"
"""A consumer of every group finds its providers in the list of services; Dubbo finds no inner interface there."""
DOLLAR_NAMES = ("providers:com.foo.Outer$Inner:1.0.0:", "consumers:com.foo.Outer$Inner:1.0.0:*")
"""Other clients that follow Dubbo's convention keep the dollar sign."""
GROUP = "DEFAULT_GROUP"
RECONNECT_S = 60.0
"""The client notices a member's end after some seconds, and then takes another member."""
GREETING = "hello you"

# With the installation of the library, which is only once, and the start of two Java machines.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with running_cluster(tmp_path_factory.mktemp("dubbo"), NO_VERIFY) as members:
        yield members


@contextmanager
def started(
    cluster: ClusterProcesses, folder: Path, version: str, group: str | None, *, nested: bool
) -> Iterator[tuple[Program, str]]:
    """Start a provider and a consumer; yield the consumer and the provider's address."""
    try:
        environment = install_dubbo()
    except NotInstallable as error:
        pytest.skip(str(error))
    known = {"servers": [member.address for member in cluster], "nested": nested, "version": version}
    with Program(environment, folder / "provider") as provider, Program(environment, folder / "consumer") as consumer:
        (port,) = free_ports(1)
        address = provider.call("provide", "provider", port=port, **known)
        more = {} if group is None else {"group": group}
        consumer.call("refer", "consumer", registerConsumer=True, **known, **more)
        yield consumer, address


def hosts_of(member: Member, service: str) -> dict[str, list[dict[str, Any]]]:
    """The instances of a service at a member, by the line of the API."""
    call = member.client.call
    return {
        "v1": call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"],
        "v2": call("GET", "/v2/ns/instance/list", serviceName=service).json()["data"]["hosts"],
        "v3": call("GET", "/v3/client/ns/instance/list", serviceName=service).json()["data"],
        "grpc": asyncio.run(query(rpc_port(member), service))["serviceInfo"]["hosts"],
    }


def names_at(member: Member) -> dict[str, set[str]]:
    """The names of all services of the group at a member, by the line of the API."""
    call = member.client.call
    page: dict[str, Any] = {"pageNo": 1, "pageSize": 100}
    v3 = call("GET", "/v3/admin/ns/service/list", **page).json()["data"]["pageItems"]
    return {
        "v1": set(call("GET", "/v1/ns/service/list", **page).json()["doms"]),
        "v2": set(call("GET", "/v2/ns/service/list", **page).json()["data"]["services"]),
        "v3": {one["name"] for one in v3 if one["groupName"] == GROUP},
        "grpc": set(asyncio.run(listing(rpc_port(member)))["serviceNames"]),
    }


def rpc_port(member: Member) -> int:
    return int(member.address.rpartition(":")[2]) + 1_000


async def query(port: int, service: str) -> dict[str, Any]:
    async with SdkClient(port) as client:
        await client.set_up()
        fields = {"namespace": "public", "groupName": GROUP, "serviceName": service}
        return await client.call("ServiceQueryRequest", **fields, cluster="", healthyOnly=False, udpPort=0)


async def listing(port: int) -> dict[str, Any]:
    async with SdkClient(port) as client:
        await client.set_up()
        return await client.call("ServiceListRequest", namespace="public", groupName=GROUP, pageNo=1, pageSize=100)


def publisher_home(cluster: ClusterProcesses, service: str) -> Member | None:
    """The member to which the publisher of a service is connected, and None while it has no connection."""
    path = "/v2/ns/client/service/publisher/list"
    for asked in cluster:
        with suppress(OSError):
            published = asked.client.call("GET", path, serviceName=service).json()["data"]
            clients = {one["clientId"] for one in published}
            for member in cluster:
                with suppress(OSError):
                    if clients & member.client.call("GET", "/v2/core/loader/current").json().keys():
                        return member
            return None
    return None


def is_greeted(consumer: Program) -> bool:
    """Call the provider.

    Raises:
        SdkError: the consumer knows no provider yet.
    """
    return bool(consumer.call("call", "consumer") == GREETING)


def all_name(cluster: ClusterProcesses, *wanted: str) -> None:
    """Return when every member lists these services over every API."""
    for member in cluster:

        def are_listed(member: Member = member) -> bool:
            listed = names_at(member)
            assert all(set(wanted) <= names for names in listed.values()), listed
            return True

        eventually(are_listed, DIRECT_S)


def test_an_inner_interface_is_listed_everywhere_and_called_while_a_member_dies(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    with started(cluster, tmp_path, "1.0.0", None, nested=True) as (consumer, address):
        all_name(cluster, PROVIDERS, CONSUMERS)
        for member in cluster:
            for name, category in ((PROVIDERS, "providers"), (CONSUMERS, "consumers")):
                for line, (one,) in hosts_of(member, name).items():
                    metadata = one["metadata"]
                    found = metadata["category"], metadata["interface"], one["healthy"]
                    assert found == (category, "com.foo.Outer$Inner", True), (member, line)
        eventually(lambda: is_greeted(consumer), DIRECT_S)
        home = eventually(lambda: publisher_home(cluster, PROVIDERS), DIRECT_S)
        assert home is not None
        home.kill_all()
        # The consumer keeps the provider's address: its calls do not pass the registry.
        assert is_greeted(consumer)
        left = cluster.others(home)
        eventually(lambda: publisher_home(cluster, PROVIDERS) in left, RECONNECT_S)
        eventually(lambda: all(listed(member) == {address} for member in left), RECONNECT_S)
        assert is_greeted(consumer)
        home.restart()
        eventually(lambda: all(map(cluster.all_up, cluster)))
        eventually(lambda: listed(home) == {address}, RECONNECT_S)
        assert is_greeted(consumer)


def test_a_consumer_of_every_group_finds_the_provider_by_the_list_of_services(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    with started(cluster, tmp_path, "1.0", "*", nested=False) as (consumer, _):
        all_name(cluster, "providers:Greeter:1.0:", ANY_GROUP)
        for member in cluster:
            for line, (one,) in hosts_of(member, ANY_GROUP).items():
                assert one["metadata"]["group"] == "*", (member, line)
        eventually(lambda: is_greeted(consumer), DIRECT_S)


def test_the_client_of_dubbo_registers_names_with_a_dollar_sign(cluster: ClusterProcesses, tmp_path: Path) -> None:
    try:
        environment = install_java(JAVA_2_SDK)
    except NotInstallable as error:
        pytest.skip(str(error))
    with Program(environment, tmp_path / "java") as program:
        program.open("dollar", cluster.members[0])
        instance = {"ip": "10.9.0.1", "port": 20880, "cluster": "DEFAULT", "weight": 1.0, "metadata": {}}
        for name in DOLLAR_NAMES:
            assert program.call("register", "dollar", service=name, **instance)
        all_name(cluster, *DOLLAR_NAMES)
        for member in cluster:
            for name in DOLLAR_NAMES:
                for line, hosts in hosts_of(member, name).items():
                    assert [(one["ip"], one["port"]) for one in hosts] == [("10.9.0.1", 20880)], (member, line)


def listed(member: Member) -> set[str]:
    hosts = member.client.call("GET", "/v1/ns/instance/list", serviceName=PROVIDERS).json()["hosts"]
    return {f"{one['ip']}:{one['port']}" for one in hosts}
