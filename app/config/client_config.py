"""A command's way to a cluster: the environment over a profile of ``cli.toml`` over the file's own values, checked.

The file is ``$ROLLCALL_CONFIG``, else ``$XDG_CONFIG_HOME/rollcall/cli.toml``, else ``~/.config/rollcall/cli.toml``.
"""

import difflib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.languages.language_tags import LANGUAGE_VARIABLE
from app.languages.phrases import phrase

SERVER_VARIABLE = "ROLLCALL_SERVER"
NAMESPACE_VARIABLE = "ROLLCALL_NAMESPACE"
USER_VARIABLE = "ROLLCALL_USER"
PASSWORD_VARIABLE = "ROLLCALL_PASSWORD"
NEW_PASSWORD_VARIABLE = "ROLLCALL_NEW_PASSWORD"
TOKEN_VARIABLE = "ROLLCALL_TOKEN"
CA_VARIABLE = "ROLLCALL_CA"
PROFILE_VARIABLE = "ROLLCALL_PROFILE"
FILE_VARIABLE = "ROLLCALL_CONFIG"
AUDIT_PASSWORD_VARIABLE = "ROLLCALL_AUDIT_PASSWORD"
AUDIT_IDENTITY_VARIABLE = "ROLLCALL_AUDIT_IDENTITY"
CLIENT_VARIABLES = frozenset(
    {
        SERVER_VARIABLE,
        NAMESPACE_VARIABLE,
        USER_VARIABLE,
        PASSWORD_VARIABLE,
        NEW_PASSWORD_VARIABLE,
        TOKEN_VARIABLE,
        CA_VARIABLE,
        PROFILE_VARIABLE,
        FILE_VARIABLE,
        AUDIT_PASSWORD_VARIABLE,
        AUDIT_IDENTITY_VARIABLE,
    }
)
"""Variables of commands, which are not settings of a node."""
_SERVICE_LINK = re.compile(r"ROLLCALL_(SERVICE_HOST|SERVICE_PORT|PORT)(_.*)?")
"""Variables that Kubernetes sets in every pod of a namespace with a service named rollcall."""

PLAIN_KEYS = ("server", "namespace", "ca")
CREDENTIAL_KEYS = ("user", "password", "password-file", "token")
SECRET_KEYS = ("password", "token")
PROFILES = "profiles"
FILE_BYTES_MAX = 256 * 1024
_VARIABLES = {
    "server": SERVER_VARIABLE,
    "namespace": NAMESPACE_VARIABLE,
    "ca": CA_VARIABLE,
    "user": USER_VARIABLE,
    "password": PASSWORD_VARIABLE,
    "token": TOKEN_VARIABLE,
}


class ClientConfigError(Exception):
    """The environment or the file of a command cannot be used. The text says why, and contains no secret."""


def is_no_setting(variable: str) -> bool:
    """Return whether an environment variable is for commands, though its name begins like a setting of a node."""
    is_of_commands = variable in CLIENT_VARIABLES or variable == LANGUAGE_VARIABLE
    return is_of_commands or bool(_SERVICE_LINK.fullmatch(variable))


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The configuration of commands. An empty text is a value that nothing configures."""

    server: str = ""
    """The URL of any member."""
    namespace: str = ""
    ca: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    token: str = field(default="", repr=False)
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each configured value, by its key in the file."""
    file: Path = Path()
    """The file that was read, or would be read if it existed."""
    note: str = ""
    """Why configured credentials are left out; empty if none are."""


def read_client_config(
    environ: Mapping[str, str] | None = None, *, profile: str | None = None, server: str | None = None
) -> ClientConfig:
    """Return the configuration. ``profile`` and ``server``: as given on the command line.

    The file's credentials belong to the server that the file names: they are left out if the command line or the
    environment names another one.

    Raises:
        ClientConfigError: the file cannot be read, is invalid, or has no such profile.
    """
    variables = os.environ if environ is None else environ
    file = config_file(variables)
    written, origin = _written(file, variables, profile or variables.get(PROFILE_VARIABLE, ""))
    found: dict[str, tuple[str, str]] = {key: (value, origin) for key, value in written.items()}
    given = {key: variables[name] for key, name in _VARIABLES.items() if variables.get(name, "").strip()}
    given = {key: value if key == "password" else value.strip() for key, value in given.items()}
    note = ""
    if _is_another(server or given.get("server", ""), written.get("server", "")):
        if any(key in found for key in CREDENTIAL_KEYS):
            note = phrase(
                "the credentials in %(file)s are those of %(server)s, and are not sent to another server",
                file=file,
                server=written["server"],
            )
        found = {key: value for key, value in found.items() if key not in (*CREDENTIAL_KEYS, "ca")}
    if given.keys() & {"user", "token"}:
        # A user or token of the environment comes with its own password, or with none.
        found = {key: value for key, value in found.items() if key not in CREDENTIAL_KEYS}
    found |= {
        key: (value, phrase("environment variable %(name)s", name=_VARIABLES[key])) for key, value in given.items()
    }
    values = {key.replace("-", "_"): value for key, (value, _) in found.items()}
    return ClientConfig(**values, sources={key: source for key, (_, source) in found.items()}, file=file, note=note)


def config_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the file, whether or not it exists."""
    if chosen := environ.get(FILE_VARIABLE, ""):
        return Path(chosen).expanduser()
    base = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path(environ.get("HOME") or "~").expanduser() / ".config"
    return folder / "rollcall" / "cli.toml"


def _is_another(wanted: str, own: str) -> bool:
    return bool(wanted and own) and _plain(wanted) != _plain(own)


def _plain(server: str) -> str:
    return (server if "://" in server else f"http://{server}").rstrip("/").lower()


def _written(file: Path, environ: Mapping[str, str], profile: str) -> tuple[dict[str, str], str]:
    """Return the values of the file, with the profile's over the file's own, and the name of their source."""
    text = _text(file, is_needed=bool(environ.get(FILE_VARIABLE) or profile))
    if text is None:
        return {}, ""
    content, mode, owner = text
    import tomllib

    try:
        table = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ClientConfigError(phrase("%(file)s is not UTF-8", file=file)) from None
    except tomllib.TOMLDecodeError as error:
        raise ClientConfigError(phrase("%(file)s is not TOML: %(error)s", file=file, error=error)) from None
    profiles = table.pop(PROFILES, {})
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise ClientConfigError(phrase("%(file)s: `profiles` should be tables, such as [profiles.prod]", file=file))
    parts = [(f"{file}", table), *((f"{file} [{PROFILES}.{name}]", one) for name, one in profiles.items())]
    for where, part in parts:
        for fault in _faults(part):
            raise ClientConfigError(phrase("%(where)s: %(fault)s", where=where, fault=fault))
    if any(part.get(key) for _, part in parts for key in SECRET_KEYS):
        _check_private(file, mode, owner)
    if not profile:
        return table, str(file)
    if profile not in profiles:
        known = ", ".join(sorted(profiles)) or phrase("none")
        raise ClientConfigError(
            phrase(
                "%(file)s has no profile %(profile)s; its profiles: %(known)s",
                file=file,
                profile=repr(profile),
                known=known,
            )
        )
    own = profiles[profile]
    # The file's own credentials belong to its own server, and to a profile that has no server of its own.
    dropped = {"server", "ca", *CREDENTIAL_KEYS} if "server" in own else set()
    dropped |= set(CREDENTIAL_KEYS) if own.keys() & set(CREDENTIAL_KEYS) else set()
    kept = {key: value for key, value in table.items() if key not in dropped}
    return {**kept, **own}, f"{file} [{PROFILES}.{profile}]"


def _text(file: Path, *, is_needed: bool) -> tuple[bytes, int, int] | None:
    """Return the content of the file with its mode and owner; None for a missing file that is not needed."""
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            content = opened.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        if not is_needed:
            return None
        raise ClientConfigError(
            phrase("%(file)s of --profile or %(variable)s does not exist", file=file, variable=FILE_VARIABLE)
        ) from None
    except OSError as error:
        raise ClientConfigError(
            phrase("%(file)s cannot be read: %(error)s", file=file, error=error.strerror or error)
        ) from None
    if len(content) > FILE_BYTES_MAX:
        raise ClientConfigError(phrase("%(file)s is over %(count)s bytes", file=file, count=FILE_BYTES_MAX))
    return content, status.st_mode, status.st_uid


def _faults(table: Mapping[str, Any]) -> Iterator[str]:
    known = (*PLAIN_KEYS, *CREDENTIAL_KEYS)
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            if near:
                yield phrase("%(key)s is not a key of this file; did you mean %(word)s?", key=repr(key), word=near[0])
            else:
                names = ", ".join(known)
                yield phrase("%(key)s is not a key of this file; it may have %(names)s", key=repr(key), names=names)
        elif not isinstance(value, str) or not value.isprintable() or not value.strip():
            yield phrase("%(key)s should be a text in one line", key=key)


def _check_private(file: Path, mode: int, owner: int) -> None:
    """Refuse a file with a secret that others can read or write.

    Raises:
        ClientConfigError: it belongs to another user, or others have rights to it.
    """
    if owner not in (os.geteuid(), 0):
        raise ClientConfigError(
            phrase("%(file)s holds a password or token and belongs to another user: chown it", file=file)
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ClientConfigError(
            phrase("%(file)s holds a password or token and others can read it: chmod 600 %(file)s", file=file)
        )
