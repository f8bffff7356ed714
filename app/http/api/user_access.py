"""The user of a call, whether that user may make it, what the call is about, and its entries in the audit trail."""

from collections.abc import Callable

from app.auth.access_control import AccessControl, Session
from app.auth.access_rules import AccessRule, Action, Scope, Target
from app.auth.decision_memo import key_of_call
from app.auth.refusals import NOT_PERMITTED, UNKNOWN_USER, AccessDenied, TooManyLogins
from app.auth.user_rights import ANY, Resource, rule_namespace
from app.http.api.answers import PreparedRefusal, filter_error, text_reply
from app.http.api.call import AUTHORIZATION, BEARER, TOKEN_HEADER, Call, Reply, Route, Services
from app.http.api.console_cookie import is_page_wanted, log_in_first, no_right, token_in_cookie
from app.http.input.forms import DOM, GROUP_NAME, KEY, NAMESPACE_ID, Parameters
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, GROUP_SPLITTER, NAMESPACE_SPLITTER

_ADMIN, _WRITE = Scope.ADMIN, Action.WRITE
"""Python 3.11 needs ten times as long to look a member up in its class."""


def audit_refusal(call: Call, services: Services, why: str, user: str = "") -> None:
    """Write that a call was refused. ``user``: whose token it brought, if that is known."""
    actor = call.actor
    services.instruments.audit.on_access(
        "access.refused", f"{call.method} {call.path}", actor._replace(user=user or actor.user), why
    )


def audit_operation(row: Route, call: Call, reply: Reply, services: Services) -> None:
    """Write an administrator's call that changed something, with its parameters; once, at the member that was asked.

    The change of a durable record has a separate line, with its values. The member that executes a forwarded call
    writes only that line, which names the member that was asked.
    """
    if row.access.scope is _ADMIN and row.access.action is _WRITE and reply.status < 300 and not call.actor.via:
        parameters = dict(call.parameters.items())
        services.instruments.audit.write("operation", f"{row.method} {row.path}", after=parameters)


TOKEN_PARAMETER = "accessToken"
BEAT = "/beat"
_USER, _PASSWORD = "username", "password"
_WRITE = Action.WRITE
"""Python 3.11 needs ten times as long to look a member up in its class."""
_OF_USERS = ("/v1/auth", "/v3/auth")
"""Below it ``username`` and ``password`` name the user that a call is about, and not the caller."""


class PasswordGiven(Exception):
    """A call on the event loop brings a password that is not remembered: to compare it takes long, and blocks."""


def check_user(access: AccessRule, call: Call, services: Services) -> None:
    """Check that a call, which is not of members alone, is of a user with the right to it.

    Raises:
        PreparedRefusal: the caller may not; with the whole answer.
        PasswordGiven: the event loop cannot tell.
    """
    if access.scope is Scope.PUBLIC:
        return
    if access.members_too and call.caller.is_member:
        return
    control = services.access
    version, key, memo = control.table.version, None, call.memo
    if memo is not None:
        if (session := memo.session(version, control.wall_ms())) is not None:
            call.user = session.user
            return
    elif call.on_loop and not access.by_cookie and (access.action is not _WRITE or call.path.endswith(BEAT)):
        # Other writes seldom come again; where they do, to the byte, the call has a separate memory.
        key = _key_of(call)
        if key is not None:
            known = services.decisions.find(version, key, control.wall_ms())
            if known is not None:
                call.user = known.user
                return
    user = ""
    try:
        session = control.session(token_in_cookie(call)) if access.by_cookie else _session_of(call, control)
        user = session.user
        control.check(session, access, resource_of(access.target, call.parameters))
    except AccessDenied as error:
        control.count(error)
        if not access.by_cookie or error.text != UNKNOWN_USER:  # who is not logged in is sent to log in
            audit_refusal(call, services, error.text, user)
        if access.by_cookie and error.text != NOT_PERMITTED:
            raise PreparedRefusal(log_in_first(call)) from None
        if access.by_cookie and is_page_wanted(call):
            raise PreparedRefusal(no_right(call)) from None
        raise PreparedRefusal(filter_error(call.uri, error.status, error.text, services.wall_ms())) from None
    except TooManyLogins as error:
        raise PreparedRefusal(too_many_logins(error)) from None
    call.user = session.user
    if call.hop_token:
        return
    if memo is not None:
        memo.allow(version, session)
    elif key is not None:
        services.decisions.keep(version, key, session)


def _key_of(call: Call) -> bytes | None:
    """The key of a call in the memory of decisions: all that the decision depends on."""
    given = f"{call.header(AUTHORIZATION) or ''}\n{call.header(TOKEN_HEADER) or ''}"
    if call.body:
        given = f"{given}\n{call.header('content-type') or ''}"
    return key_of_call(f"{call.method} {call.path}".encode(), given, call.raw_query, call.body)


def _session_of(call: Call, control: AccessControl) -> Session:
    """The session of the user that a call names.

    Raises:
        AccessDenied: it names none, or its token is not good.
        TooManyLogins: it brings a password, which is not checked now. PasswordGiven: the event loop cannot tell.
        LoginPutOff: it is not checked yet.
    """
    if token := token_of(call):
        return control.session(token)
    name, password = call.parameters.get(_USER), call.parameters.get(_PASSWORD)
    if not name or not password or call.path.startswith(_OF_USERS):
        raise AccessDenied(UNKNOWN_USER)
    session = control.remembered(name, password, call.remote_ip)
    if session is None:
        if call.on_loop:
            raise PasswordGiven
        session = control.log_in(name, password, call.remote_ip, call.login_wait)
    call.give_token(control.hop_token(session), _USER, _PASSWORD)
    return session


def token_of(call: Call) -> str:
    """The token that a call brings, empty for none. Source of the order: Nacos 1.4.8; of the last place: Nacos 2.5."""
    given = call.header(AUTHORIZATION)
    if given is not None and given.startswith(BEARER):
        return given[len(BEARER) :].strip()
    return call.parameters.get(TOKEN_PARAMETER) or call.header(TOKEN_HEADER) or ""


def too_many_logins(error: TooManyLogins) -> Reply:
    """The answer to a login without a check of its password."""
    reply = text_reply(error.status, error.text)
    reply.headers = {"Retry-After": str(error.retry_after_s)}
    return reply


def resource_of(target: Target, parameters: Parameters) -> Resource:
    """Return the resource of a call, from the parameters as its endpoint reads them."""
    namespace = parameters.optional(NAMESPACE_ID, DEFAULT_NAMESPACE)
    match target:
        case Target.SERVICE:
            return Resource.of_service(namespace, parameters.service_name())
        case Target.DOM:
            return Resource(rule_namespace(namespace), DEFAULT_GROUP, parameters.optional(DOM, ANY))
        case Target.KEY:
            return _of_key(parameters.get(KEY) or "")
        case Target.GROUP:
            return Resource(rule_namespace(namespace), parameters.optional(GROUP_NAME, DEFAULT_GROUP))
        case Target.NAMESPACE | Target.PATTERN:  # no call over HTTP has a pattern
            return Resource(rule_namespace(namespace))
        case Target.NAMESPACES:
            return Resource(
                rule_namespace(parameters.optional(NAMESPACE_ID)) if parameters.optional(NAMESPACE_ID) else None
            )


def _of_key(key: str) -> Resource:
    namespace, splitter, rest = key.partition(NAMESPACE_SPLITTER)
    if not splitter:
        return Resource.of_service(DEFAULT_NAMESPACE, key)
    name = rest.partition(NAMESPACE_SPLITTER)[0]
    return Resource.of_service(namespace, name if GROUP_SPLITTER in name else None)


def may_read(call: Call, services: Services) -> Callable[[str, str], bool]:
    """Return the function that tells whether the caller may read a service, by namespace and full name."""
    if not services.access.enabled:
        return lambda _namespace, _name: True
    rights = services.access.table.rights(call.user)
    if rights.is_admin:
        return lambda _namespace, _name: True
    return lambda namespace, name: rights.allows(Action.READ, Resource.of_service(namespace, name))
