"""ServiceInfo, as SDKs of Nacos 2.x read it: made in slices of the loop, and kept until the service changes."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import orjson

from app.naming.model.keys import group_of, short_name_of
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import NacosError
from app.naming.service import NamingService
from app.naming.wire.service_json import instance_json, is_protected
from app.rpc.server.ports import ServiceKey
from app.rpc.wire import payload as wire

SLICE_S = 0.002
"""Then the loop does what else is due."""
HOSTS_PER_LOOK = 32
KEPT_BYTES_MAX = 128 * 1024 * 1024
"""Of all that is kept; the oldest goes first."""
KEPT_OVERHEAD_BYTES = 500
VARIANT_CHARS_MAX = 256
SHARED_MS = 50
NO_REVISION = -1
"""Of a service that nobody knows."""


class TooLarge(NacosError):
    """The service has more instances than one message may hold."""

    status = 500


class Variant(NamedTuple):
    """What of a service is shown."""

    clusters: str = ""
    """Names with commas between; echoed as they are. Empty shows all."""
    healthy_only: bool = False


class Shown:
    """What a variant of a service showed at one moment; its ``lastRefTime`` is put in anew for each answer."""

    __slots__ = ("_after", "_before", "_push", "_push_ms", "request_id", "revision")

    def __init__(self, revision: int, before: bytes, after: bytes, request_id: str) -> None:
        self.revision = revision
        self._before = before
        self._after = after
        self.request_id = request_id
        """Of the push of this state; the same to every client, so that they share its bytes."""
        self._push = b""
        self._push_ms = 0

    def info(self, now_ms: int) -> bytes:
        """JSON of the ServiceInfo."""
        return b"%b%d%b" % (self._before, now_ms, self._after)

    def message(self, now_ms: int) -> bytes:
        """The push of it, shared by who is told in the same moment."""
        if now_ms - self._push_ms > SHARED_MS:
            self._push_ms = now_ms
            body = b'{"requestId":"%b","module":"naming","serviceInfo":%b}' % (
                self.request_id.encode(),
                self.info(now_ms),
            )
            self._push = wire.encode("NotifySubscriberRequest", body)
        return self._push

    def __len__(self) -> int:
        return 2 * (len(self._before) + len(self._after)) + KEPT_OVERHEAD_BYTES


class ServiceInfos:
    """What clients are shown of services. Used on the loop's thread."""

    def __init__(
        self, naming: NamingService, cache_ms: Callable[[], int], wall_ms: Callable[[], int],
        next_request_id: Callable[[], str], bytes_max: int,
    ) -> None:  # fmt: skip
        """``bytes_max``: of one message."""
        self._naming = naming
        self._cache_ms = cache_ms
        self._wall_ms = wall_ms
        self._next_request_id = next_request_id
        self._bytes_max = bytes_max
        self._kept: dict[tuple[ServiceKey, Variant], Shown] = {}
        self._kept_bytes = 0
        self._building: dict[tuple[ServiceKey, Variant], asyncio.Future[Shown]] = {}
        self._shown_ms = 0

    async def get(self, key: ServiceKey, variant: Variant) -> Shown:
        """What the service shows now.

        Raises:
            TooLarge: it would not fit into a message.
        """
        while True:
            view = self._naming.service_view(*key)
            revision = NO_REVISION if view is None else view.revision
            kept = self._kept.get((key, variant))
            # A service that is not there has no bytes worth keeping.
            if kept is not None and kept.revision == revision != NO_REVISION:
                return kept
            if (building := self._building.get((key, variant))) is None:
                return await self._build(key, variant, view)
            # Who waits looks again: what was being built may be old by now.
            await asyncio.wait((building,))

    async def _build(self, key: ServiceKey, variant: Variant, view: ServiceView | None) -> Shown:
        done: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._building[key, variant] = done
        try:
            hosts, protected = await _hosts(view, variant) if view is not None else ([], False)
            before, after = self._parts(key[1], variant, hosts, protected)
            if len(before) + len(after) > self._bytes_max:
                raise TooLarge(f"service {key[1]} has too many instances for one message, ask for single clusters")
            revision = NO_REVISION if view is None else view.revision
            shown = Shown(revision, before, after, self._next_request_id())
            # Clients take a state for an overtaken one by its time: it is above that of any before.
            self._shown_ms = max(self._wall_ms(), self._shown_ms + 1)
            self._keep(key, variant, shown)
            return shown
        finally:
            del self._building[key, variant]
            done.cancel()

    def now_ms(self) -> int:
        """The time to show: the clock may be put back, this may not."""
        self._shown_ms = max(self._wall_ms(), self._shown_ms)
        return self._shown_ms

    def _parts(self, full_name: str, variant: Variant, hosts: Sequence[bytes], protected: bool) -> tuple[bytes, bytes]:
        """The JSON before and after the time."""
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

    def _keep(self, key: ServiceKey, variant: Variant, shown: Shown) -> None:
        old = self._kept.pop((key, variant), None)
        self._kept_bytes -= len(old) if old else 0
        if shown.revision == NO_REVISION or len(variant.clusters) > VARIANT_CHARS_MAX:
            return
        self._kept[key, variant] = shown
        self._kept_bytes += len(shown)
        while self._kept_bytes > KEPT_BYTES_MAX:
            self._kept_bytes -= len(self._kept.pop(next(iter(self._kept))))


async def _hosts(view: ServiceView, variant: Variant) -> tuple[list[bytes], bool]:
    """The JSON of the instances to show, and whether protection changed the list."""
    clusters = {name for name in variant.clusters.split(",") if name}
    begun_s = time.perf_counter()
    chosen: list[Instance] = []
    for index, one in enumerate(view.instances):
        if (not clusters or one.cluster_name in clusters) and one.enabled and (one.healthy or not variant.healthy_only):
            chosen.append(one)
        if not index % HOSTS_PER_LOOK:
            begun_s = await _breathe(begun_s)
    protected = is_protected(view, chosen)
    hosts = []
    for index, one in enumerate(chosen):
        hosts.append(orjson.dumps(instance_json(one, healthy=one.healthy or protected)))
        if not index % HOSTS_PER_LOOK:
            begun_s = await _breathe(begun_s)
    return hosts, protected


async def _breathe(begun_s: float) -> float:
    """Let others have the loop if a slice is over; return when the present one began."""
    if time.perf_counter() - begun_s < SLICE_S:
        return begun_s
    await asyncio.sleep(0)
    return time.perf_counter()
