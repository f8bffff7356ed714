"""Health between members as real Nacos sends it: in separate messages, not in datums."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus

from app.auth.access_rules import MEMBERS, READ, Target, naming
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import OK, Answer, Call, Services, route
from app.http.input import json_text
from app.http.input.fields import PRESENT, Text
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import STATUSES
from app.http.shapes.operator_shapes import STATUS_BODY
from app.naming.model.keys import DEFAULT_NAMESPACE, NAMESPACE_SPLITTER, check_service_format
from app.naming.model.nacos_errors import InvalidParam, NotFound
from app.naming.wire.checksum import checksum
from app.peers.asked import ask_member
from distro.timing.clock import SystemClock

FETCH_MS_MAX = 2_000
"""The time for all services of one message together; the rest are fetched with the next message, 5 s later."""
FETCHES_MAX = 256
_CLOCK = SystemClock()


class StatusesSchema(CallSchema):
    key = Text("key", "The service's name with its group, after its namespace and `##`.", needs=PRESENT)


@route(
    "GET",
    "/v1/ns/instance/statuses",
    "/v1/ns/api/statuses",
    access=naming(READ, Target.KEY).or_members(),
    described=Described(STATUSES, takes=(StatusesSchema,), refusals=(404,)),
)
def statuses(call: Call, services: Services) -> Answer:
    """The health of a service's instances. Shape: ``{"ips": ["ip:port_true", ...]}``."""
    key = load_parameters(StatusesSchema, call.parameters)["key"]
    namespace, splitter, rest = key.partition(NAMESPACE_SPLITTER)
    service = rest.partition(NAMESPACE_SPLITTER)[0] if splitter else key
    check_service_format(service)
    view = services.naming.service_view(namespace if splitter else DEFAULT_NAMESPACE, service)
    if view is None:
        raise NotFound(f"service: {service} not found.")
    return json_reply({"ips": [f"{one.ip}:{one.port}_{str(one.healthy).lower()}" for one in view.instances]})


@route("POST", "/v1/ns/service/status", access=MEMBERS, described=Described(body=STATUS_BODY))
def receive_status(call: Call, services: Services) -> Answer:
    """Take a member's digests of its services; fetch the health of those that differ here.

    Shape: ``{"statuses": text, "clientIP": "ip:port"}``, URL-encoded; in the text ``{"namespaceId",
    "serviceName2Checksum": {service: digest}}``. Source: Nacos 1.4.1 ServiceController.serviceStatus.
    """
    message = _object(unquote_plus(call.body.decode("utf-8", "replace")))
    sender, text = message.get("clientIP"), message.get("statuses")
    if not isinstance(sender, str) or not isinstance(text, str):
        raise InvalidParam("the body should be a JSON object with the texts 'statuses' and 'clientIP'")
    if all(one.address != sender for one in services.cluster.members()):
        raise InvalidParam(f"ip: {sender} is not in serverlist")
    if text.strip() == "null":
        return text_reply(200, "fail")
    namespace, digests = _digests(text)
    deadline_ms = _CLOCK.monotonic_ms() + FETCH_MS_MAX
    for service in _differing(services, sender, namespace, digests):
        left_ms = deadline_ms - _CLOCK.monotonic_ms()
        if left_ms <= 0:
            break
        query = {"key": f"{namespace}{NAMESPACE_SPLITTER}{service}"}
        answer = ask_member(services, sender, "/v1/ns/instance/statuses", query, left_ms / 1_000)
        if answer is None:
            break  # a member that does not answer once is not asked again now
        services.naming.take_health(namespace, service, dict(_healths(answer.get("ips"))))
    return OK


def _object(text: str) -> dict[str, Any]:
    """The JSON object in a text; empty when the text is not a JSON object."""
    try:
        value = json_text.loads_plain(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _digests(text: str) -> tuple[str, Mapping[str, object]]:
    """Namespace and digests of the inner text; no digests when it cannot be read."""
    body = _object(text)
    namespace, digests = body.get("namespaceId"), body.get("serviceName2Checksum")
    if not isinstance(namespace, str) or not isinstance(digests, dict):
        return DEFAULT_NAMESPACE, {}
    return namespace, digests


def _differing(services: Services, sender: str, namespace: str, digests: Mapping[str, object]) -> Iterator[str]:
    """The services whose digests differ from this node's, of those that the sender owns in this node's view, too."""
    asked = 0
    for service, digest in digests.items():
        if sender == services.cluster.self_address or services.cluster.map_srv(service) != sender:
            continue
        view = services.naming.service_view(namespace, service)
        if view is not None and digest and digest != checksum(view) and asked < FETCHES_MAX:
            asked += 1
            yield service


def _healths(listed: object) -> Iterator[tuple[str, bool]]:
    """Address and health of entries ``ip:port_true``."""
    for entry in listed if isinstance(listed, list) else []:
        address, bar, healthy = entry.rpartition("_") if isinstance(entry, str) else ("", "", "")
        if bar and healthy in ("true", "false"):
            yield address, healthy == "true"
