"""Why one instance is as it is: what this member knows of it, or all members, side by side and with a verdict."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from app.auth.access_rules import READ, naming
from app.auth.user_rights import Resource
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.forms import Parameters, namespace_of
from app.http.input.instance_schemas import CLUSTER_NAME, DetailQuery, ExplainSchema
from app.http.input.params import check_numbers, parse_detail
from app.http.input.schemas import LocalSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import EXPLAINED
from app.naming.model.ip_addresses import is_same_ip
from app.naming.model.keys import check_ip, check_port
from app.operator.instance_facts import AskedInstance
from app.operator.instance_places import InstancePlace
from app.operator.verdict import compare, elsewhere_words
from app.peers.asked import AllAnswers, ask_all

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
    described=Described(EXPLAINED, takes=(ExplainSchema, LocalSchema)),
)
def explain(call: Call, services: Services) -> Answer:
    """Return each member's facts about an instance; with ``local=true`` only this one's.

    Shape: docs/operations/inspect.md.

    Without ``clusterName`` the instance is searched in all clusters, and in all groups if the named group lacks it.
    """
    asked, own = asked_instance(call.parameters, services), services.cluster.self_address
    named = asked.service
    is_local = load_parameters(LocalSchema, call.parameters)["local"]
    places = services.explainer.places(asked.namespace, asked.service, asked.ip, asked.port)
    has_cluster = bool(call.parameters.optional(CLUSTER_NAME.key))
    if not has_cluster:
        places = _readable(places, call, services)
        asked = _at_best(asked, places)
    facts = services.explainer.facts(asked) | {"places": [one.facts() for one in places]}
    if is_local:
        return json_reply(facts)
    told, silent, other_kinds = _told(services, asked, facts)
    seen = {InstancePlace.of(one) for each in told.values() for one in each.get("places", ())}
    places = sorted(_readable(seen, call, services), key=lambda one: one.rank(asked.service))
    if not has_cluster and not _holds(places, asked) and (better := _at_best(asked, places)) != asked:
        asked = better  # this member lacks it, and another one has it
        facts = services.explainer.facts(asked)
        told, silent, other_kinds = _told(services, asked, facts)
    elsewhere = [one for one in places if (one.service, one.cluster) != (asked.service, asked.cluster)]
    verdict, differences = compare(told, silent)
    if asked.service != named:
        verdict.insert(0, f"{named} does not have it: this is the instance of {asked.service}.")
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
            "verdict": [*verdict, *elsewhere_words([(one.service, one.cluster) for one in elsewhere if one.is_held])],
            "differences": differences,
            "notAnswered": silent,
            "otherKinds": other_kinds,
            "elsewhere": [one.facts() for one in elsewhere],
            "members": told,
        }
    )


def _told(services: Services, asked: AskedInstance, facts: dict[str, Any]) -> AllAnswers:
    """Ask all other members, DOWN ones too. ``facts``: this member's."""
    parameters = instance_parameters(asked)
    return ask_all(services, EXPLAIN, parameters, facts, lambda one: one.keys() >= TOLD, ASK_S, down_too=True)


def _readable(places: Iterable[InstancePlace], call: Call, services: Services) -> list[InstancePlace]:
    """Return the places that the caller may read: its right to the named service says nothing about other groups."""
    if not services.access.enabled or call.caller.is_member:
        return list(places)
    rights, namespace = services.access.table.rights(call.user), namespace_of(call.parameters)
    return [one for one in places if rights.allows(READ, Resource.of_service(namespace, one.service))]


def _at_best(asked: AskedInstance, places: list[InstancePlace]) -> AskedInstance:
    """Return the instance at the best place where it is known; as it was asked for if there is none."""
    if not places:
        return asked
    best = places[0]
    return replace(asked, service=best.service, cluster=best.cluster, ip=best.ip)


def _holds(places: list[InstancePlace], asked: AskedInstance) -> bool:
    return any(one.is_held and (one.service, one.cluster) == (asked.service, asked.cluster) for one in places)


def instance_parameters(asked: AskedInstance) -> dict[str, str | int]:
    """The parameters that name an instance in a call to another member."""
    return {
        "namespaceId": asked.namespace,
        "serviceName": asked.service,
        "ip": asked.ip,
        "port": asked.port,
        "clusterName": asked.cluster,
    }
