"""What an IP address is, however it is written."""

from ipaddress import ip_address

import pytest

from app.naming.model.ip_addresses import (
    caller_key,
    host_port,
    is_same_ip,
    packed_ip,
    plain_ip,
    reached_by,
    read_ip,
)

SPELLINGS = {
    "fe80::1": ("[fe80::1]", "FE80::1", "[FE80::0001]", "fe80:0:0:0:0:0:0:1"),
    "fe80::1%eth0": ("[fe80::1%eth0]", "FE80:0::1%eth0"),
    "10.0.0.1": ("::ffff:10.0.0.1", "[::FFFF:10.0.0.1]", "::ffff:a00:1", "0:0:0:0:0:ffff:10.0.0.1"),
    "10.0.0.2": ("010.000.00.002", "10.0.2", "10.2"),
    "1.2.3.4": ("01.02.03.04", "1.2.772", "1.131844"),
    "2001:db8::": ("2001:db8:0:0:0:0:0:0", "[2001:DB8::]"),
}


@pytest.mark.parametrize(("plain", "spelt"), [(plain, one) for plain, all_of in SPELLINGS.items() for one in all_of])
def test_all_spellings_come_to_one(plain: str, spelt: str) -> None:
    assert read_ip(spelt) == ip_address(plain)
    assert plain_ip(spelt) == plain
    assert is_same_ip(spelt, plain)
    assert is_same_ip(plain, plain)
    assert packed_ip(spelt) == ip_address(plain).packed
    assert host_port(spelt, 80) == (f"[{plain}]:80" if ":" in plain else f"{plain}:80")


@pytest.mark.parametrize(
    "text",
    [
        "host.example",
        "",
        "[",
        "[]",
        "[host]",
        "[10.0.0.1]",
        "[fe80::1",
        "fe80::1]",
        "[[fe80::1]]",
        "1.2.3.256",
        "1.256.3",
        "1.2.3.4.5",
        "1234",
        "1.",
        ".1",
        "1.16777216",
        "1.99999999999",
        "::g",
    ],
)
def test_what_is_no_address_stays_as_it_is(text: str) -> None:
    assert read_ip(text) is None
    assert packed_ip(text) is None
    assert plain_ip(text) == text
    assert is_same_ip(text, text)
    assert not is_same_ip(text, "fe80::1")
    assert caller_key(text) == text


def test_ip_and_port() -> None:
    assert host_port("10.0.0.1", 80) == "10.0.0.1:80"
    assert host_port("host.example", "?") == "host.example:?"
    assert host_port("[not:an:address]", 80) == "[not:an:address]:80"
    assert host_port("not:an:address", 80) == "[not:an:address]:80"


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("10.0.0.1", ["10.0.0.1"]),
        ("fd00::1", ["fd00::1"]),
        ("fe80::1%eth0", ["fe80::1"]),
        ("::1", ["::1"]),
        ("::", ["::"]),
        ("::ffff:10.0.0.1", ["10.0.0.1"]),
        ("2002:a00:1::", ["2002:a00:1::", "10.0.0.1"]),
        ("::10.0.0.1", ["::a00:1", "10.0.0.1"]),
        ("64:ff9b::10.0.0.1", ["64:ff9b::a00:1", "10.0.0.1"]),
        ("2001:db8::5efe:10.0.0.1", ["2001:db8::5efe:a00:1", "10.0.0.1"]),
    ],
)
def test_where_a_connection_may_end(text: str, reached: list[str]) -> None:
    assert reached_by(ip_address(text)) == [ip_address(one) for one in reached]


def test_a_caller_counts_by_its_address_or_by_its_network_of_ipv6() -> None:
    assert caller_key("2001:db8:1:2::5") == caller_key("2001:db8:1:2:3:4:5:6") == "20010db800010002/64"
    assert caller_key("2001:db8:1:3::5") == "20010db800010003/64"
    assert caller_key("::ffff:10.0.0.1") == caller_key("10.0.0.1") == "10.0.0.1"


def test_the_least_addresses_of_ipv6_contain_one_of_ipv4_except_the_loopback() -> None:
    reached = [[str(one) for one in reached_by(ip_address(text))] for text in ("::1", "::2", "::3")]
    assert reached == [["::1"], ["::2", "0.0.0.2"], ["::3", "0.0.0.3"]]
