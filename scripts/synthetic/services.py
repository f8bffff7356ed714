"""Services and instances of a synthetic dump: any number, the same for one seed, like those of real clusters.

Some look like a fault but are none: one service name in two groups with other instances, the same instances in two
namespaces, services without instances, metadata with another order of keys or null in a copy, unhealthy instances
with a long delete time-out, and beats from before the owner's claim.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.rows.rows import ClientKind, ServiceSettings, encode_row, instance_row, service_row
from distro.members.mapper import DistroMapper
from distro.model.types import Version

GAP_MS = 15_000
DELETE_TIMEOUT_MS = 30_000
LONG_DELETE_TIMEOUT_MS = 86_400_000
BEAT_INTERVAL_MS = 5_000

NAMESPACES = ("public", "prod", "stage", "6e1b0e5c-8a7d-4f0e-9c55-0d3f0a5e7b21")
GROUPS = ("DEFAULT_GROUP", "PAYMENTS", "batch.jobs")
WORDS = ("orders", "users", "stock", "invoice", "search", "gateway", "mail", "price", "cart", "audit-log")
CLUSTERS = ("DEFAULT", "DEFAULT", "DEFAULT", "DEFAULT", "DEFAULT", "DEFAULT", "zone-a", "zone-b")
WEIGHTS = (1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 2.0, 100.0)
PORTS = (8080, 8081, 9000, 20880)
METADATA_KINDS = 256
EMPTY_EVERY, TWIN_GROUP_EVERY, TWIN_NAMESPACE_EVERY, REORDERED_EVERY = 40, 64, 96, 50
"""Periods of special services: empty, with the name of the service before in another group, or in another namespace
with the same instances, or with copies that hold metadata in another order."""

_DELETE_TIMEOUT_KEY = "preserved.ip.delete.timeout"


NO_SETTINGS = ServiceSettings.of({}, 0.0, None, {})


class MemberKind(StrEnum):
    """Kinds of members by the columns of their dumps: all; no versions; neither versions nor owners nor beats."""

    ROLLCALL = "rollcall"
    NACOS_1 = "nacos-1"
    CATALOG = "catalog"

    @property
    def tells_versions(self) -> bool:
        return self is MemberKind.ROLLCALL

    @property
    def tells_owners(self) -> bool:
        return self is not MemberKind.CATALOG


@dataclass(frozen=True, slots=True)
class SyntheticService:
    """A service as all members hold it. ``number`` gives its name, ``host`` its first address."""

    namespace: str
    name: str
    owner: str
    number: int
    host: int
    size: int


@dataclass(frozen=True, slots=True)
class SyntheticInstance:
    """An instance's row as every member holds it, and the age of its beat at its owner in both rounds, if any."""

    row: dict[str, Any]
    ages_ms: tuple[int, int] | None


class ServiceMaker:
    """Makes services with their instances, of members of one kind."""

    def __init__(self, seed: int, members: list[str], kind: MemberKind) -> None:
        self._random = random.Random(f"services {seed}")
        self._mapper = DistroMapper.over(members[0], members)
        self.kind = kind
        self._runs = {member: f"{self._random.getrandbits(32):08x}" for member in members}
        self._metadata = [self._make_metadata() for _ in range(METADATA_KINDS)]
        self._count = 0
        self._host = 0
        self._last: SyntheticService | None = None

    # --- services --------------------------------------------------------------------------------

    def next_service(self, size: int) -> SyntheticService:
        """Return the next service in turn, of ``size`` instances unless it is an empty one."""
        number, last = self._count, self._last
        if number % EMPTY_EVERY == EMPTY_EVERY - 1:
            return self._keep(*self._place(), f"{self._word()}-{number:07d}", 0)
        if last is not None and number % TWIN_GROUP_EVERY == 1:
            group, _, short_name = last.name.partition("@@")
            return self._keep(last.namespace, GROUPS[(GROUPS.index(group) + 1) % len(GROUPS)], short_name, size)
        if last is not None and number % TWIN_NAMESPACE_EVERY == 2:
            group, _, short_name = last.name.partition("@@")
            namespace = NAMESPACES[(NAMESPACES.index(last.namespace) + 1) % len(NAMESPACES)]
            return self._keep(namespace, group, short_name, size, last.host)
        return self._keep(*self._place(), f"{self._word()}-{number:07d}", size)

    def service_of(self, owner: str, size: int) -> SyntheticService:
        """Return a service for which this member is responsible."""
        namespace, group = self._place()
        stem, attempt = f"{self._word()}-{self._count:07d}", 0
        while self._mapper.map_srv(f"{group}@@{stem}-{attempt}") != owner:
            attempt += 1
        return self._keep(namespace, group, f"{stem}-{attempt}", size)

    def twin_of(self, service: SyntheticService, size: int) -> SyntheticService:
        """Return a service with the same short name and namespace in another group."""
        group, _, short_name = service.name.partition("@@")
        return self._keep(service.namespace, GROUPS[(GROUPS.index(group) + 1) % len(GROUPS)], short_name, size)

    def _keep(
        self, namespace: str, group: str, short_name: str, size: int, host: int | None = None
    ) -> SyntheticService:
        name = f"{group}@@{short_name}"
        where = self._host if host is None else host
        service = SyntheticService(namespace, name, self._mapper.map_srv(name), self._count, where, size)
        self._count += 1
        self._host += size
        self._last = service
        return service

    def _place(self) -> tuple[str, str]:
        bits = self._random.getrandbits(8)
        return NAMESPACES[bits & 3], GROUPS[(0, 0, 0, 1, 2)[(bits >> 2) % 5]]

    def _word(self) -> str:
        return WORDS[self._random.getrandbits(10) % len(WORDS)]

    def service_row(self, service: SyntheticService) -> dict[str, Any]:
        """The service's own row, the same at every member."""
        version = self.version(service.owner, service.number + service.size)
        owner = service.owner if self.kind.tells_owners else None
        return service_row(service.namespace, service.name, version, owner, service.size, NO_SETTINGS)

    # --- instances -------------------------------------------------------------------------------

    def version(self, owner: str, counter: int) -> str | None:
        if not self.kind.tells_versions:
            return None
        return Version(3, counter, f"{owner}~{self._runs[owner]}").to_text()

    def instances(self, service: SyntheticService) -> Iterator[SyntheticInstance]:
        for place in range(service.size):
            yield self.instance(service, place)

    def instance(self, service: SyntheticService, place: int, with_beats: bool = False) -> SyntheticInstance:
        """Return the instance at this position of the service; with ``with_beats`` a healthy one that beats."""
        bits = self._random.getrandbits(64)
        kept = 31 if with_beats else bits & 31
        has_connections = self.kind is MemberKind.ROLLCALL
        client = (
            ClientKind.DURABLE if kept == 0 else ClientKind.GRPC if has_connections and kept < 5 else ClientKind.HTTP
        )
        ephemeral = client is not ClientKind.DURABLE
        has_owner = self.kind is MemberKind.ROLLCALL or (self.kind is MemberKind.NACOS_1 and ephemeral)
        healthy = with_beats or (bits >> 5) & 31 != 0
        metadata = self._metadata[(bits >> 10) & (METADATA_KINDS - 1)]
        ages_ms, delete_timeout_ms = None, DELETE_TIMEOUT_MS
        if client is ClientKind.HTTP:
            first_ms = (bits >> 18) % BEAT_INTERVAL_MS
            ages_ms = (first_ms, (bits >> 31) % BEAT_INTERVAL_MS)
            if not healthy:
                delete_timeout_ms = LONG_DELETE_TIMEOUT_MS
                metadata = metadata | {_DELETE_TIMEOUT_KEY: str(LONG_DELETE_TIMEOUT_MS)}
                ages_ms = (40_000 + first_ms, 40_000 + first_ms + GAP_MS)
        host = service.host + place
        row = instance_row(
            namespace=service.namespace,
            service=service.name,
            cluster=CLUSTERS[(bits >> 45) & 7],
            ip=f"10.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}",
            port=PORTS[service.host & 3] + (host >> 24),
            ephemeral=ephemeral,
            healthy=healthy,
            enabled=(bits >> 48) & 63 != 0,
            weight=WEIGHTS[(bits >> 54) & 7],
            metadata=metadata,
            version=self.version(service.owner, service.number + place + 2),
            owner=service.owner if has_owner else None,
            delete_timeout_ms=delete_timeout_ms if client is ClientKind.HTTP else None,
            client=client if self.kind.tells_owners or not ephemeral else None,
        )
        return SyntheticInstance(row, ages_ms if self.kind.tells_owners else None)

    def _make_metadata(self) -> dict[str, str | None]:
        chances = self._random
        known: dict[str, str | None] = {
            "zone": chances.choice(("a", "b", "c")),
            "version": f"{chances.randrange(9)}.{chances.randrange(20)}.0",
            "owner-team": chances.choice(("payments", "platform", "search", "Großkunden", "北京")),
            "preserved.register.source": "SPRING_CLOUD",
            "side": "provider",
            "note": chances.choice(("", None, 'say "hi", then \\ and a tab:\t', "a=b,c=d")),
        }
        names = chances.sample(sorted(known), chances.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 6)))
        return {name: known[name] for name in names}


def beat_line(line: bytes, age_ms: int) -> bytes:
    """Return the line of an instance with beats, as its owner reports it."""
    head, name, tail = line.rpartition(b'"delete_timeout_ms"')
    return b'%b"beat_age_ms":%d,%b%b' % (head, age_ms, name, tail)


def reordered(row: dict[str, Any]) -> bytes:
    """Return the line of an instance with the keys of its metadata in reverse order, and null for none."""
    return encode_row(row | {"metadata": dict(reversed(row["metadata"].items())) or None})
