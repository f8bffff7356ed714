"""The names of parameters that an endpoint reads, found in its source and in that of what it calls."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from marshmallow import Schema

from app.http.input.schemas import needed_names

READERS = {"get", "optional", "required"}
"""The methods of ``Parameters`` that read one value."""
NAME_READER = "service_name"
OF_SERVICE = frozenset({"serviceName", "groupName", "dom"})
OURS = ("app.http.v1", "app.http.v2", "app.http.v3", "app.http.input.params", "app.http.input.forms")
ROW_READERS = {"value", "given"}
"""Its methods that read the parameter of one row of a table."""


def names_read(endpoint: Callable[..., Any]) -> frozenset[str]:
    """The names that an endpoint, or what it hands its call or parameters to, may read."""
    found: set[str] = set()
    seen: set[Callable[..., Any]] = set()
    _collect(inspect.unwrap(endpoint), found, seen)
    return frozenset(found)


def _collect(function: Callable[..., Any], found: set[str], seen: set[Callable[..., Any]]) -> None:
    if function in seen:
        return
    seen.add(function)
    space = inspect.getmodule(function).__dict__
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for one in tree.body[0].decorator_list:  # type: ignore[attr-defined]
        one.keywords = []  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found.update(_read_by(node, space))
        for called in _functions(node, space):
            _collect(called, found, seen)


def _read_by(call: ast.Call, space: dict[str, Any]) -> Iterator[str]:
    """The names that one call in a source reads."""
    match call.func:
        case ast.Attribute(attr=name) if name in READERS and _is_of_parameters(call.func):
            yield str(_value(call.args[0], space))
        case ast.Name(id="get"):  # of the plain values that a hot parser reads
            yield str(_value(call.args[0], space))
        case ast.Attribute(attr=name) if name in ROW_READERS and _is_of_parameters(call.func):
            yield getattr(_value(call.args[0], space), "key", "")
        case ast.Attribute(attr=name) if name == NAME_READER:
            yield from OF_SERVICE
        case ast.Name(id="require" | "called_service" as name):
            for one in call.args[1 if name == "require" else 2 :]:
                if not isinstance(one, ast.Starred):  # those that the caller hands on
                    yield from needed_names(_value(one, space))
        case ast.Name(id="load_parameters"):
            schema = _value(call.args[0], space)
            assert issubclass(schema, Schema)
            names = {one.data_key or name for name, one in schema().fields.items()}
            yield from names | (OF_SERVICE if "serviceName" in names else frozenset())


def _is_of_parameters(called: ast.Attribute) -> bool:
    return ast.unparse(called.value) in ("parameters", "call.parameters")


def _value(node: ast.expr, space: dict[str, Any]) -> Any:
    """A constant, or what a name at the top of the module stands for; the name of an argument stands for nothing."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return space.get(name, "")
        case ast.Attribute(value=owner, attr=name):
            return getattr(_value(owner, space), name, "")
    return ""


def _functions(node: ast.AST, space: dict[str, Any]) -> Iterator[Callable[..., Any]]:
    """The functions of ours that a name in a source stands for."""
    if isinstance(node, ast.Name):
        found = space.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        found = getattr(space.get(node.value.id), node.attr, None) if node.value.id in space else None
    else:
        return
    if inspect.isfunction(found) and found.__module__.startswith(OURS):
        yield inspect.unwrap(found)
