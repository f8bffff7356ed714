"""One version, two states: the owner's list gets the next version, and keeps what it is, but for what it had lost."""

from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.types import Datum, Version

SERVICE = "DEFAULT_GROUP@@orders"
KEY = datum_key("public", SERVICE)
ME, OTHER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"
NOW_MS = 50_000


@pytest.fixture
def registry() -> Registry:
    made = Registry.of(ME)
    for port in (80, 81):
        made.writes.register(RegisterInstance(SERVICE, "10.1.0.1", port, metadata={"zone": "a"}), 1_000)
    return made


def held(registry: Registry) -> InstanceList:
    """A copy of the list, as a peer holds it: it came over the wire."""
    codec = InstanceListCodec(lambda: 0)
    [datum] = registry.lists.datums([KEY])
    value: InstanceList = codec.decode(KEY, orjson.loads(codec.encode(datum, 2_000, True)), 2_000).value
    return value


def told(registry: Registry, value: InstanceList, version: Version | None = None) -> Datum:
    known = registry.lists.version(KEY)
    assert known is not None
    return Datum(KEY, version or known, value)


def ports(registry: Registry) -> list[int]:
    [datum] = registry.lists.datums([KEY])
    return sorted(one.instance.port for one in datum.value.stored.values())


def test_a_peer_that_holds_the_same_changes_nothing(registry: Registry) -> None:
    before = registry.lists.version(KEY)
    assert registry.replication.reissue(told(registry, held(registry)), NOW_MS, restoring=False) is False
    assert registry.replication.reissue(told(registry, held(registry)), NOW_MS, restoring=True) is False
    assert registry.lists.version(KEY) == before


def _lacking(value: InstanceList) -> None:
    value.stored.popitem()


def _extra(value: InstanceList) -> None:
    one = next(iter(value.stored.values()))
    instance = replace(one.instance, port=99)
    value.stored[instance.key] = StoredInstance(instance, one.version, one.beat_ms)


def _departing(**changes: object) -> Callable[[InstanceList], None]:
    def depart(value: InstanceList) -> None:
        one = next(iter(value.stored.values()))
        one.instance = replace(one.instance, **changes)  # type: ignore[arg-type]

    return depart


def _behind(value: InstanceList) -> None:
    one = next(iter(value.stored.values()))
    one.version = Version(0, 1, OTHER)


@pytest.mark.parametrize(
    "depart",
    [
        _lacking,
        _extra,
        _behind,
        _departing(healthy=False),
        _departing(enabled=False),
        _departing(weight=3.0),
        _departing(metadata={"zone": "b"}),
    ],
)
def test_a_peer_with_another_state_under_the_version_is_answered_with_a_new_version(
    registry: Registry, depart: Callable[[InstanceList], None]
) -> None:
    value = held(registry)
    depart(value)
    before, [mine] = registry.lists.version(KEY), registry.lists.datums([KEY])
    assert before is not None
    assert registry.replication.reissue(told(registry, value), NOW_MS, restoring=False) is True
    [after] = registry.lists.datums([KEY])
    assert after.version == before.next(ME)
    assert after.value == mine.value, "what the owner holds is what all take"
    assert registry.replication.reissue(Datum(KEY, before, value), NOW_MS, restoring=False) is False, "a late answer"
    assert registry.lists.version(KEY) == before.next(ME)


def test_the_owner_gets_back_what_it_had_lost_with_one_fresh_time_out(registry: Registry) -> None:
    value = held(registry)
    registry.writes.remove("public", SERVICE, "10.1.0.1:81:unknown:DEFAULT", 2_000)
    registry.upkeep.prune_tombstones(registry.table.find(KEY), 10_000_000)  # type: ignore[arg-type]
    assert ports(registry) == [80]
    older = Version(1, 0, ME)
    before = registry.lists.version(KEY)
    assert registry.replication.reissue(told(registry, value, older), NOW_MS, restoring=False) is False
    assert registry.replication.reissue(told(registry, value, older), NOW_MS, restoring=True) is True
    assert ports(registry) == [80, 81]
    version = registry.lists.version(KEY)
    assert version is not None
    assert before is not None
    assert version == before.next(ME)
    [datum] = registry.lists.datums([KEY])
    assert datum.value.stored["10.1.0.1:81:unknown:DEFAULT"].beat_ms == NOW_MS


def test_what_was_removed_here_is_not_restored(registry: Registry) -> None:
    value = held(registry)
    registry.writes.remove("public", SERVICE, "10.1.0.1:81:unknown:DEFAULT", 2_000)
    before = registry.lists.version(KEY)
    assert registry.replication.reissue(told(registry, value, Version(1, 0, ME)), NOW_MS, restoring=True) is False
    assert (ports(registry), registry.lists.version(KEY)) == ([80], before)


def test_values_of_the_peer_are_never_restored(registry: Registry) -> None:
    value = held(registry)
    _extra(value)
    _departing(weight=7.0)(value)
    assert registry.replication.reissue(told(registry, value), NOW_MS, restoring=True) is True
    [datum] = registry.lists.datums([KEY])
    assert {
        one.instance.port: one.instance.weight for one in datum.value.stored.values() if one.instance.port < 99
    } == {
        80: 1.0,
        81: 1.0,
    }
    assert ports(registry) == [80, 81, 99]


def test_a_list_that_another_member_wrote_is_claimed_by_it(registry: Registry) -> None:
    other = Registry.of(OTHER)
    [datum] = registry.lists.datums([KEY])
    assert other.replication.apply(Datum(KEY, datum.version, held(registry)), None, 3_000)
    value = held(registry)
    _lacking(value)
    assert other.replication.reissue(told(other, value), NOW_MS, restoring=False) is True
    assert other.lists.version(KEY) == datum.version.next(OTHER)


def test_an_unknown_list_stays_unknown(registry: Registry) -> None:
    empty = Registry.of(OTHER)
    assert empty.replication.reissue(told(registry, held(registry)), NOW_MS, restoring=True) is False
    assert empty.lists.version(KEY) is None


def test_a_version_of_this_run_that_it_did_not_give_is_followed_by_a_new_epoch(registry: Registry) -> None:
    """The list stays as it is, and its time-outs too: whoever sends such versions keeps nobody alive."""
    given = Version(1, 1_000, ME)
    service, [mine] = registry.table.find(KEY), registry.lists.datums([KEY])
    assert service is not None
    claimed_ms = service.claimed_ms
    assert registry.replication.reissue(told(registry, InstanceList({}, {}), given), NOW_MS, restoring=False) is True
    [after] = registry.lists.datums([KEY])
    assert (after.version, after.value, service.claimed_ms) == (given.next_epoch(ME), mine.value, claimed_ms)
    assert registry.lists.highest_own() == after.version
    assert registry.replication.delta(KEY, Version(1, 0, ME)) is None, "peers need the whole"
    empty = Registry.of(ME)
    assert empty.replication.reissue(told(registry, held(registry), given), NOW_MS, restoring=False) is True
    assert (empty.lists.version(KEY), ports(empty)) == (given.next_epoch(ME), [])
