"""Libraries over HTTP and over gRPC, and curl, each at another member: they see one service, the same everywhere."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.sdk.environments import Environment, NotInstallable
from tests.sdk.program import Program
from tests.sdk.stories import LONG, Environments
from tests.support.processes import DIRECT_S, NO_VERIFY, ClusterProcesses, eventually

SERVICE = "mixed"
PORT = 8080
CURL = f"10.8.0.1:{PORT}"
PLACES = {"java": 0, "go": 1, "grpc-java": 1, "grpc-go": 2, "grpc-python-3": 0}
"""At which member each library is; one that starts with grpc is another version of it."""
ADDRESSES = {name: f"10.8.0.{number + 2}:{PORT}" for number, name in enumerate(PLACES)}

pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture(scope="module")
def chosen(environments: Environments, grpc_environments: Environments) -> Environments:
    every = dict(environments) | {f"grpc-{name}": one for name, one in grpc_environments.items()}
    return {name: every[name] for name in PLACES}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    cluster = ClusterProcesses(tmp_path, 3, NO_VERIFY)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def test_all_see_the_same_at_every_quiet_point(
    chosen: Environments, cluster: ClusterProcesses, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for one in chosen.values():
        if isinstance(one, NotInstallable):
            pytest.skip(str(one))
    folder = tmp_path_factory.mktemp("mixed")
    with ExitStack() as stack:
        programs = {
            name: stack.enter_context(Program(one, folder / name))
            for name, one in chosen.items()
            if isinstance(one, Environment)
        }
        for name, program in programs.items():
            program.open("client", cluster.members[PLACES[name]])
            program.call("subscribe", "client", service=SERVICE)

        assert cluster.members[0].client.register(SERVICE, "10.8.0.1", PORT, metadata=LONG).status == 200
        here = {CURL}
        assert_quiet(cluster, programs, here, "added", CURL)
        for name, program in programs.items():
            register(program, name, 1.0)
            here.add(ADDRESSES[name])
            assert_quiet(cluster, programs, here, "added", ADDRESSES[name])

        register(programs["grpc-go"], "grpc-go", 2.5)
        assert_quiet(cluster, programs, here, "changed", ADDRESSES["grpc-go"])
        for program in programs.values():
            assert program.hosts("client", SERVICE)[ADDRESSES["grpc-go"]]["weight"] == 2.5

        for name in ("grpc-java", "java", "grpc-python-3"):
            ip = ADDRESSES[name].partition(":")[0]
            values = {"ip": ip, "port": PORT, "cluster": "DEFAULT"}
            assert programs[name].call("deregister", "client", service=SERVICE, **values) is True
            here.remove(ADDRESSES[name])
            assert_quiet(cluster, programs, here, "removed", ADDRESSES[name])

        # With the process goes its connection, and with that its instance, everywhere at once.
        programs.pop("grpc-go").kill()
        begun_s = time.monotonic()
        here.remove(ADDRESSES["grpc-go"])
        eventually(lambda: cluster.all_list(SERVICE, here), DIRECT_S)
        print(f"gone on all members after {(time.monotonic() - begun_s) * 1000:.0f} ms")
        assert_quiet(cluster, programs, here, "removed", ADDRESSES["grpc-go"])


def register(program: Program, name: str, weight: float) -> None:
    ip = ADDRESSES[name].partition(":")[0]
    values = {"ip": ip, "port": PORT, "cluster": "DEFAULT", "weight": weight, "metadata": {"of": name}}
    assert program.call("register", "client", service=SERVICE, **values) is True


def assert_quiet(
    cluster: ClusterProcesses, programs: dict[str, Program], here: set[str], event: str, instance: str
) -> None:
    """All members list these and no others, every library has them, and all that its listener heard comes to them."""
    eventually(lambda: cluster.all_list(SERVICE, here), DIRECT_S)
    for name, program in programs.items():
        program.wait_event(event, "client", instance)
        eventually(lambda: program.hosts("client", SERVICE).keys() == here)  # noqa: B023
        assert told_of(program) == here, f"{name}: {program.events}"
        assert {one["healthy"] for one in program.hosts("client", SERVICE).values()} == {True}, name


def told_of(program: Program) -> set[str]:
    """What there is for whoever knows the listener's events alone."""
    there: set[str] = set()
    for kind, _, instance in program.events:
        if kind == "removed":
            there.remove(instance)
        else:
            there.add(instance)
    return there
