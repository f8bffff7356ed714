"""Why one instance is as it is: what this member knows of it, or all members, side by side and with a verdict."""

from app.auth.access_rules import READ, naming
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.forms import Parameters
from app.http.input.instance_schemas import DetailQuery, InstanceSchema
from app.http.input.params import check_numbers, parse_detail
from app.http.input.schemas import LocalSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import EXPLAINED
from app.naming.model.ip_addresses import is_same_ip
from app.naming.model.keys import check_ip, check_port
from app.operator.instance_facts import AskedInstance
from app.operator.verdict import compare
from app.peers.asked import ask_members

EXPLAIN = "/v1/ns/explain"
ASK_S = 3.0
"""All members are asked at once, and have so long to answer."""
TOLD = frozenset(
    ("address", "responsible", "serviceKnown", "listed", "removed", "heldBack", "persistent", "persistentRemoved")
) | {"published", "shown", "history", "pending", "subscribers"}
"""The fields that the verdict reads. A member that tells fewer is of another release, and counts as silent."""


def asked_instance(parameters: Parameters, services: Services) -> AskedInstance:
    """The instance that a call names.

    Raises:
        InvalidParam: a name is missing, or no instance can have such an address; the text names the parameter.
    """
    check_numbers(parameters)
    query = parse_detail(parameters)
    check_ip(query.ip)
    check_port(query.port)
    ip = _registered_ip(query, services) if ":" in query.ip else query.ip
    return AskedInstance(query.namespace, query.service, ip, query.port, query.cluster)


def _registered_ip(query: DetailQuery, services: Services) -> str:
    """The address as the instance has it: clients write IPv6 in several ways."""
    view = services.naming.service_view(query.namespace, query.service)
    for one in view.instances if view else ():
        if (one.port, one.cluster_name) == (query.port, query.cluster) and is_same_ip(one.ip, query.ip):
            return one.ip
    return query.ip


@route(
    "GET",
    EXPLAIN,
    access=naming(READ).or_members(),
    described=Described(EXPLAINED, takes=(InstanceSchema, LocalSchema)),
)
def explain(call: Call, services: Services) -> Answer:
    """Return each member's facts about an instance; with ``local=true`` this one's alone. Shape: docs/operations.md."""
    asked, own = asked_instance(call.parameters, services), services.cluster.self_address
    facts = services.explainer.facts(asked)
    if load_parameters(LocalSchema, call.parameters)["local"]:
        return json_reply(facts)
    found, other_kinds = ask_members(services, "GET", EXPLAIN, _parameters(asked), ASK_S)
    told = {own: facts}
    silent = []
    for address, answer in found.items():
        if answer is not None and answer.get("address") == address and answer.keys() >= TOLD:
            told[address] = answer
        else:
            silent.append(address)
    verdict, differences = compare(told, silent)
    return json_reply(
        {
            "instance": {
                "namespaceId": asked.namespace,
                "serviceName": asked.service,
                "ip": asked.ip,
                "port": asked.port,
                "clusterName": asked.cluster,
            },
            "askedAt": own,
            "verdict": verdict,
            "differences": differences,
            "notAnswered": sorted(silent),
            "otherKinds": other_kinds,
            "members": told,
        }
    )


def _parameters(asked: AskedInstance) -> dict[str, str | int]:
    return {**instance_parameters(asked), "local": "true"}


def instance_parameters(asked: AskedInstance) -> dict[str, str | int]:
    """The parameters that name an instance in a call to another member."""
    return {
        "namespaceId": asked.namespace,
        "serviceName": asked.service,
        "ip": asked.ip,
        "port": asked.port,
        "clusterName": asked.cluster,
    }
