"""The building blocks of JSON schemas. An object with a title is described once, and referred to by its title."""

from collections.abc import Mapping
from typing import Any

Shape = dict[str, Any]
"""A JSON schema of the draft 2020-12, as in OpenAPI 3.1."""
EXAMPLES = "examples"


def text(example: str, says: str = "", **limits: Any) -> Shape:
    """Return the shape of a text. ``limits``: further keywords of JSON schema."""
    return _leaf("string", example, says, limits)


def whole(example: int, says: str = "", **limits: Any) -> Shape:
    """Return the shape of a whole number."""
    return _leaf("integer", example, says, limits)


def number(example: float, says: str = "", **limits: Any) -> Shape:
    """Return the shape of a number."""
    return _leaf("number", example, says, limits)


def flag(example: bool, says: str = "") -> Shape:
    """Return the shape of a boolean."""
    return _leaf("boolean", example, says, {})


def _leaf(kind: str, example: object, says: str, limits: Mapping[str, Any]) -> Shape:
    return {"type": kind, EXAMPLES: [example], **({"description": says} if says else {}), **limits}


def null() -> Shape:
    """Return the shape of null alone."""
    return {"type": "null", EXAMPLES: [None]}


def or_null(shape: Shape) -> Shape:
    """Return a shape that also allows null."""
    return {"anyOf": [shape, {"type": "null"}]}


def either(*shapes: Shape) -> Shape:
    """Return a choice of several shapes; the example is the first one's."""
    return {"anyOf": list(shapes)}


def one_of(*words: str, says: str = "") -> Shape:
    """Return a choice of several texts."""
    return text(words[0], says, enum=list(words))


def array(of: Shape, says: str = "") -> Shape:
    """Return an array whose elements have one shape."""
    return {"type": "array", "items": of, **({"description": says} if says else {})}


def tuple_of(*shapes: Shape) -> Shape:
    """Return an array with a shape for each of its places."""
    return {"type": "array", "prefixItems": list(shapes), "items": False, "minItems": len(shapes)}


def map_of(name: str, of: Shape, says: str = "") -> Shape:
    """Return an object whose names are data; ``name``: an example of one."""
    shape = {"type": "object", "additionalProperties": of, EXAMPLES: [{name: example_of(of)}]}
    return shape | ({"description": says} if says else {})


def facts(says: str, **example: object) -> Shape:
    """Return an object for people with any fields; some of them are in the example."""
    return {"type": "object", "description": says, EXAMPLES: [example]}


def record(title: str, fields: Mapping[str, Shape], at_times: Mapping[str, Shape] | None = None) -> Shape:
    """Return an object with a title; ``at_times``: fields that it may lack."""
    return {
        "title": title,
        "type": "object",
        "properties": {**fields, **(at_times or {})},
        "required": list(fields),
    }


def example_of(shape: Shape) -> Any:
    """Return an example, built from those of the parts. Optional fields are left out if there are required ones."""
    if EXAMPLES in shape:
        return shape[EXAMPLES][0]
    if "anyOf" in shape:
        return example_of(shape["anyOf"][0])
    match shape.get("type"):
        case "array":
            return [example_of(one) for one in shape.get("prefixItems", [shape["items"]])]
        case "object":
            fields = shape.get("properties", {})
            return {name: example_of(fields[name]) for name in shape.get("required") or fields}
    return None
