"""The member list of processes: a file changed in awkward ways, an address server that lies, a name that flaps."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.cluster.conftest import StartCluster
from tests.cluster.test_environment_faults import needs_mounts, with_mounts
from tests.support.client import Client
from tests.support.processes import FAST, ClusterProcesses, Member, eventually
from tests.support.tiny_server import Given, TinyServer, tiny_server

SWITCH = "/v1/core/cluster/switch/lookup"
LASTING = '{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}'
"""Metadata of instances that need no beat while a test lasts."""
LOOKS = 3
"""So many looks of each member at one answer."""


def metrics(member: Member) -> dict[str, int]:
    found: dict[str, int] = member.client.call("GET", "/v1/ns/operator/metrics").json()
    return found


def readiness(member: Member) -> bytes:
    return member.client.call("GET", "/v1/console/health/readiness").body


def listed(members: list[Member], expected: list[Member]) -> bool:
    """Whether each of them lists exactly the expected ones."""
    lists = [set(member.client.states()) for member in members]
    wanted = {one.address for one in expected}
    assert all(one == wanted for one in lists), lists
    return True


def all_up(members: list[Member]) -> bool:
    assert all(set(member.client.states().values()) == {"UP"} for member in members)
    return listed(members, members)


def changes_what_counts(members: list[Member], name: str, change: Callable[[], None], by: int = LOOKS) -> None:
    """Make the change, and return when a counter of each member has grown by that much."""
    before = [metrics(member)[name] for member in members]
    change()
    eventually(lambda: all(metrics(one)[name] >= count + by for one, count in zip(members, before, strict=True)))


def text(members: list[Member]) -> bytes:
    return "\n".join(one.address for one in members).encode()


def swap(member: Member, content: bytes) -> None:
    """Change a member's file as Kubernetes swaps a ConfigMap: a new folder behind a link on the way to it."""
    folder = Path(tempfile.mkdtemp(prefix="..", dir=member.conf))
    (folder / "cluster.conf").write_bytes(content)
    (member.conf / "..new").symlink_to(folder.name)
    (member.conf / "..new").replace(member.conf / "..data")


def swap_all(members: list[Member], content: bytes) -> None:
    for member in members:
        swap(member, content)


def unlink_all(members: list[Member]) -> None:
    for member in members:
        (member.conf / "..data").unlink()


class TestFile:
    def test_awkward_changes_cost_nobody_and_a_member_joins_and_leaves(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(4, FAST)
        *three, fourth = cluster.members

        for member in cluster:
            swap(member, text(three if member is not fourth else cluster.members))
            (member.conf / "cluster.conf").symlink_to("..data/cluster.conf")
        for member in three:
            member.start()
        for member in three:
            member.wait_ready()
        eventually(lambda: all_up(three))
        services = [cluster.service_of(owner, "list") for owner in cluster]
        for service in services:
            assert three[0].client.register(service, "10.8.0.1", metadata=LASTING).status == 200
        for content in (b"", b"# nobody\n", b"<html>", b"\xff\x00", three[0].address.encode()[:-1] + b"x"):
            changes_what_counts(three, "memberListsFailed", partial(swap_all, three, content))
            assert listed(three, three)
        changes_what_counts(three, "memberListsFailed", lambda: unlink_all(three))
        assert listed(three, three)
        assert all("10.8.0.1:8080" in one.client.hosts(service) for one in three for service in services)
        for member in three:
            swap(member, text(cluster.members))
        fourth.restart()
        eventually(lambda: all_up(cluster.members))
        for owner, service in zip(cluster, services, strict=True):
            eventually(lambda o=owner, s=service: {one.client.owner(s) for one in cluster} == {o.address})  # type: ignore[misc]
        assert fourth.client.register(services[3], "10.8.0.2", metadata=LASTING).status == 200
        fourth.stop()
        for member in three:
            swap(member, text(three))
        eventually(lambda: all_up(three))
        eventually(lambda: cluster.all_list(services[3], {"10.8.0.1:8080", "10.8.0.2:8080"}, three))
        assert three[0].client.register(services[3], "10.8.0.3", metadata=LASTING).status == 200
        expected = {f"10.8.0.{number}:8080" for number in (1, 2, 3)}
        eventually(lambda: cluster.all_list(services[3], expected, three))


class TestAddressServer:
    LIES = (
        Given(500, b"10.0.0.1"),
        Given(body=b""),
        Given(body=b"<html><body>maintenance</body></html>"),
        Given(body=b"ok"),
        Given(body=b"10.0.0.1\n" * 1_200_000),
        Given(body=b"10.0.0.1:8848\n" * 1_000, drip_s=0.02),
        Given(hang_up=True),
    )

    @staticmethod
    def _cluster(make_cluster: StartCluster, server: TinyServer, count: int) -> ClusterProcesses:
        host, _, port = server.address.rpartition(":")
        by_server = {
            "nacos.core.member.lookup.type": "address-server",
            "address.server.domain": host,
            "address.server.port": port,
        }
        return make_cluster(count, FAST | by_server)

    def test_lies_change_nothing(self, make_cluster: StartCluster) -> None:
        answer = Given()
        with tiny_server(lambda _: answer) as server:
            cluster = self._cluster(make_cluster, server, 3)
            truth = Given(body="\n".join(one.address for one in cluster).encode())
            answer = truth
            cluster.start()
            service = cluster.service_of(cluster.members[0], "lies")
            assert cluster.members[1].client.register(service, "10.8.1.1", metadata=LASTING).status == 200
            for lie in self.LIES:
                answer = lie
                changes_what_counts(cluster.members, "memberListsFailed", lambda: None, by=1)
                assert listed(cluster.members, cluster.members)
                cluster.all_list(service, {"10.8.1.1:8080"})
            answer = truth
            eventually(lambda: all(metrics(one)["memberLookupFailing"] == 0 for one in cluster))
            assert all(metrics(one)["memberListsTaken"] == 0 for one in cluster)
        victim = cluster.members[0]
        victim.stop()
        victim.restart()  # with the last list, as nobody listens there any more
        eventually(lambda: all_up(cluster.members))
        assert "the last one is used" in victim.log_text()

    def test_the_list_is_followed_and_its_source_switched(self, make_cluster: StartCluster) -> None:
        answer = Given()
        with tiny_server(lambda _: answer) as server:
            cluster = self._cluster(make_cluster, server, 3)
            first, second, third = cluster.members
            answer = Given(body=f"{first.address},{second.address}".encode())
            for member in (first, second):
                member.restart()
            eventually(lambda: all_up([first, second]))
            answer = Given(body="\n".join(one.address for one in cluster).encode())
            third.restart()
            eventually(lambda: all_up(cluster.members))
            answer = Given(503)
            assert first.client.call("POST", SWITCH, type="dns").json()["code"] == 500
            assert first.client.call("POST", SWITCH, type="file").json() == {"code": 200, "message": None, "data": None}
            changes_what_counts([second, third], "memberListsFailed", lambda: None, by=1)
            assert metrics(first)["memberLookupFailing"] == 0
            refusal = first.client.call("POST", SWITCH, type="address-server").json()
            assert (refusal["code"], "answers 503" in refusal["message"]) == (500, True)
            answer = Given(body=f"{first.address}\n{second.address}\n".encode())
            assert first.client.call("POST", SWITCH, type="address-server").json()["code"] == 200
            third.stop()
            eventually(lambda: all_up([first, second]))

    def test_without_any_list_a_node_waits(self, make_cluster: StartCluster) -> None:
        answer = Given(503)
        with tiny_server(lambda _: answer) as server:
            cluster = self._cluster(make_cluster, server, 2)
            for member in cluster:
                member.start()
            for member in cluster:
                eventually(lambda m=member: b"no list of members" in readiness(m))  # type: ignore[misc]
                assert member.client.register("early", "10.8.2.1").status == 503
            answer = Given(body="\n".join(one.address for one in cluster).encode())
            for member in cluster:
                member.wait_ready()
            eventually(lambda: all_up(cluster.members))


@needs_mounts
def test_a_name_that_flaps(make_cluster: StartCluster, tmp_path: Path) -> None:
    """One member, the others of whose name are not there: calls within a machine all come from one address."""
    hosts = tmp_path / "hosts"
    [member] = make_cluster(1, FAST | {"nacos.core.member.lookup.type": "dns"})
    port = member.address.rpartition(":")[2]
    member.address = f"127.0.0.2:{port}"
    member.client = Client(member.address)
    member.settings |= {"rollcall.member.dns": "members.test", "server.address": "127.0.0.2"}
    member.prefix = with_mounts(f"--bind {hosts} /etc/hosts")

    def answer(*numbers: int, name: str = "members.test") -> None:
        hosts.write_text("".join(f"127.0.0.{number} {name}\n" for number in numbers))

    def lists(*numbers: int) -> bool:
        return set(member.client.states()) == {f"127.0.0.{number}:{port}" for number in numbers}

    answer(2, 3, 4)
    member.restart()
    assert lists(2, 3, 4)
    for _ in range(2):
        changes_what_counts([member], "memberListsFailed", lambda: answer(2, 3, 4, name="other.test"), by=1)
        assert lists(2, 3, 4)
        answer(2)
        eventually(lambda: metrics(member)["membersHeld"] == 2)
        assert lists(2, 3, 4)
        answer(2, 3, 4)
        eventually(lambda: metrics(member)["membersHeld"] == 0)
    assert metrics(member)["memberListsTaken"] == 0
    answer(2, 3, 4, 5)
    eventually(lambda: lists(2, 3, 4, 5))
    answer(2, 3, 5)
    eventually(lambda: lists(2, 3, 5))
