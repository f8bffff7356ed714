"""The pages of running members are true at a member that owns nothing of what they show."""

import itertools
import time

from tests.cluster.conftest import StartCluster
from tests.support.damage import LONG, plant
from tests.support.departures import ONE, TWO, lacking
from tests.support.processes import FAST, VERIFY_WITHOUT_SAMPLES, Member, eventually


def page(member: Member, path: str, **parameters: str | int) -> str:
    answer = member.client.call("GET", path, None, None, **parameters)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def test_what_pages_say_is_so_at_every_member(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST | VERIFY_WITHOUT_SAMPLES)
    cluster.start()
    owner, asked, third = cluster.members
    service, gray = cluster.service_of(owner, "true"), cluster.service_of(owner, "gray")
    owner.client.register(service, ONE, metadata=LONG)
    owner.client.register(service, TWO, metadata=LONG)
    owner.client.register(gray, ONE, clusterName="east", metadata=LONG)
    eventually(lambda: f"{ONE}:8080" in asked.client.hosts(gray, clusters="east"))
    eventually(lambda: cluster.all_list(service, {f"{ONE}:8080", f"{TWO}:8080"}))

    told = asked.client.call("GET", "/v1/ns/service/beats", serviceName=service).json()
    assert (told["member"], told["answered"], len(told["beats"])) == (owner.address, True, 2)
    assert f"{owner.address}, the owner of the service, counts the beats" in page(
        asked, "/console/service", serviceName=service
    )
    assert "in the cluster east of" in page(asked, "/console/explain", serviceName=gray, ip=ONE, port=8080)

    eventually(lambda: "Members agree" in page(asked, "/"))
    assert "compared the versions of all its data" in page(asked, "/")
    plant(cluster.members, service, [third], lacking)
    assert "1 service differs" in page(asked, "/console/members", compare=1)
    for member in cluster.members:
        eventually(lambda member=member: "Members differ" in page(member, "/"))  # type: ignore[misc]
        eventually(lambda member=member: ">differ<" in page(member, "/console/members"))  # type: ignore[misc]

    third.stop()
    eventually(lambda: "left in order" in page(asked, "/"))
    text = page(asked, "/console/members")
    assert "no answer" not in text


def test_a_drained_member_gets_all_changes_and_differs_from_nobody(make_cluster: StartCluster) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    owner, asked, drained = cluster.members
    service = cluster.service_of(owner, "drained")
    owner.client.register(service, ONE)
    eventually(lambda: cluster.all_list(service, {f"{ONE}:8080"}))
    assert drained.client.call("PUT", "/v1/ns/operator/drain").json()["draining"]
    eventually(lambda: "is drained, as planned" in page(asked, "/"))
    # Changes go on for longer than one that does not serve clients stays UP.
    numbers, end_s = itertools.count(10), time.monotonic() + 3 * int(FAST["rollcall.distro.refusedDownMs"]) / 1_000
    while time.monotonic() < end_s:
        owner.client.register(service, f"10.7.0.{next(numbers)}")
        eventually(
            lambda: "3 members hold the same" in page(asked, "/console/service/differences", serviceName=service)
        )
        assert "Members differ" not in page(asked, "/")
    count = next(numbers) - 10 + 1
    assert "All services of 3 members are equal" in page(asked, "/console/members", compare=1)
    # A comparison of versions that met a change on its way stands until the next one.
    eventually(lambda: "Members agree" in page(asked, "/"))
    assert "1 out of service as planned" in page(asked, "/")
    for member in (owner, asked):
        servers = member.client.call("GET", "/v1/ns/operator/servers", healthy="true").json()["servers"]
        assert drained.address not in [f"{one['ip']}:{one['port']}" for one in servers]

    assert not drained.client.call("PUT", "/v1/ns/operator/drain", enabled="false").json()["draining"]
    eventually(lambda: {len(one) for one in cluster.lists(service)} == {count})
    eventually(lambda: "as planned" not in page(asked, "/"))
