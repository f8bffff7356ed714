"""This node's metrics for Prometheus, and its health as Spring's actuator shows it."""

from app.auth.access_rules import METRICS, PUBLIC
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import ACTUATOR_DOWN, ACTUATOR_UP, PROMETHEUS


@route("GET", "/metrics", access=METRICS, at_root=True, described=Described(PROMETHEUS, refusals=(404,)))
@route("GET", "/metrics", "/actuator/prometheus", access=METRICS, described=Described(PROMETHEUS, refusals=(404,)))
def read_metrics(call: Call, services: Services) -> Answer:
    """All metrics, in Prometheus's text format or in OpenMetrics, as the caller accepts."""
    if not services.settings.told.metrics:
        return text_reply(404, "the metrics are switched off: rollcall.metrics.enabled")
    page, content_type = services.metrics.page(call.header("accept") or "")
    return Reply(200, page, content_type, {"Cache-Control": "no-store"})


@route("GET", "/actuator/health", access=PUBLIC, described=Described(ACTUATOR_UP, also={503: ACTUATOR_DOWN}))
def actuator_health(call: Call, services: Services) -> Answer:
    """Return whether this node serves; 503 with the reason while it does not. Shape: status, with details if DOWN."""
    if reason := services.cluster.unready_reason():
        reply = json_reply({"status": "DOWN", "details": {"reason": reason}})
        return Reply(503, reply.body, reply.content_type)
    return json_reply({"status": "UP"})
