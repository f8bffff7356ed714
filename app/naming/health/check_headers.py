"""The headers and the path that a health check over HTTP may send: only those that other services ignore."""

import re
from fnmatch import fnmatchcase

from app.naming.model.nacos_errors import InvalidParam

ALLOWED = ("accept", "accept-*", "cache-control", "user-agent", "x-*")
REFUSED = (
    # The keys to the metadata services of clouds, to secret stores and to a member of the cluster.
    *("x-aws-*", "x-amz-*", "x-google-*", "x-ms-*", "x-metadata-*", "x-identity-*", "x-vault-*", "x-consul-*"),
    # Headers that a proxy or a framework reads for the caller, its rights, the path or the method.
    *("x-forwarded*", "x-real-*", "x-client-*", "x-remote-*", "x-original-*", "x-rewrite-*", "x-http-method*"),
    *("x-method*", "x-auth*", "x-api-*", "x-access-*", "x-token*", "x-csrf*", "x-user*", "x-envoy-*", "x-host*"),
    *("x-accel-*", "x-sendfile*", "x-requested-*"),
)
"""Refused names among the allowed ones."""
NEVER = (
    *("host", "authorization", "proxy-*", "cookie*", "metadata*", "content-*", "transfer-encoding", "connection"),
    *("te", "trailer", "upgrade", "expect", "forwarded", "via", "range", "origin", "rollcall-*", "nacos*"),
    *("accesstoken", "access-*", "token", "secret*", "keep-alive"),
)
"""Further names for which a client gets an error. Checks store other disallowed headers, and do not send them."""
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
HEADERS_MAX = 20


def is_allowed(name: str) -> bool:
    """Return whether a health check may send a header of this name."""
    folded = name.lower()
    return (
        _NAME.fullmatch(name) is not None
        and any(fnmatchcase(folded, pattern) for pattern in ALLOWED)
        and not any(fnmatchcase(folded, pattern) for pattern in REFUSED)
    )


def carries_rights(name: str) -> bool:
    """Return whether a client gets an error for a check with a header of this name."""
    folded = name.lower().replace("_", "-")
    return any(fnmatchcase(folded, pattern) for pattern in (*REFUSED, *NEVER))


def headers_of(text: str) -> dict[str, str]:
    """Return the headers in a checker's text that may be sent, by name.

    Shape: pairs ``name:value`` with ``|`` between; parts that are not pairs are left out.
    """
    found: dict[str, str] = {}
    for name, value in _pairs(text):
        if is_allowed(name) and not _CONTROL.search(value) and value.isascii() and len(found) < HEADERS_MAX:
            found[name] = value
    return found


def check_request(path: str, headers: str) -> None:
    """Check the path and headers that a client wants a health check to send.

    Raises:
        InvalidParam: the path has control characters, or a header carries rights or addresses; the text names it.
    """
    if _CONTROL.search(path):
        raise InvalidParam("field 'path' of 'healthChecker' should have no control characters")
    if _CONTROL.search(headers):
        raise InvalidParam("field 'headers' of 'healthChecker' should have no control characters")
    for name, _ in _pairs(headers):
        if carries_rights(name):
            raise InvalidParam(
                f"field 'headers' of 'healthChecker' has {name[:64]!a}, which a check does not send: "
                f"only {', '.join(ALLOWED)} without those that carry rights or addresses"
            )


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = (part.partition(":") for part in text.split("|"))
    return [(name.strip(), value.strip()) for name, colon, value in parts if colon and name.strip()]
