"""The JSON of a service for SDKs since 2.0: ServiceInfo with instances.

Source: Nacos 2.2.3 ServiceUtil, ServiceInfo.
"""

from collections.abc import Collection
from typing import Any

import orjson

from app.naming.model.json_fields import exact_json
from app.naming.model.keys import group_of
from app.naming.model.meta import NO_META
from app.naming.model.model import Instance, ServiceView
from app.naming.wire.datum_codec import derived_fields
from app.naming.wire.service_info import joined, shown


def service_json(
    name: str, view: ServiceView | None, clusters: str, healthy_only: bool, cache_ms: int, now_ms: int,
    begin: bytes = b"", end: bytes = b"",
) -> bytes:  # fmt: skip
    """Return the JSON of a ServiceInfo. ``name`` is shown as it is given; an unknown service has no ``view``.

    ``begin`` and ``end`` go around it: an answer of megabytes is joined only once, from the texts of its instances.
    """
    hosts, protects = hosts_json(view, clusters, healthy_only=healthy_only)
    before = {
        "name": name,
        "groupName": group_of(view.full_name if view is not None else name),
        "clusters": clusters,
        "cacheMillis": cache_ms,
    }
    after = {
        "lastRefTime": now_ms,
        "checksum": "",
        "allIPs": False,
        "reachProtectionThreshold": protects,
        "valid": True,
    }
    head = begin + orjson.dumps(before)[:-1] + b',"hosts":['
    return joined(head, hosts, b"]," + orjson.dumps(after)[1:] + end)


def hosts_json(view: ServiceView | None, clusters: str, *, healthy_only: bool) -> tuple[list[bytes], bool]:
    """Return the JSON of each instance that clients are shown, and whether so few are healthy that all are shown so.

    Disabled instances, and with ``healthy_only`` unhealthy ones, are left out before the threshold applies: unlike in
    1.4, it never brings them back.
    """
    asked = {one for one in clusters.split(",") if one}
    chosen = [
        one
        for one in (view.instances if view is not None else ())
        if one.enabled and (not asked or one.cluster_name in asked) and (one.healthy or not healthy_only)
    ]
    protects = view is not None and is_protected(view, chosen)
    return [exact_json(instance_json(one, healthy=one.healthy or protects)) for one in chosen], protects


def is_protected(view: ServiceView, chosen: Collection[Instance]) -> bool:
    """Return whether so few of the chosen instances are healthy that all count as healthy.

    A service without a description is not protected: with its threshold of 0, an only instance would never show that it
    is unhealthy. Source: Nacos 2.2.3 ServiceUtil.selectInstances.
    """
    if not chosen or view.meta == NO_META:
        return False
    return sum(one.healthy for one in chosen) / len(chosen) <= view.protect_threshold


def instance_json(one: Instance, *, healthy: bool) -> dict[str, Any]:
    """Return an instance with the fields derived from its metadata; without null fields, which some SDKs refuse."""
    fields = {
        "instanceId": one.instance_id,
        "ip": one.ip,
        "port": one.port,
        "weight": one.weight,
        "healthy": healthy,
        "enabled": one.enabled,
        "ephemeral": one.ephemeral,
        "clusterName": one.cluster_name,
        "serviceName": one.service_name,
        "metadata": shown(one.metadata) or {},
        **derived_fields(one),
    }
    return {name: value for name, value in fields.items() if value is not None}
