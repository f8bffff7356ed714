"""Two clusters on their real ports in this process: what one registers, the other's clients see."""

import gzip
import io
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from app.links.feed_lines import FollowedPart
from app.replication.foreign_type import ForeignKey, parse_foreign_key
from app.testing import Cluster, Registry
from app.tools.audit.client.access import Access
from app.tools.audit.dump.collect import Plan, ProgressBar, take_dump
from app.tools.audit.dump.store import Store
from app.tools.cli import main
from app.tools.embedded.embedded_node import EmbeddedNode
from tests.support.listener import Listener
from tests.support.sdk_client import SdkClient, hosts_of, run_client

STALE = "rollcall.stale"
Pair = tuple[Registry, Cluster]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A node alone, dc-b, and a cluster of two, dc-a, that follows it."""
    with Registry(settings={"rollcall.cluster.id": "dc-b"}) as there:
        settings = {"rollcall.cluster.id": "dc-a", "rollcall.link.dc-b.servers": there.address}
        with Cluster(2, settings=settings) as here:
            yield there, here


def link_of(member: EmbeddedNode) -> dict[str, object]:
    """The only link of a member, as that member has it."""
    [told] = json.loads(member.call("GET", "/v1/ns/link/list", local="true"))["members"]
    [link] = told["links"]
    return dict(link)


def subscribe_over_udp(member: EmbeddedNode, service: str, listener: Listener) -> None:
    """Ask for a list as the Java library of 1.x does, which then gets its changes."""
    query = f"serviceName=DEFAULT_GROUP@@{service}&udpPort={listener.port}&clientIP={listener.ip}"
    with closing(HTTPConnection(member.address, timeout=10)) as connection:
        connection.request(
            "GET", f"/nacos/v1/ns/instance/list?{query}", headers={"User-Agent": "Nacos-Java-Client:v1.4.2"}
        )
        assert connection.getresponse().status == 200


def seen(member: EmbeddedNode, service: str, **named: str) -> set[str]:
    return {one.ip for one in member.instances(service, **named)}


def test_each_member_shows_what_the_other_cluster_registers_and_removes(pair: Pair) -> None:
    there, here = pair
    names = [f"orders-{number}" for number in range(6)]
    for name in names:
        there.register(name, "10.0.0.1", 80)
        there.register(name, "10.0.0.2", 80, namespace="other")
    for member in here:
        for name in names:
            member.wait_for_instances(name, 1)
            member.wait_for_instances(name, 1, namespace="other")
        [one] = member.instances(names[0])
        assert one.metadata == {"rollcall.origin": "dc-b", "rollcall.link": "dc-b"}
    assert [link_of(one)["services"] for one in here] == [12, 12]
    there.deregister(names[0], "10.0.0.1", 80)
    for member in here:
        member.wait_until(lambda member=member: seen(member, names[0]) == set())
    assert json.loads(there.call("GET", "/v1/ns/link/list"))["members"][0]["links"] == []


def test_an_instance_is_as_the_other_cluster_has_it_and_is_explained(pair: Pair) -> None:
    there, here = pair
    there.register("described", "10.0.0.1", 80, metadata={"zone": "b"}, weight=3.0)
    for member in here:
        member.wait_for_instances("described", 1)
        [one] = member.instances("described")
        assert (one.metadata["zone"], one.weight, one.healthy) == ("b", 3.0, True)
    explained = json.loads(here[0].call("GET", "/v1/ns/explain", serviceName="described", ip="10.0.0.1", port=80))
    assert any("Registered in the cluster dc-b, and brought by the link dc-b" in one for one in explained["verdict"])


def test_subscribers_over_grpc_and_udp_get_what_comes_by_a_link(pair: Pair) -> None:
    there, here = pair

    async def subscribe() -> None:
        async with SdkClient(here[0].grpc_port) as client:
            await client.set_up()
            assert hosts_of((await client.subscribe("pushed"))["serviceInfo"]) == {}
            there.register("pushed", "10.0.0.1", 80)
            await client.wait(lambda: [one for one in client.pushes("pushed") if one["hosts"]])
            assert set(await client.hosts("pushed")) == {"10.0.0.1:80"}

    run_client(subscribe)
    with closing(Listener()) as listener:
        subscribe_over_udp(here[1], "pushed-too", listener)
        there.register("pushed-too", "10.0.0.1", 80)
        pushed = json.loads(listener.receive()["data"])
        assert [one["ip"] for one in pushed["hosts"]] == ["10.0.0.1"]


def test_two_linked_clusters_show_each_instance_once_and_echo_nothing(pair: Pair) -> None:
    there, here = pair
    settings = {"rollcall.cluster.id": "dc-c", "rollcall.link.dc-a.servers": here[0].address}
    with Registry(settings=settings | {"rollcall.link.dc-b.servers": there.address}) as third:
        there.register("shared", "10.0.0.1", 80)
        here[1].register("shared", "10.0.0.1", 80)
        here[1].register("shared", "10.0.0.2", 80)
        third.wait_for_instances("shared", 2)
        assert sorted(one.ip for one in third.instances("shared")) == ["10.0.0.1", "10.0.0.2"]
        there.register("only-b", "10.0.0.1", 80)
        here[0].wait_for_instances("only-b", 1)
        third.wait_for_instances("only-b", 1)
        [one] = third.instances("only-b")
        assert one.metadata["rollcall.origin"] == "dc-b"
        there.deregister("only-b", "10.0.0.1", 80)
        third.wait_until(lambda: seen(third, "only-b") == set())


def test_the_next_owner_goes_on_and_a_silent_link_keeps_what_it_brought() -> None:
    with Registry(settings={"rollcall.cluster.id": "dc-b"}) as there:
        names = [f"orders-{number}" for number in range(6)]
        for name in names:
            there.register(name, "10.0.0.1", 80)
        settings = {"rollcall.cluster.id": "dc-a", "rollcall.link.dc-b.servers": there.address}
        with Cluster(2, settings=settings) as here:
            for member in here:
                for name in names:
                    member.wait_for_instances(name, 1)
            here.kill(1)
            survivor = here[0]
            for name in names:
                assert seen(survivor, name) == {"10.0.0.1"}
                there.register(name, "10.0.0.2", 80)
            here.settle()
            for name in names:
                survivor.wait_until(lambda name=name: seen(survivor, name) == {"10.0.0.1", "10.0.0.2"})
            assert link_of(survivor)["part"] == "1/1"
            there.kill()
            for name in names:
                survivor.wait_until(
                    lambda name=name: all(STALE in one.metadata for one in survivor.instances(name)), timeout_s=15
                )
                assert seen(survivor, name) == {"10.0.0.1", "10.0.0.2"}
            assert link_of(survivor)["silent"]
            there.restart()
            for name in names:
                survivor.wait_until(
                    lambda name=name: not any(STALE in one.metadata for one in survivor.instances(name)), timeout_s=15
                )
                assert seen(survivor, name) == {"10.0.0.1", "10.0.0.2"}
            assert not link_of(survivor)["silent"]


def test_a_dump_has_what_links_brought_in_files_of_its_own(pair: Pair, tmp_path: Path) -> None:
    there, here = pair
    there.register("dumped", "10.0.0.1", 80, metadata={"zone": "b"})
    for member in here:
        member.wait_for_instances("dumped", 1)
        member.wait_until(lambda member=member: link_of(member)["cluster"] == "dc-b")
    plain = [json.loads(line) for line in here[0].call("GET", "/v1/ns/operator/dump").splitlines()]
    assert "linked" not in {one["kind"] for one in plain}
    store = Store(str(tmp_path))
    access = Access(timeout_s=10.0, retries=0)
    plan = Plan(tuple(one.address for one in here), "2026-11-20", access, 0.0, ())
    first, _ = take_dump(plan, store, ProgressBar(io.StringIO(), wanted=False)).manifests
    for dumped in first.members:
        assert (dumped.cluster, [(one.name, one.cluster) for one in dumped.links]) == ("dc-a", [("dc-b", "dc-b")])
        [part] = dumped.linked
        [path] = tmp_path.rglob(f"taken_at={first.taken_at}/{part.path}")
        [row] = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        assert (row["kind"], row["name"], row["value"], row["metadata"]) == ("linked", "dc-b", "dc-b", {"zone": "b"})
        assert "silent_ms" not in row


def test_a_link_is_compared_live_with_the_cluster_at_its_other_end(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    there, here = pair
    there.register("compared", "10.0.0.1", 80, metadata={"zone": "b"})
    here[0].register("local", "10.0.0.2", 80)
    here[1].wait_for_instances("compared", 1)
    here[0].wait_for_instances("compared", 1)

    def compared(*arguments: str) -> tuple[int, str, str]:
        code = main(["compare", here[0].address, there.address, "--gap", "0", *arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    assert compared("--link", "dc-b") == (0, "no difference\n", "")
    key = ForeignKey("dc-b", "public", "DEFAULT_GROUP@@compared").text()
    here[0]._life.served.node.domain.foreign.put(key, None)
    code, text, _ = compared("--link", "dc-b", "--json")
    [line] = [json.loads(one) for one in text.splitlines()]
    assert (code, line["finding_class"], line["service"]) == (1, "MISSING", "DEFAULT_GROUP@@compared")
    code, _, error = compared("--link", "other")
    assert (code, error) == (2, f"rollcall compare: {here[0].address} has no link 'other'; its links: dc-b\n")


def test_a_watch_tells_what_a_link_lacks_and_a_heal_fetches_it_again(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    there, here = pair
    names = ("lost", "changed", "right")
    for name in names:
        there.register(name, "10.0.0.1", 80)
        for member in here:
            member.wait_for_instances(name, 1)

    def told(*arguments: str) -> tuple[int, list[str]]:
        members = ",".join(one.address for one in here)
        code = main([*arguments, "--gap", "0", "--members", members, "--link", "dc-b"])
        return code, capsys.readouterr().out.splitlines()

    code, [line] = told("watch-agreement", "--once")
    assert (code, line.partition(";")[0]) == (0, "agreed: 2 members, 0 instances of 0 services")
    assert "; links: dc-b; looked at" in line
    [lost, changed] = (ForeignKey("dc-b", "public", f"DEFAULT_GROUP@@{name}").text() for name in names[:2])
    for key, weight in ((lost, None), (changed, 7.0)):
        foreign = owner_of(here, key)._life.served.node.domain.foreign
        part = foreign.part(key)
        assert part is not None
        wrong = {one: replace(it, weight=weight) for one, it in part.instances.items()} if weight else {}
        foreign.put(key, replace(part, instances=wrong) if weight else None)
    for member in here:
        member.wait_for_instances("lost", 0)
        member.wait_until(lambda member=member: [one.weight for one in member.instances("changed")] == [7.0])
    code, [line, *examples] = told("watch-agreement", "--once")
    assert (code, line.partition("; 2 members")[0]) == (
        1,
        "divergent: 4 LINK; dc-a lacks 1 of 3, has 2 with other values of dc-b",
    )
    assert len([one for one in examples if "missing: link dc-b from dc-b" in one]) == 2
    code, lines = told("heal", "--dry-run")
    assert (code, lines[-1].partition("; took ")[0]) == (1, "differences: 4; nothing was done (--dry-run)")
    assert told("heal", "--json", "--within", "2m")[0] == 0
    assert told("watch-agreement", "--once")[0] == 0
    code, [line] = told("heal", "--service", "right")
    assert (code, line.partition("; took ")[0]) == (0, "the members agree with dc-b, instances: 3")


def owner_of(cluster: Cluster, key: str) -> EmbeddedNode:
    """Return the member that follows the service of a key."""
    parsed = parse_foreign_key(key)
    assert parsed is not None
    for member in cluster:
        part, _, of = str(link_of(member)["part"]).partition("/")
        if FollowedPart(int(part) - 1, int(of)).has(parsed.full_name):
            return member
    raise AssertionError(f"nobody follows {key}")
