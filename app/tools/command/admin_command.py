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
        print(f"rollcall: {error}", file=sys.stderr)
        return 2
    except AdminError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return 1
    print(f"{options.user} is an administrator, by {where}")
    if settings.auth is None:
        print(f"rollcall: warning: {AUTH_ENABLED.name} is false: calls do not need a user yet", file=sys.stderr)
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
        raise AdminError(f"several members run here; choose one with --port: {_shown(fitting)}")
    if fitting:
        print(f"rollcall: using the member that runs here: {_shown(fitting)}", file=sys.stderr)
        return fitting[0].settings
    if not _is_in_use(settings.data_dir) and _answers(settings):
        seen = f"; running here: {_shown(running)}" if running else ""
        raise AdminError(
            f"a server answers at port {settings.port}, and does not use the data folder {settings.data_dir}{seen}. "
            "Name the folder of that member with --data, as its own user; for a member that does not run, give its "
            "--port"
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
    return ", ".join(f"port {one.settings.port}, data in {one.settings.data_dir}, process {one.pid}" for one in nodes)


def _password(file: Path | None) -> str:
    if file is not None:
        try:
            lines = file.read_bytes()[:FILE_BYTES_MAX].decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise AdminError(f"the password file {file} cannot be read: {error}") from None
        return lines[0] if lines else ""
    if (given := os.environ.get(PASSWORD_VARIABLE)) is not None:
        return given
    if not sys.stdin.isatty():
        raise AdminError(f"no password: give --password-file, or set {PASSWORD_VARIABLE}")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise AdminError("the two passwords differ")
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
    folder = f"{settings.data_dir}, which is new: no member ran with it yet" if is_new else str(settings.data_dir)
    return f"a record in {folder}; the member reads it when it starts"


def _ask(settings: Settings, name: str, password: str) -> str:
    """Have the running member make the first administrator, with the secret in its data folder.

    If there is no secret, there is an administrator already, as the member answers.
    """
    file = settings.data_dir / FIRST_ADMIN_FILE
    secret = read_secret(file)
    if secret is None and os.path.lexists(file):
        raise AdminError(f"the secret of the first administrator cannot be read: {file}")
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
        raise AdminError(f"{url} answers {error.code}: {_text_of(text)}") from None
    except OSError as error:
        raise AdminError(f"the member that uses {settings.data_dir} does not answer at {url}: {error}") from None
    return f"the member at {join_address(host, settings.port)}"


def _https(settings: Settings) -> list[urllib.request.HTTPSHandler]:
    """Return the way to call this machine's member by HTTPS, whatever name its certificate has."""
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
