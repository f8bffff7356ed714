"""The subscriptions of a node's parts to the events of others."""

import logging
from collections.abc import Callable
from itertools import islice

from app.background.push_udp import UdpPusher
from app.metrics.audit_trail import NODE, AuditTrail
from app.naming.model.events import (
    REMOVED,
    UNHEALTHY,
    ClientChanged,
    ClientDisconnect,
    ClientReturned,
    ClientWithdrawn,
    ForeignChanged,
    ForeignWritten,
    HealthChanged,
    HealthChecked,
    InstanceHealed,
    InstancesChanged,
    Origin,
    RecordChanged,
    ServiceChanged,
    ServicePushed,
    ServiceSubscribed,
)
from app.naming.model.keys import datum_key, parse_datum_key
from app.naming.push.udp_subscribers import UdpSubscribers
from app.node.node_parts import Domain, Engine
from app.operator.instance_history import InstanceHistory
from app.replication.client_type import CLIENTS, client_key
from app.replication.foreign_type import FOREIGN
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS
from app.rpc.frontend import GrpcFrontend
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from distro.model.types import DistroKey

LOG = logging.getLogger(__name__)
LINES_MAX = 9
"""The most lines about instances of one service in one round."""


def log_health(event: HealthChanged) -> None:
    """Log one instance, unless the round has logged ``LINES_MAX`` of its service."""
    if event.number <= LINES_MAX:
        LOG.debug("instance %s of %s is %s: no beat came in time", event.instance, event.key, event.what)


def log_health_check(event: HealthChecked) -> None:
    """Log the number of the instances that ``log_health`` left out."""
    if event.changes > LINES_MAX:
        LOG.debug("%d more instances of %s are unhealthy or removed", event.changes - LINES_MAX, event.key)


NOTED_MAX = 1_000
"""Instances of one publication whose end is noted one by one."""


def subscribe(domain: Domain, engine: Engine, push: UdpPusher, grpc: GrpcFrontend | None, audit: AuditTrail) -> None:
    """Connect the events of the domain with all that hear of them. Handlers only enqueue."""
    on = domain.notify.subscribe
    on(InstancesChanged, on_instances(domain, engine, push, grpc))
    on(ServiceChanged, on_service(push, grpc))
    on(ForeignChanged, on_service(push, grpc))
    if (sync := engine.sync) is not None:
        on(RecordChanged, lambda event: sync(DistroKey(RECORDS, event.key)))
        on(ClientChanged, lambda event: sync(DistroKey(CLIENTS, client_key(event.client_id))))
        on(ForeignWritten, lambda event: sync(DistroKey(FOREIGN, event.key)))
        on(ClientDisconnect, on_client_gone(sync))
        on(ServicePushed, on_pushed(engine))
    if grpc is not None:
        on(ServiceSubscribed, lambda event: grpc.subscribed(event.key, event.client_id))
    on(ClientReturned, lambda event: engine.came_back(event.writer, event.at_ms))
    on(ClientWithdrawn, note_withdrawn(domain.history))
    audit_events(domain, audit)
    on(HealthChanged, log_health)
    on(HealthChanged, note_health(domain.history))
    on(HealthChecked, log_health_check)


def on_instances(
    domain: Domain, engine: Engine, push: UdpPusher, grpc: GrpcFrontend | None
) -> Callable[[InstancesChanged], None]:
    """Return the handler of a changed list: for the copy on disk, the subscribers and the other members."""
    copied, marked, pushers, sync, local = (
        domain.warm_store.changed,
        engine.address_clients.mark,
        pushers_of(push, grpc),
        engine.sync,
        Origin.LOCAL,  # Python 3.11 needs ten times as long to look a member up in its class
    )

    def handle(event: InstancesChanged) -> None:
        key = event.key
        copied(key)
        marked(key)
        if event.shown and (parsed := parse_datum_key(key)):
            for one in pushers:
                if one.arriving or one.has(parsed):
                    one.changed(*parsed)
        if event.origin is local and sync is not None:
            sync(DistroKey(INSTANCE_LIST, key))

    return handle


def on_service(push: UdpPusher, grpc: GrpcFrontend | None) -> Callable[[ServiceChanged | ForeignChanged], None]:
    """Return the handler of a changed service, which notifies its subscribers."""
    pushers = pushers_of(push, grpc)

    def handle(event: ServiceChanged | ForeignChanged) -> None:
        key = event.namespace, event.service
        for one in pushers:
            if one.arriving or one.has(key):
                one.changed(*key)

    return handle


def pushers_of(push: UdpPusher, grpc: GrpcFrontend | None) -> tuple[UdpPusher | GrpcFrontend, ...]:
    """Return the ways to the subscribers of services, over UDP and gRPC: nearly all changes are of services without."""
    return (push,) if grpc is None else (push, grpc)


def pushed_here(*subscriptions: UdpSubscribers | GrpcSubscriptions) -> Callable[[DistroKey], bool]:
    """Return the check whether a changed key is a service with subscribers here: its peers hear of the pushes."""

    def is_pushed(key: DistroKey) -> bool:
        parsed = parse_datum_key(key.key) if key.resource_type == INSTANCE_LIST else None
        if parsed is not None:
            for one in subscriptions:
                if one.arriving or one.has(parsed):
                    return True
        return False

    return is_pushed


def on_client_gone(sync: Callable[[DistroKey], None]) -> Callable[[ClientDisconnect], None]:
    """Return the handler that has the other members remove a client that was connected here."""

    def handle(event: ClientDisconnect) -> None:
        if event.native:
            sync(DistroKey(CLIENTS, client_key(event.client_id)))

    return handle


def on_pushed(engine: Engine) -> Callable[[ServicePushed], None]:
    """Return the handler of a push, which has peers told when subscribers were sent their changes."""
    applied, now_s = engine.replication.receiver.applied, engine.now_s

    def handle(event: ServicePushed) -> None:
        applied.pushed(DistroKey(INSTANCE_LIST, datum_key(event.namespace, event.service)), now_s())

    return handle


def note_withdrawn(history: InstanceHistory) -> Callable[[ClientWithdrawn], None]:
    """Return the handler that keeps which client's end, or call, ended an instance."""

    def handle(event: ClientWithdrawn) -> None:
        what = f"its gRPC client {event.client_id} {'is gone' if event.gone else 'withdrew it'}"
        for key, publication in event.former.items():
            for instance_key in islice(publication.instances, NOTED_MAX):
                history.note(datum_key(*key), instance_key, what)

    return handle


def note_health(history: InstanceHistory) -> Callable[[HealthChanged], None]:
    """Return the handler that records the ends of single instances without beats."""

    def handle(event: HealthChanged) -> None:
        what = (
            "removed, because no beat arrived" if event.what == REMOVED else "made unhealthy, because no beat arrived"
        )
        history.note(event.key, event.instance, what)

    return handle


def audit_events(domain: Domain, audit: AuditTrail) -> None:
    """Have the audit trail written of all that the node does to instances by itself."""
    if not audit.covers_instances:
        return
    on, write = domain.notify.subscribe, audit.write_instance

    def on_disconnect(event: ClientDisconnect) -> None:
        if event.native:
            audit.write("client.disconnect", event.client_id, actor=NODE)

    def on_withdrawn(event: ClientWithdrawn) -> None:
        if event.gone:
            for key, publication in event.former.items():
                gone = list(islice(publication.instances.values(), NOTED_MAX))
                write("leave", key, event.client_id, gone, None, NODE)

    def on_health(event: HealthChanged) -> None:
        if parsed := parse_datum_key(event.key):
            write("expire" if event.what == REMOVED else UNHEALTHY, parsed, event.instance, None, None, NODE)

    def on_healed(event: InstanceHealed) -> None:
        if parsed := parse_datum_key(event.key):
            write("healthy", parsed, event.instance, None, None, NODE)

    on(ClientDisconnect, on_disconnect)
    on(ClientWithdrawn, on_withdrawn)
    on(HealthChanged, on_health)
    on(InstanceHealed, on_healed)
