"""Probes, and what a console asks first."""

from app.config.version import NACOS_VERSION
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Services, route
from distro.types import MemberState


@route("GET", "/v1/console/health/liveness")
def liveness(call: Call, services: Services) -> Answer:
    """Whether the process answers at all."""
    return text_reply(200, "OK")


@route("GET", "/v1/console/health/readiness")
def readiness(call: Call, services: Services) -> Answer:
    """Whether clients may be sent here: not before the data of the others was loaded, nor while it leaves."""
    if services.cluster.state() is not MemberState.UP:
        return text_reply(500, "Naming is not in readiness")
    return text_reply(200, "OK")


@route("GET", "/v1/console/server/state")
def server_state(call: Call, services: Services) -> Answer:
    """Version and mode, as a console wants to know them."""
    mode = "standalone" if services.cluster.standalone else "cluster"
    return json_reply({"version": NACOS_VERSION, "standalone_mode": mode, "function_mode": "naming"})
