"""JSON read in steps says the same as JSON read at once, and a page in order is a part of all in order."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distro.model.errors import CodecError
from distro.timing import sliced
from distro.timing.sliced import SLICE_ENTRIES, dumps_sliced, in_order, loads_sliced
from distro.wire.codec import SLICED_FROM_BYTES, json_object

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))


@given(values, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_was_written_is_read(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert loads_sliced(text.encode()) == value
    assert loads_sliced(f" \r\n{text}\n ".encode()) == value


@contextmanager
def windows_of(chars: int) -> Iterator[None]:
    before, sliced.WINDOW_CHARS = sliced.WINDOW_CHARS, chars
    try:
        yield
    finally:
        sliced.WINDOW_CHARS = before


many = st.dictionaries(texts, scalars, max_size=30) | st.lists(st.dictionaries(texts, scalars, max_size=3), max_size=20)
windows = st.integers(2, 60)


@given(values | many | st.dictionaries(texts, many, max_size=3), windows, st.booleans())
def test_what_was_written_is_read_in_windows(value: Any, chars: int, ascii_only: bool) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)
    with windows_of(chars):
        assert loads_sliced(text.encode()) == value


@given(values | many, windows, st.data())
def test_windows_let_nothing_damaged_through(value: Any, chars: int, data: st.DataObject) -> None:
    body = bytearray(orjson.dumps(value))
    body[data.draw(st.integers(0, len(body) - 1))] = ord(data.draw(st.sampled_from('",:{}[]\\x')))
    try:
        expected = orjson.loads(bytes(body))
    except orjson.JSONDecodeError:
        with windows_of(chars), pytest.raises(ValueError, match=r"\w"):
            loads_sliced(bytes(body))
    else:
        with windows_of(chars):
            assert loads_sliced(bytes(body)) == expected


@given(values, st.data())
def test_what_is_damaged_is_refused_as_by_the_decoder(value: Any, data: st.DataObject) -> None:
    body = bytearray(orjson.dumps(value))
    at = data.draw(st.integers(0, len(body) - 1))
    if data.draw(st.booleans()):
        body[at] = data.draw(st.integers(0, 255))
    else:
        del body[at:]
    try:
        expected = orjson.loads(bytes(body))
    except orjson.JSONDecodeError:
        with pytest.raises(ValueError, match=r"\w"):
            loads_sliced(bytes(body))
    else:
        assert loads_sliced(bytes(body)) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"[", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b"[1,]", b"[1", b"[,]", b"{,}",
        b'{"a" 1}', b"{1:2}", b"[1 2]", b"{} {}", b"NaN", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":"\xff"}',
        b'{"a":"\\ud800"}', b'{"\\ud800":1}', b'[[[[[{"a":["\\udc00"]}]]]]]', b'{"a":"\n"}',
        b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 50_000, b"[" + b"9" * 5_000 + b"]",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        loads_sliced(body)


def test_the_last_of_two_values_of_a_name_counts() -> None:
    assert loads_sliced(b'{"a":1,"b":{"c":1,"c":2},"a":3}') == {"a": 3, "b": {"c": 2}}


def test_long_bodies_are_read_in_steps_and_refused_in_the_same_words() -> None:
    long = {"k": {"value": {"instanceList": [{"ip": f"10.0.0.{last % 250}"} for last in range(20_000)]}}}
    body = orjson.dumps(long)
    assert len(body) > SLICED_FROM_BYTES
    assert json_object(body) == long
    for broken in (body[:-1], body + b"x", b"[" + body + b"]"):
        with pytest.raises(CodecError, match="the body is not"):
            json_object(broken)


@pytest.mark.parametrize("count", [0, 1, SLICE_ENTRIES, SLICE_ENTRIES + 1, 3 * SLICE_ENTRIES])
def test_long_objects_are_written_whole(count: int) -> None:
    fields = {f"key-{number}": f"value-{number}" for number in range(count)}
    assert orjson.loads(dumps_sliced(fields)) == fields
    assert list(orjson.loads(dumps_sliced(fields))) == list(fields)


@given(
    st.lists(st.integers(0, 9), max_size=60),
    st.integers(0, 70),
    st.integers(0, 70),
    st.booleans(),
    st.integers(1, 60),
)
def test_a_page_is_what_sorting_all_gives(
    numbers: list[int], first: int, size: int, descending: bool, at_once: int
) -> None:
    entries = list(enumerate(numbers))
    before = sliced.SORTED_MAX, sliced.SAMPLE_VALUES, sliced.SAMPLE_MARGIN
    sliced.SORTED_MAX, sliced.SAMPLE_VALUES, sliced.SAMPLE_MARGIN = at_once, 8, 1
    try:
        page = in_order(entries, first, first + size, key=lambda one: one[1], descending=descending)
    finally:
        sliced.SORTED_MAX, sliced.SAMPLE_VALUES, sliced.SAMPLE_MARGIN = before
    assert page == sorted(entries, key=lambda one: one[1], reverse=descending)[first : first + size]
