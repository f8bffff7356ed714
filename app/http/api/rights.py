"""The decisions whether a call may reach its endpoint: by the access that its row declares, or a page's origin.

A page from anywhere can have its visitor's browser call a node that the page's owner cannot reach. No script removes
or changes all of the headers that are looked at here, so a page cannot pass for an SDK.
"""

import hmac
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from app.auth.access_rules import PUBLIC, AccessRule, Action, Scope, admin
from app.auth.member_calls import Caller, Unidentified, claims_member
from app.http.api.answers import NOT_RESPONSIBLE
from app.http.api.call import Call, Reply, Services
from app.http.api.user_access import audit_refusal, check_user
from app.naming.model.nacos_errors import NoRight
from app.peers.headers import BROWSER_SIGNS
from app.ports.shared_ports import MemberDirectory

Header = Callable[[str], str | None]
"""Returns a header by its name in lower case, None for an absent one. It is called with constants only."""

ANY_HOST = "*"
BROWSER = "Mozilla/"
OWN_SITE = ("same-origin", "none")
"""Values of ``Sec-Fetch-Site`` for a page of this node, and for an address that the user typed or a bookmark."""
HOST_CHARS_SHOWN = 100
READS = ("GET", "HEAD")
_WRITE = Action.WRITE
_MEMBERS, _RECENT_MEMBERS, _METRICS = Scope.MEMBERS, Scope.RECENT_MEMBERS, Scope.METRICS
"""Python 3.11 needs ten times as long to look a member up in its class."""
_BEARER = "bearer "


def is_of_browser(header: Header) -> bool:
    """Return whether the headers of a call are a browser's."""
    for name in BROWSER_SIGNS:  # a generator would cost each request as much as the headers do
        if header(name) is not None:
            return True
    return BROWSER in (header("user-agent") or "")


def host_name(authority: str) -> str:
    """Return the host of ``host:port``, in lower case.

    The brackets of IPv6 and the dot at the end of a full name are removed.
    """
    host = authority.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].removesuffix(".") if ":" in host else host.removesuffix(".")


class OwnHosts:
    """The hosts under which browsers may call this node: any IP address, localhost, members' names, listed names."""

    def __init__(self, cluster: MemberDirectory, listed: tuple[str, ...]) -> None:
        self._cluster = cluster
        self._listed = frozenset(name.lower().removesuffix(".") for name in listed)

    def has(self, host: str) -> bool:
        """Return whether ``host``, in the form that ``host_name`` returns, is one of these hosts."""
        if ANY_HOST in self._listed or host in self._listed or host in ("", "localhost"):
            return True
        try:
            ip_address(host)
        except ValueError:
            # The name of a page whose owner had it point to this node first (DNS rebinding) is in no list.
            return any(host_name(one.address) == host for one in self._cluster.members())
        return True

    def refusal(self, header: Header) -> str | None:
        """Return why a browser's call is refused, if it is: a page of another site may have caused it."""
        if not is_of_browser(header):
            return None
        authority = header("host") or ""
        if not self.has(host_name(authority)):
            shown = ascii(authority[:HOST_CHARS_SHOWN])
            return f"this node does not go by the name {shown} towards browsers: list it in rollcall.http.hosts"
        if header("sec-fetch-site") not in (None, *OWN_SITE):
            return "the call comes from a page of another site"
        return None

    def has_foreign_origin(self, header: Header) -> bool:
        """Return whether a page of another origin made a call with these headers.

        Such a page may make reads, as the browser does not show it the answers. Nacos answers its reads too, and no
        endpoint lets a browser change anything with GET.
        """
        origin, authority = header("origin"), header("host") or ""
        if origin is None:
            return False
        try:
            stated = urlsplit(origin.lower()).netloc
        except ValueError:
            return True
        # A proxy may call this node by another name than the browser called the proxy.
        return not stated or (stated != authority.lower() and host_name(stated) not in self._listed - {ANY_HOST})


def check_access(access: AccessRule, call: Call, services: Services) -> None:
    """Check that the caller of a call may make it. Both ways to an endpoint come through here, with the decoded route.

    Raises:
        NoRight: the caller may not.
        PreparedRefusal, PasswordGiven: as ``check_user``.
    """
    if access.action is _WRITE and call.method in READS and not access.only_reads and is_of_browser(call.header):
        raise NoRight(
            "a browser must not change anything with GET, because any page could make it do so: use POST or PUT"
        )
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

    The metrics have a separate secret because Prometheus cannot log in again when a user's token expires.
    """
    if not token or authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
        return False
    given = authorization[len(_BEARER) :].strip()
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))
