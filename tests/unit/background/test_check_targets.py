"""Where a health check may connect to."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest

from app.background.check_targets import CheckTargets, MemberPorts, TargetRefusedError
from app.config.addresses import first_address
from distro.model.types import Member, MemberState

NOWHERE = CheckTargets((), lambda ip, port: False)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "240.0.0.1"),
        # The same in other clothes.
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::"),
        *("fe80::1%1", "::ffff:7f00:1", "0:0:0:0:0:ffff:a9fe:a9fe", "localhost", "127.1", "2130706433", "0x7f000001"),
    ],
)
def test_this_machine_and_its_link_are_refused(host: str) -> None:
    with pytest.raises((TargetRefusedError, OSError)):
        NOWHERE.resolve(host, 80)


@pytest.mark.parametrize("host", ["10.0.0.1", "192.168.1.1", "172.16.0.1", "8.8.8.8", "2001:db8::1", "fd00::1"])
def test_other_addresses_are_allowed(host: str) -> None:
    assert NOWHERE.resolve(host, 80) == [host]


def test_the_setting_allows_networks() -> None:
    some = CheckTargets((ip_network("127.0.0.0/8"), ip_network("::1/128")), lambda ip, port: False)
    assert some.resolve("127.0.0.1", 80) == ["127.0.0.1"]
    assert some.resolve("::1", 80) == ["::1"]
    assert some.resolve("::ffff:127.0.0.1", 80) == ["::ffff:7f00:1"]
    with pytest.raises(TargetRefusedError):
        some.resolve("169.254.169.254", 80)


def test_a_name_is_resolved_once_and_only_allowed_addresses_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [["169.254.169.254", "10.0.0.1", "127.0.0.1"], ["127.0.0.1"]]

    def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in answers.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert NOWHERE.resolve("rebound.example", 80) == ["10.0.0.1"]
    with pytest.raises(TargetRefusedError):
        NOWHERE.resolve("rebound.example", 80)


@pytest.mark.parametrize("host", ["", "a..b", "x\0y", "no-such-host.invalid", "a" * 300])
def test_a_host_without_an_address(host: str) -> None:
    with pytest.raises((OSError, ValueError)):
        NOWHERE.resolve(host, 80)


@pytest.mark.parametrize("offset", [0, 1_000, 1_001])
def test_no_network_allows_a_members_own_ports(offset: int) -> None:
    """From there the check would be a member's call."""
    members = [Member("10.0.0.1:8848", MemberState.UP), Member("10.0.0.2:8858", MemberState.UP)]
    ports = MemberPorts(lambda: members, {"10.0.0.1", "10.0.0.2"}.__contains__)
    targets = CheckTargets((ip_network("0.0.0.0/0"), ip_network("::/0")), ports.has)
    for host in ("10.0.0.1", "::ffff:10.0.0.2", first_address(), "127.0.0.1", "127.0.0.9"):
        with pytest.raises(TargetRefusedError, match="of a member"):
            targets.resolve(host, 8_848 + offset)
        assert [ip_address(one) for one in targets.resolve(host, 9_000)] == [ip_address(host)]
    assert targets.resolve("10.0.0.3", 8_848 + offset) == ["10.0.0.3"]


METADATA = ("169.254.169.254", "168.63.129.16", "100.100.100.200", "127.0.0.1")


def in_ipv6(text: str) -> list[str]:
    """The IPv6 addresses by which a network may reach an IPv4 one."""
    number = int(IPv4Address(text))
    high, low = number >> 16, number & 0xFFFF
    local = 0x0064_FF9B_0001 << 80
    in_48 = local | high << 64 | low << 40
    in_56 = local | (number >> 24) << 64 | (number & 0xFFFFFF) << 32
    in_64 = local | 7 << 64 | number << 24
    return [
        f"::ffff:{text}",
        f"::FFFF:{high:X}:{low:X}",
        f"0:0:0:0:0:ffff:{high:x}:{low:x}",
        f"::{text}",
        f"64:ff9b::{text}",
        f"::ffff:0:{text}",
        f"64:ff9b:1::{text}",
        f"64:ff9b:1:fffe::{text}",
        f"64:ff9b:1:1:2:3:{high:x}:{low:x}",
        *(str(IPv6Address(one)) for one in (in_48, in_56, in_64)),
        f"2002:{high:x}:{low:x}::",
        f"2002:{high:x}:{low:x}:1::7",
        f"2001:db8::5efe:{text}",
        f"2001:db8::200:5efe:{text}",
        f"2001:0:{high:x}:{low:x}::",  # Teredo's server
        f"2001:0:102:304:0:0:{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",  # and its client
    ]


@pytest.mark.parametrize("address", METADATA)
def test_an_address_is_refused_in_every_form_of_ipv6(address: str) -> None:
    for host in [address, *in_ipv6(address), *(f"[{one}]" for one in in_ipv6(address))]:
        with pytest.raises(TargetRefusedError):
            NOWHERE.resolve(host, 80)


@pytest.mark.parametrize(
    "host",
    [
        *("168.63.33040", "0xa8.0x3f.0x81.0x10", "2822734096", "0250.077.0201.020", "fd00:0ec2::0254", "FD20:CE::254"),
        *("fd00:ec2::23", "fd00:c1::a9fe:a9fe", "fd00:c1::169.254.169.254", "fd00:42::42", "0xa9fea9fe"),
    ],
)
def test_an_address_is_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(TargetRefusedError):
        NOWHERE.resolve(host, 80)


def test_forms_of_ipv6_for_allowed_addresses_are_allowed() -> None:
    for host in in_ipv6("10.1.2.3"):
        if not host.startswith(("64:ff9b:1:", "2001:0:", "2001::")):
            assert NOWHERE.resolve(host, 80) == [str(ip_address(host))]


def test_a_name_is_refused_for_what_it_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for ip in in_ipv6("168.63.129.16"):
        answer = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (ip, 0, 0, 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, answer=answer, **__: answer)
        with pytest.raises(TargetRefusedError):
            NOWHERE.resolve("metadata.example", 80)
