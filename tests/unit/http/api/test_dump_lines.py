"""The rows of a node's own dump: one moment a service, and nothing that clients are only shown."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from app.http.api.dump_lines import CHUNK_BYTES, Dumps, dump_lines
from app.naming.clients.clients import ClientInfo, Clients
from app.naming.model.keys import datum_key, instance_key
from app.naming.model.meta import NO_META
from app.naming.model.model import Held, Instance
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX
from app.naming.service import NamingService
from distro.types import Datum, Version
from tests.support.door import PEER, SELF, Door

SERVICE = "DEFAULT_GROUP@@orders"
PEER_VERSION = Version(1, 5, "b:1~1")


@pytest.fixture
def door() -> Door:
    return Door()


def dumped(door: Door) -> list[dict[str, Any]]:
    return list(map(orjson.loads, dump_lines({"address": SELF}, door.naming, door.durable, door.cluster)))


def rows(door: Door, kind: str = "instance") -> list[dict[str, Any]]:
    return [row for row in dumped(door) if row["kind"] == kind]


def registry_of(door: Door) -> Registry:
    return door.naming._registry


def test_a_service_and_its_instances(door: Door) -> None:
    door.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80, weight=2.0, metadata={"zone": "a", "none": None}))
    door.naming.register(RegisterInstance(SERVICE, "10.0.0.2", 81, cluster="c2", healthy=False, enabled=False))
    door.now_ms += 1_500
    header, service, first, second, end = dumped(door)
    assert header == {"kind": "member", "format": 1, "address": SELF}
    assert service == {
        "kind": "service",
        "namespace": "public",
        "service": SERVICE,
        "version": f"1.1.{SELF}~1",
        "owner": SELF,
        "instances": 2,
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


def test_the_age_of_a_beat_is_told_by_the_owner_alone(door: Door) -> None:
    door.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    door.cluster.owner = PEER
    [row] = rows(door)
    assert row["owner"] == PEER
    assert "beat_age_ms" not in row
    assert rows(door, "service")[0]["owner"] == PEER


def test_a_persistent_instance_has_the_version_of_its_record(door: Door) -> None:
    door.durable.register(RegisterInstance(SERVICE, "10.0.0.1", 80, ephemeral=False))
    [first] = rows(door)
    assert (first["ephemeral"], first["client"], first["owner"]) == (False, "durable", SELF)
    assert not {"beat_age_ms", "delete_timeout_ms"} & first.keys()
    door.durable.set_health("public", SERVICE, instance_key("10.0.0.1", 80, "DEFAULT"), False)
    [second] = rows(door)
    assert second["healthy"] is False
    assert Version.from_text(second["version"]) > Version.from_text(first["version"])
    assert "version" not in rows(door, "service")[0], "there is no list of ephemeral instances"


def test_no_version_is_told_that_belongs_to_another_state(door: Door) -> None:
    door.durable.register(RegisterInstance(SERVICE, "10.0.0.1", 80, ephemeral=False))
    [moment] = door.naming.moments()
    [instance] = moment.persistent.values()
    assert door.durable.version_of("public", instance) is not None
    door.durable.set_health("public", SERVICE, instance.key, False)
    assert door.durable.version_of("public", instance) is None


def test_what_came_without_a_version_is_dumped_without(door: Door) -> None:
    registry_of(door).set_meta("public", SERVICE, NO_META, 0)
    assert rows(door, "service") == [
        {"kind": "service", "namespace": "public", "service": SERVICE, "owner": SELF, "instances": 0}
    ]


def test_a_removed_service_is_not_in_it_though_its_removals_are_remembered(door: Door) -> None:
    door.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    door.durable.remove_service("public", SERVICE)
    assert registry_of(door).version(datum_key("public", SERVICE)) is not None
    assert [row["kind"] for row in dumped(door)] == ["member", "end"]


def test_what_is_shown_only_by_the_guard_is_not_in_it() -> None:
    registry = Registry(f"{SELF}~1", guard_ms=10_000)
    naming = NamingService(registry, lambda: 0, lambda _: None)
    instances = [Instance(f"10.0.0.{number}", 80, service_name=SERVICE) for number in range(9)]
    key = datum_key("public", SERVICE)
    held = {one.key: Held(one, PEER_VERSION, 0) for one in instances}
    registry.apply(Datum(key, PEER_VERSION, InstanceList(held, {})), None, 0)
    [left, *_] = instances
    registry.apply(
        Datum(key, Version(1, 6, "b:1~1"), InstanceList({left.key: Held(left, PEER_VERSION, 0)}, {})), PEER_VERSION, 0
    )
    view = naming.service_view("public", SERVICE)
    assert view is not None
    assert len(view.instances) == 9, "the guard does its work"
    [moment] = naming.moments()
    assert list(moment.held) == [left.key]
    registry.forget(key, 0)
    assert naming.service_view("public", SERVICE) is not None
    assert list(naming.moments()) == []


class Disturbed(dict[str, Held]):
    """A service's instances, changed by somebody else whenever they are copied without the lock."""

    disturb: Callable[[], None]

    def copy(self) -> dict[str, Held]:
        copied = dict(self)
        self.disturb()
        return copied


@pytest.mark.parametrize("changes", [1, 3, 1_000])
def test_a_big_service_is_of_one_moment_though_it_changes_all_the_time(door: Door, changes: int) -> None:
    count = COPIED_UNDER_LOCK_MAX + 1
    for number in range(count):
        door.naming.register(RegisterInstance(SERVICE, f"10.0.0.{number}", 80))
    registry = registry_of(door)
    service = registry.get("public", SERVICE)
    assert service is not None
    service.held = Disturbed(service.held)
    done = 0

    def disturb() -> None:
        nonlocal done
        if done < changes and not registry._lock.locked():
            done += 1
            door.naming.register(RegisterInstance(SERVICE, f"10.1.0.{done}", 80))
            door.naming.deregister(DeregisterInstance(SERVICE, f"10.0.0.{done}", 80))

    service.held.disturb = disturb
    moment = registry.moment(service.key)
    assert moment is not None
    assert done == min(changes, 7), "it was disturbed, and gave up asking at the last try"
    assert moment.version == service.version
    assert set(moment.held) == set(service.held)


def test_a_service_that_goes_meanwhile_is_left_out(door: Door) -> None:
    for name in ("g@@a", "g@@b"):
        door.naming.register(RegisterInstance(name, "10.0.0.1", 80))
    lines = dump_lines({}, door.naming, door.durable, door.cluster)
    next(lines)
    assert orjson.loads(next(lines))["service"] == "g@@a"
    door.durable.remove_service("public", "g@@b")
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


def test_what_clients_with_a_connection_publish(door: Door) -> None:
    """An address that is also registered over HTTP has the row of its list, as clients are shown one instance."""
    door.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 80))
    clients = Clients(registry_of(door), lambda: door.now_ms, lambda: 1, lambda _event: None)
    for client_id in ("c1", "c2"):
        clients.connect(ClientInfo(client_id, "10.0.0.9", 1, "", ""))
        batch = [RegisterInstance(SERVICE, f"10.0.0.{number}", 80, weight=2.0) for number in (1, 2)]
        clients.batch_register(client_id, "public", SERVICE, batch)
    assert [(row["ip"], row["client"]) for row in rows(door)] == [("10.0.0.1", "http"), ("10.0.0.2", "grpc")]
    assert [row["instances"] for row in rows(door, "service")] == [2]
    assert dumped(door)[-1] == {"kind": "end", "services": 1, "instances": 2}
