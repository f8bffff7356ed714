"""The addresses of a node at its start: whether it can listen, and the lines that it prints when it is ready."""

import os
import shlex
import socket

from app.config.addresses import is_wildcard, join_address, split_address
from app.config.auth_settings import FIRST_ADMIN_FILE
from app.config.settings import Settings

ADMIN = "admin"
"""The name of the first administrator, unless `rollcall admin` is given another."""


def listen_failure(host: str, port: int) -> str | None:
    """Return the reason why no process could listen on a TCP port now; None if one could."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As gunicorn does: closing connections of a previous run do not occupy the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def base_url(settings: Settings) -> str:
    """Return the URL below which the API is reached from this machine, without a slash at its end."""
    own_host = split_address(settings.self_address)[0]
    host = own_host if is_wildcard(settings.host) else settings.host
    return f"{settings.scheme}://{join_address(host, settings.port)}{settings.context_path}"


def console_url(settings: Settings) -> str:
    """Return the URL of the console, as a browser on this machine opens it."""
    return f"{base_url(settings)}/"


def announce(settings: Settings) -> str:
    """Return the lines to print when a node serves; the first begins with the address of its console."""
    return f"{ready_text(settings)}\n{to_try(settings)}"


def ready_text(settings: Settings) -> str:
    """Return the line that says where a node serves."""
    count = len(settings.members)
    role = "standalone" if settings.standalone else f"member {settings.self_address} of {count}"
    return f"console {console_url(settings)} ready: {role}, data in {settings.data_dir}"


def to_try(settings: Settings, last: Settings | None = None) -> str:
    """Return the text with commands to try, for a node that serves: with users, or without.

    ``last``: another member, at which what was registered at the first one is listed.
    """
    url, other = base_url(settings), base_url(last or settings)
    if settings.auth is None:
        return request_to_try(url, other, str(settings.http_tls.trusted) if settings.http_tls else "")
    lines = []
    if os.path.lexists(settings.data_dir / FIRST_ADMIN_FILE):
        conf = f" --conf {shlex.quote(str(settings.conf_dir))}" if settings.conf_dir.is_dir() else ""
        data = shlex.quote(str(settings.data_dir))
        lines = [
            "users are on, and there is no administrator yet; create the first one:",
            f"  rollcall admin --port {settings.port} --data {data}{conf}",
        ]
    ca = f" --ca {shlex.quote(str(settings.http_tls.trusted))}" if settings.http_tls else ""
    return "\n".join(
        (
            *lines,
            "try it (an instance without beats is gone after 30 seconds):",
            f"  rollcall register orders 10.0.0.7:8080 --user {ADMIN} --server {url}{ca}",
            f"  rollcall instances orders --user {ADMIN} --server {other}{ca}",
        )
    )


def request_to_try(register_at: str, list_at: str, trusted: str = "") -> str:
    """Return the text with two commands: register an instance at one node's URL, and list it at another's.

    ``trusted``: the file of certificates that HTTPS is checked with.
    """
    curl = f"curl --cacert '{trusted}'" if trusted else "curl"
    instance = "serviceName=orders&ip=10.0.0.7&port=8080"
    return (
        "try it (an instance without beats is gone after 30 seconds):\n"
        f"  {curl} -X POST '{register_at}/v1/ns/instance?{instance}'\n"
        f"  {curl} '{list_at}/v1/ns/instance/list?serviceName=orders'"
    )
