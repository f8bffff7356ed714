"""The JSON of an instance list, between members of our kind."""

from typing import Any

import orjson
import pytest

from app.naming.model.keys import datum_key, simple_instance_id
from app.naming.model.model import Instance, Metadata, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from distro.errors import CodecError
from distro.types import Datum, Version

KEY = datum_key("public", "DEFAULT_GROUP@@orders")
VERSION = Version(1, 2, "127.0.0.1:8848~1")


@pytest.mark.parametrize("metadata", [None, {}, {"a": "1", "b": None}])
def test_metadata_is_the_same_on_every_member(metadata: Metadata | None) -> None:
    instance = Instance("10.0.0.1", 8080, service_name="DEFAULT_GROUP@@orders", metadata=metadata)
    codec = InstanceListCodec(lambda: 1_700_000_000_000)
    datum = Datum(KEY, VERSION, InstanceList({instance.key: StoredInstance(instance, VERSION, 0)}, {}))
    decoded = codec.decode(KEY, orjson.loads(codec.encode(datum, 0, versioned=True)), 0)
    assert [stored.instance for stored in decoded.value.stored.values()] == [instance]


# --- what members say is checked as what clients say is ---------------------------------------------

NOW_MS = 1_000_000
HOST = {"ip": "10.0.0.1", "port": 80, "serviceName": "DEFAULT_GROUP@@orders", "version": VERSION.to_text()}


def decode(host: dict[str, Any], key: str = KEY, **fields: Any) -> Datum:
    body = {"value": {"instanceList": [HOST | host]}, "version": VERSION.to_text()} | fields
    return InstanceListCodec(lambda: 0).decode(key, body, NOW_MS)


def test_an_instance_as_members_send_it() -> None:
    [stored] = decode({}).value.stored.values()
    assert stored.instance == Instance("10.0.0.1", 80, service_name="DEFAULT_GROUP@@orders")


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
        datum_key("public", "DEFAULT_GROUP@@a b"),
        datum_key("public", "g@@" + "a" * 512),
        datum_key("n" * 513, "DEFAULT_GROUP@@orders"),
        "com.alibaba.nacos.naming.iplist.public##orders",
    ],
)
def test_a_key_that_no_client_could_make_is_refused(key: str) -> None:
    with pytest.raises(CodecError, match=r"serviceName|namespaceId|dom name|not an ephemeral"):
        decode({}, key)


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
