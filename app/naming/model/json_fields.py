"""The fields of a JSON object, each checked as it is read. Errors have the style of the object's sender.

Texts of values are defined here, too: the words of booleans that the parts of Nacos accept (those of settings, and of
calls that Spring reads, are in ``app.config.settings_keys``), and JSON without spare memory.
"""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from app.naming.model.keys import INT_MAX, METADATA_CHARS_MAX, UNPRINTABLE
from app.naming.model.nacos_errors import InvalidParam
from distro.model.errors import CodecError

ITEMS_MAX = 10_000
FLOAT_MAX = 1.7976931348623157e308
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


class FieldKind(NamedTuple):
    """The expected kind of a value, as the error for a client says it and as that for a member does."""

    for_client: str
    for_member: str


TEXT = FieldKind("should be a text", "is not text")
NUMBER = FieldKind("should be a number", "is not a number")
FLAG = FieldKind("should be true or false", "is neither true nor false")
OBJECT = FieldKind("should be an object", "is not an object")
LIST = FieldKind("should be a list", "is not a list")
BASE64 = FieldKind("should be base64", "is not base64")
OBJECTS = FieldKind("should be a list of objects", "is not a list of objects")


class FieldStyle(NamedTuple):
    """How values are read and refused."""

    refuse: Callable[[str, FieldKind], Exception]
    """Makes the error for a field's name."""
    lenient: bool
    """True if null counts as absent, the text of a whole number as that number, and a text must be printable."""
    chars_max: int
    """The longest text, if its reader names no other bound."""


FROM_CLIENT = FieldStyle(lambda field, kind: InvalidParam(f"{field} {kind.for_client}"), True, 1_024)
"""For objects from SDKs of many languages."""
FROM_RECORD = FieldStyle(FROM_CLIENT.refuse, False, INT_MAX)
"""For the values of durable records: strict, and refused like a client's, whose write was checked when it came."""
FROM_MEMBER = FieldStyle(lambda field, kind: CodecError(f"{field} {kind.for_member}"), False, 65_536)
"""For objects that members send each other."""


class Fields:
    """Reads one object. For a value of another kind each method raises the style's error, which names the field."""

    __slots__ = ("_of", "_style", "values")

    def __init__(self, values: Mapping[str, Any], style: FieldStyle = FROM_CLIENT, of: str = "") -> None:
        """``of`` names the object in errors about its fields: ``" of an instance"``."""
        self.values = values
        """The object as it came, for a caller with separate rules."""
        self._style = style
        self._of = of

    def _refusal(self, name: str, kind: FieldKind) -> Exception:
        return self._style.refuse(f"field '{name}'{self._of}", kind)

    # --- one value --------------------------------------------------------------------------------

    def text(self, name: str, default: str = "", chars_max: int = 0) -> str:
        """Return a text; the default if it is absent, null or empty."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._refusal(name, TEXT)
        if len(value) > (chars_max or self._style.chars_max):
            raise self._refusal(name, _too_long(chars_max or self._style.chars_max))
        if self._style.lenient and UNPRINTABLE.search(value):
            raise InvalidParam(f"illegal characters should not appear in field '{name}'")
        return value or default

    def text_or_none(self, name: str, chars_max: int = 0) -> str | None:
        """Return a text, which may be empty; None if it is absent or null."""
        return None if self.values.get(name) is None else self.text(name, "", chars_max)

    def required(self, name: str, chars_max: int = 0) -> str:
        """Return a text that must be there; from a client it must not be empty either."""
        value = self.values.get(name)
        if self._style.lenient and (value is None or value == ""):
            raise InvalidParam(f"field '{name}' is required")
        if value is None:
            raise self._refusal(name, TEXT)
        return self.text(name, "", chars_max)

    def whole(self, name: str, default: int | None, lowest: int, highest: int) -> int:
        """Return a whole number within bounds. Without a default it must be there."""
        value = self.values.get(name, default)
        if self._style.lenient:
            if value is None or value == "":
                value = default
            elif isinstance(value, str) and _WHOLE.fullmatch(value):
                value = int(value)
        if type(value) is not int or not lowest <= value <= highest:
            number = f"whole number from {lowest} to {highest}"
            raise self._refusal(name, FieldKind(f"should be a {number}", f"is not a {number}"))
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a whole number of any size. Without a default it must be there."""
        value = self.values.get(name, default)
        if type(value) is not int:
            raise self._refusal(name, NUMBER)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return a finite number, with a point or without. Without a default it must be there."""
        value = self.values.get(name, default)
        if value is None and self._style.lenient:
            value = default
        if type(value) not in (float, int) or not -FLOAT_MAX <= value <= FLOAT_MAX:
            raise self._refusal(name, NUMBER)
        return float(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return true or false. Without a default it must be there."""
        value = self.values.get(name, default)
        if value is None and self._style.lenient:
            value = default
        if value is not True and value is not False:
            raise self._refusal(name, FLAG)
        return value

    def texts(self, name: str) -> dict[str, str]:
        """Return an object of texts. Numbers and flags become text; nulls are left out."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._refusal(name, OBJECT)
        read = {key: _text_of(name, one) for key, one in value.items() if one is not None}
        if sum(len(key) + len(one) for key, one in read.items()) > METADATA_CHARS_MAX:
            raise self._refusal(name, _too_long(METADATA_CHARS_MAX))
        return read

    def data(self, name: str) -> bytes:
        """Return bytes, which JSON carries as base64. An absent text is empty."""
        value = self.values.get(name)
        if value is None:
            return b""
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError) as error:
            raise self._refusal(name, BASE64) from error

    # --- objects and lists ------------------------------------------------------------------------

    def inner(self, name: str, of: str = "") -> "Fields":
        """Return an object in this one. An absent one of a client is empty."""
        return Fields(self.whole_object(name), self._style, of)

    def whole_object(self, name: str) -> Mapping[str, Any]:
        """Return the same object as it came, for a caller with separate parsing rules."""
        value = self.values.get(name)
        if value is None and self._style.lenient:
            return {}
        if not isinstance(value, dict):
            raise self._refusal(name, OBJECT)
        return value

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def value(self, name: str) -> Any:
        """Return the field's value, unchecked; None if it is absent."""
        return self.values.get(name)

    def items(self, name: str) -> list["Fields"]:
        """Return a list of objects. An absent one is empty."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self._refusal(name, OBJECTS)
        if len(value) > ITEMS_MAX:
            raise self._refusal(
                name, FieldKind(f"should not hold more than {ITEMS_MAX} items", f"holds over {ITEMS_MAX}")
            )
        return [Fields(one, self._style) for one in value]

    def array(self, name: str) -> list[Any]:
        """Return a list as it came, which must be there."""
        value = self.values.get(name)
        if not isinstance(value, list):
            raise self._refusal(name, LIST)
        return value

    def parallel(self, name: str, services: int) -> list[Any]:
        """Return a list with one entry for each service, in their order."""
        found = self.array(name)
        if len(found) != services:
            number = f"{len(found)} entries for {services} services"
            raise self._refusal(name, FieldKind(f"should not have {number}", f"has {number}"))
        return found


def structure_of(text: bytes | str) -> int:
    """Return the number of commas and opening brackets in a JSON text, its strings included: the cost of parsing.

    Counting takes a fraction of that time, so a text with too many need not be parsed at all.
    """
    if isinstance(text, str):
        return text.count(",") + text.count("[") + text.count("{")
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def parse_json(text: bytes, what: str) -> Any:
    """Return the value of a JSON text that a member sent. ``what`` names the text in the error.

    Raises:
        CodecError: it is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CodecError(f"{what} is not JSON: {error}") from error


def member_object(value: object, what: str, of: str = "") -> Fields:
    """Return the fields of ``value``, which a member sent or this one wrote. ``what`` names it in the error.

    Raises:
        CodecError: it is not an object.
    """
    if not isinstance(value, dict):
        raise FROM_MEMBER.refuse(what, OBJECT)
    return Fields(value, FROM_MEMBER, of)


def _too_long(chars_max: int) -> FieldKind:
    return FieldKind(f"should not exceed {chars_max} characters", f"has over {chars_max} characters")


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return flag_text(value)
    if isinstance(value, int | float):
        return str(value)
    raise InvalidParam(f"the values of field '{name}' should be texts")


def exact_json(value: object) -> bytes:
    """Return the JSON of a value, as ``orjson.dumps`` makes it, in an object of its size.

    orjson 3.13 keeps the buffer in which it wrote: 4 KB for 400 bytes, and up to ten times the length of a long text.
    """
    return b"%b" % orjson.dumps(value)


LENIENT_WORDS = frozenset({"true", "yes", "on", "y", "t"})
"""Source: commons-lang BooleanUtils.toBoolean."""


def lenient_bool(text: str) -> bool:
    """Return Nacos's boolean of instance attributes: a few words are true, all other texts false."""
    return text.lower() in LENIENT_WORDS


def strict_bool(text: str) -> bool:
    """Return Java's Boolean.parseBoolean: only the word ``true`` is true."""
    return text.lower() == "true"


def exact_bool(text: str) -> bool:
    """Return the boolean of one of the words ``true`` and ``false``.

    Raises:
        ValueError: it is neither.
    """
    if (word := text.lower()) not in {"true", "false"}:
        raise ValueError("no word of a boolean")
    return word == "true"


def flag_text(value: bool) -> str:
    """Return the word for a boolean."""
    return "true" if value else "false"
