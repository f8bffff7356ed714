"""What a node says when it is ready: where it is, and a request to try."""

from app.config.addresses import is_wildcard, join_address, split_address
from app.config.settings import Settings


def base_url(settings: Settings) -> str:
    """Return the URL that every path of the API is appended to, as this machine reaches it."""
    own_host = split_address(settings.self_address)[0]
    host = own_host if is_wildcard(settings.host) else settings.host
    return f"http://{join_address(host, settings.port)}{settings.context_path}"


def announce(settings: Settings) -> str:
    """Return the lines that one node prints when it serves; the first begins with ``ready``."""
    url = base_url(settings)
    count = len(settings.members)
    role = "standalone" if settings.standalone else f"member {settings.self_address} of {count}"
    return f"ready {url} ({role})\n{request_to_try(url, url)}"


def request_to_try(register_at: str, list_at: str) -> str:
    """Return two commands: register an instance at one node, and list it at another."""
    instance = "serviceName=orders&ip=10.0.0.7&port=8080"
    return (
        "try it (an instance without beats is gone after 30 seconds):\n"
        f"  curl -X POST '{register_at}/v1/ns/instance?{instance}'\n"
        f"  curl '{list_at}/v1/ns/instance/list?serviceName=orders'"
    )
