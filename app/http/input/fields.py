"""The kinds of parameters of endpoints that are not hot: one class for each way in which Nacos reads a text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from marshmallow import ValidationError, fields, missing
from marshmallow.types import Validator

from app.config.addresses import split_address
from app.config.settings_keys import parse_flag
from app.http.input import json_text
from app.http.input.forms import unescape
from app.http.input.json_text import parse_metadata
from app.http.input.values import PATTERN_CHARS_MAX, NamePattern, int_or_zero, java_double, java_int, parse_pattern
from app.http.shapes.json_shapes import Shape
from app.naming.model.json_fields import lenient_bool, strict_bool
from app.naming.model.keys import INT_MAX, TRIMMED, Metadata
from app.naming.model.meta import NO_SELECTOR, Selector, label_selector
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.switches import single_precision
from app.rows.rows import BUCKETS

LOAD_FACTOR_MAX = 10.0
INSTANCE_KEYS_MAX, INSTANCE_KEY_CHARS_MAX = 100, 300
INT: Shape = {"type": "integer", "format": "int32", "minimum": -INT_MAX - 1, "maximum": INT_MAX}
FLAG: Shape = {"type": "boolean"}
JSON: Shape = {"type": "string", "contentMediaType": "application/json"}
METADATA: Shape = {"type": "string", "examples": ['{"zone":"a"}', "zone=a"]}

if TYPE_CHECKING:
    from marshmallow.types import ErrorMessages  # since 4.3

T = TypeVar("T")
PRESENT = "Parameter '{}' is missing"
"""The refusal of a call without a parameter whose value may be empty."""
FILLED = "Param '{}' is required."
"""The refusal of a call without a value. Source: Nacos 1.4.1 WebUtils.required."""


class Whole(str):
    """A complaint that is the whole answer, in Nacos's words; other complaints are put behind the parameter's name."""

    __slots__ = ()


def invalid(text: str) -> "ErrorMessages":
    """Messages of a field whose every refusal has this text, behind the parameter's name."""
    return {"invalid": text}


class AbsentIf(Enum):
    """The values that count as absent: they give the field's default, or the complaint that the field is required."""

    NEVER = auto()
    EMPTY = auto()
    BLANK = auto()


class Parameter(fields.Field[T]):
    """The value that Nacos reads in a text. Every difference between Nacos's way and marshmallow's is here.

    A kind of parameter has a ``read``. Its InvalidParam is the whole answer, its ValueError says how the value should
    be; the error message ``invalid``, where a class or a schema sets one, replaces both.
    """

    shape: ClassVar[Shape] = {"type": "string"}
    """The values that it takes, as a JSON schema."""
    trims: str | None = TRIMMED
    """The characters stripped from both ends, as of ``str.strip``."""
    absent_if = AbsentIf.BLANK

    def __init__(
        self,
        name: str,
        says: str,
        default: object = missing,
        *,
        needs: str = "",
        example: object = None,
        deprecated: bool = False,
        validate: Validator | None = None,
        error_messages: "ErrorMessages | None" = None,
    ) -> None:
        """``says``: the description, one sentence. ``needs``: PRESENT or FILLED for a parameter that must be there."""
        complaints: ErrorMessages = {"required": Whole(needs.format(name))} if needs else {}
        super().__init__(
            data_key=name,
            load_default=default,
            required=bool(needs),
            validate=validate,
            error_messages={**complaints, **(error_messages or {})},
        )
        self.key, self.says, self.example, self.is_deprecated = name, says, example, deprecated

    def read(self, text: str) -> T:
        """Return the value of the stripped text.

        Raises:
            InvalidParam: with the answer in Nacos's words.
            ValueError: with a text such as "it should be a number".
        """
        raise NotImplementedError

    def _deserialize(self, value: object, *_: Any, **__: Any) -> Any:
        if not isinstance(value, str):  # in a body of JSON
            raise ValidationError("Not a valid string.")
        text = value.strip(self.trims)
        if (self.absent_if is AbsentIf.BLANK and not text) or (self.absent_if is AbsentIf.EMPTY and not value):
            return self.deserialize(missing)
        try:
            return self.read(text)
        except (InvalidParam, ValueError) as error:
            if "invalid" in self.error_messages:
                raise self.make_error("invalid") from None
            complaint = Whole(error.text) if isinstance(error, InvalidParam) else str(error)
            raise ValidationError(complaint) from None


class Text(Parameter[str]):
    """A text as it was sent."""

    trims = ""
    absent_if = AbsentIf.NEVER

    def read(self, text: str) -> str:
        return text


class Trimmed(Parameter[str]):
    """A text; a blank one is the default."""

    def read(self, text: str) -> str:
        return text


class Needed(Trimmed):
    """A text that must not be empty; a blank one is read as the empty text."""

    absent_if = AbsentIf.EMPTY


class IntOrZero(Parameter[int]):
    """Nacos's number of a page: 0 for a text that is not a number."""

    shape = INT
    absent_if = AbsentIf.EMPTY
    read = staticmethod(int_or_zero)


class Int(Parameter[int]):
    """A whole number; a blank text is the default."""

    shape = INT
    read = staticmethod(java_int)


class Double(Parameter[float]):
    """A number as Java's ``double``; a blank text is the default."""

    shape: ClassVar[Shape] = {"type": "number"}
    read = staticmethod(java_double)


class Number(Int):
    """A whole number; a blank text is not one."""

    absent_if = AbsentIf.EMPTY


class PageNumber(Number):
    """The number of a page where Nacos fails on a text that is not a number."""

    absent_if = AbsentIf.NEVER
    default_error_messages = invalid("it should be a whole number")


class Threshold(Parameter[float]):
    """A finite number of single precision, as Nacos keeps it."""

    shape: ClassVar[Shape] = {"type": "number", "format": "float"}

    def read(self, text: str) -> float:
        try:
            return single_precision(java_double(text))
        except InvalidParam as error:
            raise ValueError(error.text) from None
        except OverflowError:
            raise ValueError("it should be a finite number") from None


class LoadFactor(Parameter[float]):
    """The part that a member may have beyond its share of clients: 0 to ``LOAD_FACTOR_MAX``."""

    shape: ClassVar[Shape] = {"type": "number", "minimum": 0, "maximum": LOAD_FACTOR_MAX}

    def read(self, text: str) -> float:
        factor = java_double(text)
        if not 0 <= factor <= LOAD_FACTOR_MAX:
            raise InvalidParam(
                f"Param '{self.data_key}' is illegal, it should be a number from 0 to {LOAD_FACTOR_MAX:g}."
            )
        return factor


class Flag(Parameter[bool]):
    """Spring's boolean."""

    shape = FLAG
    trims = None
    default_error_messages = invalid("it should be true or false")

    def read(self, text: str) -> bool:
        return parse_flag(text)


class StrictFlag(Parameter[bool]):
    """A boolean of which only the word ``true`` is true."""

    shape = FLAG
    read = staticmethod(strict_bool)


class LenientFlag(Parameter[bool]):
    """A boolean of which a few words are true, and all other texts false."""

    shape = FLAG
    read = staticmethod(lenient_bool)


class NeededLenientFlag(LenientFlag):
    """A boolean that must not be empty; a blank one is false."""

    absent_if = AbsentIf.EMPTY


class NeededMetadata(Parameter["Metadata | None"]):
    """An object of texts, or ``k=v,k=v``, that must not be empty; None for the JSON text ``null``."""

    shape = METADATA
    absent_if = AbsentIf.EMPTY
    read = staticmethod(parse_metadata)


class MetadataText(Parameter[Metadata]):
    """An object of texts, or ``k=v,k=v``; empty for the JSON text ``null``."""

    shape = METADATA

    def read(self, text: str) -> Metadata:
        return parse_metadata(text) or {}


class SelectorText(Parameter[Selector]):
    """The selector of a service, URL-encoded once more than other parameters."""

    shape = JSON | {"examples": ['{"type":"none"}']}
    trims = ""

    def read(self, text: str) -> Selector:
        if text.isspace():
            return NO_SELECTOR
        value = _typed_object(unescape(text.replace("+", " ").encode()).decode("utf-8", "replace"))
        match value.get("type"):
            case "none":
                return NO_SELECTOR
            case "unknown":
                raise InvalidParam("not match any type of selector!")
            case "label":
                expression = value.get("expression", "")
                if not isinstance(expression, str):
                    raise ValueError("its 'expression' should be a text")
                return label_selector(expression)
            case _:
                raise ValueError("it should be a JSON object with a known 'type'")


@dataclass(frozen=True, slots=True)
class MetadataFilter:
    """The condition that a service, or one of its instances, has a value in its metadata."""

    of_instances: bool
    key: str
    value: str


_EXPRESSION = re.compile(r"(INSTANCE|SERVICE)\.metadata\.([^=]+)=(.*)")


class ListFilter(Parameter["MetadataFilter | None"]):
    """The selector of a list of services; None for an expression that Nacos 1.4 ignores as unknown."""

    shape = JSON | {"examples": ['{"type":"label","expression":"INSTANCE.metadata.zone = \'a\'"}']}
    trims = ""

    def read(self, text: str) -> MetadataFilter | None:
        if text.isspace():
            return None
        value = _typed_object(text)
        if not value:
            raise ValueError("it should be a JSON object with a 'type'")
        expression = value.get("expression")
        found = _EXPRESSION.fullmatch("".join(expression.split())) if isinstance(expression, str) else None
        return MetadataFilter(found[1] == "INSTANCE", found[2], found[3].replace("'", "")) if found else None


def _typed_object(text: str) -> dict[str, Any]:
    """The JSON object in a text, if its ``type`` is a text; else an empty one."""
    try:
        value = json_text.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else {}


class JsonObject(Parameter["Mapping[str, Any]"]):
    """A JSON object in a text."""

    shape = JSON | {"examples": ['{"type":"TCP"}']}
    trims = ""
    default_error_messages = invalid("it should be a JSON object")

    def read(self, text: str) -> Mapping[str, Any]:
        json_text.check_values(self.data_key or "", text)
        found = json_text.loads_plain(text)
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found


class PatternText(Parameter[NamePattern]):
    """The pattern of a search in names; see ``parse_pattern``."""

    shape: ClassVar[Shape] = {"type": "string", "maxLength": PATTERN_CHARS_MAX}
    read = staticmethod(parse_pattern)


class InstanceKeys(Parameter["tuple[str, ...]"]):
    """The keys of instances in a comma list, each once, at most ``INSTANCE_KEYS_MAX``."""

    shape: ClassVar[Shape] = {"type": "string", "examples": ["10.0.0.1#8080#DEFAULT"]}

    def read(self, text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
        if len(found) > INSTANCE_KEYS_MAX:
            raise ValueError(f"it should name at most {INSTANCE_KEYS_MAX} instances")
        if any(len(one) > INSTANCE_KEY_CHARS_MAX or not one.isprintable() for one in found):
            raise ValueError(f"an instance's key has at most {INSTANCE_KEY_CHARS_MAX} printable characters")
        return found


class BucketList(Parameter[frozenset[int]]):
    """Numbers of buckets of a digest, in a comma list."""

    shape: ClassVar[Shape] = {"type": "string", "examples": [f"0,1,{BUCKETS - 1}"]}

    def read(self, text: str) -> frozenset[int]:
        parts = [part.strip() for part in text.split(",", BUCKETS)]
        if not all(part.isascii() and part.isdecimal() and len(part) < 4 and int(part) < BUCKETS for part in parts):
            raise ValueError(f"it should be numbers from 0 to {BUCKETS - 1}, with commas between them")
        return frozenset(map(int, parts))


class AddressText(Parameter["tuple[str, int]"]):
    """The host and port of an address; the port is 8848 where the text lacks it."""

    shape: ClassVar[Shape] = {"type": "string", "examples": ["10.0.0.5:8848"]}

    def read(self, text: str) -> tuple[str, int]:
        try:
            return split_address(text)
        except ValueError as error:
            raise InvalidParam(f"Param '{self.data_key}' is illegal: {error}") from None
