"""The decision whether a call may go on to its endpoint, by the access that its row of the route table declares."""

from app.auth.access_rules import AccessRule, Action, Scope
from app.http.api.browsers import is_of_browser
from app.http.api.call import Call, Services
from app.http.api.user_access import check_user
from app.naming.model.nacos_errors import NoRight

READS = ("GET", "HEAD")
_WRITE = Action.WRITE
"""Python 3.11 needs ten times as long to look a member up in its class."""


def check_access(access: AccessRule, call: Call, services: Services) -> None:
    """Check that the caller of a call may make it. Both ways to an endpoint come through here, with the decoded route.

    Raises:
        NoRight: the caller may not.
        PreparedRefusal, PasswordGiven: as ``check_user``.
    """
    if access.action is _WRITE and call.method in READS and is_of_browser(call.header):
        raise NoRight("a browser changes nothing with GET, as any page can have it do so: use POST or PUT")
    match access.scope:
        case Scope.MEMBERS:
            allowed = services.cluster.is_listed(call.remote_ip)
        case Scope.RECENT_MEMBERS:
            allowed = services.cluster.is_listed(call.remote_ip) or services.cluster.is_heard(call.remote_ip)
        case _:
            if services.access.enabled:
                check_user(access, call, services)
            return
    if not allowed:
        raise NoRight(f"{call.remote_ip} is not the address of a listed member")
    check_certificate(call, services)


def check_certificate(call: Call, services: Services) -> None:
    """Check that a member's call came over mutual TLS, if that is on.

    Raises:
        NoRight: it did not.
    """
    tls = services.settings.http_tls
    if tls is not None and tls.mutual and not call.has_member_certificate:
        raise NoRight("a member's call needs a client certificate that is trusted here")
