"""Namespaces over HTTP v3, for operators and for the console."""

import re
from typing import Any

from app.auth.access_rules import LOGGED_IN, READ, WRITE, admin
from app.commands.outcomes import UNCHANGED
from app.commands.record_commands import CreateNamespace, RemoveNamespace, UpdateNamespace
from app.http.api.call import Answer, Call, Services, rendered
from app.http.input.fields import PRESENT, Text, Trimmed
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DONE
from app.http.shapes.v3_shapes import NAMESPACE_COUNT, V3_NAMESPACE, V3_NAMESPACES
from app.http.v1.namespaces import QUOTA, TYPE_PUBLIC, own_id, visible_namespaces
from app.http.v2.envelope import CHECKED_TEXT, ResultCode, ResultError, require_present, result
from app.http.v3.earlier_owners import v3_route
from app.http.v3.forms import ADMIN_CORE, CONSOLE_CORE
from app.naming.model.keys import DEFAULT_NAMESPACE, NAMESPACE_ID_CHARS_MAX, TRIMMED, is_namespace_id
from app.naming.records.durable_service import Namespace

PATH, CONSOLE_PATH = f"{ADMIN_CORE}/namespace", f"{CONSOLE_CORE}/namespace"
TYPE_CUSTOM = 1
"""Source: Nacos 3.0.3 NamespaceTypeEnum; in Nacos 2 it is 2."""
_PUBLIC = Namespace(DEFAULT_NAMESPACE, DEFAULT_NAMESPACE, "Default Namespace")
_NAME = re.compile(r"[^@#$%^&*]+")
"""Source: Nacos 3.0.3 NamespaceControllerV3."""
_ID_TEXT = "The id of the namespace."
_NEW_ID_TEXT = "The id of the new namespace; a random one without it."


class NeededNamespaceSchema(CallSchema):
    id = Text("namespaceId", _ID_TEXT, needs=PRESENT)


class NewIdSchema(CallSchema):
    """POST ``/v3/admin/core/namespace``; ``NewConsoleIdSchema`` for the console's."""

    id = Trimmed("namespaceId", _NEW_ID_TEXT, "")


class NewConsoleIdSchema(CallSchema):
    id = Trimmed("customNamespaceId", _NEW_ID_TEXT, "")


class AskedIdSchema(CallSchema):
    id = Text("customNamespaceId", _ID_TEXT, needs=PRESENT)


class NamespaceTextsSchema(CallSchema):
    name = Text("namespaceName", "The name of the namespace.", needs=PRESENT)
    description = Text("namespaceDesc", "The description of the namespace.", "")


def _shown(one: Namespace) -> dict[str, Any]:
    return {
        "namespace": one.id,
        "namespaceShowName": one.name,
        "namespaceDesc": one.description or None,
        "quota": QUOTA,
        "configCount": 0,
        "type": TYPE_PUBLIC if one.id == DEFAULT_NAMESPACE else TYPE_CUSTOM,
    }


@v3_route("GET", f"{PATH}/list", access=admin(READ), described=Described(V3_NAMESPACES))
def list_namespaces(call: Call, services: Services) -> Answer:
    """All namespaces that were created, behind the public one."""
    return result([_shown(one) for one in (_PUBLIC, *services.durable.namespaces())])


@v3_route(
    "GET",
    f"{CONSOLE_PATH}/list",
    access=LOGGED_IN,
    at_root=(f"{CONSOLE_PATH}/list",),
    described=Described(V3_NAMESPACES),
)
def list_own_namespaces(call: Call, services: Services) -> Answer:
    """The namespaces in which the caller has a right, the public one first."""
    return result([_shown(one if one.id else _PUBLIC) for one in visible_namespaces(call, services)])


@v3_route(
    "GET",
    PATH,
    CONSOLE_PATH,
    access=admin(READ),
    at_root=(CONSOLE_PATH,),
    described=Described(V3_NAMESPACE, takes=(NeededNamespaceSchema,), refusals=(404,)),
)
def namespace(call: Call, services: Services) -> Answer:
    """One namespace."""
    name = _called_id(call)
    for one in (_PUBLIC, *services.durable.namespaces()):
        if one.id == (name or DEFAULT_NAMESPACE):
            return result({**_shown(one), "namespace": name})
    raise ResultError(404, ResultCode.NAMESPACE_MISSING, f"namespaceId [ {name[:200]} ] not exist")


def _called_id(call: Call) -> str:
    """Return the id that a call names, which may be empty.

    Raises:
        ResultError: the call names none.
    """
    require_present(call, NeededNamespaceSchema)
    name: str = load_parameters(NeededNamespaceSchema, call.parameters)["id"]
    return name.strip(TRIMMED)


@v3_route("POST", PATH, access=admin(WRITE), described=Described(DONE, takes=(NewIdSchema, NamespaceTextsSchema)))
def create_namespace(call: Call, services: Services) -> Answer:
    """Create a namespace, with a random id when none is given."""
    require_present(call, NamespaceTextsSchema, CHECKED_TEXT)
    return _create(call, services, load_parameters(NewIdSchema, call.parameters)["id"])


@v3_route(
    "POST",
    CONSOLE_PATH,
    access=admin(WRITE),
    at_root=(CONSOLE_PATH,),
    described=Described(DONE, takes=(NewConsoleIdSchema, NamespaceTextsSchema)),
)
def create_console_namespace(call: Call, services: Services) -> Answer:
    """Create a namespace, with a random id when none is given."""
    require_present(call, NamespaceTextsSchema, CHECKED_TEXT)
    return _create(call, services, load_parameters(NewConsoleIdSchema, call.parameters)["id"])


def _create(call: Call, services: Services, name: str) -> Answer:
    texts = _texts_of(call)
    if len(name) > NAMESPACE_ID_CHARS_MAX:
        text = f"too long namespaceId, over {NAMESPACE_ID_CHARS_MAX}"
        raise ResultError(400, ResultCode.NAMESPACE_ILLEGAL, text)
    if name and not is_namespace_id(name):
        raise ResultError(400, ResultCode.NAMESPACE_ILLEGAL, f"namespaceId [{name[:200]}] mismatch the pattern")
    is_public = "is default namespace id and " if name == DEFAULT_NAMESPACE else ""
    taken = ResultError(400, ResultCode.NAMESPACE_EXISTS, f"namespaceId [{name}] {is_public}already exist.")
    if is_public:
        raise taken
    command = CreateNamespace(Namespace(name or own_id(services), texts["name"], texts["description"]))
    outcome = services.writes.execute(command, call)
    if outcome is UNCHANGED:
        raise taken
    return rendered(outcome, result(True))


def _texts_of(call: Call) -> dict[str, str]:
    """Return the name and the description that a call gives a namespace.

    Raises:
        ResultError: a character is not allowed in a name.
    """
    texts: dict[str, str] = load_parameters(NamespaceTextsSchema, call.parameters)
    if not texts["name"].strip() or not _NAME.fullmatch(texts["name"]):
        text = f"namespaceName [{texts['name'][:200]}] contains illegal char"
        raise ResultError(400, ResultCode.NAMESPACE_ILLEGAL, text)
    return texts


@v3_route(
    "PUT",
    PATH,
    CONSOLE_PATH,
    access=admin(WRITE),
    at_root=(CONSOLE_PATH,),
    described=Described(DONE, takes=(NeededNamespaceSchema, NamespaceTextsSchema)),
)
def update_namespace(call: Call, services: Services) -> Answer:
    """Rename a namespace. Shape of data: always true, as in Nacos, even for an unknown namespace."""
    require_present(call, NeededNamespaceSchema, CHECKED_TEXT)
    require_present(call, NamespaceTextsSchema, CHECKED_TEXT)
    name, texts = _called_id(call), _texts_of(call)
    if name in ("", DEFAULT_NAMESPACE):
        raise ResultError(400, ResultCode.NAMESPACE_ILLEGAL, "the public namespace keeps its name")
    command = UpdateNamespace(Namespace(name, texts["name"], texts["description"]))
    return rendered(services.writes.execute(command, call), result(True))


@v3_route(
    "DELETE",
    PATH,
    CONSOLE_PATH,
    access=admin(WRITE),
    at_root=(CONSOLE_PATH,),
    described=Described(DONE, takes=(NeededNamespaceSchema,)),
)
def remove_namespace(call: Call, services: Services) -> Answer:
    """Remove a namespace; its services stay. Shape of data: always true, even for an unknown namespace."""
    name = _called_id(call)
    if name in ("", DEFAULT_NAMESPACE):
        return result(True)  # the public one stays
    return rendered(services.writes.execute(RemoveNamespace(name), call), result(True))


@v3_route(
    "GET", f"{PATH}/check", access=admin(READ), described=Described(NAMESPACE_COUNT, takes=(NeededNamespaceSchema,))
)
def count_namespace(call: Call, services: Services) -> Answer:
    """The number of namespaces with an id that were created: 0 or 1."""
    name = _called_id(call)
    return result(sum(one.id == name for one in services.durable.namespaces()))


@v3_route(
    "GET",
    f"{CONSOLE_PATH}/exist",
    access=LOGGED_IN,
    at_root=(f"{CONSOLE_PATH}/exist",),
    described=Described(DONE, takes=(AskedIdSchema,)),
)
def is_taken(call: Call, services: Services) -> Answer:
    """Answer true if an id is taken; false for an empty one, which stands for a random one."""
    require_present(call, AskedIdSchema)
    name = load_parameters(AskedIdSchema, call.parameters)["id"].strip(TRIMMED)
    return result(name == DEFAULT_NAMESPACE or any(one.id == name for one in services.durable.namespaces()))
