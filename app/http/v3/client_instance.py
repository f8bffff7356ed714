"""Instances for clients without an SDK, over HTTP v3: register, beat, deregister, list.

A beat is a registration with ``heartBeat=true``. It never registers: an unknown instance gets the code 21003.
"""

from app.auth.access_rules import READ, WRITE, naming
from app.commands.outcomes import Beaten
from app.http.api.call import DECLINE, JSON, V3_CLIENT_INSTANCE, Answer, Call, Reply, Services, rendered
from app.http.input.fields import StrictFlag, Trimmed
from app.http.input.forms import Parameters, namespace_of, service_of
from app.http.input.instance_schemas import CLUSTER_NAME, IP, PORT, DeregisterSchema, RegisterSchema
from app.http.input.schemas import CallSchema, NeededServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.v3_shapes import BEATEN, V3_INSTANCES
from app.http.v1 import instance
from app.http.v2.envelope import RESULT_BEGIN, RESULT_END, result, result_route, wrapped
from app.http.v2.instance import check_instance, check_registered
from app.http.v3.earlier_owners import BEAT, INSTANCE, UNKNOWN_INSTANCE, passed_on
from app.http.v3.forms import found_service
from app.machine.limits.answer_budget import AnswerRoom
from app.naming.registry.operations import Beat
from app.naming.wire.service_info import HOST_BYTES, joined
from app.naming.wire.service_json import hosts_json

HEART_BEAT = StrictFlag("heartBeat", "A beat of a registered instance, and not a registration.", False)
_OK = result("ok")


class BeatOrRegisterSchema(CallSchema):
    """POST ``/v3/client/ns/instance``, without the instance."""

    beat = HEART_BEAT


class ClusterSchema(CallSchema):
    """Lists of a service's instances."""

    cluster = Trimmed("clusterName", "The cluster within the service; all clusters without it.", "")


class ClientListSchema(ClusterSchema):
    """GET ``/v3/client/ns/instance/list``; as in Nacos 3.0.3, it has all instances, for any value of the flag."""

    healthy_only = StrictFlag("healthyOnly", "It changes nothing: clients see the health of each instance.", False)


@result_route(
    "POST",
    V3_CLIENT_INSTANCE,
    access=naming(WRITE),
    hot=True,
    described=Described(BEATEN, takes=(RegisterSchema, BeatOrRegisterSchema)),
)
def register(call: Call, services: Services) -> Answer:
    """Register an instance, or replace it as a whole; with ``heartBeat=true`` take its beat.

    The beat of an unknown instance is answered with code 21003, under status 200: the client has to register it.
    """
    check_registered(call, services)
    if call.parameters.value(HEART_BEAT):
        return passed_on(call, services, lambda: _beat(call, services), "PUT", BEAT)
    call.count_write()  # here, because the row is one of beats, which no limit counts
    answer = passed_on(call, services, lambda: wrapped(instance.register(call, services)), "POST", INSTANCE)
    if answer is DECLINE and call.address is not None:
        call.address.give_back()  # the thread that answers the call counts it
    return answer


def _beat(call: Call, services: Services) -> Answer:
    outcome = services.writes.execute(call.parse(parse_light_beat), call)
    if type(outcome) is Beaten:
        return _OK if outcome.known else UNKNOWN_INSTANCE
    return rendered(outcome)


def parse_light_beat(parameters: Parameters) -> Beat:
    """Return the command of a beat, which does not describe the instance.

    Raises:
        InvalidParam: the text names the parameter.
    """
    return Beat(
        service=service_of(parameters),
        ip=parameters.required(IP.key),
        port=PORT.read(parameters.required(PORT.key)),
        namespace=namespace_of(parameters),
        cluster=parameters.value(CLUSTER_NAME),
    )


@result_route(
    "DELETE", V3_CLIENT_INSTANCE, access=naming(WRITE), hot=True, described=Described(takes=(DeregisterSchema,))
)
def deregister(call: Call, services: Services) -> Answer:
    """Remove an instance; an unknown one is ignored."""
    check_instance(call, services)
    return passed_on(call, services, lambda: wrapped(instance.deregister(call, services)), "DELETE", INSTANCE)


@result_route(
    "GET",
    f"{V3_CLIENT_INSTANCE}/list",
    access=naming(READ),
    described=Described(V3_INSTANCES, takes=(NeededServiceSchema, ClientListSchema)),
)
def list_instances(call: Call, services: Services) -> Answer:
    """The instances of a service that are enabled, healthy or not; it is empty for an unknown service.

    Shape of data: an array of instances.
    """
    view, clusters = found_service(call, services), load_parameters(ClientListSchema, call.parameters)["cluster"]
    # The texts of the instances, and all of them together.
    with AnswerRoom(services.answers, 2 * HOST_BYTES * len(view.instances) if view is not None else 0):
        hosts, _ = hosts_json(view, clusters, healthy_only=False)
        return Reply(200, joined(RESULT_BEGIN + b"[", hosts, b"]" + RESULT_END), JSON)
