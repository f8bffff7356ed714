"""A service as SDKs since 2.0 read it, field by field."""

from typing import Any

import orjson
import pytest

from app.naming.model.meta import NO_META, ServiceMeta
from app.naming.model.model import Instance, ServiceView
from app.naming.wire.service_json import instance_json, is_protected, service_json
from distro.model.types import NO_VERSION
from tests.support.traced_memory import traced_peak

NAME = "G@@orders"


def one(port: int, *, healthy: bool = True, enabled: bool = True, cluster: str = "DEFAULT", **more: object) -> Instance:
    return Instance(
        "10.0.0.1",
        port,
        healthy=healthy,
        enabled=enabled,
        cluster_name=cluster,
        service_name=NAME,
        **more,  # type: ignore[arg-type]
    )


def view(*instances: Instance, threshold: float | None = None) -> ServiceView:
    meta = NO_META if threshold is None else ServiceMeta(protect_threshold=threshold)
    return ServiceView("public", NAME, 1, NO_VERSION, instances, ("DEFAULT",), meta)


def listed(*asked: Any) -> dict[str, Any]:
    shown: dict[str, Any] = orjson.loads(service_json(*asked))
    return shown


def ports(shown: dict[str, object]) -> list[tuple[int, bool]]:
    return [(host["port"], host["healthy"]) for host in shown["hosts"]]  # type: ignore[index, attr-defined]


def test_a_service_without_instances_and_one_that_is_unknown() -> None:
    fields = {
        "clusters": "a,b",
        "cacheMillis": 7,
        "hosts": [],
        "lastRefTime": 99,
        "checksum": "",
        "allIPs": False,
        "reachProtectionThreshold": False,
        "valid": True,
    }
    assert listed("orders", view(), "a,b", True, 7, 99) == {"name": "orders", "groupName": "G"} | fields
    assert listed("H@@x", None, "a,b", False, 7, 99) == {"name": "H@@x", "groupName": "H"} | fields


def test_an_instance_has_all_its_fields() -> None:
    instance = one(80, instance_id="id", weight=2.5, metadata={"zone": "a"})
    shown = instance_json(instance, healthy=False)
    assert {name: shown.pop(name) for name in list(shown) if not name.startswith(("instanceHeart", "ipDelete"))} == {
        "instanceId": "id",
        "ip": "10.0.0.1",
        "port": 80,
        "weight": 2.5,
        "healthy": False,
        "enabled": True,
        "ephemeral": True,
        "clusterName": "DEFAULT",
        "serviceName": NAME,
        "metadata": {"zone": "a"},
    }
    assert shown == {"instanceHeartBeatInterval": 5_000, "instanceHeartBeatTimeOut": 15_000, "ipDeleteTimeout": 30_000}


def test_a_field_without_a_value_is_left_out() -> None:
    shown = instance_json(one(80, instance_id=None), healthy=True)
    assert "instanceId" not in shown
    assert None not in shown.values()
    assert shown["metadata"] == {}


def test_instances_are_chosen_by_cluster_and_health_and_only_when_enabled() -> None:
    instances = (
        one(1),
        one(2, healthy=False),
        one(3, enabled=False),
        one(4, cluster="B"),
        one(5, healthy=False, cluster="B"),
    )
    every = [(1, True), (2, False), (4, True), (5, False)]
    assert ports(listed(NAME, view(*instances), "", False, 1, 1)) == every
    assert ports(listed(NAME, view(*instances), ",", False, 1, 1)) == every
    assert ports(listed(NAME, view(*instances), "", True, 1, 1)) == [(1, True), (4, True)]
    assert ports(listed(NAME, view(*instances), "B,C", False, 1, 1)) == [(4, True), (5, False)]


@pytest.mark.parametrize(("threshold", "protects"), [(None, False), (0.49, False), (0.5, True), (0.6, True)])
def test_with_so_few_healthy_ones_all_count_as_healthy(threshold: float | None, protects: bool) -> None:
    shown = listed(NAME, view(one(1), one(2, healthy=False), threshold=threshold), "", False, 1, 1)
    assert ports(shown) == [(1, True), (2, protects)]
    assert shown["reachProtectionThreshold"] is protects


def test_nothing_is_protected_where_nothing_was_chosen() -> None:
    assert not is_protected(view(one(1), threshold=0.5), [])
    assert is_protected(view(one(1), threshold=0.1), [one(2, healthy=False)])


def test_a_list_is_put_together_once_with_the_texts_around() -> None:
    of = view(*(one(port) for port in range(1, 1_000)))
    service_json(NAME, of, "", False, 1, 1)  # what is made once
    with traced_peak() as peak_bytes:
        made = service_json(NAME, of, "", False, 1, 1, b'{"data":', b"}")
    # The text of each instance with the object that holds it, and the whole.
    assert peak_bytes() < 2.5 * len(made)
    assert orjson.loads(made) == {"data": listed(NAME, of, "", False, 1, 1)}
