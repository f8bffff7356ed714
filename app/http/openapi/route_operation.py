"""One row of the route table as an operation of OpenAPI."""

import re
import sys
from collections.abc import Callable
from inspect import cleandoc
from typing import Any

from app.auth.access_rules import Action, Scope, words
from app.http.api.answers import is_naming
from app.http.api.call import Route
from app.http.input.forms import FORM_METHODS, MULTIPART, URLENCODED
from app.http.openapi.parameters import form_of, parameters_of
from app.http.shapes.described import (
    ERROR_TEXT,
    FILTER_ERROR,
    JSON_TYPE,
    RESULT_ERROR,
    TEXT_TYPE,
    Content,
    Described,
)
from app.http.shapes.json_shapes import EXAMPLES, Shape, either, example_of

Security = list[dict[str, list[str]]]
Refer = Callable[[Shape], Shape]
"""Adds a shape with a title to the components, and returns a reference to it."""

STATUSES = {
    200: "It is done.",
    202: "It is under way.",
    400: "A parameter is missing or not allowed, or what it names does not exist.",
    401: "The call is a member's by its own word alone: it needs the identity of members.",
    403: "The caller has no right to the call.",
    404: "What the call names does not exist, or is switched off.",
    409: "It was done before.",
    413: "The call, or what the node would have to hold after it, is too large.",
    429: "The caller is to ask again later: the header Retry-After says when.",
    500: "The node is not ready; the text says why.",
    501: "It is not served here.",
    503: "The node does not serve now, or has no place for the call: ask another one, or again.",
    507: "The disk refused to keep the change.",
}
OLD_PATHS = "/v1/ns/api"
"""The prefix of further paths of newer calls, which clients from before Nacos 0.8 use."""
RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}}
PATH_WORDS = {
    "namespace": "The id of the namespace.",
    "service": "The service's name, without its group.",
    "tag": "The part of the API.",
}
_VARIABLE = re.compile(r"<(?:path:)?(\w+)>")
_FOR_PROGRAMMERS = re.compile(r"\s*\b(Shape|Source)\b[^:.]*:.*", re.DOTALL)
"""The parts of a docstring on the JSON, which the schema describes in full, and on the source of behaviour."""


def template_of(path: str) -> str:
    """Return a route's path as OpenAPI writes it."""
    return _VARIABLE.sub(r"{\1}", path)


def operation_id(row: Route) -> str:
    root = "root" if row.at_root else ""
    return "_".join(filter(None, [row.method.lower(), root, *re.findall(r"\w+", row.path)]))


def tag_of(row: Route) -> str:
    """Return the name of the part of the API to which a row belongs: that of its module."""
    *_, package, module = row.endpoint.__module__.split(".")
    return f"{package} {module.replace('_', ' ')}"


def tag_words(row: Route) -> str:
    """Return the description of a row's part of the API: the first line of its module's docstring."""
    return (sys.modules[row.endpoint.__module__].__doc__ or "").partition("\n")[0]


def operation_of(row: Route, described: Described, refer: Refer, security: Security) -> dict[str, Any]:
    """Return the operation of a row. Shape: OpenAPI's Operation Object."""
    parameters = parameters_of(described.takes)
    path = [
        {"name": name, "in": "path", "required": True, "description": PATH_WORDS[name], "schema": {"type": "string"}}
        for name in _VARIABLE.findall(row.path)
    ]
    summary, description = _texts(row)
    made: dict[str, Any] = {
        "operationId": operation_id(row),
        "tags": [tag_of(row)],
        "summary": summary,
        "description": f"{description}\n\nFor {words(row.access)}.".strip(),
        "parameters": path + parameters,
        "responses": _responses(row, described, refer),
        "security": security,
    }
    if described.body is not None:
        content = {described.body.media_type: {"schema": refer(described.body.shape)}}
        made["requestBody"] = {"content": content, "required": True}
    elif parameters and row.method in FORM_METHODS:
        form = {"schema": form_of(parameters)}
        says = "The parameters may be sent in a form; of a name that the query has too, the query's value counts."
        made["requestBody"] = {"description": says, "content": {URLENCODED: form, MULTIPART: form}}
    if described.is_old or row.path.startswith(OLD_PATHS):
        made["deprecated"] = True
    return made


def _texts(row: Route) -> tuple[str, str]:
    """Return summary and description, from the endpoint's docstring."""
    told = _FOR_PROGRAMMERS.sub("", cleandoc(row.endpoint.__doc__ or "")).replace("``", "`")
    summary, _, rest = told.partition("\n\n")
    return " ".join(summary.split()), rest.strip()


def _responses(row: Route, described: Described, refer: Refer) -> dict[str, Any]:
    answers = dict(described.also)
    if described.gives is not None:
        answers[200] = described.gives
    made: dict[int, dict[str, Any]] = {
        status: {"description": STATUSES[status], "content": _content(one, refer)} for status, one in answers.items()
    }
    kind = "Result" if described.errors is RESULT_ERROR else ""
    for status in {*_usual_errors(row), *described.refusals} - made.keys():
        made[status] = {"$ref": f"#/components/responses/{kind}Error{status}"}
    return {str(status): made[status] for status in sorted(made)}


def _content(content: Content, refer: Refer) -> dict[str, Any]:
    made = {}
    for one in (content, *content.beside):
        shape = refer(one.shape)
        made[one.media_type] = {"schema": shape, "example": example_of(one.shape)}
    return made


def _usual_errors(row: Route) -> set[int]:
    """Return the statuses of errors that endpoints with such a row have."""
    scope, takes_body = row.access.scope, row.method in FORM_METHODS
    changes = row.access.action is Action.WRITE and scope in (Scope.NAMING, Scope.ADMIN)
    found = {400, 403}
    found |= {401} if row.access.is_for_members else set()
    found |= {413} if takes_body else set()
    found |= {429} if scope is not Scope.PUBLIC or takes_body else set()
    found |= {503} if is_naming(row.path) or takes_body or row.access.is_for_members or scope is Scope.ADMIN else set()
    return found | ({507} if changes or takes_body else set())


def error_responses(refer: Refer) -> dict[str, Any]:
    """Return the responses of errors, by status and version. Shape: OpenAPI's components."""
    made = {}
    for kind, shapes in (("", (FILTER_ERROR,)), ("Result", (RESULT_ERROR, FILTER_ERROR))):
        told = [refer(one.shape) for one in shapes]
        json_shape = either(*told) if len(told) > 1 else told[0]
        for status, says in STATUSES.items():
            if status >= 400:
                made[f"{kind}Error{status}"] = {
                    "description": says,
                    "content": {
                        TEXT_TYPE: {"schema": ERROR_TEXT.shape, "example": ERROR_TEXT.shape[EXAMPLES][0]},
                        JSON_TYPE: {"schema": json_shape, "example": example_of(shapes[0].shape)},
                    },
                    **({"headers": RETRY_AFTER} if status in (429, 503) else {}),
                }
    return made
