"""ServiceInfo as SDKs of Nacos 2.x read it: rendered in slices of the loop, and kept until the service changes."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import orjson

from app.naming.clients.client_model import ServiceKey
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import NacosError
from app.naming.service import NamingService
from app.naming.wire.rendered import RenderedLists
from app.naming.wire.service_json import instance_json, is_protected
from app.rpc.wire import payload as wire

SLICE_S = 0.002
"""Of rendering; then the loop runs its other callbacks."""
HOSTS_PER_LOOK = 32
"""Between two looks at the clock."""
KEPT_BYTES_MAX = 128 * 1024 * 1024
"""Of all that is kept."""
KEPT_OVERHEAD_BYTES = 500
SHARED_MS = 50
NO_REVISION = -1
"""Of a service that is not known."""


class TooLarge(NacosError):
    """The service has more instances than one message may hold."""

    status = 500


class InfoVariant(NamedTuple):
    """The values that a ServiceInfo depends on, beside the service."""

    clusters: str = ""
    """Names with commas between; echoed as they are. Empty shows all."""
    healthy_only: bool = False

    @property
    def echoed_chars(self) -> int:
        return len(self.clusters)


class Hosts(NamedTuple):
    """The JSON of each instance that is shown, and a hash of all of them that does not depend on their order."""

    texts: list[bytes]
    content: int


class ServiceInfo:
    """The JSON of one state of a service and one variant, but for ``lastRefTime``."""

    __slots__ = ("_after", "_before", "_push", "_push_ms", "content", "request_id", "revision")

    def __init__(self, revision: int, before: bytes, after: bytes, content: int, request_id: str) -> None:
        self.revision = revision
        self.content = content
        """A hash of all that is shown; the order of the instances is none of it."""
        self._before = before
        self._after = after
        self.request_id = request_id
        """Of the push of this state; the same to every client, so that they share its bytes."""
        self._push = b""
        self._push_ms = 0

    def json(self, now_ms: int) -> bytes:
        """The JSON, dated ``now_ms`` (wall time)."""
        return b"%b%d%b" % (self._before, now_ms, self._after)

    def message(self, now_ms: int) -> bytes:
        """The push message, dated ``now_ms``, or up to ``SHARED_MS`` before: clients share its bytes for so long."""
        if now_ms - self._push_ms > SHARED_MS:
            self._push_ms = now_ms
            body = b'{"headers":{},"requestId":"%b","serviceInfo":%b,"module":"naming"}' % (
                self.request_id.encode(),
                self.json(now_ms),
            )
            self._push = wire.encode("NotifySubscriberRequest", body)
        return self._push

    def __len__(self) -> int:
        return 2 * (len(self._before) + len(self._after)) + KEPT_OVERHEAD_BYTES


class ServiceInfos:
    """Renders services for gRPC clients and keeps the result. Used on the loop's thread."""

    def __init__(
        self, naming: NamingService, cache_ms: Callable[[], int], wall_ms: Callable[[], int],
        next_request_id: Callable[[], str], bytes_max: int, kept_bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:  # fmt: skip
        """``bytes_max``: of one message."""
        self._naming = naming
        self._cache_ms = cache_ms
        self._wall_ms = wall_ms
        self._next_request_id = next_request_id
        self._bytes_max = bytes_max
        self._infos = RenderedLists[InfoVariant, ServiceInfo](kept_bytes_max, list_bytes_max=kept_bytes_max)
        self._building: dict[tuple[ServiceKey, InfoVariant], asyncio.Future[ServiceInfo]] = {}
        self._shown_ms = 0

    def kept(self, key: ServiceKey, variant: InfoVariant) -> ServiceInfo | None:
        """The present state of a service, if it is rendered."""
        view = self._naming.service_view(*key)
        return None if view is None else self._infos.find(view, variant)

    async def get(self, key: ServiceKey, variant: InfoVariant) -> ServiceInfo:
        """The present state of a service; one that is not known has no instances.

        Raises:
            TooLarge: it would not fit into a message.
        """
        while True:
            view = self._naming.service_view(*key)
            if view is not None and (kept := self._infos.find(view, variant)) is not None:
                return kept
            if (building := self._building.get((key, variant))) is None:
                return await self._build(key, variant, view)
            # Then look again: the state that was being rendered may be old by now.
            await asyncio.wait((building,))

    async def _build(self, key: ServiceKey, variant: InfoVariant, view: ServiceView | None) -> ServiceInfo:
        done: asyncio.Future[ServiceInfo] = asyncio.get_running_loop().create_future()
        self._building[key, variant] = done
        try:
            hosts, protected = await _hosts(view, variant) if view is not None else (Hosts([], 0), False)
            before, after = self._parts(key[1], variant, hosts.texts, protected)
            if len(before) + len(after) > self._bytes_max:
                raise TooLarge(f"service {key[1]} has too many instances for one message, ask for single clusters")
            revision = NO_REVISION if view is None else view.revision
            content = hash((before, hosts.content))
            info = ServiceInfo(revision, before, after, content, self._next_request_id())
            # Clients take a state for an overtaken one by its time: it is above that of any before.
            self._shown_ms = max(self._wall_ms(), self._shown_ms + 1)
            # An unknown service has no bytes worth keeping.
            self._infos.keep(*key, variant, None if view is None else info)
            return info
        finally:
            del self._building[key, variant]
            done.cancel()

    def now_ms(self) -> int:
        """The wall time to date answers with: the clock may be put back, this time never falls."""
        self._shown_ms = max(self._wall_ms(), self._shown_ms)
        return self._shown_ms

    def _parts(
        self, full_name: str, variant: InfoVariant, hosts: Sequence[bytes], protected: bool
    ) -> tuple[bytes, bytes]:
        """The JSON before and after the value of ``lastRefTime``."""
        head = {
            "name": short_name_of(full_name),
            "groupName": group_of(full_name),
            "clusters": variant.clusters,
            "cacheMillis": self._cache_ms(),
            "checksum": "",
            "allIPs": False,
            "reachProtectionThreshold": protected,
            "valid": True,
        }
        return orjson.dumps(head)[:-1] + b',"lastRefTime":', b',"hosts":[' + b",".join(hosts) + b"]}"


async def _hosts(view: ServiceView, variant: InfoVariant) -> tuple[Hosts, bool]:
    """The instances to show, and whether the protect threshold makes them all healthy."""
    clusters = {name for name in variant.clusters.split(",") if name}
    begun_s = time.perf_counter()
    chosen: list[Instance] = []
    for index, one in enumerate(view.instances):
        if (not clusters or one.cluster_name in clusters) and one.enabled and (one.healthy or not variant.healthy_only):
            chosen.append(one)
        if not index % HOSTS_PER_LOOK:
            begun_s = await _breathe(begun_s)
    protected = is_protected(view, chosen)
    hosts, content = [], 0
    for index, one in enumerate(chosen):
        text = orjson.dumps(instance_json(one, healthy=one.healthy or protected))
        hosts.append(text)
        content += hash(text)
        if not index % HOSTS_PER_LOOK:
            begun_s = await _breathe(begun_s)
    return Hosts(hosts, content), protected


async def _breathe(begun_s: float) -> float:
    """Give the loop a turn if the slice is over; return when the present slice began."""
    if time.perf_counter() - begun_s < SLICE_S:
        return begun_s
    await asyncio.sleep(0)
    return time.perf_counter()
