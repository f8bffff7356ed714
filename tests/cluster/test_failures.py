"""Members killed, restarted and paused: what beats is never missing meanwhile, and all lists become equal again."""

import json
from collections.abc import Callable

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.client import OK
from tests.support.processes import FAST, ClusterProcesses, Member, eventually
from tests.support.traffic import Beats, Instances, Watch

BEAT_PERIOD_S = 0.5
IMPATIENT = json.dumps(
    {
        "preserved.heart.beat.interval": "500",
        "preserved.heart.beat.timeout": "6000",
        "preserved.ip.delete.timeout": "8000",
    }
)
"""Metadata of instances that are gone 8 s after their last beat: beats of tests may be late by seconds."""


def instances_of(cluster: ClusterProcesses, per_service: int) -> dict[str, list[str]]:
    """Two services of each member, with instances."""
    services = [cluster.service_of(owner, f"live{number}") for owner in cluster for number in range(2)]
    return {
        service: [f"10.4.{at}.{number}:8080" for number in range(per_service)] for at, service in enumerate(services)
    }


def wait_for_all_lists(cluster: ClusterProcesses, instances: Instances, members: list[Member] | None = None) -> None:
    eventually(
        lambda: all(cluster.all_list(service, set(addresses), members) for service, addresses in instances.items())
    )


def wait_for_ownership(cluster: ClusterProcesses, instances: Instances) -> None:
    """Wait until every member names the owner that is right when all are UP."""
    eventually(
        lambda: all(
            member.client.owner(service) == cluster.owner(service).address
            for member in cluster
            for service in instances
        )
    )


def is_down(victim: Member, members: list[Member]) -> bool:
    return all(member.client.states()[victim.address] == "DOWN" for member in members)


class TestKilled:
    def test_worker_alone(self, make_cluster: StartCluster) -> None:
        """With default settings. gunicorn starts an empty worker at once, mostly before the member counts as DOWN."""
        cluster = make_cluster()
        cluster.start()
        victim, *survivors = cluster.members
        instances = instances_of(cluster, 4)
        with Beats(cluster.members, instances, BEAT_PERIOD_S):
            wait_for_all_lists(cluster, instances)
            with Watch(survivors, instances) as watch:
                killed = victim.worker.pid
                victim.kill_worker()
                eventually(lambda: victim.worker.pid != killed)
                victim.wait_ready()
                # Never an empty list, nor a part of one: it loaded before it answered.
                assert all(set(victim.client.hosts(name)) == set(addresses) for name, addresses in instances.items())
                wait_for_all_lists(cluster, instances)
                # At once, or after the time for which a member that was DOWN must be steady.
                wait_for_ownership(cluster, instances)
            watch.assert_no_gap()

    def test_worker_again_and_again(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        victim, *survivors = cluster.members
        instances = instances_of(cluster, 3)
        with Beats(cluster.members, instances, BEAT_PERIOD_S, IMPATIENT), Watch(survivors, instances) as watch:
            for _ in range(3):
                wait_for_all_lists(cluster, instances)
                killed = victim.worker.pid
                victim.kill_worker()
                eventually(lambda killed=killed: victim.worker.pid != killed)  # type: ignore[misc]
                victim.wait_ready()
            wait_for_all_lists(cluster, instances)
            wait_for_ownership(cluster, instances)
        watch.assert_no_gap()

    @pytest.mark.parametrize("settings", [FAST, {}], ids=["fast", "default"])
    def test_all_processes_then_a_restart(self, make_cluster: StartCluster, settings: dict[str, str]) -> None:
        cluster = make_cluster(3, settings)
        cluster.start()
        victim, *survivors = cluster.members
        instances = instances_of(cluster, 4)
        with Beats(cluster.members, instances, BEAT_PERIOD_S):
            wait_for_all_lists(cluster, instances)
            with Watch(survivors, instances) as watch:
                victim.kill_all()
                eventually(lambda: is_down(victim, survivors))
                victim.start()
                victim.wait_ready()
                wait_for_all_lists(cluster, instances)
                wait_for_ownership(cluster, instances)
                wait_for_all_lists(cluster, instances)
            watch.assert_no_gap()

    def test_what_it_took_before_is_removed_where_nobody_beats(self, make_cluster: StartCluster) -> None:
        """Its services have a new owner, which expires what it never received a beat of."""
        cluster = make_cluster(3, FAST)
        cluster.start()
        victim, *survivors = cluster.members
        service = cluster.service_of(victim, "orphan")
        assert victim.client.register(service, "10.4.9.1", metadata=IMPATIENT).body == OK
        eventually(lambda: cluster.all_list(service, {"10.4.9.1:8080"}))
        victim.kill_all()
        eventually(lambda: cluster.all_list(service, set(), survivors))
        victim.restart()
        assert victim.client.hosts(service) == {}

    def test_the_whole_cluster(self, make_cluster: StartCluster) -> None:
        """Without the copies on disk nothing is left of it but what its clients know, and they bring it back."""
        cluster = make_cluster(3, FAST | {"rollcall.warm.maxAgeMs": "0"})
        cluster.start()
        instances = instances_of(cluster, 3)
        with Beats(cluster.members, instances, BEAT_PERIOD_S) as beats:
            wait_for_all_lists(cluster, instances)
            for member in cluster:
                member.kill_all()
            for member in cluster:
                member.start()
            for member in cluster:
                member.wait_ready()
            wait_for_all_lists(cluster, instances)
            wait_for_ownership(cluster, instances)
            assert beats.reregistered


class TestPaused:
    def test_longer_than_silence_is_forgiven(self, make_cluster: StartCluster) -> None:
        """R9: on waking it has received no beat for longer than any instance may be silent, and still expires none."""
        cluster = make_cluster(3, FAST)
        cluster.start()
        victim, *survivors = cluster.members
        instances = instances_of(cluster, 4)
        witness = cluster.service_of(survivors[0], "witness")
        with Beats(cluster.members, instances, BEAT_PERIOD_S, IMPATIENT):
            wait_for_all_lists(cluster, instances)
            with Watch(cluster.members, instances) as watch:
                victim.pause()
                assert survivors[0].client.register(witness, "10.4.9.2", metadata=IMPATIENT).body == OK
                eventually(lambda: is_down(victim, survivors))
                # Registered after the pause began, and gone by silence: the victim's own have been silent for longer.
                eventually(lambda: cluster.all_list(witness, set(), survivors))
                victim.resume()
                wait_for_all_lists(cluster, instances)
                wait_for_ownership(cluster, instances)
                wait_for_all_lists(cluster, instances)
                eventually(lambda: cluster.all_list(witness, set()))
            watch.assert_no_gap()
        assert "this process did not run for" in victim.log_text()

    def test_worker_alone(self, make_cluster: StartCluster) -> None:
        """Its master runs on, and must not kill it for its silence: the registry is its memory."""
        cluster = make_cluster(3, FAST)
        cluster.start()
        victim, *survivors = cluster.members
        instances = instances_of(cluster, 2)
        with Beats(cluster.members, instances, BEAT_PERIOD_S):
            wait_for_all_lists(cluster, instances)
            worker = victim.worker
            with Watch(cluster.members, instances) as watch:
                victim.pause(master=False)
                eventually(lambda: is_down(victim, survivors))
                victim.resume(master=False)
                wait_for_ownership(cluster, instances)
                wait_for_all_lists(cluster, instances)
            watch.assert_no_gap()
            assert victim.worker == worker


HARM: dict[str, Callable[[Member], None]] = {
    "worker killed": Member.kill_worker,
    "all killed": Member.kill_all,
    "paused": Member.pause,
}


@pytest.mark.parametrize("harm", HARM)
def test_a_write_while_its_owner_dies(make_cluster: StartCluster, harm: str) -> None:
    """It succeeds, or gets the 503 with which clients go elsewhere. With default settings."""
    cluster = make_cluster()
    cluster.start()
    victim, *survivors = cluster.members
    service = cluster.service_of(victim, "write")
    for member in survivors:  # connections among members are kept: the next call goes out on one of these
        assert member.client.register(service, "10.4.5.1").body == OK
    HARM[harm](victim)
    answers = []

    def write(number: int) -> bool:
        answer = survivors[number % 2].client.register(service, f"10.4.6.{number}")
        answers.append(answer.status)
        return answer.body == OK

    number = 0

    def write_next() -> bool:
        nonlocal number
        number += 1
        return write(number)

    # Sooner or later it succeeds: at the owner come back, or at the next one.
    eventually(write_next)
    assert set(answers) <= {200, 503}, answers
    # Whoever is silent counts as DOWN after 8 s; the call waits for 2 s, and would have succeeded with a longer wait.
    assert harm != "paused" or answers[0] == 503, answers
    eventually(lambda: f"10.4.6.{number}:8080" in survivors[0].client.hosts(service))
    eventually(lambda: f"10.4.6.{number}:8080" in survivors[1].client.hosts(service))
