"""The command ``rollcall admin``: makes the first administrator, or sets a new password for one who lost it."""

import argparse
import getpass
import json
import os
import socket
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from app.config import settings_keys as keys
from app.config.addresses import is_wildcard, join_address
from app.config.auth_settings import AUTH_ENABLED, FIRST_ADMIN_FILE, read_secret
from app.config.client_config import PASSWORD_VARIABLE
from app.config.settings import SettingError, Settings, read_settings
from app.languages.command_texts import gettext
from app.languages.phrases import phrase, reason_of
from app.machine.process.data_lock import DataFolderInUse, DataLock
from app.machine.process.running_nodes import RunningNode, running_nodes

NAME = "admin"
PATH = "/v1/auth/users/admin"
TIMEOUT_S = 10.0
FILE_BYTES_MAX = 4_096


class AdminError(Exception):
    """The administrator was not made. The text is for the operator."""


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "admin",
        help="create the first administrator of a member, or set an administrator's password",
        description="While the member runs, make the first administrator of its cluster, with the secret in its data "
        "folder, which exists while there is no administrator. While it does not run, write an administrator into "
        "its data folder, or a new password for one: the other members get it when it starts. Without options, the "
        "member of this user that runs here is used. The password comes from --password-file, from the environment's "
        f"{PASSWORD_VARIABLE}, or from the terminal.",
    )
    parser.add_argument("--user", metavar="NAME", default=NAME, help=f"name of the administrator ({NAME})")
    parser.add_argument("--password-file", metavar="FILE", type=Path, help="file with the password as its first line")
    parser.add_argument("--port", metavar="PORT", help=f"HTTP port of the member ({keys.PORT.default})")
    parser.add_argument("--data", metavar="DIR", help=f"data folder of the member ({keys.DATA_DIR.default})")
    parser.add_argument("--conf", metavar="DIR", help="folder of its application.properties and cluster.conf (./conf)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code: 0 success, 2 wrong settings, 1 any other failure, which it prints."""
    try:
        settings = _settings(options)
        where = _make(settings, options.user, _password(options.password_file))
    except SettingError as error:
        print(f"rollcall: {reason_of(error)}", file=sys.stderr)
        return 2
    except AdminError as error:
        print(f"rollcall: {reason_of(error)}", file=sys.stderr)
        return 1
    print(gettext("%(user)s is an administrator, by %(where)s", user=options.user, where=where))
    if settings.auth is None:
        text = gettext("warning: %(name)s is false: calls do not need a user yet", name=AUTH_ENABLED.name)
        print(f"rollcall: {text}", file=sys.stderr)
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    """Return the settings of the member that is meant: one that runs here, or one that does not run.

    Raises:
        SettingError: an option or a setting is not allowed.
        AdminError: it is unclear which member is meant, or a member runs here and another folder was named.
    """
    chosen = ((keys.PORT, options.port), (keys.DATA_DIR, options.data), (keys.CONF_DIR, options.conf))
    settings = read_settings({key.name: str(value) for key, value in chosen if value is not None})
    running = running_nodes()
    fitting = [
        one
        for one in running
        if (options.data is None or one.settings.data_dir == settings.data_dir)
        and (options.port is None or one.settings.port == settings.port)
        and (options.conf is None or one.settings.conf_dir == settings.conf_dir)
    ]
    if exact := [one for one in fitting if one.settings.data_dir == settings.data_dir]:
        return exact[0].settings
    if len(fitting) > 1:
        several = _shown(fitting)
        raise AdminError(phrase("several members run here; choose one with --port: %(members)s", members=several))
    if fitting:
        text = gettext("using the member that runs here: %(members)s", members=_shown(fitting))
        print(f"rollcall: {text}", file=sys.stderr)
        return fitting[0].settings
    if not _is_in_use(settings.data_dir) and _answers(settings):
        seen = phrase("; running here: %(members)s", members=_shown(running)) if running else ""
        raise AdminError(
            phrase(
                "a server answers at port %(port)s, and does not use the data folder %(data_dir)s%(seen)s. "
                "Name the folder of that member with --data, as its own user; for a member that does not "
                "run, give its --port",
                port=settings.port,
                data_dir=settings.data_dir,
                seen=seen,
            )
        )
    return settings


def _is_in_use(data_dir: Path) -> bool:
    """Return whether a node uses the folder. It is not made if it does not exist."""
    if not data_dir.is_dir():
        return False
    try:
        with DataLock(data_dir):
            return False
    except DataFolderInUse:
        return True


def _answers(settings: Settings) -> bool:
    """Return whether a server of this machine takes connections at the port."""
    try:
        socket.create_connection((_called_host(settings), settings.port), timeout=TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _called_host(settings: Settings) -> str:
    return ("::1" if ":" in settings.host else "127.0.0.1") if is_wildcard(settings.host) else settings.host


def _shown(nodes: list[RunningNode]) -> str:
    listed = [
        gettext(
            "port %(port)s, data in %(folder)s, process %(pid)s",
            port=one.settings.port,
            folder=one.settings.data_dir,
            pid=one.pid,
        )
        for one in nodes
    ]
    return ", ".join(listed)


def _password(file: Path | None) -> str:
    if file is not None:
        try:
            lines = file.read_bytes()[:FILE_BYTES_MAX].decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise AdminError(
                phrase("the password file %(file)s cannot be read: %(error)s", file=file, error=error)
            ) from None
        return lines[0] if lines else ""
    if (given := os.environ.get(PASSWORD_VARIABLE)) is not None:
        return given
    if not sys.stdin.isatty():
        raise AdminError(phrase("no password: give --password-file, or set %(variable)s", variable=PASSWORD_VARIABLE))
    password = getpass.getpass(gettext("Password: "))
    if getpass.getpass(gettext("Again: ")) != password:
        raise AdminError(phrase("the two passwords differ"))
    return password


def _make(settings: Settings, name: str, password: str) -> str:
    """Make the administrator. Return how, as text."""
    # The modules below load the domain of a node, which the other commands do without.
    from app.naming.model.nacos_errors import NacosError
    from app.tools.command.admin_offline import write_admin

    is_new = not settings.data_dir.is_dir()
    try:
        write_admin(settings, name, password)
    except DataFolderInUse:
        return _ask(settings, name, password)
    except NacosError as error:
        raise AdminError(error.text) from None
    folder = str(settings.data_dir)
    if is_new:
        return gettext(
            "a record in %(folder)s, which is new: no member ran with it yet; the member reads it when it starts",
            folder=folder,
        )
    return gettext("a record in %(folder)s; the member reads it when it starts", folder=folder)


def _ask(settings: Settings, name: str, password: str) -> str:
    """Have the running member make the first administrator, with the secret in its data folder.

    If there is no secret, there is an administrator already, as the member answers.
    """
    file = settings.data_dir / FIRST_ADMIN_FILE
    secret = read_secret(file)
    if secret is None and os.path.lexists(file):
        raise AdminError(phrase("the secret of the first administrator cannot be read: %(file)s", file=file))
    host = _called_host(settings)
    url = f"{settings.scheme}://{join_address(host, settings.port)}{settings.context_path}{PATH}"
    form = urlencode({"username": name, "password": password, "secret": secret or ""}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *_https(settings))
    try:
        with opener.open(urllib.request.Request(url, form, method="POST"), timeout=TIMEOUT_S) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode("utf-8", "replace")
        raise AdminError(
            phrase("%(url)s answers %(code)s: %(text)s", url=url, code=error.code, text=_text_of(text))
        ) from None
    except OSError as error:
        raise AdminError(
            phrase(
                "the member that uses %(data_dir)s does not answer at %(url)s: %(error)s",
                data_dir=settings.data_dir,
                url=url,
                error=error,
            )
        ) from None
    return gettext("the member at %(address)s", address=join_address(host, settings.port))


def _https(settings: Settings) -> list[urllib.request.HTTPSHandler]:
    """Return the way to call this machine's member by HTTPS, with any name in its certificate."""
    if settings.http_tls is None:
        return []
    context = ssl.create_default_context(cafile=str(settings.http_tls.trusted))
    context.check_hostname = False  # it is called at the loopback address, which its certificate need not name
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return [urllib.request.HTTPSHandler(context=context)]


def _text_of(body: str) -> str:
    """Return the message of a refusal."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body
