"""The text of a line in the audit trail: its fields as JSON, what differs between two values, and no secrets."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

import orjson

from app.naming.model.ip_addresses import host_port

VALUE_BYTES_MAX = 16_384
"""The largest value before or after a change. Larger ones are left out."""
FIELDS_MAX = 32
"""The most instances of a list that a line shows with their fields, and not only with their addresses."""
SECRET_WORDS = ("password", "passwd", "pwd", "secret", "token", "hash", "salt", "authorization")
HIDDEN = "***"
DELETE = "\x7f"
PLAIN_CHARS_MAX = 4_096
"""Longer lines are made by the slower way, as are lines that hold secrets."""
_INSTANCE_FIELDS = {
    "ip": "ip",
    "port": "port",
    "cluster": "cluster",
    "cluster_name": "cluster",
    "weight": "weight",
    "healthy": "healthy",
    "enabled": "enabled",
    "ephemeral": "ephemeral",
    "app": "app",
    "metadata": "metadata",
}
_FIELDS = tuple(dict.fromkeys(_INSTANCE_FIELDS.values()))
_SCALARS = frozenset({str, int, float, bool, type(None)})
"""The types of values that hold no names."""


def time_text(wall_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    second, ms = divmod(wall_ms, 1_000)
    return f"{_second_text(second)}.{ms:03}Z"


@lru_cache(64)
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


def plain_line(fields: Mapping[str, Any]) -> str | None:
    """Return the line of nearly all changes, which is short and printable; None for any other line, and for a value
    that is not JSON."""
    try:
        line = orjson.dumps(fields).decode()
    except TypeError:
        return None
    # Of the unprintable ASCII characters orjson escapes all but DEL.
    is_printable = DELETE not in line if line.isascii() else line.isprintable()
    return line if is_printable and len(line) <= PLAIN_CHARS_MAX else None


def json_line(fields: Mapping[str, Any]) -> str:
    """Return one line of JSON for any values of callers.

    Lone surrogates, which have no UTF-8, become question marks.
    """
    try:
        line = orjson.dumps(fields).decode()
    except TypeError:
        line = orjson.dumps(_plain(fields)).decode()
    return line if line.isprintable() else json.dumps(orjson.loads(line))  # this escapes all non-ASCII characters


def _plain(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            return {str(_plain(str(name))): _plain(one) for name, one in value.items()}
        case list() | tuple() | frozenset() | set():
            return [_plain(one) for one in value]
        case int() | float() | None:
            return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)
        case _:
            return str(value)


_READERS_MAX = 256
Read = Callable[[Any], tuple[object, ...]]
"""Returns the values of ``_FIELDS`` in that order, None for those that an object lacks."""


def _fields_of(value: object) -> object:
    """Return an instance, or a command about one, by the fields that the two have in common.

    Any other value unchanged.
    """
    # mypy takes type[object].__hash__ for the unbound method of object, and so finds no Hashable.
    read = _reader_of(type(value))  # type: ignore[arg-type]
    if read is None:
        return value
    return {name: one for name, one in zip(_FIELDS, read(value), strict=True) if one is not None}


@lru_cache(_READERS_MAX)
def _reader_of(kind: type) -> Read | None:
    """Return a reader for the fields of a class; None for a class without fields."""
    if is_dataclass(kind):
        known = [one.name for one in dataclass_fields(kind)]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        known = list(kind._fields)
    else:
        return None
    found = {_INSTANCE_FIELDS[name]: name for name in known if name in _INSTANCE_FIELDS}
    if len(found) == len(_FIELDS):
        return attrgetter(*[found[name] for name in _FIELDS])
    names = [found.get(name) for name in _FIELDS]
    return lambda value: tuple([name and getattr(value, name) for name in names])


def differing(before: object, after: object) -> tuple[object, object]:
    """Return the fields that differ between two objects.

    Lists show their instances by fields, or by addresses if they are long; other values are unchanged.
    """
    # mypy takes type[object].__hash__ for the unbound method of object, and so finds no Hashable.
    read_old, read_new = _reader_of(type(before)), _reader_of(type(after))  # type: ignore[arg-type]
    if read_old is not None and read_new is not None:
        old, new = {}, {}
        for name, was, now in zip(_FIELDS, read_old(before), read_new(after), strict=True):
            if was is now or was == now:  # nearly all are the same objects
                continue
            if was is not None:
                old[name] = was
            if now is not None:
                new[name] = now
        return old, new
    before, after = _fields_of(before), _fields_of(after)
    if before is None or after is None or not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return _with_fields(before), _with_fields(after)
    absent = object()
    names = [name for name in {**before, **after} if before.get(name, absent) != after.get(name, absent)]
    return _only(before, names), _only(after, names)


def _only(fields: Mapping[str, object], names: list[str]) -> dict[str, object]:
    return {name: fields[name] for name in names if name in fields}


def _with_fields(value: object) -> object:
    if type(value) is not list:
        return value
    if len(value) > FIELDS_MAX:
        return [host_port(one.ip, one.port) if hasattr(one, "port") else _fields_of(one) for one in value]
    return [_fields_of(one) for one in value]


def shown(value: object) -> object:
    """Return a value as it may appear in the trail: without secrets, and within the bound."""
    text = json_line({"value": value})
    if len(text) > VALUE_BYTES_MAX:
        return f"{len(text)} bytes, left out"
    lowered = text.lower()
    if "\\u" in text or any(word in lowered for word in SECRET_WORDS):  # perhaps as, or in, the name of a field
        return hide_secrets(value)
    return value


@lru_cache(1_024)
def _has_secret_name(names: tuple[object, ...]) -> bool:
    """Return whether one of these names, from a line of ``plain_line``, is the name of a secret, or no text.

    Results are cached, because the instances of one program have the same names.
    """
    return any(type(name) is not str or word in name.lower() for name in names for word in SECRET_WORDS)


def may_have_secret(value: object) -> bool:
    """Return whether a value has a field with the name of a secret, or is nested too deeply to tell."""
    if type(value) is list:
        return any(map(may_have_secret, value))
    if type(value) is not dict:
        return value is not None and not isinstance(value, str | int | float)
    nested = [one for one in value.values() if type(one) not in _SCALARS]
    return _has_secret_name(tuple(value)) or any(map(may_have_secret, nested))


def hide_secrets(value: object) -> object:
    """Return a copy of a value in which fields with the names of secrets are hidden, at any depth."""
    match value:
        case Mapping():
            return {
                name: HIDDEN if any(word in str(name).lower() for word in SECRET_WORDS) else hide_secrets(one)
                for name, one in value.items()
            }
        case list() | tuple():
            return [hide_secrets(one) for one in value]
        case _:
            return value
