"""Real client libraries of 2.x and 3.x, unchanged, at each member of a cluster of Nacos 2.3.1, 3.0.3 and ours."""

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.peers.conftest import has_loaded, sees_three
from tests.peers.real_members import MixedCluster, RealMember
from tests.peers.test_real_nacos_2 import SEEN_TIMEOUT_S, all_list
from tests.sdk.environments import GRPC_INSTALLERS, NotInstallable
from tests.sdk.program import Program
from tests.support.processes import Member, eventually

PORT = 8080
CLIENTS = ("at-2", "at-3", "at-ours")
"""One at each member, in the order of the cluster's."""
INSTANCES = {client: f"10.8.0.{number}:{PORT}" for number, client in enumerate(CLIENTS)}
METADATA, CHANGED = {"zone": "a b", "größe": "l&m=n"}, {"zone": "c"}
NAMES = {"python-2": {"namespace": "public"}}
"""By library. Without it this one names an empty namespace, which real Nacos keeps apart from the public one."""
LISTED_S = 10.0
"""Real Nacos tells of a change after 1 s, and shows it after another half; a loaded machine adds to both."""

pytestmark = pytest.mark.timeout(1_200)


@pytest.mark.parametrize("library", GRPC_INSTALLERS)
def test_a_library_at_every_member_sees_what_it_published_at_the_others(
    of_three_kinds: MixedCluster, tmp_path: Path, library: str
) -> None:
    mixed, service = of_three_kinds, f"program-{library}"
    try:
        environment = GRPC_INSTALLERS[library]()
    except NotInstallable as error:
        pytest.skip(str(error))
    with Program(environment, tmp_path / library) as program:
        for client, member in zip(CLIENTS, mixed.clients, strict=True):
            program.open(client, member, **NAMES.get(library, {}))
            program.call("subscribe", client, service=service)
        for number, client in enumerate(CLIENTS, 1):
            register(program, client, service, METADATA)
            assert all_list(mixed, service, *(INSTANCES[one] for one in CLIENTS[:number])) < LISTED_S
            hear(program, "added", INSTANCES[client])
        all_see(mixed, program, service, set(CLIENTS))
        for client in CLIENTS:
            hosts = program.hosts(client, service).values()
            assert all((one["weight"], one["metadata"], one["healthy"]) == (2.5, METADATA, True) for one in hosts)

        for client in CLIENTS:
            register(program, client, service, CHANGED)
            hear(program, "changed", INSTANCES[client])

        left = set(CLIENTS)
        for client in CLIENTS[:2]:
            values = {"ip": INSTANCES[client].partition(":")[0], "port": PORT, "cluster": "DEFAULT"}
            assert program.call("deregister", client, service=service, **values) is True
            hear(program, "removed", INSTANCES[client])
            left.remove(client)
            all_see(mixed, program, service, left)
    # With the process its connections end, and with them what they published.
    gone_s = all_list(mixed, service)
    print(f"{library}: gone on all {gone_s:.2f} s after its end")


def test_libraries_keep_their_instances_while_each_member_restarts(
    of_three_kinds: MixedCluster, tmp_path: Path
) -> None:
    """All libraries at once; a client of each knows all members, and goes to another one as its own ends.

    A client's end is not asked for: real members list the clients of a member that ended for three minutes.
    """
    mixed, service = of_three_kinds, "programs-restart"
    with ExitStack() as stack:
        programs: dict[str, Program] = {}
        for library, install in GRPC_INSTALLERS.items():
            with suppress(NotInstallable):
                programs[library] = stack.enter_context(Program(install(), tmp_path / library))
        addresses = {library: f"10.8.1.{number}:{PORT}" for number, library in enumerate(programs)}
        for library, program in programs.items():
            program.open(library, *mixed.clients, **NAMES.get(library, {}))
            values = {"ip": addresses[library].partition(":")[0], "port": PORT, "cluster": "DEFAULT", "weight": 1.0}
            program.call("register", library, service=service, metadata=METADATA, **values)
            program.call("subscribe", library, service=service)
        for restart in (*(partial(restart_real, one) for one in mixed.reals), partial(restart_ours, mixed.ours)):
            all_have(mixed, programs, service, set(addresses.values()))
            restart()
            eventually(lambda: all(sees_three(one) and has_loaded(one) for one in mixed.clients), SEEN_TIMEOUT_S)
        all_have(mixed, programs, service, set(addresses.values()))


def restart_real(member: RealMember) -> None:
    member.stop()
    member.begin()
    member.wait()


def restart_ours(member: Member) -> None:
    member.stop()
    member.restart()


def all_have(mixed: MixedCluster, programs: Mapping[str, Program], service: str, wanted: set[str]) -> None:
    """Wait until all members and all libraries list exactly these."""
    begun_s = time.monotonic()
    all_list(mixed, service, *wanted)
    for library, program in programs.items():
        eventually(lambda: program.hosts(library, service).keys() == wanted, SEEN_TIMEOUT_S)  # noqa: B023
    print(f"{len(wanted)} at all after {time.monotonic() - begun_s:.2f} s")


def register(program: Program, client: str, service: str, metadata: dict[str, str]) -> None:
    values = {"ip": INSTANCES[client].partition(":")[0], "port": PORT, "cluster": "DEFAULT", "weight": 2.5}
    assert program.call("register", client, service=service, metadata=metadata, **values) is True


def hear(program: Program, kind: str, instance: str) -> None:
    """Wait until all clients have told their listeners of a change, and see that it did not take long."""
    begun_s = time.monotonic()
    for client in CLIENTS:
        program.wait_event(kind, client, instance, SEEN_TIMEOUT_S)
    took_s = time.monotonic() - begun_s
    print(f"{kind} {instance}: heard after {took_s:.2f} s")
    assert took_s < LISTED_S


def all_see(mixed: MixedCluster, program: Program, service: str, clients: set[str]) -> None:
    wanted = {INSTANCES[client] for client in clients}
    all_list(mixed, service, *wanted)
    for client in CLIENTS:
        eventually(lambda client=client: program.hosts(client, service).keys() == wanted, SEEN_TIMEOUT_S)
