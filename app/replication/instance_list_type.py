"""The resource type of ephemeral instance lists, one datum per service. Its codec is in app.naming.wire.datum_codec.

The datums of real Nacos carry no health, so digests of it follow each verify round with its members:
``POST /service/status`` with URL-encoded ``{"clientIP": address, "statuses": text}``, in the text
``{"namespaceId", "serviceName2Checksum": {service: digest}}``. A member with another digest asks for the statuses.
Source: Nacos 1.4.1 ServiceManager.ServiceReporter.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import quote

import orjson

from app.naming.model.events import Event, InstancesChanged, Origin
from app.naming.model.keys import parse_datum_key
from app.naming.model.model import ServiceView
from app.naming.registry.list_replication import ListReplication
from app.naming.registry.list_state import ListState
from app.naming.registry.list_upkeep import ListUpkeep
from app.naming.wire.checksum import checksum
from app.replication.nacos_1_names import NacosOneNames
from distro.model.errors import TransportError
from distro.model.types import CAPABILITY_VERSIONS, Datum, Merged, Received, Version
from distro.timing.sliced import STEP_STORED, paced
from distro.wire.http_agent import DistroHttpAgent

LOG = logging.getLogger(__name__)

_PEER = Origin.PEER
"""Bound once: Python 3.11 needs ten times as long to look an enum member up in its class."""
ViewOf = Callable[[str, str], ServiceView | None]


class InstanceListAgent(DistroHttpAgent):
    """The DistroHttpAgent of instance lists, which also sends the services' health to members of real Nacos.

    These are members of Nacos 1.4: lists that they cannot hold are left out.
    """

    def __init__(self, view_of: ViewOf, nacos_1: NacosOneNames, **more: Any) -> None:
        super().__init__(**more)
        self._view_of = view_of
        self._nacos_1 = nacos_1

    def sync_data(self, peer: str, datums: list[Datum], timeout_ms: int) -> Received:
        """Send datums as for any resource type."""
        if CAPABILITY_VERSIONS not in self.capabilities(peer):
            datums = self._nacos_1.datums(datums, peer)
            if not datums:
                return Received()
        return super().sync_data(peer, datums, timeout_ms)

    def verify(self, peer: str, summary: Mapping[str, str], timeout_ms: int) -> Received:
        """Verify as for any resource type. Then send a member of real Nacos the health digests of these services."""
        is_nacos_1 = CAPABILITY_VERSIONS not in self.capabilities(peer)
        if is_nacos_1:
            summary = self._nacos_1.summary(summary, peer)
        received = super().verify(peer, summary, timeout_ms)
        if is_nacos_1:
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


INSTANCE_LIST = "com.alibaba.nacos.naming.iplist."
"""Source: Nacos 1.4.1 KeyBuilder.INSTANCE_LIST_KEY_PREFIX."""


class InstanceListStore:
    """The DistroStore and DeltaStore of instance lists: the lists, and InstancesChanged for each peer's change."""

    def __init__(
        self,
        lists: ListState,
        replication: ListReplication,
        upkeep: ListUpkeep,
        publish: Callable[[Event], None],
    ) -> None:
        self._replication = replication
        self._upkeep = upkeep
        self._publish = publish
        # These change nothing that a reader sees, so the lists' own methods are the store's.
        self.version = lists.version
        self.versions = lists.versions
        self.all_keys = replication.all_keys
        self.pop_changed = lists.pop_changed
        self.is_empty = replication.is_empty
        self.content = replication.content
        self.highest_own = lists.highest_own
        self.datums = lists.datums
        self.is_covered = replication.is_covered
        self.is_forgettable = upkeep.is_forgettable
        self.delta = replication.delta
        self.claim_delta = replication.claim_delta

    def grouped(self, keys: Collection[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def tag(self, key: str) -> str:
        """Return the full service name: the namespace has no influence on the owner."""
        parsed = parse_datum_key(key)
        return parsed[1] if parsed else key

    def claim_all(self, keys: Collection[str], now_ms: int) -> list[str]:
        return [key for key in paced(keys, STEP_STORED) if self._replication.claim(key, now_ms)]

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        applied = self._replication.apply(datum, expected, now_ms)
        if applied:
            self._publish(InstancesChanged(datum.key, _PEER))
        return applied

    def apply_delta(self, datum: Datum, now_ms: int) -> bool:
        applied = self._replication.apply_delta(datum, now_ms)
        if applied and not datum.is_claim:  # a claim changes nothing that readers see
            self._publish(InstancesChanged(datum.key, _PEER))
        return applied

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        merged = self._replication.merge(datum, now_ms)
        if merged is not Merged.NOTHING:
            self._publish(InstancesChanged(datum.key, _PEER))
        return merged

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        reissued = self._replication.reissue(datum, now_ms, restoring=restoring)
        if reissued:
            self._publish(InstancesChanged(datum.key, _PEER))
        return reissued

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        self._upkeep.forget(key, now_ms if absent else None)
        self._publish(InstancesChanged(key, _PEER))

    def forget_all(self, keys: Collection[str], now_ms: int) -> int:
        forgotten = 0
        for key in paced(keys, STEP_STORED):
            if self._upkeep.forget_spent(key, now_ms):
                # The list was empty, and must be removed from the copy on disk.
                self._publish(InstancesChanged(key, _PEER, shown=False))
                forgotten += 1
        return forgotten
