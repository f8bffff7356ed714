"""The addresses of a node at its start: whether it can listen, and the lines that it prints when it is ready."""

import socket

from app.config.addresses import is_wildcard, join_address, split_address
from app.config.settings import Settings


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


def announce(settings: Settings) -> str:
    """Return the lines to print when a node serves; the first begins with ``ready``."""
    url = base_url(settings)
    count = len(settings.members)
    role = "standalone" if settings.standalone else f"member {settings.self_address} of {count}"
    trusted = str(settings.http_tls.trusted) if settings.http_tls else ""
    return f"ready {url} ({role})\n{request_to_try(url, url, trusted)}"


def request_to_try(register_at: str, list_at: str, trusted: str = "") -> str:
    """Return the text with two commands: register an instance at one node's URL, and list it at another's.

    ``trusted``: the file of certificates by which HTTPS is checked.
    """
    curl = f"curl --cacert '{trusted}'" if trusted else "curl"
    instance = "serviceName=orders&ip=10.0.0.7&port=8080"
    return (
        "try it (an instance without beats is gone after 30 seconds):\n"
        f"  {curl} -X POST '{register_at}/v1/ns/instance?{instance}'\n"
        f"  {curl} '{list_at}/v1/ns/instance/list?serviceName=orders'"
    )
