"""Namespaces as a console lists and creates them. A naming call may use a namespace that was never created."""

import uuid
from typing import Any

from app.auth.access_rules import LOGGED_IN, WRITE, admin
from app.auth.refusals import NOT_PERMITTED
from app.commands.outcomes import UNCHANGED
from app.commands.record_commands import CreateNamespace, RemoveNamespace, UpdateNamespace
from app.http.api.answers import json_reply, rest_reply
from app.http.api.call import Answer, Call, Services, rendered, route
from app.http.api.user_access import audit_refusal
from app.http.input.fields import PRESENT, Text, Trimmed
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DONE, NAMESPACE_QUERY
from app.naming.model.keys import DEFAULT_NAMESPACE, TRIMMED
from app.naming.model.nacos_errors import InvalidParam, NoRight, Unavailable
from app.naming.records.durable_service import Namespace
from app.naming.records.record_keys import namespace_key

PATH = "/v1/console/namespaces"
QUOTA = 200
"""The number of configurations that a console shows as the limit. Source: Nacos 1.4.8 NamespaceController."""
TYPE_PUBLIC, TYPE_CUSTOM = 0, 2
OWN_ID_TRIES_MAX = 1_000
_PUBLIC = Namespace("", DEFAULT_NAMESPACE, "")
_PUBLIC_IN_FULL = Namespace("", "Public", "Public Namespace")


class NamespaceQuerySchema(CallSchema):
    """GET ``/console/namespaces``, in its three shapes."""

    show = Text("show", "`all` asks for one namespace in full.", "")
    check_exists = Text("checkNamespaceIdExist", "`true` asks whether the id `customNamespaceId` is taken.", "")
    namespace = Text("namespaceId", "The id of the namespace.", "")
    custom = Trimmed("customNamespaceId", "The id of the namespace; a new one is given a random id without it.", "")


class NamespaceCreateSchema(CallSchema):
    id = Text("customNamespaceId", "The id of the namespace; a new one is given a random id without it.", needs=PRESENT)
    name = Text("namespaceName", "The name of the namespace.", needs=PRESENT)
    description = Text("namespaceDesc", "The description of the namespace.", "")


class NamespaceUpdateSchema(CallSchema):
    id = Text("namespace", "The id of the namespace.", needs=PRESENT)
    name = Text("namespaceShowName", "The new name of the namespace.", needs=PRESENT)
    description = Text("namespaceDesc", "The description of the namespace.", "")


class NamespaceRemoveSchema(CallSchema):
    id = Text("namespaceId", "The id of the namespace.", needs=PRESENT)


def shown_namespace(one: Namespace) -> dict[str, Any]:
    """The fields of a namespace in lists of v1 and v2."""
    return {
        "namespace": one.id,
        "namespaceShowName": one.name,
        "quota": QUOTA,
        "configCount": 0,
        "type": TYPE_CUSTOM if one.id else TYPE_PUBLIC,
    }


@route(
    "GET", PATH, access=LOGGED_IN, described=Described(NAMESPACE_QUERY, takes=(NamespaceQuerySchema,), refusals=(404,))
)
def query_namespaces(call: Call, services: Services) -> Answer:
    """The namespaces in which the caller has a right, the public one first; or one in full; or if an id is taken.

    ``show=all`` asks for one in full.
    """
    values = load_parameters(NamespaceQuerySchema, call.parameters)
    if values["check_exists"] == "true":
        return json_reply(any(one.id == values["custom"] for one in services.durable.namespaces()))
    if values["show"] == "all":
        one = namespace_in_full(call, services, values["namespace"])
        return json_reply({**shown_namespace(one), "namespaceDesc": one.description})
    return rest_reply([shown_namespace(one) for one in visible_namespaces(call, services)])


def namespace_in_full(call: Call, services: Services, name: str) -> Namespace:
    """The namespace of an id, if the caller has a right in it.

    Raises:
        NotFound: it does not exist. NoRight: the caller has no right in it.
    """
    is_public = name.strip(TRIMMED) in ("", DEFAULT_NAMESPACE)
    one = _PUBLIC_IN_FULL if is_public else services.durable.namespace(name)
    if services.access.enabled and not services.access.table.rights(call.user).sees_namespace(one.id):
        audit_refusal(call, services, NOT_PERMITTED)
        raise NoRight(NOT_PERMITTED)
    return one


def visible_namespaces(call: Call, services: Services) -> list[Namespace]:
    """The namespaces in which the caller has a right, the public one first."""
    found = [_PUBLIC, *services.durable.namespaces()]
    if not services.access.enabled:
        return found
    rights = services.access.table.rights(call.user)
    return [one for one in found if rights.sees_namespace(one.id)]


@route("POST", PATH, access=admin(WRITE), described=Described(DONE, takes=(NamespaceCreateSchema,)))
def create_namespace(call: Call, services: Services) -> Answer:
    """Create a namespace, with a random id when none is given. Shape: false when the id is taken or not allowed."""
    values = load_parameters(NamespaceCreateSchema, call.parameters)
    name = values["id"].strip(TRIMMED) or own_id(services)
    command = CreateNamespace(Namespace(name, values["name"], values["description"]))
    outcome = services.writes.execute(command, call)
    return json_reply(False) if outcome is UNCHANGED else rendered(outcome, json_reply(True))


def own_id(services: Services) -> str:
    """A random id that this node owns: a call with another id would go to its owner, which would make up its own."""
    for _ in range(OWN_ID_TRIES_MAX):
        name = str(uuid.uuid4())
        if services.cluster.responsible_durable(namespace_key(name)):
            return name
    raise Unavailable("this member may not make a namespace now, please try another server")


@route("PUT", PATH, access=admin(WRITE), described=Described(DONE, takes=(NamespaceUpdateSchema,)))
def update_namespace(call: Call, services: Services) -> Answer:
    """Rename a namespace. Shape: always true, as in Nacos, even for an unknown namespace."""
    values = load_parameters(NamespaceUpdateSchema, call.parameters)
    if not values["id"]:
        raise InvalidParam("Parameter 'namespace' is illegal: the public namespace keeps its name")
    command = UpdateNamespace(Namespace(values["id"], values["name"], values["description"]))
    return rendered(services.writes.execute(command, call), json_reply(True))


@route("DELETE", PATH, access=admin(WRITE), described=Described(DONE, takes=(NamespaceRemoveSchema,)))
def remove_namespace(call: Call, services: Services) -> Answer:
    """Remove a namespace; its services stay. Shape: always true, as in Nacos, even for an unknown namespace."""
    name = load_parameters(NamespaceRemoveSchema, call.parameters)["id"]
    if not name:
        return json_reply(True)
    return rendered(services.writes.execute(RemoveNamespace(name), call), json_reply(True))
