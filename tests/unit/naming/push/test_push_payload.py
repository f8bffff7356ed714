"""The payload of a UDP push: the list as its subscriber's query would get it."""

import json
from typing import Any

import pytest

from app.background.push_udp import payload_of
from app.naming.model.switches import SwitchDomain
from app.naming.push.udp_subscribers import Subscriber
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from tests.support.registry_parts import naming_of

NAME, NOW_MS = "DEFAULT_GROUP@@orders", 1_700_000_000_123


@pytest.fixture
def naming() -> NamingService:
    made = naming_of(Registry.of("a:1~1"), lambda: 0, lambda _event: None)
    for port, cluster, healthy in ((80, "c1", True), (81, "c1", False), (82, "c2", True)):
        made.register(RegisterInstance(NAME, "10.0.0.1", port, cluster=cluster, healthy=healthy))
    return made


def payload(naming: NamingService, service: str = NAME, *, clusters: str = "", java: bool = False) -> Any:
    subscriber = Subscriber("public", service, clusters, "10.0.0.9", 50_000, "", "", 65_507, java)
    return json.loads(payload_of(naming, subscriber, SwitchDomain(default_push_cache_millis=7_000), NOW_MS))


def test_it_is_the_list_of_today_with_unhealthy_instances_and_the_time_to_keep_it(naming: NamingService) -> None:
    found = payload(naming)
    assert [(one["port"], one["healthy"]) for one in found["hosts"]] == [(81, False), (80, True), (82, True)]
    assert (found["dom"], found["cacheMillis"], found["lastRefTime"], found["env"]) == ("orders", 7_000, NOW_MS, "")


def test_it_is_in_the_variant_of_its_subscriber(naming: NamingService) -> None:
    found = payload(naming, clusters="c2", java=True)
    assert [(one["port"], one["serviceName"]) for one in found["hosts"]] == [(82, NAME)]
    assert (found["dom"], found["clusters"]) == (NAME, "c2")


def test_of_a_service_that_is_gone_it_is_what_a_query_is_answered(naming: NamingService) -> None:
    name = "DEFAULT_GROUP@@gone"
    assert payload(naming, name) == {"name": name, "clusters": "", "cacheMillis": 7_000, "hosts": []}
