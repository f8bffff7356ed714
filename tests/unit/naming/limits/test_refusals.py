"""The bound of each limit, to the one: the last write that is taken, the first one that is refused, and its text."""

from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from app.naming.limits.admission import (
    FRAME_BYTES,
    KEY_CHARS_SHOWN,
    Admission,
    LimitStats,
    MemoryPressure,
    NamingCounts,
    NamingLimits,
    Occupancy,
    SubscriberTally,
    list_bytes,
)
from app.naming.model.model import Service
from app.naming.model.nacos_errors import LimitReached, TooManyRequests
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry

NAME = "G@@s"


@dataclass
class Write:
    """A write to a member that has three of everything."""

    is_new_namespace: bool = False
    is_new_service: bool = False
    instances: int = 0
    metadata_bytes: int = 0
    persistent: int = 0

    def check(self, admission: Admission) -> None:
        counts = NamingCounts()
        counts.add("public", 3, 3)
        counts.add("else", 9, 0)
        counts.persistent = 3
        held = Occupancy(3, 3, 3, self.is_new_namespace, self.is_new_service)
        admission.check(counts, held, "public", NAME, self.instances, self.metadata_bytes, self.persistent)


NEW_NAMESPACE = Write(is_new_namespace=True, is_new_service=True)
NEW_SERVICE = Write(is_new_service=True)
CASES = [
    ("namespaces", NEW_NAMESPACE, "there are 3 namespaces in use, and this would add 1"),
    ("services_per_namespace", NEW_SERVICE, "there are 3 services in namespace public, and this would add 1"),
    ("instances_per_service", Write(instances=1), f"there are 3 instances of service {NAME}, and this would add 1"),
    ("instances_per_service", Write(instances=2), f"there are 3 instances of service {NAME}, and this would add 2"),
    ("instances_per_namespace", Write(instances=1), "there are 3 instances in namespace public, and this would add 1"),
    ("instances_per_namespace", Write(instances=2), "there are 3 instances in namespace public, and this would add 2"),
    ("persistent_instances", Write(persistent=1), "there are 3 persistent instances, and this would add 1"),
    ("persistent_instances", Write(persistent=2), "there are 3 persistent instances, and this would add 2"),
    ("metadata_bytes", Write(metadata_bytes=1), "there are 3 bytes of metadata, and this would add 1"),
    ("metadata_bytes", Write(metadata_bytes=7), "there are 3 bytes of metadata, and this would add 7"),
]


def added(write: Write) -> int:
    return write.instances or write.persistent or write.metadata_bytes or 1


def setting(limit: str) -> str:
    first, *others = limit.split("_")
    return "rollcall.limit." + first + "".join(map(str.capitalize, others))


@pytest.mark.parametrize(("limit", "write", "says"), CASES)
def test_a_write_is_refused_by_the_limit_that_it_exceeds(limit: str, write: Write, says: str) -> None:
    lacking = 3 + added(write) - 1
    admission = Admission(NamingLimits(**{limit: lacking}))
    for refused in (1, 2):
        with pytest.raises(LimitReached) as error:
            write.check(admission)
        assert error.value.text == f"refused by {setting(limit)}={lacking}: {says}"
        assert admission.stats == LimitStats(**{limit: refused})


@pytest.mark.parametrize(("limit", "write"), [case[:2] for case in CASES])
def test_a_write_that_reaches_a_limit_is_taken(limit: str, write: Write) -> None:
    for enough in (3 + added(write), 0):  # 0 is any number
        admission = Admission(NamingLimits(**{limit: enough}))
        write.check(admission)
        assert admission.stats == LimitStats()


@pytest.mark.parametrize(("limit", "write"), [case[:2] for case in CASES])
def test_a_limit_of_one_is_a_limit(limit: str, write: Write) -> None:
    with pytest.raises(LimitReached):
        write.check(Admission(NamingLimits(**{limit: 1})))


@pytest.mark.parametrize("limit", sorted({case[0] for case in CASES}))
@pytest.mark.parametrize("write", [Write(), Write(instances=-1, metadata_bytes=-1, persistent=-1)])
def test_a_write_that_adds_nothing_is_taken_beyond_each_limit(limit: str, write: Write) -> None:
    admission = Admission(NamingLimits(**{limit: 1}))
    admission.pressure = MemoryPressure.NO_NEW_INSTANCES
    write.check(admission)
    assert admission.stats == LimitStats()


def test_a_new_service_of_a_known_namespace_is_no_new_namespace() -> None:
    NEW_SERVICE.check(Admission(NamingLimits(namespaces=3)))


@pytest.mark.parametrize(
    ("pressure", "write", "refused", "says"),
    [
        (MemoryPressure.NONE, Write(is_new_service=True, instances=1), LimitStats(), ""),
        (MemoryPressure.NO_NEW_SERVICES, NEW_SERVICE, LimitStats(memory_services=1), f"no new service {NAME}"),
        (MemoryPressure.NO_NEW_SERVICES, Write(instances=1), LimitStats(), ""),
        (MemoryPressure.NO_NEW_INSTANCES, NEW_SERVICE, LimitStats(memory_services=1), f"no new service {NAME}"),
        (MemoryPressure.NO_NEW_INSTANCES, Write(instances=1), LimitStats(memory_instances=1), f"instance of {NAME}"),
        (MemoryPressure.NO_NEW_INSTANCES, Write(metadata_bytes=1, persistent=1), LimitStats(), ""),
    ],
)
def test_memory_refuses_new_services_and_then_new_instances(
    pressure: MemoryPressure, write: Write, refused: LimitStats, says: str
) -> None:
    admission = Admission()
    admission.pressure = pressure
    if says:
        with pytest.raises(TooManyRequests, match=says):
            write.check(admission)
    else:
        write.check(admission)
    assert admission.stats == refused


# --- records and lists --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["k", "k" * (KEY_CHARS_SHOWN + 9), "é" * 40])
def test_a_record_with_its_key_twice_fits_into_a_body(key: str) -> None:
    value = {"a": "x", "long": "y" * 500, "b": "z"}
    size = len(orjson.dumps(value))
    room = size + 2 * len(key.encode()) + FRAME_BYTES
    Admission(NamingLimits(body_bytes=room)).check_record(key, None, value)
    admission = Admission(NamingLimits(body_bytes=room - 1))
    with pytest.raises(LimitReached) as error:
        admission.check_record(key, None, value)
    assert error.value.text == (
        f"refused by rollcall.distro.bodyBytesMax={size - 1}: the record {key[:KEY_CHARS_SHOWN]!r} would have {size} "
        "bytes, most of them in its field 'long'"
    )
    assert admission.stats == LimitStats(record_bytes=1)


def test_a_record_is_refused_by_its_bytes_unless_it_had_as_many() -> None:
    value = {"metadata": "é" * 10}
    size = len(orjson.dumps(value))
    Admission(NamingLimits(record_bytes=size)).check_record("k", None, value)
    admission = Admission(NamingLimits(record_bytes=size - 1))
    admission.check_record("k", value, value)
    for before in (None, {"metadata": "é" * 9 + "e"}):
        with pytest.raises(LimitReached, match=rf"^refused by rollcall\.limit\.recordBytes={size - 1}: "):
            admission.check_record("k", before, value)
    assert admission.stats == LimitStats(record_bytes=2)


def test_a_record_without_fields_has_a_size_too() -> None:
    with pytest.raises(LimitReached, match=r"would have 2 bytes, most of them in its field ''$"):
        Admission(NamingLimits(record_bytes=1)).check_record("k", None, {})


@pytest.mark.parametrize(("name_chars", "instances", "metadata_bytes"), [(4, 1, 0), (4, 3, 1_000), (400, 7, 33)])
def test_a_list_may_fill_a_body_but_for_the_part_of_its_removals(
    name_chars: int, instances: int, metadata_bytes: int
) -> None:
    size = list_bytes(name_chars, instances, metadata_bytes)
    allowed = next(
        body
        for body in range(size, 2 * size)
        if body - Admission(NamingLimits(body_bytes=body)).removals_bytes_max >= size
    )
    Admission(NamingLimits(body_bytes=allowed)).check_list("it", name_chars, instances, metadata_bytes)
    admission = Admission(NamingLimits(body_bytes=allowed - 1))
    with pytest.raises(LimitReached) as error:
        admission.check_list("client c1", name_chars, instances, metadata_bytes)
    assert error.value.text == (
        f"refused by rollcall.distro.bodyBytesMax={allowed - 1}: the {instances} instances of client c1 would have "
        f"{size} bytes, {metadata_bytes} of them in their field 'metadata' and long names; {size - 1} are allowed"
    )
    assert admission.stats == LimitStats(list_bytes=1)


@pytest.mark.parametrize("body_bytes", [0, 1])
def test_a_body_of_any_size_and_one_of_a_byte(body_bytes: int) -> None:
    admission = Admission(NamingLimits(body_bytes=body_bytes))
    if body_bytes:
        with pytest.raises(LimitReached):
            admission.check_list("it", 4, 1, 0)
    else:
        admission.check_list("it", 4, 1, 0)
        admission.check_growth(NAME, None, 1, 0)


def held(instances: int, **fields: Any) -> Service:
    """A service with so many instances."""
    registry = Registry.of("a:1~1")
    for port in range(1, instances + 1):
        registry.writes.register(RegisterInstance(NAME, "10.0.0.1", port, **fields), 0)
    service = registry.table.get("public", NAME)
    assert service is not None
    return service


@pytest.mark.parametrize("body_bytes", [6_000, 9_000])
def test_a_list_grows_as_long_as_all_of_it_fits(body_bytes: int) -> None:
    admission = Admission(NamingLimits(body_bytes=body_bytes))
    service = held(5, metadata={"k": "v" * 100})
    room = body_bytes - admission.removals_bytes_max - list_bytes(len(NAME), 5, service.stored_bytes)
    more = room // list_bytes(len(NAME), 1, 100)
    assert more > 0
    admission.check_growth(NAME, service, more, more * 100)
    with pytest.raises(LimitReached, match=rf"the {5 + more + 1} instances of service {NAME} would have"):
        admission.check_growth(NAME, service, more + 1, (more + 1) * 100)
    admission.check_growth(NAME, None, more + 1, (more + 1) * 100)
    assert admission.stats == LimitStats(list_bytes=1)


def test_clusters_and_namespaces_up_to_their_limits() -> None:
    admission = Admission(NamingLimits(clusters_per_service=1, namespaces=1))
    admission.check_clusters(NAME, 1)
    admission.check_namespaces(0)
    with pytest.raises(LimitReached) as error:
        admission.check_clusters(NAME, 2)
    assert error.value.text == (
        f"refused by rollcall.limit.clustersPerService=1: there are 1 clusters with settings in service {NAME}, "
        "and this would add 1"
    )
    with pytest.raises(LimitReached) as error:
        admission.check_namespaces(1)
    assert error.value.text == (
        "refused by rollcall.limit.namespaces=1: there are 1 namespaces created, and this would add 1"
    )
    assert admission.stats == LimitStats(clusters_per_service=1, namespaces=1)


# --- counts -------------------------------------------------------------------------------------------


def test_instances_are_counted_by_namespace() -> None:
    counts = NamingCounts()
    assert (counts.instances(), counts.instances_of("a"), counts.metadata_bytes, counts.persistent) == (0, 0, 0, 0)
    counts.add("a", 2, 10)
    counts.add("b", 1, 5)
    counts.add("a", 1, -4)
    counts.add("c", 0, 3)
    assert (counts.instances_of("a"), counts.instances_of("b"), counts.instances_of("c")) == (3, 1, 0)
    assert (counts.instances(), counts.metadata_bytes) == (4, 14)
    counts.add("a", -3, 0)
    assert (counts.instances(), counts.instances_of("a")) == (1, 0)


def test_pages_beyond_the_longest_one_are_cut_and_counted() -> None:
    stats = LimitStats()
    assert [stats.cut_page(asked, 10) for asked in (9, 10, 11, 12)] == [9, 10, 10, 10]
    assert stats.counters()["limit_page_size"] == 2


def test_subscriptions_are_counted_over_both_ways() -> None:
    stats = LimitStats()
    tally = SubscriberTally(3, stats)
    tally.udp, tally.grpc = 1, 1
    assert tally.has_room()
    tally.grpc = 2
    assert [tally.has_room(), tally.has_room()] == [False, False]
    assert stats == LimitStats(subscribers=2)
    assert tally.refusal() == "refused by rollcall.limit.subscribers=3: there are 3 subscriptions"
    assert SubscriberTally().has_room()
