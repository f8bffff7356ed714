"""The ports that members of tests are given: no two members share one, whoever asks, and before anyone listens."""

from concurrent.futures import ThreadPoolExecutor

from tests.support.processes import PORT_OFFSETS, free_ports

THREADS, CLUSTERS, MEMBERS = 4, 40, 3


def test_clusters_that_start_side_by_side_share_no_port() -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        given = list(pool.map(free_ports, [MEMBERS] * CLUSTERS))
    used = [port + offset for ports in given for port in ports for offset in PORT_OFFSETS]
    assert len(set(used)) == len(used) == CLUSTERS * MEMBERS * len(PORT_OFFSETS)
