"""This member's knowledge of one instance, and the rule behind its state: one member's part of ``explain``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.config.version import __version__
from app.naming.clients.client_table import ClientTable
from app.naming.health.checks import ClusterKey, LastCheck
from app.naming.model.keys import datum_key, instance_key
from app.naming.model.meta import DEFAULT_CLUSTER_CONFIG, NO_META
from app.naming.model.model import Service, StoredInstance
from app.naming.push.udp_subscribers import PushState
from app.naming.records.record import Record
from app.naming.records.record_keys import override_key, persistent_key, record_tag
from app.naming.records.records import Records
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import view_of
from app.naming.wire.service_info import shows_all_healthy
from app.operator.instance_history import InstanceHistory
from app.operator.instance_places import InstancePlace, places_of
from app.replication.client_type import CLIENTS, client_key
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS
from distro.members.mapper import DistroMapper, distro_hash
from distro.model.ports import Clock
from distro.model.types import DistroKey
from distro.protocol.engine_view import EngineView

PUBLISHERS_MAX = 20
SUBSCRIBERS_MAX = 50
"""The most subscribers of each kind in an answer. All are counted, and those that are behind come first."""

Facts = dict[str, Any]
PushWay = tuple[str, Callable[[str, str], list[PushState]]]
"""The name of a push channel, and a reader of its subscribers' states by namespace and service."""


@dataclass(frozen=True, slots=True)
class AskedInstance:
    """The instance that an operator asks about. ``service`` is the full name."""

    namespace: str
    service: str
    ip: str
    port: int
    cluster: str

    @property
    def key(self) -> str:
        """Return the instance key."""
        return instance_key(self.ip, self.port, self.cluster)


@dataclass(slots=True)
class InstanceFacts:
    """Looks up an instance in all parts of this node. Thread-safe: it only reads, and takes no lock for long."""

    table: ServiceTable
    writer: str
    """The name of this run in versions."""
    clients: ClientTable
    records: Records
    view: Callable[[], EngineView]
    pending_of: Callable[[DistroKey], Mapping[str, str]]
    """Describes the pending work on a key, by peer."""
    history: InstanceHistory
    clock: Clock
    self_address: str
    state: Callable[[], str]
    push_states: list[PushWay] = field(default_factory=list)
    last_check: Callable[[ClusterKey, str], LastCheck | None] | None = None
    """Returns the result of the last active check, by cluster and instance key."""

    def places(self, namespace: str, service: str, ip: str, port: int) -> list[InstancePlace]:
        """Return the places of an address, the best first: ``places_of``."""
        return places_of(self.table, namespace, service, ip, port)

    def facts(self, asked: AskedInstance) -> Facts:
        """Return everything that this member knows. Shape: docs/operations/inspect.md."""
        now_ms = self.clock.monotonic_ms()
        service = self.table.get(asked.namespace, asked.service)
        found: Facts = {
            "address": self.self_address,
            "state": self.state(),
            "run": self.writer,
            "release": __version__,
            "takenMs": self.clock.wall_ms(),
            "responsible": _owner(self.view().mapper, asked.service),
            "serviceKnown": service is not None and not service.hidden,
            "listed": None,
            "removed": None,
            "heldBack": None,
            "persistent": None,
            "persistentRemoved": None,
            "override": self._override(asked),
            "published": [],
            "publishedCount": 0,
            "foreign": [],
            "shown": None,
        }
        if service is not None:
            self._add_listed(found, asked, service, now_ms)
            self._add_published(found, asked, service)
            found["foreign"] = _foreign(asked, service, now_ms)
            found["shown"] = _shown(asked, service)
        self._add_persistent(found, asked, service, now_ms)
        found["history"] = [
            {"ageMs": now_ms - one.at_ms, "what": one.what}
            for one in self.history.of(asked.namespace, asked.service, asked.key)
        ]
        found["pending"] = self._pending(asked, found)
        found["subscribers"] = self._subscribers(asked)
        return found

    def _add_listed(self, found: Facts, asked: AskedInstance, service: Service, now_ms: int) -> None:
        if (stored := service.stored.get(asked.key)) is not None:
            found["listed"] = self._listed(service, stored, now_ms)
        if (tombstone := service.tombstones.get(asked.key)) is not None:
            found["removed"] = {
                "version": tombstone.version.to_text(),
                "by": _member_of(tombstone.version.writer),
                "ageMs": now_ms - tombstone.at_ms,
                "keptMs": max(tombstone.at_ms + tombstone.keep_ms - now_ms, 0),
                "unknownThere": tombstone.unknown,
            }
        if asked.key in service.retained:
            found["heldBack"] = {"leftMs": max(service.retained_until_ms - now_ms, 0)}

    def _listed(self, service: Service, stored: StoredInstance, now_ms: int) -> Facts:
        instance = stored.instance
        silent_ms, claimed_ms = max(now_ms - stored.beat_ms, 0), max(now_ms - service.claimed_ms, 0)
        is_writer = service.version.writer == self.writer
        rule = ""
        if not instance.healthy:
            if instance.marked:
                rule = "its health is fixed (marked)"
            elif min(silent_ms, claimed_ms if is_writer else silent_ms) > instance.beat_timeout_ms:
                rule = f"no beat for {silent_ms} ms, and its time-out is {instance.beat_timeout_ms} ms"
            else:
                rule = (
                    "its beats arrive in time: an operator or its registration made it unhealthy; its next beat "
                    "makes it "
                    "healthy"
                )
        return {
            "version": stored.version.to_text(),
            "clientVersion": stored.client_version.to_text(),
            "listVersion": service.version.to_text(),
            "writer": _member_of(service.version.writer),
            "healthy": instance.healthy,
            "enabled": instance.enabled,
            "weight": instance.weight,
            "beatAgeMs": silent_ms,
            "confirmedAgeMs": max(now_ms - stored.last_confirmed_ms, 0),
            "changedAgeMs": max(now_ms - stored.changed_ms, 0),
            "writtenHereForMs": claimed_ms if is_writer else None,
            "beatTimeoutMs": instance.beat_timeout_ms,
            "deleteTimeoutMs": instance.delete_timeout_ms,
            "checkedHere": is_writer and self.view().steady(now_ms),
            "unhealthyBecause": rule,
        }

    def _add_published(self, found: Facts, asked: AskedInstance, service: Service) -> None:
        holders: list[Facts] = []
        for client_id, publication in list((service.published or {}).items()):
            instance = publication.instances.get(asked.key)
            if instance is None:
                continue
            client = self.clients.client(client_id)
            holders.append(
                {
                    "client": client_id,
                    "agent": client.info.agent if client else "",
                    "member": _member_of(client.version.writer) if client else "",
                    "connectedHere": bool(client and client.native and not client.ended),
                    "connectionGone": bool(client and client.ended),
                    "version": client.version.to_text() if client else "",
                    "publishedAtMs": publication.at_ms,
                    "batch": publication.batch,
                    "healthy": instance.healthy,
                    "enabled": instance.enabled,
                    "weight": instance.weight,
                }
            )
        found["publishedCount"] = len(holders)
        found["published"] = sorted(holders, key=lambda one: -one["publishedAtMs"])[:PUBLISHERS_MAX]

    def _add_persistent(self, found: Facts, asked: AskedInstance, service: Service | None, now_ms: int) -> None:
        key = persistent_key(asked.namespace, asked.service, asked.key)
        record: Record | None = next((one.value for one in self.records.datums([key])), None)
        if record is None:
            return
        owner = _owner(self.view().own_mapper, record_tag(key))
        told = {
            "version": record.version.to_text(),
            "by": _member_of(record.changed.writer),
            "atMs": record.changed_wall_ms,
            "responsible": owner,
        }
        if record.value is None:
            found["persistentRemoved"] = told
            return
        instance = service.persistent.get(asked.key) if service else None
        if instance is None:
            found["persistent"] = {**told, "healthy": None, "unhealthyBecause": "", "checker": ""}
            return
        meta = (service.meta if service else None) or NO_META
        checker = meta.clusters.get(asked.cluster, DEFAULT_CLUSTER_CONFIG).checker.kind
        where = ClusterKey(asked.namespace, asked.service, asked.cluster)
        last = self.last_check(where, asked.key) if self.last_check is not None else None
        found["persistent"] = {
            **told,
            "healthy": instance.healthy,
            "enabled": instance.enabled,
            "weight": instance.weight,
            "checker": checker,
            "lastCheck": None if last is None else _check(last, now_ms),
            "unhealthyBecause": _why_unhealthy(instance.healthy, checker, last, now_ms),
        }

    def _override(self, asked: AskedInstance) -> Facts | None:
        """Return an operator's change of the instance; None for none."""
        record = self.records.record(key := override_key(asked.namespace, asked.service, asked.key))
        if record is None or record.value is None:
            return None
        return {
            **dict.fromkeys(("weight", "enabled", "metadata")),
            **record.value,
            "version": record.version.to_text(),
            "by": _member_of(record.changed.writer),
            "atMs": record.changed_wall_ms,
            "responsible": _owner(self.view().own_mapper, record_tag(key)),
        }

    def _pending(self, asked: AskedInstance, found: Facts) -> list[Facts]:
        keys = [DistroKey(INSTANCE_LIST, datum_key(asked.namespace, asked.service))]
        if found["persistent"] or found["persistentRemoved"]:
            keys.append(DistroKey(RECORDS, persistent_key(asked.namespace, asked.service, asked.key)))
        if found["override"]:
            keys.append(DistroKey(RECORDS, override_key(asked.namespace, asked.service, asked.key)))
        keys.extend(DistroKey(CLIENTS, client_key(one["client"])) for one in found["published"])
        return [
            {"peer": peer, "what": key.resource_type, "is": what}
            for key in keys
            for peer, what in self.pending_of(key).items()
        ]

    def _subscribers(self, asked: AskedInstance) -> Facts:
        found: Facts = {}
        for way, read in self.push_states:
            states = read(asked.namespace, asked.service)
            states.sort(key=lambda one: not one.is_under_way)
            found[way] = {
                "count": len(states),
                "behind": sum(one.is_under_way for one in states),
                "of": [
                    {
                        "who": one.who,
                        "agent": one.agent,
                        "pushedAgeMs": one.pushed_ms,
                        "acknowledgedAgeMs": one.answered_ms,
                        "sends": one.sends,
                        "behind": one.is_under_way,
                    }
                    for one in states[:SUBSCRIBERS_MAX]
                ],
            }
        return found


def _member_of(writer: str) -> str:
    """Return the address of the member of a run; empty if the writer is not a Rollcall run."""
    return writer.partition("~")[0]


def _owner(mapper: DistroMapper, tag: str) -> Facts:
    """Return the owner of a tag, and how it is derived."""
    candidates = list(mapper.servers)
    told: Facts = {"member": mapper.map_srv(tag), "tag": tag, "candidates": candidates}
    if mapper.standalone or not candidates:
        return {**told, "hash": None, "index": None}
    number = distro_hash(tag)
    return {**told, "hash": number, "index": number % len(candidates)}


def _shown(asked: AskedInstance, service: Service) -> Facts | None:
    """Return the instance as clients see it in the service's list, and whether the threshold rewrites its health."""
    view = view_of(service)
    one = next((one for one in view.instances if one.key == asked.key), None)
    if service.hidden or one is None:
        return None
    # Disabled instances count, as in the lists of v1.
    count, healthy = len(view.instances), sum(one.healthy for one in view.instances)
    protects = shows_all_healthy(healthy, count, view.protect_threshold)
    return {
        "inLists": one.enabled,
        "weight": one.weight,
        "metadata": one.metadata or {},
        "healthy": one.healthy,
        "shownHealthy": one.healthy or (protects and one.enabled),
        "healthyInService": healthy,
        "instancesInService": count,
        "protectThreshold": view.protect_threshold,
        "rewritten": protects and one.enabled and not one.healthy,
    }


def _foreign(asked: AskedInstance, service: Service, now_ms: int) -> list[Facts]:
    """Return the links that brought the instance, by name, and since when each is silent."""
    found: list[Facts] = []
    for name, part in sorted((service.foreign or {}).items()):
        for key, one in part.shown.items():
            if one.key == asked.key:
                silent_ms = None if part.stale_ms is None else max(now_ms - part.stale_ms, 0)
                found.append(
                    {
                        "link": name,
                        "origin": part.origin,
                        "statedBy": _member_of(part.run),
                        "healthy": one.healthy,
                        "stale": silent_ms is not None,
                        "silentMs": silent_ms,
                        "kept": key in part.kept,
                    }
                )
    return found


def _check(last: LastCheck, now_ms: int) -> Mapping[str, Any]:
    return {
        "result": last.result.value,
        "ageMs": now_ms - last.at_ms,
        "tookMs": last.took_ms,
        "inARow": abs(last.in_a_row),
    }


def _why_unhealthy(healthy: bool, checker: str, last: LastCheck | None, now_ms: int) -> str:
    if healthy:
        return ""
    if checker == "NONE":
        return "its cluster has no health checks: an operator or its registration made it unhealthy"
    if last is None:
        return f"the checks ({checker}) are made by another member, or have not begun"
    return (
        f"the last check ({checker}) was {last.result.value}, {now_ms - last.at_ms} ms ago, "
        f"the {abs(last.in_a_row)}. in a row"
    )
