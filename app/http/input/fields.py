"""Kinds of parameters of the cold endpoints. Nacos reads them in several ways; each class is one of those ways."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from marshmallow import ValidationError, fields

from app.http.input import json_text
from app.http.input.metadata import parse_metadata
from app.http.input.name_pattern import NamePattern, parse_pattern
from app.http.input.values import TRIMMED, int_or_zero, java_double, java_int, lenient_bool, strict_bool
from app.naming.model.meta import NO_SELECTOR, Metadata, Selector, label_selector
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.switches import single_precision


class Whole(str):
    """A complaint that is the whole answer, in Nacos's words."""

    __slots__ = ()


def refused(text: str) -> ValidationError:
    """The error whose answer is this text and nothing more."""
    return ValidationError(Whole(text))


def missing(name: str) -> dict[str, Any]:
    """Messages of a parameter that only has to be there; empty will do."""
    return {"required": Whole(f"Parameter '{name}' is missing")}


def required(name: str) -> dict[str, Any]:
    """Messages of a parameter that must not be empty either."""
    return {"required": Whole(f"Param '{name}' is required.")}


class Trimmed(fields.String):
    """A text without blanks around it; nothing but blanks is the default."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._deserialize(value, *args, **kwargs).strip(TRIMMED) or self.load_default


class Needed(fields.String):
    """A text without blanks around it. Empty counts as missing, blanks do not."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not value:
            raise self.make_error("required")
        return super()._deserialize(value, *args, **kwargs).strip(TRIMMED)


class IntOrZero(fields.Field[int]):
    """Nacos's number of a page: what is none is 0. Empty counts as missing."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if not value and self.required:
            raise self.make_error("required")
        return int_or_zero(value.strip(TRIMMED)) if value else self.load_default


class Number(fields.Field[int]):
    """A whole number. Empty counts as missing."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if not value and self.required:
            raise self.make_error("required")
        try:
            return java_int(value.strip(TRIMMED))
        except InvalidParam as error:
            raise refused(error.text) from None


class PageNumber(fields.Field[int]):
    """The number of a page where Nacos fails on what is none."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        try:
            return java_int(value.strip(TRIMMED))
        except InvalidParam:
            raise ValidationError("it should be a whole number") from None


class Port(Number):
    """A port to check: 0 to 65535."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> int:
        port = super()._deserialize(value, *args, **kwargs)
        if not 0 <= port <= 65_535:
            raise ValidationError("it should be a number from 0 to 65535")
        return port


class Flag(fields.Field[bool]):
    """Spring's boolean; empty is the default."""

    TRUE = frozenset({"true", "on", "yes", "1"})
    FALSE = frozenset({"false", "off", "no", "0"})

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> bool:
        word = value.strip().lower()
        if word in self.TRUE:
            return True
        if word in self.FALSE:
            return False
        if not word:
            return bool(self.load_default)
        raise ValidationError("it should be true or false")


class StrictFlag(fields.Field[bool]):
    """Only the word ``true`` is true; blank is the default."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> bool:
        word = value.strip(TRIMMED)
        return strict_bool(word) if word else bool(self.load_default)


class NeededLenientFlag(Needed):
    """A few words are true, all else is false. Empty counts as missing."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        return lenient_bool(super()._deserialize(value, *args, **kwargs))


class Threshold(fields.Field[float]):
    """A finite number of single precision, as Nacos keeps it. Blank is 0, or missing where it is required."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> float:
        text = value.strip(TRIMMED)
        if not text and self.required:
            raise self.make_error("required")
        try:
            return single_precision(java_double(text or "0"))
        except InvalidParam as error:
            raise ValidationError(error.text) from None
        except OverflowError:
            raise ValidationError("it should be a finite number") from None


class MetadataText(fields.Field[Metadata]):
    """An object of texts, or ``k=v,k=v``; the JSON text null is an empty one."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Metadata:
        try:
            return parse_metadata(value.strip(TRIMMED)) or {}
        except InvalidParam as error:
            raise refused(error.text) from None


class NeededMetadataText(fields.Field["Metadata | None"]):
    """As ``MetadataText``, but empty counts as missing, and the JSON text null is None."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Metadata | None:
        if not value:
            raise self.make_error("required")
        try:
            return parse_metadata(value.strip(TRIMMED))
        except InvalidParam as error:
            raise refused(error.text) from None


class SelectorText(fields.Field[Selector]):
    """The selector of a service, URL-encoded once more than other parameters. Absent: none."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Selector:
        if not value.strip():
            return NO_SELECTOR
        text = unquote_plus(value, errors="replace")
        match _selector_type(text):
            case "none":
                return NO_SELECTOR
            case "unknown":
                raise refused("not match any type of selector!")
            case "label":
                expression = json_text.loads(text).get("expression", "")
                if not isinstance(expression, str):
                    raise ValidationError("its 'expression' should be a text")
                try:
                    return label_selector(expression)
                except InvalidParam as error:
                    raise refused(error.text) from None
            case _:
                raise ValidationError("it should be a JSON object with a known 'type'")


@dataclass(frozen=True, slots=True)
class MetadataFilter:
    """Keeps services by a metadata value of theirs, or of one of their instances."""

    of_instances: bool
    key: str
    value: str


_EXPRESSION = re.compile(r"(INSTANCE|SERVICE)\.metadata\.([^=]+)=(.*)")


class ListFilter(fields.Field[MetadataFilter]):
    """The selector of a list of services; an expression that is not known filters nothing, as in Nacos 1.4."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        if not value.strip():
            return None
        if _selector_type(value) is None:
            raise ValidationError("it should be a JSON object with a 'type'")
        expression = json_text.loads(value).get("expression")
        found = _EXPRESSION.fullmatch("".join(expression.split())) if isinstance(expression, str) else None
        return MetadataFilter(found[1] == "INSTANCE", found[2], found[3].replace("'", "")) if found else None


class JsonObject(fields.Field["Mapping[str, Any]"]):
    """A JSON object in a text. Empty counts as missing."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Mapping[str, Any]:
        if not value:
            raise self.make_error("required")
        try:
            found = json_text.loads_plain(value)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValidationError("it should be a JSON object")
        return found


class PatternText(fields.Field[NamePattern]):
    """What to look for in names."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> NamePattern:
        try:
            return parse_pattern(value.strip(TRIMMED))
        except ValueError as error:
            raise ValidationError(str(error)) from None


def _selector_type(text: str) -> str | None:
    try:
        value = json_text.loads(text)
    except ValueError:
        return None
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None
