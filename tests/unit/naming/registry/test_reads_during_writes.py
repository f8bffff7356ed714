"""A reader without a lock may come between any two lines of a write: what it keeps must not outlive the write."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.meta import ServiceMeta
from app.naming.model.model import Change, Instance, Publication, StoredInstance, Tombstone
from app.naming.model.override import Override
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Beat, PatchInstance, RegisterInstance
from app.naming.registry.override_table import set_override
from app.naming.registry.registry import Registry
from app.naming.registry.service_counts import unhealthy_of
from app.naming.registry.union import is_unhealthy, view_of
from distro.model.types import Datum, Version

ME, OTHER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"
NAME, IP = "G@@orders", "10.1.0.1"
KEY = datum_key("public", NAME)
FIRST = Version(3, 4, OTHER)
NEXT = FIRST.next(OTHER)
ONE, SICK = Instance(IP, 1, service_name=NAME), Instance(IP, 1, service_name=NAME, healthy=False)
FIXED = Instance(IP, 9, service_name=NAME, ephemeral=False, healthy=False)
PUBLISHED = Publication({SICK.key: SICK}, False, 5, FIRST)


def listed(version: Version, *instances: Instance, removed: tuple[str, ...] = ()) -> InstanceList:
    stored = {one.key: StoredInstance(one, version, 0) for one in instances}
    return InstanceList(stored, {key: Tombstone(version, 0, 90_000) for key in removed})


def read(registry: Registry) -> None:
    """Read the service, if it is there, and count its unhealthy instances, as a page does."""
    if (service := registry.table.find(KEY)) is not None:
        view_of(service)
        unhealthy_of(service)


@contextmanager
def reads_between_all_lines(registry: Registry) -> Iterator[None]:
    before = sys.gettrace()
    reading = False

    def on_line(frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal reading
        if "/app/naming/registry/" not in frame.f_code.co_filename:
            return None
        if not reading:
            reading = True
            read(registry)
            reading = False
        return on_line

    sys.settrace(on_line)
    try:
        yield
    finally:
        sys.settrace(before)


STEPS: dict[str, Callable[[Registry], object]] = {
    "register": lambda r: r.writes.register(RegisterInstance(NAME, IP, 2), 0),
    "register changed": lambda r: r.writes.register(RegisterInstance(NAME, IP, 1, weight=7, healthy=False), 0),
    "beat": lambda r: r.writes.put_from_beat(Beat(NAME, IP, 3, full=True), 0),
    "patch": lambda r: r.writes.patch(PatchInstance(NAME, IP, 1, weight=8), 0),
    "deregister": lambda r: r.writes.remove("public", NAME, ONE.key, 0),
    "remove unknown": lambda r: r.writes.remove("public", NAME, "10.9.9.9:1:unknown:DEFAULT", 0),
    "empty": lambda r: r.writes.empty("public", NAME, 0),
    "unhealthy": lambda r: r.writes.set_health(r.table.find(KEY), ONE.key, False, 0),  # type: ignore[arg-type]
    "health of the owner": lambda r: r.writes.take_health(r.table.find(KEY), {f"{IP}:1": False}),  # type: ignore[arg-type]
    "claim": lambda r: r.replication.claim(KEY, 0),
    "merge": lambda r: r.replication.merge(Datum(KEY, NEXT, listed(NEXT, SICK)), 0),
    "list of a peer": lambda r: r.replication.apply(Datum(KEY, NEXT, listed(NEXT, SICK)), FIRST, 0),
    "list that lost one": lambda r: r.replication.apply(Datum(KEY, NEXT, listed(NEXT)), FIRST, 0),
    "delta": lambda r: r.replication.apply_delta(Datum(KEY, NEXT, listed(NEXT, SICK), FIRST), 0),
    "delta that removes": lambda r: r.replication.apply_delta(
        Datum(KEY, NEXT, listed(NEXT, removed=(ONE.key,)), FIRST), 0
    ),
    "change": lambda r: r.replication.take_change(Change(KEY, SICK.key, NEXT, StoredInstance(SICK, NEXT, 0), None), 0),
    "forget": lambda r: r.upkeep.forget(KEY),
    "description": lambda r: r.table.set_meta("public", NAME, ServiceMeta(protect_threshold=0.5), 0),
    "persistent": lambda r: r.table.set_persistent("public", NAME, FIXED.key, FIXED, 0),
    "published": lambda r: r.table.publish("public", NAME, "7_1", PUBLISHED, 0),
    "override": lambda r: set_override(r.table, "public", NAME, ONE.key, Override(enabled=False)),
}


@pytest.mark.parametrize("guard_ms", [0, 60_000])
@pytest.mark.parametrize("name", STEPS)
def test_what_a_reader_keeps_between_two_lines_of_a_write_ends_with_it(name: str, guard_ms: int) -> None:
    registry = Registry.of(ME, guard_ms=guard_ms)
    registry.replication.apply(Datum(KEY, FIRST, listed(FIRST, ONE)), None, 0)
    with reads_between_all_lines(registry):
        STEPS[name](registry)
    service = registry.table.find(KEY)
    if service is None:
        assert name == "forget"
        return
    kept, unhealthy = view_of(service), unhealthy_of(service)
    service.view = None
    assert kept == view_of(service)
    assert unhealthy == sum(map(is_unhealthy, view_of(service).instances))
