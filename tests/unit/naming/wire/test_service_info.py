"""Which instances a list shows, and its JSON."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from app.naming.model.meta import ServiceMeta
from app.naming.model.model import Instance, ServiceView
from app.naming.wire.checksum import checksum
from app.naming.wire.service_info import (
    GZIP_FROM_BYTES,
    NO_ECHO,
    QUICK_HOSTS_MAX,
    ListAnswers,
    Variant,
    echo_of,
    unknown_service,
)
from distro.model.types import NO_VERSION
from tests.support.traced_memory import traced_peak

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
    return Variant(**{"clusters": "", "cache_ms": 3000} | flags | fields)


def answer(of: ServiceView | None, **fields: Any) -> Any:
    if of is None:
        return json.loads(unknown_service(NAME, variant(**fields)))
    echo = echo_of(fields.get("clusters", ""), fields.pop("env", ""))
    return json.loads(ListAnswers().get(of, variant(**fields)).plain(NOW_MS, echo))


def shown(of: ServiceView, **fields: Any) -> list[tuple[str, bool]]:
    return [(host["ip"], host["healthy"]) for host in answer(of, **fields)["hosts"]]


def test_an_unknown_service_is_shape_a() -> None:
    found = unknown_service(NAME, variant(clusters="c1"))
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
    assert (found["cacheMillis"], found["useSpecifiedURL"], found["clusters"], found["env"]) == (3000, False, "", "")
    assert list(found["hosts"][0].items()) == [
        ("ip", "10.0.0.1"), ("port", 8080), ("valid", True), ("healthy", True), ("marked", False),
        ("instanceId", "10.0.0.1#id"), ("metadata", {"k": "v"}), ("enabled", True), ("weight", 2.0),
        ("clusterName", "DEFAULT"), ("serviceName", "orders"), ("ephemeral", True),
    ]  # fmt: skip


def test_java_sdks_get_names_with_their_group() -> None:
    found = answer(view(instance()), java_agent=True)
    assert (found["dom"], found["hosts"][0]["serviceName"]) == (NAME, NAME)


def test_weights_keep_their_fraction_and_missing_values_are_null() -> None:
    text = ListAnswers().get(view(instance(weight=1.0, metadata=None, instance_id=None)), variant()).plain(NOW_MS)
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
    answers = ListAnswers()
    first = answers.get(found, variant())
    assert answers.get(found, variant()) is first
    assert first.plain(22) == first.plain(1).replace(b'"lastRefTime":1,', b'"lastRefTime":22,')


def test_metadata_that_looks_like_the_date_is_left_alone() -> None:
    found = view(instance(metadata={"lastRefTime": "x"}), metadata={"lastRefTime": "y"})
    parsed = answer(found)
    assert (parsed["hosts"][0]["metadata"], parsed["metadata"]) == ({"lastRefTime": "x"}, {"lastRefTime": "y"})
    assert parsed["lastRefTime"] == NOW_MS


def test_the_bytes_of_kept_answers_are_bounded_and_the_oldest_goes_first() -> None:
    found = view(*[instance(f"10.0.0.{last}") for last in range(100)])
    services = [replace(found, full_name=f"{NAME}-{number}") for number in range(50)]
    size = len(ListAnswers().get(found, variant()))
    answers = ListAnswers(bytes_max=6 * size)
    for one in services:
        answers.get(one, variant())
    kept = [number for number, one in enumerate(services) if answers.lists.find(one, variant()) is not None]
    assert kept == list(range(50 - len(kept), 50))
    assert 4 <= len(kept) <= 6


def test_texts_to_echo_make_no_other_list() -> None:
    answers, found = ListAnswers(), replace(view(instance()), clusters=("DEFAULT",))
    first = answers.get(found, variant())
    for clusters in ("DEFAULT", "NONE,DEFAULT", "DEFAULT,DEFAULT", ",", "x" * 300 + ",DEFAULT"):
        assert answers.get(found, variant(clusters=clusters)) is first
    assert answer(found, clusters="NONE,DEFAULT", env='e"')["env"] == 'e"'
    assert answer(found, clusters="NONE,DEFAULT")["clusters"] == "NONE,DEFAULT"


def test_a_list_that_may_be_compressed_counts_twice() -> None:
    found = view(*[instance(f"10.0.0.{last}") for last in range(200)])
    one = ListAnswers().get(found, variant())
    assert 2 * len(one.plain(NOW_MS)) < len(one) < 2 * len(one.plain(NOW_MS)) + 1_000


def test_an_answer_of_an_older_state_is_not_given() -> None:
    answers = ListAnswers()
    before = view(instance())
    after = replace(before, revision=2, instances=(instance("10.0.0.2"),))
    answers.get(before, variant())
    assert b"10.0.0.2" in answers.get(after, variant()).plain(NOW_MS)
    assert answers.lists.find(before, variant()) is None


def test_the_bytes_of_a_host_follow_who_asks_and_the_threshold() -> None:
    healthy, sick = instance("10.0.0.1"), instance("10.0.0.2", healthy=False)
    one = view(healthy, sick)
    for java, name in ((False, "orders"), (True, NAME), (False, "orders")):
        assert {host["serviceName"] for host in answer(one, java_agent=java)["hosts"]} == {name}
    assert shown(one) == [("10.0.0.2", False), ("10.0.0.1", True)]
    # All count as healthy at the threshold, from the bytes that were just kept as unhealthy.
    assert [healthy for _, healthy in shown(replace(one, revision=2, meta=ServiceMeta(0.5, {})))] == [True, True]


def test_the_bytes_of_a_host_are_those_kept_with_its_instance() -> None:
    one = instance()
    one.keep_shown(True, False, b'{"kept":1}')
    assert answer(view(one))["hosts"] == [{"kept": 1}]
    assert answer(view(one), java_agent=True)["hosts"] != [{"kept": 1}]


def test_a_list_is_copied_once_when_it_is_made_and_when_it_is_answered() -> None:
    of, lists = view(*(instance(f"10.0.0.{number}") for number in range(1_000))), ListAnswers()
    size = lists.get(of, variant()).size  # the texts of the hosts are kept with them from here on
    with traced_peak() as peak_bytes:
        made = ListAnswers().get(of, variant())
    assert peak_bytes() < size + 100 * len(of.instances) + 10_000  # Python's join takes 80 bytes for each part
    for echo in (NO_ECHO, echo_of("a", "")):
        with traced_peak() as peak_bytes:
            made.plain(NOW_MS, echo)
        assert peak_bytes() < 1.1 * size


def test_an_answer_of_a_quarter_of_all_bytes_is_kept_and_no_larger_one() -> None:
    found = view(*[instance(f"10.0.0.{last}") for last in range(20)])
    size = len(ListAnswers().get(found, variant()))
    for bytes_max, is_kept in ((4 * size, True), (4 * size - 1, False)):
        answers = ListAnswers(bytes_max)
        answers.get(found, variant())
        assert (answers.lists.find(found, variant()) is not None) is is_kept


def test_long_answers_go_out_compressed() -> None:
    answers = ListAnswers()
    long = answers.get(view(*[instance(f"10.0.0.{last}") for last in range(200)]), variant())
    assert long.is_worth_gzip(NO_ECHO)
    packed = long.zipped(NOW_MS)
    assert len(packed) < len(long.plain(NOW_MS)) // 8
    assert gzip.decompress(packed) == long.plain(NOW_MS)
    head = long._zipped
    assert gzip.decompress(long.zipped(7)) == long.plain(7)
    assert long._zipped is head, "the beginning is compressed once"
    short = answers.get(replace(view(instance()), full_name="G@@b"), variant())
    assert len(short.plain(NOW_MS)) < GZIP_FROM_BYTES
    assert not short.is_worth_gzip(NO_ECHO)


def test_an_answer_with_an_end_that_no_block_holds_is_not_compressed() -> None:
    found = view(*[instance(f"10.0.0.{last}") for last in range(50)], metadata={"k": "v" * 70_000})
    assert not ListAnswers().get(found, variant()).is_worth_gzip(NO_ECHO)


def test_a_large_answer_is_made_by_one_of_those_that_want_it() -> None:
    many = view(*[instance(f"10.0.{number // 250}.{number % 250}") for number in range(QUICK_HOSTS_MAX + 1)])
    answers = ListAnswers()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: answers.get(many, variant()), range(32)))
    assert all(one is made[0] for one in made)


def test_the_checksum_of_an_answer_changes_with_what_it_does_not_show() -> None:
    found = view(instance())
    others = [replace(found, clusters=("DEFAULT", "c2")), replace(found, meta=ServiceMeta(0.5, {}))]
    assert len({answer(one)["checksum"] for one in (found, *others)}) == 3


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
