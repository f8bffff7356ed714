"""Probes of life and readiness, and a console's first question."""

from app.config.version import NACOS_VERSION
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Services, route
from distro.types import MemberState


@route("GET", "/v1/console/health/liveness")
def liveness(call: Call, services: Services) -> Answer:
    """200 from any process that answers."""
    return text_reply(200, "OK")


@route("GET", "/v1/console/health/readiness")
def readiness(call: Call, services: Services) -> Answer:
    """200 while this node is UP: not before it has loaded the data of the others, nor while it leaves."""
    if services.cluster.state() is not MemberState.UP:
        return text_reply(500, "Naming is not in readiness")
    return text_reply(200, "OK")


@route("GET", "/v1/console/server/state")
def server_state(call: Call, services: Services) -> Answer:
    """Version and mode. Shape: version, standalone_mode, function_mode."""
    mode = "standalone" if services.cluster.standalone else "cluster"
    return json_reply({"version": NACOS_VERSION, "standalone_mode": mode, "function_mode": "naming"})
