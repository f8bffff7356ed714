"""What must outlive a restart: written through any member, read at all of them, and there again afterwards."""

import contextlib
import http.client
import json
import resource
import socket
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.naming.records.record_keys import namespace_key
from distro.members.mapper import DistroMapper
from tests.cluster.conftest import StartCluster
from tests.support.client import OK, Answer, Client
from tests.support.processes import FAST, ClusterProcesses, Member, eventually, free_ports

NAMESPACES, SWITCHES = "/v1/console/namespaces", "/v1/ns/operator/switches"
BIG = "x" * 1_000
WRITES = 1_000
WRITERS = 4
KILL_AFTER = 400
TRIES_MAX = 1_000
"""A minute, of which a second is for members to see that one is gone."""


def put_namespace(client: Client, name: str, text: str = "") -> Answer:
    return client.call("POST", NAMESPACES, customNamespaceId=name, namespaceName=text or name, namespaceDesc="")


def rename(client: Client, name: str, text: str) -> Answer:
    return client.call("PUT", NAMESPACES, namespace=name, namespaceShowName=text, namespaceDesc="")


def namespaces(client: Client) -> dict[str, str]:
    answer = client.call("GET", NAMESPACES)
    assert answer.status == 200, answer
    return {one["namespace"]: one["namespaceShowName"] for one in answer.json()["data"] if one["namespace"]}


def durable_owner(cluster: ClusterProcesses, tag: str) -> Member:
    addresses = tuple(sorted(member.address for member in cluster))
    owner = DistroMapper.over(addresses[0], addresses, False).map_srv(tag)
    return next(member for member in cluster if member.address == owner)


def namespace_of(cluster: ClusterProcesses, owner: Member, prefix: str) -> str:
    """A namespace whose record ``owner`` is responsible for while all are UP."""
    names = (f"{prefix}-{number}" for number in range(10_000))
    return next(name for name in names if durable_owner(cluster, namespace_key(name)) is owner)


class Written:
    """One of each kind of durable data, written through one member."""

    def __init__(self, name: str) -> None:
        self.name = name
        # A switch that changes nothing for other tests on the same members.
        self.expired_ms = str(10_000 + sum(map(ord, name)) % 5_000)

    def write(self, client: Client) -> None:
        service = self.name
        metadata = json.dumps({"kept": "yes"})
        answers = [
            client.call("POST", "/v1/ns/service", serviceName=service, protectThreshold=0.25, metadata=metadata),
            client.register(service, "10.5.0.1", ephemeral="false", weight=3, metadata=metadata),
            client.call("PUT", SWITCHES, entry="distroServerExpiredMillis", value=self.expired_ms),
        ]
        assert [answer.body for answer in answers] == [OK] * 3, answers
        assert put_namespace(client, self.name, f"the {self.name}").body == b"true"

    def seen(self, client: Client) -> bool:
        """Whether the member shows all of it, exactly."""
        service = client.call("GET", "/v1/ns/service", serviceName=self.name)
        assert service.status == 200, service
        assert (service.json()["protectThreshold"], service.json()["metadata"]) == (0.25, {"kept": "yes"})
        host = client.hosts(self.name).get("10.5.0.1:8080")
        assert host is not None, "not there yet"
        assert (host["ephemeral"], host["weight"], host["metadata"]) == (False, 3.0, {"kept": "yes"})
        assert str(client.call("GET", SWITCHES).json()["distroServerExpiredMillis"]) == self.expired_ms
        assert namespaces(client).get(self.name) == f"the {self.name}"
        return True


def records_of(member: Member) -> dict[str, tuple[str, str, bytes | None]]:
    """What the data folder of a member holds: version, version of the change, value, by key."""
    with contextlib.closing(sqlite3.connect(member.data / "records.sqlite3")) as connection:
        rows = connection.execute("SELECT key, version, changed, value FROM record").fetchall()
    return {key: (version, changed, value) for key, version, changed, value in rows}


class TestWritten:
    def test_read_at_the_entry_in_the_next_call_and_everywhere_at_once(self, three: ClusterProcesses) -> None:
        for number, member in enumerate(three):
            for owner in three:
                written = Written(f"entry{number}-{three.service_of(owner, 'durable')}")
                written.write(member.client)
                assert written.seen(member.client)
                for other in three.others(member):
                    eventually(lambda o=other, w=written: w.seen(o.client))  # type: ignore[misc]

    def test_a_removal_is_seen_as_soon(self, three: ClusterProcesses) -> None:
        for member in three:
            name = three.service_of(three.others(member)[0], f"gone-{member.address.rpartition(':')[2]}")
            assert member.client.register(name, "10.5.1.1", ephemeral="false").body == OK
            assert put_namespace(member.client, name).body == b"true"
            assert member.client.deregister(name, "10.5.1.1", ephemeral="false").body == OK
            assert member.client.call("DELETE", NAMESPACES, namespaceId=name).status == 200
            assert member.client.hosts(name) == {}
            assert name not in namespaces(member.client)
            for other in three:
                eventually(lambda o=other, n=name: o.client.hosts(n) == {})  # type: ignore[misc]
                eventually(lambda o=other, n=name: n not in namespaces(o.client))  # type: ignore[misc]

    def test_an_ephemeral_and_a_persistent_instance_live_side_by_side(self, three: ClusterProcesses) -> None:
        first, second, third = three
        assert first.client.register("both", "10.5.2.1", ephemeral="false").body == OK
        assert second.client.register("both", "10.5.2.2").body == OK
        eventually(lambda: three.all_list("both", {"10.5.2.1:8080", "10.5.2.2:8080"}))
        assert third.client.deregister("both", "10.5.2.1").body == OK, "of an ephemeral one, which is none"
        eventually(lambda: three.all_list("both", {"10.5.2.1:8080", "10.5.2.2:8080"}))


class TestRestart:
    def test_of_all_and_of_one(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        first, second, third = cluster
        written = Written("restart")
        written.write(first.client)
        for member in (second, third):
            eventually(lambda m=member: written.seen(m.client))  # type: ignore[misc]
        for member in cluster:
            member.stop()
        for member in cluster:
            member.start()
        for member in cluster:
            member.wait_ready()
            assert written.seen(member.client), "from its first answer on"
        first.kill_all()
        first.restart()
        assert written.seen(first.client)

    def test_what_was_removed_meanwhile_does_not_return(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        away, *others = cluster.members
        written = Written("removed")
        written.write(away.client)
        for member in others:
            eventually(lambda m=member: written.seen(m.client))  # type: ignore[misc]
        away.stop()

        def removed(client: Client) -> bool:
            return client.call("DELETE", NAMESPACES, namespaceId=written.name).status == 200

        eventually(lambda: removed(others[0].client))
        eventually(lambda: others[0].client.deregister(written.name, "10.5.0.1", ephemeral="false").body == OK)
        away.restart()
        for member in (away, *others):
            assert written.name not in namespaces(member.client)
            assert member.client.hosts(written.name) == {}

    def test_both_sides_wrote_one_key_while_the_other_was_away(self, make_cluster: StartCluster) -> None:
        """A is away while B writes; B and C are away while A writes. All meet: the later change by time holds (R14)."""
        cluster = make_cluster(3, FAST)
        cluster.start()
        a, b, c = cluster
        names = [namespace_of(cluster, owner, "sides") for owner in cluster]
        for name in names:
            assert put_namespace(a.client, name, "common").body == b"true"
            eventually(lambda n=name: all(n in namespaces(m.client) for m in cluster))  # type: ignore[misc]
        a.stop()
        for name in names:
            eventually(lambda n=name: rename(b.client, n, "by b").status == 200)  # type: ignore[misc]
            eventually(lambda n=name: namespaces(c.client)[n] == "by b")  # type: ignore[misc]
        b.stop()
        c.stop()
        a.restart()
        for turn, name in enumerate(names):
            for number in range(turn + 1):  # one change more each time, so that either side wins somewhere
                eventually(lambda n=name, t=f"by a {number}": rename(a.client, n, t).status == 200)  # type: ignore[misc]
        a.stop()
        expected = {name: f"by a {turn}" for turn, name in enumerate(names)}
        for member in cluster:
            member.start()
        for member in cluster:
            member.wait_ready()
        for member in cluster:
            eventually(
                lambda m=member: {n: v for n, v in namespaces(m.client).items() if n in names} == expected  # type: ignore[misc]
            )
        eventually(lambda: len({str(sorted(records_of(member).items())) for member in cluster}) == 1)


class Writes:
    """Makes namespaces through members in turn until it is stopped or done; keeps the acknowledged ones."""

    def __init__(self, members: list[Member]) -> None:
        self._members = members
        self._numbers = iter(range(WRITES))
        self._lock = threading.Lock()
        self.acknowledged: list[str] = []

    def _next(self) -> int | None:
        with self._lock:
            return next(self._numbers, None)

    def run(self) -> None:
        while (number := self._next()) is not None:
            name = f"w-{number}"
            for turn in range(TRIES_MAX):
                member = self._members[(number + turn) % len(self._members)]
                try:
                    answer = put_namespace(member.client, name)
                except (OSError, http.client.HTTPException):
                    continue
                # "false" after a try whose answer was lost: it is there already.
                if answer.status == 200 and (answer.body == b"true" or turn):
                    self.acknowledged.append(name)
                    break
                time.sleep(0.05)


class TestKilled:
    @pytest.mark.parametrize("survivors_write", [True, False], ids=["one of three", "all"])
    def test_every_acknowledged_write_is_there(self, make_cluster: StartCluster, survivors_write: bool) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        victims = [cluster.members[0]] if survivors_write else list(cluster)
        writes = Writes(cluster.members if survivors_write else cluster.members[:1])
        with ThreadPoolExecutor(WRITERS) as pool:
            running = [pool.submit(writes.run) for _ in range(WRITERS)]
            eventually(lambda: len(writes.acknowledged) >= KILL_AFTER)
            for victim in victims:
                victim.kill_all()
            if not survivors_write:
                writes._numbers = iter(())
            for future in running:
                future.result(300)
        acknowledged = set(writes.acknowledged)
        assert len(acknowledged) >= (WRITES if survivors_write else KILL_AFTER)
        for victim in victims:
            victim.start()
        for victim in victims:
            victim.wait_ready()
        for member in cluster:
            eventually(lambda m=member: not acknowledged - set(namespaces(m.client)))  # type: ignore[misc]


@contextlib.contextmanager
def full_disk(member: Member) -> Iterator[None]:
    """Let no file of the member grow, as a full disk or a quota does."""
    pid = member.worker.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    size = max(path.stat().st_size for path in member.data.glob("records.sqlite3*"))
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


class TestFullDisk:
    def test_a_write_is_refused_and_says_so(self, make_cluster: StartCluster) -> None:
        [node] = make_cluster(1, {"nacos.standalone": "true"})
        node.restart()
        written = Written("before")
        written.write(node.client)
        with full_disk(node):
            tries = [f"full-{number}" for number in range(50)]
            answers = {name: put_namespace(node.client, name, BIG) for name in tries}
            refused = [name for name, answer in answers.items() if answer.status == 507]
            assert refused, "the disk was full at some point"
            assert all(b"the data folder does not accept the change" in answers[name].body for name in refused)
            assert {answer.status for answer in answers.values()} <= {200, 507}
            assert not set(refused) & set(namespaces(node.client)), "what was refused is not there"
            persistent = node.client.register("full", "10.5.3.1", ephemeral="false", metadata=json.dumps({"k": BIG}))
            assert persistent.status == 507
            assert node.client.hosts("full") == {}
            assert node.client.call("PUT", SWITCHES, entry="healthCheckTimes", value="9").status == 507
            assert written.seen(node.client)
            assert node.client.register("full", "10.5.3.2").body == OK, "what needs no disk goes on"
        assert put_namespace(node.client, refused[0]).body == b"true"
        kept = namespaces(node.client)
        node.kill_all()
        node.restart()
        assert namespaces(node.client) == kept
        assert written.seen(node.client)

    def test_a_full_copy_catches_up(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        full, owner, third = cluster.members
        name = namespace_of(cluster, owner, "copy")
        with full_disk(full):
            for number in range(60):
                assert put_namespace(owner.client, namespace_of(cluster, owner, f"copy{number}"), BIG).body == b"true"
            assert put_namespace(owner.client, name, BIG).body == b"true"
            assert name not in namespaces(full.client)
            eventually(lambda: name in namespaces(third.client))
        eventually(lambda: namespaces(full.client) == namespaces(owner.client))


class TestDamaged:
    @pytest.mark.parametrize("content", [b"this is no database " * 1_000, b"SQLite format 3\0" + b"\xa5" * 9_000])
    def test_records_stop_the_start_and_are_left_alone(self, make_cluster: StartCluster, content: bytes) -> None:
        [node] = make_cluster(1, {"nacos.standalone": "true"})
        node.restart()
        assert put_namespace(node.client, "kept").body == b"true"
        node.stop()
        path = node.data / "records.sqlite3"
        path.write_bytes(content)
        node.start()
        assert node.wait_exit() not in (0, 1)
        assert f"rollcall: {path} is damaged" in node.log_text()
        assert "move it away to let this member load from the others" in node.log_text()
        assert path.read_bytes() == content

    def test_a_member_without_its_file_loads_from_the_others(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        victim = cluster.members[0]
        written = Written("moved")
        written.write(victim.client)
        victim.stop()
        (victim.data / "records.sqlite3").write_bytes(b"damaged" * 1_000)
        victim.start()
        victim.wait_exit()
        (victim.data / "records.sqlite3").rename(victim.data / "aside")
        victim.restart()
        assert written.seen(victim.client)


def unpacked(body: bytes) -> bytes:
    """The JSON of a list, which is not packed while it changes all the time."""
    return body if body.startswith(b"{") else zlib.decompress(body)


def warm_file(member: Member) -> Path:
    return member.data / "warm.sqlite3"


def saved(member: Member, lists: Mapping[str, set[str]]) -> bool:
    """Whether a member's copy on disk has these instances, by service: a row alone may be of an earlier list."""
    with contextlib.closing(sqlite3.connect(warm_file(member))) as connection:
        rows = connection.execute("SELECT key, body FROM datum").fetchall()
    found = {
        key.rpartition("@@")[2]: {
            f"{one['ip']}:{one['port']}" for one in json.loads(unpacked(body))["value"]["instanceList"]
        }
        for key, body in rows
    }
    return all(found.get(service.rpartition("@@")[2]) == expected for service, expected in lists.items())


class TestWarmStart:
    """Instances that do not beat: only what members remember keeps them in the lists."""

    def fill(self, cluster: ClusterProcesses) -> dict[str, set[str]]:
        lists = {}
        for number, owner in enumerate(cluster):
            service = cluster.service_of(owner, "warm")
            for at in range(4):
                assert owner.client.register(service, f"10.5.{10 + number}.{at}").body == OK
            lists[service] = {f"10.5.{10 + number}.{at}:8080" for at in range(4)}
        for service, expected in lists.items():
            eventually(lambda s=service, e=expected: cluster.all_list(s, e))  # type: ignore[misc]
        for member in cluster:
            eventually(lambda m=member: saved(m, lists))  # type: ignore[misc]
        return lists

    @pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
    def test_a_restart_of_all_keeps_the_lists(self, make_cluster: StartCluster, orderly: bool) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        lists = self.fill(cluster)
        for member in cluster:
            member.stop() if orderly else member.kill_all()
        for member in cluster:
            member.start()
        for member in cluster:
            member.wait_ready()
            for service, expected in lists.items():
                assert set(member.client.hosts(service)) == expected, "from its first answer on"

    def test_a_lone_node_forgets_who_does_not_come_back(self, make_cluster: StartCluster) -> None:
        """What it remembers gets one time-out; no other member takes it over and checks it."""
        [node] = make_cluster(1, {"nacos.standalone": "true"})
        node.restart()
        short = json.dumps({"preserved.heart.beat.timeout": "1500", "preserved.ip.delete.timeout": "2500"})
        assert node.client.register("warm", "10.5.20.1", metadata=short).body == OK
        eventually(lambda: saved(node, {"warm": {"10.5.20.1:8080"}}))
        node.kill_all()
        node.restart()
        assert set(node.client.hosts("warm")) == {"10.5.20.1:8080"}
        eventually(lambda: node.client.hosts("warm") == {})

    def test_a_damaged_file_is_set_aside(self, make_cluster: StartCluster) -> None:
        [node] = make_cluster(1, {"nacos.standalone": "true"})
        node.restart()
        assert node.client.register("warm", "10.5.21.1").body == OK
        node.stop()
        warm_file(node).write_bytes(b"no database" * 1_000)
        node.restart()
        assert node.client.hosts("warm") == {}
        [aside] = node.data.glob("warm.damaged-*")
        assert aside.name in node.log_text()

    @pytest.mark.parametrize(("setting", "kept"), [("1", False), ("0", False), ("600000", True)])
    def test_too_old_is_not_used(self, make_cluster: StartCluster, setting: str, kept: bool) -> None:
        [node] = make_cluster(1, {"nacos.standalone": "true"})
        node.restart()
        assert node.client.register("warm", "10.5.22.1").body == OK
        node.stop()
        node.settings["rollcall.warm.maxAgeMs"] = setting
        node.restart()
        assert bool(node.client.hosts("warm")) is kept


class TestChecked:
    def health(self, member: Member, service: str, port: int) -> bool:
        """Its true health: a list shows the last instance of a service as healthy in any case."""
        answer = member.client.call("GET", "/v1/ns/instance", serviceName=service, ip="127.0.0.1", port=port)
        assert answer.status == 200, answer
        healthy: bool = answer.json()["healthy"]
        return healthy

    def test_a_port_that_closes_and_opens(self, three: ClusterProcesses) -> None:
        [port] = free_ports(1)
        service = "checked"
        with socket.create_server(("127.0.0.1", port)):
            assert three.members[0].client.register(service, "127.0.0.1", port, ephemeral="false").body == OK
            for member in three:
                eventually(lambda m=member: self.health(m, service, port))  # type: ignore[misc]
        for member in three:
            eventually(lambda m=member: not self.health(m, service, port))  # type: ignore[misc]
        with socket.create_server(("127.0.0.1", port)):
            for member in three:
                eventually(lambda m=member: self.health(m, service, port))  # type: ignore[misc]
        assert three.members[1].client.deregister(service, "127.0.0.1", port, ephemeral="false").body == OK

    def test_by_hand_where_nothing_checks(self, three: ClusterProcesses) -> None:
        first, second, _ = three
        service = "by-hand"
        assert first.client.register(service, "127.0.0.1", 1, ephemeral="false").body == OK
        here = {"serviceName": service, "ip": "127.0.0.1", "port": 1, "clusterName": "DEFAULT"}
        answer = first.client.call("PUT", "/v1/ns/health/instance", **here, healthy="false")
        assert (answer.status, b"health check is still working" in answer.body) == (400, True)
        answer = first.client.call(
            "PUT",
            "/v1/ns/cluster",
            serviceName=service,
            clusterName="DEFAULT",
            checkPort=80,
            useInstancePort4Check="true",
            healthChecker='{"type":"NONE"}',
        )
        assert answer.body == OK
        eventually(lambda: second.client.call("PUT", "/v1/ns/health/instance", **here, healthy="false").body == OK)
        for member in three:
            eventually(lambda m=member: not self.health(m, service, 1))  # type: ignore[misc]
        assert second.client.call("PUT", "/v1/ns/health/instance", **here, healthy="true").body == OK
        for member in three:
            eventually(lambda m=member: self.health(m, service, 1))  # type: ignore[misc]
