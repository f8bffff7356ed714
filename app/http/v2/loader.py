"""Connections of SDKs by gRPC, and sending them to other members, as in Nacos 2.x.

What Nacos changes with GET is changed with POST here too, which a browser may be used for.
"""

from app.auth.access_rules import READ, WRITE, admin
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.fields import FILLED, AddressText, LoadFactor, Needed, Number, Trimmed
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described, text_of
from app.http.shapes.operator_shapes import CONNECTIONS, LOAD
from app.naming.model.nacos_errors import NotFound
from app.ports.http_ports import ConnectionLoader

PATH = "/v2/core/loader"
SUCCESS = "success"
DONE, NOT_DONE = "Ok", "Fail"
LOAD_FACTOR = 0.1
CONNECTION_ID_TEXT = "The id of a connection; of a list those that are wanted, with commas between."


class ConnectionIdsSchema(CallSchema):
    ids = Trimmed("connectionId", CONNECTION_ID_TEXT, "")


class ReloadClientSchema(CallSchema):
    connection_id = Needed("connectionId", CONNECTION_ID_TEXT, needs=FILLED)
    redirect = AddressText("redirectAddress", "The member to send clients to; any without it.", None)


class ReloadCurrentSchema(CallSchema):
    count = Number("count", "How many connections are to be left.", needs=FILLED)
    redirect = AddressText("redirectAddress", "The member to send clients to; any without it.", None)


class SmartReloadSchema(CallSchema):
    factor = LoadFactor(
        "loaderFactor", "A member may have more clients than its share by this part of it.", LOAD_FACTOR
    )


@route("GET", f"{PATH}/current", access=admin(READ), described=Described(CONNECTIONS, takes=(ConnectionIdsSchema,)))
def current(call: Call, services: Services) -> Answer:
    """All connections by id, or those of ids with commas between; without gRPC there are none."""
    asked = load_parameters(ConnectionIdsSchema, call.parameters)["ids"]
    ids = frozenset(asked.split(",")) if asked else None
    return json_reply(services.loader.current(ids) if services.loader else {})


@route(
    "POST",
    f"{PATH}/reloadClient",
    access=admin(WRITE),
    described=Described(text_of("success"), takes=(ReloadClientSchema,), refusals=(404,)),
)
@route(
    "GET",
    f"{PATH}/reloadClient",
    access=admin(WRITE),
    described=Described(text_of("success"), takes=(ReloadClientSchema,), refusals=(404,)),
)
def reload_client(call: Call, services: Services) -> Answer:
    """Send one client to another member."""
    values = load_parameters(ReloadClientSchema, call.parameters)
    connection_id = values["connection_id"]
    if services.loader is None or connection_id not in services.loader.current({connection_id}):
        raise NotFound(f"connection {connection_id[:200]} is not found")
    services.loader.reload_client(connection_id, values["redirect"])
    return text_reply(200, SUCCESS)


@route(
    "POST",
    f"{PATH}/reloadCurrent",
    access=admin(WRITE),
    described=Described(text_of("success"), takes=(ReloadCurrentSchema,)),
)
@route(
    "GET",
    f"{PATH}/reloadCurrent",
    access=admin(WRITE),
    described=Described(text_of("success"), takes=(ReloadCurrentSchema,)),
)
def reload_current(call: Call, services: Services) -> Answer:
    """Send clients to other members until ``count`` are left."""
    values = load_parameters(ReloadCurrentSchema, call.parameters)
    if services.loader is not None:
        services.loader.reload_to(values["count"], values["redirect"])
    return text_reply(200, SUCCESS)


@route("GET", f"{PATH}/cluster", access=admin(READ), described=Described(LOAD, refusals=(404,)))
def cluster(call: Call, services: Services) -> Answer:
    """The connections and load of each member; a member that does not answer is only counted. Source: Nacos 2.2.3."""
    return json_reply(loader_of(services).cluster())


@route(
    "POST",
    f"{PATH}/smartReloadCluster",
    access=admin(WRITE),
    described=Described(text_of("Ok"), takes=(SmartReloadSchema,), refusals=(404,)),
)
@route(
    "GET",
    f"{PATH}/smartReloadCluster",
    access=admin(WRITE),
    described=Described(text_of("Ok"), takes=(SmartReloadSchema,), refusals=(404,)),
)
def smart_reload(call: Call, services: Services) -> Answer:
    """Have members with more than their share of clients send some of them to members with less."""
    factor = load_parameters(SmartReloadSchema, call.parameters)["factor"]
    return text_reply(200, DONE if loader_of(services).smart_reload(factor) else NOT_DONE)


def loader_of(services: Services) -> ConnectionLoader:
    """Return the view of the connections.

    Raises:
        NotFound: this node has no gRPC.
    """
    if services.loader is None:
        raise NotFound("gRPC is switched off here: this node has no connections of SDKs")
    return services.loader
