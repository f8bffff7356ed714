"""Members that leave in order while clients write, beat and read: nothing is lost, and only the leaving one refuses."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.conftest import StartCluster
from tests.support.client import Client
from tests.support.processes import FAST, ClusterProcesses, Member, eventually
from tests.support.traffic import Beats, Watch

SLOW = FAST | {"rollcall.distro.refusedDownMs": "600000", "rollcall.distro.silentDownMs": "600000"}
"""A member found out by silence or refusal would keep its keys for ten minutes."""
LASTING = '{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}'
"""Metadata of instances that need no beat while a test lasts."""
NODE_DRAIN = "/v1/ns/operator/drain"
WRITES_MIN = 20
BEAT_PERIOD_S, WRITE_PERIOD_S = 0.5, 0.01


class Writes:
    """Registers one instance after the other through some members, in turn; notes those acknowledged."""

    def __init__(self, members: list[Member], services: list[str]) -> None:
        self._members = members
        self._services = services
        self.stopped = threading.Event()
        self.acknowledged: dict[str, set[str]] = {service: set() for service in services}
        self.refused: list[tuple[str, int]] = []
        self.count = 0

    def run(self) -> None:
        clients = {member: Client(member.address) for member in self._members}
        turns = zip(itertools.cycle(self._members), itertools.cycle(self._services), itertools.count(), strict=False)
        for member, service, number in turns:
            if self.stopped.wait(WRITE_PERIOD_S):
                return
            ip = f"10.9.{number // 250}.{number % 250}"
            try:
                status = clients[member].register(service, ip, metadata=LASTING).status
            except OSError:
                continue  # it does not listen any more
            if status == 200:
                self.acknowledged[service].add(f"{ip}:8080")
                self.count += 1
            else:
                self.refused.append((member.address, status))


@contextmanager
def writing(members: list[Member], services: list[str]) -> Iterator[Writes]:
    writes = Writes(members, services)
    thread = threading.Thread(target=writes.run)
    thread.start()
    try:
        yield writes
    finally:
        writes.stopped.set()
        thread.join()


def assert_nothing_lost(cluster: ClusterProcesses, writes: Writes, members: list[Member]) -> None:
    for service, expected in writes.acknowledged.items():

        def has_all(service: str = service, expected: set[str] = expected) -> bool:
            lists = cluster.lists(service, members)
            assert all(expected <= one for one in lists), [len(expected - one) for one in lists]
            return True

        eventually(has_all)


def test_a_member_that_ends_under_load_loses_nothing(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, SLOW)
    cluster.start()
    victim, *others = cluster.members
    beating = {cluster.service_of(owner, "beat"): ["10.9.200.1:8080", "10.9.200.2:8080"] for owner in cluster}
    services = [cluster.service_of(owner, "write") for owner in cluster]
    with Beats(cluster.members, beating, BEAT_PERIOD_S) as beats:
        eventually(lambda: all(cluster.all_list(name, set(addresses)) for name, addresses in beating.items()))
        with Watch(cluster.members, beating) as watch, writing(cluster.members, services) as writes:
            eventually(lambda: writes.count >= WRITES_MIN)
            before = writes.count
            victim.stop()
            eventually(lambda: writes.count >= before + WRITES_MIN)
    watch.assert_no_gap()
    assert beats.reregistered == 0
    assert {(address, status) for address, status in writes.refused} <= {(victim.address, 503)}
    assert_nothing_lost(cluster, writes, others)
    handed = f"handed over to {', '.join(sorted(one.address for one in others))}"
    assert handed in victim.log_text()


def test_a_drained_member_costs_the_others_no_write(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, SLOW)
    cluster.start()
    victim, *others = cluster.members
    services = [cluster.service_of(victim, f"drain{number}") for number in range(3)]
    with writing(others, services) as writes:
        eventually(lambda: writes.count >= WRITES_MIN)
        assert victim.client.call("PUT", NODE_DRAIN).json()["draining"] is True
        eventually(lambda: victim.client.call("GET", NODE_DRAIN).json()["handedOver"])
        before = writes.count
        eventually(lambda: writes.count >= before + WRITES_MIN)
        owners = {member.client.owner(service) for member in others for service in services}
    assert victim.address not in owners
    assert writes.refused == []
    assert_nothing_lost(cluster, writes, cluster.members[1:])
    for member in cluster:
        eventually(lambda member=member: absence_of(victim, member) == "drained")  # type: ignore[misc]
    assert victim.client.call("PUT", NODE_DRAIN, enabled="false").json()["draining"] is False
    eventually(lambda: {member.client.owner(services[0]) for member in cluster} == {victim.address})
    eventually(lambda: {absence_of(victim, member) for member in cluster} == {""})
    victim.stop()
    eventually(lambda: {absence_of(victim, member) for member in others} == {"left"})


def absence_of(victim: Member, at: Member) -> str:
    """The planned absence of a member as another one reports it."""
    listed = at.client.call("GET", "/v1/ns/operator/servers").json()["servers"]
    [found] = [one["extendInfo"] for one in listed if one["address"] == victim.address]
    return str(found.get("plannedAbsence", ""))


def test_the_last_member_says_that_nobody_takes_over(make_cluster: StartCluster) -> None:
    cluster = make_cluster(2, FAST)
    cluster.start()
    first, second = cluster.members
    second.kill_all()
    eventually(lambda: first.client.states()[second.address] == "DOWN")
    assert first.client.register("alone", "10.9.201.1", metadata=LASTING).status == 200
    first.stop()
    assert "no other member can be reached: the last changes of this member stay on this member" in first.log_text()


def test_before_it_leaves_a_member_serves_for_a_time_of_grace(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST | {"rollcall.leave.graceMs": "3000"})
    cluster.start()
    victim, *others = cluster.members
    service = cluster.service_of(victim, "grace")
    victim.master.terminate()
    eventually(lambda: b"leaves the cluster soon" in victim.client.call("GET", "/v1/console/health/readiness").body)
    assert victim.client.register(service, "10.9.202.1", metadata=LASTING).status == 200
    assert set(victim.client.hosts(service)) == {"10.9.202.1:8080"}
    assert victim.wait_exit() == 0
    cluster.all_list(service, {"10.9.202.1:8080"}, others)
