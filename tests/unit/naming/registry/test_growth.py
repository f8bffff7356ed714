"""What a change costs does not grow with what is held: nothing is looked at, copied or locked but what it is about."""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.naming.health.beat_check import HealthCheckGate
from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, Service, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Beat, ChangeMetadata, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import COPIED_UNDER_LOCK_MAX, COPY_TRIES_MAX
from app.naming.wire.datum_codec import ENTRIES_PER_PART, InstanceListCodec
from distro.model.types import Datum, Version
from tests.support import views
from tests.support.registry_parts import check_of, naming_of

NAME = "DEFAULT_GROUP@@orders"
KEY = datum_key("public", NAME)
OTHER = "10.0.0.2:8848~1"
MANY = 3 * COPIED_UNDER_LOCK_MAX


def key_of(number: int) -> str:
    return Instance(f"10.0.0.{number}", 80).key


class Large:
    """A service of many instances, and what is done to it."""

    def __init__(self, guard_ms: int = 0) -> None:
        self.now_ms = 0
        self.registry = Registry.of("10.0.0.1:8848~1", guard_ms=guard_ms)
        self.naming = naming_of(self.registry, lambda: self.now_ms, lambda _event: None)
        for number in range(MANY):
            self.naming.register(RegisterInstance(NAME, f"10.0.0.{number}", 80))
        self.naming.deregister(DeregisterInstance(NAME, "10.0.0.0", 80))

    @property
    def service(self) -> Service:
        found = self.registry.table.find(KEY)
        assert found is not None
        return found


@pytest.fixture
def large() -> Large:
    return Large()


class Alone(dict[str, Any]):
    """One cannot go through it, nor copy it."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("this looks at all instances")

    __iter__ = values = items = keys = copy = _refuse


CHANGES: dict[str, Callable[[Large], object]] = {
    "register": lambda large: large.naming.register(RegisterInstance(NAME, "10.1.0.1", 80, metadata={"a": "b"})),
    "register again": lambda large: large.naming.register(RegisterInstance(NAME, "10.0.0.1", 80)),
    "change": lambda large: large.naming.register(RegisterInstance(NAME, "10.0.0.1", 80, weight=2.0)),
    "light beat": lambda large: large.naming.beat(Beat(NAME, "10.0.0.1", 80)),
    "full beat": lambda large: large.naming.beat(Beat(NAME, "10.1.0.1", 80, full=True)),
    "deregister": lambda large: large.naming.deregister(DeregisterInstance(NAME, "10.0.0.1", 80)),
    "patch": lambda large: large.naming.patch(PatchInstance(NAME, "10.0.0.1", 80, weight=3.0)),
    "metadata": lambda large: large.naming.set_metadata("public", NAME, key_of(1), ChangeMetadata({"a": "b"})),
    "health": lambda large: large.naming.set_health("public", NAME, key_of(1), False),
    "beats": lambda large: large.naming.take_beats(KEY, {key_of(1): 100}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_one_instance_touches_no_other(large: Large, change: Callable[[Large], object]) -> None:
    service = large.service
    service.stored, service.tombstones = Alone(service.stored), Alone(service.tombstones)
    change(large)


@pytest.mark.parametrize("by_beat", [False, True])
def test_a_numbered_instance_of_a_large_service_touches_no_other_once_the_numbers_are_known(
    large: Large, by_beat: bool
) -> None:
    def register(ip: str) -> None:
        metadata = {"preserved.instance.id.generator": "snowflake"}
        if by_beat:
            large.naming.beat(Beat(NAME, ip, 80, full=True, metadata=metadata))
        else:
            large.naming.register(RegisterInstance(NAME, ip, 80, metadata=metadata))

    register("10.1.0.1")
    large.service.stored = Alone(large.service.stored)
    register("10.1.0.2")
    ids = [large.service.stored[Instance(ip, 80).key].instance.instance_id for ip in ("10.1.0.1", "10.1.0.2")]
    assert ids == ["0", "1"]


# --- the lock ------------------------------------------------------------------------------------------


class Watched(dict[str, Any]):
    """Notes when one goes through it under the registry's lock, and lets something happen when it is not held."""

    def __init__(self, content: dict[str, Any], large: Large) -> None:
        super().__init__(content)
        self.large = large
        self.locked = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def copy(self) -> dict[str, Any]:
        copied = dict(super().items())
        if self.large.registry.table.lock.locked():
            self.locked += 1
        else:
            self.meanwhile()
        return copied

    def _seen(self, view: Any) -> Any:
        self.locked += self.large.registry.table.lock.locked()
        return view

    def values(self) -> Any:
        return self._seen(super().values())

    def items(self) -> Any:
        return self._seen(super().items())

    def __iter__(self) -> Iterator[str]:
        self._seen(None)
        return super().__iter__()


def received(version: Version, *numbers: int) -> Datum:
    stored = {key_of(number): StoredInstance(Instance(f"10.0.0.{number}", 80), version, 0) for number in numbers}
    return Datum(KEY, version, InstanceList(stored, {}))


STEPS: dict[str, Callable[[Large], object]] = {
    "datum": lambda large: list(large.registry.lists.datums([KEY])),
    "snapshot": lambda large: large.registry.table.snapshot(KEY),
    "view": lambda large: views.view(large.registry, "public", NAME),
    "apply": lambda large: large.registry.replication.apply(
        received(Version(2, 0, OTHER), 1, 2), large.registry.lists.version(KEY), 0
    ),
    "merge": lambda large: large.registry.replication.merge(received(Version(2, 0, OTHER), 1, 2), 0),
    "forget": lambda large: large.registry.upkeep.forget(KEY, 0),
    "empty": lambda large: large.registry.writes.empty("public", NAME, 0),
    "take_health": lambda large: large.registry.writes.take_health(large.service, {"10.0.0.1:80": False}),
    "prune": lambda large: large.registry.upkeep.prune_tombstones(large.service, 0),
    "id allocator": lambda large: large.naming.register(
        RegisterInstance(NAME, "10.1.0.1", 80, metadata={"preserved.instance.id.generator": "snowflake"})
    ),
    "beat check": lambda large: check_of(large.registry, lambda _event: None).tick(
        20_000, lambda: HealthCheckGate(True, 20_000, lambda _name: True)
    ),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("guard_ms", [0, 10_000])
def test_the_lock_is_not_held_while_all_instances_are_looked_at(step: Callable[[Large], object], guard_ms: int) -> None:
    large = Large(guard_ms)
    stored = large.service.stored = Watched(large.service.stored, large)
    tombstones = large.service.tombstones = Watched(large.service.tombstones, large)
    step(large)
    assert not stored.locked + tombstones.locked


def test_what_changes_while_it_is_copied_is_copied_again(large: Large) -> None:
    watched = large.service.stored = Watched(large.service.stored, large)
    done = 0

    def change() -> None:
        nonlocal done
        done += 1
        large.naming.register(RegisterInstance(NAME, f"10.1.0.{done}", 80))

    watched.meanwhile = change
    [datum] = large.registry.lists.datums([KEY])
    assert done == COPY_TRIES_MAX - 1
    assert watched.locked == 1, "the last time under the lock"
    assert datum.version == large.service.version
    assert datum.value.stored == dict(large.service.stored)


def test_who_comes_while_all_are_taken_out_goes_too(large: Large) -> None:
    watched = large.service.stored = Watched(large.service.stored, large)
    watched.meanwhile = lambda: (
        setattr(watched, "meanwhile", lambda: None),
        large.naming.register(RegisterInstance(NAME, "10.1.0.1", 80)),
    )
    before = large.service.version
    assert large.registry.writes.empty("public", NAME, 0) == KEY
    assert not large.service.stored
    assert len(large.service.tombstones) == MANY + 1, "with the one that was gone before"
    assert large.service.version.counter == before.counter + 2, "one registration, and one change for all"
    assert large.registry.writes.empty("public", NAME, 0) is None


def test_a_loss_is_measured_by_what_is_shown_when_the_new_state_is_taken() -> None:
    """Half of the instances vanish: that is held back, and who was deregistered meanwhile is not shown."""
    large = Large(guard_ms=10_000)
    watched = large.service.stored = Watched(large.service.stored, large)

    def deregister() -> None:
        watched.meanwhile = lambda: None
        large.naming.deregister(DeregisterInstance(NAME, "10.0.0.5", 80))

    watched.meanwhile = deregister
    large.registry.upkeep.forget(KEY, 0)
    assert large.service.retained.keys() == {key_of(number) for number in range(1, MANY)} - {key_of(5)}


# --- memory --------------------------------------------------------------------------------------------


def test_a_replaced_list_is_given_back_while_its_readers_keep_theirs(large: Large) -> None:
    view = views.view(large.registry, "public", NAME)
    old = large.service.stored
    one = next(iter(old.values()))
    large.registry.replication.apply(received(Version(9, 0, OTHER), 1), large.registry.lists.version(KEY), 0)
    assert len(old) == MANY - 1, "a reader that is on it finds all"
    assert view is not None
    assert len(view.instances) == MANY - 1
    del old
    assert sys.getrefcount(one) == 2, "nothing else keeps it"


def test_nothing_of_the_domain_needs_the_collection_of_garbage() -> None:
    """A full collection visits each of a million instances, so hardly ever is one made."""
    large = Large(guard_ms=10_000)
    gc.collect()
    gc.disable()
    try:
        live_and_let_go(large)
        assert gc.collect() == 0
    finally:
        gc.enable()


def live_and_let_go(large: Large) -> None:
    codec, events = InstanceListCodec(lambda: 0), list[object]()
    check = check_of(large.registry, events.append)
    for change in CHANGES.values():
        large.now_ms += 100
        CHANGES["register again"](large)
        change(large)
        views.view(large.registry, "public", NAME)
    [datum] = large.registry.lists.datums([KEY])
    body = codec.encode(datum, large.now_ms, versioned=True)
    assert body.count(b'"ip"') >= MANY - 1
    for _ in range(120):
        large.now_ms += 1_000
        check.tick(large.now_ms, lambda: HealthCheckGate(True, large.now_ms, lambda _name: True, forget_unneeded=True))
    assert events
    assert not large.service.stored
    tombstones = {key_of(number): Tombstone(Version(1, number, OTHER), 0, 0) for number in range(10)}
    for version in (Version(20, 0, OTHER), Version(21, 0, OTHER)):
        large.registry.replication.apply(received(version, *range(10)), large.registry.lists.version(KEY), 0)
    large.registry.replication.merge(Datum(KEY, Version(22, 0, "c"), InstanceList({}, tombstones)), 0)
    large.registry.replication.claim(KEY, 0)
    large.registry.writes.empty("public", NAME, 0)
    large.registry.upkeep.forget(KEY, 0)


@pytest.mark.parametrize("count", [0, 1, ENTRIES_PER_PART, ENTRIES_PER_PART + 1, 5 * ENTRIES_PER_PART])
@pytest.mark.parametrize("versioned", [True, False])
def test_a_datum_is_encoded_in_small_parts(count: int, versioned: bool) -> None:
    codec = InstanceListCodec(lambda: 0)
    stored_instances = [
        StoredInstance(Instance(f"10.0.0.{number}", 80, app="ä\U0001f600"), Version(1, number, OTHER), 0)
        for number in range(count)
    ]
    tombstones = {key_of(number): Tombstone(Version(1, number, OTHER), 0, 90_000) for number in range(count)}
    datum = Datum(
        KEY,
        Version(2, 0, OTHER),
        InstanceList({str(number): one for number, one in enumerate(stored_instances)}, tombstones),
    )
    parts = list(codec.encode_parts(datum, 0, versioned))
    assert max(part.count(b'"ip"') + part.count(b'"keep"') for part in parts) <= ENTRIES_PER_PART
    body = b"".join(parts)
    assert (body.count(b'"ip"'), body.count(b'"keep"')) == (count, count if versioned else 0)
    assert versioned or body.isascii()
