"""JSON in parameters and bodies, and metadata. Numbers in metadata keep their digits: they are stored as texts."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from app.http.input.values import ECHO_CHARS_MAX, java_double, java_int
from app.naming.model.json_fields import exact_bool, flag_text, structure_of
from app.naming.model.keys import JSON_VALUES_MAX, check_metadata_size
from app.naming.model.model import Metadata
from app.naming.model.nacos_errors import InvalidParam

T = TypeVar("T")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)
_PLAIN_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def check_values(name: str, text: str) -> None:
    """Refuse a parameter whose JSON would take long to parse, before it is parsed.

    Raises:
        InvalidParam: it has more than ``JSON_VALUES_MAX`` commas and brackets.
    """
    if structure_of(text) > JSON_VALUES_MAX:
        raise InvalidParam(f"Param '{name}' is illegal, it should have at most {JSON_VALUES_MAX} values.")


def loads(text: str) -> Any:
    """Return the value of a JSON text, each number as its digits.

    Raises:
        ValueError: no JSON, over ``JSON_VALUES_MAX`` commas and brackets, nested too deeply, or with half of a
            surrogate pair, which no answer could carry.
    """
    if structure_of(text) > JSON_VALUES_MAX:
        raise ValueError(f"more than {JSON_VALUES_MAX} values")
    return _decode(_DECODER, text)


def loads_plain(text: str) -> Any:
    """Return the value of a JSON text, each number as a number.

    Raises:
        ValueError: no JSON, nested too deeply, or with half of a surrogate pair, which no answer could carry.
    """
    return _decode(_PLAIN_DECODER, text)


def _decode(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def loads_body(body: bytes, *, of_member: bool = False) -> Any:
    """Return the JSON value of a call's body; None if it is not valid JSON, or of a client and with too many values."""
    if not of_member and structure_of(body) > JSON_VALUES_MAX:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def scalars(value: Any) -> dict[str, str | None]:
    """Return the fields of a JSON object, each scalar as a text and null as None, as Jackson reads a map of strings.

    Raises:
        ValueError: the value is not an object, or a field is an object or an array.
    """
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return {key: _scalar(inner) for key, inner in value.items()}


def _scalar(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return flag_text(value)
    raise ValueError("not a scalar")


@dataclass(frozen=True, slots=True)
class BeatFields:
    """The fields of a ``beat`` object by type, as Jackson reads them for RsInfo; null counts as absent.

    Raises (each method): InvalidParam, which names the field.
    """

    values: dict[str, Any]

    def text(self, name: str) -> str:
        """The trimmed text of a field, empty when absent."""
        return self._read(name, "a text", str.strip, "")

    def whole(self, name: str, default: int) -> int:
        return self._read(name, "a whole number", lambda text: java_int(text.strip()), default)

    def number(self, name: str, default: float) -> float:
        return self._read(name, "a number", java_double, default)

    def flag(self, name: str, default: bool) -> bool:
        return self._read(name, "true or false", exact_bool, default)

    def metadata(self, name: str) -> Metadata | None:
        value = self.values.get(name)
        try:
            return None if value is None else scalars(value)
        except ValueError:
            raise _refused(name, "an object of texts") from None

    def _read(self, name: str, wanted: str, read: Callable[[str], T], default: T) -> T:
        """The field as ``read`` takes its text; the default when it is absent or empty."""
        try:
            text = _scalar(self.values.get(name))
            return read(text) if text else default
        except (InvalidParam, ValueError):
            raise _refused(name, wanted) from None


def _refused(name: str, wanted: str) -> InvalidParam:
    return InvalidParam(f"Param 'beat' is illegal, its field '{name}' should be {wanted}.")


def beat_fields(text: str) -> BeatFields:
    """Return the fields of a ``beat`` parameter.

    Raises:
        InvalidParam: it is not valid JSON object.
    """
    check_values("beat", text)
    try:
        value = loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidParam("Param 'beat' is illegal, it should be a JSON object.")
    return BeatFields(value)


def parse_metadata(text: str) -> Metadata | None:
    """The metadata in a text: a JSON object of scalars, which become texts, or ``k=v,k=v``; None for the JSON ``null``.

    Raises:
        InvalidParam: neither form, or over ``METADATA_CHARS_MAX``. Source: Nacos 1.4.1 UtilsAndCommons.parseMetadata.
    """
    if not text:
        return {}
    check_values("metadata", text)
    try:
        value = loads(text)
        metadata = None if value is None else scalars(value)
    except ValueError:
        metadata = _parse_pairs(text)
    check_metadata_size(metadata)
    return metadata


def _parse_pairs(text: str) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    for piece in _java_split(text, ","):
        parts = _java_split(piece, "=")
        if len(parts) != 2:
            raise InvalidParam(f"metadata format incorrect:{text[:ECHO_CHARS_MAX]}")
        pairs[parts[0]] = parts[1]
    return pairs


def _java_split(text: str, separator: str) -> list[str]:
    """Java's String.split, which drops empty parts at the end: ``k=`` is one part, ``=v`` two."""
    parts = text.split(separator)
    while text and parts and not parts[-1]:
        parts.pop()
    return parts
