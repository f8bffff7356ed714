"""The call that has this member exchange one service with the others, after the audit found that they differ."""

import math

from app.auth.access_rules import MEMBERS, WRITE, admin
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.input.fields import InstanceKeys, Trimmed
from app.http.input.schemas import NeededServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import HEAL
from app.naming.model.keys import check_namespace, check_printable, check_service_chars, check_service_format

HEAL_OF_MEMBER = "/v1/ns/service/heal"
"""The path of the call that makes another member heal."""


class HealSchema(NeededServiceSchema):
    source = Trimmed("source", "The member to ask; all without it.", "")
    instances = InstanceKeys(
        "instances", "The keys of the wanted instances, with commas between them; all without it.", ()
    )


@route(
    "POST",
    "/v1/ns/operator/heal",
    "/v1/ns/ops/heal",
    access=admin(WRITE),
    described=Described(HEAL, takes=(HealSchema,)),
)
def heal(call: Call, services: Services) -> Answer:
    """Fetch what the other members hold of a service, and take it by the rules of replication; returns at once.

    Shape: address, owner, keys, owned, asked. An operator's call like the switches: anyone who reaches the member may
    make it. It invents and deletes nothing, and is taken seldom enough that the peers do not notice.
    """
    values = load_parameters(HealSchema, call.parameters)
    namespace, service = values["namespace"], values["service"]
    check_service_format(service)
    check_service_chars(service)
    check_namespace(namespace)
    check_printable("namespaceId", namespace)
    services.writes.check_timely(call)
    if wait_ms := services.healer.wait_ms(namespace, service):
        busy = text_reply(503, "as much is healed as this node takes at a time, please try again later")
        return Reply(503, busy.body, busy.content_type, {"Retry-After": str(math.ceil(wait_ms / 1_000))})
    begun = services.healer.heal(namespace, service, values["source"], values["instances"])
    cluster = services.cluster
    return json_reply({"address": cluster.self_address, "owner": cluster.map_srv(service), **begun})


@route("POST", HEAL_OF_MEMBER, access=MEMBERS, described=Described(HEAL, takes=(HealSchema,)))
def heal_of_member(call: Call, services: Services) -> Answer:
    """Do the same for another member, whose operator has all members heal a service."""
    return heal(call, services)
