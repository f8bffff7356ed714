"""Parameters of OpenAPI, made from marshmallow schemas."""

from collections.abc import Iterable
from typing import Any

from marshmallow import Schema, missing, validate

from app.http.input.fields import Parameter
from app.http.input.forms import SERVICE_NAME
from app.http.input.schemas import BESIDE_SERVICE_NAME
from app.http.shapes.json_shapes import Shape


def parameters_of(schemas: Iterable[type[Schema]]) -> list[dict[str, Any]]:
    """Return the parameters of schemas, each name once, in the order of the schemas. Shape: OpenAPI's parameters."""
    found: dict[str, dict[str, Any]] = {}
    for schema in schemas:
        for one in schema().fields.values():
            if not isinstance(one, Parameter):
                raise TypeError(f"{schema.__name__}.{one.name} is not a parameter")
            for further in (one, *(BESIDE_SERVICE_NAME if one.key == SERVICE_NAME else ())):
                found.setdefault(further.key, _parameter(further))
    return list(found.values())


def _parameter(one: Parameter[Any]) -> dict[str, Any]:
    return {
        "name": one.key,
        "in": "query",
        "description": one.says,
        **({"required": True} if one.required else {}),
        **({"deprecated": True} if one.is_deprecated else {}),
        "schema": _shape(one),
    }


def _shape(one: Parameter[Any]) -> Shape:
    """Return the values that a parameter takes, as a JSON schema."""
    shape = dict(one.shape)
    if one.example is not None:
        shape["examples"] = [one.example]
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
