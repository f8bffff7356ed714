"""Deltas and claims as JSON: their exact fields, and the bounds of the versions in them."""

from typing import Any

import orjson
import pytest

from app.naming.model.keys import SIMPLE_ID, datum_key
from app.naming.model.model import Instance, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Version

NAME, WRITER = "DEFAULT_GROUP@@orders", "a:1~1"
KEY = datum_key("public", NAME)
CODEC = InstanceListCodec(lambda: 1_700_000_000_000)
NOW_MS = 5_000_000
BASE, MIDDLE, LAST = Version(2, 0, WRITER), Version(2, 1, WRITER), Version(2, 2, WRITER)
ONE = Instance("10.0.0.1", 80, service_name=NAME, app="DEFAULT", instance_id=SIMPLE_ID)
CHANGED: dict[str, Any] = {"ip": "10.0.0.1", "port": 80, "metadata": {}, "version": 2, "beatAge": 400}
GONE = {"version": MIDDLE.to_text(), "age": 700, "keep": 9_000}
DELTA: dict[str, Any] = {"since": 0, "version": LAST.to_text(), "changed": [CHANGED], "tombstones": {"k": GONE}}


def decode(fields: dict[str, Any]) -> Datum:
    return CODEC.decode(KEY, fields, NOW_MS)


def stored() -> dict[str, StoredInstance]:
    return {ONE.key: StoredInstance(ONE, LAST, NOW_MS - 400, None, 0, NOW_MS - 400)}


def test_a_delta_has_what_changed_since_its_base() -> None:
    tombstones = {"k": Tombstone(MIDDLE, NOW_MS - 700, 9_000)}
    datum = Datum(KEY, LAST, InstanceList(stored(), tombstones), BASE)
    assert orjson.loads(CODEC.encode(datum, NOW_MS, versioned=True)) == DELTA
    bare = Datum(KEY, LAST, InstanceList(stored(), {}), MIDDLE)
    assert orjson.loads(CODEC.encode(bare, NOW_MS, versioned=True)) == {
        "since": 1,
        "version": LAST.to_text(),
        "changed": [CHANGED],
    }


def test_a_delta_is_read_with_its_versions() -> None:
    datum = decode(DELTA)
    assert (datum.key, datum.version, datum.base) == (KEY, LAST, BASE)
    [one] = datum.value.stored.values()
    assert (one.instance, one.version, one.beat_ms) == (ONE, LAST, NOW_MS - 400)
    assert datum.value.tombstones == {"k": Tombstone(MIDDLE, NOW_MS - 700, 9_000)}
    [older] = decode(DELTA | {"changed": [CHANGED | {"version": 1}]}).value.stored.values()
    assert older.version == MIDDLE


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"since": -1}, "field 'since'"),
        ({"since": 2}, "field 'since'"),
        ({"since": True}, "field 'since'"),
        ({"since": "0"}, "field 'since'"),
        ({"changed": None}, "field 'changed'"),
        ({"changed": [CHANGED | {"version": 0}]}, "field 'version' of a part"),
        ({"changed": [CHANGED | {"version": 3}]}, "field 'version' of a part"),
        ({"tombstones": {"k": GONE | {"version": BASE.to_text()}}}, "field 'version' of a part"),
        ({"tombstones": {"k": GONE | {"version": Version(2, 3, WRITER).to_text()}}}, "field 'version' of a part"),
        ({"tombstones": {"k": GONE | {"version": Version(1, 1, WRITER).to_text()}}}, "field 'version' of a part"),
        ({"tombstones": {"k": GONE | {"version": Version(2, 1, "b:1~1").to_text()}}}, "field 'version' of a part"),
        ({"tombstones": {ONE.key: GONE}}, "an instance of .* is both changed and removed"),
    ],
)
def test_a_delta_of_other_versions_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(CodecError, match=f"^{says}"):
        decode(DELTA | fields)


CLAIMED = Version(2, 5, "b:1~1")
CLAIM = {"claimed": CLAIMED.to_text(), "version": CLAIMED.next(WRITER).to_text(), "digest": "00000000000abcde"}


def test_a_claim_has_the_version_and_the_digest_of_the_claimed_state() -> None:
    datum = decode(CLAIM)
    assert (datum.key, datum.version, datum.base, datum.value) == (KEY, CLAIMED.next(WRITER), CLAIMED, 0xABCDE)
    assert orjson.loads(CODEC.encode(datum, NOW_MS, versioned=True)) == CLAIM


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"claimed": NO_VERSION.to_text()}, "not a version"),
        ({"claimed": Version(1, 5, "b:1~1").to_text()}, "field 'claimed'"),
        ({"version": CLAIMED.next("b:1~1").to_text()}, "field 'claimed'"),
        ({"digest": None}, "field 'digest'"),
        ({"digest": 7}, "field 'digest'"),
        ({"digest": "abcde"}, "field 'digest'"),
        ({"digest": "00000000000abcdg"}, "field 'digest'"),
    ],
)
def test_a_claim_of_no_state_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(CodecError, match=f"^{says}"):
        decode(CLAIM | fields)


def test_an_instance_without_a_version_has_none_in_a_list_with_one() -> None:
    body = {"value": {"instanceList": [{"ip": "10.0.0.1", "port": 80}]}}
    datum = CODEC.decode(KEY, body, NOW_MS, LAST)
    assert datum.version == LAST
    assert [one.version for one in datum.value.stored.values()] == [NO_VERSION]


def test_a_removal_without_a_version_is_refused_in_a_list_with_one() -> None:
    body = {"value": {"instanceList": []}, "tombstones": {"k": {"age": 1, "keep": 1}}}
    with pytest.raises(CodecError, match="a version is a text"):
        CODEC.decode(KEY, body, NOW_MS, LAST)
