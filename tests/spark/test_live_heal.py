"""Running members that differ for good: the page of the check is followed to the letter, and the next check agrees."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.support.damage import LONG, plant
from tests.support.departures import DEPARTURES, ONE, TWO
from tests.support.followed_page import Nights
from tests.support.processes import VERIFY_WITHOUT_SAMPLES, ClusterProcesses, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path / "members", 3, VERIFY_WITHOUT_SAMPLES)
    try:
        made.start()
        yield made
    finally:
        made.end()
    made.assert_no_traceback()


def test_what_the_check_finds_is_healed_and_the_next_check_agrees(
    cluster: ClusterProcesses, spark: "SparkSession", tmp_path: Path
) -> None:
    nights = Nights(cluster, spark, tmp_path)
    planted = set()
    for number, (finding_class, depart) in enumerate(DEPARTURES):
        service = f"departs-{number}"
        for ip in (ONE, TWO):
            assert cluster.members[0].client.register(service, ip, metadata=LONG).status == 200
        eventually(lambda service=service: cluster.all_list(service, {f"{ONE}:8080", f"{TWO}:8080"}))
        target = cluster.others(cluster.owner(service))[0]
        plant(cluster.members, service, [target], depart)
        planted.add((finding_class, f"DEFAULT_GROUP@@{service}", "", target.address))

    assert nights.checked("2026-11-20") == (1, planted)
    outputs = nights.follow("2026-11-20", lambda step: False)
    compared, shown, healed = outputs
    assert "departs-" in outputs[compared]
    assert "nothing was done (--dry-run)" in outputs[shown]
    assert [text.split()[0] for text in outputs] == ["compare", "heal", "heal"]
    assert [text.endswith(" --dry-run") for text in outputs] == [False, True, False]
    services = len(DEPARTURES)
    counts = f"services: {services}, agreed before: 0, healed: {services}, still differ: 0"
    assert re.fullmatch(rf"{counts}; took [0-9.]+ s", outputs[healed].splitlines()[-1])
    assert nights.checked("2026-11-21") == (0, set())
