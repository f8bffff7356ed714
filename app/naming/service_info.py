"""The answer of a list query: which instances a client sees, and their JSON, cached with the view it was made from."""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from app.naming.checksum import in_java_order
from app.naming.keys import short_name_of
from app.naming.model import Instance, Metadata, ServiceView

ANSWERS_MAX = 16
"""Variants of one view that are kept; one more, and all are made anew as they are asked for."""
VARIANT_CHARS_MAX = 256
"""A query with longer texts to echo is answered, but its answer not kept."""


class Variant(NamedTuple):
    """What an answer depends on beside the view."""

    clusters: str
    healthy_only: bool
    is_check: bool
    java_agent: bool
    """The client is a Java SDK since 1.0.0: names keep their group."""
    env: str
    cache_ms: int


def service_info(view: ServiceView | None, full_name: str, variant: Variant, now_ms: int) -> bytes:
    """Return the JSON of a service as a client sees it. Shape: A unknown service, B nothing matches, C instances.

    Source: Nacos 1.4.1 InstanceController.doSrvIpxt.
    """
    if view is None:
        return orjson.dumps(
            {"name": full_name, "clusters": variant.clusters, "cacheMillis": variant.cache_ms, "hosts": []}
        )
    parts = view.answers.get(variant)
    if parts is None:
        parts = _build(view, variant)
        if len(variant.clusters) + len(variant.env) <= VARIANT_CHARS_MAX:
            # Several threads may come here at once; each puts in the same bytes, and the bound may be passed by a few.
            if len(view.answers) >= ANSWERS_MAX:
                view.answers.clear()
            view.answers[variant] = parts
    head, tail = parts
    return b"%b%d%b" % (head, now_ms, tail) if tail else head


def _build(view: ServiceView, variant: Variant) -> tuple[bytes, bytes]:
    """The answer before and after the value of ``lastRefTime``; a second part that is empty means that it has none."""
    asked = {name for name in variant.clusters.split(",") if name}
    chosen = [one for one in view.instances if not asked or one.cluster_name in asked]
    if chosen and variant.is_check:
        return b"{}", b""
    before: dict[str, Any] = {"hosts": _hosts(chosen, view.protect_threshold, variant)} if chosen else {}
    before |= {
        "dom": view.full_name if variant.java_agent else short_name_of(view.full_name),
        "name": view.full_name,
        "cacheMillis": variant.cache_ms,
    }
    after: dict[str, Any] = {
        "checksum": checksum(view),
        "useSpecifiedURL": False,
        "clusters": variant.clusters,
        "env": variant.env,
    }
    if not chosen:
        after["hosts"] = []
    after["metadata"] = shown(view.metadata)
    return orjson.dumps(before)[:-1] + b',"lastRefTime":', b"," + orjson.dumps(after)[1:]


def _hosts(chosen: list[Instance], protect_threshold: float, variant: Variant) -> list[dict[str, Any]]:
    """The instances to show, unhealthy ones first. At or below the threshold all count as healthy.

    Disabled ones count in the ratio, though they are not shown: so it is in Nacos 1.4.
    """
    unhealthy = [one for one in chosen if not one.healthy]
    healthy = [one for one in chosen if one.healthy]
    if unhealthy and len(healthy) / len(chosen) <= protect_threshold:
        unhealthy, healthy = [], chosen
    hosts = [] if variant.healthy_only else [_host(one, False, variant) for one in unhealthy if one.enabled]
    hosts.extend(_host(one, True, variant) for one in healthy if one.enabled)
    return hosts


def _host(instance: Instance, healthy: bool, variant: Variant) -> dict[str, Any]:
    name = instance.service_name
    return {
        "ip": instance.ip,
        "port": instance.port,
        "valid": healthy,
        "healthy": healthy,
        "marked": instance.marked,
        "instanceId": instance.instance_id,
        "metadata": shown(instance.metadata),
        "enabled": instance.enabled,
        "weight": instance.weight,
        "clusterName": instance.cluster_name,
        "serviceName": name if variant.java_agent else short_name_of(name),
        "ephemeral": instance.ephemeral,
    }


def shown(metadata: Metadata | None) -> Metadata | None:
    """Metadata as answers show it: a key whose value is null is kept, but not shown."""
    if metadata and None in metadata.values():
        return {key: value for key, value in metadata.items() if value is not None}
    return metadata


def checksum(view: ServiceView) -> str:
    """A digest that changes with the instances; clients compare it only with itself. Source: Nacos 1.4.1 Service."""
    healthy = sum(one.healthy for one in view.instances)
    clusters = ",".join(
        '{"healthChecker":{},"defIPPort":80,"defCkport":80,"name":"' + name + '","useIPPort4Check":true,"sitegroup":""}'
        for name in view.clusters
    )
    text = (
        f'{{"invalidIPCount":{len(view.instances) - healthy},"name":"{view.full_name}",'
        f'"ipCount":{len(view.instances)},"owners":[],"protectThreshold":{float(view.protect_threshold)!r},'
        f'"clusters":[{clusters}]}}'
    )
    return hashlib.md5((text + _instances_text(view.instances)).encode(), usedforsecurity=False).hexdigest()


def _instances_text(instances: Iterable[Instance]) -> str:
    return "".join(
        f"{one.ip}:{one.port}_{one.weight!r}_{'true' if one.healthy else 'false'}_{one.cluster_name},"
        for one in in_java_order(instances)
    )
