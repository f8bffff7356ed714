"""Links between clusters: the calls with which another cluster follows this one, and this cluster's own links."""

import math
from collections.abc import Callable
from typing import Any

import orjson
from marshmallow import validate

from app.auth.access_rules import LOGGED_IN, READ, WRITE, admin
from app.commands.record_commands import ChangeLink, ResetLink
from app.config.link_fields import PATTERNS
from app.config.link_settings import LinkFilter
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import JSON, Answer, Call, Lines, Reply, Services, rendered, route
from app.http.api.stream_answers import LINES_TYPE
from app.http.api.user_access import may_read
from app.http.input.fields import FILLED, PRESENT, JsonObject, Needed, Number, Text, Trimmed
from app.http.input.schemas import CallSchema, LocalSchema, load_parameters
from app.http.shapes.described import Content, Described
from app.http.shapes.json_shapes import text
from app.http.shapes.link_shapes import CALLED, COMPARED, FETCHED, HELD_BODY, LINKS
from app.links.feed_lines import FollowedPart, takes_of
from app.links.follower import SLICES_MAX
from app.naming.model.json_fields import parse_json
from app.naming.model.keys import DEFAULT_CLUSTER, check_names, check_service_format
from app.naming.model.nacos_errors import InvalidParam
from app.naming.wire.foreign_wire import parse_digest
from app.peers.asked import ask_all
from distro.model.errors import CodecError

COMPARE, CHANGES, LINKS_PATH = "/v1/ns/link/compare", "/v1/ns/link/changes", "/v1/ns/link/list"
FETCH, CALLED_PATH = "/v1/ns/link/fetch", "/v1/ns/link"
MEMBERS_MAX = 1_000
HELD_MAX = 20_000
ANSWER_BYTES_MAX = 2 * 1024 * 1024
"""The bytes of services in one answer to a comparison, plus one service."""
ASK_S = 1.0
FETCHED_MAX = 1_000
"""Services that one request to fetch again names."""
LINES_CONTENT = Content(LINES_TYPE, text('{"cluster":"dc-a","place":7}\n', "Lines, each of which is a JSON object."))
_FROM_0 = validate.Range(min=0, error="it should be 0 or more")


class PartSchema(CallSchema):
    part = Number("part", "The part of the services that is followed, from 0.", 0, validate=_FROM_0)
    of = Number(
        "of",
        "The number of parts.",
        1,
        validate=validate.Range(1, MEMBERS_MAX, error=f"it should be from 1 to {MEMBERS_MAX}"),
    )
    namespaces = Trimmed("namespaces", "Patterns of namespaces, as of a link.", "*")
    groups = Trimmed("groups", "Patterns of groups.", "*")
    services = Trimmed("services", "Patterns of services.", "*")


class SliceSchema(PartSchema):
    number = Number("slice", "The slice of the part that is compared, from 0.", 0, validate=_FROM_0)
    slices = Number(
        "slices",
        "The number of slices.",
        1,
        validate=validate.Range(1, SLICES_MAX, error=f"it should be from 1 to {SLICES_MAX}"),
    )


class ChangesSchema(PartSchema):
    run = Text("run", "The log that `since` is a place in.", needs=PRESENT)
    # Above Java's int: a busy cluster counts that far within a month.
    since = Trimmed(
        "since",
        "The number of the last change that is known.",
        "0",
        validate=validate.Regexp(r"[0-9]{1,15}\Z", error="it should be a number of at most 15 digits"),
    )


def _part(values: dict[str, Any]) -> FollowedPart:
    """Return the part that is asked about.

    Raises:
        InvalidParam: names the parameter that is wrong.
    """
    if values["part"] >= values["of"]:
        raise InvalidParam("Parameter 'part' is illegal: it should be below that of 'of'")
    patterns = []
    for name in ("namespaces", "groups", "services"):
        try:
            patterns.append(PATTERNS.parse(values[name]))
        except ValueError:
            raise InvalidParam(f"Parameter '{name}' is illegal: it should be {PATTERNS.allowed}") from None
    return FollowedPart(values["part"], values["of"], LinkFilter(*patterns))


@route("POST", COMPARE, access=LOGGED_IN, described=Described(COMPARED, takes=(SliceSchema,), body=HELD_BODY))
def compare(call: Call, services: Services) -> Answer:
    """Compare what another cluster holds of the services registered here with how they are, for a link.

    Only services that the caller may read. Shape: docs/wire.md.
    """
    values = load_parameters(SliceSchema, call.parameters)
    part, links, slices = _part(values), services.links, values["slices"]
    takes, number = takes_of(part, may_read(call, services)), values["number"]
    held = _held(call.body)
    links.feed.begin()
    place = links.feed.place()

    def is_chosen(namespace: str, full_name: str) -> bool:
        return part.slice_of(full_name, slices) == number and takes(namespace, full_name)

    found, gone, count, more = links.feed.compare(held, is_chosen, ANSWER_BYTES_MAX)
    total = services.naming.service_count() // part.of
    fields = links.greeting().fields(links.feed, place) | {"count": count, "services": total, "more": more}
    head = orjson.dumps(fields | {"gone": gone})
    return Reply(200, head[:-1] + b',"set":[%b]}' % b",".join(found), JSON)


def _held(body: bytes) -> dict[tuple[str, str], int]:
    """Return the digests in a body. Shape: ``{"held": [[namespace, full name, digest] ...]}``.

    Raises:
        InvalidParam: the body is something else.
    """
    try:
        fields = parse_json(body, "the body") if body else {"held": []}
        rows = fields.get("held") if isinstance(fields, dict) else None
        if not isinstance(rows, list) or len(rows) > HELD_MAX:
            raise InvalidParam(f"field 'held' of the body should be a list of at most {HELD_MAX} rows")
        for row in rows:
            if not isinstance(row, list) or len(row) != 3 or not all(isinstance(one, str) for one in row):
                raise InvalidParam("a row of field 'held' should be a namespace, a full name and a digest")
        return {(row[0], row[1]): parse_digest(row[2], "held") for row in rows}
    except CodecError as error:
        raise InvalidParam(str(error)) from None


@route("GET", CHANGES, access=LOGGED_IN, described=Described(LINES_CONTENT, takes=(ChangesSchema,)), hot=True)
def changes(call: Call, services: Services) -> Answer:
    """The changes of the services registered here after a place in the log, for a link, as they happen.

    A stream lasts for a minute; open it again then. Shape: docs/wire.md.
    """
    values = load_parameters(ChangesSchema, call.parameters)
    reader: Callable[[str, str], bool] = may_read(call, services)
    return Lines(services.links.lines(_part(values), reader, values["run"], int(values["since"])))


@route("GET", LINKS_PATH, access=admin(READ).or_members(), described=Described(LINKS, takes=(LocalSchema,)))
def list_links(call: Call, services: Services) -> Answer:
    """The links to other clusters, as each member has them; with ``local=true`` as this one has them alone.

    Shape: docs/links.md.
    """
    links, address = services.links, services.cluster.self_address
    own = {"address": address, "error": links.error, "links": links.states(), "byCall": links.called()}
    members, silent, other_kinds = [own], list[str](), list[str]()
    if not load_parameters(LocalSchema, call.parameters)["local"]:
        told, silent, other_kinds = ask_all(services, LINKS_PATH, {}, {"members": [own]}, _is_whole, ASK_S)
        members = [one["members"][0] for _, one in sorted(told.items())]
    found = {"cluster": links.greeting().cluster, "members": members}
    return json_reply(found | {"notAnswered": silent, "otherKinds": other_kinds})


def _is_whole(answer: dict[str, Any]) -> bool:
    """Return whether an answer to ``local`` has the links of one member."""
    members = answer.get("members")
    return isinstance(members, list) and len(members) == 1 and isinstance(members[0], dict) and "links" in members[0]


class LinkNameSchema(CallSchema):
    name = Needed("name", "The link.", needs=FILLED)


class LinkChangeSchema(LinkNameSchema):
    settings = JsonObject(
        "settings",
        "The fields to set, as in the file; an empty text takes a field back to the file.",
        needs=PRESENT,
        example='{"servers":"10.1.0.1:8848"}',
    )


@route("PUT", CALLED_PATH, access=admin(WRITE), described=Described(CALLED, takes=(LinkChangeSchema,)))
def change_link(call: Call, services: Services) -> Answer:
    """Set fields of a link at all members, above those of their files and without a restart. Other fields stay.

    Returns all fields of the link that calls set. `password` and `trusted` are set in the file of each member alone.
    """
    values = load_parameters(LinkChangeSchema, call.parameters)
    fields = {name: _field_text(name, value) for name, value in values["settings"].items()}
    outcome = services.writes.execute(ChangeLink(values["name"], fields), call)
    return rendered(outcome, _called_reply(services, values["name"]))


@route(
    "DELETE", CALLED_PATH, access=admin(WRITE), described=Described(CALLED, takes=(LinkNameSchema,), refusals=(404,))
)
def reset_link(call: Call, services: Services) -> Answer:
    """Take a link back to the settings in the file of each member; without any there, it ends."""
    name = load_parameters(LinkNameSchema, call.parameters)["name"]
    return rendered(services.writes.execute(ResetLink(name), call), _called_reply(services, name))


def _field_text(name: str, value: object) -> str:
    """Return a field of a link as text.

    Raises:
        InvalidParam: it is a list, an object or null.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidParam(f"Parameter 'settings' is illegal: field '{name}' should be a text, a number, true or false")


def _called_reply(services: Services, name: str) -> Reply:
    return json_reply({"link": name, "byCall": services.durable.links.fields(name)})


class FetchSchema(CallSchema):
    name = Needed("name", "The link.", needs=FILLED)
    services = JsonObject(
        "services",
        f"Services to fetch whole, at most {FETCHED_MAX}: lists of their full names, by namespace.",
        {},
        example='{"public":["DEFAULT_GROUP@@orders"]}',
    )


@route("POST", FETCH, access=admin(WRITE), described=Described(FETCHED, takes=(FetchSchema,), refusals=(404,)))
def fetch(call: Call, services: Services) -> Answer:
    """Have a link of this member fetch again: it compares all services that this member follows with the other cluster.

    It fetches the named ones whole, even if their digests are equal. Returns at once. It invents and removes nothing
    but what the other cluster states. A link takes such a call every 2 s.
    """
    values = load_parameters(FetchSchema, call.parameters)
    named = _named(values["services"])
    services.writes.check_timely(call)
    if wait_ms := services.links.fetch_again(values["name"], named):
        busy = text_reply(503, "the link was just asked to fetch again, please try again later")
        return Reply(503, busy.body, busy.content_type, {"Retry-After": str(math.ceil(wait_ms / 1_000))})
    return json_reply({"address": services.cluster.self_address, "link": values["name"], "services": len(named)})


def _named(given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the services of a request to fetch again, as namespaces and full names.

    Raises:
        InvalidParam: they are not lists of names, or too many.
    """
    if not all(isinstance(one, list) for one in given.values()):
        raise InvalidParam("Parameter 'services' is illegal: it should have a list of full names for each namespace")
    named = [(namespace, name) for namespace, names in given.items() for name in names]
    if len(named) > FETCHED_MAX:
        raise InvalidParam(f"Parameter 'services' is illegal: it should name at most {FETCHED_MAX} services")
    for namespace, name in named:
        if not isinstance(name, str):
            raise InvalidParam("Parameter 'services' is illegal: the name of a service should be a text")
        check_names(name, DEFAULT_CLUSTER, namespace)
        check_service_format(name)
    return named
