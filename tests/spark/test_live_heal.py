"""Running members that differ for good, as the nightly check sees them before and after ``rollcall heal``."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.command import main
from tests.spark.conftest import findings
from tests.support.damage import LONG, plant
from tests.support.departures import DEPARTURES, ONE, TWO
from tests.support.processes import COMMAND, VERIFY_WITHOUT_SAMPLES, ClusterProcesses, clean_environ, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
END_S = 120.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path / "members", 3, VERIFY_WITHOUT_SAMPLES)
    try:
        made.start()
        yield made
    finally:
        made.end()
    made.assert_no_traceback()


def ran(*arguments: str) -> None:
    done = subprocess.run(
        [COMMAND, *arguments], env=clean_environ(), capture_output=True, text=True, timeout=END_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_check_finds_is_healed_and_the_next_check_agrees(
    cluster: ClusterProcesses, spark: "SparkSession", tmp_path: Path
) -> None:
    members = ",".join(one.address for one in cluster.members)
    planted = set()
    for number, (finding_class, depart) in enumerate(DEPARTURES):
        service = f"departs-{number}"
        for ip in (ONE, TWO):
            assert cluster.members[0].client.register(service, ip, metadata=LONG).status == 200
        eventually(lambda service=service: cluster.all_list(service, {f"{ONE}:8080", f"{TWO}:8080"}))
        target = cluster.others(cluster.owner(service))[0]
        plant(cluster.members, service, [target], depart)
        planted.add((finding_class, f"DEFAULT_GROUP@@{service}", target.address))

    def checked(night: str) -> tuple[int, set[tuple[str, str, str]]]:
        ran("dump", "--members", members, "--out", str(tmp_path / "dumps"), "--gap", "2s", "--date", night)
        places = ["--dumps", str(tmp_path / "dumps"), "--out", str(tmp_path / "out"), "--night", night]
        code = main(places, spark)
        spark.catalog.clearCache()
        found = (one for one in findings(tmp_path, night) if one["lasting"])
        return code, {(one["finding_class"], one["service"], one["member"]) for one in found}

    assert checked("2026-11-20") == (1, planted)
    for number in range(len(DEPARTURES)):
        ran("heal", "--service", f"departs-{number}", "--members", members, "--gap", "100ms")
    assert checked("2026-11-21") == (0, set())
