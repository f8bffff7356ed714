"""The messages of a round that compares digests: their JSON, and what is refused of a peer's."""

import base64
import json
from typing import Any

import pytest

from distro.model.digest import BUCKET_BYTES, BUCKETS, BUCKETS_BYTES, LEAVES
from distro.model.errors import CodecError
from distro.model.types import Received, Version
from distro.wire.digest_wire import (
    NAMES_MAX,
    RELAYED_MAX,
    TYPES_MAX,
    VIEW_CHARS_MAX,
    DigestAnswer,
    DigestRequest,
    ListedKeys,
    Sample,
)

VERSION = Version(3, 7, "10.0.0.1:8848~1f")
HASH = 0x0123456789ABCDEF
BUCKET, OTHER_BUCKET = bytes(range(256)), bytes(range(256))[::-1]


def request_of(**fields: Any) -> DigestRequest:
    """The request in a message with these fields; ``relayed`` stands for the field 'for'."""
    if "relayed" in fields:
        fields["for"] = fields.pop("relayed")
    return DigestRequest.from_bytes(json.dumps({"view": "v", **fields}).encode())


def answer_of(**fields: Any) -> DigestAnswer:
    return DigestAnswer.from_bytes(json.dumps(fields).encode())


# --- requests ------------------------------------------------------------------------------------


def test_a_request_in_json() -> None:
    listed = ListedKeys(
        frozenset({9, 2, 5}), {"k": VERSION}, frozenset({"m", "l", "n"}), is_whole=False, contents={"k": 1}
    )
    request = DigestRequest(
        "ab12",
        ("10.0.0.3:8848",),
        roots={"t": HASH, "u": 0},
        samples={"t": Sample(range(32, 40), 15)},
        buckets={"t": {0: BUCKET, 255: OTHER_BUCKET}},
        keys={"t": listed, 'a"b': ListedKeys(frozenset(), {})},
    )
    text = request.to_bytes()
    assert json.loads(text) == {
        "view": "ab12",
        "for": ["10.0.0.3:8848"],
        "roots": {"t": "0123456789abcdef", "u": "0000000000000000"},
        "samples": {"t": [32, 40, "000000000000000f"]},
        "buckets": {
            "t": {"0": base64.b64encode(BUCKET).decode(), "255": base64.b64encode(OTHER_BUCKET).decode()},
        },
        "keys": {
            "t": {
                "leaves": [2, 5, 9],
                "versions": {"k": "3.7.10.0.0.1:8848~1f"},
                "contents": {"k": "0000000000000001"},
                "pending": ["l", "m", "n"],
                "whole": False,
            },
            'a"b': {"leaves": [], "versions": {}, "contents": {}, "pending": [], "whole": True},
        },
    }
    assert DigestRequest.from_bytes(text) == request


def test_a_request_needs_nothing_but_its_view() -> None:
    assert request_of() == DigestRequest("v")


def test_listed_keys_need_nothing_but_their_leaves() -> None:
    """An earlier release sends no contents. Without a word that it is all, the list is a part."""
    assert request_of(keys={"t": {"leaves": [1]}}).keys == {"t": ListedKeys(frozenset({1}), {}, is_whole=False)}
    assert request_of(keys={"t": {"leaves": [1], "whole": 1}}).keys["t"].is_whole is False


def test_a_request_at_all_its_bounds() -> None:
    members, every = [f"m{number}" for number in range(RELAYED_MAX)], list(range(LEAVES))
    roots = {f"t{number}": "0" * 16 for number in range(TYPES_MAX)}
    buckets = {str(number): base64.b64encode(BUCKET).decode() for number in range(BUCKETS)}
    request = request_of(
        view="v" * VIEW_CHARS_MAX,
        relayed=members,
        roots=roots,
        samples={"t": [0, LEAVES, "f" * 16], "u": [LEAVES - 1, 0, "0" * 16]},
        buckets={"t": buckets},
        keys={"t": {"leaves": every}},
    )
    assert (request.view, request.relayed) == ("v" * VIEW_CHARS_MAX, tuple(members))
    assert request.roots == dict.fromkeys(roots, 0)
    assert request.samples["t"] == Sample(range(LEAVES), 2**64 - 1)
    assert request.samples["u"] == Sample(range(LEAVES - 1, 0), 0)
    assert request.buckets == {"t": dict.fromkeys(range(BUCKETS), BUCKET)}
    assert request.keys["t"].leaves == frozenset(every)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"view": None}, "field 'view'"),
        ({"view": 7}, "field 'view'"),
        ({"view": "v" * (VIEW_CHARS_MAX + 1)}, "field 'view'"),
        ({"relayed": None}, "^field 'for' is not a list of keys"),
        ({"relayed": [1]}, "^field 'for' is not a list of keys"),
        ({"relayed": ["m"] * (RELAYED_MAX + 1)}, "'for'"),
        ({"roots": []}, "an object was expected"),
        ({"roots": None}, "an object was expected"),
        *[({field: dict.fromkeys(map(str, range(TYPES_MAX + 1)))}, f"field '{field}' has more than 16 resource types")
          for field in ("roots", "samples", "buckets", "keys")],
    ],
)  # fmt: skip
def test_a_request_of_another_shape_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(CodecError, match=text):
        request_of(**fields)


@pytest.mark.parametrize("root", ["0" * 15, "0" * 17, "", "g" * 16, "-" + "0" * 15, "00 0000000000000", 0, None])
def test_a_hash_has_sixteen_hexadecimal_digits(root: object) -> None:
    with pytest.raises(CodecError, match="16 hexadecimal digits"):
        request_of(roots={"t": root})


@pytest.mark.parametrize(
    "sample",
    [
        [0, 1],
        [0, 1, "0" * 16, 0],
        {"0": 1},
        None,
        [-1, 1, "0" * 16],
        [LEAVES, LEAVES, "0" * 16],
        [0, LEAVES + 1, "0" * 16],
        [0, -1, "0" * 16],
        [False, 1, "0" * 16],
        [0, 1.0, "0" * 16],
        ["0", 1, "0" * 16],
        [0, 1, "0"],
    ],
)
def test_a_sample_of_another_shape_is_refused(sample: object) -> None:
    with pytest.raises(CodecError):
        request_of(samples={"t": sample})


WHOLE = base64.b64encode(BUCKET).decode()


@pytest.mark.parametrize(
    ("buckets", "text"),
    [
        ([], "an object was expected"),
        ({"256": WHOLE}, "the number of a bucket"),
        ({"-1": WHOLE}, "the number of a bucket"),
        ({"01": WHOLE}, "the number of a bucket"),
        ({"0": WHOLE, "x": WHOLE}, "the number of a bucket"),
        ({"0": base64.b64encode(BUCKET[1:]).decode()}, f"{BUCKET_BYTES} bytes in base64"),
        ({"0": base64.b64encode(BUCKET + b"x").decode()}, f"{BUCKET_BYTES} bytes in base64"),
        ({"0": WHOLE[:-1]}, f"{BUCKET_BYTES} bytes in base64"),
        ({"0": "!" + WHOLE}, f"{BUCKET_BYTES} bytes in base64"),
        ({"0": None}, f"{BUCKET_BYTES} bytes in base64"),
    ],
)
def test_buckets_of_another_shape_are_refused(buckets: object, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        request_of(buckets={"t": buckets})


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ([], "an object was expected"),
        ({}, "a list of leaves"),
        ({"leaves": None}, "a list of leaves"),
        ({"leaves": [0] * (LEAVES + 1)}, "a list of leaves"),
        ({"leaves": [LEAVES]}, f"a number from 0 to {LEAVES - 1} was expected"),
        ({"leaves": [-1]}, f"a number from 0 to {LEAVES - 1} was expected"),
        ({"leaves": [True]}, f"a number from 0 to {LEAVES - 1} was expected"),
        ({"leaves": [], "versions": None}, "an object of texts"),
        ({"leaves": [], "versions": {"k": "x"}}, "x"),
        ({"leaves": [], "pending": None}, "^field 'pending' is not a list of keys"),
        ({"leaves": [], "pending": [1]}, "^field 'pending' is not a list of keys"),
        ({"leaves": [], "contents": None}, "an object was expected"),
        ({"leaves": [], "contents": {"k": "0"}}, "16 hexadecimal digits"),
    ],
)
def test_listed_keys_of_another_shape_are_refused(listed: object, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        request_of(keys={"t": listed})


# --- answers -------------------------------------------------------------------------------------


def test_an_answer_in_json() -> None:
    digests = bytes(range(256)) * (BUCKETS_BYTES // 256)
    answer = DigestAnswer(
        buckets={"t": digests},
        sums={"t": {0: 15, LEAVES - 1: HASH}},
        leaves={"t": [3, 1]},
        received={'a"b': Received({"k": VERSION}, {"l": "why"}, ("m",)), "t": Received(fetching=0)},
    )
    text = answer.to_bytes()
    assert json.loads(text) == {
        "buckets": {"t": base64.b64encode(digests).decode()},
        "sums": {"t": {"0": "000000000000000f", str(LEAVES - 1): "0123456789abcdef"}},
        "leaves": {"t": [3, 1]},
        "received": {
            'a"b': {"refused": {"k": "3.7.10.0.0.1:8848~1f"}, "failed": {"l": "why"}, "wanted": ["m"]},
            "t": {"refused": {}, "failed": {}, "fetching": 0},
        },
    }
    assert DigestAnswer.from_bytes(text) == answer


def test_an_answer_may_be_empty() -> None:
    assert answer_of() == DigestAnswer()


def test_an_answer_at_its_bounds() -> None:
    sums = {str(leaf): "0" * 15 + "1" for leaf in range(LEAVES)}
    answer = answer_of(sums={"t": sums}, leaves={"t": list(range(LEAVES))})
    assert answer.sums == {"t": dict.fromkeys(range(LEAVES), 1)}
    assert answer.leaves == {"t": list(range(LEAVES))}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"buckets": {"t": WHOLE}}, f"{BUCKETS_BYTES} bytes in base64"),
        ({"sums": {"t": []}}, "an object was expected"),
        ({"sums": {"t": {str(LEAVES): "0" * 16}}}, "the number of a leaf"),
        ({"sums": {"t": {"0": "0" * 16, "x": "0" * 16}}}, "the number of a leaf"),
        ({"sums": {"t": {"0": "0"}}}, "16 hexadecimal digits"),
        ({"leaves": {"t": {}}}, "a list of leaves"),
        ({"leaves": {"t": [LEAVES]}}, f"a number from 0 to {LEAVES - 1} was expected"),
        ({"received": {"t": []}}, "an object was expected"),
        ({"received": {"t": {"wanted": 1}}}, "field 'wanted'"),
        *[({field: dict.fromkeys(map(str, range(TYPES_MAX + 1)))}, f"field '{field}' has more than 16 resource types")
          for field in ("buckets", "sums", "leaves", "received")],
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(CodecError, match=text):
        answer_of(**fields)


@pytest.mark.parametrize("decode", [DigestRequest.from_bytes, DigestAnswer.from_bytes])
def test_a_message_has_a_bound_for_its_names(decode: Any) -> None:
    names = dict.fromkeys(map(str, range(NAMES_MAX - 1)), 0)
    decode(json.dumps({"view": "v", **names}).encode())
    with pytest.raises(CodecError, match=f"more than {NAMES_MAX} names"):
        decode(json.dumps({"view": "v", "one more": 0, **names}).encode())
    with pytest.raises(CodecError, match="not a JSON object"):
        decode(b"[]")
