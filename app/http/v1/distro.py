"""The calls of peers about datums. Taken from listed members only; standalone, from this machine."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import methodcaller
from typing import Any

import orjson
from marshmallow import fields

from app.auth.access_rules import MEMBERS, RECENT_MEMBERS
from app.http.api.agents import is_peer
from app.http.api.call import (
    BYTES,
    CLOCK,
    DECLINE,
    JSON,
    OK,
    RELAY,
    TEXT,
    Answer,
    Call,
    Decline,
    Reply,
    Services,
    route,
)
from app.http.input import json_text
from app.http.input.fields import FILLED, PRESENT, StrictFlag, Text
from app.http.input.schemas import CallSchema, load, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DATUM_BODY, DATUMS, KEYS_BODY, RECEIVED
from app.members.membership import check_late
from app.naming.model.keys import CLIENT_KEY_PREFIX, EPHEMERAL_PREFIX, parse_datum_key
from app.naming.model.nacos_errors import InvalidParam
from app.peers.beats import take_batch
from app.peers.small_datums import SMALL_BYTES, SMALL_ZIPPED_BYTES
from distro.model.errors import CodecError
from distro.wire.codec import GZIP_MAGIC, gunzip_if_gzip

TYPE = "type"
SMALL_SERVICES = 500
ON_LOOP = (EPHEMERAL_PREFIX, CLIENT_KEY_PREFIX)
_is_on_loop = methodcaller("startswith", ON_LOOP)
_EMPTY_MAP = re.compile(rb"\s*\{\s*\}\s*")
PASSED_MS_MAX = 1_000
"""A beat of this age that came to another member than its owner is not passed on; a later one is."""


class SourceSchema(CallSchema):
    """PUT ``/distro/checksum``: the member that sends it."""

    source = Text("source", "The address of the member that sends.", needs=PRESENT)


class TypeSchema(CallSchema):
    """Calls of members about one resource type."""

    type = Text(TYPE, "The resource type; instances of services without it.", "")


class PagesSchema(CallSchema):
    """Calls of members that read page by page."""

    pages = StrictFlag("pages", "Ask for the first page, and not for all.", False)


class KeysSchema(CallSchema):
    """The body of GET ``/distro/datum``."""

    keys = Text("keys", "", needs=FILLED)
    listed = fields.List(fields.String())


@route("PUT", "/v1/ns/distro/datum", access=RECENT_MEMBERS, hot=True, described=Described(RECEIVED, body=DATUM_BODY))
def put_datum(call: Call, services: Services) -> Answer:
    """Take the datums of a peer. Shape: ``{key: {key, value, timestamp}}``, gzip or plain."""
    if _EMPTY_MAP.fullmatch(call.body):
        # Real Nacos answers 400, and as a sender repeats the same empty map for ever.
        if services.cluster.standalone or not is_peer(call.agent):
            raise InvalidParam("receive empty entity!")
        return OK
    frame = _small_frame(call.body) if call.on_loop else call.read
    if call.on_loop and not (frame and all(map(_is_on_loop, frame))):
        return Decline(frame)  # a durable record is written to the disk
    check_late(call.deadline, services.cluster, services.http)
    return _received(services.replication.receive(call.body, call.headers, call.remote_ip, frame))


def _small_frame(body: bytes) -> dict[str, Any] | None:
    """Return the object of a small body; None for a large one, and for one that cannot be read."""
    size_max = SMALL_ZIPPED_BYTES if body.startswith(GZIP_MAGIC) else SMALL_BYTES
    if len(body) > size_max:
        return None
    try:
        frame = orjson.loads(gunzip_if_gzip(body, SMALL_BYTES))
    except (CodecError, orjson.JSONDecodeError):
        return None
    return frame if isinstance(frame, dict) else None


@route(
    "PUT",
    "/v1/ns/distro/checksum",
    access=MEMBERS,
    hot=True,
    described=Described(RECEIVED, takes=(SourceSchema, TypeSchema), body=DATUM_BODY),
)
def put_checksum(call: Call, services: Services) -> Answer:
    """Compare a peer's datums with those here; fetch the ones that differ. Shape: ``{key: checksum or version}``."""
    # Of a type that is named there may be many keys in few services.
    is_small = len(call.body) <= SMALL_BYTES and services.naming.service_count() <= SMALL_SERVICES
    if call.on_loop and not (is_small and not _type(call)):
        return DECLINE
    source = load_parameters(SourceSchema, call.parameters)["source"]
    return _received(services.replication.verify(call.body, source, call.headers, call.remote_ip, _type(call)))


@route("PUT", "/v1/ns/distro/digest", access=MEMBERS, described=Described(RECEIVED, body=DATUM_BODY))
def put_digest(call: Call, services: Services) -> Answer:
    """Answer one message of a verify round that compares digests, of a Rollcall peer. Shape: docs/wire-data.md."""
    return Reply(200, services.replication.compare(call.body, call.headers, call.remote_ip), JSON)


@route("PUT", "/v1/ns/distro/beats", access=MEMBERS, hot=True, described=Described(RECEIVED, body=DATUM_BODY))
def put_beats(call: Call, services: Services) -> Answer:
    """Take the beats that a peer of our kind got for services of this node; see ``app.peers.beats``."""
    if call.on_loop and len(call.body) > SMALL_BYTES:
        return DECLINE
    # Instances that are not loaded yet would count as unknown.
    services.writes.check_timely(call)

    is_relayed, now_ms = call.header(RELAY) is not None, services.monotonic_ms()
    clock = call.header(CLOCK)
    # It may have waited in a socket of this process. A clock is told with the run, which begins with the address.
    late_ms = max(now_ms - services.cluster.sent_ms((clock or "").partition("~")[0], clock), 0)

    def take(key: str, told: Mapping[str, int]) -> list[str]:
        ages = {name: age_ms + late_ms for name, age_ms in told.items()} if late_ms else told
        parsed = parse_datum_key(key)
        if parsed is None:
            return []
        if services.cluster.responsible(parsed[1]):
            return services.naming.take_beats(key, ages)
        # The sender cannot call the owner (R12), or sees another one: after a cut views differ for a while. If they
        # do for long, a beat must not go in a circle.
        passed = ages if is_relayed else {name: age_ms for name, age_ms in ages.items() if age_ms < PASSED_MS_MAX}
        beats, owner = services.beats, services.cluster.map_srv(parsed[1])
        return [name for name, age_ms in passed.items() if not beats.collect(owner, key, name, now_ms - age_ms)]

    return Reply(200, take_batch(json_text.loads_body(call.body, of_member=True), take), JSON)


@route("GET", "/v1/ns/distro/datum", access=MEMBERS, described=Described(DATUMS, takes=(PagesSchema,), body=KEYS_BODY))
def get_datum(call: Call, services: Services) -> Answer:
    """The datums of the keys in the body; keys without one are left out. Shape of the body: ``{"keys": "k1,k2"}``.

    Where a key has a comma, the body has the keys as an array besides: ``listed``.
    A Rollcall member that asks with ``pages=true`` gets the first of them, as many as a page holds.
    """
    body = json_text.loads_body(call.body, of_member=True)
    if not isinstance(body, dict):
        raise InvalidParam("the body should be a JSON object with 'keys'")
    asked = load(KeysSchema, body)
    keys = asked.get("listed") or [key for key in asked["keys"].split(",") if key]
    answer = services.replication.page if _asks_for_pages(call) else services.replication.datums
    return _datums(*answer(keys, call.headers, call.remote_ip))


@route("GET", "/v1/ns/distro/datums", access=MEMBERS, described=Described(DATUMS, takes=(PagesSchema, TypeSchema)))
def get_datums(call: Call, services: Services) -> Answer:
    """All datums of this node; 503 while it loads and is empty: a peer would take an empty answer for the whole data.

    A Rollcall member that asks with ``pages=true`` gets the versions of all keys, and asks for the datums by key.
    """
    answer = services.replication.page if _asks_for_pages(call) else services.replication.datums
    return _datums(*answer(None, call.headers, call.remote_ip, _type(call)))


def _asks_for_pages(call: Call) -> bool:
    asks: bool = load_parameters(PagesSchema, call.parameters)["pages"]
    return asks


def _type(call: Call) -> str:
    """The resource type that a Rollcall member names; empty from real Nacos, which has only one type."""
    return call.parameters.get(TYPE) or ""


def _received(body: bytes) -> Reply:
    return Reply(200, body, TEXT if body == OK.body else JSON)


def _datums(parts: Iterator[bytes], headers: dict[str, str]) -> Reply:
    """The answer of datums: one part, as nearly always, is sent whole; several are sent as they are made."""
    first, second = next(parts), next(parts, None)
    if second is None:
        return Reply(200, first, BYTES, headers)
    return Reply(200, b"", BYTES, headers, stream=chain([first, second], parts))
