"""Which calls are a browser's, and which of those are refused: under a foreign name, or from a foreign page."""

import pytest

from app.http.api.rights import OwnHosts, host_name, is_of_browser
from distro.model.types import Member, MemberState
from tests.support.fake_node import StubCluster

CHROME = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0", "accept-language": "de"}
CLUSTER = StubCluster(others=[Member("rollcall-1.rollcall.ns.svc:8848", MemberState.UP)])


def refusal(hosts: tuple[str, ...] = (), **headers: str) -> str | None:
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return OwnHosts(CLUSTER, hosts).refusal(found.get)


@pytest.mark.parametrize(
    "headers",
    [
        {"user-agent": "Nacos-Java-Client:v1.4.8", "accept-encoding": "gzip", "connection": "Keep-Alive"},
        {"user-agent": "Nacos-Go-Client:v1.0.1", "content-type": "application/x-www-form-urlencoded"},
        {"user-agent": "python-requests/2.34", "accept": "*/*", "accept-encoding": "gzip, deflate"},
        {"user-agent": "node", "sec-fetch-mode": "cors"},
        {"user-agent": "curl/8.0"},
        {},
    ],
)
def test_sdks_and_tools_may_use_any_name(headers: dict[str, str]) -> None:
    assert not is_of_browser(headers.get)
    assert OwnHosts(CLUSTER, ()).refusal((headers | {"host": "nacos.example.com"}).get) is None


@pytest.mark.parametrize(
    "headers",
    [
        CHROME,
        {"user-agent": CHROME["user-agent"]},
        {"user-agent": "curl/8.0", "accept-language": ""},
        {"user-agent": "curl/8.0", "referer": "http://evil.example/"},
        {"user-agent": "curl/8.0", "sec-fetch-site": "none"},
        {"user-agent": "curl/8.0", "origin": "null"},
    ],
)
def test_a_script_that_poses_as_a_tool_is_a_browser_still(headers: dict[str, str]) -> None:
    assert is_of_browser(headers.get)
    assert OwnHosts(CLUSTER, ()).refusal((headers | {"host": "rebound.example:8848"}).get) is not None


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8848", "10.0.0.1", "[::1]:8848", "[::1]", "localhost", "LOCALHOST:8848", "localhost.:8848", ""),
        *("rollcall-1.rollcall.ns.svc:8848", "Rollcall-1.rollcall.ns.svc"),
    ],
)
def test_names_that_no_stranger_can_have(host: str) -> None:
    assert refusal(host=host, **CHROME) is None


@pytest.mark.parametrize(
    "host", ["rebound.example", "rebound.example:8848", "localhost.rebound.example", "127.0.0.1.nip.example:8848", "x"]
)
def test_a_name_of_a_stranger_is_refused_to_browsers(host: str) -> None:
    text = refusal(host=host, **CHROME)
    assert text is not None
    assert "rollcall.http.hosts" in text
    assert refusal((host_name(host),), host=host, **CHROME) is None
    assert refusal(("other.example",), host=host, **CHROME) is not None
    assert refusal(("*",), host=host, **CHROME) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site", "else"])
def test_a_call_of_another_sites_page_is_refused(site: str) -> None:
    """Same-site is foreign too: all ports of this machine are one site."""
    assert refusal(host="127.0.0.1:8848", sec_fetch_site=site, **CHROME) is not None
    assert refusal(("*",), host="127.0.0.1:8848", sec_fetch_site=site) is not None


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_what_the_user_typed_is_answered(site: str) -> None:
    assert refusal(host="127.0.0.1:8848", sec_fetch_site=site, **CHROME) is None


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://127.0.0.1:3000", "http://evil.example", "http://127.0.0.1", "127.0.0.1:8848", "http://[::1"],
)
def test_a_foreign_origin_may_read(origin: str) -> None:
    headers = {"host": "127.0.0.1:8848", "origin": origin}
    assert OwnHosts(CLUSTER, ()).has_foreign_origin(headers.get)
    assert OwnHosts(CLUSTER, ("*",)).has_foreign_origin(headers.get)
    assert refusal(**headers) is None, "it may read"


def test_the_origin_behind_a_proxy_is_a_listed_name() -> None:
    headers = {"host": "10.0.0.1:8848", "origin": "https://Nacos.example.com"}
    assert OwnHosts(CLUSTER, ()).has_foreign_origin(headers.get)
    assert not OwnHosts(CLUSTER, ("nacos.example.com",)).has_foreign_origin(headers.get)


@pytest.mark.parametrize("host", ["127.0.0.1:8848", "[::1]:8848", "Localhost:8848"])
def test_a_page_of_this_node_may_write(host: str) -> None:
    headers = {"host": host, "origin": f"http://{host}"}
    assert not OwnHosts(CLUSTER, ()).has_foreign_origin(headers.get)
    assert not OwnHosts(CLUSTER, ()).has_foreign_origin({"host": host}.get)
