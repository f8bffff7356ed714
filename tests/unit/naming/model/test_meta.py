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
    metadata_of,
    service_meta,
)
from app.naming.model.nacos_errors import InvalidParam

PAIR = "CONSUMER.label.{0}=PROVIDER.label.{0}"
LABEL = "A" * ((TEXT_CHARS_MAX - len(PAIR.format(""))) // 2)
LONGEST = PAIR.format(LABEL).ljust(TEXT_CHARS_MAX)


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ("", ()),
        (PAIR.format("A"), ("A",)),
        (" CONSUMER.label.A = PROVIDER.label.A ", ("A",)),
        ("&".join(map(PAIR.format, ("A", "B", "A"))), ("A", "B")),
        (LONGEST, (LABEL,)),
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
        f"{LONGEST} ",
    ],
)
def test_expressions_that_are_none(expression: str) -> None:
    with pytest.raises(InvalidParam, match="parse expression failed!"):
        label_selector(expression)


def test_a_service_without_a_selector_says_so() -> None:
    assert Selector().to_json() == {"type": "none"}


@pytest.mark.parametrize(
    ("fields", "checker"),
    [
        ({}, HealthChecker("NONE")),
        ({"type": "zzz", "path": 5}, HealthChecker("NONE")),
        ({"type": "TCP", "path": 5}, HealthChecker("TCP")),
        ({"type": "HTTP"}, HealthChecker("HTTP")),
        ({"type": "HTTP", "path": None}, HealthChecker("HTTP")),
        ({"type": "HTTP", "path": "x" * TEXT_CHARS_MAX}, HealthChecker("HTTP", "x" * TEXT_CHARS_MAX)),
        ({"type": "HTTP", "expectedResponseCode": "204"}, HealthChecker("HTTP", expected_code=204)),
        ({"type": "HTTP", "expectedResponseCode": "9" * 9}, HealthChecker("HTTP", expected_code=10**9 - 1)),
        ({"type": "HTTP", "expectedResponseCode": 0}, HealthChecker("HTTP", expected_code=0)),
        ({"type": "MYSQL", "cmd": "c"}, HealthChecker("MYSQL", command="c")),
        (
            {"type": "MYSQL", "user": "u", "pwd": "p", "cmd": "c"},
            HealthChecker("MYSQL", user="u", command="c"),
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_checkers(fields: dict[str, Any], checker: HealthChecker) -> None:
    assert health_checker(fields) == checker
    assert health_checker(checker.to_json()) == checker


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "HTTP", "path": "/p", "headers": "a:b", "expectedResponseCode": 204},
        {"type": "MYSQL", "user": "u", "pwd": "", "cmd": "c"},
        {"type": "TCP"},
        {"type": "NONE"},
    ],
)
def test_a_checker_has_the_fields_of_its_kind(fields: dict[str, Any]) -> None:
    assert health_checker(fields).to_json() == fields


@pytest.mark.parametrize(
    ("kind", "name", "wrong"),
    [
        ("HTTP", "path", 5),
        ("HTTP", "headers", "x" * (TEXT_CHARS_MAX + 1)),
        ("HTTP", "expectedResponseCode", "x"),
        ("HTTP", "expectedResponseCode", True),
        ("HTTP", "expectedResponseCode", -1),
        ("HTTP", "expectedResponseCode", 10**9),
        ("HTTP", "expectedResponseCode", "0000000200"),
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


def test_what_a_description_leaves_out_has_its_default() -> None:
    assert service_meta({"protectThreshold": 0.5}) == ServiceMeta(0.5)
    assert service_meta({"protectThreshold": 0, "selector": {"type": "label"}}).selector == Selector("label")
    cluster = {"healthChecker": {"type": "TCP"}}
    assert service_meta({"protectThreshold": 0, "clusters": {"c": cluster}}).clusters == {"c": ClusterConfig()}
    with pytest.raises(InvalidParam, match="checkPort"):
        service_meta({"protectThreshold": 0, "clusters": {"c": cluster | {"checkPort": None}}})


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


def test_a_refusal_names_the_field_and_its_service() -> None:
    with pytest.raises(InvalidParam, match=r"^field 'protectThreshold' of a service should be a number$"):
        service_meta(ServiceMeta().to_json() | {"protectThreshold": "1"})
    with pytest.raises(InvalidParam, match=r"^field 'metadata' should be an object of texts$"):
        metadata_of([])
    with pytest.raises(InvalidParam, match=r"^field 'metadata' of a thing should be an object of texts$"):
        metadata_of([], " of a thing")


def test_the_password_of_a_checker_is_dropped() -> None:
    checker = health_checker({"type": "MYSQL", "user": "u", "pwd": "geheim", "cmd": "c"})
    assert "geheim" not in repr(checker) + repr(checker.to_json())
    assert checker == health_checker(checker.to_json())
