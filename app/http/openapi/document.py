"""The whole description of the API of one node."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import orjson

from app.auth.access_rules import AccessRule, Scope
from app.auth.signed import SIGNATURE
from app.config.version import __version__
from app.http.api.call import ROUTES, TOKEN_HEADER, Route
from app.http.api.user_access import TOKEN_PARAMETER
from app.http.openapi.route_operation import error_responses, operation_of, tag_of, tag_words, template_of
from app.http.shapes.json_shapes import Shape

OPENAPI_VERSION = "3.1.0"
CONTEXT_PATHS_MAX = 16
"""The number of descriptions that are kept. A process has one node; tests have several."""
INFO = """\
The API of Nacos 1.4 under `/v1`, those of Nacos 2 and 3 under `/v2` and `/v3`, and Rollcall's own calls.

A parameter may be in the query or, with POST, PUT, PATCH and DELETE, in a form; of several values of a name the
first counts. The parameter `encoding` names the charset of the values, where that is not UTF-8. Parameters that a call
does not know are ignored. An error of `/v1` is a text that names the parameter; that of `/v2` and `/v3` is an
object with `code`.
"""
_SCHEMES: dict[str, dict[str, Any]] = {
    "accessToken": {"type": "apiKey", "in": "query", "name": TOKEN_PARAMETER, "description": "The token of a login."},
    "accessTokenHeader": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER, "description": "The same."},
    "bearer": {"type": "http", "scheme": "bearer", "description": "The token of a login, or that of scraping."},
}
_MEMBERS: dict[str, dict[str, Any]] = {
    "memberIdentity": {
        "type": "apiKey",
        "in": "header",
        "name": SIGNATURE,
        "description": "A member's signature of its call; real Nacos sends the identity of the members instead.",
    }
}


@lru_cache(CONTEXT_PATHS_MAX)
def document_json(context_path: str, *, users: bool, identity: bool) -> bytes:
    """Return the description as JSON. ``users``, ``identity``: if the node authenticates users, and members."""
    return orjson.dumps(make_document(ROUTES, context_path, users=users, identity=identity))


def make_document(rows: Iterable[Route], context_path: str, *, users: bool, identity: bool) -> dict[str, Any]:
    """Return the description of these rows. Shape: OpenAPI 3.1."""
    components: dict[str, Shape] = {}

    def refer(shape: Any) -> Any:
        return _refer(shape, components)

    paths: dict[str, dict[str, Any]] = {}
    tags: dict[str, str] = {}
    for row in rows:
        if row.described is None or (row.at_root and not context_path):
            continue
        tags.setdefault(tag_of(row), tag_words(row))
        path = ("" if row.at_root else context_path) + template_of(row.path)
        security = _security(row.access, users=users, identity=identity)
        paths.setdefault(path, {})[row.method.lower()] = operation_of(row, row.described, refer, security)
    responses = error_responses(refer)
    schemes = (_SCHEMES if users else {}) | (_MEMBERS if identity else {})
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Rollcall",
            "version": __version__,
            "description": INFO,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This node; each member answers the same."}],
        "tags": [{"name": name, "description": says} for name, says in sorted(tags.items())],
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(components.items())), "responses": responses, "securitySchemes": schemes},
    }


def _security(rule: AccessRule, *, users: bool, identity: bool) -> list[dict[str, list[str]]]:
    """Return the ways to authorize a call, any of which is enough. Shape: OpenAPI's security requirements."""
    members = rule.is_for_members and identity
    by_member: list[dict[str, list[str]]] = [{name: []} for name in _MEMBERS] if members else []
    by_user: list[dict[str, list[str]]] = [{name: []} for name in _SCHEMES]
    if rule.scope in (Scope.MEMBERS, Scope.RECENT_MEMBERS):
        return by_member
    return by_user + by_member if users and rule.scope is not Scope.PUBLIC else []


def _refer(shape: Any, components: dict[str, Shape]) -> Any:
    """Return the shape with references in place of shapes with a title, which are added to the components.

    Raises:
        ValueError: two shapes have one title.
    """
    if isinstance(shape, list):
        return [_refer(one, components) for one in shape]
    if not isinstance(shape, dict):
        return shape
    made = {name: one if name == "examples" else _refer(one, components) for name, one in shape.items()}
    title = shape.get("title")
    if not isinstance(title, str):
        return made
    if components.setdefault(title, made) != made:
        raise ValueError(f"two shapes have the title {title}")
    return {"$ref": f"#/components/schemas/{title}"}
