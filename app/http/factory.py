"""The WSGI application: requests become calls, replies become responses, errors are answered in one place."""

import logging
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import Rule

from app.auth.login_limits import LoginPutOff
from app.auth.member_calls import Unidentified
from app.http.api.answers import INTERNAL_ERROR, error_reply, filter_error, is_naming, refuse_unless_up, text_reply
from app.http.api.call import (
    ADDRESS,
    AGAIN_MS,
    CALLER,
    LOGIN_WAIT,
    MEMBER_CERTIFICATE,
    READ,
    ROUTE,
    Call,
    Reply,
    Route,
    Services,
)
from app.http.api.dispatch import answer_call
from app.http.api.rights import caller_of, unidentified_reply
from app.http.blueprints import View, make_blueprints
from app.http.v1.config import is_config, not_served
from app.http.v3.absent import V3, is_absent, not_here
from app.naming.model.nacos_errors import InvalidParam, NacosError
from distro.model.errors import CodecError, NotInitialized

SERVICES = "rollcall"
"""The key in ``app.extensions`` under which the worker finds the endpoints' services."""

log = logging.getLogger(__name__)


class _Rule(Rule):
    """A rule that only matches: werkzeug compiles code that builds each rule's URLs, which no code asks for.

    That would take a tenth of a node's start.
    """

    def _compile_builder(self, _: bool = True) -> Callable[..., tuple[str, str]]:
        return _no_url


def _no_url(rule: Rule, **values: Any) -> tuple[str, str]:
    raise LookupError(f"no URL is built of {rule.rule}")


class _Response(Response):
    default_mimetype = None
    """A reply without a content type is sent without one."""


def create_app(services: Services) -> Flask:
    """Return the application of one node, with every route under its context path."""
    context_path = services.settings.context_path
    app = Flask(__name__, static_folder=None, template_folder=None)
    app.extensions[SERVICES] = services
    app.url_rule_class = _Rule
    app.url_map.merge_slashes = False

    def make_view(row: Route) -> View:
        def view(**path_values: str) -> Response:
            environ = request.environ
            environ[ROUTE] = row
            call = make_call(environ, row.path, context_path)
            call.path_values = path_values
            # %2F is decoded to a slash by now, which may have matched a route that the sender did not name.
            if "%2f" in call.raw_path.lower():
                raise InvalidParam("the path contains an escaped slash")
            call.address, call.read = environ.get(ADDRESS), environ.get(READ)
            call.login_wait = environ.get(LOGIN_WAIT)
            call.body = environ["wsgi.input"].read()  # the server has read it to its end, within its bound
            caller = environ.get(CALLER) or caller_of(call, services)
            if isinstance(caller, Unidentified):
                return to_response(unidentified_reply(caller))
            call.caller = caller
            return to_response(answer_call(row, call, services))

        return view

    for blueprint in make_blueprints(context_path, make_view):
        app.register_blueprint(blueprint)

    def on_error(error: Exception) -> Response:
        match error:
            case LoginPutOff():
                request.environ[AGAIN_MS] = error.after_ms
                return _Response()  # which nobody is sent
            case NacosError() | CodecError() | NotInitialized():
                return to_response(error_reply(error))
            case HTTPException():
                return to_response(_routing_error(error, services))
        call = make_call(request.environ, request.path, "")
        log.error("%s %a failed", call.method, call.uri, exc_info=error)
        return to_response(INTERNAL_ERROR)

    app.register_error_handler(Exception, on_error)
    return app


def _routing_error(error: HTTPException, services: Services) -> Reply:
    """The reply to a call without a route: 501 under the naming paths; elsewhere 404, or 405 for a wrong method."""
    context_path = services.settings.context_path
    call = make_call(request.environ, request.path.removeprefix(context_path), context_path)
    if request.path.startswith(context_path) and is_naming(call.path) and not call.path.startswith(V3):
        if refusal := refuse_unless_up(call, services):
            return refusal
        if _is_preflight(call):
            return Reply(501, b"", None)
        return filter_error(call.uri, 501, f"no such api:{call.method}:{call.uri}", services.wall_ms())
    if request.path.startswith(context_path) and is_config(call.path):
        return not_served(call, services)
    if is_absent(call.path):
        return not_here(call, services)
    if isinstance(error, MethodNotAllowed):
        allow = {"Allow": ",".join(sorted({*(error.valid_methods or ()), "OPTIONS"}))}
        if _is_preflight(call):
            # No page of another origin may call this node, which has no passwords to protect it from such a page.
            return Reply(403, b"Invalid CORS request", headers=allow)
        if call.method == "OPTIONS":
            return Reply(200, b"", None, allow)
        return Reply(405, f"Request method '{call.method}' not supported".encode(), headers=allow)
    if not isinstance(error, NotFound):
        return text_reply(error.code or 400, error.description or "the request is not understood")
    if request.path == "/" and context_path and "text/html" in call.headers.get("accept", ""):
        return Reply(302, b"", None, {"Location": f"{context_path}/"})  # a browser: to the console
    return filter_error(call.uri, 404, "No message available", services.wall_ms())


def _is_preflight(call: Call) -> bool:
    """Return whether the call is a CORS preflight: a browser asks if a page of another origin may call."""
    return call.method == "OPTIONS" and "origin" in call.headers and "access-control-request-method" in call.headers


def make_call(environ: dict[str, Any], path: str, context_path: str) -> Call:
    """Return the call of a WSGI request, without its body."""
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    if content_type := environ.get("CONTENT_TYPE"):
        headers["content-type"] = content_type
    return Call(
        method=environ["REQUEST_METHOD"],
        path=path,
        # WSGI hands bytes over as Latin-1 text.
        raw_query=environ.get("QUERY_STRING", "").encode("latin-1"),
        headers=headers,
        body=b"",
        remote_ip=environ.get("REMOTE_ADDR") or "",
        context_path=context_path,
        raw_path=_raw_path(environ),
        has_member_certificate=bool(environ.get(MEMBER_CERTIFICATE)),
    )


def _raw_path(environ: dict[str, Any]) -> str:
    """The path as in the request line, which gunicorn and werkzeug add to WSGI's environ."""
    raw = str(environ.get("RAW_URI") or environ.get("REQUEST_URI") or "").partition("?")[0]
    if raw and not raw.startswith("/"):
        # Absolute form, as proxies send it: scheme and host are dropped.
        raw = "/" + raw.partition("://")[2].partition("/")[2]
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")


def to_response(reply: Reply) -> Response:
    response = _Response(reply.body if reply.stream is None else reply.stream, reply.status)
    if reply.content_type is not None:
        response.headers["Content-Type"] = reply.content_type
    for name, value in reply.headers.items():
        response.headers[name] = value
    return response
