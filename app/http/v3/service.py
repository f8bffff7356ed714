"""Services over HTTP v3, for operators and for the console: create, change, remove, find, list, their subscribers."""

from typing import Any

from app.auth.access_rules import LOGGED_IN, READ, WRITE, Target, naming
from app.commands.record_commands import UpdateService
from app.http.api.call import Answer, Call, Services, rendered
from app.http.input.fields import Flag, PatternText
from app.http.input.schemas import NamespaceSchema, NeededServiceSchema, load_parameters
from app.http.input.values import NamePattern
from app.http.shapes.described import Described
from app.http.shapes.v3_shapes import SELECTOR_TYPES, V3_SERVICE, V3_SERVICE_PAGE
from app.http.v1 import health, service
from app.http.v1.catalog import counted_service, filtered_services
from app.http.v1.health import ClusterConfigSchema, ClusterNameSchema
from app.http.v1.service import ServiceCreateSchema
from app.http.v2 import service as service_v2
from app.http.v2.envelope import ResultCode, ResultError, called_service, require, result, wrapped
from app.http.v2.service import ServiceKindSchema
from app.http.v3.earlier_owners import v3_route
from app.http.v3.forms import ADMIN, CONSOLE, PageSchema, names_of, page_result, part_of, server_error
from app.machine.limits.answer_budget import AnswerRoom
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.meta import DEFAULT_CLUSTER_CONFIG
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import InvalidParam
from app.naming.wire.service_info import HOST_BYTES, shown
from app.naming.wire.service_json import instance_json

PATHS = f"{ADMIN}/service", f"{CONSOLE}/service"
CONSOLE_PATH = PATHS[1]
CLUSTER_PATHS = f"{ADMIN}/cluster", f"{CONSOLE_PATH}/cluster"
_PATTERN = "The pattern of the wanted names: `.` is any character, `.*` any number of them."


class ServicesSchema(NamespaceSchema):
    """GET ``/v3/admin/ns/service/list``, without the page."""

    name = PatternText("serviceNameParam", _PATTERN, NamePattern())
    group = PatternText("groupNameParam", _PATTERN.replace("names", "groups"), NamePattern())
    has_instances = Flag("ignoreEmptyService", "Only services with instances.", False)
    with_instances = Flag("withInstances", "The services with their instances, and not with their counts.", False)


UNKNOWN_TO_CONSOLE = "service {name} is not found!"
UNKNOWN_TO_CHANGE_THERE = "service {shown} is not exist."


@v3_route(
    "POST",
    *PATHS,
    access=naming(WRITE),
    at_root=(CONSOLE_PATH,),
    described=Described(takes=(NeededServiceSchema, ServiceCreateSchema, ServiceKindSchema)),
)
def create_service(call: Call, services: Services) -> Answer:
    """Create a service that stays without instances."""
    return service_v2.create_service(call, services)


@v3_route(
    "PUT",
    *PATHS,
    access=naming(WRITE),
    at_root=(CONSOLE_PATH,),
    described=Described(takes=(NeededServiceSchema, ServiceCreateSchema), refusals=(404,)),
)
def update_service(call: Call, services: Services) -> Answer:
    """Replace a service's threshold, metadata and selector; a value that the call does not name becomes the default."""
    is_console = call.path == CONSOLE_PATH
    unknown, status = (UNKNOWN_TO_CHANGE_THERE, 404) if is_console else (service_v2.UNKNOWN_TO_CHANGE, 400)
    view = service_v2.called_view(call, services, unknown, status=status)
    meta = service_v2.described_service(call)
    command = UpdateService(view.namespace, view.full_name, meta.protect_threshold, meta.metadata, meta.selector)
    return wrapped(rendered(services.writes.execute(command, call)))


@v3_route(
    "DELETE",
    *PATHS,
    access=naming(WRITE),
    at_root=(CONSOLE_PATH,),
    described=Described(takes=(NeededServiceSchema,)),
)
def remove_service(call: Call, services: Services) -> Answer:
    """Remove a service that has no instances."""
    view = service_v2.called_view(call, services, service_v2.UNKNOWN_TO_CHANGE)
    if view.instances:
        text = f"Service {view.full_name} is not empty, can't be delete. Please unregister instance first"
        raise ResultError(400, ResultCode.SERVICE_NOT_EMPTY, text)
    return wrapped(service.remove_service(call, services))


@v3_route(
    "GET",
    *PATHS,
    access=naming(READ),
    at_root=(CONSOLE_PATH,),
    described=Described(V3_SERVICE, takes=(NeededServiceSchema,), refusals=(404,)),
)
def query_service(call: Call, services: Services) -> Answer:
    """A service's description, with its clusters by name."""
    if call.path == CONSOLE_PATH:
        view = service_v2.called_view(call, services, UNKNOWN_TO_CONSOLE, status=404, code=ResultCode.SERVER_ERROR)
    else:
        view = service_v2.called_view(call, services)
    return result(
        {
            **names_of(view),
            "clusterMap": {name: _cluster(view, name) for name in view.clusters},
            "metadata": shown(view.metadata),
            "protectThreshold": float(view.protect_threshold),
            "selector": service_v2.selector_json(view.meta.selector),
            "ephemeral": service_v2.is_ephemeral(view),
        }
    )


def _cluster(view: ServiceView, name: str) -> dict[str, Any]:
    config = view.meta.clusters.get(name, DEFAULT_CLUSTER_CONFIG)
    return {
        "clusterName": name,
        "healthChecker": config.checker.to_json(),
        "healthyCheckPort": config.check_port,
        "useInstancePortForCheck": config.use_instance_port,
        "metadata": shown(config.metadata),
        "hosts": None,
    }


@v3_route(
    "GET",
    *(f"{path}/list" for path in PATHS),
    access=naming(READ, Target.NAMESPACE),
    at_root=(f"{CONSOLE_PATH}/list",),
    described=Described(V3_SERVICE_PAGE, takes=(ServicesSchema, PageSchema)),
)
def list_services(call: Call, services: Services) -> Answer:
    """A page of the services that pass the filters, with their counts, or with their instances."""
    asked, values = load_parameters(PageSchema, call.parameters), load_parameters(ServicesSchema, call.parameters)
    found = filtered_services(services, {**values, "instance": ""})
    part = part_of(found, asked)
    if not values["with_instances"]:
        return page_result(len(found), asked, [counted_service(view) for view in part])
    with AnswerRoom(services.answers, 2 * HOST_BYTES * sum(len(view.instances) for view in part)):
        return page_result(len(found), asked, [_with_instances(view) for view in part])


def _with_instances(view: ServiceView) -> dict[str, Any]:
    by_cluster: dict[str, list[Instance]] = {}
    for one in view.instances:
        by_cluster.setdefault(one.cluster_name, []).append(one)
    return {
        **names_of(view),
        "clusterMap": {
            name: {**_cluster(view, name), "hosts": [instance_json(one, healthy=one.healthy) for one in hosts]}
            for name, hosts in by_cluster.items()
        },
        "metadata": shown(view.metadata),
        "protectThreshold": float(view.protect_threshold),
        "selector": service_v2.selector_json(view.meta.selector),
        "ephemeral": service_v2.is_ephemeral(view),
    }


@v3_route(
    "GET", f"{PATHS[0]}/selector/types", access=naming(READ, Target.NAMESPACE), described=Described(SELECTOR_TYPES)
)
@v3_route(
    "GET",
    f"{CONSOLE_PATH}/selector/types",
    access=LOGGED_IN,
    at_root=(f"{CONSOLE_PATH}/selector/types",),
    described=Described(SELECTOR_TYPES),
)
def selector_types(call: Call, services: Services) -> Answer:
    """The types that a service's selector may have."""
    return result(["none", "label"])


@v3_route(
    "PUT",
    *CLUSTER_PATHS,
    access=naming(WRITE),
    at_root=(f"{CONSOLE_PATH}/cluster",),
    described=Described(takes=(ClusterNameSchema, ClusterConfigSchema)),
)
def update_cluster(call: Call, services: Services) -> Answer:
    """Set how a cluster's persistent instances are checked, and its metadata; a missing cluster is created."""
    require(call, NeededServiceSchema)
    namespace, name = called_service(call, services, ClusterNameSchema, ClusterConfigSchema)
    try:
        return wrapped(health.update_cluster(call, services))
    except InvalidParam:
        if services.naming.service_view(namespace, name) is not None:
            raise
        text = f"service not found groupName: {group_of(name)},serviceName: {short_name_of(name)}"
        raise server_error(400, text) from None
