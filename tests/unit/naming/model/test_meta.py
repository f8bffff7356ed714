"""What is said of a service beside its instances."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.meta import (
    TEXT_CHARS_MAX,
    ClusterConfig,
    HealthChecker,
    Selector,
    ServiceMeta,
    health_checker,
    label_selector,
    service_meta,
)
from app.naming.model.nacos_errors import InvalidParam

PAIR = "CONSUMER.label.{0}=PROVIDER.label.{0}"


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ("", ()),
        (PAIR.format("A"), ("A",)),
        (" CONSUMER.label.A = PROVIDER.label.A ", ("A",)),
        ("&".join(map(PAIR.format, ("A", "B", "A"))), ("A", "B")),
    ],
)
def test_label_selectors(expression: str, labels: tuple[str, ...]) -> None:
    found = label_selector(expression)
    assert found == Selector("label", expression, labels)
    assert found.to_json() == {"type": "label", "expression": expression, "labels": list(labels)}


@pytest.mark.parametrize(
    "expression",
    [
        "zzz",
        "CONSUMER.label.A=PROVIDER.label.B",
        "CONSUMER.label.=PROVIDER.label.",
        "PROVIDER.label.A=CONSUMER.label.A",
        f"{PAIR.format('A')}&",
        "&".join(PAIR.format(number) for number in range(65)),
        PAIR.format("A" * TEXT_CHARS_MAX),
    ],
)
def test_expressions_that_are_none(expression: str) -> None:
    with pytest.raises(InvalidParam, match="parse expression failed!"):
        label_selector(expression)


@pytest.mark.parametrize(
    ("fields", "checker"),
    [
        ({}, HealthChecker("NONE")),
        ({"type": "zzz", "path": 5}, HealthChecker("NONE")),
        ({"type": "TCP", "path": 5}, HealthChecker("TCP")),
        ({"type": "HTTP"}, HealthChecker("HTTP")),
        ({"type": "HTTP", "path": None}, HealthChecker("HTTP")),
        ({"type": "HTTP", "expectedResponseCode": "204"}, HealthChecker("HTTP", expected_code=204)),
        ({"type": "MYSQL", "cmd": "c"}, HealthChecker("MYSQL", command="c")),
    ],
)
def test_checkers(fields: dict[str, Any], checker: HealthChecker) -> None:
    assert health_checker(fields) == checker
    assert health_checker(checker.to_json()) == checker


@pytest.mark.parametrize(
    ("kind", "name", "wrong"),
    [
        ("HTTP", "path", 5),
        ("HTTP", "headers", "x" * (TEXT_CHARS_MAX + 1)),
        ("HTTP", "expectedResponseCode", "x"),
        ("HTTP", "expectedResponseCode", True),
        ("HTTP", "expectedResponseCode", -1),
        ("HTTP", "expectedResponseCode", 10**30),
        ("MYSQL", "user", []),
        ("MYSQL", "pwd", {}),
        ("MYSQL", "cmd", 1.5),
    ],
)
def test_a_checker_with_a_wrong_field_is_refused_by_its_name(kind: str, name: str, wrong: object) -> None:
    with pytest.raises(InvalidParam, match=f"'{name}'"):
        health_checker({"type": kind, name: wrong})


metadata = st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5), max_size=3)
checkers = st.sampled_from([HealthChecker("TCP"), HealthChecker("NONE"), HealthChecker("HTTP", "/p", "a:b", 201)])
configs = st.builds(ClusterConfig, checkers, st.integers(0, 65_535), st.booleans(), metadata)
selectors = st.sampled_from([Selector(), label_selector(PAIR.format("A"))])
metas = st.builds(
    ServiceMeta,
    st.floats(allow_nan=False, allow_infinity=False),
    metadata,
    selectors,
    st.dictionaries(st.from_regex("[0-9a-zA-Z-]{1,5}", fullmatch=True), configs, max_size=3),
)


@given(metas)
def test_a_description_comes_back_as_it_was(meta: ServiceMeta) -> None:
    assert service_meta(meta.to_json()) == meta


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("protectThreshold", None),
        ("protectThreshold", "1"),
        ("protectThreshold", True),
        ("metadata", []),
        ("metadata", {"a": 1}),
        ("selector", {"type": "label", "expression": 1}),
        ("clusters", []),
        ("clusters", {"a b": ClusterConfig().to_json()}),
        ("clusters", {"c": []}),
        ("clusters", {"c": {"healthChecker": 1}}),
        ("clusters", {"c": ClusterConfig().to_json() | {"checkPort": "80"}}),
    ],
)
def test_a_description_with_a_wrong_field_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(InvalidParam):
        service_meta(ServiceMeta().to_json() | {name: wrong})
