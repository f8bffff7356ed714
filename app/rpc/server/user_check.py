"""The users of clients' requests: the user of a request's token, and that user's right to make the request."""

from collections.abc import Callable, Mapping

from app.auth.access_control import AccessControl, Session
from app.auth.access_rules import AccessRule, Scope, Target
from app.auth.refusals import AccessDenied
from app.auth.user_rights import Resource, rule_namespace
from app.naming.model.json_fields import Fields
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, TRIMMED, compose_service_name
from app.rpc.server.fuzzy_pattern import FuzzyPattern

TOKEN, AUTHORIZATION, BEARER = "accessToken", "Authorization", "Bearer "
PERSISTENT = "PersistentInstanceRequest"
"""The type whose names are trimmed before they are used."""

SameText = Callable[[str], str]


def token_of(headers: Mapping[str, str]) -> str:
    """Return the token in a request's headers, empty for none."""
    if token := headers.get(TOKEN):
        return token
    given = headers.get(AUTHORIZATION, "")
    return given[len(BEARER) :].strip() if given.startswith(BEARER) else ""


def session_of(control: AccessControl, access: AccessRule, headers: Mapping[str, str]) -> Session | None:
    """Return the session of a request's user, by its headers alone; None where the request needs no user.

    Raises:
        AccessDenied: the request names no valid user.
    """
    if not control.enabled or access.scope in (Scope.PUBLIC, Scope.MEMBERS, Scope.RECENT_MEMBERS):
        return None
    try:
        return control.session(token_of(headers))
    except AccessDenied as error:
        control.count(error)
        raise


def check_rights(control: AccessControl, session: Session, access: AccessRule, kind: str, fields: Fields) -> None:
    """Check that the user of a session may make a request.

    Raises:
        AccessDenied: the user has no right to it.
        InvalidParam: a name in it is not a text.
    """
    try:
        control.check(session, access, resource_of(access.target, kind, fields))
    except AccessDenied as error:
        control.count(error)
        raise


def resource_of(target: Target, kind: str, fields: Fields) -> Resource:
    """Return the resource that a request is about, read as its handler reads it.

    Raises:
        InvalidParam: a name is not a text, or a pattern not a pattern.
    """
    if target is Target.PATTERN:
        return FuzzyPattern.of(fields.required("groupKeyPattern")).resource
    read: SameText = (lambda text: text.strip(TRIMMED)) if kind == PERSISTENT else str
    namespace = read(fields.text("namespace", DEFAULT_NAMESPACE)) or DEFAULT_NAMESPACE
    group = fields.text("groupName", DEFAULT_GROUP)
    if target is Target.GROUP:
        return Resource(rule_namespace(namespace), group)
    if name := fields.text("serviceName"):
        return Resource.of_service(namespace, read(compose_service_name(name, group)))
    return Resource.of_service(namespace, None)
