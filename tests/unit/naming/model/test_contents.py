"""Contents that members compare: each value of an instance, publication or record counts, and no time does."""

from dataclasses import replace
from typing import Any

import pytest

from app.naming.model.contents import client_content, list_content, record_content
from app.naming.model.model import Instance, Publication, StoredInstance
from distro.model.types import NO_VERSION, Version

ONE = Instance("10.0.0.1", 80, metadata={"a": "b"}, app="shop", instance_id="i")
TWO = Instance("10.0.0.2", 80)
VERSION = Version(1, 2, "m:1~1")
OTHERS: list[dict[str, Any]] = [
    {"weight": 2.0}, {"healthy": False}, {"enabled": False}, {"ephemeral": False}, {"marked": True}, {"app": "other"},
    {"metadata": {}}, {"metadata": {"a": "c"}}, {"metadata": {"a": "b", "c": "d"}}, {"instance_id": "j"}, {"port": 81},
]  # fmt: skip


def listed(*instances: Instance, version: Version = VERSION, beat_ms: int = 5) -> int:
    return list_content("key", {one.key: StoredInstance(one, version, beat_ms) for one in instances})


def published(*instances: Instance, batch: bool = False, at_ms: int = 5) -> int:
    one = Publication({one.key: one for one in instances}, batch, at_ms, NO_VERSION)
    return client_content("key", [(("public", "G@@a"), one)])


@pytest.mark.parametrize("fields", OTHERS, ids=str)
def test_each_value_counts(fields: dict[str, Any]) -> None:
    other = replace(ONE, **fields)
    assert listed(ONE) != listed(other)
    assert published(ONE) != published(other)


def test_what_is_there_counts_and_not_its_order() -> None:
    assert listed(ONE, TWO) == listed(TWO, ONE) != listed(ONE)
    assert published(ONE, TWO) == published(TWO, ONE) != published(ONE)
    assert published(ONE) != published(ONE, batch=True)
    first, second = replace(ONE, metadata={"a": "b", "c": "d"}), replace(ONE, metadata={"c": "d", "a": "b"})
    assert listed(first) == listed(second)


def test_versions_of_instances_count_and_times_do_not() -> None:
    assert listed(ONE) != listed(ONE, version=Version(1, 1, "m:1~1"))
    assert listed(ONE) == listed(ONE, beat_ms=9_000)
    assert published(ONE) == published(ONE, at_ms=9_000)


def test_nothing_and_an_empty_value_are_the_same() -> None:
    empty, nothing = replace(TWO, metadata={}, app="", instance_id=""), replace(TWO, metadata=None)
    assert listed(empty) == listed(nothing)


def test_a_record_is_its_key_its_value_and_the_change_that_set_it() -> None:
    told = record_content("k", "1.0.m", {"a": 1, "b": 2})
    assert told == record_content("k", "1.0.m", {"b": 2, "a": 1})
    others = [
        ("l", "1.0.m", {"a": 1, "b": 2}),
        ("k", "1.1.m", {"a": 1, "b": 2}),
        ("k", "1.0.m", {"a": 1}),
        ("k", "1.0.m", None),
    ]
    assert told not in [record_content(*one) for one in others]


def test_no_application_or_id_is_the_same_as_an_empty_one() -> None:
    """Readers see no difference, so members need not exchange such instances."""
    none, empty = replace(ONE, app=None, instance_id=None), replace(ONE, app="", instance_id="")
    assert listed(none) == listed(empty) != listed(ONE)
    assert published(none) == published(empty)
