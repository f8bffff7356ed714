"""Services over HTTP v2: create, remove, update, query, list names."""

from marshmallow import validate

from app.auth.access_rules import READ, WRITE, Target, naming
from app.commands.record_commands import ServiceExists, UpdateService
from app.http.api.call import Answer, Call, Services, rendered
from app.http.api.called_names import check_called_name
from app.http.api.pages import PAGE_V2_MAX
from app.http.input.fields import IntOrZero, Trimmed
from app.http.input.forms import namespace_of, service_of
from app.http.input.schemas import (
    GROUP_NAME_TEXT,
    PAGE_NO_TEXT,
    PAGE_SIZE_TEXT,
    NamespaceSchema,
    NeededServiceSchema,
    load_parameters,
)
from app.http.shapes.described import Described
from app.http.shapes.service_shapes import V2_SERVICE, V2_SERVICE_NAMES
from app.http.v1 import service
from app.http.v1.service import ServiceCreateSchema
from app.http.v2.envelope import ResultCode, ResultError, require, result, result_route, wrapped
from app.naming.model.keys import DEFAULT_GROUP, group_of, short_name_of
from app.naming.model.model import ServiceView
from app.naming.wire.service_info import shown

PATH = "/v2/ns/service"


class ServiceListV2Schema(NamespaceSchema):
    group = Trimmed("groupName", GROUP_NAME_TEXT, DEFAULT_GROUP)
    page = IntOrZero("pageNo", PAGE_NO_TEXT, 1)
    size = IntOrZero("pageSize", PAGE_SIZE_TEXT, 20, validate=validate.Range(1, PAGE_V2_MAX))


def _names(call: Call, services: Services) -> tuple[str, str]:
    """The namespace and full name of the service that a call names."""
    require(call, NeededServiceSchema)
    namespace, name = namespace_of(call.parameters), service_of(call.parameters)
    check_called_name(call, services, namespace, name)
    return namespace, name


def _view(call: Call, services: Services) -> ServiceView:
    """The service that a call names.

    Raises:
        ResultError: there is no such service.
    """
    namespace, name = _names(call, services)
    view = services.naming.service_view(namespace, name)
    if view is None:
        raise ResultError(
            400, ResultCode.SERVICE_MISSING, f"service {short_name_of(name)} of group {group_of(name)} is not found"
        )
    return view


@result_route("POST", PATH, access=naming(WRITE), described=Described(takes=(NeededServiceSchema, ServiceCreateSchema)))
def create_service(call: Call, services: Services) -> Answer:
    """Create a service that stays without instances."""
    namespace, name = _names(call, services)
    try:
        return wrapped(service.answer_create(call, services, namespace, name))
    except ServiceExists:
        text = f"specified service already exists, serviceName : {short_name_of(name)}"
        raise ResultError(400, ResultCode.SERVICE_EXISTS, text) from None


@result_route("DELETE", PATH, access=naming(WRITE), described=Described(takes=(NeededServiceSchema,)))
def remove_service(call: Call, services: Services) -> Answer:
    """Remove a service that has no instances."""
    view = _view(call, services)
    if view.instances:
        raise ResultError(
            400,
            ResultCode.SERVICE_NOT_EMPTY,
            f"service {short_name_of(view.full_name)} can't be deleted, it has {len(view.instances)} instances",
        )
    return wrapped(service.remove_service(call, services))


@result_route("PUT", PATH, access=naming(WRITE), described=Described(takes=(NeededServiceSchema, ServiceCreateSchema)))
def update_service(call: Call, services: Services) -> Answer:
    """Replace a service's threshold, metadata and selector; a value that the call does not name becomes the default."""
    view = _view(call, services)
    values = load_parameters(ServiceCreateSchema, call.parameters)
    command = UpdateService(
        view.namespace, view.full_name, values["protect_threshold"], values["metadata"], values["selector"]
    )
    return wrapped(rendered(services.writes.execute(command, call)))


@result_route("GET", PATH, access=naming(READ), described=Described(V2_SERVICE, takes=(NeededServiceSchema,)))
def query_service(call: Call, services: Services) -> Answer:
    """A service's description. Shape of data: its names, clusterMap by name, metadata, threshold, selector, kind."""
    view = _view(call, services)
    return result(
        {
            "namespace": view.namespace,
            "serviceName": short_name_of(view.full_name),
            "groupName": group_of(view.full_name),
            "clusterMap": {name: {"clusterName": name, **service.cluster_fields(view, name)} for name in view.clusters},
            "metadata": shown(view.metadata),
            "protectThreshold": float(view.protect_threshold),
            "selector": view.meta.selector.to_json(),
            "ephemeral": all(one.ephemeral for one in view.instances),
        }
    )


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
    start = (max(values["page"], 1) - 1) * values["size"]
    page = names[start : start + values["size"]]
    return result({"count": len(names), "services": [short_name_of(name) for name in page]})
