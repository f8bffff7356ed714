"""Operators' calls over HTTP v2: counters, switches, health set by hand, pages of instances, members."""

from typing import Any

from marshmallow import validate

from app.auth.access_rules import LOGGED_IN, PUBLIC, READ, WRITE, admin, naming
from app.http.api.answers import server_status
from app.http.api.call import Answer, Call, Services
from app.http.api.pages import PAGE_V2_MAX
from app.http.input.fields import FILLED, Flag, LenientFlag, Number, Text, Trimmed
from app.http.input.instance_schemas import CLUSTER_NAME
from app.http.input.params import check_numbers
from app.http.input.schemas import PAGE_NO_TEXT, PAGE_SIZE_TEXT, CallSchema, NeededServiceSchema, load_parameters
from app.http.shapes.common_shapes import STATE
from app.http.shapes.described import Described, json_of
from app.http.shapes.instance_shapes import V2_PAGE
from app.http.shapes.operator_shapes import ENGINE, MEMBER, MEMBERS, SWITCHES, V2_METRICS
from app.http.v1 import catalog, cluster, health, operator, switches
from app.http.v1.health import HealthSchema
from app.http.v1.switches import SwitchSchema
from app.http.v2.envelope import ResultCode, ResultError, require, result, result_route, wrapped
from app.naming.model.keys import DEFAULT_CLUSTER
from app.naming.model.nacos_errors import InvalidParam, NotFound
from distro.model.types import MemberState

PATHS = ("/v2/ns/operator", "/v2/ns/ops")
IS_CHECKED = "health check is still working"
NODES = "/v2/core/cluster/node"


class CatalogInstancesV2Schema(NeededServiceSchema):
    page = Number("pageNo", PAGE_NO_TEXT, 1)
    size = Number("pageSize", PAGE_SIZE_TEXT, 100, validate=validate.Range(1, PAGE_V2_MAX))
    healthy_only = Flag("healthyOnly", "Only healthy instances.", False)
    enabled_only = Flag("enabledOnly", "Only enabled instances.", False)


class MembersSchema(CallSchema):
    address = Trimmed("address", "The beginning of the addresses of the wanted members.", "")
    state = Trimmed("state", "The state of the wanted members, such as `UP`; any without it.", "")


class SwitchV2Schema(CallSchema):
    """PUT ``/v2/ns/operator/switches``: the parameters that must not be blank."""

    entry = Text("entry", "The switch; `batch` for several.", needs=FILLED)
    value = Text("value", "The value of the switch; for `batch` a JSON object of switches.", needs=FILLED)


class HealthV2Schema(CallSchema):
    """PUT ``/v2/ns/health``: the parameter that must not be blank, beside those of v1."""

    healthy = LenientFlag("healthy", "Whether the instance is healthy.", needs=FILLED)


class MetricsV2Schema(CallSchema):
    only_status = Flag("onlyStatus", "Only the status; with false all counters.", True)


@result_route(
    "GET",
    *(f"{path}/metrics" for path in PATHS),
    access=LOGGED_IN,
    described=Described(V2_METRICS, takes=(MetricsV2Schema,)),
)
def metrics(call: Call, services: Services) -> Answer:
    """The node's status, and all counters where ``onlyStatus`` is false."""
    if load_parameters(MetricsV2Schema, call.parameters)["only_status"]:
        return result({"status": server_status(services)})
    return wrapped(operator.metrics(call, services))


@result_route("GET", *(f"{path}/distro" for path in PATHS), access=admin(READ), described=Described(ENGINE))
def engine(call: Call, services: Services) -> Answer:
    """How replication is doing at this member."""
    return wrapped(operator.engine(call, services))


@result_route("GET", *(f"{path}/switches" for path in PATHS), access=admin(READ), described=Described(SWITCHES))
def get_switches(call: Call, services: Services) -> Answer:
    """All switches in force on this member."""
    return wrapped(switches.switches(call, services))


@result_route(
    "PUT",
    *(f"{path}/switches" for path in PATHS),
    access=admin(WRITE),
    described=Described(takes=(SwitchV2Schema, SwitchSchema)),
)
def set_switch(call: Call, services: Services) -> Answer:
    """Set one switch, or with ``batch`` several."""
    require(call, SwitchV2Schema)
    return wrapped(switches.set_switch(call, services))


@result_route(
    "PUT",
    "/v2/ns/health",
    "/v2/ns/health/instance",
    access=naming(WRITE),
    described=Described(takes=(HealthV2Schema, HealthSchema)),
)
def set_health(call: Call, services: Services) -> Answer:
    """Set an instance's health in a cluster without a checker."""
    require(call, HealthV2Schema, HealthSchema)
    return answer_health(call, services)


def answer_health(call: Call, services: Services) -> Answer:
    """Return the answer to a call that sets an instance's health.

    Raises:
        InvalidParam: the port is not one. ResultError: the service or cluster is unknown, or its instances are checked;
        with the code and text of Nacos.
    """
    check_numbers(call.parameters)
    try:
        return wrapped(health.set_health(call, services))
    except InvalidParam as error:
        cluster = call.parameters.optional(CLUSTER_NAME.key, DEFAULT_CLUSTER)
        more = f", cluster: {cluster}" if error.text.startswith(IS_CHECKED) else ""
        raise ResultError(400, ResultCode.SERVER_ERROR, error.text + more) from None


@result_route(
    "GET",
    "/v2/ns/catalog/instances",
    access=naming(READ),
    described=Described(V2_PAGE, takes=(CatalogInstancesV2Schema,), refusals=(404,)),
)
def instance_list(call: Call, services: Services) -> Answer:
    """One page of a service's instances with their true health. Shape of data: instances, count (of all pages)."""
    require(call, CatalogInstancesV2Schema)
    values = load_parameters(CatalogInstancesV2Schema, call.parameters)
    view = services.naming.service_view(values["namespace"], values["service"])
    if view is None:
        raise NotFound(f"service {values['service']} is not found")
    found = [
        one
        for one in view.instances
        if (one.healthy or not values["healthy_only"]) and (one.enabled or not values["enabled_only"])
    ]
    start = (max(values["page"], 1) - 1) * values["size"]
    page = catalog.instances_json(services, view, found[start : start + values["size"]])
    return result({"instances": page, "count": len(found)})


@result_route("GET", f"{NODES}/self", access=admin(READ), described=Described(json_of(MEMBER)))
def own_member(call: Call, services: Services) -> Answer:
    """This node as a member, in the wire shape of members."""
    return result(cluster.own_json(services))


@result_route("GET", f"{NODES}/list", access=admin(READ), described=Described(json_of(MEMBERS), takes=(MembersSchema,)))
def members(call: Call, services: Services) -> Answer:
    """All members, or those with a state and an address that begins with ``address``."""
    return result(found_members(call, services))


def found_members(call: Call, services: Services) -> list[dict[str, Any]]:
    """Return the members that a call asks for, each in its wire shape.

    Raises:
        ResultError: there is no such state.
    """
    wanted = load_parameters(MembersSchema, call.parameters)
    state = wanted["state"].upper()
    if state and state not in (*MemberState.__members__, "ISOLATION"):
        raise ResultError(400, ResultCode.STATE_ILLEGAL, f"Illegal state: {wanted['state'][:100]}")
    return [one for one in cluster.members_json(services, wanted["address"]) if state in ("", one["state"])]


@result_route("GET", f"{NODES}/self/health", access=PUBLIC, described=Described(json_of(STATE)))
def own_health(call: Call, services: Services) -> Answer:
    """The state of this node, such as ``UP``."""
    return result(services.cluster.state().value)
