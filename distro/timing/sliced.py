"""Long work next to an event loop, in steps between which the loop's thread gets the interpreter.

``paced`` rests between the entries of any collection, and ``in_order`` sorts. The rest is JSON of many megabytes, read
and written in steps. A decoder in C holds the interpreter until it is done, 0.25 s for 100,000 instances. Here the
objects and arrays near the top are read in Python, and the values in them are decoded one by one, or some
hundred in one window of the text where that can be cut between two of them.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

import orjson

T = TypeVar("T")
STEP_ENTRIES = 500
"""Entries between two pauses: a millisecond of work."""
STEP_STORED = 100
"""Entries between two pauses when each is stored, or a stored one dropped, at some ten microseconds each."""
REST_S = 0.001
"""The length of a pause.

Without pauses the loop's thread has to request the interpreter each time. It then waits for as long as other processes
run in place of the thread that holds it: on few cores one millisecond becomes a hundred.
"""


def rest() -> None:
    """Leave the interpreter and the core to others for a moment."""
    time.sleep(REST_S)


def paced(entries: Iterable[T], step: int = STEP_ENTRIES) -> Iterable[T]:
    """Return the entries one by one, with a pause after each ``step`` of them. A shorter collection stays as it is."""
    return entries if isinstance(entries, Sized) and len(entries) < step else _with_pauses(entries, step)


def _with_pauses(entries: Iterable[T], step: int) -> Iterator[T]:
    for number, entry in enumerate(entries, 1):
        yield entry
        if not number % step:
            rest()


SORTED_MAX = 4_096
"""The values that are sorted in one call of C, during which no other thread runs."""
SAMPLE_VALUES = 256
SAMPLE_MARGIN = 24
"""Three standard deviations of the place of a value in a sample of that size."""


def in_order(
    values: Iterable[T],
    first: int = 0,
    end: int | None = None,
    *,
    key: Callable[[T], Any] | None = None,
    descending: bool = False,
) -> list[T]:
    """Return the values from position ``first`` to before ``end`` in sorted order, equal ones as they came.

    To sort 100,000 values would hold the interpreter for a tenth of a second. So values far from the wanted positions
    are left out first, and the others are sorted in parts. Without ``key`` the values must all be different.
    """
    if key is None and not descending:
        return _smallest(list(values), first, end)
    listed, sign = list(values), -1 if descending else 1
    count = len(listed)
    end = count if end is None else min(end, count)
    keyed = [(one if key is None else key(one), sign * number) for number, one in enumerate(listed)]
    span = (count - end, count - first) if descending else (first, end)
    found = [listed[sign * number] for _, number in _smallest(keyed, *span)] if first < end else []
    return found[::-1] if descending else found


def _smallest(values: list[Any], first: int, end: int | None) -> list[Any]:
    """Return the values from position ``first`` to before ``end`` in ascending order. They are all different."""
    end = len(values) if end is None else min(end, len(values))
    while len(values) > SORTED_MAX and first < end:
        kept, smaller = _nearby(values, first, end)
        if len(kept) > len(values) * 3 // 4 or smaller > first or smaller + len(kept) < end:
            break  # all are wanted, or the sample misled
        values, first, end = kept, first - smaller, end - smaller
        rest()
    parts = [sorted(values[at : at + SORTED_MAX]) for at in range(0, len(values), SORTED_MAX)]
    return list(islice(merge(*parts), first, max(first, end)))


def _nearby(values: list[Any], first: int, end: int) -> tuple[list[Any], int]:
    """Return the values that are likely to be around these positions, and how many of the others are smaller."""
    count = len(values)
    sample = sorted(values[:: max(count // SAMPLE_VALUES, 1)])
    low_at = first * len(sample) // count - SAMPLE_MARGIN
    high_at = end * len(sample) // count + SAMPLE_MARGIN
    kept = values
    if low_at > 0:
        low = sample[low_at]
        kept = [one for one in kept if one >= low]
    smaller = count - len(kept)
    if high_at < len(sample):
        high = sample[high_at]
        kept = [one for one in kept if one <= high]
    return kept, smaller


SLICE_ENTRIES = 2_000
"""Entries of an object that are encoded in one step."""
WALKED_DEPTH = 4
"""The levels read in Python: a frame, its datums, their values, their lists. An instance is decoded in one step."""
WINDOW_CHARS = 32_768
"""The characters of an object or array that are decoded in one step: some 0.1 ms."""
WINDOW_NAMES_MAX = WINDOW_CHARS // 4
"""No object in a window has more names: a name with its value takes at least 4 characters and a comma."""
_BLANKS = re.compile(r"[ \t\n\r]*")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def loads_sliced(body: bytes, names_max: int | None = None) -> Any:
    """Return the value of a JSON text in UTF-8. ``names_max``: the most names of each object near the top.

    Raises:
        ValueError: it is not JSON, is nested too deeply, contains half of a surrogate pair, or has more names.
    """
    text = body.decode()
    try:
        value, end = _value(text, _skip(text, 0), WALKED_DEPTH, checked="\\u" in text, names_max=names_max)
    except IndexError:
        raise ValueError("it ends early") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _skip(text, end) != len(text):
        raise ValueError(f"there is text after its end, at character {end}")
    return value


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


def _value(text: str, at: int, depth: int, *, checked: bool, names_max: int | None) -> tuple[Any, int]:
    """Return the value that begins at ``at``, and its end.

    ``checked``: the text has escapes, so maybe half surrogate pairs.
    """
    char = text[at]
    if depth and char == "{":
        return _object(text, at, depth, checked=checked, names_max=names_max)
    if depth and char == "[":
        return _array(text, at, depth, checked=checked, names_max=names_max)
    value, end = _DECODER.raw_decode(text, at)
    if checked:
        _check_text(value)
    return value, end


def _window(text: str, at: int, opening: str, between: str, closing: str) -> tuple[Any, int]:
    """Return the entries of an object or array from ``at`` on that fit a window, and where the next one begins.

    None if there is none, and where to try again: the text was not cut between two entries, or orjson cannot read one.
    A part is well-formed only if the cut is outside of an entry: that would leave a text or a bracket open.
    """
    end = at + WINDOW_CHARS
    if len(text) <= end or (cut := text.rfind(between, at, end)) < 0:
        return None, end
    cut += len(between) - 2
    try:
        part = orjson.loads(f"{opening}{text[at:cut]}{closing}")
    except orjson.JSONDecodeError:
        return None, end
    rest()
    return part, cut + 1


def _first_window(at: int, names_max: int | None) -> int:
    """Return where the first window is tried: not in a short object or array, of which a frame has thousands."""
    is_bounded = names_max is not None and names_max < WINDOW_NAMES_MAX
    return sys.maxsize if is_bounded else at + WINDOW_CHARS // 8


def _object(text: str, at: int, depth: int, *, checked: bool, names_max: int | None) -> tuple[dict[str, Any], int]:
    fields: dict[str, Any] = {}
    at = _skip(text, at + 1)
    if text[at] == "}":
        return fields, at + 1
    window_at = _first_window(at, names_max)
    while True:
        if at >= window_at:
            part, window_at = _window(text, at, "{", ',"', "}")
            if part is not None:
                fields.update(part)
                at = window_at
        if text[at] != '"':
            raise ValueError(f"a name is missing at character {at}")
        name, at = _DECODER.raw_decode(text, at)
        if checked:
            _check_text(name)
        at = _skip(text, at)
        if text[at] != ":":
            raise ValueError(f"a colon is missing at character {at}")
        fields[name], at = _value(text, _skip(text, at + 1), depth - 1, checked=checked, names_max=names_max)
        if names_max is not None and len(fields) > names_max:
            raise ValueError(f"an object has more than {names_max} names")
        at = _skip(text, at)
        if text[at] == "}":
            return fields, at + 1
        at = _after_comma(text, at)


def _array(text: str, at: int, depth: int, *, checked: bool, names_max: int | None) -> tuple[list[Any], int]:
    values: list[Any] = []
    at = _skip(text, at + 1)
    if text[at] == "]":
        return values, at + 1
    window_at = _first_window(at, names_max)
    while True:
        if at >= window_at:
            part, window_at = _window(text, at, "[", "},{", "]")
            if part is not None:
                values += part
                at = window_at
        value, at = _value(text, at, depth - 1, checked=checked, names_max=names_max)
        values.append(value)
        at = _skip(text, at)
        if text[at] == "]":
            return values, at + 1
        at = _after_comma(text, at)


def _after_comma(text: str, at: int) -> int:
    if text[at] != ",":
        raise ValueError(f"a comma is missing at character {at}")
    return _skip(text, at + 1)


def _check_text(value: Any) -> None:
    """Refuse half of a surrogate pair, anywhere in a value."""
    try:
        _ENCODER.encode(value).encode()  # orjson would stop at a number of more than 64 bits, and see no text behind it
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair") from None


def dumps_sliced(fields: Mapping[str, Any]) -> bytes:
    """Return the JSON of an object with many small values, encoded in steps of ``SLICE_ENTRIES``."""
    entries = iter(fields.items())
    parts = []
    while part := dict(islice(entries, SLICE_ENTRIES)):
        parts.append(orjson.dumps(part)[1:-1])
    return b"{" + b",".join(parts) + b"}"
