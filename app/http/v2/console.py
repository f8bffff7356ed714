"""Probes of HTTP v2."""

from app.auth.access_rules import PUBLIC
from app.http.api.call import Answer, Call, Services
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import READY
from app.http.v2.envelope import ResultCode, refusal, result, result_route


@result_route("GET", "/v2/console/health/liveness", access=PUBLIC, described=Described(READY))
def liveness(call: Call, services: Services) -> Answer:
    """Answer ``ok``: a process that answers is alive."""
    return result("ok")


@result_route("GET", "/v2/console/health/readiness", access=PUBLIC, described=Described(READY, refusals=(500,)))
def readiness(call: Call, services: Services) -> Answer:
    """Answer ``ok`` while this node serves, else 500 with the reason: a probe reads the status."""
    if reason := services.cluster.unready_reason():
        return refusal(500, ResultCode.SERVER_ERROR, f"Naming is not in readiness: {reason}")
    return result("ok")
