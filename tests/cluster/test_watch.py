"""The watch over running members: they agree, a fault behind their backs is named, and its end is told."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.naming.model.keys import instance_key
from app.tools.cli import main
from tests.support.processes import COMMAND, NO_VERIFY, ClusterProcesses, Member, clean_environ, eventually
from tests.support.tiny_server import Given, TinyServer, tiny_server

TAMPER = Path(__file__).resolve().parents[1] / "support" / "tamper"
LONG = json.dumps({"preserved.heart.beat.timeout": "600000", "preserved.ip.delete.timeout": "600000"})
KEY = instance_key("10.8.0.1", 8080, "DEFAULT")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    cluster = ClusterProcesses(tmp_path_factory.mktemp("watch"), 3, NO_VERIFY | {"PYTHONPATH": str(TAMPER)})
    for member in cluster:
        member.settings["ROLLCALL_TAMPER"] = str(member.folder / "tamper.json")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


@pytest.fixture
def alerts() -> Iterator[TinyServer]:
    with tiny_server(lambda _: Given()) as tiny:
        yield tiny


def registered(cluster: ClusterProcesses, prefix: str) -> str:
    """The full name of a service of the first member with three instances, which all members list."""
    service = cluster.service_of(cluster.members[0], prefix)
    for number in range(3):
        assert cluster.members[0].client.register(service, f"10.8.0.{number}", 8080, metadata=LONG).status == 200
    eventually(lambda: all(len(one) == 3 for one in cluster.lists(service)))
    return f"DEFAULT_GROUP@@{service}"


def tamper(member: Member, *commands: dict[str, object]) -> None:
    path = Path(member.settings["ROLLCALL_TAMPER"])
    path.write_text(json.dumps(commands))
    os.kill(member.worker.pid, signal.SIGRTMIN)
    eventually(lambda: not path.exists())


def arguments(cluster: ClusterProcesses, *more: str) -> list[str]:
    addresses = ",".join(member.address for member in cluster)
    return ["watch-agreement", "--members", addresses, "--gap", "300ms", *more]


def once(cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str]]:
    code = main(arguments(cluster, "--once", *more))
    return code, capsys.readouterr().out.splitlines()


def test_a_difference_is_named_until_it_is_gone(
    members: ClusterProcesses, alerts: TinyServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = registered(members, "watched")
    _, two, _ = members.members
    metrics = tmp_path / "watch.prom"
    options = ("--alert-url", f"http://{alerts.address}/", "--state", str(tmp_path), "--textfile", str(metrics))
    code, lines = once(members, capsys, *options)
    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith("agreed: 3 members, 3 instances of 1 services; looked at 20")

    tamper(two, {"do": "remove", "service": service, "key": KEY})
    code, lines = once(members, capsys, *options)
    assert code == 1
    assert lines[0].startswith("divergent: 1 MISSING in 1 services; 3 members, 3 instances of 1 services; looked at 20")
    assert lines[1].startswith(f"  MISSING public {service} 10.8.0.1:8080 at {two.address}: found absent, expected ")
    assert 'rollcall_watch_verdict{verdict="divergent"} 1.0' in metrics.read_text()
    assert "rollcall_watch_services_differing 1.0" in metrics.read_text()

    assert members.members[0].client.deregister(service.partition("@@")[2], "10.8.0.1").status == 200
    eventually(lambda: all(len(one) == 2 for one in members.lists(service.partition("@@")[2])))
    for _ in range(2):
        code, lines = once(members, capsys, *options)
        assert (code, lines[0].partition(";")[0]) == (0, "agreed: 3 members, 2 instances of 1 services")
    told = [json.loads(received.body) for received in alerts.received]
    assert [(one["source"], one["verdict"]) for one in told] == [("watch", "divergent"), ("watch", "agreed")]
    assert (told[0]["examples"][0]["service"], told[1]["resolved"]) == (service, ["MISSING"])
    assert 'rollcall_watch_verdict{verdict="agreed"} 1.0' in metrics.read_text()


def test_a_silent_member_is_absent_and_one_alone_proves_nothing(
    members: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = members.members[2]
    silent.pause(master=False)
    try:
        code, lines = once(members, capsys, "--timeout", "1s", "--retries", "0")
        assert (code, lines[0].partition(";")[0]) == (1, "divergent: 1 ABSENT_MEMBER")
        assert lines[1] == f"  ABSENT_MEMBER at {silent.address} (/v1/ns/operator/digest: no answer within 1 s)"
        one = members.members[0]
        both = ["watch-agreement", "--members", f"{one.address},{silent.address}", "--once", "--timeout", "1s"]
        assert main([*both, "--retries", "0"]) == 2
        assert capsys.readouterr().out.startswith("could not judge: 1 of 2 members answered, and two are needed: ")
    finally:
        silent.resume(master=False)


def test_the_process_goes_on_and_ends_in_order(members: ClusterProcesses) -> None:
    entry = f"http://{members.members[0].address}/nacos"
    started = [COMMAND, "watch-agreement", "--from-cluster", entry, "--every", "1s", "--gap", "100ms"]
    process = subprocess.Popen(started, env=clean_environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert [line.partition(":")[0] for line in lines] == ["agreed"] * 3
        process.terminate()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (0, "ended by a signal\n"), out
