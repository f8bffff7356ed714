"""Instances: register, deregister, update, patch, beat, detail, list. Each may be ephemeral or persistent."""

from functools import lru_cache
from typing import Any

from app.auth.access_rules import READ, WRITE, naming
from app.http.api.agents import parse_agent
from app.http.api.answers import durable_elsewhere, elsewhere, json_reply, owner_elsewhere
from app.http.api.audited import audit_instance, audit_replaced, replaced
from app.http.api.call import (
    BEAT_PATHS,
    CHANGE,
    CLOCK,
    DECLINE,
    JSON,
    OK,
    SHORT_CHANGE,
    WANTS_CHANGE,
    Answer,
    Call,
    Forward,
    Reply,
    Services,
    route,
)
from app.http.api.write_rate import count_write
from app.http.input.params import (
    DetailQuery,
    ListQuery,
    parse_beat,
    parse_deregister,
    parse_detail,
    parse_list,
    parse_patch,
    parse_register,
    parse_register_persistent,
)
from app.http.input.read_schemas import BeatRead, DeregisterRead, DetailRead, ListRead, PatchRead, RegisterRead
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import BEAT_REPLY, INSTANCE, INSTANCE_LIST
from app.http.v1.subscribers import subscribe
from app.limits.answer_budget import LARGE_ANSWER_BYTES
from app.naming.model.model import Instance
from app.naming.records.record_keys import persistent_key, service_meta_key
from app.naming.registry import operations
from app.naming.registry.operations import Beat, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.wire.service_info import HOST_BYTES, NO_ECHO, QUICK_HOSTS_MAX, Variant, echo_of, shown, unknown_service
from distro.model.types import CAPABILITY_WRITES

CODE_OK = 10_200
CODE_NOT_FOUND = 20_404
"""The client has to register again. Source of ``CODE_OK``, too: Nacos 1.4.1 NamingResponseCode."""
_VARIES = {"Vary": "Accept-Encoding"}
_ZIPPED = {"Content-Encoding": "gzip", **_VARIES}


@route(
    "POST", "/v1/ns/instance", "/v1/ns/api", access=naming(WRITE), hot=True, described=Described(takes=(RegisterRead,))
)
def register(call: Call, services: Services) -> Answer:
    """Register an instance, or replace it as a whole."""
    command = _registration(call, services)
    if not isinstance(command, RegisterInstance):
        return command
    if command.ephemeral:
        done = services.naming.register(command)
        if done is not None:
            audit_replaced(call, services, "register", command, done)
        return changed(call, services, command, OK, is_new=done is not None)
    if other := durable_elsewhere(call, services, *_keys_of(command)):
        return other
    services.durable.register(command)
    return OK


def _registration(call: Call, services: Services) -> RegisterInstance | Answer:
    """The registration that a call asks for; in its place the answer, where another member owns the service."""
    is_ephemeral = services.durable.switches.default_instance_ephemeral
    command = call.parse(parse_register if is_ephemeral else parse_register_persistent)
    return (elsewhere(call, services, command.service) if command.ephemeral else None) or command


def changed(
    call: Call,
    services: Services,
    command: RegisterInstance | DeregisterInstance | PatchInstance | Beat,
    reply: Reply,
    *,
    is_new: bool = True,
) -> Reply:
    """The reply to a write; a member that forwarded it also gets the instance, as the write left it, in a header.

    And the time of the answer beside it, from which the ages of the instance count; of a write that changed nothing
    there are none.
    """
    wanted = call.header(WANTS_CHANGE)
    if wanted is None:
        return reply
    key, short = operations.key_of(command), wanted == SHORT_CHANGE
    change = services.naming.change_of(command.namespace, command.service, key, is_new=is_new, short=short)
    if change is None:
        return reply
    headers = {CHANGE: change.decode()}
    if is_new:
        headers[CLOCK] = services.cluster.stamp()
    return Reply(reply.status, reply.body, reply.content_type, headers)


def _keys_of(command: RegisterInstance | Beat) -> tuple[str, ...]:
    """The durable records that the registration of a persistent instance writes."""
    return (
        service_meta_key(command.namespace, command.service),
        persistent_key(command.namespace, command.service, operations.key_of(command)),
    )


@route(
    "DELETE",
    "/v1/ns/instance",
    "/v1/ns/api",
    access=naming(WRITE),
    hot=True,
    described=Described(takes=(DeregisterRead,)),
)
def deregister(call: Call, services: Services) -> Answer:
    """Remove an instance of the call's kind; an unknown one is no error, and an instance of the other kind stays."""
    command = parse_deregister(call.parameters, services.durable.switches.default_instance_ephemeral)
    if command.ephemeral:
        if other := elsewhere(call, services, command.service):
            return other
        before = replaced(call, services, command)
        if is_new := services.naming.deregister(command):
            audit_instance(call, services, "remove", command, before)
        return changed(call, services, command, OK, is_new=is_new)
    key = persistent_key(command.namespace, command.service, operations.key_of(command))
    if other := durable_elsewhere(call, services, key):
        return other
    services.durable.deregister(command)
    return OK


@route(
    "PUT", "/v1/ns/instance", "/v1/ns/api", access=naming(WRITE), hot=True, described=Described(takes=(RegisterRead,))
)
def update(call: Call, services: Services) -> Answer:
    """Replace an instance. For Java SDKs since 1.0.0 it must exist; for other clients a missing one is registered."""
    return answer_update(call, services, parse_agent(call.client_agent).java_since_1_0)


def answer_update(call: Call, services: Services, strict: bool) -> Answer:
    """Replace an instance; an unknown one is refused if ``strict``, else registered."""
    command = _registration(call, services)
    if not isinstance(command, RegisterInstance):
        return command
    if command.ephemeral:
        if call.on_loop and strict and _is_large(services, command):
            return DECLINE  # all instances are looked through for one that is missing
        done = services.naming.update(command, strict)
        if done is not None:
            audit_replaced(call, services, "update", command, done)
        return changed(call, services, command, OK, is_new=done is not None)
    if other := durable_elsewhere(call, services, *_keys_of(command)):
        return other
    services.durable.update(command, strict)
    return OK


def _is_large(services: Services, asked: RegisterInstance | PatchInstance | DetailQuery) -> bool:
    return services.naming.instance_count(asked.namespace, asked.service) > QUICK_HOSTS_MAX


@route(
    "PATCH", "/v1/ns/instance", "/v1/ns/api", access=naming(WRITE), hot=True, described=Described(takes=(PatchRead,))
)
def patch(call: Call, services: Services) -> Answer:
    """Change single attributes of an instance, of the persistent one when there are both kinds."""
    command = call.parse(parse_patch)
    asked = (command.namespace, command.service, command.ip, command.port, command.cluster)
    found = services.naming.quick_detail(*asked)
    if found is None and call.on_loop and _is_large(services, command):
        return DECLINE
    found = found or services.naming.find(command.namespace, command.service, command.cluster, command.ip, command.port)
    if found is None or found.ephemeral:
        if other := elsewhere(call, services, command.service):
            return other
        if is_new := services.naming.patch(command):
            audit_instance(call, services, "update", command, found)
        return changed(call, services, command, OK, is_new=is_new)
    key = persistent_key(command.namespace, command.service, operations.key_of(command))
    if other := durable_elsewhere(call, services, key):
        return other
    services.durable.patch(command)
    return OK


@route(
    "PUT",
    *BEAT_PATHS,
    access=naming(WRITE),
    hot=True,
    described=Described(BEAT_REPLY, takes=(BeatRead,)),
)
def beat(call: Call, services: Services) -> Answer:
    """Take an instance's beat. Shape: clientBeatInterval, code, and unless the instance is unknown lightBeatEnabled."""
    return answer_beat(call, services, call.parse(parse_beat))


def answer_beat(call: Call, services: Services, command: Beat) -> Answer:
    """The answer to a beat that the caller has parsed; its shape is that of ``beat``."""
    switches = services.durable.switches
    if call.address is not None and command.full and not services.naming.is_listed(command):
        count_write(call)  # it registers the instance
    if not command.ephemeral and not _is_known(services, command):
        # As Nacos 1.4 does it: from here on the instance needs no beats.
        if other := durable_elsewhere(call, services, *_keys_of(command)):
            return other
        services.durable.register_from_beat(command)
    elif owner := owner_elsewhere(call, services, command.service):
        if not isinstance(owner, str):
            return owner
        interval_ms = _beat_of_copy(services, command, owner)
        if interval_ms is None:
            return Forward(command.service)
        return _beat_reply(interval_ms or switches.client_beat_interval, True, switches.light_beat_enabled)
    answer = services.naming.beat(command, switches.client_beat_interval)
    if answer.is_new:
        audit_instance(call, services, "beat", command, None)
    reply = _beat_reply(answer.interval_ms, answer.known, switches.light_beat_enabled)
    return changed(call, services, command, reply, is_new=answer.is_new) if command.full else reply


def _beat_of_copy(services: Services, command: Beat, owner: str) -> int | None:
    """Take a beat on the copy of a peer's instance; return the interval (ms, 0: the default), None without a copy."""
    if CAPABILITY_WRITES not in services.cluster.capabilities(owner):
        return None
    return services.naming.beat_of_copy(command, owner, services.beats.collect)


def _is_known(services: Services, command: Beat) -> bool:
    found = services.naming.find(command.namespace, command.service, command.cluster, command.ip, command.port)
    return found is not None


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
    described=Described(INSTANCE, takes=(DetailRead,), refusals=(404,)),
)
def detail(call: Call, services: Services) -> Answer:
    """One instance with its true health, which no threshold covers."""
    query = parse_detail(call.parameters)
    asked = (query.namespace, query.service, query.ip, query.port, query.cluster)
    instance = services.naming.quick_detail(*asked)
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
    described=Described(INSTANCE_LIST, takes=(ListRead,)),
)
def list_instances(call: Call, services: Services) -> Answer:
    """The instances of a service as clients balance over them; an unknown service has none."""
    return answer_list(call, services, call.parse(parse_list))


def answer_list(call: Call, services: Services, query: ListQuery) -> Answer:
    """The answer to a list query that the caller has parsed; its shape is that of ``list_instances``."""
    switches, agent = services.durable.switches, parse_agent(call.agent)
    pushed = subscribe(call, services, query, agent)
    cache_ms = switches.default_push_cache_millis if pushed else switches.default_cache_millis
    variant = Variant(query.clusters, query.healthy_only, query.is_check, agent.java_since_1_0, cache_ms)
    naming, now_ms = services.naming, services.wall_ms()
    answer = naming.quick_list_answer(query.namespace, query.service, variant)
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
