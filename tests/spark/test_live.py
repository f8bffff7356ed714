"""Running members, dumped by the command and checked: they agree, and what is changed behind their backs is found."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.naming.model.keys import instance_key
from app.tools.audit.check.command import main
from tests.spark.conftest import NIGHT
from tests.spark.conftest import findings as findings_of
from tests.support.processes import COMMAND, VERIFY_WITHOUT_SAMPLES, ClusterProcesses, Member, clean_environ, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
TAMPER = Path(__file__).resolve().parents[1] / "support" / "tamper"
LONG = json.dumps({"preserved.heart.beat.timeout": "600000", "preserved.ip.delete.timeout": "600000"})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    cluster = ClusterProcesses(tmp_path_factory.mktemp("live"), 3, VERIFY_WITHOUT_SAMPLES | {"PYTHONPATH": str(TAMPER)})
    for member in cluster:
        member.settings["ROLLCALL_TAMPER"] = str(member.folder / "tamper.json")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def fill(cluster: ClusterProcesses, prefix: str) -> dict[Member, str]:
    """Register ten instances in a service of each member and return these; and a durable one, and an empty service."""
    services = {member: cluster.service_of(member, prefix) for member in cluster}
    entry = cluster.members[0].client
    for service in services.values():
        for number in range(10):
            assert entry.register(service, f"10.8.0.{number}", 8080, metadata=LONG, weight="1.5").status == 200
    durable = entry.register(f"{prefix}-durable", "10.8.1.1", 8080, ephemeral="false")
    assert durable.status == 200
    for service in services.values():
        eventually(lambda service=service: all(len(one) == 10 for one in cluster.lists(service)))
    eventually(lambda: all(cluster.lists(f"{prefix}-durable")))
    return services


def dump(cluster: ClusterProcesses, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    members = ",".join(member.address for member in cluster)
    return subprocess.run(
        [COMMAND, "dump", "--members", members, "--out", str(out), "--gap", "1s", "--date", NIGHT, *arguments],
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def check(spark: "SparkSession", folder: Path) -> tuple[int, list[dict[str, Any]]]:
    code = main(["--dumps", str(folder / "dumps"), "--out", str(folder / "out"), "--night", NIGHT], spark)
    spark.catalog.clearCache()
    return code, findings_of(folder)


def key(number: int) -> str:
    return instance_key(f"10.8.0.{number}", 8080, "DEFAULT")


def tamper(member: Member, *commands: dict[str, Any]) -> None:
    path = Path(member.settings["ROLLCALL_TAMPER"])
    path.write_text(json.dumps(commands))
    os.kill(member.worker.pid, signal.SIGRTMIN)
    eventually(lambda: not path.exists())


def test_members_agree_and_faults_behind_their_backs_are_found(
    cluster: ClusterProcesses, spark: "SparkSession", tmp_path: Path
) -> None:
    services = fill(cluster, "audited")
    assert dump(cluster, tmp_path / "before" / "dumps").returncode == 0
    assert check(spark, tmp_path / "before") == (0, [])

    one, two, three = cluster.members
    full = {member: f"DEFAULT_GROUP@@{service}" for member, service in services.items()}
    tamper(two, {"do": "remove", "service": full[one], "key": key(1)})
    tamper(three, {"do": "copy", "service": full[one], "key": key(2), "ip": "10.8.9.9"})
    for number, fields in ((3, {"healthy": False}), (4, {"weight": 7.0}), (5, {"metadata": {"a": "b"}})):
        tamper(three, {"do": "change", "service": full[two], "key": key(number), "fields": fields})
    tamper(one, {"do": "own", "service": full[three]})
    assert dump(cluster, tmp_path / "after" / "dumps").returncode == 0
    code, findings = check(spark, tmp_path / "after")
    assert code == 1
    assert {(one["finding_class"], one["lasting"], one["service"], one["ip"], one["member"]) for one in findings} == {
        ("MISSING", True, full[one], "10.8.0.1", two.address),
        ("EXTRA", True, full[one], "10.8.9.9", three.address),
        # Changed behind the member's back: the versions are what they were.
        *(("SILENT_CORRUPTION", True, full[two], f"10.8.0.{number}", three.address) for number in (3, 4, 5)),
        ("OWNER", True, full[three], "", min(one.address, three.address)),
    }


def test_a_member_that_is_stopped_is_absent(cluster: ClusterProcesses, spark: "SparkSession", tmp_path: Path) -> None:
    stopped = cluster.members[2]
    stopped.pause(master=False)
    try:
        done = dump(cluster, tmp_path / "dumps", "--timeout", "2s", "--retries", "0")
        assert (done.returncode, stopped.address in done.stderr + done.stdout) == (1, True), done.stderr
    finally:
        stopped.resume(master=False)
    code, findings = check(spark, tmp_path)
    assert code == 1
    absent = [one for one in findings if one["finding_class"] == "ABSENT_MEMBER"]
    assert [(one["member"], one["lasting"]) for one in absent] == [(stopped.address, True)]
