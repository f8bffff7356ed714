"""The whole audit of real Nacos: clusters that agree, and a member of 1.4.1 that is told otherwise by a direct call."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.command import main as check_main
from app.tools.audit.format.layout import read_night
from app.tools.audit.format.manifest import DumpState
from tests.peers.test_dump import (
    NIGHT,
    SYNC_TIMEOUT_S,
    address_of,
    assert_dumped_1_4,
    dump,
    fill_1_4,
    nacos,
    register,
    rows_by_member,
)
from tests.support.client import Client
from tests.support.processes import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
KEY = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@{}"
PLANTED_WEIGHT = 7.0
AGAIN_S = 0.3
"""The owner repairs what was planted within 5 s."""
DUMPS_MAX = 8
REPAIRED_GAP = "12s"
Found = set[tuple[str, bool, str, str]]
"""Class, whether it lasts, service, member."""
NightCheck = Callable[[str], tuple[int, Found]]


def make_check(spark: "SparkSession", folder: Path) -> NightCheck:
    def check(name: str) -> tuple[int, Found]:
        out = folder / f"{name}-out"
        code = check_main(["--dumps", str(folder / name), "--out", str(out), "--night", NIGHT], spark)
        spark.catalog.clearCache()
        lines = (out / "findings_json" / f"night={NIGHT}").glob("*.json")
        found = [json.loads(line) for path in lines for line in path.read_text().splitlines()]
        return code, {(one["finding_class"], one["lasting"], one["service"], one["member"]) for one in found}

    return check


def fill_2_3(clients: list[Client]) -> None:
    services = [f"audited-{number}" for number in range(6)]
    for number, service in enumerate(services):
        for host in range(1, 4):
            register(clients[number % 3], service, f"10.0.0.{host}", clusterName=f"c{host % 2}")
    for client in clients:
        for service in services:
            eventually(lambda client=client, service=service: len(client.hosts(service)) == 3, SYNC_TIMEOUT_S)


@contextmanager
def planted(client: Client, key: str, datum: dict[str, Any], until: Callable[[], bool]) -> Iterator[None]:
    """Tell a member again and again that an instance has another weight, until that holds or the context ends."""
    datum["value"]["instanceList"][0]["weight"] = PLANTED_WEIGHT
    body = json.dumps({key: datum}).encode()
    done, is_there = threading.Event(), threading.Event()

    def tell() -> None:
        while not done.is_set() and not until():
            headers = {"User-Agent": "Nacos-Server:1.4.1", "Content-Type": "application/json;charset=UTF-8"}
            assert client.call("PUT", "/v1/ns/distro/datum", body, headers).status == 200
            is_there.set()
            done.wait(AGAIN_S)

    thread = threading.Thread(target=tell, name="planter")
    thread.start()
    try:
        assert is_there.wait(SYNC_TIMEOUT_S)
        yield
    finally:
        done.set()
        thread.join()


def assert_found(checked: tuple[int, Found], code: int, *, lasting: bool, wrong: tuple[str, str]) -> None:
    """That is found, and nothing else that lasts.

    A member that is short of processor time looks dead for a moment; the one that was told the weight is then the
    owner, and passes it on until the real one is back. That is drift too, which the check rightly calls late.
    """
    found_code, found = checked
    assert found_code == code
    assert ("WEIGHT", lasting, *wrong) in found
    others = found - {("WEIGHT", lasting, *wrong)}
    assert {one[:3] for one in others} <= {("WEIGHT", False, wrong[0])}, others


def test_a_cluster_of_1_4(spark: "SparkSession", tmp_path: Path) -> None:
    check = make_check(spark, tmp_path)
    with nacos(tmp_path / "nacos", "1.4", "cluster", 3) as clients:
        services = fill_1_4(clients)
        service = services[0]
        assert dump(tmp_path / "before", clients) == 0
        assert_dumped_1_4(tmp_path / "before", clients, services)
        assert check("before") == (0, set())

        owner = clients[0].owner(service)
        other = next(client for client in clients if address_of(client) != owner)
        key = KEY.format(service)
        wrong = ("DEFAULT_GROUP@@" + service, address_of(other))

        def datum() -> dict[str, Any]:
            owning = next(client for client in clients if address_of(client) == owner)
            asked = json.dumps({"keys": key}).encode()
            answer = owning.call("GET", "/v1/ns/distro/datum", asked, {"User-Agent": "Nacos-Server:1.4.1"})
            return dict(answer.json()[key])

        def dump_planted(name: str, rounds: tuple[int, ...], *options: str) -> str:
            """Dump while it is planted, until these rounds have it: a round may come just after a repair."""
            for number in range(DUMPS_MAX):
                out = tmp_path / f"{name}-{number}"
                ends = (lambda: False) if 1 in rounds else (lambda out=out: any(out.rglob("*manifest.json")))
                eventually(lambda: {one["weight"] for one in other.hosts(service).values()} == {1.0}, SYNC_TIMEOUT_S)
                with planted(other, key, datum(), until=ends):
                    assert dump(out, clients, *options) == 0
                seen = [rows_by_member(out, one)[address_of(other)] for one in rounds]
                if all(any(row.get("weight") == PLANTED_WEIGHT for row in rows) for rows in seen):
                    return out.name
            raise AssertionError(f"none of {DUMPS_MAX} dumps has what was planted in rounds {rounds}")

        assert_found(check(dump_planted("lasting", (0, 1))), 1, lasting=True, wrong=wrong)
        assert_found(check(dump_planted("once", (0,), "--gap", REPAIRED_GAP)), 0, lasting=False, wrong=wrong)

        silent = int((tmp_path / "nacos" / f"node-{clients[2]._port}" / "pid").read_text())
        os.kill(silent, signal.SIGSTOP)
        try:
            assert dump(tmp_path / "two", clients, "--timeout", "5s", "--retries", "0") == 1
        finally:
            os.kill(silent, signal.SIGCONT)
        *there, absent = read_night(str(tmp_path / "two"), NIGHT).rounds[-1].manifest.members
        assert {one.state for one in there} == {DumpState.DUMPED}
        assert (absent.state, absent.parts) == (DumpState.ABSENT, [])
        code, found = check("two")
        assert (code, {one for one in found if one[1]}) == (1, {("ABSENT_MEMBER", True, "", address_of(clients[2]))})


def test_a_cluster_of_2_3(spark: "SparkSession", tmp_path: Path) -> None:
    with nacos(tmp_path / "nacos", "2", "cluster", 3) as clients:
        fill_2_3(clients)
        register(clients[1], "other", "10.0.0.9", weight="2.5", enabled="false")
        eventually(
            lambda: all(
                one.call("GET", "/v1/ns/instance", serviceName="other", ip="10.0.0.9", port=8080).status == 200
                for one in clients
            ),
            SYNC_TIMEOUT_S,
        )
        assert dump(tmp_path / "all", clients) == 0
        assert make_check(spark, tmp_path)("all") == (0, set())
