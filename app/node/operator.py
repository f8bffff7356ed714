"""Builds what answers an operator's questions about instances and the engine."""

from collections.abc import Mapping

from app.background.push_udp import UdpPusher
from app.naming.clients.client_model import ServiceKey
from app.naming.model.events import HealthChanged
from app.naming.model.keys import datum_key
from app.naming.model.model import Publication
from app.node.parts import Domain, Engine, Operator
from app.operator.drain_steps import DrainSteps
from app.operator.engine_page import EnginePage
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import InstanceFacts, PushWay
from app.operator.instance_history import InstanceHistory
from app.rpc.frontend import GrpcFrontend
from distro.model.ports import Clock

NOTED_MAX = 1_000
"""Instances of one publication whose end is noted one by one."""


def build_operator(
    domain: Domain, engine: Engine, clock: Clock, push: UdpPusher, grpc: GrpcFrontend | None
) -> Operator:
    """Make them, with the history that they read; the way to the peers is added later."""
    history = InstanceHistory()
    push_states: list[PushWay] = [("udp", push.states), *([("grpc", grpc.push_states)] if grpc else [])]

    def note(key: str, instance_key: str, what: str) -> None:
        history.note(key, instance_key, what, clock.monotonic_ms())

    def on_withdrawn(client_id: str, former: Mapping[ServiceKey, Publication], gone: bool) -> None:
        what = "is gone" if gone else "withdrew it"
        for key, publication in former.items():
            for instance_key in list(publication.instances)[:NOTED_MAX]:
                note(datum_key(*key), instance_key, f"its gRPC client {client_id} {what}")

    def on_health(event: HealthChanged) -> None:
        what = "removed, as no beat came" if event.what == "removed" else "made unhealthy, as no beat came"
        note(event.key, event.instance, what)

    domain.clients.on_withdrawn = on_withdrawn
    domain.naming.on_deregistered = lambda key, instance: note(key, instance, "deregistered by a call")
    domain.notify.subscribe(HealthChanged, on_health)
    cluster = engine.cluster
    return Operator(
        InstanceFacts(
            domain.registry,
            domain.clients,
            domain.records,
            lambda: engine.reader.view,
            engine.reader.pending_of,
            history,
            clock,
            cluster.self_address,
            lambda: cluster.state().value,
            push_states,
        ),
        InstanceDrains(clock),
        DrainSteps(
            domain.registry,
            domain.naming,
            domain.durable,
            domain.clients,
            cluster,
            cluster.responsible,
            clock,
            push_states,
        ),
        EnginePage(
            lambda: engine.reader.view, domain.writer, engine.components, engine.stats, clock, engine.runtime.workers
        ),
    )
