"""Builds the domain of a node: services, clients and durable records, with their files and events."""

from app.auth.user_table import UserTable
from app.auth.users import Users
from app.background.notify import NotifyCenter
from app.config.settings import Settings
from app.dns.name_index import NameIndex
from app.machine.limits.answer_budget import part_of_memory
from app.machine.limits.node_limits import Limits
from app.machine.storage.record_file import RecordFile
from app.members.membership import check_call_deadline
from app.metrics.audit_trail import AuditTrail
from app.naming.changes import Changes
from app.naming.clients.client_model import ClientBounds
from app.naming.clients.clients import build_clients
from app.naming.records.durable_service import DurableService
from app.naming.records.projection import Projection
from app.naming.records.record_values import check_record
from app.naming.records.records import Records
from app.naming.registry.foreign_table import ForeignTable
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.naming.wire.datum_codec import InstanceListCodec
from app.naming.wire.service_info import ANSWERS_BYTES_MAX
from app.node.node_parts import Domain, NodeKinds
from app.operator.instance_history import CountHistory, InstanceHistory
from distro.model.ports import Clock
from distro.protocol.engine_reader import EngineReader


def build_domain(
    settings: Settings,
    clock: Clock,
    limits: Limits,
    registry: Registry,
    names: NameIndex | None,
    reader: EngineReader,
    audit: AuditTrail,
    kinds: NodeKinds,
) -> Domain:
    """Make the domain of one run; nothing is read or opened yet. ``reader`` knows the other members and their runs."""
    notify, writer = kinds.notify(), registry.lists.writer
    clients = build_clients(
        registry,
        clock.monotonic_ms,
        clock.wall_ms,
        notify.publish,
        ClientBounds(subscriptions_per_client_max=settings.limits.subscriptions_per_connection),
        limits.subscribers,
        expiry_ms=settings.client_expiry_ms,
        keep_ms=settings.distro.tombstone_slack_ms,
        alone=settings.standalone,
        is_handing_over=reader.is_handing_over,
        contact_ms=reader.contact_ms,
    )
    user_table = UserTable()
    projection = Projection(registry.table, clock.monotonic_ms, notify.publish, user_table.on_record)
    record_file = kinds.record_file(settings.data_dir)
    records = build_records(settings, clock, writer, record_file, projection, limits, audit, kinds)
    history = InstanceHistory(clock.monotonic_ms)
    codec = InstanceListCodec(clock.wall_ms)
    return Domain(
        writer=writer,
        notify=notify,
        registry=registry,
        names=names,
        naming=build_naming(registry, clock, notify, limits, history),
        clients=clients,
        record_file=record_file,
        records=records,
        durable=DurableService(
            records, projection, registry.table, registry.writes, clock.monotonic_ms, notify.publish
        ),
        user_table=user_table,
        users=Users(records, user_table, clock.wall_ms, notify.publish),
        instance_codec=codec,
        limits=limits,
        warm_store=kinds.warm_store(settings.data_dir, codec, registry.lists.datums, clock.wall_ms),
        foreign=kinds.links.store(
            writer,
            ForeignTable(registry.table),
            notify.publish,
            clock.monotonic_ms,
            settings.distro.tombstone_slack_ms,
            settings.limits.foreign_instances,
        ),
        history=history,
        count_history=CountHistory(registry.table.totals, clock.wall_ms),
    )


def build_records(
    settings: Settings,
    clock: Clock,
    writer: str,
    record_file: RecordFile,
    projection: Projection,
    limits: Limits,
    audit: AuditTrail,
    kinds: NodeKinds,
) -> Records:
    """Make the durable records over their file. ``projection`` keeps services, switches and users in line with them."""
    return kinds.records(
        writer,
        record_file,
        clock.wall_ms,
        clock.monotonic_ms,
        projection.on_record,
        check_call_deadline,
        check_record=check_record,
        alone=settings.standalone,
        check_size=limits.admission.check_record,
        on_written=audit.on_record,
    )


def build_registry(
    settings: Settings, clock: Clock, limits: Limits, names: NameIndex | None, kinds: NodeKinds
) -> Registry:
    """Make the instance lists of one run. ``names`` follows the services that readers see."""
    # A loss that nobody caused is believed when two verify rounds have not repaired it.
    guard_ms = 0 if settings.standalone else 2 * settings.distro.verify_interval_ms
    return Registry.of(
        kinds.name_run(settings, clock),
        settings.distro.tombstone_slack_ms,
        guard_ms,
        limits.admission,
        keep_empty=not settings.clean_empty,
        alone=settings.standalone,
        on_listed=names.note if names is not None else None,
        kinds=kinds.lists,
    )


def build_naming(
    registry: Registry, clock: Clock, notify: NotifyCenter, limits: Limits, history: InstanceHistory
) -> NamingService:
    """Make the operations on services; the lists that they keep take a part of the bound of memory."""
    kept_bytes_max = part_of_memory(ANSWERS_BYTES_MAX, limits.memory.bound_bytes)
    table, now_ms, publish = registry.table, clock.monotonic_ms, notify.publish
    changes = Changes(table, registry.replication, now_ms, publish)
    return NamingService(table, registry.writes, changes, now_ms, publish, kept_bytes_max, history.note)


def disk_counters(domain: Domain) -> dict[str, int]:
    """The counters of writes to the disk, of failed ones, and of unreadable data."""
    return {
        "record_commits": domain.record_file.commits,
        "record_writes_failed": domain.record_file.writes_failed,
        "warm_writes_failed": domain.warm_store.writes_failed,
        "records_set_aside": domain.record_file.set_aside,
        "warm_lists_unread": domain.warm_store.unread,
    }
