"""Writes of v3 whose owner does not know v3: an earlier release, or real Nacos 1.4. They go to it as calls of v1."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

import orjson

from app.auth.access_rules import AccessRule
from app.commands.ownership import Forward
from app.http.api.call import DECLINE, OK, Answer, Call, Endpoint, Reply, Services
from app.http.shapes.described import Described
from app.http.v1.instance import CODE_OK
from app.http.v2.envelope import ResultCode, refusal, result, result_route, wrapped
from app.naming.model.nacos_errors import Unavailable
from distro.model.types import CAPABILITY_HTTP_V3

INSTANCE, BEAT = "/v1/ns/instance", "/v1/ns/instance/beat"
UNKNOWN_INSTANCE = refusal(200, ResultCode.INSTANCE_NOT_FOUND, None)
"""The answer to the beat of an unknown instance, which the client has to register."""
_NOT_YET = "the responsible member is of an earlier release without HTTP v3; use v1, or try again when it is updated"
_CODES = {400: ResultCode.PARAMETER_INVALID, 403: ResultCode.ACCESS_DENIED, 404: ResultCode.NOT_FOUND}


def knows_v3(services: Services, to: Forward) -> bool:
    """Return whether the owner of a write answers calls of v3."""
    owners = services.cluster
    owner = to.owner or (owners.map_srv_durable(to.tag) if to.durable else owners.map_srv(to.tag))
    return CAPABILITY_HTTP_V3 in owners.capabilities(owner)


def passed_on(call: Call, services: Services, run: Callable[[], Answer], method: str, path: str) -> Answer:
    """Return the answer of ``run``; if the write belongs to a member without v3, that member's to a call of v1.

    ``method``, ``path``: the call of v1 that means the same, with the same parameters.
    """
    answer = run()
    if not isinstance(answer, Forward) or knows_v3(services, answer):
        return answer
    if call.on_loop:
        return DECLINE
    here: list[Answer] = []

    def run_here() -> Answer:
        made = run()
        if not isinstance(made, Forward):
            here.append(made)
        return made

    reply = services.forwarder.forward(replace(call, method=method, path=path), answer, run_here)
    return here[0] if here or not isinstance(reply, Reply) else _from_v1(reply, path)


def _from_v1(reply: Reply, path: str) -> Answer:
    """Return an answer of v1 in the form of v3."""
    if reply.status != OK.status:
        text = reply.body.decode("utf-8", "replace")
        made = refusal(reply.status, _CODES.get(reply.status, ResultCode.SERVER_ERROR), text)
        return replace(made, headers=reply.headers)
    if path != BEAT:
        return wrapped(reply)
    try:
        beaten = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        beaten = None
    is_known = isinstance(beaten, dict) and beaten.get("code") == CODE_OK
    return result("ok") if is_known else UNKNOWN_INSTANCE


def v3_route(
    method: str, *paths: str, access: AccessRule, at_root: Sequence[str] = (), described: Described
) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator as ``result_route``, for calls that v1 has not: an owner without v3 is not called.

    Until that member is updated, the answer is 503.
    """

    def add(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        def answer(call: Call, services: Services) -> Answer:
            made = endpoint(call, services)
            if isinstance(made, Forward) and not knows_v3(services, made):
                raise Unavailable(_NOT_YET)
            return made

        return result_route(method, *paths, access=access, at_root=at_root, described=described)(answer)

    return add
