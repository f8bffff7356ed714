"""Each member's copy of one service, side by side: its version, the number of instances, and a digest of them."""

from typing import Any

from app.auth.access_rules import READ, naming
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.api.digest_values import service_digest
from app.http.input.schemas import LocalSchema, ServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.service_shapes import SERVICE_VERSIONS
from app.peers.asked import ask_all

VERSIONS = "/v1/ns/service/versions"
ASK_S = 1.0
"""All members are asked at once, and have so long to answer."""
DIGESTED_MAX = 5_000
"""Instances of a service whose digest is made while a caller waits, about 50 ms."""
_TOLD = frozenset(("address", "known", "version", "writer", "instances", "healthy", "digest"))


@route(
    "GET",
    VERSIONS,
    access=naming(READ).or_members(),
    described=Described(SERVICE_VERSIONS, takes=(ServiceSchema, LocalSchema)),
)
def service_versions(call: Call, services: Services) -> Answer:
    """Return each member's copy of a service, or this one's with ``local=true``. Shape: docs/operations/inspect.md."""
    values = load_parameters(ServiceSchema, call.parameters)
    namespace, service = values["namespace"], values["service"]
    own = _held(services, namespace, service)
    if load_parameters(LocalSchema, call.parameters)["local"]:
        return json_reply(own)
    asked = {"namespaceId": namespace, "serviceName": service}
    told, silent, other_kinds = ask_all(services, VERSIONS, asked, own, lambda one: one.keys() >= _TOLD, ASK_S)
    return json_reply(
        {
            "serviceName": service,
            "namespaceId": namespace,
            "responsible": services.cluster.map_srv(service),
            "members": dict(sorted(told.items())),
            "notAnswered": silent,
            "otherKinds": other_kinds,
        }
    )


def _held(services: Services, namespace: str, service: str) -> dict[str, Any]:
    """Return this member's copy of a service.

    ``digest`` is null where it would take long; a member without the service has zeros.
    """
    view = services.naming.service_view(namespace, service)
    found: dict[str, Any] = {"address": services.cluster.self_address, "known": view is not None}
    if view is None:
        return {**found, "version": "", "writer": "", "instances": 0, "healthy": 0, "digest": ""}
    count = len(view.instances)
    held, digest = service_digest(services.naming, namespace, service) if count <= DIGESTED_MAX else (count, None)
    return {
        **found,
        "version": view.version.to_text(),
        "writer": view.version.writer.partition("~")[0],
        "instances": held,
        "healthy": sum(one.healthy for one in view.instances),
        "digest": digest,
    }
