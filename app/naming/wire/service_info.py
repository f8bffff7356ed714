"""The list of a service as HTTP v1 shows it: the instances that a client sees, as cached JSON.

The bytes of a host are cached with its instance: after a change of one of ten thousand, only that one is rendered
again.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import orjson

from app.naming.model.json_fields import exact_json
from app.naming.model.keys import short_name_of
from app.naming.model.model import Instance, Metadata, ServiceView
from app.naming.wire.rendered import RenderedLists

GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
STORED_BYTES_MAX = 0xFFFF
"""The most bytes of a stored block, which is not compressed: the format has 16 bits for its length."""
WORD_MASK = (1 << 32) - 1
ANSWERS_BYTES_MAX = 256 * 1024 * 1024
"""The most bytes of all cached answers."""
ANSWER_OVERHEAD_BYTES = 600
GZIP_FROM_BYTES = 4_096
GZIP_LEVEL = 1
"""A list of 1,000 hosts: 250 KB become 14 KB in 1.5 ms; level 6 takes four times that for 9 KB."""
QUICK_HOSTS_MAX = 500
"""A list of this many hosts is rendered, and compressed, in a millisecond or two."""
HOST_BYTES = 250
"""The JSON of a host with little metadata: an estimate of the room for a list before the list is made."""
_TIME_BYTES = 20


NO_ECHO = b'"clusters":"","env":""'


class Variant(NamedTuple):
    """The values that a v1 list depends on, in addition to the service and the texts that it echoes."""

    clusters: str
    healthy_only: bool
    is_check: bool
    java_agent: bool
    """True if the client is a Java SDK since 1.0.0: names keep their group."""
    cache_ms: int

    def of_clusters(self, clusters: str) -> "Variant":
        return self._replace(clusters=clusters)


def echo_of(clusters: str, env: str) -> bytes:
    """Return the JSON of the texts that a list repeats as they were requested."""
    return orjson.dumps({"clusters": clusters, "env": env})[1:-1] if clusters or env else NO_ECHO


@dataclass(frozen=True, slots=True)
class ZippedHead:
    """The compressed beginning of a text, flushed to a whole byte, with its length and CRC.

    Texts that differ only in their end share it: it is compressed once.
    """

    packed: bytes
    plain_bytes: int
    crc: int

    @classmethod
    def of(cls, plain: bytes, level: int = -1) -> "ZippedHead":
        """Compress a beginning; ``level`` as in zlib."""
        packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
        packed = GZIP_HEADER + packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)
        return cls(packed, len(plain), zlib.crc32(plain))

    def with_end(self, end: bytes) -> bytes:
        """Return the gzip of the whole text. ``end`` has at most ``STORED_BYTES_MAX`` bytes."""
        size = len(end)
        assert size <= STORED_BYTES_MAX
        stored = b"\x01" + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little") + end
        total = (self.plain_bytes + size) & WORD_MASK
        return self.packed + stored + zlib.crc32(end, self.crc).to_bytes(4, "little") + total.to_bytes(4, "little")


class ListAnswer:
    """The v1 JSON of one state of a service and one variant, without ``lastRefTime`` and the echoed texts."""

    __slots__ = ("_end", "_head", "_middle", "_tail", "_zipped", "is_long", "revision", "size")

    def __init__(self, revision: int, head: bytes, middle: bytes, end: bytes) -> None:
        """``head``: before the time. ``middle``: from there to the echoed texts. ``end``: behind these."""
        self.revision = revision
        self._head = head
        self._middle = middle
        """Empty if the answer has no time in it, and echoes nothing."""
        self._end = end
        self._tail = middle + NO_ECHO + end if middle else b""
        """Both parts, for answers that echo nothing, as nearly all do."""
        self._zipped: ZippedHead | None = None
        self.is_long = len(head) >= GZIP_FROM_BYTES
        """True if it may be worth gzip. Shorter ones are answered as they are."""
        self.size = len(head) + len(middle) + len(end)
        """The bytes of the answer without the texts that it echoes."""

    def __len__(self) -> int:
        """Return the most bytes that it occupies: its gzip may be as long."""
        return self.size + (len(self._head) if self.is_long else 0) + ANSWER_OVERHEAD_BYTES

    @property
    def zipped_size(self) -> int:
        """Return the bytes of its gzip, approximately; those of the answer while it is not compressed."""
        return self.size if self._zipped is None else len(self._zipped.packed)

    def is_worth_gzip(self, echo: bytes) -> bool:
        """Return whether the answer is long enough for gzip, and its part after the time fits a stored block."""
        return self.is_long and _TIME_BYTES + len(self._middle) + len(echo) + len(self._end) <= STORED_BYTES_MAX

    def plain(self, now_ms: int, echo: bytes = NO_ECHO) -> bytes:
        """Return the JSON, dated ``now_ms`` (wall time), with the texts to echo as ``echo_of`` gives them."""
        if not self._tail:
            return self._head
        if echo is NO_ECHO:
            if self.is_long:  # a format would take a quarter more memory in the meantime, and twice the time
                return b"".join((self._head, b"%d" % now_ms, self._tail))
            return b"%b%d%b" % (self._head, now_ms, self._tail)
        return b"".join((self._head, b"%d" % now_ms, self._middle, echo, self._end))

    def zipped(self, now_ms: int, echo: bytes = NO_ECHO) -> bytes:
        """Return the gzip of ``plain``. Only for an answer that ``is_worth_gzip``."""
        zipped = self._zipped
        if zipped is None:
            zipped = self._zipped = ZippedHead.of(self._head, GZIP_LEVEL)
        return zipped.with_end(b"%d%b%b%b" % (now_ms, self._middle, echo, self._end))


class ListAnswers:
    """Renders v1 lists and caches them in ``lists``. Thread-safe."""

    def __init__(self, bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self.lists = RenderedLists[Variant, ListAnswer](bytes_max, list_bytes_max=bytes_max // 4)
        self._building = Lock()

    def get(self, view: ServiceView, variant: Variant) -> ListAnswer:
        """Return the answer, rendered if it is not cached. One thread renders a large one while others wait for it."""
        if (found := self.lists.find(view, variant)) is not None:
            return found
        if len(view.instances) <= QUICK_HOSTS_MAX:
            return self._render(view, variant)
        with self._building:
            return self.lists.find(view, variant) or self._render(view, variant)

    def _render(self, view: ServiceView, variant: Variant) -> ListAnswer:
        rendered = ListAnswer(view.revision, *_render(view, variant))
        self.lists.keep(view, variant, rendered)
        return rendered


def unknown_service(full_name: str, variant: Variant) -> bytes:
    """Return the answer for an unknown service.

    Source of this whole module: Nacos 1.4.1 InstanceController.doSrvIpxt.
    """
    return orjson.dumps({"name": full_name, "clusters": variant.clusters, "cacheMillis": variant.cache_ms, "hosts": []})


def _render(view: ServiceView, variant: Variant) -> tuple[bytes, bytes, bytes]:
    """Return the parts of a ``ListAnswer``."""
    asked = {name for name in variant.clusters.split(",") if name}
    chosen = [one for one in view.instances if not asked or one.cluster_name in asked]
    if chosen and variant.is_check:
        return b"{}", b"", b""
    hosts = _hosts(chosen, view.protect_threshold, variant)
    before = {
        "dom": view.full_name if variant.java_agent else short_name_of(view.full_name),
        "name": view.full_name,
        "cacheMillis": variant.cache_ms,
    }
    middle = b"," + orjson.dumps({"checksum": _digest(view, hosts), "useSpecifiedURL": False})[1:-1] + b","
    end: dict[str, Any] = {} if chosen else {"hosts": []}
    end["metadata"] = shown(view.metadata)
    texts = orjson.dumps(before)[1:-1] + b',"lastRefTime":'
    begin = joined(b'{"hosts":[', hosts, b"]," + texts) if chosen else b"{" + texts
    return begin, middle, b"," + orjson.dumps(end)[1:]


def joined(begin: bytes, items: list[bytes], end: bytes) -> bytes:
    """Return the items with commas between and these texts around, copied once, as they may be megabytes.

    Uses up ``items``.
    """
    if not items:
        return begin + end
    items[0] = begin + items[0]
    items[-1] += end
    return b",".join(items)


def by_health(chosen: Sequence[Instance], protect_threshold: float) -> tuple[Sequence[Instance], Sequence[Instance]]:
    """Return the instances that a list shows as unhealthy, and as healthy. At or below the threshold all are healthy.

    Disabled instances count in the ratio, and are in the results, though no list shows them. Source: Nacos 1.4.1.
    """
    unhealthy = [one for one in chosen if not one.healthy]
    if not unhealthy or shows_all_healthy(len(chosen) - len(unhealthy), len(chosen), protect_threshold):
        return [], chosen
    return unhealthy, [one for one in chosen if one.healthy]


def shows_all_healthy(healthy: int, count: int, protect_threshold: float) -> bool:
    """Return whether so few of ``count`` instances are healthy that a list shows all as healthy."""
    return healthy < count and healthy / count <= protect_threshold


def _hosts(chosen: list[Instance], protect_threshold: float, variant: Variant) -> list[bytes]:
    """Return the JSON of the hosts to show, unhealthy ones first."""
    unhealthy, healthy = by_health(chosen, protect_threshold)
    java = variant.java_agent
    hosts = [] if variant.healthy_only else [_host(one, False, java) for one in unhealthy if one.enabled]
    hosts.extend([_host(one, True, java) for one in healthy if one.enabled])
    return hosts


def _host(instance: Instance, healthy: bool, java: bool) -> bytes:
    """Return the JSON of one host.

    The latest is cached with its instance: one service has hardly two kinds of clients.
    """
    kept = instance.shown
    if kept is not None and kept[0] is healthy and kept[1] is java:
        return kept[2]
    name = instance.service_name
    made = exact_json(
        {
            "ip": instance.ip,
            "port": instance.port,
            "valid": healthy,
            "healthy": healthy,
            "marked": instance.marked,
            "instanceId": instance.instance_id,
            "metadata": shown(instance.metadata),
            "enabled": instance.enabled,
            "weight": instance.weight,
            "clusterName": instance.cluster_name,
            "serviceName": name if java else short_name_of(name),
            "ephemeral": instance.ephemeral,
        }
    )
    instance.keep_shown(healthy, java, made)
    return made


def shown(metadata: Metadata | None) -> Metadata | None:
    """Return metadata as answers show it: a key whose value is null is stored, but not shown."""
    if metadata and None in metadata.values():
        return {key: value for key, value in metadata.items() if value is not None}
    return metadata


def _digest(view: ServiceView, hosts: list[bytes]) -> str:
    """Return the ``checksum`` of an answer: it changes with the hosts.

    Clients compare it at most with an earlier one.
    """
    digest = hashlib.md5(usedforsecurity=False)
    digest.update(repr((view.full_name, view.clusters, view.protect_threshold, len(view.instances))).encode())
    for one in sorted(hosts):  # each member has a separate order
        digest.update(one)
    return digest.hexdigest()
