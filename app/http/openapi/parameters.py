"""Parameters of OpenAPI, made from marshmallow schemas."""

from collections.abc import Iterable
from typing import Any

from marshmallow import Schema, fields, missing, validate

from app.http.input.fields import Parameter
from app.http.input.forms import SERVICE_NAME
from app.http.input.schemas import BESIDE_SERVICE_NAME
from app.http.shapes.json_shapes import Shape


def parameters_of(schemas: Iterable[type[Schema]]) -> list[dict[str, Any]]:
    """Return the parameters of schemas, each name once, in the order of the schemas. Shape: OpenAPI's parameters."""
    found: dict[str, dict[str, Any]] = {}
    for schema in schemas:
        for name, one in schema().fields.items():
            found.setdefault(one.data_key or name, _parameter(one.data_key or name, one))
            if one.data_key == SERVICE_NAME:
                for further in BESIDE_SERVICE_NAME:
                    found.setdefault(further.key, _parameter(further.key, further))
    return list(found.values())


def _parameter(name: str, one: fields.Field[Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": one.metadata["description"],
        **({"required": True} if one.required else {}),
        **({"deprecated": True} if one.metadata.get("deprecated") else {}),
        "schema": _shape(one),
    }


def _shape(one: fields.Field[Any]) -> Shape:
    """Return the values that a parameter takes, as a JSON schema; a field of marshmallow itself takes any text."""
    shape = dict(one.shape if isinstance(one, Parameter) else Parameter.shape)
    if examples := one.metadata.get("examples"):
        shape["examples"] = examples
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
