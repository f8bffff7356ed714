"""Operators' calls about this node: status and counters, members, the member responsible for a service, its log."""

import logging
from typing import Any

import app
import distro
from app.auth.access_rules import LOGGED_IN, MEMBERS, READ, WRITE, admin, naming
from app.http.api.answers import json_reply, rest_refusal, rest_reply, server_status, text_reply
from app.http.api.call import OK, Answer, Call, Services, route
from app.http.input import json_text
from app.http.input.fields import PRESENT, Flag, Text
from app.http.input.schemas import CallSchema, ServiceSchema, load, load_parameters
from app.http.shapes.described import Described, text_of
from app.http.shapes.operator_shapes import (
    DISTRO_STATUS,
    EMPTY_RESULT,
    ENGINE,
    FACTS_RESULT,
    LOG_BODY,
    METRICS,
    RAFT_STATE,
    SERVERS,
)
from app.http.shapes.service_shapes import RESPONSIBLE
from app.naming.model.nacos_errors import InvalidParam
from app.ports.http_ports import Cluster
from distro.model.types import Member, MemberState

STATUS_LINE, STATUS_PARTS_MIN = "\r\n", 4
LOGGERS = {
    "naming-main": app.__name__,
    "naming-distro": distro.__name__,
    "naming-push": f"{app.__name__}.background.push_udp",
    "naming-check": f"{app.__name__}.background.health_checks",
    "core-cluster": f"{app.__name__}.members.member_lookup",
}
"""Our loggers by Nacos's name. Nacos's other names have no logger here: setting their level changes nothing."""
ACCESS_LOG = "http-access"
"""The name of the access log here; Nacos does not have it."""
LEVELS = {
    "ALL": logging.DEBUG,
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "OFF": logging.CRITICAL,
}


class ServersSchema(CallSchema):
    healthy = Flag("healthy", "Only members that are UP.", False)


class DistroStatusSchema(CallSchema):
    action = Text("action", "`view`; the answer to any other is an empty object.", "view")


class ServerStatusSchema(CallSchema):
    status = Text("serverStatus", "The report, in lines `site#ip:port#ms#weight`.", needs=PRESENT)


class LogLevelSchema(CallSchema):
    """PUT ``/operator/log``, and the body of PUT ``/core/ops/log``."""

    name = Text("logName", "The log; an unknown one changes nothing.", needs=PRESENT)
    level = Text("logLevel", "`ALL`, `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERROR` or `OFF`.", needs=PRESENT)


def _paths(path: str) -> tuple[str, str]:
    return f"/v1/ns/operator/{path}", f"/v1/ns/ops/{path}"


@route("GET", *_paths("metrics"), access=LOGGED_IN, described=Described(METRICS))
def metrics(call: Call, services: Services) -> Answer:
    """Status and counts. To Java SDKs a server whose ``status`` is not UP is down."""
    counts = services.naming.counts(services.cluster.responsible)
    return json_reply(
        {
            "status": server_status(services),
            "serviceCount": counts.services,
            "instanceCount": counts.instances,
            "raftNotifyTaskCount": 0,
            "responsibleServiceCount": counts.responsible_services,
            "responsibleInstanceCount": counts.responsible_instances,
            "emptyServiceCount": counts.empty_services,
            **services.counters(),
        }
    )


@route("GET", *_paths("servers"), access=LOGGED_IN, described=Described(SERVERS, takes=(ServersSchema,)))
def servers(call: Call, services: Services) -> Answer:
    """All members as this node sees them, or only those that are UP."""
    only_up = load_parameters(ServersSchema, call.parameters)["healthy"]
    members = [one for one in services.cluster.members() if not only_up or one.state is MemberState.UP]
    return json_reply({"servers": [_with_absence(services.cluster, one) for one in members]})


def _with_absence(cluster: Cluster, member: Member) -> dict[str, Any]:
    """Return a member in its wire form; ``extendInfo`` says of one that is out by plan that it was drained or left."""
    shown = cluster.member_json(member)
    if absence := cluster.planned(member):
        shown["extendInfo"] = {**shown["extendInfo"], "plannedAbsence": absence}
    return shown


@route("GET", *_paths("distro/server"), access=naming(READ), described=Described(RESPONSIBLE, takes=(ServiceSchema,)))
def responsible_server(call: Call, services: Services) -> Answer:
    """The member responsible for a service. Shape: responsibleServer."""
    values = load_parameters(ServiceSchema, call.parameters)
    if services.naming.service_view(values["namespace"], values["service"]) is None:
        raise InvalidParam("service not found")
    return json_reply({"responsibleServer": services.cluster.map_srv(values["service"])})


@route(
    "GET", *_paths("distro/status"), access=admin(READ), described=Described(DISTRO_STATUS, takes=(DistroStatusSchema,))
)
def distro_status(call: Call, services: Services) -> Answer:
    """All members. Shape: status; an empty object for any action but ``view``."""
    if load_parameters(DistroStatusSchema, call.parameters)["action"] != "view":
        return json_reply({})
    return json_reply({"status": [services.cluster.member_json(one) for one in services.cluster.members()]})


@route("GET", *_paths("distro"), access=admin(READ).or_members(), described=Described(ENGINE))
def engine(call: Call, services: Services) -> Answer:
    """The state of replication here: threads, each peer's missing changes, queues, rounds.

    Shape: docs/operations/inspect.md.
    """
    return json_reply(services.engine_facts() | {"contents": services.content_checks.facts()})


@route("GET", *_paths("server/status"), access=MEMBERS, described=Described(takes=(ServerStatusSchema,)))
def receive_server_status(call: Call, services: Services) -> Answer:
    """Take the report of a member before 1.3, without effect: the member list is configured.

    Shape: lines ``site#ip:port#ms#weight``. Source: Nacos 1.4.1 ServerListManager.onReceiveServerStatus.
    """
    text = load_parameters(ServerStatusSchema, call.parameters)["status"]
    known = {one.address for one in services.cluster.members()}
    for line in text.split(STATUS_LINE):
        parts = line.split("#")
        if len(parts) >= STATUS_PARTS_MIN and parts[1] not in known:
            raise InvalidParam(f"server: {parts[1]} is not in serverlist")
    return OK


@route("GET", *_paths("cluster/state"), access=admin(READ).or_members(), described=Described(RAFT_STATE))
def cluster_state(call: Call, services: Services) -> Answer:
    """The state of Raft at this member. There is no Raft here: each member is a follower without a leader."""
    state: dict[str, Any] = {"ip": services.cluster.self_address, "term": -1, "leaderDueMs": 0, "heartbeatDueMs": 0}
    return json_reply({**state, "state": "FOLLOWER"})


@route("PUT", *_paths("log"), access=admin(WRITE), described=Described(takes=(LogLevelSchema,)))
def set_log_level(call: Call, services: Services) -> Answer:
    """Set the level of one of this node's logs, until its restart; an unknown log changes nothing."""
    values = load_parameters(LogLevelSchema, call.parameters)
    set_level(services, values["name"], values["level"])
    return OK


def set_level(services: Services, name: str, level: str) -> None:
    """Set the level of the logger for one of Nacos's names; an unknown name changes nothing.

    The access log, which has no levels, is on unless the level is ``OFF``. The audit log has no name here: no call
    silences it.

    Raises:
        InvalidParam: there is no such level.
    """
    if level.upper() not in LEVELS:
        raise InvalidParam(f"Parameter 'logLevel' is illegal: it should be one of {', '.join(LEVELS)}")
    if name == ACCESS_LOG:
        services.instruments.access_log.on = LEVELS[level.upper()] < logging.CRITICAL
    if ours := LOGGERS.get(name):
        logging.getLogger(ours).setLevel(LEVELS[level.upper()])


@route("PUT", "/v1/core/ops/log", access=admin(WRITE), described=Described(text_of("200"), body=LOG_BODY))
def set_core_log_level(call: Call, services: Services) -> Answer:
    """Set the level of one of this node's logs, from a JSON body; an unknown log changes nothing.

    Shape: the status as text.
    """
    body = json_text.loads_body(call.body)
    values = load(LogLevelSchema, body if isinstance(body, dict) else {})
    set_level(services, values["name"], values["level"])
    return text_reply(200, "200")


@route("GET", "/v1/core/ops/idInfo", access=admin(READ), described=Described(FACTS_RESULT))
def id_info(call: Call, services: Services) -> Answer:
    """The id generators in use: none."""
    return rest_reply({})


@route("POST", "/v1/core/ops/raft", access=MEMBERS, described=Described(EMPTY_RESULT))
def raft_operation(call: Call, services: Services) -> Answer:
    """Refuse a command to Raft, which is not here. For members only."""
    return rest_refusal(500, "there is no Raft here: members replicate with Distro")
