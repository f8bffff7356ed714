"""Instances: register, deregister, update, patch, beat, detail, list. Each may be ephemeral or persistent."""

from functools import lru_cache
from typing import Any

from app.auth.access_rules import READ, WRITE, naming
from app.commands.outcomes import DONE, Beaten
from app.http.api.agents import parse_agent
from app.http.api.answers import json_reply
from app.http.api.call import (
    DECLINE,
    JSON,
    V1_BEAT_PATHS,
    Answer,
    Call,
    Reply,
    Services,
    rendered,
    route,
)
from app.http.api.called_names import check_called_name
from app.http.input.instance_schemas import (
    BeatSchema,
    DeregisterSchema,
    DetailQuery,
    InstanceSchema,
    ListQuery,
    ListSchema,
    PatchSchema,
    RegisterSchema,
)
from app.http.input.params import (
    parse_beat,
    parse_deregister,
    parse_detail,
    parse_list,
    parse_patch,
    parse_register,
    parse_register_persistent,
)
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import BEAT_REPLY, INSTANCE, INSTANCE_LIST
from app.http.v1.subscribers import subscribe
from app.machine.limits.answer_budget import LARGE_ANSWER_BYTES
from app.naming.model.model import Instance
from app.naming.model.service_names import is_usual_name
from app.naming.registry.operations import Beat, RegisterInstance, UpdateInstance
from app.naming.wire.service_info import HOST_BYTES, NO_ECHO, QUICK_HOSTS_MAX, Variant, echo_of, shown, unknown_service

CODE_OK = 10_200
CODE_NOT_FOUND = 20_404
"""The client has to register again. Source of ``CODE_OK``, too: Nacos 1.4.1 NamingResponseCode."""
_VARIES = {"Vary": "Accept-Encoding"}
_ZIPPED = {"Content-Encoding": "gzip", **_VARIES}


@route(
    "POST",
    "/v1/ns/instance",
    "/v1/ns/api",
    access=naming(WRITE),
    hot=True,
    described=Described(takes=(RegisterSchema,)),
)
def register(call: Call, services: Services) -> Answer:
    """Register an instance, or replace it as a whole."""
    command = _registration(call, services)
    if not is_usual_name(command.service):
        check_called_name(call, services, command.namespace, command.service)
    return rendered(services.writes.execute(command, call))


def _registration(call: Call, services: Services) -> RegisterInstance:
    is_ephemeral = services.durable.projection.switches.default_instance_ephemeral
    return call.parse(parse_register if is_ephemeral else parse_register_persistent)


@route(
    "DELETE",
    "/v1/ns/instance",
    "/v1/ns/api",
    access=naming(WRITE),
    hot=True,
    described=Described(takes=(DeregisterSchema,)),
)
def deregister(call: Call, services: Services) -> Answer:
    """Remove an instance of the call's kind; an unknown one is ignored, and an instance of the other kind stays."""
    command = parse_deregister(call.parameters, services.durable.projection.switches.default_instance_ephemeral)
    if not is_usual_name(command.service):
        check_called_name(call, services, command.namespace, command.service)
    return rendered(services.writes.execute(command, call))


@route(
    "PUT", "/v1/ns/instance", "/v1/ns/api", access=naming(WRITE), hot=True, described=Described(takes=(RegisterSchema,))
)
def update(call: Call, services: Services) -> Answer:
    """Replace an instance. For Java SDKs since 1.0.0 it must exist; for other clients a missing one is registered.

    The weight, state and metadata of one that a connection publishes are kept apart from it.
    """
    command = _registration(call, services)
    if not is_usual_name(command.service):
        check_called_name(call, services, command.namespace, command.service)
    strict = parse_agent(call.client_agent).java_since_1_0
    return rendered(services.writes.execute(UpdateInstance(command, strict), call))


@route(
    "PATCH", "/v1/ns/instance", "/v1/ns/api", access=naming(WRITE), hot=True, described=Described(takes=(PatchSchema,))
)
def patch(call: Call, services: Services) -> Answer:
    """Change single attributes of an instance, of the persistent one when there are two.

    The attributes of one that a connection publishes are kept apart from it.
    """
    return rendered(services.writes.execute(call.parse(parse_patch), call))


@route(
    "PUT",
    *V1_BEAT_PATHS,
    access=naming(WRITE),
    hot=True,
    described=Described(BEAT_REPLY, takes=(BeatSchema,)),
)
def beat(call: Call, services: Services) -> Answer:
    """Take an instance's beat. Shape: clientBeatInterval, code, and unless the instance is unknown lightBeatEnabled."""
    return answer_beat(call, services, call.parse(parse_beat))


def answer_beat(call: Call, services: Services, command: Beat) -> Answer:
    """Return the answer to a beat that the caller has parsed; its shape is that of ``beat``."""
    if not is_usual_name(command.service):
        check_called_name(call, services, command.namespace, command.service)
    outcome = services.writes.execute(command, call)
    if type(outcome) is not Beaten:
        return rendered(outcome)
    interval_ms, known, light, done = outcome
    reply = _beat_reply(interval_ms, known, light)
    return reply if done is DONE else rendered(done, reply)


def _is_large(services: Services, asked: DetailQuery) -> bool:
    return services.naming.instance_count(asked.namespace, asked.service) > QUICK_HOSTS_MAX


@lru_cache(256)
def _beat_reply(interval_ms: int, known: bool, light: bool) -> Reply:
    if not known:
        return Reply(200, b'{"clientBeatInterval":%d,"code":%d}' % (interval_ms, CODE_NOT_FOUND), JSON)
    flag = b"true" if light else b"false"
    body = b'{"clientBeatInterval":%d,"code":%d,"lightBeatEnabled":%s}' % (interval_ms, CODE_OK, flag)
    return Reply(200, body, JSON)


@route(
    "GET",
    "/v1/ns/instance",
    "/v1/ns/api",
    access=naming(READ),
    hot=True,
    described=Described(INSTANCE, takes=(InstanceSchema,), refusals=(404,)),
)
def detail(call: Call, services: Services) -> Answer:
    """One instance with its true health, which no threshold covers."""
    query = parse_detail(call.parameters)
    asked = (query.namespace, query.service, query.ip, query.port, query.cluster)
    instance = services.naming.hot_detail(*asked)
    if instance is None:
        if call.on_loop and _is_large(services, query):
            return DECLINE
        instance = services.naming.detail(*asked)
    return json_reply({"service": query.service, **detail_fields(instance)})


def detail_fields(instance: Instance) -> dict[str, Any]:
    """The fields of one instance in the answers of v1 and v2, which put the name of its service first."""
    return {
        "ip": instance.ip,
        "port": instance.port,
        "clusterName": instance.cluster_name,
        "weight": instance.weight,
        "healthy": instance.healthy,
        "instanceId": instance.instance_id,
        "metadata": shown(instance.metadata),
    }


@route(
    "GET",
    "/v1/ns/instance/list",
    "/v1/ns/api/list",
    access=naming(READ),
    hot=True,
    described=Described(INSTANCE_LIST, takes=(ListSchema,)),
)
def list_instances(call: Call, services: Services) -> Answer:
    """The instances of a service as clients balance over them; it is empty for an unknown service."""
    return answer_list(call, services, call.parse(parse_list))


def answer_list(call: Call, services: Services, query: ListQuery) -> Answer:
    """The answer to a list query that the caller has parsed; its shape is that of ``list_instances``."""
    switches, agent = services.durable.switches, parse_agent(call.agent)
    pushed = subscribe(call, services, query, agent)
    cache_ms = switches.default_push_cache_millis if pushed else switches.default_cache_millis
    variant = Variant(query.clusters, query.healthy_only, query.is_check, agent.java_since_1_0, cache_ms)
    naming, now_ms = services.naming, services.wall_ms()
    answer = naming.hot_list_answer(query.namespace, query.service, variant)
    if answer is None:
        if call.on_loop and naming.service_view(query.namespace, query.service) is not None:
            return DECLINE
        services.answers.check(naming.instance_count(query.namespace, query.service) * HOST_BYTES)
        answer = naming.list_answer(query.namespace, query.service, variant)
        if answer is None:
            return Reply(200, unknown_service(query.service, variant), JSON)
    echo = echo_of(query.clusters, query.env) if query.clusters or query.env else NO_ECHO
    if not answer.is_long:
        return Reply(200, answer.plain(now_ms, echo), JSON)
    varies = answer.is_worth_gzip(echo)
    zips = varies and "gzip" in (call.header("accept-encoding") or "")
    if answer.size > LARGE_ANSWER_BYTES:
        services.answers.check(answer.zipped_size if zips else answer.size)
    if zips:
        return Reply(200, answer.zipped(now_ms, echo), JSON, _ZIPPED)
    if varies:
        return Reply(200, answer.plain(now_ms, echo), JSON, _VARIES)
    return Reply(200, answer.plain(now_ms, echo), JSON)
