"""The records of one service in one state, made once; each query gets the next few of them."""

from collections.abc import Sequence
from ipaddress import ip_address
from operator import attrgetter
from random import Random
from typing import NamedTuple

from app.dns.resource_records import (
    AAAA,
    QUESTION_POINTER,
    SRV,
    A,
    host_name,
    pointer,
    record,
    srv_data,
    srv_weights,
)
from app.naming.model.ip_addresses import is_usual_ipv4, packed_ip
from app.naming.model.model import Instance, ServiceView
from app.naming.wire.service_info import by_health, shows_all_healthy

PORT_MAX = 65_535
LARGE_INSTANCES = 500
"""The size above which an answer covers only part of the instances of a service."""
LARGE_DRAWN = 4 * LARGE_INSTANCES
"""The instances that are drawn at first, because some of them may not be usable in answers."""
REDRAW_S = 1.0
"""The time after which other instances are drawn. It also bounds the cost of a large service that keeps changing."""


_IP, _HEALTHY = attrgetter("ip"), attrgetter("healthy")


def answered_for(view: ServiceView) -> list[Instance]:
    """Return the instances that SDKs balance over: those of a list that are healthy, enabled and have a weight."""
    _, healthy = by_health(view.instances, view.protect_threshold)
    return [one for one in healthy if one.enabled and one.weight > 0]


def some_answered_for(view: ServiceView, draw: Random) -> list[Instance]:
    """Return instances as ``answered_for`` does, in random order; of a large service a part, at a nearly fixed cost."""
    instances = view.instances
    if len(instances) > LARGE_INSTANCES:
        healthy = sum(map(_HEALTHY, instances))
        all_count = shows_all_healthy(healthy, len(instances), view.protect_threshold)
        drawn = draw.sample(instances, min(LARGE_DRAWN, len(instances)))
        found = [one for one in drawn if (all_count or one.healthy) and one.enabled and one.weight > 0]
        if found:
            return found[:LARGE_INSTANCES]
    shown = answered_for(view)
    return draw.sample(shown, min(len(shown), LARGE_INSTANCES))


class Rotation:
    """Equal records in a circle: each query gets the records after those of the last query, so all are used equally."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self.count = len(records)
        self._size = len(records[0]) if records else 0
        self._twice = b"".join(records) * 2
        self._next = 0

    def take(self, count: int, room: int) -> tuple[int, bytes, bool]:
        """Return at most ``count`` records, in at most ``room`` bytes: how many, the bytes, and if some did not fit."""
        wanted = min(count, self.count)
        taken = min(wanted, room // self._size)
        start = self._next
        # If each answer has all records, each begins with another one.
        self._next = (start + (wanted if wanted < self.count else 1)) % self.count
        return taken, self._twice[start * self._size : (start + taken) * self._size], taken < wanted


class SrvTarget(NamedTuple):
    """The parts of an SRV record of one instance."""

    srv: bytes
    """The record."""
    label: bytes
    """The first label of its target; empty for a host outside of our domain."""
    kind: int
    """``A`` or ``AAAA``, of the target's address."""
    address: bytes


class ServiceAddresses:
    """The records of a service as a view shows it. Used on the loop's thread."""

    def __init__(self, view: ServiceView, name: bytes, ttl_s: int, now_s: float, draw: Random) -> None:
        """``name``: the service's unique name on the wire, above the names of its addresses."""
        self.view = view
        self.name = name
        self.is_large = len(view.instances) > LARGE_INSTANCES
        self.names_revision = -1
        """The revision of the name index at which ``name`` was known to be unique."""
        self._made_s = now_s
        self._ttl_s = ttl_s
        self._ips: set[str] | None = None
        """The addresses of all instances, so that the address of each target is known as long as it exists."""
        self._chosen = some_answered_for(view, draw)
        by_kind: dict[int, dict[bytes, bytes]] = {A: {}, AAAA: {}}
        for one in self._chosen:
            if (packed := packed_ip(one.ip)) is not None:
                kind = A if len(packed) == 4 else AAAA
                by_kind[kind][packed] = record(QUESTION_POINTER, kind, ttl_s, packed)
        self.rotations = {kind: Rotation(list(records.values())) for kind, records in by_kind.items()}
        self._targets: list[SrvTarget] | None = None
        self._next = 0

    def is_fresh(self, now_s: float) -> bool:
        """Return whether a large service's choice still holds; for others only a new view ends it."""
        return self.is_large and now_s - self._made_s < REDRAW_S

    def has_ip(self, ip: str) -> bool:
        """Return whether an instance, healthy or not, has this address: an earlier answer may have named its target."""
        if self._ips is None:
            self._ips = set(map(_IP, self.view.instances))
            spelt = [packed_ip(one) for one in self._ips if not is_usual_ipv4(one)]
            self._ips |= {str(ip_address(one)) for one in spelt if one is not None}
        return ip in self._ips

    def srv(self, count: int, room: int, at: int) -> tuple[int, int, bytes, bool]:
        """Return SRV records of at most ``count`` instances, then their addresses as far as these fit.

        Returns how many of either, the bytes, and whether SRV records did not fit. ``at``: where they begin.
        """
        if self._targets is None:
            self._targets = self._make_targets()
        targets = self._targets
        wanted = min(count, len(targets))
        if not wanted:
            return 0, 0, b"", False
        start = self._next
        self._next = (start + (wanted if wanted < len(targets) else 1)) % len(targets)
        chosen = [targets[number % len(targets)] for number in range(start, start + wanted)]
        body = bytearray()
        above = taken = 0
        for one in chosen:
            if len(body) + len(one.srv) > room:
                break
            body += one.srv
            taken += 1
            if one.label and not above:
                above = (
                    at + len(body) - len(self.name)
                )  # in the first target of ours; the others' addresses point there
        added = 0
        for label, one in {one.label: one for one in chosen[:taken] if one.label}.items():
            address = record(label + pointer(above), one.kind, self._ttl_s, one.address)
            if len(body) + len(address) > room:
                break
            body += address
            added += 1
        return taken, added, bytes(body), taken < wanted

    def _make_targets(self) -> list[SrvTarget]:
        found: dict[tuple[bytes | str, int], SrvTarget] = {}
        chosen = [one for one in self._chosen if 0 <= one.port <= PORT_MAX]
        weights = srv_weights([one.weight for one in chosen])
        for one, weight in zip(chosen, weights, strict=True):
            if (packed := packed_ip(one.ip)) is not None:
                digits = packed.hex().encode()
                label = bytes((len(digits),)) + digits
                target = label + self.name
            elif (host := host_name(one.ip)) is not None:
                label, target, packed = b"", host, b""
            else:
                continue
            kind = A if len(packed) == 4 else AAAA
            srv = record(QUESTION_POINTER, SRV, self._ttl_s, srv_data(weight, one.port, target))
            found[packed or one.ip, one.port] = SrvTarget(srv, label, kind, packed)
        return list(found.values())
