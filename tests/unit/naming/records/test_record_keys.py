"""Keys of durable records: each has one record, whatever the name of its service."""

import pytest

from app.naming.records.record_keys import (
    OVERRIDE_PREFIX,
    PERSISTENT_PREFIX,
    OverrideKey,
    PersistentKey,
    ServiceMetaKey,
    override_key,
    parse_record_key,
    persistent_key,
    record_tag,
    service_meta_key,
)

INSTANCE = "10.0.0.1:80:unknown:DEFAULT"
NAMES = ["g@@a", "g@@a#", "g@@a##b", "#@@#", "g@@#a", "g@@%", "g@@%23", "g@@%2523", "g@@a##10.0.0.1", "g@@服 务", "##"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("namespace", ["public", "#a", "a#b"])
def test_a_key_is_taken_apart(namespace: str, name: str) -> None:
    meta, instance = service_meta_key(namespace, name), persistent_key(namespace, name, INSTANCE)
    assert parse_record_key(meta) == ServiceMetaKey(namespace, name)
    assert parse_record_key(instance) == PersistentKey(namespace, name, INSTANCE)
    change = override_key(namespace, name, INSTANCE)
    assert parse_record_key(change) == OverrideKey(namespace, name, INSTANCE)
    assert record_tag(meta) == record_tag(instance) == record_tag(change) == name


def test_two_names_never_share_a_key() -> None:
    for key in (persistent_key, override_key):
        assert len({key("public", name, INSTANCE) for name in NAMES}) == len(NAMES)


def test_the_keys_of_names_of_nacos_1_4_are_those_of_earlier_releases() -> None:
    assert persistent_key("public", "g@@a.b-c_d:e", INSTANCE) == f"{PERSISTENT_PREFIX}public##g@@a.b-c_d:e##{INSTANCE}"


@pytest.mark.parametrize("name", ["g@@%41", "g@@a%", "g@@a#b", "g@@%2", "g@@%24"])
def test_a_name_has_no_second_key(name: str) -> None:
    for prefix in (PERSISTENT_PREFIX, OVERRIDE_PREFIX):
        assert parse_record_key(f"{prefix}public##{name}##{INSTANCE}") is None
