"""Parameters of OpenAPI, made from marshmallow schemas."""

from collections.abc import Iterable, Iterator
from typing import Any

from marshmallow import Schema, fields, missing, validate

from app.http.input import fields as kinds
from app.http.input.name_pattern import PATTERN_CHARS_MAX
from app.http.openapi.parameter_words import PARAMETER_WORDS
from app.http.shapes.json_shapes import Shape
from app.naming.model.keys import DEFAULT_GROUP, INT_MAX
from app.rows.digests import BUCKETS

SERVICE_NAME = "serviceName"
_INT: Shape = {"type": "integer", "format": "int32", "minimum": -INT_MAX - 1, "maximum": INT_MAX}
_FLAG: Shape = {"type": "boolean"}
_TEXT: Shape = {"type": "string"}
_JSON: Shape = {"type": "string", "contentMediaType": "application/json"}
_SHAPES: dict[type[fields.Field[Any]], Shape] = {
    fields.String: _TEXT,
    fields.Integer: _INT,
    fields.Float: {"type": "number"},
    fields.Boolean: _FLAG,
    kinds.Trimmed: _TEXT,
    kinds.IntOrZero: _INT,
    kinds.Number: _INT,
    kinds.Threshold: {"type": "number", "format": "float"},
    kinds.LoadFactor: {"type": "number", "minimum": 0, "maximum": kinds.LOAD_FACTOR_MAX},
    kinds.Flag: _FLAG,
    kinds.StrictFlag: _FLAG,
    kinds.LenientFlag: _FLAG,
    kinds.NeededMetadata: {"type": "string", "examples": ['{"zone":"a"}', "zone=a"]},
    kinds.MetadataText: {"type": "string", "examples": ['{"zone":"a"}', "zone=a"]},
    kinds.SelectorText: _JSON | {"examples": ['{"type":"none"}']},
    kinds.ListFilter: _JSON | {"examples": ['{"type":"label","expression":"INSTANCE.metadata.zone = \'a\'"}']},
    kinds.JsonObject: _JSON | {"examples": ['{"type":"TCP"}']},
    kinds.PatternText: _TEXT | {"maxLength": PATTERN_CHARS_MAX},
    kinds.InstanceKeys: _TEXT | {"examples": ["10.0.0.1#8080#DEFAULT"]},
    kinds.BucketList: _TEXT | {"examples": [f"0,1,{BUCKETS - 1}"]},
    kinds.AddressText: _TEXT | {"examples": ["10.0.0.5:8848"]},
}
_EXAMPLES = {("serviceName", "string"): "orders", ("ip", "string"): "10.0.0.1", ("port", "integer"): 8080}
"""The examples of parameters that most calls have."""


def parameters_of(schemas: Iterable[type[Schema]]) -> list[dict[str, Any]]:
    """Return the parameters of schemas, each name once, in the order of the schemas. Shape: OpenAPI's parameters."""
    found: dict[str, dict[str, Any]] = {}
    for schema in schemas:
        for name, one in schema().fields.items():
            found.setdefault(one.data_key or name, _parameter(schema, one.data_key or name, one))
            if one.data_key == SERVICE_NAME:
                for further in _beside_service_name():
                    found.setdefault(further["name"], further)
    return list(found.values())


def _parameter(schema: type[Schema], name: str, one: fields.Field[Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": _words(schema, name),
        **({"required": True} if one.required else {}),
        "schema": _shape(name, one),
    }


def _beside_service_name() -> Iterator[dict[str, Any]]:
    """Yield the parameters that are read with each service's name: see ``Parameters.service_name``."""
    group = {"type": "string", "default": DEFAULT_GROUP}
    yield {"name": "groupName", "in": "query", "description": PARAMETER_WORDS["groupName"], "schema": group}
    yield {"name": "dom", "in": "query", "description": PARAMETER_WORDS["dom"], "deprecated": True, "schema": _TEXT}


def _words(schema: type[Schema], name: str) -> str:
    for one in schema.__mro__:
        if words := PARAMETER_WORDS.get(f"{one.__name__}.{name}"):
            return words
    return PARAMETER_WORDS[name]


def _shape(name: str, one: fields.Field[Any]) -> Shape:
    shape = dict(next(_SHAPES[kind] for kind in type(one).__mro__ if kind in _SHAPES))
    if (name, shape["type"]) in _EXAMPLES:
        shape["examples"] = [_EXAMPLES[name, shape["type"]]]
    default = one.load_default
    if default is not missing and isinstance(default, bool | int | float | str) and default != "":
        shape["default"] = default
    for rule in one.validators:
        match rule:
            case validate.Range(min=least, max=most):
                shape |= {} if least is None else {"minimum": least}
                shape |= {} if most is None else {"maximum": most}
            case validate.Length(min=least, max=most):
                shape |= {} if least is None else {"minLength": least}
                shape |= {} if most is None else {"maxLength": most}
            case validate.OneOf(choices=choices):
                shape["enum"] = list(choices)
    return shape


def form_of(parameters: Iterable[dict[str, Any]]) -> Shape:
    """Return the same parameters as fields of a form, none of them required, as the query may have them."""
    return {
        "type": "object",
        "properties": {one["name"]: one["schema"] | {"description": one["description"]} for one in parameters},
    }
