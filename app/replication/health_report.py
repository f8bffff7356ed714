"""Health for real Nacos members: their datums do not carry it, so digests of it follow each verify round.

Shape: ``POST /service/status`` with URL-encoded ``{"clientIP": address, "statuses": text}``, in the text
``{"namespaceId", "serviceName2Checksum": {service: digest}}``. A member with another digest asks for the statuses.
Source: Nacos 1.4.1 ServiceManager.ServiceReporter.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import orjson

from app.naming.model.keys import parse_datum_key
from app.naming.model.model import ServiceView
from app.naming.wire.checksum import checksum
from distro.model.errors import TransportError
from distro.model.types import CAPABILITY_VERSIONS, Received
from distro.wire.http_agent import DistroHttpAgent

LOG = logging.getLogger(__name__)

ViewOf = Callable[[str, str], ServiceView | None]


class InstanceListAgent(DistroHttpAgent):
    """The DistroHttpAgent of instance lists, which also sends the services' health to members of real Nacos."""

    def __init__(self, view_of: ViewOf, **more: Any) -> None:
        super().__init__(**more)
        self._view_of = view_of

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        """Verify as for any resource type. Then send a member of real Nacos the health digests of these services."""
        received = super().verify(peer, summary, timeout_ms)
        if CAPABILITY_VERSIONS not in self.capabilities(peer):
            for body in self.status_bodies(summary):
                try:
                    self.call("POST", peer, "/service/status", timeout_ms, body, plain=True)
                except TransportError as error:
                    LOG.debug("health digests for %s: %s", peer, error)
                    break  # the next round sends them again
        return received

    def status_bodies(self, keys: Iterable[str]) -> list[bytes]:
        """Return one message for each namespace that has services with instances."""
        digests: dict[str, dict[str, str]] = {}
        for key in keys:
            parsed = parse_datum_key(key)
            view = self._view_of(*parsed) if parsed else None
            if view is not None and view.instances:
                digests.setdefault(view.namespace, {})[view.full_name] = checksum(view)
        bodies = []
        for namespace, services in digests.items():
            text = orjson.dumps({"namespaceId": namespace, "serviceName2Checksum": services}).decode()
            bodies.append(quote(orjson.dumps({"clientIP": self.self_address, "statuses": text}).decode()).encode())
        return bodies
