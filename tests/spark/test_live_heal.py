"""Running members that differ for good: the page of the check is followed to the letter, and the next check agrees."""

import html
import re
import shlex
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


def ran(*arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        [COMMAND, *arguments], env=clean_environ(), capture_output=True, text=True, timeout=END_S, check=False
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


def steps_of(page: str) -> list[list[str]]:
    """Return the command lines under "What to do", as a shell splits them, without the name of the program."""
    section = page.partition('id="todo"')[2].partition("</section>")[0]
    lines = re.findall(r'<pre class="command"><code>(.*?)</code></pre>', section, re.S)
    found = [shlex.split(html.unescape(re.sub(r"<[^>]*>", "", line))) for line in lines]
    assert all(words[0] == "rollcall" for words in found)
    return [words[1:] for words in found]


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
    page = (tmp_path / "out" / "reports" / "night=2026-11-20" / "report.html").read_text()
    compared, shown, healed = steps_of(page)
    assert "departs-" in ran(*compared, codes=(1,))
    assert "nothing was done (--dry-run)" in ran(*shown, codes=(1,))
    assert (shown[0], shown[-1]) == ("heal", "--dry-run")
    services = len(DEPARTURES)
    text = ran(*healed, "--gap", "100ms")
    counts = f"services: {services}, agreed before: 0, healed: {services}, still differ: 0"
    assert re.fullmatch(rf"{counts}; took [0-9.]+ s", text.splitlines()[-1])
    assert checked("2026-11-21") == (0, set())
