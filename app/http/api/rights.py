"""The decision whether a call may go on to its endpoint, by the access that its row of the route table declares."""

from app.auth.access_rules import AccessRule, Scope
from app.http.api.call import Call, Services
from app.naming.model.nacos_errors import NoRight


def check_access(access: AccessRule, call: Call, services: Services) -> None:
    """Check that the caller of a call may make it. Both ways to an endpoint come through here, with the decoded route.

    Raises:
        NoRight: the caller may not.
    """
    match access.scope:
        case Scope.MEMBERS:
            allowed = services.cluster.is_listed(call.remote_ip)
        case Scope.RECENT_MEMBERS:
            allowed = services.cluster.is_listed(call.remote_ip) or services.cluster.is_heard(call.remote_ip)
        case _:
            allowed = True
    if not allowed:
        raise NoRight(f"{call.remote_ip} is not the address of a listed member")
