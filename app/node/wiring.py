"""The page on which the parts of a node are told of the events of others."""

from app.auth.access_control import AccessControl
from app.background.health_log import log_health, log_health_check
from app.background.push_udp import UdpPusher
from app.metrics.audit_trail import NODE, Actor, AuditTrail
from app.naming.model.events import (
    REMOVED,
    ClientChanged,
    ClientDisconnect,
    HealthChanged,
    HealthChecked,
    InstancesChanged,
    Origin,
    RecordChanged,
    ServiceChanged,
)
from app.naming.model.keys import datum_key, parse_datum_key
from app.node.parts import Domain, Engine
from app.replication.client_type import CLIENTS, client_key
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS
from app.rpc.frontend import GrpcFrontend
from distro.model.types import DistroKey


def subscribe(domain: Domain, engine: Engine, push: UdpPusher) -> None:
    """Connect the domain's events with the engine, the copy on disk and the push; handlers only enqueue."""

    copied, marked, pushed, sent, local = (
        domain.warm_store.changed,
        engine.address_clients.mark,
        push.changed,
        engine.send,
        Origin.LOCAL,  # Python 3.11 needs ten times as long to look a member up in its class
    )

    def on_instances(event: InstancesChanged) -> None:
        key = event.key
        copied(key)
        marked(key)
        if event.shown and (parsed := parse_datum_key(key)):
            pushed(*parsed)
        if event.origin is local:
            sent(INSTANCE_LIST, key)

    def on_disconnect(event: ClientDisconnect) -> None:
        if event.native:
            engine.send(CLIENTS, client_key(event.client_id))

    on = domain.notify.subscribe
    on(InstancesChanged, on_instances)
    on(RecordChanged, lambda event: engine.send(RECORDS, event.key))
    on(ServiceChanged, lambda event: push.changed(event.namespace, event.service))
    on(HealthChanged, log_health)
    on(HealthChecked, log_health_check)
    on(ClientChanged, lambda event: engine.send(CLIENTS, client_key(event.client_id)))
    on(ClientDisconnect, on_disconnect)


def trace_pushes(engine: Engine, push: UdpPusher, grpc: GrpcFrontend | None) -> None:
    """Have peers told when their changes were applied here, and when subscribers were sent them."""
    receiver, now_s = engine.replication.receiver, engine.now_s
    receiver.applied.now_s = now_s

    def has_subscribers(key: DistroKey) -> bool:
        parsed = parse_datum_key(key.key) if key.resource_type == INSTANCE_LIST else None
        return parsed is not None and (push.has(*parsed) or (grpc is not None and grpc.has_subscribers(*parsed)))

    def on_pushed(namespace: str, service: str) -> None:
        receiver.applied.pushed(DistroKey(INSTANCE_LIST, datum_key(namespace, service)), now_s())

    receiver.applied.is_pushed = has_subscribers
    if not engine.reader.view.members.standalone:
        push.on_pushed = on_pushed
        if grpc is not None:
            grpc.trace_pushes(on_pushed)


def audit_events(domain: Domain, engine: Engine, audit: AuditTrail, access: AccessControl) -> None:
    """Have the audit trail told of durable records that are changed here, and of what the node does by itself."""

    def on_disconnect(event: ClientDisconnect) -> None:
        if event.native and audit.covers_instances:
            audit.write("client.disconnect", event.client_id, actor=NODE)

    def on_health(event: HealthChanged) -> None:
        if event.what == REMOVED and audit.covers_instances:
            audit.write("instance.expire", f"{event.key}/{event.instance}", actor=NODE)

    def on_login(what: str, name: str, ip: str) -> None:
        audit.on_access(what, "", Actor(ip, name))

    access.on_login = on_login
    domain.records.on_written = audit.on_record
    domain.notify.subscribe(ClientDisconnect, on_disconnect)
    domain.notify.subscribe(HealthChanged, on_health)
