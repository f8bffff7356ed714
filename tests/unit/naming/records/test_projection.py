"""What records become: descriptions, persistent instances, switches."""

from typing import Any

import pytest

from app.naming.model.events import Event, ServiceChanged
from app.naming.model.meta import ClusterConfig, ServiceMeta
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.switches import SwitchDomain
from app.naming.records.projection import STATUS_DELAY_MS, Projection
from app.naming.records.record import Record
from app.naming.records.record_keys import SWITCHES_KEY, link_key, namespace_key, persistent_key, service_meta_key
from app.naming.records.record_values import check_record, instance_of, value_of
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from distro.model.types import NO_VERSION
from tests.support import views

NAME = "g@@s"
META = service_meta_key("ns", NAME)
ONE = Instance("10.0.0.1", 80, "c1", NAME, ephemeral=False, metadata={"k": "v", "none": None}, app="a", instance_id="i")
KEY = persistent_key("ns", NAME, ONE.key)
LONG = Instance("10.0.0.1", 80, "c1", NAME, ephemeral=False, metadata={"k": "v" * 65_536})


class World:
    """A registry that records are shown to."""

    def __init__(self) -> None:
        self.now_ms = 50_000
        self.events: list[Event] = []
        self.registry = Registry.of("a:1~1")
        self.projection = Projection(self.registry.table, lambda: self.now_ms, self.events.append)

    def show(self, key: str, value: dict[str, Any] | None) -> None:
        self.projection.on_record(Record(key, NO_VERSION, NO_VERSION, value, 0))

    def names(self) -> list[str]:
        return self.registry.table.names("ns")

    def instances(self) -> list[Instance]:
        view = views.view(self.registry, "ns", NAME)
        return list(view.instances) if view else []

    def register(self) -> None:
        self.registry.writes.register(RegisterInstance(NAME, "10.0.0.9", 90, namespace="ns"), self.now_ms)


@pytest.fixture
def world() -> World:
    return World()


def test_a_description(world: World) -> None:
    world.show(META, ServiceMeta(0.5, {"k": "v"}).to_json())
    view = views.view(world.registry, "ns", NAME)
    assert view is not None
    assert (view.protect_threshold, view.metadata, world.names()) == (0.5, {"k": "v"}, [NAME])
    assert world.events == [ServiceChanged("ns", NAME)], "subscribers see it"


def test_a_persistent_instance(world: World) -> None:
    world.show(KEY, value_of(ONE))
    assert world.instances() == [ONE]
    world.show(KEY, None)
    assert world.instances() == []
    assert world.names() == [NAME], "the service stays"
    assert world.events == [ServiceChanged("ns", NAME)] * 2


def test_both_kinds_at_once_persistent_first(world: World) -> None:
    world.register()
    world.show(KEY, value_of(ONE))
    assert [one.ephemeral for one in world.instances()] == [False, True]


@pytest.mark.parametrize("order", [(META, KEY), (KEY, META)])
def test_a_removed_service_is_gone_with_the_last_thing_in_it(world: World, order: tuple[str, str]) -> None:
    world.show(META, ServiceMeta().to_json())
    world.show(KEY, value_of(ONE))
    for key in order:
        assert world.names() == [NAME]
        world.show(key, None)
    assert world.names() == []
    assert world.registry.table.get("ns", NAME) is None


def test_a_removed_service_with_ephemeral_instances_stays_until_they_are_gone(world: World) -> None:
    world.register()
    world.show(META, None)
    assert world.names() == [NAME]
    world.registry.writes.empty("ns", NAME, world.now_ms)
    assert world.names() == []


def test_a_removed_service_comes_back(world: World) -> None:
    world.register()
    world.registry.writes.empty("ns", NAME, world.now_ms)
    world.show(META, None)
    assert world.names() == []
    world.register()
    assert world.names() == [NAME]
    world.registry.writes.empty("ns", NAME, world.now_ms)
    assert world.names() == [NAME], "it was not removed again"


def test_the_removal_of_what_is_not_known_makes_nothing(world: World) -> None:
    world.show(META, None)
    world.show(KEY, None)
    world.show(namespace_key("x"), None)
    assert world.names() == []


def test_switches(world: World) -> None:
    world.show(SWITCHES_KEY, {"checkTimes": 5})
    assert world.projection.switches.check_times == 5
    world.projection.override(SwitchDomain(check_times=7))
    assert world.projection.switches.check_times == 7
    world.show(SWITCHES_KEY, {"checkTimes": 4})
    assert world.projection.switches.check_times == 4
    world.show(SWITCHES_KEY, None)
    assert world.projection.switches == SwitchDomain()


def test_a_status_counts_a_moment_later(world: World) -> None:
    assert world.projection.overridden_status is None
    world.show(SWITCHES_KEY, {"overriddenServerStatus": "DOWN"})
    world.now_ms += STATUS_DELAY_MS - 1
    assert world.projection.overridden_status is None
    world.show(SWITCHES_KEY, {"overriddenServerStatus": "DOWN", "checkTimes": 4})
    world.now_ms += 1
    assert world.projection.overridden_status == "DOWN", "another switch does not put it off"
    world.show(SWITCHES_KEY, {"overriddenServerStatus": "UP"})
    assert world.projection.overridden_status == "DOWN"


def test_calls_may_be_refused_while_a_path_or_the_status_is_or_was_limited(world: World) -> None:
    assert not world.projection.limits_calls
    world.show(SWITCHES_KEY, {"checkTimes": 4})
    assert not world.projection.limits_calls
    world.show(SWITCHES_KEY, {"limitedUrlMap": {"/v1/ns/instance": 403}})
    assert world.projection.limits_calls
    world.show(SWITCHES_KEY, None)
    assert not world.projection.limits_calls
    world.show(SWITCHES_KEY, {"overriddenServerStatus": "DOWN"})
    assert world.projection.limits_calls, "it counts soon"
    world.now_ms += STATUS_DELAY_MS
    world.show(SWITCHES_KEY, {})
    assert (world.projection.limits_calls, world.projection.overridden_status) == (True, "DOWN"), "it still counts"


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [None, {}, {"a": "1", "none": None}])
def test_an_instance_comes_back_as_it_was(metadata: Any) -> None:
    one = Instance("::1", 0, "c1", NAME, 0.5, False, False, False, True, metadata)
    assert instance_of(value_of(one), NAME) == one


def test_what_a_record_leaves_out_has_its_default() -> None:
    fields = {"ip": "10.0.0.1", "port": 80, "clusterName": "c1"}
    expected = Instance("10.0.0.1", 80, "c1", NAME, 1.0, True, True, False, False, None)
    assert instance_of(fields, NAME) == expected


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (KEY, value_of(ONE) | {"port": "80"}, "field 'port' of a persistent instance should be a number"),
        (
            KEY,
            value_of(ONE) | {"metadata": []},
            "field 'metadata' of a persistent instance should be an object of texts",
        ),
        (namespace_key("x"), {"name": 1}, "field 'name' of a namespace should be a text"),
    ],
)
def test_a_refusal_names_the_field_and_what_it_is_of(key: str, value: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidParam, match=f"^{says}$"):
        check_record(key, value)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("ip", None), ("ip", 1), ("port", "80"), ("port", True), ("clusterName", None), ("weight", "1"),
        ("healthy", 1), ("enabled", None), ("marked", "x"), ("metadata", []), ("metadata", {"a": 1}), ("app", 1),
        ("instanceId", 1),
    ],
)  # fmt: skip
def test_an_instance_with_a_wrong_field_is_refused_by_its_name(name: str, wrong: object) -> None:
    with pytest.raises(InvalidParam, match=f"'{name}'"):
        check_record(KEY, value_of(ONE) | {name: wrong})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("zzz", {}),
        (service_meta_key("ns", "a\nb"), None),
        (META, {}),
        (META, ServiceMeta().to_json() | {"clusters": {"a b": {}}}),
        (persistent_key("ns", NAME, "other"), value_of(ONE)),
        (link_key("a b"), None),
        (link_key("dc-b"), {"servers": 1}),
        (link_key("dc-b"), {"password": "x"}),
        (SWITCHES_KEY, {"checkTimes": "x"}),
        (namespace_key("x"), {"name": "n"}),
        (namespace_key("x"), {"name": "n", "description": "d" * 65_537}),
        (service_meta_key("n" * 513, NAME), None),
        (META, ServiceMeta(metadata={"k": "v" * 65_536}).to_json()),
        (META, ServiceMeta(clusters={"c": ClusterConfig(check_port=65_536)}).to_json()),
        (META, ServiceMeta(clusters={"c": ClusterConfig(metadata={"k": "v" * 65_536})}).to_json()),
        (persistent_key("ns", NAME, LONG.key), value_of(LONG)),
    ],
)
def test_what_could_not_be_shown_is_refused(key: str, value: dict[str, Any] | None) -> None:
    with pytest.raises(InvalidParam):
        check_record(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (META, None),
        (META, ServiceMeta(0.5, {"k": None}).to_json()),
        (KEY, None),
        (KEY, value_of(ONE)),
        (SWITCHES_KEY, None),
        (SWITCHES_KEY, SwitchDomain().to_json()),
        (link_key("dc-b"), None),
        (link_key("dc-b"), {"servers": "h", "of a later release": "x"}),
        (namespace_key("x"), {"name": "n", "description": "d"}),
    ],
)
def test_what_can_be_shown(key: str, value: dict[str, Any] | None) -> None:
    check_record(key, value)
