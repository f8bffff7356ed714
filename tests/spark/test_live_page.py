"""Each class of findings, planted in running members: the page is followed to the letter, and the next check agrees.

``test_live_heal`` has the classes of one instance's values.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.naming.records.record_keys import namespace_key, service_meta_key
from app.rows.rows import Layer, RowKind
from distro.members.mapper import DistroMapper
from tests.support.client import Answer
from tests.support.damage import (
    ATTEMPTS_MAX,
    LONG,
    await_rounds,
    plant_publication,
    plant_record,
    still_differ,
    writer_of,
)
from tests.support.departures import ONE, TWO
from tests.support.dumps import change_rows
from tests.support.followed_page import Nights, PageStep
from tests.support.processes import HANG_S, VERIFY_WITHOUT_SAMPLES, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient, run_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
FIRST, SECOND = "2026-11-20", "2026-11-21"
SHORT = json.dumps({"preserved.heart.beat.timeout": "500", "preserved.ip.delete.timeout": "1000"})
GRPC_OFFSET = 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path / "members", 3, VERIFY_WITHOUT_SAMPLES)
    made.members[0].change({"nacos.naming.expireInstance": "false"})
    try:
        for member in made:
            (member.conf / "cluster.conf").write_text("\n".join(one.address for one in made))
        made.start()
        yield made
    finally:
        made.end()
    made.assert_no_traceback()


@contextmanager
def connected(member: Member) -> Iterator[tuple[SdkClient, str, Callable[[Coroutine[Any, Any, Any]], Any]]]:
    """A client over gRPC, its id, and a function that makes a call of it and returns the answer."""
    ready = Future[tuple[SdkClient, str, asyncio.AbstractEventLoop, asyncio.Event]]()

    async def live() -> None:
        over = asyncio.Event()
        async with SdkClient(int(member.address.rpartition(":")[2]) + GRPC_OFFSET) as client:
            ready.set_result((client, await client.set_up(), asyncio.get_running_loop(), over))
            await over.wait()

    with ThreadPoolExecutor(1) as pool:
        living = pool.submit(run_client, live)
        wait((living, ready), HANG_S, FIRST_COMPLETED)
        if living.done():
            living.result()
        client, client_id, loop, over = ready.result(0)
        try:
            yield client, client_id, lambda call: asyncio.run_coroutine_threadsafe(call, loop).result(HANG_S)
        finally:
            loop.call_soon_threadsafe(over.set)
            living.result(HANG_S)


def all_answer(cluster: ClusterProcesses, path: str, **query: str) -> None:
    eventually(lambda: all(one.client.call("GET", path, **query).status == 200 for one in cluster))


def plant_settings(cluster: ClusterProcesses, prefix: str, *, is_gone: bool) -> tuple[str, str]:
    """Have a member hold another description of an empty service, or none and so not the service.

    Return the service and the member.
    """
    for name in (f"{prefix}-{number}" for number in range(ATTEMPTS_MAX)):
        client = cluster.members[0].client
        assert client.call("POST", "/v1/ns/service", serviceName=name, protectThreshold="0.1").status == 200
        all_answer(cluster, "/v1/ns/service", serviceName=name)
        key = service_meta_key("public", f"DEFAULT_GROUP@@{name}")
        target = cluster.others(writer_of(cluster.members, key))[0]
        plant_record(
            cluster.members,
            key,
            target,
            lambda value: None if is_gone else {**value, "protectThreshold": 0.9},
            partial(set_threshold, name),
        )
        if still_differ(cluster.members, key):
            return f"DEFAULT_GROUP@@{name}", target.address
    raise AssertionError(f"verify rounds repaired {prefix} each time")


def set_threshold(name: str, member: Member) -> Answer:
    return member.client.call("PUT", "/v1/ns/service", serviceName=name, protectThreshold="0.5")


def plant_namespace(cluster: ClusterProcesses) -> tuple[str, str]:
    """Have a member hold another description of a namespace. Return the namespace and the member."""
    for name in (f"team-{number}" for number in range(ATTEMPTS_MAX)):
        names = {"customNamespaceId": name, "namespaceName": "Team", "namespaceDesc": "before"}
        assert cluster.members[0].client.call("POST", "/v1/console/namespaces", **names).status == 200
        key = namespace_key(name)
        all_answer(cluster, "/v1/console/namespaces", show="all", namespaceId=name)
        target = cluster.others(writer_of(cluster.members, key))[0]
        write = partial(describe, name)
        plant_record(cluster.members, key, target, lambda value: {**value, "description": "forged"}, write)
        if still_differ(cluster.members, key):
            return name, target.address
    raise AssertionError("verify rounds repaired the namespace each time")


def describe(namespace: str, member: Member) -> Answer:
    return member.client.call(
        "PUT", "/v1/console/namespaces", namespace=namespace, namespaceShowName="Team", namespaceDesc="now"
    )


def test_services_records_and_clients(cluster: ClusterProcesses, spark: "SparkSession", tmp_path: Path) -> None:
    nights = Nights(cluster, spark, tmp_path)
    member, target, _ = cluster.members
    described, gone = (plant_settings(cluster, name, is_gone=name == "gone") for name in ("set", "gone"))
    namespace, differing = plant_namespace(cluster)
    planted = {
        ("SETTINGS", described[0], "", described[1]),
        ("SERVICE", gone[0], "", gone[1]),
        ("RECORD", "", f"namespace {namespace}", differing),
    }
    for group in ("a", "b"):
        assert member.client.register(f"{group}@@twice", ONE, metadata=LONG).status == 200
    planted.add(("DUPLICATE", "b@@twice", "", min(one.address for one in cluster)))
    with connected(member) as (client, client_id, run):
        run(client.register("of-a-client", ONE, weight=1.0))
        eventually(lambda: cluster.all_list("of-a-client", {f"{ONE}:80"}))
        for weight in range(2, 2 + ATTEMPTS_MAX):
            plant_publication(member, target, client_id, partial(weigh, weight), 2)
            run(client.register("of-a-client", ONE, weight=float(weight)))
            eventually(lambda weight=weight: weights(cluster) == {weight})
            await_rounds(cluster.members)
            if revision(member) != revision(target):
                break
        planted.add(("CLIENT", "", client_id, target.address))
        assert nights.checked(FIRST) == (1, planted)

        def by_hand(step: PageStep) -> bool:
            if "for a namespace choose Rename in the console" in step.text:
                assert describe(namespace, cluster.members[0]).status == 200
            elif "deregister it there (rollcall deregister SERVICE IP:PORT)" in step.text:
                nights.ran("deregister", "b@@twice", f"{ONE}:8080", "--server", f"http://{member.address}/nacos")
            else:
                return False
            return True

        nights.follow(FIRST, by_hand)
        assert nights.checked(SECOND) == (0, set())


def weigh(weight: int, published: dict[str, Any]) -> None:
    published["extendDatum"]["publishInstanceWeight"] = float(weight)


def weights(cluster: ClusterProcesses) -> set[float]:
    return {one.client.hosts("of-a-client")[f"{ONE}:80"]["weight"] for one in cluster}


def revision(member: Member) -> int:
    """The revision of the client that publishes the service, as a member holds it."""
    lines = member.client.call("GET", "/v1/ns/operator/dump", serviceName="of-a-client").body.splitlines()
    return next(row["revision"] for row in map(json.loads, lines) if row["kind"] == RowKind.CLIENT)


def test_members_as_a_whole(cluster: ClusterProcesses, spark: "SparkSession", tmp_path: Path) -> None:
    """Two nights, because a member that is not compared hides what it holds.

    DRIFT is planted in a dump: a Rollcall member gives its clients what it replicates, from one place.
    """
    nights = Nights(cluster, spark, tmp_path)
    first, second, third = cluster.members
    services = [f"owned-{number}" for number in range(12)]
    for service in services:
        assert first.client.register(service, ONE, metadata=LONG).status == 200
        eventually(lambda service=service: cluster.all_list(service, {f"{ONE}:8080"}))
    night_of_lists(nights, cluster, services)
    assert nights.found(FIRST) == set()

    third.stop()
    eventually(lambda: all(one.client.states()[third.address] == "DOWN" for one in (first, second)))
    stale = name_of(cluster, first)
    assert first.client.register(stale, TWO, metadata=SHORT).status == 200
    eventually(lambda: silence_ms(first, stale) > 7_000)
    nights.dump(SECOND, "--format", "json", "--timeout", "2s", "--retries", "0", code=1)
    for folder in (nights.folder / "dumps" / f"dump_date={SECOND}").glob("taken_at=*"):
        change_rows(folder, first.address, drifted)
    assert nights.check(SECOND) == 1
    assert {(one[0], one[3]) for one in nights.found(SECOND)} >= {
        ("ABSENT_MEMBER", third.address),
        ("DRIFT", first.address),
        ("STALE", first.address),
    }

    def by_hand(step: PageStep) -> bool:
        if step.text == f"Check that {third.address} runs and can be reached from here.":
            third.restart()
            eventually(lambda: all(cluster.all_up(one) for one in cluster))
        elif "With nacos.naming.expireInstance=false it removes none: set it to true, and restart" in step.text:
            first.stop()
            first.change({"nacos.naming.expireInstance": "true"})
            first.restart()
            eventually(lambda: all(cluster.all_up(one) for one in cluster) and cluster.all_list(stale, set()))
        else:
            return "restart that member" in step.text  # which the step about STALE does
        return True

    nights.follow(SECOND, by_hand)
    assert nights.found(SECOND) == set()


def night_of_lists(nights: Nights, cluster: ClusterProcesses, services: list[str]) -> None:
    """A night in which a member has another list, and the file of one in the dump is damaged."""
    first, second, third = cluster.members
    lists = third.conf / "cluster.conf"
    whole = lists.read_text()
    lists.write_text(f"{second.address}\n{third.address}\n")
    eventually(lambda: set(third.client.states()) == {second.address, third.address})
    nights.dump(FIRST)
    files = (nights.folder / "dumps").glob(f"dump_date={FIRST}/*/*/part-*")
    damaged = next(one for one in files if first.address.rpartition(":")[2] in one.parent.name)
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert nights.check(FIRST, "--ignore", "METADATA") == 1
    assert {one[0] for one in nights.found(FIRST)} >= {"CORRUPT", "MEMBERSHIP", "OWNER"}

    def by_hand(step: PageStep) -> bool:
        if "Give all members the same member list (cluster.conf," in step.text:
            lists.write_text(whole)
            eventually(lambda: all(cluster.all_up(one) for one in cluster))
            eventually(lambda: all(len({one.client.owner(name) for one in cluster}) == 1 for name in services))
            return True
        return "check the disk on which the dumps are" in step.text

    done = nights.follow(FIRST, by_hand)
    assert [text.endswith(" --ignore METADATA") for text in done if text.startswith("check ")] == [True]


def name_of(cluster: ClusterProcesses, owner: Member) -> str:
    """A service that this member owns among all members, and among all but the last."""
    left = sorted(one.address for one in cluster.members[:2])
    mapper = DistroMapper.over(left[0], tuple(left), False)
    names = (f"stale-{number}" for number in range(1_000))
    return next(
        one for one in names if cluster.owner(one) is owner and mapper.map_srv(f"DEFAULT_GROUP@@{one}") == owner.address
    )


def silence_ms(member: Member, service: str) -> int:
    lines = member.client.call("GET", "/v1/ns/operator/dump", serviceName=service).body.splitlines()
    ages = [json.loads(line).get("beat_age_ms") for line in lines]
    return max(age for age in ages if age is not None)


def drifted(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A row as a member has it whose clients see another weight of one instance than it replicates."""
    if row["kind"] != RowKind.INSTANCE or row["service"] != "DEFAULT_GROUP@@owned-0":
        return [row]
    return [{**row, "layer": Layer.VIEW.value}, {**row, "layer": Layer.DATUM.value, "weight": 9.0}]
