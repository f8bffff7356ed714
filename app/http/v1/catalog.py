"""The pages of a console: services, their clusters, their instances."""

from collections.abc import Iterable
from typing import Any

from app.auth.access_rules import READ, Target, naming
from app.http.api.answers import json_array_reply, json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.api.pages import page_size
from app.http.input.fields import PRESENT, Flag, PageNumber, PatternText, Text, Trimmed
from app.http.input.schemas import (
    CLUSTER_NAME_TEXT,
    PAGE_NO_TEXT,
    PAGE_SIZE_TEXT,
    NamespaceSchema,
    ServiceSchema,
    load_parameters,
)
from app.http.input.values import NamePattern, literal_pattern
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import CATALOG_INSTANCES
from app.http.shapes.service_shapes import CATALOG_SERVICE, CATALOG_SERVICES, CHECK_TIMES
from app.http.v1.service import found_view, is_found
from app.naming.health.checks import FIRST_DELAY_MS
from app.naming.model.ip_addresses import host_port, is_same_ip
from app.naming.model.keys import GROUP_SPLITTER, group_of, short_name_of
from app.naming.model.meta import DEFAULT_CLUSTER_CONFIG, DEFAULT_PORT
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import InvalidParam, NotFound
from app.naming.wire.datum_codec import derived_fields
from app.naming.wire.service_info import shown

NO_TIME_YET = 2**63 - 1
"""The best time of a cluster before its first check. Source: Nacos 1.4.1 HealthCheckTask."""


class CatalogInstancesSchema(ServiceSchema):
    cluster = Text("clusterName", CLUSTER_NAME_TEXT, needs=PRESENT)
    page = PageNumber("pageNo", PAGE_NO_TEXT, needs=PRESENT)
    size = PageNumber("pageSize", PAGE_SIZE_TEXT, needs=PRESENT)


class CatalogServicesSchema(NamespaceSchema):
    with_instances = Flag("withInstances", "The services with their instances, and not with their counts.", False)
    page = PageNumber("pageNo", PAGE_NO_TEXT, needs=PRESENT)
    size = PageNumber("pageSize", PAGE_SIZE_TEXT, needs=PRESENT)
    name = PatternText(
        "serviceNameParam",
        "The pattern of the wanted names: `.` is any character, `.*` any number of them.",
        NamePattern(),
    )
    group = PatternText(
        "groupNameParam",
        "The pattern of the wanted groups: `.` is any character, `.*` any number of them.",
        NamePattern(),
    )
    instance = Trimmed("instance", "Only services with an instance at this address, `ip` or `ip:port`.", "")
    has_instances = Flag("hasIpCount", "Only services with instances.", False)


@route(
    "GET",
    "/v1/ns/catalog/service",
    access=naming(READ),
    described=Described(CATALOG_SERVICE, takes=(ServiceSchema,), refusals=(404,)),
)
def service_detail(call: Call, services: Services) -> Answer:
    """A service and its clusters. Shape: service, clusters."""
    view = found_view(call, services)
    service = {
        "name": short_name_of(view.full_name),
        "protectThreshold": float(view.protect_threshold),
        "groupName": group_of(view.full_name),
        "selector": view.meta.selector.to_json(),
        "metadata": shown(view.metadata),
    }
    return json_reply({"service": service, "clusters": [_cluster(view, name) for name in view.clusters]})


def _cluster(view: ServiceView, name: str) -> dict[str, Any]:
    config = view.meta.clusters.get(name, DEFAULT_CLUSTER_CONFIG)
    return {
        "serviceName": view.full_name,
        "name": name,
        "healthChecker": config.checker.to_json(),
        "defaultPort": DEFAULT_PORT,
        "defaultCheckPort": DEFAULT_PORT,
        "useIPPort4Check": config.use_instance_port,
        "metadata": shown(config.metadata),
        "sitegroup": "",
        "defCkport": config.check_port,
        "empty": all(one.cluster_name != name for one in view.instances),
        "defIPPort": config.check_port,
    }


@route(
    "GET",
    "/v1/ns/catalog/instances",
    access=naming(READ),
    described=Described(CATALOG_INSTANCES, takes=(CatalogInstancesSchema,), refusals=(404,)),
)
def instance_list(call: Call, services: Services) -> Answer:
    """One page of a cluster's instances, even disabled, with their true health. Shape: list, count (of all pages)."""
    values = load_parameters(CatalogInstancesSchema, call.parameters)
    namespace, service, cluster, size = values["namespace"], values["service"], values["cluster"], values["size"]
    view = services.naming.service_view(namespace, service)
    if view is None:
        raise NotFound(f"serivce {service} is not found!")  # Nacos's spelling
    if cluster not in view.clusters:
        raise NotFound(f"cluster {cluster} is not found!")
    if size < 0:
        raise InvalidParam("Parameter 'pageSize' is illegal: it should not be negative")
    size = page_size(size, services)
    instances = [one for one in view.instances if one.cluster_name == cluster]
    end = max(values["page"] * size, 0)
    start = max(end - size, 0)
    return json_reply({"list": instances_json(services, view, instances[start:end]), "count": len(instances)})


def instances_json(services: Services, view: ServiceView, page: Iterable[Instance]) -> list[dict[str, Any]]:
    """Instances of one service, each with the time of its last beat, or for a persistent one of its last change."""
    ages, now_ms = services.naming.beat_ages(view.namespace, view.full_name), services.wall_ms()
    listed = []
    for one in page:
        if one.ephemeral:
            last_confirmed_ms = now_ms - ages.get(one.key, 0)
        else:
            last_confirmed_ms = services.durable.set_at_ms(view.namespace, view.full_name, one.key) or now_ms
        listed.append(_instance(one, last_confirmed_ms))
    return listed


def _instance(one: Instance, last_confirmed_ms: int) -> dict[str, Any]:
    """An instance with all its fields that are not null. Source: Nacos 1.4.1 Instance, as Jackson writes it."""
    fields = {
        "instanceId": one.instance_id,
        "ip": one.ip,
        "port": one.port,
        "weight": one.weight,
        "healthy": one.healthy,
        "enabled": one.enabled,
        "ephemeral": one.ephemeral,
        "clusterName": one.cluster_name,
        "serviceName": one.service_name,
        "metadata": shown(one.metadata),
        "lastBeat": last_confirmed_ms,
        "marked": one.marked,
        "app": one.app,
        **derived_fields(one),
    }
    return {name: value for name, value in fields.items() if value is not None}


@route(
    "GET",
    "/v1/ns/catalog/services",
    access=naming(READ, Target.NAMESPACE),
    described=Described(CATALOG_SERVICES, takes=(CatalogServicesSchema,)),
)
def service_list(call: Call, services: Services) -> Answer:
    """One page of the services that pass the filters, with their counts, or with their instances.

    Shape: serviceList, count (of all pages); with instances an array. Source: Nacos 1.4.1 CatalogController.listDetail.
    """
    values = load_parameters(CatalogServicesSchema, call.parameters)
    found, size = filtered_services(services, values), page_size(values["size"], services)
    if values["with_instances"]:
        # Pages count from 0 here, as in Nacos 1.4.
        return json_array_reply(_with_instances(view) for view in _page(found, values["page"], size))
    listed = [counted_service(view) for view in _page(found, values["page"] - 1, size)]
    return json_reply({"serviceList": listed, "count": len(found) if listed else 0})


def filtered_services(services: Services, values: dict[str, Any]) -> list[ServiceView]:
    """Return the services that pass the filters of a call. ``values``: those of ``CatalogServicesSchema``."""
    namespace, instance = values["namespace"], values["instance"]
    names = services.naming.list_services(namespace, None)
    if values["name"].pieces or values["group"].pieces:
        pattern = values["group"] + literal_pattern(GROUP_SPLITTER) + values["name"]
        names = [name for name in names if is_found(name, pattern)]
    views = [view for name in names if (view := services.naming.service_view(namespace, name)) is not None]
    if values["with_instances"]:
        return views
    if values["has_instances"]:
        views = [view for view in views if view.instances]
    if instance:
        views = [view for view in views if any(_is_at(one, instance) for one in view.instances)]
    return views


def _is_at(one: Instance, address: str) -> bool:
    return is_same_ip(address, one.ip) or address in (f"{one.ip}:{one.port}", host_port(one.ip, one.port))


def _page(views: list[ServiceView], page: int, size: int) -> list[ServiceView]:
    """The services of a page, counted from 0; all of them, for any page, when they fit in one.

    A size below 1 is taken as 1, as in Nacos.
    """
    if size >= len(views):
        return views
    start = max(page * size, 0)
    return views[start : start + max(size, 1)]


def counted_service(view: ServiceView) -> dict[str, Any]:
    """Return a service's names and counts, as pages of services show them."""
    count, healthy = len(view.instances), sum(one.healthy for one in view.instances)
    triggered = count > 0 and healthy / count <= view.protect_threshold
    return {
        "name": short_name_of(view.full_name),
        "groupName": group_of(view.full_name),
        "clusterCount": len(view.clusters),
        "ipCount": count,
        "healthyInstanceCount": healthy,
        "triggerFlag": "true" if triggered else "false",
    }


def _with_instances(view: ServiceView) -> dict[str, Any]:
    return {
        "serviceName": short_name_of(view.full_name),
        "groupName": group_of(view.full_name),
        "clusterMap": {
            name: {"hosts": _hosts(one for one in view.instances if one.cluster_name == name)} for name in view.clusters
        },
        "metadata": shown(view.metadata),
    }


def _hosts(instances: Iterable[Instance]) -> list[dict[str, Any]]:
    return [
        {
            "valid": one.healthy,
            "metadata": shown(one.metadata),
            "port": one.port,
            "ip": one.ip,
            "weight": one.weight,
            "enabled": one.enabled,
        }
        for one in instances
    ]


@route(
    "GET", "/v1/ns/catalog/rt/service", access=naming(READ), described=Described(CHECK_TIMES, takes=(ServiceSchema,))
)
def check_times(call: Call, services: Services) -> Answer:
    """The times that the health checks of a service's clusters take (ms). Shape: clusters.

    The times stay with the member that checks: each cluster has the values that Nacos shows before its first check.
    """
    values = load_parameters(ServiceSchema, call.parameters)
    view = services.naming.service_view(values["namespace"], values["service"])
    if view is None:
        raise InvalidParam("request service doesn't exist")
    times = {"checkRTBest": NO_TIME_YET, "checkRTWorst": 0, "checkRTNormalized": FIRST_DELAY_MS}
    return json_reply({"clusters": [{"name": name, **times} for name in view.clusters]})
