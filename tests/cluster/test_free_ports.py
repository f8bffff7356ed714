"""The ports that members of tests are given: no two members share one, whoever asks, and before anyone listens."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.config.rpc_settings import RPC_CLUSTER_OFFSET
from app.tools.embedded import free_ports as embedded
from tests.support.processes import FIRST_PORT, LAST_PORT, PORT_OFFSETS, Ports, free_ports

THREADS, CLUSTERS, MEMBERS = 4, 40, 3


def test_clusters_that_start_side_by_side_share_no_port() -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        given = list(pool.map(free_ports, [MEMBERS] * CLUSTERS))
    used = [port + offset for ports in given for port in ports for offset in PORT_OFFSETS]
    assert len(set(used)) == len(used) == CLUSTERS * MEMBERS * len(PORT_OFFSETS)


BEGIN = LAST_PORT + 1_100
"""Above the ports that tests are given, so that nobody listens there."""


def test_a_port_of_a_member_that_is_down_is_kept_however_many_are_given_after_it(tmp_path: Path) -> None:
    ports = Ports(tmp_path / "ports")
    assert ports.take([BEGIN])
    for number in range(500):
        assert ports.take(range(BEGIN + 1 + number, BEGIN + 2 + number))
    assert not ports.take([BEGIN])
    assert not ports.take([BEGIN + 600, BEGIN])
    assert is_locked(tmp_path / "ports", BEGIN), "a refusal must not unlock what this process has"


def test_the_ports_given_first_are_given_again_where_none_is_left(tmp_path: Path) -> None:
    ports = Ports(tmp_path / "ports")
    assert ports.take([BEGIN, BEGIN + 1])
    assert ports.take([BEGIN + 2, BEGIN + 3])
    ports.forget_oldest()
    assert not is_locked(tmp_path / "ports", BEGIN)
    assert is_locked(tmp_path / "ports", BEGIN + 2)
    assert ports.take([BEGIN, BEGIN + 1])
    assert not ports.take([BEGIN + 3])


def is_locked(path: Path, port: int) -> bool:
    """Return whether a process other than the asking one has the port: a child asks, whose locks are its own."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    os._exit(0 if Ports(path).take([port]) else 1)


def test_registries_in_a_process_take_no_port_that_a_member_may_be_given() -> None:
    assert FIRST_PORT + min(PORT_OFFSETS) > embedded.LAST_PORT + RPC_CLUSTER_OFFSET
