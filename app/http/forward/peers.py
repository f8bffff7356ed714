"""Asking another member for data that only that member has."""

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson

from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.http.api.call import Services
from app.http.forward.member_link import ANSWER_BYTES_MAX
from distro.errors import TransportError
from distro.peer_calls import call_peer, peer_session

log = logging.getLogger(__name__)


def ask_member(
    services: Services, member: str, path: str, parameters: Mapping[str, str | int], timeout_s: float
) -> dict[str, Any] | None:
    """Return the JSON object that a member answers to a GET; None without one within ``timeout_s``. Blocks."""
    settings = services.settings
    headers = {"Client-Version": NACOS_VERSION, "Accept-Encoding": "identity"}
    url = f"{settings.scheme}://{member}{settings.context_path}{path}?{urlencode(parameters)}"
    with peer_session(MEMBER_AGENT, headers, services.tls.members, services.signer) as session:
        try:
            status, body, _ = call_peer(session, "GET", url, int(timeout_s * 1_000), body_bytes_max=ANSWER_BYTES_MAX)
            value = orjson.loads(body) if status == 200 else None
        except (TransportError, orjson.JSONDecodeError) as error:
            log.info("%s of %s: %s", path, member, error)
            return None
    return value if isinstance(value, dict) else None
