"""Member lists as people write them, and which of the members is this machine."""

import socket
from typing import NoReturn

import pytest

from app.config.addresses import (
    DEFAULT_PORT,
    check_host,
    is_loopback,
    is_wildcard,
    join_address,
    own_address,
    split_address,
)
from app.config.cluster_conf import parse_members
from app.config.settings_keys import SettingError


def test_a_file_as_nacos_ships_it() -> None:
    text = """
        #it is ip
        #example
        192.168.16.101:8847
        192.168.16.102
        192.168.16.103:8848   # the third
        192.168.16.104?raft_port=8807, 192.168.16.105:8849?raft_port=8808,
    """
    assert parse_members(text) == (
        "192.168.16.101:8847",
        "192.168.16.102:8848",
        "192.168.16.103:8848",
        "192.168.16.104:8848",
        "192.168.16.105:8849",
    )


def test_a_file_as_nacos_rewrites_it() -> None:
    assert parse_members("#1700000000000\r\n10.0.0.1:8848\r\n10.0.0.2:8848\r\n") == ("10.0.0.1:8848", "10.0.0.2:8848")


def test_a_list_as_a_setting_has_it() -> None:
    assert parse_members(" 127.0.0.1:8848 ,127.0.0.1:8858,, 127.0.0.1 ") == ("127.0.0.1:8848", "127.0.0.1:8858")


@pytest.mark.parametrize("text", ["", "\n\n", "# nobody yet", " , ,"])
def test_a_list_may_be_empty(text: str) -> None:
    assert parse_members(text) == ()


def test_names_and_ipv6_keep_their_text() -> None:
    members = ("nacos-0.nacos-headless:8848", "My_Host:1", "[2001:DB8::1]:8848", "[::1]:9000")
    assert parse_members("nacos-0.nacos-headless\nMy_Host:1\n[2001:DB8::1]\n[::1]:9000") == members


@pytest.mark.parametrize(
    "entry",
    [
        "10.0.0.300",
        "10.0.0",
        "10.0.0.1:",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "10.0.0.1:-1",
        "10.0.0.1:8848:1",
        "::1",
        "2001:db8::1",
        "[::1",
        "[::1]8848",
        "[10.0.0.1]:8848",
        "a host",
        "-host:1",
        ":8848",
        "http://10.0.0.1:8848",
    ],
)
def test_what_is_no_address_is_named_with_its_line(entry: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_members(f"10.0.0.1\n# next\n{entry}\n", "conf/cluster.conf")
    assert "conf/cluster.conf, line 3" in str(caught.value)
    assert repr(entry) in str(caught.value)
    assert "allowed: ip, ip:port" in str(caught.value)


def test_one_line_needs_no_number() -> None:
    with pytest.raises(SettingError, match=r"^nacos\.member\.list: 'x y' is not a member address"):
        parse_members("x y", "nacos.member.list")


@pytest.mark.parametrize("address", ["10.0.0.1:8848", "host:1", "[::1]:65535"])
def test_an_address_survives_being_split(address: str) -> None:
    assert join_address(*split_address(address)) == address


def test_a_host_has_no_brackets() -> None:
    assert check_host("[::1]") == "::1"
    assert split_address("[::1]") == ("::1", DEFAULT_PORT)


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard"),
    [
        ("127.0.0.1", True, False),
        ("127.9.9.9", True, False),
        ("::1", True, False),
        ("localhost", True, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("10.0.0.1", False, False),
        ("host", False, False),
    ],
)
def test_kinds_of_hosts(host: str, loopback: bool, wildcard: bool) -> None:
    assert (is_loopback(host), is_wildcard(host)) == (loopback, wildcard)


ELSEWHERE = "198.51.100.77"
"""Of a network that is only for documentation, so never this machine's."""


def test_we_are_the_listed_address_of_this_machine_with_our_port() -> None:
    members = (f"{ELSEWHERE}:8858", "127.0.0.1:8848", "127.0.0.1:8858")
    assert own_address(members, "0.0.0.0", 8858) == "127.0.0.1:8858"


def test_of_two_the_one_that_we_listen_on() -> None:
    assert own_address(("127.0.0.2:8848", "127.0.0.1:8848"), "127.0.0.1", 8848) == "127.0.0.1:8848"


def test_a_listed_name_may_be_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "nacos-1")
    members = ("nacos-0.headless.invalid:8848", "nacos-1.headless.invalid:8848")
    assert own_address(members, "0.0.0.0", 8848) == "nacos-1.headless.invalid:8848"
    assert own_address((f"{ELSEWHERE}:8848", "localhost:8848"), "0.0.0.0", 8848) == "localhost:8848"


def test_no_name_is_looked_up_where_an_address_or_our_label_says_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look-up takes long where no name service answers, and so would the start."""

    def look_up(host: str, *_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{host} is looked up")

    monkeypatch.setattr(socket, "gethostname", lambda: "nacos-1.example.org")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    pods = tuple(f"nacos-{number}.headless.invalid:8848" for number in range(3))
    assert own_address(pods, "0.0.0.0", 8848) == "nacos-1.headless.invalid:8848"
    with pytest.raises(AssertionError, match=r"nacos-1\.a\.invalid is looked up"):
        own_address(("nacos-1.a.invalid:8848", "nacos-1.b.invalid:8848"), "0.0.0.0", 8848)


def test_unlisted_we_are_what_we_listen_on() -> None:
    assert own_address((), "127.0.0.1", 8848) == "127.0.0.1:8848"
    assert own_address((f"{ELSEWHERE}:8848",), "::1", 8848) == "[::1]:8848"
    assert own_address(("127.0.0.1:9",), "myhost", 8848) == "myhost:8848"


def test_unlisted_and_listening_everywhere_we_are_some_real_address() -> None:
    host, port = split_address(own_address((), "0.0.0.0", 8848))
    assert port == 8848
    assert not is_wildcard(host)
