"""The checks of an instance at the edge of what they allow."""

from typing import Any

import pytest

from app.naming.model.keys import (
    APP_CHARS_MAX,
    INSTANCE_KEY_CHARS_MAX,
    IP_CHARS_MAX,
    METADATA_CHARS_MAX,
    NAME_CHARS_MAX,
    PORT_MAX,
    STORED_ID_CHARS_MAX,
    check_address,
    check_instance,
    check_instance_key,
    instance_key,
)
from app.naming.model.model import Instance, kept_id
from app.naming.model.nacos_errors import InvalidParam

NAME = "G@@orders"


def check(**fields: Any) -> None:
    one = Instance(**{"ip": "10.0.0.1", "port": 80} | fields)
    check_instance(one, kept_id(one), "public", NAME)


@pytest.mark.parametrize(
    "fields",
    [
        {"port": 0},
        {"port": PORT_MAX},
        {"service_name": NAME},
        {"app": "x" * APP_CHARS_MAX},
        {"instance_id": "x" * STORED_ID_CHARS_MAX},
        {"metadata": None},
        {"metadata": {"key": None, "a": "x" * (METADATA_CHARS_MAX - 4)}},
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_an_instance_may_have(fields: dict[str, Any]) -> None:
    check(**fields)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"ip": "1.2.3.256"}, "IPv4"),
        ({"port": -1}, "'port'"),
        ({"port": PORT_MAX + 1}, "'port'"),
        ({"service_name": "G@@others"}, "'serviceName'"),
        ({"cluster_name": "a_b"}, "cluster name"),
        ({"app": "x" * (APP_CHARS_MAX + 1)}, "'app'"),
        ({"instance_id": "x" * (STORED_ID_CHARS_MAX + 1)}, "'instanceId'"),
        ({"metadata": {"key": "", "a": "x" * (METADATA_CHARS_MAX - 3)}}, "'metadata'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_an_instance_may_not_have(fields: dict[str, Any], names: str) -> None:
    with pytest.raises(InvalidParam, match=names):
        check(**fields)


@pytest.mark.parametrize(
    ("address", "names"),
    [
        (("a##b", NAME, "C", "10.0.0.1", 80), "'namespaceId'"),
        (("a\nb", NAME, "C", "10.0.0.1", 80), "'namespaceId'"),
        (("public", "a\nb", "C", "10.0.0.1", 80), "'serviceName'"),
        (("public", NAME, "a_b", "10.0.0.1", 80), "cluster name"),
        (("public", NAME, "C", "", 80), "'ip'"),
        (("public", NAME, "C", "10.0.0.1", -1), "'port'"),
    ],
)
def test_where_no_instance_can_be(address: tuple[str, str, str, str, int], names: str) -> None:
    with pytest.raises(InvalidParam, match=names):
        check_address(*address)


@pytest.mark.parametrize("ip", ["10.0.0.1", "h" * IP_CHARS_MAX, "a\u200bb", "\ue000"])
def test_the_key_of_each_legal_address_is_a_key(ip: str) -> None:
    cluster = "c" * NAME_CHARS_MAX
    check_address("public", NAME, cluster, ip, PORT_MAX)
    check_instance_key(instance_key(ip, PORT_MAX, cluster))


@pytest.mark.parametrize("key", ["a\nb:80:unknown:C", "x" * (INSTANCE_KEY_CHARS_MAX + 1), "\ud800:80:unknown:C"])
def test_what_is_no_key_of_an_instance(key: str) -> None:
    with pytest.raises(InvalidParam, match="'instance'"):
        check_instance_key(key)
