"""Prometheus's HTTP service discovery: instances as targets. Off unless ``nacos.prometheus.metrics.enabled``."""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from app.auth.access_rules import METRICS
from app.http.api.answers import BEHIND, filter_error, text_reply
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.shapes.described import ERROR_TEXT, FILTER_ERROR, Described
from app.http.shapes.instance_shapes import TARGETS
from app.naming.model.ip_addresses import host_port
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.model import Instance
from app.naming.wire.service_info import shown

PATH = "/prometheus"
CONTENT_TYPE = "application/json; charset=UTF-8"
"""As real Nacos has it; Prometheus only takes JSON."""
TARGETS_MAX = 100_000
"""The most targets in one answer, some 40 MB; narrower calls return fewer."""
OURS = frozenset(("job", "instance", "le", "quantile"))
"""Labels with which Prometheus distinguishes series: whose they are, and the parts of a histogram and a summary."""
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@route("GET", PATH, access=METRICS, described=Described(TARGETS, also={404: FILTER_ERROR, 413: ERROR_TEXT}))
def all_targets(call: Call, services: Services) -> Answer:
    """The instances of all namespaces."""
    found = services.naming.namespaces()
    return _answer(call, services, [(one, name) for one in found for name in _names(services, one)])


@route(
    "GET",
    f"{PATH}/namespaceId/<namespace>",
    access=METRICS,
    described=Described(TARGETS, also={404: FILTER_ERROR, 413: ERROR_TEXT}),
)
def targets_of_namespace(call: Call, services: Services) -> Answer:
    """The instances of one namespace; an empty list for an unknown one."""
    namespace = call.path_values["namespace"]
    return _answer(call, services, [(namespace, name) for name in _names(services, namespace)])


@route(
    "GET",
    f"{PATH}/namespaceId/<namespace>/service/<path:service>",
    access=METRICS,
    described=Described(TARGETS, also={404: FILTER_ERROR, 413: ERROR_TEXT}),
)
def targets_of_service(call: Call, services: Services) -> Answer:
    """The instances of the services of one name in a namespace, of all groups."""
    namespace, service = call.path_values["namespace"], call.path_values["service"]
    names = [name for name in _names(services, namespace) if short_name_of(name) == service]
    return _answer(call, services, [(namespace, name) for name in names])


def _names(services: Services, namespace: str) -> list[str]:
    return services.naming.list_services(namespace, None)


def _answer(call: Call, services: Services, keys: list[tuple[str, str]]) -> Reply:
    if not services.settings.told.discovery:
        return filter_error(call.uri, 404, "No message available", services.wall_ms())
    if services.cluster.is_behind:
        return BEHIND
    count = sum(services.naming.instance_count(namespace, service) for namespace, service in keys)
    if count > TARGETS_MAX:
        text = f"{count} targets are more than {TARGETS_MAX}: ask for {PATH}/namespaceId/... or a service in it"
        return text_reply(413, text)
    parts = [part for namespace, service in keys if (part := b",".join(_targets(services, namespace, service)))]
    return Reply(200, b"[" + b",".join(parts) + b"]", CONTENT_TYPE)


def _targets(services: Services, namespace: str, service: str) -> Iterator[bytes]:
    """Yield a service's instances, healthy or not, as real Nacos does.

    Shape: targets, labels. Source: Nacos 2.2 PrometheusController.
    """
    view = services.naming.service_view(namespace, service)
    for one in view.instances if view else ():
        yield orjson.dumps({"targets": [host_port(one.ip, one.port)], "labels": labels_of(namespace, service, one)})


def labels_of(namespace: str, service: str, instance: Instance) -> dict[str, Any]:
    """The labels of a target: its cluster, where it belongs, and its metadata.

    Metadata whose name is not a label is left out, as Prometheus would refuse the whole answer. So is metadata whose
    name begins with two underscores or is in ``OURS``: a client that registers must not choose where and what
    Prometheus scrapes, nor whose series they are.
    """
    labels: dict[str, str | None] = {}
    metadata = shown(instance.metadata) or {}
    for name in sorted(metadata):
        label = name.replace(".", "_").replace("-", "_")
        is_label = LABEL.fullmatch(label) and not label.startswith("__") and label not in OURS
        if is_label and (label == name or label not in metadata):
            labels.setdefault(label, metadata[name])
    return labels | {
        "__meta_clusterName": instance.cluster_name,
        "__meta_rollcall_namespace": namespace,
        "__meta_rollcall_group": group_of(service),
        "__meta_rollcall_service": short_name_of(service),
        "__meta_rollcall_healthy": "true" if instance.healthy else "false",
    }
