"""What the own disk adds to what other members gave (R7): newer states, and words of the last minute that they lack."""

import orjson
import pytest

from app.machine.storage.warm_log import decode_aged
from app.naming.model.keys import datum_key
from app.naming.model.model import NEVER_MS, Instance, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication.warm_start import RECENT_MS, WarmStart
from distro.model.types import Datum, Version

KEY = datum_key("public", "DEFAULT_GROUP@@orders")
OWN, PEER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"
LOW, HIGH = Version(2, 5, OWN), Version(3, 0, PEER)
NOW_MS = 1_000_000
ONE, TWO = Instance("10.1.0.1", 80), Instance("10.1.0.2", 80)


def listed(instance: Instance, version: Version, age_ms: int) -> StoredInstance:
    return StoredInstance(instance, version, NOW_MS - age_ms, version, NOW_MS - age_ms, NOW_MS - age_ms)


def started(disk: InstanceList, loaded: InstanceList, disk_version: Version = LOW) -> Registry:
    """A registry with what a peer gave, after its start from the disk."""
    registry = Registry.of("10.0.0.1:8848~2")
    assert registry.replication.apply(Datum(KEY, HIGH, loaded), None, NOW_MS)
    warm_start = WarmStart(registry.lists, registry.replication, lambda: 0, claims=False)
    warm_start.read([Datum(KEY, disk_version, disk)])
    warm_start.fill(NOW_MS)
    return registry


def instances(registry: Registry) -> set[str]:
    service = registry.table.find(KEY)
    assert service is not None
    return {one.instance.ip for one in service.stored.values()}


@pytest.mark.parametrize(("age_ms", "is_kept"), [(RECENT_MS, True), (RECENT_MS + 1, False)])
def test_a_registration_that_no_other_member_heard_of_is_kept(age_ms: int, is_kept: bool) -> None:
    disk = InstanceList({ONE.key: listed(ONE, LOW, age_ms)}, {})
    registry = started(disk, InstanceList({TWO.key: listed(TWO, HIGH, 90_000)}, {}))
    assert instances(registry) == ({ONE.ip, TWO.ip} if is_kept else {TWO.ip})


@pytest.mark.parametrize(("age_ms", "is_kept"), [(RECENT_MS, True), (RECENT_MS + 1, False)])
def test_a_removal_of_what_others_still_list_is_kept(age_ms: int, is_kept: bool) -> None:
    disk = InstanceList({}, {ONE.key: Tombstone(LOW, NOW_MS - age_ms, 90_000)})
    loaded = InstanceList({ONE.key: listed(ONE, HIGH, 90_000), TWO.key: listed(TWO, HIGH, 90_000)}, {})
    assert instances(started(disk, loaded)) == ({TWO.ip} if is_kept else {ONE.ip, TWO.ip})


def test_what_others_said_later_holds() -> None:
    disk = InstanceList({ONE.key: listed(ONE, LOW, 9_000)}, {TWO.key: Tombstone(LOW, NOW_MS - 9_000, 90_000)})
    loaded = InstanceList({TWO.key: listed(TWO, HIGH, 2_000)}, {ONE.key: Tombstone(HIGH, NOW_MS - 2_000, 90_000)})
    registry = started(disk, loaded)
    assert instances(registry) == {TWO.ip}
    assert registry.lists.version(KEY) == HIGH, "nothing was missing"


def test_a_higher_version_is_merged_whatever_its_age() -> None:
    disk = InstanceList({ONE.key: listed(ONE, Version(4, 0, OWN), 300_000)}, {})
    loaded = InstanceList({TWO.key: listed(TWO, HIGH, 90_000)}, {})
    assert instances(started(disk, loaded, Version(4, 0, OWN))) == {ONE.ip, TWO.ip}


def test_of_a_clock_that_went_back_no_word_counts_as_recent() -> None:
    codec = InstanceListCodec(lambda: 0)
    value = InstanceList({ONE.key: listed(ONE, LOW, 10)}, {TWO.key: Tombstone(LOW, NOW_MS - 10, 90_000)})
    body = orjson.loads(codec.encode(Datum(KEY, LOW, value), NOW_MS, True))
    read = decode_aged(codec, KEY, body, -5, NOW_MS)
    assert [one.changed_ms for one in read.value.stored.values()] == [NEVER_MS]
    assert read.value.tombstones == {}
    assert decode_aged(codec, KEY, body, 0, NOW_MS).value.tombstones != {}
