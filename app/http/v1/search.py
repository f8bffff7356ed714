"""A page of the instances, of all namespaces or of one service, that have an address, metadata or a state."""

import math
import socket
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from marshmallow import validate

from app.auth.access_rules import LOGGED_IN
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.api.user_access import may_read
from app.http.input.fields import Trimmed
from app.http.input.schemas import (
    CLUSTER_NAME_TEXT,
    DESCENDING,
    PAGE_NO,
    SERVICE_NAME_TEXT,
    CallSchema,
    load_parameters,
    one_of,
    order_by,
    page_size,
)
from app.http.shapes.described import Described
from app.http.shapes.search_shapes import FOUND_INSTANCES
from app.http.v1.beats import beats_of
from app.machine.limits.answer_budget import AnswerRoom
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.union import is_unhealthy
from app.naming.wire.service_info import HOST_BYTES, shown
from app.operator.instance_search import InstanceState, Part, SearchRequest, Source, source_of
from distro.timing.sliced import in_order

PATH = "/v1/ns/instance/search"
TEXT_CHARS_MAX = 256
PAGE_SIZE, PAGE_SIZE_MAX = 20, 1_000


class Hit(NamedTuple):
    """One found instance."""

    namespace: str
    service: str
    instance: Instance


Key = Callable[[Hit], Any]


def ip_key(ip: str) -> tuple[int, Any]:
    """Return the key that sorts IPv4 addresses as numbers, before all others."""
    try:
        return 0, socket.inet_pton(socket.AF_INET, ip)
    except (OSError, ValueError):
        return 1, ip


def _address(hit: Hit) -> Any:
    return ip_key(hit.instance.ip), hit.instance.port, hit.instance.cluster_name


def _metadata(hit: Hit) -> list[tuple[str, str]]:
    return sorted((key, value or "") for key, value in (hit.instance.metadata or {}).items())


BY_SERVICE = "service"
ORDERS: dict[str, Key | None] = {
    BY_SERVICE: attrgetter("service"),
    "address": _address,
    "namespace": lambda hit: hit.namespace,
    "cluster": lambda hit: hit.instance.cluster_name,
    "health": lambda hit: hit.instance.healthy,
    "enabled": lambda hit: hit.instance.enabled,
    "weight": lambda hit: hit.instance.weight,
    "source": None,
    "metadata": _metadata,
    "beat": None,
}
"""The columns that can sort a page; None: by values outside the instance."""


class InstanceSearchSchema(CallSchema):
    text = Trimmed(
        "text",
        "An address `ip`, `ip:port` or `[v6]:port`, metadata as `key=value`, or a text: a port, the beginning of an "
        "address, or a part of a key or value of the metadata, in any case.",
        "",
        example="10.0.0.1",
        validate=validate.Length(max=TEXT_CHARS_MAX, error=f"it should have at most {TEXT_CHARS_MAX} characters"),
    )
    state = Trimmed(
        "state",
        "Only instances in this state: `healthy`, `unhealthy` (in service, but unhealthy) or `disabled`.",
        None,
        validate=one_of(InstanceState),
    )
    source = Trimmed(
        "source",
        "Only instances that came this way: `HTTP`, `gRPC` or `persistent`.",
        None,
        validate=one_of(Source),
    )
    namespace = Trimmed("namespaceId", "The id of the only namespace to look in; all without it.", "")
    service = Trimmed("serviceName", f"{SERVICE_NAME_TEXT} Only its instances, in `public` without a namespace.", "")
    cluster = Trimmed("clusterName", CLUSTER_NAME_TEXT, "")
    order, descending = order_by(ORDERS, BY_SERVICE), DESCENDING
    page, size = PAGE_NO, page_size(PAGE_SIZE, PAGE_SIZE_MAX)


@route(
    "GET",
    PATH,
    access=LOGGED_IN,
    described=Described(FOUND_INSTANCES, takes=(InstanceSearchSchema,), refusals=(429,)),
)
def search_instances(call: Call, services: Services) -> Answer:
    """A page of the instances that fulfil all given conditions, and of the services whose names contain the text.

    Only services that the caller may read. Nacos has no such call. Shape: count, complete, instances, serviceCount,
    services; ``complete`` is false where a search ended with 10,000 instances.
    """
    values = load_parameters(InstanceSearchSchema, call.parameters)
    if not (values["text"] or values["state"] or values["service"]):
        raise InvalidParam("Param 'text' is required, or 'state', or 'serviceName'.")
    asked = SearchRequest(
        values["text"],
        InstanceState(values["state"]) if values["state"] else None,
        Source(values["source"]) if values["source"] else None,
        values["namespace"] or (DEFAULT_NAMESPACE if values["service"] else ""),
        values["service"],
        values["cluster"],
    )
    found = services.searches.run(services.naming, asked, may_read(call, services))
    first = (values["page"] - 1) * values["size"]
    span = first, first + values["size"]
    if values["order"] == BY_SERVICE and not values["descending"]:
        page = _by_service(found.found, *span)
    else:
        key = _key_of(services, asked, values["order"])
        page = in_order(_by_address(found.found), *span, key=key, descending=values["descending"])
    with AnswerRoom(services.answers, 2 * HOST_BYTES * len(page)):
        return json_reply(
            {
                "count": found.count,
                "complete": found.complete,
                "instances": [_row(services, hit) for hit in page],
                "serviceCount": found.service_count,
                "services": [_service(view) for view in found.services],
            }
        )


def _key_of(services: Services, asked: SearchRequest, order: str) -> Key:
    """Return the key of a column. The age of the last beat is that at the owner; unknown ones count as the oldest.

    Raises:
        InvalidParam: beats of many services would have to be asked for.
    """
    if order == "source":
        return lambda hit: _source(services, hit)
    if order != "beat":
        key = ORDERS[order]
        assert key is not None, "only these two are not in the instance"
        return key
    if not asked.service:
        raise InvalidParam("Parameter 'orderBy' is illegal: 'beat' needs a 'serviceName'")
    ages: dict[str, Any] = {}
    for one in beats_of(services, asked.namespace, asked.service)["beats"]:
        if isinstance(one, dict):
            ages[f"{one.get('ip')}#{one.get('port')}#{one.get('clusterName')}"] = one.get("ageMs")

    def age(hit: Hit) -> float:
        found = ages.get(f"{hit.instance.ip}#{hit.instance.port}#{hit.instance.cluster_name}")
        return found if isinstance(found, int) else math.inf

    return age


def _by_service(found: list[Part], first: int, end: int) -> list[Hit]:
    """Return the instances from position ``first`` to before ``end``, by service and address.

    Only the services of this page have their instances sorted: the others' addresses need not be read.
    """
    is_one_namespace = not found or found[0][0].namespace == found[-1][0].namespace
    ordered = found if is_one_namespace else in_order(found, key=lambda part: part[0].full_name)
    hits: list[Hit] = []
    begin = 0
    for _, parts in groupby(ordered, key=_service_of):
        of_service = list(parts)
        after = begin + sum(len(instances) for _, instances in of_service)
        if after > first:
            hits += _by_address(of_service)[max(first - begin, 0) : end - begin]
        begin = after
        if begin >= end:
            break
    return hits


def _by_address(found: list[Part]) -> list[Hit]:
    """Return the instances in the order of namespaces and services, in which they are given, then by address."""
    ordered: list[Hit] = []
    for (namespace, service), parts in groupby(found, key=_service_of):
        hits = [Hit(namespace, service, one) for _, instances in parts for one in instances]
        ordered += hits if len(hits) == 1 else in_order(hits, key=_address)
    return ordered


def _service_of(part: Part) -> tuple[str, str]:
    return part[0].namespace, part[0].full_name


def _source(services: Services, hit: Hit) -> Source:
    return source_of(services.naming.service_of(hit.namespace, hit.service), hit.instance)


def _row(services: Services, hit: Hit) -> dict[str, Any]:
    one = hit.instance
    return {
        "namespaceId": hit.namespace,
        "serviceName": hit.service,
        "clusterName": one.cluster_name,
        "ip": one.ip,
        "port": one.port,
        "healthy": one.healthy,
        "enabled": one.enabled,
        "ephemeral": one.ephemeral,
        "weight": one.weight,
        "source": _source(services, hit),
        "metadata": shown(one.metadata),
    }


def healthy_in(view: ServiceView) -> int:
    """Return the number of a service's healthy instances."""
    return sum(one.healthy for one in view.instances)


def unhealthy_in(view: ServiceView) -> int:
    """Return the number of a service's unhealthy instances that are not disabled."""
    return sum(map(is_unhealthy, view.instances))


def _service(view: ServiceView) -> dict[str, Any]:
    return {
        "namespaceId": view.namespace,
        "serviceName": view.full_name,
        "instanceCount": len(view.instances),
        "healthyInstanceCount": healthy_in(view),
        "unhealthyInstanceCount": unhealthy_in(view),
    }
