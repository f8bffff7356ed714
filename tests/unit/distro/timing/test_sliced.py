"""JSON in steps: how deep the steps go, what bounds them, and what no step may hide."""

import json
import random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from distro.timing import sliced
from distro.timing.sliced import (
    SLICE_ENTRIES,
    SORTED_MAX,
    WALKED_DEPTH,
    WINDOW_CHARS,
    dumps_sliced,
    in_order,
    loads_sliced,
)

ERRORS = {"JSONDecodeError": orjson.JSONDecodeError}


def under(levels: int, opening: bytes, closing: bytes, inner: bytes) -> bytes:
    return opening * levels + inner + closing * levels


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"k":', b"}")], ids=["arrays", "objects"])
@pytest.mark.parametrize("levels", range(WALKED_DEPTH + 2))
def test_the_objects_near_the_top_have_at_most_so_many_names(opening: bytes, closing: bytes, levels: int) -> None:
    exact = under(levels, opening, closing, b'{"a":1,"b":2}')
    assert loads_sliced(exact, 2) == orjson.loads(exact)
    more = under(levels, opening, closing, b'{"a":1,"b":2,"c":3}')
    if levels < WALKED_DEPTH:
        with pytest.raises(ValueError, match="more than 2 names"):
            loads_sliced(more, 2)
    else:
        assert loads_sliced(more, 2) == orjson.loads(more), "it is decoded in one step"


def test_the_bound_of_names_is_that_of_one_object() -> None:
    body = b'[{"a":1,"b":2},{"a":1,"b":2},[1,2,3,4]]'
    assert loads_sliced(body, 2) == orjson.loads(body)


def test_many_entries_are_read_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a step of its own would take ten times as long."""
    value = {"flat": {f"key-{number}": "x" for number in range(5_000)}, "list": [{"a": [1, {}]}] * 10_000}
    steps: list[str] = []
    decode = orjson.loads
    counting = SimpleNamespace(loads=lambda part: steps.append(part) or decode(part), **ERRORS)
    monkeypatch.setattr(sliced, "orjson", counting)
    assert loads_sliced(json.dumps(value, separators=(",", ":")).encode()) == value
    assert 3 < len(steps) < 20
    assert all(len(part) <= WINDOW_CHARS + 2 for part in steps)


def test_no_window_is_tried_in_each_of_many_short_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try would read as much as a window, and fail."""
    datum = {"key": "k", "value": {"instanceList": [{"ip": "10.0.0.1", "metadata": {"a": "b"}}] * 3}, "timestamp": 1}
    value = {f"key-{number}": datum for number in range(2_000)}
    body = json.dumps(value, separators=(",", ":")).encode()
    tries: list[int] = []

    def counted(text: str, at: int, opening: str, between: str, closing: str) -> tuple[Any, int]:
        tries.append(at)
        return window(text, at, opening, between, closing)

    window = sliced._window
    monkeypatch.setattr(sliced, "_window", counted)
    assert loads_sliced(body) == value
    assert len(tries) <= 2 * len(body) / WINDOW_CHARS + 8


def test_the_bound_of_names_holds_across_windows() -> None:
    body = json.dumps({f"key-{number}": 1 for number in range(20_000)}, separators=(",", ":")).encode()
    assert len(loads_sliced(body, 20_000)) == 20_000
    with pytest.raises(ValueError, match="more than 19999 names"):
        loads_sliced(body, 19_999)


def test_too_many_names_end_the_reading() -> None:
    with pytest.raises(ValueError, match="more than 2 names"):
        loads_sliced(b'{"a":1,"b":2,"c":3,"d":no JSON', 2)


@pytest.mark.parametrize(
    "hidden",
    [
        '"\\ud800"',
        '{"\\udc00":1}',
        '[12345678901234567890123,"\\ud800"]',
        "[" * 300 + '"\\ud800"' + "]" * 300,
    ],
    ids=["text", "name", "behind a long number", "deep"],
)
@pytest.mark.parametrize("levels", [0, WALKED_DEPTH])
def test_half_of_a_surrogate_pair_is_found_anywhere(hidden: str, levels: int) -> None:
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        loads_sliced(under(levels, b"[", b"]", hidden.encode()))


@pytest.mark.parametrize("number", ["12345678901234567890123", "-1e400", "0.1"])
def test_numbers_are_read_beside_escapes_as_without_them(number: str) -> None:
    body = f'["\\u00e9\\ud83d\\ude00",{number}]'
    assert loads_sliced(body.encode()) == json.loads(body)


def test_no_step_encodes_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def dumps(fields: dict[str, Any]) -> bytes:
        steps.append(len(fields))
        return orjson.dumps(fields)

    monkeypatch.setattr(sliced, "orjson", SimpleNamespace(dumps=dumps))
    fields = {str(number): number for number in range(2 * SLICE_ENTRIES + 1)}
    assert orjson.loads(dumps_sliced(fields)) == fields
    assert steps == [SLICE_ENTRIES, SLICE_ENTRIES, 1]


def test_values_come_sorted_from_any_place_on() -> None:
    ids = {f"10.{number >> 8}.{number & 255}.1:80#true" for number in range(2 * SORTED_MAX + 5)}
    ordered = sorted(ids)
    assert in_order(ids) == ordered
    for first in (0, SORTED_MAX - 3, len(ids) - 4, *random.Random(5).sample(range(len(ids)), 5)):
        assert in_order(ids, first, first + 7) == ordered[first : first + 7]
    assert in_order(ids, len(ids), len(ids) + 7) == []
    assert in_order(set(), 0, 7) == []


def test_a_page_of_many_values_is_sorted_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    many = random.Random(6).sample(range(1_000_000), 100_000)
    sorted_counts: list[int] = []
    monkeypatch.setattr(sliced, "merge", lambda *parts: sorted_counts.append(sum(map(len, parts))) or iter(parts[0]))
    for first in (0, 50_000, 99_980):
        assert in_order(many, first, first + 20) == sorted(many)[first : first + 20]
    assert max(sorted_counts) <= SORTED_MAX
