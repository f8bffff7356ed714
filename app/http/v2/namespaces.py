"""Namespaces over HTTP v2: the operations of v1 with the names, codes and texts of Nacos 2.

Source: Nacos 2.3.1 NamespaceControllerV2, NamespaceForm and NamespaceOperationService.
"""

import re

from app.auth.access_rules import LOGGED_IN, WRITE, admin
from app.commands.outcomes import UNCHANGED
from app.commands.record_commands import CreateNamespace, UpdateNamespace
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, rendered
from app.http.input.fields import PRESENT, Text
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DONE, V2_NAMESPACE, V2_NAMESPACES
from app.http.v1 import namespaces
from app.http.v2.envelope import ResultCode, ResultError, require_present, result, result_route, wrapped
from app.naming.model.keys import NAMESPACE_ID_CHARS_MAX, TRIMMED, is_namespace_id
from app.naming.model.nacos_errors import NotFound
from app.naming.records.durable_service import Namespace

PATH = "/v2/console/namespace"
_NAME = re.compile(r"[^@#$%^&*]+")


class NamespaceIdSchema(CallSchema):
    """Calls about one namespace."""

    id = Text("namespaceId", "The id of the namespace.", needs=PRESENT)


class NamespaceFormSchema(CallSchema):
    """POST and PUT ``/console/namespace``."""

    id = Text("namespaceId", "The id of the namespace; a new one is given a random id for an empty one.", needs=PRESENT)
    name = Text("namespaceName", "The name of the namespace.", needs=PRESENT)
    description = Text("namespaceDesc", "The description of the namespace.", "")


def _form(call: Call) -> Namespace:
    """The namespace that a call describes.

    Raises:
        ResultError: the id or the name is missing, or the name has characters that Nacos refuses.
    """
    require_present(call, NamespaceFormSchema, "required parameter '{}' is missing")
    values = load_parameters(NamespaceFormSchema, call.parameters)
    name = values["name"]
    if not _NAME.fullmatch(name):
        raise _illegal(f"namespaceName [{name}] contains illegal char")
    return Namespace(values["id"].strip(TRIMMED), name, values["description"])


def _illegal(text: str) -> ResultError:
    return ResultError(400, ResultCode.NAMESPACE_ILLEGAL, text)


@result_route("GET", f"{PATH}/list", access=LOGGED_IN, described=Described(V2_NAMESPACES))
def list_namespaces(call: Call, services: Services) -> Answer:
    """The namespaces in which the caller has a right, the public one first."""
    found = namespaces.visible_namespaces(call, services)
    return result([{**namespaces.shown_namespace(one), "namespaceDesc": one.description or None} for one in found])


@result_route(
    "GET", PATH, access=LOGGED_IN, described=Described(V2_NAMESPACE, takes=(NamespaceIdSchema,), refusals=(404,))
)
def query_namespace(call: Call, services: Services) -> Answer:
    """One namespace with its description."""
    require_present(call, NamespaceIdSchema)
    name = load_parameters(NamespaceIdSchema, call.parameters)["id"]
    try:
        one = namespaces.namespace_in_full(call, services, name)
    except NotFound:
        text = f"namespaceId [ {name[:NAMESPACE_ID_CHARS_MAX]} ] not exist"
        raise ResultError(404, ResultCode.NAMESPACE_MISSING, text) from None
    shown = namespaces.shown_namespace(one)
    return result({**shown, "namespace": one.id or name, "namespaceDesc": one.description or None})


@result_route("POST", PATH, access=admin(WRITE), described=Described(DONE, takes=(NamespaceFormSchema,)))
def create_namespace(call: Call, services: Services) -> Answer:
    """Create a namespace, with a random id when none is given."""
    made = _form(call)
    if not made.id:
        made = Namespace(namespaces.own_id(services), made.name, made.description)
    elif len(made.id) > NAMESPACE_ID_CHARS_MAX:
        raise _illegal(f"too long namespaceId, over {NAMESPACE_ID_CHARS_MAX}")
    elif not is_namespace_id(made.id):
        raise _illegal(f"namespaceId [{made.id}] mismatch the pattern")
    outcome = services.writes.execute(CreateNamespace(made), call)
    if outcome is UNCHANGED:
        raise _illegal(f"the namespaceId is existed, namespaceId: {made.id}")
    return wrapped(rendered(outcome, json_reply(True)))


@result_route("PUT", PATH, access=admin(WRITE), described=Described(DONE, takes=(NamespaceFormSchema,)))
def update_namespace(call: Call, services: Services) -> Answer:
    """Rename a namespace. Shape of data: always true, as in Nacos, even for an unknown namespace."""
    changed = _form(call)
    if not changed.id:
        raise _illegal("the public namespace keeps its name")
    return wrapped(rendered(services.writes.execute(UpdateNamespace(changed), call), json_reply(True)))


@result_route("DELETE", PATH, access=admin(WRITE), described=Described(DONE, takes=(NamespaceIdSchema,)))
def remove_namespace(call: Call, services: Services) -> Answer:
    """Remove a namespace; its services stay. Shape of data: always true, even for an unknown namespace."""
    require_present(call, NamespaceIdSchema)
    return wrapped(namespaces.remove_namespace(call, services))
