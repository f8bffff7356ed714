"""What the hot calls take, as marshmallow schemas and slow, plain code: the oracle of the parsers written by hand.

Each schema's fields stand in the order in which Nacos reads them, as the first complaint is the answer. What is checked
when all of them were read follows below them.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from marshmallow import EXCLUDE, Schema, ValidationError, fields, post_load, validates_schema

from app.http.input.fields import FILLED, AbsentIf, LenientFlag, Needed, Number, Parameter, StrictFlag, Trimmed, Whole
from app.http.input.instance_schemas import ListQuery
from app.http.input.json_text import parse_metadata
from app.http.input.schemas import load
from app.http.input.values import java_double, java_int
from app.naming.model.keys import TRIMMED, check_ip, check_metadata_size, check_port, check_printable, check_text
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import Beat, DeregisterInstance, RegisterInstance

CHARSETS = {"GBK": "gbk", "gb2312": "gb2312", "ISO-8859-1": "latin-1", "Shift_JIS": "shift_jis"}
"""Some of those that ``encoding`` may name; what is no name of a charset counts for nothing."""


def values_of(raw_query: bytes, form: bytes) -> dict[str, str]:
    """The first value of each name, the query's before the form's, and the service's name with its group."""
    values: dict[str, str] = {}
    for raw in (raw_query, form):
        for name, value in parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, errors="replace"):
            if name:
                values.setdefault(name, value)
    charset = CHARSETS.get(values.get("encoding", ""))
    if charset:
        values = {name: value.encode().decode(charset, "replace") for name, value in values.items()}
    return _with_full_name(values)


def _with_full_name(values: dict[str, str]) -> dict[str, str]:
    """``dom`` stands in for a blank name; a blank name gets no group."""
    name = values.get("serviceName", "")
    if not name.strip():
        name = values.get("dom", "") if values.get("dom", "").strip() else name
    if name.strip():
        group = values.get("groupName", "")
        name = name.strip(TRIMMED)
        if "@@" not in name:
            name = f"{group if group.strip() else 'DEFAULT_GROUP'}@@{name}"
    return values | ({"serviceName": name} if name else {})


def _as_complaint(check: Callable[..., Any], *values: Any) -> Any:
    try:
        return check(*values)
    except InvalidParam as error:
        raise ValidationError(Whole(error.text)) from None


class FullName(Parameter[str]):
    """The name with its group, of which the service's part must not be empty."""

    trims = ""
    absent_if = AbsentIf.EMPTY

    def read(self, text: str) -> str:
        _group, *rest = text.split("@@")
        if not any(rest):
            raise InvalidParam("Param 'serviceName' is illegal, it should be format as 'groupName@@serviceName'")
        return text


class Double(Parameter[float]):
    """Java's number with a fraction; blank is the default."""

    read = staticmethod(java_double)


class Int(Parameter[int]):
    """Java's whole number; blank is the default."""

    read = staticmethod(java_int)


class MetadataField(Parameter["Metadata | None"]):
    """JSON or pairs; blank is an empty map, the JSON text null none at all."""

    read = staticmethod(parse_metadata)


class Printable(Trimmed):
    """A text that goes into log lines."""

    def read(self, text: str) -> str:
        check_printable(str(self.data_key), text)
        return text


def _service() -> FullName:
    return FullName("serviceName", "", needs=FILLED)


def _namespace() -> Printable:
    return Printable("namespaceId", "", "public")


class _HotSchema(Schema):
    class Meta:
        unknown = EXCLUDE


class RegisterSchema(_HotSchema):
    service = _service()
    ip = Needed("ip", "", needs=FILLED)
    port = Number("port", "", needs=FILLED)
    weight = Double("weight", "", 1.0)
    metadata = MetadataField("metadata", "", dict)
    app = Trimmed("app", "", "DEFAULT")
    namespace = Trimmed("namespaceId", "", "public")
    cluster_name = Trimmed("clusterName", "", "")
    cluster = Trimmed("cluster", "", "DEFAULT")
    healthy = LenientFlag("healthy", "", True)
    enabled = LenientFlag("enabled", "", None)
    enable = LenientFlag("enable", "", True)
    ephemeral = LenientFlag("ephemeral", "", None)

    @validates_schema
    def check(self, found: Mapping[str, Any], **_: Any) -> None:
        _as_complaint(check_ip, found["ip"])
        _as_complaint(check_port, found["port"])
        _as_complaint(check_text, "app", found["app"], 512)
        _as_complaint(check_printable, "namespaceId", found["namespace"])

    @post_load
    def make(self, found: dict[str, Any], **_: Any) -> dict[str, Any]:
        cluster_name, enable = found.pop("cluster_name"), found.pop("enable")
        found["cluster"] = cluster_name or found["cluster"]
        found["enabled"] = enable if found["enabled"] is None else found["enabled"]
        return found


class DeregisterSchema(_HotSchema):
    ip = Needed("ip", "", needs=FILLED)
    port = Number("port", "", needs=FILLED)
    weight = Double("weight", "", 1.0)
    service = _service()
    namespace = _namespace()
    cluster_name = Trimmed("clusterName", "", "")
    cluster = Trimmed("cluster", "", "DEFAULT")
    ephemeral = LenientFlag("ephemeral", "", None)

    @post_load
    def make(self, found: dict[str, Any], **_: Any) -> dict[str, Any]:
        del found["weight"]
        found["cluster"] = found.pop("cluster_name") or found["cluster"]
        return found


class ListSchema(_HotSchema):
    namespace = _namespace()
    service = _service()
    clusters = Trimmed("clusters", "", "")
    healthy_only = StrictFlag("healthyOnly", "", False)
    is_check = StrictFlag("isCheck", "", False)
    env = Trimmed("env", "", "")
    client_ip = Trimmed("clientIP", "", "")
    udp_port = Int("udpPort", "", 0)
    app = Trimmed("app", "", "")


# --- beats --------------------------------------------------------------------------------------------


def _scalar_text(value: Any) -> str:
    """As Jackson reads a scalar into a text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    raise ValueError


class _BeatField(fields.Field[Any]):
    """A field of the beat's object; null counts as absent."""

    wanted = ""

    def __init__(self, default: Any) -> None:
        super().__init__(load_default=default, allow_none=True)

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **kwargs: Any) -> Any:
        return super().deserialize(self.load_default if value is None else value, attr, data, **kwargs)

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        if value is self.load_default:
            return value
        try:
            return self.read(value)
        except (ValueError, InvalidParam):
            raise ValidationError(
                Whole(f"Param 'beat' is illegal, its field '{self.name}' should be {self.wanted}.")
            ) from None

    def read(self, value: Any) -> Any:
        raise NotImplementedError


class BeatText(_BeatField):
    wanted = "a text"

    def read(self, value: Any) -> str:
        return _scalar_text(value).strip()


class BeatInt(_BeatField):
    wanted = "a whole number"

    def read(self, value: Any) -> int | None:
        text = _scalar_text(value)
        return java_int(text.strip()) if text else self.load_default


class BeatDouble(_BeatField):
    wanted = "a number"

    def read(self, value: Any) -> float:
        text = _scalar_text(value)
        return java_double(text) if text else self.load_default


class BeatFlag(_BeatField):
    wanted = "true or false"

    def read(self, value: Any) -> bool:
        text = _scalar_text(value).lower()
        if text not in ("true", "false", ""):
            raise ValueError
        return self.load_default if not text else text == "true"


class BeatMetadata(_BeatField):
    wanted = "an object of texts"

    def read(self, value: Any) -> dict[str, str | None]:
        if not isinstance(value, dict):
            raise ValueError
        return {name: None if one is None else _scalar_text(one) for name, one in value.items()}


class BeatObjectSchema(_HotSchema):
    ip = BeatText("")
    port = BeatInt(None)
    cluster = BeatText("")
    weight = BeatDouble(0.0)
    metadata = BeatMetadata(None)
    ephemeral = BeatFlag(True)


def _no_constant(_: str) -> Any:
    raise ValueError


class BeatObject(fields.Field["dict[str, Any] | None"]):
    """The object's fields; blank means a light beat."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, Any] | None:
        text = value.strip(TRIMMED)
        if not text:
            return None
        try:
            # Numbers as their text, so that none loses digits before it is read as what it should be.
            found = json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
            json.dumps(found, ensure_ascii=False).encode()  # half of a pair of surrogates is no text
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ValidationError(Whole("Param 'beat' is illegal, it should be a JSON object."))
        try:
            return dict(BeatObjectSchema().load(found))
        except ValidationError as error:
            raise ValidationError(next(iter(error.messages_dict.values()))[0]) from None


class BeatSchema(_HotSchema):
    service = _service()
    namespace = _namespace()
    cluster = Trimmed("clusterName", "", "DEFAULT")
    ip = Trimmed("ip", "", "")
    port = Int("port", "", 0)
    beat = BeatObject(load_default=None)

    @validates_schema
    def check(self, found: Mapping[str, Any], **_: Any) -> None:
        beat = found["beat"]
        if beat is not None:
            _as_complaint(check_ip, beat["ip"] or found["ip"])
            _as_complaint(check_port, found["port"] if beat["port"] is None else beat["port"])
            _as_complaint(check_metadata_size, beat["metadata"])

    @post_load
    def make(self, found: dict[str, Any], **_: Any) -> dict[str, Any]:
        beat = found.pop("beat")
        if beat is None:
            return found
        told = {name: beat.pop(name) for name in ("ip", "port", "cluster")}
        return found | {name: value for name, value in told.items() if value not in ("", None)} | beat | {"full": True}


def register(values: Mapping[str, str], ephemeral: bool) -> RegisterInstance:
    found = load(RegisterSchema, values)
    return RegisterInstance(**found | {"ephemeral": ephemeral if found["ephemeral"] is None else found["ephemeral"]})


def deregister(values: Mapping[str, str], ephemeral: bool) -> DeregisterInstance:
    found = load(DeregisterSchema, values)
    return DeregisterInstance(**found | {"ephemeral": ephemeral if found["ephemeral"] is None else found["ephemeral"]})


def list_query(values: Mapping[str, str], ephemeral: bool) -> ListQuery:
    return ListQuery(**load(ListSchema, values))


def beat(values: Mapping[str, str], ephemeral: bool) -> Beat:
    return Beat(**load(BeatSchema, values))
