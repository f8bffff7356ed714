"""Members: their reports to each other, and the list that this node has of them. Shape of all: code, message, data."""

from typing import Any

import orjson
from marshmallow import INCLUDE, Schema, fields, validate

from app.auth.access_rules import MEMBERS, PUBLIC, READ, WRITE, admin
from app.config.lookup_settings import ADDRESS_SERVER, FILE, LOOKUPS
from app.http.api.answers import json_reply, rest_refusal, rest_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input import json_text
from app.http.input.fields import PRESENT, Text, Trimmed
from app.http.input.schemas import PORT_RANGE, CallSchema, load, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import (
    ADDRESSES_BODY,
    ADDRESSES_RESULT,
    EMPTY_RESULT,
    MEMBER_RESULT,
    MEMBERS_RESULT,
    REPORT,
    REPORT_BODY,
    TEXT_RESULT,
)
from app.members.member_sources import NoListError
from app.naming.model.nacos_errors import InvalidParam
from distro.model.types import MemberState

NACOS_LOOKUPS = (FILE, ADDRESS_SERVER)


class NodesSchema(CallSchema):
    keyword = Trimmed("keyword", "The beginning of the addresses of the wanted members.", "")


class LookupSchema(CallSchema):
    type = Text("type", "The source of the member list: `file`, `address-server` or `dns`.", needs=PRESENT)


class MemberSchema(Schema):
    """The body of POST ``/core/cluster/report``; unknown fields are kept. Source: Nacos 1.4.1 Member.check."""

    class Meta:
        unknown = INCLUDE

    ip = fields.String(required=True, validate=validate.Length(1, 255))
    port = fields.Integer(required=True, strict=True, validate=PORT_RANGE)
    address = fields.String(allow_none=True)
    state = fields.String(allow_none=True)
    extend_info = fields.Dict(data_key="extendInfo", keys=fields.String(), allow_none=True)


@route("POST", "/v1/core/cluster/report", access=MEMBERS, described=Described(REPORT, body=REPORT_BODY))
def report(call: Call, services: Services) -> Answer:
    """Take a member's report on itself, from listed members only."""
    try:
        body = orjson.loads(call.body)
    except orjson.JSONDecodeError:
        raise InvalidParam("the body should be a member as a JSON object") from None
    try:
        load(MemberSchema, body if isinstance(body, dict) else {})
    except InvalidParam:
        return rest_refusal(400, "Node information is illegal")
    return json_reply(services.reports.receive_report(body, call.remote_ip))


@route(
    "GET",
    "/v1/core/cluster/nodes",
    access=admin(READ).or_members(),
    described=Described(MEMBERS_RESULT, takes=(NodesSchema,)),
)
def nodes(call: Call, services: Services) -> Answer:
    """All members, or those whose address begins with ``keyword``."""
    return rest_reply(members_json(services, load_parameters(NodesSchema, call.parameters)["keyword"]))


def members_json(services: Services, prefix: str) -> list[dict[str, Any]]:
    """The members whose address begins with ``prefix``, each in its wire shape."""
    return [services.cluster.member_json(one) for one in services.cluster.members() if one.address.startswith(prefix)]


@route("GET", "/v1/core/cluster/self", access=admin(READ).or_members(), described=Described(MEMBER_RESULT))
def own_member(call: Call, services: Services) -> Answer:
    """This node as a member, in the wire shape of members."""
    return rest_reply(own_json(services))


def own_json(services: Services) -> dict[str, Any]:
    """This node as a member, in the wire shape."""
    cluster = services.cluster
    return cluster.member_json(next(one for one in cluster.members() if one.address == cluster.self_address))


@route("GET", "/v1/core/cluster/simple/nodes", access=admin(READ).or_members(), described=Described(ADDRESSES_RESULT))
def simple_nodes(call: Call, services: Services) -> Answer:
    """The addresses of the members that are UP."""
    return rest_reply([one.address for one in services.cluster.members() if one.state is MemberState.UP])


@route("GET", "/v1/core/cluster/health", access=PUBLIC, described=Described(TEXT_RESULT))
def health(call: Call, services: Services) -> Answer:
    """The state of this node, such as ``UP``."""
    return rest_reply(services.cluster.state().value)


@route(
    "POST",
    "/v1/core/cluster/switch/lookup",
    access=admin(WRITE),
    described=Described(EMPTY_RESULT, takes=(LookupSchema,)),
)
def switch_lookup(call: Call, services: Services) -> Answer:
    """Take the member list from another source until the next start. Refused, without a change, if it is empty.

    Source: Nacos 1.4.1 NacosClusterController.switchLookup; ``dns`` is ours.
    """
    kind = load_parameters(LookupSchema, call.parameters)["type"]
    if kind not in LOOKUPS:
        return rest_refusal(500, unknown_lookup(kind))
    if services.lookup is None:
        return rest_refusal(500, "this node is alone, and has no list of members")
    try:
        services.lookup.switch(kind)
    except NoListError as error:
        return rest_refusal(500, str(error))
    return rest_reply(None)


def unknown_lookup(kind: str) -> str:
    """Return Nacos's refusal of a source of the member list that there is none of."""
    return f"The addressing mode exists : {kind[:100]}, just support : [[{', '.join(NACOS_LOOKUPS)}]]"


@route("POST", "/v1/core/cluster/server/leave", access=MEMBERS, described=Described(EMPTY_RESULT, body=ADDRESSES_BODY))
def server_leave(call: Call, services: Services) -> Answer:
    """Take members out of the list: refused, as they would be back with the next start, read from the file.

    Source of the refusal: Nacos 2.1.2.
    """
    body = json_text.loads_body(call.body)
    if not isinstance(body, list) or not all(isinstance(address, str) for address in body):
        raise InvalidParam("the body should be a JSON array of addresses")
    return rest_refusal(405, "/v1/core/cluster/server/leave API not allow to use temporarily.")
