"""Each line of the table of attacks: refused, nothing changed at any member, beats answered beside it, a clean log."""

import contextlib
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from scripts.chaos.attack_calls import Victim
from scripts.chaos.attack_table import OF_USERS, TABLE, log_complaints, settled
from scripts.support.beat_load import BeatLoad, beating, figures
from tests.attacks.conftest import Scene
from tests.support.listener import Listener
from tests.support.processes import ClusterProcesses, Member, eventually, free_ports

P99_MS_MAX = 1_000.0
"""Of beats beside an attack, on a machine that others use too; ``scripts/chaos/attacks.py`` measures."""
BEATS_MIN = 50


SCENES = [("plain", name) for name in TABLE if name not in OF_USERS] + [("secured", name) for name in TABLE]


@pytest.fixture
def beats(scene: Scene) -> Iterator[BeatLoad]:
    with beating(scene.beaten_at, scene.load, rate=100, connections=8, token=scene.victim.token) as load:
        yield load


@pytest.mark.parametrize(("scene", "name"), SCENES, indirect=["scene"])
def test_an_attack_is_refused_and_changes_nothing(scene: Scene, name: str, beats: BeatLoad) -> None:
    members, victim = scene.members, scene.victim
    before = victim.held()
    workers = [member.worker.pid for member in members]
    begun_s = time.monotonic()
    TABLE[name](victim)
    assert settled(victim, before) == []
    time.sleep(max(0.0, begun_s + 1.0 - time.monotonic()))  # for beats enough to count, however quick the attack was
    beaten = beats.end()
    assert beaten.failures == {}
    answered = figures([ms for _, ms in beaten.answered], P99_MS_MAX)
    assert answered.count >= BEATS_MIN
    assert answered.p99_ms < P99_MS_MAX, answered
    assert [member.worker.pid for member in members] == workers
    for member in members:
        assert log_complaints(member.log_text()) == []


def test_one_query_causes_two_datagrams_at_most(attacked: ClusterProcesses, first: Member) -> None:
    """Bytes in against bytes out, of a query whose client never acknowledges, while the service changes 100 times."""
    metadata = '{"a":"' + "b" * 900 + '"}'
    for number in range(40):
        assert first.client.register("amplified", f"10.9.0.{number + 1}", metadata=metadata).status == 200
    with closing(Listener()) as listener:
        query = {"serviceName": "amplified", "clientIP": listener.ip, "udpPort": listener.port}
        agent = {"User-Agent": "Nacos-Java-Client:v1.4.8"}
        assert first.client.call("GET", "/v1/ns/instance/list", headers=agent, **query).status == 200
        out = datagrams = 0
        for change in range(100):
            weight = 1 + change % 50
            assert first.client.register("amplified", "10.9.0.1", weight=weight, metadata=metadata).status == 200
            for size in _received(listener):
                datagrams, out = datagrams + 1, out + size
        eventually(lambda: _held_back(first) > 0)
        for size in _received(listener, 0.5):
            datagrams, out = datagrams + 1, out + size
    assert 1 <= datagrams <= 2
    assert out <= 2 * 65_507


def _received(listener: Listener, wait_s: float = 0.0) -> list[int]:
    """The sizes of the datagrams that have come, and of those that come within ``wait_s`` of each other."""
    sizes = []
    listener._socket.settimeout(wait_s)
    with contextlib.suppress(BlockingIOError, TimeoutError):
        while True:
            sizes.append(len(listener._socket.recv(1 << 16)))
    return sizes


def _held_back(member: Member) -> int:
    """How many pushes wait for a client's answer, as the state of pushes shows it."""
    state = member.client.call("GET", "/v1/ns/operator/push/state", detail="true").json()
    return len([text for text in state["data"] if "amplified" in text])


def test_a_check_connects_to_no_port_of_a_member(attacked: ClusterProcesses, first: Member) -> None:
    """With HTTP and a path it would be a member's call to itself."""
    [quiet] = free_ports(1)
    before = sum(int(member.client.metrics()["checksRefused"]) for member in attacked)
    port = int(attacked.members[2].address.rpartition(":")[2])
    kept = {"ephemeral": "false"}
    with socket.create_server(("127.0.0.1", quiet)):
        for number in (port, port + 1_000, quiet):
            assert first.client.register("checked", "127.0.0.1", number, **kept).status == 200
        eventually(lambda: sum(int(one.client.metrics()["checksRefused"]) for one in attacked) >= before + 4)
    for number in (port, port + 1_000, quiet):
        assert first.client.deregister("checked", "127.0.0.1", number, **kept).status == 200


def test_a_password_of_a_checker_is_nowhere(attacked: ClusterProcesses, first: Member, victim: Victim) -> None:
    checker = '{"type":"MYSQL","user":"u","pwd":"geheim-geheim","cmd":"select 1"}'
    settings = {"checkPort": 80, "useInstancePort4Check": "true", "healthChecker": checker}
    answer = first.client.call("PUT", "/v1/ns/cluster", serviceName="kept", clusterName="NONE", **settings)
    assert answer.status == 200
    eventually(lambda: sum("MYSQL" in line for line in victim.held()) == len(attacked.members))
    assert "geheim-geheim" not in "".join(victim.held())
    for member in attacked:
        for file in member.data.rglob("*"):
            assert file.is_dir() or b"geheim-geheim" not in file.read_bytes(), file
        assert "geheim-geheim" not in member.log_text()


def test_only_its_owner_may_read_the_data_folder(attacked: ClusterProcesses, victim: Victim) -> None:
    for member in attacked:
        assert stat.S_IMODE(member.data.stat().st_mode) == 0o700
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in member.data.iterdir() if file.is_file()}
        assert {"LOCK", "records.sqlite3", "warm.sqlite3"} <= set(files)
        assert set(files.values()) == {0o600}, files


def test_an_operator_undoes_what_locks_clients_out(attacked: ClusterProcesses, first: Member, victim: Victim) -> None:
    switch = {"entry": "overriddenServerStatus"}
    assert first.client.call("PUT", "/v1/ns/operator/switches", **switch, value="DOWN").status == 200
    listed = ("GET", "/v1/ns/instance/list")
    eventually(lambda: first.client.call(*listed, serviceName="kept").status == 503)
    assert first.client.call("PUT", "/v1/ns/operator/switches", **switch, value="null").status == 200
    eventually(lambda: all(one.client.call(*listed, serviceName="kept").status == 200 for one in attacked))
