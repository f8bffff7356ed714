"""Probes of liveness and readiness, and the server's state, the first question of a console."""

from app.auth.access_rules import LOGGED_IN, PUBLIC
from app.config.version import NACOS_VERSION
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.shapes.described import Described, text_of
from app.http.shapes.operator_shapes import SERVER_STATE


@route("GET", "/v1/console/health/liveness", access=PUBLIC, described=Described(text_of("OK")))
def liveness(call: Call, services: Services) -> Answer:
    """Answer 200: a process that answers is alive."""
    return text_reply(200, "OK")


@route("GET", "/v1/console/health/readiness", access=PUBLIC, described=Described(text_of("OK"), refusals=(500,)))
def readiness(call: Call, services: Services) -> Answer:
    """Answer 200 while this node is UP, else 500 with the reason: it loads the others' data, or leaves the cluster."""
    if reason := services.cluster.unready_reason():
        return text_reply(500, f"Naming is not in readiness: {reason}")
    return text_reply(200, "OK")


@route("GET", "/v1/console/server/state", access=LOGGED_IN, described=Described(SERVER_STATE))
def server_state(call: Call, services: Services) -> Answer:
    """Version and mode. Shape: version, standalone_mode, function_mode."""
    mode = "standalone" if services.cluster.standalone else "cluster"
    return json_reply({"version": NACOS_VERSION, "standalone_mode": mode, "function_mode": "naming"})
