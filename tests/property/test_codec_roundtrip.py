"""The bytes between members: what is written is read again, and bad bytes are nothing but a CodecError."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.contents import list_content
from app.naming.model.keys import datum_key
from app.naming.model.model import NEVER_MS, Instance, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Received, Version
from distro.wire.codec import decode_frame, decode_received, encode_frame, encode_received, gunzip_if_gzip, gzip_body

CODEC = InstanceListCodec(lambda: 1_700_000_000_000)
NOW_MS, ELSEWHERE_MS = 5_000_000, 77_000
"""Two members' monotonic clocks at the same moment."""
BYTES_MAX = 1 << 20
VERSIONS = st.builds(Version, st.integers(1, 50), st.integers(0, 50), st.sampled_from(["a:1~1", "b:1~2"]))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=12)
METADATA = st.one_of(st.none(), st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS), max_size=3))
INSTANCES = st.builds(
    Instance,
    ip=st.from_regex(r"10\.0\.0\.[0-9]{1,2}", fullmatch=True),
    port=st.integers(1, 65_535),
    cluster_name=st.sampled_from(["DEFAULT", "c-1"]),
    weight=st.one_of(st.just(0.0), st.floats(0.01, 10_000.0)),
    healthy=st.booleans(),
    enabled=st.booleans(),
    marked=st.booleans(),
    metadata=METADATA,
    app=st.one_of(st.none(), PRINTABLE),
    instance_id=st.one_of(st.none(), PRINTABLE),
)


@st.composite
def stored_instances(draw: st.DrawFn) -> StoredInstance:
    client_version, changed = sorted(draw(st.tuples(VERSIONS, VERSIONS)))
    beat_ms = NOW_MS - draw(st.integers(0, 100_000))
    return StoredInstance(draw(INSTANCES), changed, beat_ms, client_version, draw(st.sampled_from([beat_ms, NEVER_MS])))


TOMBSTONES = st.builds(
    Tombstone, VERSIONS, st.integers(0, 100_000).map(lambda age: NOW_MS - age), st.integers(0, 10**6)
)


@st.composite
def datums(draw: st.DrawFn) -> Datum:
    stored = {one.instance.key: one for one in draw(st.lists(stored_instances(), max_size=4))}
    tombstones = draw(st.dictionaries(st.from_regex(r"10\.0\.1\.[0-9]:80:unknown:DEFAULT", fullmatch=True), TOMBSTONES))
    full_name = f"DEFAULT_GROUP@@{draw(st.sampled_from(['orders', 'a.b', 'x_y']))}"
    for one in stored.values():
        one.instance = replace(one.instance, service_name=full_name)
    parts = [one.version for one in stored.values()] + [one.version for one in tombstones.values()]
    version = max([draw(VERSIONS), *parts])
    return Datum(datum_key("public", full_name), version, InstanceList(stored, tombstones))


def moved(stored: StoredInstance) -> tuple[object, ...]:
    """What of an instance must arrive: all of it, and its ages."""
    last_confirmed_ms = None if stored.last_confirmed_ms == NEVER_MS else NOW_MS - stored.last_confirmed_ms
    return stored.instance, stored.version, stored.client_version, NOW_MS - stored.beat_ms, last_confirmed_ms


def arrived(stored: StoredInstance) -> tuple[object, ...]:
    last_confirmed_ms = None if stored.last_confirmed_ms == NEVER_MS else ELSEWHERE_MS - stored.last_confirmed_ms
    return stored.instance, stored.version, stored.client_version, ELSEWHERE_MS - stored.beat_ms, last_confirmed_ms


@given(st.lists(datums(), max_size=3, unique_by=lambda datum: datum.key))
def test_a_frame_to_our_own_kind_carries_everything(sent: list[Datum]) -> None:
    body = gzip_body(encode_frame(sent, CODEC, NOW_MS, versioned=True))
    received, failed = decode_frame(gunzip_if_gzip(body, BYTES_MAX), CODEC, ELSEWHERE_MS)
    assert not failed
    assert [(one.key, one.version) for one in received] == [(one.key, one.version) for one in sent]
    for before, after in zip(sent, received, strict=True):
        assert list_content(after.key, after.value.stored) == list_content(before.key, before.value.stored)
        assert {key: arrived(one) for key, one in after.value.stored.items()} == {
            key: moved(one) for key, one in before.value.stored.items()
        }
        assert {
            key: (one.version, ELSEWHERE_MS - one.at_ms, one.keep_ms) for key, one in after.value.tombstones.items()
        } == {key: (one.version, NOW_MS - one.at_ms, one.keep_ms) for key, one in before.value.tombstones.items()}


@given(datums())
def test_a_frame_to_real_nacos_is_plain_and_carries_instances_only(sent: Datum) -> None:
    body = encode_frame([sent], CODEC, NOW_MS, versioned=False)
    assert body.isascii()
    fields = orjson.loads(body)[sent.key]
    assert fields.keys() == {"key", "value", "timestamp"}
    assert not {"version", "said", "beatAge", "heard"} & {
        name for one in fields["value"]["instanceList"] for name in one
    }
    [received], _ = decode_frame(body, CODEC, ELSEWHERE_MS)
    assert received.version == NO_VERSION
    assert {shown(one.instance) for one in received.value.stored.values()} == {
        shown(one.instance) for one in sent.value.stored.values()
    }
    assert all(one.version == NO_VERSION for one in received.value.stored.values())
    assert CODEC.checksum(received) == CODEC.checksum(sent)


def shown(instance: Instance) -> bytes:
    """What real Nacos can tell apart: it leaves null fields out, so no metadata becomes empty metadata."""
    return orjson.dumps(
        [str(instance.key), instance.weight, instance.healthy, instance.enabled, instance.metadata or {}]
    )


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
FIELD = st.sampled_from(
    ["ip", "port", "weight", "healthy", "metadata", "version", "said", "beatAge", "heard", "clusterName", "app"]
)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_frame_or_a_codec_error(body: bytes) -> None:
    for read in (lambda: decode_frame(gunzip_if_gzip(body, BYTES_MAX), CODEC, 0), lambda: decode_received(body)):
        with suppress(CodecError):
            read()


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_damaged_gzip_body_is_a_codec_error_or_the_same_bytes(plain: bytes, data: st.DataObject) -> None:
    body = bytearray(gzip_body(plain))
    body[data.draw(st.integers(2, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(CodecError):
        assert gunzip_if_gzip(bytes(body), BYTES_MAX) == plain


@given(FIELD, JSON)
def test_any_value_in_a_field_fails_its_key_alone(name: str, value: Any) -> None:
    good, odd = (datum_key("public", f"DEFAULT_GROUP@@{one}") for one in ("good", "odd"))
    instance = {"ip": "10.0.0.1", "port": 80}
    frame = {
        odd: {"key": odd, "value": {"instanceList": [{**instance, name: value}]}, "timestamp": 1},
        good: {"key": good, "value": {"instanceList": [instance]}, "timestamp": 1},
    }
    received, failed = decode_frame(orjson.dumps(frame), CODEC, 0)
    assert good in [one.key for one in received]
    assert {one.key for one in received} | failed.keys() == {good, odd}


@given(st.sampled_from(["key", "value", "version", "tombstones"]), JSON)
def test_any_datum_is_read_or_named(name: str, value: Any) -> None:
    key = datum_key("public", "DEFAULT_GROUP@@odd")
    frame = {key: {"key": key, "value": {"instanceList": []}, "timestamp": 1, name: value}}
    received, failed = decode_frame(orjson.dumps(frame), CODEC, 0)
    assert len(received) + len(failed) == 1


@given(st.dictionaries(TEXTS, VERSIONS, max_size=3), st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_the_answer_to_a_send_is_read_again(refused: dict[str, Version], failed: dict[str, str]) -> None:
    received = decode_received(encode_received(Received(refused, failed)))
    assert (received.refused, received.failed) == (refused, failed)


@pytest.mark.parametrize("size_max", [0, 9, 10])
def test_a_body_has_a_greatest_length(size_max: int) -> None:
    for body in (b"x" * 10, gzip_body(b"x" * 10)):
        if size_max < 10:
            with pytest.raises(CodecError):
                gunzip_if_gzip(body, size_max)
        else:
            assert gunzip_if_gzip(body, size_max) == b"x" * 10
