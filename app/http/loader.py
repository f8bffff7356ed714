"""Connections of SDKs by gRPC: who is connected to this node, and sending them elsewhere. As Nacos 2.x has it."""

from app.addresses import split_address
from app.http.answers import json_reply, text_reply
from app.http.call import Answer, Call, Services, route
from app.http.values import java_int
from app.naming.errors import InvalidParam, NotFound

PATH = "/v2/core/loader"
SUCCESS = "success"


@route("GET", f"{PATH}/current")
def current(call: Call, services: Services) -> Answer:
    """All connections by id; without gRPC there are none."""
    return json_reply(services.loader.current() if services.loader else {})


@route("GET", f"{PATH}/reloadClient")
def reload_client(call: Call, services: Services) -> Answer:
    """Send one client elsewhere."""
    connection_id = call.parameters.required("connectionId")
    redirect = _redirect_of(call)
    if services.loader is None or connection_id not in services.loader.current():
        raise NotFound(f"connection {connection_id[:200]} is not found")
    services.loader.reload_client(connection_id, redirect)
    return text_reply(200, SUCCESS)


@route("GET", f"{PATH}/reloadCurrent")
def reload_current(call: Call, services: Services) -> Answer:
    """Send clients elsewhere until ``count`` are left."""
    count, redirect = java_int(call.parameters.required("count")), _redirect_of(call)
    if services.loader is not None:
        services.loader.reload_to(count, redirect)
    return text_reply(200, SUCCESS)


def _redirect_of(call: Call) -> tuple[str, int] | None:
    text = call.parameters.optional("redirectAddress")
    if not text:
        return None
    try:
        return split_address(text)
    except ValueError as error:
        raise InvalidParam(f"Param 'redirectAddress' is illegal: {error}") from None
