"""The checks of an instance at the edge of what they allow."""

from typing import Any

import pytest

from app.naming.model.caller_texts import APP_CHARS_MAX
from app.naming.model.instance_check import STORED_ID_CHARS_MAX, check_instance, is_legal_address
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.value_limits import METADATA_CHARS_MAX, PORT_MAX

NAME = "G@@orders"


def check(**fields: Any) -> None:
    check_instance(Instance(**{"ip": "10.0.0.1", "port": 80} | fields), "public", NAME)


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
    ("address", "legal"),
    [
        (("public", NAME, "C", "10.0.0.1", 80), True),
        (("a##b", NAME, "C", "10.0.0.1", 80), False),
        (("public", "a b", "C", "10.0.0.1", 80), False),
        (("public", NAME, "a_b", "10.0.0.1", 80), False),
        (("public", NAME, "C", "", 80), False),
        (("public", NAME, "C", "10.0.0.1", -1), False),
    ],
)
def test_where_an_instance_can_be_registered(address: tuple[str, str, str, str, int], legal: bool) -> None:
    assert is_legal_address(*address) is legal
