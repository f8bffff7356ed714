"""Client libraries, unchanged, with members that ask for users: they log in, work, and are refused without a right.

And with members that ask for none: a library that has a user configured works all the same.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.sdk.conftest import Environments
from tests.sdk.environments import Environment, NotInstallable
from tests.sdk.program import Program, SdkError
from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, PASSWORD, UserClient, make_first_admin
from tests.support.processes import ClusterProcesses, eventually

PORT = 8080
DEV, PROD = "dev", "prod"
OVER_HTTP, OVER_GRPC = ("python", "node", "java", "go"), ("java", "java-3", "go", "python-2", "python-3")
LIBRARIES = [("http", name) for name in OVER_HTTP] + [("grpc", name) for name in OVER_GRPC]

# With the installation of a library, which is only once.
pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members, and a user who may read and write in ``dev`` and read in no other namespace."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("with-users"), 3, AUTH_ON)
    try:
        cluster.start()
        member = cluster.members[0]
        make_first_admin(member)
        boss = UserClient(member.address)
        eventually(lambda: boss.try_login(ADMIN, ADMIN_PASSWORD).status == 200)
        boss.log_in(ADMIN, ADMIN_PASSWORD)
        for path, parameters in (
            ("users", {"username": "shop", "password": PASSWORD}),
            ("roles", {"username": "shop", "role": "shop"}),
            ("permissions", {"role": "shop", "resource": f"{DEV}:*:*", "action": "rw"}),
        ):
            assert boss.ask("POST", f"/v1/auth/{path}", **parameters).status == 200
        for one in cluster:
            there = UserClient(one.address)
            eventually(lambda there=there: there.try_login("shop", PASSWORD).status == 200)
            there.log_in("shop", PASSWORD)
            eventually(lambda there=there: hosts(there, "none", DEV) == {})
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


@pytest.fixture(scope="module")
def without_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members that ask for no users."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("without-users"), 3, {})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def hosts(client: UserClient, service: str, namespace: str) -> dict[str, int]:
    """The addresses that a member lists for a service."""
    answer = client.ask("GET", "/v1/ns/instance/list", serviceName=service, namespaceId=namespace)
    assert answer.status == 200, answer
    return {f"{one['ip']}:{one['port']}": 1 for one in answer.json()["hosts"]}


@pytest.fixture(params=LIBRARIES, ids=lambda one: f"{one[1]} over {one[0]}")
def library(
    request: pytest.FixtureRequest, environments: Environments, grpc_environments: Environments
) -> tuple[str, Environment]:
    """One library after the other: its name among all, and its environment."""
    kind, name = request.param
    found = (environments if kind == "http" else grpc_environments)[name]
    if isinstance(found, NotInstallable):
        pytest.skip(str(found))
    return f"{name}-{kind}", found


def register(program: Program, client: str, service: str, ip: str) -> None:
    values = {"ip": ip, "port": PORT, "cluster": "DEFAULT", "weight": 1.0, "metadata": {}}
    assert program.call("register", client, service=service, **values) is True


def test_a_library_with_a_right_works_and_without_is_refused(
    with_users: ClusterProcesses, library: tuple[str, Environment], tmp_path: Path
) -> None:
    """With a user: registers, lists and hears of changes in its namespace, and not in another. Without: nothing."""
    name, environment = library
    service, ours = f"of-{name}", f"10.8.0.1:{PORT}"
    readers = [UserClient(member.address) for member in with_users]
    for reader in readers:
        reader.log_in("shop", PASSWORD)
    with ExitStack() as stack:
        program = stack.enter_context(Program(environment, tmp_path / "program"))
        shop = {"username": "shop", "password": PASSWORD}
        for client, member in zip(("one", "two"), with_users.members, strict=False):
            program.open(client, member, namespace=DEV, **shop)
        program.call("subscribe", "two", service=service)
        register(program, "one", service, "10.8.0.1")
        program.wait_event("added", "two", ours)
        eventually(lambda: all(ours in hosts(reader, service, DEV) for reader in readers))
        assert program.hosts("two", service).keys() == {ours}

        program.open("elsewhere", with_users.members[2], namespace=PROD, **shop)
        with pytest.raises((SdkError, AssertionError)):  # a library may answer false
            register(program, "elsewhere", f"{service}-2", "10.8.0.2")
    with Program(environment, tmp_path / "nobody") as program:
        try:
            program.open("nobody", with_users.members[0], namespace=DEV)
            register(program, "nobody", service, "10.8.0.3")
        except (SdkError, AssertionError):
            pass
        else:
            pytest.fail("a library without a user registered an instance")
    boss = UserClient(with_users.members[0].address)
    boss.log_in(ADMIN, ADMIN_PASSWORD)
    assert hosts(boss, f"{service}-2", PROD) == {}
    assert f"10.8.0.3:{PORT}" not in hosts(boss, service, DEV)


def test_a_library_with_a_user_works_where_none_is_asked_for(
    without_users: ClusterProcesses, library: tuple[str, Environment], tmp_path: Path
) -> None:
    name, environment = library
    service, ours = f"off-{name}", f"10.8.1.1:{PORT}"
    with Program(environment, tmp_path / "program") as program:
        for client, member in zip(("one", "two"), without_users.members, strict=False):
            program.open(client, member, username="shop", password=PASSWORD)
        program.call("subscribe", "two", service=service)
        register(program, "one", service, "10.8.1.1")
        program.wait_event("added", "two", ours)
        eventually(lambda: without_users.all_list(service, {ours}))
