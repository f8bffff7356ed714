"""Faults of a machine: disk, clock, names, descriptors. Each is said and counted, and ends without a restart."""

import contextlib
import errno
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.wall_clock import WallClock
from tests.chaos.wall_clock import unable as no_wall_clock
from tests.cluster.conftest import StartCluster
from tests.support.client import CODE_OK, OK
from tests.support.failing_disk import FailingDisk
from tests.support.mounts import unable_to_mount, with_mounts
from tests.support.processes import FAST, ClusterProcesses, Member, eventually, free_ports

NO_NAME_SERVICE = "nameserver 127.0.0.254\noptions timeout:1 attempts:1\n"
HOUR_S = 3_600


needs_mounts = pytest.mark.skipif(bool(unable_to_mount()), reason=unable_to_mount() or "none")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="a disk that fails needs a C compiler, cc")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Member]:
    """A node alone, not started yet."""
    [port] = free_ports(1)
    member = Member(port, tmp_path / "alone", {"rollcall.announce": "false"})
    try:
        yield member
    finally:
        member.end()
    assert "Traceback (most recent call last)" not in member.log_text()


def assert_serves(member: Member, service: str, ip: str) -> None:
    """Beats, lists and ephemeral registrations."""
    assert member.client.register(service, ip).body == OK
    assert member.client.beat(service, ip).json()["code"] == CODE_OK
    assert f"{ip}:8080" in member.client.hosts(service)
    assert member.client.deregister(service, ip).body == OK
    assert f"{ip}:8080" not in member.client.hosts(service)


def said(member: Member, text: str) -> bool:
    return text in member.log_text()


def persist(member: Member, ip: str) -> tuple[int, bytes]:
    answer = member.client.register("durable", ip, ephemeral="false")
    return answer.status, answer.body


class TestDisk:
    @needs_mounts
    def test_full(self, alone: Member) -> None:
        alone.data.mkdir()
        alone.prefix = with_mounts(f"-t tmpfs -o size=4m,mode=700 none {alone.data}")
        alone.restart()
        worker = alone.worker
        assert persist(alone, "10.0.0.1") == (200, OK)
        inside = Path(f"/proc/{worker.pid}/root{alone.data}")
        filler = inside / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * 4_096):
                pass
        assert os.statvfs(inside).f_bavail == 0

        refusals = [persist(alone, f"10.0.1.{number}") for number in range(60)]
        refused = [body for status, body in refusals if status != 200]
        assert refused, "pages that the log had already took sixty changes"
        assert b"data folder does not accept the change" in refused[-1]
        assert_serves(alone, "live", "10.0.2.1")
        assert said(alone, "does not accept durable changes; they are refused")
        eventually(lambda: said(alone, "is on a disk that is nearly full"))
        found = alone.client.metrics()
        assert found["recordWritesFailed"] >= len(refused)
        assert (found["diskLow"], found["diskFreeBytes"]) == (1, 0)

        filler.unlink()
        eventually(lambda: persist(alone, "10.0.3.1") == (200, OK))
        eventually(lambda: said(alone, "has room again") and alone.client.metrics()["diskLow"] == 0)
        assert said(alone, "accepts durable changes again")
        assert alone.worker == worker, "it was not restarted"
        taken = {f"10.0.1.{number}:8080" for number, (status, _) in enumerate(refusals) if status == 200}
        assert set(alone.client.hosts("durable")) == {"10.0.0.1:8080", "10.0.3.1:8080", *taken}

    @needs_compiler
    @pytest.mark.parametrize("fault", [errno.EROFS, errno.EIO])
    def test_takes_no_changes_any_more(self, alone: Member, tmp_path: Path, fault: int) -> None:
        disk = FailingDisk(tmp_path, alone.data)
        alone.settings |= disk.environ
        alone.restart()
        worker = alone.worker
        assert persist(alone, "10.0.0.1") == (200, OK)
        disk.fail(fault)
        status, body = persist(alone, "10.0.0.2")
        assert status == 507, body
        assert b"data folder does not accept the change" in body
        assert set(alone.client.hosts("durable")) == {"10.0.0.1:8080"}
        assert_serves(alone, "live", "10.0.2.1")
        assert alone.client.register("warm", "10.0.2.2").body == OK
        eventually(lambda: alone.client.metrics()["warmWritesFailed"] > 0)
        assert alone.client.metrics()["recordWritesFailed"] == 1
        assert said(alone, "does not accept durable changes")
        assert said(alone, "instance lists:")

        disk.fail(0)
        eventually(lambda: persist(alone, "10.0.0.2") == (200, OK))
        eventually(lambda: said(alone, "accepts durable changes again") and said(alone, "accepts instance lists again"))
        assert alone.worker == worker
        alone.kill_all()
        alone.restart()
        assert set(alone.client.hosts("durable")) == {"10.0.0.1:8080", "10.0.0.2:8080"}
        assert set(alone.client.hosts("warm")) == {"10.0.2.2:8080"}

    @needs_compiler
    def test_read_only_at_the_start_is_told(self, alone: Member, tmp_path: Path) -> None:
        disk = FailingDisk(tmp_path, alone.data)
        alone.settings |= disk.environ
        alone.data.mkdir()
        disk.fail(errno.EROFS)
        alone.start()
        assert alone.wait_exit() == 2
        assert f"data folder {alone.data} cannot be used: Read-only file system" in alone.log_text()


@pytest.mark.skipif(bool(no_wall_clock()), reason=no_wall_clock() or "none")
@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_wall_clock_that_is_set(make_cluster: StartCluster, tmp_path: Path, step_s: int) -> None:
    """One member's, by an hour: nothing that beats is lost or kept too long at any member, and records still order."""
    cluster = make_cluster(settings=FAST)
    clock = WallClock(tmp_path)
    victim, *others = cluster.members
    victim.settings |= clock.environ
    cluster.start()
    worker = victim.worker
    services = {owner: cluster.service_of(owner, "timed") for owner in cluster}
    for owner, service in services.items():
        # A member that stood still refuses calls for a moment.
        eventually(lambda owner=owner, service=service: owner.client.register(service, "10.0.0.1").body == OK)  # type: ignore[misc]
    clock.jump(step_s)
    way = "forward" if step_s > 0 else "back"
    eventually(lambda: said(victim, f"the wall clock was set {way} by 3"))
    assert victim.client.metrics()["wallClockSteps"] == 1
    assert abs(victim.client.metrics()["wallClockStepMs"] - step_s * 1_000) < 60_000
    for owner, service in services.items():
        assert_serves(owner, service, "10.0.0.2")
        eventually(lambda service=service: cluster.all_list(service, {"10.0.0.1:8080"}))  # type: ignore[misc]
        host = victim.client.hosts(service)["10.0.0.1:8080"]
        assert host["healthy"]
    assert victim.client.register("durable", "10.0.0.1", ephemeral="false").body == OK
    assert others[0].client.deregister("durable", "10.0.0.1", ephemeral="false").body == OK
    eventually(lambda: cluster.all_list("durable", set()))
    clock.jump(0)
    eventually(lambda: victim.client.metrics()["wallClockSteps"] == 2)
    assert victim.worker == worker
    assert [member.client.metrics()["wallClockSteps"] for member in others] == [0, 0]


class Names:
    """The names of members as their own /etc/hosts and name service have them: each member's files are its own."""

    def __init__(self, cluster: ClusterProcesses, work: Path) -> None:
        self.hosts = work / "hosts"
        self.hosts.touch()
        (work / "resolv.conf").write_text(NO_NAME_SERVICE)
        self.listed = ",".join(
            f"member-{at}.registry:{one.address.rpartition(':')[2]}" for at, one in enumerate(cluster)
        )
        for at, member in enumerate(cluster):
            member.prefix = with_mounts(*(f"--bind {work}/{name} /etc/{name}" for name in ("hosts", "resolv.conf")))
            member.settings["nacos.member.list"] = self.listed
            member.settings["nacos.server.ip"] = f"member-{at}.registry"
            member.settings["server.address"] = "0.0.0.0"
            # Names are no loopback addresses: members behind them must know each other by more than an address.
            member.settings["nacos.core.auth.server.identity.key"] = "test-member"
            member.settings["nacos.core.auth.server.identity.value"] = "of-these-tests-" + "x" * 32

    def know(self, *addresses: str) -> None:
        """Have ``member-N.registry`` at the N-th address; an empty one is a name without an address."""
        lines = [f"{ip} member-{at}.registry" for at, ip in enumerate(addresses) if ip]
        # In place: the members have this very file mounted.
        self.hosts.write_text("".join(f"{line}\n" for line in lines))


@needs_mounts
def test_names_that_come_late_go_and_come_back(make_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = make_cluster(settings=FAST)
    names = Names(cluster, tmp_path)
    for member in cluster:
        member.start()
    first = cluster.members[0]
    eventually(lambda: said(first, "the name of member member-1.registry:"))
    assert first.worker.is_running(), "a name without an address does not keep a member from starting"
    names.know("127.0.0.1", "127.0.0.1", "127.0.0.1")
    for member in cluster:
        member.wait_ready()
        eventually(lambda member=member: cluster.all_up(member))  # type: ignore[misc]
    assert first.client.register("named", "10.0.0.1", metadata='{"preserved.ip.delete.timeout":"600000"}').body == OK
    eventually(lambda: cluster.all_list("named", {"10.0.0.1:8080"}))

    names.know()
    for member in cluster:
        # A call from an address that is not known wakes the look-up, which is else made each half a minute.
        stranger = socket.create_connection(("127.0.0.1", int(member.address.rpartition(":")[2])), 5, ("127.0.0.77", 0))
        with contextlib.closing(stranger):
            stranger.sendall(b"GET /nacos/v1/ns/distro/datums HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert stranger.recv(1_000)
        eventually(lambda member=member: member.client.metrics()["namesUnresolved"] > 0)  # type: ignore[misc]
        eventually(lambda member=member: said(member, "its addresses stay 127.0.0.1"))  # type: ignore[misc]
        assert_serves(member, "named", "10.0.0.2")
        assert cluster.all_up(member)
    eventually(lambda: cluster.all_list("named", {"10.0.0.1:8080"}))

    names.know("127.0.0.1", "127.0.0.1", "127.0.0.1")
    for member in cluster:
        eventually(lambda member=member: member.client.metrics()["namesUnresolved"] == 0)  # type: ignore[misc]
        assert said(member, "is resolved again: 127.0.0.1")
        assert member.client.metrics()["nameLookupsFailed"] > 0


@needs_mounts
def test_a_member_that_comes_back_at_another_address_is_followed(make_cluster: StartCluster, tmp_path: Path) -> None:
    """As a pod that is made anew: its name stays, and nobody else is restarted."""
    cluster = make_cluster(settings=FAST)
    names = Names(cluster, tmp_path)
    for member in cluster:
        member.settings["server.address"] = "127.0.0.1"
    *stayed, moved = cluster.members
    names.know("127.0.0.1", "127.0.0.1", "127.0.0.99")
    for member in stayed:
        member.restart()
    for member in stayed:
        eventually(lambda member=member: set(member.client.states().values()) == {"UP", "DOWN"})  # type: ignore[misc]
    workers = [member.worker for member in stayed]
    names.know("127.0.0.1", "127.0.0.1", "127.0.0.1")
    moved.restart()
    for member in cluster:
        eventually(lambda member=member: cluster.all_up(member), 15)  # type: ignore[misc]
    for at, member in enumerate(cluster):
        assert member.client.register(f"moved-{at}", "10.0.0.1").body == OK
        eventually(lambda at=at: cluster.all_list(f"moved-{at}", {"10.0.0.1:8080"}), 15)  # type: ignore[misc]
    assert [member.worker for member in stayed] == workers
    for member in stayed:
        assert "registry" in member.log_text()
        assert "has a new address: 127.0.0.1, not 127.0.0.99" in member.log_text()


def test_descriptors_used_up(alone: Member) -> None:
    alone.restart()
    worker = alone.worker
    address = ("127.0.0.1", int(alone.address.rpartition(":")[2]))
    kept = socket.create_connection(address, 20)

    def ask() -> bytes:
        kept.sendall(
            b"PUT /nacos/v1/ns/instance/beat?serviceName=kept&ip=10.0.0.1&port=8080 HTTP/1.1\r\nHost: a\r\n\r\n"
            b"GET /nacos/v1/ns/instance/list?serviceName=kept HTTP/1.1\r\nHost: a\r\n\r\n"
        )
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 2 or b'"hosts"' not in answer:
            part = kept.recv(65_536)
            assert part, answer
            answer += part
        return answer

    with contextlib.closing(kept):
        assert alone.client.register("kept", "10.0.0.1").body == OK
        assert b"10.0.0.1" in ask()
        before = worker.rlimit(resource.RLIMIT_NOFILE)

        def used_up() -> bool:
            # Again with each look, as connections of earlier calls may have been closed meanwhile.
            worker.rlimit(resource.RLIMIT_NOFILE, (worker.num_fds(), before[1]))
            return said(alone, "all descriptors of this process are used up")

        eventually(used_up)
        for _ in range(3):
            with contextlib.suppress(OSError), contextlib.closing(socket.create_connection(address, 5)) as refused:
                assert refused.recv(1) == b"", "closed at once, and not left waiting"
        assert b"10.0.0.1" in ask(), "kept connections go on"
        worker.rlimit(resource.RLIMIT_NOFILE, before)
        eventually(lambda: said(alone, "file descriptors are free again"))
        assert alone.client.metrics()["descriptorsUsedUp"] > 0
        assert_serves(alone, "kept", "10.0.0.2")
        assert b"10.0.0.1" in ask()
    assert alone.worker == worker
