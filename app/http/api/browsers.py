"""Calls that a web browser made: which ones they are, and which of them a page of somebody else may have caused.

A page from anywhere can have its visitor's browser call a node that the page's owner cannot reach. No script removes
or changes all of the headers that are looked at here, so a page cannot pass for an SDK.
"""

from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from app.peers.headers import BROWSER_SIGNS
from app.ports.shared_ports import MemberDirectory

Header = Callable[[str], str | None]
"""Returns a header by its name in lower case, None for an absent one. It is called with constants only."""

ANY_HOST = "*"
BROWSER = "Mozilla/"
OWN_SITE = ("same-origin", "none")
"""Values of ``Sec-Fetch-Site`` for a page of this node, and for an address that the user typed or a bookmark."""
HOST_CHARS_SHOWN = 100


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
