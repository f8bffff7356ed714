"""Builds what answers an operator's questions about instances and the engine."""

from app.background.health_checks import Checker
from app.background.push_udp import UdpPusher
from app.node.node_parts import Domain, Engine, Operator
from app.operator.drain_steps import DrainSteps
from app.operator.engine_page import EnginePage
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import InstanceFacts, PushWay
from app.rpc.frontend import GrpcFrontend
from distro.model.ports import Clock


def build_operator(
    domain: Domain, engine: Engine, clock: Clock, push: UdpPusher, grpc: GrpcFrontend | None, checker: Checker
) -> Operator:
    """Make them. They read what the checker and both ways of push know."""
    push_states: list[PushWay] = [("udp", push.states), *([("grpc", grpc.push_states)] if grpc else [])]
    cluster = engine.cluster
    return Operator(
        InstanceFacts(
            domain.registry.table,
            domain.writer,
            domain.clients.table,
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
            domain.clients.table,
            domain.clients.own,
            cluster,
            cluster.responsible,
            clock,
            push_states,
        ),
        EnginePage(
            lambda: engine.reader.view, domain.writer, engine.components, engine.stats, clock, engine.runtime.workers
        ),
    )
