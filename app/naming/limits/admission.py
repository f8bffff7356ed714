"""Admission: the decision whether a client's write may add to the data of this member, and the number of refusals.

The counts of that data are kept here, so that reading them needs no search. Only additions by clients are checked. Data
from members counts, and is never refused: otherwise members would differ for ever. A write that adds nothing, and a
removal, is never refused either.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, NamedTuple, NoReturn

import orjson

from app.naming.model.model import Service
from app.naming.model.nacos_errors import LimitReached, TooManyRequests


@dataclass(slots=True)
class LimitStats:
    """Refusals since the start, by limit; each field is named as the setting ``rollcall.limit.*`` that it counts.

    Written by several threads without a lock: now and then one count may be lost.
    """

    namespaces: int = 0
    services_per_namespace: int = 0
    instances_per_namespace: int = 0
    instances_per_service: int = 0
    persistent_instances: int = 0
    metadata_bytes: int = 0
    overrides: int = 0
    clusters_per_service: int = 0
    record_bytes: int = 0
    """Durable records that were too large."""
    list_bytes: int = 0
    """Instances refused because the list of their service or client was too large for one call."""
    subscribers: int = 0
    subscriptions_per_connection: int = 0
    connections_per_address: int = 0
    writes_per_second_per_address: int = 0
    page_size: int = 0
    """Pages that were cut to the longest one allowed."""
    memory_services: int = 0
    """New services refused near the memory limit."""
    memory_instances: int = 0
    """New instances of known services refused near the memory limit."""
    answers_mb: int = 0
    """Large answers refused because too many bytes of answers were under way."""

    def cut_page(self, asked: int, allowed: int) -> int:
        """Return the entries of a page of ``asked`` entries when ``allowed`` are allowed. Counts a page that is cut."""
        if asked <= allowed:
            return asked
        self.page_size += 1
        return allowed

    def counters(self) -> dict[str, int]:
        """Return the counts, under the names of the metrics in snake_case."""
        return {f"limit_{name}": count for name, count in asdict(self).items()}


PREFIX = "rollcall.limit."
BODY_SETTING = "rollcall.distro.bodyBytesMax"
FRAME_BYTES = 1_024
"""The bytes of a record on the wire in addition to its value and its key, which appears twice: versions and times."""
INSTANCE_BYTES = 420
"""The bytes of an instance on the wire in addition to its metadata and twice the name of its service, plus a quarter.
"""
REMOVALS_SHARE = 16
"""One part in this many of a body is for the tombstones of a list, the others are for its instances."""
KEY_CHARS_SHOWN = 200
MEMORY_RETRY_S = 30
"""When a client may try again whose write was refused near the memory limit."""


@dataclass(frozen=True, slots=True)
class NamingLimits:
    """The most data that clients' writes may store at this member; 0 means any number."""

    namespaces: int = 0
    """Namespaces with a service in them, and as many again that were created by name."""
    services_per_namespace: int = 0
    instances_per_namespace: int = 0
    instances_per_service: int = 0
    persistent_instances: int = 0
    metadata_bytes: int = 0
    overrides: int = 0
    """Operators' changes that are kept beside instances."""
    clusters_per_service: int = 0
    """Clusters with separate settings, in the description of a service."""
    record_bytes: int = 0
    """The largest value of a durable record, as JSON."""
    body_bytes: int = 0
    """The largest body that members send each other in one call. No record or list may be larger."""
    subscribers: int = 0
    """ClientSubscriptions over UDP and gRPC together."""


class MemoryPressure(IntEnum):
    """The refusals as the process comes near its memory limit. Each level refuses what those below it do."""

    NONE = 0
    NO_NEW_SERVICES = 1
    NO_NEW_INSTANCES = 2


class Occupancy(NamedTuple):
    """The data before a write: the number of namespaces, of services in its namespace, of its service's instances.

    ``is_new_namespace`` and ``is_new_service``: the write would create these.
    """

    namespaces: int
    services: int
    instances: int
    is_new_namespace: bool
    is_new_service: bool


class NamingCounts:
    """Instances by namespace, persistent instances, bytes of metadata; an address counts once for each of its sources.

    Changed by the holder of the lock of ``ServiceTable``. A reader without it may see one change less.
    """

    __slots__ = ("_instances", "metadata_bytes", "overrides", "persistent")

    def __init__(self) -> None:
        self._instances: dict[str, int] = {}
        """Instances by namespace. Namespaces without instances are not in it."""
        self.persistent = 0
        self.overrides = 0
        """Operators' changes of instances."""
        self.metadata_bytes = 0
        """The bytes of all instances and descriptions, as if none of them shared metadata."""

    def add(self, namespace: str, instances: int, metadata_bytes: int) -> None:
        """Count added instances of a namespace and bytes of metadata; negative numbers are removals."""
        self.metadata_bytes += metadata_bytes
        if instances:
            left = self._instances.get(namespace, 0) + instances
            if left:
                self._instances[namespace] = left
            else:
                del self._instances[namespace]

    def instances(self) -> int:
        """Return the number of instances of all namespaces."""
        return sum(self._instances.copy().values())

    def instances_of(self, namespace: str) -> int:
        """Return the number of instances of a namespace."""
        return self._instances.get(namespace, 0)


class Admission:
    """Refuses writes beyond the limits. Call ``check`` while holding the lock that guards the counts."""

    def __init__(self, limits: NamingLimits | None = None, stats: LimitStats | None = None) -> None:
        self.limits = limits or NamingLimits()
        self.stats = stats or LimitStats()
        self.pressure = MemoryPressure.NONE
        """Set each second by the watch of this process's memory."""

    @property
    def removals_bytes_max(self) -> int:
        """Return the most bytes of the tombstones of one list; 0 for any number."""
        return self.limits.body_bytes // REMOVALS_SHARE

    @property
    def _instances_bytes_max(self) -> int:
        return self.limits.body_bytes - self.removals_bytes_max

    def check(
        self,
        counts: NamingCounts,
        held: Occupancy,
        namespace: str,
        full_name: str,
        instances: int,
        metadata_bytes: int,
        persistent: int,
    ) -> None:
        """Refuse a write of so many instances, some of them persistent, and bytes of metadata, that exceeds a limit.

        Raises:
            LimitReached: a limit would be exceeded.
            TooManyRequests: the process is near its memory limit.
        """
        limits, pressure = self.limits, self.pressure
        if held.is_new_service:
            if pressure >= MemoryPressure.NO_NEW_SERVICES:
                self.stats.memory_services += 1
                self._refuse_for_memory(f"no new service {full_name}")
            if held.is_new_namespace and 0 < limits.namespaces <= held.namespaces:
                self.stats.namespaces += 1
                _refuse("namespaces", limits.namespaces, "namespaces in use", held.namespaces)
            if 0 < limits.services_per_namespace <= held.services:
                self.stats.services_per_namespace += 1
                where = f"services in namespace {namespace}"
                _refuse("servicesPerNamespace", limits.services_per_namespace, where, held.services)
        if instances > 0:
            if pressure >= MemoryPressure.NO_NEW_INSTANCES:
                self.stats.memory_instances += 1
                self._refuse_for_memory(f"no new instance of {full_name}")
            if 0 < limits.instances_per_service < held.instances + instances:
                self.stats.instances_per_service += 1
                where = f"instances of service {full_name}"
                _refuse("instancesPerService", limits.instances_per_service, where, held.instances, instances)
            in_namespace = counts.instances_of(namespace)
            if 0 < limits.instances_per_namespace < in_namespace + instances:
                self.stats.instances_per_namespace += 1
                where = f"instances in namespace {namespace}"
                _refuse("instancesPerNamespace", limits.instances_per_namespace, where, in_namespace, instances)
        if persistent > 0 and 0 < limits.persistent_instances < counts.persistent + persistent:
            self.stats.persistent_instances += 1
            of_all = counts.persistent
            _refuse("persistentInstances", limits.persistent_instances, "persistent instances", of_all, persistent)
        if metadata_bytes > 0 and 0 < limits.metadata_bytes < counts.metadata_bytes + metadata_bytes:
            self.stats.metadata_bytes += 1
            of_all = counts.metadata_bytes
            _refuse("metadataBytes", limits.metadata_bytes, "bytes of metadata", of_all, metadata_bytes)

    def check_clusters(self, full_name: str, clusters: int) -> None:
        """Refuse the settings of one more cluster if its service would then have too many.

        Raises:
            LimitReached: as ``check``.
        """
        if 0 < self.limits.clusters_per_service < clusters:
            self.stats.clusters_per_service += 1
            where = f"clusters with settings in service {full_name}"
            _refuse("clustersPerService", self.limits.clusters_per_service, where, clusters - 1)

    def check_overrides(self, counts: NamingCounts, full_name: str, of_service: int, added: int) -> None:
        """Refuse operators' changes of ``added`` more instances of a service that has ``of_service`` of them.

        Raises:
            LimitReached: as ``check``.
        """
        limits = self.limits
        if 0 < limits.overrides < counts.overrides + added:
            self.stats.overrides += 1
            _refuse("overrides", limits.overrides, "changes of instances by operators", counts.overrides, added)
        if 0 < limits.instances_per_service < of_service + added:
            self.stats.overrides += 1
            what = f"changes of instances by operators in service {full_name}"
            _refuse("instancesPerService", limits.instances_per_service, what, of_service, added)

    def check_record(self, key: str, before: Mapping[str, Any] | None, value: Mapping[str, Any]) -> None:
        """Refuse a durable record that is too large, unless it has not grown.

        Raises:
            LimitReached: names the limit, and the field that takes most of the record.
        """
        size = len(orjson.dumps(value))
        for name, limit in (
            (PREFIX + "recordBytes", self.limits.record_bytes),
            (BODY_SETTING, self.limits.body_bytes and self.limits.body_bytes - 2 * len(key.encode()) - FRAME_BYTES),
        ):
            if limit == 0 or size <= limit or (before is not None and size <= len(orjson.dumps(before))):
                continue
            self.stats.record_bytes += 1
            largest = max(value, key=lambda field: len(orjson.dumps(value[field])), default="")
            raise LimitReached(
                f"refused by {name}={limit}: the record {key[:KEY_CHARS_SHOWN]!r} would have {size} bytes, "
                f"most of them in its field '{largest}'"
            )

    def check_list(self, what: str, name_chars: int, instances: int, metadata_bytes: int) -> None:
        """Refuse a change that makes the list of a service, or a client's publications, too large to be sent.

        ``what``: names the list in the error. ``name_chars``: of the name of the service. Called when a list grows.

        Raises:
            LimitReached: members could not send the list in one call, nor load it.
        """
        limit, size = self._instances_bytes_max, list_bytes(name_chars, instances, metadata_bytes)
        if 0 < limit < size:
            self.stats.list_bytes += 1
            raise LimitReached(
                f"refused by {BODY_SETTING}={self.limits.body_bytes}: the {instances} instances of {what} would have "
                f"{size} bytes, {metadata_bytes} of them in their field 'metadata' and long names; {limit} are allowed"
            )

    def check_growth(self, full_name: str, service: Service | None, instances: int, metadata_bytes: int) -> None:
        """Refuse, as ``check_list`` does, a client's write that makes the instance list of a service too large."""
        if service is not None:
            instances, metadata_bytes = instances + len(service.stored), metadata_bytes + service.stored_bytes
        limit = self._instances_bytes_max
        if limit and list_bytes(len(full_name), instances, metadata_bytes) > limit:
            self.check_list(f"service {full_name}", len(full_name), instances, metadata_bytes)

    def check_namespaces(self, created: int) -> None:
        """Refuse to create a namespace if too many were created.

        Raises:
            LimitReached: as ``check``.
        """
        if 0 < self.limits.namespaces <= created:
            self.stats.namespaces += 1
            _refuse("namespaces", self.limits.namespaces, "namespaces created", created)

    def _refuse_for_memory(self, what: str) -> NoReturn:
        raise TooManyRequests(
            f"this server is near its bound of memory ({PREFIX}memoryMb) and takes {what}, please try again later",
            MEMORY_RETRY_S,
        )


def list_bytes(name_chars: int, instances: int, metadata_bytes: int) -> int:
    """Return an estimate, rather too high, of a list's bytes on the wire, by its service's name and its instances."""
    return metadata_bytes * 5 // 4 + instances * (INSTANCE_BYTES + 2 * name_chars)


def _refuse(key: str, limit: int, what: str, held: int, more: int = 1) -> NoReturn:
    raise LimitReached(f"refused by {PREFIX}{key}={limit}: there are {held} {what}, and this would add {more}")


class SubscriberTally:
    """Counts subscriptions. Each kind's own count is written only by its owner, and read by the other."""

    __slots__ = ("_stats", "grpc", "limit", "udp")

    def __init__(self, limit: int = 0, stats: LimitStats | None = None) -> None:
        """``limit``: the most subscriptions in all; 0 for any number."""
        self.limit = limit
        self.udp = 0
        self.grpc = 0
        self._stats = stats or LimitStats()

    def has_room(self) -> bool:
        """Return whether one more subscription fits. Count it as refused if not."""
        if not self.limit or self.udp + self.grpc < self.limit:
            return True
        self._stats.subscribers += 1
        return False

    def refusal(self) -> str:
        """Return the text for a client whose subscription does not fit."""
        return f"refused by {PREFIX}subscribers={self.limit}: there are {self.udp + self.grpc} subscriptions"
