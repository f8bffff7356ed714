"""Asking another member for what only it knows: one call, a connection of its own, a deadline for all of it."""

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson
from urllib3.exceptions import HTTPError

from app.config.version import NACOS_VERSION
from app.http.api.call import Services
from app.http.forward.in_pool import AGENT
from app.http.forward.member_connections import MemberConnections

log = logging.getLogger(__name__)


def ask_member(
    services: Services, member: str, path: str, parameters: Mapping[str, str | int], timeout_s: float
) -> dict[str, Any] | None:
    """The JSON object that a member answers; None when it answers nothing of use in time."""
    settings = services.settings
    headers = {"User-Agent": AGENT, "Client-Version": NACOS_VERSION, "Accept-Encoding": "identity"}
    if settings.identity_key:
        headers[settings.identity_key] = settings.identity_value
    connections = MemberConnections(member)
    try:
        status, body, _ = connections.send(
            "GET", f"{settings.context_path}{path}?{urlencode(parameters)}", headers, None, timeout_s
        )
        value = orjson.loads(body) if status == 200 else None
    except (HTTPError, orjson.JSONDecodeError) as error:
        log.info("%s of %s: %s", path, member, error)
        return None
    finally:
        connections.close()
    return value if isinstance(value, dict) else None
