"""The JSON of an instance list, between members of our kind."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.naming.model.keys import datum_key, simple_instance_id
from app.naming.model.model import NEVER_MS, Instance, Metadata, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import AGE_MS_MAX, ENTRIES_PER_PART, KEEP_MS_DEFAULT, InstanceListCodec
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Version

KEY = datum_key("public", "DEFAULT_GROUP@@orders")
VERSION = Version(1, 2, "127.0.0.1:8848~1")


@pytest.mark.parametrize("metadata", [None, {}, {"a": "1", "b": None}])
def test_metadata_is_the_same_on_every_member(metadata: Metadata | None) -> None:
    instance = Instance("10.0.0.1", 8080, service_name="DEFAULT_GROUP@@orders", metadata=metadata)
    codec = InstanceListCodec(lambda: 1_700_000_000_000)
    datum = Datum(KEY, VERSION, InstanceList({instance.key: StoredInstance(instance, VERSION, 0)}, {}))
    decoded = codec.decode(KEY, orjson.loads(codec.encode(datum, 0, versioned=True)), 0)
    assert [stored.instance for stored in decoded.value.stored.values()] == [instance]


# --- field by field -----------------------------------------------------------------------------------

WALL_MS = 1_700_000_000_000
FULL = Instance(
    "10.0.0.1", 80, "c1", "G@@s", 2.5, False, False, metadata={"é": "1"}, app="shop", instance_id="7", marked=True
)
FULL_FIELDS = {
    "instanceId": "7",
    "ip": "10.0.0.1",
    "port": 80,
    "weight": 2.5,
    "healthy": False,
    "enabled": False,
    "ephemeral": True,
    "clusterName": "c1",
    "serviceName": "G@@s",
    "metadata": {"é": "1"},
    "marked": True,
    "app": "shop",
}
CLIENT_VERSION = Version(1, 1, "127.0.0.1:8848~1")


def encoded(*ones: StoredInstance, versioned: bool = True, **tombstones: Tombstone) -> bytes:
    datum = Datum(KEY, VERSION, InstanceList({one.instance.key: one for one in ones}, tombstones))
    return InstanceListCodec(lambda: WALL_MS).encode(datum, 10_000, versioned)


def only(body: bytes) -> Any:
    [one] = orjson.loads(body)["value"]["instanceList"]
    return one


def test_an_instance_for_a_member_of_our_kind_has_its_versions_and_ages() -> None:
    stored = StoredInstance(FULL, VERSION, 9_000, CLIENT_VERSION, 9_000, 4_000)
    assert only(encoded(stored)) == FULL_FIELDS | {
        "lastBeat": WALL_MS - 1_000,
        "version": VERSION.to_text(),
        "said": CLIENT_VERSION.to_text(),
        "beatAge": 1_000,
        "saidAge": 6_000,
        "heard": True,
    }


@pytest.mark.parametrize(("beat_ms", "age_ms"), [(10_000, 0), (10_001, 0), (9_999, 1)])
def test_the_last_beat_is_dated_by_the_wall_clock(beat_ms: int, age_ms: int) -> None:
    sent = only(encoded(StoredInstance(FULL, VERSION, beat_ms)))
    assert (sent["lastBeat"], sent["beatAge"]) == (WALL_MS - age_ms, age_ms)


def test_what_goes_without_saying_is_left_out() -> None:
    bare = Instance("10.0.0.1", 80, metadata=None)
    assert only(encoded(StoredInstance(bare, VERSION, 9_000, None, NEVER_MS))) == {
        "ip": "10.0.0.1",
        "port": 80,
        "weight": 1.0,
        "healthy": True,
        "enabled": True,
        "ephemeral": True,
        "clusterName": "DEFAULT",
        "marked": False,
        "lastBeat": WALL_MS - 1_000,
        "metadata": None,
        "version": VERSION.to_text(),
        "beatAge": 1_000,
    }


@pytest.mark.parametrize(
    ("metadata", "derived"),
    [
        ({}, {"instanceIdGenerator": "simple"}),
        ({"a": "b"}, {}),
        ({"preserved.instance.id.generator": "snowflake"}, {"instanceIdGenerator": "snowflake"}),
        ({"preserved.heart.beat.interval": "1", "preserved.ip.delete.timeout": "3"}, {
            "instanceHeartBeatInterval": 1, "ipDeleteTimeout": 3,
        }),
        ({"preserved.heart.beat.timeout": "2"}, {"instanceHeartBeatTimeOut": 2}),
    ],
)  # fmt: skip
def test_an_instance_for_real_nacos_has_what_that_derives_from_its_metadata(
    metadata: Metadata, derived: dict[str, Any]
) -> None:
    one = Instance("10.0.0.1", 80, service_name="G@@s", metadata=metadata)
    assert (
        only(encoded(StoredInstance(one, VERSION, 9_000), versioned=False))
        == {
            "ip": "10.0.0.1",
            "port": 80,
            "weight": 1.0,
            "healthy": True,
            "enabled": True,
            "ephemeral": True,
            "clusterName": "DEFAULT",
            "serviceName": "G@@s",
            "metadata": metadata,
            "marked": False,
            "lastBeat": WALL_MS - 1_000,
            "instanceHeartBeatInterval": 5_000,
            "instanceHeartBeatTimeOut": 15_000,
            "ipDeleteTimeout": 30_000,
        }
        | derived
    )


@pytest.mark.parametrize(
    ("changed_ms", "said_age_ms"), [(10_000, 0), (9_999, 1), (10_001, 0), (9_000, None), (NEVER_MS, AGE_MS_MAX)]
)
def test_the_age_of_the_last_word_where_it_is_not_that_of_the_beat(changed_ms: int, said_age_ms: int | None) -> None:
    stored = StoredInstance(FULL, VERSION, 9_000, None, None, changed_ms)
    assert only(encoded(stored)).get("saidAge") == said_age_ms


def test_only_members_of_our_kind_get_other_characters_than_ascii() -> None:
    stored = StoredInstance(FULL, VERSION, 0)
    assert "é".encode() in encoded(stored)
    plain = encoded(stored, versioned=False)
    assert plain.isascii()
    assert only(plain)["metadata"] == {"é": "1"}


def test_a_long_list_is_whole() -> None:
    count = 2 * ENTRIES_PER_PART + 1
    ones = [StoredInstance(Instance("10.0.0.1", port, service_name="G@@s"), VERSION, 0) for port in range(1, count)]
    gone = {f"10.0.0.2:{port}:unknown:C": Tombstone(VERSION, 9_000, 70_000, port == 1) for port in range(1, count)}
    body = orjson.loads(encoded(*ones, **gone))
    assert [one["port"] for one in body["value"]["instanceList"]] == list(range(1, count))
    assert (body["key"], body["timestamp"], body["version"]) == (KEY, 1, VERSION.to_text())
    fields = {"version": VERSION.to_text(), "age": 1_000, "keep": 70_000}
    first, *others = gone
    assert body["tombstones"] == dict.fromkeys(others, fields) | {first: fields | {"unknown": True}}


# --- what members say is checked as what clients say is ---------------------------------------------

NOW_MS = 1_000_000
HOST = {"ip": "10.0.0.1", "port": 80, "serviceName": "DEFAULT_GROUP@@orders", "version": VERSION.to_text()}


def decode(host: dict[str, Any], key: str = KEY, **fields: Any) -> Datum:
    body = {"value": {"instanceList": [HOST | host]}, "version": VERSION.to_text()} | fields
    return InstanceListCodec(lambda: 0).decode(key, body, NOW_MS)


def test_an_instance_as_members_send_it() -> None:
    [stored] = decode({}).value.stored.values()
    assert stored.instance == Instance("10.0.0.1", 80, service_name="DEFAULT_GROUP@@orders")
    assert (stored.version, stored.client_version) == (VERSION, VERSION)
    assert stored.beat_ms == stored.changed_ms == NOW_MS
    assert stored.last_confirmed_ms == NEVER_MS


def test_the_fields_of_an_instance_and_its_ages() -> None:
    fields = FULL_FIELDS | {"serviceName": "DEFAULT_GROUP@@orders", "said": CLIENT_VERSION.to_text()}
    [stored] = decode(fields | {"beatAge": 400, "saidAge": 700, "heard": True}).value.stored.values()
    assert stored.instance == replace(FULL, service_name="DEFAULT_GROUP@@orders")
    assert (stored.version, stored.client_version) == (VERSION, CLIENT_VERSION)
    assert (stored.beat_ms, stored.last_confirmed_ms) == (NOW_MS - 400, NOW_MS - 400)
    assert stored.changed_ms == NOW_MS - 700


@pytest.mark.parametrize(
    ("weight", "taken"),
    [(0.0, 0.0), (-1.0, 0.0), (0.001, 0.01), (2.0, 2.0), (10_000.0, 10_000.0), (10_001.0, 10_000.0)],
)
@pytest.mark.parametrize("more", [{}, {"marked": True}])
def test_a_weight_may_be_a_whole_number(weight: float, taken: float, more: dict[str, Any]) -> None:
    """As some languages write 2.0: all other fields are read as beside a number with a point."""
    fields = FULL_FIELDS | {"serviceName": "DEFAULT_GROUP@@orders"} | more
    for sent in {weight, int(weight)} if weight.is_integer() else {weight}:
        [stored] = decode(fields | {"weight": sent}).value.stored.values()
        assert stored.instance == replace(FULL, service_name="DEFAULT_GROUP@@orders", weight=taken)


@pytest.mark.parametrize("fields", [{}, {"weight": 1.0}, {"weight": 1}, {"clusterName": ""}])
def test_an_instance_needs_no_field_but_its_address(fields: dict[str, Any]) -> None:
    body = {"value": {"instanceList": [{"ip": "10.0.0.1"} | fields]}}
    [stored] = InstanceListCodec(lambda: 0).decode(KEY, body, NOW_MS).value.stored.values()
    assert stored.instance == Instance("10.0.0.1", 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"ip": 1},
        {"ip": None},
        {"port": None},
        {"port": True},
        {"clusterName": 1},
        {"serviceName": 1},
        {"weight": "1"},
        {"weight": None},
        {"weight": True},
        {"healthy": 1},
        {"healthy": None},
        {"enabled": "true"},
        {"marked": 0},
        {"ephemeral": 1},
        {"app": 1},
        {"instanceId": 1},
        {"metadata": []},
        {"metadata": "k"},
        {"beatAge": "1"},
        {"beatAge": 1.0},
        {"beatAge": None},
        {"saidAge": "1"},
        {"saidAge": None},
        {"heard": 1},
        {"heard": None},
        {"heard": "true", "beatAge": 1},
        {"ip": 1, "clusterName": 1},
        {"ip": 1, "clusterName": 1, "serviceName": 1},
        {"healthy": 1, "enabled": 1},
        {"healthy": 1, "enabled": 1, "marked": 1},
    ],
    ids=repr,
)
@pytest.mark.parametrize("more", [{}, {"weight": 1}])
def test_a_field_of_another_kind_is_refused_by_its_name(fields: dict[str, Any], more: dict[str, Any]) -> None:
    with pytest.raises(CodecError, match=f"^field '{next(iter(fields))}' of an instance "):
        decode(more | fields)


@pytest.mark.parametrize("odd", ["1", 1.0, None, True])
def test_ages_of_another_kind_are_refused_together_too(odd: object) -> None:
    with pytest.raises(CodecError, match=r"^field 'beatAge' of an instance is not a number"):
        decode({"beatAge": odd, "saidAge": odd})


@pytest.mark.parametrize("said", [VERSION.next(VERSION.writer), Version(2**53, 0, "a:1~1")])
def test_a_word_of_a_client_is_no_later_than_its_instance(said: Version) -> None:
    with pytest.raises(CodecError, match="'said'"):
        decode({"said": said.to_text()})


@pytest.mark.parametrize(
    ("fields", "beat_age_ms", "said_age_ms"),
    [
        ({"beatAge": 400}, 400, 400),
        ({"beatAge": 400, "saidAge": 0}, 400, 0),
        ({"beatAge": 400, "saidAge": -1}, 400, 0),
        ({"beatAge": -1}, 0, 0),
        ({"beatAge": AGE_MS_MAX + 1, "saidAge": AGE_MS_MAX + 1}, AGE_MS_MAX, AGE_MS_MAX),
    ],
)
def test_ages_within_their_bounds(fields: dict[str, int], beat_age_ms: int, said_age_ms: int) -> None:
    [stored] = decode(fields).value.stored.values()
    assert (stored.beat_ms, stored.changed_ms) == (NOW_MS - beat_age_ms, NOW_MS - said_age_ms)


def test_real_nacos_tells_no_time_of_a_word_and_no_port_for_none() -> None:
    host = {"ip": "10.0.0.1", "serviceName": "DEFAULT_GROUP@@orders"}
    datum = InstanceListCodec(lambda: 0).decode(KEY, {"value": {"instanceList": [host]}}, NOW_MS)
    [stored] = datum.value.stored.values()
    assert datum.version == stored.version == NO_VERSION
    assert (stored.instance.port, stored.beat_ms, stored.changed_ms) == (0, NOW_MS, NEVER_MS)


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (
            {"n": 1, "b": True, "d": 1.5, "t": "x", "none": None},
            {"n": "1", "b": "true", "d": "1.5", "t": "x", "none": None},
        ),
        (None, None),
    ],
)
def test_metadata_of_other_kinds_becomes_text(sent: Any, taken: Metadata | None) -> None:
    [stored] = decode({"metadata": sent}).value.stored.values()
    assert stored.instance.metadata == taken


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"key": "another"}, "field 'key' differs from the key of the entry"),
        ({"value": {"instanceList": [1]}}, "an element of 'instanceList' is not an object"),
        ({"value": {"instanceList": [HOST | {"port": "80"}]}}, "field 'port' of an instance is not a number"),
        ({"tombstones": {"k": 1}}, "an element of 'tombstones' is not an object"),
        ({"tombstones": []}, "field 'tombstones' is not an object"),
    ],
)
def test_a_wrong_datum_is_refused_by_its_field(fields: dict[str, Any], says: str) -> None:
    body = {"value": {"instanceList": [HOST]}, "version": VERSION.to_text()} | fields
    with pytest.raises(CodecError, match=f"^{says}"):
        InstanceListCodec(lambda: 0).decode(KEY, body, NOW_MS)


def test_the_fields_of_a_tombstone_and_what_they_are_without() -> None:
    longest = "a" * 1_024
    version = VERSION.to_text()
    found = decode(
        {},
        tombstones={
            "k": {"version": version, "age": 400, "keep": 500, "unknown": True},
            longest: {"version": version},
            "old": {"version": version, "age": AGE_MS_MAX + 1, "keep": AGE_MS_MAX + 1},
            "new": {"version": version, "age": -1, "keep": -1},
        },
    ).value.tombstones
    assert found == {
        "k": Tombstone(VERSION, NOW_MS - 400, 500, True),
        longest: Tombstone(VERSION, NOW_MS, KEEP_MS_DEFAULT),
        "old": Tombstone(VERSION, NOW_MS - AGE_MS_MAX, AGE_MS_MAX),
        "new": Tombstone(VERSION, NOW_MS, 0),
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ip", "10.0.0.1\nINFO instance of nobody"),
        ("ip", ""),
        ("ip", "10.0.0.999"),
        ("ip", "1" * 129),
        ("port", 1 << 63),
        ("port", 65_536),
        ("port", -1),
        ("clusterName", "a b"),
        ("serviceName", "DEFAULT_GROUP@@others"),
        ("ephemeral", False),
        ("metadata", {"k": "v" * 65_536}),
        ("metadata", {f"k{number}": "v" for number in range(20_000)}),
        ("app", "a\r"),
        ("app", "a" * 513),
        ("instanceId", "i" * 2_049),
        ("instanceId", "i\u2028"),
        ("version", "1.3.127.0.0.1:8848~1"),
    ],
)
def test_an_instance_that_no_client_could_register_is_refused_by_its_field(field: str, value: object) -> None:
    with pytest.raises(CodecError, match=f"'{field}'|cluster name|IPv4 address"):
        decode({field: value})


@pytest.mark.parametrize(
    "key",
    [
        datum_key("public", "DEFAULT_GROUP@@a\nb"),
        datum_key("public", "g@@" + "a" * 640),
        datum_key("n" * 513, "DEFAULT_GROUP@@orders"),
        "com.alibaba.nacos.naming.iplist.public##orders",
    ],
)
def test_a_key_that_no_client_could_make_is_refused(key: str) -> None:
    for listed in ([HOST], []):
        with pytest.raises(CodecError, match=r"serviceName|namespaceId|not an ephemeral"):
            InstanceListCodec(lambda: 0).decode(key, {"value": {"instanceList": listed}}, NOW_MS)


@pytest.mark.parametrize(
    ("key", "version", "complaint"),
    [
        ("10.0.0.2:80:unknown:DEFAULT", "1.3.127.0.0.1:8848~1", "'version' of a part"),
        ("a\nb", "1.1.127.0.0.1:8848~1", "tombstones"),
        ("a" * 1_025, "1.1.127.0.0.1:8848~1", "tombstones"),
    ],
)
def test_a_tombstone_that_no_member_could_make_is_refused(key: str, version: str, complaint: str) -> None:
    with pytest.raises(CodecError, match=complaint):
        decode({}, tombstones={key: {"version": version}})


def test_an_id_made_of_the_longest_names_is_taken() -> None:
    name = "g@@" + "s" * 509
    one = simple_instance_id("h" * 128, 65_535, "c" * 512, name)
    [stored] = decode({"instanceId": one, "serviceName": name}, datum_key("public", name)).value.stored.values()
    assert stored.instance.instance_id == one
