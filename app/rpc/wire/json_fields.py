"""The fields of a JSON body, each checked as it is read. A null counts as absent."""

import base64
import math
import re
from collections.abc import Mapping
from typing import Any

from app.naming.model.nacos_errors import InvalidParam

TEXT_CHARS_MAX = 1_024
METADATA_CHARS_MAX = 64 * 1024
"""Of all keys and values together; the same as over HTTP."""
ITEMS_MAX = 10_000
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


class Fields:
    """Reads one object. Each method raises InvalidParam, naming the field, for a value of another kind."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, name: str, default: str = "", chars_max: int = TEXT_CHARS_MAX) -> str:
        """A text without what would break a log line; the default when absent or empty."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InvalidParam(f"field '{name}' should be a text")
        if len(value) > chars_max:
            raise InvalidParam(f"field '{name}' should not exceed {chars_max} characters")
        if _UNPRINTABLE.search(value):
            raise InvalidParam(f"illegal characters should not appear in field '{name}'")
        return value or default

    def required(self, name: str) -> str:
        if not (value := self.text(name)):
            raise InvalidParam(f"field '{name}' is required")
        return value

    def whole(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number, or the text of one."""
        value = self._values.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            raise InvalidParam(f"field '{name}' should be a whole number from {lowest} to {highest}")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number; SDKs write whole ones without a point."""
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidParam(f"field '{name}' should be a number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InvalidParam(f"field '{name}' should be true or false")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts; numbers and flags become text, nulls are left out."""
        value = self._values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise InvalidParam(f"field '{name}' should be an object")
        read = {key: _text_of(name, one) for key, one in value.items() if one is not None}
        if sum(len(key) + len(one) for key, one in read.items()) > METADATA_CHARS_MAX:
            raise InvalidParam(f"field '{name}' should not exceed {METADATA_CHARS_MAX} characters")
        return read

    def inner(self, name: str) -> "Fields":
        """An object in this one; an absent one is empty."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, dict):
            raise InvalidParam(f"field '{name}' should be an object")
        return Fields(value or {})

    def data(self, name: str) -> bytes:
        """Bytes, which JSON carries as base64; an absent text is empty."""
        value = self._values.get(name)
        if value is None:
            return b""
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError) as error:
            raise InvalidParam(f"field '{name}' should be base64") from error

    def whole_object(self, name: str) -> Mapping[str, Any]:
        """An object as it came, for who reads it by rules of its own; an absent one is empty."""
        return self.inner(name)._values

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def items(self, name: str) -> list["Fields"]:
        """A list of objects; an absent one is empty."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise InvalidParam(f"field '{name}' should be a list of objects")
        if len(value) > ITEMS_MAX:
            raise InvalidParam(f"field '{name}' should not hold more than {ITEMS_MAX} items")
        return [Fields(one) for one in value]


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise InvalidParam(f"the values of field '{name}' should be texts")
