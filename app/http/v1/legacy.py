"""Old paths that some clients still call: those under ``/api``, from before 0.8, and those of Raft, from before 1.4."""

from app.auth.access_rules import MEMBERS, READ, WRITE, Target, admin, naming
from app.http.api.agents import ClientType, parse_agent
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.fields import StrictFlag
from app.http.input.forms import DOM
from app.http.input.instance_schemas import DomBeatSchema, DomListSchema
from app.http.input.params import parse_beat, parse_list
from app.http.input.schemas import CallSchema, load_parameters
from app.http.input.values import NamePattern
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import BEAT_REPLY, INSTANCE_LIST
from app.http.shapes.service_shapes import ALL_NAMES
from app.http.v1.instance import answer_beat, answer_list
from app.http.v1.service import names_by_namespace
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, GROUP_SPLITTER
from app.naming.model.nacos_errors import InvalidParam

NAMESPACES_UNKNOWN_UNTIL = (1, 0, 1)
"""The last Nacos-DNS that wants the names of the public namespace alone."""
OLD_RAFT = "caused: old raft protocol already stop;"


class AllNamesSchema(CallSchema):
    responsible_only = StrictFlag("responsibleOnly", "Only services that this member owns.", False)


def _service_of(call: Call) -> str:
    """The full name of ``dom``; its group is always the default one.

    Raises:
        InvalidParam: there is no ``dom``.
    """
    name = call.parameters.required(DOM)
    if not name:
        raise InvalidParam(f"Param '{DOM}' is required.")
    return f"{DEFAULT_GROUP}{GROUP_SPLITTER}{name}"


@route(
    "GET",
    "/v1/ns/api/srvIPXT",
    access=naming(READ, Target.DOM),
    described=Described(INSTANCE_LIST, takes=(DomListSchema,), is_old=True),
)
def srv_ipxt(call: Call, services: Services) -> Answer:
    """The instances of the service ``dom``, as GET ``/instance/list`` answers them."""
    return answer_list(call, services, parse_list(call.parameters, _service_of(call)))


@route(
    "GET",
    "/v1/ns/api/clientBeat",
    access=naming(WRITE, Target.DOM),
    described=Described(BEAT_REPLY, takes=(DomBeatSchema,), is_old=True),
)
def client_beat(call: Call, services: Services) -> Answer:
    """Take a beat for the service ``dom``, as PUT ``/instance/beat``."""
    return answer_beat(call, services, parse_beat(call.parameters, _service_of(call)))


@route(
    "GET",
    "/v1/ns/api/allDomNames",
    access=admin(READ),
    described=Described(ALL_NAMES, takes=(AllNamesSchema,), is_old=True),
)
def all_names(call: Call, services: Services) -> Answer:
    """Names without group, by namespace. Shape: count (of namespaces), doms."""
    only_ours = load_parameters(AllNamesSchema, call.parameters)["responsible_only"]
    names = names_by_namespace(services, services.naming.namespaces(), NamePattern(), responsible_only=only_ours)
    agent = parse_agent(call.agent)
    if agent.type is ClientType.DNS and agent.version <= NAMESPACES_UNKNOWN_UNTIL:
        return json_reply({"count": len(names), "doms": names.get(DEFAULT_NAMESPACE, [])})
    return json_reply({"count": len(names), "doms": names})


@route(
    "POST",
    *(f"/v1/ns/raft/{name}" for name in ("vote", "beat", "datum", "datum/commit")),
    access=MEMBERS,
    described=Described(None, refusals=(501,), is_old=True),
)
@route("PUT", "/v1/ns/raft/datum/reload", access=MEMBERS, described=Described(None, refusals=(501,), is_old=True))
@route(
    "DELETE",
    "/v1/ns/raft/datum",
    "/v1/ns/raft/datum/commit",
    access=MEMBERS,
    described=Described(None, refusals=(501,), is_old=True),
)
@route(
    "GET",
    *(f"/v1/ns/raft/{name}" for name in ("peer", "datum", "state", "listeners", "leader")),
    access=admin(READ),
    described=Described(None, refusals=(501,), is_old=True),
)
def old_raft(call: Call, services: Services) -> Answer:
    """Refuse calls of the Raft before 1.4, in Nacos's words but with 501: its 500 would be a fault of this node."""
    return text_reply(501, OLD_RAFT)
