"""Writes of clients that one member passes on to another in one call, and the answers to each of them. Pure.

Shape of the body: ``[[method, path, query, body, content type, agent, address, authorization, access token] ...]``, all
texts, or null for a header that the client did not send; ``path`` is below the context path. Bytes are read as latin-1.
Shape of the answer: an array with one entry for each call, in their order:

- ``null``: not executed; the call is to be made by itself.
- ``[change]``: the answer ``ok``; ``change`` is an object, null for none, whose ages count from the answer's clock.
- ``[change, clock]``: the same, with the headers of these names, to members that do not ask for the form above. Texts,
  null for none.
- ``[status, body, headers]``: any other answer; ``headers`` by their names. A change in them has the same clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from app.commands.write_caller import SHORT_CHANGE
from app.peers.headers import (
    AUTHORIZATION,
    CHANGE,
    CLIENT_ADDRESS,
    CLIENT_AGENT,
    CLOCK,
    TEXT,
    TOKEN_HEADER,
    WANTS_CHANGE,
)
from app.peers.peer_parts import ClientCall
from distro.model.errors import CodecError

WRITES_PATH = "/v1/ns/distro/writes"
CALLS_MAX = 32
"""The most calls in one batch: about a millisecond and a half of its owner's loop."""
CALL_BYTES_MAX = 2_048
"""The most bytes of query, body and headers of a call in a batch; a longer call is sent by itself."""
BATCH_BYTES_MAX = 262_144
"""The most bytes of a batch in JSON, in which a byte may take six."""
_CONTENT_TYPE = "content-type"
_CONTENT_TYPE_SENT = "Content-Type"
_PARTS = 9
# ``_new_tuple(C, (...))`` is ``C(...)`` without its function in Python.
_new_tuple = tuple.__new__
_USUAL_HEADERS = frozenset({CHANGE, CLOCK})
_OK = 200


class BatchedCall(NamedTuple):
    """A call of a batch, as it was sent; None for headers that the client did not send."""

    method: str
    path: str
    query: bytes
    body: bytes
    content_type: str | None
    agent: str
    address: str
    authorization: str | None
    token: str | None

    def headers(self, own: Mapping[str, str]) -> dict[str, str]:
        """The headers of the call as if it had come by itself; ``own``: those of its batch."""
        headers = {**own, CLIENT_AGENT: self.agent, CLIENT_ADDRESS: self.address, WANTS_CHANGE: SHORT_CHANGE}
        if self.content_type is not None:
            headers[_CONTENT_TYPE] = self.content_type
        if self.authorization is not None:
            headers[AUTHORIZATION] = self.authorization
        if self.token is not None:
            headers[TOKEN_HEADER] = self.token
        return headers


class DoneAnswer(NamedTuple):
    """The answer ``ok`` to a call of a batch, which nearly all are."""

    change: bytes | dict[str, Any] | None
    """See ``app.naming.changes``: as text, or as the object in it."""
    clock: str
    """When the owner answered; empty where nothing was changed."""


class BatchedAnswer(NamedTuple):
    """Any other answer to a call of a batch, with the names of its headers in lower case."""

    status: int
    body: bytes
    headers: dict[bytes, bytes]


class GivenReply(Protocol):
    """This node's answer to one call of a batch, as its frontend gave it."""

    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...

    @property
    def content_type(self) -> str | None: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


def batched(call: ClientCall) -> BatchedCall | None:
    """The call as it goes in a batch; None for one that goes alone."""
    if call.hop_token:
        return None  # its password is taken out of the query or the form
    authorization = token = None
    if call.user:
        authorization, token = call.header(AUTHORIZATION), call.header(TOKEN_HEADER)
    agent, content_type = call.client_agent, call.header(_CONTENT_TYPE) if call.body else None
    size = len(call.raw_query) + len(call.body) + len(agent) + len(content_type or "")
    if size + len(authorization or "") + len(token or "") > CALL_BYTES_MAX:
        return None
    sent = call.method, call.path, call.raw_query, call.body
    return _new_tuple(BatchedCall, (*sent, content_type, agent, call.remote_ip, authorization, token))


def encode_calls(calls: Sequence[BatchedCall]) -> bytes:
    """The body of a batch."""
    return orjson.dumps(
        [(*one[:2], one.query.decode("latin-1"), one.body.decode("latin-1"), *one[4:]) for one in calls]
    )


def decode_calls(body: bytes) -> list[BatchedCall]:
    """The calls of a batch.

    Raises:
        CodecError: the body is not a batch, or a larger one than any member sends.
    """
    if len(body) > BATCH_BYTES_MAX:
        raise CodecError(f"a batch of writes of {len(body)} bytes")
    parts = _loads(body)
    if not isinstance(parts, list) or len(parts) > CALLS_MAX:
        raise CodecError(f"a batch of writes is a JSON array of at most {CALLS_MAX} calls")
    return [_call(part) for part in parts]


def _call(part: object) -> BatchedCall:
    if isinstance(part, list) and len(part) == _PARTS:
        method, path, query, body, content_type, agent, address, authorization, token = part
        if (
            type(method) is type(path) is type(query) is type(body) is type(agent) is type(address) is str
            and (content_type is None or type(content_type) is str)
            and (authorization is None or type(authorization) is str)
            and (token is None or type(token) is str)
        ):
            sent = _bytes_of(query), _bytes_of(body)
            return _new_tuple(BatchedCall, (method, path, *sent, content_type, agent, address, authorization, token))
    raise CodecError("a call of a batch of writes should be an array of texts")


def _loads(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise CodecError("a batch of writes, or its answer, is not valid JSON") from None


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise CodecError("a call of a batch of writes has characters outside of Latin-1") from None


def entry_of(reply: GivenReply, *, is_dated: bool) -> bytes:
    """The entry of a batch's answer for the reply to one call. ``is_dated``: the answer has a clock for all of them."""
    headers = reply.headers
    if reply.body == b"ok" and reply.status == _OK and reply.content_type == TEXT:
        if not headers:
            return b"[null]" if is_dated else b"[null,null]"
        if is_dated and len(headers) == 1 and (change := headers.get(CHANGE)) is not None:
            return b"[%b]" % change.encode()
        if headers.keys() <= _USUAL_HEADERS:
            return orjson.dumps([headers.get(CHANGE), headers.get(CLOCK)])
    typed = {} if reply.content_type is None else {_CONTENT_TYPE_SENT: reply.content_type}
    return orjson.dumps([reply.status, reply.body.decode("latin-1"), {**headers, **typed}])


def encode_answers(entries: Iterable[bytes | None]) -> bytes:
    """The answer to a batch with these entries, in the order of its calls; None for a call that was not executed."""
    return b"[%b]" % b",".join([b"null" if one is None else one for one in entries])


def decode_answers(body: bytes, count: int, clock: str = "") -> list[DoneAnswer | BatchedAnswer | None]:
    """The answers to the calls of a batch of ``count``; None for each that was not executed.

    ``clock``: when the batch was answered.

    Raises:
        CodecError: they cannot be read.
    """
    entries = _loads(body)
    if not isinstance(entries, list) or len(entries) != count:
        raise CodecError(f"the answer to a batch of {count} writes has a different number of entries")
    try:
        return [None if entry is None else _answer(entry, clock) for entry in entries]
    except (TypeError, ValueError, AttributeError):
        raise CodecError("an entry of the answer to a batch of writes cannot be read") from None


def _answer(entry: list[object], clock: str) -> DoneAnswer | BatchedAnswer:
    if len(entry) == 1:
        [change] = entry
        if change is not None and type(change) is not dict:
            raise TypeError
        return _new_tuple(DoneAnswer, (change, clock))
    if len(entry) == 2:
        text, told = entry
        if told is not None and type(told) is not str:
            raise TypeError
        return _new_tuple(DoneAnswer, (None if text is None else _bytes(text), told or ""))
    status, text, named = entry
    if type(status) is not int or not isinstance(named, dict):
        raise TypeError
    headers = {_bytes(name).lower(): _bytes(value) for name, value in named.items()}
    if clock and CHANGE in named:
        headers.setdefault(CLOCK.encode(), clock.encode())
    return BatchedAnswer(status, _bytes(text), headers)


def _bytes(value: object) -> bytes:
    if type(value) is not str:
        raise TypeError
    return value.encode("latin-1")
