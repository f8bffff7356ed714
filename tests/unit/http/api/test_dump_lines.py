"""The rows of a node's own dump: one snapshot of each service, and stored values, not those shown to clients."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from app.http.api.dump_lines import CHUNK_BYTES, Dumps, dump_lines
from app.naming.clients.client_model import ClientInfo
from app.naming.clients.clients import build_clients
from app.naming.model.keys import datum_key, dump_bucket, dump_order, instance_key
from app.naming.model.meta import NO_META
from app.naming.model.model import Instance, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX
from distro.model.types import Datum, Version
from tests.support.fake_node import PEER, SELF, FakeNode
from tests.support.registry_parts import naming_of

SERVICE = "DEFAULT_GROUP@@orders"
NOTHING_SET = {"metadata": {}, "protect_threshold": 0.0, "selector": '{"type":"none"}', "clusters": "{}"}
PEER_VERSION = Version(1, 5, "b:1~1")


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def dumped(node: FakeNode) -> list[dict[str, Any]]:
    return list(
        map(orjson.loads, dump_lines({"address": SELF}, node.naming, node.durable, node.clients.table, node.cluster))
    )


def rows(node: FakeNode, kind: str = "instance") -> list[dict[str, Any]]:
    return [row for row in dumped(node) if row["kind"] == kind]


def registry_of(node: FakeNode) -> Registry:
    return node.registry


def test_a_service_and_its_instances(node: FakeNode) -> None:
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80, weight=2.0, metadata={"zone": "a", "none": None}))
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.2", 81, cluster="c2", healthy=False, enabled=False))
    node.now_ms += 1_500
    header, service, first, second, end = dumped(node)
    assert header == {"kind": "member", "format": 1, "tells": ["client", "record"], "address": SELF}
    assert service == {
        "kind": "service",
        "namespace": "public",
        "service": SERVICE,
        "version": f"1.1.{SELF}~1",
        "owner": SELF,
        "instances": 2,
        **NOTHING_SET,
    }
    assert first == {
        "kind": "instance",
        "layer": "both",
        "namespace": "public",
        "service": SERVICE,
        "cluster": "DEFAULT",
        "ip": "10.0.0.1",
        "port": 80,
        "ephemeral": True,
        "healthy": True,
        "enabled": True,
        "weight": 2.0,
        "metadata": {"zone": "a", "none": None},
        "version": f"1.0.{SELF}~1",
        "owner": SELF,
        "beat_age_ms": 1_500,
        "delete_timeout_ms": 30_000,
        "client": "http",
    }
    assert (second["cluster"], second["healthy"], second["enabled"]) == ("c2", False, False)
    assert second["version"] == service["version"], "the last change of the list was this instance's"
    assert end == {"kind": "end", "services": 1, "instances": 2}


def test_the_age_of_a_beat_is_told_by_the_owner_alone(node: FakeNode) -> None:
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    node.cluster.owner = PEER
    [row] = rows(node)
    assert row["owner"] == PEER
    assert "beat_age_ms" not in row
    assert rows(node, "service")[0]["owner"] == PEER


def test_silence_is_told_where_the_health_check_counts_less_than_the_age_of_the_beat(node: FakeNode) -> None:
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    node.now_ms += 20_000
    [row] = rows(node)
    assert (row["beat_age_ms"], row.get("silent_ms")) == (20_000, None)
    service = node.registry.table.find(datum_key("public", SERVICE))
    assert service is not None
    service.claimed_ms = node.now_ms - 5_000
    [row] = rows(node)
    assert (row["beat_age_ms"], row["silent_ms"]) == (20_000, 5_000)
    node.cluster.owner = PEER
    assert "silent_ms" not in rows(node)[0]


def test_a_persistent_instance_has_the_version_of_its_record(node: FakeNode) -> None:
    node.durable.register(RegisterInstance(SERVICE, "10.0.0.1", 80, ephemeral=False))
    [first] = rows(node)
    assert (first["ephemeral"], first["client"], first["owner"]) == (False, "durable", SELF)
    assert not {"beat_age_ms", "delete_timeout_ms"} & first.keys()
    node.durable.set_health("public", SERVICE, instance_key("10.0.0.1", 80, "DEFAULT"), False)
    [second] = rows(node)
    assert second["healthy"] is False
    assert Version.from_text(second["version"]) > Version.from_text(first["version"])
    assert "version" not in rows(node, "service")[0], "there is no list of ephemeral instances"


def test_no_version_is_told_that_belongs_to_another_state(node: FakeNode) -> None:
    node.durable.register(RegisterInstance(SERVICE, "10.0.0.1", 80, ephemeral=False))
    [snapshot] = node.naming.snapshots()
    [instance] = snapshot.persistent.values()
    assert node.durable.version_of("public", instance) is not None
    node.durable.set_health("public", SERVICE, instance.key, False)
    assert node.durable.version_of("public", instance) is None


def test_what_came_without_a_version_is_dumped_without(node: FakeNode) -> None:
    registry_of(node).table.set_meta("public", SERVICE, NO_META, 0)
    assert rows(node, "service") == [
        {"kind": "service", "namespace": "public", "service": SERVICE, "owner": SELF, "instances": 0, **NOTHING_SET}
    ]


def test_a_removed_service_is_not_in_it_though_its_removals_are_remembered(node: FakeNode) -> None:
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    node.durable.remove_service("public", SERVICE)
    assert registry_of(node).lists.version(datum_key("public", SERVICE)) is not None
    assert [row["kind"] for row in dumped(node)] == ["member", "end"]


def test_what_is_shown_only_by_the_guard_is_not_in_it() -> None:
    registry = Registry.of(f"{SELF}~1", guard_ms=10_000)
    naming = naming_of(registry, lambda: 0, lambda _: None)
    instances = [Instance(f"10.0.0.{number}", 80, service_name=SERVICE) for number in range(9)]
    key = datum_key("public", SERVICE)
    stored = {one.key: StoredInstance(one, PEER_VERSION, 0) for one in instances}
    registry.replication.apply(Datum(key, PEER_VERSION, InstanceList(stored, {})), None, 0)
    [left, *_] = instances
    registry.replication.apply(
        Datum(key, Version(1, 6, "b:1~1"), InstanceList({left.key: StoredInstance(left, PEER_VERSION, 0)}, {})),
        PEER_VERSION,
        0,
    )
    view = naming.service_view("public", SERVICE)
    assert view is not None
    assert len(view.instances) == 9, "the guard does its work"
    [snapshot] = naming.snapshots()
    assert list(snapshot.stored) == [left.key]
    registry.upkeep.forget(key, 0)
    assert naming.service_view("public", SERVICE) is not None
    assert list(naming.snapshots()) == []


class Disturbed(dict[str, StoredInstance]):
    """A service's instances, changed by somebody else whenever they are copied without the lock."""

    disturb: Callable[[], None]

    def copy(self) -> dict[str, StoredInstance]:
        copied = dict(self)
        self.disturb()
        return copied


@pytest.mark.parametrize("changes", [1, 3, 1_000])
def test_a_big_service_is_of_one_moment_though_it_changes_all_the_time(node: FakeNode, changes: int) -> None:
    count = COPIED_UNDER_LOCK_MAX + 1
    for number in range(count):
        node.naming.register(RegisterInstance(SERVICE, f"10.0.0.{number}", 80))
    registry = registry_of(node)
    service = registry.table.get("public", SERVICE)
    assert service is not None
    service.stored = Disturbed(service.stored)
    done = 0

    def disturb() -> None:
        nonlocal done
        if done < changes and not registry.table.lock.locked():
            done += 1
            node.naming.register(RegisterInstance(SERVICE, f"10.1.0.{done}", 80))
            node.naming.deregister(DeregisterInstance(SERVICE, f"10.0.0.{done}", 80))

    service.stored.disturb = disturb
    snapshot = registry.table.snapshot(service.key)
    assert snapshot is not None
    assert done == min(changes, 7), "it was disturbed, and gave up asking at the last try"
    assert snapshot.version == service.version
    assert set(snapshot.stored) == set(service.stored)


def test_services_come_in_the_order_of_their_buckets(node: FakeNode) -> None:
    for number in range(40):
        node.naming.register(
            RegisterInstance(f"g@@{number}", "10.0.0.1", 80, namespace="dev" if number % 2 else "public")
        )
    buckets = [dump_bucket(row["namespace"], row["service"]) for row in rows(node, "service")]
    assert len(buckets) == 40
    assert buckets == sorted(buckets)


def test_a_service_that_goes_meanwhile_is_left_out(node: FakeNode) -> None:
    (_, first), (_, other) = dump_order([("public", "g@@a"), ("public", "g@@b")])
    for name in (first, other):
        node.naming.register(RegisterInstance(name, "10.0.0.1", 80))
    lines = dump_lines({}, node.naming, node.durable, node.clients.table, node.cluster)
    next(lines)
    assert orjson.loads(next(lines))["service"] == first
    node.durable.remove_service("public", other)
    assert orjson.loads(list(lines)[-1]) == {"kind": "end", "services": 1, "instances": 1}


class TestDumps:
    def test_chunks_are_of_bounded_size_and_made_when_read(self) -> None:
        made = 0

        def lines() -> Iterator[bytes]:
            nonlocal made
            for _ in range(1_000):
                made += 1
                yield b"x" * 999 + b"\n"

        dump = Dumps().begin(lines())
        assert dump is not None
        chunks = iter(dump)
        first = next(chunks)
        assert CHUNK_BYTES <= len(first) < CHUNK_BYTES + 1_000
        assert made == len(first) // 1_000, "nothing is made ahead"
        assert sum(map(len, chunks)) + len(first) == 1_000_000

    def test_only_so_many_at_a_time(self) -> None:
        dumps = Dumps(2)
        first, second = dumps.begin([]), dumps.begin([])
        assert first is not None
        assert second is not None
        assert dumps.begin([]) is None
        first.close()
        first.close()
        assert dumps.begin([]) is not None
        assert dumps.begin([]) is None, "closing twice frees one place"


def test_what_clients_with_a_connection_publish(node: FakeNode) -> None:
    """An address that is also registered over HTTP has the row of its list, as clients are shown one instance."""
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    clients = build_clients(registry_of(node), lambda: node.now_ms, lambda: 1, lambda _event: None)
    for client_id in ("c1", "c2"):
        clients.own.connect(ClientInfo(client_id, "10.0.0.9", 1, "", ""))
        batch = [RegisterInstance(SERVICE, f"10.0.0.{number}", 80, weight=2.0) for number in (1, 2)]
        clients.own.batch_register(client_id, "public", SERVICE, batch)
    assert [(row["ip"], row["client"]) for row in rows(node)] == [("10.0.0.1", "http"), ("10.0.0.2", "grpc")]
    assert [row["instances"] for row in rows(node, "service")] == [2]
    assert dumped(node)[-1] == {"kind": "end", "services": 1, "instances": 2}


def test_the_dump_of_one_service_has_the_clients_that_publish_it(node: FakeNode) -> None:
    clients = build_clients(registry_of(node), lambda: node.now_ms, lambda: 1, lambda _event: None)
    for client_id, service in (("c1", SERVICE), ("c2", "g@@another")):
        clients.own.connect(ClientInfo(client_id, "10.0.0.9", 1, "", ""))
        clients.own.register(client_id, RegisterInstance(service, "10.0.0.1", 80))
    only = ("public", SERVICE)
    lines = dump_lines({}, node.naming, node.durable, clients.table, node.cluster, only)
    kinds = [(row["kind"], row.get("name")) for row in map(orjson.loads, lines)]
    assert kinds == [("member", None), ("client", "c1"), ("service", None), ("instance", None), ("end", None)]
