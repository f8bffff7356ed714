"""Replies that several endpoints share: JSON, errors of filters, refusals while the node does not serve or own."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import orjson

from app.commands.ownership import BEHIND_TEXT, not_serving_text
from app.commands.write_caller import Misdirected
from app.http.api.agents import is_peer
from app.http.api.call import (
    BEAT_PATHS,
    JSON,
    OK,
    TEXT,
    V3_CLIENT_INSTANCE,
    Call,
    Reply,
    Services,
)
from app.naming.model.json_fields import exact_json
from app.naming.model.nacos_errors import NacosError, NotExecuted, TooManyRequests
from app.naming.model.switches import is_served
from app.naming.records.durable_service import DurableService
from app.peers.headers import NOT_RESPONSIBLE as NOT_RESPONSIBLE
from app.peers.headers import RETRY_AFTER as RETRY_AFTER
from app.ports.http_ports import Cluster
from distro.model.errors import CodecError, NotInitialized
from distro.model.types import MemberState

NAMING = ("/v1/ns", "/v2/ns", "/v3/client/ns", "/v3/admin/ns", "/v3/console/ns")
SWITCHES_PATHS = ("/v1/ns/operator/switches", "/v1/ns/ops/switches")
DRAIN_PATHS = ("/v1/ns/operator/drain", "/v1/ns/ops/drain")
_BELOW_NAMING = tuple(f"{path}/" for path in NAMING)
_BELOW_OPERATOR = tuple(f"{path}/{part}/" for path in NAMING for part in ("operator", "ops"))
_TAKE_BEATS = (*BEAT_PATHS, V3_CLIENT_INSTANCE)
INTERNAL_ERROR = Reply(500, b"caused: internal error, see the server's log")
BEHIND = Reply(503, BEHIND_TEXT.encode(), None)
_UP = MemberState.UP
"""Python 3.11 needs ten times as long to look a member up in its class."""
_TEXT, _RETRY_AFTER = TEXT.encode(), RETRY_AFTER.lower().encode()


class PreparedRefusal(NacosError):
    """A refusal whose answer is made already, as it depends on the call."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("refused")
        self.status = reply.status
        self.reply = reply


def json_reply(value: Any) -> Reply:
    return Reply(200, exact_json(value), JSON)


def json_array_reply(values: Iterable[Any]) -> Reply:
    """The reply with a JSON array, each element encoded by itself: other threads run between two large ones."""
    return Reply(200, b"[" + b",".join([exact_json(value) for value in values]) + b"]", JSON)


def rest_reply(data: Any) -> Reply:
    """A result as Nacos's core and console answer it. Shape: code, message, data."""
    return json_reply({"code": 200, "message": None, "data": data})


def rest_refusal(code: int, message: str) -> Reply:
    """A refusal as Nacos's core and console answer it, in status 200: clients look into the code.

    Shape: code, message, data.
    """
    return json_reply({"code": code, "message": message, "data": None})


def text_reply(status: int, text: str) -> Reply:
    # A call's text is UTF-8, but an error may quote text of a peer or a file, with lone surrogates in it.
    return Reply(status, text.encode("utf-8", "replace"), TEXT)


class MemberReplies:
    """``Replies`` in the form of this frontend."""

    ok = OK

    def refuse(self, status: int, text: str) -> Reply:
        return text_reply(status, text)

    def of_member(self, status: int, body: bytes, headers: Mapping[bytes, bytes]) -> Reply:
        """A member's answer, with the names of its headers in lower case, as the client gets it."""
        content_type, later = headers.get(b"content-type"), headers.get(_RETRY_AFTER)
        if body == OK.body and status == OK.status and content_type == _TEXT and later is None:
            return OK  # nearly each write's, whose head is made already
        reply = Reply(status, body, None if content_type is None else content_type.decode("latin-1"))
        if later is not None:
            reply.headers = {RETRY_AFTER: later.decode("latin-1")}
        return reply

    def relayed(self, status: int, body: bytes, headers: Mapping[bytes, bytes], more: Mapping[str, str]) -> Reply:
        return replace(self.of_member(status, body, headers), headers=more, head=None)


MEMBER_REPLIES = MemberReplies()


def not_serving(status: str) -> Reply:
    """The refusal of a member that does not serve: without a content type, as from the filter of real Nacos."""
    return Reply(503, not_serving_text(status).encode(), None)


def error_reply(error: NacosError | CodecError | NotInitialized) -> Reply:
    """The reply for an error that an endpoint raised: its status and its bare text."""
    match error:
        case PreparedRefusal():
            return error.reply
        case NotExecuted():
            return Reply(error.status, error.text.encode(), None)
        case Misdirected():
            return filter_error(error.uri, error.status, error.text, error.at_ms, {NOT_RESPONSIBLE: "1"})
        case TooManyRequests():
            return later_reply(text_reply(error.status, error.text), error)
        case NacosError():
            return text_reply(error.status, error.text)
        case CodecError():
            return text_reply(400, str(error))
        case NotInitialized():
            return not_serving(MemberState.STARTING.value)


def later_reply(reply: Reply, error: TooManyRequests) -> Reply:
    """The refusal with the time, in whole seconds, after which the client may ask again."""
    return replace(
        reply, headers={**reply.headers, RETRY_AFTER: str(max(math.ceil(error.retry_after_s), 1))}, head=None
    )


def filter_error(uri: str, status: int, message: str, wall_ms: int, headers: dict[str, str] | None = None) -> Reply:
    """An error in the JSON shape of Nacos's filters. Shape: timestamp, status, error, message, path."""
    at = datetime.fromtimestamp(wall_ms / 1000, UTC)
    body = {
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}+0000",
        "status": status,
        "error": HTTPStatus(status).phrase,
        "message": message,
        "path": uri,
    }
    return Reply(status, orjson.dumps(body), JSON, headers or {})


def server_status(services: Services) -> str:
    """The status that this node reports: its state, or while that is UP the status an operator set in its place."""
    state: MemberState = services.cluster.state()
    if state is not MemberState.UP:
        return str(state.value)
    return services.durable.overridden_status or state.value


def refuse_unless_up(call: Call, services: Services) -> Reply | None:
    """The refusal of a naming call to a limited path, or of a client's while the node does not serve; None for none.

    Source: Nacos 1.4.1 TrafficReviseFilter.
    """
    if not is_naming(call.path):
        return None
    refusal = _refusal_of(call, services)
    if refusal is not None and call.path in _TAKE_BEATS:
        services.refusals.note()
    return refusal


def _refusal_of(call: Call, services: Services) -> Reply | None:
    if limited := _limited(call, services):
        return limited
    is_read = call.method in ("GET", "HEAD")
    if services.cluster.is_behind and is_read and not is_peer(call.agent) and not call.path.startswith(_BELOW_OPERATOR):
        return BEHIND
    status = server_status(services)
    if call.path in DRAIN_PATHS and services.cluster.draining:
        return None  # or it could not be taken back
    if is_served(status, is_read=is_read) or is_peer(call.agent):
        return None
    # An operator who set the status must be able to look and to set it back, without a member's agent string.
    # Of a drained node, operators read how it is.
    if call.path.startswith(_BELOW_OPERATOR) and (
        services.cluster.state() is _UP or (is_read and services.cluster.draining)
    ):
        return None
    return not_serving(status)


def is_refused_by_switch_alone(services: Services) -> bool:
    """Return whether this node's data is whole and up to date: then only an operator's switch has it refuse reads."""
    return services.cluster.state() is _UP and not services.cluster.is_behind


def refuses_beats(cluster: Cluster, durable: DurableService, context_path: str) -> bool:
    """Return whether this node refuses beats of clients now: by its state, an operator's status, or a limited path."""
    if cluster.state() is not _UP or not is_served(durable.overridden_status or _UP.value, is_read=False):
        return True
    return _limits_beats(durable, context_path)


def refusal_by_switch(durable: DurableService, context_path: str) -> str:
    """Return why an operator's switches have a node refuse calls, for an operator to read; empty while they do not."""
    status = durable.overridden_status or _UP.value
    if status != _UP.value:
        return f"an operator set the status {status}; set the switch overriddenServerStatus to null to serve again"
    return "the switch limitedUrlMap refuses beats" if _limits_beats(durable, context_path) else ""


def _limits_beats(durable: DurableService, context_path: str) -> bool:
    targets = [context_path + path for path in _TAKE_BEATS]
    limits = durable.switches.limited_url_map
    return any(target.startswith(url) or url.startswith(target) for url in limits for target in targets)


def _limited(call: Call, services: Services) -> Reply | None:
    """The empty answer with the status that an operator set for a path. The switches themselves are never limited."""
    limits = services.durable.switches.limited_url_map
    if not limits or call.path in SWITCHES_PATHS:
        return None
    target = f"{call.uri}?{call.raw_query.decode('utf-8', 'replace') or 'null'}"
    status = next((status for url, status in limits.items() if target.startswith(url)), None)
    return None if status is None else Reply(status, b"", None)


def is_naming(path: str) -> bool:
    """Return whether a path, below the context path, belongs to the naming API."""
    return path.startswith(_BELOW_NAMING) or path in NAMING
