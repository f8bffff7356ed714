"""Services over HTTP v2: create, remove, update, query, list names."""

from typing import Any

from marshmallow import validate

from app.auth.access_rules import READ, WRITE, Target, naming
from app.commands.record_commands import ServiceExists, UpdateService
from app.http.api.call import Answer, Call, Services, rendered
from app.http.api.pages import PAGE_V2_MAX
from app.http.input.fields import LenientFlag, Number, Trimmed
from app.http.input.schemas import (
    GROUP_NAME_TEXT,
    PAGE_NO_TEXT,
    PAGE_SIZE_TEXT,
    CallSchema,
    NamespaceSchema,
    NeededServiceSchema,
    load_parameters,
)
from app.http.shapes.described import Described
from app.http.shapes.service_shapes import V2_SERVICE, V2_SERVICE_NAMES
from app.http.v1 import service
from app.http.v1.service import ServiceCreateSchema, ServiceSelectorSchema
from app.http.v2.envelope import (
    FORM_TEXT,
    QUERY_TEXT,
    ResultCode,
    ResultError,
    called_service,
    result,
    result_route,
    shown_service,
    wrapped,
)
from app.naming.model.keys import DEFAULT_GROUP, group_of, short_name_of
from app.naming.model.meta import Selector, ServiceMeta
from app.naming.model.model import ServiceView
from app.naming.model.nacos_errors import InvalidParam
from app.naming.wire.service_info import shown

PATH = "/v2/ns/service"
NO_SELECTOR_TYPE = "not match any type of selector!"
CONTEXT_TYPES = {"none": "NONE", "label": "CMDB"}


class ServiceKindSchema(CallSchema):
    """POST ``/v2/ns/service``: the kind of the service's instances."""

    ephemeral = LenientFlag("ephemeral", "Whether the service is for ephemeral instances; not enforced.", False)


class ServiceListV2Schema(NamespaceSchema):
    group = Trimmed("groupName", GROUP_NAME_TEXT, DEFAULT_GROUP)
    page = Number("pageNo", PAGE_NO_TEXT, 1)
    size = Number("pageSize", PAGE_SIZE_TEXT, 20, validate=validate.Range(1))


UNKNOWN = "service not found, namespace: {namespace}, serviceName: {name}"
UNKNOWN_TO_CHANGE = "service {name} not found!"
"""The refusals of calls about unknown services: of a query, and of a change or removal."""


def called_view(
    call: Call,
    services: Services,
    unknown: str = UNKNOWN,
    *,
    text: str = FORM_TEXT,
    status: int = 400,
    code: ResultCode = ResultCode.SERVICE_MISSING,
) -> ServiceView:
    """Return the service that a call names; ``text``: as of ``require``.

    Raises:
        ResultError: there is no such service; with this ``status`` and ``code``, and the text ``unknown``.
    """
    namespace, name = called_service(call, services, text=text)
    view = services.naming.service_view(namespace, name)
    if view is None:
        shown_name = shown_service(namespace, name, ephemeral=True)
        raise ResultError(status, code, unknown.format(namespace=namespace, name=name, shown=shown_name))
    return view


def described_service(call: Call) -> ServiceMeta:
    """The description that a call brings.

    Raises:
        ResultError: the selector is not allowed.
    """
    try:
        load_parameters(ServiceSelectorSchema, call.parameters)
    except InvalidParam as error:
        text = NO_SELECTOR_TYPE if error.text.endswith("a known 'type'") else error.text
        raise ResultError(400, ResultCode.SELECTOR, text) from None
    values = load_parameters(ServiceCreateSchema, call.parameters)
    return ServiceMeta(values["protect_threshold"], values["metadata"], values["selector"])


@result_route(
    "POST",
    PATH,
    access=naming(WRITE),
    described=Described(takes=(NeededServiceSchema, ServiceCreateSchema, ServiceKindSchema)),
)
def create_service(call: Call, services: Services) -> Answer:
    """Create a service that stays without instances."""
    namespace, name = called_service(call, services)
    described_service(call)
    ephemeral = load_parameters(ServiceKindSchema, call.parameters)["ephemeral"]
    try:
        return wrapped(service.answer_create(call, services, namespace, name, ephemeral))
    except ServiceExists:
        text = f"specified service {name} already exists!"
        raise ResultError(400, ResultCode.SERVICE_EXISTS, text) from None


@result_route("DELETE", PATH, access=naming(WRITE), described=Described(takes=(NeededServiceSchema,)))
def remove_service(call: Call, services: Services) -> Answer:
    """Remove a service that has no instances."""
    view = called_view(call, services, UNKNOWN_TO_CHANGE, text=QUERY_TEXT)
    if view.instances:
        raise ResultError(
            400,
            ResultCode.SERVICE_NOT_EMPTY,
            f"Service {view.full_name} is not empty, can't be delete. Please unregister instance first",
        )
    return wrapped(service.remove_service(call, services))


@result_route("PUT", PATH, access=naming(WRITE), described=Described(takes=(NeededServiceSchema, ServiceCreateSchema)))
def update_service(call: Call, services: Services) -> Answer:
    """Replace a service's threshold, metadata and selector; a value that the call does not name becomes the default."""
    view = called_view(call, services, UNKNOWN_TO_CHANGE)
    meta = described_service(call)
    command = UpdateService(view.namespace, view.full_name, meta.protect_threshold, meta.metadata, meta.selector)
    return wrapped(rendered(services.writes.execute(command, call)))


@result_route("GET", PATH, access=naming(READ), described=Described(V2_SERVICE, takes=(NeededServiceSchema,)))
def query_service(call: Call, services: Services) -> Answer:
    """A service's description. Shape of data: its names, clusterMap by name, metadata, threshold, selector, kind."""
    view = called_view(call, services, text=QUERY_TEXT)
    return result(
        {
            "namespace": view.namespace,
            "serviceName": short_name_of(view.full_name),
            "groupName": group_of(view.full_name),
            "clusterMap": {name: _cluster_json(view, name) for name in view.clusters},
            "metadata": shown(view.metadata),
            "protectThreshold": float(view.protect_threshold),
            "selector": selector_json(view.meta.selector),
            "ephemeral": is_ephemeral(view),
        }
    )


def _cluster_json(view: ServiceView, name: str) -> dict[str, Any]:
    """Return a cluster; Nacos 2.3.1 has a field for its instances, which it never fills."""
    return {"clusterName": name, **service.cluster_fields(view, name), "hosts": None}


def selector_json(selector: Selector) -> dict[str, Any]:
    """The fields of a selector in answers of Nacos 2. Source: Nacos 2.3.1 NoneSelector, AbstractCmdbSelector."""
    shown_selector = selector.to_json()
    return {"type": shown_selector.pop("type"), "contextType": CONTEXT_TYPES[selector.kind], **shown_selector}


def is_ephemeral(view: ServiceView) -> bool:
    """Return the kind of a service: that of its instances or, without any, the one that it was created for."""
    if view.instances:
        return all(one.ephemeral for one in view.instances)
    return view.meta.ephemeral is not False


@result_route(
    "GET",
    f"{PATH}/list",
    access=naming(READ, Target.GROUP),
    described=Described(V2_SERVICE_NAMES, takes=(ServiceListV2Schema,)),
)
def list_services(call: Call, services: Services) -> Answer:
    """One page of the names of a group. Shape of data: count (of all pages), services."""
    values = load_parameters(ServiceListV2Schema, call.parameters)
    names = services.naming.list_services(values["namespace"], values["group"])
    size = min(values["size"], PAGE_V2_MAX)
    start = (max(values["page"], 1) - 1) * size
    page = names[start : start + size]
    return result({"count": len(names), "services": [short_name_of(name) for name in page]})
