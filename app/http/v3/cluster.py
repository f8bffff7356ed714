"""Members over HTTP v3: this one, all of them, the source of the list; and the probes and state of this node."""

from app.auth.access_rules import PUBLIC, READ, WRITE, admin
from app.config.lookup_settings import LOOKUPS
from app.config.version import NACOS_3_VERSION
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input import json_text
from app.http.input.fields import Trimmed
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described, json_of
from app.http.shapes.operator_shapes import DONE, MEMBER, MEMBERS, READY
from app.http.shapes.v3_shapes import CONSOLE_STATE, MEMBERS_BODY, STATES
from app.http.v1 import cluster
from app.http.v1.cluster import LookupSchema, unknown_lookup
from app.http.v2.envelope import CHECKED_TEXT, ResultCode, ResultError, require_present, result, result_route
from app.http.v2.operator import MembersSchema, found_members
from app.http.v3.forms import ADMIN_CORE, CONSOLE_CORE, server_error
from app.members.member_sources import NoListError
from app.naming.model.json_fields import flag_text
from app.naming.model.nacos_errors import InvalidParam

PATH, STATE, OPS = f"{ADMIN_CORE}/cluster", f"{ADMIN_CORE}/state", f"{ADMIN_CORE}/ops"
SERVER, HEALTH = "/v3/console/server", "/v3/console/health"
CONSOLE_NODES = f"{CONSOLE_CORE}/cluster/nodes"


class KeywordSchema(CallSchema):
    keyword = Trimmed("keyword", "The beginning of the addresses of the wanted members.", "")


@result_route("GET", f"{PATH}/node/self", access=admin(READ), described=Described(json_of(MEMBER)))
def own_member(call: Call, services: Services) -> Answer:
    """This node as a member, in the wire shape of members."""
    return result(cluster.own_json(services))


@result_route(
    "GET",
    f"{PATH}/node/list",
    access=admin(READ),
    described=Described(json_of(MEMBERS), takes=(MembersSchema,)),
)
def members(call: Call, services: Services) -> Answer:
    """All members, or those whose address begins with ``address``, or that have a state."""
    return result(found_members(call, services))


@result_route(
    "GET",
    CONSOLE_NODES,
    access=admin(READ),
    at_root=(CONSOLE_NODES,),
    described=Described(json_of(MEMBERS), takes=(KeywordSchema,)),
)
def console_members(call: Call, services: Services) -> Answer:
    """All members, or those whose address begins with ``keyword``."""
    return result(cluster.members_json(services, load_parameters(KeywordSchema, call.parameters)["keyword"]))


@result_route("PUT", f"{PATH}/node/list", access=admin(WRITE), described=Described(DONE, body=MEMBERS_BODY))
def update_members(call: Call, services: Services) -> Answer:
    """Accept members that an operator takes for UP. Nothing changes: each member's own reports say how it is."""
    body = json_text.loads_body(call.body)
    if not isinstance(body, list) or not all(isinstance(one, dict) for one in body):
        raise InvalidParam("the body should be a JSON array of members")
    if not body:
        raise ResultError(400, ResultCode.PARAMETER_MISSING, "required parameter 'nodes' is missing")
    return result(True)


@result_route(
    "PUT", f"{PATH}/lookup", access=admin(WRITE), described=Described(DONE, takes=(LookupSchema,), refusals=(500,))
)
def switch_lookup(call: Call, services: Services) -> Answer:
    """Take the member list from another source until the next start. Refused, without a change, if it is empty."""
    require_present(call, LookupSchema, CHECKED_TEXT)
    kind = load_parameters(LookupSchema, call.parameters)["type"]
    if kind not in LOOKUPS:
        raise InvalidParam(unknown_lookup(kind))
    if services.lookup is None:
        raise server_error(500, "this node is alone, and has no list of members")
    try:
        services.lookup.switch(kind)
    except NoListError as error:
        raise server_error(500, str(error)) from None
    return result(True)


# --- this node -------------------------------------------------------------------------------------


def _states(services: Services) -> dict[str, str]:
    return {
        "version": NACOS_3_VERSION,
        "startup_mode": "standalone" if services.cluster.standalone else "cluster",
        "function_mode": "naming",
        "server_port": str(services.settings.port),
        "auth_enabled": flag_text(services.access.enabled),
        "auth_system_type": "nacos",
        "auth_admin_request": flag_text(services.access.enabled and not services.access.table.has_admin()),
    }


@result_route("GET", STATE, access=PUBLIC, described=Described(STATES))
def server_state(call: Call, services: Services) -> Answer:
    """The release of Nacos whose API this is, the mode, and whether users are asked for; all values are texts."""
    return result(_states(services))


@route("GET", f"{SERVER}/state", access=PUBLIC, at_root=True, described=Described(CONSOLE_STATE))
@route("GET", f"{SERVER}/state", access=PUBLIC, described=Described(CONSOLE_STATE))
def console_state(call: Call, services: Services) -> Answer:
    """As ``/v3/admin/core/state``, for a console, without the envelope."""
    more = {"login_page_enabled": flag_text(services.access.enabled), "console_ui_enabled": "true"}
    return json_reply(_states(services) | more)


@result_route(
    "GET",
    f"{STATE}/liveness",
    f"{HEALTH}/liveness",
    access=PUBLIC,
    at_root=(f"{HEALTH}/liveness",),
    described=Described(READY),
)
def liveness(call: Call, services: Services) -> Answer:
    """Answer ``ok``: a process that answers is alive."""
    return result("ok")


@result_route(
    "GET",
    f"{STATE}/readiness",
    f"{OPS}/readiness",  # where the maintainer client of 3.0 asks for it
    f"{HEALTH}/readiness",
    access=PUBLIC,
    at_root=(f"{HEALTH}/readiness",),
    described=Described(READY, refusals=(500,)),
)
def readiness(call: Call, services: Services) -> Answer:
    """Answer ``ok`` while this node serves, else 500 with the reason: a probe reads the status."""
    if reason := services.cluster.unready_reason():
        raise server_error(500, f"Naming is not in readiness: {reason}")
    return result("ok")
