"""The short form of an instance, which deltas and changes have, and its reader for the usual fields alone."""

from dataclasses import replace
from typing import Any

import pytest

from app.naming.model.keys import APP_CHARS_MAX, INSTANCE_KEY_CHARS_MAX, METADATA_CHARS_MAX, PORT_MAX, SIMPLE_ID
from app.naming.model.model import NEVER_MS, WEIGHT_MAX, WEIGHT_POSITIVE_MIN, Instance, StoredInstance, Tombstone
from app.naming.wire.datum_codec import (
    AGE_MS_MAX,
    KEEP_MS_DEFAULT,
    InstanceListCodec,
    decode_short,
    encode_short,
    usual_short,
    usual_tombstone,
)
from distro.model.errors import CodecError
from distro.model.types import Version

NAME = "DEFAULT_GROUP@@orders"
KEY = f"com.alibaba.nacos.naming.iplist.ephemeral.public##{NAME}"
OF = Version(3, 9, "10.1.1.1:8848~1")
NOW_MS = 5_000_000
USUAL = Instance("10.0.0.1", 80, service_name=NAME, metadata={"zone": "a"}, app="DEFAULT", instance_id=SIMPLE_ID)
FIELDS: dict[str, Any] = {"ip": "10.0.0.1", "port": 80, "metadata": {"zone": "a"}, "version": 9, "beatAge": 400}

# --- writing ------------------------------------------------------------------------------------------


def stored(one: Instance, **times: int) -> StoredInstance:
    return StoredInstance(one, OF, NOW_MS - 400, None, NEVER_MS, **times)


@pytest.mark.parametrize(
    ("attributes", "more"),
    [
        ({}, {}),
        ({"weight": 2.5}, {"weight": 2.5}),
        ({"healthy": False}, {"healthy": False}),
        ({"enabled": False}, {"enabled": False}),
        ({"marked": True}, {"marked": True}),
        ({"metadata": None}, {"metadata": None}),
        ({"metadata": {}}, {"metadata": {}}),
        ({"app": "shop"}, {"app": "shop"}),
        ({"app": None}, {"app": None}),
        ({"cluster_name": "east"}, {"clusterName": "east"}),
        ({"instance_id": None}, {"instanceId": None}),
        ({"instance_id": "7"}, {"instanceId": "7"}),
        ({"ephemeral": False}, {"ephemeral": False}),
        ({"service_name": ""}, {"instanceId": "10.0.0.1#80#DEFAULT#"}),
        (
            {"service_name": "G@@other"},
            {"serviceName": "G@@other", "instanceId": "10.0.0.1#80#DEFAULT#G@@other"},
        ),
        ({"service_name": "G@@other", "instance_id": f"10.0.0.1#80#DEFAULT#{NAME}"}, {"serviceName": "G@@other"}),
    ],
)
def test_the_short_form_has_what_is_not_usual(attributes: dict[str, Any], more: dict[str, Any]) -> None:
    one = replace(USUAL, **{"instance_id": SIMPLE_ID} | attributes)
    assert encode_short(stored(one), NAME, NOW_MS) == FIELDS | more


def test_the_short_form_has_the_times_that_differ_from_the_beat() -> None:
    said = Version(3, 8, OF.writer)
    one = StoredInstance(USUAL, OF, NOW_MS - 400, said, NOW_MS - 400, NOW_MS - 700)
    assert encode_short(one, NAME, NOW_MS) == FIELDS | {"said": said.to_text(), "saidAge": 700, "heard": True}


# --- reading ------------------------------------------------------------------------------------------


def content(one: StoredInstance) -> tuple[object, ...]:
    times = one.beat_ms, one.last_confirmed_ms, one.changed_ms
    return one.instance, one.version, one.client_version, times, one.counted_bytes


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"weight": 2.5, "healthy": False},
        {"enabled": False, "marked": True},
        {"metadata": None, "app": None},
        {"metadata": {"a": None}, "app": "shop"},
        {"cluster_name": "east"},
        {"cluster_name": "east", "port": 0},
        {"instance_id": None},
        {"instance_id": "7"},
        {"ip": "host.example"},
    ],
)
def test_what_was_written_short_is_read_again(attributes: dict[str, Any]) -> None:
    before = stored(replace(USUAL, **{"instance_id": SIMPLE_ID} | attributes))
    assert content(decode_short(encode_short(before, NAME, NOW_MS), "public", NAME, OF, NOW_MS)) == content(before)


@pytest.mark.parametrize(
    ("more", "attributes"),
    [
        ({}, {}),
        ({"port": 0}, {"port": 0}),
        ({"port": PORT_MAX}, {"port": PORT_MAX}),
        ({"weight": 0.0}, {"weight": 0.0}),
        ({"weight": 2.5}, {"weight": 2.5}),
        ({"weight": WEIGHT_POSITIVE_MIN / 2}, {"weight": WEIGHT_POSITIVE_MIN}),
        ({"weight": WEIGHT_MAX}, {"weight": WEIGHT_MAX}),
        ({"healthy": False}, {"healthy": False}),
        ({"enabled": False}, {"enabled": False}),
        ({"app": ""}, {"app": ""}),
        ({"app": "a" * APP_CHARS_MAX}, {"app": "a" * APP_CHARS_MAX}),
        ({"metadata": {}}, {"metadata": {}}),
        ({"metadata": {"straße": "é" * 99}}, {"metadata": {"straße": "é" * 99}}),
        ({"metadata": {"k": "v" * (METADATA_CHARS_MAX - 1)}}, {"metadata": {"k": "v" * (METADATA_CHARS_MAX - 1)}}),
        ({"metadata": {f"{n}": "" for n in range(500)}}, {"metadata": {f"{n}": "" for n in range(500)}}),
    ],
)
def test_an_instance_with_usual_fields_is_read_at_once(more: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Field by field, as ``marked`` demands, it is the same instance, and counts as many bytes."""
    read = usual_short(FIELDS | more, NAME, OF, NOW_MS)
    assert read is not None
    assert read.instance == replace(USUAL, instance_id=SIMPLE_ID, **attributes)
    assert content(read) == content(decode_short(FIELDS | more | {"marked": False}, "public", NAME, OF, NOW_MS))


@pytest.mark.parametrize(
    ("more", "beat_age_ms", "said_age_ms", "heard"),
    [
        ({}, 400, 400, False),
        ({"heard": True}, 400, 400, True),
        ({"heard": False}, 400, 400, False),
        ({"saidAge": 0}, 400, 0, False),
        ({"saidAge": 700}, 400, 700, False),
        ({"beatAge": 0}, 0, 0, False),
        ({"beatAge": AGE_MS_MAX, "saidAge": AGE_MS_MAX}, AGE_MS_MAX, AGE_MS_MAX, False),
    ],
)
def test_the_usual_times_are_read_at_once(
    more: dict[str, Any], beat_age_ms: int, said_age_ms: int, heard: bool
) -> None:
    read = usual_short(FIELDS | more, NAME, OF, NOW_MS)
    assert read is not None
    assert (read.beat_ms, read.changed_ms) == (NOW_MS - beat_age_ms, NOW_MS - said_age_ms)
    assert read.last_confirmed_ms == (read.beat_ms if heard else NEVER_MS)


def test_all_usual_fields_together_are_read_at_once() -> None:
    flags = {"healthy": False, "enabled": False, "heard": True}
    read = usual_short(FIELDS | flags | {"app": "shop", "weight": 2.0, "saidAge": 700}, NAME, OF, NOW_MS)
    assert read is not None
    changed = {"healthy": False, "enabled": False, "app": "shop", "weight": 2.0}
    assert read.instance == replace(USUAL, instance_id=SIMPLE_ID, **changed)


def test_an_instance_without_a_port_has_0() -> None:
    read = decode_short({"ip": "10.0.0.1", "metadata": {}, "version": 9}, "public", NAME, OF, NOW_MS)
    assert (read.instance.port, read.instance.instance_id) == (0, f"10.0.0.1#0#DEFAULT#{NAME}")


@pytest.mark.parametrize("counter", [9, 8])
def test_the_counter_counts_in_the_epoch_of_the_whole(counter: int) -> None:
    read = usual_short(FIELDS | {"version": counter}, NAME, OF, NOW_MS)
    assert read is not None
    assert read.version == read.client_version == Version(3, counter, OF.writer)


OTHERS: list[Any] = [
    None,
    [],
    *({name: value for name, value in FIELDS.items() if name != left_out} for left_out in FIELDS),
    *(
        FIELDS | more
        for more in (
            {"marked": False},
            {"clusterName": "east"},
            {"ip": 1},
            {"ip": "host"},
            {"ip": "10.0.0.256"},
            {"port": "80"},
            {"port": True},
            {"port": -1},
            {"port": PORT_MAX + 1},
            {"version": "9"},
            {"version": True},
            {"version": 9.0},
            {"beatAge": "1"},
            {"beatAge": True},
            {"beatAge": -1},
            {"beatAge": AGE_MS_MAX + 1},
            {"saidAge": "1"},
            {"saidAge": True},
            {"saidAge": -1},
            {"saidAge": AGE_MS_MAX + 1},
            {"weight": 1},
            {"weight": "1"},
            {"weight": -0.5},
            {"weight": WEIGHT_MAX + 1},
            {"healthy": 1},
            {"enabled": 1},
            {"heard": 1},
            {"healthy": None, "enabled": None, "heard": None},
            {"app": None},
            {"app": 1},
            {"app": "a" * (APP_CHARS_MAX + 1)},
            {"app": "a\n"},
            {"metadata": None},
            {"metadata": "k"},
            {"metadata": {"k": None}},
            {"metadata": {"k": 1}},
            {"metadata": {"k": "v" * METADATA_CHARS_MAX}},
        )
    ),
]


@pytest.mark.parametrize("fields", OTHERS, ids=lambda fields: repr(fields)[:60])
def test_any_other_instance_is_left_to_be_read_field_by_field(fields: Any) -> None:
    assert usual_short(fields, NAME, OF, NOW_MS) is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (None, "an element of 'changed' must be an instance"),
        ([FIELDS], "an element of 'changed' must be an instance"),
        (FIELDS | {"version": "9"}, "an element of 'changed' must be an instance with the counter of a version"),
        (FIELDS | {"version": True}, "an element of 'changed' must be an instance with the counter of a version"),
        ({"port": 80, "version": 9}, "field 'ip'"),
        (FIELDS | {"ip": 1}, "field 'ip'"),
        (FIELDS | {"port": "80"}, "field 'port'"),
        (FIELDS | {"port": None}, "field 'port'"),
        (FIELDS | {"clusterName": 1}, "field 'clusterName'"),
        (FIELDS | {"weight": "1"}, "field 'weight'"),
        (FIELDS | {"healthy": 1}, "field 'healthy'"),
        (FIELDS | {"enabled": 1}, "field 'enabled'"),
        (FIELDS | {"heard": 1}, "field 'heard'"),
        (FIELDS | {"beatAge": "1"}, "field 'beatAge'"),
        (FIELDS | {"saidAge": "1"}, "field 'saidAge'"),
        (FIELDS | {"ephemeral": False}, "field 'ephemeral'"),
        (FIELDS | {"serviceName": "G@@other"}, "Param 'serviceName'"),
        (FIELDS | {"app": "a" * (APP_CHARS_MAX + 1)}, "Param 'app'"),
        (FIELDS | {"metadata": {"k": "v" * METADATA_CHARS_MAX}}, "Param 'metadata'"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_wrong_short_form_is_refused_by_its_field(fields: Any, says: str) -> None:
    with pytest.raises(CodecError, match=f"^{says}"):
        decode_short(fields, "public", NAME, OF, NOW_MS)


# --- removals -----------------------------------------------------------------------------------------

LONGEST_KEY = "k" * INSTANCE_KEY_CHARS_MAX


@pytest.mark.parametrize("age_ms", [0, 400, AGE_MS_MAX])
@pytest.mark.parametrize("keep_ms", [0, 70_000, AGE_MS_MAX])
@pytest.mark.parametrize("key", ["10.0.0.1:80:unknown:DEFAULT", LONGEST_KEY])
def test_a_usual_removal_is_read_at_once(key: str, age_ms: int, keep_ms: int) -> None:
    assert usual_tombstone(key, age_ms, keep_ms, OF, NOW_MS) == Tombstone(OF, NOW_MS - age_ms, keep_ms)


@pytest.mark.parametrize(
    ("key", "age_ms", "keep_ms"),
    [
        ("k", -1, 0),
        ("k", AGE_MS_MAX + 1, 0),
        ("k", 0, -1),
        ("k", 0, AGE_MS_MAX + 1),
        ("k", None, 0),
        ("k", 0, None),
        ("k", None, None),
        ("k", True, True),
        ("k", 1.0, 1.0),
        ("k\n", 0, 0),
        (LONGEST_KEY + "k", 0, 0),
    ],
)
def test_any_other_removal_is_left_to_be_read_field_by_field(key: str, age_ms: Any, keep_ms: Any) -> None:
    assert usual_tombstone(key, age_ms, keep_ms, OF, NOW_MS) is None


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"age": 400, "keep": 500}, Tombstone(OF, NOW_MS - 400, 500)),
        ({"age": 400}, Tombstone(OF, NOW_MS - 400, KEEP_MS_DEFAULT)),
        ({"keep": 500}, Tombstone(OF, NOW_MS, 500)),
        ({"age": 400, "keep": 500, "unknown": True}, Tombstone(OF, NOW_MS - 400, 500, True)),
    ],
)
def test_the_removals_of_a_delta(fields: dict[str, Any], read: Tombstone) -> None:
    removal = fields | {"version": OF.to_text()}
    body = {"since": 8, "version": OF.to_text(), "changed": [], "tombstones": {"k": removal}}
    datum = InstanceListCodec(lambda: 0).decode(KEY, body, NOW_MS)
    assert (datum.version, datum.base) == (OF, Version(3, 8, OF.writer))
    assert datum.value.tombstones == {"k": read}
