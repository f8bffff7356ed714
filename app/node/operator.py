"""Builds what answers an operator's questions about instances and the engine."""

from collections.abc import Mapping

from app.background.health_checks import Checker
from app.background.push_udp import UdpPusher
from app.naming.clients.client_model import ServiceKey
from app.naming.model.keys import datum_key
from app.naming.model.model import Publication
from app.node.parts import Domain, Engine, Operator
from app.operator.drain_steps import DrainSteps
from app.operator.engine_page import EnginePage
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import InstanceFacts, PushWay
from app.rpc.frontend import GrpcFrontend
from distro.model.ports import Clock

NOTED_MAX = 1_000
"""Instances of one publication whose end is noted one by one."""


def build_operator(
    domain: Domain, engine: Engine, clock: Clock, push: UdpPusher, grpc: GrpcFrontend | None, checker: Checker
) -> Operator:
    """Make them. They read what the checker and both ways of push know."""
    push_states: list[PushWay] = [("udp", push.states), *([("grpc", grpc.push_states)] if grpc else [])]

    def on_withdrawn(client_id: str, former: Mapping[ServiceKey, Publication], gone: bool) -> None:
        what = "is gone" if gone else "withdrew it"
        for key, publication in former.items():
            for instance_key in list(publication.instances)[:NOTED_MAX]:
                text = f"its gRPC client {client_id} {what}"
                domain.history.note(datum_key(*key), instance_key, text)

    domain.clients.on_withdrawn = on_withdrawn
    cluster = engine.cluster
    return Operator(
        InstanceFacts(
            domain.registry.table,
            domain.writer,
            domain.clients,
            domain.records,
            lambda: engine.reader.view,
            engine.reader.pending_of,
            domain.history,
            clock,
            cluster.self_address,
            lambda: cluster.state().value,
            push_states,
            checker.last,
        ),
        InstanceDrains(clock),
        DrainSteps(
            domain.registry.table,
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
