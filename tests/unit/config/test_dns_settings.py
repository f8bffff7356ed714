"""Settings of the DNS server: off by default, its port follows the HTTP port, and what is not allowed."""

import pytest

from app.config.settings import SettingError
from tests.support.fake_node import make_settings

ON = {"rollcall_dns_enabled": "true"}


def test_off_by_default() -> None:
    assert make_settings().dns is None


def test_defaults() -> None:
    dns = make_settings(server_port="8868", server_address="127.0.0.2", **ON).dns
    assert dns is not None
    assert (dns.host, dns.port, dns.domain) == ("127.0.0.2", 8873, "rollcall")
    assert (dns.ttl_s, dns.answers_max, dns.rate) == (5, 16, 1_000)


def test_a_host_a_port_and_a_domain_of_its_own() -> None:
    dns = make_settings(
        rollcall_dns_host="127.0.0.3", rollcall_dns_port="53", rollcall_dns_domain="Svc.Example.com.", **ON
    ).dns
    assert dns is not None
    assert (dns.host, dns.port, dns.domain) == ("127.0.0.3", 53, "svc.example.com")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rollcall_dns_domain", "a..b"),
        ("rollcall_dns_domain", "."),
        ("rollcall_dns_domain", "under_score"),
        ("rollcall_dns_domain", "a" * 64),
        ("rollcall_dns_domain", ".".join(["abc"] * 30)),
        ("rollcall_dns_port", "0"),
        ("rollcall_dns_ttl_seconds", "3601"),
        ("rollcall_dns_max_answers", "0"),
        ("server_port", "65531"),
    ],
)
def test_what_is_not_allowed(name: str, value: str) -> None:
    with pytest.raises(SettingError):
        make_settings(**ON, rollcall_rpc_enabled="false", **{name: value})


def test_a_warning_where_users_are_on() -> None:
    key = "VGhpc0lzQVNlY3JldEtleU9mVGhpcnR5VHdvQnl0ZXNPck1vcmU="
    secured = {"nacos_core_auth_enabled": "true", "nacos_core_auth_plugin_nacos_token_secret_key": key}
    assert any("DNS has no users" in one for one in make_settings(**ON, **secured).warnings)
    assert not any("DNS" in one for one in make_settings(**secured).warnings)
