"""The instances of one service that the members hold differently, as each of them has them."""

from collections.abc import Mapping
from typing import Any

from app.auth.access_rules import READ, naming
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.schemas import LocalSchema, NeededServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.service_shapes import DIFFERENCES
from app.peers.asked import ask_all

PATH = "/v1/ns/service/differences"
ASK_S = 1.5
"""All members that are not DOWN are asked at once, and have so long to answer."""
COMPARED_MAX = 5_000
"""The most instances of a service that are compared one by one: an answer of some MB."""
SHOWN_MAX = 200
FIELDS = ("healthy", "enabled", "weight", "ephemeral", "metadata")
Held = Mapping[str, Any]
"""The fields of an instance at one member."""


@route(
    "GET",
    PATH,
    access=naming(READ).or_members(),
    described=Described(DIFFERENCES, takes=(NeededServiceSchema, LocalSchema)),
)
def differences(call: Call, services: Services) -> Answer:
    """Return the instances of a service that members hold differently; with ``local=true`` all that this one holds.

    A change that is on its way to a member shows as a difference for a moment. Shape: docs/operations/inspect.md.
    """
    values = load_parameters(NeededServiceSchema, call.parameters)
    namespace, service = values["namespace"], values["service"]
    own = held_here(services, namespace, service)
    if load_parameters(LocalSchema, call.parameters)["local"]:
        return json_reply(own)
    asked = {"namespaceId": namespace, "serviceName": service}
    told, silent, other_kinds = ask_all(services, PATH, asked, own, is_held, ASK_S)
    too_large = any(one["instances"] is None for one in told.values())
    differing = [] if too_large else compared({address: one["instances"] for address, one in told.items()})
    return json_reply(
        {
            "namespaceId": namespace,
            "serviceName": service,
            "responsible": services.cluster.map_srv(service),
            "tooLarge": too_large,
            "members": {
                address: {"known": one["known"], "instances": one["count"]} for address, one in sorted(told.items())
            },
            "count": len(differing),
            "differing": differing[:SHOWN_MAX],
            "notAnswered": silent,
            "otherKinds": other_kinds,
        }
    )


def held_here(services: Services, namespace: str, service: str) -> dict[str, Any]:
    """Return what this member shows of a service. Shape: known, count, instances (null for more than 5,000)."""
    view = services.naming.service_view(namespace, service)
    found = view.instances if view is not None else ()
    instances = None
    if len(found) <= COMPARED_MAX:
        instances = {
            f"{one.ip}#{one.port}#{one.cluster_name}": {
                "healthy": one.healthy,
                "enabled": one.enabled,
                "weight": float(one.weight),
                "ephemeral": one.ephemeral,
                "metadata": dict(one.metadata or {}),
            }
            for one in found
        }
    return {"known": view is not None, "count": len(found), "instances": instances}


def is_held(told: Mapping[str, Any]) -> bool:
    """Return whether a member's answer has the form of ``held_here``."""
    instances = told.get("instances")
    if not isinstance(told.get("known"), bool) or not isinstance(told.get("count"), int):
        return False
    if not isinstance(instances, dict):
        return instances is None
    return len(instances) <= COMPARED_MAX and all(
        _address(key) and isinstance(one, dict) and one.keys() >= set(FIELDS) and isinstance(one["metadata"], dict)
        for key, one in instances.items()
    )


def compared(held: Mapping[str, Mapping[str, Held]]) -> list[dict[str, Any]]:
    """Return the instances that not all members hold with the same fields.

    Shape: ip, port, clusterName, fields (the names of those that differ), held (by member, null for one without it).
    """
    found = []
    for key in sorted(set[str]().union(*held.values())):
        of = {address: instances.get(key) for address, instances in held.items()}
        present = [one for one in of.values() if one is not None]
        fields = [name for name in FIELDS if any(one[name] != present[0][name] for one in present)]
        if fields or len(present) < len(of):
            ip, port, cluster = _address(key) or ("", "0", "")
            found.append({"ip": ip, "port": int(port), "clusterName": cluster, "fields": fields, "held": of})
    return found


def _address(key: str) -> tuple[str, str, str] | None:
    """Return the host, the port in digits, and the cluster in a key; None for another text."""
    ip, _, rest = key.partition("#")
    port, splitter, cluster = rest.partition("#")
    return (ip, port, cluster) if splitter and port.isascii() and port.isdecimal() and len(port) < 6 else None
