"""ServiceInfo as SDKs of Nacos 2.x read it: rendered in slices of the loop, and kept until the service changes."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import orjson

from app.machine.limits.answer_budget import LARGE_ANSWER_BYTES, AnswerBudget, AnswerRoom
from app.naming.clients.client_model import ServiceKey
from app.naming.model.json_fields import exact_json
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import NacosError
from app.naming.service import NamingService
from app.naming.wire.rendered import RenderedLists, known_clusters
from app.naming.wire.service_info import joined
from app.naming.wire.service_json import instance_json, is_protected
from app.peers import payload as wire
from app.rpc.server.control_credit import CountedAnswer

SLICE_S = 0.002
"""The time for rendering in one piece; then the loop runs its other callbacks."""
HOSTS_PER_LOOK = 32
"""The instances that are rendered between two looks at the clock."""
KEPT_BYTES_MAX = 128 * 1024 * 1024
"""The most bytes of all messages that are kept."""
KEPT_OVERHEAD_BYTES = 500
SHARED_MS = 50
HOST_BYTES = 300
"""The JSON of an instance with little metadata: the room for a list is reckoned from it before the list is made."""
PUSH = "NotifySubscriberRequest"
NO_REVISION = -1
"""The revision of an unknown service."""


class TooLarge(NacosError):
    """The service has more instances than one message may hold."""

    status = 500


class InfoVariant(NamedTuple):
    """The values that a ServiceInfo depends on, next to the service."""

    clusters: str = ""
    """Names with commas between; echoed as they are. Empty shows all."""
    healthy_only: bool = False

    def of_clusters(self, clusters: str) -> "InfoVariant":
        return InfoVariant(clusters, self.healthy_only)


class Hosts(NamedTuple):
    """The JSON of each instance that is shown, and a hash of all of them that does not depend on their order."""

    texts: list[bytes]
    content: int


class ServiceInfo:
    """The JSON of one state of a service and one variant, except for ``lastRefTime`` and the echoed clusters."""

    __slots__ = ("_after", "_before", "_content", "_head", "_middle", "request_id", "revision", "size")

    def __init__(
        self, revision: int, before: bytes, middle: bytes, after: bytes, content: int, request_id: str
    ) -> None:  # fmt: skip
        """``before``: ahead of the value of ``clusters``. ``middle``: from there to the time. ``after``: behind it."""
        self.revision = revision
        self._content = content
        self._before = before
        self._middle = middle
        self._head = before + b'""' + middle
        """The JSON before the time, if no clusters are echoed."""
        self._after = after
        self.request_id = request_id
        """The request id of the push of this state; the same for every client, so that all clients share its bytes."""
        self.size = len(before) + len(middle) + len(after)
        """The size of the JSON in bytes, without the clusters that it echoes."""

    def content(self, clusters: str) -> int:
        """Return a hash of the content that a request for these clusters gets, without the order of the instances."""
        return hash((self._content, clusters))

    def json(self, now_ms: int, clusters: str = "") -> bytes:
        """The JSON, dated ``now_ms`` (wall time), which echoes the clusters that were asked for."""
        if not clusters:
            return b"%b%d%b" % (self._head, now_ms, self._after)
        return b"%b%b%b%d%b" % (self._before, orjson.dumps(clusters), self._middle, now_ms, self._after)

    def parts(self, now_ms: int, clusters: str = "") -> tuple[bytes, ...]:
        """The parts of ``json``: the instances, which may be megabytes, are not copied."""
        return self._before, orjson.dumps(clusters), self._middle, b"%d" % now_ms, self._after

    def __len__(self) -> int:
        return self.size + KEPT_OVERHEAD_BYTES


class ServiceInfos:
    """Renders services for gRPC clients and keeps the result. Used on the loop's thread."""

    def __init__(
        self, naming: NamingService, cache_ms: Callable[[], int], wall_ms: Callable[[], int],
        next_request_id: Callable[[], str], bytes_max: int, kept_bytes_max: int = KEPT_BYTES_MAX,
        answers: AnswerBudget | None = None,
    ) -> None:  # fmt: skip
        """``bytes_max``: of one message. ``answers``: counts large ones."""
        self._answers = answers or AnswerBudget()
        self._naming = naming
        self._cache_ms = cache_ms
        self._wall_ms = wall_ms
        self._next_request_id = next_request_id
        self._bytes_max = bytes_max
        self._infos = RenderedLists[InfoVariant, ServiceInfo](kept_bytes_max, list_bytes_max=kept_bytes_max)
        self._building: dict[tuple[ServiceKey, InfoVariant], asyncio.Future[ServiceInfo]] = {}
        self._shown_ms = 0
        self._shared: dict[tuple[ServiceInfo, str, bytes, str], bytes] = {}
        """The messages of the last ``SHARED_MS``, by info, type, head and clusters."""

    def kept(self, key: ServiceKey, variant: InfoVariant) -> ServiceInfo | None:
        """The present state of a service, if it is rendered."""
        view = self._naming.service_view(*key)
        return None if view is None else self._infos.find(view, variant)

    async def get(self, key: ServiceKey, variant: InfoVariant) -> ServiceInfo:
        """The present state of a service; one that is not known has no instances.

        Raises:
            TooLarge: it would not fit into a message.
            TooManyRequests: it is not rendered, and there is no room to do so.
        """
        while True:
            view = self._naming.service_view(*key)
            if view is not None and (kept := self._infos.find(view, variant)) is not None:
                return kept
            known = variant
            if variant.clusters and view is not None:
                known = variant.of_clusters(known_clusters(view, variant.clusters))
            if (building := self._building.get((key, known))) is None:
                return await self._build(key, variant, known, view)
            # Then look again: the state that was being rendered may be old by now.
            await asyncio.wait((building,))

    async def _build(
        self, key: ServiceKey, variant: InfoVariant, known: InfoVariant, view: ServiceView | None
    ) -> ServiceInfo:
        """Render a service. ``known``: the variant with clusters that the service has, as others ask for the same."""
        done: asyncio.Future[ServiceInfo] = asyncio.get_running_loop().create_future()
        self._building[key, known] = done
        try:
            if view is None:
                self._infos.drop(*key)  # an unknown service has no bytes worth keeping
                return self._made(key[1], NO_REVISION, Hosts([], 0), False)
            # The texts of the instances, and all of them together.
            with AnswerRoom(self._answers, min(len(view.instances) * HOST_BYTES, self._bytes_max) * 2) as room:
                hosts, protected = await _hosts(view, variant, self._bytes_max, room)
                info = self._made(key[1], view.revision, hosts, protected)
            self._infos.keep(view, variant, info)
            return info
        finally:
            del self._building[key, known]
            done.cancel()

    def _made(self, full_name: str, revision: int, hosts: Hosts, protected: bool) -> ServiceInfo:
        before, middle, after = self._parts(full_name, hosts.texts, protected)
        if len(before) + len(middle) + len(after) > self._bytes_max:
            raise _too_large(full_name)
        content = hash((before, middle, hosts.content))
        # Clients take a state for an overtaken one by its time: it is above that of any before.
        self._shown_ms = max(self._wall_ms(), self._shown_ms + 1)
        return ServiceInfo(revision, before, middle, after, content, self._next_request_id())

    def push(self, info: ServiceInfo, clusters: str) -> bytes:
        """The message of a push to a subscriber of these clusters.

        Raises:
            TooManyRequests: it is large, and has no room.
        """
        head = b'{"headers":{},"requestId":"%b","module":"naming","serviceInfo":' % info.request_id.encode()
        return self._message(info, PUSH, head, clusters)

    def answer(self, info: ServiceInfo, kind: str, head: bytes, clusters: str) -> bytes:
        """The message of an answer of type ``kind``; ``head`` is its JSON ahead of the service.

        Raises:
            TooManyRequests: it is large, and has no room.
        """
        if info.size > LARGE_ANSWER_BYTES:
            return self._message(info, kind, head, clusters)
        return wire.encode(kind, head + info.json(self.now_ms(), clusters) + b"}")

    def _message(self, info: ServiceInfo, kind: str, head: bytes, clusters: str) -> bytes:
        """A message that is dated now, or up to ``SHARED_MS`` before: clients share its bytes for so long."""
        key = (info, kind, head, clusters)
        if (found := self._shared.get(key)) is not None:
            return found
        is_large = info.size > LARGE_ANSWER_BYTES
        # It is made, and then copied to the object that counts it.
        with AnswerRoom(self._answers, 2 * info.size if is_large else 0):
            made = wire.encode_parts(kind, (head, *info.parts(self.now_ms(), clusters), b"}"))
            if is_large:
                self._answers.add_always(len(made))
                made = CountedAnswer.of(made, self._answers)
        if not self._shared:
            asyncio.get_running_loop().call_later(SHARED_MS / 1_000, self._shared.clear)
        self._shared[key] = made
        return made

    def now_ms(self) -> int:
        """The wall time to date answers with: the clock may be put back, this time never falls."""
        self._shown_ms = max(self._wall_ms(), self._shown_ms)
        return self._shown_ms

    def _parts(self, full_name: str, hosts: list[bytes], protected: bool) -> tuple[bytes, bytes, bytes]:
        """The JSON before, between and after the values of ``clusters`` and ``lastRefTime``."""
        head = {"name": short_name_of(full_name), "groupName": group_of(full_name)}
        middle = {
            "cacheMillis": self._cache_ms(),
            "checksum": "",
            "allIPs": False,
            "reachProtectionThreshold": protected,
            "valid": True,
        }
        before, between = orjson.dumps(head)[:-1] + b',"clusters":', b"," + orjson.dumps(middle)[1:-1]
        return before, between + b',"lastRefTime":', joined(b',"hosts":[', hosts, b"]}")


def _too_large(full_name: str) -> TooLarge:
    return TooLarge(f"service {full_name} has too many instances for one message, ask for single clusters")


async def _hosts(view: ServiceView, variant: InfoVariant, bytes_max: int, room: AnswerRoom) -> tuple[Hosts, bool]:
    """The instances to show, and whether the protect threshold makes them all healthy.

    Raises:
        TooLarge: they have more than ``bytes_max``.
        TooManyRequests: they have no room.
    """
    clusters = {name for name in variant.clusters.split(",") if name}
    begun_s = time.perf_counter()
    chosen: list[Instance] = []
    for index, one in enumerate(view.instances):
        if (not clusters or one.cluster_name in clusters) and one.enabled and (one.healthy or not variant.healthy_only):
            chosen.append(one)
        if not index % HOSTS_PER_LOOK:
            begun_s = await _breathe(begun_s)
    protected = is_protected(view, chosen)
    hosts, content, size = [], 0, 0
    for index, one in enumerate(chosen):
        text = exact_json(instance_json(one, healthy=one.healthy or protected))
        hosts.append(text)
        content += hash(text)
        size += len(text)
        if not index % HOSTS_PER_LOOK:
            if size > bytes_max:
                raise _too_large(view.full_name)
            room.grow(2 * size)
            begun_s = await _breathe(begun_s)
    return Hosts(hosts, content), protected


async def _breathe(begun_s: float) -> float:
    """Give the loop a turn if the slice is over; return when the present slice began."""
    if time.perf_counter() - begun_s < SLICE_S:
        return begun_s
    await asyncio.sleep(0)
    return time.perf_counter()
