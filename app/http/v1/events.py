"""Events of the last hours: who changed what, which instances came and went, which member took keys over."""

from typing import Any, ClassVar

import orjson
from marshmallow import validate

from app.auth.access_rules import READ, admin
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Events, Reply, Services, route
from app.http.input.fields import Parameter, StrictFlag, Text, Trimmed, invalid
from app.http.input.forms import NAMESPACE_ID, SERVICE_NAME
from app.http.input.schemas import PORT_RANGE, SERVICE_NAME_TEXT, CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.json_shapes import Shape
from app.http.shapes.operator_shapes import EVENTS
from app.http.v1.changes import EVENT_CONTENT
from app.metrics.event_memory import KINDS
from app.operator.event_queries import (
    NEVER_MS,
    EventQuery,
    as_csv,
    cursor_of,
    is_answer,
    local_events,
    merged,
    read_cursor,
)
from app.peers.asked import ask_all, ask_members

PATHS = "/v1/ns/operator/events", "/v1/ns/ops/events"
EVENTS_PATH = PATHS[0]
ASK_S = 1.5
"""All members are asked at once, and have so long to answer."""
LIMIT_DEFAULT, LIMIT_MAX = 100, 1_000
TEXT_CHARS_MAX = 256
CSV = "text/csv; charset=utf-8"
SAVED = {"Content-Disposition": 'attachment; filename="rollcall-events.csv"', "X-Content-Type-Options": "nosniff"}
"""The headers that make a browser save a file."""


class Count(Parameter[int]):
    """A whole number of up to 18 digits."""

    shape: ClassVar[Shape] = {"type": "integer", "format": "int64", "minimum": 0}

    def read(self, text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > len(str(NEVER_MS)) - 1:
            raise ValueError("it should be a whole number from 0")
        return int(text)


class EventKinds(Parameter["tuple[str, ...]"]):
    """Kinds of events in a comma list."""

    shape: ClassVar[Shape] = {"type": "string", "examples": [",".join(KINDS)]}

    def read(self, text: str) -> tuple[str, ...]:
        given = {one.strip() for one in text.split(",", len(KINDS))}
        if not given <= set(KINDS):
            raise ValueError(f"it should be a list of {', '.join(KINDS)}, with commas between them")
        return tuple(kind for kind in KINDS if kind in given)


class Cursor(Parameter[str]):
    """The ``next`` of an answer."""

    default_error_messages = invalid("it should be the 'next' of an answer")

    def read(self, text: str) -> str:
        read_cursor(text)
        return text


class EventSchema(CallSchema):
    namespace = Trimmed(NAMESPACE_ID, "Only events of this namespace.", "")
    service = Trimmed(SERVICE_NAME, SERVICE_NAME_TEXT + " Only its events, and those of its instances.", "")
    ip = Trimmed("ip", "Only events of instances with this host.", "")
    port = Count("port", "Only events of instances with this port.", 0, validate=PORT_RANGE)
    kinds = EventKinds("kinds", f"Only events of these kinds: {', '.join(KINDS)}.", KINDS)
    text = Text(
        "text",
        "Only events whose line in the audit log contains this text, in any case.",
        "",
        validate=validate.Length(max=TEXT_CHARS_MAX, error=f"it should have at most {TEXT_CHARS_MAX} characters"),
    )
    last_ms = Count("lastMs", "Only events of the last so many milliseconds.", 0)
    after_ms = Count("afterMs", "Only events later than this time, in ms since 1970.", 0)
    before_ms = Count("beforeMs", "Only events earlier than this time, in ms since 1970.", NEVER_MS)
    cursor = Cursor("before", "Only events that are older than those of an answer: its `next`.", "")
    limit = Count(
        "limit",
        f"The most events of the answer, at most {LIMIT_MAX}.",
        LIMIT_DEFAULT,
        validate=validate.Range(1, LIMIT_MAX, error=f"it should be a number from 1 to {LIMIT_MAX}"),
    )
    form = Trimmed(
        "format",
        "The form of the answer: `json` or `csv`.",
        "json",
        validate=validate.OneOf(("json", "csv"), error="it should be json or csv"),
    )
    local = StrictFlag("local", "Only the data of this member.", False)


@route(
    "GET", *PATHS, access=admin(READ).or_members(), described=Described(EVENTS, takes=(EventSchema,), refusals=(400,))
)
def events(call: Call, services: Services) -> Answer:
    """Return what happened lately, as all members remember it, the latest first; with ``local`` as this one does.

    Shape: docs/operations/inspect.md.
    """
    values = load_parameters(EventSchema, call.parameters)
    query = query_of(values, services.wall_ms())
    if values["local"]:
        return json_reply(local_events(services.instruments.audit, query))
    told = all_events(services, query)
    if values["form"] == "csv":
        return Reply(200, as_csv(told["events"]), CSV, SAVED)
    return json_reply(told)


def query_of(values: dict[str, Any], now_ms: int) -> EventQuery:
    """Return the query of a call's loaded parameters."""
    after_ms = max(values["after_ms"], now_ms - values["last_ms"] if values["last_ms"] else -1)
    return EventQuery(
        **{name: values[name] for name in ("namespace", "service", "ip", "port", "kinds", "text", "before_ms")},
        after_ms=after_ms,
        cursor=values["cursor"],
        limit=values["limit"],
    )


def parameters_of(query: EventQuery) -> dict[str, str | int]:
    """Return the parameters of a call that asks another member the same."""
    given: dict[str, str | int] = {
        NAMESPACE_ID: query.namespace,
        SERVICE_NAME: query.service,
        "ip": query.ip,
        "port": query.port,
        "kinds": ",".join(query.kinds),
        "text": query.text,
        "afterMs": max(query.after_ms, 0),
        "beforeMs": query.before_ms if query.before_ms < NEVER_MS else "",
        "before": query.cursor,
        "limit": query.limit,
    }
    return {name: value for name, value in given.items() if value not in ("", 0)}


def all_events(services: Services, query: EventQuery) -> dict[str, Any]:
    """Ask all members that are not DOWN at once, and merge their answers. Blocks. Shape: docs/operations/inspect.md."""
    own = services.cluster.self_address
    here = local_events(services.instruments.audit, query)
    answers, silent, other_kinds = ask_all(
        services, EVENTS_PATH, parameters_of(query), here, lambda one: is_answer(one, query.limit), ASK_S
    )
    merged_events, more = merged(answers, query.limit)
    return {
        "askedAt": own,
        "takenMs": services.wall_ms(),
        "more": more,
        "next": cursor_of(merged_events[-1]) if more and merged_events else "",
        "events": merged_events,
        "members": {address: one["memory"] for address, one in sorted(answers.items())},
        "notAnswered": silent,
        "otherKinds": other_kinds,
    }


# --- the stream -----------------------------------------------------------------------------------------


@route(
    "GET",
    *[f"{path}/changes" for path in PATHS],
    access=admin(READ),
    described=Described(EVENT_CONTENT, refusals=(503,)),
    hot=True,
)
def event_changes(call: Call, services: Services) -> Answer:
    """Stream a text that changes when any member has new events, at once and after some seconds. Shape: rev.

    It tells no event: who follows reads the events again. A stream lasts for a minute; open it again then.
    """
    return followed(services)


def followed(services: Services) -> Events:
    """Return the stream of the revisions of all members' events."""
    memory, own = services.instruments.audit.memory, services.cluster.self_address

    def look() -> dict[str, str]:
        found, _ = ask_members(services, "GET", EVENTS_PATH, {"limit": 1, "local": "true"}, ASK_S, down_too=False)
        told = {address: one["memory"] for address, one in found.items() if one is not None and is_answer(one, 1)}
        return {address: str(one.get("rev")) for address, one in told.items()}

    def read() -> bytes:
        revisions = {**memory.others.revisions(look), own: memory.revision}
        return orjson.dumps({"rev": " ".join(f"{member}={rev}" for member, rev in sorted(revisions.items()))})

    return Events(("events",), read)
