"""The envelope of HTTP v2 and v3: ``{"code":0,"message":"success","data":...}``, and its refusals.

Source of codes and messages: Nacos 2.x and 3.0.3 ErrorCode.
"""

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import wraps

import orjson
from marshmallow import Schema

from app.auth.access_rules import AccessRule
from app.commands.write_caller import Misdirected
from app.http.api.answers import PreparedRefusal, error_reply, later_reply
from app.http.api.call import JSON, OK, Answer, Call, Endpoint, Reply, Services, route
from app.http.api.called_names import check_called_name
from app.http.api.checked_values import call_checker
from app.http.input.forms import SERVICE_NAME, namespace_of, service_of
from app.http.input.schemas import TEXT_TYPE, NeededServiceSchema, java_type, needed_names
from app.http.shapes.described import Described
from app.naming.model.json_fields import exact_json, flag_text
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.nacos_errors import (
    InstanceMissing,
    InvalidParam,
    NacosError,
    NoRight,
    NotExecuted,
    NotFound,
    ServiceMissing,
    TooManyRequests,
    Unavailable,
    WeightRefused,
)
from distro.model.errors import CodecError, NotInitialized

log = logging.getLogger(__name__)


class ResultCode(Enum):
    """Nacos's codes of refusals, each with its message."""

    PARAMETER_MISSING = (10_000, "parameter missing")
    ACCESS_DENIED = (10_001, "access denied")
    PARAMETER_INVALID = (20_002, "parameter validate error")
    NOT_FOUND = (20_004, "resource not found")
    WEIGHT = (21_001, "weight error")
    INSTANCE_NOT_FOUND = (21_003, "instance not found")
    INSTANCE_ERROR = (21_004, "instance error")
    SELECTOR = (21_006, "selector error")
    SERVICE_EXISTS = (21_007, "service already exist")
    SERVICE_MISSING = (21_008, "service not exist")
    SERVICE_NOT_EMPTY = (21_009, "service delete failure")
    NAMESPACE_ILLEGAL = (22_000, "illegal namespace")
    NAMESPACE_MISSING = (22_001, "namespace not exist")
    NAMESPACE_EXISTS = (22_002, "namespace already exist")
    STATE_ILLEGAL = (23_000, "illegal state")
    SERVER_ERROR = (30_000, "server error")
    FUNCTION_DISABLED = (40_001, "API function disabled.")


class ResultError(NacosError):
    """A refusal with a separate status and code, where they do not follow from the class of the error."""

    def __init__(self, status: int, code: ResultCode, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


def shown_service(namespace: str, full_name: str, *, ephemeral: bool) -> str:
    """Return a service as refusals of Nacos 2 and 3 show it. Source: Nacos 3.0.3 Service.toString."""
    group, name, kind = group_of(full_name), short_name_of(full_name), flag_text(ephemeral)
    return f"Service{{namespace='{namespace}', group='{group}', name='{name}', ephemeral={kind}, revision=0}}"


RESULT_BEGIN, RESULT_END = b'{"code":0,"message":"success","data":', b"}"
"""The JSON around the data of a call that succeeded, as ``result`` makes it."""


def result(data: object) -> Reply:
    """The answer of a call that succeeded."""
    return Reply(200, exact_json({"code": 0, "message": "success", "data": data}), JSON)


def refusal(status: int, code: ResultCode, text: str | None) -> Reply:
    """The answer of a call that was refused; ``text`` becomes its data."""
    number, message = code.value
    return Reply(status, orjson.dumps({"code": number, "message": message, "data": text}), JSON)


def refusal_of(error: NacosError | CodecError | NotInitialized) -> Reply:
    """The answer to an error of the domain or the engine."""
    match error:
        case PreparedRefusal() | NotExecuted() | Misdirected():
            return error_reply(error)
        case ResultError():
            return refusal(error.status, error.code, error.text)
        case WeightRefused():
            return refusal(400, ResultCode.WEIGHT, error.text)
        case ServiceMissing():
            return refusal(400, ResultCode.INSTANCE_ERROR, error.text)
        case InstanceMissing():
            return refusal(400, ResultCode.INSTANCE_NOT_FOUND, error.text)
        case InvalidParam():
            return refusal(400, ResultCode.PARAMETER_INVALID, error.text)
        case NoRight():
            return refusal(403, ResultCode.ACCESS_DENIED, error.text)
        case NotFound():
            return refusal(404, ResultCode.NOT_FOUND, error.text)
        case TooManyRequests():
            return later_reply(refusal(error.status, ResultCode.SERVER_ERROR, error.text), error)
        case NacosError():
            return refusal(error.status, ResultCode.SERVER_ERROR, error.text)
        case NotInitialized():
            return refusal(Unavailable.status, ResultCode.SERVER_ERROR, str(error))
        case CodecError():
            return refusal(400, ResultCode.PARAMETER_INVALID, str(error))


def wrapped(answer: Answer) -> Answer:
    """The answer of an endpoint of v1 in the envelope; its headers, which are for other members, stay."""
    if not isinstance(answer, Reply) or answer.status != 200:
        return answer
    body = b'"ok"' if answer.body == OK.body else answer.body
    return Reply(200, RESULT_BEGIN + body + RESULT_END, JSON, answer.headers)


FORM_TEXT = "Required parameter '{}' type {} is not present"
"""A missing parameter of a call that Nacos reads as a form."""
QUERY_TEXT = "Required request parameter '{}' for method parameter type {} is not present"
"""A missing parameter of a call whose parameters Nacos reads one by one."""
CONVERTED_TEXT = "Required request parameter '{}' for method parameter type {} is present but converted to null"
"""A blank number or flag of such a call."""
BLANK_TEXT = f"Param '{SERVICE_NAME}' is illegal, {SERVICE_NAME} is blank"
"""A blank name of a service in such a call."""
CHECKED_TEXT = "required parameter '{}' is missing"
"""A missing parameter of a form that Nacos checks itself."""


def require(call: Call, *schemas: type[Schema], text: str = FORM_TEXT) -> None:
    """Refuse a call without the parameters that schemas need.

    Raises:
        ResultError: a parameter is missing or blank; ``text`` gets the name and type of the first.
        InvalidParam: the name of the service is blank, in a call whose parameters Nacos reads one by one.
    """
    for schema in schemas:
        for name in needed_names(schema):
            value = call.parameters.get(name)
            if value is None or not value.strip():
                raise missing(schema, name, value, text)


def missing(schema: type[Schema], name: str, value: str | None, text: str) -> NacosError:
    """Return the refusal of a call that lacks a parameter. ``value``: None, or blank; ``text``: as of ``require``."""
    kind = java_type(schema, name)
    if text is QUERY_TEXT and value is not None:
        if name == SERVICE_NAME:
            return InvalidParam(BLANK_TEXT)
        if kind != TEXT_TYPE:
            text = CONVERTED_TEXT
    return ResultError(400, ResultCode.PARAMETER_MISSING, text.format(name, kind))


def called_service(call: Call, services: Services, *schemas: type[Schema], text: str = FORM_TEXT) -> tuple[str, str]:
    """Return the namespace and full name of the service that a call names.

    ``schemas``: need further parameters; one that names the service goes in place of the usual one. ``text``: as of
    ``require``.

    Raises:
        ResultError: as ``require``.
        InvalidParam: the name is not allowed, or a character is not printable.
    """
    require(call, *(schemas or (NeededServiceSchema,)), text=text)
    namespace, name = namespace_of(call.parameters), service_of(call.parameters)
    check_called_name(call, services, namespace, name)
    return namespace, name


def require_present(call: Call, schema: type[Schema], text: str = QUERY_TEXT) -> None:
    """Refuse a call that lacks a parameter of a schema, which may be empty.

    Raises:
        ResultError: a parameter is missing; ``text`` gets its name and type.
    """
    for name in needed_names(schema):
        if call.parameters.get(name) is None:
            raise missing(schema, name, None, text)


def result_route(
    method: str,
    *paths: str,
    access: AccessRule,
    hot: bool = False,
    at_root: Sequence[str] = (),
    described: Described | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that adds an endpoint to the route table; refusals and other errors answer in the envelope.

    ``at_root``: those of the paths that the endpoint has without the context path, too.
    """

    check = call_checker(paths, described.takes if described is not None else ())

    def add(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        def answer(call: Call, services: Services) -> Answer:
            try:
                check(call, services)
                return endpoint(call, services)
            except (NacosError, CodecError, NotInitialized) as error:
                return refusal_of(error)
            except Exception:
                log.exception("%s %a failed", call.method, call.uri)
                return refusal(500, ResultCode.SERVER_ERROR, "internal error, see the server's log")

        told = described.enveloped() if described is not None else None
        if at_root:
            route(method, *at_root, access=access, at_root=True, described=told)(answer)
        return route(method, *paths, access=access, hot=hot, described=told)(answer)

    return add
