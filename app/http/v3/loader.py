"""Connections of SDKs by gRPC over HTTP v3, and sending them to other members."""

from typing import Any

from app.auth.access_rules import READ, WRITE, admin
from app.http.api.call import Answer, Call, Services
from app.http.input import json_text
from app.http.input.schemas import load, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import CONNECTIONS, LOG_BODY
from app.http.shapes.v3_shapes import FAILURE, ID_GENERATORS, NOTHING, V3_LOAD
from app.http.v1.operator import LogLevelSchema, set_level
from app.http.v2.envelope import QUERY_TEXT, ResultCode, ResultError, refusal, require, result, result_route
from app.http.v2.loader import (
    ConnectionIdsSchema,
    ReloadClientSchema,
    ReloadCurrentSchema,
    SmartReloadSchema,
    loader_of,
)
from app.http.v3.forms import ADMIN_CORE
from app.naming.model.nacos_errors import NotFound

PATH, OPS = f"{ADMIN_CORE}/loader", f"{ADMIN_CORE}/ops"


@result_route(
    "GET", f"{PATH}/current", access=admin(READ), described=Described(CONNECTIONS, takes=(ConnectionIdsSchema,))
)
def current(call: Call, services: Services) -> Answer:
    """All connections by id, or those of ids with commas between; without gRPC there are none."""
    asked = load_parameters(ConnectionIdsSchema, call.parameters)["ids"]
    ids = frozenset(asked.split(",")) if asked else None
    return result(services.loader.current(ids) if services.loader else {})


@result_route(
    "POST",
    f"{PATH}/reloadClient",
    access=admin(WRITE),
    described=Described(NOTHING, takes=(ReloadClientSchema,), refusals=(404,)),
)
def reload_client(call: Call, services: Services) -> Answer:
    """Send one client to another member."""
    require(call, ReloadClientSchema, text=QUERY_TEXT)
    values = load_parameters(ReloadClientSchema, call.parameters)
    connection_id = values["connection_id"]
    if services.loader is None or connection_id not in services.loader.current({connection_id}):
        raise NotFound(f"connection {connection_id[:200]} is not found")
    services.loader.reload_client(connection_id, values["redirect"])
    return result(None)


@result_route(
    "POST",
    f"{PATH}/reloadCurrent",
    access=admin(WRITE),
    described=Described(NOTHING, takes=(ReloadCurrentSchema,)),
)
def reload_current(call: Call, services: Services) -> Answer:
    """Send clients to other members until ``count`` are left."""
    require(call, ReloadCurrentSchema, text=QUERY_TEXT)
    values = load_parameters(ReloadCurrentSchema, call.parameters)
    if services.loader is not None:
        services.loader.reload_to(values["count"], values["redirect"])
    return result(None)


@result_route("GET", f"{PATH}/cluster", access=admin(READ), described=Described(V3_LOAD, refusals=(404,)))
def cluster(call: Call, services: Services) -> Answer:
    """The connections and load of each member; a member that does not answer is only counted."""
    load: dict[str, Any] = loader_of(services).cluster()
    detail = [{"address": one["address"], **_numbers(one["metric"])} for one in load["detail"]]
    return result({**load, "detail": detail, "threshold": str(load["threshold"])})


def _numbers(metric: dict[str, str]) -> dict[str, Any]:
    return {**metric, "sdkConCount": int(metric["sdkConCount"]), "conCount": int(metric["conCount"])}


@result_route(
    "POST",
    f"{PATH}/smartReloadCluster",
    access=admin(WRITE),
    described=Described(FAILURE, takes=(SmartReloadSchema,), refusals=(404,)),
)
def smart_reload(call: Call, services: Services) -> Answer:
    """Have members with more than their share of clients send some of them to members with less.

    If a member does not, the code is 30000, under status 200.
    """
    factor = load_parameters(SmartReloadSchema, call.parameters)["factor"]
    if loader_of(services).smart_reload(factor):
        return result(None)
    return refusal(200, ResultCode.SERVER_ERROR, "Smart reload failed, please try again later.")


# --- operations on this node -----------------------------------------------------------------------


@result_route("PUT", f"{OPS}/log", access=admin(WRITE), described=Described(NOTHING, body=LOG_BODY))
def set_log_level(call: Call, services: Services) -> Answer:
    """Set the level of one of this node's logs, from a JSON body; an unknown log changes nothing.

    A form does as well: the maintainer client of Nacos 3.0 sends one.
    """
    body = json_text.loads_body(call.body)
    values = load(LogLevelSchema, body if isinstance(body, dict) else dict(call.parameters.items()))
    set_level(services, values["name"], values["level"])
    return result(None)


@result_route("GET", f"{OPS}/ids", access=admin(WRITE).of_read(), described=Described(ID_GENERATORS))
def id_generators(call: Call, services: Services) -> Answer:
    """The id generators in use: none."""
    return result([])


@result_route("POST", f"{OPS}/raft", access=admin(WRITE), described=Described(None, refusals=(501,)))
def raft_operation(call: Call, services: Services) -> Answer:
    """Refuse a command to Raft, which is not here."""
    text = "there is no Raft here: members replicate with Distro"
    raise ResultError(501, ResultCode.FUNCTION_DISABLED, text)
