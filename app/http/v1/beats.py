"""The ages of the last beats of a service's instances, from the member that counts them."""

from typing import Any

from app.auth.access_rules import READ, naming
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.schemas import LocalSchema, ServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.service_shapes import SERVICE_BEATS
from app.peers.asked import ask_member
from distro.model.types import MemberState

BEATS = "/v1/ns/service/beats"
ASK_S = 0.8
BEATS_MAX = 5_000
"""The most instances of a service whose beats are listed while a caller waits."""


@route(
    "GET",
    BEATS,
    access=naming(READ).or_members(),
    described=Described(SERVICE_BEATS, takes=(ServiceSchema, LocalSchema)),
)
def service_beats(call: Call, services: Services) -> Answer:
    """Return the ages of the last beats, as the owner of the service counts them: a copy's age says nothing.

    With ``local=true`` as this member counts them. Shape: docs/operations/inspect.md.
    """
    values = load_parameters(ServiceSchema, call.parameters)
    namespace, service = values["namespace"], values["service"]
    if load_parameters(LocalSchema, call.parameters)["local"]:
        return json_reply(_counted(services, namespace, service))
    return json_reply(beats_of(services, namespace, service))


def beats_of(services: Services, namespace: str, service: str) -> dict[str, Any]:
    """Return the ages of a service's last beats from its owner. Blocks. Shape: member, answered, beats."""
    owner = services.cluster.map_srv(service)
    if owner == services.cluster.self_address:
        return _counted(services, namespace, service)
    found = None
    if any(one.address == owner and one.state is not MemberState.DOWN for one in services.cluster.members()):
        asked = {"namespaceId": namespace, "serviceName": service, "local": "true"}
        found = ask_member(services, owner, BEATS, asked, ASK_S)
    if found is None or not isinstance(found.get("beats"), list):
        return {"member": owner, "answered": False, "beats": []}
    return {"member": owner, "answered": True, "beats": found["beats"]}


def _counted(services: Services, namespace: str, service: str) -> dict[str, Any]:
    """Return the beats that came since this member writes the instance list; none if another member writes it."""
    own, view = services.cluster.self_address, services.naming.service_view(namespace, service)
    listed: list[dict[str, Any]] = []
    if view is not None and view.version.writer.partition("~")[0] == own and len(view.instances) <= BEATS_MAX:
        ages = services.naming.beat_ages(namespace, service, counted=True)
        listed = [
            {"ip": one.ip, "port": one.port, "clusterName": one.cluster_name, "ageMs": ages[one.key]}
            for one in view.instances
            if one.key in ages
        ]
    return {"member": own, "answered": True, "beats": listed}
