"""Requests that come again but for their metadata, as clients tell changes of an instance: only that is read anew."""

from collections.abc import Callable
from typing import Any

from app.auth.access_control import Session
from app.http.api.call_memo import ParsedCall
from app.http.api.parse_memo import cut_metadata, is_model
from app.http.input.hot_params import quick_metadata
from app.http.server.request import Request
from app.http.server.request_memo import RequestFacts, RequestMemo

# ``_new_tuple(Request, (...))`` is ``Request(...)`` without its function in Python.
_new_tuple = tuple.__new__


class VariedFacts(RequestFacts):
    """What is known of a request by another one that it equals but for the metadata."""

    __slots__ = ("_model", "_value")

    def __init__(self, model: RequestFacts, query: bytes, value: bytes) -> None:
        """``value``: that of the metadata, as it stands in the query."""
        self.parser = None
        self.route = model.route
        self.query = query
        self._model = model
        self._value = value

    def session(self, version: int, now_ms: int) -> Session | None:
        return self._model.session(version, now_ms)

    def allow(self, version: int, session: Session) -> None:
        self._model.allow(version, session)

    def parse(self, parser: Callable[..., Any], call: ParsedCall) -> Any:
        model, command = self._model, None
        if model.parser is parser and (metadata := quick_metadata(self._value)) is not None:
            command = model.command.with_metadata(metadata)
        if command is None:
            command = parser(call.parameters)
            if is_model(command, call.parameters):
                model.parser, model.command = parser, command
        self.parser, self.command = parser, command
        return command

    def like(self, parser: Callable[..., Any]) -> Any:
        return self._model.command if self._model.parser is parser else None


def find_varied(known: RequestMemo[Request], shapes: RequestMemo[Request], data: bytes) -> Request | None:
    """The request that a piece of bytes is, behind a whole request; None for one that is to be parsed.

    ``known``: the requests that came again to the byte. ``shapes``: has the bytes without the value of the metadata.
    """
    cut = _cut(data)
    if cut is None or (model := shapes.find(cut[0])) is None:
        return None
    _, value, target = cut
    facts = model.facts
    assert facts is not None, "it is kept with them"
    query = target[len(model.target) - len(facts.query) :]
    facts = VariedFacts(facts, query, value)
    request = _new_tuple(Request, (model.method, target, model.block, model.body, True, facts))
    if target == model.target:
        known.note(data, request)  # it changes no more
    return request


def note_varied(shapes: RequestMemo[Request], data: bytes, request: Request) -> None:
    """Take note of the shape of a piece of bytes that came for the first time, and was one whole request."""
    cut = _cut(data)
    if cut is not None:
        shapes.note(cut[0], request)


def _cut(data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The shape of a request, the value of its metadata and its target; None for one without, or with a special value.

    What comes before its target begins and ends is the method.
    """
    method_end = data.find(b" ")
    target_end = data.find(b" ", method_end + 1)
    if not 0 < method_end < target_end or (cut := cut_metadata(data, method_end, target_end)) is None:
        return None
    return *cut, data[method_end + 1 : target_end]
