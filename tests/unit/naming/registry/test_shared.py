"""Equal parts of instances are one object, and stay what they are."""

import orjson
import pytest

from app.naming.model.model import Instance, StoredInstance
from app.naming.registry import operations
from app.naming.registry.operations import Beat, RegisterInstance, Shared
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.types import Version
from tests.support.registry_parts import naming_of

NAME = "DEFAULT_GROUP@@orders"
LARGE_PORT = 48_080


def texts(number: int) -> dict[str, str]:
    """Parts that are equal for every number, and objects of their own, as they come from requests."""
    return {"cluster": f"c{number}"[:1], "app": f"shop{number}"[:4]}


def command(number: int, **values: object) -> RegisterInstance:
    metadata = orjson.loads('{"zone":"north-east","shelf":"2"}')
    port = int(str(LARGE_PORT))
    return RegisterInstance(
        f"{NAME}{number}"[: len(NAME)],
        f"10.0.0.{number}",
        port,
        metadata=metadata,
        weight=float("2.5"),
        **texts(number),
    )._replace(**values)


def instances(registry: Registry) -> list[Instance]:
    return [stored.instance for service in registry.table.services() for stored in service.stored.values()]


def parts(one: Instance) -> tuple[object, ...]:
    return (one.service_name, one.cluster_name, one.app, one.weight, one.port, one.metadata)


def test_registered_instances_share_what_they_have_in_common() -> None:
    registry = Registry.of("a:1~1")
    naming = naming_of(registry, lambda: 0, lambda _event: None)
    for number in range(3):
        naming.register(command(number))
    naming.beat(Beat(NAME, "10.0.0.3", LARGE_PORT, full=True, weight=2.5, metadata=command(0).metadata, cluster="c"))
    first, *others, from_beat = instances(registry)
    assert parts(first) == parts(Instance("", LARGE_PORT, "c", NAME, 2.5, metadata=command(0).metadata, app="shop"))
    for other in others:
        assert all(mine is his for mine, his in zip(parts(first), parts(other), strict=True))
    assert from_beat.metadata is first.metadata
    assert from_beat.app is None


def test_received_instances_share_too_and_are_those_held_before_where_they_are_equal() -> None:
    codec, owner, copy = InstanceListCodec(lambda: 0), Registry.of("a:1~1"), Registry.of("b:1~1")
    for number in range(3):
        owner.writes.register(command(number), 0)
    key = next(one.key for one in owner.table.services())

    def send() -> None:
        for datum in owner.lists.datums([key]):
            received = codec.decode(key, orjson.loads(codec.encode(datum, 0, versioned=True)), 0)
            assert copy.replication.apply(received, copy.lists.version(key), 0)

    send()
    first, *others = before = instances(copy)
    assert [replace_free(one) for one in before] == [replace_free(one) for one in instances(owner)]
    for other in others:
        assert all(mine is his for mine, his in zip(parts(first), parts(other), strict=True))
    writers = {id(stored.version.writer) for service in copy.table.services() for stored in service.stored.values()}
    assert len(writers) == 1
    owner.writes.register(command(1, app="other"), 0)
    send()
    after = instances(copy)
    assert [mine is his for mine, his in zip(after, before, strict=True)] == [True, False, True]
    assert after[1].app == "other"
    assert after[1].metadata is first.metadata
    assert after[1].port is first.port


def replace_free(one: Instance) -> tuple[object, ...]:
    return (one.ip, one.healthy, one.instance_id, *parts(one))


@pytest.mark.parametrize("bound", ["TRAITS_MAX", "PORTS_MAX", "MAPS_MET_ONCE_MAX", "WRITERS_MAX"])
def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(operations, bound, 10)
    kept = Shared()
    for number in range(100):
        one = Instance("10.0.0.1", number, metadata={"n": str(number)}, app=str(number))
        kept.settle(StoredInstance(one, Version(1, 0, str(number)), 0))
        assert (one.port, one.metadata, one.app) == (number, {"n": str(number)}, str(number))
    counts = {
        "TRAITS_MAX": kept._traits,
        "PORTS_MAX": kept._ports,
        "MAPS_MET_ONCE_MAX": kept._met_once,
        "WRITERS_MAX": kept._writers,
    }
    assert {name: len(found) for name, found in counts.items()} == dict.fromkeys(counts, 100) | {bound: 10}


def test_metadata_that_is_met_again_stays_beside_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAPS_MET_ONCE_MAX", 10)
    monkeypatch.setattr(operations, "MAPS_MAX", 5)
    kept = Shared()
    first = kept.metadata({"zone": "a"})
    assert kept.metadata({"zone": "a"}) is first
    for number in range(100):
        kept.metadata({"gone": str(number)})
        assert kept.metadata({"zone": "a"}) is first
    assert len(kept._met_once) <= 10
    for number in range(100):
        again = kept.metadata({"n": str(number)})
        assert kept.metadata({"n": str(number)}) is again
        assert len(kept._maps) <= 5


def test_long_metadata_is_not_kept() -> None:
    kept = Shared()
    long, many = {"k": "x" * 10_000}, {str(number): "" for number in range(100)}
    assert kept.metadata(long) is long
    assert kept.metadata(many) is many
    assert not kept._met_once


def test_what_is_as_long_as_allowed_is_kept() -> None:
    kept = Shared()
    for fields in (
        {"k" * 12: "x" * (operations.MAP_BYTES_MAX - 12)},
        {str(number): None for number in range(operations.MAP_ENTRIES_MAX)},
    ):
        assert kept.metadata(fields) is fields
        assert kept.metadata(dict(fields)) is fields
    longer = {"k" * 12: "x" * (operations.MAP_BYTES_MAX - 11)}
    kept.metadata(longer)
    assert kept.metadata(dict(longer)) is not longer


@pytest.mark.parametrize("longest", range(3))
def test_names_are_kept_up_to_their_length_together(longest: int) -> None:
    """Whichever of service, cluster and application it is that is long."""
    for more, is_kept in ((0, True), (1, False)):
        kept, names = Shared(), ["s", "c", "a"]
        names[longest] *= operations.TRAITS_CHARS_MAX - 2 + more
        first, second = ((names[0], names[1], names[2], 1.0 * number / number) for number in (2, 3))
        assert kept.traits(first) is first
        assert (kept.traits(second) is first) is is_kept


def test_the_order_of_metadata_and_a_null_in_it_stay() -> None:
    kept = Shared()
    for fields in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": None}, {"a": ""}, {}):
        kept.metadata(dict(fields))
        assert orjson.dumps(kept.metadata(dict(fields))) == orjson.dumps(fields)
