"""Writes and beats through a member that is not the owner: you read your own writes, and nobody waits for long."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.client import CODE_NOT_FOUND, CODE_OK, OK
from tests.support.processes import FAST, ClusterProcesses, Member, eventually

ROUNDS = 50
WRITERS = 8
ROUNDS_EACH = 15
BEAT_PERIOD_S = 0.2
SHORT_LIVED = json.dumps(
    {
        "preserved.heart.beat.interval": "300",
        "preserved.heart.beat.timeout": "5000",
        "preserved.ip.delete.timeout": "600000",
    }
)
"""Unhealthy after 5 s without a beat, and then kept: beats of tests may be late by seconds."""


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members that notice changes fast, and that nobody harms."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("fast"), 3, FAST)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def entry_and_service(cluster: ClusterProcesses, prefix: str) -> tuple[Member, Member, str]:
    """The owner of a service, another member, and the service."""
    owner, entry, _ = cluster.members
    return owner, entry, cluster.service_of(owner, prefix)


def counters(member: Member, *names: str) -> list[int]:
    found = member.client.metrics()
    return [found[name] for name in names]


# --- read your own writes -----------------------------------------------------------------------------


def test_what_was_written_through_a_member_is_listed_there_at_once(fast: ClusterProcesses) -> None:
    _, entry, service = entry_and_service(fast, "own-writes")
    for number in range(ROUNDS):
        address = f"10.2.0.{number}:8080"
        assert entry.client.register(service, f"10.2.0.{number}", metadata='{"zone":"é"}').body == OK
        assert address in entry.client.hosts(service), f"round {number}"
        if number % 2:
            assert entry.client.register(service, f"10.2.0.{number}", weight=number + 1.5).body == OK
            assert entry.client.hosts(service)[address]["weight"] == number + 1.5
    for number in range(ROUNDS):
        assert entry.client.deregister(service, f"10.2.0.{number}").body == OK
        assert f"10.2.0.{number}:8080" not in entry.client.hosts(service), f"round {number}"
    assert entry.client.hosts(service) == {}
    eventually(lambda: fast.all_list(service, set()))


def test_an_update_and_a_patch_show_at_once_too(fast: ClusterProcesses) -> None:
    _, entry, service = entry_and_service(fast, "updated")
    one = {"serviceName": service, "ip": "10.2.1.1", "port": 8080}
    assert entry.client.register(service, "10.2.1.1").body == OK
    for number in range(ROUNDS // 2):
        assert entry.client.call("PUT", "/v1/ns/instance", weight=str(number + 1.5), **one).body == OK
        assert entry.client.hosts(service)["10.2.1.1:8080"]["weight"] == number + 1.5
        metadata = json.dumps({"round": str(number)})
        assert entry.client.call("PATCH", "/v1/ns/instance", metadata=metadata, **one).body == OK
        assert entry.client.hosts(service)["10.2.1.1:8080"]["metadata"] == {"round": str(number)}


def test_each_of_many_writers_reads_its_own_writes_at_once(fast: ClusterProcesses) -> None:
    """They write to one service, so that the owner's answers overtake each other on their way."""
    _, entry, service = entry_and_service(fast, "many-writers")

    def write(writer: int) -> list[str]:
        failures = []
        for number in range(ROUNDS_EACH):
            ip = f"10.2.{writer}.{number}"
            assert entry.client.register(service, ip).body == OK
            if f"{ip}:8080" not in entry.client.hosts(service):
                failures.append(f"{ip} is not there")
            if number % 3 == 0:
                assert entry.client.deregister(service, ip).body == OK
                if f"{ip}:8080" in entry.client.hosts(service):
                    failures.append(f"{ip} is still there")
        return failures

    with ThreadPoolExecutor(WRITERS) as pool:
        assert [failure for failures in pool.map(write, range(WRITERS)) for failure in failures] == []
    left = {f"10.2.{writer}.{number}:8080" for writer in range(WRITERS) for number in range(ROUNDS_EACH) if number % 3}
    eventually(lambda: fast.all_list(service, left))


def test_a_write_too_long_for_an_answer_is_listed_at_once_too(fast: ClusterProcesses) -> None:
    """The owner's own send brings it."""
    _, entry, service = entry_and_service(fast, "long")
    form = json.dumps({"text": "y" * 20_000})
    for number in range(10):
        assert (
            entry.client.call(
                "POST",
                "/v1/ns/instance",
                f"serviceName={service}&ip=10.2.9.{number}&port=80&metadata={form}".encode(),
                {"Content-Type": "application/x-www-form-urlencoded"},
            ).body
            == OK
        )
        assert f"10.2.9.{number}:80" in entry.client.hosts(service)


# --- beats --------------------------------------------------------------------------------------------


def test_beats_through_another_member_keep_an_instance_healthy(fast: ClusterProcesses) -> None:
    """They are answered there, and told to the owner, who would find it silent else."""
    owner, entry, service = entry_and_service(fast, "beats")
    for ip in ("10.2.0.1", "10.2.0.2"):
        assert owner.client.register(service, ip, metadata=SHORT_LIVED).body == OK
    beaten, silent = "10.2.0.1:8080", "10.2.0.2:8080"
    eventually(lambda: fast.all_list(service, {beaten, silent}))
    answered, collected = counters(entry, "forwardAnswered", "beatsCollected")
    beats = 0

    def beat_until_the_silent_one_is_found() -> bool:
        nonlocal beats
        assert entry.client.beat(service, "10.2.0.1").json()["code"] == CODE_OK
        beats += 1
        healthy = {address: host["healthy"] for address, host in owner.client.hosts(service).items()}
        if not healthy[beaten]:
            raise RuntimeError("the instance that beats was found silent")
        return not healthy[silent]

    eventually(beat_until_the_silent_one_is_found)
    assert counters(entry, "forwardAnswered") == [answered], "no beat was passed on"
    eventually(lambda: counters(entry, "beatsCollected") == [collected + beats])


def test_a_beat_through_another_member_makes_healthy_again(fast: ClusterProcesses) -> None:
    owner, entry, service = entry_and_service(fast, "again")
    assert owner.client.register(service, "10.2.0.1", metadata=SHORT_LIVED).body == OK

    def is_healthy(healthy: bool) -> Callable[[], bool]:
        """At every member; a list would show the last instance as healthy in either case."""
        query = {"serviceName": service, "ip": "10.2.0.1", "port": 8080}

        def check() -> bool:
            answers = [member.client.call("GET", "/v1/ns/instance", **query) for member in fast]
            return all(one.status == 200 and one.json()["healthy"] is healthy for one in answers)

        return check

    eventually(is_healthy(True))
    eventually(is_healthy(False))
    assert entry.client.beat(service, "10.2.0.1").json()["code"] == CODE_OK
    eventually(is_healthy(True))


def test_who_was_removed_at_the_owner_is_told_within_two_beats(fast: ClusterProcesses) -> None:
    owner, entry, service = entry_and_service(fast, "told")
    for number in range(5):
        ip = f"10.2.0.{number}"
        assert entry.client.register(service, ip).body == OK
        assert entry.client.beat(service, ip).json()["code"] == CODE_OK
        assert owner.client.deregister(service, ip).body == OK
        # Just now the copy may still be there, and answers.
        codes = [entry.client.beat(service, ip).json()["code"]]
        eventually(lambda: fast.all_list(service, set()))
        codes.append(entry.client.beat(service, ip).json()["code"])
        assert codes[-1] == CODE_NOT_FOUND, codes


# --- an owner that does not answer --------------------------------------------------------------------


def test_while_the_owner_is_paused_writes_are_refused_and_beats_answered(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    owner, entry, service = entry_and_service(cluster, "paused")
    assert entry.client.register(service, "10.2.0.1").body == OK
    eventually(lambda: cluster.all_list(service, {"10.2.0.1:8080"}))
    others = cluster.others(owner)
    ended, codes = Event(), list[int]()

    def beat() -> None:
        while not ended.wait(BEAT_PERIOD_S):
            codes.append(entry.client.beat(service, "10.2.0.1").json()["code"])

    def beats_go_on() -> Callable[[], bool]:
        count = len(codes)
        return lambda: len(codes) >= count + 3

    with ThreadPoolExecutor(1) as pool:
        try:
            beating = pool.submit(beat)
            eventually(beats_go_on())
            owner.pause()
            # After 2 s, before the owner counts as DOWN.
            refused = entry.client.register(service, "10.2.0.2")
            assert refused.status == 503
            assert owner.address.encode() in refused.body
            eventually(beats_go_on())
            eventually(lambda: all(one.client.states()[owner.address] == "DOWN" for one in others))
            # Another member is responsible by now.
            eventually(lambda: entry.client.register(service, "10.2.0.3").body == OK)
            assert "10.2.0.3:8080" in entry.client.hosts(service)
            eventually(beats_go_on())
        finally:
            owner.resume()
        eventually(lambda: cluster.all_up(entry) and cluster.all_up(owner))
        eventually(lambda: entry.client.owner(service) == owner.address)

        def all_agree() -> bool:
            lists = cluster.lists(service)
            # The refused one may have reached its owner after all; then it is everywhere.
            assert lists[0] - {"10.2.0.2:8080"} == {"10.2.0.1:8080", "10.2.0.3:8080"}
            return lists[0] == lists[1] == lists[2]

        eventually(all_agree)
        eventually(beats_go_on())
        ended.set()
        beating.result(60)
    assert set(codes) == {CODE_OK}
