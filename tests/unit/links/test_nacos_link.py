"""Links to a Nacos on real ports in this process: a Rollcall node plays the Nacos, whose protocols it speaks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.links.link_calls import LinkError
from app.links.nacos_connection import NacosConnection
from app.testing import Cluster, Registry
from app.tools.embedded.embedded_node import EmbeddedNode
from tests.support.certificates import Authority, tls_settings
from tests.unit.links.test_linked_clusters import STALE, link_of, seen
from tests.unit.links.test_nacos_out import settings_of

PASSWORD = "a password of tests"
WITH_USERS = {
    "nacos.core.auth.enabled": True,
    "nacos.core.auth.plugin.nacos.token.secret.key": "c2VjcmV0IG9mIHRlc3RzLCBhcyBsb25nIGFzIG9uZSBtdXN0IGJlIQ==",
}
Pair = tuple[Registry, Cluster]


def linked_with(there: EmbeddedNode, **more: str) -> dict[str, str]:
    values = {"servers": there.address, "kind": "nacos", "direction": "both"} | more
    return {"rollcall.cluster.id": "dc-a"} | {f"rollcall.link.old.{name}": value for name, value in values.items()}


def links_of(member: EmbeddedNode) -> list[object]:
    [told] = json.loads(member.call("GET", "/v1/ns/link/list", local="true"))["members"]
    return list(told["links"])


@pytest.fixture(params=["nacos", "nacos1"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A node alone as the Nacos, and a cluster of two with a link to it, over gRPC or HTTP."""
    kind = request.param
    with Registry() as there, Cluster(2, settings=linked_with(there, kind=kind, namespaces="*,other")) as here:
        yield there, here


def test_each_side_sees_what_the_other_registers_and_removes(pair: Pair) -> None:
    there, here = pair
    names = [f"orders-{number}" for number in range(4)]
    for name in names:
        there.register(name, "10.0.0.1", 80, metadata={"zone": "b"})
        there.register(name, "10.0.0.2", 80, namespace="other")
        here[0].register(name, "10.0.0.3", 80)
    for name in names:
        for member in here:
            member.wait_until(lambda member=member, name=name: seen(member, name) == {"10.0.0.1", "10.0.0.3"})
            member.wait_until(lambda member=member, name=name: seen(member, name, namespace="other") == {"10.0.0.2"})
        there.wait_until(lambda name=name: seen(there, name) == {"10.0.0.1", "10.0.0.3"})
    origins = {one.ip: one.metadata.get("rollcall.origin") for one in there.instances(names[0])}
    assert origins == {"10.0.0.1": None, "10.0.0.3": "dc-a"}
    assert [link_of(one)["services"] for one in here] == [8, 8]
    carriers = 2 if link_of(here[0])["kind"] == "nacos" else 1
    assert sum(int(str(link_of(one)["sentInstances"])) for one in here) == carriers * len(names)
    there.deregister(names[0], "10.0.0.1", 80)
    here[1].deregister(names[0], "10.0.0.3", 80)
    for node in (there, *here):
        node.wait_until(lambda node=node: seen(node, names[0]) == set())


def test_nothing_is_left_there_when_the_link_is_removed(pair: Pair) -> None:
    there, here = pair
    for number in range(4):
        here[0].register(f"left-{number}", "10.0.0.1", 80)
        there.wait_for_instances(f"left-{number}", 1)
    for member in here:
        links = member._life.served.node.services.links
        links._source = type(links._source)()
        links._is_read = False
    there.wait_until(lambda: not any(seen(there, f"left-{number}") for number in range(4)))
    for member in here:
        member.wait_until(lambda member=member: not links_of(member))


def test_a_member_that_dies_leaves_no_gap_and_a_nacos_that_dies_leaves_what_it_had(pair: Pair) -> None:
    there, here = pair
    names = [f"kept-{number}" for number in range(4)]
    for name in names:
        there.register(name, "10.0.0.1", 80)
        here[0].register(name, "10.0.0.2", 80, ephemeral=False)
        there.wait_until(lambda name=name: seen(there, name) == {"10.0.0.1", "10.0.0.2"})
    carriers = 2 if link_of(here[0])["kind"] == "nacos" else 1
    there.wait_until(lambda: sum(int(str(link_of(one)["sentServices"])) for one in here) == carriers * len(names))
    here.kill(1)
    survivor = here[0]

    def is_taken_over() -> bool:
        assert all(seen(there, name) == {"10.0.0.1", "10.0.0.2"} for name in names)
        return link_of(survivor)["part"] == "1/1"

    survivor.wait_until(is_taken_over)
    # The other one may have died before it passed on what it brought.
    survivor.wait_until(lambda: all(seen(survivor, name) == {"10.0.0.1", "10.0.0.2"} for name in names))
    there.kill()
    wanted = {"10.0.0.1": True, "10.0.0.2": False}
    for name in names:
        survivor.wait_until(
            lambda name=name: {one.ip: STALE in one.metadata for one in survivor.instances(name)} == wanted,
            timeout_s=15,
        )
    assert link_of(survivor)["silent"]
    there.restart()
    survivor.wait_until(lambda: not link_of(survivor)["silent"], timeout_s=15)
    for name in names:
        there.wait_until(lambda name=name: seen(there, name) >= {"10.0.0.2"}, timeout_s=15)


def test_a_link_that_leads_back_to_its_own_cluster_shows_nothing_twice() -> None:
    """L1."""
    with Registry(settings={"rollcall.cluster.id": "dc-a"}) as here:
        here.register("orders", "10.0.0.1", 80)
        links = here._life.served.node.services.links
        links._source = type(links._source)(((linked_with(here), "test"),), cluster_id="dc-a")
        links._is_read = False
        here.wait_until(lambda: links.states() and links.states()[0]["compared"] > 0)
        assert [one.metadata for one in here.instances("orders")] == [{}]
        assert links.states()[0]["sentInstances"] == 0
        here.deregister("orders", "10.0.0.1", 80)
        here.wait_until(lambda: seen(here, "orders") == set())


@pytest.mark.parametrize("kind", ["nacos", "nacos1"])
def test_a_link_logs_in_and_brings_what_its_user_may_read(kind: str) -> None:
    with Registry(settings=WITH_USERS) as there:
        there.call("POST", "/v1/auth/users/admin", password=PASSWORD)
        there.login("nacos", PASSWORD)
        there.call("POST", "/v1/auth/users", username="link", password=PASSWORD)
        there.call("POST", "/v1/auth/roles", username="link", role="reader")
        there.call("POST", "/v1/auth/permissions", role="reader", resource="public:*:naming/or*", action="rw")
        there.register("orders", "10.0.0.1", 80)
        there.register("billing", "10.0.0.1", 80)
        user = {"kind": kind, "user": "link", "password": PASSWORD, "services": "orders,ordered,billing"}
        with Registry(settings=linked_with(there, **user)) as here:
            here.wait_for_instances("orders", 1)
            here.register("ordered", "10.0.0.2", 80)
            there.wait_for_instances("ordered", 1)
            assert here.instances("billing") == []
        with Registry(settings=linked_with(there, **user | {"password": "another"})) as here:
            here.wait_until(lambda: "answers 403" in str(link_of(here)["error"]))


def test_a_connection_speaks_tls_and_trusts_the_given_certificates_alone(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    authority.issue(chain, key)
    with Registry(settings=tls_settings("server", chain, key)) as there:

        def connection(trusted: Path) -> NacosConnection:
            settings = settings_of(servers=there.address, tls="true", trusted=str(trusted))
            return NacosConnection(settings, there.address)

        one, stranger = connection(authority.file), connection(other.file)
        one.open()
        one.check()
        one.cut()
        with pytest.raises(LinkError, match="does not answer"):
            stranger.open()
        stranger.cut()
        other.file.unlink()
        with pytest.raises(LinkError, match="cannot be read"):
            connection(other.file)


def test_a_connection_that_is_reset_loses_nothing_that_it_registered() -> None:
    with Registry() as there, Registry(settings=linked_with(there)) as here:
        here.register("orders", "10.0.0.1", 80)
        there.wait_for_instances("orders", 1)
        [former] = json.loads(there.call("GET", "/v2/core/loader/current"))
        there.call("GET", "/v2/core/loader/reloadClient", connectionId=former, redirectAddress=there.address)

        def is_moved() -> bool:
            assert seen(there, "orders") == {"10.0.0.1"}
            found = list(json.loads(there.call("GET", "/v2/core/loader/current")))
            return len(found) == 1 and found != [former]

        there.wait_until(is_moved)
        there.register("others", "10.0.0.2", 80)
        here.wait_for_instances("others", 1)


def test_a_link_whose_thread_has_no_time_keeps_its_connection() -> None:
    """Time passes here at once, as on a machine that is too busy for the thread: the Nacos is none the worse."""
    with Registry() as there, Registry(settings=linked_with(there)) as here:
        here.register("orders", "10.0.0.1", 80, ephemeral=False)
        there.wait_for_instances("orders", 1)
        connections = json.loads(there.call("GET", "/v2/core/loader/current"))
        here.clock.advance(20)
        there.register("others", "10.0.0.2", 80)
        here.wait_for_instances("others", 1)
        assert json.loads(there.call("GET", "/v2/core/loader/current")).keys() == connections.keys()
