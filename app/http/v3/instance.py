"""Instances for operators, over HTTP v3: register, change, deregister, find, list."""

from app.auth.access_rules import READ, WRITE, naming
from app.commands.operator_changes import change_of_patch
from app.commands.outcomes import Remained
from app.commands.record_commands import ChangeInstances
from app.http.api.call import Answer, Call, Services, rendered
from app.http.input.fields import StrictFlag
from app.http.input.instance_schemas import (
    DeregisterSchema,
    InstanceSchema,
    PartialBatchSchema,
    PatchSchema,
    RegisterSchema,
)
from app.http.input.params import parse_patch
from app.http.input.schemas import CallSchema, NeededServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import REMAINED, UPDATED
from app.http.shapes.v3_shapes import V3_INSTANCE, V3_INSTANCE_PAGE, V3_INSTANCES
from app.http.v1 import instance, instance_batch
from app.http.v1.instance_batch import MetadataBatchSchema
from app.http.v2.envelope import called_service, result, result_route, wrapped
from app.http.v2.instance import answer_update, called_instance, check_instance, check_registered
from app.http.v3.client_instance import ClusterSchema
from app.http.v3.earlier_owners import INSTANCE, passed_on
from app.http.v3.forms import (
    ADMIN,
    CONSOLE,
    PageSchema,
    found_service,
    page_result,
    part_of,
    server_error,
)
from app.machine.limits.answer_budget import AnswerRoom
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam
from app.naming.wire.service_info import HOST_BYTES
from app.naming.wire.service_json import instance_json

PATH, CONSOLE_PATH = f"{ADMIN}/instance", f"{CONSOLE}/instance"


class HealthyOnlySchema(CallSchema):
    """GET ``/v3/admin/ns/instance/list``, without the service and the cluster."""

    healthy_only = StrictFlag("healthyOnly", "Only healthy instances.", False)


@result_route("POST", PATH, access=naming(WRITE), described=Described(takes=(RegisterSchema,)))
def register(call: Call, services: Services) -> Answer:
    """Register an instance, or replace it as a whole."""
    check_registered(call, services)
    return passed_on(call, services, lambda: wrapped(instance.register(call, services)), "POST", INSTANCE)


@result_route("DELETE", PATH, access=naming(WRITE), described=Described(takes=(DeregisterSchema,)))
def deregister(call: Call, services: Services) -> Answer:
    """Remove an instance; an unknown one is ignored."""
    check_instance(call, services)
    return passed_on(call, services, lambda: wrapped(instance.deregister(call, services)), "DELETE", INSTANCE)


@result_route(
    "PUT",
    PATH,
    CONSOLE_PATH,
    access=naming(WRITE),
    at_root=(CONSOLE_PATH,),
    described=Described(takes=(RegisterSchema,)),
)
def update(call: Call, services: Services) -> Answer:
    """Set weight, metadata and state apart from the registration of an instance. An unknown instance is ignored, an
    unknown service refused.
    """
    return answer_update(call, services)


@result_route(
    "PUT", f"{PATH}/partial", access=naming(WRITE), described=Described(takes=(PatchSchema,), refusals=(404,))
)
def update_partially(call: Call, services: Services) -> Answer:
    """Set the attributes that the call names, apart from the registration of an instance; registered metadata keys
    stay.

    Source: the published page of Nacos 3; the code of 3.0.3 sets weight and state that the call does not name.
    """
    check_instance(call, services)
    return wrapped(rendered(services.writes.execute(change_of_patch(call.parse(parse_patch)), call)))


@result_route(
    "PUT",
    f"{PATH}/partial/batch",
    access=naming(WRITE),
    described=Described(REMAINED, takes=(PartialBatchSchema,), refusals=(404, 409)),
)
def update_many_partially(call: Call, services: Services) -> Answer:
    """Set attributes beside several instances in one step, all or none; other metadata keys stay.

    With ``ifEnoughRemain`` the owner refuses with 409 what would leave no healthy instance in service, or not more than
    the protect threshold. Shape of data: total, serving, remaining, threshold. Ours.
    """
    called_service(call, services, PartialBatchSchema)
    asked = load_parameters(PartialBatchSchema, call.parameters)
    if not asked.keys() & {"weight", "enabled", "metadata"}:
        raise InvalidParam("there is nothing to change: name 'weight', 'enabled' or 'metadata'")
    names = instance_batch.parse_instances(asked.pop("instances"))
    if not names:
        raise InvalidParam("Param 'instances' is illegal, it should be a JSON array of instances")
    outcome = services.writes.execute(ChangeInstances(names=names, **asked), call)
    if not isinstance(outcome, Remained):
        return rendered(outcome)
    counts = outcome.counts
    return result(
        {
            "total": counts.total,
            "serving": counts.serving,
            "remaining": counts.remaining,
            "threshold": counts.threshold,
        }
    )


@result_route(
    "GET",
    PATH,
    access=naming(WRITE).of_read(),
    described=Described(V3_INSTANCE, takes=(InstanceSchema,), refusals=(404,)),
)
def detail(call: Call, services: Services) -> Answer:
    """One instance with its true health. The caller needs the right to change it, as in Nacos 3."""
    _, found = called_instance(call, services)
    return result(instance_json(found, healthy=found.healthy))


@result_route(
    "GET",
    f"{PATH}/list",
    access=naming(READ),
    described=Described(V3_INSTANCES, takes=(NeededServiceSchema, ClusterSchema, HealthyOnlySchema), refusals=(404,)),
)
def list_instances(call: Call, services: Services) -> Answer:
    """The instances of a service, enabled or not, with their true health. Shape of data: an array of instances."""
    healthy_only = load_parameters(HealthyOnlySchema, call.parameters)["healthy_only"]
    found = [one for one in _asked_for(call, services) if one.healthy or not healthy_only]
    with AnswerRoom(services.answers, 2 * HOST_BYTES * len(found)):
        return result([instance_json(one, healthy=one.healthy) for one in found])


@result_route(
    "GET",
    f"{CONSOLE_PATH}/list",
    access=naming(READ),
    at_root=(f"{CONSOLE_PATH}/list",),
    described=Described(V3_INSTANCE_PAGE, takes=(NeededServiceSchema, ClusterSchema, PageSchema), refusals=(404,)),
)
def page_of_instances(call: Call, services: Services) -> Answer:
    """A page of the instances of a service, enabled or not, with their true health."""
    asked = load_parameters(PageSchema, call.parameters)
    found = _asked_for(call, services)
    return page_result(len(found), asked, [instance_json(one, healthy=one.healthy) for one in part_of(found, asked)])


def _asked_for(call: Call, services: Services) -> list[Instance]:
    """Return the instances of the service, and of the cluster if the call names one.

    Raises:
        ResultError: there is no such service or cluster.
    """
    cluster = load_parameters(ClusterSchema, call.parameters)["cluster"]
    view = found_service(call, services)
    if view is None:
        name = load_parameters(NeededServiceSchema, call.parameters)["service"]
        raise server_error(404, f"service {name} is not found!")
    if cluster and cluster not in view.clusters:
        raise server_error(404, f"cluster {cluster} is not found!")
    return [one for one in view.instances if not cluster or one.cluster_name == cluster]


@result_route(
    "PUT", f"{PATH}/metadata/batch", access=naming(WRITE), described=Described(UPDATED, takes=(MetadataBatchSchema,))
)
def put_metadata(call: Call, services: Services) -> Answer:
    """Set metadata keys beside instances: those named, else all of the kind or service. Shape of data: updated."""
    called_service(call, services, MetadataBatchSchema)
    return wrapped(instance_batch.answer_batch(call, services, removes=False, beside=True))


@result_route(
    "DELETE", f"{PATH}/metadata/batch", access=naming(WRITE), described=Described(UPDATED, takes=(MetadataBatchSchema,))
)
def remove_metadata(call: Call, services: Services) -> Answer:
    """Take out metadata keys that operators set; registered ones stay. Shape of data: updated."""
    called_service(call, services, MetadataBatchSchema)
    return wrapped(instance_batch.answer_batch(call, services, removes=True, beside=True))
