"""The options by which the audit's commands reach members: addresses, credentials, time-outs and retries."""

import argparse
import os
import re
import ssl
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from app.config.addresses import join_address, split_address

PASSWORD_VARIABLE = "ROLLCALL_AUDIT_PASSWORD"
IDENTITY_VARIABLE = "ROLLCALL_AUDIT_IDENTITY"
CONTEXT_PATH = "/nacos"
RETRIES_MAX = 100
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|)")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class AccessError(Exception):
    """An address or option cannot be used; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Access:
    """The scheme, context path, time-out, retries and credentials of every call to a member."""

    scheme: str = "http"
    context_path: str = CONTEXT_PATH
    timeout_s: float = 10.0
    """The time for a connection, and for each wait for more of an answer."""
    retries: int = 3
    """Further tries for one member in one round, for all its calls together."""
    user: str = ""
    password: str = field(default="", repr=False)
    identity: tuple[str, str] | None = field(default=None, repr=False)
    """Name and value of the header by which real Nacos knows its members."""
    ca: str = ""
    """The file with the certificates (PEM) by which members' are checked; empty for those that the Web trusts."""


def duration_s(text: str) -> float:
    """Seconds of ``15s``, ``500ms``, ``2m``, ``1h`` or a plain number; for argparse."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 15s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]


def positive_duration_s(text: str) -> float:
    """Seconds of a duration as ``duration_s`` reads it, which must be over 0; for argparse."""
    if not (seconds := duration_s(text)):
        raise argparse.ArgumentTypeError("a time-out should be more than 0")
    return seconds


def parse_member(text: str) -> str:
    """The address of ``host[:port]``, with its port.

    Raises:
        AccessError: the text is no address.
    """
    try:
        return join_address(*split_address(text.strip()))
    except ValueError as error:
        raise AccessError(f"{text.strip()!r} is no address of a member: {error}") from None


def parse_members(text: str) -> tuple[str, ...]:
    """The addresses of a comma list, each once.

    Raises:
        AccessError: an entry is no address, or the list has no entry.
    """
    found = dict.fromkeys(parse_member(part) for part in text.split(",") if part.strip())
    if not found:
        raise AccessError("no member is named")
    return tuple(found)


def parse_url(text: str) -> tuple[str, str, str | None]:
    """Scheme, address and context path (None where the URL has none) of ``[http[s]://]host[:port][/path]``.

    Raises:
        AccessError: the text is no such URL.
    """
    parts = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https") or parts.query or parts.fragment or "@" in parts.netloc:
        raise AccessError(f"{text!r} is no URL of a member, such as http://10.0.0.7:8848/nacos")
    path = parts.path.rstrip("/")
    return parts.scheme, parse_member(parts.netloc), path or None


def add_member_options(parser: argparse.ArgumentParser) -> None:
    """Add the two options of which one names the members; ``members_of`` reads it."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--members", metavar="HOST:PORT,...", help="the members, all of them, each may begin https://")
    where.add_argument("--from-cluster", metavar="URL", help="the members that this one lists")


def members_of(options: argparse.Namespace) -> tuple[Access, tuple[str, ...], str]:
    """The access, the members that are named, and the address of the one whose list is to be asked.

    With ``--members`` that address is empty, with ``--from-cluster`` no member is named.

    Raises:
        AccessError: an address or option cannot be used.
    """
    if options.from_cluster is None:
        secure = options.members.lstrip().startswith("https://")
        named = options.members.replace("https://", "") if secure else options.members
        return access_of(options, "https" if secure else "http"), parse_members(named), ""
    scheme, address, path = parse_url(options.from_cluster)
    return access_of(options, scheme, path), (), address


def add_access_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``access_of`` reads: time-out, retries, context path and credentials."""
    parser.add_argument(
        "--timeout", metavar="TIME", type=positive_duration_s, default=10.0, help="of a call to a member (10s)"
    )
    parser.add_argument(
        "--retries", metavar="N", type=int, choices=range(RETRIES_MAX + 1), default=3, help="for a member (3)"
    )
    parser.add_argument("--ca", metavar="FILE", help="call by HTTPS, and check the members by these certificates (PEM)")
    parser.add_argument("--context-path", metavar="PATH", help=f"of the members ({CONTEXT_PATH})")
    parser.add_argument("--user", metavar="NAME", help="log in at each member; the password is read from a file or")
    parser.add_argument("--password-file", metavar="FILE", help=f"from the environment's {PASSWORD_VARIABLE}")
    parser.add_argument(
        "--identity",
        metavar="KEY:VALUE",
        help=f"the header by which real Nacos knows its members; better in the environment's {IDENTITY_VARIABLE}",
    )


def access_of(options: argparse.Namespace, scheme: str = "http", context_path: str | None = None) -> Access:
    """The access that the options of ``add_access_options`` describe; ``--context-path`` goes before ``context_path``.

    ``--ca`` means HTTPS, whatever ``scheme`` is.

    ``scheme`` and ``context_path``: those of a member's URL, where the command takes one.

    Raises:
        AccessError: the options contradict each other or lack a password, or the password file cannot be read.
    """
    path = options.context_path if options.context_path is not None else context_path
    password = ""
    if options.user:
        password = _password(options.password_file)
    elif options.password_file:
        raise AccessError("--password-file goes with --user")
    return Access(
        scheme="https" if options.ca else scheme,
        ca=_certificates(options.ca or ""),
        context_path=CONTEXT_PATH if path is None else _normal_path(path),
        timeout_s=options.timeout,
        retries=options.retries,
        user=options.user or "",
        password=password,
        identity=_identity(options.identity or os.environ.get(IDENTITY_VARIABLE, "")),
    )


def _password(path: str | None) -> str:
    if path is None:
        if PASSWORD_VARIABLE not in os.environ:
            raise AccessError(f"--user needs --password-file or the environment's {PASSWORD_VARIABLE}")
        return os.environ[PASSWORD_VARIABLE]
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise AccessError(f"the password file {path} cannot be read: {error}") from None


def _certificates(path: str) -> str:
    """The path, if the file holds certificates: the library would name neither it nor the fault."""
    if path:
        try:
            ssl.create_default_context(cafile=path)
        except OSError as error:  # ssl.SSLError is one
            raise AccessError(
                f"--ca {path} holds no certificates that can be read: {error.strerror or error}"
            ) from None
    return path


def _identity(text: str) -> tuple[str, str] | None:
    if not text:
        return None
    name, colon, value = text.partition(":")
    # The value is a secret, and is not repeated.
    if not colon or not _HEADER_NAME.fullmatch(name) or not value.strip().isprintable() or not value.strip().isascii():
        raise AccessError("an identity should be KEY:VALUE, the name and value of a header")
    return name, value.strip()


def _normal_path(path: str) -> str:
    path = path.strip("/")
    return f"/{path}" if path else ""


def names_of(text: Iterable[str]) -> tuple[str, ...]:
    """The names in comma lists, each once, in their order."""
    return tuple(dict.fromkeys(name.strip() for part in text for name in part.split(",") if name.strip()))
