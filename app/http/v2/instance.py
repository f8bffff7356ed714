"""Instances over HTTP v2: the operations of v1 with answers in the envelope."""

from app.auth.access_rules import READ, WRITE, naming
from app.commands.operator_changes import change_of_patch, change_of_update
from app.http.api.call import JSON, V2_BEAT_PATH, Answer, Call, Reply, Services, rendered
from app.http.api.called_names import check_called_name
from app.http.input.forms import SERVICE_NAME
from app.http.input.instance_schemas import (
    CLUSTER_NAME,
    ENABLED,
    METADATA,
    WEIGHT,
    BeatSchema,
    DeregisterSchema,
    DetailQuery,
    InstanceSchema,
    ListV2Schema,
    PatchV2Schema,
    RegisterSchema,
)
from app.http.input.params import check_numbers, parse_detail, parse_list, parse_patch, parse_register
from app.http.input.schemas import NeededServiceSchema
from app.http.shapes.described import BARE_OK, Described
from app.http.shapes.instance_shapes import BEAT_REPLY, UPDATED, V2_INSTANCE, V2_LIST
from app.http.v1 import instance, instance_batch
from app.http.v1.instance_batch import MetadataBatchSchema
from app.http.v2.envelope import (
    FORM_TEXT,
    QUERY_TEXT,
    RESULT_BEGIN,
    RESULT_END,
    ResultCode,
    ResultError,
    called_service,
    missing,
    require,
    result,
    result_route,
    shown_service,
    wrapped,
)
from app.machine.limits.answer_budget import AnswerRoom
from app.naming.clients.own_clients import check_legal
from app.naming.model.keys import check_service_format
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam, NotFound, ServiceMissing
from app.naming.wire.service_info import HOST_BYTES
from app.naming.wire.service_json import service_json

PATH = "/v2/ns/instance"
RESERVED = "preserved."
"""Begins the names of metadata that set the times of beats."""


def check_instance(call: Call, services: Services, text: str = FORM_TEXT) -> None:
    """Refuse a call that does not name an instance, or names a service that the API does not allow."""
    called_service(call, services, InstanceSchema, text=text)
    check_numbers(call.parameters)


def check_registered(call: Call, services: Services) -> None:
    """Refuse what a call would register: a name of a cluster with other characters, beats slower than their time-outs.

    Raises:
        ResultError: the instance cannot be as the call describes it.
        InvalidParam: the text names the parameter.
    """
    check_instance(call, services)
    if RESERVED in (call.parameters.get(METADATA.key) or "") or "_" in (call.parameters.get(CLUSTER_NAME.key) or ""):
        try:
            check_legal(call.parse(parse_register))
        except InvalidParam as error:
            raise ResultError(400, ResultCode.INSTANCE_ERROR, error.text) from None


@result_route("POST", PATH, access=naming(WRITE), described=Described(takes=(RegisterSchema,)))
def register(call: Call, services: Services) -> Answer:
    """Register an instance, or replace it as a whole."""
    check_registered(call, services)
    return wrapped(instance.register(call, services))


@result_route("DELETE", PATH, access=naming(WRITE), described=Described(takes=(DeregisterSchema,)))
def deregister(call: Call, services: Services) -> Answer:
    """Remove an instance; an unknown one is ignored."""
    check_instance(call, services)
    return wrapped(instance.deregister(call, services))


@result_route("PUT", PATH, access=naming(WRITE), described=Described(takes=(RegisterSchema,)))
def update(call: Call, services: Services) -> Answer:
    """Set weight, state and metadata apart from the registration of an instance; its client does not undo this.

    The service must exist, the instance may come later. Source: Nacos 2.3.1 InstanceOperatorClientImpl.
    """
    return answer_update(call, services)


def answer_update(call: Call, services: Services) -> Answer:
    """Return the answer to a PUT of an instance.

    Raises:
        NacosError: as ``check_registered``, or there is no such service; with the text of Nacos.
    """
    check_registered(call, services)
    command = call.parse(parse_register)
    try:
        return wrapped(rendered(services.writes.execute(change_of_update(command), call)))
    except ServiceMissing:
        named = shown_service(command.namespace, command.service, ephemeral=command.ephemeral)
        raise ServiceMissing(f"service not found, namespace: {command.namespace}, service: {named}") from None


@result_route(
    "PATCH", PATH, access=naming(WRITE), described=Described(BARE_OK, takes=(PatchV2Schema,), in_envelope=False)
)
def patch(call: Call, services: Services) -> Answer:
    """Set weight, enabled and metadata apart from the registration of an instance; the answer is the bare ``ok`` of v1,
    as in Nacos 2.

    The name of the service has its group, as Nacos 2 looks for no other.
    """
    check_instance(call, services, QUERY_TEXT)
    for name in (WEIGHT.key, ENABLED.key, METADATA.key):
        value = call.parameters.get(name)
        if value is None or (name != METADATA.key and not value.strip()):
            raise missing(PatchV2Schema, name, value, QUERY_TEXT)
    check_service_format(call.parameters.required(SERVICE_NAME))
    return rendered(services.writes.execute(change_of_patch(call.parse(parse_patch)), call))


@result_route(
    "PUT",
    V2_BEAT_PATH,
    access=naming(WRITE),
    hot=True,
    described=Described(BEAT_REPLY, takes=(BeatSchema,), in_envelope=False),
)
def beat(call: Call, services: Services) -> Answer:
    """Take an instance's beat. The answer is that of v1, as in Nacos 2."""
    require(call, NeededServiceSchema, text=QUERY_TEXT)
    return instance.beat(call, services)


@result_route(
    "GET", PATH, access=naming(READ), described=Described(V2_INSTANCE, takes=(InstanceSchema,), refusals=(404,))
)
def detail(call: Call, services: Services) -> Answer:
    """One instance with its true health."""
    query, found = called_instance(call, services, QUERY_TEXT)
    return result({"serviceName": query.service, **instance.detail_fields(found)})


def called_instance(call: Call, services: Services, text: str = FORM_TEXT) -> tuple[DetailQuery, Instance]:
    """Return the query of a call about one instance, and the instance; ``text``: as of ``require``.

    Raises:
        NacosError: as ``check_instance``, or there is no such instance. Source: Nacos 2.3.1 and 3.0.3, observed.
    """
    check_instance(call, services, text)
    query = parse_detail(call.parameters)
    view = services.naming.service_view(query.namespace, query.service)
    if view is None or not view.instances:
        raise NotFound(f"no ips found for cluster {query.cluster} in service {query.service}")
    for one in view.instances:
        if (one.ip, one.port, one.cluster_name) == (query.ip, query.port, query.cluster):
            return query, one
    raise NotFound("no matched ip found!")


@result_route("GET", f"{PATH}/list", access=naming(READ), described=Described(V2_LIST, takes=(ListV2Schema,)))
def list_instances(call: Call, services: Services) -> Answer:
    """The instances of a service as clients balance over them; it is empty for an unknown service."""
    require(call, ListV2Schema, text=QUERY_TEXT)
    query = parse_list(call.parameters)
    check_called_name(call, services, query.namespace, query.service)
    clusters = call.parameters.optional(CLUSTER_NAME.key) or query.clusters
    view = services.naming.service_view(query.namespace, query.service)
    cache_ms = services.durable.switches.default_push_cache_millis
    asked = (query.service, view, clusters, query.healthy_only, cache_ms, services.wall_ms())
    # The texts of the instances, and all of them together.
    with AnswerRoom(services.answers, 2 * HOST_BYTES * len(view.instances) if view is not None else 0):
        return Reply(200, service_json(*asked, RESULT_BEGIN, RESULT_END), JSON)


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
