"""Limits in a cluster of processes: a flood of one address harms nobody else, and no limit makes members differ."""

import http.client
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.cluster.conftest import StartCluster
from tests.support.client import CODE_OK, OK, Client
from tests.support.processes import FAST, ClusterProcesses, Member, eventually

FLOODER, OTHER = "127.0.0.2", "127.0.0.3"
"""Other addresses than the members', which have 127.0.0.1."""
WRITES_PER_S = 20
BURST = 5 * WRITES_PER_S
FLOOD_S = 4.0
BEAT_PERIOD_S = 0.1
FEW = 5


def limited(make_cluster: StartCluster, **limits: int) -> ClusterProcesses:
    names = {f"rollcall.limit.{name}": str(value) for name, value in limits.items()}
    cluster = make_cluster(3, {**FAST, **names})
    cluster.start()
    return cluster


def seen(member: Member, service: str) -> set[str]:
    return set(member.client.hosts(service))


class Flood:
    """Writes from one address at all members, as fast as they answer, until it is told to end."""

    def __init__(self, members: list[Member]) -> None:
        self.statuses = Counter[int]()
        self._end = threading.Event()
        self._members = members

    def run(self) -> None:
        clients = [Client(one.address, FLOODER) for one in self._members]
        number = 0
        while not self._end.is_set():
            number += 1
            answer = clients[number % len(clients)].register(f"flood{number % 7}", f"10.9.{number // 250 % 250}.1")
            self.statuses[answer.status] += 1
            if answer.status == 429:
                assert int(answer.headers["retry-after"]) >= 1
                assert b"rollcall.limit.writesPerSecondPerAddress=" in answer.body

    def end(self) -> None:
        self._end.set()


def test_a_flood_of_one_address_is_refused_while_beats_and_the_writes_of_others_go_on(
    make_cluster: StartCluster,
) -> None:
    cluster = limited(make_cluster, writesPerSecondPerAddress=WRITES_PER_S)
    members = list(cluster)
    service = cluster.service_of(members[0], "kept")
    assert Client(members[1].address, OTHER).register(service, "10.0.0.1").body == OK
    flood = Flood(members)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(flood.run)
        end_s = time.monotonic() + FLOOD_S
        number = beats = 0
        slowest_s = 0.0
        while time.monotonic() < end_s:
            number += 1
            member = members[number % 3]
            for source in (FLOODER, OTHER):  # beats of the address that floods, too
                began_s = time.monotonic()
                answer = Client(member.address, source).beat(service, "10.0.0.1")
                slowest_s = max(slowest_s, time.monotonic() - began_s)
                assert answer.json()["code"] == CODE_OK
                beats += 1
            if number % 5 == 0:
                assert Client(member.address, OTHER).register(service, f"10.0.1.{number % 250}").status == 200
            threading.Event().wait(BEAT_PERIOD_S)
        flood.end()
        running.result(20)
    # Each member counts by itself, and what they pass on to each other is not counted again.
    taken = flood.statuses[200]
    assert set(flood.statuses) <= {200, 429}, flood.statuses
    assert taken <= 3 * (BURST + WRITES_PER_S * (FLOOD_S + 2)), flood.statuses
    assert flood.statuses[429] > 0, flood.statuses
    assert sum(member.client.metrics()["limitWritesPerSecondPerAddress"] for member in members) == flood.statuses[429]
    assert beats >= 10
    assert slowest_s < 2.0, "a beat waited for the flood"


def test_limits_never_make_members_differ(make_cluster: StartCluster) -> None:
    """The members have different limits: what one lets in the others take, whatever their own limits say."""
    cluster = make_cluster(3, FAST)
    members = list(cluster)
    for member, limit in zip(members, (FEW, 1, 1), strict=True):
        member.settings |= {
            "rollcall.limit.instancesPerService": str(limit),
            "rollcall.limit.servicesPerNamespace": str(limit),
            "rollcall.limit.instancesPerNamespace": str(FEW),
            "rollcall.limit.metadataBytes": str(9 * limit),
        }
    cluster.start()
    service = cluster.service_of(members[0], "of-the-first")
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(
                lambda number: members[number % 3].client.register(service, f"10.0.0.{number}", metadata="name=value"),
                range(4 * FEW),
            )
        )
    statuses = Counter(one.status for one in answers)
    assert statuses == {200: FEW, 413: 3 * FEW}, "exactly so many, through whichever member, at the same time"
    assert {one.body for one in answers if one.status == 413} == {
        b"refused by rollcall.limit.instancesPerService=5: there are 5 instances of service "
        b"DEFAULT_GROUP@@%b, and this would add 1" % service.encode()
    }
    eventually(lambda: [seen(one, service) for one in members] == [seen(members[0], service)] * 3, 20)
    assert len(seen(members[1], service)) == FEW
    # The others are beyond their own limits by now: each refuses what it owns, and goes on with all else.
    own = cluster.service_of(members[1], "of-the-second")
    assert members[2].client.register(own, "10.0.0.1").status == 413
    known = sorted(seen(members[0], service))
    ip = known[0].partition(":")[0]
    assert members[1].client.register(service, ip, metadata="name=value").body == OK, "a repetition"
    assert members[1].client.beat(service, ip).json()["code"] == CODE_OK
    assert members[2].client.deregister(service, ip).body == OK
    eventually(lambda: [len(seen(one, service)) for one in members] == [FEW - 1] * 3, 20)
    assert members[2].client.register(service, "10.0.0.99").body == OK, "a removal made room"


def test_the_owner_that_goes_leaves_its_services_to_one_with_a_lower_limit(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    members = list(cluster)
    for member, limit in zip(members, (FEW, 1, 1), strict=True):
        member.settings["rollcall.limit.instancesPerService"] = str(limit)
    cluster.start()
    service = cluster.service_of(members[0], "handed-over")
    addresses = [f"10.0.0.{number}" for number in range(FEW)]
    for ip in addresses:
        assert members[1].client.register(service, ip).body == OK
    eventually(lambda: len(seen(members[2], service)) == FEW, 20)
    members[0].kill_all()

    def repeated() -> bool:
        return all(members[1].client.register(service, ip).body == OK for ip in addresses)

    eventually(repeated, 30)
    assert [len(seen(one, service)) for one in members[1:]] == [FEW, FEW]
    refused = members[2].client.register(service, "10.0.0.77")
    assert (refused.status, b"instancesPerService=1" in refused.body) == (413, True)


def test_connections_of_one_address(make_cluster: StartCluster) -> None:
    cluster = limited(make_cluster, connectionsPerAddress=3)
    member = next(iter(cluster))
    host, _, port = member.address.rpartition(":")
    kept = [http.client.HTTPConnection(host, int(port), timeout=20, source_address=(FLOODER, 0)) for _ in range(3)]
    try:
        for one in kept:
            one.request("GET", "/nacos/v1/ns/instance/list?serviceName=any")
            assert one.getresponse().read()
        with socket.create_connection((host, int(port)), 20, (FLOODER, 0)) as refused:
            answer = b"".join(iter(lambda: refused.recv(4_096), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert b"connectionsPerAddress=3" in body
        assert Client(member.address, OTHER).register("any", "10.0.0.1").body == OK
        assert member.client.metrics()["limitConnectionsPerAddress"] == 1
    finally:
        for one in kept:
            one.close()
    eventually(lambda: Client(member.address, FLOODER).register("any", "10.0.0.2").status == 200, 10)


def test_near_its_bound_of_memory_a_node_takes_beats_and_removals_only(make_cluster: StartCluster) -> None:
    cluster = make_cluster(2, FAST)
    first, second = cluster
    first.settings["rollcall.limit.memoryMb"] = "1"
    cluster.start()
    theirs = cluster.service_of(second, "of-the-second")
    ours = cluster.service_of(first, "of-the-first")
    assert first.client.register(theirs, "10.0.0.1").body == OK, "the owner has room"
    eventually(lambda: first.client.metrics()["limitMemoryLevel"] == 2, 10)
    answer = second.client.register(ours, "10.0.0.1")
    assert (answer.status, answer.headers["retry-after"]) == (429, "30"), "it comes with the answer of the owner"
    assert b"near its bound of memory (rollcall.limit.memoryMb)" in answer.body
    eventually(lambda: "10.0.0.1:8080" in first.client.hosts(theirs), 10)
    assert first.client.beat(theirs, "10.0.0.1").json()["code"] == CODE_OK
    assert first.client.deregister(theirs, "10.0.0.1").body == OK
