"""Where a health check may connect to."""

import socket
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from app.background.check_targets import CheckTargets, MemberPorts, TargetRefusedError, embedded
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


def test_what_an_address_stands_for() -> None:
    assert embedded(ip_address("::1")) == ip_address("::1")
    assert embedded(ip_address("::ffff:10.0.0.1")) == ip_address("10.0.0.1")
    assert embedded(ip_address("2001:db8::1")) == ip_address("2001:db8::1")
