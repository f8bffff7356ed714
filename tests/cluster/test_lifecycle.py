"""Members that start, stop, come and go in order; and what refuses to start."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.processes import (
    FAST,
    HANG_S,
    ClusterProcesses,
    clean_environ,
    eventually,
    free_ports,
    heeding_hangup,
    is_gone,
    ports_apart,
)

ROOT = Path(__file__).resolve().parents[2]
WRITES_MEANWHILE = 5
"""In the two seconds that a stop takes at least; on an idle machine there are hundreds."""


def gone_from_view(cluster: ClusterProcesses, service: str, victim: str) -> bool:
    return all(member.client.owner(service) != victim for member in cluster if member.address != victim)


class TestStop:
    def test_a_stopped_member_says_that_it_leaves(self, make_cluster: StartCluster) -> None:
        """A member found out by silence or refusal would keep its keys for ten minutes."""
        cluster = make_cluster(3, {"rollcall.distro.refusedDownMs": "600000", "rollcall.distro.silentDownMs": "600000"})
        cluster.start()
        victim, *others = cluster.members
        service = cluster.service_of(victim, "leaving")
        assert victim.client.register(service, "10.3.0.1").status == 200
        eventually(lambda: cluster.all_list(service, {"10.3.0.1:8080"}))
        victim.master.terminate()
        eventually(lambda: gone_from_view(cluster, service, victim.address))
        assert victim.wait_exit() == 0
        for number, member in enumerate(others, 2):
            assert member.client.register(service, f"10.3.0.{number}").status == 200
        expected = {f"10.3.0.{number}:8080" for number in (1, 2, 3)}
        eventually(lambda: cluster.all_list(service, expected, others))

    def test_no_write_waits_for_a_member_that_stops(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster()
        cluster.start()
        victim, *others = cluster.members
        service = cluster.service_of(victim, "stopping")
        # Connections are kept among members, and gunicorn lets those end for two seconds before the node may stop.
        assert all(member.client.register(service, "10.3.0.1").status == 200 for member in cluster)
        worker = victim.worker
        victim.master.terminate()
        written, meanwhile = 0, 0
        while not is_gone(worker):
            assert others[written % 2].client.register(service, f"10.3.0.{written % 250 + 2}").status == 200
            written += 1
            meanwhile += not is_gone(worker)
        assert victim.wait_exit() == 0
        assert meanwhile >= WRITES_MEANWHILE, "writes were answered while it stopped, not afterwards"
        expected = {f"10.3.0.{number + 1}:8080" for number in range(min(written, 250) + 1)}
        eventually(lambda: cluster.all_list(service, expected, others))

    def test_what_was_taken_before_the_stop_reaches_the_others(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        victim, *others = cluster.members
        service = cluster.service_of(victim, "late")
        addresses = {f"10.3.1.{number}:8080" for number in range(20)}
        for address in sorted(addresses):
            assert victim.client.register(service, address.partition(":")[0]).status == 200
        victim.stop()
        eventually(lambda: cluster.all_list(service, addresses, others))

    def test_a_stopped_member_returns_with_everything(self, make_cluster: StartCluster) -> None:
        cluster = make_cluster(3, FAST)
        cluster.start()
        victim, *others = cluster.members
        service = cluster.service_of(victim, "return")
        victim.client.register(service, "10.3.2.1")
        victim.stop()
        eventually(lambda: gone_from_view(cluster, service, victim.address))
        others[0].client.register(service, "10.3.2.2")
        victim.restart()
        # From its first answer on: it loaded before it said that it is ready.
        assert set(victim.client.hosts(service)) == {"10.3.2.1:8080", "10.3.2.2:8080"}
        eventually(lambda: {member.client.owner(service) for member in cluster} == {victim.address})
        victim.client.register(service, "10.3.2.3")
        eventually(lambda: cluster.all_list(service, {f"10.3.2.{number}:8080" for number in (1, 2, 3)}))

    @pytest.mark.usefixtures("new_programs")
    def test_all_stop_together(self, make_cluster: StartCluster) -> None:
        """None of them waits for the others, who are not there any more."""
        cluster = make_cluster()
        cluster.start()
        cluster.members[0].client.register("together", "10.3.3.1")
        for member in cluster:
            member.master.send_signal(signal.SIGTERM)
        assert [member.wait_exit() for member in cluster] == [0, 0, 0]


def test_an_empty_cluster_waits_for_nobody_who_answers(make_cluster: StartCluster) -> None:
    """Three that start together have nothing to give each other, and say so."""
    cluster = make_cluster(3, {"rollcall.distro.load.refusedMs": "60000", "rollcall.distro.load.waitMs": "600000"})
    cluster.start()


def test_a_fourth_member_joins_by_the_member_file(make_cluster: StartCluster) -> None:
    cluster = make_cluster(4, FAST)
    addresses = [member.address for member in cluster]
    *first, fourth = cluster.members
    for member in first:
        (member.conf / "cluster.conf").write_text("\n".join(addresses[:3]))
        member.start()
    for member in first:
        member.wait_ready()
        eventually(lambda member=member: len(member.client.states()) == 3)  # type: ignore[misc]
    services = [cluster.service_of(owner, "four") for owner in cluster]
    for service in services:
        assert first[0].client.register(service, "10.3.4.1").status == 200
    for member in cluster:
        (member.conf / "cluster.conf").write_text("# a fourth one\n" + "\n".join(addresses))
    fourth.restart()
    for member in cluster:
        eventually(lambda member=member: cluster.all_up(member))  # type: ignore[misc]
        for owner, service in zip(cluster, services, strict=True):
            eventually(lambda m=member, s=service, o=owner: m.client.owner(s) == o.address)  # type: ignore[misc]
    for number, member in enumerate(cluster):
        for service in services:
            assert member.client.register(service, f"10.3.5.{number}").status == 200
    expected = {"10.3.4.1:8080", *(f"10.3.5.{number}:8080" for number in range(4))}
    for service in services:
        eventually(lambda service=service: cluster.all_list(service, expected))  # type: ignore[misc]


@pytest.mark.usefixtures("new_programs")
class TestRefused:
    def test_a_second_node_on_one_data_folder(self, make_cluster: StartCluster) -> None:
        first, second = make_cluster(2, {"nacos.standalone": "true"})
        first.restart()
        second.data = first.data
        second.start()
        assert second.wait_exit() == 2
        assert re.search(
            rf"rollcall: data folder {first.data} is in use by another node, process \d+", second.log_text()
        )
        assert first.client.register("kept", "10.3.6.1").status == 200
        first.stop()

    def test_a_second_node_on_one_data_folder_without_the_command(self, make_cluster: StartCluster) -> None:
        """gunicorn started by itself: only the worker finds out, and no second one is tried for ever."""
        [first] = make_cluster(1, {"nacos.standalone": "true"})
        first.restart()
        [port] = free_ports(1)
        environ = {"server.port": str(port), "rollcall.data.dir": str(first.data), "nacos.standalone": "true"}
        ended = subprocess.run(
            [sys.executable, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py", "app.wsgi:app"],
            cwd=ROOT,
            env={**clean_environ(), **environ},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode not in (0, 1)
        assert f"rollcall: data folder {first.data} is in use by another node" in ended.stderr
        assert "Traceback" not in ended.stderr
        first.stop()

    def test_more_than_one_worker(self, make_cluster: StartCluster) -> None:
        [member] = make_cluster(1, {"nacos.standalone": "true", "GUNICORN_CMD_ARGS": "--workers 2"})
        member.start()
        assert member.wait_exit() == 2
        assert "2 workers are not allowed: the registry is the memory of one process" in member.log_text()

    @pytest.mark.parametrize("number", [signal.SIGTTIN, signal.SIGHUP, signal.SIGUSR2], ids=lambda one: one.name)
    def test_a_signal_makes_no_second_registry(self, make_cluster: StartCluster, number: signal.Signals) -> None:
        """gunicorn would add a worker, replace the one there is, or start another master beside this one."""
        [member] = make_cluster(1, {"nacos.standalone": "true"})
        with heeding_hangup():
            member.restart()
        assert member.client.register("one", "10.3.7.1").status == 200
        worker = member.worker
        member.master.send_signal(number)
        if number is signal.SIGHUP:
            assert member.wait_exit() == 0  # the terminal was closed
            return
        for _ in range(20):
            assert member.worker == worker
            assert set(member.client.hosts("one")) == {"10.3.7.1:8080"}
        member.stop()


def test_a_wrong_setting_is_said_in_one_line(make_cluster: StartCluster) -> None:
    [member] = make_cluster(1, {"rollcall.distro.steadyMs": "soon"})
    member.start()
    assert member.wait_exit() == 2
    assert member.log_text() == (
        "rollcall: rollcall.distro.steadyMs=soon (environment variable rollcall.distro.steadyMs) is not allowed: "
        "a whole number from 0 to 3600000\n"
    )


def test_one_command_starts_and_ends_three_members(tmp_path: Path) -> None:
    base, *_ = ports_apart(3, 10)
    command = [str(Path(sys.executable).with_name("rollcall")), "serve", "--port", str(base), "--members", "3"]
    with (
        open(tmp_path / "log", "wb") as log,
        subprocess.Popen(
            [*command, "--data", str(tmp_path / "d")],
            env=clean_environ(),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(4)]
            consoles = [f"console http://127.0.0.1:{base + 10 * number}/nacos/" for number in range(3)]
            assert sorted(line.partition(" ready: ")[0] for line in lines[:3]) == consoles
            assert lines[3].startswith("all 3 members serve, after ")
            process.terminate()
            assert process.wait(HANG_S) == 0
        finally:
            process.terminate()
    text = (tmp_path / "log").read_text()
    assert "Traceback" not in text
    # Of members that end at once, the last may find nobody to hand over to. A busy machine makes a process wait.
    meant = (
        "RUNNING AS ROOT",
        "no other member can be reached",
        "this process did not run for",
        "a turn of the engine took",
    )
    warnings = [line for line in text.splitlines() if " WARNING " in line and not any(one in line for one in meant)]
    assert warnings == [], "a healthy start and end"
