"""The decision whether a call may go on to its endpoint, by the access that its row of the route table declares."""

import hmac

from app.auth.access_rules import PUBLIC, AccessRule, Action, Scope, admin
from app.auth.member_calls import Caller, Unidentified, claims_member
from app.http.api.answers import NOT_RESPONSIBLE
from app.http.api.browsers import is_of_browser
from app.http.api.call import Call, Reply, Services
from app.http.api.user_access import audit_refusal, check_user
from app.naming.model.nacos_errors import NoRight

READS = ("GET", "HEAD")
_WRITE = Action.WRITE
_MEMBERS, _RECENT_MEMBERS, _METRICS = Scope.MEMBERS, Scope.RECENT_MEMBERS, Scope.METRICS
"""Python 3.11 needs ten times as long to look a member up in its class."""
_BEARER = "bearer "


def check_access(access: AccessRule, call: Call, services: Services) -> None:
    """Check that the caller of a call may make it. Both ways to an endpoint come through here, with the decoded route.

    Raises:
        NoRight: the caller may not.
        PreparedRefusal, PasswordGiven: as ``check_user``.
    """
    if access.action is _WRITE and call.method in READS and is_of_browser(call.header):
        raise NoRight("a browser changes nothing with GET, as any page can have it do so: use POST or PUT")
    if access.scope is _METRICS:
        access = scrape_rule(call, services)
    if access.scope is _MEMBERS:
        allowed = call.caller.is_member
    elif access.scope is _RECENT_MEMBERS:
        allowed = call.caller.is_recent
    else:
        if services.access.enabled:
            check_user(access, call, services)
        return
    if not allowed:
        text = "this call is for members of the cluster alone: it needs a listed address and their identity"
        if services.callers.identity is None:
            text = f"{call.remote_ip} is not the address of a listed member"
        audit_refusal(call, services, text)
        raise NoRight(text)
    tls = services.settings.http_tls
    if tls is not None and tls.mutual and not call.has_member_certificate:
        text = "a member's call needs a client certificate that is trusted here"
        audit_refusal(call, services, text)
        raise NoRight(text)


def unidentified_reply(caller: Unidentified) -> Reply:
    """Return the refusal of a call that claims to be a member's without proof.

    The reply tells a member that nothing was executed.
    """
    return Reply(caller.status, caller.text.encode(), headers={**caller.headers, NOT_RESPONSIBLE: "1"})


def caller_of(call: Call, services: Services) -> Caller | Unidentified:
    """Return the caller of a call that did not come through our server.

    Our server identifies the caller when it reads a request.
    """
    query = f"?{call.raw_query.decode('latin-1')}" if call.raw_query else ""
    target = f"{call.raw_path}{query}"
    claims = claims_member(call.headers)
    return services.callers.caller_of(call.method, target, call.header, call.body, call.remote_ip, claims=claims)


def scrape_rule(call: Call, services: Services) -> AccessRule:
    """The rule for a call that reads metrics or targets: by the scrape token, where there is one.

    Raises:
        NoRight: the call does not bring the token.
    """
    told = services.settings.told
    if not told.metrics_token:
        return PUBLIC if told.metrics_open else admin(Action.READ)
    if not _brings_token(told.metrics_token, call.header("authorization")):
        raise NoRight("the metrics need Authorization: Bearer with the token of rollcall.metrics.token")
    return PUBLIC


def _brings_token(token: str, authorization: str | None) -> bool:
    """Return whether a header ``Authorization: Bearer ...`` has the scrape token. Compares in constant time.

    The metrics have a secret of their own because Prometheus cannot log in again when a user's token expires.
    """
    if not token or authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
        return False
    given = authorization[len(_BEARER) :].strip()
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))
