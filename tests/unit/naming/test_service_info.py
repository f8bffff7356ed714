"""Which instances a list shows, and its JSON."""

import json
from typing import Any

from app.naming.meta import ServiceMeta
from app.naming.model import Instance, ServiceView
from app.naming.service_info import ANSWERS_MAX, Variant, checksum, service_info
from distro.types import NO_VERSION

NAME = "DEFAULT_GROUP@@orders"
NOW_MS = 1_700_000_000_123


def instance(ip: str = "10.0.0.1", **fields: Any) -> Instance:
    return Instance(**{"ip": ip, "port": 8080, "service_name": NAME, "instance_id": f"{ip}#id"} | fields)


def view(*instances: Instance, threshold: float = 0.0, **fields: Any) -> ServiceView:
    clusters = tuple(sorted({one.cluster_name for one in instances}))
    return ServiceView(
        "public", NAME, 1, NO_VERSION, instances, clusters, ServiceMeta(threshold, fields.get("metadata", {}))
    )


def variant(**fields: Any) -> Variant:
    flags = dict.fromkeys(("healthy_only", "is_check", "java_agent"), False)
    return Variant(**{"clusters": "", "env": "", "cache_ms": 3000} | flags | fields)


def answer(of: ServiceView | None, **fields: Any) -> Any:
    return json.loads(service_info(of, NAME, variant(**fields), NOW_MS))


def shown(of: ServiceView, **fields: Any) -> list[tuple[str, bool]]:
    return [(host["ip"], host["healthy"]) for host in answer(of, **fields)["hosts"]]


def test_an_unknown_service_is_shape_a() -> None:
    found = service_info(None, NAME, variant(clusters="c1", env="e"), NOW_MS)
    assert found == b'{"name":"DEFAULT_GROUP@@orders","clusters":"c1","cacheMillis":3000,"hosts":[]}'


def test_a_known_service_without_a_match_is_shape_b() -> None:
    found = answer(view(metadata={"a": "1"}), env="prod", clusters="c1")
    assert list(found) == [
        "dom", "name", "cacheMillis", "lastRefTime", "checksum", "useSpecifiedURL", "clusters", "env", "hosts",
        "metadata",
    ]  # fmt: skip
    assert (found["hosts"], found["env"], found["clusters"], found["metadata"]) == ([], "prod", "c1", {"a": "1"})
    assert found["lastRefTime"] == NOW_MS


def test_instances_are_shape_c() -> None:
    found = answer(view(instance(weight=2.0, metadata={"k": "v", "gone": None})))
    assert list(found) == [
        "hosts", "dom", "name", "cacheMillis", "lastRefTime", "checksum", "useSpecifiedURL", "clusters", "env",
        "metadata",
    ]  # fmt: skip
    assert (found["dom"], found["name"], found["lastRefTime"]) == ("orders", NAME, NOW_MS)
    assert list(found["hosts"][0].items()) == [
        ("ip", "10.0.0.1"), ("port", 8080), ("valid", True), ("healthy", True), ("marked", False),
        ("instanceId", "10.0.0.1#id"), ("metadata", {"k": "v"}), ("enabled", True), ("weight", 2.0),
        ("clusterName", "DEFAULT"), ("serviceName", "orders"), ("ephemeral", True),
    ]  # fmt: skip


def test_java_sdks_get_names_with_their_group() -> None:
    found = answer(view(instance()), java_agent=True)
    assert (found["dom"], found["hosts"][0]["serviceName"]) == (NAME, NAME)


def test_weights_keep_their_fraction_and_missing_values_are_null() -> None:
    text = service_info(view(instance(weight=1.0, metadata=None, instance_id=None)), NAME, variant(), NOW_MS)
    assert b'"weight":1.0' in text
    assert b'"metadata":null' in text
    assert b'"instanceId":null' in text


def test_clusters_are_a_comma_list_that_is_not_trimmed() -> None:
    both = view(instance("10.0.0.1", cluster_name="c1"), instance("10.0.0.2", cluster_name="c2"))
    assert len(shown(both)) == len(shown(both, clusters="c1,c2")) == len(shown(both, clusters=",")) == 2
    assert shown(both, clusters="nope,c2") == [("10.0.0.2", True)]
    assert shown(both, clusters="x, c1") == []


def test_unhealthy_ones_come_first_and_healthy_only_leaves_them_out() -> None:
    mixed = view(instance("10.0.0.1"), instance("10.0.0.2", healthy=False), instance("10.0.0.3"))
    assert shown(mixed) == [("10.0.0.2", False), ("10.0.0.1", True), ("10.0.0.3", True)]
    assert shown(mixed, healthy_only=True) == [("10.0.0.1", True), ("10.0.0.3", True)]


def test_when_none_is_healthy_all_are_shown_as_healthy() -> None:
    none = view(instance("10.0.0.1", healthy=False), instance("10.0.0.2", healthy=False))
    assert shown(none) == shown(none, healthy_only=True) == [("10.0.0.1", True), ("10.0.0.2", True)]


def test_the_threshold_protects_when_it_is_reached() -> None:
    instances = instance("10.0.0.1", healthy=False), instance("10.0.0.2")
    assert shown(view(*instances, threshold=0.5), healthy_only=True) == [("10.0.0.1", True), ("10.0.0.2", True)]
    assert shown(view(*instances, threshold=0.4), healthy_only=True) == [("10.0.0.2", True)]


def test_disabled_ones_count_for_the_threshold_but_are_not_shown() -> None:
    hidden = instance("10.0.0.3", healthy=False, enabled=False)
    found = view(instance("10.0.0.1", healthy=False), instance("10.0.0.2"), hidden, threshold=0.4)
    assert shown(found) == [("10.0.0.1", True), ("10.0.0.2", True)]
    assert next(iter(answer(view(hidden)))) == "hosts"


def test_the_threshold_looks_at_the_asked_clusters_only() -> None:
    found = view(
        instance("10.0.0.1", healthy=False, cluster_name="c1"),
        instance("10.0.0.2", cluster_name="c1"),
        instance("10.0.0.3", cluster_name="c2"),
        threshold=0.5,
    )
    assert ("10.0.0.1", False) in shown(found)
    assert shown(found, clusters="c1") == [("10.0.0.1", True), ("10.0.0.2", True)]


def test_is_check_empties_the_answer_when_there_are_instances() -> None:
    assert answer(view(instance()), is_check=True) == {}
    assert answer(view(), is_check=True)["hosts"] == []
    assert answer(None, is_check=True)["hosts"] == []


def test_an_answer_is_made_once_and_dated_anew() -> None:
    found = view(instance())
    first = service_info(found, NAME, variant(), 1)
    assert len(found.answers) == 1
    assert service_info(found, NAME, variant(), 22) == first.replace(b'"lastRefTime":1,', b'"lastRefTime":22,')
    assert len(found.answers) == 1


def test_metadata_that_looks_like_the_date_is_left_alone() -> None:
    found = view(instance(metadata={"lastRefTime": "x"}), metadata={"lastRefTime": "y"})
    parsed = answer(found)
    assert (parsed["hosts"][0]["metadata"], parsed["metadata"]) == ({"lastRefTime": "x"}, {"lastRefTime": "y"})
    assert parsed["lastRefTime"] == NOW_MS


def test_the_number_of_kept_answers_is_bounded() -> None:
    found = view(instance())
    for number in range(5 * ANSWERS_MAX):
        answer(found, env=str(number))
    assert len(found.answers) <= ANSWERS_MAX
    found.answers.clear()
    answer(found, env="e" * 1000)
    assert not found.answers


def test_checksum_of_a_recorded_service() -> None:
    instances = [
        Instance(ip=ip, port=80, metadata={"b": "1", "a": "你"}, service_name="DEFAULT_GROUP@@svc0")
        for ip in ("10.1.1.2", "10.1.1.1")
    ]
    # Recorded from Nacos 1.4.8, which sent it in a service status.
    recorded = ServiceView("public", "DEFAULT_GROUP@@svc0", 1, NO_VERSION, tuple(instances), ("DEFAULT",))
    assert checksum(recorded) == "edb42a0ad5e6f787bfc9ab80be40906e"


def test_the_checksum_changes_with_health() -> None:
    assert checksum(view(instance())) != checksum(view(instance(healthy=False)))
