"""The description of the API as pages: plain HTML, without a script."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

SOURCE, PAGES = "/openapi.json", "/api-docs"
"""The paths of the description and of its pages."""
TEMPLATES = Path(__file__).with_name("templates")
_CONSOLE_STYLE = Path(__file__).parents[1] / "console" / "assets" / "console.css"
STYLE = _CONSOLE_STYLE.read_bytes() + (TEMPLATES / "style.css").read_bytes()
"""The style of the console, and the additions of these pages."""
DEPTH_MAX = 6
DOCUMENTS_MAX = 16
Document = dict[str, Any]


class FieldRow(NamedTuple):
    """One field of a body: its place and its content."""

    path: str
    kind: str
    says: str


class Operation(NamedTuple):
    """One call as a page shows it. ``about``: OpenAPI's Operation Object."""

    method: str
    path: str
    about: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The anchor of the call on its page."""
        return str(self.about["operationId"])

    @property
    def curl(self) -> str:
        """The call as a shell command, with its required parameters."""
        needed = {
            one["name"]: _example(one["schema"])
            for one in self.about["parameters"]
            if one.get("required") and one["in"] == "query"
        }
        query = f"?{urlencode(needed)}" if needed else ""
        return f"curl -X {self.method} 'http://127.0.0.1:8848{self.path}{query}'"


@lru_cache(DOCUMENTS_MAX)
def document_of(text: bytes) -> Document:
    """Return the description as an object, which callers must not change."""
    found: Document = orjson.loads(text)
    return found


def index_page(document: Document, context_path: str, *, console: bool = False) -> str:
    """Return the page of all calls. ``console``: the node serves the console, to which the page leads."""
    return _rendered("index.html", document, context_path, console)


def tag_page(document: Document, context_path: str, slug: str, *, console: bool = False) -> str | None:
    """Return the page of one part of the API; None if the part does not exist. ``console``: as of ``index_page``."""
    for tag, operations in _tags(document):
        if slug_of(tag["name"]) == slug:
            more = {"tag": tag, "operations": operations, "resolve": _Resolver(document)}
            return _rendered("tag.html", document, context_path, console, **more)
    return None


def _rendered(template: str, document: Document, context_path: str, console: bool, **more: object) -> str:
    common = {
        "document": document,
        "source": f"{context_path}{SOURCE}",
        "base": f"{context_path}{PAGES}",
        "console": f"{context_path}/" if console else "",
        "tags": _tags(document),
    }
    return _environment().get_template(template).render(common | more)


def slug_of(tag: str) -> str:
    """Return the name of a part in a path."""
    return tag.replace(" ", "-")


def _tags(document: Document) -> list[tuple[Mapping[str, str], list[Operation]]]:
    found: dict[str, list[Operation]] = {one["name"]: [] for one in document["tags"]}
    for path, operations in document["paths"].items():
        for method, about in operations.items():
            found[about["tags"][0]].append(Operation(method.upper(), path, about))
    return [(one, found[one["name"]]) for one in document["tags"]]


@lru_cache(1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"slug": slug_of, "kind": kind_of, "limits": limits_of, "pretty": _pretty, "code": with_code}
    return environment


def with_code(text: str) -> Markup:
    """Return a text as HTML, with parts between backticks as code."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(one) if at % 2 else one for at, one in enumerate(parts))


def _pretty(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _example(shape: Mapping[str, Any]) -> object:
    return (shape.get("enum") or shape.get("examples") or [shape.get("default", "…")])[0]


def kind_of(shape: Mapping[str, Any]) -> str:
    """Return the kind of value that a schema allows, in a word or two."""
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(map(kind_of, shape["anyOf"])))
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    kind = str(shape.get("type", "any"))
    if kind == "array":
        return f"array of {kind_of(shape['items'])}" if shape.get("items") else "array"
    return kind


def limits_of(shape: Mapping[str, Any]) -> str:
    """Return a schema's limits on a value, without its type."""
    found = []
    if "enum" in shape:
        found.append("one of " + ", ".join(map(str, shape["enum"])))
    names = (("minimum", "at least"), ("maximum", "at most"), ("minLength", "shortest"), ("maxLength", "longest"))
    found += [f"{says} {shape[name]}" for name, says in names if name in shape]
    return "; ".join(found)


class _Resolver:
    """Follows the references of a description, for a template."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def follow(self, shape: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema that a reference names; any other schema as it is."""
        found = shape
        while "$ref" in found:
            _, *names = found["$ref"].split("/")
            found = self._document
            for name in names:
                found = found[name]
        return found

    def fields(self, shape: Mapping[str, Any]) -> list[FieldRow]:
        """Return the fields of a body, those of inner objects with their path."""
        return list(dict.fromkeys(self._fields(shape, "", 0)))

    def _fields(self, shape: Mapping[str, Any], at: str, depth: int) -> Iterator[FieldRow]:
        whole = self.follow(shape)
        if depth > DEPTH_MAX:
            return
        for one in whole.get("anyOf", ()):
            yield from self._fields(one, at, depth)
        if isinstance(whole.get("items"), dict):
            yield from self._fields(whole["items"], f"{at}[]", depth + 1)
        if isinstance(whole.get("additionalProperties"), dict):
            yield from self._fields(whole["additionalProperties"], f"{at}.*" if at else "*", depth + 1)
        needed = whole.get("required", ())
        for name, one in whole.get("properties", {}).items():
            path = f"{at}.{name}" if at else name
            kind = kind_of(one) + ("" if name in needed else ", at times")
            yield FieldRow(path, kind, self.follow(one).get("description", ""))
            yield from self._fields(one, path, depth + 1)
