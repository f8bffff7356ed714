"""NamingService: what each operation changes, answers and tells, and what readers ask of services."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.naming.model.events import Event, InstanceHealed, InstancesChanged, Origin
from app.naming.model.keys import METADATA_CHARS_MAX, datum_key
from app.naming.model.model import Instance, Publication
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import (
    Beat,
    BeatAnswer,
    ChangeMetadata,
    DeregisterInstance,
    PatchInstance,
    RegisterInstance,
)
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.naming.wire.service_info import QUICK_HOSTS_MAX, Variant
from distro.model.types import NO_VERSION
from tests.support.registry_parts import naming_of

NAMESPACE, NAME = "public", "G@@orders"
DATUM_KEY = datum_key(NAMESPACE, NAME)
ONE = RegisterInstance(NAME, "10.0.0.1", 80)
KEY = Instance("10.0.0.1", 80).key
BEAT = Beat(NAME, "10.0.0.1", 80)
OWNER = "10.0.0.9:8848"
INTERVAL = {"preserved.heart.beat.interval": "2500"}
CHANGED, TAKEN = InstancesChanged(DATUM_KEY, Origin.LOCAL), InstancesChanged(DATUM_KEY, Origin.PEER)
VARIANT = Variant("", False, False, False, 3_000)


class Bed:
    """A service registry, its clock, and what it told."""

    def __init__(self) -> None:
        self.now_ms = 10_000
        self.events: list[Event] = []
        self.registry = Registry.of("a:1~1")
        self.naming = naming_of(self.registry, lambda: self.now_ms, self.events.append)

    def told(self) -> list[Event]:
        events, self.events[:] = list(self.events), []
        return events

    def instance(self, key: str = KEY) -> Instance:
        found = self.registry.table.find(DATUM_KEY)
        assert found is not None
        return found.stored[key].instance

    def make_ill(self, key: str = KEY) -> None:
        self.naming.set_health(NAMESPACE, NAME, key, False)
        self.told()

    def persist(self, port: int = 80, metadata: dict[str, str] | None = None) -> Instance:
        one = Instance("10.0.0.1", port, service_name=NAME, ephemeral=False, metadata=metadata)
        self.registry.table.set_persistent(NAMESPACE, NAME, one.key, one, self.now_ms)
        return one


@pytest.fixture
def bed() -> Bed:
    return Bed()


@pytest.fixture
def registered(bed: Bed) -> Bed:
    bed.naming.register(ONE)
    bed.told()
    return bed


OPERATIONS: dict[str, Callable[[NamingService, bool], Any]] = {
    "register": lambda naming, new: naming.register(ONE._replace(weight=2.0 if new else 1.0)),
    "patch": lambda naming, new: naming.patch(PatchInstance(NAME, "10.0.0.1", 80, weight=2.0 if new else 1.0)),
    "update": lambda naming, new: naming.update(ONE._replace(weight=2.0 if new else 1.0), strict=True),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_tells_of_what_it_changed_alone(registered: Bed, operation: Callable[..., Any]) -> None:
    assert not operation(registered.naming, False)
    assert registered.told() == []
    assert operation(registered.naming, True)
    assert registered.told() == [CHANGED]


def test_a_deregistration_tells_of_what_it_changed_alone(registered: Bed) -> None:
    gone = DeregisterInstance(NAME, "10.0.0.1", 80)
    assert registered.naming.deregister(gone)
    assert registered.told() == [CHANGED]
    assert not registered.naming.deregister(gone)
    with pytest.raises(InvalidParam, match="'port'"):
        registered.naming.deregister(replace(gone, port=70_000))
    assert registered.told() == []


def test_metadata_that_grow_too_long_change_nothing(registered: Bed) -> None:
    """Each change is within the bound, and all of them together are not: no member would take the list."""
    half = ChangeMetadata({"a": "x" * (METADATA_CHARS_MAX // 2)})
    registered.naming.set_metadata(NAMESPACE, NAME, KEY, half)
    assert registered.told() == [CHANGED]
    with pytest.raises(InvalidParam, match="'metadata'"):
        registered.naming.set_metadata(NAMESPACE, NAME, KEY, ChangeMetadata({"b": half.put["a"]}))
    assert registered.told() == []


def test_changes_of_health_and_metadata_are_told(registered: Bed) -> None:
    for _ in range(2):
        registered.naming.set_health(NAMESPACE, NAME, KEY, False)
        registered.naming.set_metadata(NAMESPACE, NAME, KEY, ChangeMetadata({"a": "1"}))
    assert registered.told() == [CHANGED, CHANGED]
    assert (registered.instance().healthy, registered.instance().metadata) == (False, {"a": "1"})
    registered.naming.take_health(NAMESPACE, NAME, {"10.0.0.1:80": True})
    registered.naming.take_health(NAMESPACE, NAME, {"10.0.0.1:80": True})
    registered.naming.take_health(NAMESPACE, "G@@other", {"10.0.0.1:80": True})
    assert registered.told() == [TAKEN]
    assert registered.instance().healthy


def test_a_patch_of_what_is_not_there_is_refused(bed: Bed) -> None:
    with pytest.raises(InvalidParam, match="instance not found"):
        bed.naming.patch(PatchInstance(NAME, "10.0.0.1", 80, weight=2.0))


class TestBeats:
    @pytest.mark.parametrize(("metadata", "interval_ms"), [(None, 7_000), (INTERVAL, 2_500)])
    def test_a_full_beat_brings_its_instance(self, bed: Bed, metadata: dict[str, str] | None, interval_ms: int) -> None:
        beat = BEAT._replace(full=True, metadata=metadata)
        assert bed.naming.beat(beat, 7_000) == BeatAnswer(interval_ms, known=True, is_new=True)
        assert bed.told() == [CHANGED]
        assert not bed.naming.beat(beat, 7_000).is_new
        assert bed.told() == []

    def test_a_light_beat_of_an_unknown_instance_asks_for_a_registration(self, bed: Bed) -> None:
        for beat in (BEAT, BEAT._replace(full=True, ephemeral=False)):
            assert bed.naming.beat(beat, 7_000) == BeatAnswer(7_000, known=False)
        assert bed.told() == []

    @pytest.mark.parametrize(("metadata", "interval_ms"), [(None, 7_000), (INTERVAL, 2_500)])
    def test_a_persistent_instance_is_known_and_has_its_interval(
        self, bed: Bed, metadata: dict[str, str] | None, interval_ms: int
    ) -> None:
        bed.persist(metadata=metadata)
        assert bed.naming.beat(BEAT._replace(full=True), 7_000) == BeatAnswer(interval_ms, known=True)
        assert bed.told() == []

    def test_a_beat_that_heals_is_told(self, registered: Bed) -> None:
        registered.make_ill()
        assert registered.naming.beat(BEAT, 7_000) == BeatAnswer(7_000, known=True, is_new=True, is_healed=True)
        assert registered.told() == [CHANGED]
        assert registered.naming.beat(BEAT, 7_000) == BeatAnswer(7_000, known=True)
        assert registered.told() == []

    def test_the_interval_is_the_callers_when_the_instance_is_replaced_meanwhile(self, registered: Bed) -> None:
        service = registered.registry.table.find(DATUM_KEY)
        assert service is not None
        service.stored = ReplacedOnce(service.stored, lambda: registered.naming.register(ONE._replace(weight=2.0)))
        assert registered.naming.beat(BEAT, 7_000) == BeatAnswer(7_000, known=True)


class ReplacedOnce(dict[str, Any]):
    """A service's instances; one is replaced right after it was looked up for the first time."""

    def __init__(self, content: dict[str, Any], replace_it: Callable[[], object]) -> None:
        super().__init__(content)
        self.replace_it: Callable[[], object] | None = replace_it

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        replace_it, self.replace_it = self.replace_it, None
        if replace_it is not None:
            replace_it()
        return found


class TestBeatsOfCopies:
    def collected(self, bed: Bed, *, taken: bool = True) -> tuple[int | None, list[tuple[str, str, str, int]]]:
        collected: list[tuple[str, str, str, int]] = []
        found = bed.naming.beat_of_copy(BEAT, OWNER, lambda *beat: collected.append(beat) or taken)
        return found, collected

    @pytest.mark.parametrize(("metadata", "interval_ms"), [({}, 0), (INTERVAL, 2_500)])
    def test_a_healthy_copy_is_answered_for_its_owner(
        self, bed: Bed, metadata: dict[str, str], interval_ms: int
    ) -> None:
        bed.naming.register(ONE._replace(metadata=metadata))
        bed.now_ms = 15_000
        assert self.collected(bed) == (interval_ms, [(OWNER, DATUM_KEY, KEY, 15_000)])
        assert bed.naming.beat_ages(NAMESPACE, NAME) == {KEY: 0}

    def test_the_owner_answers_for_what_it_must_decide(self, registered: Bed) -> None:
        registered.now_ms = 15_000
        assert self.collected(registered, taken=False) == (None, [(OWNER, DATUM_KEY, KEY, 15_000)])
        assert registered.naming.beat_ages(NAMESPACE, NAME) == {KEY: 5_000}, "it was not collected"
        registered.make_ill()
        assert self.collected(registered) == (None, [])
        registered.naming.set_health(NAMESPACE, NAME, KEY, True)
        registered.persist(81)
        assert self.collected(registered) == (None, [])
        assert self.collected(Bed()) == (None, [])


class TestCollectedBeats:
    def test_each_counts_from_its_age(self, registered: Bed) -> None:
        other = Instance("10.0.0.1", 81).key
        registered.naming.register(ONE._replace(port=81))
        registered.told()
        registered.now_ms = 20_000
        assert registered.naming.take_beats(DATUM_KEY, {"gone": 1, KEY: 3_000, other: 15_000}) == ["gone"]
        assert registered.naming.beat_ages(NAMESPACE, NAME) == {KEY: 3_000, other: 10_000}, "an older one is no news"
        assert registered.told() == []
        assert registered.naming.take_beats("unknown", {KEY: 1}) == [KEY]

    def test_an_age_that_is_no_news_confirms_nothing(self, registered: Bed) -> None:
        found = registered.registry.table.find(DATUM_KEY)
        assert found is not None
        found.stored[KEY].last_confirmed_ms = 5_000
        registered.naming.take_beats(DATUM_KEY, {KEY: 0})
        assert found.stored[KEY].last_confirmed_ms == 5_000

    @pytest.mark.parametrize(("age_ms", "is_healed"), [(14_999, True), (15_000, False)])
    def test_one_within_the_time_out_heals(self, registered: Bed, age_ms: int, is_healed: bool) -> None:
        registered.make_ill()
        registered.now_ms = 60_000
        assert registered.naming.take_beats(DATUM_KEY, {KEY: age_ms}) == []
        assert registered.instance().healthy is is_healed
        assert registered.told() == [InstanceHealed(DATUM_KEY, KEY), CHANGED] * is_healed

    def test_all_that_heal_are_told_of_once(self, registered: Bed) -> None:
        other = Instance("10.0.0.1", 81).key
        registered.naming.register(ONE._replace(port=81))
        for key in (KEY, other):
            registered.make_ill(key)
        registered.naming.take_beats(DATUM_KEY, {KEY: 0, other: 0})
        assert registered.told() == [InstanceHealed(DATUM_KEY, KEY), InstanceHealed(DATUM_KEY, other), CHANGED]


class TestReading:
    def test_the_instance_of_an_address_in_a_cluster(self, bed: Bed) -> None:
        for ip, port, cluster in (("10.0.0.1", 80, "c1"), ("10.0.0.1", 81, "c2"), ("10.0.0.2", 80, "c2")):
            bed.naming.register(RegisterInstance(NAME, ip, port, cluster=cluster))
        for wanted in (("c1", "10.0.0.1", 80), ("c2", "10.0.0.1", 81), ("c2", "10.0.0.2", 80)):
            found = bed.naming.find(NAMESPACE, NAME, *wanted)
            assert found is not None
            assert (found.cluster_name, found.ip, found.port) == wanted
        for other in (("c1", "10.0.0.1", 81), ("c2", "10.0.0.1", 80), ("c1", "10.0.0.2", 80)):
            assert bed.naming.find(NAMESPACE, NAME, *other) is None
        assert bed.naming.find(NAMESPACE, "G@@other", "c1", "10.0.0.1", 80) is None

    def test_of_two_kinds_at_an_address_the_persistent_one_is_found(self, registered: Bed) -> None:
        one = registered.persist()
        assert registered.naming.find(NAMESPACE, NAME, "DEFAULT", "10.0.0.1", 80) is one

    def test_ages_of_beats_are_not_below_zero(self, registered: Bed) -> None:
        found = registered.registry.table.find(DATUM_KEY)
        assert found is not None
        for now_ms, age_ms in ((12_000, 2_000), (10_000, 0), (9_000, 0)):
            registered.now_ms = now_ms
            assert registered.naming.beat_ages(NAMESPACE, NAME) == {KEY: age_ms}
            assert registered.naming.silent_ms(found.stored[KEY]) == age_ms
        assert registered.naming.beat_ages(NAMESPACE, "G@@other") == {}

    def test_instances_are_counted_for_each_source(self, registered: Bed) -> None:
        assert registered.naming.instance_count(NAMESPACE, "G@@other") == 0
        assert registered.naming.instance_count(NAMESPACE, NAME) == 1
        registered.persist()
        assert registered.naming.instance_count(NAMESPACE, NAME) == 2
        published = {one.key: one for one in (registered.instance(), Instance("10.0.0.1", 90))}
        publication = Publication(published, True, 0, NO_VERSION)
        registered.registry.table.publish(NAMESPACE, NAME, "c", publication, 0)
        assert registered.naming.instance_count(NAMESPACE, NAME) == 4

    def test_a_hot_list_is_kept_or_small(self, bed: Bed) -> None:
        assert bed.naming.hot_list_answer(NAMESPACE, NAME, VARIANT) is None
        for port in range(1, QUICK_HOSTS_MAX + 1):
            bed.naming.register(ONE._replace(port=port))
        quick = bed.naming.hot_list_answer(NAMESPACE, NAME, VARIANT)
        assert quick is not None
        assert quick is bed.naming.list_answer(NAMESPACE, NAME, VARIANT)
        bed.naming.register(ONE._replace(port=QUICK_HOSTS_MAX + 1))
        assert bed.naming.hot_list_answer(NAMESPACE, NAME, VARIANT) is None
        whole = bed.naming.list_answer(NAMESPACE, NAME, VARIANT)
        assert whole is not None
        assert bed.naming.hot_list_answer(NAMESPACE, NAME, VARIANT) is whole
        assert bed.naming.hot_list_answer(NAMESPACE, NAME, VARIANT._replace(healthy_only=True)) is None

    def test_services_by_namespace_and_group(self, bed: Bed) -> None:
        for namespace, name in (("public", "G@@b"), ("public", "G@@a"), ("public", "H@@a"), ("dev", "G@@a")):
            bed.naming.register(ONE._replace(namespace=namespace, service=name))
        assert bed.naming.namespaces() == ["dev", "public"]
        assert bed.naming.list_services("public", None) == ["G@@a", "G@@b", "H@@a"]
        assert bed.naming.list_services("public", "G") == ["G@@a", "G@@b"]
        assert bed.naming.service_count() == 4
        snapshot = bed.naming.snapshot("dev", "G@@a")
        assert snapshot is not None
        assert (snapshot.namespace, snapshot.full_name) == ("dev", "G@@a")
        assert bed.naming.snapshot("dev", "G@@b") is None
        names = {(one.namespace, one.full_name) for one in bed.naming.snapshots()}
        assert names == {("public", "G@@a"), ("public", "G@@b"), ("public", "H@@a"), ("dev", "G@@a")}
