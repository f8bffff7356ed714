"""Which texts of callers are taken as an instance's address, and how long others may be."""

import pytest

from app.naming.model.keys import IP_CHARS_MAX, check_ip, check_text
from app.naming.model.nacos_errors import InvalidParam


@pytest.mark.parametrize(
    "ip",
    [
        "10.0.0.1",
        "255.255.255.255",
        "1.255.255",
        "1.2.65535",
        "1.16777215",
        "4294967295",
        "000000000000001",
        "orders.example",
        "1.2.3.4.example",
        "fe80::1%eth0",
        "h" * IP_CHARS_MAX,
    ],
)
def test_addresses_that_a_client_could_use(ip: str) -> None:
    check_ip(ip)


@pytest.mark.parametrize(
    ("ip", "says"),
    [
        ("", "is required"),
        ("h" * (IP_CHARS_MAX + 1), f"should not exceed {IP_CHARS_MAX}"),
        ("10.0.0.1 ", "illegal characters"),
        ("10.0.0.1\u3000", "illegal characters"),
        ("10.0.0.1\x85", "illegal characters"),
        ("256.0.0.1", "is incorrect"),
        ("1.256.0.1", "is incorrect"),
        ("1.2.3.256", "is incorrect"),
        ("1.2.65536", "is incorrect"),
        ("1.16777216", "is incorrect"),
        ("4294967296", "is incorrect"),
        ("1.2.3.4.0", "is incorrect"),
        ("1.2.3.4.5.6", "is incorrect"),
        ("0000000000000001", "is incorrect"),
        ("1..2.3", "is incorrect"),
        (".1.2.3", "is incorrect"),
        ("1.2.3.", "is incorrect"),
    ],
)
def test_addresses_that_none_could_use(ip: str, says: str) -> None:
    with pytest.raises(InvalidParam, match=says):
        check_ip(ip)


def test_a_text_may_be_as_long_as_its_bound() -> None:
    check_text("app", "xxx", 3)
    with pytest.raises(InvalidParam, match="'app' is illegal, the param length should not exceed 3"):
        check_text("app", "xxxx", 3)
