"""Services: create, remove, query, update, list names."""

from collections.abc import Iterable
from typing import Any

from app.auth.access_rules import READ, WRITE, Target, naming
from app.commands.record_commands import CreateService, RemoveService, UpdateService, read_late
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, rendered, route
from app.http.api.called_names import check_called_name
from app.http.api.pages import page_size
from app.http.input.fields import (
    FILLED,
    Flag,
    IntOrZero,
    ListFilter,
    MetadataFilter,
    MetadataText,
    PatternText,
    SelectorText,
    Threshold,
    Trimmed,
)
from app.http.input.schemas import (
    GROUP_NAME_TEXT,
    PAGE_NO_TEXT,
    PAGE_SIZE_TEXT,
    CallSchema,
    NamespaceSchema,
    NeededServiceSchema,
    ServiceSchema,
    load_parameters,
)
from app.http.input.values import NamePattern
from app.http.shapes.described import Described
from app.http.shapes.service_shapes import CHECKSUM, NAMES_BY_NAMESPACE, SERVICE, SERVICE_NAMES
from app.naming.model.keys import DEFAULT_GROUP, check_printable, check_service_format, group_of, short_name_of
from app.naming.model.meta import DEFAULT_CLUSTER_CONFIG, NO_SELECTOR, ServiceMeta
from app.naming.model.model import ServiceView
from app.naming.model.nacos_errors import InvalidParam, NotFound
from app.naming.wire.checksum import checksum
from app.naming.wire.service_info import shown

ALL_GROUPS = "*"
GO_AGENT = "Go-http-client/"
"""The agent of programs in Go that set none. No SDK of Nacos 1 has it."""


class ServiceCreateSchema(CallSchema):
    """POST ``/service``, in v2 also PUT: threshold, metadata and selector."""

    protect_threshold = Threshold(
        "protectThreshold", "At or below this share of healthy instances all are shown as healthy.", 0.0
    )
    metadata = MetadataText("metadata", "The service's metadata: a JSON object of texts, or `k=v,k=v`.", dict)
    selector = SelectorText(
        "selector",
        "How the service picks instances for a client: a JSON object with `type`, URL-encoded once more.",
        NO_SELECTOR,
    )


class ServiceUpdateSchema(CallSchema):
    """PUT ``/service``: threshold and metadata."""

    protect_threshold = Threshold(
        "protectThreshold", "At or below this share of healthy instances all are shown as healthy.", needs=FILLED
    )
    metadata = MetadataText("metadata", "The service's metadata: a JSON object of texts, or `k=v,k=v`.", dict)


class ServiceSelectorSchema(CallSchema):
    """PUT ``/service``: the selector, which Nacos reads after it found the service."""

    selector = SelectorText(
        "selector",
        "How the service picks instances for a client: a JSON object with `type`, URL-encoded once more.",
        NO_SELECTOR,
    )


class ServiceListSchema(NamespaceSchema):
    page = IntOrZero("pageNo", PAGE_NO_TEXT, needs=FILLED)
    size = IntOrZero("pageSize", PAGE_SIZE_TEXT, needs=FILLED)
    group = Trimmed("groupName", GROUP_NAME_TEXT, DEFAULT_GROUP)
    selector = ListFilter("selector", "A filter by metadata: a JSON object with `type` and `expression`.", None)


class ServiceNamesSchema(CallSchema):
    namespace = Trimmed("namespaceId", "The id of the namespace.", "")
    pattern = PatternText(
        "expr", "The pattern of the wanted names: `.` is any character, `.*` any number of them.", NamePattern()
    )
    responsible_only = Flag("responsibleOnly", "Only services that this member owns.", False)


@route("POST", "/v1/ns/service", access=naming(WRITE), described=Described(takes=(ServiceSchema, ServiceCreateSchema)))
def create_service(call: Call, services: Services) -> Answer:
    """Create a service that stays without instances."""
    names = load_parameters(ServiceSchema, call.parameters)
    namespace, service = names["namespace"], names["service"]
    check_service_format(service)
    check_printable("namespaceId", namespace)
    check_called_name(call, services, namespace, service)
    return answer_create(call, services, namespace, service)


def answer_create(
    call: Call, services: Services, namespace: str, service: str, ephemeral: bool | None = None
) -> Answer:
    """Create a service of checked names; ``ephemeral``: the kind of its instances, if the call names it.

    Raises:
        ServiceExists: there is such a service.
    """

    def read() -> ServiceMeta:
        meta = load_parameters(ServiceCreateSchema, call.parameters)
        return ServiceMeta(meta["protect_threshold"], meta["metadata"], meta["selector"], ephemeral=ephemeral)

    return rendered(services.writes.execute(CreateService(namespace, service, read_late(read)), call))


@route("DELETE", "/v1/ns/service", access=naming(WRITE), described=Described(takes=(ServiceSchema,)))
def remove_service(call: Call, services: Services) -> Answer:
    """Remove a service, with its instances."""
    values = load_parameters(ServiceSchema, call.parameters)
    return rendered(services.writes.execute(RemoveService(values["namespace"], values["service"]), call))


@route(
    "PUT",
    "/v1/ns/service",
    access=naming(WRITE),
    described=Described(takes=(NeededServiceSchema, ServiceUpdateSchema, ServiceSelectorSchema)),
)
def update_service(call: Call, services: Services) -> Answer:
    """Replace a service's threshold, metadata and selector; a value that the call does not name becomes the default."""
    names, meta = (
        load_parameters(NeededServiceSchema, call.parameters),
        load_parameters(ServiceUpdateSchema, call.parameters),
    )
    namespace, service = names["namespace"], names["service"]
    selector = read_late(lambda: load_parameters(ServiceSelectorSchema, call.parameters)["selector"])
    command = UpdateService(namespace, service, meta["protect_threshold"], meta["metadata"], selector)
    return rendered(services.writes.execute(command, call))


@route(
    "GET", "/v1/ns/service", access=naming(READ), described=Described(SERVICE, takes=(ServiceSchema,), refusals=(404,))
)
def query_service(call: Call, services: Services) -> Answer:
    """A service's description. Shape: name, namespaceId, protectThreshold, metadata, selector, groupName, clusters."""
    view = found_view(call, services)
    return json_reply(
        {
            "name": short_name_of(view.full_name),
            "namespaceId": view.namespace,
            "protectThreshold": float(view.protect_threshold),
            "metadata": shown(view.metadata),
            "selector": view.meta.selector.to_json(),
            "groupName": group_of(view.full_name),
            "clusters": [{"name": name, **cluster_fields(view, name)} for name in view.clusters],
        }
    )


def cluster_fields(view: ServiceView, name: str) -> dict[str, Any]:
    """The fields of a cluster in the answers of v1 and v2, without its name. Shape: healthChecker, metadata."""
    config = view.meta.clusters.get(name, DEFAULT_CLUSTER_CONFIG)
    return {"healthChecker": config.checker.to_json(), "metadata": shown(config.metadata)}


def found_view(call: Call, services: Services) -> ServiceView:
    """The service that a call names.

    Raises:
        NotFound: there is no such service.
        InvalidParam: the same for programs in Go, with the status and text of Nacos 2.3.1: nacos-controller creates the
            service after this text.
    """
    values = load_parameters(ServiceSchema, call.parameters)
    namespace, service = values["namespace"], values["service"]
    view = services.naming.service_view(namespace, service)
    if view is None and call.agent.startswith(GO_AGENT):
        raise InvalidParam(f"service not found, namespace: {namespace}, serviceName: {service}")
    if view is None:
        raise NotFound(f"service {service} is not found!")
    return view


@route(
    "GET",
    "/v1/ns/service/list",
    access=naming(READ, Target.GROUP),
    described=Described(SERVICE_NAMES, takes=(ServiceListSchema,)),
)
def list_services(call: Call, services: Services) -> Answer:
    """One page of the names of a group; of all groups, with the group, for ``*``. Shape: doms, count (of all pages)."""
    values = load_parameters(ServiceListSchema, call.parameters)
    namespace, group, page, size = values["namespace"], values["group"], values["page"], values["size"]
    if size < 0:
        raise InvalidParam("Param 'pageSize' is illegal, it should not be negative.")
    size = page_size(size, services)
    names = services.naming.list_services(namespace, None if group == ALL_GROUPS else group)
    if wanted := values["selector"]:
        names = [name for name in names if _passes(services.naming.service_view(namespace, name), wanted)]
    start = max((page - 1) * size, 0)
    doms = names[start : start + size]
    return json_reply(
        {"doms": doms if group == ALL_GROUPS else [short_name_of(name) for name in doms], "count": len(names)}
    )


def _passes(view: ServiceView | None, wanted: MetadataFilter) -> bool:
    if view is None:
        return False
    if wanted.of_instances:
        return any((one.metadata or {}).get(wanted.key) == wanted.value for one in view.instances)
    return view.metadata.get(wanted.key) == wanted.value


@route(
    "GET",
    "/v1/ns/service/names",
    access=naming(READ, Target.NAMESPACES),
    described=Described(NAMES_BY_NAMESPACE, takes=(ServiceNamesSchema,)),
)
def search_names(call: Call, services: Services) -> Answer:
    """The names, without group, that a search finds, by namespace. Shape: services, count (of namespaces).

    Source: Nacos 1.4.1 ServiceController.searchService, which fails for a namespace without services.
    """
    values = load_parameters(ServiceNamesSchema, call.parameters)
    namespaces = [values["namespace"]] if values["namespace"] else services.naming.namespaces()
    found = names_by_namespace(services, namespaces, values["pattern"], responsible_only=values["responsible_only"])
    return json_reply({"services": found, "count": len(found)})


def names_by_namespace(
    services: Services, namespaces: Iterable[str], pattern: NamePattern, *, responsible_only: bool
) -> dict[str, list[str]]:
    """The names, without group and sorted, of the services that a search finds, by namespace.

    ``responsible_only``: only services that this node owns.
    """
    is_ours = services.cluster.responsible
    return {
        namespace: sorted(
            {
                short_name_of(name)
                for name in services.naming.list_services(namespace, None)
                if is_found(name, pattern) and (not responsible_only or is_ours(name))
            }
        )
        for namespace in namespaces
    }


def is_found(full_name: str, pattern: NamePattern) -> bool:
    """Return whether a search finds a service.

    Nacos searches its name and the list of its owners, which is always empty.
    """
    return pattern.matches(f"{full_name}:[]")


@route(
    "PUT",
    "/v1/ns/service/checksum",
    access=naming(READ).or_members(),
    described=Described(CHECKSUM, takes=(NeededServiceSchema,), refusals=(404,)),
)
def service_checksum(call: Call, services: Services) -> Answer:
    """The digest with which members compare a service's health. Shape: checksum."""
    values = load_parameters(NeededServiceSchema, call.parameters)
    view = services.naming.service_view(values["namespace"], values["service"])
    if view is None:
        raise NotFound(f"serviceName not found: {values['service']}")
    return json_reply({"checksum": checksum(view)})
