"""The options of the audit's commands for reaching members: addresses, credentials, time-outs and retries."""

import argparse
import getpass
import os
import re
import ssl
import sys
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from app.config.addresses import join_address, split_address
from app.config.client_config import (
    AUDIT_IDENTITY_VARIABLE,
    AUDIT_PASSWORD_VARIABLE,
    PASSWORD_VARIABLE,
    PROFILE_VARIABLE,
    SERVER_VARIABLE,
    TOKEN_VARIABLE,
    ClientConfig,
    ClientConfigError,
    read_client_config,
)
from app.languages.command_texts import gettext
from app.languages.phrases import phrase

CONTEXT_PATH = "/nacos"
TIMEOUT_S = 10.0
DEFAULT_SERVER = "http://127.0.0.1:8848"
DEFAULT_NAMESPACE = "public"
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
    timeout_s: float = TIMEOUT_S
    """The time-out of a connection, and of each wait for more of an answer."""
    retries: int = 3
    """The number of further tries for one member in one round, for all its calls together."""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    """A token from an earlier login; with one there is no login."""
    identity: tuple[str, str] | None = field(default=None, repr=False)
    """The name and value of the header that identifies members of real Nacos."""
    ca: str = ""
    """The file of the CA certificates (PEM) for the members; empty for those that the Web trusts."""


def duration_s(text: str) -> float:
    """Return the seconds of ``15s``, ``500ms``, ``2m``, ``1h`` or a plain number; for argparse."""
    match = _DURATION.fullmatch(text)
    if match is None:
        reason = gettext("%(text)s is not a duration such as 15s, 500ms or 2m", text=repr(text))
        raise argparse.ArgumentTypeError(reason)
    return float(match[1]) * _UNITS[match[2]]


def positive_duration_s(text: str) -> float:
    """Return the seconds of a duration as ``duration_s`` reads it, which must be over 0; for argparse."""
    if not (seconds := duration_s(text)):
        raise argparse.ArgumentTypeError(gettext("a time-out should be more than 0"))
    return seconds


def parse_member(text: str) -> str:
    """Return the address of ``host[:port]``, with its port.

    Raises:
        AccessError: the text is not an address.
    """
    try:
        return join_address(*split_address(text.strip()))
    except ValueError as error:
        raise AccessError(
            phrase("%(text)s is not a member address: %(error)s", text=repr(text.strip()), error=error)
        ) from None


def parse_members(text: str) -> tuple[str, ...]:
    """Return the addresses of a comma-separated list, each once.

    Raises:
        AccessError: an entry is not an address, or the list is empty.
    """
    found = dict.fromkeys(parse_member(part) for part in text.split(",") if part.strip())
    if not found:
        raise AccessError(phrase("no member is given"))
    return tuple(found)


def parse_url(text: str) -> tuple[str, str, str | None]:
    """Return scheme, address and context path (None where the URL lacks it) of ``[http[s]://]host[:port][/path]``.

    Raises:
        AccessError: the text is not such a URL.
    """
    wrong = phrase("%(text)s is not the URL of a member, such as http://10.0.0.7:8848/nacos", text=repr(text))
    try:
        parts = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
    except ValueError:
        raise AccessError(wrong) from None
    if parts.scheme not in ("http", "https") or parts.query or parts.fragment or "@" in parts.netloc:
        raise AccessError(wrong)
    path = parts.path.rstrip("/")
    return parts.scheme, parse_member(parts.netloc), path or None


def add_member_options(parser: argparse.ArgumentParser) -> None:
    """Add the two options that name the members, one of which is given; ``members_of`` reads them."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--members", metavar="HOST:PORT,...", help="all members; each may begin with https://")
    where.add_argument(
        "--from-cluster",
        metavar="URL",
        help=f"the members that this one lists; without both, those of {SERVER_VARIABLE} or the configured server",
    )
    parser.set_defaults(refuse=parser.error)


def members_of(options: argparse.Namespace) -> tuple[Access, tuple[str, ...], str]:
    """Return the access, the named members, and the address of the member to ask for its list.

    With ``--members`` that address is empty; with ``--from-cluster`` no member is named.

    Raises:
        AccessError: an address or option cannot be used.
    """
    if options.members is None and options.from_cluster is None:
        # In place, as the messages of the commands name it.
        options.from_cluster = client_config(options).server or options.refuse(
            gettext(
                "one of --members and --from-cluster is needed, or a server in %(variable)s or in cli.toml",
                variable=SERVER_VARIABLE,
            )
        )
    if options.members is not None:
        secure = options.members.lstrip().startswith("https://")
        named = options.members.replace("https://", "") if secure else options.members
        return access_of(options, "https" if secure else "http"), parse_members(named), ""
    scheme, address, path = parse_url(options.from_cluster)
    return access_of(options, scheme, path), (), address


def client_config(options: argparse.Namespace) -> ClientConfig:
    """Return the configuration of environment and file, with the profile and for the server that the options name.

    Raises:
        AccessError: the configuration cannot be used.
    """
    server = getattr(options, "server", None) or getattr(options, "from_cluster", None)
    try:
        return read_client_config(profile=options.profile, server=server)
    except ClientConfigError as error:
        raise AccessError(*error.args) from None


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a server and a namespace, for ``server_of`` and ``namespace_of``."""
    add_server_option(parser)
    parser.add_argument("--namespace", metavar="NAMESPACE", help=f"the namespace of the services ({DEFAULT_NAMESPACE})")


def add_server_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a server, for ``server_of``."""
    parser.add_argument("--server", metavar="URL", help=f"any member; it asks the others ({DEFAULT_SERVER})")


def server_of(options: argparse.Namespace) -> str:
    """Return the URL of the server to ask: that of the options, the configured one, or the one of this machine.

    Raises:
        AccessError: the configuration cannot be used.
    """
    return options.server or client_config(options).server or DEFAULT_SERVER


def namespace_of(options: argparse.Namespace) -> str:
    """Return the namespace of the options, the configured one, or the public one.

    Raises:
        AccessError: the configuration cannot be used.
    """
    return options.namespace or client_config(options).namespace or DEFAULT_NAMESPACE


def add_access_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``access_of`` reads: time-out, retries, context path and credentials."""
    group = add_call_options(parser, TIMEOUT_S)
    group.add_argument(
        "--retries",
        metavar="N",
        type=int,
        choices=range(RETRIES_MAX + 1),
        default=3,
        help="further tries for each member (3)",
    )
    group.add_argument(
        "--identity",
        metavar="KEY:VALUE",
        help=f"the header that identifies members to real Nacos; safer in the variable {AUDIT_IDENTITY_VARIABLE}",
    )


def add_call_options(parser: argparse.ArgumentParser, timeout_s: float) -> "argparse._ArgumentGroup":
    """Add the options of ``add_access_options`` for commands that ask one Rollcall member, once; return their group."""
    group = parser.add_argument_group("how to call the server")
    group.add_argument(
        "--timeout",
        metavar="TIME",
        type=positive_duration_s,
        default=timeout_s,
        help=f"time-out of a connection, and of each part of an answer ({timeout_s:g}s)",
    )
    group.add_argument("--ca", metavar="FILE", help="use HTTPS, and verify the server with these certificates (PEM)")
    group.add_argument("--context-path", metavar="PATH", help=f"the context path of the server ({CONTEXT_PATH})")
    group.add_argument("--user", metavar="NAME", help=f"log in, with a password from a file or {PASSWORD_VARIABLE}")
    group.add_argument("--password-file", metavar="FILE", help="the password of --user")
    group.add_argument("--token-file", metavar="FILE", help=f"token of an earlier login, instead of {TOKEN_VARIABLE}")
    group.add_argument("--profile", metavar="NAME", help=f"a profile of cli.toml, instead of {PROFILE_VARIABLE}")
    parser.set_defaults(retries=0, identity=None)
    return group


def access_of(options: argparse.Namespace, scheme: str = "http", context_path: str | None = None) -> Access:
    """Return the access that the options of ``add_access_options`` describe; ``--context-path`` takes precedence.

    ``--ca`` means HTTPS, with any ``scheme``. Credentials that no option gives come from the configuration.

    ``scheme`` and ``context_path``: those of a member's URL, where the command takes one.

    Raises:
        AccessError: the options contradict each other or lack a password, or a file cannot be read.
    """
    path = options.context_path if options.context_path is not None else context_path
    config = client_config(options)
    user, password, token = _credentials(options, config)
    return Access(
        scheme="https" if options.ca else scheme,
        ca=_certificates(options.ca or (config.ca if scheme == "https" else "")),
        context_path=CONTEXT_PATH if path is None else _normal_path(path),
        timeout_s=options.timeout,
        retries=options.retries,
        user=user,
        password=password,
        token=token,
        identity=_identity(options.identity or os.environ.get(AUDIT_IDENTITY_VARIABLE, "")),
    )


def _credentials(options: argparse.Namespace, config: ClientConfig) -> tuple[str, str, str]:
    """Return user, password and token from the options, else from the configuration, where a token takes precedence."""
    if options.token_file:
        if options.user:
            raise AccessError(phrase("give either --token-file or --user, not both"))
        return "", "", first_line(phrase("token"), options.token_file)
    if options.user:
        is_own = config.user == options.user or not config.sources.get("password", "").startswith(str(config.file))
        return options.user, _password(options.password_file, config if is_own else ClientConfig()), ""
    if options.password_file:
        raise AccessError(phrase("--password-file needs --user"))
    if config.token:
        return "", "", _checked_token(config.token, config.sources.get("token", ""))
    if config.user:
        return config.user, _password(config.password_file or None, config), ""
    return "", "", ""


def _password(path: str | None, config: ClientConfig) -> str:
    if path is not None:
        return first_line(phrase("password"), path)
    if AUDIT_PASSWORD_VARIABLE in os.environ:
        return os.environ[AUDIT_PASSWORD_VARIABLE]
    if config.password:
        return config.password
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass(gettext("Password: "))
    raise AccessError(
        phrase(
            "--user needs --password-file, or the variable %(variable)s or %(other)s",
            variable=AUDIT_PASSWORD_VARIABLE,
            other=PASSWORD_VARIABLE,
        )
    )


def first_line(what: str, path: str) -> str:
    """Return the first line of a file with a secret. ``what``: its name in the error.

    Raises:
        AccessError: the file cannot be read, or a token in it cannot be sent.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise AccessError(
            phrase("the %(what)s file %(path)s cannot be read: %(error)s", what=what, path=path, error=error)
        ) from None
    return _checked_token(text, path) if what == "token" else text


def _checked_token(text: str, source: str) -> str:
    """Return a token if it can be sent in a header. Its text is a secret, and no message repeats it."""
    if not text.isascii() or not text.isprintable() or not text or " " in text:
        raise AccessError(
            phrase("the token of %(source)s is not valid: it should be one word, as returned by a login", source=source)
        )
    return text


def _certificates(path: str) -> str:
    """Return the path if the file holds certificates: the library would name neither the path nor the fault."""
    if path:
        try:
            ssl.create_default_context(cafile=path)
        except OSError as error:  # ssl.SSLError is one
            raise AccessError(
                phrase(
                    "--ca %(path)s has no readable certificates: %(error)s", path=path, error=error.strerror or error
                )
            ) from None
    return path


def _identity(text: str) -> tuple[str, str] | None:
    if not text:
        return None
    name, colon, value = text.partition(":")
    # The value is a secret, and is not repeated.
    if not colon or not _HEADER_NAME.fullmatch(name) or not value.strip().isprintable() or not value.strip().isascii():
        raise AccessError(phrase("an identity should be KEY:VALUE, the name and value of a header"))
    return name, value.strip()


def _normal_path(path: str) -> str:
    path = path.strip("/")
    return f"/{path}" if path else ""


def names_of(text: Iterable[str]) -> tuple[str, ...]:
    """Return the names in comma-separated lists, each once, in their order."""
    return tuple(dict.fromkeys(name.strip() for part in text for name in part.split(",") if name.strip()))
