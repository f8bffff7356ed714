"""NamingService: what an update needs, and what a beat brings back."""

from collections.abc import Callable
from typing import Any

import pytest

from app.naming.model.model import StoredInstance
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry import operations
from app.naming.registry.list_state import ListState
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Beat, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from distro.model.types import Datum, Version
from tests.support.fake_node import FakeNode
from tests.support.registry_parts import naming_of

SERVICE = "DEFAULT_GROUP@@orders"


@pytest.fixture
def naming() -> NamingService:
    return naming_of(Registry.of("127.0.0.1:8848~1"), lambda: 0, lambda event: None)


def register(port: int = 8080, cluster: str = "DEFAULT", **attributes: bool) -> RegisterInstance:
    return RegisterInstance(SERVICE, "10.0.0.1", port, cluster=cluster, **attributes)


def clusters(naming: NamingService) -> list[str]:
    view = naming.service_view("public", SERVICE)
    return sorted(one.cluster_name for one in view.instances) if view else []


def test_a_strict_update_takes_an_instance_of_this_address_in_any_cluster(naming: NamingService) -> None:
    naming.register(register())
    naming.update(register(cluster="other"), strict=True)
    assert clusters(naming) == ["DEFAULT", "other"]


@pytest.mark.parametrize("update", [register(port=8081), register(ephemeral=False)])
def test_a_strict_update_creates_nothing(naming: NamingService, update: RegisterInstance) -> None:
    naming.register(register())
    with pytest.raises(InvalidParam, match=f"instance not exist: 10.0.0.1:{update.port}:unknown:DEFAULT"):
        naming.update(update, strict=True)
    assert clusters(naming) == ["DEFAULT"]


def test_an_instance_that_a_beat_brings_gets_the_id_that_its_metadata_asks_for(naming: NamingService) -> None:
    metadata = {"preserved.instance.id.generator": "snowflake"}
    for port in (8080, 8081):
        naming.beat(Beat(SERVICE, "10.0.0.1", port, full=True, metadata=metadata))
    naming.beat(Beat(SERVICE, "10.0.0.1", 8082, full=True))
    view = naming.service_view("public", SERVICE)
    assert view is not None
    assert [one.instance_id for one in view.instances] == ["0", "1", f"10.0.0.1#8082#DEFAULT#{SERVICE}"]


def test_a_hot_detail_is_the_detail() -> None:
    node = FakeNode()
    node.naming.register(register(8080))
    node.durable.register(register(8081)._replace(ephemeral=False))
    node.naming.register(register(8081))
    for port, ephemeral in ((8080, True), (8081, False)):
        asked = ("public", SERVICE, "10.0.0.1", port, "DEFAULT")
        quick = node.naming.hot_detail(*asked)
        assert quick is not None
        assert quick is node.naming.detail(*asked)
        assert quick.ephemeral is ephemeral
    assert node.naming.hot_detail("public", SERVICE, "10.0.0.1", 8080, "other") is None
    assert node.naming.hot_detail("other", SERVICE, "10.0.0.1", 8080, "DEFAULT") is None


def test_a_beat_makes_an_unhealthy_instance_healthy(naming: NamingService) -> None:
    naming.register(register())
    for healthy in (False, True):
        naming.set_health("public", SERVICE, operations.key_of(register()), False)
        if healthy:
            naming.beat(Beat(SERVICE, "10.0.0.1", 8080))
        view = naming.service_view("public", SERVICE)
        assert view is not None
        assert [one.healthy for one in view.instances] == [healthy]


@pytest.mark.parametrize(("text", "interval_ms"), [(None, 7_000), ("2500", 2_500), ("soon", 5_000)])
def test_a_beat_is_answered_with_the_interval_of_its_instance(
    naming: NamingService, text: str | None, interval_ms: int
) -> None:
    naming.register(register()._replace(metadata={"preserved.heart.beat.interval": text} if text else {"zone": "a"}))
    answer = naming.beat(Beat(SERVICE, "10.0.0.1", 8080), 7_000)
    assert (answer.interval_ms, answer.known) == (interval_ms, True)


# --- beats that come while an instance is replaced ----------------------------------------------------


class Meanwhile(StoredInstance):
    """A stored instance that something replaces in the moment in which a beat is written."""

    __slots__ = ("replace",)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "beat_ms" and (replace := getattr(self, "replace", None)) is not None:
            self.replace = None
            replace()


class Timed:
    """A service with one instance, whose time the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.registry = Registry.of("127.0.0.1:8848~1")
        self.naming = naming_of(self.registry, lambda: self.now_ms, lambda _event: None)
        self.naming.register(register())
        self.service = next(iter(self.registry.table.services()))
        [self.key] = self.service.stored
        self.now_ms = 6_000

    @property
    def stored(self) -> StoredInstance:
        return self.service.stored[self.key]

    def replace_during_beat(self) -> None:
        old = self.stored
        one = Meanwhile(old.instance, old.version, old.beat_ms)
        one.replace = lambda: self.registry.writes.set_health(
            self.service, self.key, not old.instance.healthy, self.now_ms
        )
        self.service.stored[self.key] = one

    def beat(self) -> None:
        self.naming.beat(Beat(SERVICE, "10.0.0.1", 8080))

    def beat_of_copy(self) -> None:
        assert self.naming.beat_of_copy(Beat(SERVICE, "10.0.0.1", 8080), "10.0.0.9:8848", lambda *_: True) is not None

    def take_beats(self) -> None:
        assert self.naming.take_beats(self.service.key, {self.key: 0}) == []


@pytest.mark.parametrize("beat", [Timed.beat, Timed.beat_of_copy, Timed.take_beats])
def test_a_beat_is_not_lost_when_its_instance_is_replaced_meanwhile(beat: Callable[[Timed], None]) -> None:
    timed = Timed()
    timed.replace_during_beat()
    beat(timed)
    assert not isinstance(timed.stored, Meanwhile)
    assert (timed.stored.beat_ms, timed.stored.last_confirmed_ms) == (6_000, 6_000)


def test_a_beat_of_an_instance_that_is_removed_meanwhile_is_one_of_an_unknown_instance() -> None:
    timed = Timed()
    timed.replace_during_beat()
    timed.stored.replace = lambda: timed.registry.writes.remove("public", SERVICE, timed.key, 6_000)  # type: ignore[attr-defined]
    assert not timed.naming.beat(Beat(SERVICE, "10.0.0.1", 8080)).known


def test_a_beat_between_the_making_of_a_state_and_its_storing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed()
    with_health, swap = StoredInstance.with_health, ListState.swap

    def made(old: StoredInstance, healthy: bool, version: Version) -> StoredInstance:
        new = with_health(old, healthy, version)
        old.beat_ms = old.last_confirmed_ms = 6_000
        return new

    monkeypatch.setattr(StoredInstance, "with_health", made)
    timed.registry.writes.set_health(timed.service, timed.key, False, 6_000)
    assert (timed.stored.beat_ms, timed.stored.last_confirmed_ms) == (6_000, 6_000)

    def swapped(lists: ListState, *args: Any) -> bool:
        timed.stored.beat_ms = timed.stored.last_confirmed_ms = 7_000
        return swap(lists, *args)

    monkeypatch.setattr(ListState, "swap", swapped)
    received = StoredInstance(timed.stored.instance, Version(9, 0, "b:1~1"), 2_000)
    datum = Datum(timed.service.key, Version(9, 0, "b:1~1"), InstanceList({timed.key: received}, {}))
    assert timed.registry.replication.apply(datum, timed.service.version, 7_000)
    assert (timed.stored.beat_ms, timed.stored.last_confirmed_ms) == (7_000, 7_000)
